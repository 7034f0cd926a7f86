package placement

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"cantina/resource"
)

// Errors of the ledger.
var (
	// ErrHeld: the holding is already booked, on this or another cell.
	ErrHeld = errors.New("already held")
	// ErrUnknownHolding: nothing is booked under this id.
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
	// InFlight is how long a reservation lives without being confirmed; 0 = 30 s.
	InFlight time.Duration
	// Rest is how long a cell that refused gets nothing, unless its state changes
	// before; 0 = 1 s.
	Rest time.Duration
	// Patience is how long work waits before it reserves one cell; 0 = 30 s.
	Patience time.Duration
	// Batch bounds how many items one round places; 0 = 10,000.
	Batch int
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
	if c.Batch <= 0 {
		c.Batch = 10_000
	}
	c.BatchReserve = min(max(c.BatchReserve, 0), 100)
	return c
}

// cell is one cell as the ledger knows it.
type cell struct {
	id       int32
	name     string
	process  string
	known    bool // a state was pushed by process
	state    State
	session  bool // Admit spoke of it, Remove did not
	admitted bool
	blocked  string // why it is not admitted

	capacity, foreign vector
	used              vector // by holdings
	batch             vector // by holdings of batch tasks
	earmark           vector // kept for one waiting item
	earmarkFor        string // its ID

	class, zone, slot int // -1 = in no class
	restUntil         time.Duration
	resting           bool
	improved          bool
	holds             map[string]*holding
}

// holding is what is booked under one id.
type holding struct {
	Holding
	item     Item // as placed; zero when it came from rows
	cell     *cell
	need     vector
	inFlight bool
	deadline time.Duration
	// again is set when the same item was asked for while it was in flight.
	again bool
}

// Ledger is what every cell has and holds. It is not safe for concurrent use: the
// auctioneer owns it.
type Ledger struct {
	cfg      Config
	dims     dimensions
	cells    []*cell
	free     []int32 // unused places in cells
	byName   map[string]*cell
	holds    map[string]*holding
	flying   map[string]*holding // what is in flight, by Item.ID
	due      []*holding          // what was put in flight, in order of deadline
	stranded []*holding          // in flight to cells that went away
	groups   map[string]*group
	classes  []*class
	byKey    map[string]int
	classGen int
	zones    map[string]int
	hosts    map[string][]*cell
	shapes   map[string]*shape
	improved []*cell
	resting  []*cell
	cellGen  int // grows when what the cells offer changes
	visits   int
}

// NewLedger returns an empty ledger.
func NewLedger(cfg Config) *Ledger {
	return &Ledger{
		cfg: cfg.withDefaults(), dims: newDimensions(), byName: make(map[string]*cell),
		holds: make(map[string]*holding), flying: make(map[string]*holding), groups: make(map[string]*group),
		byKey: make(map[string]int), zones: make(map[string]int), hosts: make(map[string][]*cell), shapes: make(map[string]*shape),
	}
}

func (l *Ledger) cellNamed(name string) *cell {
	if c := l.byName[name]; c != nil {
		return c
	}
	c := &cell{name: name, class: -1, blocked: "no session", holds: make(map[string]*holding)}
	if n := len(l.free); n > 0 {
		c.id = l.free[n-1]
		l.free = l.free[:n-1]
		l.cells[c.id] = c
	} else {
		c.id = int32(len(l.cells))
		l.cells = append(l.cells, c)
	}
	l.byName[name] = c
	return c
}

// Push takes a cell's newest state. It reports whether it changed anything: a
// state of the same process that is not newer is ignored.
func (l *Ledger) Push(s State) bool {
	if s.Cell == "" {
		return false
	}
	c := l.cellNamed(s.Cell)
	if c.known && c.process == s.Process && s.Version <= c.state.Version {
		return false
	}
	old, wasKnown := c.state, c.known
	if wasKnown {
		l.unhost(c)
	}
	c.known, c.process, c.state = true, s.Process, s
	l.hosts[s.Host] = append(l.hosts[s.Host], c)
	c.capacity, c.foreign = l.dims.learn(s.Capacity), l.dims.learn(s.Foreign)
	l.rested(c)
	if !wasKnown || classKey(&old) != classKey(&s) {
		l.classify(c)
	}
	if !wasKnown || old.Evacuating != s.Evacuating || old.Unavailable != s.Unavailable || !old.Capacity.Equal(s.Capacity) {
		l.cellGen++
	}
	l.grown(c)
	l.touch(c, true)
	return true
}

// Admit says whether a cell's session may be given work: an empty reason admits
// it. Process is the session's cell process; a state of another process does not
// count until it pushes its own.
func (l *Ledger) Admit(name, process, reason string) {
	c := l.cellNamed(name)
	if c.known && c.process != process {
		l.unknow(c)
	}
	c.process, c.session = process, true
	if c.admitted != (reason == "") {
		l.cellGen++
	}
	c.admitted, c.blocked = reason == "", reason
	l.touch(c, c.admitted)
}

