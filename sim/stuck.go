package sim

import (
	"fmt"
	"slices"
	"time"

	"cantina/cell"
	"cantina/executor"
	"cantina/worker"
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

// hang makes some or all running work on a machine hang in the kernel, for a time or until the
// machine reboots.
func (w *world) hang(first *machine) bool {
	for i := range w.cfg.Cells {
		m := w.machines[(first.id+i)%w.cfg.Cells]
		all := m.hangable()
		if len(all) == 0 {
			continue
		}
		if w.chance(600) {
			all = all[w.rng.IntN(len(all)):][:1]
		}
		d := w.between(time.Second, 45*time.Second)
		forever := w.chance(300)
		for _, fn := range all {
			fn(d, forever)
		}
		if w.allowed(KillAgent) && w.chance(400) {
			m.later(w.between(0, 3*time.Second), func() {
				m.crash()
				w.after(w.between(100*time.Millisecond, 5*time.Second), m.startAgent)
			})
		}
		return true
	}
	return false
}

// hangable are the containers that may hang, each as the function that hangs it.
func (m *machine) hangable() (all []func(d time.Duration, forever bool)) {
	add := func(g *grip, name string, alive func() bool) {
		if g.held {
			return
		}
		all = append(all, func(d time.Duration, forever bool) {
			m.w.trace("%s: %s hangs for %v, for ever %v", m.name, name, d, forever)
			g.held = true
			if !forever {
				m.w.after(d, func() {
					if alive() {
						m.letGo(g, name)
					}
				})
			}
		})
	}
	for _, u := range m.units {
		if u.alive {
			add(&u.grip, u.String(), func() bool { return u.alive })
		}
	}
	for _, c := range m.box {
		if c.alive && !c.extra {
			add(&c.grip, fmt.Sprint(c.run.Work), func() bool { return c.alive })
		}
	}
	return all
}

// letGo: the kernel releases the container; killed processes die now.
func (m *machine) letGo(g *grip, name string) {
	if !g.held {
		return
	}
	m.w.trace("%s: %s hangs no more", m.name, name)
	due := g.due
	g.free()
	if due != nil {
		due()
	}
}

// stick records that a container was killed and is not dead, and reports it to the agent. The
// machine reboots when it must be dead, if that was configured (--stuck=reboot).
func (m *machine) stick(g *grip, snapshot func() executor.Container, known func() bool) {
	if g.stuck || !g.held {
		return
	}
	g.stuck = true
	m.w.trace("%s: %s is stuck", m.name, snapshot().ID)
	if known() {
		m.happened(executor.Event{Kind: executor.EventStuck, Container: snapshot()})
	}
	m.mustReboot()
}

func (m *machine) mustReboot() {
	boots := m.boots
	m.w.after(time.Second, func() {
		switch {
		case m.boots != boots || !m.up || !m.anyStuck():
		case m.reboots && m.unclean():
			m.reboot(m.w.between(time.Second, 10*time.Second))
		default:
			m.mustReboot()
		}
	})
}

// each calls f for every container that is alive; bound ones end with the cell's credit.
func (m *machine) each(f func(g *grip, bound, adopted bool)) {
	for _, u := range m.units {
		if u.alive {
			f(&u.grip, u.bound, u.adopted)
		}
	}
	for _, c := range m.box {
		if c.alive {
			f(&c.grip, true, c.adopted)
		}
	}
}

func (m *machine) anyStuck() (any bool) {
	m.each(func(g *grip, _, _ bool) { any = any || g.stuck })
	return any
}

// unclean: deadline-bound work must be dead and does not die. Nothing is started beside it.
func (m *machine) unclean() (is bool) {
	past := m.pastDeadline()
	m.each(func(g *grip, bound, adopted bool) { is = is || g.stuck && bound && (adopted || past) })
	return is
}

// pastDeadline: a deadline that passed stays passed until all that it ended is gone.
func (m *machine) pastDeadline() bool {
	past := m.deadline > 0 && m.local() >= m.deadline
	m.each(func(g *grip, _, _ bool) { past = past || g.reaped })
	return past
}

// inherit makes a container that a new process could not end one of its own.
func (g *grip) inherit(m *machine, end func()) {
	g.left, g.stuck, g.nameless = true, true, g.nameless || m.unnamed
	if g.due == nil {
		g.due = end
	}
}

// clearing reports whether something of an earlier process is being ended, and something else
// of one does not die.
func (m *machine) clearing() bool {
	ends, hangs := false, false
	m.each(func(g *grip, _, _ bool) { hangs = hangs || g.held })
	for _, u := range m.units {
		ends = ends || u.orphan && u.alive && !u.held
	}
	for _, c := range m.box {
		ends = ends || c.orphan && c.alive && !c.held
	}
	return ends && hangs
}

// sticksShown: a cell identifies its stuck work, and reports that it takes no work.
func (m *machine) sticksShown(s cell.State) {
	shown := func(is func(c cell.Condition) bool) {
		if s.State.Unavailable == "" || !slices.ContainsFunc(s.Conditions, is) {
			m.w.fail("contract", "%s has a container that does not die and says %q, %v", m.name, s.State.Unavailable, s.Conditions)
		}
	}
	for _, u := range m.units {
		if u.stuck && !u.orphan {
			shown(func(c cell.Condition) bool {
				return u.nameless || u.uid != "" && c.Task == u.guid || u.uid == "" && c.Instance == u.id
			})
		}
	}
	for _, k := range m.box {
		if k.stuck && !k.orphan {
			shown(func(c cell.Condition) bool { return k.nameless || c.Job == k.run.Work.Job && c.Node == k.run.Work.Node })
		}
	}
}

// calmStuck: after the faults hanging containers are released, except sometimes on one machine,
// where they hang until the end. Then the other machines have more capacity.
func (w *world) calmStuck() {
	if w.cfg.Cells > 1 && w.cfg.Schedules == 0 && w.chance(400) {
		for _, m := range w.machines[:w.cfg.Cells] {
			if m.anyHeld() && !m.unnamed {
				w.stays = m
				break
			}
		}
	}
	for _, m := range w.machines {
		if m == w.stays {
			continue
		}
		for _, u := range m.units {
			w.after(w.between(0, 10*time.Second), func() { m.letGo(&u.grip, u.String()) })
		}
		for _, c := range m.box {
			w.after(w.between(0, 10*time.Second), func() { m.letGo(&c.grip, fmt.Sprint(c.run.Work)) })
		}
	}
}

// shutOut: no leader accepts a cell whose promise has passed while some of its work survives; the
// order to end that is repeated.
func (m *machine) shutOut() (is bool) {
	m.each(func(g *grip, _, _ bool) { is = is || g.unseen && g.stuck })
	return is
}

func (m *machine) anyHeld() (any bool) {
	m.each(func(g *grip, _, _ bool) { any = any || g.held })
	return any
}

// stuckWork reports whether a batch task waits for one that does not die: the same work, or
// one that draws on the same node with a limit, by any definition that its job has had.
func (w *world) stuckWork(work worker.Work, host string) bool {
	jobs := &w.check.jobs
	return w.stuckBatch(func(k *container) bool {
		for uid, name := range jobs.names {
			if name == k.run.Work.Job && host != "" && jobs.host(uid, k.run.Work.Node) == host {
				return true
			}
		}
		return k.run.Work == work
	})
}

// stuckBatch finds a container of a batch task that does not die.
func (w *world) stuckBatch(is func(k *container) bool) bool {
	return slices.ContainsFunc(w.machines, func(m *machine) bool {
		return slices.ContainsFunc(m.box, func(k *container) bool { return k.stuck && is(k) })
	})
}

// jobGone reports whether the job of a batch container was removed, or created again since.
func (w *world) jobGone(k *container) bool {
	j := w.check.jobs.jobs[k.run.Work.Job]
	return j == nil || j.Deleted || j.UID != k.labels["job_uid"]
}

// stuckUnit finds a container of a service or task that does not die.
func (w *world) stuckUnit(is func(u *unit) bool) bool {
	return slices.ContainsFunc(w.machines, func(m *machine) bool {
		return slices.ContainsFunc(m.units, func(u *unit) bool { return u.stuck && is(u) })
	})
}

// waitOver: for a store that went back, whose list proves nothing, the end of the wait is the
// expiry of every process that is on no list and has not reported.
func (c *checker) waitOver(r *leadership) {
	if r.s.w.store.made == 0 {
		return
	}
	all := r.leader.Sessions(r.s.local())
	silent := func(procs []worker.Proc) bool {
		last := procs[len(procs)-1]
		return !slices.ContainsFunc(all, func(v worker.SessionView) bool { return v.Proc == last && (v.Member || v.Reported) })
	}
	for _, k := range slices.Clone(c.all) {
		if k.stuck && silent(k.procs) {
			c.lostSight(k)
		}
	}
	for _, u := range slices.Clone(c.work.units) {
		if u.stuck && u.bound && silent(u.procs) {
			c.lostSightOf(u)
		}
	}
}

// couldSay reports whether a machine's process has reported to a leader that has not given it up:
// then it has reported the stuck work, or that some exists.
func couldSay(r *leadership, m *machine) bool {
	return slices.ContainsFunc(r.leader.Sessions(r.s.local()), func(v worker.SessionView) bool {
		return v.Proc == m.proc() && v.Reported && !v.Dead && v.State != worker.MustDie
	})
}

// lostSight: a process is dead by its promise, and a container of it survives that no cell could
// report in time.
func (c *checker) lostSight(k *container) {
	k.unseen = true
	c.ended(k)
}

func (c *checker) lostSightOf(u *unit) {
	u.unseen = true
	c.ceased(u)
}
