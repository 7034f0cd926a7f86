package placement

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// unit is the score of one fully used dimension of weight 1.
const unit = 1 << 20

// weights are the weights of each scored dimension, per kind of work.
//
// An LRP weighs memory, disk and containers alike, a task memory and disk, with the containers
// only to break ties (Diego dev notes, "Distributing ActualLRPs" and "Distributing Tasks"). Batch
// work adds the processors.
var weights = [...][scored]int64{
	KindLRP:   {dimMemory: 1, dimDisk: 1, dimContainers: 1},
	KindTask:  {dimMemory: 1024, dimDisk: 1024, dimContainers: 1},
	KindBatch: {dimMemory: 1, dimDisk: 1, dimContainers: 1, dimCPU: 1},
}

// share is used/total in units; a cell that does not offer the resource counts as
// unused. It is bounded, so that nonsense from a cell cannot overflow a score.
func share(used, total int64) int64 {
	if total <= 0 || used <= 0 {
		return 0
	}
	return min(min(used, 1<<40)*unit/total, 8*unit)
}

// usage is the present score of a cell in the order of a shape: low is good.
func (s *shape) usage(l *Ledger, c *cell) (sum int64) {
	switch s.by {
	case OrderRoundRobin:
		return c.turn
	case OrderBusiest:
		for d, w := range s.weights {
			sum += w * min(max(l.left(c, s.kind, d), 0), 1<<40)
		}
		return min(sum, never-1)
	case OrderSpread:
	}
	return usage(s.kind, c.total(), c.capacity)
}

// rise is the amount that a shape adds to the usage of a cell; the same on all in an order by turns or
// by free amounts.
func (s *shape) rise(capacity vector) int64 {
	if s.by != OrderSpread {
		return 0
	}
	return rise(s.kind, s.need, capacity)
}

// MaxWeight bounds a weight, so that a sum cannot overflow.
const MaxWeight = 1 << 16

// order distinguishes the orders of cells; empty = OrderSpread.
func (w *Want) order() string {
	if w.Order == OrderSpread {
		return ""
	}
	var b strings.Builder
	b.WriteString(w.Order.String())
	if w.Order == OrderBusiest {
		for _, name := range slices.Sorted(maps.Keys(w.Weights)) {
			fmt.Fprintf(&b, " %q=%d", name, w.Weights[name])
		}
	}
	return b.String()
}

// usage is the present score of a cell, for one kind of work: low is good.
func usage(k Kind, used, capacity vector) int64 {
	var sum int64
	for d, w := range weights[k] {
		if w != 0 {
			sum += w * share(used.at(d), capacity.at(d))
		}
	}
	return sum
}

// rise is the amount that a need adds to the usage of a cell. The sum usage+rise is the score of
// an item on a cell; it has the same rounding for all cells, so that an index can order cells
// before the item is known.
func rise(k Kind, need, capacity vector) int64 { return usage(k, need, capacity) }
