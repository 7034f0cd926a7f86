package bbs

import (
	"testing"

	"cantina/plan"
	"cantina/task"
)

// TestTheEndOfATaskThatARestoredStoreForgot: a row is RUNNING, and its cell has no container. In a store that went
// back the task may have ended in any way, and is lost, until its cell or a person knows better, also for later
// leaders. A row that was written since, or of a store that did not go back, is the truth: it failed.
func TestTheEndOfATaskThatARestoredStoreForgot(t *testing.T) {
	for name, c := range map[string]struct {
		started string // "before" the store went back, or "after"
		back    bool
		leaders int // later terms
		want    task.Outcome
	}{
		"first leader":      {"before", true, 0, task.Lost},
		"second leader":     {"before", true, 1, task.Lost},
		"third leader":      {"before", true, 2, task.Lost},
		"started since":     {"after", true, 0, task.Failed},
		"since, second":     {"after", true, 1, task.Failed},
		"without a restore": {"before", false, 1, task.Failed},
		"one and the same":  {"before", false, 0, task.Failed},
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
				begin := func(when string) {
					if c.started != when {
						return
					}
					if err := r.taskEvent("t", start); err != nil {
						t.Fatal(err)
					}
				}
				begin("before")
				if c.back {
					r.markRestored()
				}
				begin("after")
				for range c.leaders {
					r.reelect()
				}
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
