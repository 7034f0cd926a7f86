package sim

import (
	"fmt"
	"slices"
	"time"

	"cantina/executor"
	"cantina/fence"
	"cantina/worker"
)

// promises is the data about a cell's process that is needed to check the contract of the protocol
// at each step.
type promises struct {
	proc     worker.Proc
	term     fence.Term
	shown    worker.State            // by CellChanged
	sent     map[int64]time.Duration // when each heartbeat was sent, local
	credited time.Duration           // sending time of the newest credited heartbeat of this term; 0 = none
	until    time.Duration           // the deadline that was set last, local; 0 = none
	t        worker.Timeouts         // of the newest answer
	beatBy   time.Duration           // true time; 0 = none
	statusBy time.Duration
	fresh    bool          // the present response belongs to a newer heartbeat than any before
	eligible bool          // from the newest response of this term
	quiet    time.Duration // refused: no heartbeat before that without a cause
	probing  int64         // number of the probe that runs; 0 = none
}

// before is the agent's view before a step.
type before struct {
	proc  worker.Proc
	term  fence.Term
	state worker.State
}

func (m *machine) view() before { return before{m.agent.Proc(), m.agent.Term(), m.agent.State()} }

func has[E worker.CellEffect](es []worker.CellEffect) bool {
	return slices.ContainsFunc(es, func(e worker.CellEffect) bool { _, ok := e.(E); return ok })
}

// contract checks the contract of each call, right after the step that handled it.
func (m *machine) contract(b before, e worker.CellEvent, es []worker.CellEffect) {
	p := &m.promises
	if m.agent.Ended() {
		return
	}
	if p.proc != m.agent.Proc() || p.term != m.agent.Term() {
		p.proc, p.term, p.credited, p.beatBy, p.statusBy, p.eligible = m.agent.Proc(), m.agent.Term(), 0, 0, 0, false
	}
	if b.proc != p.proc {
		p.sent, p.probing = map[int64]time.Duration{}, 0
	}
	m.answers(b, e, es)
	m.ownEnds(e, es)
	m.follows(b, e, es)
	m.rests(b, e, es)
	m.timely(b, es)
	m.accepts(es)
}

// accepts: a cell that takes work has all that work rests on.
func (m *machine) accepts(es []worker.CellEffect) {
	for _, f := range es {
		if d, ok := f.(worker.SetDeadline); ok {
			m.promises.until = d.At
		}
	}
	if m.agent.Accepts(m.local()) == nil {
		m.grounded("accepts work", m.promises.until)
	}
}

// answers: each call gets its response, and the request is fulfilled.
func (m *machine) answers(b before, e worker.CellEvent, es []worker.CellEffect) {
	dying := m.agent.State() == worker.MustDie
	ok, what := true, ""
	switch e := e.(type) {
	case worker.ReportAsked:
		ok, what = e.Call.Proc != b.proc || dying || has[worker.AnswerReport](es), "getRunningTasks has no answer"
	case worker.RunAsked:
		if e.Call.Probe == 0 {
			ok, what = has[worker.AnswerRun](es), "runTask has no answer"
		} else {
			mine := e.Call.Proc == b.proc && !e.Call.Term.Less(b.term) && !dying
			ok, what = !mine || m.promises.probing != 0 || has[worker.StartProbe](es), "a probe is not started"
			if has[worker.StartProbe](es) {
				m.promises.probing = e.Call.Probe
			}
		}
	case worker.ProbeEnded:
		if m.promises.probing == e.Probe {
			m.promises.probing = 0
		}
	case worker.NotifyAsked:
		ok, what = has[worker.AnswerNotify](es), "notifyIfTasksNotRunning has no answer"
	case worker.KillAsked:
		ok, what = has[worker.AnswerKill](es), "killTask has no answer"
	case worker.SuicideAsked:
		mine := e.Call.Proc == b.proc && !e.Call.Term.Less(b.term)
		ok, what = !mine || dying, "a process that was asked to die lives on"
	case worker.CallHeard:
		ok, what = !m.agent.Term().Less(e.Term), "a higher term was not taken"
	case worker.LeaveAsked:
		ok, what = m.agent.Accepts(m.local()) != nil, "a leaving cell accepts work"
	case worker.LinkBroken:
		ok, what = dying || has[worker.SendBeat](es), "no heartbeat when the link broke"
	}
	if !ok {
		m.w.fail("contract", "%s (%s): %T: %s", m.name, b.proc, e, what)
	}
}

