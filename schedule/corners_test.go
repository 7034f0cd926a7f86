package schedule_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cantina/cron"
	"cantina/schedule"
	"cantina/task"
)

// TestABoardWithoutTheSchedule answers for a name that it has not.
func TestABoardWithoutTheSchedule(t *testing.T) {
	b, k := schedule.NewBoard(), schedule.Key{Domain: "d", Name: "n"}
	if at, ok := b.Next(k); ok || !at.IsZero() {
		t.Error(at, ok)
	}
	if _, err := b.Cron(k); !errors.Is(err, schedule.ErrNotFound) {
		t.Error(err)
	}
	if n, at, ok := new(schedule.Queue).First(); n != 0 || at != 0 || ok {
		t.Error(n, at, ok)
	}
	if b.Unsaved(k) {
		t.Error("it has no state")
	}
	broken := errors.New("no such zone")
	b.Put(schedule.Row{Key: k, Definition: &schedule.Definition{Calendar: schedule.Calendar{Line: "@every 90s"}}},
		cron.Schedule{}, broken)
	b.Stepped(-time.Hour, time.Unix(0, 0))
	if _, ok := b.First(); ok || b.Unsaved(k) {
		t.Error("what cannot be used is never due")
	}
	if _, _, err := b.Step(k, schedule.Tick{}, schedule.Env{}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestTheItemOfAnObject has the errors of an item, and of its zone.
func TestTheItemOfAnObject(t *testing.T) {
	for text, c := range map[string]struct {
		zone *time.Location
		err  error
	}{
		`{"minute":0,"hour":2,"dst_fixes":["skip","repeat_use_both"]}`: {nil, cron.ErrNoZone},
		`{"epoch":5}`: {nil, nil},
		`{"minute":0,"hour":"two","dst_fixes":["vixie"]}`:              {time.UTC, cron.ErrSyntax},
		`{"minute":0,"hour":3,"dst_fixes":["skip","repeat_use_both"]}`: {time.UTC, nil},
	} {
		c0 := schedule.Calendar{JSON: text}
		it, _, err := c0.Item(schedule.Key{}, c.zone, time.Time{}, time.Time{})
		if (err != nil) != (c.err != nil) || (it == nil) != (err != nil) || errors.Is(c.err, cron.ErrNoZone) &&
			!errors.Is(err, cron.ErrNoZone) {
			t.Errorf("%s: %v %v", text, it, err)
		}
	}
}

// TestWordsAtTheirBounds: of clocks, deliveries, jitters and entries.
func TestWordsAtTheirBounds(t *testing.T) {
	for step, want := range map[time.Duration]string{-1: "back by 1ns", 0: "ahead by 0s", 1: "ahead by 1ns"} {
		if got := schedule.SetBy(step); got != want {
			t.Errorf("%v: %s", step, got)
		}
	}
	for n, want := range map[int]string{0: "sent to 9 of 9", 1: "; not reached: a", 3: "; not reached: a; b; c",
		4: "a; b; c; and 1 more"} {
		d := schedule.Delivery{Of: 9, Reached: 9 - n, Missed: []string{"d", "b", "a", "c"}[4-max(n, 0):]}
		switch n {
		case 1:
			d.Missed = []string{"a"}
		case 3:
			d.Missed = []string{"b", "a", "c"}
		}
		if got := d.String(); !strings.HasSuffix(got, want) {
			t.Errorf("%d missed: %s", n, got)
		}
	}
	seen := map[time.Duration]bool{}
	for i := range 40 {
		k := schedule.Key{Domain: "d", Name: fmt.Sprint(i)}
		if got := schedule.Offset(k, time.Second-1); got != 0 {
			t.Errorf("less than a second: %v", got)
		}
		seen[schedule.Offset(k, time.Second)] = true
	}
	if len(seen) != 2 || !seen[0] || !seen[time.Second] {
		t.Errorf("a second: %v", seen)
	}
	d := schedule.Definition{Calendar: schedule.Calendar{Line: "* * * * *"},
		Policy: schedule.Policy{Max: -1, Overlap: schedule.OverlapAllow}, Task: &task.Definition{}}
	if d.Validate() == nil {
		t.Error("fewer than none at once")
	}
	at := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	for want, e := range map[string]schedule.Entry{
		"2026-03-01T02:00:00Z":                                {At: at, Until: at.Add(time.Hour), Count: 1},
		"2026-03-01T03:00:00Z (2 since 2026-03-01T02:00:00Z)": {At: at, Until: at.Add(time.Hour), Count: 2},
	} {
		if got := e.Times(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if e := (schedule.Entry{At: at, Count: 2}); e.Times() != "2026-03-01T02:00:00Z" {
		t.Error(e.Times())
	}
	sent := schedule.State{History: []schedule.Entry{{Decision: schedule.Sent},
		{Decision: schedule.Sent, Text: "sent to 1 of 1"},
		{Decision: schedule.Started}}}
	for i, want := range []string{"sent at most once; the leader ended before it recorded the outcome", "sent to 1 of 1",
		""} {
		if got := schedule.Forgotten(sent).History[i].Text; got != want || sent.History[0].Text != "" {
			t.Errorf("%d: %q", i, got)
		}
	}
}

// minutely is a schedule of every minute from noon on, and a way to step it.
func minutely(t *testing.T) (step func(schedule.Event, time.Time) error, s *schedule.State) {
	t.Helper()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	d := &schedule.Definition{Calendar: schedule.Calendar{Line: "* * * * *", Zone: "UTC"},
		Policy: schedule.Policy{Overlap: schedule.OverlapAllow, Max: 1000}, Task: &task.Definition{}}
	it, _, err := d.Item(schedule.Key{Domain: "d", Name: "n"}, time.UTC, noon, noon)
	if err != nil {
		t.Fatal(err)
	}
	st := schedule.New(noon)
	return func(e schedule.Event, at time.Time) error {
		next, _, err := schedule.Step(st, e, schedule.Env{Now: at, Key: schedule.Key{Domain: "d", Name: "n"},
			Cron: cron.Schedule{Item: it, Zone: time.UTC}, Definition: d})
		st = next
		return err
	}, &st
}

// TestLimitsOfManualRequests has the number of future times, the size of a request, and the error for a time that
// was decided.
func TestLimitsOfManualRequests(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	step, s := minutely(t)
	for i := 1; i <= 40; i++ {
		if err := step(schedule.Fire{At: noon.Add(time.Duration(i) * time.Minute)}, noon); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := step(schedule.Fire{At: noon.Add(41 * time.Minute)}, noon); !errors.Is(err, schedule.ErrInvalid) ||
		len(s.Ahead) != 40 {
		t.Errorf("one more: %v, %d", err, len(s.Ahead))
	}
	if err := step(schedule.Fire{At: noon.Add(time.Second)}, noon); !errors.Is(err, schedule.ErrNoTime) ||
		!strings.HasSuffix(err.Error(), "the next one is 2026-03-01T12:01:00Z") {
		t.Error(err)
	}
	step, s = minutely(t)
	later := noon.Add(2 * time.Minute)
	if err := step(schedule.Tick{}, noon.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	s.Open = []schedule.Span{{After: noon.Add(-2 * time.Hour), Until: noon.Add(-time.Hour), Count: 60,
		Why: schedule.WhyLate}}
	for at, want := range map[time.Time]string{
		noon.Add(time.Minute):        "was started d.n.20260301T120100Z",
		noon.Add(-time.Minute):       "was started, and is not in the history any more",
		noon.Add(-3 * time.Hour):     "is older than the history, which begins at 2026-03-01T11:00:00Z",
		noon.Add(-121 * time.Minute): "is older than the history, which begins at 2026-03-01T11:00:00Z",
	} {
		if err := step(schedule.Fire{At: at}, later); !errors.Is(err, schedule.ErrFired) ||
			!strings.HasSuffix(err.Error(), want) {
			t.Errorf("%v: %v", at, err)
		}
	}
	s.History = nil
	s.Live = []schedule.Run{{At: noon.Add(time.Minute), ID: "run"}}
	s.Open = nil
	if err := step(schedule.Fire{At: noon}, later); !errors.Is(err, schedule.ErrFired) ||
		!strings.HasSuffix(err.Error(), "was started, and is not in the history any more") {
		t.Error(err)
	}
	for n, want := range map[int]bool{0: false, 1: true, schedule.MaxBackfill: true, schedule.MaxBackfill + 1: false} {
		step, s := minutely(t)
		s.Open = []schedule.Span{{After: noon.Add(-20 * time.Hour), Until: noon, Count: 1200, Why: schedule.WhyLate}}
		if err := step(schedule.Backfill{From: noon.Add(-24 * time.Hour), To: noon, Max: n}, noon); (err == nil) != want {
			t.Errorf("at most %d: %v", n, err)
		}
		if want && s.Fired+len(s.Pending) != n {
			t.Errorf("at most %d: %d and %d", n, s.Fired, len(s.Pending))
		}
	}
}
