package placement

import (
	"fmt"
	"slices"
	"testing"

	"cantina/resource"
	"pgregory.net/rapid"
)

// held allocates an instance on a cell as its row does.
func held(t interface{ Fatal(...any) }, a *Auction, it Item, cell string) {
	if err := a.Hold(Holding{Hold: it.Hold, Cell: cell, Kind: it.Kind, Group: it.Group, Need: it.Need, Name: it.Name,
		Service: it.Service, Ports: it.Constraint.Ports, Apart: it.Constraint.Apart}); err != nil {
		t.Fatal(err)
	}
}

func moves(b Balance) (out []string) {
	for _, m := range b.Moves {
		out = append(out, fmt.Sprintf("%s %s→%s %s", m.Item.ID, m.From, m.To, m.Why))
	}
	return out
}

func TestRebalanceUsesANewCell(t *testing.T) {
	a := racks("r1", "r1")
	var items []Item
	for i := range 4 {
		it := lrpItem(fmt.Sprint("x", i), 0, 200)
		items = append(items, it)
		held(t, a, it, "c0")
	}
	b := Rebalance(a.Ledger, items, 10, 0)
	if len(b.Moves) != 2 || b.Moves[0].From != "c0" || b.Moves[0].To != "c1" || b.After >= b.Before || b.After > 0.1 {
		t.Errorf("%+v", b)
	}
	if again := Rebalance(a.Ledger, items, 1, 0); len(again.Moves) != 1 || again.Before != b.Before {
		t.Errorf("a plan has left something, or the limit does not count: %+v", again)
	}
	if b := Rebalance(a.Ledger, items, 0, 0); len(b.Moves) != 0 {
		t.Errorf("no move is allowed: %v", moves(b))
	}
}

func TestRebalanceSpreadsAService(t *testing.T) {
	a := racks("r1", "r2", "r2")
	var items []Item
	for i := range 3 {
		it := lrpItem("web", i, 10)
		it.Service, it.Constraint.Spread = "default/web", []string{"rack"}
		items = append(items, it)
		held(t, a, it, "c0")
	}
	b := Rebalance(a.Ledger, items, 10, 0)
	if got := fmt.Sprint(moves(b)); got != "[web.0 c0→c1 rack: beside 2 of its instances, there 0 "+
		"web.1 c0→c2 cell: beside 1 of its instances, there 0]" {
		t.Error(got)
	}
	two := []Item{lrpItem("a", 0, 10), lrpItem("a", 1, 10), lrpItem("b", 0, 10), lrpItem("b", 1, 10)}
	for i := range two {
		two[i].Service = "default/" + two[i].Group
		held(t, a, two[i], "c1")
	}
	if b := Rebalance(a.Ledger, two, 10, 1); len(b.Moves) != 2 || b.Moves[0].Item.Service == b.Moves[1].Item.Service {
		t.Errorf("not one of each service: %v", moves(b))
	}
}

// TestRebalanceLeavesOutWhatDoesNotRun: work in flight, unknown work, and work on a cell that is drained.
func TestRebalanceLeavesOutWhatDoesNotRun(t *testing.T) {
	a := racks("r1", "r1")
	flying, gone, drained := lrpItem("x", 0, 900), lrpItem("x", 1, 900), lrpItem("x", 2, 900)
	a.Admit("c1", "c1", "full")
	if err := a.Submit(0, flying); err != nil {
		t.Fatal(err)
	}
	a.Round(0)
	a.Admit("c1", a.byName["c1"].process, "")
	if b := Rebalance(a.Ledger, []Item{flying, gone}, 10, 0); len(b.Moves) != 0 {
		t.Error(moves(b))
	}
	a = racks("r1", "r1")
	held(t, a, drained, "c0")
	held(t, a, lrpItem("y", 0, 90), "c0")
	s := a.byName["c0"].state
	s.Draining, s.Version = true, s.Version+1
	a.Push(s)
	if b := Rebalance(a.Ledger, []Item{drained}, 10, 0); len(b.Moves) != 0 {
		t.Error(moves(b))
	}
}

