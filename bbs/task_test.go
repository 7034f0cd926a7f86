package bbs

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cantina/fault"
	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
)

func TestADeadCellLosesItsTasks(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for _, guid := range []string{"t1", "t2"} {
			if _, err := r.b.DesireTask(t.Context(), plan.NewTask{GUID: guid, Domain: "d",
				Definition: task.Definition{Workload: runs("/bin/true")}}, plan.Write{}); err != nil {
				t.Fatal(err)
			}
			row, _ := r.b.GetTask(guid)
			if err := r.taskEvent(guid, task.Start{UID: row.UID, By: task.Holder{Cell: "a", Proc: "a1"},
				Reservation: "r"}); err != nil {
				t.Fatal(err)
			}
		}
		r.take()
		r.b.ProcDead("a", "a1", "")
		synctest.Wait()
		row, _ := r.b.GetTask("t1")
		if row.Outcome != task.Lost {
			t.Fatalf("%+v", row)
		}
		for outcome, want := range map[task.Outcome]int{task.Lost: 2, task.Succeeded: 0} {
			if page, err := r.b.ListTasks(plan.TaskFilter{Outcomes: []task.Outcome{outcome}}, plan.Range{}); err != nil ||
				len(page.Items) != want {
				t.Errorf("%d tasks %v, %v", len(page.Items), outcome, err)
			}
		}
		if err := r.b.DeleteTask(t.Context(), "t1", plan.Write{}); !errors.Is(err, task.ErrLostUnresolved) {
			t.Fatalf("deleted a lost task: %v", err)
		}
		if _, err := r.b.RerunTask(t.Context(), "t1", plan.Write{}); !errors.Is(err, task.ErrLostUnresolved) {
			t.Fatalf("ran a lost task again: %v", err)
		}
		resolved, err := r.b.ResolveTask(t.Context(), "t1", task.ResolvedRerun, false, plan.Write{})
		if err != nil || resolved.Successor == "" {
			t.Fatalf("%v %+v", err, resolved)
		}
		r.serve()
		rerun, err := r.b.GetTask(resolved.Successor)
		if err != nil || rerun.Outcome != task.Succeeded || string(rerun.Result.Output) != "done" {
			t.Fatalf("%v %+v", err, rerun)
		}
		// The real end of the other one comes late, from a later process of the cell.
		row, _ = r.b.GetTask("t2")
		if err := r.taskEvent("t2", task.Complete{UID: row.UID, By: task.Holder{Cell: "a", Proc: "a2"},
			Result: task.Result{Output: []byte("late")}}); err != nil {
			t.Fatal(err)
		}
		if row, _ = r.b.GetTask("t2"); row.Outcome != task.Succeeded {
			t.Fatalf("%+v", row)
		}
	})
}

// TestOneRunOfANameAtATime: of several reruns at the same time one is accepted, whichever of the ended tasks is named;
// tasks without a name run again any number of times.
func TestOneRunOfANameAtATime(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for _, n := range []plan.NewTask{{GUID: "t1", Name: "n"}, {GUID: "t2", Name: "n"}, {GUID: "u"}} {
			n.Domain, n.Definition = "d", task.Definition{Workload: runs("/bin/true")}
			if _, err := r.b.DesireTask(t.Context(), n, plan.Write{}); err != nil {
				t.Fatal(err)
			}
		}
		r.serve()
		rerun := func(guids ...string) (accepted int) {
			var wg sync.WaitGroup
			var n atomic.Int64
			for _, guid := range guids {
				wg.Go(func() {
					switch _, err := r.b.RerunTask(t.Context(), guid, plan.Write{}); {
					case err == nil:
						n.Add(1)
					case !errors.Is(err, task.ErrSameName):
						t.Errorf("%s: %v", guid, err)
					}
				})
			}
			wg.Wait()
			return int(n.Load())
		}
		if n := rerun("t1", "t1", "t2", "t2"); n != 1 {
			t.Errorf("%d runs of one name at the same time", n)
		}
		if n := rerun("u", "u", "u"); n != 3 {
			t.Errorf("%d of 3 reruns of a task without a name", n)
		}
		r.serve()
		if n := rerun("t1", "t2"); n != 1 {
			t.Errorf("%d runs of one name after the earlier one has ended", n)
		}
	})
}

