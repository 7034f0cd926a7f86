package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"cantina/batch"
	"cantina/placement"
	"cantina/plan"
	"cantina/resource"
)

// sharing are two jobs over the nodes of the first.
func sharing(change func(first, second *plan.NamedJob)) []plan.NamedJob {
	a, b := testJob("low", map[string][]string{"h": {"a", "b", "c", "d"}}), testJob("top", nil)
	b.Job.Forest, b.Forest = "low", batch.ForestSpec{}
	a.Forest.Limits, a.Forest.Order = nil, batch.OrderOriginal
	a.Job.Priority, b.Job.Priority = 1, 2
	change(&a, &b)
	return []plan.NamedJob{a, b}
}

// TestAPolicyIsThatOfTheNodes: it is stored with them, and decides for all jobs over them, in the next term too.
func TestAPolicyIsThatOfTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 3)
		r.apply(sharing(func(a, _ *plan.NamedJob) { a.Forest.Policy = batch.RankedPriority })...)
		pass(time.Second)
		r.wantStarted("top/a top/b top/c")
		r.stop()
		r = begin(t, st, 2)
		r.cell("c", 2)
		pass(time.Second)
		r.wantStarted("top/a top/b")
		r.stop()
	})
}

// TestAnOrderOfCells: batch tasks go to the cell with the least weighted free amount.
func TestAnOrderOfCells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		r.cell("large", 30)
		r.cell("small", 3)
		r.apply(sharing(func(a, _ *plan.NamedJob) {
			a.Forest.Policy, a.Forest.Cells = batch.RankedPriority, placement.OrderBusiest
			a.Forest.Limits = map[string]map[string]batch.Limit{batch.LevelWorker: {resource.Containers: {Weight: 1}}}
		})...)
		pass(time.Second)
		for node, want := range map[string]string{"a": "small", "b": "small", "c": "small", "d": "large"} {
			got, err := r.JobNodes("top", batch.NodeFilter{Node: node})
			if err != nil || len(got) != 1 || got[0].Cell != want {
				t.Errorf("%s: %+v %v, want cell %s", node, got, err, want)
			}
		}
		r.stop()
	})
}

// TestAFilterOfCells: the filter of level worker selects cells by their host names.
func TestAFilterOfCells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		r.cell("a", 30)
		r.cell("b", 3)
		r.apply(sharing(func(a, b *plan.NamedJob) {
			a.Job.Filters = map[string]batch.Filter{batch.LevelWorker: {WhitelistRegex: "^host-b"}}
			b.Job.Filters = map[string]batch.Filter{batch.LevelWorker: {Blacklist: []string{"host-a", "host-b"}}}
		})...)
		pass(time.Second)
		for name, running := range map[string]int{"low": 3, "top": 0} {
			if got := r.progressOf(name); got.Running != running || running == 0 && got.Reason == "" {
				t.Errorf("%s: %+v", name, got)
			}
		}
		nodes, err := r.JobNodes("low", batch.NodeFilter{Classes: []batch.Class{batch.ClassRunning}})
		for _, n := range nodes {
			if n.Cell != "b" || err != nil {
				t.Errorf("%s runs on %s, %v", n.Node, n.Cell, err)
			}
		}
		r.stop()
	})
}

// TestAPinnedJobWithoutItsHostStopsNobody (Bistro's scheduler stopped the whole pass).
func TestAPinnedJobWithoutItsHostStopsNobody(t *testing.T) {
	for _, p := range []batch.Policy{batch.RoundRobin, batch.RankedPriority, batch.RandomizedPriority, batch.LongTail} {
		synctest.Test(t, func(t *testing.T) {
			r := begin(t, newFakeStore(), 1)
			r.cell("c", 10)
			r.apply(sharing(func(a, b *plan.NamedJob) { a.Forest.Policy, b.Job.Host = p, "dead" })...)
			pass(time.Second)
			if got := r.progressOf("low"); got.Running != 4 {
				t.Errorf("%v: %+v", p, got)
			}
			if got := r.progressOf("top"); got.Running != 0 || got.Reason == "" {
				t.Errorf("%v: %+v", p, got)
			}
			r.stop()
		})
	}
}
