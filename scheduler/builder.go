package scheduler

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"cantina/batch"
	"cantina/fault"
	"cantina/fence"
	"cantina/internal/differ"
	"cantina/internal/text"
	"cantina/plan"
	"cantina/store"
)

// builder collects a change; the scheduler's lock is held.
type builder struct {
	s       *changing
	domain  string
	change  Change
	forests map[string]*batch.ForestSpec // to be written
	rows    []*jobRow                    // to be written
	errs    []error
	renew   bool // an existing one is created again

	gone   []string // forests whose row is deleted
	flying []func() // land the newest rows
}

func (ch *changing) build(domain string) *builder {
	return &builder{s: ch, domain: domain, change: Change{Domain: domain}, forests: make(map[string]*batch.ForestSpec)}
}

func (b *builder) fail(name string, err error, text string) {
	b.errs = append(b.errs, fmt.Errorf("job %q: %s: %w", name, text, err))
}

// line adds a line about a job. Its lines name it within the domain of the change.
func (b *builder) line(l plan.Change) {
	_, l.Name = batch.SplitName(l.Name)
	b.change.Lines = append(b.change.Lines, l)
}

// forest takes a job's own forest, as it will come back from the store.
func (b *builder) forest(w *plan.NamedJob) {
	if w.Forest.Name == "" || w.Forest.Name != w.Job.Forest {
		return
	}
	value, err := encodeForest(&w.Forest)
	if err != nil {
		b.fail(w.Job.Name, ErrInvalid, err.Error())
		return
	}
	spec, err := decodeForest(value)
	if err != nil {
		b.fail(w.Job.Name, ErrInvalid, err.Error())
		return
	}
	b.forests[spec.Name] = spec
}

// want prepares one job.
func (b *builder) want(w *plan.NamedJob) {
	name := w.Job.Name
	if err := batch.CheckName(name); err != nil {
		b.fail(name, ErrInvalid, err.Error())
		return
	}
	spec, err := normalised(&w.Job)
	if err != nil {
		b.fail(name, ErrInvalid, err.Error())
		return
	}
	spec.Name, spec.Domain = name, b.domain
	old, _, err := b.s.changeable(name)
	if errors.Is(err, fault.ErrQuarantined) {
		b.fail(name, fault.ErrQuarantined, "cannot be changed")
		return
	}
	if b.s.bad[forestPrefix+spec.Forest] {
		b.fail(name, fault.ErrQuarantined, "its nodes cannot be read")
		return
	}
	forest := b.forestSpec(spec.Forest)
	if forest == nil {
		b.fail(name, ErrInvalid, fmt.Sprintf("no nodes named %q", spec.Forest))
		return
	}
	if problems := tryOut(forest, spec); len(problems) > 0 && len(spec.Errors) == 0 {
		for _, p := range problems {
			b.fail(name, ErrInvalid, p)
		}
		return
	}
	if old == nil || b.renew {
		row := &jobRow{name: name, uid: b.s.cfg.NewID(), born: b.s.youngest(), created: b.s.cfg.Clock.Wall(), spec: spec,
			former: formerForests(b.s.newestRow(name), spec.Forest)}
		b.put(row, plan.Change{Kind: "job", Name: name, Verb: plan.VerbCreate, Nodes: b.s.cfg.countNodes(forest),
			Note: b.s.leftOver(name)})
		return
	}
	b.update(old, spec, forest)
}

// leftOver describes the running work of a removed job of a name: the job that is created again
// under the name waits for it, node by node. Empty = none. The lock is held.
func (s *newest) leftOver(name string) string {
	j := s.jobs[name]
	if j == nil || !j.row.deleted || j.forest == nil {
		return ""
	}
	n := len(j.forest.board.Runs(name))
	if n == 0 {
		return ""
	}
	return text.CountAs(n, "batch task of the removed job of this name still runs; its node starts",
		"batch tasks of the removed job of this name still run; their nodes start") + " after that"
}

