package sim

import (
	"context"
	"slices"

	"cantina/bbs"
	"cantina/lrp"
	"cantina/plan"
)

// move moves some of the instances that may be moved, as an operator does who rebalances.
func (cu *customers) move(b *board) {
	all, _, _ := b.Movables()
	var chosen []bbs.Movable
	for _, m := range all {
		if cu.w.chance(600) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return
	}
	cu.w.trace("customer: move %d instances", len(chosen))
	b.ask("rebalance", func(ctx context.Context) error {
		begun, err := b.Relocate(ctx, chosen, nil, plan.Write{})
		cu.w.res.Moves += len(begun)
		return err
	})
}

// startsBeforeItStops: a moved instance whose container is alive goes only when another one serves, or with its cell,
// or when nothing is wanted any more.
func (c *checker) startsBeforeItStops(w *world, before lrp.Index, e lrp.Event, env lrp.Env, after lrp.Index) {
	old := before.Evacuating
	if old == nil || !old.Moving || !old.Serves() || after.Evacuating.Is(old.Identity) ||
		after.Ordinary.Is(old.Identity) || after.Ordinary.Serves() || after.Evacuating.Serves() || !env.Wanted {
		return
	}
	switch e.(type) {
	case lrp.CellMustDie, lrp.ProcDead:
		return
	}
	if slices.ContainsFunc(c.work.units, func(u *unit) bool { return u.id == old.Instance }) {
		w.fail("contract", "a moved instance is given up before another one serves: %T%v: %s → %s", e, e,
			describe(before), describe(after))
	}
}
