package cron

import "time"

// farPast and farFuture are the borders of spans without one on that side.
const (
	farPast   = -1 << 60
	farFuture = 1 << 60
)

// near is how far from a border of spans labels can be doubled or missing:
// offsets lie within ±16 hours, so two days are more than enough.
const near = 2 * daySecs

// span is a stretch [start, end) of instants, in Unix seconds, during which a
// zone has one offset east of UTC. Neighbours may have the same offset.
type span struct{ start, end, off int64 }

// spanAt queries the zone; it is the only place that does.
func spanAt(loc *time.Location, t int64) span {
	tt := time.Unix(t, 0).In(loc)
	_, off := tt.Zone()
	from, to := tt.ZoneBounds()
	s := span{start: farPast, end: farFuture, off: int64(off)}
	if !from.IsZero() {
		s.start = from.Unix()
	}
	if !to.IsZero() {
		s.end = to.Unix()
	}
	if s.end <= t {
		// Package time lets the last span of a leap year end a day early if a rule, not a table,
		// describes the zone. The next day begins a year, and with it a span whose start is right.
		s.end = t + daySecs
		if next, _ := time.Unix(s.end, 0).In(loc).ZoneBounds(); !next.IsZero() && next.Unix() > t {
			s.end = next.Unix()
		}
	}
	return s
}

// after gives the span that follows s.
func (s span) after(loc *time.Location) span {
	next := spanAt(loc, s.end)
	next.start = s.end
	return next
}

// labels is the half-open interval of local labels that the span shows. A label
// is local time written as if it were UTC, in seconds since 1970. One that never
// comes, farFuture, is in none.
func (s span) labels() interval { return interval{s.start + s.off, min(s.end+s.off, farFuture)} }

type interval struct{ lo, hi int64 }

func (i interval) has(v int64) bool { return i.lo <= v && v < i.hi }

// shownBefore reports whether a span before s also shows label, and returns the labels of that
// span. It checks borders within two days of the instant.
func shownBefore(loc *time.Location, s span, label int64) (by interval, yes bool) {
	x := label - s.off
	for e := s.start; x-e < near; {
		p := spanAt(loc, e-1)
		if l := p.labels(); l.has(label) {
			return l, true
		}
		e = p.start
	}
	return interval{}, false
}

// shownAfter is shownBefore for later spans.
func shownAfter(loc *time.Location, s span, label int64) (by interval, yes bool) {
	x := label - s.off
	for n := s; n.end-x < near; {
		n = n.after(loc)
		if l := n.labels(); l.has(label) {
			return l, true
		}
	}
	return interval{}, false
}

// gap is the interval of labels that no clock shows at the border between two
// neighbouring spans; empty when the clock does not go forward there.
func gap(before, after span) interval {
	return interval{before.end + before.off, max(before.end+before.off, before.end+after.off)}
}

// fillsGap reports whether a span near the border shows a label of its gap after all, or whether
// it was already missing at an earlier border near it (so that it belongs to that one), and up to
// which label that is so.
func fillsGap(loc *time.Location, before, after span, label int64) (until int64, yes bool) {
	border := before.end
	for n := after; n.end-border < near; {
		n = n.after(loc)
		if l := n.labels(); l.has(label) {
			return l.hi, true
		}
	}
	for p := before; border-p.start < near; {
		q := spanAt(loc, p.start-1)
		if g := gap(q, p); g.has(label) {
			return g.hi, true
		}
		p = q
		if l := p.labels(); l.has(label) {
			return l.hi, true
		}
	}
	return 0, false
}

// Instants gives the instants at which clocks in loc show the local time that
// wall shows (its zone is not looked at): none in a gap, two in a fold, else
// one, the earliest first.
func Instants(wall time.Time, loc *time.Location) []time.Time {
	_, off := wall.Zone()
	label := wall.Unix() + int64(off)
	var out []time.Time
	for s := spanAt(loc, label-near); ; s = s.after(loc) {
		if s.labels().has(label) {
			out = append(out, time.Unix(label-s.off, 0).In(loc))
		}
		if s.end > label+near {
			return out
		}
	}
}
