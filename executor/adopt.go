package executor

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"cantina/action"
	"cantina/executor/shim"
	"cantina/executor/step"
	"cantina/spawn"
	"cantina/spawn/procid"
)

// adopt takes over the kept containers of predecessors, whose groups still exist. Each keeps the
// deadline of its class.
func (r *recovery) adopt() error {
	records, err := r.keptRecords()
	if err != nil {
		return err
	}
	dirs, err := dirsIn(r.e.path("keep"))
	for _, dir := range dirs {
		if s, ok := records[filepath.Base(dir)]; ok {
			err = errors.Join(err, r.adoptOne(s))
		} else {
			// It was about to be started. Its group, if any, is ended with the unrelated processes.
			r.e.remains.discard(dir)
		}
	}
	r.records = nil // each container has its own
	return err
}

// saveResult writes down how a kept container ended.
func (o *order) saveResult(r *RunResult) {
	if err := shim.Put(o.e.keepDir(o.id), resultFile, r, false); err != nil {
		o.e.log.Warn("result is not written down", "container", o.id, "error", err)
	}
}

func (r *recovery) adoptOne(s keptRecord) error {
	var result RunResult
	rerr := shim.Get(r.e.keepDir(s.ID), resultFile, &result)
	if unread(rerr) {
		return rerr
	}
	c := newContainer(r.e, Reservation{ID: s.ID, Labels: s.Labels, DeadlineBound: s.Bound}, s.Resources)
	c.spec, c.created, c.begun, c.adopted, c.state, c.ports = s.Spec, s.Created, s.Begun, true, Running, s.Ports
	c.files.dir = c.files.dirPath()
	g := r.e.backend.tree().Adopt(s.Group, s.Slot, s.Limits)
	c.programs.tracker = &groupTracker{Group: g, o: c.order}
	c.programs.adoptedFrom = &s
	var st shim.Started
	if shim.Get(r.e.keepDir(s.ID), shim.StartedFile, &st) == nil {
		c.pid = st.Pid
	}
	for _, p := range s.Ports {
		r.e.ports.hold(p.Port)
	}
	r.e.take(s.Resources, 1)
	r.e.containers[s.ID] = c
	if rerr == nil && g.Remove() == nil {
		c.state, c.result = Completed, result
		close(c.doneC)
		return nil
	}
	r.left = append(r.left, c)
	return nil
}

// resume attaches to the shim of an adopted container.
func (h *stepHost) resume(ctx context.Context, r *action.Run) (*kept, error) {
	c := h.c
	k := &kept{h: h, c: c, dir: c.e.keepDir(c.id), done: make(chan struct{})}
	events, unwatch := c.e.watcher.WatchPath(k.dir, unix.IN_MODIFY|unix.IN_MOVED_TO)
	var err error
	if k.shim, err = c.watch(ctx, c.programs.adoptedFrom.Shim); errors.Is(err, procid.ErrGone) {
		k.shim, err = spawn.Gone(c.programs.adoptedFrom.Shim.Pid), nil
	}
	if err != nil {
		unwatch()
		return nil, err
	}
	c.programs.addProcess(k.shim)
	if err := k.awaitStart(ctx, events, r.Path); err != nil {
		unwatch()
		return nil, err
	}
	k.follow(events, unwatch)
	return k, nil
}

// watchAgain is how soon a process that could not be looked at is looked at again.
const watchAgain = 100 * time.Millisecond

// watch pins a process that is not this cell's child. Only procid.ErrGone means that it has ended:
// while its state is unknown, for lack of descriptors, it retries, until ctx is done.
func (o *order) watch(ctx context.Context, id procid.Identity) (*spawn.Process, error) {
	again := time.NewTicker(watchAgain)
	defer again.Stop()
	for reported := false; ; reported = true {
		p, err := o.e.launcher.Watch(id)
		if err == nil || errors.Is(err, procid.ErrGone) {
			return p, err
		}
		if !reported {
			o.e.log.Warn("unknown whether a process is alive; retrying", "container", o.id, "error", err)
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

// driveAdopted takes an adopted container to its end.
func (c *container) driveAdopted() {
	r, gone := c.resumeAdopted()
	if gone {
		c.complete(r)
	}
}

func (c *container) resumeAdopted() (RunResult, bool) {
	defer c.files.letGo()
	if err := c.makeView(); err != nil {
		c.e.log.Warn("view of an adopted container", "container", c.id, "error", err)
	}
	if err := c.openOutput(); err != nil {
		c.e.log.Warn("output of an adopted container", "container", c.id, "error", err)
	}
	c.programs.endOfPredecessor()
	if c.judgement.inherited {
		return c.finishInherited()
	}
	w := c.spec.Workload
	w.Setup = nil
	spent := step.Spent{Total: c.e.clock.Boot() - c.begun}
	return c.interpret(&w, spent)
}

// AdoptionRecorded reports that the leader has recorded the adopted containers: from now on they
// share the deadline of this cell process. Until then they have their predecessor's. (safety.md,
// Credit.)
func (d *deadlines) AdoptionRecorded() {
	d.e.keeper.mu.Lock()
	first := !d.e.keeper.own
	d.e.keeper.own = true
	d.e.keeper.mu.Unlock()
	if first {
		d.saveDeadline(d.deadline.Load())
		d.e.keeper.sendDeadlines()
	}
}
