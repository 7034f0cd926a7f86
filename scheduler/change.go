package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"cantina/batch"
	"cantina/event"
	"cantina/fence"
	"cantina/scheduler/schedulerpb"
	"cantina/store"
	"cantina/worker"
)

// Wanted is a job as its owner wants it. Forest is its own when Forest.Name equals
// Job.Forest; otherwise the job runs over the nodes of a forest that exists.
type Wanted struct {
	Job    batch.Job
	Forest batch.ForestSpec
}

// Verb is what a change does to one job.
type Verb string

// The verbs.
const (
	VerbKeep   Verb = "keep"
	VerbCreate Verb = "create"
	VerbUpdate Verb = "update" // in place: statuses stay
	VerbRemove Verb = "remove"
)

// Line is one job of a change.
type Line struct {
	Name   string
	Verb   Verb
	Fields []FieldChange
	// Nodes is how many (job, node) pairs it touches; -1 = not known yet.
	Nodes int
	Note  string
}

// FieldChange is one field that differs; Old or New is empty when it was not set.
type FieldChange struct{ Path, Old, New string }

// Change is prepared rows and what follows from them. Whoever prepared it submits
// Ops in one transition, alone (Scheduler.Commit) or with rows of others, and calls
// Done from the callback of that commit. A change that is not submitted has no
// effect.
type Change struct {
	Lines []Line
	Ops   []store.Op
	Done  func(revision int64, err error)
}

// Plan is Apply without an effect: the lines only.
func (s *Scheduler) Plan(domain string, wanted []Wanted, prune bool, keep ...string) ([]Line, error) {
	c, err := s.Apply(domain, wanted, prune, keep...)
	if err != nil {
		return nil, err
	}
	return c.Lines, nil
}

// Apply prepares the jobs of a domain: creates and updates what is wanted, and
// removes what is not when prune is set, but for the names to keep. Errors, all at once: ErrInvalid, ErrTaken,
// ErrQuarantined.
func (s *Scheduler) Apply(domain string, wanted []Wanted, prune bool, keep ...string) (*Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &builder{s: s, domain: domain, forests: make(map[string]*batch.ForestSpec)}
	names := make(map[string]bool)
	for i := range wanted {
		if names[wanted[i].Job.Name] {
			b.fail(wanted[i].Job.Name, ErrInvalid, "listed twice")
		}
		names[wanted[i].Job.Name] = true
		b.forest(&wanted[i])
	}
	for i := range wanted {
		b.want(&wanted[i])
	}
	if prune {
		for _, j := range s.sorted() {
			if !j.row.deleted && j.spec != nil && j.spec.Domain == domain && !names[j.row.name] && !slices.Contains(keep, j.row.name) {
				b.remove(j)
			}
		}
	}
	return b.finish()
}

// Remove prepares the deletion of a job: its name stays as a tombstone while
// anything of it may be running, and what runs is ended. It returns
// batch.ErrUnknownJob or ErrQuarantined.
func (s *Scheduler) Remove(name string) (*Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.live(name)
	if err != nil {
		return nil, err
	}
	b := &builder{s: s, forests: make(map[string]*batch.ForestSpec)}
	b.remove(j)
	return b.finish()
}

// Pause prepares that a job starts nothing, or goes on. Errors as of Remove.
func (s *Scheduler) Pause(name string, paused bool) (*Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.live(name)
	if err != nil {
		return nil, err
	}
	b := &builder{s: s, forests: make(map[string]*batch.ForestSpec)}
	row := j.row
	row.paused, row.spec.Paused = paused, paused
	if row.paused == j.row.paused {
		b.line(Line{Name: name, Verb: VerbKeep})
		return b.finish()
	}
	b.put(&row, Line{Name: name, Verb: VerbUpdate, Fields: []FieldChange{{"paused", fmt.Sprint(!paused), fmt.Sprint(paused)}}})
	return b.finish()
}

