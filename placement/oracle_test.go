package placement

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"cantina/label"
	"cantina/resource"

	"pgregory.net/rapid"
)

// verdict has the parts of the optimum: the labels of the spread over colocation over even use.
type verdict struct {
	spread [3]int
	count  int
	score  int64
}

func (v verdict) less(w verdict) bool {
	return cmp.Or(slices.Compare(v.spread[:], w.spread[:]),
		cmp.Compare(v.count, w.count), cmp.Compare(v.score, w.score)) < 0
}

// oracle looks at every cell, straight from the rules and from the holdings, with
// none of the ledger's indexes.
func oracle(l *Ledger, it Item) map[string]verdict {
	out := make(map[string]verdict)
	for _, c := range l.cells {
		if c == nil || !c.known || !c.admitted || c.resting || c.state.Draining || c.state.Unavailable != "" {
			continue
		}
		if slices.Contains(it.Avoid, c.name) || !oracleCompatible(&c.state, &it.Constraint) {
			continue
		}
		if slices.ContainsFunc(it.Constraint.Ports, func(p int) bool { return oraclePortTaken(l, c, p) }) {
			continue
		}
		need := it.Need.Clone()
		need[resource.Containers] = max(need[resource.Containers], 1)
		left := c.state.Capacity.Sub(c.state.Foreign).Sub(l.dims.amounts(c.earmark))
		batch := resource.Amounts{}
		used := resource.Amounts{}
		for _, h := range c.holds {
			used = used.Add(l.dims.amounts(h.need))
			if h.Kind == KindBatch {
				batch = batch.Add(l.dims.amounts(h.need))
			}
		}
		left = left.Sub(used)
		if it.Kind != KindBatch {
			for n, x := range c.state.Capacity {
				left[n] -= max(x*l.cfg.BatchReserve/100-batch[n], 0)
			}
		}
		if !left.Fits(need) {
			continue
		}
		v := verdict{score: oracleScore(it.Kind, used.Add(c.state.Foreign), need, c.state.Capacity)}
		if it.Kind == KindLRP && it.Group != "" {
			for j, name := range it.Constraint.spread() {
				v.spread[j] = oracleCount(l, it, c, name, nil)
			}
			v.count = oracleCount(l, it, c, label.Cell, nil)
		}
		if it.Kind == KindLRP && oracleTooNear(l, it, c) {
			continue
		}
		out[c.name] = v
	}
	return out
}

// oracleCount counts the instances of the item's group on cells with the cell's value of a label, but for
// some cells.
func oracleCount(l *Ledger, it Item, c *cell, name string, but []string) int {
	n := 0
	for _, h := range l.holds {
		if h.Kind != KindLRP || h.Group != it.Group || h.cell.class < 0 || slices.Contains(but, h.Cell) {
			continue
		}
		if name == label.Cell && h.cell == c || name == label.Zone && h.cell.state.Zone == c.state.Zone {
			n++
			continue
		}
		if name == label.Cell || name == label.Zone {
			continue
		}
		x, hasX := c.state.Labels[name]
		if y, hasY := h.cell.state.Labels[name]; x == y && hasX == hasY {
			n++
		}
	}
	return n
}

// oracleTooNear checks limits and services apart, from the holdings.
func oracleTooNear(l *Ledger, it Item, c *cell) bool {
	for _, x := range it.Constraint.Limits {
		if oracleCount(l, it, c, x.Label, it.Avoid) >= x.Most {
			return true
		}
	}
	for _, h := range l.holds {
		if h.cell == c && h.Kind == KindLRP && (slices.Contains(it.Constraint.Apart, h.Service) ||
			slices.Contains(h.Apart, it.Service)) {
			return true
		}
	}
	return false
}

// checkDomains counts a group for each tracked label anew.
func checkDomains(rt *rapid.T, l *Ledger, g *group) {
	for t, name := range l.domains.labels {
		counts := map[string]int{}
		for _, h := range l.holds {
			if h.Kind == KindLRP && h.Group == g.name && h.cell.class >= 0 {
				v, has := h.cell.state.label(name)
				counts[fmt.Sprint(has, v)]++
			}
		}
		for _, c := range l.byName {
			if c.class < 0 {
				continue
			}
			v, has := c.state.label(name)
			if n := g.in(t, l.classes[c.class].values[t]); n != counts[fmt.Sprint(has, v)] {
				rt.Fatalf("group %s at %s %q: %d, the holdings have %d", g.name, name, v, n, counts[fmt.Sprint(has, v)])
			}
		}
	}
}

