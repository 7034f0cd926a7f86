package bbs

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
	"cantina/worker"
)

// TestTheInitialWaitHoldsPlacement: while rows may be older than the work of cells, tasks and exclusive instances
// request no placement. They report the reason, and end only by their own timeout. All others are placed all the
// while, and these at once when the wait is over.
func TestTheInitialWaitHoldsPlacement(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.setStale(true)
		exclusive := web(1, "1")
		exclusive.Exclusive = true
		ordinary := web(1, "1")
		ordinary.Service.Name = "ordinary"
		r.apply([]lrp.Desired{exclusive, ordinary}, nil)
		short := task.Definition{Workload: runs("/bin/true"), PendingTimeout: time.Minute}
		long := task.Definition{Workload: runs("/bin/true"), WhenFull: task.WhenFullFail}
		for guid, d := range map[string]task.Definition{"short": short, "long": long} {
			if _, err := r.b.DesireTask(t.Context(), plan.NewTask{GUID: guid, Domain: "d", Definition: d},
				plan.Write{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		lrps, tasks, _ := r.take()
		if len(lrps) != 1 || lrps[0].Desired.Service.Name != "ordinary" || len(tasks) != 0 {
			t.Fatalf("places are asked for: %+v %+v", lrps, tasks)
		}
		r.run(lrps[0])
		instances, _ := r.b.ListInstances(plan.InstanceFilter{Service: "web"}, plan.Range{Limit: 9})
		if len(instances.Items) != 1 || instances.Items[0].PlacementError != HeldByWait {
			t.Errorf("%+v", instances.Items)
		}
		time.Sleep(61 * time.Second) // kicks, the full pass and the time-out of one
		synctest.Wait()
		if lrps, tasks, _ = r.take(); len(lrps)+len(tasks) != 0 {
			t.Fatalf("places are asked for: %+v %+v", lrps, tasks)
		}
		if x, _ := r.b.GetTask("long"); x.State != task.Pending || x.Rejection != HeldByWait {
			t.Errorf("%+v", x.Task)
		}
		if x, _ := r.b.GetTask("short"); x.Outcome != task.Failed || !strings.Contains(x.Result.Reason, "initial wait") ||
			!strings.HasPrefix(x.Result.Reason, task.ReasonNotStarted) {
			t.Errorf("%+v", x.Task)
		}
		r.b.StartsChanged()
		if lrps, tasks, _ = r.take(); len(lrps)+len(tasks) != 0 {
			t.Fatalf("still blind: %+v %+v", lrps, tasks)
		}
		r.setStale(false)
		r.b.StartsChanged()
		lrps, tasks, _ = r.take()
		if len(lrps) != 1 || lrps[0].Desired.Service.Name != "web" || len(tasks) != 1 || tasks[0].GUID != "long" {
			t.Fatalf("the wait is over: %+v %+v", lrps, tasks)
		}
		r.b.StartsChanged()
		if lrps, tasks, _ = r.take(); len(lrps)+len(tasks) != 0 {
			t.Fatalf("asked for twice: %+v %+v", lrps, tasks)
		}
	})
}

// TestAStaleTermBeginsWithoutAsking: the wait also holds tasks that an earlier term has left.
func TestAStaleTermBeginsWithoutAsking(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		if _, err := r.b.DesireTask(t.Context(), plan.NewTask{GUID: "t", Domain: "d",
			Definition: task.Definition{Workload: runs("/bin/true")}}, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		r.setStale(true)
		r.reelect()
		r.take()
		r.b.RequestPending()
		if _, tasks, _ := r.take(); len(tasks) != 0 {
			t.Fatalf("%+v", tasks)
		}
		r.setStale(false)
		r.b.StartsChanged()
		if _, tasks, _ := r.take(); len(tasks) != 1 || tasks[0].GUID != "t" {
			t.Fatalf("%+v", tasks)
		}
	})
}

