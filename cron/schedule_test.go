package cron_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"cantina/cron"
)

// TestScheduleAgainstTheObserver compares the due, passed-over and skipped times of a schedule with the record of
// the observer of clocks.
func TestScheduleAgainstTheObserver(t *testing.T) {
	zones := loader(t)
	r := rand.New(rand.NewPCG(7, 7))
	for _, name := range []string{"America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca",
		"Pacific/Apia"} {
		loc := load(t, zones, name)
		borders := transitions(loc, at(t, "2005-01-01T00:00:00Z"), at(t, "2025-01-01T00:00:00Z"))
		for range 12 {
			b := borders[r.IntN(len(borders))]
			w := observe(loc, b-86400, b+86400)
			for _, p := range fixedPatterns() {
				it, err := p.item(loc)
				must(t, err)
				s := cron.Schedule{Item: it, Zone: loc}
				cursor := b - 86400 + r.Int64N(86400)
				now := cursor + 1 + r.Int64N(86400)
				w.from, w.to = b-86400, b+2*86400
				if all := slices.Concat(w.fires(p), w.leftOut(p)); len(all) > 0 && r.IntN(2) == 0 { // right beside a match
					cursor = all[r.IntN(len(all))] - 1 + r.Int64N(3)
					now = max(cursor+1, all[r.IntN(len(all))]-1+r.Int64N(3))
				}
				w.from, w.to = cursor+1, now
				checkSchedule(t, s, w.fires(p), time.Unix(cursor, 0), time.Unix(now, 0), 1+r.IntN(5), p.String()+" "+name)
				checkSkips(t, s, w.leftOut(p), time.Unix(cursor, 0), time.Unix(now, 0), p.String()+" "+name)
			}
		}
	}
}

func checkSchedule(t *testing.T, s cron.Schedule, want []int64, cursor, now time.Time, limit int, what string) {
	t.Helper()
	units := func(d cron.Due) (out []int64) {
		for _, o := range d.Fire {
			out = append(out, o.At.Unix())
		}
		return out
	}
	n := min(limit, len(want))
	due, err := s.Due(cursor, now, limit)
	must(t, err)
	if got := units(due); !slices.Equal(got, want[:n]) || due.Rest != int64(len(want)-n) {
		t.Fatalf("%s: Due(%v, %v, %d) = %v and %d, want %v", what, cursor.UTC(), now.UTC(), limit, got, due.Rest, want)
	}
	latest, err := s.Latest(cursor, now, limit)
	must(t, err)
	if got := units(latest); !slices.Equal(got, want[len(want)-n:]) || latest.Rest != int64(len(want)-n) {
		t.Fatalf("%s: Latest(%v, %v, %d) = %v and %d, want %v", what, cursor.UTC(), now.UTC(), limit, got, latest.Rest, want)
	}
	last, passed, next, ok, err := s.Once(cursor, now)
	must(t, err)
	if ok != (len(want) > 0) || ok && (last.Unix() != want[len(want)-1] || passed != int64(len(want)-1)) ||
		!next.Equal(due.Next) || !next.After(now) {
		t.Fatalf("%s: Once(%v, %v) = %v, %d, %v, want %v", what, cursor.UTC(), now.UTC(), last, passed, next, want)
	}
}

// leftOut lists the instants in the window with a match that is shown but does not fire, and the borders where a
// gap hides a match.
func (w *walk) leftOut(p pattern) []int64 {
	fires := w.fires(p)
	var out []int64
	for _, l := range w.labels {
		if p.matches(l) {
			for _, t := range w.shown[l.key] {
				if _, ok := slices.BinarySearch(fires, t); !ok && t >= w.from && t <= w.to {
					out = append(out, t)
				}
			}
		}
	}
	for _, m := range w.missing {
		if p.Gap == "skip" && slices.ContainsFunc(m.labels, p.matches) && m.border >= w.from && m.border <= w.to {
			out = append(out, m.border)
		}
	}
	slices.Sort(out)
	return out
}

func checkSkips(t *testing.T, s cron.Schedule, want []int64, cursor, now time.Time, what string) {
	t.Helper()
	var got []int64
	for _, o := range s.Skips(cursor, now, 10000) {
		if o.Skip.String() == "" || o.Label == "" {
			t.Errorf("%s: skip without reason %+v", what, o)
		}
		got = append(got, o.At.Unix())
	}
	next, ok := s.NextSkip(cursor, now)
	if ok != (len(want) > 0) || ok && next.At.Unix() != want[0] {
		t.Fatalf("%s: NextSkip(%v, %v) = %v, %v, want %v", what, cursor.UTC(), now.UTC(), next, ok, want)
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s: left out between %v and %v: %v, want %v", what, cursor.UTC(), now.UTC(), got, want)
	}
}

