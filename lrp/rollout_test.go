package lrp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cantina/action"
)

// checked is a workload with a check: its instances count as healthy at once.
func checked() action.Workload { return action.Workload{Monitor: &action.Action{}} }

func TestRollingUpdateStartsBeforeItStops(t *testing.T) {
	w := newWorld(t)
	w.apply(Desired{Instances: 4, Workload: checked(), Rollout: RolloutPolicy{Batch: 1}})
	w.quiesce()
	w.serve(nil)
	w.apply(Desired{Instances: 4, Stack: "new", Workload: checked(), Rollout: RolloutPolicy{Batch: 1}})
	oldest := w.b.Service(svc).Versions[0].Process
	newest := w.b.Service(svc).Target().Process
	// Walk it effect by effect: there are never fewer than four running.
	for range 100 {
		w.quiesce()
		if len(w.effects) == 0 {
			break
		}
		e := w.effects[0]
		w.effects = w.effects[1:]
		switch e := e.(type) {
		case RequestAuction:
			w.guids++
			who := Identity{fmt.Sprint("i", w.guids), "alpha", "pa"}
			if w.step(e.Key, Claim{By: who}) == nil {
				_ = w.step(e.Key, Start{By: who, Net: netA})
			}
		case StopInstance:
			_ = w.step(e.Key, Remove{By: e.Who})
		}
		if n := len(w.running(oldest)) + len(w.running(newest)); n < 4 || n > 5 {
			t.Fatalf("%d running", n)
		}
	}
	if s := w.b.Service(svc); s.Phase != Steady || len(s.Versions) != 1 || fmt.Sprint(w.running(newest)) != "[0 1 2 3]" ||
		!s.Target().Good {
		t.Fatalf("%+v %v", s, w.running(newest))
	}
}

func TestStopFirstNeverOverlaps(t *testing.T) {
	for name, d := range map[string]Desired{"exclusive": {Exclusive: true}, "stop-first": {Strategy: StopFirst},
		"fixed port": {Workload: action.Workload{Ports: []action.Port{{Name: "web", Fixed: 80}}}}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d.Instances, d.Rollout.Batch = 3, 1
			d.Workload.Monitor = checked().Monitor
			w.apply(d)
			w.quiesce()
			w.serve(nil)
			d.Stack = "new"
			w.apply(d)
			oldest, newest := w.b.Service(svc).Versions[0].Process, w.b.Service(svc).Target().Process
			for range 200 {
				w.quiesce()
				for i := range 3 {
					if !w.b.Index(Key{oldest, i}).Empty() && !w.b.Index(Key{newest, i}).Empty() {
						t.Fatalf("index %d has rows of both versions", i)
					}
				}
				if len(w.effects) == 0 {
					break
				}
				effects := w.effects[:1:1]
				rest := w.effects[1:]
				w.effects = effects
				w.serve(nil)
				w.effects = append(w.effects, rest...)
			}
			if fmt.Sprint(w.running(newest)) != "[0 1 2]" || w.b.Service(svc).Phase != Steady {
				t.Fatalf("%v %+v", w.running(newest), w.b.Service(svc))
			}
		})
	}
}

func TestFailedRolloutReturnsToTheLastGoodVersion(t *testing.T) {
	for _, strategy := range []Strategy{StartFirst, StopFirst} {
		w := newWorld(t)
		d := Desired{Instances: 4, Strategy: strategy, Workload: checked(),
			Rollout: RolloutPolicy{Batch: 2, ProgressDeadline: time.Minute}}
		w.apply(d)
		w.quiesce()
		w.serve(nil)
		good := w.b.Service(svc).Target().Process
		d.Stack = "bad"
		w.apply(d)
		bad := w.b.Service(svc).Target().Process
		for range 30 {
			w.quiesce()
			w.serve(map[string]bool{bad: true})
			if strategy == StartFirst && len(w.running(good)) != 4 {
				t.Fatalf("start first: only %v of the good one run", w.running(good))
			}
			w.now = w.now.Add(10 * time.Second)
		}
		s := w.b.Service(svc)
		if s.Phase != Steady || s.Target().Process != good || fmt.Sprint(w.running(good)) != "[0 1 2 3]" ||
			s.FailedVersion != 2 || s.Failure == "" {
			t.Fatalf("%v: %+v, running %v", strategy, s, w.running(good))
		}
		if want := fmt.Sprintf("; %s/0: crashed: no database", svc.Name); !strings.Contains(s.Failure, want) {
			t.Fatalf("%v: failure %q does not have the cause %q", strategy, s.Failure, want)
		}
		if x := w.b.Index(Key{bad, 0}); !x.Empty() {
			t.Fatalf("left of the bad one: %s", show(x))
		}
	}
}

