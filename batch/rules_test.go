package batch

import (
	"errors"
	"fmt"
	"testing"
)

// TestStatusAfterAReport has the stored status after each kind of report, for each earlier status.
func TestStatusAfterAReport(t *testing.T) {
	rules := Rules{Next: NextBackoff{Seconds: 30}, Retries: 2, Guard: 66}
	prev := Status{Bits: Error | UsesBackoff, Backoff: 15, Attempts: 2, Losses: 4}
	for name, c := range map[string]struct {
		prev  Status
		r     Report
		rules Rules
		want  Status
	}{
		"done":       {prev, Report{Bits: Done}, rules, Status{Bits: Done}},
		"incomplete": {prev, Report{Bits: Incomplete}, rules, Status{Bits: Incomplete}},
		"failed":     {prev, Report{Bits: Failed}, rules, Status{Bits: Failed, Attempts: 2, Losses: 4}},
		"error at once": {Status{Attempts: 1, Losses: 4}, Report{Bits: Error}, rules,
			Status{Bits: Error, Attempts: 2, Losses: 4}},
		"error, the retries spent": {prev, Report{Bits: Error}, rules, Status{Bits: Failed, Attempts: 3, Losses: 4}},
		"error, no end of retries": {prev, Report{Bits: Error}, Rules{Retries: -1},
			Status{Bits: Error, Attempts: 3, Losses: 4}},
		"error, no retries": {Status{}, Report{Bits: Error}, Rules{}, Status{Bits: Failed, Attempts: 1}},
		"error with backoff": {Status{Backoff: 15}, Report{Bits: Error | UsesBackoff}, rules,
			Status{Bits: Error | UsesBackoff, Backoff: 30, Attempts: 1}},
		"error, backoff is kept": {Status{Backoff: 15}, Report{Bits: Error | UsesBackoff | KeepBackoff}, rules,
			Status{Bits: Error | UsesBackoff | KeepBackoff, Backoff: 15, Attempts: 1}},
		"error, kept, none yet": {Status{}, Report{Bits: Error | UsesBackoff | KeepBackoff}, rules,
			Status{Bits: Error | UsesBackoff | KeepBackoff, Backoff: 30, Attempts: 1}},
		"error, no more backoffs": {Status{}, Report{Bits: Error | UsesBackoff},
			Rules{Next: NextBackoff{Seconds: 60, NoMore: true}, Retries: -1},
			Status{Bits: Failed | UsesBackoff, Backoff: 60, Attempts: 1}},
		"error, kept, no more backoffs": {Status{}, Report{Bits: Error | UsesBackoff | KeepBackoff},
			Rules{Next: NextBackoff{Seconds: 60, NoMore: true}, Retries: -1},
			Status{Bits: Error | UsesBackoff | KeepBackoff, Backoff: 60, Attempts: 1}},
		"error at once, no more": {Status{}, Report{Bits: Error}, Rules{Next: NextBackoff{NoMore: true}, Retries: -1},
			Status{Bits: Error, Attempts: 1}},
		"incomplete with backoff": {Status{Backoff: 15, Attempts: 1}, Report{Bits: Incomplete | UsesBackoff}, rules,
			Status{Bits: Incomplete | UsesBackoff, Backoff: 15, Attempts: 1}},
		"incomplete, none yet": {Status{Attempts: 1}, Report{Bits: Incomplete | UsesBackoff}, rules,
			Status{Bits: Incomplete | UsesBackoff, Backoff: 30, Attempts: 1}},
		"never started": {prev, NeverStarted(""), rules,
			Status{Bits: Error | Overwriteable, Backoff: 15, Attempts: 2, Losses: 4}},
		"lost": {Status{Backoff: 15, Attempts: 2}, LostReport(""), rules,
			Status{Bits: Error | UsesBackoff | Overwriteable | HasSavedBackoff, Backoff: 66, Saved: 30, Attempts: 2, Losses: 1}},
		"lost, longer than the guard": {Status{}, LostReport(""),
			Rules{Next: NextBackoff{Seconds: 300}, Retries: 2, Guard: 66},
			Status{Bits: Error | UsesBackoff | Overwriteable | HasSavedBackoff, Backoff: 300, Saved: 300, Losses: 1}},
		"lost once too often": {Status{Losses: 5}, LostReport(""), rules,
			Status{Bits: Failed | UsesBackoff | Overwriteable | HasSavedBackoff, Backoff: 66, Saved: 30, Losses: 6}},
		"lost, no retries": {Status{Losses: 3}, LostReport(""), Rules{Next: rules.Next, Guard: 66},
			Status{Bits: Failed | UsesBackoff | Overwriteable | HasSavedBackoff, Backoff: 66, Saved: 30, Losses: 4}},
		"lost often, no end of retries": {Status{Losses: 50}, LostReport(""), Rules{Next: rules.Next, Guard: 66, Retries: -1},
			Status{Bits: Error | UsesBackoff | Overwriteable | HasSavedBackoff, Backoff: 66, Saved: 30, Losses: 51}},
		"an error after a loss": {Status{Bits: HasSavedBackoff, Backoff: 66, Saved: 7},
			Report{Bits: Error | UsesBackoff | KeepBackoff}, rules,
			Status{Bits: Error | UsesBackoff | KeepBackoff, Backoff: 7, Attempts: 1}},
	} {
		c.want.Time, c.want.Invocation = 5, inv(9)
		if got := Apply(c.prev, inv(9), c.r, 5, c.rules); got != c.want {
			t.Errorf("%s:\n%+v, want\n%+v", name, got, c.want)
		}
	}
	for name, c := range map[string]struct {
		s    Status
		want int64
	}{
		"waits":      {Status{Bits: Error | UsesBackoff, Time: 1000, Backoff: 2}, 3000},
		"no backoff": {Status{Bits: Error, Time: 1000, Backoff: 2}, 0},
		"failed":     {Status{Bits: Failed | UsesBackoff, Time: 1000, Backoff: 2}, 0},
		"paced":      {Status{Bits: Incomplete, Time: 1000, Backoff: 1}, 2000},
		"not paced":  {Status{Bits: Incomplete, Time: 1000}, 0},
		"done":       {Status{Bits: Done | UsesBackoff, Time: 1000, Backoff: 2}, 0},
	} {
		if got := c.s.Due(); got != c.want {
			t.Errorf("%s: due at %d", name, got)
		}
	}
}