// TestReportedContainersHaveTheirRows: a store went back. Its rows have an exclusive instance as waiting, or as
// another one on another cell, and a task as waiting. Yet a cell has the containers, which may survive KILL. The
// report of the cell gives them their rows, so that the end of the wait places none of them again.
func TestReportedContainersHaveTheirRows(t *testing.T) {
	for name, elsewhere := range map[string]bool{"waiting": false, "on another cell": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				s := web(1, "1")
				s.Exclusive = true
				r.apply([]lrp.Desired{s}, nil)
				if elsewhere {
					r.serve()
				}
				def := task.Definition{Workload: runs("/bin/true")}
				wanted := plan.NewTask{GUID: "t", Domain: "d", Definition: def}
				if _, err := r.b.DesireTask(t.Context(), wanted, plan.Write{}); err != nil {
					t.Fatal(err)
				}
				row, _ := r.b.GetTask("t")
				key := r.b.services.Keys()[0]
				r.setStale(true)
				r.reelect()
				r.take()
				r.mu.Lock()
				r.alive = map[string][]worker.Alive{"b1": {
					{ID: "older", Process: key.Process, Index: key.Index, Domain: "d", Service: "web"},
					{ID: row.UID, Task: "t"}, {ID: "another", Task: "t"}, {ID: "unknown", Task: "gone"}, {ID: "ordinary"},
				}}
				r.mu.Unlock()
				r.b.SessionChanged(worker.SessionChanged{Cell: "b", Proc: "b1", From: worker.New, To: worker.Unhealthy})
				synctest.Wait()
				r.setStale(false)
				r.b.StartsChanged()
				synctest.Wait()
				if lrps, tasks, _ := r.take(); len(lrps)+len(tasks) != 0 {
					t.Fatalf("placed again: %+v %+v", lrps, tasks)
				}
				if o := r.b.services.Index(key).Ordinary; !o.Is(lrp.Identity{Instance: "older", Cell: "b"}) || !o.Exclusive {
					t.Errorf("the instance: %+v", o)
				}
				if x, _ := r.b.GetTask("t"); x.State != task.Running || x.Holder != (task.Holder{Cell: "b", Proc: "b1"}) {
					t.Errorf("the task: %+v", x.Task)
				}
			})
		})
	}
}

// TestTasksThatAreMadeAgain: a store that went back has no row of a task whose container a cell reports. When it is
// made again, before the report or after, it is RUNNING there and keeps the uid of its container, which ends once.
func TestTasksThatAreMadeAgain(t *testing.T) {
	def := task.Definition{Workload: runs("/bin/true")}
	for name, late := range map[string]bool{"before the report": false, "after the report": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				make := func(guid string) {
					t.Helper()
					wanted := plan.NewTask{GUID: guid, Domain: "d", Definition: def}
					if _, err := r.b.DesireTask(t.Context(), wanted, plan.Write{}); err != nil {
						t.Fatal(err)
					}
				}
				r.setStale(true)
				if !late {
					make("d.t")
				}
				r.mu.Lock()
				r.alive = map[string][]worker.Alive{"b1": {
					{ID: "older", Task: "d.t", Older: true}, {ID: "deleted", Task: "d.u"},
					{ID: "ended", Task: "d.v", Older: true}, {ID: "gone", Task: "d.w", Older: true, Bound: true},
					{ID: "unlisted", Task: "d.x", Older: true},
				}}
				r.mu.Unlock()
				r.b.SessionChanged(worker.SessionChanged{Cell: "b", Proc: "b1", From: worker.New, To: worker.Unhealthy})
				synctest.Wait()
				if late {
					make("d.t")
				}
				by := task.Holder{Cell: "b", Proc: "b1"}
				if err := r.taskEvent("d.v", task.Complete{UID: "ended", By: by}); err != nil {
					t.Errorf("the end of a container without a row: %v", err)
				}
				r.b.Lists("b1", nil, []string{"d.t", "d.u", "d.w"}) // and no other any more
				make("d.u")
				make("d.v")
				make("d.x")
				r.setStale(false)
				r.b.StartsChanged()
				synctest.Wait()
				_, tasks, _ := r.take()
				var asked []string
				for _, w := range tasks {
					asked = append(asked, w.GUID)
				}
				slices.Sort(asked)
				if !slices.Equal(asked, []string{"d.u", "d.v", "d.x"}) {
					t.Errorf("to be placed: %v", asked)
				}
				x, _ := r.b.GetTask("d.t")
				if x.State != task.Running || x.UID != "older" || x.Holder != by || x.Definition.OnLost != task.LostKeep {
					t.Errorf("the task: %+v", x.Task)
				}
				r.b.Dead(worker.Dead{Cell: "b", Proc: "b1", Proof: worker.ProofExpiry}, "")
				make("d.w")
				if x, _ := r.b.GetTask("d.w"); x.State != task.Pending {
					t.Errorf("of a dead process: %+v", x.Task)
				}
			})
		})
	}
}
