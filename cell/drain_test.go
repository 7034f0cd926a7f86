package cell

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/executor"
	"cantina/resource"
	"cantina/task"
	pb "cantina/wire/cantinav1"
)

func TestADrainedCellRefusesWorkAndInterruptsBatch(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		key := w.desire()
		w.runBatch(1, sleeper("1h"))
		if err := w.cell.Drain(context.Background(), w.leader.term, w.proc(),
			Drain{ID: "d1", Deadline: time.Minute, StopBatch: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		all := ended(t, w.leader)
		if len(all) != 1 || all[0].GetAgain() != pb.BatchAgain_BATCH_AGAIN_NOW || all[0].GetReason() != reasonDrained {
			t.Fatalf("got %v", all)
		}
		refused := w.perform(Work{LRPs: []LRPWork{{Key: key, Instance: "i1", Workload: sleeper("forever")}}})
		if len(refused) != 1 || refused[0].Reason != "cell is draining" {
			t.Fatalf("got %+v", refused)
		}
		if !w.cell.report.state().Draining {
			t.Fatal("placement gets no report")
		}
		if err := w.cell.Drain(context.Background(), w.leader.term, w.proc(), Drain{Undo: true}); err != nil {
			t.Fatal(err)
		}
		if refused = w.perform(Work{LRPs: []LRPWork{{Key: key, Instance: "i1",
			Workload: sleeper("forever")}}}); len(refused) != 0 {
			t.Fatalf("after undrain: %+v", refused)
		}
	})
}

// TestOrdersThatOvertakeOneAnother: an undrain that arrives before its drain, or a drain that arrives after its
// replacement, drains nothing. Under another leader the same name is accepted in the order of arrival. The leader
// gets each change at once.
func TestOrdersThatOvertakeOneAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		send := func(e Drain) {
			t.Helper()
			if err := w.cell.Drain(context.Background(), w.leader.term, w.proc(), e); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		is := func(id string) {
			t.Helper()
			if s := w.cell.report.state(); s.Draining != (id != "") || s.Drain.ID != id {
				t.Fatalf("follows %q (%v), want %q", s.Drain.ID, s.Draining, id)
			}
		}
		send(Drain{ID: "a", Undo: true})
		send(Drain{ID: "a", Deadline: time.Second})
		is("")
		send(Drain{ID: "b", Deadline: time.Second})
		is("b")
		send(Drain{ID: "c", Deadline: time.Hour})
		send(Drain{ID: "b", Deadline: time.Second})
		is("c")
		send(Drain{ID: "c", Undo: true})
		send(Drain{ID: "c", Deadline: time.Second})
		is("")
		later := w.leader.term
		later.Revision++
		if e := w.cell.drain.drain.follow(Drain{ID: "c"}, later, time.Time{}); !e.on || e.id != "c" {
			t.Fatalf("another leader's: %+v", e)
		}
	})
}

// TestADrainEndsAtItsDeadline: the rest ends within a moment of the deadline, also before the next poll, and the
// cell reports the work it waited for. A repeated order changes nothing; a different drain starts over.
func TestADrainEndsAtItsDeadline(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.runBatch(1, sleeper("1h"))
		send := func(e Drain) {
			if err := w.cell.Drain(context.Background(), w.leader.term, w.proc(), e); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		first := Drain{ID: "d1", Deadline: 3 * time.Second}
		send(first)
		time.Sleep(2 * time.Second)
		send(first)
		if s := w.cell.report.state().Drain; s.ID != "d1" || s.Over || len(s.Waits) != 1 {
			t.Fatalf("before its deadline: %+v", s)
		}
		if got := ended(t, w.leader); len(got) != 0 {
			t.Fatalf("ended before the deadline: %v", got)
		}
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		s := w.cell.report.state().Drain
		if !s.Over || len(s.Waits) != 1 {
			t.Fatalf("after its deadline: %+v", s)
		}
		if got := ended(t, w.leader); len(got) != 1 || got[0].GetAgain() != pb.BatchAgain_BATCH_AGAIN_NOW {
			t.Fatalf("batch task after the deadline: %v", got)
		}
		send(first)
		if s := w.cell.report.state().Drain; !s.Over {
			t.Fatalf("the repeated order starts over: %+v", s)
		}
		send(Drain{ID: "d2", Deadline: time.Minute})
		if s := w.cell.report.state().Drain; s.Over || s.ID != "d2" || len(s.Waits) != 0 {
			t.Fatalf("a second drain: %+v", s)
		}
	})
}