func TestBackoffAtItsEnds(t *testing.T) {
	if got := fmt.Sprint(Backoff{}.List()); got != "[15 30 60 300 900 3600 7200 21600 86400 repeat]" {
		t.Errorf("by default %s", got)
	}
	for name, c := range map[string]struct {
		b    Backoff
		at   int
		want NextBackoff
	}{
		"first":                {Backoff{Seconds: []int{5, 9}}, 0, NextBackoff{Seconds: 5}},
		"at a value":           {Backoff{Seconds: []int{5, 9}}, 5, NextBackoff{Seconds: 9}},
		"behind, repeat":       {Backoff{Seconds: []int{5, 9}, Repeat: true}, 9, NextBackoff{Seconds: 9}},
		"behind, fail":         {Backoff{Seconds: []int{5, 9}, Fail: true}, 9, NextBackoff{Seconds: 60, NoMore: true}},
		"only fail":            {Backoff{Fail: true}, 0, NextBackoff{Seconds: 60, NoMore: true}},
		"repeat of nothing":    {Backoff{Repeat: true}, 0, NextBackoff{Seconds: 60, NoMore: true}},
		"by default, the last": {Backoff{}, 86400, NextBackoff{Seconds: 86400}},
	} {
		if got := c.b.Next(c.at); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	five := Backoff{Seconds: []int{5}, Fail: true}
	if !five.Equal(Backoff{Seconds: []int{5}}) || five.Equal(Backoff{Seconds: []int{5}, Repeat: true}) ||
		five.Equal(Backoff{Seconds: []int{6}}) ||
		!(Backoff{}).Equal(defaultBackoff()) || (Backoff{Fail: true}).Equal(Backoff{}) {
		t.Error("equal by their meaning")
	}
	if (Backoff{Seconds: []int{0}}).Check() == nil || (Backoff{Seconds: []int{1, 1}}).Check() == nil ||
		(Backoff{Repeat: true}).Check() == nil || five.Check() != nil {
		t.Error("positive, increasing, and something to repeat")
	}
}

// TestEndsOfOtherLives: the end of a run counts for the job that it was started for, and once.
func TestEndsOfOtherLives(t *testing.T) {
	one := func(t *testing.T, job Job) (*Board, Key) {
		t.Helper()
		b := twoHosts(t)
		job.Name, job.Retries, job.Filters = "a", -1, map[string]Filter{"db": {Whitelist: []string{"db11"}}}
		put(t, b, job)
		return b, Key{"a", "db11"}
	}
	running := func(t *testing.T, job Job) (*Board, Key) {
		b, k := one(t, job)
		if s := b.Pick(1); len(s) != 1 || b.Started(k, inv(7), "c") != nil {
			t.Fatal(s)
		}
		return b, k
	}
	t.Run("an invocation from before the job", func(t *testing.T) {
		b, k := one(t, Job{Born: inv(7)})
		if u := b.End(k, inv(7), Report{Bits: Done}, 0); u.Store {
			t.Error("the very one that made it")
		}
		if u := b.End(k, inv(8), Report{Bits: Done}, 0); !u.Store {
			t.Error("the first one after")
		}
	})
	t.Run("the job is gone", func(t *testing.T) {
		b, k := running(t, Job{})
		b.Delete("a")
		b.Delete("a")
		u := b.End(k, inv(7), Report{Bits: Done}, 0)
		if b.Apply(u); u.Store || b.Live() != 0 {
			t.Errorf("%+v, %d live", u, b.Live())
		}
	})
	t.Run("the job is another one", func(t *testing.T) {
		b, k := running(t, Job{UID: "one"})
		put(t, b, Job{Name: "a", UID: "two", Retries: -1})
		u := b.End(k, inv(7), Report{Bits: Done}, 0)
		if b.Apply(u); u.Store || b.Live() != 0 {
			t.Errorf("%+v, %d live", u, b.Live())
		}
		if s, _ := b.Status(k); s.Bits != 0 {
			t.Errorf("the new job has the end of the old one: %+v", s)
		}
	})
	t.Run("an update of the job before", func(t *testing.T) {
		b, k := running(t, Job{UID: "one"})
		u := b.End(k, inv(7), Report{Bits: Done}, 0)
		put(t, b, Job{Name: "a", UID: "two", Retries: -1})
		if old := b.Apply(u); old != 0 {
			t.Error(old)
		}
		if s, _ := b.Status(k); s.Bits != 0 || b.Live() != 0 {
			t.Errorf("%+v, %d live", s, b.Live())
		}
	})
	t.Run("a person's change while it runs", func(t *testing.T) {
		b, k := running(t, Job{})
		if us, err := b.Reset("a"); err != nil || len(us) != 0 {
			t.Errorf("%+v, %v", us, err)
		}
		b.Apply(Update{Key: k, UID: "u-a", Store: true, Status: Status{Bits: Error}})
		if _, _, ok := b.Running(k); !ok || b.Live() != 1 {
			t.Error("a change by a person ends nothing")
		}
	})
	t.Run("the pause decided at the start", func(t *testing.T) {
		b, k := running(t, Job{Backoff: Backoff{Seconds: []int{5}, Repeat: true}})
		put(t, b, Job{Name: "a", Retries: -1, Backoff: Backoff{Seconds: []int{9}, Repeat: true}})
		if u := b.End(k, inv(7), errorBackoff, 0); u.Status.Backoff != 5 {
			t.Errorf("%d s", u.Status.Backoff)
		}
		if u := b.End(k, inv(8), errorBackoff, 0); u.Status.Backoff != 9 {
			t.Errorf("one that the board did not start: %d s", u.Status.Backoff)
		}
	})
	t.Run("marks", func(t *testing.T) {
		b, k := one(t, Job{})
		if b.Mark(k) != 0 || b.Mark(Key{"x", "db11"}) != 0 || b.Mark(Key{"a", "x"}) != 0 {
			t.Error("stored nowhere")
		}
		if old, err := b.Load(k, Status{Bits: Done, Invocation: inv(1)}, 4); old != 0 || err != nil || b.Mark(k) != 4 {
			t.Error(old, err)
		}
		b.SetMark(k, 6)
		b.SetMark(Key{"x", "x"}, 9)
		if old, err := b.Load(k, Status{Bits: Done, Invocation: inv(2)}, 7); old != 6 || err != nil {
			t.Error(old, err)
		}
		if _, err := b.Load(Key{"x", "db11"}, Status{}, 1); !errors.Is(err, ErrUnknownJob) {
			t.Error(err)
		}
		for _, bad := range []struct {
			job, node string
			err       error
		}{{"x", "db11", ErrUnknownJob}, {"a", "x", ErrUnknownNode}} {
			if _, err := b.Status(Key{bad.job, bad.node}); !errors.Is(err, bad.err) {
				t.Error(err)
			}
			if _, err := b.Retry(bad.job, bad.node); !errors.Is(err, bad.err) {
				t.Error(err)
			}
		}
		if us, err := b.Reset("a"); err != nil || len(us) != 1 || us[0].Status != (Status{Invocation: inv(2)}) {
			t.Errorf("%+v, %v", us, err)
		}
	})
}
