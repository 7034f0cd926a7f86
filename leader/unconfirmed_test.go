package leader

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cantina/action"
	"cantina/api"
	"cantina/cell"
	"cantina/lrp"
	"cantina/placement"
	"cantina/plan"
	"cantina/task"
	"cantina/wire"
	"cantina/worker"
)

// sleeping applies a service of one instance.
func sleeping(t *testing.T, v view) lrp.ServiceKey {
	t.Helper()
	load := action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/sleep", Args: []string{"9"}}}}
	web := lrp.ServiceKey{Domain: "d", Name: "web"}
	if _, err := v.Apply(t.Context(), plan.Application{Domain: "d",
		Services: []lrp.Desired{{Service: web, Instances: 1, Workload: load}}}, plan.Write{}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // its instance has a row then
	return web
}

// TestStatesOfASilentCellAreUnconfirmed: work whose cell is not in order is marked so, and otherwise
// shown as last reported.
func TestStatesOfASilentCellAreUnconfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v := viewOf(tm)
		web := sleeping(t, v)
		if _, err := tm.Heartbeat(t.Context(), worker.Heartbeat{Protocol: worker.Protocol, Cell: "c", Proc: "p", DirID: "f",
			Started: 1, Boot: "b", Beat: 1}, cell.State{}); err != nil {
			t.Fatal(err)
		}
		list := func() plan.Instance {
			l, err := v.ListInstances(plan.InstanceFilter{Domain: "d"}, plan.Range{Limit: 9})
			if err != nil || len(l.Items) != 1 {
				t.Fatalf("%+v, %v", l.Items, err)
			}
			return l.Items[0]
		}
		x := list()
		if x.UnconfirmedReason != "" {
			t.Errorf("no cell has it: %q", x.UnconfirmedReason)
		}
		start := wire.LRPCall{Key: x.Key, Service: web,
			Event: lrp.Start{By: lrp.Identity{Instance: "i", Cell: "c", Proc: "p"}, Net: lrp.Net{Routable: true}, Service: web}}
		if got, err := tm.Board.LRPEvents(t.Context(), []wire.LRPCall{start}); err != nil || got[0] != nil {
			t.Fatal(got, err)
		}
		if x = list(); x.State != lrp.Running || !strings.Contains(x.UnconfirmedReason, "cell c is NEW: ") {
			t.Errorf("%v, unconfirmed %q", x.State, x.UnconfirmedReason)
		}
		if i := v.InstanceOf(&x.Actual, x.Revision); i.UnconfirmedReason != x.UnconfirmedReason || i.Version != x.Version ||
			i.Revision != x.Revision {
			t.Errorf("its event has %+v", i)
		}
		if i := v.InstanceOf(&x.Actual, x.Revision-1); i.UnconfirmedReason != "" || i.Version != x.Version {
			t.Errorf("an earlier event has %+v", i)
		}
		for _, s := range []plan.Subject{{Kind: plan.SubjectService, Domain: "d", Name: "web"},
			{Kind: plan.SubjectInstance, Domain: "d", Name: "web"}} {
			e, err := v.Explain(t.Context(), s)
			if err != nil || !slices.ContainsFunc(e.Reasons, func(r plan.Reason) bool {
				return r.Code == codeUnconfirmed && strings.Contains(r.Text, x.UnconfirmedReason) &&
					strings.Contains(r.Text, "web/0")
			}) {
				t.Errorf("%s: %+v, %v", s.Kind, e, err)
			}
		}
		s, err := v.Status()
		if err != nil || !slices.ContainsFunc(s.Warnings, func(w string) bool {
			return strings.Contains(w, x.UnconfirmedReason) && strings.Contains(w, "1 instance ")
		}) {
			t.Errorf("%q, %v", s.Warnings, err)
		}
	})
}

