package sim

import (
	"slices"
	"time"

	"cantina/fence"
	"cantina/worker"
)

// promises is what the world remembers of a cell's process to check what the
// protocol promises of it at each step.
type promises struct {
	proc     worker.Proc
	term     fence.Term
	shown    worker.State            // by CellChanged
	sent     map[int64]time.Duration // when each heartbeat was sent, local
	credited time.Duration           // sending time of the newest credited beat of this term; 0 = none
	t        worker.Timeouts         // of the newest answer
	beatBy   time.Duration           // true time; 0 = none
	statusBy time.Duration
	quiet    time.Duration // refused: no heartbeat before that without a cause
	probing  bool
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

// contract checks what each call promises, right after the step that took it.
func (m *machine) contract(b before, e worker.CellEvent, es []worker.CellEffect) {
	p := &m.promises
	if m.agent.Ended() {
		return
	}
	if p.proc != m.agent.Proc() || p.term != m.agent.Term() {
		p.proc, p.term, p.credited, p.beatBy, p.statusBy = m.agent.Proc(), m.agent.Term(), 0, 0, 0
	}
	if b.proc != p.proc {
		p.sent, p.probing = map[int64]time.Duration{}, false
	}
	m.answers(b, e, es)
	m.follows(b, e, es)
	m.rests(b, e, es)
	m.timely(b, es)
}

// answers: each call gets its answer, and what it asks for happens.
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
			ok, what = !mine || m.promises.probing || has[worker.StartProbe](es), "a probe is not started"
			m.promises.probing = m.promises.probing || has[worker.StartProbe](es)
		}
	case worker.ProbeEnded:
		m.promises.probing = false
	case worker.NotifyAsked:
		ok, what = has[worker.AnswerNotify](es), "notifyIfTasksNotRunning has no answer"
	case worker.KillAsked:
		ok, what = has[worker.AnswerKill](es), "killTask has no answer"
	case worker.SuicideAsked:
		mine := e.Call.Proc == b.proc && !e.Call.Term.Less(b.term)
		ok, what = !mine || dying, "a process that was asked to die lives on"
	case worker.CallHeard:
		ok, what = !m.agent.Term().Less(e.Term), "a higher term was not taken"
	case worker.FarewellAsked:
		ok, what = m.agent.Accepts(m.local()) != nil, "a leaving cell accepts work"
	case worker.LinkBroken:
		ok, what = dying || has[worker.SendBeat](es), "no heartbeat when the link broke"
	}
	if !ok {
		m.w.fail("contract", "%s (%s): %T: %s", m.name, b.proc, e, what)
	}
}

// follows: the answer to the newest heartbeat is obeyed, and the cell's log tells its state.
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
	if !ok || a.Answer.Proc != b.proc || a.Answer.Beat < m.answered || a.Answer.Term.Less(b.term) || b.state == worker.MustDie {
		return
	}
	if die := a.Answer.Verdict == worker.Die || a.Answer.Verdict == worker.DieAll; die && m.agent.State() != worker.MustDie {
		m.w.fail("contract", "%s was told %v and is %v", m.name, a.Answer.Verdict, m.agent.State())
	}
	if a.Answer.Credit && a.Answer.Verdict == worker.Welcome {
		m.promises.credited, m.promises.t = max(m.promises.credited, m.promises.sent[a.Answer.Beat]), a.Answer.Timeouts
	}
}

// timely: what is due is done, and who has no credit gives up in time.
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
	if p.credited == 0 || m.w.cfg.Mistakes != (worker.Mistakes{}) {
		return
	}
	gap := p.t.HeartbeatGap()
	if m.agent.State() == worker.Healthy && now > p.credited+gap {
		m.w.fail("I6", "%s is HEALTHY %v after its last credit", m.name, now-p.credited)
	}
	if b.state == worker.Unhealthy && m.agent.State() == worker.Unhealthy && now > p.credited+gap+p.t.Lost {
		m.w.fail("I6", "%s is not lost %v after its last credit", m.name, now-p.credited)
	}
}