// TestARerunOfALostTaskOfAName is refused while another task of the name may run, but where that is accepted.
func TestARerunOfALostTaskOfAName(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		desire := func(guid string) string {
			row, err := r.b.DesireTask(t.Context(), plan.NewTask{GUID: guid, Domain: "d", Name: "n",
				Definition: task.Definition{Workload: runs("/bin/true")}}, plan.Write{})
			if err != nil {
				t.Fatal(err)
			}
			return row.UID
		}
		if err := r.taskEvent("t1", task.Start{UID: desire("t1"), By: task.Holder{Cell: "a", Proc: "a1"},
			Reservation: "r"}); err != nil {
			t.Fatal(err)
		}
		r.b.ProcDead("a", "a1", "")
		synctest.Wait()
		desire("t2")
		if _, err := r.b.ResolveTask(t.Context(), "t1", task.ResolvedRerun, false,
			plan.Write{}); !errors.Is(err, task.ErrSameName) || !strings.Contains(err.Error(), "task t2 ") {
			t.Fatalf("run again while another of its name waits: %v", err)
		}
		if x, err := r.b.ResolveTask(t.Context(), "t1", task.ResolvedRerun, true, plan.Write{}); err != nil ||
			x.Successor == "" {
			t.Fatalf("%+v, %v", x, err)
		}
	})
}

// TestTheEndOfACancelledTaskOnALostCell is not waited for, also if its container may still run there.
func TestTheEndOfACancelledTaskOnALostCell(t *testing.T) {
	for _, onLost := range []task.OnLost{task.LostEnd, task.LostKeep} {
		inBubble(t, func(t *testing.T, r *rig) {
			row, err := r.b.DesireTask(t.Context(), plan.NewTask{GUID: "t", Domain: "d",
				Definition: task.Definition{Workload: runs("/bin/true"), OnLost: onLost}}, plan.Write{})
			if err == nil {
				err = r.taskEvent("t", task.Start{UID: row.UID, By: task.Holder{Cell: "a", Proc: "a1"}, Reservation: "r"})
			}
			if err != nil {
				t.Fatal(err)
			}
			if row, err = r.b.CancelTask(t.Context(), "t", plan.Write{}); err != nil || !r.b.BeingEnded(row.Task) {
				t.Fatalf("%+v, %v", row, err)
			}
			r.b.ProcDead("a", "a1", "")
			synctest.Wait()
			if row, _ = r.b.GetTask("t"); r.b.BeingEnded(row.Task) || row.MayStillRun != (onLost == task.LostKeep) {
				t.Errorf("on_lost %d: %+v", onLost, row)
			}
		})
	}
}

