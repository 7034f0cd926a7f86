package schedule

import (
	"fmt"
	"slices"
	"time"
)

// rewind sets the cursor back to the clock: a clock that was ahead had moved it. Times after now
// that were not started are due again; started ones never are. A schedule that counts elapsed time
// starts counting from now.
func (m *machine) rewind() {
	m.s.Skew = 0
	m.now = m.env.Now.Add(-Offset(m.env.Key, m.env.Definition.Jitter)).Truncate(time.Second)
	if !m.s.Cursor.After(m.now) {
		if m.env.Definition.Elapsed() {
			m.pass(WhyBefore)
		}
		return
	}
	m.note(Entry{Decision: Reset, By: ByHand, At: m.now, Until: m.now, Count: 1, Text: "the decisions up to " +
		stamp(m.s.Cursor) + " and was not started comes again"})
	back := m.reopen()
	was := m.s.Done
	if m.s.Done = nil; !m.env.Definition.Elapsed() { // its logical times are others from now on
		m.s.Done = m.decidedSpans(was, back)
	}
	m.cutOpen()
	m.s.Cursor, m.s.Backlog = m.now, 0
	m.s.Live = slices.Clone(m.s.Live)
	for i, r := range m.s.Live {
		m.s.Live[i].At = earlier(r.At, m.now) // it must not count as newer than later ones
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// decidedSpans are the spans from now to the cursor in which all is decided and nothing is
// open, and those that were known after the cursor. back are times that are given back.
func (m *machine) decidedSpans(known []Span, back []time.Time) []Span {
	free := make([]Span, 0, len(m.s.Open)+len(back))
	for _, x := range m.s.Open {
		free = append(free, Span{After: x.After, Until: x.Until})
	}
	for i, t := range back {
		if i > 0 && m.env.next(back[i-1]).Equal(t) { // nothing was decided between them
			free[len(free)-1].Until = t
			continue
		}
		free = append(free, Span{After: t.Add(-time.Second), Until: t})
	}
	slices.SortFunc(free, func(a, b Span) int { return a.After.Compare(b.After) })
	var out []Span
	after := m.now
	for _, x := range free {
		if until := earlier(x.After, m.s.Cursor); until.After(after) {
			out = append(out, Span{After: after, Until: until})
		}
		after = later(after, x.Until)
	}
	if m.s.Cursor.After(after) {
		out = append(out, Span{After: after, Until: m.s.Cursor})
	}
	for _, c := range known {
		if c.After = later(c.After, m.s.Cursor); c.After.Before(c.Until) {
			out = append(out, c)
		}
	}
	for len(out) > MaxSpans { // the first two become one: too much is left out rather than done twice
		out = slices.Insert(out[2:], 0, Span{After: out[0].After, Until: out[1].Until})
	}
	return out
}

// cutOpen keeps the part of the open spans that is not after now: the rest is due again.
func (m *machine) cutOpen() {
	var open []Span
	for _, x := range m.s.Open {
		if !x.Until.After(m.now) {
			open = append(open, x)
			continue
		}
		was := x.Count
		if x.Until = m.now; x.After.Before(x.Until) {
			if x.Count > 0 {
				x.Count = m.env.count(x)
			}
			if x.After.IsZero() || m.env.has(x) {
				open = append(open, x)
			}
			was -= x.Count
		}
		m.s.Skipped -= min(was, m.s.Skipped)
	}
	m.s.Open = open
}

// reopen returns pending firings after now to the calendar; requests by a person stay, as times
// that were claimed before they were due. It returns the times.
func (m *machine) reopen() (back []time.Time) {
	var kept []Firing
	for _, f := range m.s.Pending {
		comes := f.At.After(m.now) && f.At.Nanosecond() == 0
		if comes {
			back = append(back, f.At)
		}
		if comes && f.By == ByHand && !slices.ContainsFunc(m.s.Ahead, f.At.Equal) {
			m.s.Ahead = append(slices.Clip(m.s.Ahead), f.At)
		}
		if !comes || f.By == ByHand {
			kept = append(kept, f)
		}
	}
	slices.SortFunc(back, time.Time.Compare)
	slices.SortFunc(m.s.Ahead, time.Time.Compare)
	m.s.Pending = kept
	return back
}

// forgetDone drops spans that the cursor has passed.
func (s *State) forgetDone() {
	if len(s.Done) > 0 && !s.Done[0].Until.After(s.Cursor) {
		s.Done = slices.DeleteFunc(slices.Clone(s.Done), func(c Span) bool { return !c.Until.After(s.Cursor) })
	}
}

// done returns the span of times decided before the cursor went back that contains a time.
func (s *State) done(at time.Time) *Span {
	for i := range s.Done {
		if c := &s.Done[i]; c.After.Before(at) && !at.After(c.Until) {
			return c
		}
	}
	return nil
}

// Comes reports whether a logical time after the cursor is to fire by time.
func (s *State) Comes(at time.Time) bool {
	return s.done(at) == nil && !slices.ContainsFunc(s.Ahead, at.Equal)
}

// claims are the spans within x whose logical times were decided before their time, in order.
func (s *State) claims(x Span) []Span {
	var out []Span
	for _, t := range s.Ahead {
		if t.After(x.After) && !t.After(x.Until) && s.done(t) == nil {
			out = append(out, Span{After: t.Add(-time.Second), Until: t})
		}
	}
	for _, c := range s.Done {
		c.After, c.Until = later(c.After, x.After), earlier(c.Until, x.Until)
		if c.After.Before(c.Until) {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b Span) int { return a.After.Compare(b.After) })
	return out
}

// Lead is how far the decided times are ahead of the wall clock: for so long no schedule fires by
// time. 0 for less than the difference between the clocks of two machines.
func (s *State) Lead(now time.Time) time.Duration {
	const tolerance = 2 * time.Second
	if d := s.Cursor.Sub(now) - s.Skew; d > tolerance {
		return d.Truncate(time.Second)
	}
	return 0
}

// SetBy prints by how much a clock was set: "back by 1h0m0s".
func SetBy(step time.Duration) string {
	if step < 0 {
		return fmt.Sprintf("back by %v", -step)
	}
	return fmt.Sprintf("ahead by %v", step)
}
