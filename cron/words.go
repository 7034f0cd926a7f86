package cron

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"

	"cantina/internal/text"
)

// String gives the selectors of the item, separated by spaces, in the order
// seconds (if given) minute hour day_of_month month day_of_week year and the
// rest; an epoch item is its one selector.
func (it *Item) String() string {
	parts := make([]string, len(it.fields))
	for i, f := range it.fields {
		parts[i] = f.text
	}
	return strings.Join(parts, " ")
}

// Words describes the item in English, with its policies.
func (it *Item) Words() string {
	if it.epoch != nil {
		return it.epoch.epochWords()
	}
	return it.timeWords() + "; " + it.policyWords()
}

// WordsIn is Words for a zone, from a given time on: if clocks never change any more, as in UTC,
// the policies have no effect and are left out.
func (it *Item) WordsIn(zone *time.Location, from time.Time) string {
	if it.epoch != nil {
		return it.epoch.epochWords()
	}
	if _, end := from.In(zone).ZoneBounds(); end.IsZero() {
		return it.timeWords()
	}
	return it.Words()
}

// timeWords describes when the item fires, without its policies.
func (it *Item) timeWords() string {
	out := it.clock.words()
	switch d := it.days.(type) {
	case *gregorian:
		out += d.words()
		for _, f := range it.fields {
			if f.key == keyYear && !f.sel.Everything() {
				out += " in " + selWords(f.sel, "year", func(v int64) string { return fmt.Sprint(v) })
			}
		}
	case interface{ Words() string }:
		out += " " + d.Words()
	}
	return out
}

func (it *Item) policyWords() string {
	gap := map[Gap]string{
		GapSkip: "not at all", GapUnskip: "in the last second before the jump", GapRun: "once right after the jump",
	}[it.gap]
	fold := map[Fold]string{FoldBoth: "both times", FoldFirst: "the first time only",
		FoldLast: "the last time only"}[it.fold]
	return fmt.Sprintf("if the clock jumps over it: %s; if the hour is repeated: %s", gap, fold)
}

func (s Selector) epochWords() string {
	at := func(v int64) string { return time.Unix(v, 0).UTC().Format("2006-01-02 15:04:05 UTC") }
	if s.values != nil {
		if len(s.values) == 1 {
			return "once, at " + at(s.values[0])
		}
		return fmt.Sprintf("%d times, first at %s, last at %s", len(s.values), at(s.First()), at(s.Last()))
	}
	out := "every " + periodWords(s.period) + ", counted from " + at(s.start)
	if s.end <= math.MaxInt64-s.period {
		out += ", until " + at(s.end)
	}
	return out
}

// periodWords describes a number of seconds in its largest whole unit.
func periodWords(secs int64) string {
	for _, u := range []struct {
		n    int64
		name string
	}{{7 * daySecs, "week"}, {daySecs, "day"}, {3600, "hour"}, {60, "minute"}, {1, "second"}} {
		if secs == u.n {
			return u.name
		}
		if secs%u.n == 0 {
			return text.Count(secs/u.n, u.name)
		}
	}
	return fmt.Sprintf("%d seconds", secs)
}

// words describes the times of day.
func (c *clock) words() string {
	h, m, s := c.hour, c.min, c.sec
	const allHours, sixty = 1<<24 - 1, 1<<60 - 1
	if n := c.perDay; n <= 6 {
		var at []string
		for tod := c.next(0); tod >= 0; tod = c.next(tod + 1) {
			at = append(at, stamp(tod)[len("1970-01-01 "):])
		}
		return "at " + listWords(at)
	}
	var out string
	switch {
	case s == sixty && m == sixty:
		out = "every second"
	case s == 1 && m == sixty:
		out = "every minute"
	case s == 1:
		out = bitsWords(m, 60, "minute")
	case m == sixty:
		out = bitsWords(s, 60, "second") + " of every minute"
	default:
		out = bitsWords(s, 60, "second") + ", " + bitsWords(m, 60, "minute")
	}
	if h == allHours {
		if strings.HasPrefix(out, "at") {
			out += " of every hour"
		}
		return out
	}
	return out + ", " + strings.Replace(bitsWords(h, 24, "hour"), "at hour", "in hour", 1)
}