// Kill prepares that running batch tasks are ended: a stored intent, repeated until
// they ended. Errors as of Remove, and batch.ErrUnknownNode for a node that is asked
// for by its name and is none of the job's. At most maxKillRows at once.
func (s *Scheduler) Kill(name string, f batch.NodeFilter) (*Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, err := s.live(name)
	if err != nil {
		return nil, err
	}
	if err := j.named(f); err != nil {
		return nil, err
	}
	f.Classes, f.Limit = []batch.Class{batch.ClassRunning}, maxKillRows
	nodes, err := j.forest.board.Nodes(name, f)
	if err != nil {
		return nil, err
	}
	c := &Change{Lines: []Line{{Name: name, Verb: VerbUpdate}}}
	var runs []worker.Run
	for _, n := range nodes {
		if n.Invocation.IsZero() {
			continue
		}
		value, err := encode(kindKill, &schedulerpb.Kill{Node: []byte(n.Node), Invocation: fromInvocation(n.Invocation)})
		if err != nil {
			return nil, err
		}
		c.Ops = append(c.Ops, store.Op{Key: killKey(j.row.uid, n.Node), Value: value})
		runs = append(runs, worker.Run{Work: worker.Work{Job: name, Node: n.Node}, Invocation: n.Invocation})
	}
	c.Lines[0].Nodes = len(runs)
	c.Done = func(_ int64, err error) {
		if err == nil {
			s.killed(j, runs)
		}
	}
	return c, nil
}

// maxKillRows bounds the kill rows of one change; it fits a transaction of an
// unmodified etcd.
const maxKillRows = 100

// killed makes kill intents effective.
func (s *Scheduler) killed(j *job, runs []worker.Run) {
	s.mu.Lock()
	for _, r := range runs {
		j.wantKill(r.Work.Node, r.Invocation)
	}
	s.mu.Unlock()
	for _, r := range runs {
		s.cfg.Registry.Kill(r)
	}
}

