package batch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"cantina/resource"
)

// TestDecisionsEqualBruteForce drives a board and compares every pass with a plain
// scan over jobs × nodes.
func TestDecisionsEqualBruteForce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := ForestSpec{Name: "f", Levels: []string{"host", "db"},
			Policy: rapid.SampledFrom([]Policy{RoundRobin, RankedPriority, RandomizedPriority, LongTail}).Draw(rt, "policy"),
			Order:  rapid.SampledFrom([]Order{OrderRandom, OrderOriginal, OrderLexicographic}).Draw(rt, "order")}
		spec.Limits = map[string]map[string]Limit{
			LevelInstance: {"all": {Default: 1, Limit: rapid.IntRange(1, 9).Draw(rt, "root")}},
			"host":        {"slots": {Default: 1, Limit: rapid.IntRange(1, 3).Draw(rt, "host")}},
			"db":          {"a": {Default: 1, Limit: rapid.IntRange(1, 2).Draw(rt, "db")}, "b": {Default: 0, Limit: 1}},
		}
		b := newBoard(rt, spec)
		b.Seed("seed")
		drawNodes := func(rt *rapid.T) []NodeSpec {
			var out []NodeSpec
			for h := range rapid.IntRange(1, 3).Draw(rt, "hosts") {
				host := fmt.Sprint("h", h)
				out = append(out, NodeSpec{Name: host, Level: "host", Disabled: rapid.IntRange(0, 9).Draw(rt, "off") == 0})
				for range rapid.IntRange(0, 9).Draw(rt, "dbs") {
					out = append(out, NodeSpec{Name: fmt.Sprint("d", rapid.IntRange(0, 15).Draw(rt, "name")), Level: "db",
						Parent: host, Disabled: rapid.IntRange(0, 9).Draw(rt, "off") == 0})
				}
			}
			return out
		}
		names := []string{"j1", "j2", "j3"}
		n := int64(0)
		rt.Repeat(map[string]func(*rapid.T){
			"nodes": func(rt *rapid.T) {
				if err := b.SetNodes(drawNodes(rt)); err != nil {
					rt.Fatal(err)
				}
			},
			"job": func(rt *rapid.T) {
				j := Job{Name: rapid.SampledFrom(names).Draw(rt, "job"), UID: "u", Retries: -1,
					Priority:  float64(rapid.IntRange(-1, 3).Draw(rt, "priority")),
					Backoff:   Backoff{Seconds: []int{1, 3}, Repeat: true},
					Disabled:  rapid.IntRange(0, 5).Draw(rt, "disabled") == 0,
					Level:     rapid.SampledFrom([]string{"", "host", "db"}).Draw(rt, "level"),
					HostLevel: rapid.SampledFrom([]string{"", "host"}).Draw(rt, "pin")}
				j.Resources = map[string]resource.Amounts{"host": {"slots": rapid.IntRange(0, 2).Draw(rt, "slots")},
					"db": {"b": rapid.IntRange(0, 1).Draw(rt, "b")}}
				switch rapid.IntRange(0, 3).Draw(rt, "kind") {
				case 0:
					j.DependsOn = []string{rapid.SampledFrom(names).Draw(rt, "dep")}
					if j.DependsOn[0] == j.Name {
						j.DependsOn = nil
					}
				case 1:
					j.Filters = map[string]Filter{"db": {Blacklist: []string{"d1", "d2"}}}
				}
				put(rt, b, j)
			},
			"delete": func(rt *rapid.T) { b.Delete(rapid.SampledFrom(names).Draw(rt, "job")) },
			"finish": func(rt *rapid.T) {
				if runs := b.Runs(""); len(runs) > 0 {
					r := rapid.SampledFrom(runs).Draw(rt, "run")
					end(b, r.Key, r.Invocation, rapid.SampledFrom([]Report{{Bits: Done}, errorBackoff, incomplete, {Bits: Failed},
						NeverStarted("x"), LostReport("x")}).Draw(rt, "report"), 0)
				}
			},
			"adopt": func(rt *rapid.T) {
				n++
				b.Adopt(Key{rapid.SampledFrom(names).Draw(rt, "job"), fmt.Sprint("d", rapid.IntRange(0, 7).Draw(rt, "name"))},
					inv(n), "c")
			},
			"unblock": func(rt *rapid.T) { b.Unblock() },
			"time":    func(rt *rapid.T) { b.Advance(b.clock.now + int64(rapid.IntRange(0, 2000).Draw(rt, "ms"))) },
			"forgive": func(rt *rapid.T) {
				name := rapid.SampledFrom(names).Draw(rt, "job")
				if b.jobs.named[name] != nil {
					us, err := b.Retry(name)
					if err != nil {
						rt.Fatal(err)
					}
					apply(b, us)
				}
			},
			"reset": func(rt *rapid.T) {
				name := rapid.SampledFrom(names).Draw(rt, "job")
				if b.jobs.named[name] != nil {
					us, err := b.Reset(name)
					if err != nil {
						rt.Fatal(err)
					}
					apply(b, us)
				}
			},
			"configure": func(rt *rapid.T) {
				s := b.Spec()
				s.Limits["host"] = map[string]Limit{"slots": {Default: 1, Limit: rapid.IntRange(1, 3).Draw(rt, "host")}}
				if err := b.Configure(s); err != nil {
					rt.Fatal(err)
				}
			},
			"pick": func(rt *rapid.T) {
				most := rapid.IntRange(1, 6).Draw(rt, "most")
				want := bruteForce(b, most)
				s := b.Pick(most)
				if got := keys(s); got != want {
					rt.Fatalf("got  %q\nwant %q", got, want)
				}
				for _, x := range s {
					switch rapid.IntRange(0, 9).Draw(rt, "answer") {
					case 0:
						if err := b.Unpick(x.Key); err != nil {
							rt.Fatal(err)
						}
						continue
					case 1:
						if err := b.Refuse(x.Key, rapid.SampledFrom([]Scope{ScopeJob, ScopeHost, ScopeNode}).Draw(rt, "scope"),
							"no"); err != nil {
							rt.Fatal(err)
						}
						continue
					}
					n++
					if err := b.Started(x.Key, inv(n), "c"); err != nil {
						rt.Fatal(err)
					}
				}
			},
			"": func(rt *rapid.T) { checkBoard(rt, b) },
		})
	})
}