// Remove forgets a cell's state: its session is gone. What is booked on it stays
// booked until it is released, but for what was in flight: that is freed as if its
// time was over.
func (l *Ledger) Remove(name string) {
	c := l.byName[name]
	if c == nil {
		return
	}
	c.session, c.admitted, c.blocked = false, false, "no session"
	for _, h := range c.holds {
		if h.inFlight && h.Kind != KindBatch {
			l.stranded = append(l.stranded, h)
		}
	}
	l.unknow(c)
	l.forget(c)
}

// unknow forgets what a cell said about itself.
func (l *Ledger) unknow(c *cell) {
	l.declassify(c)
	l.unhost(c)
	c.known = false
}

func (l *Ledger) unhost(c *cell) {
	list := slices.DeleteFunc(l.hosts[c.state.Host], func(x *cell) bool { return x == c })
	if len(list) == 0 {
		delete(l.hosts, c.state.Host)
		return
	}
	l.hosts[c.state.Host] = list
}

// forget drops a cell of which nothing is known and on which nothing is booked.
func (l *Ledger) forget(c *cell) {
	if c.known || c.session || len(c.holds) > 0 || l.byName[c.name] != c {
		return
	}
	l.rested(c)
	delete(l.byName, c.name)
	l.cells[c.id] = nil
	l.free = append(l.free, c.id)
}

// classify puts the cell into the class of its state, moving the counts of the
// groups that it holds.
func (l *Ledger) classify(c *cell) {
	l.declassify(c)
	l.cellGen++
	key := classKey(&c.state)
	i, ok := l.byKey[key]
	if !ok {
		zone, ok := l.zones[c.state.Zone]
		if !ok {
			zone = len(l.zones)
			l.zones[c.state.Zone] = zone
		}
		i = len(l.classes)
		l.classes = append(l.classes, &class{key: key, zone: zone, attrs: c.state, largest: make(vector, scored)})
		l.byKey[key] = i
		l.classGen++
	}
	cl := l.classes[i]
	c.class, c.zone, c.slot = i, cl.zone, cl.join(c.id)
	l.eachGroup(c, func(g *group) { g.count(c, 0, g.cells[c.id]) })
}

// eachGroup visits every group that has an instance on the cell, once.
func (l *Ledger) eachGroup(c *cell, f func(*group)) {
	seen := make(map[string]bool)
	for _, h := range c.holds {
		if g := l.groupOf(h); g != nil && !seen[h.Group] {
			seen[h.Group] = true
			f(g)
		}
	}
}

func (l *Ledger) declassify(c *cell) {
	if c.class < 0 {
		return
	}
	l.eachGroup(c, func(g *group) { g.count(c, g.cells[c.id], 0) })
	l.cellGen++
	cl := l.classes[c.class]
	cl.mark(c.slot)
	cl.leave(c.slot)
	c.class, c.slot = -1, -1
}

func (l *Ledger) groupOf(h *holding) *group {
	if h.Kind != KindLRP || h.Group == "" {
		return nil
	}
	return l.groups[h.Group]
}

// grown keeps the class's bound on capacities.
func (l *Ledger) grown(c *cell) {
	if c.class < 0 {
		return
	}
	cl := l.classes[c.class]
	for d := range cl.largest {
		cl.largest[d] = max(cl.largest[d], c.capacity.at(d))
	}
}

// touch marks a cell for the indexes; improved says that it may now take work
// that it refused before.
func (l *Ledger) touch(c *cell, improved bool) {
	if c.class >= 0 {
		l.classes[c.class].mark(c.slot)
	}
	if improved && !c.improved {
		c.improved = true
		l.improved = append(l.improved, c)
	}
}

// rested ends a cell's rest.
func (l *Ledger) rested(c *cell) {
	if c.resting {
		c.resting = false
		l.resting = slices.DeleteFunc(l.resting, func(x *cell) bool { return x == c })
	}
}

// usable reports whether a cell takes new work at all.
func (c *cell) usable() bool {
	return c.known && c.admitted && !c.state.Evacuating && c.state.Unavailable == "" && !c.resting
}