// formerForests are the forests over which lives of a name ran before it is born over another.
func formerForests(was *jobRow, forest string) []string {
	if was == nil {
		return nil
	}
	out := append(slices.Clone(was.former), was.spec.Forest)
	slices.Sort(out)
	return slices.DeleteFunc(slices.Compact(out), func(f string) bool { return f == forest || f == "" })
}

// youngest is at least as new as every invocation handed out so far.
func (ch *changing) youngest() fence.Invocation {
	start := fence.Invocation{Term: ch.cfg.Term}
	if ch.last.Compare(start) < 0 {
		return start
	}
	return ch.last
}

// withPause notes that a job stays paused.
func withPause(c plan.Change, j *batch.Job) plan.Change {
	if j.Paused {
		c.AddNote("it stays paused; to resume: cantina job resume " + j.Name)
	}
	return c
}

func (b *builder) update(old *jobRow, spec batch.Job, forest *batch.ForestSpec) {
	was := old.spec
	if spec.Forest != was.Forest {
		b.fail(spec.Name, ErrInvalid, fmt.Sprintf("runs on the nodes of %q; remove it before it moves to %q", was.Forest,
			spec.Forest))
		return
	}
	spec.UID, spec.Born, spec.Paused = was.UID, was.Born, was.Paused
	fields := differ.Fields("", was, spec)
	if newest := b.s.newestForest(spec.Forest); b.forests[spec.Forest] != nil && newest != nil {
		fields = append(fields, differ.Fields("nodes", *newest, *forest)...)
	}
	if len(fields) == 0 {
		delete(b.forests, spec.Forest)
		p := b.progress(old, forest)
		b.line(withPause(plan.Change{Kind: "job", Name: spec.Name, Verb: plan.VerbKeep, Nodes: p.Total, Note: noteOf(p)},
			&spec))
		return
	}
	row := *old
	row.spec = spec
	p := b.progress(old, forest)
	b.put(&row, plan.Change{Kind: "job", Name: spec.Name, Verb: plan.VerbUpdate, Fields: fieldChanges(fields),
		Nodes: p.Total, Note: noteOf(p)})
}

// progress is how far an existing job is; before it has run, only its nodes are counted.
func (b *builder) progress(old *jobRow, forest *batch.ForestSpec) batch.Progress {
	if j := b.s.life(old); j != nil {
		return b.s.progress(j)
	}
	return batch.Progress{Total: b.s.cfg.countNodes(forest)}
}

func fieldChanges(fields []differ.Field) (out []plan.FieldChange) {
	for _, f := range fields {
		out = append(out, plan.FieldChange(f))
	}
	return out
}

func noteOf(p batch.Progress) string {
	if p.Done+p.Failed == 0 {
		return ""
	}
	return fmt.Sprintf("%d nodes have finished and do not run again", p.Done+p.Failed)
}

// forestSpec returns a forest as it will be after the change, or nil.
func (b *builder) forestSpec(name string) *batch.ForestSpec {
	if f := b.forests[name]; f != nil {
		return f
	}
	return b.s.newestForest(name)
}

// tryOut returns the problems of a job on a forest.
func tryOut(forest *batch.ForestSpec, spec batch.Job) []string {
	board, err := batch.NewBoard(*forest)
	if err != nil {
		return []string{err.Error()}
	}
	problems := board.Put(spec)
	for i, src := range forest.Sources {
		if src.Kind != batch.SourceManual {
			continue
		}
		if _, err := batch.ManualNodes(forest.Levels, src.Manual); err != nil {
			problems = append(problems, fmt.Sprintf("source %d: %v", i, err))
		}
	}
	return problems
}

// countNodes counts the nodes of the last level; -1 = that needs a script or a file.
func (c *Config) countNodes(f *batch.ForestSpec) int {
	if len(f.Levels) == 0 {
		return 1
	}
	last := f.Levels[len(f.Levels)-1]
	n := 0
	var all listing
	for i := range f.Sources {
		src := &f.Sources[i]
		if src.Kind == batch.SourceScript || src.Kind == batch.SourceFile {
			return -1
		}
		nodes, err := c.compute(f, src, &all)
		if err != nil {
			return -1
		}
		all.nodes = append(all.nodes, nodes...)
		for _, x := range nodes {
			if x.Level == last {
				n++
			}
		}
	}
	return n
}

