package sim

import (
	"slices"

	"cantina/lrp"
	"cantina/worker"
)

// sessionChanged checks the board's rows after a change of a session.
func (b *board) sessionChanged(e worker.SessionChanged) {
	name, proc := string(e.Cell), string(e.Proc)
	switch {
	case e.To == worker.Healthy:
		b.heeded(proc, lrp.CellHealthy{Cell: name, Proc: proc})
	case e.To == worker.Unhealthy && e.From == worker.Healthy && e.WasHealthy:
		b.heeded(proc, lrp.CellUnhealthy{Cell: name, Proc: proc})
	case e.To == worker.MustDie && !e.Succeeded:
		b.heeded(proc, lrp.CellMustDie{Cell: name, Proc: proc})
	}
}

// heeded: the contract of a session's event holds right after it.
func (b *board) heeded(proc string, e lrp.Event) {
	w := b.r.s.w
	if b.r.over {
		return
	}
	all := b.r.work()
	if _, dead := e.(lrp.ProcDead); dead {
		// The death of its holder counts as the end of a cancelled task (schedule.OfTask); for a task
		// that was to continue without its cell there is no better evidence.
		for _, t := range all.tasks {
			if u := w.check.work.running[t.UID]; u != nil && u.bound && t.Ending() && t.Holder.Proc == proc &&
				b.r.term == w.store.term {
				w.fail("I12", "%s is dead, and %s, of which %v is alive on %s, is still on it", proc, describeTask(t), u, u.m.dir)
			}
		}
	}
	for _, x := range all.indices {
		k := x.Key
		if !slices.ContainsFunc(x.Rows(), func(a *lrp.Actual) bool { return a.Proc == proc }) || b.r.frozen(x) {
			continue
		}
		switch e.(type) {
		case lrp.CellHealthy:
			if slices.ContainsFunc(x.Rows(), func(a *lrp.Actual) bool { return a.OnProc(proc) && a.Unheard }) {
				w.fail("contract", "%s is HEALTHY and counts as not heard of for %v", proc, k)
			}
			if x.Suspect.OnProc(proc) {
				w.fail("contract", "%s is HEALTHY and %v is suspect on it", proc, k)
			}
		case lrp.CellUnhealthy:
			if o := x.Ordinary; o.OnProc(proc) && !o.Exclusive && !o.Retiring && all.wants(k) {
				w.fail("contract", "%s is UNHEALTHY and %v is still on it: %s", proc, k, describe(x))
			}
		case lrp.CellUnheard:
			for _, a := range x.Rows() {
				if a.OnProc(proc) && !a.Exclusive && a.Serves() {
					w.fail("contract", "%s is not heard of and traffic still goes to %v: %s", proc, k, describe(x))
				}
			}
		case lrp.CellMustDie:
			if o := x.Ordinary; !o.OnProc(proc) || !o.Exclusive {
				w.fail("contract", "%s was given up and %v is still on it: %s", proc, k, describe(x))
			}
		case lrp.ProcDead:
			w.fail("contract", "%s is dead and %v is still on it: %s", proc, k, describe(x))
		}
	}
}
