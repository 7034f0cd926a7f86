package placement

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// reserveCells reserves one cell for the head of every queue that waited longer than the limit:
// resources that become free there are reserved for it, so that a stream of small work cannot
// starve it. At most a tenth of the cells, and at least one, is reserved in this way at any time; one cell is
// reserved for one item. If a port that it fixes is in use, nothing else is reserved for it: that
// may last.
func (a *Auction) reserveCells(now time.Duration) {
	a.checkMarks()
	limit := max(len(a.byName)/10, 1)
	for _, q := range a.impatient(now) {
		if a.patient() >= limit {
			return
		}
		e := q.head()
		if c := a.cheapest(q.shape); c != nil {
			a.keep(e, c)
		}
	}
	for _, e := range a.batch.impatient(now, a.cfg.Patience) {
		if a.patient() >= limit {
			return
		}
		if c := a.cheapest(e.queue.shape); c != nil {
			a.keep(e, c)
		}
	}
}

// keep keeps a cell for an entry.
func (a *Auction) keep(e *entry, c *cell) {
	e.mark = c
	c.earmark, c.earmarkKind = slices.Clone(e.queue.shape.need), e.item.Kind
	c.reserve(&e.item, waitedLonger)
	a.marks = append(a.marks, e)
	a.touch(c, false)
}

// patient counts the reserved cells on which no work is ended.
func (a *Auction) patient() int {
	n := len(a.marks)
	for _, e := range a.marks {
		if len(e.ends) > 0 {
			n--
		}
	}
	return n
}

// Why a cell is reserved for an item.
const (
	waitedLonger = "which has waited longer"
	preempts     = "for which instances there are being stopped"
)

// reserve sets the item for which a cell is reserved.
func (c *cell) reserve(it *Item, why string) {
	c.earmarkFor, c.earmarkText = it.ID, cmp.Or(it.Name, it.ID)+", "+why
}

// checkMarks drops reservations on cells that can no longer serve them.
func (a *Auction) checkMarks() {
	for _, e := range slices.Clone(a.marks) {
		c := e.mark
		a.compile(e.queue.shape)
		if s := e.queue.shape; !a.servable(s, c) || !a.open(s, c) {
			a.unmark(e)
		}
	}
}

// impatient returns the queues whose head waited too long without a reserved cell, in the order of
// work.
func (a *Auction) impatient(now time.Duration) []*queue {
	var out []*queue
	for _, q := range a.queues {
		if e := q.head(); q.asleep && e.mark == nil && now-e.since >= a.cfg.Patience {
			out = append(out, q)
		}
	}
	slices.SortFunc(out, func(x, y *queue) int { return compareEntries(x.head(), y.head()) })
	return out
}

// servable reports whether a cell would have room for the shape once it is empty.
func (l *Ledger) servable(s *shape, c *cell) bool {
	return c.known && c.admitted && !c.state.Draining && c.state.Unavailable == "" && s.allows(c) && l.couldHold(s, c)
}

// cheapest returns the cell that lacks the least for the shape: the least sum of missing amounts,
// as shares of the cell's capacity.
func (a *Auction) cheapest(s *shape) *cell {
	a.compile(s)
	var best *cell
	least := int64(math.MaxInt64)
	for _, c := range a.cells {
		if c == nil || c.earmarkFor != "" || !a.servable(s, c) || !a.open(s, c) {
			continue
		}
		var lack int64
		for _, d := range s.where {
			lack += share(s.need[d]-a.left(c, s.kind, d), c.capacity.at(d))
		}
		if lack < least {
			best, least = c, lack
		}
	}
	return best
}

// unmark frees the cell that is kept for an entry.
func (a *Auction) unmark(e *entry) {
	c := e.mark
	if c == nil {
		return
	}
	if len(e.ends) > 0 {
		e.endedAt = a.last
	}
	e.mark, e.ends = nil, nil
	c.earmark, c.earmarkFor, c.earmarkText = nil, "", ""
	a.freed = true
	a.touch(c, true)
	a.marks = slices.DeleteFunc(a.marks, func(x *entry) bool { return x == e })
}

// Next returns the next time at which a round may do something though nothing
// happened: a rest ends, a reservation expires, or work has waited long enough to
// reserve a cell. ok is false when there is none.
func (a *Auction) Next() (at time.Duration, ok bool) {
	consider := func(t time.Duration) {
		if !ok || t < at {
			at, ok = t, true
		}
	}
	for _, c := range a.resting {
		consider(c.restUntil)
	}
	for _, e := range a.fresh {
		if !e.gone {
			consider(e.from)
		}
	}
	if t, ok := a.flights.next(); ok {
		consider(t)
	}
	for _, q := range a.queues {
		if q.asleep && q.gen != a.cellGen {
			consider(q.looked + lookAgain) // the refusal may not be true any more
		}
	}
	if a.patient() < max(len(a.byName)/10, 1) {
		for _, q := range a.queues {
			if e := q.head(); e.since+a.cfg.Patience > a.last {
				consider(e.since + a.cfg.Patience)
			}
		}
	}
	a.batch.next(a, consider)
	a.nextStarving(consider)
	return at, ok
}
