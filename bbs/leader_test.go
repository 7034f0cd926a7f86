package bbs

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cantina/lrp"
	"cantina/plan"
	"cantina/store"
	"cantina/store/mem"
	"cantina/task"
)

func TestARolloutGoesOnUnderANewLeader(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(3, "1")}, nil)
		r.serve()
		r.apply([]lrp.Desired{web(3, "2")}, nil)
		synctest.Wait()
		r.take() // the first requests are lost with the leader
		r.reelect()
		r.serve()
		s, _ := r.b.GetService(webKey)
		if s.Phase != lrp.Steady || s.Target().Number != 2 || s.Running != 3 {
			t.Fatalf("%+v", s)
		}
	})
}

// TestANewLeaderTrustsNoHealthThatItDidNotSee: an instance of the new version that was RUNNING without a leader may
// have ended. It counts once its cell can report and its time has passed. The time without a leader does not count
// as time without progress.
func TestANewLeaderTrustsNoHealthThatItDidNotSee(t *testing.T) {
	for _, ended := range []bool{false, true} {
		inBubble(t, func(t *testing.T, r *rig) {
			plain := func(version string) lrp.Desired {
				d := web(2, version)
				d.Workload.Monitor = nil
				return d
			}
			r.apply([]lrp.Desired{plain("1")}, nil)
			r.serve()
			time.Sleep(2 * time.Second)
			r.apply([]lrp.Desired{plain("2")}, nil)
			synctest.Wait()
			lrps, _, _ := r.take()
			if len(lrps) != 1 {
				t.Fatalf("%d requests", len(lrps))
			}
			r.run(lrps[0])
			r.mute = true
			time.Sleep(time.Second / 2)
			for range 3 { // terms that no cell reaches
				r.reelect()
				time.Sleep(9 * time.Minute)
				synctest.Wait()
			}
			if s, _ := r.b.GetService(webKey); s.Healthy != 0 || s.Phase != lrp.RollingOut {
				t.Fatalf("%d healthy, %v, %s", s.Healthy, s.Phase, s.Failure)
			}
			r.b.CellHealthy("a", "a1")
			synctest.Wait()
			if _, _, stops := r.take(); len(stops) != 0 {
				t.Fatalf("stopped before the cell could report: %v", stops)
			}
			page, _ := r.b.ListInstances(plan.InstanceFilter{}, plan.Range{})
			for _, i := range page.Items {
				if i.Version == 2 && ended {
					if err := r.event(i.Key, lrp.Crash{By: i.Identity, Reason: "ended while nobody led"}); err != nil {
						t.Fatal(err)
					}
				}
			}
			time.Sleep(time.Second)
			synctest.Wait()
			_, _, stops := r.take()
			if s, _ := r.b.GetService(webKey); (s.Healthy == 1) == ended || (len(stops) == 1) == ended {
				t.Fatalf("ended %v: %d healthy, stopped %v", ended, s.Healthy, stops)
			}
		})
	}
}

func TestANewLeaderSeesTheSame(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		d := web(2, "1")
		d.Routes = map[string]string{"router": "\xff raw"}
		d.Labels = map[string]string{"disk": "ssd"}
		d.Workload.Env = nil
		r.apply([]lrp.Desired{d}, []plan.NamedTask{{Name: "once", Definition: task.Definition{Workload: runs("/bin/true")}}})
		r.serve()
		if _, err := r.b.SetDomain(t.Context(), "other", time.Hour, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		before := r.snapshot()
		r.reelect()
		if after := r.snapshot(); !reflect.DeepEqual(before, after) {
			t.Fatalf("before %+v\nafter %+v", before, after)
		}
		if out := r.apply([]lrp.Desired{d}, []plan.NamedTask{{Name: "once",
			Definition: task.Definition{Workload: runs("/bin/true")}}}); out.Changes[0].Verb != plan.VerbKeep ||
			out.Changes[1].Verb != plan.VerbKeep {
			t.Fatalf("applied unchanged under a new leader: %+v", out.Changes)
		}
		r.take()
	})
}

