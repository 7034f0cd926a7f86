package bbs

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cantina/action"
	"cantina/event"
	"cantina/lrp"
	"cantina/store"
	"cantina/store/mem"
	"cantina/task"
	"cantina/wire"
)

func TestAServiceRunsAndEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		out := r.apply([]lrp.Desired{web(3, "1")}, nil)
		if len(out.Changes) != 1 || out.Changes[0].Verb != VerbCreate || out.Revision == 0 {
			t.Fatalf("%+v", out)
		}
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/0 a/1 a/2]" {
			t.Fatalf("running %s", got)
		}
		s, err := r.b.GetService(webKey)
		if err != nil || s.Running != 3 || s.Routable != 3 || s.Phase != lrp.Steady || !s.Target().Good {
			t.Fatalf("%v %+v", err, s)
		}
		again := r.apply([]lrp.Desired{web(3, "1")}, nil)
		if again.Changes[0].Verb != VerbKeep || again.Revision != out.Revision {
			t.Fatalf("applied unchanged: %+v, first %+v", again, out)
		}
		if _, err := r.b.ScaleService(t.Context(), webKey, 1, Write{}); err != nil {
			t.Fatal(err)
		}
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/0]" {
			t.Fatalf("scaled down: %s", got)
		}
		if s, err := r.b.RemoveService(t.Context(), webKey, Write{}); err != nil || !s.Removed {
			t.Fatalf("%v %+v", err, s)
		}
		r.serve()
		if _, err := r.b.GetService(webKey); !errors.Is(err, ErrServiceNotFound) {
			t.Fatalf("removed: %v", err)
		}
		rows := r.rowsLeft("lrp/")
		if len(rows) != 0 {
			t.Fatalf("rows left: %v", rows)
		}
	})
}

// rowsLeft lists the keys in the store below a prefix, as a new leader would load them.
func (r *rig) rowsLeft(prefix string) []string {
	rows, _, err := r.reign.Range(r.t.Context(), prefix, "", 0)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	for _, row := range rows {
		out = append(out, row.Key)
	}
	return out
}

func TestAChangedServiceRolls(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(3, "1")}, nil)
		r.serve()
		if list, _ := r.b.Rollouts(10); len(list) != 0 {
			t.Fatalf("nothing rolls: %+v", list)
		}
		out := r.apply([]lrp.Desired{web(3, "2")}, nil)
		if list, more := r.b.Rollouts(10); len(list) != 1 || more != 0 || list[0].Phase != lrp.RollingOut || list[0].Version != 2 || list[0].Instances != 3 {
			t.Fatalf("%+v", list)
		}
		if list, more := r.b.Rollouts(0); len(list) != 0 || more != 1 {
			t.Fatalf("%+v and %d more", list, more)
		}
		if out.Changes[0].Verb != VerbReplace || len(out.Changes[0].Fields) != 1 || out.Changes[0].Fields[0].Path != "workload.action.run.args" {
			t.Fatalf("%+v", out.Changes)
		}
		r.serve()
		s, _ := r.b.GetService(webKey)
		if s.Phase != lrp.Steady || len(s.Versions) != 1 || s.Target().Number != 2 || s.Running != 3 {
			t.Fatalf("%+v", s)
		}
	})
}

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

// TestANewLeaderTrustsNoHealthThatItDidNotSee: an instance of the new version that was
// RUNNING when nobody led may have ended. It counts once its cell can tell and its
// time has passed; and the time without a leader is none without progress.
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
				t.Fatalf("stopped before the cell could tell: %v", stops)
			}
			page, _ := r.b.ListInstances(InstanceFilter{}, Range{})
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
		r.apply([]lrp.Desired{d}, []NamedTask{{"once", task.Definition{Workload: runs("/bin/true")}}})
		r.serve()
		if _, err := r.b.SetDomain(t.Context(), "other", time.Hour, Write{}); err != nil {
			t.Fatal(err)
		}
		before := r.snapshot()
		r.reelect()
		if after := r.snapshot(); !reflect.DeepEqual(before, after) {
			t.Fatalf("before %+v\nafter %+v", before, after)
		}
		if out := r.apply([]lrp.Desired{d}, []NamedTask{{"once", task.Definition{Workload: runs("/bin/true")}}}); out.Changes[0].Verb != VerbKeep || out.Changes[1].Verb != VerbKeep {
			t.Fatalf("applied unchanged under a new leader: %+v", out.Changes)
		}
		r.take()
	})
}

