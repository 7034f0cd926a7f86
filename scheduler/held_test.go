package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/batch"
	"cantina/fence"
	"cantina/resource"
	"cantina/store"
	"cantina/worker"
)

// TestNodesOfEarlierDefinitionsAreHeld: a remaining run may come from a changed definition, or a removed job, and
// draws on its nodes all the same.
func TestNodesOfEarlierDefinitionsAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 9)
		limits := map[string]map[string]batch.Limit{"host": {"readers": {Limit: 1}}}
		draws := map[string]resource.Amounts{"host": {"readers": 1}}
		changed, removed, free := testJob("changed", map[string][]string{"h": {"a"}}),
			testJob("removed", map[string][]string{"h": {"a"}}), testJob("free", map[string][]string{"h": {"a"}})
		changed.Forest.Limits, removed.Forest.Limits = limits, limits
		changed.Job.Resources, removed.Job.Resources = draws, draws
		r.apply(changed, free, removed)
		r.wantStarted("changed/a free/a removed/a")
		changed.Job.Resources = nil
		r.apply(changed)
		r.reg.mayRun(true)
		r.do(r.Remove("removed"))
		r.stop()

		r = begin(t, st, 2)
		if got := fmt.Sprint(r.HeldNodes()); got != "[forest/changed forest/removed]" {
			t.Errorf("held: %s", got)
		}
		r.stop()
	})
}

// TestAKillThatCrossesTheEndLeavesNoRow: the intent that was stored after the end it was
// meant for was submitted goes with the next end of the node.
func TestAKillThatCrossesTheEndLeavesNoRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 1)
		r.apply(testJob("j", map[string][]string{"h": {"a"}}))
		r.wantStarted("j/a")
		st.setManual(true)
		c, err := r.Kill("j", batch.NodeFilter{})
		if err != nil {
			t.Fatal(err)
		}
		st.Submit(store.Transition{Ops: c.Ops}, c.Done)
		r.Ended(r.ended("j", "a", 0, "incomplete"))
		st.setManual(false)
		pass(time.Second) // it ran for no time
		r.wantStarted("j/a")
		r.end("j", "a", 0, "")
		if got := st.keys(killPrefix); len(got) != 0 {
			t.Errorf("kill rows left: %v", got)
		}
		r.stop()
	})
}

// TestAStoreThatDoesNotAnswerKeepsNoTerm: a pass that reads the last reports of tasks ends with its term.
func TestAStoreThatDoesNotAnswerKeepsNoTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 1)
		w := testJob("j", map[string][]string{"h": {"a"}})
		w.Job.Call = batch.CallBistro
		r.apply(w)
		r.wantStarted("j/a")
		st.silent.Store(true)
		r.end("j", "a", 1, "")
		pass(11 * time.Second) // it runs again, and its last report is read
		r.stop()
	})
}

// TestAllNodesAreHeldForARowThatCannotBeRead: its runs may draw on any node, also on one of a new forest.
func TestAllNodesAreHeldForARowThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		limits := map[string]map[string]batch.Limit{"host": {"readers": {Limit: 1}}}
		draws := map[string]resource.Amounts{"host": {"readers": 1}}
		bad, unread := testJob("bad", map[string][]string{"h": {"a"}}), testJob("unread", map[string][]string{"h": {"a"}})
		bad.Forest.Limits, bad.Job.Resources = limits, draws
		r.apply(bad, unread)
		r.stop()

		st.rows[forestPrefix+"unread"] = []byte("garbage")
		r = begin(t, st, 2)
		if got := fmt.Sprint(r.HeldNodes()); got != "[forest/bad forest/unread]" {
			t.Errorf("held: %s", got)
		}
		r.stop()

		st.rows[jobPrefix+"bad"] = []byte("garbage")
		r = begin(t, st, 3)
		r.reg.mu.Lock()
		r.reg.heldNodes = r.HeldNodes()
		r.reg.mu.Unlock()
		r.cell("c", 9)
		fresh, free := testJob("fresh", map[string][]string{"h": {"a"}}), testJob("free", map[string][]string{"h": {"a"}})
		fresh.Forest.Limits, fresh.Job.Resources = limits, draws
		r.apply(fresh, free)
		r.wantStarted("free/a")
		if why, err := r.Explain("fresh", "a"); err != nil || !strings.Contains(fmt.Sprint(why), worker.HoldNode.String()) {
			t.Errorf("explain: %v, %v", why, err)
		}
		r.reg.mu.Lock()
		r.reg.heldNodes = nil // the wait is over
		r.reg.mu.Unlock()
		r.StartsChanged()
		r.wantStarted("fresh/a")
		r.stop()
	})
}

// TestAnEndBesideTheComparisonIsNotTakenBack: a run that ends after the model was read does not run, for any state
// of the model.
func TestAnEndBesideTheComparisonIsNotTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.apply(testJob("j", map[string][]string{"h": {"a"}}))
		x := worker.Run{Work: worker.Work{Job: "j", Node: "a"}, Invocation: fence.Invocation{Term: r.reg.term, Counter: 1}}
		pass(adoptEvery)
		r.reg.mu.Lock()
		r.reg.model[x.Work] = worker.RunView{Run: x, Cell: "c"} // a cell has reported it
		r.reg.late = func() {
			st.setManual(true)
			r.Ended(endOf(x, "c", 0, ""))
			st.commit(-1)
		}
		r.reg.mu.Unlock()
		r.StartsChanged()
		synctest.Wait()
		if p := r.progressOf("j"); p.Running != 0 || p.Done != 1 {
			t.Errorf("%+v", p)
		}
		r.stop()
	})
}
