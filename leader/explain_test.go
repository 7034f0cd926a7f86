package leader

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cantina/api"
	"cantina/batch"
	"cantina/plan"
	"cantina/worker"
)

// coherent requires of an explanation that a resource that is not in its desired state has a
// reason.
func coherent(t *testing.T, what string, e plan.Explanation) {
	t.Helper()
	if e.Fine != (e.State == e.Wanted) || !e.Fine && (len(e.Reasons) == 0 || e.Reasons[0].Text == "") {
		t.Errorf("%s: %+v", what, e)
	}
}

// TestEveryCellIsExplained: all states of a session, with all that may keep work from it.
func TestEveryCellIsExplained(t *testing.T) {
	now := time.Unix(1e9, 0)
	for state := worker.New; state <= worker.MustDie; state++ {
		for marks := range 1 << 4 {
			c := api.Cell{Name: "c", Session: state, Reason: "beats"}
			if marks&1 != 0 {
				c.Unavailable = "probe: /bin/true: exit status 1"
			}
			c.Draining = marks&2 != 0
			if marks&4 != 0 {
				c.Draining, c.Drain = true, &api.Drain{Reason: "kernel", Until: now.Add(time.Minute)}
				if marks&8 != 0 {
					c.Drain.Ended = now
				}
			}
			e := explainCell(plan.Subject{Kind: plan.SubjectCell, Name: "c"}, &c, now)
			coherent(t, fmt.Sprintf("%v %04b", state, marks), e)
			if e.Fine != (state == worker.Healthy && marks&7 == 0) {
				t.Errorf("%v %04b: %+v", state, marks, e)
			}
		}
	}
}

// TestEveryJobIsExplained: all states of a job and all classes of a batch task, with and
// without a reason of the board's.
func TestEveryJobIsExplained(t *testing.T) {
	for _, why := range [][]batch.Why{nil, {{Text: "a: waits for room"}}} {
		for s := batch.JobWaiting; s <= batch.JobEmpty; s++ {
			e := explainedJob(plan.Subject{Kind: plan.SubjectJob, Name: "j"}, &batch.Progress{State: s}, batch.ClassAbsent, why)
			coherent(t, s.String(), e)
			if e.Fine != (s == batch.JobDone || s == batch.JobRunning && why == nil) {
				t.Errorf("%v: %+v", s, e)
			}
		}
		for c := batch.ClassAbsent; c <= batch.ClassReady; c++ {
			e := explainedJob(plan.Subject{Kind: plan.SubjectNode, Name: "j", Node: "a"},
				&batch.Progress{State: batch.JobRunning, Failed: 1}, c, why)
			coherent(t, c.String(), e)
			if e.Fine != (c == batch.ClassDone || c == batch.ClassRunning) {
				t.Errorf("%v: %+v", c, e)
			}
		}
	}
	e := explainedJob(plan.Subject{Kind: plan.SubjectJob, Name: "j"}, &batch.Progress{State: batch.JobRunning, Failed: 1},
		batch.ClassAbsent, []batch.Why{{Text: "b: failed"}})
	coherent(t, "running, one failed", e)
	if e.Fine {
		t.Errorf("one failed: %+v", e)
	}
}

// TestASilentCellCanBeForgotten: the verb is named while a cell is silent, and only then.
func TestASilentCellCanBeForgotten(t *testing.T) {
	for state, want := range map[worker.State]bool{worker.Healthy: false, worker.New: false, worker.Unhealthy: true,
		worker.MustDie: true} {
		x := explainCell(plan.Subject{Kind: plan.SubjectCell, Name: "c"}, &api.Cell{Name: "c", Session: state}, time.Time{})
		if got := strings.Contains(fmt.Sprint(x.Reasons), "cantina cells forget c, "); got != want {
			t.Errorf("%v: %+v", state, x.Reasons)
		}
	}
}