// TestACancelledTaskIsDeletedWhenItsContainerIsGone, and not before: a caller that waits for its end polls its row.
// A refused delete changes nothing.
func TestACancelledTaskIsDeletedWhenItsContainerIsGone(t *testing.T) {
	for name, over := range map[string]func(r *rig, uid string) error{
		"gone, reported by its cell": func(r *rig, uid string) error {
			return r.taskEvent("t", task.Missing{UID: uid, By: task.Holder{Cell: "a", Proc: "a1"}})
		},
		"its cell is certainly dead": func(r *rig, _ string) error { r.b.ProcDead("a", "a1", ""); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				if _, err := r.b.DesireTask(t.Context(), plan.NewTask{GUID: "t", Domain: "d",
					Definition: task.Definition{Workload: runs("/bin/true")}}, plan.Write{}); err != nil {
					t.Fatal(err)
				}
				row, _ := r.b.GetTask("t")
				if err := r.taskEvent("t", task.Start{UID: row.UID, By: task.Holder{Cell: "a", Proc: "a1"},
					Reservation: "r"}); err != nil {
					t.Fatal(err)
				}
				if _, err := r.b.RerunTask(t.Context(), "t", plan.Write{}); !errors.Is(err, task.ErrInvalidStateTransition) {
					t.Fatalf("ran a running task again: %v", err)
				}
				if _, err := r.b.CancelTask(t.Context(), "t", plan.Write{}); err != nil {
					t.Fatal(err)
				}
				for range 2 { // also under the next leader
					if err := r.b.DeleteTask(t.Context(), "t", plan.Write{}); !errors.Is(err, task.ErrEnding) ||
						!strings.Contains(err.Error(), "cell a") {
						t.Fatalf("deleted while its container may run: %v", err)
					}
					if _, err := r.b.RerunTask(t.Context(), "t", plan.Write{}); !errors.Is(err, task.ErrEnding) {
						t.Fatalf("ran again while its container may run: %v", err)
					}
					if row, err := r.b.GetTask("t"); err != nil || row.State != task.Completed || !r.b.BeingEnded(row.Task) {
						t.Fatalf("%+v, %v", row, err)
					}
					r.reelect()
				}
				if err := over(r, row.UID); err != nil {
					t.Fatal(err)
				}
				if row, err := r.b.GetTask("t"); err != nil || r.b.BeingEnded(row.Task) || row.ExitCode() != -1 {
					t.Fatalf("its end is not known: %+v, %v", row, err)
				}
				again, err := r.b.RerunTask(t.Context(), "t", plan.Write{})
				if err != nil || again.GUID == "t" || again.UID == row.UID || again.State == task.Completed ||
					again.Definition.Workload.Action.Run.Path != "/bin/true" {
					t.Fatalf("%+v, %v", again, err)
				}
				if err := r.b.DeleteTask(t.Context(), "t", plan.Write{}); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestFiftyCallsWithOneKey covers a fault that users report of tokens checked in the handler: one run, fifty equal
// answers.
func TestFiftyCallsWithOneKey(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		def := task.Definition{Workload: runs("/bin/true")}
		var wg sync.WaitGroup
		guids := make([]string, 50)
		for i := range guids {
			wg.Go(func() {
				row, err := r.b.DesireTask(t.Context(), plan.NewTask{Domain: "d", Definition: def}, plan.Write{Key: "token"})
				if err != nil {
					t.Error(err)
					return
				}
				guids[i] = row.GUID
			})
		}
		wg.Wait()
		for _, g := range guids {
			if g != guids[0] || g == "" {
				t.Fatalf("%v", guids)
			}
		}
		if page, _ := r.b.ListTasks(plan.TaskFilter{}, plan.Range{}); len(page.Items) != 1 {
			t.Fatalf("%d tasks", len(page.Items))
		}
		if _, err := r.b.DesireTask(t.Context(), plan.NewTask{Domain: "e", Definition: def},
			plan.Write{Key: "token"}); !errors.Is(err, fault.ErrKeyReused) {
			t.Fatalf("another request: %v", err)
		}
		r.reelect() // a new leader remembers
		if row, err := r.b.DesireTask(t.Context(), plan.NewTask{Domain: "d", Definition: def},
			plan.Write{Key: "token"}); err != nil || row.GUID != guids[0] {
			t.Fatalf("%v %+v", err, row)
		}
		time.Sleep(25 * time.Hour)
		synctest.Wait()
		if rows := r.rowsLeft("idem/"); len(rows) != 0 {
			t.Fatalf("keys left: %v", rows)
		}
		r.take()
	})
}

func TestAppliedTasksRunOncePerDefinition(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		once := func(arg string) []plan.NamedTask {
			return []plan.NamedTask{{Name: "once", Definition: task.Definition{Workload: runs("/bin/echo", arg)}}}
		}
		r.apply(nil, once("1"))
		r.serve()
		time.Sleep(25 * time.Hour) // the row is collected; that is no reason to run again
		synctest.Wait()
		if _, err := r.b.GetTask("d.once"); !errors.Is(err, fault.ErrCollected) {
			t.Fatalf("%v", err)
		}
		r.reelect()
		if out := r.apply(nil, once("1")); out.Changes[0].Verb != plan.VerbKeep {
			t.Fatalf("%+v", out)
		}
		r.apply(nil, once("2"))
		r.apply(nil, once("3"))
		r.serve()
		for _, guid := range []string{"d.once", "d.once.2"} {
			if row, err := r.b.GetTask(guid); err != nil || row.Outcome != task.Succeeded {
				t.Errorf("%s: %v", guid, err)
			}
		}
		out := r.apply(nil, nil)
		if len(out.Changes) != 1 || out.Changes[0].Verb != plan.VerbRemove || len(r.rowsLeft("applied/")) != 0 {
			t.Fatalf("%+v", out)
		}
	})
}

