package sim

import (
	"fmt"
	"slices"
	"time"

	"cantina/lrp"
	"cantina/resource"
	"cantina/task"
	"cantina/worker"
)

// unit is a container of a service's instance or of a task on a machine: what an
// executor knows of it. Its processes are alive from begin until they are gone.
type unit struct {
	m         *machine
	id        string // instance id, or "t-" and the uid
	key       lrp.Key
	service   lrp.ServiceKey
	exclusive bool
	guid, uid string // of a task
	bound     bool   // ends with its cell's credit
	keep      bool   // survives its agent
	need      resource.Amounts
	state     unitState
	procs     []worker.Proc // who owned it, in order
	alive     bool          // it has processes
	orphan    bool          // no agent knows it: it is being ended
	asked     bool          // told to stop
	deleting  bool
	notReady  bool // its readiness check fails
	failed    bool
	reason    string // why, when an agent ended it for a reason of its own
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

// lrpState and taskState are the states as the tables tell them apart.
func (u *unit) lrpState() lrp.Container {
	switch {
	case u.state == reserved:
		return lrp.Reserved
	case u.state == starting:
		return lrp.Starting
	case u.state == up:
		return lrp.Up
	case u.asked:
		return lrp.CompletedShutdown
	}
	return lrp.CompletedCrashed
}

func (u *unit) taskState() task.Container {
	switch u.state {
	case reserved:
		return task.Reserved
	case completed:
		return task.Done
	}
	return task.Live
}

// capacity is what every cell offers to services and tasks: fewer cells have more
// room, so that all that customers ask for fits in the end.
func (w *world) capacity() resource.Amounts {
	share := max(1, (3+w.cfg.Cells-1)/w.cfg.Cells)
	return resource.Amounts{"memory_mb": 500 * share, resource.Containers: 12 * share}
}

// used is what the containers that the agent knows take.
func (m *machine) used() resource.Amounts {
	sum := resource.Amounts{}
	for _, u := range m.units {
		if !u.orphan {
			sum = sum.Add(u.need)
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

func (m *machine) pastDeadline() bool { return m.deadline > 0 && m.local() >= m.deadline }

// reserveUnit claims room; an empty reason means that it has it, or had it already.
func (m *machine) reserveUnit(u *unit) (reason string, full bool) {
	switch {
	case m.unit(u.id) != nil:
		return "", false
	case u.bound && m.pastDeadline():
		return "the deadline has passed", false
	case len(m.w.capacity().Sub(m.used()).Lacking(u.need)) > 0:
		return "insufficient resources", true
	}
	u.m, u.procs, u.made = m, []worker.Proc{m.proc()}, m.w.store.made
	m.units = append(m.units, u)
	return "", false
}

// beginUnit starts the processes of a reserved container. It reports false when that cannot be.
func (m *machine) beginUnit(u *unit) bool {
	if u.state != reserved || u.asked {
		return false
	}
	w := m.w
	if u.bound && m.pastDeadline() {
		m.complete(u)
		return true
	}
	u.state, u.alive, u.began = starting, true, w.now
	w.check.began(w, u)
	w.trace("%s: %v starts", m.name, u)
	w.after(w.between(5*time.Millisecond, 400*time.Millisecond), func() {
		if u.alive && u.state == starting {
			u.state = up
			m.told(u)
			w.live(u)
		}
	})
	return true
}

// live decides how a container that is up goes on.
func (w *world) live(u *unit) {
	if u.uid != "" {
		d := w.between(100*time.Millisecond, 8*time.Second)
		if !w.calm && w.chance(200) {
			d = w.between(5*time.Second, 40*time.Second)
		}
		if !w.calm && w.chance(60) {
			return // ends only when it is told to
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
		m.told(u)
	}
}

// told has the agent look at a container.
func (m *machine) told(u *unit) {
	m.on(func() {
		if m.rep != nil && !u.orphan {
			m.rep.look(u)
		}
	})
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
	m.w.after(d, func() { m.gone(u, false) })
}

func (m *machine) grace() time.Duration { return m.w.between(0, 2*time.Second) }

// deleteUnit stops a container and forgets it when nothing of it is left.
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
	if !u.alive {
		return
	}
	u.alive, u.failed = false, failed
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
	m.counted()
	m.told(u)
}

func (m *machine) forget(u *unit) {
	m.units = slices.DeleteFunc(m.units, func(o *unit) bool { return o == u })
	m.counted()
}

// disown is what becomes of the containers when the agent's process is gone: the
// reaper ends what may not outlive it.
func (m *machine) disown(all bool) {
	for _, u := range slices.Clone(m.units) {
		switch kept := u.keep && !all && !u.asked; {
		case u.orphan:
		case kept && (u.state == up || u.state == completed):
		case u.alive:
			u.orphan = true
			m.w.after(m.w.between(0, killWait), func() { m.gone(u, true) })
		default:
			m.units = slices.DeleteFunc(m.units, func(o *unit) bool { return o == u })
		}
	}
}

// adoptUnits hands what is left to a new process, and reports whether everything else is gone.
func (m *machine) adoptUnits(proc worker.Proc) bool {
	gone := true
	for _, u := range m.units {
		if u.orphan {
			gone = false
		} else {
			u.procs = append(u.procs, proc)
		}
	}
	return gone
}

// losePower ends everything at once.
func (m *machine) losePower() {
	for _, u := range slices.Clone(m.units) {
		u.orphan = true
		if u.alive {
			m.gone(u, true)
		} else {
			m.forget(u)
		}
	}
}

// endUnits ends the deadline-bound containers, or all.
func (m *machine) endUnits(all bool, grace time.Duration) {
	for _, u := range slices.Clone(m.units) {
		if u.bound || all {
			m.stopUnit(u, m.w.between(0, grace)+m.w.between(0, killWait))
		}
	}
}

// reapUnits is what the reaper does at its deadline: nobody told them to stop.
func (m *machine) reapUnits() {
	for _, u := range m.units {
		if u.bound && u.alive {
			m.w.after(m.w.between(0, killWait), func() { m.gone(u, true) })
		}
	}
}

// boundUnits counts the deadline-bound containers of the session; a leaving cell
// counts all that does not outlive it.
func (m *machine) boundUnits() int {
	n := 0
	for _, u := range m.units {
		live := u.state != completed
		if !u.orphan && (u.bound && live || m.leaving && !u.keep) {
			n++
		}
	}
	return n
}

// clearedIf tells the agent that nothing of its predecessors is left, if so.
func (m *machine) clearedIf() {
	old := slices.ContainsFunc(m.live(), func(c *container) bool { return c.procs[len(c.procs)-1] != m.proc() })
	if old || slices.ContainsFunc(m.units, func(u *unit) bool { return u.procs[len(u.procs)-1] != m.proc() }) {
		return
	}
	m.on(func() { m.cleared = true; m.step(worker.PredecessorsCleared{}) })
}

// leave is an orderly end: what does not outlive the agent is stopped, and when
// nothing is left it says farewell.
func (m *machine) leave() {
	m.leaving = true
	if m.rep != nil {
		m.counted()
	}
	m.step(worker.FarewellAsked{})
	for _, u := range slices.Clone(m.units) {
		if !u.keep && !u.orphan {
			u.reason = "its cell was shut down"
			m.stopUnit(u, m.grace())
		}
	}
	if m.rep != nil {
		m.later(leaveBound, m.exit) // without a farewell
	}
}

// leaveBound is how long an orderly end may last where services may go on for ever.
const leaveBound = 10 * time.Second
