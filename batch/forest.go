package batch

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"cantina/resource"
)

// maxLevels bounds the configured levels.
const maxLevels = 16

// maxLimit bounds a limit, so that sums never overflow.
const maxLimit = 1 << 48

// none is no rank, no place.
const none = math.MaxInt32

// place is one position in the forest. A node listed under two parents has two
// places and one name.
type place struct {
	name   int32 // within its level
	parent int32
	first  int32 // children are [first, first+count)
	count  int32
	rank   int32 // in the order of its level; the least is taken first
	own    bool  // itself enabled
	live   bool  // it and all its ancestors are enabled
}

// names numbers the node names of one level. Numbers are never reused, so that statuses and draws
// keep their meaning when the nodes are read again.
type names struct {
	list  []string
	index map[string]int32
	order []int32 // see inOrder
}

// inOrder returns the numbers in order of name. It sorts only if there are new names.
func (n *names) inOrder() []int32 {
	if len(n.order) != len(n.list) {
		for i := len(n.order); i < len(n.list); i++ {
			n.order = append(n.order, int32(i))
		}
		slices.SortFunc(n.order, func(a, b int32) int { return cmp.Compare(n.list[a], n.list[b]) })
	}
	return n.order
}

func (n *names) intern(name string) int32 {
	if i, ok := n.index[name]; ok {
		return i
	}
	if n.index == nil {
		n.index = make(map[string]int32)
	}
	i := int32(len(n.list))
	n.list = append(n.list, name)
	n.index[name] = i
	return i
}

// forest is the nodes and the ledger of their draws.
type forest struct {
	spec      ForestSpec
	nodes     []NodeSpec // as planted last
	sown      int        // how often the places were laid out
	visits    int64
	forgotten int      // statuses whose names are still numbered, see Sparse
	levels    []string // instance first, without worker
	resources [][]string
	limits    [][]int
	weights   map[string]int // of resources of the cells
	names     []names
	used      [][]int            // per level: name × resources
	places    []place            // by level, children of one parent together
	tags      map[int32][]string // of places; most have none
	start     []int32            // first place of each level; one more than levels
	at        [][]int32
	more      []map[int32][]int32 // further places of replicated names
}

// newForest returns a forest without places.
func newForest(s ForestSpec) *forest {
	f := &forest{spec: s, levels: append([]string{LevelInstance}, s.Levels...)}
	f.weights = make(map[string]int)
	for name, l := range s.Limits[LevelWorker] {
		f.weights[name] = l.Weight
	}
	n := len(f.levels)
	f.resources, f.limits, f.names, f.used = make([][]string, n), make([][]int, n), make([]names, n), make([][]int, n)
	for i, level := range f.levels {
		for name := range s.Limits[level] {
			f.resources[i] = append(f.resources[i], name)
		}
		slices.Sort(f.resources[i])
		for _, name := range f.resources[i] {
			f.limits[i] = append(f.limits[i], min(s.Limits[level][name].Limit, maxLimit))
		}
	}
	return f
}

func (f *forest) level(name string) int { return slices.Index(f.levels, name) }

// node returns the number of a name on a level, making room in the ledger.
func (f *forest) node(level int, name string) int32 {
	i := f.names[level].intern(name)
	need := (int(i) + 1) * len(f.resources[level])
	for len(f.used[level]) < need {
		f.used[level] = append(f.used[level], 0)
	}
	return i
}

// plant replaces the places by those of the specs, in the spec's order. Names keep their numbers,
// and draws stay. Unchanged on error.
func (f *forest) plant(specs []NodeSpec) error {
	g := grower{f: f, byLevel: make([][]sprout, len(f.levels)), byName: make([]map[string]int32, len(f.levels))}
	root := cmp.Or(f.spec.Instance, "instance")
	g.add(0, sprout{name: root, parent: -1, own: true})
	for i := range specs {
		if err := g.sow(&specs[i]); err != nil {
			return err
		}
	}
	g.layOut()
	f.nodes = specs
	f.sown++
	return nil
}

// sprout is a place that is not final yet.
type sprout struct {
	name   string
	parent int32 // index into the level above
	next   int32 // one more of the same name + 1, 0 = the last
	own    bool
	tags   []string
}

type grower struct {
	f       *forest
	byLevel [][]sprout
	byName  []map[string]int32 // the newest of a name
}

func (g *grower) add(level int, s sprout) {
	if g.byName[level] == nil {
		g.byName[level] = make(map[string]int32)
	}
	first, ok := g.byName[level][s.name]
	if ok {
		for i := first; ; i = g.byLevel[level][i].next - 1 {
			old := &g.byLevel[level][i]
			if old.parent == s.parent { // given twice: tags united, any disables
				old.own = old.own && s.own
				old.tags = union(old.tags, s.tags)
				return
			}
			if old.next == 0 {
				break
			}
		}
		s.next = first + 1
	}
	g.byName[level][s.name] = int32(len(g.byLevel[level]))
	g.byLevel[level] = append(g.byLevel[level], s)
}

func union(a, b []string) []string {
	for _, t := range b {
		if !slices.Contains(a, t) {
			a = append(slices.Clone(a), t)
		}
	}
	return a
}