type snapshot struct {
	services  []plan.Service
	instances []plan.Instance
	tasks     []plan.Task
	domains   []plan.Domain
}

func (r *rig) snapshot() snapshot {
	s, _ := r.b.ListServices(plan.NameFilter{}, plan.Range{Limit: 1000})
	i, _ := r.b.ListInstances(plan.InstanceFilter{}, plan.Range{Limit: 1000})
	k, _ := r.b.ListTasks(plan.TaskFilter{}, plan.Range{Limit: 1000})
	return snapshot{s.Items, i.Items, k.Items, r.b.ListDomains()}
}

func TestCellFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		lock := lrp.Desired{Service: lrp.ServiceKey{Domain: "d", Name: "lock"}, Instances: 1, Exclusive: true,
			Workload: runs("/bin/lock")}
		r.apply([]lrp.Desired{web(2, "1"), lock}, nil)
		r.serve()
		r.b.CellUnhealthy("a", "a1")
		synctest.Wait()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/0 a/1]" {
			t.Fatalf("the suspects stay visible: %s", got)
		}
		lrps, _, _ := r.take()
		if len(lrps) != 2 || fmt.Sprint(lrps[0].Avoid) != "[a]" {
			t.Fatalf("replacements: %+v", lrps)
		}
		// The cell is back before they run.
		r.b.CellHealthy("a", "a1")
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/0 a/1]" || r.withdrawn == 0 {
			t.Fatalf("back: %s, %d withdrawn", got, r.withdrawn)
		}
		// It falls silent for good.
		r.b.CellUnhealthy("a", "a1")
		r.kill("a1")
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[b/0 b/1]" {
			t.Fatalf("replaced: %s", got)
		}
		if got := fmt.Sprint(r.running(lock.Service)); got != "[a/0]" {
			t.Fatalf("the exclusive one was replaced before its death is certain: %s", got)
		}
		r.b.CellMustDie("a", "a1", false)
		r.serve()
		if got := fmt.Sprint(r.running(lock.Service)); got != "[a/0]" {
			t.Fatalf("the exclusive one was replaced at MUST_DIE: %s", got)
		}
		r.b.ProcDead("a", "a1", "")
		r.serve()
		if got := fmt.Sprint(r.running(lock.Service)); got != "[b/0]" {
			t.Fatalf("dead: %s", got)
		}
	})
}

func (r *rig) kill(proc string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead[proc] = true
}

// TestUnlistedMembers: a new leader takes rows off processes that its member list does not name.
func TestUnlistedMembers(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(1, "1")}, nil)
		synctest.Wait()
		w, _, _ := r.take()
		by := lrp.Identity{Instance: "i", Cell: "z", Proc: "z9"}
		_ = r.event(w[0].Key, lrp.Claim{By: by})
		_ = r.event(w[0].Key, lrp.Start{By: by, Net: lrp.Net{Routable: true}})
		r.reelect() // members are a1 and b1
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/0]" {
			t.Fatalf("running %s", got)
		}
	})
}

