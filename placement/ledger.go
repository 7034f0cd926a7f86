package placement

import (
	"errors"
	"fmt"
	"time"
)

// Errors of the ledger.
var (
	// ErrHeld: the holding is already allocated, on this or another cell.
	ErrHeld = errors.New("already held")
	// ErrUnknownHolding: nothing is allocated under this id.
	ErrUnknownHolding = errors.New("unknown holding")
	// ErrInvalid: an id is empty.
	ErrInvalid = errors.New("invalid placement request")
)

// Config of the ledger and the auction. The zero value is usable: no share for
// batch, the default durations.
type Config struct {
	// BatchReserve is the share of every cell's capacity, in percent, that LRPs and
	// tasks leave to batch tasks.
	BatchReserve int
	// InFlight is how long a reservation lives without being confirmed, from the call to its cell on,
	// of a batch task from its grant on; 0 = 30 s.
	InFlight time.Duration
	// Rest is how long a cell that refused gets nothing, unless its state changes
	// before; 0 = 1 s.
	Rest time.Duration
	// Patience is how long work waits before it reserves one cell; 0 = 30 s.
	Patience time.Duration
	// Batch bounds how many items one round places, so that it is short; 0 = 500. With many shapes of
	// work it is an eighth of them, because a round looks at each.
	Batch int
	// Preempt has waiting work ordered by its priority, and permits Starving.
	Preempt bool
	// PreemptAfter is how long work waits before other work is ended for it; 0 = 5 s.
	PreemptAfter time.Duration
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&c.InFlight, 30*time.Second)
	set(&c.Rest, time.Second)
	set(&c.Patience, 30*time.Second)
	set(&c.PreemptAfter, 5*time.Second)
	if c.Batch <= 0 {
		c.Batch = 500
	}
	c.BatchReserve = min(max(c.BatchReserve, 0), 100)
	return c
}

// holding is the allocation of one id.
type holding struct {
	Holding
	item     *Item // as placed, while in flight
	cell     *cell
	at       int      // its place among those of its cell
	pending  *pending // of its item, while in flight
	group    *group   // that counts it, while it is allocated
	need     vector
	inFlight bool
	flight   int64         // number of the placement
	deadline time.Duration // of the flight; 0 = its call has not begun
	// again is the same item, requested while it was in flight: another attempt, with its own Hold,
	// because this one may have arrived.
	again *Item
	tries int // refusals by cells before this placement
}

// Ledger has the capacity and the allocations of every cell. It is not safe for concurrent use:
// the auctioneer owns it.
type Ledger struct {
	neighbours
	cfg      Config
	dims     dimensions
	cells    []*cell
	free     []int32 // unused places in cells
	flights  flights
	byKey    map[string]int
	classGen int
	shapes   map[string]*shape
	improved []*cell
	resting  []*cell
	cellGen  int   // grows when the cells' capacity changes
	granted  int64 // grants of batch work
	visits   int
	search   search // the present or last one
}

// NewLedger returns an empty ledger.
func NewLedger(cfg Config) *Ledger {
	return &Ledger{
		neighbours: neighbours{byName: make(map[string]*cell), holds: make(map[string]*holding), groups: make(groups),
			domains: newDomains(), apart: newApart(), hosts: make(machines)},
		cfg: cfg.withDefaults(), dims: newDimensions(), flights: flights{pending: make(map[string]*pending)},
		byKey: make(map[string]int), shapes: make(map[string]*shape),
	}
}

// usable reports whether a cell takes new work at all.
func (c *cell) usable() bool {
	return c.known && c.admitted && !c.state.Draining && c.state.Unavailable == "" && !c.resting
}

// left is the amount of dimension d on a cell that one kind of work may still take.
func (l *Ledger) left(c *cell, k Kind, d int) int64 {
	x := c.capacity.at(d) - c.foreign.at(d) - c.used.at(d)
	if k != KindLRP || c.earmarkKind != KindBatch { // services have their turn before batch work
		x -= c.earmark.at(d)
	}
	if k != KindBatch && l.cfg.BatchReserve > 0 {
		x -= max(c.capacity.at(d)*int64(l.cfg.BatchReserve)/100-c.batch.at(d), 0)
	}
	return x
}

