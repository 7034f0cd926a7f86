package lrp

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// instances has the health and presence that a test sets.
type instances struct {
	healthy map[string]int  // how many from index 0 of a process are
	exists  map[string]bool // "process/index"
	at      time.Time       // when the next one will be
	cause   map[string]string
}

func (f instances) Unhealthy(process string, high int, _ time.Duration, _ time.Time) (int, time.Time) {
	if i := f.healthy[process]; i < high {
		return i, f.at
	}
	return high, time.Time{}
}
func (f instances) Exists(process string, i int) bool { return f.exists[fmt.Sprint(process, "/", i)] }
func (f instances) Top(process string) (top int) {
	for i := range 10 {
		if f.Exists(process, i) {
			top = i + 1
		}
	}
	return top
}
func (f instances) Cause(process string, i int) string { return f.cause[fmt.Sprint(process, "/", i)] }

// serviceOf has versions of n instances with the ranges in the text: "good [0 4] new [0 1]".
func serviceOf(phase Phase, n int, first bool, ranges ...[2]int) *Service {
	s := &Service{Key: svc, Instances: n, Numbers: len(ranges), Phase: phase, Progress: t0}
	for i, r := range ranges {
		d := Desired{Service: svc, Process: fmt.Sprint("p", i+1), Instances: n, Workload: checked(),
			Rollout: RolloutPolicy{Batch: 1}}
		if first {
			d.Strategy = StopFirst
		}
		s.Versions = append(s.Versions, Version{Desired: d, Number: i + 1, Low: r[0], High: r[1], Good: i == 0})
	}
	return s
}

// exclusiveBefore has an exclusive version, and a newer one that is not.
func exclusiveBefore() *Service {
	s := serviceOf(RollingOut, 4, false, [2]int{0, 4}, [2]int{0, 0})
	s.Versions[0].Exclusive = true
	return s
}

// failedBefore has a failed rollout of a version that no good one is before.
func failedBefore() *Service {
	s := serviceOf(RollFailed, 4, false, [2]int{0, 4}, [2]int{0, 1})
	s.Versions[0].Good = false
	return s
}

func ranges(s *Service) (out string) {
	for _, v := range s.Versions {
		out += fmt.Sprintf("%s[%d %d] ", v.Process, v.Low, v.High)
	}
	return out + s.Phase.String()
}

