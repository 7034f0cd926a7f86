package sim

import (
	"fmt"
	"slices"
	"time"

	"cantina/executor"
	"cantina/resource"
	"cantina/worker"
)

func (u *unit) String() string {
	if u.uid != "" {
		return fmt.Sprintf("task %s %s", u.guid, u.uid)
	}
	return fmt.Sprintf("%v %s", u.key, u.id)
}

// snapshot is the container as an executor shows it.
func (u *unit) snapshot() executor.Container {
	ct := executor.Container{ID: u.id, Labels: u.labels,
		Routable: u.state == up && !u.notReady, Resources: u.need, DeadlineBound: u.bound,
		Adopted: u.adopted, Kept: u.keep && !u.left, Ending: u.asked, Stuck: u.condition()}
	if u.nameless {
		ct.Labels = nil
	}
	switch u.state {
	case reserved:
		ct.State = executor.Reserved
	case starting:
		ct.State = executor.Initializing
	case up:
		ct.State = executor.Running
	case completed:
		ct.State, ct.Resources = executor.Completed, nil
		ct.Result = executor.RunResult{Failed: u.failed, Stopped: u.asked && !u.left, NeverRan: u.began == 0 && !u.nameless}
		if u.failed {
			ct.Result.ExitCode, ct.Result.Reason = 1, "it failed"
		}
		if u.uid != "" { // distinguishes ends
			ct.Result.ExitCode = int(u.began / time.Millisecond)
		}
	}
	return ct
}

// capacity is every cell's capacity for services and tasks: fewer cells have more, so that the
// requests of all customers fit in the end.
func (w *world) capacity() resource.Amounts {
	share := max(1, (3+w.cfg.Cells-1)/w.cfg.Cells)
	if w.faults.stays != nil {
		share *= 2
	}
	return resource.Amounts{"memory_mb": 500 * share, resource.Containers: 12 * share}
}

// used is the amount that the agent's known containers take.
func (cs *containers) used() resource.Amounts {
	sum := resource.Amounts{}
	for _, u := range cs.units {
		if !u.orphan && u.state != completed {
			sum = sum.Add(u.need)
		}
	}
	for _, c := range cs.box {
		if !c.orphan && c.alive && !c.extra {
			sum = sum.Add(c.need)
		}
	}
	return sum
}

func (cs *containers) unit(id string) *unit {
	for _, u := range cs.units {
		if u.id == id && !u.orphan {
			return u
		}
	}
	return nil
}

// expire releases an unused claim.
func (cs *containers) expire(u *unit) {
	if u.state == reserved && !u.orphan && cs.unit(u.id) == u {
		u.failed = true
		cs.complete(u)
	}
}

// beginUnit starts the processes of a reserved container.
func (cs *containers) beginUnit(u *unit) {
	w := cs.m.w
	if u.bound && cs.pastDeadline() {
		cs.complete(u)
		return
	}
	u.state, u.alive, u.began = starting, true, w.now
	w.check.began(w, u)
	w.trace("%s: %v starts", cs.m.name, u)
	w.after(w.between(5*time.Millisecond, 400*time.Millisecond), func() {
		if u.alive && u.state == starting {
			u.state = up
			cs.report(executor.EventRunning, u)
			w.live(u)
		}
	})
}

// live decides how a running container continues.
func (w *world) live(u *unit) {
	if u.uid != "" {
		d := w.between(100*time.Millisecond, 8*time.Second)
		if !w.calm && w.chance(200) {
			d = w.between(5*time.Second, 40*time.Second)
		}
		if !w.calm && w.chance(60) {
			return // ends only when it is stopped
		}
		failed := w.chance(200)
		w.after(d, func() { u.m.containers.gone(u, failed) })
		return
	}
	if w.faults.allowed(FailWork) && w.chance(250) {
		clean := w.chance(300)
		w.after(w.between(50*time.Millisecond, 25*time.Second), func() {
			if w.faults.allowed(FailWork) {
				w.faults.active[FailWork] = w.now + 2*time.Second
				u.m.containers.gone(u, !clean)
			}
		})
	}
	if w.faults.allowed(FailWork) && w.chance(150) {
		w.after(w.between(0, 10*time.Second), func() { u.m.containers.ready(u, false) })
		w.after(w.between(10*time.Second, 14*time.Second), func() { u.m.containers.ready(u, true) })
	}
}

// ready flips the readiness of a running instance.
func (cs *containers) ready(u *unit, ok bool) {
	if u.alive && u.notReady == ok {
		u.notReady = !ok
		cs.report(executor.EventRoutable, u)
	}
}

// report reports a container's event to the agent.
func (cs *containers) report(k executor.EventKind, u *unit) {
	if !u.orphan {
		cs.m.happened(executor.Event{Kind: k, Container: u.snapshot()})
	}
}

// happened passes an event to the agent, after its present action.
func (m *machine) happened(e executor.Event) {
	if m.alive {
		m.later(0, func() { m.cell.Happened(e) })
	}
}

// stopUnit ends a container gracefully, within d.
func (cs *containers) stopUnit(u *unit, d time.Duration) {
	if u.state == completed || u.asked {
		return
	}
	u.asked = true
	if u.state == reserved {
		cs.complete(u)
		return
	}
	cs.killUnit(u, d, false)
}