// follows: the response to the newest heartbeat is obeyed, and the cell's log has its state.
func (m *machine) follows(b before, e worker.CellEvent, es []worker.CellEffect) {
	for _, f := range es {
		if c, ok := f.(worker.CellChanged); ok {
			m.promises.shown = c.To
		}
	}
	if m.promises.shown != m.agent.State() {
		m.w.fail("contract", "%s is %v and told %v", m.name, m.agent.State(), m.promises.shown)
	}
	a, ok := e.(worker.BeatAnswered)
	if !ok || a.Answer.Proc != b.proc || !m.promises.fresh || a.Answer.Term.Less(b.term) || b.state == worker.MustDie {
		return
	}
	if die := a.Answer.Verdict == worker.Die || a.Answer.Verdict == worker.DieAll; die && m.agent.State() != worker.MustDie {
		m.w.fail("contract", "%s was told %v and is %v", m.name, a.Answer.Verdict, m.agent.State())
	}
	m.promises.eligible = a.Answer.Eligible && a.Answer.Verdict == worker.Welcome
	if a.Answer.Credit && a.Answer.Verdict == worker.Welcome {
		m.promises.credited, m.promises.t = max(m.promises.credited, m.promises.sent[a.Answer.Beat]), a.Answer.Timeouts
	}
}

// timely: due work is done, and a process without credit gives up in time.
func (m *machine) timely(b before, es []worker.CellEffect) {
	p, now := &m.promises, m.local()
	if has[worker.SendBeat](es) || m.agent.State() == worker.MustDie {
		p.beatBy = 0
	}
	if has[worker.SendStatus](es) || m.agent.State() == worker.New {
		p.statusBy = 0
	}
	if p.beatBy > 0 && m.w.now > p.beatBy || p.statusBy > 0 && m.w.now > p.statusBy {
		m.w.fail("contract", "%s is late: beat by %v, status by %v", m.name, p.beatBy, p.statusBy)
	}
	if p.credited == 0 {
		return
	}
	gap := p.t.HeartbeatGap()
	if m.agent.State() == worker.Healthy && now > p.credited+gap {
		m.w.fail("I6", "%s is HEALTHY %v after its last credit", m.name, now-p.credited)
	}
	if !m.w.cfg.Alone && b.state == worker.Unhealthy && m.agent.State() == worker.Unhealthy && now > p.credited+gap+p.t.Lost {
		m.w.fail("I6", "%s is not lost %v after its last credit", m.name, now-p.credited)
	}
}

// starting: work starts in a HEALTHY session with a durable row and credit, in time.
func (m *machine) starting() {
	m.grounded("starts work", m.deadline)
}

func (m *machine) grounded(what string, deadline time.Duration) {
	p := &m.promises
	if m.agent.State() != worker.Healthy || !p.eligible || p.credited == 0 || deadline > 0 && m.local() >= deadline {
		m.w.fail("contract", "%s %s: %v, durable %v, credited %v, deadline in %v", m.name, what, m.agent.State(), p.eligible, p.credited, deadline-m.local())
	}
}

// beatSent: a heartbeat is true about deadline-bound work, and about predecessors.
func (m *machine) beatSent(h worker.Heartbeat) {
	m.promises.sent[h.Beat] = m.local()
	older, own := 0, 0
	for _, c := range m.live() {
		if c.procs[len(c.procs)-1] == h.Proc {
			own++
		} else {
			older++
		}
	}
	for _, u := range m.units {
		switch last := u.procs[len(u.procs)-1]; {
		case u.alive && last != h.Proc:
			older++
		case u.alive && u.bound:
			own++
		}
	}
	if own > 0 && !h.HasWork {
		m.w.fail("contract", "%s holds %d containers and says that it holds none", m.name, own)
	}
	if h.PredecessorsGone != (older == 0) && (older > 0 || m.cleared) {
		m.w.fail("contract", "%s says %v of its predecessors, of whom %d containers are alive", m.name, h.PredecessorsGone, older)
	}
}

