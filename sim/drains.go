package sim

import (
	"context"
	"time"

	"cantina/leader"
	"cantina/plan"
	"cantina/worker"
)

// drain drains a cell, or ends its drain: an operator's request.
func (b *board) drain(name worker.CellName, wanted bool) {
	w := b.r.s.w
	if d := b.drains.Of(name); !wanted && d != nil && d.Quarantined {
		b.drains.Drop(name, func(error) {})
		return
	}
	if !wanted {
		w.trace("customer: undrain %s", name)
		b.ask("undrain", func(ctx context.Context) error { return b.drains.Undrain(ctx, name, plan.Write{}) })
		return
	}
	n := leader.DrainRequest{Reason: "by hand", Deadline: w.between(3*time.Second, 40*time.Second),
		StopBatch: w.chance(300)}
	w.trace("customer: drain %s for %v, stop batch tasks %v", name, n.Deadline, n.StopBatch)
	b.ask("drain", func(ctx context.Context) error {
		return b.drains.Drain(ctx, name, n, time.Minute, plan.Write{By: "operator"})
	})
}