func TestScheduleEdges(t *testing.T) {
	it, loc := parse(t, "0 2 * * *", "UTC", "", "", at(t, "2026-01-01T00:00:00Z"))
	s := cron.Schedule{Item: it, Zone: loc}
	now := at(t, "2026-01-05T12:00:00Z")
	// A cursor ahead of now, stored by a leader whose clock was ahead.
	due, err := s.Due(now.Add(48*time.Hour), now, 5)
	must(t, err)
	if len(due.Fire) != 0 || due.Next.UTC() != at(t, "2026-01-08T02:00:00Z") {
		t.Errorf("behind the cursor: %+v", due)
	}
	if _, _, next, ok, err := s.Once(now.Add(48*time.Hour), now); ok || err != nil || !next.Equal(due.Next) {
		t.Errorf("behind the cursor: next %v, %v, %v", next, ok, err)
	}
	// Nothing is listed with limit 0, and the count is right.
	if due, err = s.Due(now.Add(-72*time.Hour), now, 0); err != nil || len(due.Fire) != 0 || due.Rest != 3 {
		t.Errorf("limit 0: %+v, %v", due, err)
	}
	// A schedule that is over has no next time and no error.
	once, _ := cron.ParseJSON([]byte(`{"epoch":1000}`))
	last, passed, next, ok, err := cron.Schedule{Item: once}.Once(time.Unix(0, 0), now)
	if err != nil || !ok || last.Unix() != 1000 || passed != 0 || !next.IsZero() {
		t.Errorf("an item that is over: %v %d %v %v %v", last, passed, next, ok, err)
	}
	// A calendar whose times all fall into gaps has an error of its own.
	gap,
		err := cron.ParseJSON([]byte(
		`{"minute":30,"hour":2,"day_of_week":1,"weekday_of_the_month":2,"month":3,"dst_fixes":["skip","repeat_use_both"]}`))
	must(t, err)
	if _, err := (cron.Schedule{Item: gap, Zone: load(t, loader(t), "America/New_York")}).Due(now, now.Add(time.Hour),
		1); !errors.Is(err, cron.ErrNeverMatches) {
		t.Errorf("in gaps only: %v", err)
	}
	w := cron.LintItem(gap, nil, load(t, loader(t), "America/New_York"), now)
	if len(w) != 1 || w[0].String() != "never fires in this zone: every match falls into a gap" {
		t.Errorf("in gaps only: warnings %v", w)
	}
	if _, err := (cron.Schedule{Item: it}).Due(now, now.Add(time.Hour), 1); !errors.Is(err, cron.ErrNoZone) {
		t.Errorf("without a zone: %v", err)
	}
}

// TestTenYears walks ten years of a nightly line in four zones: every local day fires exactly once, through all
// clock changes.
func TestTenYears(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"} {
		it, loc := parse(t, "0 2 * * *", name, "run", "first", at(t, "2016-01-01T00:00:00Z"))
		days := map[string]int{}
		from := time.Date(2016, 1, 1, 0, 0, 0, 0, loc)
		to := time.Date(2026, 1, 1, 0, 0, 0, 0, loc)
		for last, err := it.Next(from, loc); last.Before(to); last, err = it.Next(last, loc) {
			must(t, err)
			days[last.Format("2006-01-02")]++
		}
		if len(days) != 3653 {
			t.Errorf("%s: %d days fired", name, len(days))
		}
		for day, n := range days {
			if n != 1 {
				t.Errorf("%s: fired %d times on %s", name, n, day)
			}
		}
	}
}

// BenchmarkMassDue decides 10,000 schedules that are due, one after another: the
// budget is 50 ms for all.
func BenchmarkMassDue(b *testing.B) {
	zones := loader(b)
	var all []cron.Schedule
	now := at(b, "2026-06-02T01:30:00Z")
	for i := range 10000 {
		loc := load(b, zones, []string{"Europe/Berlin", "America/New_York", "UTC", "Asia/Tokyo"}[i%4])
		line := []string{"* * * * *", "H * * * *", "*/5 * * * *", "H H(0-5) * * *"}[i/4%4]
		it, _, err := cron.ParseLine(line, cron.LineOptions{Name: fmt.Sprint(i), Zone: loc, Now: now, Gap: cron.GapRun,
			Fold: cron.FoldFirst})
		must(b, err)
		all = append(all, cron.Schedule{Item: it, Zone: loc})
	}
	cursor := now.Add(-time.Hour)
	for b.Loop() {
		for _, s := range all {
			if _, _, _, _, err := s.Once(cursor, now); err != nil {
				b.Fatal(err)
			}
		}
	}
}