type snapshot struct {
	services  []Service
	instances []Instance
	tasks     []Task
	domains   []Domain
}

func (r *rig) snapshot() snapshot {
	s, _ := r.b.ListServices("", Range{Limit: 1000})
	i, _ := r.b.ListInstances(InstanceFilter{}, Range{Limit: 1000})
	k, _ := r.b.ListTasks(TaskFilter{}, Range{Limit: 1000})
	return snapshot{s.Items, i.Items, k.Items, r.b.ListDomains()}
}

func TestCellFailure(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		lock := lrp.Desired{Service: lrp.ServiceKey{Domain: "d", Name: "lock"}, Instances: 1, Exclusive: true, Workload: runs("/bin/lock")}
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

func TestADeadCellLosesItsTasks(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		for _, guid := range []string{"t1", "t2"} {
			if _, err := r.b.DesireTask(t.Context(), NewTask{GUID: guid, Domain: "d", Definition: task.Definition{Workload: runs("/bin/true")}}, Write{}); err != nil {
				t.Fatal(err)
			}
			row, _ := r.b.GetTask(guid)
			if err := r.taskEvent(guid, task.Start{UID: row.UID, By: task.Holder{Cell: "a", Proc: "a1"}, Reservation: "r"}); err != nil {
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
		if err := r.b.DeleteTask(t.Context(), "t1", Write{}); !errors.Is(err, task.ErrLostUnresolved) {
			t.Fatalf("deleted a lost task: %v", err)
		}
		settled, err := r.b.SettleTask(t.Context(), "t1", task.ResolvedRerun, Write{})
		if err != nil || settled.Successor == "" {
			t.Fatalf("%v %+v", err, settled)
		}
		r.serve()
		rerun, err := r.b.GetTask(settled.Successor)
		if err != nil || rerun.Outcome != task.Succeeded || string(rerun.Result.Output) != "done" {
			t.Fatalf("%v %+v", err, rerun)
		}
		// The real end of the other one comes late, from a later process of the cell.
		row, _ = r.b.GetTask("t2")
		if err := r.taskEvent("t2", task.Complete{UID: row.UID, By: task.Holder{Cell: "a", Proc: "a2"}, Result: task.Result{Output: []byte("late")}}); err != nil {
			t.Fatal(err)
		}
		if row, _ = r.b.GetTask("t2"); row.Outcome != task.Succeeded {
			t.Fatalf("%+v", row)
		}
	})
}

// TestMembersThatAreGone: a new leader takes rows off processes that its member list does not name.
func TestMembersThatAreGone(t *testing.T) {
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

// TestAListThatMayBeWrongBuriesNobody: while a leader does not believe its member list,
// what a row names may live; one that says so keeps its rows, the others lose them when
// the list is believed. And who was buried all the same takes work again when it lives.
func TestAListThatMayBeWrongBuriesNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(2, "1")}, nil)
		synctest.Wait()
		w, _, _ := r.take()
		for i, cell := range []string{"y", "z"} {
			by := lrp.Identity{Instance: "i" + cell, Cell: cell, Proc: cell + "9"}
			_ = r.event(w[i].Key, lrp.Claim{By: by})
			_ = r.event(w[i].Key, lrp.Start{By: by, Net: lrp.Net{Address: "x", Routable: true}})
		}
		r.blind = true
		r.reelect() // members are a1 and b1
		synctest.Wait()
		if got := fmt.Sprint(r.running(webKey)); got != "[y/0 z/1]" {
			t.Fatalf("while blind: running %s", got)
		}
		r.b.CellHealthy("z", "z9")
		r.mu.Lock()
		r.blind = false
		r.mu.Unlock()
		time.Sleep(30 * time.Second) // a full pass
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/0 z/1]" {
			t.Fatalf("once the list is believed: running %s", got)
		}
		// Buried at once, and alive after all.
		r.reelect()
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/0 a/1]" {
			t.Fatalf("believed: running %s", got)
		}
		r.b.CellHealthy("z", "z9")
		if _, err := r.b.ScaleService(t.Context(), webKey, 3, Write{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w, _, _ = r.take()
		by := lrp.Identity{Instance: "new", Cell: "z", Proc: "z9"}
		_ = r.event(w[0].Key, lrp.Claim{By: by})
		_ = r.event(w[0].Key, lrp.Start{By: by, Net: lrp.Net{Address: "x", Routable: true}})
		task1 := NewTask{GUID: "t", Domain: "d", Definition: task.Definition{Workload: runs("/bin/true")}}
		row, err := r.b.DesireTask(t.Context(), task1, Write{})
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

func TestCrashesWaitByTheClock(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(1, "1")}, nil)
		crash := func() {
			synctest.Wait()
			w, _, _ := r.take()
			if len(w) != 1 {
				t.Fatalf("%d requests", len(w))
			}
			by := lrp.Identity{Instance: r.newID(), Cell: "a", Proc: "a1"}
			_ = r.event(w[0].Key, lrp.Claim{By: by})
			if err := r.event(w[0].Key, lrp.Crash{By: by, Reason: "exited with status 1"}); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			crash()
		}
		e, err := r.b.ExplainInstance(webKey, 0)
		if err != nil || e.State != "CRASHED" || e.Reasons[0].Code != "crash_backoff" || e.Reasons[0].Longest != 30*time.Second {
			t.Fatalf("%v %+v", err, e)
		}
		of, err := r.b.ExplainService(webKey)
		last := of.Reasons[len(of.Reasons)-1]
		if err != nil || of.Fine || last.Code != "crash_backoff" || !strings.HasPrefix(last.Text, "web/0: crash 3: exited with status 1") {
			t.Fatalf("%v %+v", err, of)
		}
		time.Sleep(30*time.Second - time.Millisecond)
		synctest.Wait()
		if w, _, _ := r.take(); len(w) != 0 {
			t.Fatal("restarted early")
		}
		time.Sleep(time.Millisecond)
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/0]" {
			t.Fatalf("running %s", got)
		}
	})
}

