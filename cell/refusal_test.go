package cell

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/action"
	"cantina/executor"
	"cantina/resource"
	pb "cantina/wire/cantinav1"
)

// TestARefusalReportsWhetherTheCellIsItsCause: work that a full, drained or silent cell refuses is placed on
// another one at once.
func TestARefusalReportsWhetherTheCellIsItsCause(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*world)
		mb     int
		reason string
	}{
		"full": {func(*world) {}, 200, "insufficient"},
		"drained": {func(w *world) {
			if err := w.cell.Drain(context.Background(), w.leader.term, w.proc(),
				Drain{ID: "d1", Deadline: time.Hour}); err != nil {
				w.t.Fatal(err)
			}
		}, 10, "draining"},
		"silent": {func(w *world) {
			w.leader.mu.Lock()
			w.leader.silent = true
			w.leader.mu.Unlock()
			time.Sleep(30 * time.Second)
		}, 10, "its session is UNHEALTHY"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				c.before(w)
				synctest.Wait()
				got := w.perform(Work{LRPs: []LRPWork{{Key: w.desire(), Instance: "i1", Workload: heavy(c.mb)}},
					Tasks: []TaskWork{{GUID: "t", UID: "u1", Workload: heavy(c.mb)}}})
				if len(got) != 2 || got[0].ID != "i1" || got[1].ID != "u1" {
					t.Fatalf("%+v", got)
				}
				for _, r := range got {
					if !r.Cell || !strings.Contains(r.Reason, c.reason) {
						t.Errorf("%+v", r)
					}
				}
				w.leader.mu.Lock()
				w.leader.silent = false
				w.leader.mu.Unlock()
			})
		})
	}
}

func heavy(mb int) *action.Workload {
	w := sleeper("forever")
	w.Resources = resource.Amounts{resource.MemoryMB: mb}
	return w
}

// TestReasonsInRowsNameNoContainer: a task or an instance is known by its own name.
func TestReasonsInRowsNameNoContainer(t *testing.T) {
	for _, err := range []error{
		&executor.CallError{Call: "start", ID: "t-1", Err: executor.ErrState},
		fmt.Errorf("again: %w", &executor.CallError{Call: "reserve", ID: "t-1",
			Err: &executor.InsufficientError{Missing: []resource.Missing{{Name: "disk_mb", Need: 2, Have: 1}}}}),
	} {
		if got := why(err); strings.Contains(got, "t-1") || got == "" {
			t.Errorf("%q", got)
		}
	}
	inBubble(t, func(t *testing.T, w *world) {
		w.exec.FailGroups()
		load := heavy(10)
		w.perform(Work{LRPs: []LRPWork{{Key: w.desire(), Instance: "i1", Workload: load}}})
		got := w.perform(Work{LRPs: []LRPWork{{Key: w.desire(), Instance: "i2", Workload: load}},
			Tasks: []TaskWork{{GUID: "g", UID: "u1", Workload: load}}})
		if len(got) != 2 || got[0].Reason != executor.ErrNoGroup.Error() || got[1].Reason != executor.ErrNoGroup.Error() {
			t.Errorf("%+v", got)
		}
	})
}

// TestACellThatCannotWriteTakesNoWork: it reports the reason, its disk counts as full, and it recovers.
func TestACellThatCannotWriteTakesNoWork(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		key := w.desire()
		fault := fmt.Errorf("%w: full", executor.ErrUnwritable)
		w.exec.SetDisk(executor.Disk{ForeignMB: 7, Fault: fault})
		if s := w.cell.report.state(); s.State.Unavailable != fault.Error() || s.State.Foreign[resource.DiskMB] != 7 {
			t.Errorf("%+v", s.State)
		}
		work := Work{LRPs: []LRPWork{{Key: key, Instance: "i1", Workload: sleeper("forever")}},
			Tasks: []TaskWork{{GUID: "t", UID: "u", Workload: sleeper("1")}}}
		refused := w.perform(work)
		if len(refused) != 2 || !refused[0].Cell || !refused[1].Cell || refused[0].Reason != fault.Error() {
			t.Errorf("%+v", refused)
		}
		w.runBatch(1, sleeper("1"))
		time.Sleep(time.Second)
		synctest.Wait()
		if all := ended(t, w.leader); len(all) != 1 || all[0].GetAgain() != pb.BatchAgain_BATCH_AGAIN_LATER {
			t.Errorf("%v", all)
		}
		w.exec.SetDisk(executor.Disk{})
		if s := w.cell.report.state(); s.State.Unavailable != "" {
			t.Errorf("%+v", s.State)
		}
		if refused := w.perform(work); len(refused) != 0 {
			t.Errorf("%+v", refused)
		}
	})
}

// TestACellReportsWhatItCannotRemove, and goes on taking work.
func TestACellReportsWhatItCannotRemove(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.exec.SetDisk(executor.Disk{Remains: []string{"/d/remains/1: device or resource busy", "/d/remains/2: x"}})
		s := w.cell.report.state()
		want := Condition{What: "2 directories of earlier containers",
			Text: "cannot be removed, trying again: /d/remains/1: device or resource busy, and 1 more"}
		if s.State.Unavailable != "" || len(s.Conditions) != 1 || s.Conditions[0] != want {
			t.Errorf("%+v", s)
		}
		w.exec.SetDisk(executor.Disk{})
		if s := w.cell.report.state(); len(s.Conditions) != 0 {
			t.Errorf("%+v", s.Conditions)
		}
	})
}
