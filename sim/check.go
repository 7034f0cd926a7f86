package sim

import (
	"slices"

	"cantina/fence"
	"cantina/registry"
	"cantina/worker"
	"cantina/workerset"
)

func newChecker() checker {
	return checker{live: map[worker.Work]*container{}, byHost: map[string]int{}, hosts: map[fence.Invocation]string{},
		uids:    map[fence.Invocation]string{},
		invoked: map[fence.Invocation]bool{}, launches: map[fence.Invocation]bool{}, own: map[fence.Invocation]string{},
		members: map[worker.Proc]bool{}, jobs: newJobCheck(), work: newWorkCheck()}
}

// launched: I2, an invocation starts once, one of a work at a time; I4 on the
// nodes; and a process that takes work is on the list.
func (c *checker) launched(w *world, k *container) {
	w.res.Launches++
	if c.launches[k.run.Invocation] {
		w.fail("I2", "invocation %v starts a second time", k.run.Invocation)
	}
	c.launches[k.run.Invocation] = true
	if o := c.live[k.run.Work]; o != nil {
		w.fail("I2", "%v starts on %s as %v while %v is alive on %s", k.run.Work, k.m.dir, k.run.Invocation, o.run.Invocation,
			o.m.dir)
	}
	c.live[k.run.Work] = k
	c.all = append(c.all, k)
	if h := c.hosts[k.run.Invocation]; h != "" {
		if c.byHost[h]++; c.byHost[h] > hostLimit {
			w.fail("I4", "%d batch tasks on %s", c.byHost[h], h)
		}
	}
	proc := k.procs[0]
	if _, ok := w.store.rows[registry.MemberRow(proc)]; !ok && k.run.Invocation.Term.Epoch == w.store.epoch {
		w.fail("I2", "process %s takes work and is not on the list", proc)
	}
}

func (c *checker) ended(k *container) {
	if c.live[k.run.Work] == k {
		delete(c.live, k.run.Work)
	}
	if h := c.hosts[k.run.Invocation]; h != "" {
		c.byHost[h]--
		delete(c.hosts, k.run.Invocation)
	}
	c.all = slices.DeleteFunc(c.all, func(o *container) bool { return o == k })
}

// dead: I6, no work of a process declared dead is alive. Exceptions: work that a later process of
// its directory adopted and the leader assigns to that one, or waits for its report. A deposed
// leader does not count: it can commit nothing, and the cells refuse its calls.
func (c *checker) dead(w *world, r *leadership, d worker.Dead) {
	if r.term != w.store.term {
		return
	}
	for _, k := range slices.Clone(c.all) {
		if !slices.Contains(k.procs, d.Proc) || k.extra && k.procs[len(k.procs)-1] != d.Proc {
			continue
		}
		moved := awaited(r, d.Proc, k.procs[len(k.procs)-1]) ||
			slices.ContainsFunc(r.leader.Running(k.run.Work), func(v worker.RunView) bool {
				return v.Run == k.run && v.Proc != d.Proc && (!v.Ending || r.leader.IsDead(v.Proc)) // its death is next
			})
		if !moved && k.stuck && d.Proof == worker.ProofExpiry && !couldHaveSaid(r, k.m, d.Proc) {
			c.lostSight(k)
		} else if !moved {
			w.fail("I6", "process %s is declared dead (%v) while %v %v is alive; the leader has %+v", d.Proc, d.Proof,
				k.run.Work, k.run.Invocation, r.leader.Running(k.run.Work))
		}
	}
	c.deadUnits(w, r, d)
	m := w.byProc[d.Proc]
	if d.Proof == worker.ProofExpiry && m.alive && m.paused <= w.now && m.agent.Proc() == d.Proc &&
		m.agent.Accepts(m.local()) == nil {
		w.fail("I6", "process %s is declared dead and accepts work", d.Proc)
	}
}

// awaited reports whether the leader starts nothing known before the last holder of a container, a
// later process than the dead one, has reported or is dead itself.
func awaited(r *leadership, dead, last worker.Proc) bool {
	return last != dead && slices.ContainsFunc(r.leader.Sessions(r.s.local()), func(v worker.SessionView) bool {
		return v.Proc == last && v.Member && !v.Reported && !v.Dead
	})
}

// committed: one version of the list names one set.
func (c *checker) committed(w *world, ops []op) {
	touched := false
	for _, o := range ops {
		proc, ok := memberOf(o.key)
		was := c.members[proc]
		switch {
		case o.key == registry.ListRow:
			touched = true
		case ok && o.val != nil && !was:
			c.members[proc] = true
			c.sum, touched = c.sum.Add(string(proc)), true
		case ok && o.val == nil && was:
			delete(c.members, proc)
			c.sum, _ = c.sum.Remove(string(proc))
			touched = true
		}
	}
	if touched && w.store.list().Hash != c.sum {
		w.fail("I8", "the list's hash is not that of the members: a transition was split")
	}
}

// reset follows a restore of the store.
func (c *checker) reset(s *storage) {
	c.wentBack(s.w)
	c.sum, c.members = workerset.Hash{}, map[worker.Proc]bool{}
	for k := range s.rows {
		if proc, ok := memberOf(k); ok {
			c.members[proc] = true
			c.sum = c.sum.Add(string(proc))
		}
	}
}