// TestFiftyCallsWithOneKey is what users report of tokens that are checked in the
// handler: one run, fifty equal answers.
func TestFiftyCallsWithOneKey(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		def := task.Definition{Workload: runs("/bin/true")}
		var wg sync.WaitGroup
		guids := make([]string, 50)
		for i := range guids {
			wg.Go(func() {
				row, err := r.b.DesireTask(t.Context(), NewTask{Domain: "d", Definition: def}, Write{Key: "token"})
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
		if page, _ := r.b.ListTasks(TaskFilter{}, Range{}); len(page.Items) != 1 {
			t.Fatalf("%d tasks", len(page.Items))
		}
		if _, err := r.b.DesireTask(t.Context(), NewTask{Domain: "e", Definition: def}, Write{Key: "token"}); !errors.Is(err, ErrKeyReused) {
			t.Fatalf("another request: %v", err)
		}
		r.reelect() // a new leader remembers
		if row, err := r.b.DesireTask(t.Context(), NewTask{Domain: "d", Definition: def}, Write{Key: "token"}); err != nil || row.GUID != guids[0] {
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

func TestExpectedRevision(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		out := r.apply([]lrp.Desired{web(1, "1")}, nil)
		r.serve()
		s, _ := r.b.GetService(webKey)
		if _, err := r.b.ScaleService(t.Context(), webKey, 2, Write{Expect: s.Revision + 1}); !errors.Is(err, ErrRevision) {
			t.Fatalf("%v", err)
		}
		if _, err := r.b.ScaleService(t.Context(), webKey, 2, Write{Expect: s.Revision}); err != nil {
			t.Fatal(err)
		}
		a := Application{Domain: "d", Services: []lrp.Desired{web(1, "2")}}
		if _, err := r.b.Apply(t.Context(), a, Write{Expect: out.Revision - 1}); !errors.Is(err, ErrRevision) {
			t.Fatalf("%v", err)
		}
		if p, err := r.b.Plan(a); err != nil || p.Revision != out.Revision || p.Changes[0].Verb != VerbReplace {
			t.Fatalf("%v %+v", err, p)
		}
		if _, err := r.b.Apply(t.Context(), a, Write{Expect: out.Revision}); err != nil {
			t.Fatal(err)
		}
		r.serve()
	})
}

func TestAppliedTasksRunOncePerDefinition(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		once := func(arg string) []NamedTask {
			return []NamedTask{{"once", task.Definition{Workload: runs("/bin/echo", arg)}}}
		}
		r.apply(nil, once("1"))
		r.serve()
		time.Sleep(25 * time.Hour) // the row is collected; that is no reason to run again
		synctest.Wait()
		if _, err := r.b.GetTask("d.once"); !errors.Is(err, ErrCollected) {
			t.Fatalf("%v", err)
		}
		r.reelect()
		if out := r.apply(nil, once("1")); out.Changes[0].Verb != VerbKeep {
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
		if len(out.Changes) != 1 || out.Changes[0].Verb != VerbRemove || len(r.rowsLeft("applied/")) != 0 {
			t.Fatalf("%+v", out)
		}
	})
}

// TestEndedTasksAreKept as long as the leader's settings say; who asks later hears how
// long that is.
func TestEndedTasksAreKept(t *testing.T) {
	for text, c := range map[string]struct {
		policy task.Policy
		age    time.Duration
	}{
		"kept 24h, 10000 in a domain": {task.Policy{}, 24 * time.Hour},
		"kept 1h30m, 10000 in a":      {task.Policy{Retention: 90 * time.Minute}, 90 * time.Minute},
		"kept 2m, 10000 in a domain":  {task.Policy{Retention: -1}, 2 * time.Minute},
		"kept 24h, 1 in a domain":     {task.Policy{KeepPerDomain: 1}, time.Second},
	} {
		inBubble(t, func(t *testing.T, r *rig) {
			r.depose()
			r.elect(func(cfg *Config) { cfg.Tasks = c.policy })
			for _, guid := range []string{"t", "u"} {
				if _, err := r.b.DesireTask(t.Context(), NewTask{GUID: guid, Domain: "d", Definition: task.Definition{Workload: runs("/bin/true")}}, Write{}); err != nil {
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
			if _, err := r.b.GetTask("t"); !errors.Is(err, ErrCollected) || !strings.Contains(err.Error(), text) {
				t.Fatalf("%s: %v", text, err)
			}
		})
	}
}

func TestPrunedServicesAndTasksEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(1, "1")}, []NamedTask{{"long", task.Definition{Workload: runs("/bin/sleep")}}})
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

func TestCorruptRowsAreQuarantined(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(2, "1")}, nil)
		r.serve()
		page, _ := r.b.ListInstances(InstanceFilter{}, Range{})
		k0, k1 := page.Items[0].Key, page.Items[1].Key
		r.smash(indexRow(k0), serviceRow(lrp.ServiceKey{Domain: "d", Name: "ghost"}), "task/bad")
		r.reelect()
		if n := r.b.Count().Quarantined; n != 3 {
			t.Fatalf("%d quarantined", n)
		}
		// It counts as existing: not started, not stopped, its container left alone.
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/1]" {
			t.Fatalf("running %s", got)
		}
		rows := r.b.Rows("a", []lrp.Key{k0}, []string{"bad"}, true)
		if len(rows.LRPs) != 0 || len(rows.QuarantinedLRPs) != 1 || len(rows.QuarantinedTasks) != 1 {
			t.Fatalf("%+v", rows)
		}
		if err := r.event(k0, lrp.Remove{By: lrp.Identity{Instance: "x", Cell: "a", Proc: "a1"}}); !errors.Is(err, lrp.ErrNotEligible) {
			t.Fatalf("an event for it: %v", err)
		}
		if _, err := r.b.DesireTask(t.Context(), NewTask{GUID: "bad", Domain: "d", Definition: task.Definition{Workload: runs("/bin/true")}}, Write{}); !errors.Is(err, task.ErrExists) {
			t.Fatalf("its guid is taken: %v", err)
		}
		ghost := web(1, "1")
		ghost.Service.Name = "ghost"
		if _, err := r.b.Apply(t.Context(), Application{Domain: "d", Services: []lrp.Desired{ghost}}, Write{}); !errors.Is(err, ErrQuarantined) {
			t.Fatalf("applied over it: %v", err)
		}
		// Dropped: the index is made anew.
		done := make(chan error, 1)
		if err := r.b.Release(indexRow(k0), false, nil, func(_ int64, err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		r.serve()
		if got := fmt.Sprint(r.running(webKey)); got != "[a/0 a/1]" {
			t.Fatalf("dropped: %s", got)
		}
		// Restored with a value that can be read.
		if err := r.b.Release("task/bad", true, []byte("still bad"), nil); err == nil {
			t.Fatal("restored garbage")
		}
		good := encode(kindTask, taskRecord(&task.Task{GUID: "bad", UID: "u", Domain: "d", Definition: &task.Definition{Workload: runs("/bin/true")}, Created: r.clock.Wall(), Updated: r.clock.Wall()}))
		if err := r.b.Release("task/bad", true, good, func(_ int64, err error) { done <- err }); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		r.serve()
		if row, err := r.b.GetTask("bad"); err != nil || row.Outcome != task.Succeeded {
			t.Fatalf("restored: %v", err)
		}
		_ = k1
	})
}

