package workerset

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cantina/fence"
)

// naive is the tracker by its definition: explicit sets, no index, no heap, no pruning.
type naive struct {
	version uint64
	sets    map[uint64][]string
	living  map[string]*naiveCell
	all     map[string]*naiveCell // the dead too
	began   uint64
}

type naiveCell struct {
	joined, first, set, indirect uint64
	echoed                       bool
}

func (n *naive) changed() {
	n.version++
	n.sets[n.version] = slices.Sorted(maps.Keys(n.living))
}

func (n *naive) join(proc string) {
	c := &naiveCell{joined: n.version + 1}
	n.living[proc], n.all[proc] = c, c
	n.changed()
}

func (n *naive) leave(proc string) {
	delete(n.living, proc)
	n.changed()
}

func (n *naive) echo(proc string, v uint64) {
	switch c := n.living[proc]; {
	case v < c.joined:
	case !c.echoed:
		c.echoed, c.first, c.set, c.indirect = true, v, v, v
	case v > c.set:
		c.set, c.indirect = v, max(c.indirect, v)
	}
}

// tick raises each to the highest version that a member of its version's set requires.
func (n *naive) tick() {
	for v := n.began; v <= n.version; v++ {
		top := v
		for _, proc := range n.sets[v] {
			if c := n.all[proc]; c.echoed {
				top = max(top, c.indirect)
			}
		}
		for _, c := range n.living {
			if c.echoed && c.indirect == v {
				c.indirect = top
			}
		}
	}
	if len(n.living) == 0 {
		n.began = n.version // there are no requirements
		n.all = map[string]*naiveCell{}
	}
}

