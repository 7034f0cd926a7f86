package schedule

import (
	"cmp"
	"slices"
	"time"
)

// queued reports whether missed times wait in the backlog, each with its logical time. Otherwise
// only the newest time waits. A signal applies to the present instances.
func (e *Env) queued() bool {
	return e.Definition.Misfire != MisfireOnce && e.Definition.Signal == nil
}

// group is the place of a cause in the backlog.
func (c Cause) group() int { return [...]int{1, 0, 2}[c] }

// arrive puts a firing after the pending ones. A firing by time is replaced by a newer time,
// unless it may wait in the backlog: with replace only missed ones may.
func (m *machine) arrive(f Firing) {
	if f.By == ByTime {
		switch {
		case !m.env.queued():
			m.overtake(WhyReplaced)
		case m.env.Definition.Overlap == OverlapReplace && !f.Late:
			m.overtake(WhyOvertaken)
		case f.Late:
			m.s.Backlog++
		}
	}
	i := 0
	for i < len(m.s.Pending) && m.s.Pending[i].By.group() <= f.By.group() {
		i++
	}
	m.s.Pending = slices.Insert(slices.Clone(m.s.Pending), i, f)
}

// overtake skips firings that are pending by time: a newer one has come.
func (m *machine) overtake(why Why) {
	m.skipPending(func(f Firing) bool { return true }, why)
}

// skipPending skips firings that are pending by time and pass a test, the oldest first.
func (m *machine) skipPending(test func(Firing) bool, why Why) {
	var kept []Firing
	for i, f := range m.s.Pending {
		if f.By != ByTime || !test(f) {
			kept = append(kept, f)
			continue
		}
		if kept == nil {
			kept = slices.Clone(m.s.Pending[:i])
		}
		m.skip(f, why, "")
	}
	m.s.Pending = kept
}

// skip leaves a logical time open; id is the run that blocked it.
func (m *machine) skip(f Firing, why Why, id string) {
	m.miss(Span{After: f.At.Add(-time.Second), Until: f.At, Count: 1, Why: why}, id)
}

// work decides pending firings, in order, as far as possible.
func (m *machine) work() {
	if d := m.env.Definition.deadline(); d > 0 {
		m.skipPending(func(f Firing) bool { return m.now.Sub(f.At) > d }, WhyLate)
	}
	for len(m.s.Pending) > 0 && m.decide(m.s.Pending[0]) {
		m.s.Pending = m.s.Pending[1:]
	}
	if m.env.queued() {
		m.boundBacklog(m.env.Definition.missedMax())
		m.closeBacklog()
	}
}

// boundBacklog keeps the newest firings of the backlog.
func (m *machine) boundBacklog(most int) {
	n := 0
	for _, f := range m.s.Pending {
		if f.By == ByTime {
			n++
		}
	}
	if n > most {
		drop := n - most
		m.skipPending(func(Firing) bool { drop--; return drop >= 0 }, WhyMany)
	}
}

// closeBacklog ends a backlog in which no firing waits, and of which no run is running.
func (m *machine) closeBacklog() {
	m.s.Backlog = min(m.s.Backlog, m.env.Definition.missedMax())
	if !slices.ContainsFunc(m.s.Pending, func(f Firing) bool { return f.By == ByTime }) &&
		!slices.ContainsFunc(m.s.Live, func(r Run) bool { return r.Late }) {
		m.s.Backlog = 0
	}
}

// decide starts a firing or skips it; false when it has to wait.
func (m *machine) decide(f Firing) bool {
	v, id := m.judge(f)
	switch v {
	case mayStart:
		m.start(f)
	case mustSkip:
		m.skip(f, m.env.whyNot(), id)
	case mustEnd:
		m.endLive()
		fallthrough
	case mustWait:
		m.wait(f)
		return false
	}
	return true
}

// whyNot is why a firing is skipped that an earlier run is in the way of.
func (e *Env) whyNot() Why {
	if e.Definition.Overlap == OverlapReplace {
		return WhyOvertaken
	}
	return WhyOverlap
}

