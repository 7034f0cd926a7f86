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
	// remembers a newer one). When the cells' sets have ended the wait over such a store, tasks and
	// exclusive instances are still held.
	Blind bool
	// All batch work is held, not only what has a name row: blind, or with the worker set as witness.
	All bool
	// For are the processes that have not been heard of, sorted, with how long
	// each can be waited for at most (0 = no bound).
	For []WaitFor
	// Longest is how long the wait, or what is still held after it, lasts at most from now; 0 = no
	// bound known.
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
	v := WaitView{Active: l.wait, Blind: l.blind, All: l.wait && l.unlistable()}
	if !l.wait {
		if l.blind {
			v.Longest = max(0, l.lapse-now)
		}
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
	case l.unlistable() && !l.alone:
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
	return l.t0 + l.t.Stretch(lapse)
}

// tickWait ends the wait when nothing can be running that the model does not have.
func (l *Leader) tickWait(now time.Duration) {
	if !l.wait {
		if l.blind && now >= l.lapse {
			l.trustList()
		}
		l.trustRows()
		return
	}
	if l.cfg.InitialWait > 0 && now >= l.t0+l.cfg.InitialWait && !l.reporting() {
		l.endWait(AuditWaitForced, fmt.Sprintf("after %v by a flag; %s", l.cfg.InitialWait, l.unheard()))
		return
	}
	if l.agreed() {
		if l.blind {
			l.lapse = l.lapseEnd()
		}
		l.endWait(AuditWaitEnded, "all cells of the worker set are back")
		return
	}
	if len(l.silent) > 0 || l.unlistable() && !l.accounted(now) {
		return
	}
	why := "every listed process has reported or is dead"
	if l.unlistable() {
		why += ", and the longest promise has passed"
	}
	l.endWait(AuditWaitEnded, why)
}

// unlistable reports whether work may run of which the list says nothing. Then nothing is provably
// new, and the wait lasts for the longest promise if no agreement ends it.
func (l *Leader) unlistable() bool { return l.blind || l.set != nil && !l.cfg.NewStore }

// agreed reports that the cells' sets end the wait (Bistro): all that a set names are back, and nobody
// who has been heard of has still to say what it runs. Where the list is trusted, all that it
// names must be back too: it may be of a leader with the other witness.
func (l *Leader) agreed() bool {
	return l.set != nil && l.set.Consensus() && !l.reporting() && (l.blind || len(l.silent) == 0)
}

// reporting tells that a process has been heard of that has not said yet what it runs; when
// it never does it is lost. No time that passes ends the wait meanwhile, only an operator's
// word (Bistro: no worker is NEW).
func (l *Leader) reporting() bool {
	return slices.ContainsFunc(l.order, func(p *process) bool { return p.connected && p.health.State == New })
}

func (l *Leader) endWait(kind AuditKind, why string) {
	l.wait = false
	clear(l.silent)
	if l.lapse == 0 {
		l.trustList()
	}
	l.trustRows()
	l.audit(kind, nil, Run{}, "initial wait over: "+why)
	l.do(StartsChanged{})
}

// trustList ends the doubt about the rows. A store that went back may have a task as waiting that a
// cell runs, or an instance as in no place: when the cells' sets have ended the wait, only what they
// have reported is known, and that is batch work; the rest goes by the longest promise.
func (l *Leader) trustList() {
	if l.blind {
		l.putList(l.list.Hash)
	}
	l.blind = false
	l.do(StartsChanged{})
}

// trustRows takes the mark of a restored store away after the wait, once nothing runs of a
// job that no row names: without the mark a job of that name would be provably new for the
// next leader, which may not have heard of what runs.
func (l *Leader) trustRows() {
	if l.restored && !l.blind && !l.strange() {
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
	if l.wait || l.blind {
		l.lapse = 0
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
		return "every listed process has reported"
	case more > 0:
		return fmt.Sprintf("no report from: %s and %d more", strings.Join(names[:10], ", "), more)
	}
	return "no report from: " + strings.Join(names, ", ")
}
