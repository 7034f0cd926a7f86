package leader

import (
	"context"

	"cantina/cell"
	"cantina/event"
	"cantina/lrp"
	"cantina/registry"
	"cantina/task"
	"cantina/worker"
)

// cellCalls reaches cells for the board. A lost call is found by the cell's poll.
type cellCalls struct{ *Leader }

// StopInstance implements bbs.Cells.
func (c cellCalls) StopInstance(key lrp.Key, who lrp.Identity) {
	c.cfg.Go(func(ctx context.Context) {
		c.failed("StopInstance", who.Cell, c.cfg.Cells.StopInstance(ctx, worker.CellName(who.Cell), c.cfg.Term,
			worker.Proc(who.Proc), key, who.Instance))
	})
}

// CancelTask implements bbs.Cells.
func (c cellCalls) CancelTask(holder task.Holder, _, uid string) {
	c.cfg.Go(func(ctx context.Context) {
		c.failed("CancelTask", holder.Cell, c.cfg.Cells.CancelTask(ctx, worker.CellName(holder.Cell), c.cfg.Term,
			worker.Proc(holder.Proc), uid))
	})
}

// orderDrain calls a cell. A lost call is made again after the next heartbeat.
func (l *Leader) orderDrain(name worker.CellName, proc worker.Proc, d DrainOrder) {
	l.cfg.Go(func(ctx context.Context) {
		e := cell.Drain{ID: d.ID, Reason: d.Reason, Deadline: d.Deadline, StopBatch: d.StopBatch, Undo: d.Undo}
		l.failed("Drain", string(name), l.cfg.Cells.Drain(ctx, name, l.cfg.Term, proc, e))
	})
}

func (l *Leader) failed(call, name string, err error) {
	if err != nil {
		l.log.Debug("call failed", "call", call, "cell", name, "error", err)
	}
}

// drainChanged informs placement, and watchers of cells, of a committed change.
func (l *Leader) drainChanged(name worker.CellName, next *registry.Drain, revision int64, text string) {
	l.admission.admit(name)
	state := event.CellState{Name: name, Term: l.cfg.Term, Draining: next != nil}
	if s, ok := l.Registry.Session(name); ok {
		state.Proc, state.Session, state.Reason = s.Proc, s.State, s.Reason
	}
	l.log.Info("drain", "cell", string(name), "text", text)
	l.cfg.Hub.Publish(revision, event.Event{Kind: event.Cell, Subject: string(name), Text: text, Cell: &state})
}
