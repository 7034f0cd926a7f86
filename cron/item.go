package cron

import (
	"fmt"
	"time"
)

// maxGapMisses is how many matches in a row may be swallowed by gaps before a
// search gives up: the bound of Bistro's search. As a zone skips a label at most
// a few times a year, it is reached only by items that never fire there.
const maxGapMisses = 50

// maxSpans is a second, never reached bound on the spans of one search.
const maxSpans = 2000

// Item is a pattern of instants, at most one per second. It never changes and
// may be used by any number of goroutines.
type Item struct {
	epoch *Selector // set: the item counts seconds and has nothing of the rest
	days  DaySet
	greg  *gregorian // days, when Gregorian: spares the dynamic call
	clock clock
	gap   Gap
	fold  Fold

	maxShift    int64 // seconds
	hasMaxShift bool
	grain       int64  // typical distance of two matches, seconds; none of an epoch item
	fields      []part // for printing
}

// part is one selector of an item, kept for printing.
type part struct {
	key  string
	text string
	sel  Selector
}

// TimezoneDependent is false for epoch items: they never look at a zone.
func (it *Item) TimezoneDependent() bool { return it.epoch == nil }

// Gap and Fold give the policies of the item; unset for an epoch item.
func (it *Item) Gap() Gap { return it.gap }

// Fold gives the policy for repeated labels; unset for an epoch item.
func (it *Item) Fold() Fold { return it.fold }

// MaxShift gives the setting max_shift_seconds_for_unskip_and_do_not_repeat;
// ok is false when the item has none.
func (it *Item) MaxShift() (d time.Duration, ok bool) {
	return time.Duration(it.maxShift) * time.Second, it.hasMaxShift
}

// FirstMatch gives the first matching instant at or after t, rounded up to a
// full second, in the zone. Errors: ErrNoMoreMatches, ErrNeverMatches, and
// ErrNoZone when the item depends on a zone and loc is nil. The result is in
// loc (UTC for an epoch item).
func (it *Item) FirstMatch(t time.Time, loc *time.Location) (time.Time, error) {
	from := t.Unix()
	if t.Nanosecond() > 0 {
		from++
	}
	return it.at(from, loc)
}

// Next gives the first matching instant strictly after t; otherwise as
// FirstMatch. Iterating with it never returns an instant twice.
func (it *Item) Next(t time.Time, loc *time.Location) (time.Time, error) {
	return it.at(t.Unix()+1, loc)
}

func (it *Item) at(from int64, loc *time.Location) (time.Time, error) {
	x, err := it.first(from, loc)
	if err != nil {
		return time.Time{}, err
	}
	if it.epoch != nil {
		loc = time.UTC
	}
	return time.Unix(x, 0).In(loc), nil
}

// first is FirstMatch in Unix seconds.
func (it *Item) first(t int64, loc *time.Location) (int64, error) {
	if it.epoch != nil {
		x, carry := it.epoch.Match(max(t, 0))
		if carry {
			return 0, ErrNoMoreMatches
		}
		return x, nil
	}
	if loc == nil {
		return 0, ErrNoZone
	}
	t = min(t, farFuture-near) // behind all calendars
	s := spanAt(loc, t)
	if it.gap == GapRun && t == s.start && it.inGap(loc, spanAt(loc, t-1), s) {
		return t, nil
	}
	misses := 0
	for range maxSpans {
		x, label, ok := it.inSpan(loc, s, t)
		if ok {
			return x, nil
		}
		if label == farFuture && s.end-t >= near {
			return 0, ErrNoMoreMatches
		}
		if jump := label - s.off - near; s.end-t >= near && jump > s.end {
			t = jump
			s = spanAt(loc, t)
			continue
		}
		next := s.after(loc)
		if it.inGap(loc, s, next) {
			switch it.gap {
			case GapRun:
				return s.end, nil
			case GapUnskip:
				return s.end - 1, nil
			}
			if misses++; misses == maxGapMisses {
				return 0, fmt.Errorf("%w: the last of %d is %s", ErrNeverMatches, misses, date(s.end+s.off))
			}
		}
		t, s = next.start, next
	}
	return 0, ErrNeverMatches
}

// inSpan searches from the instant t to the end of its span s. When nothing
// matches there it gives the first label that is still to come instead.
func (it *Item) inSpan(loc *time.Location, s span, t int64) (x, label int64, ok bool) {
	pending, end := int64(farFuture), s.labels().hi
	for label = it.firstLabel(t + s.off); label < end; label = it.firstLabel(label) {
		by, rejected := it.rejected(loc, s, label)
		if !rejected {
			return label - s.off, label, true
		}
		if it.fold == FoldLast {
			pending = min(pending, label) // a later span fires it
		}
		label = by.hi
	}
	return 0, min(label, pending), false
}

// rejected reports whether the fold policy assigns this occurrence of the label to another span,
// and returns the labels of that one.
func (it *Item) rejected(loc *time.Location, s span, label int64) (by interval, yes bool) {
	switch it.fold {
	case FoldFirst:
		return shownBefore(loc, s, label)
	case FoldLast:
		return shownAfter(loc, s, label)
	}
	return interval{}, false
}

// decided gives the last label that has had its chance to fire when the clock
// reaches the instant t: in a fold, that depends on which pass counts.
func (it *Item) decided(loc *time.Location, t int64) int64 {
	s := spanAt(loc, t)
	label := t + s.off
	by, yes := it.rejected(loc, s, label)
	switch {
	case !yes:
		return label
	case it.fold == FoldFirst:
		return by.hi - 1 // all of the first pass
	}
	return by.lo - 1 // of the fold, whose last pass counts, nothing yet
}

// inGap reports whether a matching label is missing at the border of two spans.
func (it *Item) inGap(loc *time.Location, before, after span) bool {
	_, ok := it.gapLabel(loc, before, after)
	return ok
}

// gapLabel gives the first matching label that is missing at the border.
func (it *Item) gapLabel(loc *time.Location, before, after span) (int64, bool) {
	g := gap(before, after)
	if g.lo == g.hi {
		return 0, false
	}
	for label := it.firstLabel(g.lo); label < g.hi; label = it.firstLabel(label) {
		until, filled := fillsGap(loc, before, after, label)
		if !filled {
			return label, true
		}
		label = until
	}
	return 0, false
}

// firstLabel gives the first matching label at or after one, farFuture when the
// calendar has no more.
func (it *Item) firstLabel(label int64) int64 {
	day := floorDiv(label, daySecs)
	got, ok := it.nextDay(day)
	if ok && got == day {
		if tod := it.clock.next(label - day*daySecs); tod >= 0 {
			return day*daySecs + tod
		}
		got, ok = it.nextDay(day + 1)
	}
	if !ok {
		return farFuture
	}
	return got*daySecs + it.clock.first
}

func (it *Item) nextDay(day int64) (int64, bool) {
	if it.greg != nil {
		return it.greg.NextDay(day)
	}
	next, ok := it.days.NextDay(max(day, firstDay))
	return next, ok && next <= lastDay
}

// date prints a label's date.
func date(label int64) string {
	y, m, d := dateOf(floorDiv(label, daySecs))
	return fmt.Sprintf("%04d-%02d-%02d", y, m, d)
}

// stamp prints a label as date and time of day.
func stamp(label int64) string {
	tod := label - floorDiv(label, daySecs)*daySecs
	out := fmt.Sprintf("%s %02d:%02d", date(label), tod/3600, tod/60%60)
	if tod%60 != 0 {
		out += fmt.Sprintf(":%02d", tod%60)
	}
	return out
}