// TestRollByOneLook: where the ranges stand after one look at the instances.
func TestRollByOneLook(t *testing.T) {
	now := t0.Add(time.Minute)
	for name, c := range map[string]struct {
		s    *Service
		in   instances
		at   time.Duration
		want string
		next time.Duration // after t0; 0 = none
	}{
		"steady":     {s: serviceOf(Steady, 4, false, [2]int{0, 4}), want: "p1[0 4] steady"},
		"no version": {s: &Service{Phase: RollingOut, Instances: 2}, want: "rolling out"},
		"start first, none healthy": {s: serviceOf(RollingOut, 4, false, [2]int{0, 4}, [2]int{0, 0}),
			want: "p1[0 4] p2[0 1] rolling out", next: 10 * time.Minute},
		"start first, one healthy": {s: serviceOf(RollingOut, 4, false, [2]int{0, 4}, [2]int{0, 1}),
			in: instances{healthy: map[string]int{"p2": 1}}, want: "p1[1 4] p2[0 2] rolling out", next: 11 * time.Minute},
		"start first, one healthy soon": {s: serviceOf(RollingOut, 4, false, [2]int{0, 4}, [2]int{0, 1}),
			in: instances{at: t0.Add(2 * time.Minute)}, want: "p1[0 4] p2[0 1] rolling out", next: 2 * time.Minute},
		"start first, one falls back": {s: serviceOf(RollingOut, 4, false, [2]int{2, 4}, [2]int{0, 3}),
			in: instances{healthy: map[string]int{"p2": 1}}, want: "p1[2 4] p2[0 3] rolling out", next: 11 * time.Minute},
		"start first, none older wanted": {s: serviceOf(RollingOut, 4, false, [2]int{4, 4}, [2]int{0, 2}),
			in: instances{healthy: map[string]int{"p2": 1}}, want: "p1[4 4] p2[0 4] rolling out", next: 11 * time.Minute},
		"start first, one older wanted": {s: serviceOf(RollingOut, 4, false, [2]int{3, 4}, [2]int{0, 2}),
			in: instances{healthy: map[string]int{"p2": 1}}, want: "p1[3 4] p2[0 2] rolling out", next: 11 * time.Minute},
		"stop first, the older one is there": {s: serviceOf(RollingOut, 4, true, [2]int{0, 4}, [2]int{0, 0}),
			in: instances{exists: map[string]bool{"p1/0": true}}, want: "p1[1 4] p2[0 0] rolling out", next: 10 * time.Minute},
		"stop first, the older one is gone": {s: serviceOf(RollingOut, 4, true, [2]int{1, 4}, [2]int{0, 0}),
			want: "p1[1 4] p2[0 1] rolling out", next: 10 * time.Minute},
		"stop first, none older wanted": {s: serviceOf(RollingOut, 4, true, [2]int{4, 4}, [2]int{0, 1}),
			in: instances{exists: map[string]bool{"p1/1": true}}, want: "p1[4 4] p2[0 1] rolling out", next: 10 * time.Minute},
		"whole, the older ones are there": {s: serviceOf(RollingOut, 2, false, [2]int{2, 2}, [2]int{0, 2}),
			in:   instances{healthy: map[string]int{"p2": 2}, exists: map[string]bool{"p1/0": true}},
			want: "p1[0 0] p2[0 2] rolling out"},
		"whole, the older ones are gone": {s: serviceOf(RollingOut, 2, false, [2]int{2, 2}, [2]int{0, 2}),
			in: instances{healthy: map[string]int{"p2": 2}}, want: "p2[0 2] steady"},
		"of no instance": {s: serviceOf(RollingOut, 0, false, [2]int{0, 0}), want: "p1[0 0] steady"},
		"superseded, cut at the older one": {s: serviceOf(RollingOut, 4, false, [2]int{1, 4}, [2]int{0, 2}, [2]int{0, 0}),
			want: "p1[1 4] p2[0 1] p3[0 1] rolling out", next: 10 * time.Minute},
		"superseded, replaced nothing": {s: serviceOf(RollingOut, 4, false, [2]int{0, 4}, [2]int{0, 1}, [2]int{0, 0}),
			want: "p1[0 4] p3[0 1] rolling out", next: 10 * time.Minute},
		"superseded, replaced nothing yet": {s: serviceOf(RollingOut, 4, false, [2]int{0, 4}, [2]int{0, 1}, [2]int{0, 0}),
			in: instances{exists: map[string]bool{"p2/0": true}}, want: "p1[0 4] p2[0 0] p3[0 1] rolling out",
			next: 10 * time.Minute},
		"superseded, the oldest is gone": {s: serviceOf(RollingOut, 4, false, [2]int{4, 4}, [2]int{0, 4}, [2]int{0, 0}),
			want: "p1[4 4] p2[0 4] p3[0 1] rolling out", next: 10 * time.Minute},
		"back, start first": {s: serviceOf(RollingBack, 4, false, [2]int{0, 2}, [2]int{2, 4}),
			in: instances{healthy: map[string]int{"p2": 1}}, want: "p1[0 2] p2[0 4] rolling back"},
		"back, start first, one is": {s: serviceOf(RollingBack, 4, false, [2]int{0, 2}, [2]int{0, 4}),
			in: instances{healthy: map[string]int{"p2": 1}}, want: "p1[1 2] p2[0 4] rolling back"},
		"back, stop first, the failed left": {s: serviceOf(RollingBack, 4, true, [2]int{0, 2}, [2]int{2, 4}),
			in:   instances{exists: map[string]bool{"p1/0": true, "p1/1": true}, healthy: map[string]int{"p2": 4}},
			want: "p1[2 2] p2[2 4] rolling back"},
		"back, stop first, one of them left": {s: serviceOf(RollingBack, 4, true, [2]int{2, 2}, [2]int{2, 4}),
			in: instances{exists: map[string]bool{"p1/0": true}}, want: "p1[2 2] p2[1 4] rolling back"},
		"back, stop first, all gone": {s: serviceOf(RollingBack, 4, true, [2]int{2, 2}, [2]int{2, 4}),
			want: "p1[2 2] p2[0 4] rolling back"},
		"back, not whole, though healthy": {s: serviceOf(RollingBack, 2, true, [2]int{2, 2}, [2]int{1, 2}),
			in:   instances{exists: map[string]bool{"p1/0": true}, healthy: map[string]int{"p2": 2}},
			want: "p1[2 2] p2[1 2] rolling back"},
		"back, start first, from index 1": {s: serviceOf(RollingBack, 4, false, [2]int{0, 1}, [2]int{1, 4}),
			in: instances{healthy: map[string]int{"p2": 1}}, want: "p1[0 1] p2[0 4] rolling back"},
		"superseded, an older one gave up": {s: serviceOf(RollingOut, 4, false, [2]int{2, 2}, [2]int{0, 4}, [2]int{0, 0}),
			in: instances{exists: map[string]bool{"p1/0": true}}, want: "p1[2 2] p2[0 4] p3[0 1] rolling out",
			next: 10 * time.Minute},
		"superseded, above the older one": {s: serviceOf(RollingOut, 4, false, [2]int{1, 4}, [2]int{2, 3}, [2]int{0, 0}),
			in: instances{exists: map[string]bool{"p2/2": true}}, want: "p1[1 4] p2[2 2] p3[0 1] rolling out",
			next: 10 * time.Minute},
		"the deadline is before the next": {s: serviceOf(RollingOut, 4, false, [2]int{0, 4}, [2]int{0, 1}),
			in: instances{at: t0.Add(20 * time.Minute)}, want: "p1[0 4] p2[0 1] rolling out", next: 10 * time.Minute},
		"the older one is exclusive": {s: exclusiveBefore(), in: instances{exists: map[string]bool{"p1/0": true}},
			want: "p1[1 4] p2[0 0] rolling out", next: 10 * time.Minute},
		"failed, and there is no good one": {s: failedBefore(), in: instances{healthy: map[string]int{"p2": 1}},
			want: "p1[1 4] p2[0 2] rollout failed"},
		"stop first, none older is left": {s: serviceOf(RollingOut, 4, true, [2]int{4, 4}, [2]int{0, 1}),
			want: "p1[4 4] p2[0 1] rolling out", next: 10 * time.Minute},
		"failed by its deadline": {s: serviceOf(RollingOut, 4, false, [2]int{1, 4}, [2]int{0, 2}), in: instances{},
			at: 10 * time.Minute, want: "p2[0 1] p1[1 4] rolling back", next: 10 * time.Minute},
		"not failed just before": {s: serviceOf(RollingOut, 4, false, [2]int{1, 4}, [2]int{0, 2}), in: instances{},
			at: 10*time.Minute - 1, want: "p1[1 4] p2[0 2] rolling out", next: 10 * time.Minute},
	} {
		at := now
		if c.at != 0 {
			at = t0.Add(c.at)
		}
		before := fmt.Sprintf("%+v", *c.s)
		s, next := c.s.Roll(c.in, at)
		if got := ranges(s); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if next.IsZero() != (c.next == 0) || !next.IsZero() && !next.Equal(t0.Add(c.next)) {
			t.Errorf("%s: next look %v, want after %v", name, next.Sub(t0), c.next)
		}
		if fmt.Sprintf("%+v", *c.s) != before {
			t.Errorf("%s: the old value has changed", name)
		}
	}
}

