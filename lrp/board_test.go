package lrp

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestADrainStopsOneIndexOfAStopFirstService walks a drain through the board: the next index is
// stopped when the one before runs elsewhere, and no sooner.
func TestADrainStopsOneIndexOfAStopFirstService(t *testing.T) {
	for name, d := range map[string]Desired{
		"stop-first": {Instances: 3, Strategy: StopFirst, Workload: checked()},
		"exclusive":  {Instances: 3, Exclusive: true, Workload: checked()},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(d)
			w.quiesce()
			w.serve(nil)
			process := w.b.Service(svc).Target().Process
			who := func(i int) Identity { return w.b.Index(Key{process, i}).Ordinary.Identity }
			drain := func(i int) error {
				return w.step(Key{process, i}, Evacuate{By: who(i), Net: netA, Until: w.now.Add(time.Hour)})
			}
			if err := drain(0); err != nil {
				t.Fatal(err)
			}
			first := who(0)
			refused := func(when string) {
				t.Helper()
				for i := 1; i < 3; i++ {
					if err := drain(i); !errors.Is(err, ErrNotYet) {
						t.Fatalf("%s: index %d: %v, want %v", when, i, err, ErrNotYet)
					}
				}
			}
			refused("index 0 is about to be stopped")
			if err := drain(0); err != nil {
				t.Fatalf("asked again: %v", err)
			}
			if err := w.step(Key{process, 0}, Remove{By: first}); err != nil {
				t.Fatal(err)
			}
			refused("index 0 has no place")
			next := Identity{"i-next", "beta", "pb"}
			if err := w.step(Key{process, 0}, Claim{By: next}); err != nil {
				t.Fatal(err)
			}
			refused("index 0 is not RUNNING")
			if err := w.step(Key{process, 0}, Start{By: next, Net: Net{Address: "10.0.0.2"}}); err != nil {
				t.Fatal(err)
			}
			refused("index 0 is not routable")
			if err := w.step(Key{process, 0}, Start{By: next, Net: netA}); err != nil {
				t.Fatal(err)
			}
			if err := drain(1); err != nil {
				t.Fatalf("index 0 serves again: %v", err)
			}
			if err := drain(2); !errors.Is(err, ErrNotYet) {
				t.Fatalf("index 1 is about to be stopped: %v", err)
			}
		})
	}
}

// TestAnUnwantedIndexCountsForNoDrain: of the indices that are left the others have to run; one
// that is not wanted is neither waited for nor counted in the place of a wanted one.
func TestAnUnwantedIndexCountsForNoDrain(t *testing.T) {
	w := newWorld(t)
	w.apply(Desired{Instances: 3, Strategy: StopFirst, Workload: checked()})
	w.quiesce()
	w.serve(nil)
	w.apply(Desired{Instances: 2, Strategy: StopFirst, Workload: checked()})
	process := w.b.Service(svc).Target().Process
	if env := w.b.Env(Key{process, 0}, w.now); !env.Wanted || !env.OthersRunning {
		t.Errorf("index 1 runs: %+v", env)
	}
	if env := w.b.Env(Key{process, 2}, w.now); env.Wanted || !env.OthersRunning {
		t.Errorf("both wanted ones run: %+v", env)
	}
	who := w.b.Index(Key{process, 1}).Ordinary.Identity
	if err := w.step(Key{process, 1}, Remove{By: who}); err != nil {
		t.Fatal(err)
	}
	for i, others := range []bool{false, true, false} {
		if env := w.b.Env(Key{process, i}, w.now); env.OthersRunning != others {
			t.Errorf("index 1 does not run: others of %d run: %v", i, env.OthersRunning)
		}
	}
}

