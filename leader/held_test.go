package leader

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cantina/action"
	"cantina/api"
	"cantina/batch"
	"cantina/cell"
	"cantina/lrp"
	"cantina/placement"
	"cantina/plan"
	"cantina/resource"
	"cantina/worker"
)

// TestWorkHeldByTheInitialWaitIsReported: over a store that may be older than the cells' work, status
// lists waiting jobs, tasks and exclusive instances. explain gives the wait as their reason and
// not the auction. Work that may run twice is not listed.
func TestWorkHeldByTheInitialWaitIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := beginStale(t)
		defer end()
		v, ctx := viewOf(tm), t.Context()
		load := action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/sleep", Args: []string{"9"}}}}
		one, free := lrp.Desired{Service: lrp.ServiceKey{Domain: "d", Name: "one"}, Instances: 1, Exclusive: true,
			Workload: load}, lrp.Desired{Service: lrp.ServiceKey{Domain: "d", Name: "free"}, Instances: 1, Workload: load}
		if _, err := v.Apply(ctx, plan.Application{Domain: "d", Services: []lrp.Desired{one, free},
			Jobs: []plan.NamedJob{jobOver("j", "a")}}, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		if _, err := v.DesireTask(ctx, plan.NewTask{GUID: "t", Domain: "d", Definition: large()}, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		held := func() string {
			s, err := v.Status()
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, h := range s.Held {
				if h.Longest <= 0 || h.Longest != s.Longest || !strings.HasPrefix(h.Reason, "initial wait: ") {
					t.Errorf("%+v, the wait lasts %v", h, s.Longest)
				}
				out = append(out, h.What)
			}
			return strings.Join(out, ", ")
		}
		if got := held(); got != "job d/j, instance d/one/0, task t" {
			t.Errorf("held: %s", got)
		}
		subjects := []plan.Subject{{Kind: plan.SubjectService, Domain: "d", Name: "one"},
			{Kind: plan.SubjectInstance, Domain: "d", Name: "one"}, {Kind: plan.SubjectTask, Name: "t"}}
		for _, s := range subjects {
			e, err := v.Explain(ctx, s)
			if err != nil || e.Fine || len(e.Reasons) == 0 || e.Reasons[0].Code != codeHeld || e.Reasons[0].Longest <= 0 ||
				slices.ContainsFunc(e.Reasons, func(r plan.Reason) bool { return r.Code == "placing" }) {
				t.Errorf("%s: %+v, %v", s.Kind, e, err)
			}
			same := slices.DeleteFunc(e.Reasons, func(r plan.Reason) bool { return r.Text != staleText })
			if s.Kind != plan.SubjectService && len(same) != 1 {
				t.Errorf("%s gives the wait as reason %d times", s.Kind, len(same))
			}
		}
		if e, err := v.Explain(ctx, plan.Subject{Kind: plan.SubjectInstance, Domain: "d", Name: "free"}); err != nil ||
			slices.ContainsFunc(e.Reasons, func(r plan.Reason) bool { return r.Code == codeHeld }) {
			t.Errorf("%+v, %v", e, err)
		}
		pass(worker.DefaultTimeouts().Stretch(worker.DefaultTimeouts().MaxDiesWithin))
		if got := held(); got != "" {
			t.Errorf("after the wait: %s", got)
		}
		for _, s := range subjects {
			if e, err := v.Explain(ctx, s); err != nil ||
				slices.ContainsFunc(e.Reasons, func(r plan.Reason) bool { return r.Code == codeHeld }) {
				t.Errorf("after the wait, %s: %+v, %v", s.Kind, e, err)
			}
		}
	})
}

// obedient is a cell that starts all assigned work, and whose probes succeed.
type obedient struct {
	reporter
	mu     *sync.Mutex
	probes *[]worker.RunTask
}

func (o obedient) RunTasks(_ context.Context, items []cell.RunItem) ([]worker.RunAnswer, error) {
	var out []worker.RunAnswer
	for _, i := range items {
		if i.Call.Probe > 0 {
			o.mu.Lock()
			*o.probes = append(*o.probes, i.Call)
			o.mu.Unlock()
			continue
		}
		out = append(out, worker.RunAnswer{Term: o.term, Proc: i.Call.Proc, Run: i.Call.Run, Result: worker.RunOK})
	}
	return out, nil
}

func (obedient) RequestSuicide(context.Context, worker.Suicide) error { return nil }

