package sim

import (
	"context"
	"log/slog"
	"time"

	"cantina/bbs"
	"cantina/internal/draining"
	"cantina/registry"
	disk "cantina/store"
	"cantina/worker"
)

// newDesk reads the drains of the load.
func (b *board) newDesk(rows []disk.Row) *draining.Desk {
	r := b.r
	return draining.New(draining.Config{Store: termStore{r}, Clock: r.s.kernel(), Log: slog.New(complaints{r}), Batch: r.leader.OnCell, Tell: b.tellDrain,
		Session: func(name worker.CellName) (worker.SessionView, bool) { return r.leader.Session(r.s.local(), name) },
		Go:      func(f func(context.Context)) { r.threads.run(func() { f(context.Background()) }) },
		Changed: func(name worker.CellName, _ *registry.Drain, _ int64, _ string) {
			if !b.stops() {
				b.admit(name)
			}
		}}, rows)
}

// tellDrain calls a cell.
func (b *board) tellDrain(_ worker.CellName, proc worker.Proc, o draining.Order) {
	if b.stops() {
		return
	}
	id := o.ID
	if o.Undo {
		id = ""
	}
	b.toCell(OpDrain, proc, func(p *rep) { p.evacuate(id, o.Deadline) })
}

// beatAnswered takes the state of a cell that has its name and was welcomed.
func (b *board) beatAnswered(cell worker.CellName, s cellState) {
	b.desk.Heard(cell, draining.Said{Evacuating: s.evacuating, ID: s.evac, Over: s.over, Waits: s.waits})
}

// drain empties a cell, or takes that back: an operator's word.
func (b *board) drain(name worker.CellName, wanted bool) {
	w := b.r.s.w
	if !wanted {
		w.trace("customer: undrain %s", name)
		b.ask("undrain", func(ctx context.Context) error { return b.desk.Undrain(ctx, name, bbs.Write{}) })
		return
	}
	n := draining.Request{Reason: "by hand", Deadline: w.between(3*time.Second, 40*time.Second)}
	w.trace("customer: drain %s for %v", name, n.Deadline)
	b.ask("drain", func(ctx context.Context) error {
		return b.desk.Drain(ctx, name, n, time.Minute, bbs.Write{By: "operator"})
	})
}