// TestAFailedRollout has its reason, the version that it returns to, and the indices that stay as they are.
func TestAFailedRollout(t *testing.T) {
	late := t0.Add(time.Hour)
	in := instances{cause: map[string]string{"p2/1": "crashed: exit status 1", "p2/2": "another", "p2/3": "not wanted"}}
	s := serviceOf(RollingOut, 4, false, [2]int{1, 4}, [2]int{0, 3})
	back, _ := s.Roll(in, late)
	if !strings.HasSuffix(back.Failure, "; s/1: crashed: exit status 1") ||
		!strings.HasPrefix(back.Failure, "version 2: no progress for 10m0s: 0 of 4") ||
		back.FailedVersion != 2 || back.Healthy != 0 || back.Progress != late {
		t.Errorf("%+v", back)
	}
	if back, _ := s.Roll(instances{cause: map[string]string{"p2/3": "not wanted"}}, late); !strings.HasSuffix(back.Failure,
		"0 of 4 instances healthy") {
		t.Errorf("an unwanted index is no cause: %s", back.Failure)
	}
	s.Versions[1].Rollout.KeepFailed = true
	kept, next := s.Roll(in, late)
	if kept.Phase != RollFailed || ranges(kept) != "p1[1 4] p2[0 3] rollout failed" || !next.IsZero() {
		t.Errorf("kept: %s, %v", ranges(kept), next)
	}
	if again, _ := kept.Roll(instances{healthy: map[string]int{"p2": 3}}, late); again != kept {
		t.Error("left as it is until somebody does something")
	}
	only := serviceOf(RollingOut, 2, false, [2]int{0, 2})
	only.Versions[0].Good, only.Versions[0].Rollout.KeepFailed = false, true
	failed, _ := only.Roll(in, late)
	if failed.Phase != RollFailed || failed.FailedVersion != 1 {
		t.Fatalf("%+v", failed)
	}
	well, _ := failed.Roll(instances{healthy: map[string]int{"p1": 2}}, late)
	if well.Phase != Steady || !well.Target().Good || well.Failure != "" || well.FailedVersion != 0 {
		t.Errorf("it got well after all: %+v", well)
	}
	two := serviceOf(RollingOut, 4, false, [2]int{2, 4}, [2]int{1, 2}, [2]int{0, 1})
	two.Versions[1].Good = true
	if back, _ := two.Roll(instances{}, late); back.Target().Process != "p2" {
		t.Errorf("it goes back to the last good one: %s", ranges(back))
	}
	done := serviceOf(RollingBack, 2, false, [2]int{2, 2}, [2]int{0, 2})
	done.Failure, done.FailedVersion = "why", 1
	if whole, _ := done.Roll(instances{healthy: map[string]int{"p2": 2}}, late); whole.Failure != "why" ||
		whole.FailedVersion != 1 || whole.Phase != Steady {
		t.Errorf("a rollback keeps why: %+v", whole)
	}
}

