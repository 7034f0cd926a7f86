package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cantina/label"
)

// domains are the labels by whose values groups are counted: the zone, and each label that a spread or
// a limit names. A label is tracked from its first use on.
type domains struct {
	labels  []string
	byValue []map[string]int // by label: the number of each value
	limited bool             // some work has a limit: eased is tracked
	eased   map[string]bool  // groups of which instances went away since the last round
}

// neighbours is the part of the ledger that places work relative to other work.
type neighbours struct {
	byName  map[string]*cell
	holds   map[string]*holding
	groups  groups
	classes []*class
	domains domains
	apart   apart
	hosts   machines
}

func newDomains() domains {
	return domains{labels: []string{label.Zone}, byValue: []map[string]int{{}}, eased: make(map[string]bool)}
}

// label returns the value of a cell's label.
func (s *State) label(name string) (string, bool) {
	if name == label.Zone {
		return s.Zone, s.Zone != ""
	}
	v, ok := s.Labels[name]
	return v, ok
}

// values returns the value of each tracked label, for a new class.
func (d *domains) values(s *State) []int {
	out := make([]int, len(d.labels))
	for t := range out {
		out[t] = d.value(t, s)
	}
	return out
}

func (d *domains) value(t int, s *State) int {
	text, has := s.label(d.labels[t])
	if has {
		text = "=" + text
	}
	v, ok := d.byValue[t][text]
	if !ok {
		v = len(d.byValue[t])
		d.byValue[t][text] = v
	}
	return v
}

// track returns the number of a label. A new one is counted in all groups.
func (l *neighbours) track(name string) int {
	d := &l.domains
	if t := slices.Index(d.labels, name); t >= 0 {
		return t
	}
	t := len(d.labels)
	d.labels, d.byValue = append(d.labels, name), append(d.byValue, map[string]int{})
	for _, cl := range l.classes {
		cl.values = append(cl.values, d.value(t, &cl.attrs))
	}
	for _, g := range l.groups {
		for i, s := range g.classes {
			g.addTo(t, l.classes[i].values[t], s.all)
		}
	}
	return t
}

// bucket is a group of cell classes with equal values in all labels of a shape's spread and limits.
type bucket struct {
	values  []int // of the shape's labels
	classes []int
}

// bucket groups the present classes that suit a shape into its buckets, by their values of the shape's
// labels.
func (l *neighbours) bucket(s *shape) {
	s.labels, s.buckets = s.labels[:0], nil
	for _, name := range s.constraint.spread() {
		s.labels = append(s.labels, l.track(name))
	}
	s.spread = len(s.labels)
	for _, x := range s.constraint.Limits {
		l.domains.limited = true
		if x.Label != label.Cell {
			s.labels = append(s.labels, l.track(x.Label))
		}
	}
	byValues := make(map[string]int)
	for i, cl := range l.classes {
		free := s.constraint
		free.Host = "" // hosts are not part of a class
		if _, _, ok := compatible(&cl.attrs, &free); !ok {
			continue
		}
		values := make([]int, len(s.labels))
		for j, t := range s.labels {
			values[j] = cl.values[t]
		}
		key := fmt.Sprint(values)
		at, ok := byValues[key]
		if !ok {
			at = len(s.buckets)
			byValues[key] = at
			s.buckets = append(s.buckets, bucket{values: values})
		}
		s.buckets[at].classes = append(s.buckets[at].classes, i)
	}
}

// spread returns the labels of the spread; the zone is the last if it is none of them.
func (c *Constraint) spread() []string {
	if slices.Contains(c.Spread, label.Zone) {
		return c.Spread
	}
	return append(slices.Clone(c.Spread), label.Zone)
}

// compare orders cells by the instances of a group that share their values of the spread's labels.
func (s *shape) compare(g *group, a, b []int) int {
	if g == nil {
		return 0
	}
	for j, t := range s.labels[:s.spread] {
		if x := cmp.Compare(g.in(t, a[j]), g.in(t, b[j])); x != 0 {
			return x
		}
	}
	return 0
}

// valuesOf returns the values of a shape's labels on one cell.
func (l *neighbours) valuesOf(s *shape, c *cell) []int {
	values := make([]int, len(s.labels))
	for j, t := range s.labels {
		values[j] = l.classes[c.class].values[t]
	}
	return values
}

// full reports whether a limit on a label is reached for cells with these values.
func (l *neighbours) full(s *shape, g *group, values []int) bool {
	return len(s.constraint.Limits) > 0 && l.reached(s, g, values) != nil
}

// reached returns the first limit on a label that is reached.
func (l *neighbours) reached(s *shape, g *group, values []int) *Limit {
	j := s.spread
	for i := range s.constraint.Limits {
		x := &s.constraint.Limits[i]
		if x.Label == label.Cell {
			continue
		}
		t, v := s.labels[j], values[j]
		j++
		n := g.in(t, v)
		for k, name := range s.avoid {
			c := l.byName[name]
			if c != nil && c.class >= 0 && l.classes[c.class].values[t] == v && !slices.Contains(s.avoid[:k], name) {
				n -= g.onCell(c.id)
			}
		}
		if n >= x.Most {
			return x
		}
	}
	return nil
}