// beatSent: a heartbeat tells the truth about deadline-bound work, and about predecessors.
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
	if m.w.calm || !m.w.chance(15) || m.agent.Accepts(m.local()) != nil {
		return
	}
	m.w.seq++
	c := &container{m: m, extra: true, alive: true, procs: []worker.Proc{m.proc()},
		run: worker.Run{Invocation: fence.Invocation{Term: fence.Term{Epoch: -1}, Counter: int64(m.w.seq)}}}
	m.box[c.run.Invocation] = c
	m.w.check.all = append(m.w.check.all, c)
	m.counted()
	m.w.after(m.w.between(time.Second, 30*time.Second), func() { m.ended(c, "done") })
}

// counted tells the agent how many such containers its session holds.
func (m *machine) counted() {
	m.on(func() {
		n := 0
		for _, c := range m.live() {
			if c.extra && c.procs[len(c.procs)-1] == m.proc() {
				n++
			}
		}
		m.step(worker.BoundCount{Containers: n})
	})
}

// rests: a refused cell waits a second, unless something happens.
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
			m.promises.quiet = m.w.now + 900*time.Millisecond
		}
	default:
		m.promises.quiet = 0
	}
}

// contract checks what the leader promises, right after a step.
func (r *reign) contract(e worker.Event, out worker.Output) {
	switch e := e.(type) {
	case worker.StatusReceived:
		if !e.Update.Term.Less(r.term) {
			return
		}
		for _, f := range out.Effects {
			if a, ok := f.(worker.AnswerStatus); !ok || a.Answer.OK {
				r.s.w.fail("contract", "a status of an earlier term: %T%v", f, f)
			}
		}
	case worker.RunAnswered:
		for _, v := range r.leader.Running(e.Answer.Run.Work) {
			known := v.Run == e.Answer.Run && v.Proc == e.Answer.Proc && !v.Ending && r.lives(v.Proc)
			if known && e.Answer.Result == worker.RunOK && !v.Sure {
				r.s.w.fail("contract", "%v runs, and the leader is not sure", v.Run)
			}
		}
	}
}

func (r *reign) lives(p worker.Proc) bool {
	for _, v := range r.leader.Sessions(r.s.local()) {
		if v.Proc == p {
			return v.State != worker.MustDie && !v.Dead
		}
	}
	return false
}

// explains: a refusal names the reason that the views show.
func (r *reign) explains(q worker.Request) {
	if r.s.w.cfg.Mistakes != (worker.Mistakes{}) {
		return
	}
	now, l := r.s.local(), r.leader
	h, ok := l.MayReceive(q.Cell)
	if h.Reason == worker.HoldDeposed {
		return // EndTerm waits for the commit before it
	}
	v, held := l.Session(now, q.Cell)
	want := worker.HoldNone
	switch {
	case !held:
		want = worker.HoldNoSession
	case !v.Reported:
		want = worker.HoldNotReported
	case !v.Eligible:
		want = worker.HoldNotMember
	case v.State != worker.Healthy && v.Blocked:
		want = worker.HoldConsensus
	case v.State != worker.Healthy:
		want = worker.HoldNotHealthy
	case v.Unavailable:
		want = worker.HoldUnavailable
	}
	if h.Reason != want || ok != (want == worker.HoldNone) {
		r.s.w.fail("contract", "%s: %v, want %v (%+v)", q.Cell, h.Reason, want, v)
	}
	wait := l.Wait(now)
	free := len(l.Running(q.Work)) == 0 && (!wait.Active || !wait.Blind && !r.jobs[q.Work.Job] && len(q.Nodes) == 0)
	if _, ok := l.MayRun(now, q); free && !ok {
		r.s.w.fail("contract", "%v is new, and held", q.Work)
	}
}
