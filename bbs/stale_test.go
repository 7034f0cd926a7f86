package bbs

import (
	"errors"
	"testing"

	"cantina/plan"
	"cantina/task"
)

// TestAStaleLeaderStartsNoTask: in a store that went back, a task may stand as PENDING while it runs. Only its cell
// reports that, and goes on.
func TestAStaleLeaderStartsNoTask(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		start := func(guid, proc string, live bool) error {
			row, err := r.b.GetTask(guid)
			if err != nil {
				t.Fatal(err)
			}
			return r.taskEvent(guid, task.Start{UID: row.UID, By: task.Holder{Cell: proc[:1], Proc: proc}, Reservation: "r",
				Live: live})
		}
		for _, guid := range []string{"runs", "waits"} {
			if _, err := r.b.DesireTask(t.Context(), plan.NewTask{GUID: guid, Domain: "d",
				Definition: task.Definition{Workload: runs("/bin/true")}}, plan.Write{}); err != nil {
				t.Fatal(err)
			}
		}
		r.mu.Lock()
		r.stale = true
		r.mu.Unlock()
		for _, guid := range []string{"runs", "waits"} {
			if err := start(guid, "a1", false); !errors.Is(err, task.ErrNotEligible) {
				t.Errorf("%s starts: %v", guid, err)
			}
		}
		if err := start("runs", "b1", true); err != nil {
			t.Errorf("what runs may go on: %v", err)
		}
		r.mu.Lock()
		r.stale = false
		r.mu.Unlock()
		if err := start("waits", "a1", false); err != nil {
			t.Errorf("no longer blind: %v", err)
		}
		if err := start("runs", "a1", false); !errors.Is(err, task.ErrInvalidStateTransition) {
			t.Errorf("it runs on b: %v", err)
		}
	})
}