func (n *naive) String() string {
	var out []string
	for proc, c := range n.living {
		if c.echoed {
			out = append(out, fmt.Sprintf("%d%s", c.indirect, proc))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (n *naive) permits(proc string) bool {
	c := n.living[proc]
	for _, o := range n.living {
		if !o.echoed || o.indirect < c.first {
			return false
		}
	}
	return c.set == n.version
}

// TestTheTrackerEqualsItsDefinition: the requirements of each process and the permission to take work, in random
// lives of small pools. Some processes that were taken for dead come back.
func TestTheTrackerEqualsItsDefinition(t *testing.T) {
	raised := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		p := newPool(t, 0)
		n := &naive{sets: map[uint64][]string{}, living: map[string]*naiveCell{}, all: map[string]*naiveCell{}}
		ids := map[uint64]ID{}
		for i := range 120 {
			names := slices.Sorted(maps.Keys(n.living))
			switch r := rng.IntN(10); {
			case r < 2 || len(names) == 0:
				proc := fmt.Sprint("w", rng.IntN(8))
				p.join(proc)
				if n.living[proc] == nil {
					n.join(proc)
				}
			case r == 2:
				proc := names[rng.IntN(len(names))]
				p.leave(proc)
				n.leave(proc)
			case r < 5:
				before := n.String()
				p.tr.Tick()
				n.tick()
				if before != n.String() {
					raised++
				}
			default:
				proc := names[rng.IntN(len(names))]
				v := n.version - uint64(rng.IntN(4))
				if id, made := ids[v]; made {
					if err := p.tr.Echo(proc, id); err != nil {
						t.Fatalf("seed %d step %d: %v", seed, i, err)
					}
					n.echo(proc, v)
				}
			}
			ids[n.version] = p.tr.Current()
			if got := p.index(); got != n.String() {
				t.Fatalf("seed %d step %d: index %q, want %q", seed, i, got, n)
			}
			if p.tr.Current().Version != n.version || p.tr.Len() != len(n.living) {
				t.Fatalf("seed %d step %d: version %d of %d, want %d of %d", seed, i, p.tr.Current().Version, p.tr.Len(), n.version,
					len(n.living))
			}
			for proc := range n.living {
				if got := p.tr.Permits(proc); got != n.permits(proc) {
					t.Fatalf("seed %d step %d: %s is permitted: %v", seed, i, proc, got)
				}
			}
		}
	}
	if raised < 100 {
		t.Fatalf("only %d ticks raised any", raised)
	}
}

// TestDeadProcessesDoNotCount: the set that a dead process shows neither counts nor is waited for.
func TestDeadProcessesDoNotCount(t *testing.T) {
	old := ID{Leader: fence.Term{Epoch: 1, Revision: 3}, Version: 9, Hash: Hash{}.Add("w1").Add("w2")}
	p := newPool(t, 0)
	p.came("w1", old)
	p.came("w2", old)
	if !p.tr.Consensus() {
		t.Error("both show one set")
	}
	p.leave("w2")
	p.join("w3")
	p.leave("w3")
	p.tr.Came("w3", old)
	if p.tr.Consensus() {
		t.Error("w2 is gone")
	}
	p.leave("w1")
	if p.tr.Consensus() || len(p.tr.initial) != 0 {
		t.Error("the pool is empty")
	}
}

// TestAQueueOpensWhenEachWasPermittedOnce, not when all are at one moment, and without the dead.
func TestAQueueOpensWhenEachWasPermittedOnce(t *testing.T) {
	p := newPool(t, 2)
	p.join("w1")
	p.join("w2")
	p.echo("w1", 2)
	p.echo("w2", 2)
	p.tr.Tick() // both are permitted
	p.join("w3")
	p.join("w4")
	p.join("w5")
	p.echo("w1", 4)
	p.echo("w3", 4)
	if p.tr.Tick(); p.tr.Queued() != 1 {
		t.Fatal("w4 was never permitted")
	}
	p.echo("w4", 4)
	p.tr.Tick() // w2 shows an older set, but was permitted once
	if p.note(); p.tr.Queued() != 0 || !p.tr.Has("w5") {
		t.Fatal("each was permitted once")
	}
	p.join("w6")
	if p.tr.Queued() != 1 {
		t.Fatal("until w5 is permitted others wait")
	}
	p.leave("w5") // it never was, and the history has it
	if p.tr.Tick(); p.tr.Queued() != 0 {
		t.Fatal("the dead are not waited for")
	}
}

// TestALimitOfOne lets one newcomer in, and none is no limit.
func TestALimitOfOne(t *testing.T) {
	p := newPool(t, 1)
	p.join("w1")
	p.join("w2")
	if p.tr.Queued() != 1 || p.tr.Has("w2") {
		t.Errorf("%d wait", p.tr.Queued())
	}
	p = newPool(t, 0)
	p.join("w1")
	p.join("w2")
	if p.tr.Queued() != 0 || !p.tr.Has("w2") {
		t.Errorf("%d wait without a limit", p.tr.Queued())
	}
}

// TestAnUnknownCellLeavesConsensus: one that shows a set without itself stands in its way until it is gone.
func TestAnUnknownCellLeavesConsensus(t *testing.T) {
	old := ID{Leader: fence.Term{Epoch: 1, Revision: 3}, Version: 9, Hash: Hash{}.Add("w1")}
	p := newPool(t, 0)
	p.came("w1", old)
	p.came("unknown process", old)
	if p.tr.Consensus() {
		t.Error("the set names one, two show it")
	}
	if p.leave("unknown process"); !p.tr.Consensus() {
		t.Error("all that the set names show it")
	}
}

// TestASetOfAnUnknownTerm: one of a leader before is ignored, one of a leader to come is refused.
func TestASetOfAnUnknownTerm(t *testing.T) {
	p := newPool(t, 0)
	p.join("w1")
	early := p.ids[1]
	early.Leader.Revision--
	if err := p.tr.Echo("w1", early); err != nil || p.index() != "" {
		t.Errorf("%v %q", err, p.index())
	}
	late := p.ids[1]
	late.Leader.Revision++
	if err := p.tr.Echo("w1", late); err == nil || p.index() != "" {
		t.Errorf("the set of a leader to come was taken: %q", p.index())
	}
}
