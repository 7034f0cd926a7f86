package cron_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cantina/cron"
	"cantina/internal/draw"
	"cantina/internal/history"
	"cantina/zone"
)

// generator prints the answers of random calendars.
type generator struct {
	rng  *rand.Rand
	out  strings.Builder
	zone *time.Location
	now  time.Time
}

func (w *generator) in(n int) bool { return w.rng.IntN(n) == 0 }

func (w *generator) printf(format string, args ...any) { fmt.Fprintf(&w.out, format+"\n", args...) }

// TestHistories compares the firing times of lines and items in zones with clock changes with a stored text.
func TestHistories(t *testing.T) {
	book := history.Open(t, "testdata/histories.txt")
	zones, err := zone.New(zone.Options{Dirs: []string{}}) // none of the machine: the rules that came with Go
	must(t, err)
	for n := range 80 {
		rng := rand.New(rand.NewPCG(uint64(n), 17))
		w := &generator{rng: rng, zone: load(t, zones,
			draw.One(rng, "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca",
				"Pacific/Apia"))}
		for range 30 {
			border := draw.One(rng, "2026-03-29T01:00:00Z", "2026-10-25T01:00:00Z", "2026-03-08T07:00:00Z",
				"2026-11-01T06:00:00Z", "2026-04-04T15:00:00Z", "2026-10-03T15:30:00Z", "2011-12-30T10:00:00Z",
				"2028-02-29T00:00:00Z", "9999-12-31T20:00:00Z")
			w.now = at(t, border).Add(time.Duration(rng.IntN(7200)-5400)*time.Second + draw.One(rng, 0, 0, time.Nanosecond))
			if w.in(3) {
				w.now = w.now.AddDate(0, 0, -rng.IntN(400))
			}
			if w.in(2) {
				w.line()
			} else {
				w.json()
			}
		}
		book.Check(t, fmt.Sprintf("calendars-%02d", n), w.out.String())
	}
	book.Close(t)
}

// element draws a part of a field of a line, good or not.
func (w *generator) element(lo, hi int, names ...string) string {
	a, b := lo+w.rng.IntN(hi-lo+1), lo+w.rng.IntN(hi-lo+1)
	switch w.rng.IntN(12) {
	case 0, 1, 2:
		return "*"
	case 3:
		return fmt.Sprint("*/", 1+w.rng.IntN(hi))
	case 4, 5:
		return fmt.Sprint(a)
	case 6:
		return fmt.Sprintf("%d-%d", min(a, b), max(a, b))
	case 7:
		return fmt.Sprintf("%d-%d/%d", a, b, w.rng.IntN(9))
	case 8:
		return fmt.Sprintf("%d,%d", a, b)
	case 9:
		return draw.One(w.rng, "H", "H/7", "H(1-5)", "H(1-9)/3", "?")
	case 10:
		return draw.One(w.rng, append(names, "x", "", "-1", "99", "1-", "a/2", "*/0")...)
	}
	if len(names) > 0 {
		return names[w.rng.IntN(len(names))]
	}
	return fmt.Sprint(a)
}

func (w *generator) line() {
	fields := []string{
		w.element(0, 59), w.element(0, 23), w.element(1, 31, "L", "L-1", "L-3,7", "L-31", "30", "31"),
		w.element(1, 12, "feb", "2", "jan-mar", "SEP", "june"),
		w.element(0, 7, "mon", "fri-sun", "5L", "tue#1", "1#5", "3#6", "7", "sat,sun"),
	}
	if w.in(4) {
		fields = append([]string{w.element(0, 59)}, fields...)
	}
	text := strings.Join(fields, draw.One(w.rng, " ", " ", "\t", "  "))
	if w.in(8) {
		text = draw.One(w.rng, "@daily", "@hourly", "@weekly", "@monthly", "@yearly", "@every 90s", "@every 1h", "@every 36h",
			"@every 7d", "@every 0s", "@every 1", "@midnight", "@annually", "@reboot", "@daly", "")
	}
	o := cron.LineOptions{Name: draw.One(w.rng, "", "nightly", "ns/backup"), Zone: w.zone, Now: w.now,
		Gap:   draw.One(w.rng, cron.GapUnset, cron.GapRun, cron.GapSkip),
		Fold:  draw.One(w.rng, cron.FoldUnset, cron.FoldFirst, cron.FoldLast, cron.FoldBoth),
		Vixie: w.in(4), Anchor: draw.One(w.rng, time.Time{}, w.now.Add(-1000*time.Second), w.now.Add(time.Hour))}
	r := cron.Lint(text, o, 5)
	w.printf("line %q %+v: %q %v %v %v", text, o.Name, r.Words, r.Warnings, r.Next, r.Err)
	if r.Item != nil {
		w.item(r.Item)
	}
}

