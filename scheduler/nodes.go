package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"cantina/batch"
	"cantina/event"
	"cantina/store"
)

// current reports whether the nodes are those of the newest definition: before, a job over them
// has not ended.
func (f *forest) current() bool { return !f.hasSources() || f.planted && f.plantedOf == f.version }

// listed reports whether the nodes are those of the present sources: before, nothing starts on them.
func (f *forest) listed() bool { return !f.hasSources() || f.planted && f.plantedOf >= f.sourced }

func (f *forest) hasSources() bool { return len(f.board.Spec().Sources) > 0 }

// Reads returns the reads beside the passes: the nodes of due forests, and small rows of statuses
// to be merged. Each function is called once; it waits for scripts and for the store.
func (s *Scheduler) Reads() []func(context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reads := s.reads
	s.reads = nil
	now := s.cfg.Clock.Boot()
	for _, f := range s.looked {
		if !f.hasSources() {
			f.planted = true
			continue
		}
		if f.gone || f.reading || f.readAt > now {
			continue
		}
		f.reading = true
		spec, version, stamp, whole := f.board.Spec(), f.version, f.stamp, f.wholeAt <= now
		reads = append(reads, func(ctx context.Context) {
			r := reading{version: version, stamp: stampOf(&spec)}
			if r.same = !whole && r.stamp == stamp; !r.same {
				r.listing, r.err = s.readNodes(ctx, &spec)
			}
			s.planted(f, r)
		})
	}
	return reads
}

// readNodes runs the sources in order; a later one uses the nodes of the earlier ones as parents.
// One that fails fails all: an incomplete list of nodes is worse than the last good one.
func (s *Scheduler) readNodes(ctx context.Context, spec *batch.ForestSpec) (out listing, err error) {
	for i := range spec.Sources {
		src := &spec.Sources[i]
		var nodes []batch.NodeSpec
		var odd string
		switch src.Kind {
		case batch.SourceScript:
			nodes, odd, err = s.runScript(ctx, spec, src, out.nodes)
		case batch.SourceFile:
			nodes, odd, err = fileNodes(spec.Levels, src.File)
		default:
			nodes, err = s.cfg.compute(spec, src, &out)
		}
		if err != nil {
			return listing{}, fmt.Errorf("source %d: %w", i, err)
		}
		out.note = cmpText(out.note, odd)
		if out.nodes = append(out.nodes, nodes...); len(out.nodes) > batch.MaxNodes {
			return listing{}, fmt.Errorf("source %d: more than %d nodes: %w", i, batch.MaxNodes, batch.ErrNodes)
		}
	}
	return out, nil
}

// listing is the result of the sources of a forest.
type listing struct {
	nodes []batch.NodeSpec
	note  string        // a remark that is no error
	until time.Duration // how long the nodes are right, by their calendars; 0 = no bound
}

// compute returns the nodes of a source that needs no script or file.
func (c *Config) compute(spec *batch.ForestSpec, src *batch.Source, have *listing) ([]batch.NodeSpec, error) {
	switch src.Kind {
	case batch.SourceManual:
		return batch.ManualNodes(spec.Levels, src.Manual)
	case batch.SourceRange:
		return batch.RangeNodes(spec.Levels, src, parentsAt(spec, src.ParentLevel, have.nodes))
	case batch.SourceTime:
		var zone *time.Location
		if src.Zone != "" && c.Zone != nil {
			var err error
			if zone, err = c.Zone(src.Zone); err != nil {
				return nil, fmt.Errorf("time zone %q: %w: %w", src.Zone, err, batch.ErrNodes)
			}
		}
		now := c.Clock.Wall()
		nodes, next, err := batch.TimeNodes(spec.Levels, src, parentsAt(spec, src.ParentLevel, have.nodes), zone, now)
		if until := next.Sub(now); err == nil && !next.IsZero() && (have.until == 0 || until < have.until) {
			have.until = until
		}
		return nodes, err
	}
	return nil, nil
}

// scriptWidth is how many parents a script is run for at once.
const scriptWidth = 4