// TestHealthyUnderANewLeader: a row of an earlier term counts from the time at which its cell can report on it.
func TestHealthyUnderANewLeader(t *testing.T) {
	w := newWorld(t)
	w.apply(Desired{Instances: 2, Workload: checked()})
	w.quiesce()
	w.serve(nil)
	process := w.b.Service(svc).Target().Process
	w.now = w.now.Add(time.Hour)
	next := NewBoard(ConvergePolicy{})
	next.SetDomain("d", time.Time{})
	next.PutService(w.b.Service(svc))
	for _, k := range w.b.Keys() {
		next.LoadIndex(w.b.Index(k))
	}
	w.b = next
	check := func(when string, i int, settle time.Duration, want bool, wantAt time.Time) {
		t.Helper()
		ok, at := w.b.Healthy(process, i, settle, w.now)
		if ok != want || !at.Equal(wantAt) {
			t.Fatalf("%s: healthy %v, at %v; want %v, %v", when, ok, at, want, wantAt)
		}
	}
	check("its cell was not heard", 0, 0, false, time.Time{})
	heard := w.now
	w.b.Heard("pa", heard)
	w.now = w.now.Add(UncheckedSettle / 2)
	w.b.Heard("pa", w.now) // only the first time counts
	check("just heard", 0, 0, false, heard.Add(UncheckedSettle))
	check("just heard, longer settle", 0, time.Minute, false, heard.Add(time.Minute))
	w.now = heard.Add(UncheckedSettle)
	check("the cell had the time", 0, 0, true, time.Time{})
	who := w.b.Index(Key{process, 1}).Ordinary.Identity
	if err := w.step(Key{process, 1}, Crash{By: who, Reason: "exit status 1"}); err != nil {
		t.Fatal(err)
	}
	check("it had ended", 1, 0, false, time.Time{})
	again := Identity{"again", "alpha", "pa"}
	for _, e := range []Event{Claim{By: again}, Start{By: again, Net: netA}} {
		if err := w.step(Key{process, 1}, e); err != nil {
			t.Fatal(err)
		}
	}
	check("started in this term", 1, time.Minute, false, w.now.Add(time.Minute))
	check("started in this term, checked", 1, 0, true, time.Time{})
	w.b.ProcDied("pa")
	check("its cell is dead", 0, 0, false, time.Time{})
}

// TestARolloutWaitsForCellsUnderANewLeader: the oldest instances stay until the cell of the new ones has reported,
// for any age of the new rows.
func TestARolloutWaitsForCellsUnderANewLeader(t *testing.T) {
	w := newWorld(t)
	d := Desired{Instances: 2, Workload: checked(), Rollout: RolloutPolicy{Batch: 2}}
	w.apply(d)
	w.quiesce()
	w.serve(nil)
	d.Stack = "new"
	w.apply(d)
	oldest, newest := w.b.Service(svc).Versions[0].Process, w.b.Service(svc).Target().Process
	w.quiesce()
	for i := range 2 {
		who := Identity{fmt.Sprint("n", i), "beta", "pb"}
		for _, e := range []Event{Claim{By: who}, Start{By: who, Net: netA, Service: svc}} {
			if err := w.step(Key{newest, i}, e); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.now = w.now.Add(time.Hour)
	next := NewBoard(ConvergePolicy{})
	next.SetDomain("d", time.Time{})
	next.PutService(w.b.Service(svc).Resumed(w.now))
	for _, k := range w.b.Keys() {
		next.LoadIndex(w.b.Index(k))
	}
	w.b, w.effects = next, nil
	w.b.Heard("pa", w.now)
	w.now = w.now.Add(time.Minute)
	w.quiesce()
	if got := fmt.Sprint(w.running(oldest)); got != "[0 1]" || w.b.Service(svc).Phase != RollingOut {
		t.Fatalf("%s of the old version are left, %v", got, w.b.Service(svc).Phase)
	}
	w.b.Heard("pb", w.now)
	w.quiesce()
	for _, k := range w.b.OnProc("pa") {
		if w.b.Index(k).Ordinary.Retiring {
			t.Fatalf("%v is stopped before the cell had time to report the end of the new one", k)
		}
	}
	w.now = w.now.Add(UncheckedSettle)
	w.quiesce()
	w.serve(nil)
	if s := w.b.Service(svc); s.Phase != Steady || fmt.Sprint(w.running(newest)) != "[0 1]" ||
		len(w.running(oldest)) != 0 {
		t.Fatalf("%v, new %v, old %v", s.Phase, w.running(newest), w.running(oldest))
	}
}

// TestAClockThatGoesBackDelaysNoRequest: a row of a time to come is asked for again after the
// usual wait from now.
func TestAClockThatGoesBackDelaysNoRequest(t *testing.T) {
	w := newWorld(t)
	w.apply(Desired{Instances: 1})
	w.quiesce()
	w.now = w.now.Add(-time.Hour)
	w.effects = nil
	process := w.b.Service(svc).Target().Process
	x := w.b.Index(Key{process, 0})
	b := NewBoard(ConvergePolicy{})
	b.SetDomain("d", time.Time{})
	b.PutService(w.b.Service(svc))
	b.PutIndex(x)
	w.b = b
	w.quiesce()
	for i, wait := range []time.Duration{30*time.Second - 1, 1} {
		w.now = w.now.Add(wait)
		w.quiesce()
		if asked := has(w.effects, RequestAuction{Key{process, 0}}); asked != (i == 1) {
			t.Fatalf("after %v: asked %v", wait, asked)
		}
	}
}
