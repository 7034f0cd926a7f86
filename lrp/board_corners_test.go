package lrp

import (
	"fmt"
	"testing"
	"time"
)

func rowAt(t *testing.T, k Key, words string) Index {
	t.Helper()
	return Index{Key: k, Ordinary: rowWith(t, words, func(a *Actual) { a.Key = k })}
}

// TestAServiceThatCannotBeReadStandsStill: it neither rolls nor goes, and one that is not there
// is not reported as gone.
func TestAServiceThatCannotBeReadStandsStill(t *testing.T) {
	for name, phase := range map[string]func(*Service){
		"rolling": func(s *Service) { s.Phase, s.Progress = RollingOut, t0.Add(-time.Hour) },
		"removed": func(s *Service) { *s = *s.Remove() },
	} {
		b := boardOf(t, 1, plainService)
		s := b.Service(svc).clone()
		phase(s)
		b.PutService(s)
		b.QuarantineService(svc, true)
		if out := b.ConvergeAll(t0); !out.Empty() {
			t.Errorf("%s: %s", name, showOut(out))
		}
		b.QuarantineService(svc, false)
		if out := b.ConvergeAll(t0); len(out.Services)+len(out.Gone) != 1 {
			t.Errorf("%s, it can be read again: %s", name, showOut(out))
		}
		b.DeleteService(svc)
		b.SetDomain("d", time.Time{})
		b.QuarantineIndex(key0, false)
		if out := b.ConvergeAll(t0); len(out.Services)+len(out.Gone) != 0 {
			t.Errorf("%s, and deleted: %s", name, showOut(out))
		}
		if b.Env(key0, t0).Fresh {
			t.Errorf("%s: its process is still known", name)
		}
	}
}

// TestOrphansGoOneByOne: forgetting one index leaves the others of its process.
func TestOrphansGoOneByOne(t *testing.T) {
	b := NewBoard(ConvergePolicy{})
	for i := range 3 {
		b.PutIndex(rowAt(t, Key{"gone", i}, "RUNNING self"))
	}
	b.PutIndex(Index{Key: Key{"gone", 1}})
	if got := fmt.Sprint(b.Orphans(), b.Keys()); got != "[gone/0 gone/2] [gone/0 gone/2]" {
		t.Error(got)
	}
	b.ProcDied("") // a row of no process is on none that is dead
	b.PutIndex(rowAt(t, Key{"gone", 3}, "UNCLAIMED"))
	if out := b.ConvergeAll(t0); !out.Empty() {
		t.Error(showOut(out))
	}
}

// TestADeadProcessIsRememberedWhileARowNamesIt, and of the others the newest.
func TestADeadProcessIsRememberedWhileARowNamesIt(t *testing.T) {
	b := boardOf(t, 2, plainService)
	named := rowAt(t, key0, "RUNNING self") // on pa
	b.PutIndex(named)
	for _, proc := range []string{"pa", "po"} {
		b.ProcDied(proc)
	}
	for i := range 600 {
		b.ProcDied(fmt.Sprint("p", i))
	}
	b.PutIndex(rowAt(t, key1, "RUNNING other")) // on po: so long ago that no call can bring it
	if out := b.Converge(t0); moves(out) != "0:lrp.ProcDead " {
		t.Error(showOut(out))
	}
}

// TestADeletedServiceLeavesItsCopies: they are orphans, and it neither rolls nor goes any more.
func TestADeletedServiceLeavesItsCopies(t *testing.T) {
	b := boardOf(t, 1, plainService)
	b.PutService(b.Service(svc).Remove())
	b.DeleteService(svc)
	b.PutIndex(Index{Key: key0, Evacuating: copyOf("self")})
	if out := b.Converge(t0); !out.Empty() || fmt.Sprint(b.Orphans()) != "[p1/0]" {
		t.Error(showOut(out), b.Orphans())
	}
}

// TestRangesThatChange: an index that is wanted now and has only a copy is created. An unwanted index is stopped by
// the next pass, also if the change itself did not do so.
func TestRangesThatChange(t *testing.T) {
	b := boardOf(t, 2, plainService)
	b.PutIndex(rowAt(t, key0, "RUNNING self"))
	b.PutIndex(Index{Key: key1, Evacuating: copyOf("other")})
	b.PutIndex(rowAt(t, key1, "RUNNING self"))
	b.PutIndex(Index{Key: key1, Evacuating: copyOf("other")}) // the ordinary one is gone
	b.PutIndex(rowAt(t, key1, "RUNNING self"))
	c := *copyOf("self")
	c.Key = Key{"p1", 2}
	b.PutIndex(Index{Key: c.Key, Evacuating: &c})
	b.Converge(t0)
	b.PutService(b.Service(svc).Scale(3))
	if got := moves(b.Converge(t0)); got != "2:lrp.Create " {
		t.Errorf("more: %s", got)
	}
	b.PutService(b.Service(svc).Scale(1))
	if got := moves(b.Converge(t0)); got != "1:lrp.Undesire " {
		t.Errorf("fewer: %s", got)
	}
}