// sow adds one node below every place of its parent.
func (g *grower) sow(n *NodeSpec) error {
	level := g.f.level(n.Level)
	if level < 1 {
		return fmt.Errorf("node %q: unknown level %q: %w", n.Name, n.Level, ErrNodes)
	}
	if err := CheckName(n.Name); err != nil {
		return fmt.Errorf("node on level %q: %w", n.Level, err)
	}
	s := sprout{name: n.Name, own: !n.Disabled, tags: n.Tags}
	if n.Parent == "" {
		if level != 1 {
			return fmt.Errorf("node %q on level %q has no parent: %w", n.Name, n.Level, ErrNodes)
		}
		g.add(level, s)
		return nil
	}
	p, ok := g.byName[level-1][n.Parent]
	if !ok {
		return fmt.Errorf("node %q on level %q: no node %q on level %q: %w", n.Name, n.Level, n.Parent, g.f.levels[level-1],
			ErrNodes)
	}
	for {
		s.parent = p
		g.add(level, s)
		if p = g.byLevel[level-1][p].next - 1; p < 0 {
			return nil
		}
	}
}

// layOut lays the places out: level by level, the children of one parent
// together, ranks by the order of the spec.
func (g *grower) layOut() {
	f := g.f
	f.places, f.start, f.tags = nil, nil, make(map[int32][]string)
	f.at, f.more = make([][]int32, len(f.levels)), make([]map[int32][]int32, len(f.levels))
	moved := []int32{-1} // sprout → place, of the level above
	for level, sprouts := range g.byLevel {
		base := int32(len(f.places))
		f.start = append(f.start, base)
		order := make([]int32, len(sprouts))
		for i := range order {
			order[i] = int32(i)
		}
		if level > 0 {
			slices.SortStableFunc(order, func(a, b int32) int {
				return cmp.Compare(moved[sprouts[a].parent],
					moved[sprouts[b].parent])
			})
		}
		here := make([]int32, len(sprouts))
		for _, i := range order {
			s := &sprouts[i]
			p := place{name: f.node(level, s.name), parent: -1, own: s.own, live: s.own}
			id := int32(len(f.places))
			if level > 0 {
				p.parent = moved[s.parent]
				up := &f.places[p.parent]
				if up.count == 0 {
					up.first = id
				}
				up.count++
				p.live = p.own && up.live
			}
			here[i] = id
			if len(s.tags) > 0 {
				f.tags[id] = s.tags
			}
			f.places = append(f.places, p)
			f.locate(level, p.name, id)
		}
		g.rank(level, here)
		moved = here
	}
	f.start = append(f.start, int32(len(f.places)))
}

// locate remembers the places of a name.
func (f *forest) locate(level int, name, id int32) {
	for len(f.at[level]) <= int(name) {
		f.at[level] = append(f.at[level], -1)
	}
	if f.at[level][name] < 0 {
		f.at[level][name] = id
		return
	}
	if f.more[level] == nil {
		f.more[level] = make(map[int32][]int32)
	}
	f.more[level][name] = append(f.more[level][name], id)
}

// first returns the first place of a name, -1 if it has none.
func (f *forest) first(level int, name int32) int32 {
	if int(name) >= len(f.at[level]) {
		return -1
	}
	return f.at[level][name]
}

// placesOf calls do for every place of a name.
func (f *forest) placesOf(level int, name int32, do func(p int32)) {
	p := f.first(level, name)
	if p < 0 {
		return
	}
	do(p)
	for _, p := range f.more[level][name] {
		do(p)
	}
}

// rank numbers the places of a level in the order of the spec; here maps the
// sources' order to places.
func (g *grower) rank(level int, here []int32) {
	order := slices.Clone(here)
	name := func(p int32) string { return g.f.names[level].list[g.f.places[p].name] }
	switch g.f.spec.Order {
	case OrderOriginal:
	case OrderLexicographic:
		slices.SortStableFunc(order, func(a, b int32) int { return strings.Compare(name(a), name(b)) })
	case OrderRandom:
		keys := make(map[int32]uint64, len(order))
		for _, p := range order {
			keys[p] = fractionHash(name(p), g.f.spec.Name)
		}
		slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(keys[a], keys[b]) })
	}
	if g.f.spec.Backwards {
		slices.Reverse(order)
	}
	for i, p := range order {
		g.f.places[p].rank = int32(i)
	}
}

// levelOf returns the level of a place.
func (f *forest) levelOf(p int32) int {
	for level := range f.levels {
		if p < f.start[level+1] {
			return level
		}
	}
	return -1
}

// draw is the amount that a running batch task takes from one node.
type draw struct {
	level int
	node  int32
	need  []int
}

// take adds a draw (sign +1) or returns it (-1).
func (f *forest) take(d draw, sign int) {
	at := int(d.node) * len(f.resources[d.level])
	for i, x := range d.need {
		f.used[d.level][at+i] += sign * x
	}
}

// room reports whether a node has the needed amount.
func (f *forest) room(level int, node int32, need []int) bool {
	at := int(node) * len(need)
	for i, x := range need {
		if x > 0 && f.used[level][at+i]+x > f.limits[level][i] {
			return false
		}
	}
	return true
}

// turned reports whether a draw that was taken (sign +1) or returned (-1) has changed the room on its node for a need.
func (f *forest) turned(d draw, sign int, need []int) bool {
	at := int(d.node) * len(need)
	was, is := true, true
	for i, x := range need {
		if x > 0 {
			used := f.used[d.level][at+i] + x
			is = is && used <= f.limits[d.level][i]
			was = was && used-sign*d.need[i] <= f.limits[d.level][i]
		}
	}
	return was != is
}

func (f *forest) amounts(level int, need []int) resource.Amounts {
	a := make(resource.Amounts, len(need))
	for i, x := range need {
		if x != 0 {
			a[f.resources[level][i]] = x
		}
	}
	return a
}