// TestFailedRolloutThatIsKept is left where it is, and the last good version serves with its remaining instances,
// until a newer one is applied. Without a good version there is no way back: the rollout goes on trying.
func TestFailedRolloutThatIsKept(t *testing.T) {
	for _, first := range []bool{false, true} {
		w := newWorld(t)
		d := Desired{Instances: 4, Workload: checked(),
			Rollout: RolloutPolicy{Batch: 2, ProgressDeadline: time.Minute, KeepFailed: !first}}
		good := ""
		if !first {
			w.apply(d)
			w.quiesce()
			w.serve(nil)
			good = w.b.Service(svc).Target().Process
		}
		d.Stack = "bad"
		w.apply(d)
		bad := w.b.Service(svc).Target().Process
		for range 30 {
			w.quiesce()
			w.serve(map[string]bool{bad: true})
			w.now = w.now.Add(10 * time.Second)
		}
		s := w.b.Service(svc)
		if s.Phase != RollFailed || s.Target().Process != bad || s.FailedVersion != s.Target().Number || s.Failure == "" {
			t.Fatalf("first %v: %+v", first, s)
		}
		if !first && fmt.Sprint(w.running(good)) != "[0 1 2 3]" {
			t.Fatalf("the good one runs %v", w.running(good))
		}
		if first { // the outside fault is repaired: it recovers by itself
			for range 30 {
				w.quiesce()
				w.serve(nil)
				w.now = w.now.Add(10 * time.Minute)
			}
		} else {
			d.Stack = "repaired"
			w.apply(d)
			for range 5 {
				w.quiesce()
				w.serve(map[string]bool{bad: true})
			}
		}
		if s = w.b.Service(svc); s.Phase != Steady || s.Failure != "" || len(w.running(s.Target().Process)) != 4 ||
			len(s.Versions) != 1 {
			t.Fatalf("first %v, at last: %+v", first, s)
		}
	}
}

func TestNewerApplySupersedesARollout(t *testing.T) {
	w := newWorld(t)
	d := Desired{Instances: 3, Workload: checked(), Rollout: RolloutPolicy{Batch: 1}}
	w.apply(d)
	w.quiesce()
	w.serve(nil)
	d.Stack = "broken"
	w.apply(d)
	broken := w.b.Service(svc).Target().Process
	w.quiesce()
	w.serve(map[string]bool{broken: true})
	d.Stack = "repaired"
	w.apply(d)
	w.quiesce()
	w.serve(map[string]bool{broken: true})
	s := w.b.Service(svc)
	if s.Phase != Steady || len(s.Versions) != 1 || s.Target().Number != 3 ||
		fmt.Sprint(w.running(s.Target().Process)) != "[0 1 2]" {
		t.Fatalf("%+v %v", s, w.running(s.Target().Process))
	}
}

// TestRolloutGoesOnUnderANewLeader: everything is in the service and the rows.
func TestRolloutGoesOnUnderANewLeader(t *testing.T) {
	w := newWorld(t)
	d := Desired{Instances: 4, Workload: checked(), Rollout: RolloutPolicy{Batch: 1}}
	w.apply(d)
	w.quiesce()
	w.serve(nil)
	d.Stack = "new"
	w.apply(d)
	for range 8 {
		w.quiesce()
		if len(w.effects) > 0 {
			first := w.effects[:1:1]
			w.effects = first
			w.serve(nil)
		}
		next := NewBoard(ConvergePolicy{})
		next.SetDomain("d", time.Time{})
		next.PutService(w.b.Service(svc))
		for _, k := range w.b.Keys() {
			next.LoadIndex(w.b.Index(k))
		}
		w.b, w.effects = next, nil
		w.quiesce()
		w.serve(nil)
	}
	if s := w.b.Service(svc); s.Phase != Steady || len(w.running(s.Target().Process)) != 4 || s.Target().Number != 2 {
		t.Fatalf("%+v", s)
	}
}

// TestRestartIsRolling: a restart replaces every instance by the rules of an update, and a
// later apply of the same definition finds nothing to do.
func TestRestartIsRolling(t *testing.T) {
	for _, strategy := range []Strategy{StartFirst, StopFirst} {
		w := newWorld(t)
		d := Desired{Instances: 4, Strategy: strategy, Workload: checked(), Rollout: RolloutPolicy{Batch: 1}}
		w.apply(d)
		w.quiesce()
		w.serve(nil)
		was := w.b.Service(svc).Target().Process
		w.b.PutService(w.b.Service(svc).Restart("again", w.now))
		for range 100 {
			w.quiesce()
			n := len(w.running(was)) + len(w.running("again"))
			if strategy == StartFirst && n < 4 || strategy == StopFirst && n < 3 {
				t.Fatalf("strategy %v: %d of 4 run", strategy, n)
			}
			if len(w.effects) == 0 {
				break
			}
			rest := w.effects[1:]
			w.effects = w.effects[:1:1]
			w.serve(nil)
			w.effects = append(w.effects, rest...)
		}
		s := w.b.Service(svc)
		if s.Phase != Steady || s.Target().Number != 2 || fmt.Sprint(w.running("again")) != "[0 1 2 3]" {
			t.Fatalf("strategy %v: %+v, running %v", strategy, s, w.running("again"))
		}
		d.Service = svc
		if next, err := Apply(s, d, "other", w.now); err != nil || next != s {
			t.Errorf("the same definition: %+v %v", next, err)
		}
	}
	stopped := (&Service{Key: svc, Versions: []Version{{Number: 1}}})
	removed := (&Service{Key: svc, Instances: 1, Versions: []Version{{Number: 1}}}).Remove()
	for _, s := range []*Service{stopped, removed} {
		if s.Restart("x", t0) != s {
			t.Errorf("nothing is wanted of it, and it is restarted: %+v", s)
		}
	}
}
