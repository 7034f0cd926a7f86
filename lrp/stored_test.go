package lrp

import (
	"testing"
	"time"
)

// Rows of a store may be in a state that no sequence of changes makes. It must not end the leader.

// TestAProcessThatTwoServicesName goes with the first of them that goes. The other one is judged as if the process had
// no rows, and its own process is looked after as before.
func TestAProcessThatTwoServicesName(t *testing.T) {
	b := boardOf(t, 1, plainService)
	rolling := b.Service(svc).Restart("p2", t0)
	rolling.Versions[0].High, rolling.Versions[1].High = 0, 1
	b.PutService(rolling)
	twin := b.Service(svc).clone()
	twin.Key = ServiceKey{"d", "twin"}
	twin.Versions = twin.Versions[:1]
	b.PutService(twin)
	b.PutIndex(rowAt(t, Key{"p2", 0}, "RUNNING self"))
	b.PutIndex(rowAt(t, Key{"p2", 1}, "RUNNING other"))
	b.DeleteService(twin.Key)
	if env := b.Env(Key{"p2", 0}, t0); !env.Wanted || !env.OthersRunning {
		t.Errorf("index 0 is the only one: %+v", env)
	}
	if got := moves(Outcome{Moves: b.Surplus(svc)}); got != "1:lrp.Undesire " {
		t.Errorf("surplus: %q", got)
	}
	if got := moves(b.ConvergeAll(t0)); got != "1:lrp.Undesire " {
		t.Errorf("convergence: %q", got)
	}
}

// TestScaleOfASteadyServiceWithAnOldVersion: without a rollout, nothing else would move the range of its target.
func TestScaleOfASteadyServiceWithAnOldVersion(t *testing.T) {
	s := boardOf(t, 2, plainService).Service(svc).Restart("p2", t0)
	s.Versions[0].High, s.Versions[1].High, s.Phase = 0, 2, Steady
	for _, n := range []int{5, 1} {
		if got := s.Scale(n).Target(); got.Low != 0 || got.High != n {
			t.Errorf("%d: from %d to %d", n, got.Low, got.High)
		}
	}
	s.Phase = RollingOut
	if got := s.Scale(5).Target(); got.High != 2 {
		t.Errorf("a rollout moves its range itself: %d", got.High)
	}
}

// TestNothingIsStartedAfreshOfAServiceThatIsGone, or that has no version.
func TestNothingIsStartedAfreshOfAServiceThatIsGone(t *testing.T) {
	gone := boardOf(t, 2, plainService).Service(svc).clone()
	gone.Removed = true
	for _, s := range []*Service{gone, {Key: svc, Instances: 2}} {
		if s.Restart("p2", t0) != s {
			t.Errorf("%+v", s)
		}
	}
}

// TestUnplacedInstancesDoNotStop, for any other fields of the row.
func TestUnplacedInstancesDoNotStop(t *testing.T) {
	for words, want := range map[string]bool{
		"UNCLAIMED": false, "CRASHED": false, "CLAIMED self": true, "RUNNING self": true,
	} {
		for name, set := range map[string]func(*Actual){
			"to be stopped":     func(a *Actual) { a.Retiring = true },
			"ended by its cell": func(a *Actual) { a.Net.Stopping = true },
		} {
			if got := rowWith(t, words, set).Stopping(); got != want {
				t.Errorf("%s, %s: %v", words, name, got)
			}
		}
	}
}

// TestAnyNegativeCountNeverGivesUp.
func TestAnyNegativeCountNeverGivesUp(t *testing.T) {
	for _, n := range []int{-1, -2, -1 << 31} {
		if wait, again := (RestartPolicy{GiveUp: n}).Wait(1000); !again || wait != 16*time.Minute {
			t.Errorf("%d: %v, %v", n, wait, again)
		}
	}
}

// TestACopyThatCrashesHasARow: its index may have no ordinary one.
func TestACopyThatCrashesHasARow(t *testing.T) {
	for words, want := range map[string]Grade{"self": Expected, "other": Conceivable} {
		v := View{Container: CompletedCrashed, Self: alpha, Rows: Index{Key: key0, Evacuating: copyOf(words)}}
		a := HarmoniseEvacuating(v)
		if a.Call != CallEvacuateCrashed || a.Then != DeleteContainer || a.Grade != want {
			t.Errorf("the copy of %s: %+v", words, a)
		}
	}
}
