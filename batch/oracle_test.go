package batch

import (
	"cmp"
	"slices"
	"strings"
)

// fataler is what checks need of a test.
type fataler interface{ Fatalf(string, ...any) }

// bruteForce is Bistro's scheduler: walk over all jobs, scan all their nodes, check
// all levels; from scratch, with none of the board's indexes.
func bruteForce(b *Board, most int) string {
	type candidate struct {
		j    *job
		path []int32 // places, root first
	}
	used := make([][]int, len(b.f.used))
	for l := range used {
		used[l] = slices.Clone(b.f.used[l])
	}
	lists := make([][]candidate, len(b.order))
	for i, j := range b.order {
		if j.Disabled || j.Paused || len(j.Errors)+len(j.problems) > 0 || j.blocked != "" {
			continue
		}
		var leaves []int32
		for p := b.f.start[j.level]; p < b.f.start[j.level+1]; p++ {
			leaves = append(leaves, p)
		}
		slices.SortFunc(leaves, func(x, y int32) int { return cmp.Compare(b.f.places[x].rank, b.f.places[y].rank) })
		for _, p := range leaves {
			c := candidate{j: j}
			ok := true
			for q, level := p, j.level; q >= 0; q, level = b.f.places[q].parent, level-1 {
				at := b.f.places[q]
				ok = ok && at.own && j.filters[level].pass(b.f.names[level].list[at.name], at.tags) && j.shut[q] == ""
				c.path = append(c.path, q)
			}
			slices.Reverse(c.path)
			name := b.f.names[j.level].list[b.f.places[p].name]
			if !ok || b.runs[Key{j.Name, name}] != nil {
				continue
			}
			s := b.unpack(b.pair(j, b.f.places[p].name))
			if s.Bits&(Done|Failed) != 0 || s.Bits&UsesBackoff != 0 && s.Time+int64(s.Backoff)*1000 > b.now {
				continue
			}
			for _, dep := range j.DependsOn {
				d := b.jobs[dep]
				if d == nil || b.runs[Key{dep, name}] != nil {
					ok = false
					continue
				}
				st, err := b.Status(Key{dep, name})
				ok = ok && err == nil && st.Bits&Done != 0
			}
			if ok {
				lists[i] = append(lists[i], c)
			}
		}
	}
	taken := make(map[Key]bool)
	start := func(c candidate) (string, bool) {
		leaf := c.path[len(c.path)-1]
		k := Key{c.j.Name, b.f.names[c.j.level].list[b.f.places[leaf].name]}
		if taken[k] {
			return "", false
		}
		for level, q := range c.path {
			need := c.j.needs[level]
			for r, x := range need {
				if x > 0 && used[level][int(b.f.places[q].name)*len(need)+r]+x > b.f.limits[level][r] {
					return "", false
				}
			}
		}
		for level, q := range c.path {
			need := c.j.needs[level]
			for r, x := range need {
				used[level][int(b.f.places[q].name)*len(need)+r] += x
			}
		}
		taken[k] = true
		return k.Job + ":" + k.Node, true
	}
	at := 0
	for i, j := range b.order {
		if j.Name <= b.turn {
			at = i + 1
		}
	}
	var out []string
	for idle := 0; idle < len(b.order) && len(out) < most; at++ {
		i := at % len(b.order)
		started := false
		for len(lists[i]) > 0 && !started {
			c := lists[i][0]
			lists[i] = lists[i][1:]
			var text string
			if text, started = start(c); started {
				out = append(out, text)
			}
		}
		if idle++; started {
			idle = 0
		}
	}
	return strings.Join(out, " ")
}

// checkBoard recomputes what is drawn and counted.
func checkBoard(t fataler, b *Board) {
	used := make([][]int, len(b.f.used))
	for l := range used {
		used[l] = make([]int, len(b.f.used[l]))
	}
	for _, r := range b.runs {
		for _, d := range r.draws {
			for i, x := range d.need {
				used[d.level][int(d.node)*len(d.need)+i] += x
			}
		}
		if r.job != nil && !b.pair(r.job, r.node).running {
			t.Fatalf("%v runs, its pair does not say so", r.key)
		}
	}
	for l := range used {
		if !slices.Equal(used[l], b.f.used[l]) {
			t.Fatalf("level %s: used %v, runs say %v", b.f.levels[l], b.f.used[l], used[l])
		}
	}
	for _, j := range b.order {
		var counts [classes]int
		for i := range j.pairs {
			x := &j.pairs[i]
			if c := b.classify(j, int32(i), x); c != x.class {
				t.Fatalf("job %s node %d counts as %v, is %v", j.Name, i, x.class, c)
			}
			counts[x.class]++
			if x.running && b.runs[Key{j.Name, b.f.names[j.level].list[i]}] == nil {
				t.Fatalf("job %s node %d runs without a run", j.Name, i)
			}
		}
		counts[ClassAbsent], j.counts[ClassAbsent] = 0, 0
		if counts != j.counts {
			t.Fatalf("job %s counts %v, is %v", j.Name, j.counts, counts)
		}
	}
}