// smash overwrites rows with garbage, as a new leader will find them.
func (r *rig) smash(keys ...string) {
	r.t.Helper()
	for _, k := range keys {
		ticket := newTicket()
		r.reign.Submit(store.Transition{Ops: []store.Op{{Key: k, Value: []byte("garbage")}}}, ticket.done)
		if _, err := ticket.wait(r.t.Context()); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestEventsRebuildTheView is I13: events from any revision, played on the rows of
// that revision, give the rows of now; revisions never go back.
func TestEventsRebuildTheView(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		seen, shown := map[string]*lrp.Actual{}, map[lrp.Key]*lrp.Actual{}
		last := event.Position{}
		done := make(chan struct{})
		start := event.After(r.reign.Revision())
		go func() {
			defer close(done)
			follow(ctx, r.hub.Since(start), func(e event.Event) {
				if e.Position.Compare(last) <= 0 {
					t.Errorf("event at %v after %v", e.Position, last)
				}
				last = e.Position
				if e.Kind == event.Instance {
					switch {
					case e.Turn && e.Shown == nil:
						delete(shown, e.Instance.Key)
					case e.Turn:
						shown[e.Instance.Key] = e.Shown
					}
					subject := e.Instance.Key.String()
					id := subject + "/" + e.Instance.Instance
					if e.Gone {
						delete(seen, id)
						return
					}
					// A row that gains or loses its instance keeps its key in the stream.
					for k, a := range seen {
						if strings.HasPrefix(k, subject+"/") && (a.Instance == "" || e.Instance.State == lrp.Crashed && a.Presence == lrp.Ordinary) && e.Instance.Presence == lrp.Ordinary && a != e.Instance {
							delete(seen, k)
						}
					}
					seen[id] = e.Instance
				}
			})
		}()
		r.apply([]lrp.Desired{web(3, "1")}, nil)
		r.serve()
		r.b.CellUnhealthy("a", "a1")
		r.kill("a1")
		r.serve()
		r.apply([]lrp.Desired{web(2, "2")}, nil)
		r.serve()
		synctest.Wait()
		cancel()
		<-done
		page, _ := r.b.ListInstances(InstanceFilter{}, Range{Limit: 100})
		want := map[string]*lrp.Actual{}
		if len(shown) != len(page.Items) {
			t.Errorf("readers see %d indices, not %d", len(shown), len(page.Items))
		}
		for _, i := range page.Items {
			if got := shown[i.Key]; got == nil || !reflect.DeepEqual(*got, i.Actual) {
				t.Errorf("readers see %+v of %v, not %+v", got, i.Key, i.Actual)
			}
			for _, a := range i.Rows.Rows() {
				want[a.Key.String()+"/"+a.Instance] = a
			}
		}
		if !reflect.DeepEqual(seen, want) {
			t.Fatalf("rebuilt %v\nwant %v", seen, want)
		}
	})
}

