package placement

import (
	"cmp"
	"slices"
	"time"
)

// Victim is a holding that may be ended to give its room to other work.
type Victim struct {
	Hold     string
	Priority int
	// Ending: it is being ended in any case, whatever its priority.
	Ending bool
}

// Preemption is room that an item gets on a cell once some work there has ended.
type Preemption struct {
	Cell string
	// Victims are to be ended, by their holdings; Ending end in any case.
	Victims, Ending []string
	highest         int // priority of a victim
}

// Preempt finds a cell for an item that no cell has room for: one that meets all of its constraints, and would have
// room once victims of lower priority have ended. The cell whose highest victim has the lowest priority is chosen, then
// the one with the fewest victims, then by name. No victim can be left out. At most limit are ended. Nothing changes in
// the ledger; unknown holdings, those in flight, and those of an equal or higher priority are never ended.
func Preempt(l *Ledger, it Item, victims []Victim, limit int) (Preemption, bool) {
	s := l.shapeOf(&it)
	var best Preemption
	found := false
	if len(s.unknown) > 0 {
		return best, false
	}
	for c, on := range byCell(l, &it, victims) {
		if c.earmarkFor != "" && c.earmarkFor != it.ID || c.resting || !l.servable(s, c) || !l.open(s, c) {
			continue
		}
		p, ok := evict(l, s, c, on, &it)
		if ok && len(p.Victims) <= limit && (!found || p.compare(&best) < 0) {
			best, found = p, true
		}
	}
	return best, found
}

func (p *Preemption) compare(o *Preemption) int {
	return cmp.Or(cmp.Compare(p.highest, o.highest), cmp.Compare(len(p.Victims), len(o.Victims)),
		compareText(p.Cell, o.Cell))
}

// victim is a Victim on its cell.
type victim struct {
	*holding
	priority int // 0 = it ends in any case
}

// byCell groups the victims that may be ended for an item.
func byCell(l *Ledger, it *Item, victims []Victim) map[*cell][]victim {
	out := make(map[*cell][]victim)
	for _, v := range victims {
		h := l.holds[v.Hold]
		switch {
		case h == nil || h.inFlight || h.Kind != KindLRP:
		case v.Ending:
			out[h.cell] = append(out[h.cell], victim{h, 0})
		case v.Priority > 0 && v.Priority < it.Priority:
			out[h.cell] = append(out[h.cell], victim{h, v.Priority})
		}
	}
	return out
}

// evict takes the victims on a cell, the lowest priority first, until an item fits, and then gives back each that is
// not needed, the highest first.
func evict(l *Ledger, s *shape, c *cell, on []victim, it *Item) (Preemption, bool) {
	lack := make(vector, len(s.need))
	for _, d := range s.where {
		lack[d] = s.need[d] - l.left(c, s.kind, d)
		if c.earmarkFor == it.ID {
			lack[d] -= c.earmark.at(d)
		}
	}
	slices.SortFunc(on, func(a, b victim) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(b.helps(s, c, lack), a.helps(s, c, lack)),
			compareText(a.Hold, b.Hold))
	})
	n := 0
	for ; n < len(on) && !filled(s, lack); n++ {
		on[n].give(s, lack, 1)
	}
	if !filled(s, lack) {
		return Preemption{}, false
	}
	p := Preemption{Cell: c.name}
	for _, v := range slices.Backward(on[:n]) {
		if v.give(s, lack, -1); filled(s, lack) {
			continue // without it, too
		}
		v.give(s, lack, 1)
		if v.priority == 0 {
			p.Ending = append(p.Ending, v.Hold)
			continue
		}
		p.Victims, p.highest = append(p.Victims, v.Hold), max(p.highest, v.priority)
	}
	return p, true
}

// give takes the room of a victim from the missing amounts, or gives it back.
func (v *victim) give(s *shape, lack vector, sign int64) {
	for _, d := range s.where {
		lack[d] -= sign * v.need.at(d)
	}
}

// helps is how much of the missing amounts a victim has, as shares of the cell's capacity.
func (v *victim) helps(s *shape, c *cell, lack vector) (sum int64) {
	for _, d := range s.where {
		if lack[d] > 0 {
			sum += share(min(lack[d], v.need.at(d)), c.capacity.at(d))
		}
	}
	return sum
}

func filled(s *shape, lack vector) bool {
	return !slices.ContainsFunc(s.where, func(d int) bool { return lack[d] > 0 })
}

const (
	// maxStarving bounds the items for which other work is ended at once.
	maxStarving = 10
	// starvePace is the minimum time between two looks at the work that waits.
	starvePace = time.Second
)

// priority is the priority of an item if it counts.
func (c *Config) priority(it *Item) int {
	if c.Preempt {
		return it.Priority
	}
	return 0
}

