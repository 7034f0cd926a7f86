package sim

import (
	"slices"
	"time"

	"cantina/fence"
	"cantina/worker"
)

// before is the agent's view before a step.
type before struct {
	proc  worker.Proc
	term  fence.Term
	state worker.State
}

func (p *promises) view() before {
	return before{p.m.agent.Proc(), p.m.agent.Term(), p.m.agent.State()}
}

func has[E worker.CellEffect](es []worker.CellEffect) bool {
	return slices.ContainsFunc(es, func(e worker.CellEffect) bool { _, ok := e.(E); return ok })
}

// contract checks the contract of each call, right after the step that handled it.
func (p *promises) contract(b before, e worker.CellEvent, es []worker.CellEffect) {
	if p.m.agent.Ended() {
		return
	}
	if p.proc != p.m.agent.Proc() || p.term != p.m.agent.Term() {
		p.proc, p.term, p.credited, p.beatBy, p.statusBy, p.eligible = p.m.agent.Proc(), p.m.agent.Term(), 0, 0, 0, false
	}
	if b.proc != p.proc {
		p.sent, p.probing = map[int64]time.Duration{}, 0
	}
	p.answers(b, e, es)
	p.ownEnds(e, es)
	p.follows(b, e, es)
	p.rests(b, e, es)
	p.timely(b, es)
	p.accepts(es)
}

// accepts: a cell that takes work has all that work rests on.
func (p *promises) accepts(es []worker.CellEffect) {
	for _, f := range es {
		if d, ok := f.(worker.SetDeadline); ok {
			p.until = d.At
		}
	}
	if p.m.agent.Accepts(p.m.local()) == nil {
		p.grounded("accepts work", p.until)
	}
}

// answers: each call gets its response, and the request is fulfilled.
func (p *promises) answers(b before, e worker.CellEvent, es []worker.CellEffect) {
	dying := p.m.agent.State() == worker.MustDie
	ok, what := true, ""
	switch e := e.(type) {
	case worker.ReportAsked:
		ok, what = e.Call.Proc != b.proc || dying || has[worker.AnswerReport](es), "getRunningTasks has no answer"
	case worker.RunAsked:
		if e.Call.Probe == 0 {
			ok, what = has[worker.AnswerRun](es), "runTask has no answer"
		} else {
			mine := e.Call.Proc == b.proc && !e.Call.Term.Less(b.term) && !dying
			ok, what = !mine || p.probing != 0 || has[worker.StartProbe](es), "a probe is not started"
			if has[worker.StartProbe](es) {
				p.probing = e.Call.Probe
			}
		}
	case worker.ProbeEnded:
		if p.probing == e.Probe {
			p.probing = 0
		}
	case worker.NotifyAsked:
		ok, what = has[worker.AnswerNotify](es), "notifyIfTasksNotRunning has no answer"
	case worker.KillAsked:
		ok, what = has[worker.AnswerKill](es), "killTask has no answer"
	case worker.SuicideAsked:
		mine := e.Call.Proc == b.proc && !e.Call.Term.Less(b.term)
		ok, what = !mine || dying, "a process that was asked to die lives on"
	case worker.CallHeard:
		ok, what = !p.m.agent.Term().Less(e.Term), "a higher term was not taken"
	case worker.LeaveAsked:
		ok, what = p.m.agent.Accepts(p.m.local()) != nil, "a leaving cell accepts work"
	case worker.LinkBroken:
		ok, what = dying || has[worker.SendBeat](es), "no heartbeat when the link broke"
	}
	if !ok {
		p.m.w.fail("contract", "%s (%s): %T: %s", p.m.name, b.proc, e, what)
	}
}

// follows: the response to the newest heartbeat is obeyed, and the cell's log has its state.
func (p *promises) follows(b before, e worker.CellEvent, es []worker.CellEffect) {
	for _, f := range es {
		if c, ok := f.(worker.CellChanged); ok {
			p.shown = c.To
		}
	}
	if p.shown != p.m.agent.State() {
		p.m.w.fail("contract", "%s is %v and reported %v", p.m.name, p.m.agent.State(), p.shown)
	}
	a, ok := e.(worker.BeatAnswered)
	if !ok || a.Answer.Proc != b.proc || !p.fresh || a.Answer.Term.Less(b.term) || b.state == worker.MustDie {
		return
	}
	if die := a.Answer.Verdict == worker.Die || a.Answer.Verdict == worker.DieAll; die &&
		p.m.agent.State() != worker.MustDie {
		p.m.w.fail("contract", "%s was answered %v and is %v", p.m.name, a.Answer.Verdict, p.m.agent.State())
	}
	p.eligible = a.Answer.Eligible && a.Answer.Verdict == worker.Welcome
	if a.Answer.Credit && a.Answer.Verdict == worker.Welcome {
		p.credited, p.t = max(p.credited, p.sent[a.Answer.Beat]), a.Answer.Timeouts
	}
}

