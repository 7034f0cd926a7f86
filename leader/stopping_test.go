package leader

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/cell"
	"cantina/plan"
	"cantina/worker"
)

// TestWhatIsBeingStoppedIsNotAsWanted: a cell reports that it ends a task or a batch task; what is
// shown of the task and the job names the cause and the time, and is not as wanted.
func TestWhatIsBeingStoppedIsNotAsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v := viewOf(tm)
		by := time.Now().Add(5 * time.Second).Round(0)
		state := cell.State{Conditions: []cell.Condition{
			{Task: "t", What: "task t", Text: "time limit of 2s exceeded", Stopping: true, StopBy: by},
			{Job: "j", Node: "x", What: "job j on x", Text: "stopped on request", Stopping: true},
			{Job: "j", Node: "y", What: "job j on y", Text: "STUCK_KILLING: pid 7"},
		}}
		state.Version = 1
		if _, err := tm.Heartbeat(t.Context(), worker.Heartbeat{Protocol: worker.Protocol, Cell: "c", Proc: "p", Folder: "f", Started: 1, Boot: "b", Beat: 1}, state); err != nil {
			t.Fatal(err)
		}
		x := plan.Explanation{State: "RUNNING", Wanted: "RUNNING", Fine: true, Reasons: []plan.Reason{{Code: "running", Text: "it runs"}}}
		v.heldUp(&x, func(c cell.Condition) bool { return c.Task == "t" })
		r := x.Reasons[0]
		if x.Fine || x.State != "RUNNING, being stopped" || x.Wanted != "stopped" || r.Code != codeStopping || r.Longest != 5*time.Second ||
			r.Text != "task t on cell c is being stopped: time limit of 2s exceeded; killed at "+by.UTC().Format(time.RFC3339)+" at the latest" {
			t.Errorf("%+v", x)
		}
		if got := v.stoppingOf("j"); got != "1 batch task is being stopped" {
			t.Errorf("job ls notes %q", got)
		}
		if got := v.stoppingOf("k"); got != "" {
			t.Errorf("another job: %q", got)
		}
		s, err := v.Status()
		if err != nil || len(s.Warnings) == 0 || strings.Contains(strings.Join(s.Warnings, " "), "being stopped") {
			t.Errorf("status warns %q, %v", s.Warnings, err)
		}
	})
}
