package leader

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"cantina/event"
	"cantina/fence"
	"cantina/lrp"
	"cantina/placement"
	"cantina/registry"
	"cantina/worker"
)

// admit tells the auctioneer whether a cell may be given work.
func (o *Leader) admit(name worker.CellName) {
	o.admitting.Lock()
	proc, reason := o.Registry.Receives(name)
	if d := o.Drains.Of(name); d != nil && reason == "" {
		reason = "being drained: " + d.Reason
	}
	o.House.Admit(string(name), string(proc), reason)
	o.admitting.Unlock()
	o.Market.Recheck()
}

// JoinGrace is how long a term leaves to cells that were never members to join,
// before work is called too large for every cell.
const JoinGrace = 5 * time.Second

// settled says that the cells have had their time to join: the initial wait is over,
// every member has reported, and JoinGrace has passed since the term began.
func (o *Leader) settled() bool {
	if o.cfg.Clock.Boot()-o.began < JoinGrace || o.Registry.Wait().Active {
		return false
	}
	for _, s := range o.Registry.Sessions() {
		if s.Member && !s.Reported && !s.Dead && !s.Displaced {
			return false
		}
	}
	return true
}

// machines counts the machines whose cells let in one of the definitions: of cells that are
// here, and of those that were. It does not know while cells may still join, or when none is known;
// where the leader and its cell are one process there is one.
func (o *Leader) machines(any []*lrp.Desired) (n int, ok bool) {
	alone := o.cfg.Registry.Worker.NoDeadline
	if !alone && !o.settled() {
		return 0, false
	}
	constraints := make([]placement.Constraint, len(any))
	for i, d := range any {
		constraints[i] = Suits(d)
	}
	var gone []placement.State
	for _, l := range o.Lost() {
		s := l.State.State
		s.Cell = string(l.Cell)
		gone = append(gone, s)
	}
	n = o.House.Machines(constraints, gone)
	return n, n > 0
}

// SessionChanged implements registry.Listener.
func (o *Leader) SessionChanged(e worker.SessionChanged) {
	o.log.Info("session", "cell", string(e.Cell), "from", e.From.String(), "to", e.To.String(), "reason", e.Reason)
	o.keepSession(e)
	o.Board.SessionChanged(e)
	o.admit(e.Cell)
	if s, ok := o.Registry.Session(e.Cell); ok && s.Proc == e.Proc {
		o.mu.Lock()
		o.changed[e.Cell] = o.cfg.Clock.Wall()
		o.mu.Unlock()
	}
	o.cfg.Hub.Publish(0, event.Event{Kind: event.Cell, Subject: string(e.Cell), Text: e.To.String() + ": " + e.Reason,
		Cell: &event.CellState{Name: e.Cell, Proc: e.Proc, Session: e.To, Reason: e.Reason, Term: o.cfg.Term, Evacuating: o.Drains.Of(e.Cell) != nil}})
}

// Unheard implements registry.Listener.
func (o *Leader) Unheard(e worker.Unheard) {
	o.log.Info("cell is not back under this leader: its services are replaced, but for exclusive ones", "cell", string(e.Cell), "reason", e.Reason)
	o.Board.CellUnheard(string(e.Cell), string(e.Proc))
}

// Availability implements registry.Listener.
func (o *Leader) Availability(e worker.Availability) {
	if e.Unavailable {
		o.log.Warn("cell is alive but unavailable", "cell", string(e.Cell), "reason", e.Reason)
	}
	o.admit(e.Cell)
	state, text := event.CellState{Name: e.Cell, Proc: e.Proc, Term: o.cfg.Term, Evacuating: o.Drains.Of(e.Cell) != nil}, "takes new work again"
	if e.Unavailable {
		state.Unavailable, text = e.Reason, "is given no new work: "+e.Reason
	}
	if s, ok := o.Registry.Session(e.Cell); ok && s.Proc == e.Proc {
		state.Session, state.Reason = s.State, s.Reason
	}
	o.cfg.Hub.Publish(0, event.Event{Kind: event.Cell, Subject: string(e.Cell), Text: text, Cell: &state})
}

// Eligible implements registry.Listener.
func (o *Leader) Eligible(e worker.Eligible) { o.admit(e.Cell) }

// Dead implements registry.Listener.
func (o *Leader) Dead(e worker.Dead) {
	o.log.Info("certainly dead", "cell", string(e.Cell), "proc", string(e.Proc), "proof", e.Proof.String())
	holder, _ := o.Registry.Receives(e.Cell)
	tasks := o.Board.Dead(e, holder)
	o.admit(e.Cell)
	if l, ok := o.died(e, tasks); ok {
		o.cfg.Hub.Publish(0, event.Event{Kind: event.Cell, Subject: string(e.Cell), Text: event.GoneWord(l.Left) + ": " + l.Why + "; " + l.Work,
			Cell: &event.CellState{Name: e.Cell, Proc: e.Proc, Session: worker.MustDie, Reason: l.Why, Term: o.cfg.Term, Gone: true}})
	}
}

// Ended implements registry.Listener.
func (o *Leader) Ended(e worker.Ended) {
	o.lostBatch(e)
	o.Jobs.Ended(e)
}

// StartsChanged implements registry.Listener.
func (o *Leader) StartsChanged() {
	o.Jobs.StartsChanged()
	o.Board.StartsChanged()
	if o.times != nil {
		o.times.Changed()
	}
}

// maxAudits bounds what a term remembers for its status.
const maxAudits = 20

// Audit implements registry.Listener.
func (o *Leader) Audit(e worker.Audit) {
	logAudit(o.log, e)
	if e.Kind == worker.AuditForgotten {
		o.forgotten(e)
	}
	o.cfg.Hub.Publish(0, event.Event{Kind: event.Note, Subject: string(e.Cell), Text: auditText(worker.Audit{Run: e.Run, Text: e.Text})})
	if e.Kind == worker.AuditWaitEnded || e.Kind == worker.AuditRefused {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.audits = append(o.audits, auditText(e))
	if len(o.audits) > maxAudits {
		o.audits = slices.Delete(o.audits, 0, 1)
	}
}

// auditText is an audit as people read it where nothing beside it says whose it is.
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

// Audits are the newest texts of what was not as it should be in this term, oldest first.
func (o *Leader) Audits() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.audits)
}

// logAudit writes what is to be kept, as a warning when something was not as it should
// be, and without a cell when it is of none.
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
func (o *Leader) Deposed(higher fence.Term) {
	o.log.Warn("a higher term was heard: this one ends", "higher", higher.String())
	o.cfg.Resign(higher)
}

var _ registry.Listener = (*Leader)(nil)