// TestWorkEndedByADrainNamesIt: work on a drained cell first names the drain, with its reason, its
// user, its consequences for the work, and its deadline.
func TestWorkEndedByADrainNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v := viewOf(tm)
		web := sleeping(t, v)
		if _, err := tm.Heartbeat(t.Context(), worker.Heartbeat{Protocol: worker.Protocol, Cell: "c", Proc: "p", DirID: "f",
			Started: 1, Boot: "b", Beat: 1}, cell.State{}); err != nil {
			t.Fatal(err)
		}
		l, err := v.ListInstances(plan.InstanceFilter{Domain: "d"}, plan.Range{Limit: 9})
		if err != nil {
			t.Fatal(err)
		}
		start := wire.LRPCall{Key: l.Items[0].Key, Service: web,
			Event: lrp.Start{By: lrp.Identity{Instance: "i", Cell: "c", Proc: "p"}, Net: lrp.Net{Routable: true}, Service: web}}
		if got, err := tm.Board.LRPEvents(t.Context(), []wire.LRPCall{start}); err != nil || got[0] != nil {
			t.Fatal(got, err)
		}
		explain := func(k plan.SubjectKind) plan.Reason {
			e, err := v.Explain(t.Context(), plan.Subject{Kind: k, Domain: "d", Name: "web"})
			if err != nil || len(e.Reasons) == 0 {
				t.Fatalf("%+v, %v", e, err)
			}
			return e.Reasons[0]
		}
		for _, kind := range []plan.SubjectKind{plan.SubjectService, plan.SubjectInstance} {
			if r := explain(kind); r.Code == "draining" {
				t.Errorf("%s, not drained: %+v", kind, r)
			}
		}
		if _, err := v.DrainCell(t.Context(), "c", api.NewDrain{Reason: "kernel", Deadline: time.Hour},
			plan.Write{By: "ann"}); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []plan.SubjectKind{plan.SubjectService, plan.SubjectInstance} {
			if r := explain(kind); r.Text != "cell c is drained by ann: kernel; web/0 is stopped there before it starts on "+
				"another cell" || r.Longest != time.Hour || r.Change != "cantina undrain c" {
				t.Errorf("%s: %+v", kind, r)
			}
		}
		c, err := v.GetCell("c")
		if err != nil || c.Drain == nil || !strings.HasPrefix(c.Drain.Unknown, "the cell is NEW: ") ||
			!strings.Contains(explainDrain(c.Drain), "the work left is not known") {
			t.Errorf("%+v, %v", c.Drain, err)
		}
		out := plan.Explanation{Reasons: []plan.Reason{{Code: "batch"}}}
		v.sayDrained(&out, mayFinish(tm, map[string][]string{"c": {"a", "b"}, "d": {"x"}}))
		if len(out.Reasons) != 2 || !strings.Contains(out.Reasons[0].Text, "a, b may finish there until the deadline") {
			t.Errorf("%+v", out.Reasons)
		}
	})
}

