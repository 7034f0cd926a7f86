package sim

import (
	"fmt"
	"slices"
	"time"

	"cantina/executor"
	"cantina/lrp"
	"cantina/resource"
	"cantina/worker"
)

// unit is a container of a service's instance or of a task on a machine: an executor's data about
// it. Its processes are alive from begin until they are gone.
type unit struct {
	grip
	m         *machine
	id        string // instance id, or "t-" and the uid
	labels    executor.Labels
	key       lrp.Key
	service   lrp.ServiceKey
	exclusive bool
	guid, uid string // of a task
	bound     bool   // ends with its cell's credit
	keep      bool   // survives its agent
	need      resource.Amounts
	state     unitState
	procs     []worker.Proc // its owners, in order
	alive     bool          // it has processes
	orphan    bool          // no agent knows it: it is being ended
	asked     bool          // ordered to stop
	deleting  bool
	notReady  bool // its readiness check fails
	failed    bool
	adopted   bool
	began     time.Duration
	made      int // the store's generation when it was reserved
}

type unitState int

const (
	reserved unitState = iota
	starting
	up
	completed
)

func (u *unit) String() string {
	if u.uid != "" {
		return fmt.Sprintf("task %s %s", u.guid, u.uid)
	}
	return fmt.Sprintf("%v %s", u.key, u.id)
}

