package cron_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"cantina/cron"
)

// pattern is an item as the oracle sees it: plain lists, empty = everything.
type pattern struct {
	Minute, Hour, DOM, Month, DOW []int // DOW: 0 = Sunday
	Gap, Fold                     string
	Line                          bool // a crontab line: both day fields are either-or
}

// item makes the real item: from JSON, or from an equivalent line.
func (p pattern) item(loc *time.Location) (*cron.Item, error) {
	if !p.Line {
		return cron.ParseJSON(p.json())
	}
	opt := cron.LineOptions{Zone: loc, Now: time.Unix(0, 0)}
	var err error
	if opt.Gap, err = cron.ParseGap(p.Gap); err != nil {
		return nil, err
	}
	if opt.Fold, err = cron.ParseFold(p.Fold); err != nil {
		return nil, err
	}
	it, _, err := cron.ParseLine(p.line(), opt)
	return it, err
}

func (p pattern) line() string {
	var out []string
	for _, list := range [][]int{p.Minute, p.Hour, p.DOM, p.Month, p.DOW} {
		text := "*"
		if len(list) > 0 {
			text = strings.ReplaceAll(strings.Trim(fmt.Sprint(list), "[]"), " ", ",")
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func (p pattern) String() string {
	if p.Line {
		return fmt.Sprintf("%q gap %s fold %s", p.line(), p.Gap, p.Fold)
	}
	return string(p.json())
}

func (p pattern) json() []byte {
	obj := map[string]any{"minute": p.Minute, "dst_fixes": []string{p.Gap, p.Fold}}
	put := func(key string, list []int, add int) {
		if len(list) > 0 {
			out := []int{}
			for _, v := range list {
				out = append(out, v+add)
			}
			obj[key] = out
		}
	}
	if p.Minute == nil {
		obj["minute"] = []int{}
	}
	put("hour", p.Hour, 0)
	put("day_of_month", p.DOM, 0)
	put("month", p.Month, 0)
	put("day_of_week", p.DOW, 1)
	b, _ := json.Marshal(obj)
	return b
}

func in(list []int, v int) bool { return len(list) == 0 || slices.Contains(list, v) }

func (p pattern) matches(l label) bool {
	if len(p.DOM) > 0 && len(p.DOW) > 0 && (slices.Contains(p.DOM, l.dom) || slices.Contains(p.DOW, l.dow)) {
		p.DOM, p.DOW = nil, nil
	}
	return in(p.Minute, l.min) && in(p.Hour, l.hour) && in(p.DOM, l.dom) && in(p.Month, l.month) && in(p.DOW, l.dow)
}

// label is one minute of local time; key orders and identifies it.
type label struct {
	key                        int64
	min, hour, dom, month, dow int
}

func labelOf(wall time.Time) label {
	return label{wall.Unix(), wall.Minute(), wall.Hour(), wall.Day(), int(wall.Month()), int(wall.Weekday())}
}

// walk is the record of a patient observer of the clocks of a zone: the minute that each instant shows, and the
// minutes that no clock showed. It asks the zone only for the local time of single instants.
type walk struct {
	from, to int64 // the part that answers are asked for; seen is wider
	shown    map[int64][]int64
	labels   []label
	missing  []missing
}

type missing struct {
	border int64 // first instant after the jump
	labels []label
}

const margin = 3 * 86400

// wallAt is the display of a clock in loc, written as if it were UTC.
func wallAt(loc *time.Location, t int64) time.Time {
	_, off := time.Unix(t, 0).In(loc).Zone()
	return time.Unix(t+int64(off), 0).UTC()
}

// observe watches from three days before to three days after the window. With
// patterns only minutes that one of them matches are written down.
func observe(loc *time.Location, from, to int64, only ...pattern) *walk {
	keep := func(l label) bool {
		return len(only) == 0 || slices.ContainsFunc(only, func(p pattern) bool { return p.matches(l) })
	}
	w := &walk{from: from, to: to, shown: map[int64][]int64{}}
	start := (from - margin) / 60 * 60
	step := int64(60)
	if from < 86400*366*3 {
		step = 30 // until 1972 there was a zone with half minutes
	}
	before := wallAt(loc, start-step).Unix() - (start - step)
	for t := start; t < to+margin; t += step {
		wall := wallAt(loc, t)
		if off := wall.Unix() - t; off != before {
			w.jump(loc, t-step, t, before)
			before = off
		}
		if wall.Second() != 0 {
			continue
		}
		l := labelOf(wall)
		if !keep(l) {
			continue
		}
		if len(w.shown[l.key]) == 0 {
			w.labels = append(w.labels, l)
		}
		w.shown[l.key] = append(w.shown[l.key], t)
	}
	for i := range w.missing {
		gone := &w.missing[i]
		gone.labels = slices.DeleteFunc(gone.labels, func(l label) bool {
			if len(w.shown[l.key]) > 0 || !keep(l) {
				return true
			}
			for _, earlier := range w.missing[:i] {
				if slices.ContainsFunc(earlier.labels, func(e label) bool { return e.key == l.key }) {
					return true
				}
			}
			return false
		})
	}
	return w
}

// jump finds the second at which the offset changed and, if forward, the
// minutes that were left out.
func (w *walk) jump(loc *time.Location, before, after, off int64) {
	for after-before > 1 {
		mid := (before + after) / 2
		if wallAt(loc, mid).Unix()-mid == off {
			before = mid
		} else {
			after = mid
		}
	}
	m := missing{border: after}
	for key := (after + off + 59) / 60 * 60; key < wallAt(loc, after).Unix(); key += 60 {
		m.labels = append(m.labels, labelOf(time.Unix(key, 0).UTC()))
	}
	if len(m.labels) > 0 {
		w.missing = append(w.missing, m)
	}
}

// fires lists the instants in [from, to] at which the pattern must fire.
func (w *walk) fires(p pattern) []int64 {
	var out []int64
	for _, l := range w.labels {
		if !p.matches(l) {
			continue
		}
		shown := w.shown[l.key]
		fold := p.Fold
		if p.Line && (len(p.Hour) == 0 || len(p.Hour) == 24) {
			fold = "both"
		}
		switch fold {
		case "repeat_use_only_early", "first":
			shown = shown[:1]
		case "repeat_use_only_late", "last":
			shown = shown[len(shown)-1:]
		}
		out = append(out, shown...)
	}
	for _, m := range w.missing {
		if p.Gap == "unskip" && slices.ContainsFunc(m.labels, p.matches) {
			out = append(out, m.border-1)
		}
		if p.Gap == "run" && slices.ContainsFunc(m.labels, p.matches) {
			out = append(out, m.border)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return slices.DeleteFunc(out, func(t int64) bool { return t < w.from || t > w.to })
}

// check compares everything that can be asked of an item in the window.
func (w *walk) check(p pattern, loc *time.Location) error {
	it, err := p.item(loc)
	if errors.Is(err, cron.ErrImpossible) || errors.Is(err, cron.ErrNeverMatches) {
		return nil // the oracle has only windows; other tests cover these
	}
	if err != nil {
		return err
	}
	want := w.fires(p)
	var got []int64
	for t := time.Unix(w.from-1, 0); ; {
		t, err = it.Next(t, loc)
		if errors.Is(err, cron.ErrNoMoreMatches) || errors.Is(err, cron.ErrNeverMatches) || err == nil && t.Unix() > w.to {
			break
		}
		if err != nil {
			return err
		}
		got = append(got, t.Unix())
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("%v in %v fires at %v, want %v", p, loc, clip(got, want), clip(want, got))
	}
	if n := it.Count(time.Unix(w.from-1, 0), time.Unix(w.to, 0), loc); n != int64(len(want)) {
		return fmt.Errorf("%v in %v: Count = %d of %d", p, loc, n, len(want))
	}
	last, ok := it.Last(time.Unix(w.from-1, 0), time.Unix(w.to, 0), loc)
	if ok != (len(want) > 0) || ok && last.Unix() != want[len(want)-1] {
		return fmt.Errorf("%v in %v: Last = %v, %v of %v", p, loc, last, ok, clip(want, nil))
	}
	return nil
}

// clip shows the part of a that is not in b.
func clip(a, b []int64) []string {
	var out []string
	for _, t := range a {
		if !slices.Contains(b, t) && len(out) < 8 {
			out = append(out, time.Unix(t, 0).UTC().Format(time.RFC3339))
		}
	}
	return out
}

func fixedPatterns() []pattern {
	base := []pattern{
		{Minute: []int{0}, Hour: []int{2}},
		{Minute: []int{30}, Hour: []int{2}},
		{Minute: []int{30}, Hour: []int{1}},
		{Minute: []int{0}, Hour: []int{0}},
		{Minute: []int{59}, Hour: []int{23}},
		{Minute: []int{3, 7}},
		{Minute: []int{0, 15, 30, 45}, Hour: []int{0, 1, 2, 3}},
		{},
		{Minute: []int{0}, Hour: []int{2}, DOW: []int{0}},
		{Minute: []int{5}, Hour: []int{1, 2}, DOM: []int{1, 8, 15, 31}},
	}
	gaps := []string{"skip", "unskip"}
	folds := []string{"repeat_use_both", "repeat_use_only_early", "repeat_use_only_late"}
	var out []pattern
	for i, p := range base {
		p.Gap, p.Fold = gaps[i%2], folds[i%3]
		q := p
		q.Line, q.Gap, q.Fold = true, []string{"run", "skip"}[i%2], []string{"both", "first", "last"}[(i+1)%3]
		if i == 9 {
			q.DOW = []int{0}
		}
		out = append(out, p, q)
	}
	return out
}

// transitions lists the instants at which the offset of a zone changes.
func transitions(loc *time.Location, from, to time.Time) []int64 {
	var out []int64
	for t := from; ; {
		_, end := t.In(loc).ZoneBounds()
		if end.IsZero() || end.After(to) {
			return out
		}
		if !end.After(t) { // package time ends some leap years a day early
			t = t.AddDate(0, 0, 1)
			continue
		}
		_, a := t.In(loc).Zone()
		if _, b := end.Zone(); a != b {
			out = append(out, end.Unix())
		}
		t = end
	}
}

func soak() bool { return os.Getenv("CANTINA_SOAK") == "1" }

// TestEveryTransition compares twenty fixed items with the observer in a window
// of two days around each transition from 1970 to 2037. The usual form takes
// one transition in forty, -short one in two hundred.
func TestEveryTransition(t *testing.T) {
	zones := loader(t)
	patterns := fixedPatterns()
	from, to := time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2038, 1, 1, 0, 0, 0, 0, time.UTC)
	step := 40
	if soak() {
		step = 1
	} else if testing.Short() {
		step = 200
	}
	n, seen := 0, map[string]bool{}
	for _, name := range zones.Names() {
		loc := load(t, zones, name)
		borders := transitions(loc, from, to)
		if key := fmt.Sprint(borders); seen[key] {
			continue // a link to a zone that was looked at
		} else {
			seen[key] = true
		}
		for _, b := range borders {
			if n++; n%step != 0 {
				continue
			}
			w := observe(loc, b-2*86400, b+2*86400)
			for _, p := range patterns {
				if err := w.check(p, loc); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if n < 10000 {
		t.Errorf("only %d transitions", n)
	}
	t.Logf("%d transitions in %d different zones, every %dth checked", n, len(seen), step)
}

func drawPattern(t *rapid.T) pattern {
	list := func(name string, lo, hi int) []int {
		switch rapid.IntRange(0, 2).Draw(t, name+" kind") {
		case 0:
			return nil
		case 1:
			return []int{rapid.IntRange(lo, hi).Draw(t, name)}
		}
		return rapid.SliceOfNDistinct(rapid.IntRange(lo, hi), 1, min(6, hi-lo), rapid.ID[int]).Draw(t, name)
	}
	p := pattern{
		Minute: list("minute", 0, 59),
		Hour:   list("hour", 0, 23),
		Month:  list("month", 1, 12),
		Gap:    rapid.SampledFrom([]string{"skip", "unskip"}).Draw(t, "gap"),
		Fold: rapid.SampledFrom([]string{"repeat_use_both", "repeat_use_only_early", "repeat_use_only_late"}).Draw(t,
			"fold"),
	}
	if rapid.Bool().Draw(t, "line") {
		p.Line, p.DOM, p.DOW = true, list("dom", 1, 31), list("dow", 0, 6)
		p.Gap = rapid.SampledFrom([]string{"skip", "run"}).Draw(t, "gap")
		p.Fold = rapid.SampledFrom([]string{"both", "first", "last"}).Draw(t, "fold")
	} else if rapid.Bool().Draw(t, "by weekday") {
		p.DOW = list("dow", 0, 6)
	} else {
		p.DOM = list("dom", 1, 31)
	}
	return p
}

// setChecks sets the number of rapid runs of this test, in the usual and in the long form. Rapid makes a fifth of
// them with -short; the number makes up for that.
func setChecks(t *testing.T, usual, long int) {
	t.Helper()
	n := usual
	if soak() {
		n = long
	}
	if testing.Short() {
		n *= 5
	}
	was := flag.Lookup("rapid.checks").Value.String()
	must(t, flag.Set("rapid.checks", strconv.Itoa(n)))
	t.Cleanup(func() { must(t, flag.Set("rapid.checks", was)) })
}

// TestAgainstTheObserver draws items, zones and times up to 2100, half of them
// near a transition: 400 windows with four items each, 20,000 in the long form.
func TestAgainstTheObserver(t *testing.T) {
	setChecks(t, 400, 20000)
	zones := loader(t)
	names := zones.Names()
	var mu sync.Mutex
	cache := map[string][]int64{}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "zone")
		z, err := zones.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		loc := z.Location
		at := rapid.Int64Range(0, 4102444800).Draw(t, "time")
		if rapid.Bool().Draw(t, "at a border") {
			mu.Lock()
			borders, ok := cache[name]
			if !ok {
				borders = transitions(loc, time.Unix(0, 0), time.Unix(4102444800, 0))
				cache[name] = borders
			}
			mu.Unlock()
			if len(borders) > 0 {
				at = rapid.SampledFrom(borders).Draw(t, "border")
			}
		}
		w := observe(loc, at-86400, at+86400)
		for range 4 {
			if err := w.check(drawPattern(t), loc); err != nil {
				t.Fatal(err)
			}
		}
	})
}