// TestRebalanceEqualsBruteForce: each move of a plan goes to the best cell of all by exhaustive scoring, and is better
// there; at the end no move of another one is worth it; the ledger is as before.
func TestRebalanceEqualsBruteForce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := NewAuction(Config{})
		n := rapid.IntRange(1, 4).Draw(rt, "cells")
		for i := range n {
			s := plainState(fmt.Sprint("c", i), 1, 100*rapid.IntRange(1, 3).Draw(rt, "memory"), 8)
			s.Zone = fmt.Sprint("z", rapid.IntRange(0, 1).Draw(rt, "zone"))
			s.Labels = map[string]string{"rack": fmt.Sprint("r", rapid.IntRange(0, 1).Draw(rt, "rack"))}
			join(a, s)
		}
		var items []Item
		for i := range rapid.IntRange(0, 6).Draw(rt, "instances") {
			it := lrpItem(rapid.SampledFrom([]string{"x", "y", "z"}).Draw(rt, "service"), i,
				rapid.IntRange(1, 60).Draw(rt, "need"))
			it.Service = "default/" + it.Group
			switch rapid.IntRange(0, 3).Draw(rt, "constraint") {
			case 0:
				it.Constraint.Spread = []string{"rack"}
			case 1:
				it.Constraint.Limits = []Limit{{"rack", 1}}
			case 2:
				it.Constraint.Apart = []string{"default/z"}
			}
			items = append(items, it)
			held(rt, a, it, fmt.Sprint("c", rapid.IntRange(0, n-1).Draw(rt, "cell")))
		}
		where := map[string]string{}
		for _, it := range items {
			where[it.Hold], _ = a.Where(it.Hold)
		}
		limit := rapid.IntRange(0, 20).Draw(rt, "limit")
		b := Rebalance(a.Ledger, items, limit, 0)
		for hold, cell := range where {
			if at, _ := a.Where(hold); at != cell {
				rt.Fatalf("%s is on %q after a plan, was on %q", hold, at, cell)
			}
		}
		if len(a.holds) != len(items) || len(b.Moves) > limit || b.Partial {
			rt.Fatalf("%d holdings of %d, %d moves of %d", len(a.holds), len(items), len(b.Moves), limit)
		}
		checkLedger(rt, a.Ledger)
		for _, m := range b.Moves { // in the order of the plan, on the real ledger
			a.Release(m.Item.Hold)
			if !worth(a, m.Item, m.From, m.To) {
				rt.Fatalf("not worth it: %v", moves(b))
			}
			held(rt, a, m.Item, m.To)
		}
		if len(b.Moves) == limit {
			return
		}
		for _, it := range items {
			from, _ := a.Where(it.Hold)
			if from != where[it.Hold] {
				continue // an instance is moved once
			}
			a.Release(it.Hold)
			all := oracle(a.Ledger, it)
			if want, ok := best(all); ok {
				for to, v := range all {
					if v == want && to != from && worth(a, it, from, to) {
						rt.Fatalf("%s could still go from %s to %s, after %v", it.ID, from, to, moves(b))
					}
				}
			}
			held(rt, a, it, from)
		}
	})
}

// worth reports by exhaustive scoring whether the best cell for an item, which is on none, is clearly better than the
// one that it was on.
func worth(a *Auction, it Item, from, to string) bool {
	all := oracle(a.Ledger, it)
	want, ok := best(all)
	if !ok || all[to] != want || from == to {
		return false
	}
	c, d := a.byName[from], a.byName[to]
	for _, name := range append(slices.Clone(it.Constraint.spread()), "cell") {
		if x := oracleCount(a.Ledger, it, d, name, nil) - oracleCount(a.Ledger, it, c, name, nil); x != 0 {
			return x < 0
		}
	}
	score := func(c *cell) int64 {
		need := it.Need.Clone()
		need[resource.Containers] = 1
		used := resource.Amounts{}
		for _, h := range c.holds {
			used = used.Add(a.dims.amounts(h.need))
		}
		return oracleScore(KindLRP, used.Add(c.state.Foreign), need, c.state.Capacity)
	}
	return score(c)-score(d) >= minGain
}
