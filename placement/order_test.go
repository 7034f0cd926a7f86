package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cantina/resource"
)

// pair is two cells with the capacities of Bistro's vectors.
func pair() *Ledger {
	l := NewLedger(Config{})
	for name, cheap := range map[string]int{"w1": 30, "w2": 25} {
		l.Push(State{Cell: name, Process: name, Version: 1, Host: "h", Capacity: resource.Amounts{"containers": 1000,
			"cheap": cheap, "expensive": 3, "unranked": 5}})
		l.Admit(name, name, "")
	}
	return l
}

// TestBusiestVector is that of Bistro: the cell with the least weighted room that is enough.
func TestBusiestVector(t *testing.T) {
	l := pair()
	job := 0
	expect := func(cell string, count, cheap, expensive, unranked int) {
		t.Helper()
		for range count {
			job++
			g := l.Reserve([]Want{{Hold: fmt.Sprint("j", job), Need: resource.Amounts{"cheap": cheap, "expensive": expensive,
				"unranked": unranked}, Order: OrderBusiest,
				Weights: map[string]int{"cheap": 1, "expensive": 10, "unranked": 0}}}, 0)[0]
			if g.Cell != cell {
				t.Fatalf("j%d: on %q (%v), want %s", job, g.Cell, g.Refusal, cell)
			}
		}
	}
	expect("w2", 1, 1, 1, 1)
	expect("w2", 1, 1, 0, 1)
	expect("w1", 1, 1, 2, 4)
	expect("w1", 4, 1, 0, 0)
	expect("w2", 1, 1, 0, 2)
	expect("w1", 5, 1, 0, 0)
	expect("w2", 1, 1, 2, 0)
	expect("w2", 5, 1, 0, 0)
	expect("w1", 1, 5, 1, 1)
	expect("w1", 1, 1, 0, 0)
	expect("w2", 1, 1, 0, 1)
	expect("w1", 1, 12, 0, 0)
	expect("w1", 2, 1, 0, 0)
	expect("w2", 1, 1, 0, 0)
}

// TestRoundRobinOverCells: each possible cell in turn; a new one has its turn at once, one that leaves breaks
// nothing, and one that is too full is left out.
func TestRoundRobinOverCells(t *testing.T) {
	l := NewLedger(Config{})
	join := func(name string, slots int) {
		l.Push(State{Cell: name, Process: name, Version: 1, Capacity: resource.Amounts{"containers": slots}})
		l.Admit(name, name, "")
	}
	n := 0
	turns := func(count int) string {
		var out []string
		for range count {
			n++
			g := l.Reserve([]Want{{Hold: fmt.Sprint("t", n), Order: OrderRoundRobin}}, 0)[0]
			out = append(out, g.Cell)
		}
		return strings.Join(out, " ")
	}
	join("a", 100)
	join("b", 100)
	join("c", 2)
	if got := turns(7); got != "a b c a b c a" {
		t.Error(got)
	}
	if got := turns(3); got != "b a b" { // c is full
		t.Error(got)
	}
	l.Release("t3")
	if got := turns(2); got != "c a" {
		t.Error(got)
	}
	join("d", 100)
	l.Remove("b")
	if got := turns(3); got != "d a d" {
		t.Error(got)
	}
}

// hosts is a filter of host names.
func hosts(names ...string) *Hosts {
	return &Hosts{Key: fmt.Sprintf("%q", names), Pass: func(host string) bool { return slices.Contains(names, host) }}
}

// TestAFilterOfHosts: no other cell gets the work, in any order of cells, and the refusal names the filter.
func TestAFilterOfHosts(t *testing.T) {
	for _, o := range []Order{OrderSpread, OrderRoundRobin, OrderBusiest} {
		l := NewLedger(Config{})
		host(l, "a", "alpha", "x")
		host(l, "b", "beta", "x")
		var got []string
		for i := range 2 {
			g := l.Reserve([]Want{{Hold: fmt.Sprint("x", i), Order: o, Hosts: hosts("beta")},
				{Hold: fmt.Sprint("y", i), Order: o, Hosts: hosts("alpha")},
				{Hold: fmt.Sprint("z", i), Order: o, Hosts: hosts("c")}}, 0)
			got = append(got, g[0].Cell, g[1].Cell)
			if r := g[2].Refusal; r == nil || !strings.Contains(r.String(), "2 cells: excluded by a filter of the job") {
				t.Errorf("%v: %+v", o, g[2])
			}
		}
		if text := strings.Join(got, " "); text != "b a b a" {
			t.Errorf("%v: %s", o, text)
		}
		pinned := Want{Hold: "p", Order: o, Hosts: hosts("beta"), Constraint: Constraint{Host: "alpha"}}
		if g := l.Reserve([]Want{pinned}, 0); g[0].Refusal == nil {
			t.Errorf("%v: pinned to a host that the filter excludes: %+v", o, g)
		}
	}
}

// TestOrdersOfCellsAreKeptApart: an index for each, bounded, and none is out of date.
func TestOrdersOfCellsAreKeptApart(t *testing.T) {
	l := pair()
	for i := range 3 * maxOrdered {
		w := Want{Hold: fmt.Sprint("a", i), Order: OrderBusiest, Weights: map[string]int{"cheap": i + 1}}
		if g := l.Reserve([]Want{w}, 0)[0]; g.Cell != "w2" {
			t.Fatalf("weight %d: %+v", i+1, g)
		}
	}
	if n := len(l.classes[0].ordered); n > maxOrdered {
		t.Errorf("%d indexes", n)
	}
	// The pinned ones are looked at one by one, in the same order.
	g := l.Reserve([]Want{{Hold: "p", Constraint: Constraint{Host: "h"}, Order: OrderBusiest,
		Weights: map[string]int{"cheap": 1}}}, 0)[0]
	if g.Cell != "w2" {
		t.Errorf("%+v", g)
	}
	g = l.Reserve([]Want{{Hold: "q", Order: OrderBusiest, Weights: map[string]int{"cheap": 1 << 40}}}, 0)[0]
	if g.Cell != "w2" {
		t.Errorf("%+v", g)
	}
}

func TestWordsOfOrders(t *testing.T) {
	got := fmt.Sprint(OrderSpread, OrderRoundRobin, OrderBusiest, Order(3))
	if got != "spread round_robin busiest Order(3)" {
		t.Error(got)
	}
}
