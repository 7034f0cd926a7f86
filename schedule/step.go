package schedule

import (
	"fmt"
	"slices"
	"time"

	"cantina/cron"
)

// Step returns the next state and its moves, or an error and the unchanged state. Errors:
// ErrOverlap, ErrFired, ErrNoTime, ErrInvalid for requests by a person, and those of package cron.
func Step(s State, e Event, env Env) (State, []Move, error) {
	m := machine{s: s, env: env}
	m.setClock()
	m.takeOver()
	if err := m.step(e); err != nil {
		return s, nil, err
	}
	return m.s, m.moves, nil
}

// machine is the working copy of one step.
type machine struct {
	s     State
	env   Env
	now   time.Time // in logical time: without the jitter
	moves []Move
	// editing: the calendar in env is not the one that fired until now.
	editing bool
}

// setClock sets the time for this schedule. One that counts elapsed time has its own clock, which
// is never behind the decided times: so it continues after the wall clock was set back without a
// leader.
func (m *machine) setClock() {
	m.s = ResumeClock(m.s, m.env.Definition, m.env.Now)
	m.now = m.env.Now.Add(m.s.Skew - Offset(m.env.Key, m.env.Definition.Jitter)).Truncate(time.Second)
}

// ResumeClock returns the state of a schedule with the clock of a leader that takes it over at now: a
// schedule that counts elapsed time continues from its last time, and any other has no skew.
func ResumeClock(s State, d *Definition, now time.Time) State {
	if !d.Elapsed() {
		s.Skew = 0
	} else if behind := s.Cursor.Sub(now.Add(s.Skew)); behind > 0 {
		s.Skew += behind
	}
	return s
}

// takeOver adopts the runs of a removed schedule of the same name. None is newer than a
// firing to come.
func (m *machine) takeOver() {
	if m.env.Earlier == nil {
		return
	}
	var all []Run
	for _, r := range m.env.Earlier() {
		if !m.s.Runs(r.ID) {
			r.At = earlier(r.At, m.now)
			all = append(all, r)
		}
	}
	if len(all) > 0 {
		m.s.Live = append(all, m.s.Live...)
	}
}

func (m *machine) step(e Event) error {
	switch e := e.(type) {
	case Tick:
		return m.tick()
	case Pause:
		return m.pause()
	case Resume:
		return m.resume()
	case Edit:
		m.editing = true
		m.drop(WhyEdited)
		m.pass(WhyBefore)
		m.s.Open = slices.Clone(m.s.Open)
		for i := range m.s.Open {
			m.s.Open[i].Why, m.s.Open[i].Count = WhyBefore, 0
		}
	case Fire:
		return m.fireByHand(e)
	case Backfill:
		return m.backfill(e)
	case Rewind:
		m.rewind()
	case Refused:
		m.refused(e)
	case Delivered:
		m.s.delivered(e)
	default:
		return fmt.Errorf("event %T: %w", e, ErrInvalid)
	}
	return nil
}

// tick decides all that is due.
func (m *machine) tick() error {
	m.resolve()
	if m.env.queued() && m.env.Definition.Overlap != OverlapReplace {
		m.work() // before the next one needs the space
	}
	if err := m.advance(); err != nil {
		return err
	}
	m.work()
	m.s.forgetDone()
	return nil
}

// resolve forgets the runs that have ended.
func (m *machine) resolve() {
	if len(m.s.Live) == 0 {
		return
	}
	if m.env.Runs == nil {
		m.s.Live = nil
		return
	}
	var live []Run
	for _, r := range m.s.Live {
		if m.env.Runs(r) != Ended {
			live = append(live, r)
		} else if m.env.Outcome != nil {
			m.s.ended(r.ID, m.env.Outcome(r))
		}
	}
	if len(live) != len(m.s.Live) {
		m.s.Live = live
	}
}

// OutcomeReplaced is the outcome of a run of a job that another run replaced.
const OutcomeReplaced = "replaced"

// advance moves the cursor over due times, and puts them after the pending ones.
func (m *machine) advance() error {
	if m.s.Paused || !m.s.Cursor.Before(m.now) {
		return nil
	}
	if m.env.queued() {
		return m.advanceAll(&m.env.Definition.Policy)
	}
	last, passed, _, ok, err := m.env.Cron.Once(m.s.Cursor, m.now)
	if err != nil {
		return err
	}
	if !ok {
		m.passOver()
		return nil
	}
	m.remarks(last)
	if passed > 0 {
		m.miss(Span{After: m.s.Cursor, Until: last.Add(-time.Second), Count: int(passed), Why: WhyMisfire}, "")
	}
	m.due(last, false)
	return nil
}

// advanceAll is advance for the policies that run more than one missed time.
func (m *machine) advanceAll(p *Policy) error {
	d, err := m.env.Cron.Latest(m.s.Cursor, m.now, p.missedMax())
	if err != nil {
		return err
	}
	n := len(d.Fire)
	if n == 0 {
		m.passOver()
		return nil
	}
	m.remarks(d.Fire[n-1].At)
	m.boundBacklog(p.missedMax() - n)
	if d.Rest > 0 {
		m.miss(Span{After: m.s.Cursor, Until: d.Fire[0].At.Add(-time.Second), Count: int(d.Rest), Why: WhyMany}, "")
	}
	for _, o := range d.Fire {
		m.due(o.At.UTC(), n > 1 || m.now.Sub(o.At) > onTime)
	}
	return nil
}