// TestBatchTasksOfASilentCellAreUnconfirmed: job nodes, explain and status mark a batch task whose cell is not in
// order. For one on a lost cell they show the maximum time before it starts elsewhere.
func TestBatchTasksOfASilentCellAreUnconfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v, ctx := viewOf(tm), t.Context()
		o := obedient{reporter{term: tm.Term()}, &sync.Mutex{}, &[]worker.RunTask{}}
		tm.cells.SetLocal("c", o)
		beats := int64(0)
		beat := func() {
			beats++
			state := cell.State{State: placement.State{Cell: "c", Version: beats,
				Capacity: resource.Amounts{resource.MemoryMB: 1000, resource.Containers: 9}}}
			if _, err := tm.Heartbeat(ctx, worker.Heartbeat{Protocol: worker.Protocol, Cell: "c", Proc: "p", DirID: "f",
				Started: 1, Boot: "b", Beat: beats}, state); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			o.mu.Lock()
			defer o.mu.Unlock()
			for _, p := range *o.probes {
				if _, err := tm.UpdateStatus(ctx, worker.UpdateStatus{Cluster: tm.lease.Cluster(), Term: tm.Term(), Cell: "c",
					Proc: "p", Items: []worker.StatusItem{{Kind: worker.StatusProbe, Probe: p.Probe, OK: true}}}); err != nil {
					t.Fatal(err)
				}
			}
			*o.probes = nil
		}
		if _, err := v.Apply(ctx, plan.Application{Domain: "d", Jobs: []plan.NamedJob{jobOver("j", "a")}},
			plan.Write{}); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			beat()
			pass(time.Second)
		}
		says := func(state worker.State, want string, bounded bool) {
			t.Helper()
			l, err := v.ListNodes(plan.JobNodeFilter{Job: "d/j"}, plan.Range{Limit: 9})
			if err != nil || len(l.Items) != 1 || l.Items[0].Class != batch.ClassRunning {
				t.Fatalf("%+v, %v", l.Items, err)
			}
			unconfirmedReason := l.Items[0].UnconfirmedReason
			if state == worker.Healthy != (unconfirmedReason == "") || unconfirmedReason != "" &&
				!strings.HasPrefix(unconfirmedReason, fmt.Sprintf("cell c is %v: ", state)) {
				t.Errorf("%v: unconfirmed %q", state, unconfirmedReason)
			}
			for _, s := range []plan.Subject{{Kind: plan.SubjectJob, Domain: "d", Name: "j"},
				{Kind: plan.SubjectNode, Domain: "d", Name: "j", Node: "a"}} {
				e, err := v.Explain(ctx, s)
				if err != nil {
					t.Fatal(err)
				}
				i := slices.IndexFunc(e.Reasons, func(r plan.Reason) bool { return r.Code == codeUnconfirmed })
				if (i >= 0) != (unconfirmedReason != "") || i >= 0 &&
					(!strings.Contains(e.Reasons[i].Text, want) || e.Reasons[i].Longest > 0 != bounded) {
					t.Errorf("%v, %s: %+v", state, s.Kind, e.Reasons)
				}
			}
			s, err := v.Status()
			if err != nil || slices.ContainsFunc(s.Warnings, func(w string) bool {
				return strings.HasPrefix(w, unconfirmedReason) && strings.Contains(w, "its 1 batch task ")
			}) != (unconfirmedReason != "") {
				t.Errorf("%v: %q, %v", state, s.Warnings, err)
			}
			if bounded && !strings.Contains(fmt.Sprint(s.Warnings), "within ") {
				t.Errorf("%v: %q", state, s.Warnings)
			}
		}
		says(worker.Healthy, "", false)
		pass(20 * time.Second)
		says(worker.Unhealthy, "; the last report of a is shown", false)
		pass(61 * time.Second)
		says(worker.MustDie, "; a may still run, and starts nowhere else before the cell is certainly dead", true)
	})
}

// TestOnlyASilentCellIsBounded: certain death bounds a silence, no other reason.
func TestOnlyASilentCellIsBounded(t *testing.T) {
	c := api.Cell{Name: "c", Session: worker.Unhealthy, Reason: "no heartbeat for 18s", DeadIn: 8 * time.Second,
		Unavailable: "no room"}
	e := explainCell(plan.Subject{Kind: plan.SubjectCell, Name: "c"}, &c, time.Unix(0, 0))
	if len(e.Reasons) != 2 || e.Reasons[0].Text != "no heartbeat for 18s; if it stays silent, certainly dead in 8s" ||
		e.Reasons[1].Text != "no room" {
		t.Errorf("%+v", e.Reasons)
	}
	for _, r := range e.Reasons {
		if r.Longest != 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestCounted(t *testing.T) {
	for want, n := range map[string][3]int{"1 instance": {1, 0, 0}, "2 instances and 1 task": {2, 1, 0},
		"1 instance, 2 tasks and 3 batch tasks": {1, 2, 3}, "1 batch task": {0, 0, 1}} {
		if got := counted(n[0], n[1], n[2]); got != want {
			t.Errorf("%v: %q, want %q", n, got, want)
		}
	}
}