func (b *builder) put(row *jobRow, l plan.Change) {
	row.spec.Name, row.spec.UID, row.spec.Born, row.spec.Paused = row.name, row.uid, row.born, row.paused
	b.rows = append(b.rows, row)
	b.line(l)
}

// remove prepares a tombstone; orphans is the fate of running work, nil = it is ended at once.
func (b *builder) remove(old *jobRow, orphans *batch.Orphans) {
	row := jobRow{name: old.name, uid: old.uid, born: old.born, created: old.created, deleted: true,
		spec: batch.Job{Forest: old.spec.Forest}, former: old.former, orphans: orphans}
	if orphans != nil {
		row.removed = b.s.cfg.Clock.Wall()
	}
	l := plan.Change{Kind: "job", Name: row.name, Verb: plan.VerbRemove}
	if j := b.s.life(old); j != nil {
		l.Nodes = b.s.progress(j).Running
	}
	b.put(&row, l)
}

// finish makes the collected rows the newest and returns them as a change.
func (b *builder) finish() (*Change, error) {
	if err := b.encode(); err != nil {
		return nil, err
	}
	for name, spec := range b.forests {
		b.flying = append(b.flying, b.s.specs.add(name, spec))
	}
	for _, name := range b.gone {
		b.flying = append(b.flying, b.s.specs.add(name, nil))
	}
	for _, row := range b.rows {
		b.flying = append(b.flying, b.s.rows.add(row.name, row))
	}
	b.change.Done, b.change.Undo = b.done, b.undo
	return &b.change, nil
}

// land removes rows on their way from the newest rows: they are committed, or abandoned.
func (b *builder) land() {
	for _, f := range b.flying {
		f()
	}
	b.flying = nil
}

func (b *builder) done(revision int64, err error) {
	if err != nil {
		b.s.fail(fmt.Errorf("commit jobs: %w", err)) // later decisions were made on these rows
		return
	}
	b.s.changedJobs(revision, b)
}

func (b *builder) undo() {
	b.s.mu.Lock()
	defer b.s.mu.Unlock()
	b.land()
	b.s.changed = true // starts that were held for it may proceed
	ring(b.s.wake)
}

// encode converts the collected changes to rows.
func (b *builder) encode() error {
	if len(b.errs) > 0 {
		return errors.Join(b.errs...)
	}
	b.gone = b.unused()
	for _, name := range slices.Sorted(maps.Keys(b.forests)) {
		value, err := encodeForest(b.forests[name])
		if err != nil {
			return err
		}
		b.change.Ops = append(b.change.Ops, store.Op{Key: forestPrefix + name, Value: value})
	}
	for _, name := range b.gone {
		b.change.Ops = append(b.change.Ops, store.Op{Key: forestPrefix + name})
	}
	for _, row := range b.rows {
		value, err := row.encode()
		if err != nil {
			return err
		}
		b.change.Ops = append(b.change.Ops, store.Op{Key: jobPrefix + row.name, Value: value})
	}
	slices.SortStableFunc(b.change.Lines, func(x, y plan.Change) int { return strings.Compare(x.Name, y.Name) })
	return nil
}

// unused returns the forests that no job needs any more after the change: none while the
// row of a job cannot be read, for it may need any.
func (b *builder) unused() []string {
	used := make(map[string]bool)
	gone := make(map[string]bool)
	written := make(map[string]bool)
	for _, row := range b.rows {
		written[row.name] = true
		if row.deleted {
			gone[row.spec.Forest] = true
		} else {
			used[row.spec.Forest] = true
		}
	}
	if len(gone) == 0 || b.s.unread() {
		return nil
	}
	for _, name := range b.s.newestNames() {
		if row := b.s.newestRow(name); row != nil && !written[name] && !row.deleted {
			used[row.spec.Forest] = true
		}
	}
	maps.DeleteFunc(gone, func(name string, _ bool) bool {
		return used[name] || b.forests[name] != nil || b.s.bad[forestPrefix+name]
	})
	return slices.Sorted(maps.Keys(gone))
}