// oraclePortTaken looks for a port in all holdings of the cell and of those of its machine.
func oraclePortTaken(l *Ledger, c *cell, port int) bool {
	for _, h := range l.holds {
		one := h.cell == c || h.cell.known && h.cell.state.Host == c.state.Host &&
			h.cell.state.InstanceAddress == c.state.InstanceAddress
		if one && slices.Contains(h.Ports, port) {
			return true
		}
	}
	return false
}

func oracleCompatible(s *State, c *Constraint) bool {
	if c.Host != "" && c.Host != s.Host || c.Stack != "" && !slices.Contains(s.Stacks, c.Stack) {
		return false
	}
	for _, t := range s.RequiredTags {
		if !slices.Contains(c.Tags, t) {
			return false
		}
	}
	for _, t := range c.Tags {
		if !slices.Contains(s.RequiredTags, t) && !slices.Contains(s.OptionalTags, t) {
			return false
		}
	}
	for k, v := range c.Labels {
		if s.Labels[k] != v {
			return false
		}
	}
	for _, t := range s.Taints {
		if !slices.Contains(c.Tolerates, t) {
			return false
		}
	}
	for _, x := range c.Conditions {
		v, has := s.Labels[x.Name]
		if x.Name == label.Zone {
			v, has = s.Zone, true
		}
		if !x.Holds(v, has) {
			return false
		}
	}
	return true
}

func oracleScore(k Kind, used, need, capacity resource.Amounts) int64 {
	var sum int64
	part := func(name string, w int64) {
		if c := int64(capacity[name]); c > 0 {
			sum += w * (min(int64(used[name])*(1<<20)/c, 8<<20) + min(int64(need[name])*(1<<20)/c, 8<<20))
		}
	}
	switch k {
	case KindLRP:
		part(resource.MemoryMB, 1)
		part(resource.DiskMB, 1)
		part(resource.Containers, 1)
	case KindTask:
		part(resource.MemoryMB, 1024)
		part(resource.DiskMB, 1024)
		part(resource.Containers, 1)
	case KindBatch:
		part(resource.MemoryMB, 1)
		part(resource.DiskMB, 1)
		part(resource.Containers, 1)
		part(resource.CPUMilli, 1)
	}
	return sum
}

func best(m map[string]verdict) (verdict, bool) {
	first := true
	var b verdict
	for _, v := range m {
		if first || v.less(b) {
			b, first = v, false
		}
	}
	return b, !first
}

func drawState(rt *rapid.T, name string, version int64) State {
	some := func(label string, all ...string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, len(all), rapid.ID[string]).Draw(rt, label)
	}
	s := State{
		Cell: name, Process: "p-" + name, Version: version,
		Zone:            rapid.SampledFrom([]string{"z1", "z2", "z3"}).Draw(rt, "zone"),
		Host:            rapid.SampledFrom([]string{"h1", "h2"}).Draw(rt, "host"),
		InstanceAddress: rapid.SampledFrom([]string{"10.1", "10.1", "10.2"}).Draw(rt, "address"),
		Stacks:          []string{"deb"}, OptionalTags: some("optional", "blue"), Labels: drawLabels(rt),
		Capacity: resource.Amounts{
			resource.MemoryMB: rapid.SampledFrom([]int{100, 200, 333}).Draw(rt, "memory"), resource.DiskMB: 500,
			resource.Containers: rapid.IntRange(1, 8).Draw(rt, "containers"),
		},
		Draining: rapid.IntRange(0, 9).Draw(rt, "evacuating") == 0,
	}
	if rapid.IntRange(0, 4).Draw(rt, "special") == 0 {
		s.RequiredTags = []string{"red"}
		s.Taints = some("taints", "slow")
		s.Stacks = append(s.Stacks, "win")
		s.Labels["disk"] = "ssd"
		s.Capacity["gpu"] = 2
	}
	if rapid.IntRange(0, 9).Draw(rt, "broken") == 0 {
		s.Unavailable = "probe failed"
	}
	if rapid.IntRange(0, 5).Draw(rt, "foreign") == 0 {
		s.Foreign = resource.Amounts{resource.MemoryMB: 50}
	}
	return s
}

