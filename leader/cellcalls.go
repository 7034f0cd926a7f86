package leader

import (
	"context"
	"slices"

	"cantina/cell"
	"cantina/event"
	"cantina/internal/run"
	"cantina/lrp"
	"cantina/registry"
	"cantina/task"
	"cantina/worker"
)

// stopBatch is how many instances and tasks go in one call at most.
const stopBatch = 500

// stopKey is the process that is called.
type stopKey struct {
	cell worker.CellName
	proc worker.Proc
}

// cellCalls reaches cells for the board. A lost call is found by the cell's poll.
type cellCalls struct {
	stops *run.Batches[stopKey, cell.Stops]
}

// newCellCalls returns the calls; spawn makes one concurrently, send sends it.
func newCellCalls(spawn func(func(context.Context)), send func(context.Context, stopKey, cell.Stops)) cellCalls {
	return cellCalls{run.NewBatches(spawn, func(ctx context.Context, key stopKey, items []cell.Stops) {
		for part := range slices.Chunk(items, stopBatch) {
			var w cell.Stops
			for _, x := range part {
				w.Instances, w.Tasks = append(w.Instances, x.Instances...), append(w.Tasks, x.Tasks...)
			}
			send(ctx, key, w)
		}
	})}
}

func (l *Leader) stopWork(ctx context.Context, key stopKey, w cell.Stops) {
	l.failed("StopWork", string(key.cell), l.cfg.Cells.StopWork(ctx, key.cell, l.cfg.Term, key.proc, w))
}

// StopInstance implements bbs.Cells.
func (c cellCalls) StopInstance(key lrp.Key, who lrp.Identity) {
	c.stops.Add(stopKey{worker.CellName(who.Cell), worker.Proc(who.Proc)},
		cell.Stops{Instances: []cell.StopInstance{{Key: key, Instance: who.Instance}}})
}

// CancelTask implements bbs.Cells.
func (c cellCalls) CancelTask(holder task.Holder, _, uid string) {
	c.stops.Add(stopKey{worker.CellName(holder.Cell), worker.Proc(holder.Proc)}, cell.Stops{Tasks: []string{uid}})
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
