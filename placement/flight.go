package placement

import (
	"slices"
	"time"
)

// flights are the holdings that no cell has answered yet. Each has its deadline when the call to its
// cell begins: until then the cell cannot have it, and it is not placed elsewhere.
type flights struct {
	pending  map[string]*pending // by Item.ID
	inFlight int                 // holdings in flight
	due      []*holding          // that have a deadline, in its order
	stranded []*holding          // to cells that went away
	last     int64               // number of the newest
}

// pending is an item from its request on until a cell has it: it waits, or it is in flight, or both.
type pending struct {
	waits *entry
	flies *holding
}

// settle forgets an item that neither waits nor is in flight.
func (f *flights) settle(id string, x *pending) {
	if x.waits == nil && x.flies == nil {
		delete(f.pending, id)
	}
}

func (f *flights) add(h *holding) {
	if h.pending == nil {
		h.pending = f.pending[h.item.ID]
	}
	if h.pending == nil {
		h.pending = &pending{}
		f.pending[h.item.ID] = h.pending
	}
	h.pending.flies = h
	f.inFlight++
	if h.deadline != 0 {
		f.due = append(f.due, h)
	}
}

// Send reports whether placed work is still in flight as it was placed, so that a call to its cell may
// carry it. With the first call the time until its confirmation begins.
func (l *Ledger) Send(p *Placement, now time.Duration) bool {
	h := l.holds[p.Item.Hold]
	if h == nil || !h.inFlight || h.flight != p.flight || l.byName[p.Cell] != h.cell || h.cell.process != p.Process {
		return false
	}
	if h.deadline == 0 {
		h.deadline = now + l.cfg.InFlight
		l.flights.due = append(l.flights.due, h)
	}
	return true
}

// land ends a holding's flight.
func (f *flights) land(h *holding) {
	if x := h.pending; x != nil {
		h.pending = nil
		f.inFlight--
		if x.flies == h {
			x.flies = nil
			f.settle(h.item.ID, x)
		}
	}
	h.inFlight = false
}

// confirm lands a holding that its cell has.
func (f *flights) confirm(h *holding) {
	f.land(h)
	h.item = nil
}

// expired takes the holdings in flight whose cell is gone or whose deadline is over, oldest first.
func (f *flights) expired(now time.Duration) []*holding {
	out := slices.DeleteFunc(f.stranded, func(h *holding) bool { return !h.inFlight })
	slices.SortFunc(out, func(a, b *holding) int { return compareText(a.Hold, b.Hold) })
	f.stranded = nil
	for at, ok := f.next(); ok && at <= now; at, ok = f.next() {
		out, f.due[0] = append(out, f.due[0]), nil
		f.due = f.due[1:]
	}
	return out
}

// next returns the deadline of the oldest holding in flight.
func (f *flights) next() (time.Duration, bool) {
	for len(f.due) > 0 && !f.due[0].inFlight {
		f.due[0] = nil
		f.due = f.due[1:]
	}
	if len(f.due) == 0 {
		return 0, false
	}
	return f.due[0].deadline, true
}