func drawLabels(rt *rapid.T) map[string]string {
	m := map[string]string{"rack": rapid.SampledFrom([]string{"r1", "r2", "r3"}).Draw(rt, "rack")}
	if v := rapid.SampledFrom([]string{"", "5.4", "5.10.0-8", "6.1"}).Draw(rt, "kernel"); v != "" {
		m["kernel"] = v
	}
	return m
}

// drawNear draws where an item may be relative to others.
func drawNear(rt *rapid.T, it *Item) {
	c := &it.Constraint
	it.Service = "s" + it.Group
	c.Spread = rapid.SampledFrom([][]string{nil, nil, {"rack"}, {"zone", "rack"}, {"kernel", "zone"}}).Draw(rt, "spread")
	c.Limits = rapid.SampledFrom([][]Limit{nil, nil, {{"cell", 1}}, {{"rack", 1}}, {{"cell", 2}, {"zone", 3}},
		{{"kernel", 2}, {"rack", 2}}}).Draw(rt, "limits")
	if rapid.IntRange(0, 4).Draw(rt, "apart") == 0 {
		c.Apart = []string{rapid.SampledFrom([]string{"sa", "sb", "sc"}).Draw(rt, "from")}
		c.Apart = slices.DeleteFunc(c.Apart, func(s string) bool { return s == it.Service })
	}
	if rapid.IntRange(0, 3).Draw(rt, "avoids") == 0 {
		it.Avoid = []string{"c1", "c3", "c1"}
	}
}

var drawnConditions = []string{"kernel version >= 5.10", "rack in (r1, r2)", "rack != r1", "kernel not exists",
	"kernel exists", "zone not in (z1)", "zone = z2", "kernel version < 6, > 5"}

func drawConditions(rt *rapid.T, c *Constraint) {
	texts := rapid.SliceOfN(rapid.SampledFrom(drawnConditions), 0, 2).Draw(rt, "conditions")
	all, err := label.ParseAll(texts)
	if err != nil {
		rt.Fatal(err)
	}
	c.Conditions = all
}

func drawItem(rt *rapid.T, n int) Item {
	it := Item{
		ID: fmt.Sprint("i", n), Hold: fmt.Sprint("hold", n),
		Kind:  rapid.SampledFrom([]Kind{KindLRP, KindLRP, KindTask, KindBatch}).Draw(rt, "kind"),
		Group: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "group"),
		Index: rapid.IntRange(0, 3).Draw(rt, "index"),
		Need:  resource.Amounts{resource.MemoryMB: rapid.IntRange(0, 120).Draw(rt, "need")},
	}
	if it.Kind != KindLRP {
		it.Group = ""
	}
	c := &it.Constraint
	if it.Kind == KindLRP {
		drawNear(rt, &it)
	}
	if rapid.IntRange(0, 3).Draw(rt, "labels") == 0 {
		drawConditions(rt, c)
	}
	c.Ports = rapid.SampledFrom([][]int{nil, nil, nil, {80}, {81, 80}}).Draw(rt, "ports")
	switch rapid.IntRange(0, 9).Draw(rt, "constraint") {
	case 0:
		c.Stack = "win"
		c.Tags = []string{"red"}
		c.Tolerates = []string{"slow"}
	case 1:
		c.Tags = []string{"blue"}
	case 2:
		c.Labels = map[string]string{"disk": "ssd"}
		c.Tags = []string{"red"}
	case 3:
		c.Host = "h2"
	case 4:
		it.Need["gpu"] = 1
		c.Tags = []string{"red"}
	case 5:
		it.Avoid = []string{"c1", "c3"}
	}
	return it
}

