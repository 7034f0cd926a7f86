package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"cantina/resource"
)

// shape is the common part of all work with the same requirements: compiled once, so that a
// thousand instances cost one compilation and one refusal.
type shape struct {
	key        string
	kind       Kind
	amounts    resource.Amounts
	constraint Constraint
	by         Order
	order      string         // its key, empty = OrderSpread
	weighted   map[string]int // of OrderBusiest
	weights    vector         // the same, compiled
	need       vector
	where      []int
	unknown    []resource.Missing // resources that no cell offers
	dims       int                // how many dimensions were known when compiled
	avoid      []string
	hosts      *Hosts
	group      string // set if the constraint has limits
	service    string // set if the constraint or another service's keeps it apart
	gen        int    // of classes, for buckets
	labels     []int  // tracked labels: those of the spread, then those of the limits
	spread     int    // how many are of the spread
	buckets    []bucket
}

// maxShapes bounds the cache of compiled shapes; it is dropped when full.
const maxShapes = 1 << 16

func shapeKey(k Kind, need resource.Amounts, c *Constraint, avoid []string, w *Want) string {
	var b strings.Builder
	b.WriteByte(byte('0' + int(k)))
	for _, n := range need.Names() {
		b.WriteString(n)
		b.WriteByte('=')
		b.WriteString(strconv.Itoa(need[n]))
		b.WriteByte(' ')
	}
	b.WriteByte('|')
	b.WriteString(c.Stack)
	for _, list := range [][]string{c.Tags, c.Tolerates, avoid, {w.Hosts.String()}} {
		b.WriteByte('|')
		writeList(&b, list)
	}
	b.WriteByte('|')
	writeMap(&b, c.Labels)
	b.WriteByte('|')
	b.WriteString(c.Host)
	b.WriteByte('|')
	b.WriteString(strconv.Itoa(c.OpenFiles))
	b.WriteByte('|')
	b.WriteString(strings.Join(c.Isolation, ","))
	b.WriteByte('|')
	writeList(&b, c.Volumes)
	b.WriteByte('|')
	b.WriteString(portsKey(c.Ports))
	for i := range c.Conditions {
		b.WriteByte('|')
		b.WriteString(strconv.Quote(c.Conditions[i].String()))
	}
	b.WriteByte('|')
	b.WriteString(w.order())
	return b.String()
}

// shapeOf returns the compiled shape of an item. The instances of a service or group have a shape of their
// own if their constraint depends on the places of other instances.
func (l *Ledger) shapeOf(it *Item) *shape {
	var own near
	if it.Kind == KindLRP {
		own = l.near(it)
	}
	own.priority = l.cfg.priority(it)
	return l.shaped(it.Kind, it.Need, &it.Constraint, it.Avoid, &Want{}, own)
}

// shaped returns the compiled shape of an item; of w only the choice among cells counts.
func (l *Ledger) shaped(k Kind, need resource.Amounts, c *Constraint, avoid []string, w *Want, own near) *shape {
	key := shapeKey(k, need, c, avoid, w) + own.key(c)
	if own.priority != 0 {
		key += "|p" + strconv.Itoa(own.priority)
	}
	s := l.shapes[key]
	if s == nil {
		if len(l.shapes) >= maxShapes {
			clear(l.shapes)
		}
		s = &shape{key: key, kind: k, amounts: need, constraint: *c, avoid: avoid, hosts: w.Hosts, gen: -1, by: w.Order,
			order: w.order(), weighted: w.Weights, group: own.group, service: own.service}
		l.shapes[key] = s
	}
	l.compile(s)
	return s
}

// compile sets the parts that depend on the known dimensions and classes.
func (l *Ledger) compile(s *shape) {
	if s.dims != len(l.dims.names) {
		s.dims = len(l.dims.names)
		v, unknown := l.dims.vector(s.amounts)
		s.need, s.unknown = withContainer(v), unknown
		s.weights, _ = l.dims.vector(s.weighted)
		for d, w := range s.weights {
			s.weights[d] = min(w, MaxWeight)
		}
		s.where = s.where[:0]
		for d, x := range s.need {
			if x > 0 {
				s.where = append(s.where, d)
			}
		}
	}
	if s.gen == l.classGen {
		return
	}
	s.gen = l.classGen
	l.bucket(s)
}

