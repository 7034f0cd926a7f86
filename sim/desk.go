package sim

import (
	"context"
	"log/slog"
	"time"

	"cantina/bbs"
	"cantina/cell"
	"cantina/internal/draining"
	"cantina/registry"
	disk "cantina/store"
	"cantina/worker"
)

// newDesk reads the drains of the load.
func (b *board) newDesk(rows []disk.Row) *draining.Desk {
	r := b.r
	return draining.New(draining.Config{Store: termStore{r}, Clock: r.s.kernel(), Log: slog.New(complaints{r}), Batch: r.reg.OnCell, Tell: b.tellDrain,
		Session: r.reg.Session,
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
	b.toCell(OpDrain, proc, func(p *rep) { p.evacuate(o) })
}

// heard takes what a cell says of its drain, which has its name and was welcomed.
func (b *board) heard(name worker.CellName, s cell.State) {
	b.desk.Heard(name, draining.Said{Evacuating: s.Evacuating, ID: s.Evacuation.ID, Over: s.Evacuation.Over, Waits: s.Evacuation.Waits})
}

// drain empties a cell, or takes that back: an operator's word.
func (b *board) drain(name worker.CellName, wanted bool) {
	w := b.r.s.w
	if d := b.desk.Of(name); !wanted && d != nil && d.Quarantined {
		b.desk.Drop(name, func(error) {})
		return
	}
	if !wanted {
		w.trace("customer: undrain %s", name)
		b.ask("undrain", func(ctx context.Context) error { return b.desk.Undrain(ctx, name, bbs.Write{}) })
		return
	}
	n := draining.Request{Reason: "by hand", Deadline: w.between(3*time.Second, 40*time.Second), StopBatch: w.chance(300)}
	w.trace("customer: drain %s for %v, stop batch tasks %v", name, n.Deadline, n.StopBatch)
	b.ask("drain", func(ctx context.Context) error {
		return b.desk.Drain(ctx, name, n, time.Minute, bbs.Write{By: "operator"})
	})
}
