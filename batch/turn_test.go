package batch

import (
	"testing"

	"cantina/fence"
)

// TestRoundRobinGoesOnWhereItWas: each pick begins after the job that started last. So the first names do not get
// all slots that become free one by one.
func TestRoundRobinGoesOnWhereItWas(t *testing.T) {
	b := twoHosts(t)
	for _, name := range []string{"a", "b", "c"} {
		put(t, b, Job{Name: name})
	}
	got := ""
	for range 4 {
		got += keys(b.Pick(1)) + " "
	}
	if want := "a:db22 b:db21 c:db12 a:db11 "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestATurnOutlivesItsJob: the next in order has the turn when the job that had the last one is gone.
func TestATurnOutlivesItsJob(t *testing.T) {
	b := twoHosts(t)
	for _, name := range []string{"a", "b", "c"} {
		put(t, b, Job{Name: name})
	}
	if got := keys(b.Pick(2)); got != "a:db22 b:db21" {
		t.Fatal(got)
	}
	b.Delete("b")
	if got := keys(b.Pick(1)); got != "c:db21" {
		t.Errorf("got %s, want c", got)
	}
}

// TestRetriedBeginsAnew: attempts and losses restart at zero, so that it takes as many as the first time to fail
// again.
func TestRetriedBeginsAnew(t *testing.T) {
	rules := Rules{Next: NextBackoff{Seconds: 1}, Retries: 1}
	fail := func(s Status, r Report) (Status, int) {
		for n := 1; n < 20; n++ {
			s = Apply(s, fence.Invocation{Counter: s.Invocation.Counter + 1}, r, 0, rules)
			if s.Bits&Failed != 0 {
				return s, n
			}
		}
		return s, 0
	}
	for name, c := range map[string]struct {
		r    Report
		want int
	}{
		"errors": {errorBackoff, 2}, "losses": {LostReport("gone"), 5},
	} {
		s, n := fail(Status{}, c.r)
		if n != c.want {
			t.Fatalf("%s: failed after %d, want %d", name, n, c.want)
		}
		f, changed := Retried(s)
		if !changed || f.Attempts != 0 || f.Losses != 0 || f.Invocation != s.Invocation {
			t.Fatalf("%s: forgiven %+v, %v", name, f, changed)
		}
		if _, n = fail(f, c.r); n != c.want {
			t.Errorf("%s: after it was forgiven failed after %d, want %d", name, n, c.want)
		}
	}
	if _, changed := Retried(Status{Bits: Done}); changed {
		t.Error("there was nothing to forgive")
	}
	if s, changed := Retried(Status{Bits: Error | UsesBackoff, Backoff: 9, Time: 1000}); !changed || s.Due() != 1000 {
		t.Errorf("a backoff ends: %+v, %v", s, changed)
	}
}

// TestAClockThatGoesBack: a backoff that is over stays so, and one that begins counts from the
// latest time that was seen.
func TestAClockThatGoesBack(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	k := Key{"a", "db11"}
	put(t, b, Job{Name: "a", Retries: -1, Backoff: Backoff{Seconds: []int{7}, Repeat: true},
		Filters: map[string]Filter{"db": {Whitelist: []string{"db11"}}}})
	b.Advance(100_000)
	start(t, b, b.Pick(9), &n)
	finish(t, b, k, errorBackoff)
	b.Advance(107_000)
	b.Advance(50_000)
	s := b.Pick(9)
	if got := keys(s); got != "a:db11" {
		t.Fatalf("its backoff was over: %q", got)
	}
	start(t, b, s, &n)
	if u := finish(t, b, k, errorBackoff); u.Status.Time != 107_000 {
		t.Errorf("ended at %d, before it started", u.Status.Time)
	}
	if at, ok := b.NextDue(); !ok || at != 114_000 {
		t.Errorf("due at %d, %v", at, ok)
	}
}

// TestATimerOfARemovedJobOrNode has no effect: its job was deleted, or its node has left.
func TestATimerOfARemovedJobOrNode(t *testing.T) {
	for name, gone := range map[string]func(b *Board){
		"the job": func(b *Board) { b.Delete("a") },
		"the job, and another has its name": func(b *Board) {
			b.Delete("a")
			if p := b.Put(Job{Name: "a", UID: "other"}); len(p) > 0 {
				t.Fatal(p)
			}
		},
		"the nodes": func(b *Board) {
			if err := b.SetNodes(nil); err != nil {
				t.Fatal(err)
			}
		},
	} {
		b := twoHosts(t)
		n := int64(0)
		put(t, b, Job{Name: "a", Retries: -1, Backoff: Backoff{Seconds: []int{7}, Repeat: true}})
		b.Advance(100_000)
		start(t, b, b.Pick(1), &n)
		finish(t, b, Key{"a", "db22"}, errorBackoff)
		gone(b)
		b.Advance(200_000)
		if at, ok := b.NextDue(); ok {
			t.Errorf("%s: due at %d", name, at)
		}
	}
	if s, _ := Retried(Status{Bits: Failed | Overwriteable, Backoff: 15}); s.Backoff != 15 {
		t.Errorf("what waits for nothing keeps its place in the list: %+v", s)
	}
}