// bitsWords describes a set of numbers below n: "every 5 minutes", "at minute 3, 7".
func bitsWords(set uint64, n int, unit string) string {
	if by := stepOf(set, n); by > 1 {
		return fmt.Sprintf("every %d %ss", by, unit)
	}
	return "at " + unit + " " + runsWords(set, func(v int) string { return fmt.Sprint(v) })
}

// stepOf finds the step of a set that is 0, by, 2by, .. up to n evenly.
func stepOf(set uint64, n int) int {
	by := bits.TrailingZeros64(set &^ 1) // 64 without one
	want := uint64(0)
	for v := 0; v < n; v += by {
		want |= 1 << uint(v)
	}
	if want == set && n%by == 0 {
		return by
	}
	return 0
}

// runsWords lists a set, with runs of three and more as "a to b".
func runsWords(set uint64, name func(int) string) string {
	var out []string
	for v := 0; v < 64; v++ {
		if set>>uint(v)&1 == 0 {
			continue
		}
		end := v
		for set>>uint(end+1)&1 == 1 {
			end++
		}
		if end-v >= 2 {
			out = append(out, name(v)+" to "+name(end))
			v = end
			continue
		}
		out = append(out, name(v))
	}
	return listWords(out)
}

func listWords(parts []string) string {
	if n := len(parts); n > 1 {
		return strings.Join(parts[:n-1], ", ") + " and " + parts[n-1]
	}
	return strings.Join(parts, "")
}

func selWords(s Selector, unit string, name func(int64) string) string {
	if s.values == nil {
		out := fmt.Sprintf("%ss %s to %s", unit, name(s.start), name(s.end))
		if s.period > 1 {
			out += fmt.Sprintf(" by %d", s.period)
		}
		return out
	}
	var parts []string
	for _, v := range s.values {
		parts = append(parts, name(v))
	}
	return unit + " " + listWords(parts)
}

// words describes the days of the Gregorian part.
func (g *gregorian) words() string {
	var days []string
	if !g.domAny {
		days = append(days, g.domWords())
	}
	if !g.dowAny {
		days = append(days, g.dowWords())
	}
	joint := " and "
	if g.either {
		joint = " or "
	}
	out := ""
	if len(days) > 0 {
		out = " on " + strings.Join(days, joint+"on ")
	} else if g.months == allMonths && g.iters == nil {
		out = " every day"
	}
	if g.months != allMonths {
		out += " in " + runsWords(g.months, func(m int) string { return time.Month(m).String() })
	}
	for _, it := range g.iters {
		unit := [...]string{"month", "week", "day"}[it.kind]
		out += fmt.Sprintf(", every %s from %s on", periodOf(it.period, unit), date(it.start*daySecs))
		if it.end != math.MaxInt64 {
			out += " until " + date(it.end*daySecs)
		}
	}
	return out
}

func periodOf(n int64, unit string) string {
	if n == 1 {
		return unit
	}
	return text.Count(n, unit)
}

func (g *gregorian) domWords() string {
	var parts []string
	if g.dom != 0 {
		parts = append(parts, "day "+runsWords(g.dom, func(d int) string { return fmt.Sprint(d) })+" of the month")
	}
	for e := g.fromEnd; e != 0; e &= e - 1 {
		switch k := bits.TrailingZeros64(e) - 1; k {
		case 0:
			parts = append(parts, "the last day of the month")
		default:
			parts = append(parts, text.Count(k, "day")+" before the last of the month")
		}
	}
	return listWords(parts)
}

func (g *gregorian) dowWords() string {
	var parts []string
	if g.dow != 0 {
		parts = append(parts, runsWords(g.dow, func(d int) string { return time.Weekday(d).String() }))
	}
	for w, set := range g.nth {
		for ; set != 0; set &= set - 1 {
			parts = append(parts, fmt.Sprintf("the %s %s of the month", placeWords(bits.TrailingZeros32(set)), time.Weekday(w)))
		}
	}
	return listWords(parts)
}

// placeWords names a bit of gregorian.nth.
func placeWords(k int) string {
	places := [...]string{"", "first", "second", "third", "fourth", "fifth"}
	switch {
	case k < 8:
		return places[k]
	case k == 9:
		return "last"
	}
	return places[k-8] + " to last"
}
