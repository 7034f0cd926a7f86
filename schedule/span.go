package schedule

import (
	"fmt"
	"slices"
	"time"
)

// next is the first logical time after t, zero when there is none.
func (e *Env) next(t time.Time) time.Time {
	n, _ := e.Cron.Next(t) // zero beside an error
	return n.UTC()
}

// has reports whether a span has a logical time.
func (e *Env) has(x Span) bool {
	n := e.next(x.After)
	return !n.IsZero() && !n.After(x.Until)
}

// miss records logical times that do not fire and could be backfilled. id is the run that blocked
// them.
func (m *machine) miss(x Span, id string) {
	x.After, x.Until = x.After.UTC(), x.Until.UTC()
	if x.After.Equal(m.s.Cursor) {
		x.Count -= m.open(x)
	} else {
		m.addSpan(x)
	}
	if x.Count == 0 {
		return // a person fired them all
	}
	m.s.Skipped += x.Count
	first, last := x.Until, x.Until
	if x.Until.Sub(x.After) > time.Second {
		first = m.env.next(x.After)
		if l, ok := m.env.Cron.Item.Last(x.After, x.Until, m.env.Cron.Zone); ok {
			last = l.UTC()
		}
	}
	m.note(Entry{Decision: Skipped, Why: x.Why, At: first, Until: last, Count: x.Count, ID: id})
}

// open adds a span of several logical times, except those that were decided before their time, by
// hand or before the clock was set back, which it counts and forgets. Such a time may be one of an
// earlier calendar: then it only stays out of the span.
func (m *machine) open(x Span) (fired int) {
	until, cut := x.Until, false
	for _, c := range m.s.claims(x) {
		cut = true
		if p := (Span{After: x.After, Until: c.After, Why: x.Why}); m.env.has(p) {
			if x.Count > 0 {
				p.Count = m.env.count(p)
			}
			m.addSpan(p)
			x.Count -= p.Count
		}
		n := m.env.count(c)
		fired += n
		x.After, x.Count = c.Until, max(x.Count-n, 0)
	}
	if !cut || m.env.has(x) {
		m.addSpan(x)
	}
	m.s.Ahead = slices.DeleteFunc(slices.Clone(m.s.Ahead), func(t time.Time) bool { return !t.After(until) })
	m.s.Done = slices.DeleteFunc(slices.Clone(m.s.Done), func(c Span) bool { return !c.Until.After(until) })
	return fired
}

// count is how many logical times a span has.
func (e *Env) count(x Span) int {
	return int(e.Cron.Item.Count(x.After, x.Until, e.Cron.Zone))
}

// joins reports whether a span may be merged with the last one: no fired logical time is between
// them. Those of an earlier calendar are no longer known: an edit joins only adjacent spans.
func (m *machine) joins(last, x Span) bool {
	switch {
	case last.Why != x.Why || x.After.Before(last.After):
		return false
	case !last.Until.Before(x.After):
		return true
	}
	between := Span{After: last.Until, Until: x.After}
	return !m.editing && !m.env.has(between) && len(m.s.claims(between)) == 0
}

// addSpan adds a span behind the others, or joins it to the last one when no logical
// time lies between them. A run beside the calendar leaves none: there is nothing to
// fill in.
func (m *machine) addSpan(x Span) {
	if x.Until.Nanosecond() != 0 {
		return
	}
	if n := len(m.s.Open); n > 0 {
		if last := m.s.Open[n-1]; m.joins(last, x) {
			m.s.Open = slices.Clone(m.s.Open)
			m.s.Open[n-1].Until = later(last.Until, x.Until)
			m.s.Open[n-1].Count += x.Count
			return
		}
	}
	open := append(slices.Clip(m.s.Open), x)
	if m.s.Open == nil || !x.Until.After(m.s.Open[max(len(m.s.Open)-1, 0)].After) {
		slices.SortStableFunc(open, func(a, b Span) int { return a.Until.Compare(b.Until) })
	}
	m.s.trim(open)
}

// trim keeps the newest spans; the times of the others count as decided.
func (s *State) trim(open []Span) {
	if len(open) > MaxSpans {
		open = slices.Clone(open[len(open)-MaxSpans:])
	}
	s.Open = open
}

