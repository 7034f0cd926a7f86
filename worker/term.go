package worker

import (
	"fmt"
	"time"

	"cantina/fence"
)

// term is the leader's term: its initial data, its two clocks, and the Output of the present
// event. Every part of a Leader uses it.
type term struct {
	cfg Config
	t   Timeouts

	seq     int64 // of the newest Output
	rows    []Row
	effects []Effect

	deposed  bool
	refused  int // messages with a term that cannot be
	lastTick time.Duration
	stalled  time.Duration // time without proof of leadership, not counted by policy
}

// notOwn reports the heartbeat of a cell that is not the leader's own, where that is the only one.
func (tm *term) notOwn(h Heartbeat) bool {
	return tm.cfg.NoDeadline && tm.cfg.Own != "" && h.DirID != tm.cfg.Own
}

// unnamed reports whether no row names the work of a cell's container.
func (tm *term) unnamed(id string) bool { return tm.cfg.Known == nil || !tm.cfg.Known(id) }

// unix is the time in seconds, derived from the boot clock.
func (tm *term) unix(now time.Duration) int64 {
	return tm.cfg.Unix + int64((now-tm.cfg.Now)/time.Second)
}

// impossible reports a term that this store cannot have given, and counts it. It is audited
// at the first time, and then whenever the count has doubled.
func (tm *term) impossible(now time.Duration, cell CellName, proc Proc, t fence.Term) bool {
	if fence.Believable(t, tm.cfg.Term, tm.unix(now)) || tm.cfg.Unix == 0 && fence.Believable(t, tm.cfg.Term, t.Epoch) {
		return false
	}
	tm.refused++
	if tm.refused&(tm.refused-1) == 0 {
		tm.do(Audit{Kind: AuditTerm, Cell: cell, Proc: proc,
			Text: fmt.Sprintf("a message with the term %v was refused, which this cluster cannot have given (%d so far); "+
				"the term is %v", t, tm.refused, tm.cfg.Term)})
	}
	return true
}

// RefusedTerms is how many messages with an impossible term were refused in this term.
func (tm *term) RefusedTerms() int { return tm.refused }

// untrusted is the possible promise of a row in a store that went back: it may have been raised
// after the copy was made.
func (tm *term) untrusted(promise time.Duration) time.Duration {
	if promise == 0 {
		return 0
	}
	return max(promise, tm.t.MaxDiesWithin)
}

// policy is the clock of policy timers: it stops while the leader has no proof of leadership or
// was itself stalled.
func (tm *term) policy(now time.Duration) time.Duration { return now - tm.stalled }

// Term returns the leader's term.
func (tm *term) Term() fence.Term { return tm.cfg.Term }

func (tm *term) flush() Output {
	if len(tm.rows) == 0 && len(tm.effects) == 0 {
		return Output{}
	}
	tm.seq++
	out := Output{Seq: tm.seq, Rows: tm.rows, Effects: tm.effects}
	tm.rows, tm.effects = nil, nil
	return out
}

func (tm *term) do(e ...Effect) { tm.effects = append(tm.effects, e...) }

func (tm *term) audit(k AuditKind, p *process, r Run, text string) {
	a := Audit{Kind: k, Run: r, Text: text}
	if p != nil {
		a.Cell, a.Proc = p.row.Cell, p.row.Proc
	}
	tm.do(a)
}

// heard ends the term if a higher one exists, according to a cell of this cluster. It reports
// whether the message must not be handled further: it is of a higher term, or of an impossible
// one.
func (tm *term) heard(now time.Duration, cell CellName, proc Proc, t fence.Term) bool {
	if tm.impossible(now, cell, proc, t) {
		return true
	}
	if !tm.cfg.Term.Less(t) {
		return false
	}
	tm.deposed = true
	tm.do(EndTerm{Higher: t})
	return true
}

// ownPromise is the promise of this leader's timeouts.
func (tm *term) ownPromise() time.Duration {
	if tm.cfg.NoDeadline {
		return 0
	}
	return tm.t.DiesWithin()
}

// slept removes a time in which the leader did nothing from the policy clock, at the first event
// after it: messages that cells sent meanwhile may arrive before the tick.
func (tm *term) slept(now time.Duration) {
	if gap := now - tm.lastTick; gap > 2*tm.t.Check {
		tm.stalled += gap - tm.t.Check
		tm.lastTick = now - tm.t.Check
	}
}