// find returns the best cell for one item of a shape, or nil.
func (l *Ledger) find(s *shape, g *group) *cell {
	if len(s.unknown) > 0 {
		return nil
	}
	if s.constraint.Host != "" {
		return l.findListed(s, g)
	}
	q := &l.search
	*q = search{ledger: l, shape: s, group: g, need: s.need, where: s.where, best: -1}
	var scratch [16]int
	order := scratch[:0]
	for i := range s.buckets {
		if !l.full(s, g, s.buckets[i].values) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return s.compare(g, s.buckets[a].values, s.buckets[b].values) })
	for i := 0; i < len(order); {
		first := order[i]
		for ; i < len(order) && s.compare(g, s.buckets[first].values, s.buckets[order[i]].values) == 0; i++ {
			l.searchClasses(s, s.buckets[order[i]].classes, g, q)
		}
		if q.best >= 0 {
			break
		}
	}
	l.visits += q.visits
	if q.best < 0 {
		return nil
	}
	return l.cells[q.best]
}

// look looks at one cell that fits: its count, its score, and whether it may be taken at all.
func (q *search) look(slot int) (id int32, count int, score int64, ok bool) {
	l, s, g := q.ledger, q.shape, q.group
	c := l.cells[q.class.slots[slot]]
	if slices.Contains(s.avoid, c.name) || !s.passes(c) || !l.hosts.free(s.constraint.Ports, c) || l.crowded(s, g, c) {
		return 0, 0, 0, false
	}
	return c.id, colocated(s.kind, g, c), s.score(l, c), true
}

func (l *Ledger) searchClasses(s *shape, classes []int, g *group, q *search) {
	for _, i := range classes {
		cl := l.classes[i]
		q.class, q.floor, q.lift = cl, g.floor(i, cl.live), s.rise(cl.largest)
		l.flush(cl, s).find(1, q)
	}
}

// colocated is the count that an LRP minimises; other work has none.
func colocated(k Kind, g *group, c *cell) int {
	if k != KindLRP {
		return 0
	}
	return g.onCell(c.id)
}

// score orders the cells for a shape: low is good.
func (s *shape) score(l *Ledger, c *cell) int64 { return s.usage(l, c) + s.rise(c.capacity) }

// flush brings the index of a class up to date for the kind and the order of a shape.
func (l *Ledger) flush(cl *class, s *shape) *tree {
	t, k := cl.tree(s), s.kind
	if t.dims != len(l.dims.names) || t.leaves < len(cl.slots) {
		t.reset(2*len(cl.slots), len(l.dims.names))
		for slot := range cl.slots {
			t.mark(slot)
		}
	}
	for _, slot := range t.dirty {
		t.marked[slot] = false
		id := cl.slots[slot]
		if id < 0 || !l.cells[id].usable() {
			t.set(int(slot), never, nil)
			continue
		}
		c := l.cells[id]
		t.set(int(slot), s.usage(l, c), func(d int) int64 { return l.left(c, k, d) })
	}
	t.dirty = t.dirty[:0]
	return t
}

// findListed looks at one machine's cells.
func (l *Ledger) findListed(s *shape, g *group) *cell {
	var best *cell
	var bestCount int
	var bestScore int64
	for _, c := range l.hosts[s.constraint.Host] {
		if !l.fits(s, c, nil) {
			continue
		}
		count, score, zone := colocated(s.kind, g, c), s.score(l, c), 0
		if best != nil && s.kind == KindLRP {
			zone = s.compare(g, l.valuesOf(s, c), l.valuesOf(s, best))
		}
		if best == nil || cmp.Or(zone, cmp.Compare(count, bestCount), cmp.Compare(score, bestScore)) < 0 {
			best, bestCount, bestScore = c, count, score
		}
	}
	return best
}

// fits reports whether a cell can take one item of a shape now. own is the amount reserved on that
// cell for this very item.
func (l *Ledger) fits(s *shape, c *cell, own vector) bool {
	if !c.usable() || len(s.unknown) > 0 {
		return false
	}
	for _, d := range s.where {
		if l.left(c, s.kind, d)+own.at(d) < s.need[d] {
			return false
		}
	}
	return s.allows(c) && l.open(s, c)
}

// allows reports whether the request permits this cell, with any capacity.
func (s *shape) allows(c *cell) bool {
	if !s.lists(c) {
		return false
	}
	_, _, ok := compatible(&c.state, &s.constraint)
	return ok
}

// take allocates an item in flight on a cell.
func (l *Ledger) take(it *Item, s *shape, c *cell, now time.Duration) *holding {
	return l.launch(it, nil, nil, s, c, now)
}