func follow(ctx context.Context, s *event.Subscription, each func(event.Event)) {
	for {
		b, err := s.Next(ctx, time.Hour)
		if err != nil {
			return
		}
		for _, e := range b.Events {
			each(e)
		}
	}
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
		_, err := r.b.ScaleService(t.Context(), webKey, 5, Write{})
		if err == nil {
			t.Fatal("acknowledged what is not durable")
		}
		if s, _ := r.b.GetService(webKey); s.Instances != 1 {
			t.Fatal("readers see what is not durable")
		}
		if lrps, _, _ := r.take(); len(lrps) != 0 {
			t.Fatalf("acted before the commit: %+v", lrps)
		}
		if _, err := r.b.ScaleService(t.Context(), webKey, 5, Write{}); err == nil {
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

// TestALargeApplyIsAManifest: more than one transaction, promised first, rolled
// forward by the next leader when the first one dies on the way.
func TestALargeApplyIsAManifest(t *testing.T) {
	const n = 200
	var services []lrp.Desired
	for i := range n {
		d := web(1, "1")
		d.Service.Name = fmt.Sprintf("s%03d", i)
		services = append(services, d)
	}
	inBubble(t, func(t *testing.T, r *rig) {
		out, err := r.b.Apply(t.Context(), Application{Domain: "d", Services: services}, Write{})
		if err != nil || len(out.Changes) != n {
			t.Fatalf("%v %d", err, len(out.Changes))
		}
		r.serve()
		if page, _ := r.b.ListServices("d", Range{Limit: 1000}); len(page.Items) != n || page.Items[n-1].Running != 1 {
			t.Fatalf("%d services", len(page.Items))
		}
		if rows := r.rowsLeft(store.ManifestPrefix); len(rows) != 0 {
			t.Fatalf("left: %v", rows)
		}
	})
	// The leader dies after the promise and a few steps.
	var d dying
	for _, after := range []int{2, 3, 5} {
		d.at(0)
		inBubbleOn(t, mem.Config{Fault: d.fault, Limits: store.Limits{Ops: 24, Bytes: 64 << 10}}, func(t *testing.T, r *rig) {
			d.at(after)
			_, err := r.b.Apply(t.Context(), Application{Domain: "d", Services: services}, Write{})
			d.at(0)
			r.reelect()
			r.serve()
			page, _ := r.b.ListServices("d", Range{Limit: 1000})
			if got := len(page.Items); got != n && (got != 0 || err == nil) {
				t.Fatalf("after %d transactions: %d services, apply said %v", after, got, err)
			}
			if rows := r.rowsLeft(store.ManifestPrefix); len(rows) != 0 {
				t.Fatalf("left: %v", rows)
			}
		})
	}
}

func TestListsArePaged(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var services []lrp.Desired
		for _, n := range []string{"a", "a-b", "a.b", "b"} {
			d := web(2, "1")
			d.Service.Name = n
			services = append(services, d)
		}
		r.apply(services, nil)
		r.serve()
		var names []string
		for after := ""; ; {
			page, err := r.b.ListServices("d", Range{After: after, Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range page.Items {
				names = append(names, s.Key.Name)
			}
			if after = page.Next; after == "" {
				break
			}
		}
		if fmt.Sprint(names) != "[a a-b a.b b]" {
			t.Errorf("%v", names)
		}
		n := 0
		for after := ""; ; {
			page, err := r.b.ListInstances(InstanceFilter{Domain: "d"}, Range{After: after, Limit: 3})
			if err != nil {
				t.Fatal(err)
			}
			n += len(page.Items)
			if after = page.Next; after == "" {
				break
			}
		}
		if n != 8 {
			t.Errorf("%d instances", n)
		}
		if _, err := r.b.ListInstances(InstanceFilter{}, Range{After: "nonsense"}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%v", err)
		}
	})
}

func TestRetireStartsAfresh(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(2, "1")}, nil)
		r.serve()
		before, _ := r.b.ListInstances(InstanceFilter{}, Range{})
		if n, err := r.b.RetireInstances(t.Context(), webKey, []int{1}, Write{}); err != nil || n != 1 {
			t.Fatalf("%d %v", n, err)
		}
		r.serve()
		after, _ := r.b.ListInstances(InstanceFilter{}, Range{})
		if before.Items[0].Instance != after.Items[0].Instance || before.Items[1].Instance == after.Items[1].Instance {
			t.Fatalf("before %v\nafter %v", before.Items, after.Items)
		}
	})
}

