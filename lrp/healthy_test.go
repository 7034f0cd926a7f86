package lrp

import (
	"testing"
	"time"

	"cantina/action"
)

func TestSettleByDefault(t *testing.T) {
	for name, c := range map[string]struct {
		d    Desired
		want time.Duration
	}{
		"nothing checks it": {Desired{}, UncheckedSettle},
		"monitor":           {Desired{Workload: checked()}, 0},
		"check":             {Desired{Workload: action.Workload{Checks: make([]action.Check, 1)}}, 0},
		"readiness":         {Desired{Workload: action.Workload{ReadinessChecks: make([]action.Check, 1)}}, 0},
		"set":               {Desired{Rollout: RolloutPolicy{Settle: time.Minute}}, time.Minute},
		"set, checked":      {Desired{Workload: checked(), Rollout: RolloutPolicy{Settle: time.Minute}}, time.Minute},
	} {
		if got := c.d.settle(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// A version whose instances end at once is never good, though each was RUNNING.
func TestAVersionThatCrashesAtOnceIsNotGood(t *testing.T) {
	w := newWorld(t)
	w.apply(Desired{Instances: 1, Rollout: RolloutPolicy{ProgressDeadline: 24 * time.Hour}})
	w.quiesce()
	process := w.b.Service(svc).Target().Process
	for i := range 3 {
		who := Identity{"i" + string(rune('a'+i)), "alpha", "pa"}
		key := Key{process, 0}
		for _, e := range []Event{Claim{By: who}, Start{By: who, Net: netA}} {
			if err := w.step(key, e); err != nil {
				t.Fatal(err)
			}
		}
		w.quiesce()
		if s := w.b.Service(svc); s.Phase != RollingOut || s.Target().Good {
			t.Fatalf("crash %d: %v, good %v", i, s.Phase, s.Target().Good)
		}
		w.now = w.now.Add(UncheckedSettle / 2)
		if err := w.step(key, Crash{By: who, Reason: "exit status 1"}); err != nil {
			t.Fatal(err)
		}
		w.quiesce()
		w.now = w.now.Add(time.Hour)
		w.quiesce()
		if s := w.b.Service(svc); s.Target().Good {
			t.Fatalf("after crash %d: %v", i, s.Phase)
		}
	}
	who := Identity{"z", "alpha", "pa"}
	for _, e := range []Event{Claim{By: who}, Start{By: who, Net: netA}} {
		if err := w.step(Key{process, 0}, e); err != nil {
			t.Fatal(err)
		}
	}
	w.quiesce()
	w.now = w.now.Add(UncheckedSettle)
	w.quiesce()
	if s := w.b.Service(svc); s.Phase != Steady || !s.Target().Good {
		t.Errorf("it ran for the settle time: %v, good %v", s.Phase, s.Target().Good)
	}
}
