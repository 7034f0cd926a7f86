package scheduler

import (
	"context"
	"fmt"
	"slices"

	"cantina/batch"
	"cantina/fault"
	"cantina/plan"
	"cantina/scheduler/schedulerpb"
	"cantina/store"
	"cantina/worker"
)

// Change is prepared rows with their consequences. The caller submits Ops in one transition, alone
// (Scheduler.Commit) or with rows of others, and calls Done from the callback of that commit; or
// it calls Undo if it is not submitted, because later changes are decided on its rows. Changes are
// submitted in the order in which they were prepared: a caller that prepares them concurrently
// holds its own lock meanwhile.
type Change struct {
	Domain string // of the jobs; empty for one that changes no definition
	Lines  []plan.Change
	store.Part
}

// Plan is Apply without an effect: the lines only.
func (ch *changing) Plan(domain string, wanted []plan.NamedJob, prune plan.Prune,
	keep ...string) ([]plan.Change, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	b := ch.applying(domain, wanted, prune, keep)
	if err := b.encode(); err != nil {
		return nil, err
	}
	return b.change.Lines, nil
}

// Apply prepares the jobs of a domain: creates and updates the wanted ones, and removes the others
// if prune is set, except those to keep. Names are keys, of batch.FullName. Errors, all at once:
// ErrInvalid, ErrQuarantined.
func (ch *changing) Apply(domain string, wanted []plan.NamedJob, prune plan.Prune, keep ...string) (*Change, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.applying(domain, wanted, prune, keep).finish()
}

// applying collects an application; the lock is held.
func (ch *changing) applying(domain string, wanted []plan.NamedJob, prune plan.Prune, keep []string) *builder {
	b := ch.build(domain)
	names := make(map[string]bool)
	for i := range wanted {
		if names[wanted[i].Job.Name] {
			b.fail(wanted[i].Job.Name, ErrInvalid, "duplicate")
		}
		names[wanted[i].Job.Name] = true
		b.forest(&wanted[i])
	}
	for i := range wanted {
		b.want(&wanted[i])
	}
	if prune.On {
		for _, name := range ch.newestNames() {
			if row, _, err := ch.changeable(name); err == nil && row.spec.Domain == domain && !names[name] &&
				!slices.Contains(keep, name) && prune.Takes(row.spec.Workload.Labels) {
				var orphans *batch.Orphans
				if f := b.forestSpec(row.spec.Forest); f != nil {
					orphans = f.Removed
				}
				b.remove(row, orphans)
			}
		}
	}
	return b
}

// Remove prepares the deletion of a job: its name stays as a tombstone while any of its work may
// be running, and running work is ended. So is work that remained when a file no longer had its job.
// It returns batch.ErrUnknownJob or ErrQuarantined.
func (ch *changing) Remove(name string) (*Change, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if row := ch.newestRow(name); row != nil && row.deleted && row.orphans != nil { // its work still runs
		domain, _ := batch.SplitName(name)
		b := ch.build(domain)
		b.remove(row, nil)
		return b.finish()
	}
	row, _, err := ch.changeable(name)
	if err != nil {
		return nil, err
	}
	b := ch.build(row.spec.Domain)
	b.remove(row, nil)
	return b.finish()
}

// Pause prepares to pause or resume a job. Errors as of Remove.
func (ch *changing) Pause(name string, paused bool) (*Change, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	old, _, err := ch.changeable(name)
	if err != nil {
		return nil, err
	}
	b := ch.build(old.spec.Domain)
	row := *old
	row.paused = paused
	if row.paused == old.paused {
		b.line(plan.Change{Kind: "job", Name: name, Verb: plan.VerbKeep})
		return b.finish()
	}
	b.put(&row, plan.Change{Kind: "job", Name: name, Verb: plan.VerbUpdate,
		Fields: []plan.FieldChange{{Path: "paused", Old: fmt.Sprint(!paused), New: fmt.Sprint(paused)}}})
	return b.finish()
}

// Kill prepares to end running batch tasks: a stored intent, repeated until they ended. Errors as
// of Remove, and batch.ErrUnknownNode for a requested node that the job does not have. At most
// maxKillRows at once.
func (ch *changing) Kill(name string, f batch.NodeFilter) (*Change, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	_, j, err := ch.changeable(name)
	if err != nil {
		return nil, err
	}
	if j == nil { // running work is of an earlier life, and is ended when this one is committed
		b := ch.build("")
		b.line(plan.Change{Kind: "job", Name: name, Verb: plan.VerbKeep})
		return b.finish()
	}
	if err := j.named(f); err != nil {
		return nil, err
	}
	f.Classes, f.Limit = []batch.Class{batch.ClassRunning}, maxKillRows
	nodes, err := j.forest.board.Nodes(name, f)
	if err != nil {
		return nil, err
	}
	c := &Change{Lines: []plan.Change{{Kind: "job", Name: name, Verb: plan.VerbUpdate}}, Part: store.Part{Undo: func() {}}}
	var runs []worker.Run
	for _, n := range nodes {
		if n.Invocation.IsZero() {
			continue
		}
		value, err := encode(kindKill, &schedulerpb.Kill{Node: []byte(n.Node), Invocation: fromInvocation(n.Invocation)})
		if err != nil {
			return nil, err
		}
		key := killKey(j.row.uid, n.Node)
		if ch.bad[key] {
			return nil, fmt.Errorf("job %q, node %q: row %s: %w", name, n.Node, key, fault.ErrQuarantined)
		}
		c.Ops = append(c.Ops, store.Op{Key: key, Value: value})
		runs = append(runs, worker.Run{Work: worker.Work{Job: name, Node: n.Node}, Invocation: n.Invocation})
	}
	c.Lines[0].Nodes = len(runs)
	c.Done = func(_ int64, err error) {
		if err != nil {
			ch.fail(fmt.Errorf("commit kills: %w", err))
			return
		}
		ch.killed(j, runs)
	}
	return c, nil
}

// maxKillRows bounds the kill rows of one change; it fits a transaction of an
// unmodified etcd.
const maxKillRows = 100

// killed makes kill intents effective.
func (ch *changing) killed(j *job, runs []worker.Run) {
	ch.mu.Lock()
	for _, r := range runs {
		j.wantKill(r.Work.Node, r.Invocation)
	}
	ch.mu.Unlock()
	for _, r := range runs {
		ch.cfg.Registry.Kill(r)
	}
}

// Commit submits a change alone and returns after its commit. The error is ctx's,
// or that of the store: then it may or may not be durable.
func (ch *changing) Commit(ctx context.Context, c *Change, extra ...store.Op) (revision int64, err error) {
	if err := ch.cfg.Store.Wait(ctx); err != nil {
		c.Undo()
		return 0, err
	}
	type answer struct {
		revision int64
		err      error
	}
	answered := make(chan answer, 1)
	ch.Submit(c, func(revision int64, err error) { answered <- answer{revision, err} }, extra...)
	select {
	case a := <-answered:
		return a.revision, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Submit submits a change alone; done is called after its commit, with the error of the
// store if it may not be durable.
func (ch *changing) Submit(c *Change, done func(revision int64, err error), extra ...store.Op) {
	ch.cfg.Store.Submit(store.Transition{Ops: slices.Concat(c.Ops, extra)}, func(revision int64, err error) {
		c.Done(revision, err)
		done(revision, err)
	})
}
