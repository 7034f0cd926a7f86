package leader

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/batch"
	"cantina/cell"
	"cantina/plan"
	"cantina/worker"
)

// TestStoppingTasksAreNotAsDesired: a cell reports that it ends a task or a batch task; the
// task and the job show the cause and the time, and are not as desired.
func TestStoppingTasksAreNotAsDesired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v := viewOf(tm)
		by := time.Now().Add(5 * time.Second).Round(0)
		state := cell.State{Conditions: []cell.Condition{
			{Task: "t", What: "task t", Text: "time limit of 2s exceeded", Stopping: true, StopBy: by},
			{Job: "d/j", Node: "x", What: "job d/j on x", Text: "stopped on request", Stopping: true},
			{Job: "d/j", Node: "y", What: "job d/j on y", Text: "STUCK_KILLING: pid 7"},
		}}
		state.Version = 1
		if _, err := tm.Heartbeat(t.Context(), worker.Heartbeat{Protocol: worker.Protocol, Cell: "c", Proc: "p", DirID: "f",
			Started: 1, Boot: "b", Beat: 1}, state); err != nil {
			t.Fatal(err)
		}
		x := plan.Explanation{State: "RUNNING", Wanted: "RUNNING", Fine: true,
			Reasons: []plan.Reason{{Code: "running", Text: "it runs"}}}
		v.heldUp(&x, func(c cell.Condition) bool { return c.Task == "t" })
		r := x.Reasons[0]
		if x.Fine || x.State != "RUNNING, being stopped" || x.Wanted != "stopped" || r.Code != codeStopping ||
			r.Longest != 5*time.Second ||
			r.Text != "task t on cell c is being stopped: time limit of 2s exceeded; killed at "+by.UTC().Format(time.RFC3339)+
				" at the latest" {
			t.Errorf("%+v", x)
		}
		if got := tm.reported().stoppingOf("d/j"); got != "1 batch task is being stopped" {
			t.Errorf("job ls notes %q", got)
		}
		if got := tm.reported().stoppingOf("k"); got != "" {
			t.Errorf("another job: %q", got)
		}
		s, err := v.Status()
		if err != nil || len(s.Warnings) == 0 || strings.Contains(strings.Join(s.Warnings, " "), "being stopped") {
			t.Errorf("status warns %q, %v", s.Warnings, err)
		}
	})
}

// TestAJobNamesTheRemovedOneOfItsName: a batch task of a removed job that a cell ends does not
// belong to the job that was created again under its name. That one is not being stopped: it
// waits.
func TestAJobNamesTheRemovedOneOfItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v := viewOf(tm)
		if _, err := v.Apply(t.Context(), plan.Application{Domain: "d", Jobs: []plan.NamedJob{jobOver("j", "a")}},
			plan.Write{}); err != nil {
			t.Fatal(err)
		}
		j, err := v.GetJob("d/j")
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range []struct{ uid, note, state, wanted, why string }{
			{j.UID, "1 batch task is being stopped", "running, being stopped", "stopped",
				"job d/j on a on cell c is being stopped: stopped on request"},
			{"earlier", "waits for 1 batch task of the removed job of this name", "waiting", "done",
				"it waits for the removed job of this name: job d/j on a on cell c is being stopped: stopped on request"},
		} {
			state := cell.State{Conditions: []cell.Condition{{Job: "d/j", UID: c.uid, Node: "a", What: "job d/j on a",
				Text: "stopped on request", Stopping: true}}}
			state.Version = int64(i + 1)
			if _, err := tm.Heartbeat(t.Context(), worker.Heartbeat{Protocol: worker.Protocol, Cell: "c", Proc: "p", DirID: "f",
				Started: 1, Boot: "b", Beat: int64(i + 1)}, state); err != nil {
				t.Fatal(err)
			}
			if got := tm.reported().stoppingOf("d/j"); got != c.note {
				t.Errorf("%s: job ls notes %q", c.uid, got)
			}
			x := plan.Explanation{State: "running", Wanted: "running", Fine: true}
			if c.uid == "earlier" { // the board's text, which has less detail
				x = plan.Explanation{State: "waiting", Wanted: "done",
					Reasons: []plan.Reason{{Text: "a: " + batch.WaitsForRemoved + ", which runs on cell c"}}}
			}
			v.heldUp(&x, func(c cell.Condition) bool { return c.Job == "d/j" })
			if x.Fine || x.State != c.state || x.Wanted != c.wanted || len(x.Reasons) != 1 || x.Reasons[0].Text != c.why {
				t.Errorf("%s: %+v", c.uid, x)
			}
			p := newUnconfirmed(tm).node(plan.JobNode{Job: "d/j",
				NodeView: batch.NodeView{Node: "a", Class: batch.ClassRunning, Cell: "c"}})
			if strings.HasPrefix(p.Condition, "waits for the removed job") != (c.uid == "earlier") ||
				!strings.Contains(p.Condition, "being stopped") {
				t.Errorf("%s: %q", c.uid, p.Condition)
			}
		}
	})
}