// runScript runs a script once per parent, a few at a time; the order of the
// parents is kept.
func (s *Scheduler) runScript(ctx context.Context, spec *batch.ForestSpec, src *batch.Source,
	have []batch.NodeSpec) (nodes []batch.NodeSpec, note string, err error) {
	parents := parentsAt(spec, src.ParentLevel, have)
	results := make([][]batch.NodeSpec, len(parents))
	errs, notes := make([]error, len(parents)), make([]string, len(parents))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var working sync.WaitGroup
	width := make(chan struct{}, scriptWidth)
	for i, parent := range parents {
		width <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		working.Go(func() {
			defer func() { <-width }()
			argv := append(append([]string(nil), src.Script...), parent)
			out, err := s.cfg.Scripts.Output(ctx, argv, src.Timeout)
			if err == nil {
				results[i], err = batch.ScriptNodes(spec.Levels, src.ParentLevel, parent, out)
			}
			if name, twice := batch.Repeated(out); twice {
				notes[i] = fmt.Sprintf("script %s %s printed node %q twice; it counts once", src.Script[0], parent, name)
			}
			if err != nil {
				errs[i] = fmt.Errorf("script %s %s: %w", src.Script[0], parent, err)
				cancel()
			}
		})
	}
	working.Wait()
	if err := firstReal(errs); err != nil {
		return nil, "", err
	}
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	for i := range results {
		note = cmpText(note, notes[i])
		for _, n := range results[i] {
			if src.ParentLevel == batch.LevelInstance {
				n.Parent = ""
			}
			nodes = append(nodes, n)
		}
	}
	return nodes, note, nil
}

// firstReal returns the first error that is not only an echo of another one's
// cancellation.
func firstReal(errs []error) error {
	var echo error
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		if echo == nil {
			echo = err
		}
	}
	return echo
}

// parentsAt returns the names on a level, each once, in order.
func parentsAt(spec *batch.ForestSpec, level string, have []batch.NodeSpec) []string {
	if level == batch.LevelInstance || level == "" {
		if spec.Instance == "" {
			return []string{batch.LevelInstance}
		}
		return []string{spec.Instance}
	}
	var out []string
	seen := make(map[string]bool)
	for _, n := range have {
		if n.Level == level && !seen[n.Name] {
			seen[n.Name] = true
			out = append(out, n.Name)
		}
	}
	return out
}

// reading is the result of a reading of a forest's nodes.
type reading struct {
	version int    // of the spec
	stamp   string // of the files, before they were read
	same    bool   // only the stamp was read, and it is as before
	listing
	err error
}

// planted applies the result of a reading. After a failure the last good nodes stay. A note is
// shown like a problem, and prevents no start.
func (s *Scheduler) planted(f *forest, r reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer ring(s.wake)
	f.reading = false
	s.stir(f)
	now := s.cfg.Clock.Boot()
	if f.version != r.version { // the spec changed meanwhile: read again
		f.readAt, f.wholeAt = now, 0
		return
	}
	if !r.same {
		s.plant(f, r, now)
	}
	f.readAt = f.wholeAt
	if r.stamp != "" {
		f.readAt = min(f.readAt, now+filesEvery)
	}
}

// plant replaces the nodes of a forest; the lock is held.
func (s *Scheduler) plant(f *forest, r reading, now time.Duration) {
	f.stamp = r.stamp
	if r.err == nil {
		r.err = f.board.SetNodes(r.nodes)
	}
	if r.err != nil {
		f.problem, f.wholeAt = r.err.Error(), now+s.cfg.NodesRetry
		if !errors.Is(r.err, context.Canceled) {
			s.cfg.Log.Warn("cannot read nodes; keeping those of the last successful run",
				"forest", f.board.Spec().Name, "error", r.err)
		}
		return
	}
	f.problem, f.planted, f.plantedOf, f.wholeAt = r.note, true, r.version, now+s.cfg.NodesEvery
	if r.until > 0 {
		f.wholeAt = min(f.wholeAt, now+r.until)
	}
	s.publishStates(f.board.Jobs())
}

// publishStates publishes jobs whose state something else than a commit has changed: their nodes, or
// jobs that they come after. The lock is held.
func (s *Scheduler) publishStates(names []string) {
	var events []event.Event
	for _, name := range names {
		if j := s.jobs[name]; j != nil && j.forest != nil && j.spec != nil && s.progress(j).State != j.state {
			events = append(events, s.jobEvent(j))
		}
	}
	if len(events) == 0 {
		return
	}
	// After the commits in progress, in their order.
	s.cfg.Store.Submit(store.Transition{}, func(revision int64, err error) {
		if err == nil {
			s.cfg.Hub.Publish(revision, events...)
		}
	})
}