// selector draws one of an item.
func (w *generator) selector(lo, hi int, names ...string) any {
	a, b := lo+w.rng.IntN(hi-lo+1), lo+w.rng.IntN(hi-lo+1)
	switch w.rng.IntN(8) {
	case 0, 1:
		return a
	case 2:
		return []any{a, b, a}
	case 3:
		return map[string]any{"start": min(a, b), "end": max(a, b), "period": 1 + w.rng.IntN(5)}
	case 4:
		return map[string]any{"start": a}
	case 5:
		return map[string]any{"period": 1 + w.rng.IntN(hi)}
	case 6:
		return draw.One(w.rng, append([]any{hi + 1, lo - 1, "x", []any{}, nil, map[string]any{"start": hi, "end": lo}, true},
			lo, hi)...)
	}
	if len(names) > 0 {
		return names[w.rng.IntN(len(names))]
	}
	return b
}

func (w *generator) json() {
	obj := map[string]any{"minute": w.selector(0, 59),
		"dst_fixes": []any{draw.One(w.rng, "skip", "unskip"),
			draw.One(w.rng, "repeat_use_both", "repeat_use_only_early", "repeat_use_only_late")}}
	some := func(n int, key string, value func() any) {
		if w.in(n) {
			obj[key] = value()
		}
	}
	some(2, "hour", func() any { return draw.One[any](w.rng, w.selector(0, 23), 1, 2, []any{1, 2, 3}) })
	some(6, "seconds", func() any { return w.selector(0, 59) })
	some(3, "day_of_month", func() any { return w.selector(1, 31) })
	some(3, "month", func() any { return w.selector(1, 12, "feb", "march", "October") })
	some(4, "day_of_week", func() any { return w.selector(1, 7, "sunday", "tue", "FRI") })
	some(8, "year", func() any {
		return draw.One[any](w.rng, 2026, map[string]any{"start": 2026, "period": 2}, 9999, []any{2011, 2028}, 1968)
	})
	some(8, "weekday_of_the_month", func() any { return draw.One[any](w.rng, 1, "last", -2, []any{1, 3}, 5, 0, 6) })
	some(12, "iter_day", func() any { return w.iteration("2026-01-02", "2 January 2026", "2026-02-30") })
	some(12, "iter_month", func() any { return w.iteration("2026-01", "March 2025", "2026-13") })
	some(12, "iter_day_of_week", func() any { return w.iteration("2026-01-02", "2025-12-30") })
	some(3, "max_shift_seconds_for_unskip_and_do_not_repeat",
		func() any { return draw.One(w.rng, 0, 600, 3600, 86400, -1) })
	some(20, "dst_fixes", func() any {
		return draw.One[any](w.rng, []any{"vixie"}, []any{"skip"}, "skip", []any{"skip", "unskip", "repeat_use_both"},
			[]any{"run"})
	})
	some(20, "minutes", func() any { return 1 })
	if w.in(10) {
		obj = map[string]any{"epoch": draw.One[any](w.rng, map[string]any{"period": 1800},
			map[string]any{"start": 1774000000, "period": 777, "end": 1790000000}, []any{1774746000, 1775000000}, 1774746000,
			-1)}
		some(2, "max_shift_seconds_for_unskip_and_do_not_repeat", func() any { return 600 })
	}
	text, err := json.Marshal(obj)
	if err != nil {
		panic(err)
	}
	it, err := cron.ParseJSON(text)
	w.printf("item %s: %v", text, err)
	if err == nil {
		w.printf("%v", cron.LintItem(it, obj, w.zone, w.now))
		w.item(it)
	}
}

