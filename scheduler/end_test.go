package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"cantina/batch"
	"cantina/worker"
)

func TestSlotIsRefilledOnlyWhenTheStatusIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 1)
		r.apply(testJob("j", map[string][]string{"h": {"a", "b"}}))
		r.wantStarted("j/a")
		st.setManual(true)
		r.end("j", "a", 0, "")
		r.wantStarted("")
		if got := r.reg.takeAcks(); got != "" {
			t.Errorf("acknowledged before the commit: %s", got)
		}
		if p := r.progressOf("j"); p.Running != 1 || p.Done != 0 {
			t.Errorf("shown before the commit: %+v", p)
		}
		st.commit(1)
		r.wantStarted("j/b")
		if got := r.reg.takeAcks(); got != "j/a 1 real" {
			t.Errorf("acks %s", got)
		}
		r.stop()
	})
}

func TestEndsAreCommittedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 500)
		dbs := manyNodes(200)
		r.apply(testJob("j", map[string][]string{"h": dbs}))
		st.setManual(true)
		for _, d := range dbs {
			r.Ended(r.ended("j", d, 0, ""))
		}
		st.commit(1) // the first alone
		if n := st.commit(-1); n != 1 {
			t.Errorf("the others took %d transitions", n)
		}
		synctest.Wait()
		if p := r.progressOf("j"); p.Done != 200 {
			t.Errorf("%+v", p)
		}
		r.stop()
	})
}

func TestEndBeforeTheStartWasNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		r.reg.instant = func(x worker.Run) *worker.Ended { e := endOf(x, "c", 0, ""); return &e }
		r.cell("c", 2)
		var dbs []string
		for i := range 50 {
			dbs = append(dbs, fmt.Sprint("d", i))
		}
		r.apply(testJob("j", map[string][]string{"h": dbs}))
		if p := r.progressOf("j"); p.State != batch.JobDone || p.Done != 50 {
			t.Errorf("%+v", p)
		}
		if c := r.auction.Cells()[0]; c.Holdings != 0 {
			t.Errorf("room is not given back: %+v", c)
		}
		r.locked(func() {
			if len(r.early) != 0 || len(r.ends) != 0 {
				t.Errorf("left over: %v %v", r.early, r.ends)
			}
		})
		r.stop()
	})
}

func TestSyntheticAndRealEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 3)
		r.apply(testJob("j", map[string][]string{"h": {"a", "b", "c"}}))
		r.wantStarted("j/a j/b j/c")
		lost := func(node string) worker.Ended {
			e := r.ended("j", node, 0, "")
			e.Kind, e.Status, e.Reason = worker.Lost, "", "cell c is gone"
			return e
		}
		real := func(node string) worker.Ended { return r.ended("j", node, 0, "") }
		aLost, aReal, bLost, bReal, cLost, cReal := lost("a"), real("a"), lost("b"), real("b"), lost("c"), real("c")
		st.setManual(true)
		r.Ended(endOf(worker.Run{Work: worker.Work{Job: "unknown", Node: "x"}, Invocation: aLost.Run.Invocation}, "c", 0, ""))
		r.Ended(aLost) // under way at once
		r.Ended(aReal) // behind it
		r.Ended(bLost) // together with
		r.Ended(bReal) // its real end
		r.Ended(cLost)
		st.setManual(false)
		synctest.Wait()
		r.Ended(cReal) // late: replaces the synthetic one
		synctest.Wait()
		if p := r.progressOf("j"); p.State != batch.JobDone || p.Done != 3 {
			t.Errorf("%+v", p)
		}
		acks := strings.Split(r.reg.takeAcks(), ", ")
		slices.Sort(acks)
		if got := strings.Join(acks,
			", "); got != "j/a 1 lost, j/a 1 real, j/b 2 lost, j/b 2 real, j/c 3 lost, j/c 3 real, unknown/x 1 real" {
			t.Errorf("acks %s", got)
		}
		r.Ended(cReal) // a replay
		synctest.Wait()
		if got := r.reg.takeAcks(); got != "j/c 3 real" {
			t.Errorf("replay: %s", got)
		}
		if inv, real := r.LastApplied(worker.Work{Job: "j", Node: "c"}); !real || inv.Counter != 3 {
			t.Errorf("last applied %v %v", inv, real)
		}
		r.stop()
	})
}

func TestSmallSegmentsAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 1)
		dbs := manyNodes(300)
		r.apply(testJob("j", map[string][]string{"h": dbs}))
		for i, d := range dbs {
			r.end("j", d, 0, fmt.Sprintf(`{"result":"done","data":{"i":%d}}`, i))
			if i%7 == 0 {
				r.StartsChanged()
			}
		}
		if got := len(st.keys(statusPrefix)); got > 2*64 {
			t.Errorf("%d rows for 300 statuses one by one", got)
		}
		s := r.Stats()
		r.stop()
		r = begin(t, st, 2)
		synctest.Wait()
		results, err := r.Results(t.Context(), "j", batch.NodeFilter{})
		if err != nil || len(results) != 300 || s.Merged == 0 {
			t.Fatalf("%d results, %v, %+v", len(results), err, s)
		}
		for i, x := range results {
			if string(x.Data) != fmt.Sprintf(`{"i":%d}`, i) {
				t.Fatalf("result %d: %+v", i, x)
			}
		}
		r.stop()
	})
}

// manyNodes are n names of nodes, in order.
func manyNodes(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("d%03d", i))
	}
	return names
}