func TestCallbacksOfTasks(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		_, err := r.b.DesireTask(t.Context(), NewTask{GUID: "t", Domain: "d", Definition: task.Definition{Workload: runs("/bin/true"), CallbackURL: "http://x"}}, Write{})
		if err != nil {
			t.Fatal(err)
		}
		r.serve()
		if len(r.callbacks) != 1 || r.callbacks[0].Outcome != task.Succeeded {
			t.Fatalf("%+v", r.callbacks)
		}
		r.b.CallbackDone("t", r.callbacks[0].UID, false, "status 503")
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if len(r.callbacks) != 2 {
			t.Fatalf("%d calls", len(r.callbacks))
		}
		r.b.CallbackDone("t", r.callbacks[0].UID, true, "")
		synctest.Wait()
		if row, err := r.b.GetTask("t"); err != nil || !row.Callback.Delivered || row.State != task.Completed {
			t.Fatalf("%v %+v", err, row)
		}
		if err := r.b.DeleteTask(t.Context(), "t", Write{}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.b.GetTask("t"); !errors.Is(err, ErrCollected) {
			t.Fatalf("%v", err)
		}
	})
}

// TestADeadLetterIsVisible: an end that cannot be delivered is tried again, later and
// later, also by the next leader, and then counted and told.
func TestADeadLetterIsVisible(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		if _, err := r.b.DesireTask(t.Context(), NewTask{GUID: "t", Domain: "d", Definition: task.Definition{Workload: runs("/bin/true"), CallbackURL: "http://x"}}, Write{}); err != nil {
			t.Fatal(err)
		}
		r.serve()
		began := time.Now()
		for run := 1; run <= 10; run++ {
			if len(r.sent()) != run {
				t.Fatalf("%d calls after %v, want %d", len(r.sent()), time.Since(began), run)
			}
			r.b.CallbackDone("t", r.sent()[0].UID, false, "status 503")
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
		if err != nil || len(r.sent()) != 10 || r.b.Count().DeadLetters != 1 || e.Reasons[len(e.Reasons)-1] != (Reason{Code: "dead_letter", Text: "its end could not be delivered: status 503"}) {
			t.Fatalf("%d calls, %+v, %v", len(r.sent()), e, err)
		}
		r.take()
	})
}