// take removes a logical time from the open spans; false when it is in none.
func (m *machine) take(at time.Time) bool {
	i := slices.IndexFunc(m.s.Open, func(x Span) bool { return x.After.Before(at) && !at.After(x.Until) })
	if i < 0 {
		return false
	}
	x := m.s.Open[i]
	var parts []Span
	for _, p := range []Span{{After: x.After, Until: at.Add(-time.Second), Why: x.Why},
		{After: at, Until: x.Until, Why: x.Why}} {
		if m.env.has(p) {
			if x.Count > 0 {
				p.Count = m.env.count(p)
			}
			parts = append(parts, p)
		}
	}
	m.s.trim(slices.Concat(m.s.Open[:i], parts, m.s.Open[i+1:]))
	return true
}

// pass moves the cursor to now without firing, and leaves an open span.
func (m *machine) pass(why Why) {
	if !m.s.Cursor.Before(m.now) {
		return
	}
	x := Span{After: m.s.Cursor, Until: m.now, Why: why}
	m.s.Cursor = m.now
	if m.env.has(x) {
		m.open(x)
	}
}

// giveBack returns a time after the cursor that a person had claimed to the calendar: it is
// decided when it is due. False if there is none.
func (s *State) giveBack(at time.Time) bool {
	if !at.After(s.Cursor) {
		return false
	}
	s.Ahead = slices.DeleteFunc(slices.Clone(s.Ahead), at.Equal)
	return true
}

// drop abandons firings that are pending by time.
func (m *machine) drop(why Why) {
	was := m.s.Pending
	m.s.Pending, m.s.Backlog = nil, 0
	for _, f := range was {
		if f.By == ByBackfill && why != WhyEdited {
			m.s.Pending = append(m.s.Pending, f)
			continue
		}
		if m.s.giveBack(f.At) {
			m.s.Skipped++
			m.note(Entry{Decision: Skipped, Why: why, By: f.By, At: f.At, Until: f.At, Count: 1})
			continue
		}
		m.miss(Span{After: f.At.Add(-time.Second), Until: f.At, Count: 1, Why: why}, "")
	}
}

// pause stops the schedule. Unseen times before it are passed over.
func (m *machine) pause() error {
	if m.s.Paused {
		return nil
	}
	m.drop(WhyPaused)
	if last, passed, _, ok, err := m.env.Cron.Once(m.s.Cursor, m.now); err != nil {
		return err
	} else if ok {
		m.miss(Span{After: m.s.Cursor, Until: last, Count: int(passed) + 1, Why: WhyLate}, "")
		m.s.Cursor = later(m.s.Cursor, last.UTC())
	}
	m.s.Paused = true
	return nil
}

// resume continues from now: time spent paused is not missed.
func (m *machine) resume() error {
	if !m.s.Paused {
		return nil
	}
	n := m.env.count(Span{After: m.s.Cursor, Until: m.now})
	for _, c := range m.s.claims(Span{After: m.s.Cursor, Until: m.now}) {
		n -= m.env.count(c)
	}
	if n > 0 {
		m.s.Skipped += n
		first := m.env.next(m.s.Cursor)
		m.note(Entry{Decision: Skipped, Why: WhyPaused, At: first, Until: m.now, Count: n})
	}
	m.pass(WhyPaused)
	m.s.Paused = false
	return nil
}

// fireByHand starts a run that a person requested.
func (m *machine) fireByHand(e Fire) error {
	m.resolve()
	at := e.At.UTC().Truncate(time.Second)
	if e.At.IsZero() {
		at = m.byHandNow()
	} else if before := m.env.next(at.Add(-time.Second)); !before.Equal(at) {
		return fmt.Errorf("%w: %s; the next one is %s", ErrNoTime, at.Format(time.RFC3339), stamp(before))
	}
	f := Firing{At: at, By: ByHand}
	if v, id := m.judge(f); v == mustSkip || v == mustWait {
		return fmt.Errorf("%w: %s", ErrOverlap, id)
	}
	if !e.At.IsZero() {
		if err := m.claim(at); err != nil {
			return err
		}
	}
	m.arrive(f)
	m.work()
	return nil
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format(time.RFC3339)
}

