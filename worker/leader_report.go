package worker

import (
	"fmt"
	"slices"
	"time"

	"cantina/fence"
)

// entry is one invocation that may be running: from before its RunTask is sent
// until its end is durable.
type entry struct {
	run    Run
	on     *process
	sure   bool // the cell reported that it holds it, or a Notify succeeded
	ending bool // an end was handed to the scheduler
	end    Synthetic
	kill   bool
	killAt time.Duration // when the kill is due again
	// acks are the processes to acknowledge when the real end is durable.
	acks []Proc
}

// model is the work that may be running, of all processes.
type model struct {
	byRun  map[fence.Invocation]*entry
	byWork map[Work][]*entry
	// late has real ends of invocations that had been ended synthetically before.
	late map[Run][]Proc
}

func newModel() model {
	return model{map[fence.Invocation]*entry{}, map[Work][]*entry{}, map[Run][]Proc{}}
}

func (m *model) add(p *process, r Run) *entry {
	e := &entry{run: r, on: p}
	m.byRun[r.Invocation] = e
	m.byWork[r.Work] = append(m.byWork[r.Work], e)
	p.work[r.Invocation] = e
	return e
}

func (m *model) remove(e *entry) {
	delete(m.byRun, e.run.Invocation)
	rest := slices.DeleteFunc(m.byWork[e.run.Work], func(f *entry) bool { return f == e })
	if len(rest) == 0 {
		delete(m.byWork, e.run.Work)
	} else {
		m.byWork[e.run.Work] = rest
	}
	delete(e.on.work, e.run.Invocation)
}

func (m *model) sorted() []*entry { return sortedEntries(m.byRun) }

func sortedEntries(m map[fence.Invocation]*entry) []*entry {
	es := make([]*entry, 0, len(m))
	for _, e := range m {
		es = append(es, e)
	}
	slices.SortFunc(es, func(a, b *entry) int { return a.run.Compare(b.run) })
	return es
}

// report handles a process's running work: the response to getRunningTasks.
func (l *Leader) report(now time.Duration, r Report) {
	if l.heard(now, "", r.Proc, r.Term) || r.Term != l.cfg.Term {
		return
	}
	p := l.procs[r.Proc]
	if p == nil || p.health.State != New || !p.connected {
		return
	}
	for _, h := range r.Held {
		if l.heard(now, p.row.Cell, r.Proc, h.Invocation.Term) {
			return
		}
	}
	preds := l.predecessors(p.row.DirID, p.row.Started)
	if live := slices.ContainsFunc(r.Held, func(h Held) bool { return !h.Ended }); live && !p.member &&
		len(preds) == 0 && !(l.waiting.wait && l.waiting.unlistable()) {
		l.do(SendSuicide{p.row.Cell, Suicide{l.cfg.Term, p.row.Proc, false}})
		return
	}
	for _, h := range r.Held {
		l.batch.record(p, h, preds)
	}
	p.reported, p.alive = true, r.Alive
	l.members.reportOutput = l.seq + 1
	delete(l.silent, r.Proc)
	p.health.State = Unhealthy
	l.do(SessionChanged{p.row.Cell, p.row.Proc, New, Unhealthy, false, false, false, "reported what it runs"})
	if !p.member {
		l.members.enlist(p, now)
	} else if p.durable {
		l.do(Eligible{p.row.Cell, p.row.Proc})
	}
	l.batch.resendKills(p, now)
	l.succeed(now, p, r.PredecessorsGone)
	l.sessions.contact(p, now)
	l.do(StartsChanged{})
}

// record enters one reported invocation in the model, unless its real end is
// applied already, or about to be: then it waits for the status to be
// acknowledged again.
func (b *batch) record(p *process, h Held, preds []*process) {
	if b.neverGiven(h.Invocation) {
		b.audit(AuditRefused, p, h.Run, "reported, but this leader has not started it")
		return
	}
	last, real := b.cfg.Statuses.LastApplied(h.Work)
	if last == h.Invocation && real || b.model.late[h.Run] != nil {
		return
	}
	if e := b.model.byRun[h.Invocation]; e != nil {
		b.move(e, p, h, preds)
		return
	}
	if others := b.model.byWork[h.Work]; len(others) > 0 && !h.Ended {
		other := b.runView(others[0])
		b.audit(AuditDoubled, p, h.Run, fmt.Sprintf("may run twice: also held as %v by cell %s (process %s)",
			other.Run.Invocation, other.Cell, other.Proc))
	}
	e := b.model.add(p, h.Run)
	b.adopted++
	e.sure = true
	if b.cfg.Statuses.KillStored(h.Run) {
		b.wantKill(e)
	}
}

// move gives an invocation of a predecessor to the process that adopted it.
func (b *batch) move(e *entry, p *process, h Held, preds []*process) {
	if !slices.Contains(preds, e.on) || e.run.Work != h.Work {
		b.audit(AuditRefused, p, h.Run, "reported, but held by process "+string(e.on.row.Proc))
		return
	}
	delete(e.on.work, e.run.Invocation)
	e.on, e.sure = p, true
	p.work[e.run.Invocation] = e
	if e.kill {
		b.wantKill(e)
	}
}

// succeed declares the earlier processes of p's directory dead: those of another
// boot at once, the others when all their containers are gone or adopted.
func (l *Leader) succeed(now time.Duration, p *process, gone bool) {
	for _, q := range l.predecessors(p.row.DirID, p.row.Started) {
		switch {
		case q.row.Boot != p.row.Boot:
			l.sessions.mustDie(q, now, "its machine rebooted", bumped)
			l.die(q, now, ProofBoot)
		case gone:
			l.sessions.mustDie(q, now, "succeeded on its directory", succeeded)
			l.die(q, now, ProofSuccessor)
		}
	}
}

// die acts on a proof of death: first the ends of all that the model has on p
// are made durable, then the member row goes.
func (l *Leader) die(p *process, now time.Duration, proof Proof) {
	if p.dead {
		return
	}
	l.sessions.mustDie(p, now, proof.String(), lost)
	p.dead = true
	l.sessions.leaveSet(p)
	delete(l.silent, p.row.Proc)
	for _, e := range sortedEntries(p.work) {
		if !e.ending {
			l.batch.end(e, p, Ended{Kind: Lost, Reason: "lost with cell " + string(p.row.Cell) + ": " + proof.Words()})
		}
	}
	dead := Dead{Cell: p.row.Cell, Proc: p.row.Proc, Proof: proof}
	next := l.holders[p.row.Cell]
	if proof == ProofSuccessor || proof == ProofBoot {
		next = l.successor(p)
	}
	if next != nil && next != p {
		dead.Successor = next.row.Proc
	}
	l.do(dead, StartsChanged{})
	p.deathOutput = l.seq + 1
	l.members.deaths = append(l.members.deaths, p)
}

func (l *Leader) forgetByWord(now time.Duration, proc Proc, by string) error {
	p := l.procs[proc]
	if p == nil {
		return fmt.Errorf("forget %q: %w", proc, ErrUnknownProcess)
	}
	l.audit(AuditForgotten, p, Run{}, "declared dead by "+by+"; its work may run twice if it is not")
	l.die(p, now, ProofOperator)
	return nil
}
