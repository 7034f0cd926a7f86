package worker

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"cantina/workerset"
)

// probes is the schedule of a session's healthchecks.
type probes struct {
	sent    int64 // number of the newest
	due     time.Duration
	open    []openProbe
	failing int // failing answers in a row
	out     bool
	reason  string
}

type openProbe struct {
	number int64
	sent   time.Duration
}

// failsBeforeOut is how many failing probes in a row make a cell unavailable.
const failsBeforeOut = 3

// openProbes bounds how many unanswered probes are remembered.
const openProbes = 16

func sortedMembers(ms []Member) []Member {
	ms = slices.Clone(ms)
	slices.SortFunc(ms, func(a, b Member) int { return cmp.Compare(a.Proc, b.Proc) })
	return ms
}

// sessions moves the session of each process through its states, by its heartbeats, its probes and
// the worker set.
type sessions struct {
	*roster
	set *workerset.Tracker // consensus witness only
}

// gaps are the limits of p's session at the leader.
func (s *sessions) gaps(p *process) Gaps {
	return Gaps{Probe: s.t.HealthcheckGap(), Beat: max(p.period, time.Second) + s.t.HeartbeatGrace, Lost: s.t.Lost}
}

// evaluate moves p's session to its state at now.
func (s *sessions) evaluate(p *process, now time.Duration) {
	from, was := p.health.State, p.health.HasBeenHealthy
	allowed := s.set == nil || s.set.Permits(string(p.row.Proc))
	p.blocked = p.health.Advance(s.policy(now), s.gaps(p), allowed)
	to := p.health.State
	if from == to {
		return
	}
	if to == MustDie {
		p.health.State = from
		s.mustDie(p, now, "lost: "+s.silence(p, now), lost)
		s.do(SendSuicide{p.row.Cell, Suicide{s.cfg.Term, p.row.Proc, false}})
		return
	}
	s.do(SessionChanged{p.row.Cell, p.row.Proc, from, to, was, false, false, s.why(p, now)})
	if to == Healthy {
		s.do(StartsChanged{})
	}
}

// contact evaluates p's session after a message. It never worsens the state: only ticks detect silence, as they
// know whether messages wait to be read (0435).
func (s *sessions) contact(p *process, now time.Duration) {
	allowed := s.set == nil || s.set.Permits(string(p.row.Proc))
	next, _ := p.health.Next(s.policy(now), s.gaps(p), allowed)
	if next != MustDie && (next == Healthy || p.health.State != Healthy) {
		s.evaluate(p, now)
	}
}

// miss reports a process that has not become HEALTHY in time in this term. One that was is
// reported as a change to UNHEALTHY; the leader before this one may have routed to both.
func (s *sessions) miss(p *process, now time.Duration) {
	h := p.health
	switch {
	case h.State == MustDie || h.HasBeenHealthy || p.blocked:
		p.unheard = false
	case !p.unheard && s.late(p, now):
		p.unheard = true
		s.do(Unheard{p.row.Cell, p.row.Proc, s.silence(p, now)})
	}
}

// late reports whether a heartbeat or an answer to a probe should have come by now.
func (s *sessions) late(p *process, now time.Duration) bool {
	g, at := s.gaps(p), s.policy(now)
	return at > max(p.born, p.health.LastBeat)+g.Beat || at > max(p.born, p.health.LastProbe)+g.Probe
}

// Late are the cells that the next Tick may find silent, for which its Behind matters.
func (l *Leader) Late(now time.Duration) []CellName {
	var out []CellName
	for _, p := range l.order {
		if p.health.State != MustDie && l.sessions.late(p, now) {
			out = append(out, p.row.Cell)
		}
	}
	return out
}

func (s *sessions) why(p *process, now time.Duration) string {
	switch {
	case p.health.State == Healthy:
		return "beats and answers probes"
	case p.blocked:
		return "waits for the worker set"
	}
	return s.silence(p, now)
}