// launch is take for a caller that has looked up the pending item and the group of the item, or nil.
func (l *Ledger) launch(it *Item, x *pending, g *group, s *shape, c *cell, now time.Duration) *holding {
	l.flights.last++
	h := &holding{
		Holding: Holding{Hold: it.Hold, Cell: c.name, Kind: it.Kind, Group: it.Group, Need: it.Need,
			Ports: it.Constraint.Ports, Apart: it.Constraint.Apart, Name: it.Name, Service: it.Service},
		item: it, pending: x, group: g, cell: c, need: s.need, inFlight: true, flight: l.flights.last,
	}
	if it.Kind == KindBatch {
		h.deadline = now + l.cfg.InFlight
		l.granted++
		c.turn = l.granted
	}
	l.allocate(h)
	return h
}

func (h *holding) placement() Placement {
	return Placement{Item: h.item, Cell: h.Cell, Process: h.cell.process, flight: h.flight}
}

// Place finds the best cell for one item and allocates it in flight. Errors: ErrInvalid, ErrHeld;
// a refusal is no error.
func (l *Ledger) Place(it Item, now time.Duration) (Placement, *Refusal, error) {
	if it.ID == "" || it.Hold == "" {
		return Placement{}, nil, fmt.Errorf("place %q as %q: %w", it.ID, it.Hold, ErrInvalid)
	}
	if h := l.holds[it.Hold]; h != nil {
		return Placement{}, nil, fmt.Errorf("place %q as %q, allocated on %q: %w", it.ID, it.Hold, h.Cell, ErrHeld)
	}
	l.note(it.Constraint.Apart)
	s := l.shapeOf(&it)
	c := l.find(s, l.groups[it.Group])
	if c == nil {
		return Placement{}, l.explain(s), nil
	}
	return l.take(&it, s, c, now).placement(), nil, nil
}

// Reserve grants resources for many batch tasks, in the given order: each grant counts for the
// next. Wants of a shape that was refused in this call are refused without another search. A want
// whose Hold is already allocated is granted where it is.
func (l *Ledger) Reserve(wants []Want, now time.Duration) []Grant { return l.reserve(wants, now, nil) }

// reserve is Reserve; waits, if any, has the shapes of work that were refused before.
func (l *Ledger) reserve(wants []Want, now time.Duration, waits *batchWaits) []Grant {
	out := make([]Grant, len(wants))
	refused := make(map[*shape]*Refusal)
	var last *shape
	var asked *Want // source of last
	for i := range wants {
		w := &wants[i]
		out[i].Hold = w.Hold
		if h := l.holds[w.Hold]; h != nil {
			out[i].Cell, out[i].Process, out[i].Host = h.Cell, h.cell.process, h.cell.state.Host
			continue
		}
		if asked == nil || !sameWant(w, asked) {
			last, asked = l.shaped(KindBatch, w.Need, &w.Constraint, nil, w, near{}), w
		}
		if r := refused[last]; r != nil {
			out[i].Refusal = r
			continue
		}
		c := l.find(last, nil)
		if c == nil {
			c = waits.kept(last)
		}
		if c == nil || w.Hold == "" {
			out[i].Refusal = waits.refused(last, w, l.explain(last), now)
			refused[last] = out[i].Refusal
			continue
		}
		waits.granted(last)
		h := l.take(&Item{ID: w.Hold, Hold: w.Hold, Kind: KindBatch, Need: w.Need, Constraint: w.Constraint}, last, c, now)
		out[i].Cell, out[i].Process, out[i].Host = h.Cell, c.process, c.state.Host
	}
	return out
}

// sameWant is a cheap test for neighbours of one job; false only costs a
// compilation.
func sameWant(a, b *Want) bool {
	return a.Need.Equal(b.Need) && a.Constraint.Stack == b.Constraint.Stack && a.Constraint.Host == b.Constraint.Host &&
		a.Constraint.OpenFiles == b.Constraint.OpenFiles && slices.Equal(a.Constraint.Isolation, b.Constraint.Isolation) &&
		slices.Equal(a.Constraint.Volumes, b.Constraint.Volumes) &&
		slices.Equal(a.Constraint.Tags, b.Constraint.Tags) && slices.Equal(a.Constraint.Tolerates, b.Constraint.Tolerates) &&
		slices.Equal(a.Constraint.Ports, b.Constraint.Ports) &&
		a.Order == b.Order && maps.Equal(a.Weights, b.Weights) &&
		len(a.Constraint.Conditions)+len(b.Constraint.Conditions) == 0 && len(a.Constraint.Labels) == 0 &&
		len(b.Constraint.Labels) == 0 && a.Hosts.String() == b.Hosts.String()
}

func compareText(a, b string) int { return strings.Compare(a, b) }
