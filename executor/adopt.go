package executor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"cantina/executor/shim"
	"cantina/executor/step"
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

// inherit takes over the recorded ends of predecessors' containers. A live container is ended
// first; of the others only the record exists.
func (r *recovery) inherit() error {
	entries, err := os.ReadDir(r.e.path(endedDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, d := range entries {
		var o outcome
		if strings.HasSuffix(d.Name(), outcomeSuffix) {
			err = shim.Get(r.e.path(endedDir), d.Name(), &o)
		}
		if unread(err) {
			return err
		}
		if err != nil || o.ID == "" { // half written, or damaged
			r.e.log.Warn("recorded end of a container not readable", "file", d.Name(), "error", err)
			r.e.remains.discard(filepath.Join(r.e.path(endedDir), d.Name()))
			continue
		}
		r.inheritOne(&o)
	}
	return nil
}

func (r *recovery) inheritOne(o *outcome) {
	c := r.e.containers[o.ID]
	if c == nil {
		c = newContainer(r.e, Reservation{ID: o.ID, Labels: o.Labels, DeadlineBound: o.Bound}, nil)
		c.state, c.result, c.adopted, c.created = Completed, o.Result, true, o.Created
		close(c.doneC)
		r.e.containers[o.ID] = c
		if !o.Logged {
			c.logEnd(&o.Result)
		}
	}
	c.outcome, c.recorded, c.judgement.inherited, c.judgement.fixed = o, true, true, &verdict{}
}

// finishInherited ends the rest of a kept container whose verdict a predecessor has fixed.
func (c *container) finishInherited() (RunResult, bool) {
	h := &stepHost{c: c}
	ctx, release := until(c.leaveC, nil)
	p, err := h.resumed(ctx, c.spec.Workload.Action.Run)
	release()
	if err != nil {
		c.e.log.Info("a kept program is ended unwatched", "container", c.id, "error", err)
	}
	t := &c.spec.Workload.Termination
	wait := leftoverGrace(t)
	if err == nil && !c.programs.mainEnded() { // a check decided
		p.Stop()
		wait = c.graceWithin(grace(t))
	}
	if !c.finish(wait) {
		return RunResult{}, false
	}
	c.followers.Wait()
	return c.conclude(RunResult{})
}