// Commit submits a change alone and returns after its commit. The error is ctx's,
// or that of the store: then it may or may not be durable.
func (s *Scheduler) Commit(ctx context.Context, c *Change, extra ...store.Op) (revision int64, err error) {
	if err := s.cfg.Store.Wait(ctx); err != nil {
		return 0, err
	}
	type answer struct {
		revision int64
		err      error
	}
	answered := make(chan answer, 1)
	s.cfg.Store.Submit(store.Transition{Ops: slices.Concat(c.Ops, extra)}, func(revision int64, err error) {
		c.Done(revision, err)
		answered <- answer{revision, err}
	})
	select {
	case a := <-answered:
		return a.revision, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// builder collects a change; the scheduler's lock is held.
type builder struct {
	s       *Scheduler
	domain  string
	change  Change
	forests map[string]*batch.ForestSpec // to be written
	rows    []*jobRow                    // to be written
	errs    []error
	renew   bool // what is there already is born again
}

func (b *builder) fail(name string, err error, text string) {
	b.errs = append(b.errs, fmt.Errorf("job %q: %s: %w", name, text, err))
}

func (b *builder) line(l Line) { b.change.Lines = append(b.change.Lines, l) }

// forest takes a job's own forest, as it will come back from the store.
func (b *builder) forest(w *Wanted) {
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
func (b *builder) want(w *Wanted) {
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
	old := b.s.jobs[name]
	if old != nil && old.forest == nil && !old.row.deleted {
		b.fail(name, ErrQuarantined, "cannot be changed")
		return
	}
	if old != nil && old.row.deleted {
		old = nil
	}
	if old != nil && old.spec.Domain != b.domain {
		b.fail(name, ErrTaken, "it belongs to domain "+old.spec.Domain)
		return
	}
	forest := b.forestSpec(spec.Forest)
	if forest == nil {
		b.fail(name, ErrInvalid, fmt.Sprintf("no forest %q", spec.Forest))
		return
	}
	if problems := tryOut(forest, spec); len(problems) > 0 {
		for _, p := range problems {
			b.fail(name, ErrInvalid, p)
		}
		return
	}
	if old == nil || b.renew {
		row := &jobRow{name: name, uid: b.s.cfg.NewID(), born: b.s.newest(), created: b.s.cfg.Clock.Wall(), spec: spec}
		b.put(row, Line{Name: name, Verb: VerbCreate, Nodes: countNodes(forest)})
		return
	}
	b.update(old, spec, forest)
}

// newest is at least as new as every invocation handed out so far.
func (s *Scheduler) newest() fence.Invocation {
	start := fence.Invocation{Term: s.cfg.Term}
	if s.last.Compare(start) < 0 {
		return start
	}
	return s.last
}

func (b *builder) update(old *job, spec batch.Job, forest *batch.ForestSpec) {
	was := old.row.spec
	if spec.Forest != was.Forest {
		b.fail(spec.Name, ErrInvalid, fmt.Sprintf("runs over the nodes of %q: remove it before it moves to %q", was.Forest, spec.Forest))
		return
	}
	spec.UID, spec.Born, spec.Paused = was.UID, was.Born, was.Paused
	fields := differences("", reflect.ValueOf(was), reflect.ValueOf(spec))
	if b.forests[spec.Forest] != nil {
		fields = append(fields, differences("nodes", reflect.ValueOf(old.forest.board.Spec()), reflect.ValueOf(*forest))...)
	}
	if len(fields) == 0 {
		delete(b.forests, spec.Forest)
		b.line(Line{Name: spec.Name, Verb: VerbKeep})
		return
	}
	row := old.row
	row.spec = spec
	p := b.s.progress(old)
	b.put(&row, Line{Name: spec.Name, Verb: VerbUpdate, Fields: fields, Nodes: p.Total, Note: noteOf(p)})
}

func noteOf(p batch.Progress) string {
	if p.Done+p.Failed == 0 {
		return ""
	}
	return fmt.Sprintf("%d nodes have ended and are not run again", p.Done+p.Failed)
}

// forestSpec returns a forest as it will be after the change, or nil.
func (b *builder) forestSpec(name string) *batch.ForestSpec {
	if f := b.forests[name]; f != nil {
		return f
	}
	if f := b.s.forests[name]; f != nil && !f.gone {
		spec := f.board.Spec()
		return &spec
	}
	return nil
}

// tryOut returns what is wrong with a job on a forest.
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

// countNodes counts the nodes of the last level where that needs no script.
func countNodes(f *batch.ForestSpec) int {
	if len(f.Levels) == 0 {
		return 1
	}
	n := 0
	for _, src := range f.Sources {
		if src.Kind == batch.SourceScript {
			return -1
		}
		nodes, err := batch.ManualNodes(f.Levels, src.Manual)
		if err != nil {
			return -1
		}
		for _, x := range nodes {
			if x.Level == f.Levels[len(f.Levels)-1] {
				n++
			}
		}
	}
	return n
}

func (b *builder) put(row *jobRow, l Line) {
	b.rows = append(b.rows, row)
	b.line(l)
}

func (b *builder) remove(j *job) {
	row := jobRow{name: j.row.name, uid: j.row.uid, born: j.row.born, created: j.row.created, deleted: true, spec: batch.Job{Forest: j.row.spec.Forest}}
	p := b.s.progress(j)
	b.put(&row, Line{Name: row.name, Verb: VerbRemove, Nodes: p.Running})
}

// finish turns what was collected into rows.
func (b *builder) finish() (*Change, error) {
	if len(b.errs) > 0 {
		return nil, errors.Join(b.errs...)
	}
	unused := b.unused()
	for _, name := range sortedKeys(b.forests) {
		value, err := encodeForest(b.forests[name])
		if err != nil {
			return nil, err
		}
		b.change.Ops = append(b.change.Ops, store.Op{Key: forestPrefix + name, Value: value})
	}
	for _, name := range unused {
		b.change.Ops = append(b.change.Ops, store.Op{Key: forestPrefix + name})
	}
	for _, row := range b.rows {
		value, err := row.encode()
		if err != nil {
			return nil, err
		}
		b.change.Ops = append(b.change.Ops, store.Op{Key: jobPrefix + row.name, Value: value})
	}
	slices.SortStableFunc(b.change.Lines, func(x, y Line) int { return strings.Compare(x.Name, y.Name) })
	s, forests, rows := b.s, b.forests, b.rows
	b.change.Done = func(revision int64, err error) {
		if err == nil {
			s.changedJobs(revision, forests, rows, unused)
		}
	}
	return &b.change, nil
}

// unused returns the forests that no job needs any more after the change.
func (b *builder) unused() []string {
	used := make(map[string]bool)
	gone := make(map[string]bool)
	written := make(map[string]bool)
	for _, row := range b.rows {
		written[row.name] = true
		if row.deleted {
			gone[b.s.jobs[row.name].spec.Forest] = true
		} else {
			used[row.spec.Forest] = true
		}
	}
	for name, j := range b.s.jobs {
		if !written[name] && !j.row.deleted && j.spec != nil {
			used[j.spec.Forest] = true
		}
	}
	maps.DeleteFunc(gone, func(name string, _ bool) bool { return used[name] || b.forests[name] != nil })
	return sortedKeys(gone)
}

// changedJobs makes committed rows effective. It runs in commit order.
func (s *Scheduler) changedJobs(revision int64, forests map[string]*batch.ForestSpec, rows []*jobRow, unused []string) {
	s.mu.Lock()
	for _, name := range sortedKeys(forests) {
		s.setForest(forests[name])
	}
	var kill []worker.Run
	var events []event.Event
	for _, row := range rows {
		kill = append(kill, s.setJob(row, revision)...)
		events = append(events, s.jobEvent(s.jobs[row.name]))
	}
	for _, name := range unused {
		// What still runs draws on it until it ends: a forest of the same name that is
		// born before that takes the board over.
		if f := s.forests[name]; f != nil {
			f.gone = true
		}
	}
	s.changed = true
	s.mu.Unlock()
	s.cfg.Hub.Publish(revision, events...)
	for _, r := range kill {
		s.cfg.Registry.Kill(r)
	}
	ring(s.wake)
}

func (s *Scheduler) setForest(spec *batch.ForestSpec) {
	f := s.forests[spec.Name]
	if f == nil {
		b, err := batch.NewBoard(*spec)
		if err != nil { // it was tried out
			s.failLocked(err)
			return
		}
		s.forests[spec.Name] = &forest{board: b}
		return
	}
	if err := f.board.Configure(*spec); err != nil {
		s.failLocked(err)
		return
	}
	f.version++
	f.gone = false
	f.readAt, f.problem = 0, ""
}

// setJob makes a row the truth. It returns what is to be ended.
func (s *Scheduler) setJob(row *jobRow, revision int64) (kill []worker.Run) {
	old := s.jobs[row.name]
	j := old
	if old == nil || old.row.uid != row.uid {
		if old != nil && !old.row.deleted && old.forest != nil { // born again: what runs is older
			for _, r := range old.forest.board.Runs(row.name) {
				kill = append(kill, worker.Run{Work: worker.Work(r.Key), Invocation: r.Invocation})
			}
			old.row.deleted = true // its statuses are cleaned away
		}
		// A removal that was decided before a renewal, and committed after it, is about a
		// job that has been replaced.
		if j = s.uids[row.uid]; j == nil {
			j = &job{segs: newSegments()}
		}
		s.jobs[row.name], s.uids[row.uid] = j, j
	}
	row.spec.Name, row.spec.UID, row.spec.Born, row.spec.Paused = row.name, row.uid, row.born, row.paused
	j.row, j.revision = *row, revision
	if !row.deleted {
		s.seat(j)
		s.takeOver(old, j)
		return kill
	}
	if j.forest == nil { // it was never on a board
		return kill
	}
	for _, r := range j.forest.board.Runs(row.name) {
		kill = append(kill, worker.Run{Work: worker.Work(r.Key), Invocation: r.Invocation})
	}
	j.forest.board.Delete(row.name)
	j.reasons = nil
	return kill
}

// takeOver books what runs already under the name: of an earlier job of the name on
// another forest, or of none that has a row.
func (s *Scheduler) takeOver(old, j *job) {
	if old != nil && old.forest != nil && old.forest != j.forest {
		for _, r := range old.forest.board.Runs(j.row.name) {
			old.forest.board.Forget(r.Key)
			j.forest.board.Adopt(r.Key, r.Invocation, r.Cell)
		}
	}
	for k, inv := range s.strangers {
		if k.Job == j.row.name {
			j.forest.board.Adopt(k, inv, "")
			delete(s.strangers, k)
		}
	}
}

// differences lists the fields of two values of one type that differ.
func differences(path string, old, now reflect.Value) []FieldChange {
	if reflect.DeepEqual(old.Interface(), now.Interface()) {
		return nil
	}
	if old.Kind() == reflect.Pointer && !old.IsNil() && !now.IsNil() {
		return differences(path, old.Elem(), now.Elem())
	}
	if old.Kind() != reflect.Struct {
		return []FieldChange{{path, show(old), show(now)}}
	}
	var out []FieldChange
	for i := range old.NumField() {
		f := old.Type().Field(i)
		if !f.IsExported() {
			continue
		}
		out = append(out, differences(strings.TrimPrefix(path+"."+snake(f.Name), "."), old.Field(i), now.Field(i))...)
	}
	return out
}

func show(v reflect.Value) string {
	if v.IsZero() {
		return ""
	}
	return fmt.Sprintf("%v", v.Interface())
}

func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 && (i+1 < len(name) && unicode.IsLower(rune(name[i+1])) || unicode.IsLower(rune(name[i-1]))) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