// TestDrainUnknown: the remaining work is known of a cell that reports on this drain, and of no
// other.
func TestDrainUnknown(t *testing.T) {
	healthy := worker.SessionView{State: worker.Healthy, Holder: true, Reason: "beats"}
	for _, c := range []struct {
		s           worker.SessionView
		held, heard bool
		want        string
	}{
		{healthy, true, true, ""},
		{healthy, true, false, "the cell has not reported since the drain began"},
		{worker.SessionView{State: worker.Unhealthy, Reason: "no heartbeat"}, true, true,
			"the cell is UNHEALTHY: no heartbeat"},
		{worker.SessionView{State: worker.MustDie, Dead: true}, true, true, "no cell of this name is connected"},
		{worker.SessionView{}, false, false, "no cell of this name is connected"},
	} {
		if got := drainUnknown(c.s, c.held, c.heard); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestUnconfirmed: which sessions are in order, and which work is a cell's.
func TestUnconfirmed(t *testing.T) {
	for want, s := range map[string]worker.SessionView{
		"":                                  {State: worker.Healthy, Holder: true, Reason: "beats"},
		"cell c is UNHEALTHY: no heartbeat": {State: worker.Unhealthy, Holder: true, Reason: "no heartbeat"},
		"cell c is MUST_DIE: lost":          {State: worker.MustDie, Holder: true, Reason: "lost"},
		"it is with an earlier process of cell c, p, which is MUST_DIE: lost": {Proc: "p", State: worker.MustDie,
			Reason: "lost"},
	} {
		if got := unconfirmedReason("c", s, true); got != want {
			t.Errorf("%+v: %q", s, got)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		d := newUnconfirmed(tm)
		for state, marked := range map[task.State]bool{task.Pending: false, task.Running: true, task.Completed: false} {
			got := d.task(plan.Task{Task: &task.Task{State: state, Holder: task.Holder{Cell: "gone"}}}).UnconfirmedReason
			if (got == "the process of cell gone that has it is not known in this term") != marked || !marked && got != "" {
				t.Errorf("task %v: %q", state, got)
			}
		}
		for state, marked := range map[lrp.State]bool{lrp.Unclaimed: false, lrp.Claimed: true, lrp.Running: true,
			lrp.Crashed: false} {
			got := d.instance(plan.Instance{Actual: lrp.Actual{State: state,
				Identity: lrp.Identity{Cell: "gone"}}}).UnconfirmedReason
			if (got == "the process of cell gone that has it is not known in this term") != marked || !marked && got != "" {
				t.Errorf("instance %v: %q", state, got)
			}
		}
	})
	if got := list([]string{"a", "b", "c", "d", "e", "f", "g"}); got != "a, b, c, d, e and 2 more" {
		t.Error(got)
	}
}

// TestOversizeWorkHasARemedy: explain names a remedy, for instances, services and tasks alike.
func TestOversizeWorkHasARemedy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v := viewOf(tm)
		tm.join("small", 100)
		web := lrp.Desired{Service: lrp.ServiceKey{Domain: "d", Name: "web"}, Instances: 1, Workload: large().Workload}
		if _, err := v.Apply(t.Context(), plan.Application{Domain: "d", Services: []lrp.Desired{web}},
			plan.Write{}); err != nil {
			t.Fatal(err)
		}
		if _, err := v.DesireTask(t.Context(), plan.NewTask{GUID: "t", Domain: "d", Definition: large()},
			plan.Write{}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		for _, s := range []plan.Subject{{Kind: plan.SubjectService, Domain: "d", Name: "web"},
			{Kind: plan.SubjectInstance, Domain: "d", Name: "web"}, {Kind: plan.SubjectTask, Name: "t"}} {
			e, err := v.Explain(t.Context(), s)
			if err != nil || !slices.ContainsFunc(e.Reasons, func(r plan.Reason) bool {
				return r.Code == "insufficient_resources" && strings.Contains(r.Text, "memory 1000Mi needed, largest free 100Mi") &&
					strings.Contains(r.Change, "ask for memory 100Mi at most")
			}) {
				t.Errorf("%s: %+v, %v", s.Kind, e, err)
			}
		}
	})
}

