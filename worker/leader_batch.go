package worker

import (
	"fmt"
	"slices"
	"time"

	"cantina/fence"
)

// Request is the request to start a batch task on a cell.
type Request struct {
	Work   Work
	JobUID string
	// Nodes are the nodes of levels with resources that the task draws on.
	Nodes []string
	Cell  CellName
}

// batch has the batch tasks that may be running: their starts, ends and kills, and the questions
// to cells if their state is unknown.
type batch struct {
	*roster
	members  *members
	sessions *sessions

	model   model
	counter int64 // of the newest invocation
	adopted int   // additions of reports to the model
}

// MayStart reports whether the batch task may start on the cell now, and if not, why. It changes
// nothing.
func (l *Leader) MayStart(now time.Duration, r Request) (Hold, bool) {
	if h, ok := l.MayReceive(r.Cell); !ok {
		return h, false
	}
	return l.MayRun(now, r)
}

// MayReceive reports whether a cell may get work of any kind: its session is HEALTHY, it has
// reported, its row is durable and its probe succeeds.
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
	if es := l.batch.model.byWork[r.Work]; len(es) > 0 {
		p := es[0].on
		h := Hold{Reason: HoldRunning, Cell: p.row.Cell, Proc: p.row.Proc, Invocation: es[0].run.Invocation}
		if at, _ := l.sessions.expiry(p); p.health.State == MustDie {
			h.Longest = max(0, at-now)
		}
		return h, false
	}
	if !l.waiting.wait {
		return Hold{}, true
	}
	reason := HoldNone
	switch {
	case l.waiting.unlistable() || l.waiting.jobs[r.Work.Job]:
		reason = HoldWait
	case slices.ContainsFunc(r.Nodes, func(n string) bool { return l.waiting.nodes[n] }):
		reason = HoldNode
	default:
		return Hold{}, true
	}
	return Hold{Reason: reason, Waiting: len(l.silent), Longest: l.waiting.longest(now)}, false
}

// RunBatch starts a batch task on a cell: it enters the model, then the call is sent. ErrHeld if
// it may not start (MayStart returns the reason).
func (l *Leader) RunBatch(now time.Duration, r Request) (fence.Invocation, Output, error) {
	if h, ok := l.MayStart(now, r); !ok {
		return fence.Invocation{}, Output{}, fmt.Errorf("run %v on %s: %w: %v", r.Work, r.Cell, ErrHeld, h.Reason)
	}
	p := l.holders[r.Cell]
	l.batch.counter++
	run := Run{r.Work, fence.Invocation{Term: l.cfg.Term, Counter: l.batch.counter}}
	l.batch.model.add(p, run)
	p.open = append(p.open, l.batch.counter)
	l.do(SendRun{p.row.Cell, RunTask{Term: l.cfg.Term, Proc: p.row.Proc, Run: run, Seq: p.seq}})
	return run.Invocation, l.flush(), nil
}

// NextInvocation is the next invocation of RunBatch.
func (b *batch) NextInvocation() fence.Invocation {
	return fence.Invocation{Term: b.cfg.Term, Counter: b.counter + 1}
}

// neverGiven reports an invocation of this term that was not handed out: no correct cell has it, and the number will be
// that of another start.
func (b *batch) neverGiven(inv fence.Invocation) bool {
	return inv.Term == b.cfg.Term && (inv.Counter < 1 || inv.Counter > b.counter)
}

// resolved is the highest counter such that no RunTask to p with it or a lower
// one can still be wanted.
func (b *batch) resolved(p *process) int64 {
	if len(p.open) > 0 {
		return p.open[0] - 1
	}
	return b.counter
}

// resolve closes the RunTask of an invocation; those of earlier terms have none here.
func (b *batch) resolve(p *process, inv fence.Invocation) {
	if inv.Term != b.cfg.Term {
		return
	}
	if i, ok := slices.BinarySearch(p.open, inv.Counter); ok {
		p.open = slices.Delete(p.open, i, i+1)
	}
}

// end hands an end to the scheduler.
func (b *batch) end(e *entry, p *process, end Ended) {
	e.ending, e.end = true, end.Kind
	p.unsure.remove(e.run)
	b.resolve(p, e.run.Invocation)
	end.Run, end.Cell, end.Proc = e.run, p.row.Cell, p.row.Proc
	b.do(end)
}

// runAnswered takes the result of a RunTask.
func (b *batch) runAnswered(now time.Duration, a RunAnswer) {
	if b.heard(now, "", a.Proc, a.Term) {
		return
	}
	e := b.model.byRun[a.Run.Invocation]
	if e == nil || e.on.row.Proc != a.Proc || e.run != a.Run {
		return
	}
	p := e.on
	if e.ending || p.health.State == MustDie {
		return
	}
	result := a.Result
	switch result {
	case RunOK:
		e.sure = true
		p.unsure.remove(e.run)
		b.resolve(p, e.run.Invocation)
		if e.kill {
			b.sendKill(e, p)
		}
	case RunNeverSent, RunRefused:
		if !e.sure {
			b.end(e, p, Ended{Kind: NeverStarted, Reason: result.String() + ": " + a.Reason})
		}
	case RunUnknown, RunStale:
		if !e.sure {
			p.unsure.add(e.run, now)
			b.checkUnsure(p, now)
		}
	}
}

