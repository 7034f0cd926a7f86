package worker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// WaitView is the initial wait, for the status page.
type WaitView struct {
	Active bool
	// Blind: the member list is not trusted (restored or new store, or a cell
	// remembers a newer one); everything is held, not only what has a name row.
	Blind bool
	// For are the processes that have not been heard of, sorted, with how long
	// each can be waited for at most (0 = no bound).
	For []WaitFor
	// Longest is how long the wait lasts at most from now; 0 = no bound known.
	Longest time.Duration
}

// WaitFor is one process that the wait waits for.
type WaitFor struct {
	Cell    CellName
	Proc    Proc
	Longest time.Duration
}

// Waits tells whether the initial wait is on, and whether the member list is not trusted.
func (l *Leader) Waits() (active, blind bool) { return l.wait, l.blind }

// Wait describes the initial wait.
func (l *Leader) Wait(now time.Duration) WaitView {
	v := WaitView{Active: l.wait, Blind: l.blind}
	if !l.wait {
		return v
	}
	v.Longest = l.longest(now)
	for _, p := range l.silent {
		w := WaitFor{Cell: p.row.Cell, Proc: p.row.Proc}
		if at, ok := l.expiry(p); ok {
			w.Longest = max(0, at-now)
		}
		v.For = append(v.For, w)
	}
	slices.SortFunc(v.For, func(a, b WaitFor) int {
		return cmp.Or(cmp.Compare(a.Cell, b.Cell), cmp.Compare(a.Proc, b.Proc))
	})
	return v
}

// longest is how long the wait lasts at most from now; 0 = no bound known.
func (l *Leader) longest(now time.Duration) time.Duration {
	end, bounded := now, true
	for _, p := range l.silent {
		at, ok := l.expiry(p)
		end, bounded = max(end, at), bounded && ok
	}
	switch {
	case !bounded:
		end = now
	case l.blind || l.set != nil:
		end = max(end, l.lapseEnd())
	}
	if l.cfg.InitialWait > 0 {
		end = min(end, max(now, l.t0+l.cfg.InitialWait))
	}
	return end - now
}

// lapseEnd is when nothing can be alive that no row names: the longest promise
// that any leader makes has passed.
func (l *Leader) lapseEnd() time.Duration {
	lapse := max(l.t.MaxDiesWithin, l.ownPromise())
	for _, p := range l.silent {
		lapse = max(lapse, p.row.Promise)
	}
	if l.m.WaitByOwnFlags {
		lapse = l.ownPromise()
	}
	return l.t0 + l.t.Stretch(lapse)
}

// tickWait ends the wait when nothing can be running that the model does not have.
func (l *Leader) tickWait(now time.Duration) {
	if !l.wait {
		l.trustRows()
		return
	}
	if l.cfg.InitialWait > 0 && now >= l.t0+l.cfg.InitialWait && !l.reporting() {
		l.endWait(AuditWaitForced, fmt.Sprintf("after %v by a flag; %s", l.cfg.InitialWait, l.unheard()))
		return
	}
	if l.m.PartialConsensus && l.partial() {
		l.endWait(AuditWaitEnded, "the connected cells agree")
		return
	}
	if l.set != nil {
		l.tickConsensus(now)
		return
	}
	if len(l.silent) > 0 || l.blind && now < l.lapseEnd() {
		return
	}
	l.endWait(AuditWaitEnded, "every listed process has reported or is dead")
}

// reporting tells that a process has been heard of that has not said yet what it runs; when
// it never does it is lost. No time that passes ends the wait meanwhile, only an operator's
// word (Bistro: no worker is NEW).
func (l *Leader) reporting() bool {
	return slices.ContainsFunc(l.order, func(p *process) bool { return p.connected && p.health.State == New })
}

// tickConsensus ends the wait by the cells' hashes alone (Bistro).
func (l *Leader) tickConsensus(now time.Duration) {
	expired := now >= l.lapseEnd()
	if !expired && !l.set.Consensus() {
		return
	}
	if l.reporting() {
		return
	}
	if expired {
		l.endWait(AuditWaitEnded, "the longest promise has passed")
	} else {
		l.endWait(AuditWaitEnded, "all cells of the worker set are back")
	}
}

// partial is a planted mistake: whoever is connected decides.
func (l *Leader) partial() bool {
	if l.set != nil {
		return l.set.Agree()
	}
	some := false
	for _, p := range l.order {
		if p.connected && p.health.State == New {
			return false
		}
		some = some || p.connected
	}
	return some
}

func (l *Leader) endWait(kind AuditKind, why string) {
	l.wait = false
	if l.blind {
		l.putList(l.list.Hash)
	}
	l.blind = false
	clear(l.silent)
	l.trustRows()
	l.audit(kind, nil, Run{}, "initial wait over: "+why)
	l.do(StartsChanged{})
}

// trustRows takes the mark of a restored store away after the wait, once nothing runs of a
// job that no row names: without the mark a job of that name would be provably new for the
// next leader, which may not have heard of what runs.
func (l *Leader) trustRows() {
	if l.restored && !l.strange() {
		l.restored = false
		l.rows = append(l.rows, ClearRestored{})
	}
}

// strange reports whether something of an earlier term may run whose job had no row when
// this term began.
func (l *Leader) strange() bool {
	for w, es := range l.model.byWork {
		if !l.jobs[w.Job] && slices.ContainsFunc(es, func(e *entry) bool { return e.run.Invocation.Term != l.cfg.Term }) {
			return true
		}
	}
	return false
}

// forceWait is an operator's word that nothing else runs.
func (l *Leader) forceWait(by string) {
	if l.wait {
		l.endWait(AuditWaitForced, fmt.Sprintf("ended by %s, who accepts double starts; %s", by, l.unheard()))
	}
}

// unheard names the cells that the wait waited for when it was cut short, at most ten.
func (l *Leader) unheard() string {
	var names []string
	for _, p := range l.silent {
		names = append(names, string(p.row.Cell))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	switch more := len(names) - 10; {
	case len(names) == 0:
		return "every process on the list had been heard of"
	case more > 0:
		return fmt.Sprintf("not heard of: %s and %d more", strings.Join(names[:10], ", "), more)
	}
	return "not heard of: " + strings.Join(names, ", ")
}