// TestATaskThatIsNotStartedInTime fails with the arithmetic of the last refusal; what is
// tried in vain meanwhile is asked for again.
func TestATaskThatIsNotStartedInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		row, err := r.b.DesireTask(t.Context(), NewTask{GUID: "t", Domain: "d", Definition: task.Definition{Workload: runs("/bin/true")}}, Write{})
		if err != nil {
			t.Fatal(err)
		}
		const why = "insufficient resources: 312 cells: other stack; 40 cells: memory_mb 512 needed, largest free 300"
		r.b.TaskRejected("t", row.UID, "found no compatible cells: no cell is known", false)
		r.b.TaskRejected("t", row.UID, why, false)
		synctest.Wait()
		if e, err := r.b.ExplainTask("t"); err != nil || e.Reasons[0].Code != "insufficient_resources" || e.Reasons[0].Text != why || e.Reasons[0].Longest != 30*time.Minute {
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
		if x, err := r.b.GetTask("t"); err != nil || x.Outcome != task.Failed || x.Result.Reason != "not started within time limit: "+why {
			t.Fatalf("%+v, %v", x.Task, err)
		}
	})
}

func TestABlindLeaderStartsNothingExclusive(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.blind = true
		d := web(1, "1")
		d.Exclusive = true
		r.apply([]lrp.Desired{d}, nil)
		synctest.Wait()
		w, _, _ := r.take()
		by := lrp.Identity{Instance: "i", Cell: "a", Proc: "a1"}
		if err := r.event(w[0].Key, lrp.Claim{By: by}); !errors.Is(err, lrp.ErrNotEligible) {
			t.Fatalf("%v", err)
		}
		r.mu.Lock()
		r.blind = false
		r.mu.Unlock()
		if err := r.event(w[0].Key, lrp.Claim{By: by}); err != nil {
			t.Fatal(err)
		}
	})
}

