package bbs

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"cantina/lrp"
	"cantina/plan"
	"cantina/store"
	"cantina/task"
	"cantina/worker"
)

// report is the report of a cell's process, x1 of cell x, about the containers that it has.
func (r *rig) report(cell string, all ...worker.Alive) {
	r.t.Helper()
	r.mu.Lock()
	if r.alive == nil {
		r.alive = map[string][]worker.Alive{}
	}
	r.alive[cell+"1"] = all
	r.mu.Unlock()
	r.b.SessionChanged(worker.SessionChanged{Cell: worker.CellName(cell), Proc: worker.Proc(cell + "1"), From: worker.New,
		To: worker.Unhealthy})
	synctest.Wait()
}

// wentBack is a store that went back: it has an instance of an exclusive service on cell a and no task, while
// cell b reports an older instance of it, and a task.
func (r *rig) wentBack() lrp.Key {
	r.t.Helper()
	s := web(1, "1")
	s.Exclusive = true
	r.apply([]lrp.Desired{s}, nil)
	r.serve()
	key := r.b.services.Keys()[0]
	r.setStale(true)
	r.report("a", worker.Alive{ID: r.b.services.Index(key).Ordinary.Instance, Process: key.Process, Index: key.Index,
		Domain: "d", Service: "web"})
	r.report("b", worker.Alive{ID: "older", Process: key.Process, Index: key.Index, Domain: "d", Service: "web"},
		worker.Alive{ID: "container", Task: "d.t", Older: true, Bound: true})
	r.setStale(false)
	r.b.StartsChanged()
	r.take()
	return key
}

// makes makes the task again, and returns its row.
func (r *rig) makes(guid string) *task.Task {
	r.t.Helper()
	_, err := r.b.DesireTask(r.t.Context(), plan.NewTask{GUID: guid, Domain: "d",
		Definition: task.Definition{Workload: runs("/bin/true")}}, plan.Write{})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.b.tasks.Get(guid)
}

// TestReportedContainersOutliveTheLeader: containers without a row are known to the leader after the one that they were
// reported to, also when their process does not report again. Their task and index do not start beside them.
func TestReportedContainersOutliveTheLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		key := r.wentBack()
		for range 2 {
			r.reelect()
		}
		if x := r.makes("d.t"); x.State != task.Running || x.UID != "container" || x.Holder != (task.Holder{Cell: "b",
			Proc: "b1"}) {
			t.Errorf("the task: %+v", x)
		}
		if err := r.event(key, lrp.Remove{By: r.b.services.Index(key).Ordinary.Identity}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		older := lrp.Identity{Instance: "older", Cell: "b", Proc: "b1"}
		if o := r.b.services.Index(key).Ordinary; o == nil || o.Identity != older {
			t.Errorf("the instance: %+v", o)
		}
		if lrps, tasks, _ := r.take(); len(lrps)+len(tasks) != 0 {
			t.Errorf("placed: %v %v", lrps, tasks)
		}
		if err := r.event(key, lrp.Remove{By: older}); err != nil {
			t.Fatal(err)
		}
		if lrps, _, _ := r.take(); len(lrps) == 0 {
			t.Errorf("both are gone, and it is not placed: %v", lrps)
		}
		if left := r.rowsLeft(prefixReported); len(left) != 0 {
			t.Errorf("rows of containers that are gone: %v", left)
		}
	})
}

// TestReportedContainersThatAreGone: each proof that a container is gone deletes its row, under the leader that it was
// reported to and under a later one. Then its task and its index are placed.
func TestReportedContainersThatAreGone(t *testing.T) {
	for name, gone := range map[string]func(r *rig){
		"the process is dead": func(r *rig) {
			r.b.Dead(worker.Dead{Cell: "b", Proc: "b1", Proof: worker.ProofExpiry}, "")
		},
		"it has other containers":       func(r *rig) { r.b.Lists("b1", nil, nil) },
		"it reports others":             func(r *rig) { r.report("b"); r.b.Lists("b1", nil, nil) },
		"it is in no list of processes": func(r *rig) { r.unlisted("b1") },
	} {
		for when, later := range map[string]bool{"the same leader": false, "a later leader": true} {
			t.Run(name+", "+when, func(t *testing.T) {
				inBubble(t, func(t *testing.T, r *rig) {
					key := r.wentBack()
					if later {
						r.reelect()
					}
					if left := r.rowsLeft(prefixReported); len(left) != 2 {
						t.Fatalf("rows: %v", left)
					}
					gone(r)
					synctest.Wait()
					if x := r.makes("d.t"); x.State != task.Pending {
						t.Errorf("the task: %+v", x)
					}
					if err := r.event(key, lrp.Remove{By: r.b.services.Index(key).Ordinary.Identity}); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					if lrps, tasks, _ := r.take(); len(lrps) == 0 || len(tasks) == 0 {
						t.Errorf("placed: %v %v", lrps, tasks)
					}
					if left := r.rowsLeft(prefixReported); len(left) != 0 {
						t.Errorf("rows: %v", left)
					}
				})
			})
		}
	}
}

// unlisted begins a term whose member list does not have the process.
func (r *rig) unlisted(proc string) {
	r.t.Helper()
	for _, key := range r.rowsLeft(prefixReported) {
		_, kind, payload, err := store.Decode(r.value(key))
		if err != nil {
			r.t.Fatal(err)
		}
		other := []byte(fmt.Sprintf("%.1sx", proc))
		r.overwrite(key, store.Encode(schema, kind, bytes.ReplaceAll(payload, []byte(proc), other)))
	}
	r.reelect()
}

// TestUnreadableReportedContainers: while the row of a reported container cannot be read, its index and its task do not
// start. A row of its own that is readable again does not change that.
func TestUnreadableReportedContainers(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		key := r.wentBack()
		r.overwrite(reportedTaskRow("d.t"), []byte("garbage"))
		r.overwrite(reportedIndexRow(key), []byte("garbage"))
		r.overwrite(IndexRow(key), []byte("garbage"))
		r.reelect()
		release := func(row string) {
			t.Helper()
			done := make(chan error, 1)
			if err := r.b.Release(row, false, nil, func(_ int64, err error) { done <- err }); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		_, err := r.b.DesireTask(t.Context(), plan.NewTask{GUID: "d.t", Domain: "d",
			Definition: task.Definition{Workload: runs("/bin/true")}}, plan.Write{})
		if !errors.Is(err, task.ErrExists) {
			t.Errorf("the task: %v", err)
		}
		release(IndexRow(key))
		if lrps, _, _ := r.take(); len(lrps) != 0 || !r.b.services.Quarantined(key) {
			t.Errorf("the index is placed: %v", lrps)
		}
		release(reportedIndexRow(key))
		release(reportedTaskRow("d.t"))
		r.makes("d.t")
		synctest.Wait()
		if lrps, tasks, _ := r.take(); len(lrps) == 0 || len(tasks) == 0 {
			t.Errorf("placed: %v %v", lrps, tasks)
		}
	})
}