// crowded reports whether a cell may not get one more of a shape because of its neighbours on it.
func (l *neighbours) crowded(s *shape, g *group, c *cell) bool {
	for _, x := range s.constraint.Limits {
		if x.Label == label.Cell && g.onCell(c.id) >= x.Most {
			return true
		}
	}
	return s.shuns(c)
}

// open reports whether the neighbours of a shape leave it a cell: limits, services apart, and ports.
func (l *neighbours) open(s *shape, c *cell) bool {
	return l.hosts.free(s.constraint.Ports, c) && l.distance(s, c).ok
}

// distance is why a compatible cell cannot get a shape because of its neighbours.
func (l *neighbours) distance(s *shape, c *cell) reason {
	if s.group == "" && s.service == "" || c.class < 0 {
		return reason{ok: true}
	}
	g := l.groups[s.group]
	over := l.reached(s, g, l.valuesOf(s, c))
	for i, x := range s.constraint.Limits {
		if x.Label == label.Cell && g.onCell(c.id) >= x.Most {
			over = &s.constraint.Limits[i]
		}
	}
	if over != nil {
		return reason{cause: CauseLimit, detail: fmt.Sprintf("max_per %s: %d is reached", over.Label, over.Most)}
	}
	if s.shuns(c) {
		return reason{cause: CauseApart, detail: "kept apart from " + s.neighbour(c)}
	}
	return reason{ok: true}
}

// apart counts the services that are kept apart from others: only those that some work names.
type apart struct {
	named map[string]bool
	fresh []string // named since the last round
}

func newApart() apart { return apart{named: make(map[string]bool)} }

// near is the part of a shape that depends on where other work is.
type near struct {
	group, service string
	priority       int // if it counts
}

func (l *neighbours) near(it *Item) near {
	var n near
	if len(it.Constraint.Limits) > 0 {
		n.group = it.Group
	}
	if len(it.Constraint.Apart) > 0 || l.apart.named[it.Service] {
		n.service = it.Service
	}
	return n
}

// key distinguishes shapes: by what spreads them, and by the work near which they may not be.
func (n near) key(c *Constraint) string {
	if n.group == "" && n.service == "" && len(c.Spread) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("|near")
	for _, x := range c.Spread {
		b.WriteString(strconv.Quote(x))
	}
	b.WriteByte('|')
	for _, x := range c.Limits {
		b.WriteString(strconv.Quote(x.Label) + strconv.Itoa(x.Most))
	}
	b.WriteByte('|')
	writeList(&b, c.Apart)
	b.WriteString("|" + strconv.Quote(n.group) + strconv.Quote(n.service))
	return b.String()
}

// note counts services from now on, because work is kept apart from them.
func (l *neighbours) note(services []string) {
	var fresh []string
	for _, name := range services {
		if !l.apart.named[name] {
			l.apart.named[name] = true
			fresh = append(fresh, name)
		}
	}
	if len(fresh) == 0 {
		return
	}
	l.apart.fresh = append(l.apart.fresh, fresh...)
	for _, h := range l.holds {
		if slices.Contains(fresh, h.Service) {
			h.cell.services = tally(h.cell.services, h.Service, 1)
		}
	}
}

// meet counts a holding among the neighbours on its cell.
func (l *neighbours) meet(h *holding, delta int) {
	if h.Service == "" {
		return
	}
	if l.apart.named[h.Service] {
		h.cell.services = tally(h.cell.services, h.Service, delta)
	}
	for i, name := range h.Apart {
		if !slices.Contains(h.Apart[:i], name) {
			h.cell.repels = tally(h.cell.repels, name, delta)
		}
	}
}

func tally(m map[string]int, key string, delta int) map[string]int {
	if m == nil {
		m = make(map[string]int)
	}
	if m[key] += delta; m[key] == 0 {
		delete(m, key)
	}
	return m
}

// shuns reports whether a shape is kept apart from work on a cell, by its own list or by the other's.
func (s *shape) shuns(c *cell) bool {
	return s.service != "" && (c.repels[s.service] > 0 ||
		slices.ContainsFunc(s.constraint.Apart, func(name string) bool { return c.services[name] > 0 }))
}

// neighbour names the first service on a cell that a shape is kept apart from.
func (s *shape) neighbour(c *cell) string {
	var names []string
	for _, h := range c.holds {
		if h.Service != "" && (slices.Contains(s.constraint.Apart, h.Service) || slices.Contains(h.Apart, s.service)) {
			names = append(names, h.Service)
		}
	}
	return slices.Min(names)
}
