package executor

import (
	"fmt"
	"time"

	"cantina/action"
	"cantina/logstore"
	"cantina/resource"
)

func newContainer(e *Executor, r Reservation, need resource.Amounts) *container {
	o := &order{e: e, id: r.ID, labels: r.Labels, need: need, bound: r.DeadlineBound,
		created: e.clock.Wall(), expires: e.clock.Boot() + r.Expires}
	c := &container{order: o, files: files{order: o}, programs: programs{order: o},
		stopC: make(chan struct{}), leaveC: make(chan struct{}), doneC: make(chan struct{}), deleteC: make(chan struct{})}
	c.starting.c, c.judgement.c = c, c
	c.programs.tracker = &processTracker{c: c, shut: true}
	return c
}

// keep reports whether the container outlives its cell.
func (o *order) keep() bool { return o.spec.Workload.OnCellRestart.Survives() }

// request records a request. The executor is locked; the result is called without the lock.
func (c *container) request(a ask, reason string) func() {
	d := c.lifecycle.request(a, reason, c.endsIn(c.graceOf(&c.spec.Workload.Termination)))
	if d.deletes {
		close(c.deleteC)
	}
	if d.first {
		close(c.stopC)
	}
	switch {
	case d.never:
		return func() { c.complete(c.neverRan()) }
	case d.forget:
		return c.forget
	}
	return func() {
		for _, k := range d.events {
			c.e.emit(k, c)
		}
	}
}

// endsIn is the latest time of the KILL for a container with a grace from now on.
func (c *container) endsIn(grace time.Duration) time.Time {
	return c.e.clock.Wall().Round(0).Add(grace)
}

// graceOf is how long a container has from the request for its end.
func (c *container) graceOf(t *action.Termination) time.Duration {
	if t.Mode == action.KillNow {
		return 0
	}
	return c.graceWithin(grace(t))
}

// neverRan is the result of a container that was ended before it ran.
func (c *container) neverRan() RunResult { return c.lifecycle.neverRan(c.e.clock.Wall()) }

// leave ends a container because the cell ends: kept ones are released.
func (c *container) leave() {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	first, ends := c.lifecycle.leave(c.keep(), c.endsIn(c.graceOf(&c.spec.Workload.Termination)))
	if first {
		close(c.leaveC)
	}
	if ends {
		close(c.stopC)
	}
}

// advance moves the state forward, where that is allowed.
func (c *container) advance(to State) bool {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if !c.lifecycle.advance(to) {
		return false
	}
	if to == Running {
		c.starting.quiet()
	}
	return true
}

// complete sets the result, once, and removes the container if that was requested.
func (c *container) complete(r RunResult) {
	c.e.mu.Lock()
	if !c.lifecycle.complete(r) {
		c.e.mu.Unlock()
		return
	}
	c.starting.quiet()
	delete(c.e.prober.probing, c)
	c.rest()
	gone := c.delete
	c.e.mu.Unlock()
	close(c.doneC)
	c.e.emit(EventCompleted, c)
	if gone {
		c.forget()
	}
}

// rest releases the resources that a completed container no longer needs: only its directory is
// left, so it holds only disk space. The next container need not wait until the result was read
// and the container deleted. The lock is held.
func (c *container) rest() {
	var left resource.Amounts
	if mb := c.need[resource.DiskMB]; mb > 0 {
		left = resource.Amounts{resource.DiskMB: mb}
	}
	c.e.take(c.need, -1)
	c.e.take(left, 1)
	c.need = left
}

// forget removes the rest of a completed container, once.
func (c *container) forget() {
	c.e.mu.Lock()
	first := c.lifecycle.forget()
	c.e.mu.Unlock()
	if !first {
		return
	}
	spare := c.files.removeDir()
	if c.keep() { // also of a start that came to nothing
		c.e.remains.discard(c.e.keepDir(c.id))
	}
	c.e.mu.Lock()
	if c.e.containers[c.id] != c {
		c.e.mu.Unlock()
		return
	}
	delete(c.e.containers, c.id)
	c.e.take(c.need, -1)
	snap := c.snapshot()
	ports, recorded := c.ports, c.recorded
	c.e.mu.Unlock()
	if recorded {
		c.judgement.removeOutcome()
	}
	c.e.dirPool.put(spare)
	c.e.ports.givePortsBack(ports)
	if !c.e.hub.none() {
		c.e.hub.emit(Event{Kind: EventDeleted, Container: snap})
	}
}

// asked returns the present request to the container.
func (c *container) asked() (ask, string) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	return c.ask, c.reason
}

// note writes a line of the executor into the container's log.
func (o *order) note(format string, args ...any) {
	if w, err := o.e.out.Writer(o.source(), logstore.Event); err == nil {
		fmt.Fprintf(w, format+"\n", args...)
		w.Close()
	}
}
