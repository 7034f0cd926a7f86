package sim

import (
	"slices"
	"time"

	"cantina/batch"
	"cantina/lrp"
	"cantina/plan"
	"cantina/resource"
	"cantina/task"
)

// longest is K, how long actual may differ from desired after the faults: the longest expiry in force, three
// heartbeats, two passes of convergence over everything, the longest pending backoff, and how long a
// container takes that was started before.
func (w *world) longest() time.Duration {
	t := w.faults.timeouts()
	expiry := t.MaxDiesWithin + t.MaxDiesWithin*time.Duration(t.DriftPerMille)/1000 + t.Margin
	return expiry + 3*t.Heartbeat + 2*fullPass + maxBackoff + 40*time.Second
}

// quiet: I14 of services and tasks. After the faults every desired index is RUNNING exactly once,
// no other work is alive, no task waits, and convergence finds no work. Stuck work is excused, and
// work that waits for exactly that.
func (c *checker) quiet(w *world, b *board) {
	all, now := w.store.work(), b.now()
	for _, x := range all.services {
		c.serviceQuiet(w, x)
	}
	for _, x := range all.indices {
		ofIt := func(u *unit) bool {
			return slices.ContainsFunc(x.Rows(), func(a *lrp.Actual) bool { return a.Instance == u.id })
		}
		if !all.wants(x.Key) && !w.stuckUnit(ofIt) {
			w.fail("I14", "%s is not wanted", describe(x))
		}
	}
	kept := 0
	for _, t := range all.tasks {
		hangs := w.stuckUnit(func(u *unit) bool { return u.uid == t.UID })
		if t.State == task.Completed && !t.Unresolved() && !(t.Ending() && (hangs || t.MayStillRun)) {
			kept++
		}
		if done := t.Callback.Delivered || t.Callback.Dead || t.Definition.CallbackURL == ""; t.State == task.Completed &&
			!done && now.Sub(t.Callback.Next) > fullPass {
			w.fail("I14", "no callback reported the end of %s %s: %+v", t.GUID, describeTask(t), t.Callback)
		}
		if t.State == task.Pending || t.State == task.Running && !hangs {
			w.fail("I14", "task %s is still %s", t.GUID, describeTask(t))
		}
		if t.State == task.Resolving && now.Sub(t.Updated) > 2*taskPolicy().StuckResolving {
			w.fail("I14", "task %s is still %s", t.GUID, describeTask(t))
		}
	}
	if kept > keepTasks {
		w.fail("I14", "%d ended tasks are kept, not %d", kept, keepTasks)
	}
	for _, m := range w.machines {
		for _, u := range m.containers.units {
			out := m.containers.shutOut() || u.state == completed && !couldSay(b.r, m) // another machine has its name
			if !named(w, u) && !u.stuck && !out {
				w.fail("I14", "no row names %v on %s (state %d, orphan %v)", u, m.dir, u.state, u.orphan)
			}
		}
	}
	c.ledgerQuiet(w, b, all)
	out, moves := b.Unconverged()
	// The order to stop stuck work is repeated, and the request to place an instance beside it.
	out.Moves = slices.DeleteFunc(out.Moves, func(m lrp.Move) bool {
		v := all.versions[m.Key.Process]
		return w.stuckUnit(func(u *unit) bool {
			return u.uid == "" && (u.key == m.Key || v != nil && u.service == v.Desired.Service && u.key.Index == m.Key.Index)
		})
	})
	if !out.Empty() || due(moves) {
		w.fail("I14", "convergence still wants %+v and %+v", out, moves)
	}
}

// quiesce checks I14 of services and tasks K after the faults; a calm that is shorter
// would check nothing.
func (w *world) quiesce() {
	k := w.longest()
	if w.cfg.Calm < k {
		w.fail("setup", "%v of calm are less than K = %v", w.cfg.Calm, k)
	}
	w.after(k, func() {
		if r := w.leading(); r != nil {
			w.check.quiet(w, r.board)
		} else {
			w.fail("I14", "no leader %v after the faults", k)
		}
	})
}

