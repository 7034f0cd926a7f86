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
func (fs *faults) hang(first *machine) bool {
	for i := range fs.w.cfg.Cells {
		m := fs.w.machines[(first.id+i)%fs.w.cfg.Cells]
		all := m.containers.hangable()
		if len(all) == 0 {
			continue
		}
		if fs.w.chance(600) {
			all = all[fs.w.rng.IntN(len(all)):][:1]
		}
		d := fs.w.between(time.Second, 45*time.Second)
		forever := fs.w.chance(300)
		for _, fn := range all {
			fn(d, forever)
		}
		if fs.allowed(KillAgent) && fs.w.chance(400) {
			m.later(fs.w.between(0, 3*time.Second), func() {
				m.crash()
				fs.w.after(fs.w.between(100*time.Millisecond, 5*time.Second), m.startAgent)
			})
		}
		return true
	}
	return false
}

// hangable are the containers that may hang, each as the function that hangs it.
func (cs *containers) hangable() (all []func(d time.Duration, forever bool)) {
	add := func(g *grip, name string, alive func() bool) {
		if g.held {
			return
		}
		all = append(all, func(d time.Duration, forever bool) {
			cs.m.w.trace("%s: %s hangs for %v, for ever %v", cs.m.name, name, d, forever)
			g.held = true
			if !forever {
				cs.m.w.after(d, func() {
					if alive() {
						cs.letGo(g, name)
					}
				})
			}
		})
	}
	for _, u := range cs.units {
		if u.alive {
			add(&u.grip, u.String(), func() bool { return u.alive })
		}
	}
	for _, c := range cs.box {
		if c.alive && !c.extra {
			add(&c.grip, fmt.Sprint(c.run.Work), func() bool { return c.alive })
		}
	}
	return all
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

// inherit makes a container that a new process could not end one of its own.
func (g *grip) inherit(unnamed bool, end func()) {
	g.left, g.stuck, g.nameless = true, true, g.nameless || unnamed
	if g.due == nil {
		g.due = end
	}
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

// mostConditions is how many conditions a cell reports, besides those of work that it is ending.
const mostConditions = 20

// sticksShown: a cell identifies its stuck work, and reports that it takes no work.
func (cs *containers) sticksShown(s cell.State) {
	shown := func(is func(c cell.Condition) bool) {
		if s.State.Unavailable == "" || len(s.Conditions) < mostConditions && !slices.ContainsFunc(s.Conditions, is) {
			cs.m.w.fail("contract", "%s has a container that does not die and says %q, %v", cs.m.name, s.State.Unavailable,
				s.Conditions)
		}
	}
	for _, u := range cs.units {
		if u.stuck && !u.orphan {
			shown(func(c cell.Condition) bool {
				return u.nameless || u.uid != "" && c.Task == u.guid || u.uid == "" && c.Instance == u.id
			})
		}
	}
	for _, k := range cs.box {
		if k.stuck && !k.orphan {
			shown(func(c cell.Condition) bool { return k.nameless || c.Job == k.run.Work.Job && c.Node == k.run.Work.Node })
		}
	}
}

// calmStuck: after the faults hanging containers are released, except sometimes on one machine,
// where they hang until the end. Then the other machines have more capacity.
func (fs *faults) calmStuck() {
	if fs.w.cfg.Cells > 1 && fs.w.cfg.Schedules == 0 && fs.w.chance(400) {
		for _, m := range fs.w.machines[:fs.w.cfg.Cells] {
			if m.containers.anyHeld() && !m.containers.unnamed {
				fs.stays = m
				break
			}
		}
	}
	for _, m := range fs.w.machines {
		if m == fs.stays {
			continue
		}
		for _, u := range m.containers.units {
			fs.w.after(fs.w.between(0, 10*time.Second), func() { m.containers.letGo(&u.grip, u.String()) })
		}
		for _, c := range m.containers.box {
			fs.w.after(fs.w.between(0, 10*time.Second), func() { m.containers.letGo(&c.grip, fmt.Sprint(c.run.Work)) })
		}
	}
}

// shutOut: no leader accepts a cell whose promise has passed while some of its work survives; the
// order to end that is repeated.
func (cs *containers) shutOut() bool {
	return cs.some(func(g *grip, _, _ bool) bool { return g.unseen && g.stuck })
}

func (cs *containers) anyHeld() bool {
	return cs.some(func(g *grip, _, _ bool) bool { return g.held })
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
		return slices.ContainsFunc(m.containers.box, func(k *container) bool { return k.stuck && is(k) })
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
		return slices.ContainsFunc(m.containers.units, func(u *unit) bool { return u.stuck && is(u) })
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
		return !slices.ContainsFunc(all, func(v worker.SessionView) bool {
			return v.Proc == last && (v.Member || v.Reported)
		})
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

// couldHaveSaid is couldSay at the time when a process was declared dead: the news waits for its commit.
func couldHaveSaid(r *leadership, m *machine, dead worker.Proc) bool {
	return couldSay(r, m) && !slices.Contains(r.silentAt[dead], m)
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