// runTask has a task run in a container of this cell.
func (w *world) runTask(d task.Definition) {
	w.t.Helper()
	d.Workload = *sleeper("forever")
	row, _, err := task.Desire(task.Task{GUID: "t1", UID: "u1", Domain: "d", Definition: &d}, w.clock.Wall())
	if err != nil {
		w.t.Fatal(err)
	}
	w.leader.mu.Lock()
	w.leader.task = row
	w.leader.mu.Unlock()
	w.perform(Work{Tasks: []TaskWork{{GUID: "t1", UID: "u1", Domain: "d", Workload: sleeper("forever"),
		DeadlineBound: true}}})
	if got := w.leader.taskRow(); got.State != task.Running {
		w.t.Fatalf("%+v", got)
	}
}

// TestTheEndOfATaskIsReportedAfterItsEnd: a container may end by the deadline of a drain, a cancellation or an
// orderly end of the cell. In each case no report calls the task ended or gone while its container may run. A stuck
// container is shown as such meanwhile, and makes the cell unclean.
func TestTheEndOfATaskIsReportedAfterItsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		end    func(w *world)
		reason string
	}{
		"drain": {func(w *world) {
			if err := w.cell.Drain(context.Background(), w.leader.term, w.proc(),
				Drain{ID: "d1", Deadline: 3 * time.Second}); err != nil {
				w.t.Fatal(err)
			}
		}, task.ReasonDrain},
		"cancellation": {func(w *world) {
			w.leader.mu.Lock()
			defer w.leader.mu.Unlock()
			next, _, err := task.Step(w.leader.task, task.Cancel{}, task.Env{Now: w.clock.Wall()})
			if err != nil {
				w.t.Fatal(err)
			}
			w.leader.task = next
		}, task.ReasonCancelled},
		"leaving": {func(w *world) { w.cell.Leave() }, reasonLeaving},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.runTask(task.Definition{})
				w.exec.Hang("t-u1")
				c.end(w)
				time.Sleep(50 * time.Second) // over a poll, and two of a drain
				synctest.Wait()
				if got := w.leader.taskRow(); got.Ended() && !got.Ending() {
					t.Fatalf("reported as %v, %q, while its container runs", got.Outcome, got.Result.Reason)
				}
				s := w.cell.report.state()
				if !strings.HasPrefix(s.Unavailable, "unclean: task t1 (STUCK_KILLING") || len(s.Conditions) != 1 ||
					s.Foreign[resource.MemoryMB] != 10 {
					t.Errorf("the cell reports %q, %v, foreign %v", s.Unavailable, s.Conditions, s.Foreign)
				}
				w.exec.Release("t-u1")
				time.Sleep(31 * time.Second) // a poll
				synctest.Wait()
				got := w.leader.taskRow()
				if !got.Ended() || got.Ending() || got.Result.Reason != c.reason || got.Result.Ended.IsZero() {
					t.Errorf("reported as %v, %q, ended at %v", got.Outcome, got.Result.Reason, got.Result.Ended)
				}
				says := "" // a cell that leaves differs from one that takes work
				if name == "leaving" {
					says = "its process is shutting down"
				}
				if len(w.exec.List()) != 0 || w.cell.report.state().Unavailable != says {
					t.Errorf("left: %v, %q", w.exec.List(), w.cell.report.state().Unavailable)
				}
			})
		})
	}
}

// TestOwnEndsAreNotDrained: the deadline of a drain stops no task that has ended by itself, and its own end is
// reported.
func TestOwnEndsAreNotDrained(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.runTask(task.Definition{})
		w.cell.containers.endReasons.put("t-u1", task.ReasonDrain)
		w.exec.Exit("t-u1", 0)
		synctest.Wait()
		if got := w.leader.taskRow(); got.Outcome != task.Succeeded {
			t.Errorf("%v: %+v", got.Outcome, got.Result)
		}
		ct := executor.Container{ID: "b-1.7.1", State: executor.Completed}
		w.cell.containers.endReasons.put(ct.ID, reasonDrained)
		if w.cell.containers.interrupted(&ct) {
			t.Error("a batch task that ended by itself runs again")
		}
	})
}

// TestNoBatchTaskStartsOnACellThatStopsThem: a start that was on its way when the drain came ends at once. The task
// runs again elsewhere.
func TestNoBatchTaskStartsOnACellThatStopsThem(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		if err := w.cell.Drain(context.Background(), w.leader.term, w.proc(), Drain{ID: "d1", StopBatch: true}); err != nil {
			t.Fatal(err)
		}
		w.runBatch(1, sleeper("1h"))
		synctest.Wait()
		if got := ended(t, w.leader); len(got) != 1 || got[0].GetAgain() != pb.BatchAgain_BATCH_AGAIN_NOW ||
			got[0].GetReason() != reasonDrained {
			t.Fatalf("got %v", got)
		}
	})
}