// TestPlacementEqualsExhaustiveScoring drives a ledger through everything that can
// happen to it and checks each choice against the oracle.
func TestPlacementEqualsExhaustiveScoring(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := NewLedger(Config{BatchReserve: rapid.SampledFrom([]int{0, 0, 20}).Draw(rt, "reserve")})
		placed, n, version := []string{}, 0, int64(0)
		cellName := func() string { return fmt.Sprint("c", rapid.IntRange(0, 6).Draw(rt, "cell")) }
		rt.Repeat(map[string]func(*rapid.T){
			"push": func(rt *rapid.T) {
				version++
				s := drawState(rt, cellName(), version)
				l.Admit(s.Cell, s.Process, "")
				l.Push(s)
			},
			"block":  func(rt *rapid.T) { name := cellName(); l.Admit(name, "p-"+name, "unhealthy") },
			"remove": func(rt *rapid.T) { l.Remove(cellName()) },
			"rest": func(rt *rapid.T) {
				if c := l.byName[cellName()]; c != nil {
					l.rest(c, time.Second, "")
				}
			},
			"wake": func(rt *rapid.T) { l.wake(time.Second) },
			"release": func(rt *rapid.T) {
				if len(placed) > 0 {
					i := rapid.IntRange(0, len(placed)-1).Draw(rt, "which")
					l.Release(placed[i])
					placed = slices.Delete(placed, i, i+1)
				}
			},
			"hold": func(rt *rapid.T) {
				n++
				it := drawItem(rt, n)
				if err := l.Hold(Holding{Hold: it.Hold, Cell: cellName(), Kind: it.Kind, Group: it.Group, Need: it.Need,
					Ports: it.Constraint.Ports, Service: it.Service, Apart: it.Constraint.Apart}); err != nil {
					rt.Fatal(err)
				}
				placed = append(placed, it.Hold)
			},
			"place": func(rt *rapid.T) {
				n++
				it := drawItem(rt, n)
				all := oracle(l, it)
				want, possible := best(all)
				p, refusal, err := l.Place(it, 0)
				if err != nil {
					rt.Fatal(err)
				}
				if (refusal == nil) != possible {
					rt.Fatalf("%+v: refusal %v, oracle has %d cells: %v", it, refusal, len(all), all)
				}
				if refusal != nil {
					cells := 0
					for _, cl := range refusal.Classes {
						cells += cl.Cells
					}
					if refusal.Never && cells == 0 {
						rt.Fatalf("never without a cell: %v", refusal)
					}
					return
				}
				if got, ok := all[p.Cell]; !ok || got != want {
					rt.Fatalf("%+v: placed on %s %+v, best is %+v of %v", it, p.Cell, got, want, all)
				}
				placed = append(placed, it.Hold)
			},
			"": func(rt *rapid.T) { checkLedger(rt, l) },
		})
	})
}

// checkLedger recomputes every sum and count from the holdings.
func equal(v, w vector) bool {
	for i := range max(len(v), len(w)) {
		if v.at(i) != w.at(i) {
			return false
		}
	}
	return true
}

func checkLedger(rt *rapid.T, l *Ledger) {
	for _, c := range l.byName {
		used, batch := vector{}, vector{}
		for _, h := range c.holds {
			used = plus(used, h.need, 1)
			if h.Kind == KindBatch {
				batch = plus(batch, h.need, 1)
			}
		}
		if !equal(c.used, used) || !equal(c.batch, batch) {
			rt.Fatalf("cell %s: used %v batch %v, the holdings have %v and %v", c.name, c.used, c.batch, used, batch)
		}
	}
	for name, g := range l.groups {
		classes := map[int]map[int]int{}
		per := map[*cell]int{}
		for _, h := range l.holds {
			if h.Kind == KindLRP && h.Group == name {
				per[h.cell]++
			}
		}
		for c, n := range per {
			if g.onCell(c.id) != n {
				rt.Fatalf("group %s on %s: %d, the holdings have %d", name, c.name, g.onCell(c.id), n)
			}
			if c.class >= 0 {
				if classes[c.class] == nil {
					classes[c.class] = map[int]int{}
				}
				classes[c.class][n]++
			}
		}
		checkDomains(rt, l, g)
		for i, s := range g.classes {
			for n, x := range s.exact {
				if x != classes[i][n] {
					rt.Fatalf("group %s class %d: %d cells with %d, the holdings have %d", name, i, x, n, classes[i][n])
				}
			}
		}
	}
}