// TestEndedTasksAreKept as long as the leader's settings require; a later reader gets that duration in the error.
func TestEndedTasksAreKept(t *testing.T) {
	for text, c := range map[string]struct {
		policy task.Policy
		age    time.Duration
	}{
		"kept for 24h, 10000 per domain": {task.Policy{}, 24 * time.Hour},
		"kept for 1h30m, 10000 per":      {task.Policy{Retention: 90 * time.Minute}, 90 * time.Minute},
		"kept for 2m, 10000 per domain":  {task.Policy{Retention: -1}, 2 * time.Minute},
		"kept for 24h, 1 per domain":     {task.Policy{KeepPerDomain: 1}, time.Second},
	} {
		inBubble(t, func(t *testing.T, r *rig) {
			r.depose()
			r.elect(func(cfg *Config) { cfg.Tasks = c.policy })
			for _, guid := range []string{"t", "u"} {
				if _, err := r.b.DesireTask(t.Context(), plan.NewTask{GUID: guid, Domain: "d",
					Definition: task.Definition{Workload: runs("/bin/true")}}, plan.Write{}); err != nil {
					t.Fatal(err)
				}
				if r.serve(); c.policy.KeepPerDomain == 0 {
					break
				}
			}
			if c.policy.KeepPerDomain == 0 {
				time.Sleep(c.age - time.Millisecond)
				synctest.Wait()
				if row, err := r.b.GetTask("t"); err != nil || row.Outcome != task.Succeeded {
					t.Fatalf("%s: %v", text, err)
				}
				time.Sleep(time.Millisecond)
				synctest.Wait()
			}
			if _, err := r.b.GetTask("t"); !errors.Is(err, fault.ErrCollected) || !strings.Contains(err.Error(), text) {
				t.Fatalf("%s: %v", text, err)
			}
		})
	}
}

func TestPrunedServicesAndTasksEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(1, "1")}, []plan.NamedTask{{Name: "long",
			Definition: task.Definition{Workload: runs("/bin/sleep")}}})
		synctest.Wait()
		r.apply(nil, nil)
		r.serve()
		if _, err := r.b.GetService(webKey); !errors.Is(err, ErrServiceNotFound) {
			t.Errorf("%v", err)
		}
		if row, err := r.b.GetTask("d.long"); err != nil || row.Outcome != task.Cancelled {
			t.Errorf("%v %+v", err, row)
		}
	})
}

func TestCallbacksOfTasks(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		_, err := r.b.DesireTask(t.Context(), plan.NewTask{GUID: "t", Domain: "d",
			Definition: task.Definition{Workload: runs("/bin/true"), CallbackURL: "http://x"}}, plan.Write{})
		if err != nil {
			t.Fatal(err)
		}
		r.serve()
		if len(r.callbacks) != 1 || r.callbacks[0].Outcome != task.Succeeded {
			t.Fatalf("%+v", r.callbacks)
		}
		r.b.CallbackDone(r.callbacks[0].Delivery(), false, "status 503")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if len(r.callbacks) != 2 {
			t.Fatalf("%d calls", len(r.callbacks))
		}
		r.b.CallbackDone(r.callbacks[0].Delivery(), true, "")
		synctest.Wait()
		if row, err := r.b.GetTask("t"); err != nil || !row.Callback.Delivered || row.State != task.Completed {
			t.Fatalf("%v %+v", err, row)
		}
		if err := r.b.DeleteTask(t.Context(), "t", plan.Write{}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.b.GetTask("t"); !errors.Is(err, fault.ErrCollected) {
			t.Fatalf("%v", err)
		}
	})
}