// Starving returns the first items, in the order of work, that have waited for resources long enough: other work may
// be ended for them. Those for which work is ending already, or for which nothing was found recently, are left
// out. It looks once a second at most, and never without Config.Preempt.
func (a *Auction) Starving(now time.Duration) []Item {
	if !a.cfg.Preempt || a.waiting == 0 || now < a.starveAt {
		return nil
	}
	a.starveAt = now + starvePace
	var all []*entry
	for _, q := range a.queues {
		if !q.starves() || now < q.starveAt {
			continue
		}
		for _, e := range q.heap {
			if !e.gone && now-e.since >= a.cfg.PreemptAfter && !a.ending(e, now) && now-e.endedAt >= a.cfg.PreemptAfter {
				all = append(all, e)
			}
		}
	}
	slices.SortFunc(all, compareEntries)
	var out []Item
	for _, e := range all[:min(len(all), maxStarving)] {
		out = append(out, e.item)
	}
	return out
}

// starves reports whether the work of a queue waits for resources.
func (q *queue) starves() bool {
	return q.asleep && q.n > 0 && q.refusal != nil && q.refusal.Code == InsufficientResources && !q.refusal.Never
}

// ending reports whether room that is reserved for an entry is becoming free. The cell may report the last of it as
// used for some time.
func (a *Auction) ending(e *entry, now time.Duration) bool {
	if len(e.ends) == 0 {
		return false
	}
	if slices.ContainsFunc(e.ends, func(hold string) bool { return a.holds[hold] != nil }) {
		return true
	}
	e.ends, e.endedAt = nil, now
	return false
}

// Preempt is Preempt for an item that waits.
func (a *Auction) Preempt(now time.Duration, id string, victims []Victim, limit int) (Preemption, bool) {
	e := a.entryOf(id)
	if e == nil || e.queue == nil || a.ending(e, now) {
		return Preemption{}, false
	}
	p, ok := Preempt(a.Ledger, e.item, victims, limit)
	if !ok {
		e.queue.starveAt = now + a.cfg.PreemptAfter
	}
	return p, ok
}

// Await reserves the cell of a preemption for an item that waits: nothing else gets the room of the work that ends
// there.
func (a *Auction) Await(id string, p *Preemption) {
	e, c := a.entryOf(id), a.byName[p.Cell]
	if e == nil || e.queue == nil || c == nil || c.earmarkFor != "" && c.earmarkFor != id {
		return
	}
	a.unmark(e)
	a.keep(e, c)
	c.reserve(&e.item, preempts)
	e.ends = slices.Concat(p.Victims, p.Ending)
}

// kept is what an entry keeps when the same item is requested again: its cell, and the work that is ended there.
type kept struct {
	cell *cell
	ends []string
	at   time.Duration
}

func (e *entry) kept() *kept {
	switch {
	case e.was != nil:
		return e.was
	case len(e.ends) == 0 && e.endedAt == 0:
		return nil
	}
	return &kept{e.mark, e.ends, e.endedAt}
}

// resume reserves the cell again that an earlier entry of the item had.
func (a *Auction) resume(e *entry) {
	was := e.was
	if e.was = nil; was == nil {
		return
	}
	e.endedAt = was.at
	if c := was.cell; c != nil && a.byName[c.name] == c && c.earmarkFor == "" {
		a.keep(e, c)
		c.reserve(&e.item, preempts)
		e.ends = was.ends
	}
}

// Spare records that nothing may be ended for an item now.
func (a *Auction) Spare(now time.Duration, id string) {
	if e := a.entryOf(id); e != nil && e.queue != nil {
		e.queue.starveAt = now + a.cfg.PreemptAfter
	}
}

// Awaits returns the cell that is reserved for an item, and how many holdings there are being ended for it; 0 = none.
func (a *Auction) Awaits(id string) (cell string, n int) {
	e := a.entryOf(id)
	if e == nil || e.mark == nil {
		return "", 0
	}
	for _, hold := range e.ends {
		if a.holds[hold] != nil {
			n++
		}
	}
	return e.mark.name, n
}

// nextStarving considers the times at which Starving may find items.
func (a *Auction) nextStarving(consider func(time.Duration)) {
	if !a.cfg.Preempt {
		return
	}
	for _, q := range a.queues {
		if e := q.head(); e != nil && q.starves() {
			consider(max(e.since+a.cfg.PreemptAfter, a.starveAt, q.starveAt, a.last+1))
		}
	}
}

// awardKept gives a cell to those entries of a queue for which one is reserved, though another one is the head.
func (a *Auction) awardKept(q *queue, now time.Duration, r *Result) {
	for _, e := range slices.Clone(a.marks) {
		if e.queue == q && !e.gone && a.fits(q.shape, e.mark, e.mark.earmark) {
			a.award(e, now, r)
		}
	}
}
