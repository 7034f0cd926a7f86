package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/resource"
	"pgregory.net/rapid"
)

// victimOf is an instance on a cell and its Victim.
func victimOf(t interface{ Fatal(...any) }, a *Auction, name, cell string, memory, priority int) Victim {
	it := lrpItem(name, 0, memory)
	it.Priority, it.Service = priority, "default/"+name
	held(t, a, it, cell)
	return Victim{Hold: it.Hold, Priority: priority}
}

func urgent(name string, memory, priority int) Item {
	it := lrpItem(name, 0, memory)
	it.Priority = priority
	return it
}

func TestPreemptEndsTheLowestAndFewest(t *testing.T) {
	for name, c := range map[string]struct {
		victims string // name cell memory priority, or priority 0 for one that ends in any case
		need    int
		limit   int
		want    string
	}{
		"one is enough":             {"a c0 400 10, b c0 600 20", 300, 9, "c0 [h-a.0] []"},
		"a larger one of its rank":  {"a c0 100 10, b c0 500 10, c c0 400 20", 450, 9, "c0 [h-b.0] []"},
		"the lower one is given up": {"a c0 100 10, b c0 900 20", 800, 9, "c0 [h-b.0] []"},
		"both":                      {"a c0 500 10, b c0 500 20", 800, 9, "c0 [h-b.0 h-a.0] []"},
		"too many":                  {"a c0 500 10, b c0 500 20", 800, 1, "none"},
		"the cell of the lowest":    {"a c0 1000 20, b c1 1000 10", 800, 9, "c1 [h-b.0] []"},
		"the cell with the fewest": {"a c0 500 10, b c0 500 10, c c1 1000 10", 800, 9,
			"c1 [h-c.0] []"},
		"the first cell by name":       {"a c1 1000 10, b c0 1000 10", 800, 9, "c0 [h-b.0] []"},
		"an equal one":                 {"a c0 1000 60, b c1 1000 61", 800, 9, "none"},
		"too large":                    {"a c0 1000 10, b c1 1000 10", 1001, 9, "none"},
		"one that ends":                {"a c0 1000 0, b c1 1000 10", 800, 9, "c0 [] [h-a.0]"},
		"one that ends is not enough":  {"a c0 500 0, b c0 500 10, c c1 1000 10", 800, 9, "c0 [h-b.0] [h-a.0]"},
		"one that ends, and is needed": {"a c0 300 0, b c0 700 10, c c1 1000 20", 701, 9, "c0 [h-b.0] [h-a.0]"},
		"one that ends is not needed":  {"a c0 300 0, b c0 700 10, c c1 1000 20", 700, 9, "c0 [h-b.0] []"},
	} {
		a := racks("r1", "r1")
		free := map[string]int{"c0": 1000, "c1": 1000}
		var all []Victim
		for text := range strings.SplitSeq(c.victims, ", ") {
			var name, cell string
			var memory, priority int
			if _, err := fmt.Sscanf(text, "%s %s %d %d", &name, &cell, &memory, &priority); err != nil {
				t.Fatal(err)
			}
			v := victimOf(t, a, name, cell, memory, priority)
			v.Ending = priority == 0
			all = append(all, v)
			free[cell] -= memory
		}
		for cell, n := range free { // the rest of the cells has work that is no victim
			held(t, a, lrpItem("rest"+cell, 0, n), cell)
		}
		got := "none"
		if p, ok := Preempt(a.Ledger, urgent("u", c.need, 60), all, c.limit); ok {
			got = fmt.Sprint(p.Cell, " ", p.Victims, " ", p.Ending)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestPreemptLeavesOut cells that do not suit the item but for their room, and work that is not ended for others.
func TestPreemptLeavesOut(t *testing.T) {
	cell := func(change func(s *State)) func(a *Auction, it *Item, v *Victim) {
		return func(a *Auction, _ *Item, _ *Victim) {
			s := a.byName["c0"].state
			s.Version++
			change(&s)
			a.Push(s)
		}
	}
	for name, change := range map[string]func(a *Auction, it *Item, v *Victim){
		"another label": func(_ *Auction, it *Item, _ *Victim) {
			it.Constraint.Labels = map[string]string{"rack": "r2"}
		},
		"an avoided cell":     func(_ *Auction, it *Item, _ *Victim) { it.Avoid = []string{"c0"} },
		"a cell of a drain":   cell(func(s *State) { s.Draining = true }),
		"an unavailable cell": cell(func(s *State) { s.Unavailable = "probe" }),
		"a silent cell":       func(a *Auction, _ *Item, _ *Victim) { a.Admit("c0", "p-c0", "UNHEALTHY") },
		"a cell that refused": func(a *Auction, _ *Item, _ *Victim) { a.Rest(0, "c0") },
		"a reserved cell":     func(a *Auction, _ *Item, _ *Victim) { a.byName["c0"].earmarkFor = "other" },
		"a neighbour": func(_ *Auction, it *Item, _ *Victim) {
			it.Service, it.Constraint.Apart = "default/u", []string{"default/low"}
		},
		"a limit that is reached": func(_ *Auction, it *Item, _ *Victim) {
			it.Group, it.Constraint.Limits = "low", []Limit{{"cell", 1}}
		},
		"an unknown resource": func(_ *Auction, it *Item, _ *Victim) { it.Need["gpu"] = 1 },
		"an unknown holding":  func(_ *Auction, _ *Item, v *Victim) { v.Hold = "h-other" },
		"a task": func(a *Auction, _ *Item, v *Victim) {
			a.Release(v.Hold)
			held(t, a, taskItem("t", 1000), "c0")
			v.Hold = "h-t"
		},
		"work in flight": func(a *Auction, _ *Item, v *Victim) {
			a.Release(v.Hold)
			submit(t, a, 0, lrpItem("low", 0, 1000))
			a.Round(0)
		},
		"no priority": func(_ *Auction, _ *Item, v *Victim) { v.Priority = 0 },
		"nothing":     nil,
	} {
		a := racks("r1")
		v := victimOf(t, a, "low", "c0", 1000, 10)
		it := urgent("u", 500, 60)
		if change != nil {
			change(a, &it, &v)
		}
		a.note(it.Constraint.Apart)
		if p, ok := Preempt(a.Ledger, it, []Victim{v}, 9); ok != (change == nil) {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// TestPreemptEqualsBruteForce: the highest victim is the lowest of all sets of victims on one cell that make room by
// exhaustive search; each victim is needed; and nothing has changed in the ledger.
func TestPreemptEqualsBruteForce(t *testing.T) {
	found := 0
	rapid.Check(t, func(rt *rapid.T) {
		a := NewAuction(Config{BatchReserve: rapid.SampledFrom([]int{0, 20}).Draw(rt, "reserve")})
		n := rapid.IntRange(1, 3).Draw(rt, "cells")
		for i := range n {
			s := plainState(fmt.Sprint("c", i), 1, 100, 5)
			s.Capacity[resource.DiskMB] = 100
			s.Labels = map[string]string{"rack": fmt.Sprint("r", rapid.IntRange(0, 1).Draw(rt, "rack"))}
			join(a, s)
		}
		var all []Victim
		on := map[string][]Victim{}
		for i := range rapid.IntRange(1, 6).Draw(rt, "holdings") {
			it := lrpItem(fmt.Sprint("v", i), 0, rapid.IntRange(10, 60).Draw(rt, "memory"))
			it.Need[resource.DiskMB] = rapid.IntRange(0, 50).Draw(rt, "disk")
			cell := fmt.Sprint("c", rapid.IntRange(0, n-1).Draw(rt, "cell"))
			held(rt, a, it, cell)
			v := Victim{Hold: it.Hold, Priority: rapid.IntRange(1, 5).Draw(rt, "priority"),
				Ending: rapid.IntRange(0, 5).Draw(rt, "ending") == 0}
			if rapid.IntRange(0, 4).Draw(rt, "listed") > 0 {
				all, on[cell] = append(all, v), append(on[cell], v)
			}
		}
		it := urgent("u", rapid.IntRange(30, 101).Draw(rt, "need"), rapid.IntRange(1, 6).Draw(rt, "of"))
		it.Need[resource.DiskMB] = rapid.IntRange(0, 70).Draw(rt, "need disk")
		if rapid.Bool().Draw(rt, "constraint") {
			it.Constraint.Labels = map[string]string{"rack": "r1"}
		}
		if len(oracle(a.Ledger, it)) > 0 {
			return // it does not wait
		}
		byHold := map[string]Victim{}
		for _, v := range all {
			byHold[v.Hold] = v
		}
		least, any := 0, false
		for cell, list := range on {
			if highest, ok := leastHighest(rt, a, it, cell, list); ok && (!any || highest < least) {
				least, any = highest, true
			}
		}
		before := fmt.Sprint(a.Cells())
		limit := rapid.SampledFrom([]int{1, 6}).Draw(rt, "limit")
		p, ok := Preempt(a.Ledger, it, all, limit)
		if after := fmt.Sprint(a.Cells()); after != before {
			rt.Fatalf("%s, was %s", after, before)
		}
		checkLedger(rt, a.Ledger)
		if ok && len(p.Victims) > limit || ok && !any || !ok && any && limit == 6 {
			rt.Fatalf("%+v, %v; by brute force %v", p, ok, any)
		}
		if !ok {
			return
		}
		found++
		highest := 0
		for _, hold := range p.Victims {
			v := byHold[hold]
			if v.Ending || v.Priority >= it.Priority {
				rt.Fatalf("%+v is ended for priority %d", v, it.Priority)
			}
			highest = max(highest, v.Priority)
		}
		if limit == 6 && highest != least {
			rt.Fatalf("%+v: the highest is %d, by brute force %d", p, highest, least)
		}
		ends := slices.Concat(p.Victims, p.Ending)
		if !fitsWithout(rt, a, it, p.Cell, ends) {
			rt.Fatalf("%+v does not make room", p)
		}
		for i := range ends {
			if fitsWithout(rt, a, it, p.Cell, slices.Delete(slices.Clone(ends), i, i+1)) {
				rt.Fatalf("%+v: %s need not end", p, ends[i])
			}
		}
	})
	if found == 0 && !testing.Short() {
		t.Error("no case had room")
	}
}

// leastHighest tries each set of victims on a cell.
func leastHighest(rt *rapid.T, a *Auction, it Item, cell string, list []Victim) (least int, any bool) {
	for set := range 1 << len(list) {
		var ends []string
		highest := 0
		for i, v := range list {
			if set&(1<<i) == 0 {
				continue
			}
			if ends = append(ends, v.Hold); !v.Ending {
				highest = max(highest, v.Priority)
			}
		}
		if highest < it.Priority && (!any || highest < least) && fitsWithout(rt, a, it, cell, ends) {
			least, any = highest, true
		}
	}
	return least, any
}

// fitsWithout reports by exhaustive scoring whether a cell has room for an item without some holdings.
func fitsWithout(rt *rapid.T, a *Auction, it Item, cell string, without []string) bool {
	var gone []Holding
	for _, hold := range without {
		gone = append(gone, a.holds[hold].Holding)
	}
	a.Release(without...)
	_, ok := oracle(a.Ledger, it)[cell]
	for _, h := range gone {
		if err := a.Hold(h); err != nil {
			rt.Fatal(err)
		}
	}
	return ok
}

// preempting is an auction with one cell that two instances of priority 10 fill.
func preempting(t *testing.T) (*Auction, []Victim) {
	a := NewAuction(Config{Preempt: true})
	join(a, plainState("c0", 1, 1000, 50))
	return a, []Victim{victimOf(t, a, "a", "c0", 500, 10), victimOf(t, a, "b", "c0", 500, 10)}
}

func starving(a *Auction, now time.Duration) string {
	var ids []string
	for _, it := range a.Starving(now) {
		ids = append(ids, it.ID)
	}
	return strings.Join(ids, " ")
}

// TestPreemptionGivesTheRoomToTheItem that has waited for 5 s, also if others of its kind, which are before it in the
// order of work, or smaller work, wait too.
func TestPreemptionGivesTheRoomToTheItem(t *testing.T) {
	const s = time.Second
	a, victims := preempting(t)
	submit(t, a, 0, urgent("u", 400, 60))
	a.Round(0)
	at, ok := a.Next()
	if got := starving(a, 5*s-1); got != "" || !ok || at > 5*s {
		t.Errorf("%s starves too early; next at %v", got, at)
	}
	a.Round(6 * s)
	if got := starving(a, 6*s); got != "u.0" {
		t.Fatalf("starving: %q", got)
	}
	p, ok := a.Preempt(6*s, "u.0", victims, 10)
	if !ok || fmt.Sprint(p.Victims) != "[h-a.0]" {
		t.Fatalf("%+v %v", p, ok)
	}
	a.Await("u.0", &p)
	if cell, n := a.Awaits("u.0"); cell != "c0" || n != 1 {
		t.Errorf("it awaits %d on %q", n, cell)
	}
	first := urgent("first", 400, 60)
	first.Group = "u" // the same shape, and before it
	first.Need[resource.MemoryMB] = 400
	submit(t, a, 6*s, first, lrpItem("low", 0, 10), taskItem("task", 10))
	a.byName["c0"].state.Version = 2
	a.Round(7 * s)
	if got := starving(a, 20*s); got != "first.0 low.0 task" {
		t.Errorf("work is ended for it once more, or for none: %q", got)
	}
	if _, ok := a.Preempt(20*s, "u.0", victims, 10); ok {
		t.Error("work is ended for it once more")
	}
	a.Release("h-a.0")
	r := a.Round(21 * s)
	if got := placedIDs(r); got != "u.0 task low.0" && got != "u.0 low.0 task" {
		t.Errorf("placed: %s", got)
	}
	if _, n := a.Awaits("u.0"); n != 0 {
		t.Error("it still waits")
	}
}

// TestNothingIsEndedWithoutASetting, nor for work that waits for something else than room.
func TestNothingIsEndedWithoutASetting(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c0", 1, 100, 50))
	submit(t, a, 0, urgent("u", 100, 60), urgent("v", 100, 70))
	if r := a.Round(0); placedIDs(r) != "u.0" {
		t.Errorf("the priority counts: %s", placedIDs(r))
	}
	if a.Round(time.Minute); starving(a, time.Minute) != "" {
		t.Error("it starves")
	}
	a = NewAuction(Config{Preempt: true})
	join(a, plainState("c0", 1, 100, 50))
	other := urgent("u", 10, 60)
	other.Constraint.Stack = "other"
	submit(t, a, 0, other, urgent("w", 1000, 60))
	a.Round(0)
	if a.Round(time.Minute); starving(a, time.Minute) != "" {
		t.Error("work starves that could never run there")
	}
}

func TestPriorityOrdersTheWork(t *testing.T) {
	a := NewAuction(Config{Preempt: true})
	join(a, plainState("c0", 1, 1000, 50))
	task := taskItem("t", 10)
	task.Priority = 90
	late := urgent("x", 10, 50)
	late.Index = 3
	submit(t, a, 0, urgent("a", 500, 50), urgent("b", 10, 60), task, late)
	if got := placedIDs(a.Round(0)); got != "t b.0 a.0 x.0" {
		t.Error(got)
	}
}

// TestPreemptionIsRepeatedAfterItFailed: nothing is ended for an item while that still helps, and for 5 s after it.
func TestPreemptionIsRepeatedAfterItFailed(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		change func(a *Auction)
		when   string // by second, from 10 on
	}{
		"it still ends": {func(*Auction) {}, "................"},
		"it has ended, and the cell still reports it": {func(a *Auction) {
			a.Release("h-a.0")
			st := a.byName["c0"].state
			st.Version, st.Foreign = 2, resource.Amounts{resource.MemoryMB: 500}
			a.Push(st)
		}, ".....sssssssssss"},
		"its cell is drained": {func(a *Auction) {
			st := plainState("c0", 2, 1000, 50)
			st.Draining = true
			a.Push(st)
			join(a, plainState("c1", 1, 1000, 50))
			held(t, a, lrpItem("full", 0, 1000), "c1")
		}, ".....sssssssssss"},
	} {
		a, victims := preempting(t)
		submit(t, a, 0, urgent("u", 400, 60))
		a.Round(0)
		a.Round(9 * s)
		p, ok := a.Preempt(9*s, "u.0", victims, 10)
		if !ok {
			t.Fatal("no room")
		}
		a.Await("u.0", &p)
		c.change(a)
		got := ""
		for now := 10 * s; now < 26*s; now += s {
			a.Round(now)
			if starving(a, now) == "" {
				got += "."
			} else {
				got += "s"
			}
		}
		if got != c.when {
			t.Errorf("%s: %s, want %s", name, got, c.when)
		}
	}
}

// TestStarvingIsPaced: ten at once, each second, and a kind of work for which nothing can be ended again after 5 s.
func TestStarvingIsPaced(t *testing.T) {
	const s = time.Second
	a, _ := preempting(t)
	var items []Item
	for i := range 25 {
		it := urgent("u", 400, 60)
		it.ID, it.Hold, it.Index = fmt.Sprint("u.", i), fmt.Sprint("h-u.", i), i
		items = append(items, it)
	}
	submit(t, a, 0, items...)
	a.Round(0)
	a.Round(5 * s)
	if got := strings.Fields(starving(a, 5*s)); len(got) != maxStarving || got[0] != "u.0" || got[9] != "u.9" {
		t.Errorf("%v", got)
	}
	if got := starving(a, 6*s-1); got != "" {
		t.Errorf("within a second: %v", got)
	}
	if _, ok := a.Preempt(6*s, "u.0", nil, 10); ok {
		t.Error("nothing can be ended")
	}
	if got := starving(a, 10*s); got != "" {
		t.Errorf("nothing was found: %v", got)
	}
	if at, ok := a.Next(); !ok || at != 11*s {
		t.Errorf("the next round is at %v", at)
	}
	if got := starving(a, 11*s); got == "" {
		t.Error("it is not tried again")
	}
	if len(a.Starving(0)) != 0 || a.Withdraw("u.0") != 1 {
		t.Error("it does not wait")
	}
	if _, ok := a.Preempt(20*s, "u.0", nil, 10); ok {
		t.Error("work is ended for an item that does not wait")
	}
	a.Await("u.0", &Preemption{Cell: "c0"})
	a.Await("u.1", &Preemption{Cell: "other"})
	if len(a.marks) != 0 {
		t.Error("a cell is reserved")
	}
}

// TestARepeatedRequestKeepsItsRoom: convergence repeats each request, and a change of the priority comes with it.
func TestARepeatedRequestKeepsItsRoom(t *testing.T) {
	const s = time.Second
	a, victims := preempting(t)
	submit(t, a, 0, urgent("u", 400, 60))
	a.Round(0)
	a.Round(6 * s)
	p, ok := a.Preempt(6*s, "u.0", victims, 10)
	if !ok {
		t.Fatal("no room")
	}
	a.Await("u.0", &p)
	again := urgent("u", 400, 70)
	submit(t, a, 7*s, again)
	submit(t, a, 7*s, again, lrpItem("low", 0, 400)) // twice before a round
	a.Release(p.Victims...)
	if got := placedIDs(a.Round(7 * s)); got != "u.0" {
		t.Errorf("placed: %q", got)
	}

	a, victims = preempting(t)
	submit(t, a, 0, urgent("u", 400, 60))
	a.Round(0)
	a.Round(6 * s)
	p, _ = a.Preempt(6*s, "u.0", victims, 10)
	a.Await("u.0", &p)
	submit(t, a, 7*s, again)
	a.Round(7 * s)
	if cell, n := a.Awaits("u.0"); cell != "c0" || n != 1 || starving(a, 30*s) != "" {
		t.Errorf("it awaits %d on %q", n, cell)
	}
	small := lrpItem("low", 0, 10)
	submit(t, a, 30*s, small)
	const reserved = "cell c0 is reserved for u.0, for which instances there are being stopped"
	if r := a.Round(30 * s); len(r.Refused) != 1 || !strings.Contains(r.Refused[0].Refusal.String(), reserved) {
		t.Errorf("%+v", r.Refused)
	}
	a.Spare(40*s, "u.0")
	a.Spare(40*s, "other")
	a.Release(p.Victims...)
	if got := starving(a, 45*s-1); got != "low.0" {
		t.Errorf("%q starves, and u may have none", got)
	}
}