// TestHangingStartsAreShown: a cell reports where a start hangs; ps, explain and status show it.
func TestHangingStartsAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v := viewOf(tm)
		web := sleeping(t, v)
		const where = "START_HANGS: /mnt/a: pid 7 (cantina) in state D at request_wait_answer"
		state := cell.State{Conditions: []cell.Condition{{Instance: "i", What: "service web/0", Text: where}}}
		state.Version = 1
		if _, err := tm.Heartbeat(t.Context(), worker.Heartbeat{Protocol: worker.Protocol, Cell: "c", Proc: "p", DirID: "f",
			Started: 1, Boot: "b", Beat: 1}, state); err != nil {
			t.Fatal(err)
		}
		l, err := v.ListInstances(plan.InstanceFilter{Domain: "d"}, plan.Range{Limit: 9})
		if err != nil || len(l.Items) != 1 {
			t.Fatalf("%+v, %v", l.Items, err)
		}
		start := wire.LRPCall{Key: l.Items[0].Key, Service: web,
			Event: lrp.Start{By: lrp.Identity{Instance: "i", Cell: "c", Proc: "p"}, Net: lrp.Net{Routable: true}, Service: web}}
		if got, err := tm.Board.LRPEvents(t.Context(), []wire.LRPCall{start}); err != nil || got[0] != nil {
			t.Fatal(got, err)
		}
		if l, err = v.ListInstances(plan.InstanceFilter{Domain: "d"}, plan.Range{Limit: 9}); err != nil ||
			l.Items[0].Condition != where {
			t.Errorf("%+v, %v", l.Items, err)
		}
		for _, s := range []plan.Subject{{Kind: plan.SubjectService, Domain: "d", Name: "web"},
			{Kind: plan.SubjectInstance, Domain: "d", Name: "web"}, {Kind: plan.SubjectCell, Name: "c"}} {
			e, err := v.Explain(t.Context(), s)
			if err != nil || e.Fine || !slices.ContainsFunc(e.Reasons,
				func(r plan.Reason) bool { return r.Code == codeHeldUp && strings.Contains(r.Text, where) }) {
				t.Errorf("%s: %+v, %v", s.Kind, e, err)
			}
		}
		s, err := v.Status()
		if err != nil || !slices.ContainsFunc(s.Warnings,
			func(w string) bool { return strings.Contains(w, "cell c: service web/0: "+where) }) {
			t.Errorf("%q, %v", s.Warnings, err)
		}
	})
}

// TestALaterProcessConfirmsNothing: rows that refer to another process than the one that has the
// cell's name are not confirmed, until that process reports or is certainly dead.
func TestALaterProcessConfirmsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v := viewOf(tm)
		web := sleeping(t, v)
		o := docile{obedient{reporter{term: tm.Term()}, &sync.Mutex{}, &[]worker.RunTask{}}}
		tm.joinsAs(t, "c", "p", o)
		tm.answerProbes(t, o.obedient, "c", "p")
		start := func(proc string) {
			l, err := v.ListInstances(plan.InstanceFilter{Domain: "d"}, plan.Range{Limit: 9})
			if err != nil || len(l.Items) != 1 {
				t.Fatalf("%+v, %v", l.Items, err)
			}
			by := lrp.Identity{Instance: "i", Cell: "c", Proc: proc}
			call := wire.LRPCall{Key: l.Items[0].Key, Service: web,
				Event: lrp.Start{By: by, Net: lrp.Net{Routable: true}, Service: web}}
			if got, err := tm.Board.LRPEvents(t.Context(), []wire.LRPCall{call}); err != nil || got[0] != nil {
				t.Fatal(got, err)
			}
		}
		start("earlier")
		s, err := v.GetService(web)
		if err != nil || s.Unconfirmed != 1 || s.Running != 1 {
			t.Errorf("%+v, %v", s, err)
		}
		e, err := v.Explain(t.Context(), plan.Subject{Kind: plan.SubjectService, Domain: "d", Name: "web"})
		if err != nil || e.Fine || !slices.ContainsFunc(e.Reasons,
			func(r plan.Reason) bool { return r.Code == codeUnconfirmed }) {
			t.Errorf("%+v, %v", e, err)
		}
		start("p")
		if s, err = v.GetService(web); err != nil || s.Unconfirmed != 0 {
			t.Errorf("the process that has the name has it: %+v, %v", s, err)
		}
	})
}

// TestCellsThatAreAwaitedComeFirst: as long as cells are waited for, that is why work has no place.
func TestCellsThatAreAwaitedComeFirst(t *testing.T) {
	for want, cells := range map[string][]string{"": nil, "the leader waits for cell c1 to report": {"c1"},
		"the leader waits for cells c1, c2 to report": {"c1", "c2"}} {
		if got := awaitsText(cells); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	none, some := "", "the leader waits for cell c1 to report"
	const why = "found no compatible cells: no cell is known"
	if got := (&unconfirmed{wait: &none}).placement(why); got != why {
		t.Error(got)
	}
	if got := (&unconfirmed{wait: &some}).placement(why); got != "found no compatible cells: "+some+"; no cell is known" ||
		placement.CodeOf(got) != placement.CodeOf(why) {
		t.Error(got)
	}
}
