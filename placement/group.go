package placement

// group counts the instances of one desired LRP: per cell for colocation, per
// class so that the least count is known without looking, and per value of each tracked label.
type group struct {
	name    string
	total   int
	cells   map[int32]int
	domains [][]int // by tracked label and value
	classes map[int]*spread
}

// groups are those with an instance, by name.
type groups map[string]*group

// add changes the count of a holding's group on its cell by ±1; work in no group counts in none.
func (l *neighbours) count(h *holding, delta int) {
	gs := l.groups
	if h.Kind != KindLRP || h.Group == "" {
		return
	}
	g := h.group
	if g == nil {
		g = gs[h.Group]
	}
	if g == nil {
		g = &group{name: h.Group, cells: make(map[int32]int), classes: make(map[int]*spread)}
		gs[h.Group] = g
	}
	h.group = g
	l.countCell(g, h.cell, delta)
	if g.total == 0 {
		delete(gs, h.Group)
	}
}

// each visits every group that has an instance on the cell, once.
func (gs groups) each(c *cell, f func(*group)) {
	seen := make(map[string]bool)
	for _, h := range c.holds {
		if g := gs[h.Group]; g != nil && !seen[h.Group] {
			seen[h.Group] = true
			f(g)
		}
	}
}

// spread returns on how many cells of a class there are exactly n instances, n > 0.
type spread struct {
	all   int // instances
	cells int // with at least one
	exact []int
}

// countCell changes a group's count on a cell by ±1.
func (l *neighbours) countCell(g *group, c *cell, delta int) {
	old := g.cells[c.id]
	now := old + delta
	g.total += delta
	if now == 0 {
		delete(g.cells, c.id)
	} else {
		g.cells[c.id] = now
	}
	if c.class >= 0 {
		l.countClass(g, c, old, now)
	}
}

// countClass moves a cell of a class from old to now instances of a group.
func (l *neighbours) countClass(g *group, c *cell, old, now int) {
	for t, v := range l.classes[c.class].values {
		g.addTo(t, v, now-old)
	}
	if now < old && l.domains.limited { // work of the group may wait for that
		l.domains.eased[g.name] = true
	}
	s := g.classes[c.class]
	if s == nil {
		s = &spread{}
		g.classes[c.class] = s
	}
	s.all += now - old
	for len(s.exact) <= max(old, now) {
		s.exact = append(s.exact, 0)
	}
	if old > 0 {
		s.exact[old]--
		s.cells--
	}
	if now > 0 {
		s.exact[now]++
		s.cells++
	}
	if s.cells == 0 {
		delete(g.classes, c.class)
	}
}

// addTo changes the count of instances on cells with a value of a tracked label.
func (g *group) addTo(label, value, delta int) {
	for len(g.domains) <= label {
		g.domains = append(g.domains, nil)
	}
	for len(g.domains[label]) <= value {
		g.domains[label] = append(g.domains[label], 0)
	}
	g.domains[label][value] += delta
}

// in is the count of instances on cells with a value of a tracked label.
func (g *group) in(label, value int) int {
	if g == nil || label >= len(g.domains) || value >= len(g.domains[label]) {
		return 0
	}
	return g.domains[label][value]
}

func (g *group) onCell(c int32) int {
	if g == nil {
		return 0
	}
	return g.cells[c]
}

// floor is the least count on any cell of a class with so many cells.
func (g *group) floor(class, live int) int {
	if g == nil {
		return 0
	}
	s := g.classes[class]
	if s == nil || s.cells < live {
		return 0
	}
	n := 1
	for s.exact[n] == 0 { // all of them have some
		n++
	}
	return n
}