func TestExtraRowsAreInTheSameCommit(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var told int64
		a := Application{Domain: "d", Services: []lrp.Desired{web(1, "1")}, Extra: func() (Extra, error) {
			return Extra{Ops: []store.Op{{Key: "job/x", Value: []byte("x")}}, Done: func(revision int64, _ error) { told = revision }}, nil
		}}
		out, err := r.b.Apply(t.Context(), a, Write{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if told != out.Revision || len(r.rowsLeft("job/")) != 1 {
			t.Fatalf("told %d, revision %d", told, out.Revision)
		}
		a.Extra = func() (Extra, error) { return Extra{}, errors.New("no") }
		a.Services = []lrp.Desired{web(5, "1")}
		if _, err := r.b.Apply(t.Context(), a, Write{}); err == nil {
			t.Fatal("applied although the other owner refuses")
		}
		r.serve()
		if s, _ := r.b.GetService(webKey); s.Instances != 1 || s.Running != 1 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestOneBatchOfEventsAnswersEach(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(120, "1")}, nil)
		synctest.Wait()
		w, _, _ := r.take()
		var calls []wire.LRPCall
		for i, want := range w {
			by := lrp.Identity{Instance: fmt.Sprint("i", i), Cell: "a", Proc: "a1"}
			calls = append(calls, wire.LRPCall{Key: want.Key, Event: lrp.Claim{By: by}}, wire.LRPCall{Key: want.Key, Event: lrp.Crash{By: lrp.Identity{Instance: "no", Cell: "a", Proc: "a1"}}})
		}
		answers, err := r.b.LRPEvents(t.Context(), calls)
		if err != nil || len(answers) != 240 {
			t.Fatal(err)
		}
		for i, a := range answers {
			if (i%2 == 0) != (a == nil) {
				t.Fatalf("answer %d: %v", i, a)
			}
		}
		if rows := r.b.Rows("a", nil, nil, false); len(rows.LRPs) != 120 {
			t.Fatalf("%d rows", len(rows.LRPs))
		}
	})
}

func TestAFixedPortStopsFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		d := web(2, "1")
		d.Workload.Ports = []action.Port{{Name: "http", Fixed: 8080}}
		plan, err := r.b.Plan(Application{Domain: "d", Services: []lrp.Desired{d}})
		if err != nil || !strings.Contains(plan.Changes[0].Note, "port http is fixed") {
			t.Errorf("%+v, %v", plan, err)
		}
		r.apply([]lrp.Desired{d}, nil)
		if s, _ := r.b.GetService(webKey); s.Target().Strategy != lrp.StopFirst {
			t.Errorf("%+v", s.Target())
		}
		if out := r.apply([]lrp.Desired{d}, nil); out.Changes[0].Verb != VerbKeep || out.Changes[0].Note != "" {
			t.Errorf("unchanged: %+v", out.Changes)
		}
	})
}

func TestAServiceNamesItsFirstInstancesThatAreNotAsWanted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply([]lrp.Desired{web(8, "1")}, nil)
		synctest.Wait()
		w, _, _ := r.take()
		for _, x := range w {
			if x.Key.Index == 1 {
				r.run(x)
			} else {
				r.b.PlacementFailed(x.Key, "insufficient resources: 2 cells: memory_mb 512 needed, largest free 300")
			}
		}
		synctest.Wait()
		e, err := r.b.ExplainService(webKey)
		if err != nil || e.Fine {
			t.Fatalf("%+v, %v", e, err)
		}
		var texts []string
		for _, x := range e.Reasons {
			if x.Code == "insufficient_resources" || x.Code == "instances" {
				texts = append(texts, strings.SplitN(x.Text, ":", 2)[0])
			}
		}
		if got := strings.Join(texts, ", "); got != "web/0, web/2, web/3, web/4, web/5, 2 more instances are not as wanted" {
			t.Errorf("%s", got)
		}
		if _, err := r.b.ExplainService(lrp.ServiceKey{Domain: "d", Name: "nope"}); !errors.Is(err, ErrServiceNotFound) {
			t.Error(err)
		}
	})
}
