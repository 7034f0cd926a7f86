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
	"cantina/store"
	"cantina/worker"
)

// Term returns the term that was won.
func (o *Leader) Term() fence.Term { return o.cfg.Term }

// Heartbeat implements cell.Leader. What the sender says of itself, where it is reached
// first of all, counts only when it has its cell's name: a newcomer that is refused must
// not draw the calls to the cell on itself.
func (o *Leader) Heartbeat(ctx context.Context, b worker.Heartbeat, s cell.State) (worker.HeartbeatAnswer, error) {
	holds := false
	a, err := o.Registry.Heartbeat(ctx, b, func() {
		holds = true
		if s.Address != "" {
			o.cfg.Cells.SetAddress(b.Cell, s.Address)
		}
	})
	if err != nil {
		return a, err
	}
	if a.Verdict == worker.Foreign || a.Verdict == worker.Adopt {
		o.stranger(b, s, a.Verdict)
		return a, nil
	}
	if a.Verdict == worker.Welcome && holds {
		o.mu.Lock()
		o.states[b.Cell] = s
		delete(o.foreign, b.Cell)
		o.taken(b.Cell, b.Proc)
		o.mu.Unlock()
		if b.Returns {
			o.returns(b)
		}
		s.Process = string(b.Proc)
		o.House.Push(s.State)
		o.admit(b.Cell)
		o.Drains.Heard(b.Cell, DrainReport{Evacuating: s.Evacuating, ID: s.Evacuation.ID, Over: s.Evacuation.Over, Waits: s.Evacuation.Waits})
	}
	return a, nil
}

// returns tells that a process has ended and left work behind: its rows stay where they are
// for as long as those of any cell that falls silent, so that the next process has them again.
func (o *Leader) returns(b worker.Heartbeat) {
	const text = "its process ends, and leaves work behind (on_cell_restart: keep): the next one takes it over, if it is there before the time of a silent cell is over"
	o.log.Info("cell will be back", "cell", string(b.Cell), "proc", string(b.Proc))
	state := event.CellState{Name: b.Cell, Proc: b.Proc, Term: o.cfg.Term, Evacuating: o.Drains.Of(b.Cell) != nil, Unavailable: text}
	if s, ok := o.Registry.Session(b.Cell); ok && s.Proc == b.Proc {
		state.Session, state.Reason = s.State, s.Reason
	}
	o.cfg.Hub.Publish(0, event.Event{Kind: event.Cell, Subject: string(b.Cell), Text: text, Cell: &state})
}

// State is what the cell's process said of itself last, and since when its session is as it
// is; both are zero when nothing is known.
func (o *Leader) State(name worker.CellName) (cell.State, time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.states[name], o.changed[name]
}

// Heard lists the cells that have said what they are, by name.
func (o *Leader) Heard() []worker.CellName {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.states))
}

// UpdateStatus implements cell.Leader.
func (o *Leader) UpdateStatus(ctx context.Context, u worker.UpdateStatus) ([]worker.StatusAnswer, error) {
	if err := o.ours(u.Cluster, u.Cell); err != nil {
		return nil, err
	}
	if err := store.NoRoom(o.cfg.Store); err != nil {
		return nil, err // it comes again
	}
	return o.Registry.UpdateStatus(ctx, u)
}

// known checks that a caller is the process that holds its cell's name in this term,
// and knows the term: a call from before is refused.
func (o *Leader) known(from cell.Caller) error {
	if err := o.ours(from.Cluster, from.Cell); err != nil {
		return err
	}
	if s, ok := o.Registry.Session(from.Cell); !ok || s.Proc != from.Proc || !s.Reported {
		return fmt.Errorf("%w: cell %s, process %s", cell.ErrProc, from.Cell, from.Proc)
	}
	switch own := o.cfg.Term; {
	case own.Less(from.Term):
		o.Registry.Heard(worker.TermHeard{Cell: from.Cell, Proc: from.Proc, Term: from.Term})
		return cell.ErrNotLeader
	case from.Term.Less(own):
		return fmt.Errorf("%w: %v, this is %v", cell.ErrTerm, from.Term, own)
	}
	return nil
}

// takes is known, for calls that need a write: a full store takes none, and they come again.
func (o *Leader) takes(from cell.Caller) error {
	if err := o.known(from); err != nil {
		return err
	}
	return store.NoRoom(o.cfg.Store)
}

// Rows implements cell.Leader.
func (o *Leader) Rows(_ context.Context, from cell.Caller, q cell.RowsQuery) (cell.Rows, error) {
	if err := o.known(from); err != nil {
		return cell.Rows{}, err
	}
	if !o.cfg.Store.LeaseHeld() {
		return cell.Rows{}, store.ErrLeaseNotProven
	}
	r := o.Board.Rows(string(from.Cell), q.LRPs, q.Tasks, q.Only)
	return cell.Rows{LRPs: r.LRPs, Tasks: r.Tasks, QuarantinedLRPs: r.QuarantinedLRPs, QuarantinedTasks: r.QuarantinedTasks}, nil
}

// LRPEvents implements cell.Leader.
func (o *Leader) LRPEvents(ctx context.Context, from cell.Caller, events []cell.LRPEvent) ([]error, error) {
	if err := o.takes(from); err != nil {
		return nil, err
	}
	return o.Board.LRPEvents(ctx, events)
}

// TaskEvents implements cell.Leader.
func (o *Leader) TaskEvents(ctx context.Context, from cell.Caller, events []cell.TaskEvent) ([]error, error) {
	if err := o.takes(from); err != nil {
		return nil, err
	}
	return o.Board.TaskEvents(ctx, events)
}

var _ cell.Leader = (*Leader)(nil)
