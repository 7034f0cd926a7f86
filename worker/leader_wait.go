package worker

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// WaitView is the initial wait, for the status page.
type WaitView struct {
	Active bool
	// Stale: the member list is not trusted (restored or new store, or a cell
	// remembers a newer one). When the cells' sets have ended the wait over such a store, tasks and
	// exclusive instances are still held.
	Stale bool
	// All batch work is held, not only work with a name row: the list is stale, or the worker set is
	// the witness.
	All bool
	// For are the processes without contact, sorted, with the maximum time to wait for each (0 = no
	// limit).
	For []WaitFor
	// Longest is how long the wait, or the holds after it, last at most from now; 0 = no limit known.
	Longest time.Duration
}

// WaitFor is one process that the wait waits for.
type WaitFor struct {
	Cell    CellName
	Proc    Proc
	Longest time.Duration
}

// waiting is the initial wait, and how far the rows are trusted: the possible work without a row
// and without a report.
type waiting struct {
	*roster
	members  *members
	sessions *sessions
	batch    *batch

	t0       time.Duration // when the wait began
	wait     bool
	stale    bool          // the rows are not trusted
	alone    bool          // see alone.go
	lapse    time.Duration // until when, if the cells' sets have ended the wait
	restored bool
	jobs     map[string]bool // that had a name row when the term began
	nodes    map[string]bool // that batch tasks held then
}

// Waits reports whether the initial wait is on, and whether the member list is not trusted.
func (iw *waiting) Waits() (active, stale bool) { return iw.wait, iw.stale }

// Wait describes the initial wait.
func (iw *waiting) Wait(now time.Duration) WaitView {
	v := WaitView{Active: iw.wait, Stale: iw.stale, All: iw.wait && iw.unlistable()}
	if !iw.wait {
		if iw.stale {
			v.Longest = max(0, iw.lapse-now)
		}
		return v
	}
	v.Longest = iw.longest(now)
	for _, p := range iw.silent {
		w := WaitFor{Cell: p.row.Cell, Proc: p.row.Proc}
		if at, ok := iw.sessions.expiry(p); ok {
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
func (iw *waiting) longest(now time.Duration) time.Duration {
	end, bounded := now, true
	for _, p := range iw.silent {
		at, ok := iw.sessions.expiry(p)
		end, bounded = max(end, at), bounded && ok
	}
	switch {
	case !bounded:
		end = now
	case iw.unlistable() && !iw.alone:
		end = max(end, iw.lapseEnd())
	}
	if iw.cfg.InitialWait > 0 {
		end = min(end, max(now, iw.t0+iw.cfg.InitialWait))
	}
	return end - now
}

// lapseEnd is when nothing can be alive that no row names: the longest promise
// that any leader makes has passed.
func (iw *waiting) lapseEnd() time.Duration {
	lapse := max(iw.t.MaxDiesWithin, iw.ownPromise())
	for _, p := range iw.silent {
		lapse = max(lapse, p.row.Promise)
	}
	return iw.t0 + iw.t.Stretch(lapse)
}

// tickWait ends the wait when nothing can be running that the model does not have.
func (iw *waiting) tickWait(now time.Duration) {
	if !iw.members.boardHasReports() {
		return
	}
	if !iw.wait {
		if iw.stale && now >= iw.lapse {
			iw.trustList()
		}
		iw.trustRows()
		return
	}
	if iw.cfg.InitialWait > 0 && now >= iw.t0+iw.cfg.InitialWait && !iw.reporting() {
		iw.endWait(AuditWaitForced, fmt.Sprintf("after %v by a flag; %s", iw.cfg.InitialWait, iw.unheard()))
		return
	}
	if iw.agreed() {
		if iw.stale {
			iw.lapse = iw.lapseEnd()
		}
		iw.endWait(AuditWaitEnded, "all cells of the worker set are back")
		return
	}
	if len(iw.silent) > 0 || iw.unlistable() && !iw.accounted(now) {
		return
	}
	why := "every listed process has reported or is dead"
	if iw.unlistable() {
		why += ", and the longest promise has passed"
	}
	iw.endWait(AuditWaitEnded, why)
}

// unlistable reports whether work may run that is not in the list. Then no job is provably new,
// and the wait lasts for the longest promise if no agreement ends it.
func (iw *waiting) unlistable() bool { return iw.stale || iw.sessions.set != nil && !iw.cfg.NewStore }

// agreed reports whether the cells' sets end the wait (Bistro): all members of one set are back,
// and no process in contact has yet to report its work. If the list is trusted, all its processes
// must be back too: it may be of a leader with the other witness.
func (iw *waiting) agreed() bool {
	return iw.sessions.set != nil && iw.sessions.set.Consensus() && !iw.reporting() && (iw.stale || len(iw.silent) == 0)
}

func (iw *waiting) endWait(kind AuditKind, why string) {
	iw.wait = false
	clear(iw.silent)
	if iw.lapse == 0 {
		iw.trustList()
	}
	iw.trustRows()
	iw.audit(kind, nil, Run{}, "initial wait over: "+why)
	iw.do(StartsChanged{})
}

// trustList trusts the rows again. A store that went back may have a task as waiting that a cell
// runs, or an instance as unplaced. When the cells' sets have ended the wait, only their reports
// are known, which cover batch work; the rest waits for the longest promise.
func (iw *waiting) trustList() {
	if iw.stale {
		iw.members.putList(iw.members.list.Hash)
	}
	iw.stale = false
	iw.do(StartsChanged{})
}

// trustRows removes the mark of a restored store after the wait, once no work runs of a job
// without a row. Without the mark a job of that name would be provably new for the next leader,
// which may have no report of the running work.
func (iw *waiting) trustRows() {
	if iw.restored && !iw.stale && !iw.strange() {
		iw.restored = false
		iw.rows = append(iw.rows, ClearRestored{})
	}
}

// strange reports whether work of an earlier term may run whose job had no row when this term
// began.
func (iw *waiting) strange() bool {
	for w, es := range iw.batch.model.byWork {
		if !iw.jobs[w.Job] && slices.ContainsFunc(es, func(e *entry) bool { return e.run.Invocation.Term != iw.cfg.Term }) {
			return true
		}
	}
	return false
}

// forceWait is an operator's declaration that no other work runs.
func (iw *waiting) forceWait(by string) {
	if iw.wait || iw.stale {
		iw.lapse = 0
		iw.endWait(AuditWaitForced, fmt.Sprintf("ended by %s, who accepts double starts; %s", by, iw.unheard()))
	}
}