// timely: due work is done, and a process without credit gives up in time.
func (p *promises) timely(b before, es []worker.CellEffect) {
	now := p.m.local()
	if has[worker.SendBeat](es) || p.m.agent.State() == worker.MustDie {
		p.beatBy = 0
	}
	if has[worker.SendStatus](es) || p.m.agent.State() == worker.New {
		p.statusBy = 0
	}
	if p.beatBy > 0 && p.m.w.now > p.beatBy || p.statusBy > 0 && p.m.w.now > p.statusBy {
		p.m.w.fail("contract", "%s is late: beat by %v, status by %v", p.m.name, p.beatBy, p.statusBy)
	}
	if p.credited == 0 {
		return
	}
	gap := p.t.HeartbeatGap()
	if p.m.agent.State() == worker.Healthy && now > p.credited+gap {
		p.m.w.fail("I6", "%s is HEALTHY %v after its last credit", p.m.name, now-p.credited)
	}
	if !p.m.w.cfg.Alone && b.state == worker.Unhealthy && p.m.agent.State() == worker.Unhealthy &&
		now > p.credited+gap+p.t.Lost {
		p.m.w.fail("I6", "%s is not lost %v after its last credit", p.m.name, now-p.credited)
	}
}

// starting: work starts in a HEALTHY session with a durable row and credit, in time.
func (p *promises) starting() {
	p.grounded("starts work", p.m.deadline)
}

func (p *promises) grounded(what string, deadline time.Duration) {
	if p.m.agent.State() != worker.Healthy || !p.eligible || p.credited == 0 || deadline > 0 && p.m.local() >= deadline {
		p.m.w.fail("contract", "%s %s: %v, durable %v, credited %v, deadline in %v", p.m.name, what, p.m.agent.State(),
			p.eligible, p.credited, deadline-p.m.local())
	}
}

// beatSent: a heartbeat is true about deadline-bound work, and about predecessors.
func (p *promises) beatSent(h worker.Heartbeat) {
	p.sent[h.Beat] = p.m.local()
	older, own := 0, 0
	for _, c := range p.m.containers.live() {
		if c.procs[len(c.procs)-1] == h.Proc {
			own++
		} else {
			older++
		}
	}
	for _, u := range p.m.containers.units {
		switch last := u.procs[len(u.procs)-1]; {
		case u.alive && last != h.Proc:
			older++
		case u.alive && u.bound:
			own++
		}
	}
	if own > 0 && !h.HasWork {
		p.m.w.fail("contract", "%s holds %d containers and says that it holds none", p.m.name, own)
	}
	if h.PredecessorsGone != (older == 0) && (older > 0 || p.m.cleared) {
		p.m.w.fail("contract", "%s says %v of its predecessors, of whom %d containers are alive", p.m.name,
			h.PredecessorsGone, older)
	}
}

// rests: a refused cell waits a second, unless something happens, and not longer.
func (p *promises) rests(b before, e worker.CellEvent, es []worker.CellEffect) {
	switch e := e.(type) {
	case worker.CellTick:
		if has[worker.SendBeat](es) && p.m.w.now < p.quiet {
			p.m.w.fail("contract", "%s was refused and beats again before %v", p.m.name, p.quiet)
		}
	case worker.BeatAnswered:
		p.quiet = 0
		newest := p.sent[e.Answer.Beat+1] == 0 && p.sent[e.Answer.Beat] > 0
		if e.Answer.Verdict == worker.Refused && e.Answer.Proc == b.proc && newest && !has[worker.SendBeat](es) &&
			b.state != worker.MustDie {
			p.quiet, p.beatBy = p.m.w.now+900*time.Millisecond, p.m.w.now+1350*time.Millisecond
		}
	default:
		p.quiet = 0
	}
}

// expect records the effect of an event on the promises, before it is handled; it reports whether
// the failed heartbeat is the newest.
func (p *promises) expect(e worker.CellEvent) (newest bool) {
	switch e := e.(type) {
	case worker.BeatAnswered:
		if e.Answer.Proc == p.m.agent.Proc() {
			p.fresh = e.Answer.Beat > p.answered
			p.answered, p.beatBy = max(p.answered, e.Answer.Beat), 0
		}
	case worker.StatusAnswered:
		p.statusBy = 0
	case worker.BeatFailed:
		return p.sent[e.Beat] > 0 && p.sent[e.Beat+1] == 0
	}
	return false
}

// prod gives a process deadline-bound work at times, and asks it at any time whether it takes some,
// also after a pause.
func prod(m *machine) {
	if m.w.chance(15) {
		m.containers.perform()
	}
	if m.w.chance(100) {
		m.later(m.w.between(0, time.Second), func() { m.promises.accepts(nil) })
	}
	m.later(100*time.Millisecond+m.w.between(0, lateness), func() { prod(m) })
}

// promised records the required consequences of a handled event.
func (p *promises) promised(e worker.CellEvent, newest bool, es []worker.CellEffect) {
	switch e := e.(type) {
	case worker.BeatFailed:
		if newest && p.beatBy == 0 && p.sent[e.Beat+1] == 0 {
			p.beatBy = p.m.w.now + 850*time.Millisecond
		}
	case worker.StatusFailed:
		if p.unacked() && p.m.agent.State() != worker.New && !has[worker.SendStatus](es) {
			p.statusBy = p.m.w.now + 1500*time.Millisecond
		}
	}
}

func (p *promises) unacked() bool {
	return slices.ContainsFunc(p.m.agent.Held(), func(h worker.Held) bool { return h.Ended })
}
