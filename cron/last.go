package cron

import (
	"cmp"
	"slices"
	"time"
)

// Last gives the last matching instant at or before t that is later than
// after; ok is false when there is none between. It costs a few searches, not
// one for each match that lies between.
func (it *Item) Last(after, t time.Time, loc *time.Location) (last time.Time, ok bool) {
	x, ok := it.last(after.Unix(), t.Unix(), loc)
	if !ok {
		return time.Time{}, false
	}
	if it.epoch != nil {
		loc = time.UTC
	}
	return time.Unix(x, 0).In(loc), true
}

// last looks back from t in growing steps until a match lies between, then
// halves the distance to it.
func (it *Item) last(after, t int64, loc *time.Location) (int64, bool) {
	if it.epoch != nil {
		return it.epoch.last(after, t)
	}
	lo, hi := int64(0), t+1 // a match; no match in [hi, t]
	for step := it.grain; ; step *= 2 {
		from := max(after+1, t-step+1)
		x, err := it.first(from, loc)
		if err == nil && x <= t {
			lo = x
			break
		}
		hi = from
		if from == after+1 {
			return 0, false
		}
	}
	for {
		x, err := it.first(lo+1, loc)
		if err != nil || x >= hi {
			return lo, true
		}
		lo = x
		mid := lo + (hi-lo)/2
		if x, err = it.first(mid, loc); err == nil && x < hi {
			lo = x
		} else {
			hi = mid
		}
	}
}

// last is the largest chosen number in (after, t].
func (s Selector) last(after, t int64) (int64, bool) {
	if t < s.First() {
		return 0, false
	}
	x := min(t, s.Last())
	if s.values != nil {
		i, exact := slices.BinarySearch(s.values, x)
		if !exact {
			i--
		}
		x = s.values[i]
	} else {
		x -= (x - s.start) % s.period
	}
	return x, x > after
}

// Count is the number of matching instants in (after, to]. It counts by
// arithmetic, so a minute item over years costs microseconds. Without a zone a
// zone-dependent item counts as 0.
func (it *Item) Count(after, to time.Time, loc *time.Location) int64 {
	return it.count(after.Unix()+1, to.Unix()+1, loc)
}

// count is Count over [from, to) in Unix seconds.
func (it *Item) count(from, to int64, loc *time.Location) int64 {
	if from >= to {
		return 0
	}
	if it.epoch != nil {
		return it.epoch.below(to) - it.epoch.below(from)
	}
	if loc == nil {
		return 0
	}
	var n int64
	from = max(from, firstDay*daySecs-near)
	to = min(to, (lastDay+1)*daySecs+near)
	for s := spanAt(loc, from); ; {
		lo, hi := max(from, s.start), min(to, s.end)
		n += it.countSpan(loc, s, lo, hi)
		if s.start >= from && it.gap == GapRun && it.inGap(loc, spanAt(loc, s.start-1), s) && !it.matches(loc, s, s.start) {
			n++
		}
		if s.end > to {
			return n
		}
		next := s.after(loc)
		if it.gap == GapUnskip && it.inGap(loc, s, next) && !it.matches(loc, s, s.end-1) {
			n++
		}
		if s.end == to {
			return n
		}
		s = next
	}
}

// matches reports whether the instant x of span s matches without a gap policy.
func (it *Item) matches(loc *time.Location, s span, x int64) bool {
	label := x + s.off
	if it.firstLabel(label) != label {
		return false
	}
	_, rejected := it.rejected(loc, s, label)
	return !rejected
}

// countSpan counts the matches in [lo, hi) of span s: all labels but those that
// the fold policy leaves to other spans.
func (it *Item) countSpan(loc *time.Location, s span, lo, hi int64) int64 {
	here := interval{lo + s.off, hi + s.off}
	n := it.countLabels(here)
	for _, c := range it.covers(loc, s) {
		c.lo, c.hi = max(c.lo, here.lo), min(c.hi, here.hi)
		if c.lo < c.hi {
			n -= it.countLabels(c)
		}
	}
	return n
}

// covers gives the labels of s that the fold policy leaves to its neighbours,
// as intervals that do not overlap.
func (it *Item) covers(loc *time.Location, s span) []interval {
	var out []interval
	switch it.fold {
	case FoldFirst:
		for e := s.start; e > farPast && s.start-e < near; {
			p := spanAt(loc, e-1)
			out = appendOverlap(out, p.labels(), s.labels())
			e = p.start
		}
	case FoldLast:
		for n := s; n.end < farFuture && n.end-s.end < near; {
			n = n.after(loc)
			out = appendOverlap(out, n.labels(), s.labels())
		}
	}
	if len(out) < 2 {
		return out
	}
	slices.SortFunc(out, func(a, b interval) int { return cmp.Compare(a.lo, b.lo) })
	merged := out[:1]
	for _, c := range out[1:] {
		if l := &merged[len(merged)-1]; c.lo <= l.hi {
			l.hi = max(l.hi, c.hi)
		} else {
			merged = append(merged, c)
		}
	}
	return merged
}

func appendOverlap(out []interval, a, b interval) []interval {
	a.lo, a.hi = max(a.lo, b.lo), min(a.hi, b.hi)
	if a.lo < a.hi {
		out = append(out, a)
	}
	return out
}

// countLabels is the number of matching labels in the interval.
func (it *Item) countLabels(i interval) int64 {
	d1, d2 := floorDiv(i.lo, daySecs), floorDiv(i.hi, daySecs)
	n := it.countDays(d1, d2) * it.clock.perDay
	if it.dayMatches(d1) {
		n -= it.clock.countBelow(i.lo - d1*daySecs)
	}
	if it.dayMatches(d2) {
		n += it.clock.countBelow(i.hi - d2*daySecs)
	}
	return n
}

func (it *Item) dayMatches(day int64) bool {
	got, ok := it.nextDay(day)
	return ok && got == day
}

func (it *Item) countDays(from, to int64) int64 {
	if it.greg != nil {
		return it.greg.countDays(from, to)
	}
	var n int64
	for d, ok := it.nextDay(from); ok && d < to; d, ok = it.nextDay(d + 1) {
		n++
	}
	return n
}

// below is the number of chosen numbers smaller than v.
func (s Selector) below(v int64) int64 {
	if s.values != nil {
		i, _ := slices.BinarySearch(s.values, v)
		return int64(i)
	}
	if v <= s.start {
		return 0
	}
	return (min(v-1, s.end)-s.start)/s.period + 1
}
