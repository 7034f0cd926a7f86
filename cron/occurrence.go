package cron

import (
	"errors"
	"fmt"
	"iter"
	"time"
)

// Mark is a special property of a firing.
type Mark uint8

// The marks of firings near a border of spans.
const (
	MarkNone      Mark = iota // the label exists once
	MarkFoldFirst             // the label occurs twice, this is the first time
	MarkFoldLast              // the label occurs twice, this is the last time
	MarkGapUnskip             // fires in the last second before the clock goes forward
	MarkGapRun                // fires at the first instant after the clock went forward
)

// String describes it, "" for none.
func (m Mark) String() string {
	return [...]string{"", "repeated hour, first pass", "repeated hour, second pass", "before the gap", "after the gap"}[m]
}

// Skip is why a match does not fire.
type Skip uint8

// The reasons for which the policies of an item leave a match out.
const (
	SkipNone     Skip = iota // it fires
	SkipRepeated             // the other pass of the repeated hour is the one that fires
	SkipGap                  // its local time does not exist
)

// String gives the reason as the history shows it, "" for none.
func (s Skip) String() string {
	return [...]string{"", "skipped: repeated hour", "skipped: the clock jumps over it"}[s]
}

// Occurrence is one firing of an item, or one match that its policies leave out.
type Occurrence struct {
	// At is the logical time: the instant of the firing, unique per item. Of a
	// match in a gap it is the instant at which the clock goes forward.
	At time.Time
	// Label is local time as text, "2025-03-09 02:00": as the author wrote it, also if no clock shows
	// it. Empty for epoch items.
	Label string
	Mark  Mark
	Skip  Skip
}

// String gives one line for people: time with offset, label where it differs,
// mark or reason.
func (o Occurrence) String() string {
	out := o.At.Format("2006-01-02 15:04:05 -07:00 Mon")
	switch {
	case o.Skip == SkipGap:
		out += fmt.Sprintf("  (%s %s)", o.Skip, o.Label)
	case o.Skip != SkipNone:
		out += fmt.Sprintf("  (%s)", o.Skip)
	case o.Mark == MarkGapRun || o.Mark == MarkGapUnskip:
		out += fmt.Sprintf("  (for %s, %s)", o.Label, o.Mark)
	case o.Mark != MarkNone:
		out += fmt.Sprintf("  (%s)", o.Mark)
	}
	return out
}

// Describe gives the occurrence of a firing instant, as FirstMatch and Next
// return it.
func (it *Item) Describe(at time.Time, loc *time.Location) Occurrence {
	if it.epoch != nil || loc == nil {
		return Occurrence{At: at.UTC()}
	}
	x := at.Unix()
	s := spanAt(loc, x)
	o := Occurrence{At: at.In(loc), Label: stamp(x + s.off)}
	if it.gap == GapRun && x == s.start {
		if label, ok := it.gapLabel(loc, spanAt(loc, x-1), s); ok {
			o.Mark, o.Label = MarkGapRun, stamp(label)
			return o
		}
	}
	if it.gap == GapUnskip && x == s.end-1 {
		if label, ok := it.gapLabel(loc, s, s.after(loc)); ok {
			o.Mark, o.Label = MarkGapUnskip, stamp(label)
			return o
		}
	}
	if _, again := shownAfter(loc, s, x+s.off); again {
		o.Mark = MarkFoldFirst
	} else if _, before := shownBefore(loc, s, x+s.off); before {
		o.Mark = MarkFoldLast
	}
	return o
}

// Occurrences yields, in order of time, the firings at or after from together with the matches
// that the policies leave out. Each match in a fold that does not fire is yielded separately, the
// matches of one gap as one. It ends where FirstMatch would return an error, which is yielded as
// the last pair. Matches of the next 400 days that are left out come before it.
func (it *Item) Occurrences(from time.Time, loc *time.Location) iter.Seq2[Occurrence, error] {
	return func(yield func(Occurrence, error) bool) {
		t := from.Unix()
		if from.Nanosecond() > 0 {
			t++
		}
		skipFrom := t
		for {
			x, err := it.first(t, loc)
			limit := x
			if err != nil { // policies may leave out matches after the last firing
				limit = t + 400*daySecs
			}
			for skip, at := it.firstSkip(skipFrom, limit, loc); skip != nil; skip, at = it.firstSkip(skipFrom, limit, loc) {
				if !yield(*skip, nil) {
					return
				}
				skipFrom = at + 1
			}
			if err != nil {
				yield(Occurrence{}, err)
				return
			}
			if !yield(it.Describe(time.Unix(x, 0), loc), nil) {
				return
			}
			skipFrom, t = max(skipFrom, limit+1), x+1
		}
	}
}

// firstSkip gives the first match in [t, limit] that the policies leave out,
// and its instant; nil without one. It looks only at borders of spans.
func (it *Item) firstSkip(t, limit int64, loc *time.Location) (*Occurrence, int64) {
	if it.epoch != nil || loc == nil || t > limit {
		return nil, 0
	}
	s := spanAt(loc, t)
	for {
		if t == s.start && it.gap == GapSkip && s.start > farPast {
			if label, ok := it.gapLabel(loc, spanAt(loc, t-1), s); ok {
				return it.skipped(t, label, SkipGap, loc), t
			}
		}
		if x, label, ok := it.skipInSpan(s, max(t, s.start), loc); ok && x <= limit {
			return it.skipped(x, label, SkipRepeated, loc), x
		}
		if s.end > limit || s.end == farFuture {
			return nil, 0
		}
		s = s.after(loc)
		t = s.start
	}
}

func (it *Item) skipped(x, label int64, why Skip, loc *time.Location) *Occurrence {
	return &Occurrence{At: time.Unix(x, 0).In(loc), Label: stamp(label), Skip: why}
}

// skipInSpan gives the first matching label of s, from the instant t on, that
// the fold policy leaves to another span.
func (it *Item) skipInSpan(s span, t int64, loc *time.Location) (x, label int64, ok bool) {
	for _, c := range it.covers(loc, s) {
		if label = it.firstLabel(max(c.lo, t+s.off)); label < c.hi {
			return label - s.off, label, true
		}
	}
	return 0, 0, false
}

// Preview lists the next n firings at or after from, with the matches left out
// between them; those do not count towards n. An item that ends earlier gives a
// shorter list and no error; ErrNeverMatches and ErrNoZone are errors.
func Preview(it *Item, loc *time.Location, from time.Time, n int) ([]Occurrence, error) {
	var out []Occurrence
	if n <= 0 {
		return nil, nil
	}
	for o, err := range it.Occurrences(from, loc) {
		if errors.Is(err, ErrNoMoreMatches) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, o)
		if o.Skip == SkipNone {
			if n--; n == 0 {
				break
			}
		}
	}
	return out, nil
}