// TestASlowEndPoint: an end in delivery is not handed out again; an end that was not taken is. The real end of a
// lost task is handed out at once, and the board reports that the delivery of "lost" is no longer wanted.
func TestASlowEndPoint(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		row, err := r.b.DesireTask(t.Context(), plan.NewTask{GUID: "t", Domain: "d",
			Definition: task.Definition{Workload: runs("/bin/true"), CallbackURL: "http://x"}}, plan.Write{})
		if err != nil {
			t.Fatal(err)
		}
		by := task.Holder{Cell: "a", Proc: "a1"}
		if err := r.taskEvent("t", task.Start{UID: row.UID, By: by, Reservation: "r"}); err != nil {
			t.Fatal(err)
		}
		r.mu.Lock()
		r.full = true
		r.mu.Unlock()
		r.b.ProcDead("a", "a1", "")
		synctest.Wait()
		r.mu.Lock()
		r.full = false
		r.mu.Unlock()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if n := len(r.sent()); n != 2 {
			t.Fatalf("the queue was full: sent %d times", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		lost := r.sent()[1].Delivery()
		if n := len(r.sent()); n != 2 || !r.b.Delivers(lost) {
			t.Fatalf("it is being delivered: sent %d times", n)
		}
		if err := r.taskEvent("t", task.Complete{UID: row.UID, By: by,
			Result: task.Result{Output: []byte("done")}}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		sent := r.sent()
		if len(sent) != 3 || sent[2].Outcome != task.Succeeded || sent[2].Delivery().ID() == lost.ID() ||
			r.b.Delivers(lost) || !r.b.Delivers(sent[2].Delivery()) {
			t.Fatalf("%d sent, %+v", len(sent), sent[len(sent)-1])
		}
		r.b.CallbackDone(lost, true, "")
		if x, _ := r.b.GetTask("t"); x.Callback.Delivered {
			t.Error("the delivery of lost counts for the end")
		}
		r.b.CallbackDone(sent[2].Delivery(), true, "")
		synctest.Wait()
		if x, _ := r.b.GetTask("t"); !x.Callback.Delivered {
			t.Errorf("%+v", x.Callback)
		}
		r.take()
	})
}

// TestADeadLetterIsVisible: an end that cannot be delivered is retried at growing intervals, also by the next
// leader. Then it is counted and reported.
func TestADeadLetterIsVisible(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		if _, err := r.b.DesireTask(t.Context(), plan.NewTask{GUID: "t", Domain: "d",
			Definition: task.Definition{Workload: runs("/bin/true"), CallbackURL: "http://x"}}, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		r.serve()
		began := time.Now()
		for run := 1; run <= 10; run++ {
			if len(r.sent()) != run {
				t.Fatalf("%d calls after %v, want %d", len(r.sent()), time.Since(began), run)
			}
			r.b.CallbackDone(r.sent()[0].Delivery(), false, "status 503")
			synctest.Wait()
			if e, err := r.b.ExplainTask("t"); err != nil || run < 10 && e.Reasons[len(e.Reasons)-1].Code != "callback" {
				t.Fatalf("run %d: %+v, %v", run, e, err)
			}
			if run == 5 {
				r.reelect()
			}
			wait := min(30*time.Second<<(run-1), time.Hour)
			time.Sleep(wait - time.Millisecond)
			synctest.Wait()
			if len(r.sent()) != run {
				t.Fatalf("run %d came before its time", run+1)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		e, err := r.b.ExplainTask("t")
		if err != nil || len(r.sent()) != 10 || r.b.Count().DeadLetters != 1 ||
			e.Reasons[len(e.Reasons)-1] != (plan.Reason{Code: "dead_letter",
				Text: "its callback could not be delivered: status 503"}) {
			t.Fatalf("%d calls, %+v, %v", len(r.sent()), e, err)
		}
		r.take()
	})
}

// TestATaskThatIsNotStartedInTime fails with the arithmetic of the last refusal. Until then a refused task is
// requested again.
func TestATaskThatIsNotStartedInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		row, err := r.b.DesireTask(t.Context(), plan.NewTask{GUID: "t", Domain: "d",
			Definition: task.Definition{Workload: runs("/bin/true")}}, plan.Write{})
		if err != nil {
			t.Fatal(err)
		}
		const why = "insufficient resources: 312 cells: other stack; 40 cells: memory_mb 512 needed, largest free 300"
		r.b.TaskRejected("t", row.UID, "found no compatible cells: no cells registered", false)
		r.b.TaskRejected("t", row.UID, why, false)
		synctest.Wait()
		if e, err := r.b.ExplainTask("t"); err != nil || e.Reasons[0].Code != "insufficient_resources" ||
			e.Reasons[0].Text != why || e.Reasons[0].Longest != 30*time.Minute {
			t.Fatalf("%+v, %v", e, err)
		}
		r.take()
		time.Sleep(30*time.Minute - time.Second)
		synctest.Wait()
		if _, tasks, _ := r.take(); len(tasks) != 59 {
			t.Errorf("asked for %d times in half an hour", len(tasks))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if x, err := r.b.GetTask("t"); err != nil || x.Outcome != task.Failed ||
			x.Result.Reason != "not started within time limit: "+why {
			t.Fatalf("%+v, %v", x.Task, err)
		}
	})
}