// perform starts a deadline-bound container that is no batch task, where the cell
// accepts one: a task, or an exclusive service.
func (m *machine) perform() {
	if m.w.calm || m.agent.Accepts(m.local()) != nil {
		return
	}
	m.accepts(nil)
	m.w.seq++
	c := &container{m: m, id: fmt.Sprint("x-", m.w.seq), extra: true, alive: true, procs: []worker.Proc{m.proc()},
		run: worker.Run{Invocation: fence.Invocation{Term: fence.Term{Epoch: -1}, Counter: int64(m.w.seq)}}}
	m.box = append(m.box, c)
	m.w.check.all = append(m.w.check.all, c)
	m.cell.Happened(executor.Event{Kind: executor.EventExpired}) // count again
	m.w.after(m.w.between(time.Second, 30*time.Second), func() { m.ended(c, "done") })
}

// rests: a refused cell waits a second, unless something happens, and not longer.
func (m *machine) rests(b before, e worker.CellEvent, es []worker.CellEffect) {
	switch e := e.(type) {
	case worker.CellTick:
		if has[worker.SendBeat](es) && m.w.now < m.promises.quiet {
			m.w.fail("contract", "%s was refused and beats again before %v", m.name, m.promises.quiet)
		}
	case worker.BeatAnswered:
		m.promises.quiet = 0
		newest := m.promises.sent[e.Answer.Beat+1] == 0 && m.promises.sent[e.Answer.Beat] > 0
		if e.Answer.Verdict == worker.Refused && e.Answer.Proc == b.proc && newest && !has[worker.SendBeat](es) && b.state != worker.MustDie {
			m.promises.quiet, m.promises.beatBy = m.w.now+900*time.Millisecond, m.w.now+1350*time.Millisecond
		}
	default:
		m.promises.quiet = 0
	}
}

// expect records the effect of an event on the promises, before it is handled; it reports whether
// the failed heartbeat is the newest.
func (m *machine) expect(e worker.CellEvent) (newest bool) {
	switch e := e.(type) {
	case worker.BeatAnswered:
		if e.Answer.Proc == m.agent.Proc() {
			m.promises.fresh = e.Answer.Beat > m.answered
			m.answered, m.promises.beatBy = max(m.answered, e.Answer.Beat), 0
		}
	case worker.StatusAnswered:
		m.promises.statusBy = 0
	case worker.BeatFailed:
		return m.promises.sent[e.Beat] > 0 && m.promises.sent[e.Beat+1] == 0
	}
	return false
}

// prod gives a process deadline-bound work at times, and asks it at any time whether it takes some,
// also after a pause.
func prod(m *machine) {
	if m.w.chance(15) {
		m.perform()
	}
	if m.w.chance(100) {
		m.later(m.w.between(0, time.Second), func() { m.accepts(nil) })
	}
	m.later(100*time.Millisecond+m.w.between(0, lateness), func() { prod(m) })
}

// promised records the required consequences of a handled event.
func (m *machine) promised(e worker.CellEvent, newest bool, es []worker.CellEffect) {
	switch e := e.(type) {
	case worker.BeatFailed:
		if newest && m.promises.beatBy == 0 && m.promises.sent[e.Beat+1] == 0 {
			m.promises.beatBy = m.w.now + 850*time.Millisecond
		}
	case worker.StatusFailed:
		if m.unacked() && m.agent.State() != worker.New && !has[worker.SendStatus](es) {
			m.promises.statusBy = m.w.now + 1500*time.Millisecond
		}
	}
}

func (m *machine) unacked() bool {
	return slices.ContainsFunc(m.agent.Held(), func(h worker.Held) bool { return h.Ended })
}