// total is used and foreign together, for scores.
func (c *cell) total() vector {
	v := make(vector, scored)
	for d := range v {
		v[d] = c.used.at(d) + c.foreign.at(d)
	}
	return v
}

func (l *Ledger) allocate(h *holding) {
	c := h.cell
	c.used = plus(c.used, h.need, 1)
	if h.Kind == KindBatch {
		c.batch = plus(c.batch, h.need, 1)
	}
	l.count(h, 1)
	l.meet(h, 1)
	h.at, c.holds = len(c.holds), append(c.holds, h)
	l.holds[h.Hold] = h
	l.takePorts(h, 1)
	if h.inFlight {
		l.flights.add(h)
	}
	l.touch(c, false)
}

func (l *Ledger) deallocate(h *holding) {
	c := h.cell
	c.used = plus(c.used, h.need, -1)
	if h.Kind == KindBatch {
		c.batch = plus(c.batch, h.need, -1)
	}
	l.count(h, -1)
	l.meet(h, -1)
	c.holds = h.leave(c.holds)
	delete(l.holds, h.Hold)
	l.takePorts(h, -1)
	l.flights.land(h)
	l.touch(c, true)
	l.forget(c)
}

// leave takes a holding out of those of its cell; the last takes its place.
func (h *holding) leave(holds []*holding) []*holding {
	last := len(holds) - 1
	holds[h.at], holds[last].at = holds[last], h.at
	holds[last] = nil
	return holds[:last]
}

func plus(v, w vector, sign int64) vector {
	for len(v) < len(w) {
		v = append(v, 0)
	}
	for i, x := range w {
		v[i] += sign * x
	}
	return v
}

// Hold allocates work on a cell according to a row or a report. The cell may be unknown yet, and
// may end up above its capacity: then it admits no new work. The same holding on the same cell
// again only confirms it. A holding in flight to another cell is an attempt that was overtaken: an
// earlier one, given up without a response, has arrived after all, and the row counts. Errors:
// ErrHeld (held elsewhere), ErrInvalid.
func (l *Ledger) Hold(x Holding) error {
	if x.Hold == "" || x.Cell == "" {
		return fmt.Errorf("hold %q on cell %q: %w", x.Hold, x.Cell, ErrInvalid)
	}
	if h := l.holds[x.Hold]; h != nil {
		if h.Cell == x.Cell {
			l.flights.confirm(h)
			return nil
		}
		if !h.inFlight {
			return fmt.Errorf("hold %q on cell %q, allocated on %q: %w", x.Hold, x.Cell, h.Cell, ErrHeld)
		}
		l.deallocate(h)
	}
	l.note(x.Apart)
	h := &holding{Holding: x, cell: l.cellNamed(x.Cell), need: withContainer(l.dims.learn(x.Need))}
	l.allocate(h)
	return nil
}

// Confirm records that a cell has really taken work in flight. It returns ErrUnknownHolding if it
// expired meanwhile: then Hold allocates it again.
func (l *Ledger) Confirm(hold string) error {
	h := l.holds[hold]
	if h == nil {
		return fmt.Errorf("confirm %q: %w", hold, ErrUnknownHolding)
	}
	l.flights.confirm(h)
	return nil
}

// Release frees the allocations of the ids; unknown ids are ignored. It returns how many were
// allocated.
func (l *Ledger) Release(holds ...string) int {
	n := 0
	for _, id := range holds {
		if h := l.holds[id]; h != nil {
			l.deallocate(h)
			n++
		}
	}
	return n
}

// Where returns the cell on which a holding is allocated.
func (l *Ledger) Where(hold string) (cell string, ok bool) {
	if h := l.holds[hold]; h != nil {
		return h.Cell, true
	}
	return "", false
}

// rest keeps a cell that refused out of the auction for some time.
func (l *Ledger) rest(c *cell, until time.Duration, why string) {
	c.restUntil, c.restWhy = until, why
	if !c.resting {
		c.resting = true
		l.resting = append(l.resting, c)
	}
	l.touch(c, false)
}

// wake ends the rest time of cells that are due.
func (l *Ledger) wake(now time.Duration) {
	keep := l.resting[:0]
	for _, c := range l.resting {
		if c.restUntil > now {
			keep = append(keep, c)
			continue
		}
		c.resting = false
		l.touch(c, true)
	}
	clear(l.resting[len(keep):])
	l.resting = keep
}
