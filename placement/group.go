package placement

// group counts the instances of one desired LRP: per cell for colocation, per
// class so that the least count is known without looking, per zone.
type group struct {
	total   int
	cells   map[int32]int
	zones   []int // by zone
	classes map[int]*spread
}

// groups are those with an instance, by name.
type groups map[string]*group

// add changes the count of a holding's group on its cell by ±1; work in no group counts in none.
func (gs groups) add(h *holding, delta int) {
	if h.Kind != KindLRP || h.Group == "" {
		return
	}
	g := gs[h.Group]
	if g == nil {
		g = &group{cells: make(map[int32]int), classes: make(map[int]*spread)}
		gs[h.Group] = g
	}
	if g.add(h.cell, delta); g.total == 0 {
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
	cells int // with at least one
	exact []int
}

// add changes the count on a cell by ±1.
func (g *group) add(c *cell, delta int) {
	old := g.cells[c.id]
	now := old + delta
	g.total += delta
	if now == 0 {
		delete(g.cells, c.id)
	} else {
		g.cells[c.id] = now
	}
	if c.class >= 0 {
		g.count(c, old, now)
	}
}

// count moves a cell of a class from old to now instances.
func (g *group) count(c *cell, old, now int) {
	for len(g.zones) <= c.zone {
		g.zones = append(g.zones, 0)
	}
	g.zones[c.zone] += now - old
	s := g.classes[c.class]
	if s == nil {
		s = &spread{}
		g.classes[c.class] = s
	}
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

func (g *group) inZone(z int) int {
	if g == nil || z >= len(g.zones) {
		return 0
	}
	return g.zones[z]
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