// fataler is the interface that checks need of a test.
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
	lists := make([][]candidate, len(b.jobs.order))
	for i, j := range b.jobs.order {
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
				ok = ok && at.own && j.filters[level].pass(b.f.names[level].list[at.name], b.f.tags[q]) && j.shut[q] == ""
				c.path = append(c.path, q)
			}
			slices.Reverse(c.path)
			name := b.f.names[j.level].list[b.f.places[p].name]
			if !ok || b.runs.byKey[Key{j.Name, name}] != nil {
				continue
			}
			s := b.terms.unpack(j.record(b.f.places[p].name))
			if s.Bits&(Done|Failed) != 0 || (s.Bits&UsesBackoff != 0 || s.Paced()) &&
				s.Time+int64(s.Backoff)*1000 > b.clock.now {
				continue
			}
			for _, dep := range j.DependsOn {
				d := b.jobs.named[dep]
				if d == nil || b.runs.byKey[Key{dep, name}] != nil {
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
	var out []string
	// next starts the first candidate of a job that fits, and drops those before it, as Bistro does.
	next := func(i int) bool {
		for len(lists[i]) > 0 {
			c := lists[i][0]
			lists[i] = lists[i][1:]
			if text, ok := start(c); ok {
				out = append(out, text)
				return true
			}
		}
		return false
	}
	fits := func(i int) bool { // nothing is taken
		return slices.ContainsFunc(lists[i], func(c candidate) bool {
			saved := make([][]int, len(used))
			for l := range used {
				saved[l] = slices.Clone(used[l])
			}
			k, ok := start(c)
			if ok {
				job, node, _ := strings.Cut(k, ":")
				delete(taken, Key{job, node})
			}
			used = saved
			return ok
		})
	}
	order := make([]int, len(b.jobs.order))
	for i := range order {
		order[i] = i
	}
	switch b.f.spec.Policy {
	case RoundRobin:
		at := 0
		for i, j := range b.jobs.order {
			if j.Name <= b.turn {
				at = i + 1
			}
		}
		for idle := 0; idle < len(order) && len(out) < most; at++ {
			if idle++; next(at % len(order)) {
				idle = 0
			}
		}
	case RankedPriority, LongTail:
		nodes := make([]map[int32]bool, len(order)) // a replica is one node
		for i, list := range lists {
			nodes[i] = make(map[int32]bool)
			for _, c := range list {
				nodes[i][b.f.places[c.path[len(c.path)-1]].name] = true
			}
		}
		slices.SortStableFunc(order, func(x, y int) int {
			if b.f.spec.Policy == LongTail {
				return len(nodes[x]) - len(nodes[y])
			}
			return cmp.Compare(b.jobs.order[y].Priority, b.jobs.order[x].Priority)
		})
		for _, i := range order {
			for len(out) < most && next(i) {
			}
		}
	case RandomizedPriority:
		dice := b.dice
		for len(out) < most {
			var able []int
			sum, alike := 0.0, 0.0
			for _, i := range order {
				if fits(i) {
					able = append(able, i)
					sum += max(b.jobs.order[i].Priority, 0)
				}
			}
			if len(able) == 0 {
				break
			}
			if sum == 0 {
				sum, alike = float64(len(able)), 1
			}
			x := float64(dice.Uint64()>>11) / (1 << 53) * sum
			for _, i := range able {
				if w := max(b.jobs.order[i].Priority, alike, 0); x < w {
					next(i)
					break
				} else {
					x -= w
				}
			}
		}
	}
	return strings.Join(out, " ")
}

// checkBoard recomputes all draws and counts.
func checkBoard(t fataler, b *Board) {
	used := make([][]int, len(b.f.used))
	for l := range used {
		used[l] = make([]int, len(b.f.used[l]))
	}
	live := 0
	for _, r := range b.runs.byKey {
		if !r.inv.IsZero() {
			live++
		}
		for _, d := range r.draws {
			for i, x := range d.need {
				used[d.level][int(d.node)*len(d.need)+i] += x
			}
		}
		if r.job != nil && !r.job.record(r.node).running {
			t.Fatalf("%v runs, its pair has no such run", r.key)
		}
	}
	if live != b.Live() {
		t.Fatalf("%d live, want %d", b.Live(), live)
	}
	for l := range used {
		if !slices.Equal(used[l], b.f.used[l]) {
			t.Fatalf("level %s: used %v, the runs use %v", b.f.levels[l], b.f.used[l], used[l])
		}
	}
	for _, j := range b.jobs.order {
		var counts [classes]int
		for i := range j.records {
			x := &j.records[i]
			if c := b.derived.classify(j, int32(i), x); c != x.class {
				t.Fatalf("job %s node %d counts as %v, is %v", j.Name, i, x.class, c)
			}
			counts[x.class]++
			if x.running && b.runs.byKey[Key{j.Name, b.f.names[j.level].list[i]}] == nil {
				t.Fatalf("job %s node %d runs without a run", j.Name, i)
			}
		}
		counts[ClassAbsent], j.counts[ClassAbsent] = 0, 0
		if counts != j.counts {
			t.Fatalf("job %s counts %v, is %v", j.Name, j.counts, counts)
		}
	}
}
