package sim

import (
	"time"

	"cantina/worker"
)

// perform does the effects in order; the process may die between any two.
func (r *reign) perform(es []worker.Effect) {
	for _, e := range es {
		if r.over || r.dies() {
			return
		}
		r.effect(e)
	}
}

func (r *reign) effect(e worker.Effect) {
	w := r.s.w
	w.trace("  leader %v: %T%v", r.term, e, e)
	switch e := e.(type) {
	case worker.AnswerBeat:
		r.toCell(OpBeatAnswer, e.Answer.Proc, worker.BeatAnswered(e))
		r.market.answered(w.byProc[e.Answer.Proc].name, e.Answer)
		if r.board != nil {
			r.board.beatAnswered(w.byProc[e.Answer.Proc].name, e.Answer)
		}
	case worker.AnswerStatus:
		w.check.acknowledged(w, r, e.Answer)
		r.toCell(OpStatusAnswer, e.Answer.Proc, worker.StatusAnswered(e))
	case worker.SendReportRequest:
		r.toCell(OpGetRunning, e.Call.Proc, worker.ReportAsked{Call: e.Call})
	case worker.SendRun:
		r.sendRun(e.Call)
	case worker.SendNotify:
		r.sendNotify(e.Call)
	case worker.SendKill:
		r.toCell(OpKill, e.Call.Proc, worker.KillAsked{Call: e.Call})
	case worker.SendSuicide:
		r.toCell(OpSuicide, e.Call.Proc, worker.SuicideAsked{Call: e.Call})
	case worker.Ended:
		r.sched.Ended(e)
	case worker.StartsChanged:
		r.sched.StartsChanged()
	case worker.Dead:
		w.check.dead(w, r, e)
		if r.board != nil {
			r.board.died(e)
		}
		r.market.admit(e.Cell)
	case worker.EndTerm:
		r.end("a higher term was heard: " + e.Higher.String())
	case worker.SessionChanged:
		if r.board != nil {
			r.board.sessionChanged(e)
		}
		r.market.admit(e.Cell)
	case worker.Availability:
		r.market.admit(e.Cell)
	case worker.Eligible:
		r.market.admit(e.Cell)
	case worker.Audit:
	}
}

func (r *reign) toCell(op Op, p worker.Proc, e worker.CellEvent) {
	w := r.s.w
	m := w.byProc[p]
	if m.deaf > w.now && op != OpBeatAnswer && op != OpStatusAnswer {
		w.res.Coverage.add(op, w)
		w.trace("  net: %v to %s: no connection", op, m.name)
		return
	}
	w.send(op, w.serverNode(r.s.id), w.machineNode(m.id), func() { m.on(func() { m.step(e) }) })
}

// callTimeout is how long the leader waits for the answer to a call.
const callTimeout = time.Second

func (r *reign) sendRun(c worker.RunTask) {
	w := r.s.w
	m := w.byProc[c.Proc]
	if c.Probe > 0 {
		r.toCell(OpProbe, c.Proc, worker.RunAsked{Call: c})
		return
	}
	key := callKey{inv: c.Invocation}
	r.calls[key] = true
	answer := worker.RunAnswer{Term: r.term, Proc: c.Proc, Run: c.Run}
	if w.cut(w.serverNode(r.s.id), w.machineNode(m.id)) && w.chance(500) || !m.alive || m.deaf > w.now && w.chance(500) {
		answer.Result = worker.RunNeverSent
		delete(r.calls, key)
		r.s.later(time.Millisecond, func() { r.step(worker.RunAnswered{Answer: answer}) })
		return
	}
	r.toCell(OpRun, c.Proc, worker.RunAsked{Call: c})
	r.s.later(callTimeout, func() {
		if r.calls[key] {
			delete(r.calls, key)
			r.step(worker.RunAnswered{Answer: answer})
		}
	})
}

func (r *reign) sendNotify(c worker.Notify) {
	key := callKey{proc: c.Proc, notify: c.Seq}
	r.calls[key] = true
	r.toCell(OpNotify, c.Proc, worker.NotifyAsked{Call: c})
	r.s.later(callTimeout, func() {
		if r.calls[key] {
			delete(r.calls, key)
			r.step(worker.NotifyAnswered{Answer: worker.NotifyAnswer{Term: r.term, Proc: c.Proc, Seq: c.Seq}})
		}
	})
}

// fromCell hands a cell's message to the leader, if this server is one.
func (s *server) fromCell(m *machine, e worker.CellEffect) {
	r := s.reign
	if r == nil {
		return
	}
	switch e := e.(type) {
	case saidBeat:
		r.market.heard(e)
		if r.board != nil {
			r.board.beatHeard(e)
		}
		r.step(worker.BeatReceived{Beat: e.Beat, LeaseHeld: r.leaseHeld()})
	case worker.SendBeat:
		r.step(worker.BeatReceived{Beat: e.Beat, LeaseHeld: r.leaseHeld()})
	case worker.SendStatus:
		r.step(worker.StatusReceived(e))
	case worker.AnswerReport:
		r.step(worker.ReportReceived(e))
	case worker.AnswerRun:
		if key := (callKey{inv: e.Answer.Run.Invocation}); r.calls[key] {
			delete(r.calls, key)
			r.step(worker.RunAnswered(e))
		}
	case worker.AnswerNotify:
		if key := (callKey{proc: e.Answer.Proc, notify: e.Answer.Seq}); r.calls[key] {
			delete(r.calls, key)
			r.step(worker.NotifyAnswered(e))
		}
	}
}
