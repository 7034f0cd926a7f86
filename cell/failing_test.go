package cell

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"cantina/lrp"
	"cantina/task"
)

var errStart = errors.New("no such program")

// silence has the leader answer nothing, or answer again.
func (w *world) silence(on bool) {
	w.leader.mu.Lock()
	w.leader.silent = on
	w.leader.mu.Unlock()
}

func (w *world) setIndex(f func(*lrp.Index)) {
	w.leader.mu.Lock()
	f(&w.leader.index)
	w.leader.mu.Unlock()
}

func (w *world) desireTask(guid string) {
	w.t.Helper()
	row, _, err := task.Desire(task.Task{GUID: guid, UID: "u-" + guid, Domain: "d",
		Definition: &task.Definition{Workload: *sleeper("5")}}, w.clock.Wall())
	if err != nil {
		w.t.Fatal(err)
	}
	w.leader.mu.Lock()
	w.leader.task = row
	w.leader.mu.Unlock()
}

func (w *world) performTask(guid string) {
	w.t.Helper()
	w.perform(Work{Tasks: []TaskWork{{GUID: guid, UID: "u-" + guid, Domain: "d", Workload: sleeper("5")}}})
}

// poll waits until the cell has read the rows of the leader again.
func (w *world) poll() {
	time.Sleep(31 * time.Second)
	synctest.Wait()
}

// TestAnInstanceThatCannotBeStarted returns its row and its room, so that it is placed again. This also holds when
// the report reaches the leader late.
func TestAnInstanceThatCannotBeStarted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		key := w.desire()
		w.hooks.fail(errStart, nil)
		work := Work{LRPs: []LRPWork{{Key: key, Service: w.leader.desired.Service, Instance: "i1",
			Workload: sleeper("forever")}}}
		w.perform(work)
		if row := w.leader.rowOf(); row.State != lrp.Unclaimed || row.CrashCount != 0 {
			t.Fatalf("row %+v, want it UNCLAIMED and no crash counted", row)
		}
		if n := len(w.exec.List()); n != 0 {
			t.Fatalf("%d containers left", n)
		}
		w.hooks.fail(nil, nil)
		work.LRPs[0].Instance = "i2"
		w.perform(work)
		if row := w.leader.rowOf(); row.State != lrp.Running || row.Instance != "i2" {
			t.Fatalf("row %+v", row)
		}
	})
}

func TestATaskThatCannotBeStarted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.desireTask("t1")
		w.hooks.fail(errStart, nil)
		w.performTask("t1")
		got := w.leader.taskRow()
		if got.State != task.Completed || got.Outcome != task.Failed || got.Result.ExitCode != -1 ||
			got.Result.Reason != task.ReasonRunFailed+": no such program" {
			t.Fatalf("row %+v", got)
		}
		if n := len(w.exec.List()); n != 0 {
			t.Fatalf("%d containers left", n)
		}
	})
}

// TestTheReasonOfAFailedStartIsNotLost: a leader that does not answer when the start fails gets the reason later,
// and not a report that the container is gone.
func TestTheReasonOfAFailedStartIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.desireTask("t1")
		w.hooks.fail(errStart, nil)
		w.hooks.mu.Lock()
		w.hooks.starting = func() { w.silence(true) }
		w.hooks.mu.Unlock()
		w.performTask("t1")
		if got := w.leader.taskRow(); got.State != task.Running {
			t.Fatalf("row %+v", got)
		}
		w.silence(false)
		w.poll()
		if got := w.leader.taskRow(); got.Outcome != task.Failed ||
			got.Result.Reason != task.ReasonRunFailed+": no such program" {
			t.Fatalf("row %+v", got)
		}
		if n := len(w.exec.List()); n != 0 {
			t.Fatalf("%d containers left", n)
		}
	})
}

// TestAnEvacuatingRowWithoutContainerIsRemoved, once the index has its ordinary row again; a row
// of another process under this name is not this cell's.
func TestAnEvacuatingRowWithoutContainerIsRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		key := w.desire()
		row := lrp.Actual{Key: key, Service: w.leader.desired.Service, Presence: lrp.Evacuating, State: lrp.Running,
			Since:   w.clock.Wall(),
			Expires: w.clock.Wall().Add(time.Hour), Identity: lrp.Identity{Instance: "gone", Cell: "c1", Proc: "another"}}
		theirs := row
		ordinary := w.leader.index.Ordinary
		w.setIndex(func(x *lrp.Index) { x.Ordinary, x.Evacuating = nil, &theirs })
		w.poll()
		w.setIndex(func(x *lrp.Index) {
			if x.Evacuating != &theirs {
				t.Errorf("the row of another process: %+v", x.Evacuating)
			}
			ours := row
			ours.Proc = string(w.proc())
			x.Evacuating = &ours
		})
		w.poll()
		w.setIndex(func(x *lrp.Index) {
			if x.Evacuating == nil {
				t.Error("removed although nothing else serves the index")
			}
			x.Ordinary = ordinary
		})
		w.poll()
		w.setIndex(func(x *lrp.Index) {
			if x.Evacuating != nil || x.Ordinary != ordinary {
				t.Errorf("left: %+v", x.Evacuating)
			}
		})
	})
}

// TestAResultFileThatCannotBeRead fails the task that has to leave one, and hides no other failure.
func TestAResultFileThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		code   int
		reason string
	}{
		"succeeded": {0, task.ReasonResult + ": file result: is a directory"},
		"failed":    {3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.desireTask("t1")
				w.hooks.fail(nil, errors.New("file result: is a directory"))
				w.performTask("t1")
				w.exec.Exit(TaskContainer("u-t1"), c.code)
				synctest.Wait()
				got := w.leader.taskRow()
				if got.Outcome != task.Failed || got.Result.ExitCode != c.code {
					t.Fatalf("row %+v", got)
				}
				if (got.Result.Reason == c.reason) != (c.reason != "") {
					t.Errorf("reason %q", got.Result.Reason)
				}
				if n := len(w.exec.List()); n != 0 {
					t.Fatalf("%d containers left", n)
				}
			})
		})
	}
}

// TestAStartThatIsRefusedForGood ends the container: another instance has the row.
func TestAStartThatIsRefusedForGood(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		key := w.desire()
		w.perform(Work{LRPs: []LRPWork{{Key: key, Service: w.leader.desired.Service, Instance: "i1",
			Workload: sleeper("forever")}}})
		other := &lrp.Actual{Key: key, Service: w.leader.desired.Service, State: lrp.Running, Since: w.clock.Wall(),
			Identity: lrp.Identity{Instance: "other", Cell: "c2", Proc: "p2"}}
		w.setIndex(func(x *lrp.Index) { x.Ordinary = other })
		w.poll()
		if got := w.leader.rowOf(); got != other {
			t.Errorf("row %+v", got)
		}
		if n := len(w.exec.List()); n != 0 {
			t.Errorf("%d containers left", n)
		}
	})
	inBubble(t, func(t *testing.T, w *world) {
		w.desireTask("t1")
		w.leader.mu.Lock()
		held := *w.leader.task
		held.State, held.Holder, held.Reservation = task.Running, task.Holder{Cell: "c2", Proc: "p2"}, "r2"
		w.leader.task = &held
		w.leader.mu.Unlock()
		w.performTask("t1")
		if got := w.leader.taskRow(); got != &held {
			t.Errorf("row %+v", got)
		}
		if n := len(w.exec.List()); n != 0 {
			t.Errorf("%d containers left", n)
		}
	})
}
