package worker

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// after returns the keys of the states that come after one, with how.
func after(t *testing.T, n *node, k *keys) map[stateKey]*step {
	m := map[stateKey]*step{}
	mv := &moves{world: world{t: t}, emit: func(c *node) { m[k.of(c)] = c.path }}
	mv.expand(n)
	return m
}

// checkSameFuture fails unless the successors of a and of b have the same keys.
func checkSameFuture(t *testing.T, b budget, n, o *node, k *keys) {
	t.Helper()
	of, in := after(t, n, k), after(t, o, k)
	for range 2 {
		for key, how := range of {
			if in[key] == nil {
				t.Fatalf("%v: two states of one key differ: what comes after%v\ndoes not come after%v", b, how, o.path)
			}
		}
		of, in, n, o = in, of, o, n
	}
}

// wander searches by keys in an order drawn from a seed. It passes each state to look, with the first one of its
// key.
func wander(t *testing.T, b budget, k *keys, limit int, look func(n, first *node)) int {
	return wanderBy(b, k, limit, &moves{world: world{t: t}}, look)
}

func wanderBy(b budget, k *keys, limit int, mv *moves, look func(n, first *node)) int {
	r := rand.New(rand.NewPCG(1, 2))
	root := mv.start(b)
	firsts, frontier := map[stateKey]*node{k.of(root): root}, []*node{root}
	mv.emit = func(c *node) {
		key := k.of(c)
		if first := firsts[key]; first != nil {
			look(c, first)
			return
		}
		firsts[key] = c
		frontier = append(frontier, c)
	}
	for len(frontier) > 0 && len(firsts) < limit {
		i := r.IntN(len(frontier))
		n := frontier[i]
		frontier[i] = frontier[len(frontier)-1]
		frontier = frontier[:len(frontier)-1]
		mv.expand(n)
	}
	return len(firsts)
}

// TestKey: two states of one key have the same future: each has successors of the same keys. So the search by keys
// finds all that a search by whole states finds. It checks the first whole states from the start, and states met
// anywhere.
func TestKey(t *testing.T) {
	t.Parallel()
	k := newKeys()
	for _, b := range smallBudgets {
		firsts, same := map[stateKey]*node{}, 0
		for _, n := range wholeStates(t, b, size(60, 3000)) {
			if first := firsts[k.of(n)]; first != nil {
				checkSameFuture(t, b, n, first, k)
				same++
			} else {
				firsts[k.of(n)] = n
			}
		}
		met := 0
		all := wander(t, b, k, size(150, 20_000), func(n, first *node) {
			if met++; met%7 == 0 && whole(n) != whole(first) {
				checkSameFuture(t, b, n, first, k)
				same++
			}
		})
		t.Logf("%v: %d keys, %d pairs of states have the same future", b, all, same)
	}
}

// TestInert: a message that is left out for it can make no difference, makes none when it is
// delivered, then or some choices later.
func TestInert(t *testing.T) {
	t.Parallel()
	k := newKeys()
	kinds := map[string]int{}
	for _, b := range smallBudgets {
		mv := &moves{world: world{t: t}}
		mv.left = func(n *node, m msg) {
			if m.down != nil && n.paused[m.cell] {
				return
			}
			kinds[strings.Fields(m.String())[0]]++
			was := k.of(n)
			c := n.copied()
			mv.deliver(c, m)
			c.flight = slices.DeleteFunc(c.flight, func(m msg) bool { return mv.inert(c, m) })
			if k.of(c) != was {
				t.Fatalf("%v: %v makes a difference after%v", b, m, n.path)
			}
		}
		wanderBy(b, k, size(200, 10_000), mv, func(n, _ *node) {})
	}
	t.Log(kinds)
	if len(kinds) < 4 {
		t.Errorf("only these messages were left out: %v", slices.Sorted(maps.Keys(kinds)))
	}
}