// TestRolloutSizes has the batch and the deadline by default, and under a new leader.
func TestRolloutSizes(t *testing.T) {
	for _, c := range [][3]int{{0, 1, 1}, {0, 7, 1}, {0, 8, 2}, {0, 40, 10}, {1, 40, 1}, {3, 40, 3}} {
		if got := (RolloutPolicy{Batch: c[0]}).batch(c[1]); got != c[2] {
			t.Errorf("batch %d of %d instances: %d at once, want %d", c[0], c[1], got, c[2])
		}
	}
	if (RolloutPolicy{}).deadline() != 10*time.Minute || (RolloutPolicy{ProgressDeadline: 3}).deadline() != 3 {
		t.Error("deadline")
	}
	s := serviceOf(RollingOut, 2, false, [2]int{0, 2})
	if r := s.Resumed(t0.Add(time.Hour)); r == s || r.Progress != t0.Add(time.Hour) || s.Progress != t0 {
		t.Error("a rollout has its time anew")
	}
	for _, p := range []Phase{Steady, RollingBack, RollFailed} {
		s.Phase = p
		if s.Resumed(t0.Add(time.Hour)) != s {
			t.Errorf("%v has no deadline", p)
		}
	}
	a := serviceOf(RollingOut, 2, false, [2]int{0, 2})
	for name, change := range map[string]func(*Service){
		"phase": func(s *Service) { s.Phase = RollFailed }, "healthy": func(s *Service) { s.Healthy = 1 },
		"failure": func(s *Service) { s.Failure = "x" },
		"process": func(s *Service) { s.Versions[0].Process = "x" }, "low": func(s *Service) { s.Versions[0].Low = 1 },
		"high":     func(s *Service) { s.Versions[0].High = 1 },
		"good":     func(s *Service) { s.Versions[0].Good = false },
		"versions": func(s *Service) { s.Versions = append(s.Versions, s.Versions[0]) },
	} {
		b := a.clone()
		change(b)
		if sameRollout(a, b) {
			t.Errorf("%s differs", name)
		}
	}
	if !sameRollout(a, a.clone()) {
		t.Error("a copy is the same")
	}
}
