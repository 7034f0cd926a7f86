package worker

import (
	"fmt"
	"slices"
	"time"

	"cantina/fence"
)

// Request asks whether a batch task may start on a cell.
type Request struct {
	Work   Work
	JobUID string
	// Nodes are the nodes of levels with resources that the task draws on.
	Nodes []string
	Cell  CellName
}

// MayStart tells whether the batch task may start on the cell now, and if not,
// why. It changes nothing.
func (l *Leader) MayStart(now time.Duration, r Request) (Hold, bool) {
	if h, ok := l.MayReceive(r.Cell); !ok {
		return h, false
	}
	return l.MayRun(now, r)
}

// MayReceive tells whether a cell may be given work of any kind: its session is
// HEALTHY, it has reported, its row is durable and its probe works.
func (l *Leader) MayReceive(cell CellName) (Hold, bool) {
	if l.deposed {
		return Hold{Reason: HoldDeposed}, false
	}
	p := l.holders[cell]
	h := Hold{Cell: cell}
	if p != nil {
		h.Proc = p.row.Proc
	}
	switch {
	case p == nil:
		h.Reason = HoldNoSession
	case !p.reported:
		h.Reason = HoldNotReported
	case !p.durable:
		h.Reason = HoldNotMember
	case p.health.State == Unhealthy && p.blocked:
		h.Reason = HoldConsensus
	case p.health.State != Healthy:
		h.Reason = HoldNotHealthy
	case p.probe.out:
		h.Reason = HoldUnavailable
	}
	return h, h.Reason == HoldNone
}

// MayRun is the part of MayStart that does not concern the cell: whether the
// work may run anywhere.
func (l *Leader) MayRun(now time.Duration, r Request) (Hold, bool) {
	if es := l.model.byWork[r.Work]; len(es) > 0 {
		h := Hold{Reason: HoldRunning, Proc: es[0].proc, Invocation: es[0].run.Invocation}
		if p := l.procs[es[0].proc]; p != nil {
			h.Cell = p.row.Cell
			if at, ok := l.expiry(p); ok && p.health.State == MustDie {
				h.Longest = max(0, at-now)
			}
		}
		return h, false
	}
	if !l.wait {
		return Hold{}, true
	}
	reason := HoldNone
	switch {
	case l.unlistable() || l.jobs[r.Work.Job]:
		reason = HoldWait
	case slices.ContainsFunc(r.Nodes, func(n string) bool { return l.nodes[n] }):
		reason = HoldNode
	default:
		return Hold{}, true
	}
	return Hold{Reason: reason, Waiting: len(l.silent), Longest: l.longest(now)}, false
}

// RunBatch starts a batch task on a cell: it enters the model, then the call
// goes out. ErrHeld when it may not start (ask MayStart for the reason).
func (l *Leader) RunBatch(now time.Duration, r Request) (fence.Invocation, Output, error) {
	if h, ok := l.MayStart(now, r); !ok {
		return fence.Invocation{}, Output{}, fmt.Errorf("run %v on %s: %w: %v", r.Work, r.Cell, ErrHeld, h.Reason)
	}
	p := l.holders[r.Cell]
	l.counter++
	run := Run{r.Work, fence.Invocation{Term: l.cfg.Term, Counter: l.counter}}
	l.model.add(p, run)
	p.open = append(p.open, l.counter)
	l.do(SendRun{p.row.Cell, RunTask{Term: l.cfg.Term, Proc: p.row.Proc, Run: run, Seq: p.seq}})
	return run.Invocation, l.flush(), nil
}

// NextInvocation is what RunBatch hands out next.
func (l *Leader) NextInvocation() fence.Invocation {
	return fence.Invocation{Term: l.cfg.Term, Counter: l.counter + 1}
}

// settled is the highest counter such that no RunTask to p with it or a lower
// one can still be wanted.
func (l *Leader) settled(p *process) int64 {
	if len(p.open) > 0 {
		return p.open[0] - 1
	}
	return l.counter
}

// settle closes the RunTask of an invocation; those of earlier terms have none here.
func (l *Leader) settle(p *process, inv fence.Invocation) {
	if inv.Term != l.cfg.Term {
		return
	}
	if i, ok := slices.BinarySearch(p.open, inv.Counter); ok {
		p.open = slices.Delete(p.open, i, i+1)
	}
}

// end hands an end to the scheduler.
func (l *Leader) end(e *entry, p *process, end Ended) {
	e.ending, e.end = true, end.Kind
	p.unsure.remove(e.run)
	l.settle(p, e.run.Invocation)
	end.Run, end.Cell, end.Proc = e.run, p.row.Cell, p.row.Proc
	l.do(end)
}

// runAnswered takes the result of a RunTask.
func (l *Leader) runAnswered(now time.Duration, a RunAnswer) {
	if l.heard(now, "", a.Proc, a.Term) {
		return
	}
	e := l.model.byRun[a.Run.Invocation]
	if e == nil || e.proc != a.Proc || e.run != a.Run {
		return
	}
	p := l.procs[e.proc]
	if p == nil || e.ending || p.dead || p.health.State == MustDie {
		return
	}
	result := a.Result
	switch result {
	case RunOK:
		e.sure = true
		p.unsure.remove(e.run)
		l.settle(p, e.run.Invocation)
		if e.kill {
			l.sendKill(e, p)
		}
	case RunNeverSent, RunRefused:
		if !e.sure {
			l.end(e, p, Ended{Kind: NeverStarted, Reason: result.String() + ": " + a.Reason})
		}
	case RunUnknown, RunStale:
		if !e.sure {
			p.unsure.add(e.run, now)
			l.checkUnsure(p, now)
		}
	}
}

