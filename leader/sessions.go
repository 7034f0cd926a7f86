package leader

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"cantina/auctioneer"
	"cantina/cell"
	"cantina/event"
	"cantina/fence"
	"cantina/lrp"
	"cantina/placement"
	"cantina/registry"
	"cantina/worker"
)

// admission makes sure that the auctioneer gets the newest state of a cell.
type admission struct {
	registry   *registry.Registry
	drains     *Drains
	auctioneer *auctioneer.Auctioneer
	placement  *PlacementAdapter
	mu         sync.Mutex // before the locks of registry, drains and auctioneer
	reports    reports
}

// reports are the states of cells that wait for the auctioneer: a heartbeat is not to wait for a round
// of placement. Only the newest state of a cell counts.
type reports struct {
	beside func(func(context.Context)) // runs a function concurrently
	mu     sync.Mutex
	newest map[worker.CellName]cell.State
}

// put queues a state; take is called with the newest one later.
func (r *reports) put(name worker.CellName, s cell.State, take func(cell.State)) {
	r.mu.Lock()
	_, queued := r.newest[name]
	r.newest[name] = s
	r.mu.Unlock()
	if queued {
		return
	}
	r.beside(func(context.Context) {
		r.mu.Lock()
		s := r.newest[name]
		delete(r.newest, name)
		r.mu.Unlock()
		take(s)
	})
}

// report takes the state of the cell from its heartbeat.
func (a *admission) report(name worker.CellName, s cell.State) {
	a.reports.put(name, s, func(newest cell.State) {
		a.auctioneer.Push(newest.State)
		a.admit(name)
		d := newest.Drain
		a.drains.Heard(name, DrainReport{Draining: newest.Draining, ID: d.ID, Over: d.Over, Waits: d.Waits})
	})
}

// admit sets in the auctioneer whether a cell may get work.
func (a *admission) admit(name worker.CellName) {
	a.mu.Lock()
	proc, reason := a.registry.Receives(name)
	if d := a.drains.Of(name); d != nil && reason == "" {
		reason = placement.Drained + d.Reason
	}
	if proc == "" {
		a.auctioneer.Remove(string(name))
	} else {
		a.auctioneer.Admit(string(name), string(proc), reason)
	}
	a.mu.Unlock()
	a.placement.Recheck()
}

// remove takes a cell off: no living process has its name.
func (a *admission) remove(name worker.CellName) {
	a.mu.Lock()
	a.auctioneer.Remove(string(name))
	a.mu.Unlock()
	a.placement.Recheck()
}

// JoinGrace is how long a term leaves to cells that were never members to join,
// before work is called too large for every cell.
const JoinGrace = 5 * time.Second

// joined reports whether the cells have had their time to join: the initial wait is over, every
// member has reported, and JoinGrace has passed since the term began. Once they have, it stays so.
func (l *Leader) joined() bool {
	if l.haveJoined.Load() {
		return true
	}
	ok := l.cfg.Clock.Boot()-l.began >= JoinGrace && !l.Registry.Wait().Active && len(l.awaited()) == 0
	if ok {
		l.haveJoined.Store(true)
	}
	return ok
}