// TestAnUnloadedRowStaysSo: storing the same value again does not mark the row as one of an earlier term.
func TestAnUnloadedRowStaysSo(t *testing.T) {
	b := boardOf(t, 1, plainService)
	x := rowAt(t, key0, "RUNNING self")
	for range 2 {
		b.PutIndex(x)
		if ok, _ := b.Healthy("p1", 0, 0, t0.Add(time.Hour)); !ok {
			t.Fatal("not healthy")
		}
	}
}

// TestLooksThatArePlanned: of many that do not count any more, those that count are kept; the next
// one is never in the past.
func TestLooksThatArePlanned(t *testing.T) {
	b := boardOf(t, 2, plainService)
	b.PutIndex(rowAt(t, key0, "CRASHED")) // until 30 s
	s := b.Service(svc).clone()
	s.Phase, s.Progress = RollingOut, t0 // until 10 min
	b.PutService(s)
	for i := range 500 {
		b.PutIndex(rowWithSince(t, key1, t0.Add(time.Hour+time.Duration(i))))
		b.Converge(t0)
		b.PutIndex(Index{Key: key1})
		b.Converge(t0)
	}
	if n := b.due.Len(); n > 2*3+64+2 {
		t.Errorf("%d plans", n)
	}
	b.PutIndex(rowAt(t, key1, "RUNNING self"))
	if got := moves(b.Converge(t0.Add(30 * time.Second))); got != "0:lrp.RestartCrashed " {
		t.Errorf("the wait of index 0 is over: %q", got)
	}
	if due, ok := b.NextDue(); !ok || !due.Equal(t0.Add(10*time.Minute)) {
		t.Errorf("the next look is the deadline: %v %v", due, ok)
	}
	s = s.clone()
	s.Phase = Steady
	b.PutService(s)
	b.Converge(t0.Add(31 * time.Second))
	if due, ok := b.NextDue(); ok && due.Before(t0.Add(31*time.Second)) {
		t.Errorf("planned for the past: %v", due)
	}
}

func rowWithSince(t *testing.T, k Key, since time.Time) Index {
	x := rowAt(t, k, "CRASHED")
	x.Ordinary.Since = since
	return x
}

// TestADeadlineIsPlannedAgain when nothing was done at it and the clock went back.
func TestADeadlineIsPlannedAgain(t *testing.T) {
	b := boardOf(t, 1, plainService)
	s := b.Service(svc).clone()
	s.Phase, s.Progress = RollingOut, t0
	b.PutService(s)
	b.Converge(t0)
	if out := b.Converge(t0.Add(10 * time.Minute)); len(out.Services) != 1 {
		t.Fatal(showOut(out))
	}
	b.PutService(s)
	b.Converge(t0)
	if due, ok := b.NextDue(); !ok || !due.Equal(t0.Add(10*time.Minute)) {
		t.Errorf("due %v, %v", due, ok)
	}
}

// TestARolloutThatIsLookedAtOftenIsPlannedOnce for its deadline.
func TestARolloutThatIsLookedAtOftenIsPlannedOnce(t *testing.T) {
	b := boardOf(t, 1, plainService)
	s := b.Service(svc).clone()
	s.Phase, s.Progress = RollingOut, t0
	b.PutService(s)
	for range 500 {
		b.ConvergeAll(t0)
	}
	if n := b.due.Len(); n != 1 {
		t.Errorf("%d plans", n)
	}
}

// TestANewVersionForgetsTheFailedOne, with its reason and its healthy instances.
func TestANewVersionForgetsTheFailedOne(t *testing.T) {
	s, err := Apply(nil, Desired{Service: svc, Instances: 2}, "p1", t0)
	if err != nil {
		t.Fatal(err)
	}
	s.Failure, s.FailedVersion, s.Healthy = "why", 1, 2
	for name, next := range map[string]*Service{"applied": applied(t, s), "restarted": s.Restart("p2", t0)} {
		if next.Failure != "" || next.FailedVersion != 0 || next.Healthy != 0 || len(next.Versions) != 2 || next.Removed {
			t.Errorf("%s: %+v", name, next)
		}
	}
	if gone := s.Remove(); gone.Restart("p2", t0) != gone {
		t.Error("a removed service is not restarted")
	}
	for _, phase := range []Phase{Steady, RollingOut, RollFailed} {
		s.Phase = phase
		if got := s.Scale(5).Versions[0]; got.High != 5 {
			t.Errorf("%v: scaled to %d", phase, got.High)
		}
	}
	two := applied(t, s)
	if got := two.Scale(5); got.Versions[0].High != 2 || got.Versions[1].High != 0 {
		t.Errorf("what rolls out is scaled by its steps: %+v", got.Versions)
	}
}

func applied(t *testing.T, s *Service) *Service {
	t.Helper()
	next, err := Apply(s, Desired{Service: svc, Instances: 2, Stack: "new"}, "p2", t0)
	if err != nil {
		t.Fatal(err)
	}
	return next
}