// killUnit has a container be dead within d, if it dies.
func (cs *containers) killUnit(u *unit, d time.Duration, failed bool) {
	cs.m.w.after(d, func() {
		if cs.gone(u, failed); u.alive {
			cs.stick(&u.grip, u.snapshot, func() bool { return !u.orphan })
		}
	})
}

func (cs *containers) grace() time.Duration { return cs.m.w.between(0, 2*time.Second) }

// deleteUnit stops a container and removes it when no process of it is left.
func (cs *containers) deleteUnit(u *unit) {
	u.deleting = true
	if u.state == completed {
		cs.forget(u)
		return
	}
	cs.stopUnit(u, cs.grace())
}

// gone: the processes of a container have ended.
func (cs *containers) gone(u *unit, failed bool) {
	if !u.alive || u.waits(func() { cs.gone(u, failed) }) {
		return
	}
	u.stuck = false
	u.alive, u.failed = false, failed || u.left
	cs.m.w.check.ceased(u)
	cs.m.w.trace("%s: %v ended: asked %v, failed %v", cs.m.name, u, u.asked, failed)
	if u.orphan {
		cs.forget(u)
		cs.clearedIf()
		return
	}
	cs.complete(u)
}

func (cs *containers) complete(u *unit) {
	u.state = completed
	if u.deleting {
		cs.forget(u)
		return
	}
	cs.report(executor.EventCompleted, u)
}

func (cs *containers) forget(u *unit) {
	cs.report(executor.EventDeleted, u)
	cs.units = slices.DeleteFunc(cs.units, func(o *unit) bool { return o == u })
	if u.nameless {
		cs.clearedIf()
	}
}

// disown handles the containers when the agent's process is gone: the reaper ends work that may
// not outlive it.
func (cs *containers) disown(all bool) {
	for _, c := range slices.Clone(cs.box) {
		if c.keep && !all && !c.dying && !c.extra && !c.left {
			continue
		}
		if c.orphan = true; c.alive {
			cs.end(c, cs.m.w.between(0, killWait))
		} else {
			cs.drop(c)
		}
	}
	for _, u := range slices.Clone(cs.units) {
		switch kept := u.keep && !all && !u.asked && !u.left; {
		case u.orphan:
		case kept && (u.state == up || u.state == completed):
		case u.alive:
			u.orphan = true
			cs.killUnit(u, cs.m.w.between(0, killWait), true)
		default:
			cs.units = slices.DeleteFunc(cs.units, func(o *unit) bool { return o == u })
		}
	}
}

// losePower ends everything at once.
func (cs *containers) losePower() {
	for _, c := range slices.Clone(cs.box) {
		c.free()
		if c.orphan = true; c.alive {
			cs.ended(c, "power")
		} else {
			cs.drop(c)
		}
	}
	for _, u := range slices.Clone(cs.units) {
		u.free()
		u.orphan = true
		if u.alive {
			cs.gone(u, true)
		} else {
			cs.forget(u)
		}
	}
}

// reapUnits is the reaper's action at its deadline: they were not ordered to stop.
func (cs *containers) reapUnits() {
	for _, u := range cs.units {
		if u.bound && u.alive {
			u.reaped = true
			cs.killUnit(u, cs.m.w.between(0, killWait), true)
		}
	}
}

// clearedIf reports to the agent that no work of its predecessors is left, if so.
func (cs *containers) clearedIf() {
	old := slices.ContainsFunc(cs.box, func(c *container) bool {
		return c.alive && c.procs[len(c.procs)-1] != cs.m.proc()
	})
	if cs.m.cleared || old || slices.ContainsFunc(cs.units,
		func(u *unit) bool { return u.procs[len(u.procs)-1] != cs.m.proc() }) {
		return
	}
	cs.m.on(func() {
		cs.m.cleared = true
		cs.m.cell.Cleared()
	})
}

// disinherit ends the containers that a new process does not adopt and reports whether none is
// left. It takes over hanging ones as stuck: its executor has tried to end them.
func (cs *containers) disinherit() (gone bool) {
	gone = true
	for _, c := range slices.Clone(cs.box) {
		c.orphan = c.orphan || !c.keep || c.dying || c.extra || c.left
		switch {
		case c.orphan && c.held && c.alive && !c.extra:
			c.orphan, c.deleting, c.dying = false, false, true
			c.inherit(cs.unnamed, func() { cs.ended(c, "killed") })
			gone = gone && !c.nameless
		case c.orphan && !c.alive:
			cs.drop(c)
		case c.orphan:
			gone = false
			if !c.dying {
				cs.end(c, 0)
			}
		}
		c.adopted = true
	}
	for _, u := range cs.units {
		switch {
		case u.orphan && u.held && u.alive:
			u.orphan, u.deleting = false, false
			u.inherit(cs.unnamed, func() { cs.gone(u, true) })
			gone = gone && !u.nameless
		case u.orphan:
			gone = false
		}
		u.adopted = true
	}
	return gone
}

// adopt passes the existing containers to a process, or to another session of it.
func (cs *containers) adopt(proc worker.Proc) {
	for _, c := range cs.box {
		if !c.orphan && !c.nameless {
			c.procs = append(c.procs, proc)
		}
	}
	for _, u := range cs.units {
		if !u.orphan && !u.nameless {
			u.procs = append(u.procs, proc)
		}
	}
}
