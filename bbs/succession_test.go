package bbs

import (
	"fmt"
	"testing"
	"testing/synctest"

	"cantina/action"
	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
	"cantina/worker"
)

// TestSuccession: when a process takes the directory of another, its rows wait for its report: those
// of work that survives the restart of a cell, or that it has, go to it, the others away. They go
// also when it will never come.
func TestSuccession(t *testing.T) {
	kept, stopped := lrp.ServiceKey{Domain: "d", Name: "web"}, lrp.ServiceKey{Domain: "d", Name: "plain"}
	type step func(r *rig)
	succeeded := func(r *rig) { r.b.CellMustDie("a", "a1", true) }
	for name, c := range map[string]struct {
		then          step
		kept, stopped string // cells and processes that run them
	}{
		"at first":              {func(*rig) {}, "a a1", "a a1"},
		"the successor has all": {func(r *rig) { r.has("a2", kept, stopped); r.b.ProcDead("a", "a1", "a2") }, "a a2", "a a2"},
		"the successor reports": {func(r *rig) { r.b.ProcDead("a", "a1", "a2") }, "a a2", "b b1"},
		"reported twice": {func(r *rig) { r.b.ProcDead("a", "a1", "a2"); r.b.ProcDead("a", "a1", "a2") }, "a a2",
			"b b1"},
		"succeeded again": {func(r *rig) { r.b.CellMustDie("a", "a2", true); r.b.ProcDead("a", "a1", "a3") }, "a a3",
			"b b1"},
		"the successor is lost": {func(r *rig) { r.b.CellMustDie("a", "a2", false) }, "b b1", "b b1"},
		"the second is lost": {func(r *rig) {
			r.b.CellMustDie("a", "a2", true)
			r.b.CellMustDie("a", "a3", false)
		}, "b b1", "b b1"},
		"dead without successor": {func(r *rig) { r.b.ProcDead("a", "a1", "") }, "b b1", "b b1"},
		"another cell is lost":   {func(r *rig) { r.b.CellMustDie("c", "c1", false) }, "a a1", "a a1"},
		"a new leader":           {func(r *rig) { r.reelect() }, "a a1", "a a1"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				k, s := web(1, "1"), web(1, "1")
				k.Workload.OnCellRestart = action.RestartKeep
				s.Service = stopped
				r.apply([]lrp.Desired{k, s}, nil)
				r.serve()
				if got := where(t, r, kept) + ", " + where(t, r, stopped); got != "a a1, a a1" {
					t.Fatalf("begins with %s", got)
				}
				r.kill("a1")
				succeeded(r)
				r.serve()
				c.then(r)
				r.serve()
				if got := where(t, r, kept); got != c.kept {
					t.Errorf("kept: %s, want %s", got, c.kept)
				}
				if got := where(t, r, stopped); got != c.stopped {
					t.Errorf("stopped: %s, want %s", got, c.stopped)
				}
				synctest.Wait()
				r.b.mu.Lock()
				defer r.b.mu.Unlock()
				for cell, procs := range r.b.processes.waiting {
					for _, p := range procs {
						if len(r.b.services.OnProc(p)) == 0 && p == "a1" {
							t.Errorf("%s still waits for %s", cell, p)
						}
					}
				}
			})
		})
	}
}

// has makes a process report containers of all instances of some services.
func (r *rig) has(proc string, services ...lrp.ServiceKey) {
	var all []string
	for _, k := range services {
		page, err := r.b.ListInstances(plan.InstanceFilter{Domain: k.Domain, Service: k.Name}, plan.Range{Limit: 10})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, i := range page.Items {
			all = append(all, i.Instance)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alive = map[string][]worker.Alive{proc: containers(all...)}
}

// containers are containers of which only the id is reported.
func containers(ids ...string) (all []worker.Alive) {
	for _, id := range ids {
		all = append(all, worker.Alive{ID: id})
	}
	return all
}

// where is the cell and the process that run the one instance of a service.
func where(t *testing.T, r *rig, k lrp.ServiceKey) string {
	t.Helper()
	page, err := r.b.ListInstances(plan.InstanceFilter{Domain: k.Domain, Service: k.Name,
		States: []lrp.State{lrp.Running}}, plan.Range{Limit: 10})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%s: %d instances run, %v", k.Name, len(page.Items), err)
	}
	return fmt.Sprint(page.Items[0].Cell, " ", page.Items[0].Proc)
}

// TestWorkOfASuccessorIsNotDead: an exclusive instance and a task do not survive the restart of their cell. They
// are released and lost when its process is dead. If the successor has reported a container of theirs as stuck,
// they go to the successor instead.
func TestWorkOfASuccessorIsNotDead(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		s := web(1, "1")
		s.Exclusive = true
		r.apply([]lrp.Desired{s}, nil)
		r.serve()
		for _, guid := range []string{"t1", "t2", "t3"} {
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
		key := lrp.ServiceKey{Domain: "d", Name: "web"}
		page, err := r.b.ListInstances(plan.InstanceFilter{Domain: key.Domain, Service: key.Name}, plan.Range{Limit: 10})
		if err != nil || len(page.Items) != 1 {
			t.Fatal(page.Items, err)
		}
		stuck, _ := r.b.GetTask("t1")
		ending, err := r.b.CancelTask(t.Context(), "t3", plan.Write{})
		if err != nil {
			t.Fatal(err)
		}
		r.mu.Lock()
		r.alive = map[string][]worker.Alive{"a2": containers(page.Items[0].Instance, stuck.UID, ending.UID)}
		r.mu.Unlock()
		r.b.CellMustDie("a", "a1", true)
		r.b.Dead(worker.Dead{Cell: "a", Proc: "a1", Proof: worker.ProofSuccessor}, "a2")
		synctest.Wait()
		if got := where(t, r, key); got != "a a2" {
			t.Errorf("the exclusive instance: %s", got)
		}
		if t1, _ := r.b.GetTask("t1"); t1.State != task.Running || t1.Holder != (task.Holder{Cell: "a", Proc: "a2"}) {
			t.Errorf("the task that does not die: %+v", t1)
		}
		if t2, _ := r.b.GetTask("t2"); t2.Outcome != task.Lost {
			t.Errorf("the task that is gone: %+v", t2)
		}
		// The successor that holds it waits for its end, and not for a process that is dead.
		if t3, _ := r.b.GetTask("t3"); !t3.Ending() || t3.Holder.Proc != "a2" {
			t.Errorf("the task that was cancelled and does not die: %+v", t3)
		}
		// No process reports on it any more.
		r.b.Dead(worker.Dead{Cell: "a", Proc: "a2", Proof: worker.ProofExpiry}, "a2")
		synctest.Wait()
		if t1, _ := r.b.GetTask("t1"); t1.Outcome != task.Lost {
			t.Errorf("of a cell that is dead: %+v", t1)
		}
	})
}