func (s *sessions) silence(p *process, now time.Duration) string {
	at, g := s.policy(now), s.gaps(p)
	switch {
	case !p.connected:
		return fmt.Sprintf("no report since this leader began, %v ago", (at - p.born).Round(time.Second))
	case at > p.health.LastBeat+g.Beat:
		return fmt.Sprintf("no heartbeat for %v", (at - p.health.LastBeat).Round(time.Second))
	case p.health.LastProbe == never:
		return "no probe answered yet"
	case at > p.health.LastProbe+g.Probe:
		return fmt.Sprintf("last answered probe sent %v ago", (at - p.health.LastProbe).Round(time.Second))
	}
	return "not reported"
}

// parting is how a session ends: silence, another machine that took its cell's name, or a later
// process that took its directory in the same boot.
type parting int

const (
	lost parting = iota
	bumped
	succeeded
)

// mustDie ends a session at the leader. Its work stays held until it is dead.
func (s *sessions) mustDie(p *process, now time.Duration, why string, how parting) {
	if p.health.State == MustDie {
		return
	}
	from := p.health.State
	p.health.State = MustDie
	p.unsure = unsureList{}
	if !p.member {
		s.leaveSet(p)
	}
	s.do(SessionChanged{p.row.Cell, p.row.Proc, from, MustDie, p.health.HasBeenHealthy, how != lost, how == succeeded,
		why})
}

// leaveSet removes p from the worker set: when it is certainly dead, or has never had a row. A
// process that is lost or displaced, and may still run work, stays in it.
func (s *sessions) leaveSet(p *process) {
	if s.set != nil {
		s.set.Leave(string(p.row.Proc))
	}
}

// tick handles the passing of time (Bistro: updateState): deadlines, timeouts, retries, the wait.
func (l *Leader) tick(now time.Duration, e Tick) {
	lease := e.LeaseHeld
	if !lease {
		l.stalled += now - l.lastTick
	}
	since := now - l.lastTick
	l.lastTick = now
	if l.sessions.set != nil {
		l.sessions.set.Tick()
	}
	live := l.order[:0]
	for _, p := range l.order {
		if l.procs[p.row.Proc] != p {
			continue
		}
		live = append(live, p)
		behind := slices.Contains(e.Behind, p.row.Cell)
		if behind && lease && (p.health.State == New || p.health.State == Unhealthy) {
			p.health.BecameUnhealthy += since // the time until it is lost is not the time that this leader is late
		}
		l.tickProcess(p, now, lease && !behind)
	}
	clear(l.order[len(live):])
	l.order = live
	l.waiting.tickWait(now)
}

// tickProcess looks at one process; judge: its silence counts.
func (l *Leader) tickProcess(p *process, now time.Duration, judge bool) {
	if at, ok := l.sessions.expiry(p); ok && !p.dead && now > at && !l.reports(p) && !l.survived(p) {
		l.sessions.mustDie(p, now, "its promise passed without credit", lost)
		l.die(p, now, ProofExpiry)
		return
	}
	if judge {
		l.sessions.miss(p, now)
	}
	if p.displaced {
		return
	}
	if judge {
		l.sessions.evaluate(p, now)
	}
	if p.health.State == MustDie {
		l.drop(p, now)
		return
	}
	if !p.connected {
		return
	}
	if p.health.State == New {
		l.sessions.requestReport(p)
	}
	if l.policy(now) >= p.probe.due {
		l.sessions.sendProbe(p, now)
	}
	l.batch.checkUnsure(p, now)
	l.batch.resendKills(p, now)
}

// drop removes a lost process without a row once none of its messages can still arrive.
func (l *Leader) drop(p *process, now time.Duration) {
	if p.member || l.policy(now) < p.health.BecameUnhealthy+l.t.Lost+l.t.Stretch(l.t.MaxDiesWithin) {
		return
	}
	if p.holds(l.roster) {
		delete(l.holders, p.row.Cell)
	}
	l.forget(p)
}