func (w *generator) iteration(starts ...string) any {
	m := map[string]any{"start": draw.One(w.rng, starts...), "period": 1 + w.rng.IntN(5)}
	if w.in(3) {
		m["end"] = draw.One(w.rng, "2028-06-01", "2028-06", "2020-01-01")
	}
	return m
}

// item prints all that can be asked of one.
func (w *generator) item(it *cron.Item) {
	shift, ok := it.MaxShift()
	w.printf("%s; %s; %v %v %v %v %v", it, it.WordsIn(w.zone, w.now), it.TimezoneDependent(), it.Gap(), it.Fold(), shift,
		ok)
	first, err := it.FirstMatch(w.now, w.zone)
	w.printf("first %v %v", first, err)
	from := w.now.Add(-time.Duration(w.rng.IntN(3*86400)) * time.Second)
	last, ok := it.Last(from, w.now, w.zone)
	w.printf("last %v %v, %d of a year", last, ok, it.Count(w.now.AddDate(-1, 0, 0), w.now, w.zone))
	s := cron.Schedule{Item: it, Zone: w.zone}
	limit := w.rng.IntN(4)
	due, err := s.Due(from, w.now, limit)
	w.printf("due %v %v", due, err)
	due, err = s.Latest(from, w.now, limit)
	w.printf("latest %v %v", due, err)
	at, passed, next, ok, err := s.Once(from, w.now)
	w.printf("once %v %d %v %v %v", at, passed, next, ok, err)
	skip, ok := s.NextSkip(w.now, w.now.AddDate(0, 6, 0))
	w.printf("left out %v %v, here %v, wall %v", skip, ok, it.Describe(w.now, w.zone), cron.Instants(w.now, w.zone))
	list, err := cron.Preview(it, w.zone, from, 4)
	w.printf("preview %v %v", list, err)
	if w.in(3) {
		w.stateful(it)
	}
}

// stateful lets time pass for one with a memory, with disruptions.
func (w *generator) stateful(it *cron.Item) {
	now, mono, zone := w.now, time.Duration(0), w.zone
	clocks := cron.Clocks{System: func() time.Time { return now }, Monotonic: func() time.Duration { return mono }}
	o := cron.StatefulOptions{Zone: zone, MaxShift: draw.One(w.rng, 0, 10*time.Minute, 3*time.Hour),
		Tick: draw.One(w.rng, 0, time.Second)}
	s, err := cron.NewStateful(it, clocks, o)
	w.printf("stateful %v", err)
	for range 8 {
		if err != nil {
			return
		}
		by := draw.One(w.rng, time.Minute, time.Minute, 7*time.Minute, time.Hour, 26*time.Hour)
		now, mono = now.Add(by), mono+by
		switch w.rng.IntN(6) {
		case 0:
			now = now.Add(draw.One(w.rng, time.Hour, -time.Minute, -time.Hour, -30*time.Hour))
		case 1:
			s.SetZone(draw.One(w.rng, w.zone, time.UTC, time.FixedZone("east", 3600*5)))
		case 2:
			state := s.State()
			o.Resume = &state
			if s, err = cron.NewStateful(it, clocks, o); err != nil {
				w.printf("resumed: %v", err)
				return
			}
		}
		found, e := s.Poll()
		w.printf("poll %+v %v %v", found, e, s.MaxShift())
		n, events := 0, s.Events()
		if w.in(2) {
			events = s.Due()
		}
		for e := range events {
			if w.printf("  %v", e); n > 5 {
				break
			}
			n++
		}
		next, e := s.Next()
		w.printf("next %v %v %+v", next, e, s.State())
	}
}
