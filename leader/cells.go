package leader

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"cantina/cell"
	"cantina/event"
	"cantina/fence"
	"cantina/lrp"
	"cantina/store"
	"cantina/worker"
)

// Term returns the term that was won.
func (l *Leader) Term() fence.Term { return l.cfg.Term }

// Heartbeat implements cell.Leader. The sender's data about itself, first of all its address,
// counts only if it has its cell's name: a refused newcomer must not receive the calls to the
// cell.
func (l *Leader) Heartbeat(ctx context.Context, b worker.Heartbeat, s cell.State) (worker.HeartbeatAnswer, error) {
	holds := false
	a, err := l.Registry.Heartbeat(ctx, b, func() {
		holds = true
		if s.Address != "" {
			l.cfg.Cells.SetAddress(b.Cell, s.Address)
		}
	})
	if err != nil {
		return a, err
	}
	if a.Verdict == worker.Foreign || a.Verdict == worker.Adopt {
		l.noteForeign(b, s, a.Verdict)
		return a, nil
	}
	if a.Verdict == worker.Welcome && holds {
		l.mu.Lock()
		l.states[b.Cell] = s
		delete(l.foreign, b.Cell)
		l.mu.Unlock()
		l.departures.forget(func(d *silentProc) bool { return d.certain && d.Cell == b.Cell && d.Proc != b.Proc })
		if b.Returns {
			l.publishReturn(b)
		}
		s.Process = string(b.Proc)
		l.admission.report(b.Cell, s)
	}
	return a, nil
}

// publishReturn publishes that a process has ended and left work behind: its rows stay for as long
// as those of any silent cell, so that the next process takes them over.
func (l *Leader) publishReturn(b worker.Heartbeat) {
	const text = "cell process is stopping; kept work (on_cell_restart: keep) continues if the next process " +
		"starts before the cell is lost"
	l.log.Info("cell will be back", "cell", string(b.Cell), "proc", string(b.Proc))
	state := event.CellState{Name: b.Cell, Proc: b.Proc, Term: l.cfg.Term, Draining: l.Drains.Of(b.Cell) != nil,
		Unavailable: text}
	if s, ok := l.Registry.Session(b.Cell); ok && s.Proc == b.Proc {
		state.Session, state.Reason = s.State, s.Reason
	}
	l.cfg.Hub.Publish(0, event.Event{Kind: event.Cell, Subject: string(b.Cell), Text: text, Cell: &state})
}

// State is the last state that the cell's process reported, and since when its session is in its
// state; both are zero if unknown.
func (l *Leader) State(name worker.CellName) (cell.State, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.states[name], l.changed[name]
}

// starting is what the cell of an instance last reported of its start, if that takes long.
func (l *Leader) starting(a *lrp.Actual) string {
	s, _ := l.State(worker.CellName(a.Cell))
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Instance == a.Instance && c.Starting() {
			return c.Words(l.cfg.Clock.Wall())
		}
	}
	return ""
}

// Heard lists the cells that have sent a heartbeat, by name.
func (l *Leader) Heard() []worker.CellName {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.states))
}

// UpdateStatus implements cell.Leader. On a full store too: responses to probes need no write, and
// ends are acknowledged once they are durable; until then they are repeated.
func (l *Leader) UpdateStatus(ctx context.Context, u worker.UpdateStatus) ([]worker.StatusAnswer, error) {
	if err := l.checkCluster(u.Cluster, u.Cell); err != nil {
		return nil, err
	}
	return l.Registry.UpdateStatus(ctx, u)
}

// checkCaller checks that a caller is the process that holds its cell's name in this term,
// and knows the term: a call from before is refused.
func (l *Leader) checkCaller(from cell.Caller) error {
	if err := l.checkCluster(from.Cluster, from.Cell); err != nil {
		return err
	}
	if s, ok := l.Registry.Session(from.Cell); !ok || s.Proc != from.Proc || !s.Reported {
		return fmt.Errorf("%w: cell %s, process %s", cell.ErrProc, from.Cell, from.Proc)
	}
	switch own := l.cfg.Term; {
	case own.Less(from.Term):
		l.Registry.Heard(worker.TermHeard{Cell: from.Cell, Proc: from.Proc, Term: from.Term})
		return cell.ErrNotLeader
	case from.Term.Less(own):
		return fmt.Errorf("%w: %v, this is %v", cell.ErrTerm, from.Term, own)
	}
	return nil
}

// checkWriter is known, for calls that need a write: a full store takes none, and they come again.
func (l *Leader) checkWriter(from cell.Caller) error {
	if err := l.checkCaller(from); err != nil {
		return err
	}
	return store.NoRoom(l.cfg.Store)
}

// Rows implements cell.Leader.
func (l *Leader) Rows(_ context.Context, from cell.Caller, q cell.RowsQuery) (cell.Rows, error) {
	if err := l.checkCaller(from); err != nil {
		return cell.Rows{}, err
	}
	if !l.cfg.Store.LeaseHeld() {
		return cell.Rows{}, store.ErrLeaseNotProven
	}
	if !q.Only {
		l.Board.Lists(string(from.Proc), q.LRPs, q.Tasks)
	}
	r := l.Board.Rows(string(from.Cell), q.LRPs, q.Tasks, q.Only)
	return cell.Rows{LRPs: r.LRPs, Tasks: r.Tasks, QuarantinedLRPs: r.QuarantinedLRPs,
		QuarantinedTasks: r.QuarantinedTasks}, nil
}

// LRPEvents implements cell.Leader.
func (l *Leader) LRPEvents(ctx context.Context, from cell.Caller, events []cell.LRPEvent) ([]error, error) {
	if err := l.checkWriter(from); err != nil {
		return nil, err
	}
	return l.Board.LRPEvents(ctx, events)
}

// TaskEvents implements cell.Leader.
func (l *Leader) TaskEvents(ctx context.Context, from cell.Caller, events []cell.TaskEvent) ([]error, error) {
	if err := l.checkWriter(from); err != nil {
		return nil, err
	}
	return l.Board.TaskEvents(ctx, events)
}

var _ cell.Leader = (*Leader)(nil)