// left is what one kind of work may still take of dimension d on a cell.
func (l *Ledger) left(c *cell, k Kind, d int) int64 {
	x := c.capacity.at(d) - c.foreign.at(d) - c.used.at(d) - c.earmark.at(d)
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

func (l *Ledger) book(h *holding) {
	c := h.cell
	c.used = plus(c.used, h.need, 1)
	if h.Kind == KindBatch {
		c.batch = plus(c.batch, h.need, 1)
	}
	if h.Kind == KindLRP && h.Group != "" {
		g := l.groups[h.Group]
		if g == nil {
			g = newGroup()
			l.groups[h.Group] = g
		}
		g.add(c, 1)
	}
	c.holds[h.Hold] = h
	l.holds[h.Hold] = h
	if h.inFlight {
		l.flying[h.item.ID] = h
		l.due = append(l.due, h)
	}
	l.touch(c, false)
}

func (l *Ledger) unbook(h *holding) {
	c := h.cell
	c.used = plus(c.used, h.need, -1)
	if h.Kind == KindBatch {
		c.batch = plus(c.batch, h.need, -1)
	}
	if g := l.groupOf(h); g != nil {
		g.add(c, -1)
		if g.total == 0 {
			delete(l.groups, h.Group)
		}
	}
	delete(c.holds, h.Hold)
	delete(l.holds, h.Hold)
	l.landed(h)
	l.touch(c, true)
	l.forget(c)
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

// Hold books what a row or a report says a cell has; the cell may be unknown yet,
// and may end up above its capacity: then it admits nothing new. The same holding
// on the same cell again only confirms it. Errors: ErrHeld (booked elsewhere),
// ErrInvalid.
func (l *Ledger) Hold(x Holding) error {
	if x.Hold == "" || x.Cell == "" {
		return fmt.Errorf("hold %q on cell %q: %w", x.Hold, x.Cell, ErrInvalid)
	}
	if h := l.holds[x.Hold]; h != nil {
		if h.Cell != x.Cell {
			return fmt.Errorf("hold %q on cell %q, booked on %q: %w", x.Hold, x.Cell, h.Cell, ErrHeld)
		}
		l.confirm(h)
		return nil
	}
	h := &holding{Holding: x, cell: l.cellNamed(x.Cell), need: withContainer(l.dims.learn(x.Need))}
	l.book(h)
	return nil
}

func (l *Ledger) confirm(h *holding) {
	l.landed(h)
	h.item = Item{}
}

// landed ends a holding's flight.
func (l *Ledger) landed(h *holding) {
	if h.inFlight && l.flying[h.item.ID] == h {
		delete(l.flying, h.item.ID)
	}
	h.inFlight = false
}

// Confirm says that a cell has really taken what was in flight. It returns
// ErrUnknownHolding when it expired meanwhile: then Hold books it again.
func (l *Ledger) Confirm(hold string) error {
	h := l.holds[hold]
	if h == nil {
		return fmt.Errorf("confirm %q: %w", hold, ErrUnknownHolding)
	}
	l.confirm(h)
	return nil
}

// Release frees what is booked under the ids; unknown ids are ignored. It returns
// how many were booked.
func (l *Ledger) Release(holds ...string) int {
	n := 0
	for _, id := range holds {
		if h := l.holds[id]; h != nil {
			l.unbook(h)
			n++
		}
	}
	return n
}

// Where returns the cell on which a holding is booked.
func (l *Ledger) Where(hold string) (cell string, ok bool) {
	if h := l.holds[hold]; h != nil {
		return h.Cell, true
	}
	return "", false
}

// rest keeps a cell that refused out of the auction for a while.
func (l *Ledger) rest(c *cell, until time.Duration) {
	c.restUntil = until
	if !c.resting {
		c.resting = true
		l.resting = append(l.resting, c)
	}
	l.touch(c, false)
}

// wake ends the rest of cells whose time has come.
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

// expired takes the holdings in flight whose cell went away or whose deadline is
// over, oldest first.
func (l *Ledger) expired(now time.Duration) []*holding {
	out := slices.DeleteFunc(l.stranded, func(h *holding) bool { return !h.inFlight })
	slices.SortFunc(out, func(a, b *holding) int { return compareText(a.Hold, b.Hold) })
	l.stranded = nil
	for len(l.due) > 0 && (!l.due[0].inFlight || l.due[0].deadline <= now) {
		if l.due[0].inFlight {
			out = append(out, l.due[0])
		}
		l.due[0] = nil
		l.due = l.due[1:]
	}
	return out
}

// nextExpiry returns the deadline of the oldest holding in flight.
func (l *Ledger) nextExpiry() (time.Duration, bool) {
	for len(l.due) > 0 && !l.due[0].inFlight {
		l.due[0] = nil
		l.due = l.due[1:]
	}
	if len(l.due) == 0 {
		return 0, false
	}
	return l.due[0].deadline, true
}

// CellView is one cell for the status page.
type CellView struct {
	Name, Process, Zone string
	Capacity            resource.Amounts
	Used                resource.Amounts // by holdings
	Foreign             resource.Amounts
	Reserved            resource.Amounts // kept for one waiting item
	ReservedFor         string
	Holdings, InFlight  int
	Reason              string // why it takes no new work; empty = it does
}

// Cells returns all cells in order of name.
func (l *Ledger) Cells() []CellView {
	out := make([]CellView, 0, len(l.byName))
	for _, c := range l.byName {
		v := CellView{
			Name: c.name, Process: c.process, Zone: c.state.Zone, Capacity: l.dims.amounts(c.capacity),
			Used: l.dims.amounts(c.used), Foreign: l.dims.amounts(c.foreign), Reserved: l.dims.amounts(c.earmark),
			ReservedFor: c.earmarkFor, Holdings: len(c.holds), Reason: c.reason(),
		}
		for _, h := range c.holds {
			if h.inFlight {
				v.InFlight++
			}
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b CellView) int { return compareText(a.Name, b.Name) })
	return out
}

func (c *cell) reason() string {
	switch {
	case !c.admitted:
		return c.blocked
	case !c.known:
		return "has not said what it offers"
	case c.state.Evacuating:
		return "evacuating"
	case c.state.Unavailable != "":
		return c.state.Unavailable
	case c.resting:
		return "refused work a moment ago"
	}
	return ""
}
