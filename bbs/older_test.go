package bbs

import (
	"testing"

	"cantina/plan"
	"cantina/task"
)

// TestTheEndOfATaskThatARestoredStoreForgot: a row is RUNNING, and its cell has no container. In a store that went
// back the task may have ended in any way, and is lost, until its cell or a person knows better. A row of this term,
// or of a store that did not go back, is the truth: it failed.
func TestTheEndOfATaskThatARestoredStoreForgot(t *testing.T) {
	for name, c := range map[string]struct {
		back, waits bool // the store went back; Missing comes while the leader waits for the cells
		restarted   bool // the leader that gets Missing has loaded the row
		want        task.Outcome
	}{
		"during the wait":     {true, true, true, task.Lost},
		"after the wait":      {true, false, true, task.Lost},
		"started since":       {true, false, false, task.Failed},
		"without a restore":   {false, false, true, task.Failed},
		"in one and the same": {false, false, false, task.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				wanted := plan.NewTask{GUID: "t", Domain: "d", Definition: task.Definition{Workload: runs("/bin/true")}}
				if _, err := r.b.DesireTask(t.Context(), wanted, plan.Write{}); err != nil {
					t.Fatal(err)
				}
				row, err := r.b.GetTask("t")
				if err != nil {
					t.Fatal(err)
				}
				by := task.Holder{Cell: "a", Proc: "a1"}
				start := task.Start{UID: row.UID, By: by, Reservation: "r", Live: true}
				if c.restarted {
					if err := r.taskEvent("t", start); err != nil {
						t.Fatal(err)
					}
				}
				r.setStale(c.back)
				r.reelect()
				if !c.restarted {
					if err := r.taskEvent("t", start); err != nil {
						t.Fatal(err)
					}
				}
				r.setStale(c.waits)
				if err := r.taskEvent("t", task.Missing{UID: row.UID, By: by}); err != nil {
					t.Fatal(err)
				}
				if x, _ := r.b.GetTask("t"); x.Outcome != c.want || x.MayStillRun {
					t.Errorf("%v (%s), not %v", x.Outcome, x.Result.Reason, c.want)
				}
				if c.want != task.Lost {
					return
				}
				end := task.Complete{UID: row.UID, By: by}
				if err := r.taskEvent("t", end); err != nil {
					t.Errorf("the end that the cell still knows: %v", err)
				}
				if x, _ := r.b.GetTask("t"); x.Outcome != task.Succeeded {
					t.Errorf("its own end: %v", x.Outcome)
				}
			})
		})
	}
}
