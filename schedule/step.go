package schedule

import (
	"fmt"
	"slices"
	"time"

	"cantina/cron"
)

// Step returns the next state and its moves, or an error and the unchanged state.
// Errors: ErrOverlap, ErrFired, ErrNoTime, ErrInvalid for what a person asked for, and
// those of package cron.
func Step(s State, e Event, env Env) (State, []Move, error) {
	m := machine{s: s, env: env, now: env.Now.Add(-Offset(env.Key, env.Definition.Jitter)).Truncate(time.Second)}
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
		m.own(&m.s.Open)
		for i := range m.s.Open {
			m.s.Open[i].Why, m.s.Open[i].Count = WhyBefore, 0
		}
	case Fire:
		return m.fireByHand(e)
	case Backfill:
		return m.backfill(e)
	case Refused:
		m.refused(e)
	case Delivered:
		m.delivered(e)
	default:
		return fmt.Errorf("event %T: %w", e, ErrInvalid)
	}
	return nil
}

// own makes the list of spans this machine's.
func (m *machine) own(list *[]Span) { *list = slices.Clone(*list) }

// tick decides all that is due.
func (m *machine) tick() error {
	m.settle()
	if err := m.advance(); err != nil {
		return err
	}
	m.retry()
	return nil
}

// settle forgets the runs that have ended.
func (m *machine) settle() {
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
		}
	}
	if len(live) != len(m.s.Live) {
		m.s.Live = live
	}
}

// advance moves the cursor over what has become due, and puts what fires behind what
// is pending.
func (m *machine) advance() error {
	if m.s.Paused || !m.s.Cursor.Before(m.now) {
		return nil
	}
	p := &m.env.Definition.Policy
	if p.Misfire == MisfireOnce {
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
		m.due(last)
		return nil
	}
	return m.advanceAll(p)
}

// advanceAll is advance for the policies that run more than one missed time.
func (m *machine) advanceAll(p *Policy) error {
	d, err := m.env.Cron.Latest(m.s.Cursor, m.now, p.missedMax())
	if err != nil {
		return err
	}
	if len(d.Fire) == 0 {
		m.passOver()
		return nil
	}
	m.remarks(d.Fire[len(d.Fire)-1].At)
	if d.Rest > 0 {
		m.miss(Span{After: m.s.Cursor, Until: d.Fire[0].At.Add(-time.Second), Count: int(d.Rest), Why: WhyMany}, "")
	}
	for _, o := range d.Fire {
		m.due(o.At.UTC())
	}
	return nil
}