// byHandNow is the logical time of a run outside the calendar: never a whole second, which
// calendars use, and never a used one.
func (m *machine) byHandNow() time.Time {
	at := m.env.Now.UTC().Truncate(time.Millisecond)
	used := func(t time.Time) bool {
		return t.Nanosecond() == 0 || slices.ContainsFunc(m.s.History, func(e Entry) bool { return e.At.Equal(t) }) ||
			slices.ContainsFunc(m.s.Live, func(r Run) bool { return r.At.Equal(t) }) ||
			slices.ContainsFunc(m.s.Pending, func(f Firing) bool { return f.At.Equal(t) })
	}
	for used(at) {
		at = at.Add(time.Millisecond)
	}
	return at
}

// claim makes a logical time a person's: nothing else fires for it.
func (m *machine) claim(at time.Time) error {
	if slices.ContainsFunc(m.s.Ahead, at.Equal) {
		return fmt.Errorf("%w: %s was started by hand", ErrFired, stamp(at))
	}
	if m.s.done(at) != nil {
		return fmt.Errorf("%w: %s was decided before the cursor was set back", ErrFired, stamp(at))
	}
	if at.After(m.s.Cursor) {
		if len(m.s.Ahead) >= maxAhead {
			return fmt.Errorf("more than %d future times started by hand: %w", maxAhead, ErrInvalid)
		}
		m.s.Ahead = append(slices.Clip(m.s.Ahead), at)
		slices.SortFunc(m.s.Ahead, time.Time.Compare)
		return nil
	}
	if m.take(at) {
		return nil
	}
	return fmt.Errorf("%w: %s %s", ErrFired, stamp(at), m.s.decided(at))
}

// decided describes why a logical time up to the cursor that is in no open span cannot be started
// by hand.
func (s *State) decided(at time.Time) string {
	if e, ok := lineOf(s.History, at); ok {
		return "was " + e.String()
	}
	if i := slices.IndexFunc(s.Live, func(r Run) bool { return r.At.Equal(at) }); i >= 0 {
		return "was started as " + s.Live[i].ID
	}
	if slices.ContainsFunc(s.Pending, func(f Firing) bool { return f.At.Equal(at) }) {
		return "is due, and starts as soon as it is known that no earlier run is in its way"
	}
	if len(s.Open) > 0 && at.Before(s.Open[0].Until) {
		return fmt.Sprintf("is older than the history, which begins at %s", stamp(s.Open[0].Until))
	}
	return "was started, and is not in the history any more"
}

// backfill puts logical times that did not fire after the pending ones.
func (m *machine) backfill(e Backfill) error {
	m.resolve()
	switch {
	case m.env.Definition.Signal != nil:
		return fmt.Errorf("signals cannot be backfilled; send one now with cron run: %w", ErrInvalid)
	case e.Max < 1 || e.Max > MaxBackfill:
		return fmt.Errorf("max must be from 1 to %d: %w", MaxBackfill, ErrInvalid)
	case e.From.After(e.To):
		return fmt.Errorf("from %s is after to %s: %w", stamp(e.From), stamp(e.To), ErrInvalid)
	case len(m.s.Pending)+e.Max > 2*MaxBackfill:
		return fmt.Errorf("an earlier backfill is not done: %d runs wait: %w", len(m.s.Pending), ErrInvalid)
	}
	var found []time.Time
	for _, x := range m.s.Open {
		t := later(x.After, e.From.UTC().Truncate(time.Second).Add(-time.Second))
		for len(found) < e.Max {
			if t = m.env.next(t); t.IsZero() || t.After(x.Until) || t.After(e.To) {
				break
			}
			found = append(found, t)
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("%w: from %s to %s nothing is left out", ErrNoTime, stamp(e.From), stamp(e.To))
	}
	for _, t := range found {
		m.take(t)
		m.arrive(Firing{At: t, By: ByBackfill})
	}
	m.work()
	return nil
}