// status is updateStatus.
func (b *batch) status(now time.Duration, u UpdateStatus) {
	if b.heard(now, u.Cell, u.Proc, u.Term) {
		return
	}
	p := b.procs[u.Proc]
	for _, it := range u.Items {
		switch {
		case u.Term != b.cfg.Term:
			b.ack(u.Proc, it, false)
		case p == nil:
			b.statusOfUnknown(u, it)
		case p.row.Cell != u.Cell || !p.reported && !p.dead:
			b.ack(u.Proc, it, false)
		default:
			b.statusItem(now, p, it)
		}
	}
}

func (b *batch) ack(proc Proc, it StatusItem, ok bool) {
	b.do(AnswerStatus{StatusAnswer{b.cfg.Term, proc, it.Kind, it.Run, it.Probe, ok}})
}

func (b *batch) statusItem(now time.Duration, p *process, it StatusItem) {
	switch it.Kind {
	case StatusProbe:
		b.sessions.probed(p, now, it)
		b.ack(p.row.Proc, it, true)
	case StatusNotRunning:
		e := b.model.byRun[it.Run.Invocation]
		if e != nil && e.on == p && e.run == it.Run && !e.ending {
			b.end(e, p, Ended{Kind: NeverStarted, Reason: "the cell does not hold it"})
		}
		b.ack(p.row.Proc, it, true)
	case StatusEnded:
		b.statusEnded(p, it)
	}
}

// statusEnded takes a real end: it goes to the scheduler once, and is
// acknowledged when durable.
func (b *batch) statusEnded(p *process, it StatusItem) {
	e := b.model.byRun[it.Run.Invocation]
	if e == nil {
		b.statusOfUnmodelled(p.row.Cell, p.row.Proc, it)
		return
	}
	if e.run != it.Run || e.on != p {
		b.audit(AuditRefused, p, it.Run, "status of an invocation that another process holds")
		b.ack(p.row.Proc, it, false)
		return
	}
	if !slices.Contains(e.acks, p.row.Proc) {
		e.acks = append(e.acks, p.row.Proc)
	}
	if !e.ending || e.end != Real {
		b.end(e, p, Ended{Kind: Real, Status: it.Status})
	}
}

func (b *batch) statusOfUnknown(u UpdateStatus, it StatusItem) {
	switch {
	case it.Kind != StatusEnded:
		b.ack(u.Proc, it, true)
	case b.model.byRun[it.Run.Invocation] != nil:
		b.ack(u.Proc, it, false) // the process that adopted it reports that itself
	default:
		b.statusOfUnmodelled(u.Cell, u.Proc, it)
	}
}

// statusOfUnmodelled handles a real end of an invocation that counts as ended: a replay is
// acknowledged, a real end replaces a synthetic one, an older one is dropped.
func (b *batch) statusOfUnmodelled(cell CellName, proc Proc, it StatusItem) {
	last, real := b.cfg.Statuses.LastApplied(it.Run.Work)
	switch c := it.Run.Invocation.Compare(last); {
	case b.neverGiven(it.Run.Invocation):
		b.do(Audit{Kind: AuditRefused, Cell: cell, Proc: proc, Run: it.Run,
			Text: "has ended, but this leader has not started it"})
		b.ack(proc, it, true)
	case c < 0 || c == 0 && real && b.model.late[it.Run] == nil:
		b.ack(proc, it, true)
	default:
		procs, known := b.model.late[it.Run]
		if !slices.Contains(procs, proc) {
			b.model.late[it.Run] = append(procs, proc)
		}
		if !known {
			b.do(Ended{Run: it.Run, Cell: cell, Proc: proc, Kind: Real, Status: it.Status})
		}
	}
}

// statusCommitted: the end of r is durable.
func (b *batch) statusCommitted(r Run, kind Synthetic) {
	if kind == Real {
		for _, proc := range b.model.late[r] {
			b.ack(proc, StatusItem{Kind: StatusEnded, Run: r}, true)
		}
		delete(b.model.late, r)
	}
	e := b.model.byRun[r.Invocation]
	if e == nil || e.run != r || !e.ending || e.end != kind {
		return
	}
	for _, proc := range e.acks {
		b.ack(proc, StatusItem{Kind: StatusEnded, Run: r}, true)
	}
	b.model.remove(e)
	b.do(StartsChanged{})
	b.members.reap(e.on)
}

// killPause is how long a kill waits before it is sent again.
const killPause = 5 * time.Second

func (b *batch) kill(r Run) {
	if e := b.model.byRun[r.Invocation]; e != nil && e.run == r && !e.ending {
		b.wantKill(e)
	}
}

func (b *batch) wantKill(e *entry) {
	e.kill = true
	e.on.kills, e.killAt = true, never
	if e.on.reported {
		b.sendKill(e, e.on)
	}
}

func (b *batch) sendKill(e *entry, p *process) {
	e.killAt = b.lastTick + killPause
	p.kills = true
	b.do(SendKill{p.row.Cell, KillTask{b.cfg.Term, p.row.Proc, e.run}})
}

// resendKills repeats the kills of invocations that have not ended.
func (b *batch) resendKills(p *process, now time.Duration) {
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
			b.sendKill(e, p)
		}
	}
}
