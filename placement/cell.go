package placement

import (
	"slices"
	"time"

	"cantina/resource"
)

// cell is one cell as the ledger knows it.
type cell struct {
	id       int32
	name     string
	process  string
	known    bool // a state was pushed by process
	state    State
	session  bool // set by Admit, not by Remove
	admitted bool
	blocked  string // why it is not admitted

	capacity, foreign vector
	used              vector      // by holdings
	batch             vector      // by holdings of batch tasks
	turn              int64       // number of the newest grant of batch work here
	ports             map[int]int // fixed ports, by how many holdings have each
	earmark           vector      // kept for one waiting item
	earmarkFor        string      // its ID
	earmarkText       string      // its name, and why it has the reservation
	earmarkKind       Kind

	class, slot      int // -1 = in no class
	restUntil        time.Duration
	resting          bool
	restWhy          string // why; empty = it refused work
	improved         bool
	holds            []*holding     // in no order; each has its place
	services, repels map[string]int // see apart
}

func (l *Ledger) cellNamed(name string) *cell {
	if c := l.byName[name]; c != nil {
		return c
	}
	c := &cell{name: name, class: -1, blocked: "no session"}
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
		l.hosts.remove(c)
	}
	l.flights.replace(c, s.Process)
	c.known, c.state = true, s
	l.hosts.add(c)
	c.capacity, c.foreign = l.dims.learn(s.Capacity), l.dims.learn(s.Foreign)
	l.rested(c)
	if !wasKnown || classKey(&old) != classKey(&s) {
		l.classify(c)
	}
	if old.Draining != s.Draining || old.Unavailable != s.Unavailable || !old.Capacity.Equal(s.Capacity) {
		l.cellGen++
	}
	l.grown(c)
	l.touch(c, true)
	return true
}

// Drained begins the reason of a cell that is not admitted because a person drains it.
const Drained = "being drained: "

// Admit sets whether a cell's session may get work: an empty reason admits it. Process is the
// session's cell process; a state of another process does not count until it pushes its own. It
// returns false if nothing changed.
func (l *Ledger) Admit(name, process, reason string) bool {
	c := l.cellNamed(name)
	if c.session && c.process == process && c.blocked == reason {
		return false
	}
	if c.process != process {
		l.unknow(c)
	}
	l.flights.replace(c, process)
	news := !c.session || c.admitted != (reason == "")
	c.session = true
	if news {
		l.cellGen++
	}
	c.admitted, c.blocked = reason == "", reason
	l.touch(c, c.admitted)
	return true
}

// Remove removes a cell's state: its session is gone. Its allocations stay until they are
// released, except work in flight: that is freed as if its time was over.
func (l *Ledger) Remove(name string) {
	c := l.byName[name]
	if c == nil {
		return
	}
	c.session, c.admitted, c.blocked = false, false, "no session"
	l.cellGen++
	l.flights.strand(c, func(*holding) bool { return true })
	l.unknow(c)
	l.forget(c)
}

// replace sets a cell's process. No call carries work to a new process that was placed on the earlier
// one and is not sent.
func (f *flights) replace(c *cell, process string) {
	if c.process != process {
		c.process = process
		f.strand(c, func(h *holding) bool { return h.deadline == 0 })
	}
}

// strand frees work in flight to a cell as if its time was over, but for batch tasks.
func (f *flights) strand(c *cell, which func(h *holding) bool) {
	for _, h := range c.holds {
		if h.inFlight && h.Kind != KindBatch && which(h) {
			f.stranded = append(f.stranded, h)
		}
	}
}

// unknow removes a cell's reported state.
func (l *Ledger) unknow(c *cell) {
	l.declassify(c)
	l.hosts.remove(c)
	c.known = false
}

// forget drops a cell without state and without allocations.
func (l *Ledger) forget(c *cell) {
	if c.known || c.session || len(c.holds) > 0 {
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
		i = len(l.classes)
		l.classes = append(l.classes, &class{key: key, attrs: c.state, largest: make(vector, scored),
			values: l.domains.values(&c.state)})
		l.byKey[key] = i
		l.classGen++
	}
	cl := l.classes[i]
	c.class, c.slot = i, cl.join(c.id)
	l.groups.each(c, func(g *group) { l.countClass(g, c, 0, g.cells[c.id]) })
}

func (l *Ledger) declassify(c *cell) {
	if c.class < 0 {
		return
	}
	l.groups.each(c, func(g *group) { l.countClass(g, c, g.cells[c.id], 0) })
	l.cellGen++
	cl := l.classes[c.class]
	cl.mark(c.slot)
	cl.leave(c.slot)
	c.class, c.slot = -1, -1
}

// grown keeps the class's bound on capacities.
func (l *Ledger) grown(c *cell) {
	cl := l.classes[c.class]
	for d := range cl.largest {
		cl.largest[d] = max(cl.largest[d], c.capacity.at(d))
	}
}

// touch marks a cell for the indexes; improved: it may now take work that it refused before.
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
		out = append(out, l.viewOf(c))
	}
	slices.SortFunc(out, func(a, b CellView) int { return compareText(a.Name, b.Name) })
	return out
}

// Cell returns one cell by its name.
func (l *Ledger) Cell(name string) (v CellView, ok bool) {
	c := l.byName[name]
	if c == nil {
		return CellView{}, false
	}
	return l.viewOf(c), true
}

func (l *Ledger) viewOf(c *cell) CellView {
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
	return v
}

func (c *cell) reason() string {
	switch {
	case !c.admitted:
		return c.blocked
	case !c.known:
		return "waiting for its first report"
	case c.state.Draining:
		return "evacuating"
	case c.state.Unavailable != "":
		return c.state.Unavailable
	case c.resting && c.restWhy != "":
		return c.restWhy
	case c.resting:
		return "refused work recently"
	}
	return ""
}
