package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// batchWaits has the refused shapes of batch work, and since when no work of the shape was
// granted. It does not queue: the requester repeats its request (Reserve). Like other work, a
// shape that has waited longer than the limit has a cell reserved for it, so that narrow work
// cannot starve wide work.
type batchWaits struct {
	a       *Auction
	byShape map[string]*entry
}

// kept is the cell that is kept for a shape, if it has room by now.
func (b *batchWaits) kept(s *shape) *cell {
	if b == nil {
		return nil
	}
	if e := b.byShape[s.key]; e != nil && e.mark != nil && b.a.fits(s, e.mark, e.mark.earmark) {
		return e.mark
	}
	return nil
}

// granted ends the wait of a shape.
func (b *batchWaits) granted(s *shape) {
	if b == nil {
		return
	}
	if e := b.byShape[s.key]; e != nil {
		b.forget(e)
	}
}

func (b *batchWaits) forget(e *entry) {
	freed := b.a.freed
	b.a.unmark(e)
	b.a.freed = freed || e.poked // its reservation is reported when it is no longer requested
	delete(b.byShape, e.queue.shape.key)
}

// refused records that a shape waits, and adds the reserved cell to the refusal.
func (b *batchWaits) refused(s *shape, w *Want, r *Refusal, now time.Duration) *Refusal {
	if b == nil || w.Hold == "" {
		return r
	}
	e := b.byShape[s.key]
	if e == nil {
		e = &entry{since: now, queue: &queue{shape: s}}
		b.byShape[s.key] = e
	}
	e.queue.shape = s
	e.item = Item{ID: waiterName(w.Hold), Hold: w.Hold, Kind: KindBatch, Need: w.Need}
	e.asked, e.poked = now, false
	if e.mark != nil {
		e.mark.reserve(&e.item, waitedLonger)
		r.Kept = fmt.Sprintf("cell %s is reserved for it and gets the next free resources", e.mark.name)
	}
	return r
}

// waiterName prints the hold of a batch task for people.
func waiterName(hold string) string { return strings.ReplaceAll(hold, "\x00", "/") }

// impatient returns shapes that have waited too long without a reserved cell, the longest first.
func (b *batchWaits) impatient(now, patience time.Duration) []*entry {
	var out []*entry
	for _, e := range b.byShape {
		if e.mark == nil && now-e.since >= patience {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(x, y *entry) int {
		return cmp.Or(cmp.Compare(x.since, y.since), strings.Compare(x.queue.shape.key, y.queue.shape.key))
	})
	return out
}

// tidy wakes the requesters of shapes without a request within the limit, and removes shapes that
// are not requested then either: their job has ended, or is paused.
func (b *batchWaits) tidy(now time.Duration) {
	for _, e := range b.byShape {
		switch idle := now - e.asked; {
		case idle >= b.a.cfg.Patience+grace(b.a.cfg.Patience):
			b.forget(e)
		case idle >= b.a.cfg.Patience && !e.poked:
			e.poked, b.a.freed = true, true
		}
	}
}

// grace is how long a woken requester has for its request.
func grace(patience time.Duration) time.Duration { return max(patience/3, time.Millisecond) }

// next returns when waiting batch work is due.
func (b *batchWaits) next(a *Auction, consider func(time.Duration)) {
	room := a.patient() < max(len(a.byName)/10, 1)
	for _, e := range b.byShape {
		switch {
		case e.poked:
			consider(e.asked + a.cfg.Patience + grace(a.cfg.Patience))
		default:
			consider(e.asked + a.cfg.Patience)
		}
		if room && e.since+a.cfg.Patience > a.last {
			consider(e.since + a.cfg.Patience)
		}
	}
}

// Reserve grants room for many batch tasks, as Ledger.Reserve. Work of a shape that got
// nothing for longer than the patience has a cell kept for it at the next round.
func (a *Auction) Reserve(wants []Want, now time.Duration) []Grant {
	return a.reserve(wants, now, a.batch)
}
