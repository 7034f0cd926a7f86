package sim

import (
	"slices"

	"cantina/cell"
	"cantina/worker"
)

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

// mostConditions is how many conditions a cell reports, besides those of work that it is ending.
const mostConditions = 20