// TestAnUntrustedListDeclaresNoProcessDead: while a leader does not trust its member list, a process that a row
// names may be alive. A process that reports keeps its rows; the others lose them when the list is trusted. A
// process that was reaped wrongly takes work again when it is alive.
func TestAnUntrustedListDeclaresNoProcessDead(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(2, "1")}, nil)
		synctest.Wait()
		w, _, _ := r.take()
		for i, cell := range []string{"y", "z"} {
			by := lrp.Identity{Instance: "i" + cell, Cell: cell, Proc: cell + "9"}
			_ = r.event(w[i].Key, lrp.Claim{By: by})
			_ = r.event(w[i].Key, lrp.Start{By: by, Net: lrp.Net{Address: "x", Routable: true}})
		}
		r.stale = true
		r.reelect() // members are a1 and b1
		synctest.Wait()
		if got := fmt.Sprint(r.running(webKey)); got != "[y/0 z/1]" {
			t.Fatalf("while blind: running %s", got)
		}
		r.b.CellHealthy("z", "z9")
		r.mu.Lock()
		r.stale = false
		r.mu.Unlock()
		time.Sleep(30 * time.Second) // a full pass
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/0 z/1]" {
			t.Fatalf("once the list is believed: running %s", got)
		}
		// Reaped at once, and alive after all.
		r.reelect()
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/0 a/1]" {
			t.Fatalf("believed: running %s", got)
		}
		r.b.CellHealthy("z", "z9")
		if _, err := r.b.ScaleService(t.Context(), webKey, 3, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w, _, _ = r.take()
		by := lrp.Identity{Instance: "new", Cell: "z", Proc: "z9"}
		_ = r.event(w[0].Key, lrp.Claim{By: by})
		_ = r.event(w[0].Key, lrp.Start{By: by, Net: lrp.Net{Address: "x", Routable: true}})
		task1 := plan.NewTask{GUID: "t", Domain: "d", Definition: task.Definition{Workload: runs("/bin/true")}}
		row, err := r.b.DesireTask(t.Context(), task1, plan.Write{})
		if err != nil {
			t.Fatal(err)
		}
		_ = r.taskEvent("t", task.Start{UID: row.UID, By: task.Holder{Cell: "z", Proc: "z9"}, Reservation: "r"})
		time.Sleep(30 * time.Second)
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/0 a/1 z/2]" {
			t.Errorf("what runs on it now was taken off: %s", got)
		}
		if x, _ := r.b.GetTask("t"); x.State != task.Running {
			t.Errorf("its task: %v %v", x.State, x.Outcome)
		}
	})
}

func TestALostCommitEndsTheTerm(t *testing.T) {
	var lose bool
	var mu sync.Mutex
	fault := func(c mem.Call, _ store.Txn) mem.Fault {
		mu.Lock()
		defer mu.Unlock()
		if lose {
			return mem.LoseRequest
		}
		return mem.None
	}
	inBubbleOn(t, mem.Config{Fault: fault}, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(1, "1")}, nil)
		r.serve()
		mu.Lock()
		lose = true
		mu.Unlock()
		_, err := r.b.ScaleService(t.Context(), webKey, 5, plan.Write{})
		if err == nil {
			t.Fatal("acknowledged before it is durable")
		}
		if s, _ := r.b.GetService(webKey); s.Instances != 1 {
			t.Fatal("readers see it before it is durable")
		}
		if lrps, _, _ := r.take(); len(lrps) != 0 {
			t.Fatalf("acted before the commit: %+v", lrps)
		}
		if _, err := r.b.ScaleService(t.Context(), webKey, 5, plan.Write{}); err == nil {
			t.Fatal("goes on after the end")
		}
		mu.Lock()
		lose = false
		mu.Unlock()
		r.reelect()
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/0]" {
			t.Fatalf("the next term: %s", got)
		}
	})
}

func TestAStaleLeaderStartsNothingExclusive(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		d := web(1, "1")
		d.Exclusive = true
		r.apply([]lrp.Desired{d}, nil)
		synctest.Wait()
		w, _, _ := r.take()
		r.mu.Lock()
		r.stale = true
		r.mu.Unlock()
		by := lrp.Identity{Instance: "i", Cell: "a", Proc: "a1"}
		if err := r.event(w[0].Key, lrp.Claim{By: by}); !errors.Is(err, lrp.ErrNotEligible) {
			t.Fatalf("%v", err)
		}
		r.mu.Lock()
		r.stale = false
		r.mu.Unlock()
		if err := r.event(w[0].Key, lrp.Claim{By: by}); err != nil {
			t.Fatal(err)
		}
	})
}
