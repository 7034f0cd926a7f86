package sim

import (
	"slices"
	"time"

	"cantina/executor"
)

// grip is the kernel's hold on the processes of a container: while they hang there, nothing
// ends them.
type grip struct {
	held   bool   // they hang: not even KILL ends them
	due    func() // their end, once they are released; nil = they continue
	stuck  bool   // STUCK_KILLING: killed, and not dead
	left   bool   // by an earlier process of the cell, whose successor could not end them
	reaped bool   // by the deadline
	// nameless: left over, and its group does not identify its work.
	nameless bool
	// unseen: the cell was given up by its promise and could not report that they survive. The
	// assumptions of docs/design/safety.md do not hold for them any more.
	unseen bool
}

// waits reports whether an end must wait until the container is released.
func (g *grip) waits(end func()) bool {
	if !g.held {
		return false
	}
	if g.due == nil {
		g.due = end
	}
	return true
}

// free releases it without an end.
func (g *grip) free() { g.held, g.stuck, g.due = false, false, nil }

// condition is an executor's report of it.
func (g *grip) condition() *executor.Stuck {
	if !g.stuck {
		return nil
	}
	return &executor.Stuck{}
}

// inherit makes a container that a new process could not end one of its own.
func (g *grip) inherit(unnamed bool, end func()) {
	g.left, g.stuck, g.nameless = true, true, g.nameless || unnamed
	if g.due == nil {
		g.due = end
	}
}

// letGo: the kernel releases the container; killed processes die now.
func (cs *containers) letGo(g *grip, name string) {
	if !g.held {
		return
	}
	cs.m.w.trace("%s: %s hangs no more", cs.m.name, name)
	due := g.due
	g.free()
	if due != nil {
		due()
	}
}

// stick records that a container was killed and is not dead, and reports it to the agent. The
// machine reboots when it must be dead, if that was configured (--stuck=reboot).
func (cs *containers) stick(g *grip, snapshot func() executor.Container, known func() bool) {
	if g.stuck || !g.held {
		return
	}
	g.stuck = true
	cs.m.w.trace("%s: %s is stuck", cs.m.name, snapshot().ID)
	if known() {
		cs.m.happened(executor.Event{Kind: executor.EventStuck, Container: snapshot()})
	}
	cs.m.mustReboot()
}

// some reports whether a container is alive that passes a test; bound ones end with the cell's credit.
func (cs *containers) some(is func(g *grip, bound, adopted bool) bool) bool {
	return slices.ContainsFunc(cs.units, func(u *unit) bool { return u.alive && is(&u.grip, u.bound, u.adopted) }) ||
		slices.ContainsFunc(cs.box, func(c *container) bool { return c.alive && is(&c.grip, true, c.adopted) })
}

func (cs *containers) anyStuck() bool {
	return cs.some(func(g *grip, _, _ bool) bool { return g.stuck })
}

// unclean: deadline-bound work must be dead and does not die. Nothing is started beside it.
func (cs *containers) unclean() bool {
	past := cs.pastDeadline()
	return cs.some(func(g *grip, bound, adopted bool) bool { return g.stuck && bound && (adopted || past) })
}

// pastDeadline: a deadline that passed stays passed until all that it ended is gone.
func (cs *containers) pastDeadline() bool {
	return cs.m.deadline > 0 && cs.m.local() >= cs.m.deadline || cs.some(func(g *grip, _, _ bool) bool { return g.reaped })
}

// clearing reports whether something of an earlier process is being ended, and something else
// of one does not die.
func (cs *containers) clearing() bool {
	ends := false
	for _, u := range cs.units {
		ends = ends || u.orphan && u.alive && !u.held
	}
	for _, c := range cs.box {
		ends = ends || c.orphan && c.alive && !c.held
	}
	return ends && cs.anyHeld()
}

func (cs *containers) anyHeld() bool {
	return cs.some(func(g *grip, _, _ bool) bool { return g.held })
}

// shutOut: no leader accepts a cell whose promise has passed while some of its work survives; the
// order to end that is repeated.
func (cs *containers) shutOut() bool {
	return cs.some(func(g *grip, _, _ bool) bool { return g.unseen && g.stuck })
}

func (m *machine) mustReboot() {
	boots := m.boots
	m.w.after(time.Second, func() {
		switch {
		case m.boots != boots || !m.up || !m.containers.anyStuck():
		case m.reboots && m.containers.unclean():
			m.reboot(m.w.between(time.Second, 10*time.Second))
		default:
			m.mustReboot()
		}
	})
}
