package placement

import (
	"slices"
	"time"
)

// flights are the holdings that no cell has answered yet. Each has its deadline when the call to its
// cell begins: until then the cell cannot have it, and it is not placed elsewhere.
type flights struct {
	byItem   map[string]*holding // by Item.ID
	due      []*holding          // that have a deadline, in its order
	stranded []*holding          // to cells that went away
	last     int64               // number of the newest
}

func (f *flights) add(h *holding) {
	f.byItem[h.item.ID] = h
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
	if h.item != nil && f.byItem[h.item.ID] == h {
		delete(f.byItem, h.item.ID)
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