// expiry is when p is certainly dead without further proof; ok is false when it never is.
func (s *sessions) expiry(p *process) (at time.Duration, ok bool) {
	promise := max(p.row.Promise, p.promised)
	if !p.member || promise == 0 {
		return 0, false
	}
	from := p.since
	if p.credited {
		from = p.credit
	}
	return from + s.t.Stretch(promise), true
}

func (s *sessions) sendProbe(p *process, now time.Duration) {
	at := s.policy(now)
	p.probe.sent++
	p.probe.due = at + s.t.Healthcheck
	p.probe.open = append(p.probe.open, openProbe{p.probe.sent, at})
	if len(p.probe.open) > openProbes {
		p.probe.open = p.probe.open[1:]
	}
	s.do(SendRun{p.row.Cell, RunTask{Term: s.cfg.Term, Proc: p.row.Proc, Seq: p.seq, Probe: p.probe.sent, Beat: p.beat}})
}

// probed takes the answer to a probe. Any answer counts as contact at the time
// the probe was sent; three failing ones in a row make the cell unavailable.
func (s *sessions) probed(p *process, now time.Duration, it StatusItem) {
	i := slices.IndexFunc(p.probe.open, func(o openProbe) bool { return o.number == it.Probe })
	if i < 0 {
		return
	}
	p.health.LastProbe = max(p.health.LastProbe, p.probe.open[i].sent)
	p.probe.open = p.probe.open[i+1:]
	if it.OK {
		p.probe.failing = 0
		if p.probe.out {
			p.probe.out = false
			s.do(Availability{Cell: p.row.Cell, Proc: p.row.Proc}, StartsChanged{})
		}
	} else {
		p.probe.failing++
		p.probe.reason = it.Reason
		if p.probe.failing >= failsBeforeOut && !p.probe.out {
			p.probe.out = true
			s.do(Availability{p.row.Cell, p.row.Proc, true, it.Reason})
		}
	}
	s.contact(p, now)
}

func (s *sessions) requestReport(p *process) {
	s.do(SendReportRequest{p.row.Cell, ReportRequest{s.cfg.Term, p.row.Proc}})
}

// Sessions returns every process the leader knows, sorted by cell and process.
func (s *sessions) Sessions(now time.Duration) []SessionView {
	vs := make([]SessionView, 0, len(s.procs))
	for _, p := range s.procs {
		vs = append(vs, s.view(p, now))
	}
	slices.SortFunc(vs, func(a, b SessionView) int {
		return cmp.Or(cmp.Compare(a.Cell, b.Cell), cmp.Compare(a.Proc, b.Proc))
	})
	return vs
}

// Session returns the process that holds the cell's name.
func (s *sessions) Session(now time.Duration, cell CellName) (SessionView, bool) {
	p := s.holders[cell]
	if p == nil {
		return SessionView{}, false
	}
	return s.view(p, now), true
}

// Process returns a process that the leader knows, whether it holds its cell's name or not.
func (s *sessions) Process(now time.Duration, proc Proc) (SessionView, bool) {
	p := s.procs[proc]
	if p == nil {
		return SessionView{}, false
	}
	return s.view(p, now), true
}

func (s *sessions) view(p *process, now time.Duration) SessionView {
	v := SessionView{Cell: p.row.Cell, Proc: p.row.Proc, State: p.health.State, Holder: p.holds(s.roster),
		Member:   p.member,
		Reported: p.reported, Eligible: p.reported && p.durable, Displaced: p.displaced, Dead: p.dead,
		Blocked: p.blocked && p.health.State == Unhealthy, Unavailable: p.probe.out, Promise: p.row.Promise,
		Work: len(p.work), Unsure: len(p.unsure.runs)}
	if p.probe.out {
		v.Reason = p.probe.reason
	} else {
		v.Reason = s.why(p, now)
	}
	if at, ok := s.expiry(p); ok {
		v.Expiry = max(0, at-now)
	}
	return v
}
