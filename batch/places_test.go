package batch

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestChildrenOfANodeInTwoPlaces stand in both: below each place of their parent.
func TestChildrenOfANodeInTwoPlaces(t *testing.T) {
	for off, want := range map[string]string{"r1": "r2", "r2": "r1", "both": ""} {
		disabled := func(name string) bool { return off == name || off == "both" }
		b := newBoard(t, ForestSpec{Name: "f", Instance: "root", Levels: []string{"rack", "host", "db"}},
			NodeSpec{Name: "r1", Level: "rack", Disabled: disabled("r1")},
			NodeSpec{Name: "r2", Level: "rack", Disabled: disabled("r2")},
			NodeSpec{Name: "h", Level: "host", Parent: "r1"}, NodeSpec{Name: "h", Level: "host", Parent: "r2"},
			NodeSpec{Name: "d", Level: "db", Parent: "h"})
		put(t, b, Job{Name: "a"})
		var path []string
		if s := b.Pick(9); len(s) == 1 {
			path = s[0].Path
		}
		if want != "" && !slices.Equal(path, []string{"root", want, "h", "d"}) || want == "" && path != nil {
			t.Errorf("without %q it starts on %q, want through %q", off, path, want)
		}
		checkBoard(t, b)
	}
}

// TestRemovedJobRunsOnANodeThatLeft: its node is explained, although no job that the new one
// depends on has ever had it.
func TestRemovedJobRunsOnANodeThatLeft(t *testing.T) {
	b := twoHosts(t)
	put(t, b, Job{Name: "first"})
	put(t, b, Job{Name: "a", Born: inv(5), DependsOn: []string{"first"}})
	b.Adopt(Key{"a", "left"}, inv(4), "c")
	why, err := b.Explain(Key{"a", "left"}, "", 0)
	if err != nil || len(why) != 2 || !strings.HasPrefix(why[0].Text, WaitsForRemoved) ||
		!strings.HasSuffix(why[1].Text, `depends on job "first", which has no such node`) {
		t.Errorf("%+v, %v", why, err)
	}
}

// TestTimersOfALargerForest have no effect in a smaller one, in which the nodes have other numbers.
func TestTimersOfALargerForest(t *testing.T) {
	b := smaller(t)
	if at, ok := b.NextDue(); ok {
		t.Errorf("next at %d, for a node that is not there", at)
	}
	b = smaller(t)
	b.Advance(8000)
	if got := keys(b.Pick(9)); got != "j:a" {
		t.Errorf("%s starts", got)
	}
	checkBoard(t, b)
}

// smaller is a board on which the third of three nodes failed, before only the first was left.
func smaller(t *testing.T) *Board {
	spec := ForestSpec{Name: "f", Levels: []string{"db"}, Order: OrderOriginal}
	a := NodeSpec{Name: "a", Level: "db"}
	b := newBoard(t, spec, a, NodeSpec{Name: "b", Level: "db"}, NodeSpec{Name: "c", Level: "db"})
	put(t, b, Job{Name: "j", Retries: -1, Backoff: Backoff{Seconds: []int{7}, Repeat: true},
		Filters: map[string]Filter{"db": {Whitelist: []string{"c"}}}})
	n := int64(0)
	b.Advance(1000)
	start(t, b, b.Pick(9), &n)
	finish(t, b, Key{"j", "c"}, errorBackoff)
	if err := b.SetNodes([]NodeSpec{a}); err != nil {
		t.Fatal(err)
	}
	spec.Levels = []string{"db", "table"}
	put(t, b, Job{Name: "j", Retries: -1, Level: "db", Backoff: Backoff{Seconds: []int{7}, Repeat: true}})
	if err := b.Configure(spec); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestJobIsGoneBeforeAnEndIsStored: the run returns its draws, and all else stays the same.
func TestJobIsGoneBeforeAnEndIsStored(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "a"})
	start(t, b, b.Pick(1), &n)
	u := b.End(Key{"a", "db22"}, inv(1), Report{Bits: Done}, 0)
	b.Delete("a")
	if old := b.Apply(u); !u.Store || old != 0 || b.Live() != 0 {
		t.Errorf("%+v replaced %d, %d run", u, old, b.Live())
	}
	put(t, b, Job{Name: "b"})
	if got := keys(b.Pick(1)); got != "b:db22" {
		t.Errorf("%s starts where there is room again", got)
	}
	checkBoard(t, b)
}

// TestTheBestOfManyNodes: 120 nodes of forty hosts become ready and unready at random; the ready ones start in
// their order.
func TestTheBestOfManyNodes(t *testing.T) {
	var nodes []NodeSpec
	for i := range 160 {
		host := fmt.Sprintf("h%02d", i%40)
		if i < 40 {
			nodes = append(nodes, NodeSpec{Name: host, Level: "host"})
		} else {
			nodes = append(nodes, NodeSpec{Name: fmt.Sprintf("n%03d", i), Level: "node", Parent: host})
		}
	}
	b := newBoard(t, ForestSpec{Name: "f", Levels: []string{"host", "node"}}, nodes...)
	put(t, b, Job{Name: "j"})
	order := slices.Clone(b.f.places[b.f.start[2]:])
	slices.SortFunc(order, func(x, y place) int { return cmp.Compare(x.rank, y.rank) })
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 20_000 {
		if node := nodes[40+rng.IntN(120)].Name; b.runs.byKey[Key{"j", node}] == nil {
			b.Adopt(Key{"j", node}, inv(1), "c")
		} else {
			b.Forget(Key{"j", node})
		}
		if round%20 > 0 {
			continue
		}
		var want []string
		for _, p := range order {
			if node := b.f.names[2].list[p.name]; b.runs.byKey[Key{"j", node}] == nil {
				want = append(want, "j:"+node)
			}
		}
		got := b.Pick(200)
		if keys(got) != strings.Join(want, " ") {
			t.Fatalf("%s start, want %s", keys(got), want)
		}
		rng.Shuffle(len(got), func(i, k int) { got[i], got[k] = got[k], got[i] })
		for _, s := range got {
			if err := b.Unpick(s.Key); err != nil {
				t.Fatal(err)
			}
		}
	}
}