// wait keeps the first pending firing there. It counts as late from now on; so do all due ones
// while the state of the runs is unknown.
func (m *machine) wait(f Firing) {
	if f.By != ByTime || !m.env.queued() {
		return
	}
	_, unknown, _ := m.counts(f)
	m.s.Pending = slices.Clone(m.s.Pending)
	for i := range m.s.Pending {
		p := &m.s.Pending[i]
		switch {
		case p.By != ByTime || p.Late:
		case unknown > 0:
			p.Late = true
			m.s.Backlog++
		case i == 0:
			p.Late = true
			m.s.Backlog--
		}
	}
}

// verdict is the permitted action of a firing.
type verdict int

const (
	mayStart verdict = iota
	mustWait         // it is not known yet whether it may start, or its turn has not come
	mustEnd          // an earlier run is to be ended first
	mustSkip
)

// busy is the known state of the runs that block a firing.
type busy struct {
	running int
	// before are those of them that ran at the time of the firing: not runs that were started later
	// to catch up, or by a person.
	before int
	one    string // of them
	newer  string // a run of a newer logical time
}

// judge applies the overlap policy to a firing, and names a blocking run. A backfill replaces
// none. A missed time is skipped because of a run that existed at its time, and waits for a run
// that was started since.
func (m *machine) judge(f Firing) (verdict, string) {
	b, unknown, one := m.counts(f)
	p := &m.env.Definition.Policy
	most := 1
	if p.Overlap == OverlapAllow {
		most = p.Max
	}
	switch {
	case f.By == ByBackfill && m.s.Paused:
		return mustWait, one
	case b.running+unknown < most:
		return mayStart, ""
	case f.By == ByBackfill:
		return mustWait, one
	case p.Overlap == OverlapReplace:
		return m.judgeReplace(f, b, one)
	case b.running < most:
		return mustWait, one // unknown
	case f.By == ByTime && m.env.queued() && b.before < most && (f.Late || m.s.Backlog > 0):
		return mustWait, one
	}
	return mustSkip, b.one
}

// judgeReplace is judge for overlap replace, if a run may be running. A firing replaces older
// ones; but missed times run one after the other.
func (m *machine) judgeReplace(f Firing, b busy, one string) (verdict, string) {
	late := len(m.s.Live) > 0 && !slices.ContainsFunc(m.s.Live,
		func(r Run) bool { return !r.Late && m.answer(r) != Ended })
	switch {
	case f.By == ByTime && b.newer != "":
		return mustSkip, b.newer
	case f.Late && late, slices.ContainsFunc(m.s.Live, m.startedNow):
		return mustWait, one // it does not end runs that this step starts
	case m.env.Definition.Guarded():
		return mayStart, ""
	}
	return mustEnd, one
}

// counts returns the number of blocking runs, the number of those in an unknown state, and the
// name of one of all. Work of the schedule may run even if this has no run of it.
func (m *machine) counts(f Firing) (b busy, unknown int, one string) {
	for _, r := range m.s.Live {
		a := m.answer(r)
		if a == Ended {
			continue
		}
		if r.At.After(f.At) {
			b.newer = r.ID
		}
		if a == Unknown {
			unknown++
			if one == "" {
				one = r.ID
			}
			continue
		}
		b.running++
		b.one, one = r.ID, r.ID
		if !r.Late && r.At.Before(f.At) {
			b.before++
		}
	}
	several := m.env.Definition.Overlap == OverlapAllow && m.env.Definition.Job == nil
	if m.env.Other == nil || b.running+unknown > 0 && !several {
		return b, unknown, one
	}
	a, other, n := m.env.Other(RunID(m.env.Key, f.At, 0))
	switch a {
	case Running:
		b.running, b.before, b.one = b.running+n, b.before+n, cmp.Or(b.one, other)
	case Unknown:
		unknown++
	case Ended:
		return b, unknown, one
	}
	return b, unknown, cmp.Or(one, other)
}

// answer reports whether a run may still run. A run that this step itself starts does: no other
// part knows it yet.
func (m *machine) answer(r Run) Answer {
	switch {
	case m.startedNow(r):
		return Running
	case m.env.Runs == nil:
		return Ended
	}
	return m.env.Runs(r)
}

// startedNow reports whether this step starts a run.
func (m *machine) startedNow(r Run) bool {
	return slices.ContainsFunc(m.moves, func(x Move) bool { s, _ := x.(Start); return s.ID == r.ID })
}

// endLive ends the running ones, once.
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
