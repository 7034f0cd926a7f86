package placement

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Relocation is a move of one instance that makes the use of the cells more even, or its service more spread.
type Relocation struct {
	Item     Item
	From, To string
	Why      string // the gain: "zone: 3 instances, there 1", "use: 80 %, there 40 %"
}

// Balance is a plan of moves, and the standard deviation of the use of the cells before and after it, in percent of
// a cell.
type Balance struct {
	Moves         []Relocation
	Before, After float64
	Partial       bool // more instances could be looked at
}

const (
	// minGain is the least difference of use for which an instance is moved: 5 % of a cell in the mean of memory,
	// disk and containers. Below it the use of a cell changes all the time.
	minGain = 3 * unit / 20
	// maxTried bounds how many cells are searched for a plan: the auction waits for it.
	maxTried = 20_000
)

// Rebalance plans at most limit moves of instances that run, of each service at most each (0 = no bound), best
// first by the cell that is used most. Each move counts for the next. Nothing is allocated afterwards. Items that are
// not allocated, or in flight, or on a cell that takes no work, stay.
func Rebalance(l *Ledger, items []Item, limit, each int) Balance {
	r := rebalance{l: l, limit: limit, each: each, services: make(map[string]int)}
	out := Balance{Before: deviation(l)}
	defer r.undo()
	for again := true; again && len(out.Moves) < limit; {
		again = false
		for _, it := range r.order(items) {
			if r.tried++; r.tried > maxTried {
				out.Partial = true
				break
			}
			if m, ok := r.move(it); ok {
				again = true
				if out.Moves = append(out.Moves, m); len(out.Moves) == limit {
					break
				}
			}
		}
		again = again && !out.Partial
	}
	out.After = deviation(l)
	return out
}

type rebalance struct {
	l           *Ledger
	limit, each int
	services    map[string]int // moves of each
	tried       int
	moved       []*holding // as they were
	trials      []*holding // where they would be
}

// order lists the items that may be moved: those on the cell that is used most first.
func (r *rebalance) order(items []Item) []*Item {
	var out []*Item
	for i := range items {
		h := r.l.holds[items[i].Hold]
		if h != nil && !h.inFlight && h.Kind == KindLRP && h.cell.class >= 0 && h.cell.usable() {
			out = append(out, &items[i])
		}
	}
	use := make(map[*cell]int64)
	for _, it := range out {
		c := r.l.holds[it.Hold].cell
		if _, ok := use[c]; !ok {
			use[c] = usage(KindLRP, c.total(), c.capacity)
		}
	}
	slices.SortFunc(out, func(x, y *Item) int {
		a, b := r.l.holds[x.Hold].cell, r.l.holds[y.Hold].cell
		return cmp.Or(cmp.Compare(use[b], use[a]), compareText(a.name, b.name), compareText(x.Name, y.Name),
			compareText(x.Hold, y.Hold))
	})
	return out
}

// move tries another cell for an item. An item that is moved is no longer found under its hold.
func (r *rebalance) move(it *Item) (Relocation, bool) {
	l := r.l
	h := l.holds[it.Hold]
	if h == nil || r.each > 0 && r.services[it.Service] >= r.each {
		return Relocation{}, false
	}
	l.note(it.Constraint.Apart)
	from := h.cell
	l.deallocate(h)
	s, g := l.shapeOf(it), l.groups[it.Group]
	to := l.find(s, g)
	why := ""
	if to != nil && to != from {
		why = gain(l, s, g, from, to)
	}
	if why == "" {
		allocateAgain(l, h)
		return Relocation{}, false
	}
	trial := *it
	trial.ID = "\x00move/" + strconv.Itoa(len(r.trials))
	trial.Hold = trial.ID
	r.moved = append(r.moved, h)
	r.trials = append(r.trials, l.take(&trial, s, to, 0))
	r.services[it.Service]++
	return Relocation{Item: *it, From: from.name, To: to.name, Why: why}, true
}

// undo puts all back.
func (r *rebalance) undo() {
	for _, h := range r.trials {
		r.l.deallocate(h)
	}
	for _, h := range r.moved {
		allocateAgain(r.l, h)
	}
}

func allocateAgain(l *Ledger, h *holding) {
	h.group = nil // the group is another one if it was empty meanwhile
	l.allocate(h)
}

// gain describes by how much a cell is better for a shape than the one that it is taken from; empty = not enough.
// The instance counts on neither.
func gain(l *Ledger, s *shape, g *group, from, to *cell) string {
	a, b := l.valuesOf(s, from), l.valuesOf(s, to)
	for j, t := range s.labels[:s.spread] {
		was, is := g.in(t, a[j]), g.in(t, b[j])
		switch {
		case is < was:
			return fmt.Sprintf("%s: beside %d of its instances, there %d", l.domains.labels[t], was, is)
		case is > was:
			return ""
		}
	}
	was, is := g.onCell(from.id), g.onCell(to.id)
	switch {
	case is < was:
		return fmt.Sprintf("cell: beside %d of its instances, there %d", was, is)
	case is > was:
		return ""
	}
	if x, y := s.score(l, from), s.score(l, to); x-y >= minGain {
		return fmt.Sprintf("use: %d %%, there %d %%", percent(x), percent(y))
	}
	return ""
}

// percent is a score of an instance as the mean use of a cell.
func percent(score int64) int64 { return (100*score/3 + unit/2) / unit }

// deviation is the standard deviation of the use of the cells that take work, in percent.
func deviation(l *Ledger) float64 {
	var n, sum, squares float64
	for _, c := range l.cells {
		if c == nil || !c.usable() {
			continue
		}
		x := 100 * float64(usage(KindLRP, c.total(), c.capacity)) / 3 / unit
		n, sum, squares = n+1, sum+x, squares+x*x
	}
	if n == 0 {
		return 0
	}
	return math.Sqrt(max(squares/n-sum/n*sum/n, 0))
}