// snapshot is the container as an executor shows it.
func (u *unit) snapshot() executor.Container {
	ct := executor.Container{ID: u.id, Labels: u.labels, Routable: u.state == up && !u.notReady, Resources: u.need, DeadlineBound: u.bound,
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
	if w.stays != nil {
		share *= 2
	}
	return resource.Amounts{"memory_mb": 500 * share, resource.Containers: 12 * share}
}

// used is the amount that the agent's known containers take.
func (m *machine) used() resource.Amounts {
	sum := resource.Amounts{}
	for _, u := range m.units {
		if !u.orphan && u.state != completed {
			sum = sum.Add(u.need)
		}
	}
	for _, c := range m.box {
		if !c.orphan && c.alive && !c.extra {
			sum = sum.Add(c.need)
		}
	}
	return sum
}

func (m *machine) unit(id string) *unit {
	for _, u := range m.units {
		if u.id == id && !u.orphan {
			return u
		}
	}
	return nil
}

// expire releases an unused claim.
func (m *machine) expire(u *unit) {
	if u.state == reserved && !u.orphan && m.unit(u.id) == u {
		u.failed = true
		m.complete(u)
	}
}

// beginUnit starts the processes of a reserved container.
func (m *machine) beginUnit(u *unit) {
	w := m.w
	if u.bound && m.pastDeadline() {
		m.complete(u)
		return
	}
	u.state, u.alive, u.began = starting, true, w.now
	w.check.began(w, u)
	w.trace("%s: %v starts", m.name, u)
	w.after(w.between(5*time.Millisecond, 400*time.Millisecond), func() {
		if u.alive && u.state == starting {
			u.state = up
			m.told(executor.EventRunning, u)
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
		w.after(d, func() { u.m.gone(u, failed) })
		return
	}
	if w.allowed(FailWork) && w.chance(250) {
		clean := w.chance(300)
		w.after(w.between(50*time.Millisecond, 25*time.Second), func() {
			if w.allowed(FailWork) {
				w.active[FailWork] = w.now + 2*time.Second
				u.m.gone(u, !clean)
			}
		})
	}
	if w.allowed(FailWork) && w.chance(150) {
		w.after(w.between(0, 10*time.Second), func() { u.m.ready(u, false) })
		w.after(w.between(10*time.Second, 14*time.Second), func() { u.m.ready(u, true) })
	}
}

// ready flips the readiness of a running instance.
func (m *machine) ready(u *unit, ok bool) {
	if u.alive && u.notReady == ok {
		u.notReady = !ok
		m.told(executor.EventRoutable, u)
	}
}

// told reports a container's event to the agent.
func (m *machine) told(k executor.EventKind, u *unit) {
	if !u.orphan {
		m.happened(executor.Event{Kind: k, Container: u.snapshot()})
	}
}

// happened passes an event to the agent, after its present action.
func (m *machine) happened(e executor.Event) {
	if m.alive {
		m.later(0, func() { m.cell.Happened(e) })
	}
}

// stopUnit ends a container gracefully, within d.
func (m *machine) stopUnit(u *unit, d time.Duration) {
	if u.state == completed || u.asked {
		return
	}
	u.asked = true
	if u.state == reserved {
		m.complete(u)
		return
	}
	m.killUnit(u, d, false)
}

// killUnit has a container be dead within d, if it dies.
func (m *machine) killUnit(u *unit, d time.Duration, failed bool) {
	m.w.after(d, func() {
		if m.gone(u, failed); u.alive {
			m.stick(&u.grip, u.snapshot, func() bool { return !u.orphan })
		}
	})
}

func (m *machine) grace() time.Duration { return m.w.between(0, 2*time.Second) }

// deleteUnit stops a container and removes it when no process of it is left.
func (m *machine) deleteUnit(u *unit) {
	u.deleting = true
	if u.state == completed {
		m.forget(u)
		return
	}
	m.stopUnit(u, m.grace())
}

// gone: the processes of a container have ended.
func (m *machine) gone(u *unit, failed bool) {
	if !u.alive || u.waits(func() { m.gone(u, failed) }) {
		return
	}
	u.stuck = false
	u.alive, u.failed = false, failed || u.left
	m.w.check.ceased(u)
	m.w.trace("%s: %v ended: told %v, failed %v", m.name, u, u.asked, failed)
	if u.orphan {
		m.forget(u)
		m.clearedIf()
		return
	}
	m.complete(u)
}

func (m *machine) complete(u *unit) {
	u.state = completed
	if u.deleting {
		m.forget(u)
		return
	}
	m.told(executor.EventCompleted, u)
}

func (m *machine) forget(u *unit) {
	m.told(executor.EventDeleted, u)
	m.units = slices.DeleteFunc(m.units, func(o *unit) bool { return o == u })
	if u.nameless {
		m.clearedIf()
	}
}

// disown handles the containers when the agent's process is gone: the reaper ends work that may
// not outlive it.
func (m *machine) disown(all bool) {
	for _, c := range slices.Clone(m.box) {
		if c.keep && !all && !c.dying && !c.extra && !c.left {
			continue
		}
		if c.orphan = true; c.alive {
			m.end(c, m.w.between(0, killWait))
		} else {
			m.drop(c)
		}
	}
	for _, u := range slices.Clone(m.units) {
		switch kept := u.keep && !all && !u.asked && !u.left; {
		case u.orphan:
		case kept && (u.state == up || u.state == completed):
		case u.alive:
			u.orphan = true
			m.killUnit(u, m.w.between(0, killWait), true)
		default:
			m.units = slices.DeleteFunc(m.units, func(o *unit) bool { return o == u })
		}
	}
}

// losePower ends everything at once.
func (m *machine) losePower() {
	for _, c := range slices.Clone(m.box) {
		c.free()
		if c.orphan = true; c.alive {
			m.ended(c, "power")
		} else {
			m.drop(c)
		}
	}
	for _, u := range slices.Clone(m.units) {
		u.free()
		u.orphan = true
		if u.alive {
			m.gone(u, true)
		} else {
			m.forget(u)
		}
	}
}

// reapUnits is the reaper's action at its deadline: they were not ordered to stop.
func (m *machine) reapUnits() {
	for _, u := range m.units {
		if u.bound && u.alive {
			u.reaped = true
			m.killUnit(u, m.w.between(0, killWait), true)
		}
	}
}

// clearedIf reports to the agent that no work of its predecessors is left, if so.
func (m *machine) clearedIf() {
	old := slices.ContainsFunc(m.box, func(c *container) bool { return c.alive && c.procs[len(c.procs)-1] != m.proc() })
	if m.cleared || old || slices.ContainsFunc(m.units, func(u *unit) bool { return u.procs[len(u.procs)-1] != m.proc() }) {
		return
	}
	m.on(func() {
		m.cleared = true
		m.cell.Cleared()
	})
}

// disinherit ends the containers that a new process does not adopt and reports whether none is
// left. It takes over hanging ones as stuck: its executor has tried to end them.
func (m *machine) disinherit() (gone bool) {
	gone = true
	for _, c := range slices.Clone(m.box) {
		c.orphan = c.orphan || !c.keep || c.dying || c.extra || c.left
		switch {
		case c.orphan && c.held && c.alive && !c.extra:
			c.orphan, c.deleting, c.dying = false, false, true
			c.inherit(m, func() { m.ended(c, "killed") })
			gone = gone && !c.nameless
		case c.orphan && !c.alive:
			m.drop(c)
		case c.orphan:
			gone = false
			if !c.dying {
				m.end(c, 0)
			}
		}
		c.adopted = true
	}
	for _, u := range m.units {
		switch {
		case u.orphan && u.held && u.alive:
			u.orphan, u.deleting = false, false
			u.inherit(m, func() { m.gone(u, true) })
			gone = gone && !u.nameless
		case u.orphan:
			gone = false
		}
		u.adopted = true
	}
	return gone
}

// adopt passes the existing containers to a process, or to another session of it.
func (m *machine) adopt(proc worker.Proc) {
	for _, c := range m.box {
		if !c.orphan && !c.nameless {
			c.procs = append(c.procs, proc)
		}
	}
	for _, u := range m.units {
		if !u.orphan && !u.nameless {
			u.procs = append(u.procs, proc)
		}
	}
}