// status is updateStatus.
func (l *Leader) status(now time.Duration, u UpdateStatus) {
	if l.heard(now, u.Cell, u.Proc, u.Term) {
		return
	}
	p := l.procs[u.Proc]
	for _, it := range u.Items {
		switch {
		case u.Term != l.cfg.Term:
			l.ack(u.Proc, it, false)
		case p == nil:
			l.statusOfUnknown(u, it)
		case p.row.Cell != u.Cell || !p.reported && !p.dead:
			l.ack(u.Proc, it, false)
		default:
			l.statusItem(now, p, it)
		}
	}
}

func (l *Leader) ack(proc Proc, it StatusItem, ok bool) {
	l.do(AnswerStatus{StatusAnswer{l.cfg.Term, proc, it.Kind, it.Run, it.Probe, ok}})
}

func (l *Leader) statusItem(now time.Duration, p *process, it StatusItem) {
	switch it.Kind {
	case StatusProbe:
		l.probed(p, now, it)
		l.ack(p.row.Proc, it, true)
	case StatusNotRunning:
		e := l.model.byRun[it.Run.Invocation]
		if e != nil && e.proc == p.row.Proc && e.run == it.Run && !e.ending {
			l.end(e, p, Ended{Kind: NeverStarted, Reason: "the cell does not hold it"})
		}
		l.ack(p.row.Proc, it, true)
	case StatusEnded:
		l.statusEnded(p, it)
	}
}

// statusEnded takes a real end: it goes to the scheduler once, and is
// acknowledged when durable.
func (l *Leader) statusEnded(p *process, it StatusItem) {
	e := l.model.byRun[it.Run.Invocation]
	if e == nil {
		l.statusOfUnmodelled(p.row.Cell, p.row.Proc, it)
		return
	}
	if e.run != it.Run || e.proc != p.row.Proc {
		l.audit(AuditRefused, p, it.Run, "status of an invocation that another process holds")
		l.ack(p.row.Proc, it, false)
		return
	}
	if !slices.Contains(e.acks, p.row.Proc) {
		e.acks = append(e.acks, p.row.Proc)
	}
	if !e.ending || e.end != Real {
		l.end(e, p, Ended{Kind: Real, Status: it.Status})
	}
}

func (l *Leader) statusOfUnknown(u UpdateStatus, it StatusItem) {
	switch {
	case it.Kind != StatusEnded:
		l.ack(u.Proc, it, true)
	case l.model.byRun[it.Run.Invocation] != nil:
		l.ack(u.Proc, it, false) // the process that adopted it says so itself
	default:
		l.statusOfUnmodelled(u.Cell, u.Proc, it)
	}
}

// statusOfUnmodelled takes a real end of an invocation that counts as ended: a
// replay is acknowledged, a real end beats a synthetic one, an older one is dropped.
func (l *Leader) statusOfUnmodelled(cell CellName, proc Proc, it StatusItem) {
	last, real := l.cfg.Statuses.LastApplied(it.Run.Work)
	switch c := it.Run.Invocation.Compare(last); {
	case c < 0 || c == 0 && real && l.model.late[it.Run] == nil:
		l.ack(proc, it, true)
	default:
		procs, known := l.model.late[it.Run]
		if !slices.Contains(procs, proc) {
			l.model.late[it.Run] = append(procs, proc)
		}
		if !known {
			l.do(Ended{Run: it.Run, Cell: cell, Proc: proc, Kind: Real, Status: it.Status})
		}
	}
}

// statusCommitted: the end of r is durable.
func (l *Leader) statusCommitted(r Run, kind Synthetic) {
	if kind == Real {
		for _, proc := range l.model.late[r] {
			l.ack(proc, StatusItem{Kind: StatusEnded, Run: r}, true)
		}
		delete(l.model.late, r)
	}
	e := l.model.byRun[r.Invocation]
	if e == nil || e.run != r || !e.ending || e.end != kind {
		return
	}
	for _, proc := range e.acks {
		l.ack(proc, StatusItem{Kind: StatusEnded, Run: r}, true)
	}
	p := l.procs[e.proc]
	l.model.remove(e, p)
	l.do(StartsChanged{})
	if p != nil {
		l.bury(p)
	}
}

// killPause is how long a kill waits before it is sent again.
const killPause = 5 * time.Second

func (l *Leader) kill(r Run) {
	if e := l.model.byRun[r.Invocation]; e != nil && e.run == r && !e.ending {
		l.wantKill(e)
	}
}

func (l *Leader) wantKill(e *entry) {
	e.kill = true
	p := l.procs[e.proc]
	if p == nil {
		return
	}
	p.kills, e.killAt = true, never
	if p.reported {
		l.sendKill(e, p)
	}
}

func (l *Leader) sendKill(e *entry, p *process) {
	e.killAt = l.lastTick + killPause
	p.kills = true
	l.do(SendKill{p.row.Cell, KillTask{l.cfg.Term, p.row.Proc, e.run}})
}

// resendKills repeats the kills of invocations that have not ended.
func (l *Leader) resendKills(p *process, now time.Duration) {
	if !p.kills {
		return
	}
	p.kills = false
	for _, e := range sortedEntries(p.work) {
		if !e.kill || e.ending {
			continue
		}
		p.kills = true
		if now >= e.killAt {
			l.sendKill(e, p)
		}
	}
}
