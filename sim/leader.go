package sim

import (
	"context"
	"slices"
	"time"

	"cantina/action"
	"cantina/cell"
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
		r.answerBeat(e.Answer)
		if r.board != nil {
			r.board.beatAnswered(w.byProc[e.Answer.Proc].name, e.Answer)
		}
	case worker.AnswerStatus:
		w.check.acknowledged(w, r, e.Answer)
		r.answerStatus(e.Answer)
	case worker.SendReportRequest:
		r.askReport(e.Call)
	case worker.SendRun:
		r.sendRun(e.Call)
	case worker.SendNotify:
		r.sendNotify(e.Call)
	case worker.SendKill:
		r.toProc(OpKill, e.Call.Proc, func(c *cell.Cell, _ func(Op, func())) {
			_, _ = c.KillTask(context.Background(), []worker.KillTask{e.Call})
		})
	case worker.SendSuicide:
		r.toProc(OpSuicide, e.Call.Proc, func(c *cell.Cell, _ func(Op, func())) {
			_ = c.RequestSuicide(context.Background(), e.Call)
		})
	case worker.Ended:
		r.sched.ended(e)
	case worker.StartsChanged:
		r.sched.dirty = true
	case worker.Dead:
		w.check.dead(w, r, e)
		if r.board != nil {
			r.board.died(e)
		}
	case worker.EndTerm:
		r.end("a higher term was heard: " + e.Higher.String())
	case worker.SessionChanged:
		if r.board != nil {
			r.board.sessionChanged(e)
		}
	case worker.Availability:
		r.admit(e.Cell)
	case worker.Eligible:
		r.admit(e.Cell)
	case worker.Audit:
	}
}

func (r *reign) admit(cell worker.CellName) {
	if r.board != nil {
		r.board.admit(cell)
	}
}

// toProc calls one process; its reply comes back to this term, if that lasts.
func (r *reign) toProc(op Op, p worker.Proc, fn func(c *cell.Cell, reply func(Op, func()))) {
	w := r.s.w
	m := w.byProc[p]
	if m.deaf > w.now {
		w.res.Coverage.add(op, w)
		w.trace("  net: %v to %s: no connection", op, m.name)
		return
	}
	reply := func(op Op, take func()) {
		if m.doomed {
			return
		}
		w.send(op, w.machineNode(m.id), w.serverNode(r.s.id), func() {
			r.s.on(func() {
				if !r.over {
					take()
					r.sched.run()
				}
			})
		})
	}
	w.send(op, w.serverNode(r.s.id), w.machineNode(m.id), func() { m.on(func() { fn(m.cell, reply) }) })
}

// callTimeout is how long a call waits for its answer.
const callTimeout = time.Second

func (r *reign) askReport(q worker.ReportRequest) {
	r.toProc(OpGetRunning, q.Proc, func(c *cell.Cell, reply func(Op, func())) {
		if got, err := c.GetRunningTasks(context.Background(), q); err == nil {
			reply(OpReport, func() { r.step(worker.ReportReceived{Report: got}) })
		}
	})
}

func (r *reign) sendRun(c worker.RunTask) {
	w := r.s.w
	m := w.byProc[c.Proc]
	if c.Probe > 0 {
		r.toProc(OpProbe, c.Proc, func(to *cell.Cell, _ func(Op, func())) {
			_, _ = to.RunTasks(context.Background(), []cell.RunItem{{Call: c}})
		})
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
	item := cell.RunItem{Call: c, Work: &cell.BatchWork{Domain: domain, Workload: &action.Workload{}, Attempt: "1"}}
	if w.chance(500) {
		item.Work.Workload.OnCellRestart = action.RestartKeep
	}
	r.toProc(OpRun, c.Proc, func(to *cell.Cell, reply func(Op, func())) {
		got, err := to.RunTasks(context.Background(), []cell.RunItem{item})
		if err != nil || len(got) != 1 {
			return
		}
		reply(OpRunAnswer, func() {
			if r.calls[key] {
				delete(r.calls, key)
				r.step(worker.RunAnswered{Answer: got[0]})
			}
		})
	})
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
	r.toProc(OpNotify, c.Proc, func(to *cell.Cell, reply func(Op, func())) {
		got, err := to.NotifyIfTasksNotRunning(context.Background(), c)
		if err != nil {
			return
		}
		reply(OpNotifyAnswer, func() {
			if r.calls[key] {
				delete(r.calls, key)
				r.step(worker.NotifyAnswered{Answer: got})
			}
		})
	})
	r.s.later(callTimeout, func() {
		if r.calls[key] {
			delete(r.calls, key)
			r.step(worker.NotifyAnswered{Answer: worker.NotifyAnswer{Term: r.term, Proc: c.Proc, Seq: c.Seq}})
		}
	})
}

// heartbeat takes a heartbeat, if this server leads; its answer comes when what it rests
// on is durable.
func (s *server) heartbeat(b worker.Heartbeat, state cell.State, reply func(worker.HeartbeatAnswer)) {
	r := s.reign
	if r == nil {
		return
	}
	r.beats[saying{b.Proc, b.Beat}] = reply // a doubled one: the earlier caller gets no answer
	if r.board != nil {
		r.board.beatHeard(saidBeat{worker.SendBeat{Beat: b}, state})
	}
	r.step(worker.BeatReceived{Beat: b, LeaseHeld: r.leaseHeld()})
	r.sched.run()
}

func (r *reign) answerBeat(a worker.HeartbeatAnswer) {
	key := saying{a.Proc, a.Beat}
	if reply := r.beats[key]; reply != nil {
		delete(r.beats, key)
		reply(a)
	}
}

// statusCall is one UpdateStatus under way.
type statusCall struct {
	answers []worker.StatusAnswer
	missing int
	reply   func([]worker.StatusAnswer)
}

// statusPatience is how long UpdateStatus waits for items to become durable.
const statusPatience = 5 * time.Second

// status takes ends and answers to probes; one answer for each, not OK when it is not
// durable in time.
func (s *server) status(u worker.UpdateStatus, reply func([]worker.StatusAnswer)) {
	r := s.reign
	if r == nil {
		return
	}
	c := &statusCall{reply: reply, missing: len(u.Items)}
	for _, it := range u.Items {
		c.answers = append(c.answers, worker.StatusAnswer{Term: r.term, Proc: u.Proc, Kind: it.Kind, Run: it.Run, Probe: it.Probe})
	}
	r.updates = append(r.updates, c)
	s.later(statusPatience, func() {
		if c.missing > 0 {
			r.answered(c)
		}
	})
	r.step(worker.StatusReceived{Update: u})
	r.sched.run()
}

func (r *reign) answered(c *statusCall) {
	c.missing = 0
	r.updates = slices.DeleteFunc(r.updates, func(o *statusCall) bool { return o == c })
	c.reply(c.answers)
}

func (r *reign) answerStatus(a worker.StatusAnswer) {
	for _, c := range slices.Clone(r.updates) {
		for i := range c.answers {
			if o := &c.answers[i]; !o.OK && o.Proc == a.Proc && o.Kind == a.Kind && o.Run == a.Run && o.Probe == a.Probe {
				*o = a
				if c.missing--; c.missing == 0 {
					r.answered(c)
				}
				break
			}
		}
	}
}
