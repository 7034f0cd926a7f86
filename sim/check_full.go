package sim

import (
	"cantina/worker"
	"cantina/workerset"
)

// full recomputes the incremental data of the checks above.
func (c *checker) full(w *world) {
	live := map[worker.Work]int{}
	for _, m := range w.machines {
		for _, k := range m.containers.box {
			if k.extra || !k.alive || k.unseen {
				continue
			}
			if live[k.run.Work]++; live[k.run.Work] > 1 {
				w.fail("I2", "%v is alive twice", k.run.Work)
			}
			if c.live[k.run.Work] != k {
				w.fail("checker", "%v is alive and not known", k.run.Work)
			}
		}
	}
	if len(live) != len(c.live) {
		w.fail("checker", "%d works alive, %d known", len(live), len(c.live))
	}
	sum := workerset.Hash{}
	for k := range w.store.rows {
		if proc, ok := memberOf(k); ok {
			sum = sum.Add(string(proc))
		}
	}
	if sum != c.sum {
		w.fail("checker", "member rows and their running hash differ")
	}
	c.jobs.recount(w)
	if w.boards() {
		c.fullWork(w)
	}
	leaders := 0
	for _, s := range w.servers {
		if s.leadership != nil && s.alive && s.leadership.term == w.store.term {
			leaders++
		}
	}
	if leaders > 1 {
		w.fail("I8", "two leaders of one term")
	}
}

// liveness: I14, after the faults everything wanted has run.
func (c *checker) liveness(w *world) {
	r := w.leading()
	if r == nil {
		w.fail("I14", "no leader %v after the faults", w.cfg.Calm)
		return
	}
	w.plans.liveness(r)
	r.promised()
	now := r.s.local()
	if v := r.leader.Wait(now); v.Active {
		w.fail("I14", "still waiting for %v", v.For)
	}
	c.jobsQuiet(w, r)
	for i := range w.cfg.Cells {
		v, ok := r.leader.Session(now, w.machines[i].name)
		if fine := ok && v.State == worker.Healthy && v.Eligible; !fine && !w.machines[i].containers.shutOut() {
			w.fail("I14", "%s is %+v", w.machines[i].name, v)
		}
	}
	for _, v := range r.leader.Sessions(now) {
		if v.Unsure > 0 {
			w.fail("I14", "%d invocations of %s are still unsure", v.Unsure, v.Cell)
		}
		if v.Member && !v.Holder && v.Promise > 0 {
			w.fail("I14", "%+v is still on the list", v)
		}
	}
	if w.boards() {
		c.quiet(w, r.board)
	}
}