// due takes the next logical time, and moves the cursor to it.
func (m *machine) due(at time.Time) {
	before := m.s.Cursor
	m.s.Cursor = at.UTC()
	if i := slices.IndexFunc(m.s.Ahead, at.Equal); i >= 0 {
		m.s.Ahead = slices.Delete(slices.Clone(m.s.Ahead), i, i+1)
		return // a person was first
	}
	if d := m.env.Definition.deadline(); d > 0 && m.now.Sub(at) > d {
		m.miss(Span{After: later(before, at.Add(-time.Second)), Until: at.UTC(), Count: 1, Why: WhyLate}, "")
		return
	}
	m.decide(Firing{At: at.UTC()}, false)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// counts says how many runs run and of how many nobody knows, and names one of them. A job
// of which this schedule knows no run may run all the same.
func (m *machine) counts() (running, unknown int, one string) {
	for _, r := range m.s.Live {
		switch m.answer(r) {
		case Running:
			running++
			one = r.ID
		case Unknown:
			unknown++
			if one == "" {
				one = r.ID
			}
		case Ended:
		}
	}
	if running+unknown > 0 || m.env.Definition.Job == nil || m.env.Job == nil {
		return running, unknown, one
	}
	switch m.env.Job() {
	case Running:
		return 1, 0, "job/" + m.env.Key.Name
	case Unknown:
		return 0, 1, "job/" + m.env.Key.Name
	case Ended:
	}
	return 0, 0, ""
}

// answer says whether a run may still run. What this step itself starts does: nobody
// else knows of it yet.
func (m *machine) answer(r Run) Answer {
	switch {
	case slices.ContainsFunc(m.moves, func(x Move) bool { s, ok := x.(Start); return ok && s.ID == r.ID }):
		return Running
	case m.env.Runs == nil:
		return Ended
	}
	return m.env.Runs(r)
}

// verdict is what a firing may do now.
type verdict int

const (
	mayStart verdict = iota
	mustWait         // it is not known yet, or an earlier run is being ended
	mustSkip
)

// judge answers the question of the overlap for what fires by a cause, and names a run that
// stands in the way. What is filled in replaces nothing.
func (m *machine) judge(by Cause) (verdict, string) {
	running, unknown, one := m.counts()
	p := &m.env.Definition.Policy
	most := 1
	if p.Overlap == OverlapAllow {
		most = p.Max
	}
	switch {
	case running+unknown < most, p.Overlap == OverlapReplace && m.env.Definition.Guarded() && by != ByBackfill:
		return mayStart, ""
	case p.Overlap == OverlapReplace:
		return mustWait, one
	case running >= most:
		return mustSkip, one
	}
	return mustWait, one
}

// decide starts a firing, skips it, or leaves it pending. retried: it was pending.
func (m *machine) decide(f Firing, retried bool) {
	v, id := m.judge(f.By)
	if f.By == ByBackfill && (v == mustSkip || m.s.Paused) {
		v = mustWait // one after the other
	}
	switch v {
	case mayStart:
		m.start(f)
	case mustSkip:
		m.miss(Span{After: f.At.Add(-time.Second), Until: f.At, Count: 1, Why: WhyOverlap}, id)
	case mustWait:
		if m.env.Definition.Overlap == OverlapReplace && f.By != ByBackfill {
			m.endLive()
		}
		m.pend(f, retried)
	}
}

// endLive tells what runs to end, once.
func (m *machine) endLive() {
	for i, r := range m.s.Live {
		if r.Ending {
			continue
		}
		m.s.Live = slices.Clone(m.s.Live)
		m.s.Live[i].Ending = true
		m.moves = append(m.moves, End{r.ID})
	}
}

// pend leaves a firing undecided. But with misfire all only the newest by time is
// kept.
func (m *machine) pend(f Firing, retried bool) {
	if f.By != ByTime || retried {
		m.s.Pending = append(slices.Clip(m.s.Pending), f)
		return
	}
	most := 1
	if m.env.Definition.Misfire == MisfireAll {
		most = m.env.Definition.missedMax()
	}
	var kept, rest []Firing
	for _, x := range m.s.Pending {
		if x.By == ByTime {
			kept = append(kept, x)
		} else {
			rest = append(rest, x)
		}
	}
	for len(kept) >= most {
		m.miss(Span{After: kept[0].At.Add(-time.Second), Until: kept[0].At, Count: 1, Why: WhyReplaced}, "")
		kept = kept[1:]
	}
	m.s.Pending = append(append(kept, f), rest...)
}

// retry decides what is pending, as far as that is possible.
func (m *machine) retry() {
	if len(m.s.Pending) == 0 {
		return
	}
	was := m.s.Pending
	filling := !slices.ContainsFunc(was, func(f Firing) bool { return f.By != ByBackfill })
	by := ByTime
	if filling {
		by = ByBackfill
	}
	switch v, _ := m.judge(by); {
	case filling && (v != mayStart || m.s.Paused):
		return
	case v == mustWait && !m.mustEnd(was) && !m.tooOld(was):
		return
	}
	m.s.Pending = nil
	for _, f := range was {
		if d := m.env.Definition.deadline(); f.By == ByTime && d > 0 && m.now.Sub(f.At) > d {
			m.miss(Span{After: f.At.Add(-time.Second), Until: f.At, Count: 1, Why: WhyLate}, "")
			continue
		}
		m.decide(f, true)
	}
}

// tooOld reports whether a pending firing has outlived its deadline.
func (m *machine) tooOld(list []Firing) bool {
	d := m.env.Definition.deadline()
	return d > 0 && slices.ContainsFunc(list, func(f Firing) bool { return f.By == ByTime && m.now.Sub(f.At) > d })
}

// mustEnd reports whether a pending firing is to replace a run that was not told yet.
func (m *machine) mustEnd(list []Firing) bool {
	return m.env.Definition.Overlap == OverlapReplace && slices.ContainsFunc(list, func(f Firing) bool { return f.By != ByBackfill }) &&
		slices.ContainsFunc(m.s.Live, func(r Run) bool { return !r.Ending })
}

// start starts a run.
func (m *machine) start(f Firing) {
	id := RunID(m.env.Key, f.At, 0)
	for try := 1; m.env.Free != nil && m.env.Definition.Task != nil && !m.env.Free(id); try++ {
		id = RunID(m.env.Key, f.At, try)
	}
	switch run := (Run{At: f.At, ID: id}); {
	case m.env.Definition.Job != nil:
		m.supersede()
		m.s.Live = []Run{run} // the job is born again: of the earlier run nothing is left to ask for
	case m.env.Definition.Task != nil:
		m.s.Live = append(slices.Clip(m.s.Live), run)
	}
	m.s.Fired++
	e := Entry{What: Started, By: f.By, At: f.At, Until: f.At, Count: 1, ID: id}
	if m.env.Definition.Signal != nil {
		e.What = Sent
	}
	m.note(e)
	m.moves = append(m.moves, Start{f, id})
}

// supersede takes back what this step has started of a job: it would be born twice in one
// transaction, and only the newest time has it.
func (m *machine) supersede() {
	var earlier []Start
	m.moves = slices.DeleteFunc(m.moves, func(x Move) bool {
		s, ok := x.(Start)
		if ok {
			earlier = append(earlier, s)
		}
		return ok
	})
	for _, s := range earlier {
		m.s.History = slices.DeleteFunc(slices.Clone(m.s.History), func(e Entry) bool { return e.What == Started && e.ID == s.ID && e.At.Equal(s.Firing.At) })
		m.s.Fired--
		m.miss(Span{After: s.Firing.At.Add(-time.Second), Until: s.Firing.At, Count: 1, Why: WhyReplaced}, "")
	}
}

// refused takes a start of this step back: what it would have started was refused.
func (m *machine) refused(e Refused) {
	id := ""
	h := m.s.History
	if n := len(h); n > 0 && h[n-1].What == Started && h[n-1].At.Equal(e.Firing.At) {
		id = h[n-1].ID
		m.s.History = slices.Clone(h[:n-1])
		m.s.Fired--
	}
	m.s.Live = slices.DeleteFunc(slices.Clone(m.s.Live), func(r Run) bool { return r.ID == id })
	m.s.Skipped++
	if !m.giveBack(e.Firing.At) {
		m.addSpan(Span{After: e.Firing.At.Add(-time.Second), Until: e.Firing.At, Count: 1, Why: WhyFailed})
	}
	m.note(Entry{What: Skipped, Why: WhyFailed, By: e.Firing.By, At: e.Firing.At, Until: e.Firing.At, Count: 1, Text: e.Text})
}

// note adds a line to the history; a line like the last one only counts up.
func (m *machine) note(e Entry) {
	e.When = m.env.Now
	h := m.s.History
	if n := len(h); e.What == Skipped && n > 0 && h[n-1].What == Skipped && h[n-1].Why == e.Why && h[n-1].ID == e.ID && h[n-1].Text == e.Text && h[n-1].By == e.By {
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

// passOver notes what the policies of the calendar leave out until now, when it
// happens, and moves the cursor there: nothing is due before.
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
		e := Entry{What: Skipped, Why: WhyGap, At: o.At.UTC(), Until: o.At.UTC(), Count: 1, Text: o.Label}
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