// onTime is how late a single logical time may be looked at and still counts as on time.
const onTime = 2 * time.Second

// due takes the next logical time, and moves the cursor to it. late: it was missed.
func (m *machine) due(at time.Time, late bool) {
	before := m.s.Cursor
	m.s.Cursor = at.UTC()
	if i := slices.IndexFunc(m.s.Ahead, at.Equal); i >= 0 {
		m.s.Ahead = slices.Delete(slices.Clone(m.s.Ahead), i, i+1)
		return // a person was first
	}
	if m.s.done(at) != nil {
		return // before the clock was set back
	}
	if d := m.env.Definition.deadline(); d > 0 && m.now.Sub(at) > d {
		m.miss(Span{After: later(before, at.Add(-time.Second)), Until: at.UTC(), Count: 1, Why: WhyLate}, "")
		return
	}
	m.arrive(Firing{At: at.UTC(), By: ByTime, Late: late})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// start starts a run.
func (m *machine) start(f Firing) {
	id := RunID(m.env.Key, f.At, 0)
	for try := 1; m.env.Free != nil && m.env.Definition.Task != nil && !m.env.Free(id); try++ {
		id = RunID(m.env.Key, f.At, try)
	}
	switch run := (Run{At: f.At, ID: id, Late: f.Late}); {
	case m.env.Definition.Job != nil:
		for _, r := range m.s.Live {
			m.s.ended(r.ID, OutcomeReplaced)
		}
		m.s.Live = []Run{run} // the job is created again: the earlier run needs no more checks
	case m.env.Definition.Task != nil:
		m.s.Live = append(slices.Clip(m.s.Live), run)
	}
	m.s.Fired++
	e := Entry{Decision: Started, By: f.By, At: f.At, Until: f.At, Count: 1, ID: id}
	if m.env.Definition.Signal != nil {
		e.Decision = Sent
	}
	m.note(e)
	m.moves = append(m.moves, Start{f, id})
}

// refused undoes a start of this step: its work was refused.
func (m *machine) refused(e Refused) {
	for i, h := range slices.Backward(m.s.History) {
		if h.Decision == Started && h.At.Equal(e.Firing.At) {
			m.s.History = slices.Delete(slices.Clone(m.s.History), i, i+1)
			m.s.Fired--
			m.s.Live = slices.DeleteFunc(slices.Clone(m.s.Live), func(r Run) bool { return r.ID == h.ID })
			break
		}
	}
	m.s.Skipped++
	if !m.s.giveBack(e.Firing.At) {
		m.addSpan(Span{After: e.Firing.At.Add(-time.Second), Until: e.Firing.At, Count: 1, Why: WhyFailed})
	}
	m.note(Entry{Decision: Skipped, Why: WhyFailed, By: e.Firing.By, At: e.Firing.At, Until: e.Firing.At, Count: 1,
		Text: e.Text})
}

// note adds an entry to the history; an entry like the last one only increments its count.
func (m *machine) note(e Entry) {
	e.When = m.env.Now
	h := m.s.History
	if n := len(h); e.Decision == Skipped && n > 0 && h[n-1].Why == e.Why && h[n-1].ID == e.ID && h[n-1].Text == e.Text &&
		h[n-1].By == e.By {
		h = slices.Clone(h)
		h[n-1].Until, h[n-1].When = e.Until, e.When
		h[n-1].Count += e.Count
		m.s.History = h
		return
	}
	if h == nil {
		h = make([]Entry, 0, 4)
	}
	if len(h) >= 2*MaxHistory { // in blocks, so that it costs little each time
		h = slices.Clone(h[len(h)-MaxHistory+1:])
	}
	// Only the newest state appends: an older one sees the part that it had.
	m.s.History = append(h, e)
}

// passOver records the times that the policies of the calendar leave out until now, when they
// occur, and moves the cursor there: nothing is due before.
func (m *machine) passOver() {
	if last := m.remarks(m.now); last.After(m.s.Cursor) {
		m.s.Cursor = last
	}
}

// remarks notes the matches that the policies of the calendar leave out, in
// (cursor, upto], and returns when the last one was; zero without one.
func (m *machine) remarks(upto time.Time) (last time.Time) {
	if !borders(m.env.Cron, m.s.Cursor, upto) {
		return last
	}
	for _, o := range m.env.Cron.Skips(m.s.Cursor, upto, MaxHistory) {
		e := Entry{Decision: Skipped, Why: WhyGap, At: o.At.UTC(), Until: o.At.UTC(), Count: 1, Text: o.Label}
		if o.Skip == cron.SkipRepeated {
			e.Why, e.Text = WhyRepeated, ""
		}
		m.note(e)
		last = e.At
	}
	return last
}

// borders reports whether the clocks of a calendar's zone may change so near to
// (from, to] that a time in it can be missing or repeated.
func borders(c cron.Schedule, from, to time.Time) bool {
	const day = 24 * time.Hour
	if c.Zone == nil || !c.Item.TimezoneDependent() {
		return false
	}
	start, end := to.In(c.Zone).ZoneBounds()
	return !start.IsZero() && start.After(from.Add(-day)) || !end.IsZero() && end.Before(to.Add(day))
}
