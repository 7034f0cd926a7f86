package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cantina/lrp"
	"cantina/plan"
	"cantina/resource"
	"cantina/task"
)

const (
	// preemptAfter is how long work waits before instances are stopped for it.
	preemptAfter = time.Second
	// largeMemory is the memory of an instance of which the cells do not hold as many as customers want.
	largeMemory = 200
)

// rank draws a priority for a service or task; 0 is the default.
func (cu *customers) rank() int { return []int{0, 0, 1, 20, 80, 100}[cu.w.rng.IntN(6)] }

// ranked makes a definition one of a cluster whose cells are full, and which stops instances for others.
func (cu *customers) ranked(d *lrp.Desired) {
	if !cu.w.cfg.Preempt {
		return
	}
	d.PreemptPriority, d.Workload.Resources = cu.rank(), resource.Amounts{"memory_mb": largeMemory}
	if cu.w.chance(600) {
		d.Exclusive, d.Strategy = false, lrp.StartFirst
	}
}

// rerank changes the priority of a service, which is no new version.
func (cu *customers) rerank(b *board, k lrp.ServiceKey) {
	s, err := b.GetService(k)
	if err != nil || s.Removed || s.Target() == nil {
		return
	}
	d := *s.Wanted()
	d.PreemptPriority = cu.rank()
	cu.noted(ChangeService, "give %v priority %d", k, d.Priority())
	cu.applies(b, plan.Application{Domain: domain, Services: []lrp.Desired{d}}, false)
}

// shrink lets all services fit on the cells.
func (cu *customers) shrink(b *board) {
	for _, s := range cu.w.store.work().services {
		if !s.Removed && s.Instances > 1 {
			b.ask("scale", func(ctx context.Context) error {
				_, err := b.ScaleService(ctx, s.Key, 1, plan.Write{})
				return err
			})
		}
	}
}

// preempted: only an instance that serves, may have a second copy and has none is stopped for other work, which has a
// higher priority, waits, and is no instance of a service that is rolled out.
func (c *checker) preempted(r *leadership, before lrp.Index, e lrp.Event, env lrp.Env, after lrp.Index) {
	p, ok := e.(lrp.Preempt)
	if !ok {
		return
	}
	w := r.s.w
	w.res.Preempted++
	o, d := before.Ordinary, env.Desired
	switch {
	case !w.cfg.Preempt:
		w.fail("contract", "%s is stopped for %s, and the setting is off", describe(before), p.For)
	case o == nil || o.Instance != p.By.Instance || o.State != lrp.Running || !o.Net.Routable || o.Retiring:
		w.fail("contract", "%s is stopped for %s, and does not serve", describe(before), p.For)
	case before.Evacuating != nil || before.Suspect != nil:
		w.fail("contract", "%s is stopped for %s, and has a copy", describe(before), p.For)
	case d == nil || d.Exclusive || o.Exclusive || d.Strategy == lrp.StopFirst:
		w.fail("contract", "%s is stopped for %s, and may have no copy", describe(before), p.For)
	case d.Priority() >= p.Priority || !waits(r, p.For, p.Priority):
		w.fail("contract", "%s of priority %d is stopped for %s of priority %d", describe(before), d.Priority(), p.For,
			p.Priority)
	case after.Ordinary == nil || !after.Ordinary.Retiring || after.Ordinary.Preempted.By != p.For:
		w.fail("contract", "%s is stopped for %s, and its row does not have that: %s", describe(before), p.For,
			describe(after))
	}
}

// waits reports whether the instance of a name waits for a cell, in one of its versions, or the task, with a priority.
func waits(r *leadership, name string, priority int) bool {
	all := r.work()
	for _, x := range all.indices {
		v := all.versions[x.Key.Process]
		if o := x.Ordinary; o != nil && o.State == lrp.Unclaimed && v != nil && v.Priority() == priority &&
			fmt.Sprintf("%v/%d", o.Service, x.Key.Index) == name {
			return true
		}
	}
	return slices.ContainsFunc(all.tasks, func(t *task.Task) bool {
		return t.State == task.Pending && "task "+t.GUID == name && t.Definition.Priority() == priority
	})
}
