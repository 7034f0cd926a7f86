package worker

import (
	"cmp"
	"fmt"
	"slices"
	"time"
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

// gaps are the limits of p's session at the leader.
func (l *Leader) gaps(p *process) Gaps {
	return Gaps{Probe: l.t.HealthcheckGap(), Beat: max(p.period, time.Second) + l.t.HeartbeatGrace, Lost: l.t.Lost}
}

// evaluate moves p's session to its state at now.
func (l *Leader) evaluate(p *process, now time.Duration) {
	if p.health.State == MustDie {
		return
	}
	from, was := p.health.State, p.health.HasBeenHealthy
	allowed := l.set == nil || l.set.Permits(string(p.row.Proc))
	p.blocked = p.health.Advance(l.policy(now), l.gaps(p), allowed)
	to := p.health.State
	if from == to {
		return
	}
	if to == MustDie {
		p.health.State = from
		l.mustDie(p, now, "lost: "+l.silence(p, now), lost)
		l.do(SendSuicide{p.row.Cell, Suicide{l.cfg.Term, p.row.Proc, false}})
		return
	}
	l.do(SessionChanged{p.row.Cell, p.row.Proc, from, to, was, false, false, l.why(p, now)})
	if to == Healthy {
		l.do(StartsChanged{})
	}
}

// miss tells of a process that is not HEALTHY in time and never was in this term. One that was is
// told as a change to UNHEALTHY; the leader before this one may have routed to both.
func (l *Leader) miss(p *process, now time.Duration) {
	h, g, at := p.health, l.gaps(p), l.policy(now)
	switch {
	case h.State == MustDie || h.HasBeenHealthy || p.blocked:
		p.unheard = false
	case !p.unheard && (at > max(p.born, h.LastBeat)+g.Beat || at > max(p.born, h.LastProbe)+g.Probe):
		p.unheard = true
		l.do(Unheard{p.row.Cell, p.row.Proc, l.silence(p, now)})
	}
}

func (l *Leader) why(p *process, now time.Duration) string {
	switch {
	case p.health.State == Healthy:
		return "beats and answers probes"
	case p.blocked:
		return "waits for the worker set"
	}
	return l.silence(p, now)
}

func (l *Leader) silence(p *process, now time.Duration) string {
	at, g := l.policy(now), l.gaps(p)
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

// parting is how a session ends: nobody heard of it, another machine took its
// cell's name, or a later process took its folder in the same boot.
type parting int

const (
	lost parting = iota
	bumped
	succeeded
)

// mustDie ends a session at the leader. Its work stays held until it is dead.
func (l *Leader) mustDie(p *process, now time.Duration, why string, how parting) {
	if p.health.State == MustDie {
		return
	}
	from := p.health.State
	p.health.State = MustDie
	p.unsure = unsureList{}
	if !p.member {
		l.leaveSet(p)
	}
	l.do(SessionChanged{p.row.Cell, p.row.Proc, from, MustDie, p.health.HasBeenHealthy, how != lost, how == succeeded, why})
}

// leaveSet takes p out of the worker set: when it is certainly dead, or has never had a row. One
// that is lost or displaced, and may still run work, stays in it.
func (l *Leader) leaveSet(p *process) {
	if l.set != nil {
		l.set.Leave(string(p.row.Proc))
	}
}

// slept takes a time in which the leader did nothing out of the policy clock, at the
// first event after it: what cells sent meanwhile may come before the tick.
func (l *Leader) slept(now time.Duration) {
	if gap := now - l.lastTick; gap > 2*l.t.Check {
		l.stalled += gap - l.t.Check
		l.lastTick = now - l.t.Check
	}
}

// tick is updateState: deadlines, time-outs, retries, the wait.
func (l *Leader) tick(now time.Duration, lease bool) {
	if !lease {
		l.stalled += now - l.lastTick
	}
	l.lastTick = now
	if l.set != nil {
		l.set.Tick()
	}
	live := l.order[:0]
	for _, p := range l.order {
		if l.procs[p.row.Proc] != p {
			continue
		}
		live = append(live, p)
		l.tickProcess(p, now, lease)
	}
	clear(l.order[len(live):])
	l.order = live
	l.tickWait(now)
}

func (l *Leader) tickProcess(p *process, now time.Duration, lease bool) {
	if at, ok := l.expiry(p); ok && !p.dead && now > at && !l.reports(p) && !l.survived(p) {
		l.mustDie(p, now, "its promise passed without credit", lost)
		l.die(p, now, ProofExpiry)
		return
	}
	if lease {
		l.miss(p, now)
	}
	if p.displaced || !p.connected && p.health.State == MustDie {
		return
	}
	if lease {
		l.evaluate(p, now)
	}
	if p.health.State == MustDie {
		l.drop(p, now)
		return
	}
	if !p.connected {
		return
	}
	if p.health.State == New {
		l.requestReport(p)
	}
	if l.policy(now) >= p.probe.due {
		l.sendProbe(p, now)
	}
	l.checkUnsure(p, now)
	l.resendKills(p, now)
}

// drop forgets a lost process without a row once nothing of it can come back.
func (l *Leader) drop(p *process, now time.Duration) {
	if p.member || l.policy(now) < p.health.BecameUnhealthy+l.t.Lost+l.t.Stretch(l.t.MaxDiesWithin) {
		return
	}
	if p.holds(l) {
		delete(l.holders, p.row.Cell)
	}
	l.forget(p)
}

// survived reports whether a later process of p's folder says that something of an earlier one
// is not gone, though it had to die by the deadline: it does not die by KILL. Nothing of p is
// taken for dead by time as long as that is said.
func (l *Leader) survived(p *process) bool {
	return slices.ContainsFunc(l.folders[p.row.Folder], func(q *process) bool {
		return q.row.Started > p.row.Started && q.row.Boot == p.row.Boot && q.connected && q.remains && !q.dead && q.health.State != MustDie
	})
}

// reports reports whether a later process of p's folder has come and is about to say what it has of
// p's work, ends that p could not tell among it: nothing of p is judged before. It ends with the report,
// or when the later process is lost.
func (l *Leader) reports(p *process) bool {
	return slices.ContainsFunc(l.folders[p.row.Folder], func(q *process) bool {
		return q.row.Started > p.row.Started && q.connected && !q.reported && !q.dead && q.health.State != MustDie
	})
}

// expiry is when p is certainly dead without further proof; ok is false when it never is.
func (l *Leader) expiry(p *process) (at time.Duration, ok bool) {
	promise := max(p.row.Promise, p.promised)
	if !p.member || promise == 0 {
		return 0, false
	}
	from := p.since
	if p.credited {
		from = p.credit
	}
	return from + l.t.Stretch(promise), true
}

func (l *Leader) sendProbe(p *process, now time.Duration) {
	at := l.policy(now)
	p.probe.sent++
	p.probe.due = at + l.t.Healthcheck
	p.probe.open = append(p.probe.open, openProbe{p.probe.sent, at})
	if len(p.probe.open) > openProbes {
		p.probe.open = p.probe.open[1:]
	}
	l.do(SendRun{p.row.Cell, RunTask{Term: l.cfg.Term, Proc: p.row.Proc, Seq: p.seq, Probe: p.probe.sent, Beat: p.beat}})
}

// probed takes the answer to a probe. Any answer counts as contact at the time
// the probe was sent; three failing ones in a row make the cell unavailable.
func (l *Leader) probed(p *process, now time.Duration, it StatusItem) {
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
			l.do(Availability{Cell: p.row.Cell, Proc: p.row.Proc}, StartsChanged{})
		}
	} else {
		p.probe.failing++
		p.probe.reason = it.Reason
		if p.probe.failing >= failsBeforeOut && !p.probe.out {
			p.probe.out = true
			l.do(Availability{p.row.Cell, p.row.Proc, true, it.Reason})
		}
	}
	l.evaluate(p, now)
}