// awaited names the cells that the leader still waits for, sorted: members that have not reported in this
// term and are not certainly dead.
func (l *Leader) awaited() []string {
	var names []string
	for _, s := range l.Registry.Sessions() {
		if s.Member && !s.Reported && !s.Dead && !s.Displaced {
			names = append(names, string(s.Cell))
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// machines counts the machines whose cells admit one of the definitions: of present and of former
// cells. The number is unknown while cells may still join, or if no cell is known; it is one if
// the leader and its cell are one process.
func (l *Leader) machines(any []*lrp.Desired) (n int, ok bool) {
	alone := l.cfg.Registry.Worker.NoDeadline
	if !alone && !l.joined() {
		return 0, false
	}
	constraints := make([]placement.Constraint, len(any))
	for i, d := range any {
		constraints[i] = Suits(d)
	}
	var gone []placement.State
	for _, x := range l.Lost() {
		s := x.State.State
		s.Cell = string(x.Cell)
		gone = append(gone, s)
	}
	n = l.Auctioneer.Machines(constraints, gone)
	return n, n > 0
}

// SessionChanged implements registry.Listener.
func (l *Leader) SessionChanged(e worker.SessionChanged) {
	l.log.Info("session", "cell", string(e.Cell), "from", e.From.String(), "to", e.To.String(), "reason", e.Reason)
	l.recordSession(e)
	l.Board.SessionChanged(e)
	l.sweep()
	l.admission.admit(e.Cell)
	if s, ok := l.Registry.Session(e.Cell); ok && s.Proc == e.Proc {
		l.mu.Lock()
		l.changed[e.Cell] = l.cfg.Clock.Wall()
		l.mu.Unlock()
	}
	l.cfg.Hub.Publish(0, event.Event{Kind: event.Cell, Subject: string(e.Cell), Text: e.To.String() + ": " + e.Reason,
		Cell: &event.CellState{Name: e.Cell, Proc: e.Proc, Session: e.To, Reason: e.Reason, Term: l.cfg.Term,
			Draining: l.Drains.Of(e.Cell) != nil}})
}

// Unheard implements registry.Listener.
func (l *Leader) Unheard(e worker.Unheard) {
	l.log.Info("cell is not back under this leader: its services are replaced, but for exclusive ones", "cell",
		string(e.Cell), "reason", e.Reason)
	l.Board.CellUnheard(string(e.Cell), string(e.Proc))
}

// Availability implements registry.Listener.
func (l *Leader) Availability(e worker.Availability) {
	if e.Unavailable {
		l.log.Warn("cell is alive but unavailable", "cell", string(e.Cell), "reason", e.Reason)
	}
	l.admission.admit(e.Cell)
	state, text := event.CellState{Name: e.Cell, Proc: e.Proc, Term: l.cfg.Term, Draining: l.Drains.Of(e.Cell) != nil},
		"takes new work again"
	if e.Unavailable {
		state.Unavailable, text = e.Reason, "is given no new work: "+e.Reason
	}
	if s, ok := l.Registry.Session(e.Cell); ok && s.Proc == e.Proc {
		state.Session, state.Reason = s.State, s.Reason
	}
	l.cfg.Hub.Publish(0, event.Event{Kind: event.Cell, Subject: string(e.Cell), Text: text, Cell: &state})
}

// Eligible implements registry.Listener.
func (l *Leader) Eligible(e worker.Eligible) { l.admission.admit(e.Cell) }

// Dead implements registry.Listener.
func (l *Leader) Dead(e worker.Dead) {
	l.log.Info("certainly dead", "cell", string(e.Cell), "proc", string(e.Proc), "proof", e.Proof.String())
	holder := e.Successor
	if holder == "" && e.Proof != worker.ProofSuccessor && e.Proof != worker.ProofBoot { // one may have come since
		holder, _ = l.Registry.Receives(e.Cell)
	}
	tasks := l.Board.Dead(e, holder)
	l.admission.admit(e.Cell)
	s, held := l.Registry.Session(e.Cell)
	if x, ok := l.departures.dead(e, tasks, held && s.Proc != e.Proc && !s.Dead); ok {
		l.gone(e.Cell)
		l.cfg.Hub.Publish(0, event.Event{Kind: event.Cell, Subject: string(e.Cell), Text: event.GoneWord(x.Left) + ": " +
			x.Why + "; " + x.Work,
			Cell: &event.CellState{Name: e.Cell, Proc: e.Proc, Session: worker.MustDie, Reason: x.Why, Term: l.cfg.Term,
				Gone: true}})
	}
}

// gone removes a cell's reports and its address: no living process has its name. A process that
// takes the name at that time sends all of it again with its next heartbeat.
func (l *Leader) gone(name worker.CellName) {
	l.mu.Lock()
	delete(l.states, name)
	delete(l.changed, name)
	l.mu.Unlock()
	l.Drains.Forget(name)
	l.cfg.Cells.SetAddress(name, "")
	l.admission.remove(name)
}

// sweep removes cells that were never members, whose end is not reported, if there may be many.
func (l *Leader) sweep() {
	l.mu.Lock()
	var names []worker.CellName
	if len(l.states) >= l.sweepAt {
		names = slices.Collect(maps.Keys(l.states))
	}
	l.mu.Unlock()
	if names == nil {
		return
	}
	left := 0
	for _, name := range names {
		if _, ok := l.Registry.Session(name); ok {
			left++
		} else {
			l.gone(name)
		}
	}
	l.mu.Lock()
	l.sweepAt = 2*left + 64
	l.mu.Unlock()
}

// Ended implements registry.Listener.
func (l *Leader) Ended(e worker.Ended) {
	if e.Kind == worker.Lost {
		l.departures.note(e.Cell, e.Proc, func(d *silentProc) { d.batch++ })
	}
	l.Scheduler.Ended(e)
}

// StartsChanged implements registry.Listener.
func (l *Leader) StartsChanged() {
	l.Scheduler.StartsChanged()
	l.Board.StartsChanged()
	if l.Timetable != nil {
		l.Timetable.Changed()
	}
}

// maxAudits limits the audit entries that a term keeps for its status.
const maxAudits = 20

// Audit implements registry.Listener.
func (l *Leader) Audit(e worker.Audit) {
	logAudit(l.log, e)
	if e.Kind == worker.AuditForgotten {
		l.departures.note(e.Cell, e.Proc, func(d *silentProc) { d.by = e.Text }) // an operator's declaration
	}
	l.cfg.Hub.Publish(0, event.Event{Kind: event.Note, Subject: string(e.Cell),
		Text: auditText(worker.Audit{Run: e.Run, Text: e.Text})})
	if e.Kind == worker.AuditWaitEnded || e.Kind == worker.AuditRefused {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.audits = append(l.audits, auditText(e))
	if len(l.audits) > maxAudits {
		l.audits = slices.Delete(l.audits, 0, 1)
	}
}

// auditText is an audit entry that includes its subject.
func auditText(e worker.Audit) string {
	text := e.Text
	if e.Run != (worker.Run{}) {
		text = fmt.Sprintf("%v (%v): %s", e.Run.Work, e.Run.Invocation, text)
	}
	if e.Cell != "" {
		text = "cell " + string(e.Cell) + ": " + text
	}
	return text
}

// Audits are the newest entries about irregular events in this term, oldest first.
func (l *Leader) Audits() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.audits)
}

// logAudit logs an audit entry, as a warning if it is irregular, and without a cell if it has
// none.
func logAudit(log *slog.Logger, e worker.Audit) {
	level := slog.LevelWarn
	if e.Kind == worker.AuditWaitEnded {
		level = slog.LevelInfo
	}
	attrs := []slog.Attr{slog.String("text", e.Text)}
	if e.Cell != "" {
		attrs = append(attrs, slog.String("cell", string(e.Cell)))
	}
	if e.Proc != "" {
		attrs = append(attrs, slog.String("proc", string(e.Proc)))
	}
	if e.Run != (worker.Run{}) {
		attrs = append(attrs, slog.String("task", e.Run.Work.String()), slog.String("invocation", e.Run.Invocation.String()))
	}
	log.LogAttrs(context.Background(), level, "audit", attrs...)
}

// Deposed implements registry.Listener.
func (l *Leader) Deposed(higher fence.Term) {
	l.log.Warn("term ends: a higher term exists", "higher", higher.String())
	l.cfg.Resign(higher)
}

var _ registry.Listener = (*Leader)(nil)