// due reports whether a move is there that does not come from time alone.
func due(moves []task.Move) bool {
	return slices.ContainsFunc(moves, func(m task.Move) bool {
		switch m.Event.(type) {
		case task.Prune, task.KickCallback, task.Demote:
			return false
		}
		return true
	})
}

func (c *checker) serviceQuiet(w *world, s *lrp.Service) {
	k := s.Key
	stuck := w.stuckUnit(func(u *unit) bool { return u.uid == "" && u.service == k }) // its rollout or removal waits
	if s.Removed && stuck {
		return
	}
	if s.Removed {
		w.fail("I14", "%v is removed and still there", k)
		return
	}
	resting := false
	for i := range s.Versions {
		v := &s.Versions[i]
		for n := v.Low; n < v.High; n++ {
			x := w.store.index(lrp.Key{Process: v.Process, Index: n})
			o := x.Ordinary
			if w.stuckUnit(func(u *unit) bool { return u.uid == "" && u.service == k && u.key.Index == n }) {
				continue // it is stopped, or waits for stuck work
			}
			if o != nil && o.State == lrp.Crashed && o.Finished {
				resting = true // its work is done
				continue
			}
			if o == nil || o.State != lrp.Running || x.Evacuating != nil || x.Suspect != nil || o.Retiring && !stuck {
				w.fail("I14", "%v %s is wanted", k, describe(x))
				continue
			}
			if !slices.ContainsFunc(c.work.units, func(u *unit) bool {
				return u.id == o.Instance && string(u.m.name) == o.Cell
			}) {
				w.fail("I14", "%v %s has no container", k, describe(x))
			}
		}
	}
	if !resting && !stuck && (s.Phase != lrp.Steady && s.Phase != lrp.RollFailed || len(s.Versions) > 1 &&
		s.Phase == lrp.Steady) {
		w.fail("I14", "%v is %v with %d versions", k, s.Phase, len(s.Versions))
	}
}

// named reports whether a row requires the container.
func named(w *world, u *unit) bool {
	if u.uid == "" {
		who := lrp.Identity{Instance: u.id, Cell: string(u.m.name)}
		return w.store.index(u.key).Ordinary.Is(who) && u.alive
	}
	t := w.store.task(u.guid)
	return t != nil && t.UID == u.uid && t.Unresolved() && t.MayStillRun && u.alive
}

// ledgerQuiet: the ledger's allocations agree with the rows.
func (c *checker) ledgerQuiet(w *world, b *board, all *rows) {
	want := map[string]resource.Amounts{}
	for _, x := range all.indices {
		if v := all.versions[x.Key.Process]; v != nil {
			for _, a := range x.Rows() {
				if a.Instance != "" {
					want[a.Cell] = want[a.Cell].Add(need(v.Desired.Workload.Resources))
				}
			}
		}
	}
	for _, j := range b.r.sched.Jobs(plan.NameFilter{}, "", 0) {
		nodes,
			err := b.r.sched.JobNodes(j.Name, batch.NodeFilter{Classes: []batch.Class{batch.ClassRunning, batch.ClassBlocked}})
		if err != nil {
			continue // it is being removed, or cannot be read
		}
		for _, p := range nodes {
			if p.Cell == "" {
				continue // it waits for another job
			}
			want[p.Cell] = want[p.Cell].Add(need(j.Resources[batch.LevelWorker]))
		}
	}
	for _, v := range b.r.leads.Auctioneer.Cells() {
		w.trace("ledger %+v", v)
		if w.stuckBatch(func(k *container) bool { return string(k.m.name) == v.Name && w.jobGone(k) }) {
			continue // it is allocated, and no row has its amounts
		}
		if !v.Used.Equal(want[v.Name]) || v.InFlight > 0 {
			w.fail("I4", "the ledger has %v on %s (%d in flight), the rows %v", v.Used, v.Name, v.InFlight, want[v.Name])
		}
	}
}
