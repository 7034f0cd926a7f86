package placement

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"cantina/resource"
)

// TestTheHeapGivesTheBestFirst for any order of insertion.
func TestTheHeapGivesTheBestFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var h heap
	for i := range 300 {
		h.push(&entry{item: lrpItem("x", rng.IntN(40), rng.IntN(5)), seq: int64(i)})
	}
	for last := h[0]; len(h) > 0; h.pop() {
		if compareEntries(last, h[0]) > 0 {
			t.Fatalf("%+v before %+v", last.item, h[0].item)
		}
		last = h[0]
	}
}

// TestConfigIsCutToItsBounds and values within the bounds are kept.
func TestConfigIsCutToItsBounds(t *testing.T) {
	usual := Config{0, 30 * time.Second, time.Second, 30 * time.Second, 500, false, 5 * time.Second}
	for _, c := range []struct{ give, want Config }{
		{Config{}, usual},
		{Config{101, 1, 1, 1, 1, true, 1}, Config{100, 1, 1, 1, 1, true, 1}},
		{Config{-1, -1, -1, -1, -1, false, -1}, usual},
	} {
		if got := c.give.withDefaults(); got != c.want {
			t.Errorf("%+v: %+v", c.give, got)
		}
	}
	l := NewLedger(Config{BatchReserve: 1})
	l.Admit("c", "p-c", "")
	l.Push(plainState("c", 1, 100, 100))
	if _, r, _ := l.Place(taskItem("t", 100), 0); r == nil || !strings.Contains(r.String(), "largest free 99Mi") {
		t.Errorf("one percent is left to batch work: %v", r)
	}
}

// TestACellThatIsForgottenDoesNotRest: its session went, and then its last work.
func TestACellThatIsForgottenDoesNotRest(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c", 1, 100, 10))
	a.Reserve([]Want{{Hold: "b"}}, 0)
	a.Remove("c")
	a.Refuse(0, "b", true, "full")
	if at, ok := a.Next(); ok || len(a.Cells()) != 0 {
		t.Errorf("%+v, next at %v", a.Cells(), at)
	}
}

// TestWorkThatIsAllocatedMeanwhileStopsNoOther of its shape in the round.
func TestWorkThatIsAllocatedMeanwhileStopsNoOther(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c", 1, 100, 10))
	submit(t, a, 0, taskItem("first", 10), taskItem("second", 10))
	if err := a.Hold(Holding{Hold: "h-first", Cell: "c", Kind: KindTask}); err != nil {
		t.Fatal(err)
	}
	if got := placedIDs(round(a, 0)); got != "second" || a.Waiting() != 0 {
		t.Errorf("placed %q, %d wait", got, a.Waiting())
	}
}

// TestOneIdIsPlacedOnce though it waits, is in flight by another hand, and that expires.
func TestOneIdIsPlacedOnce(t *testing.T) {
	a := NewAuction(Config{})
	submit(t, a, 0, taskItem("t", 10))
	join(a, plainState("c", 1, 100, 10))
	other := taskItem("t", 10)
	other.Hold = "other"
	if _, r, err := a.Place(other, 0); r != nil || err != nil {
		t.Fatal(r, err)
	}
	third := taskItem("t", 10)
	third.Hold = "third"
	submit(t, a, 0, third)
	if got := placedIDs(round(a, 30*time.Second)); got != "t" || a.Waiting() != 0 {
		t.Errorf("placed %q, %d wait", got, a.Waiting())
	}
}

// TestPlacementsInFlightStay when an earlier attempt of the same work is confirmed.
func TestPlacementsInFlightStay(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c", 1, 100, 10))
	for _, hold := range []string{"one", "two"} {
		it := taskItem("t", 10)
		it.Hold = hold
		if _, r, err := a.Place(it, 0); r != nil || err != nil {
			t.Fatal(r, err)
		}
	}
	if err := a.Confirm("one"); err != nil {
		t.Fatal(err)
	}
	if submit(t, a, 0, taskItem("t", 10)); a.Waiting() != 0 {
		t.Error("placements in flight wait too")
	}
}

// TestASessionIsNewsOnce, and a state of another process is taken with any version, also a lower one.
func TestASessionIsNewsOnce(t *testing.T) {
	l := NewLedger(Config{})
	for i, c := range []struct {
		process, reason string
		news            bool
	}{{"", "no session", true}, {"", "no session", false}, {"p", "no session", true}, {"p", "", true}, {"p", "", false},
		{"p", "new", true}} {
		if got := l.Admit("c", c.process, c.reason); got != c.news {
			t.Errorf("%d: %v", i, got)
		}
	}
	s := plainState("c", 5, 100, 10)
	if !l.Push(s) || l.Push(s) {
		t.Error("a state is taken once")
	}
	if s.Process, s.Version = "q", 1; !l.Push(s) {
		t.Error("the state of another process is not taken")
	}
}

// TestWaitingWorkNamesTheDrain, and its end.
func TestWaitingWorkNamesTheDrain(t *testing.T) {
	a := NewAuction(Config{})
	s := plainState("c", 1, 10, 10)
	join(a, s)
	submit(t, a, 0, taskItem("t", 50))
	for i, want := range []string{"largest cell", "evacuating", "largest cell"} {
		if i > 0 {
			s.Version, s.Draining = int64(i+1), i == 1
			a.Push(s)
		}
		r := round(a, time.Duration(i)*2*time.Second)
		if len(r.Refused) != 1 || !strings.Contains(r.Refused[0].Refusal.String(), want) {
			t.Errorf("%s: %+v", want, r.Refused)
		}
	}
}

// TestOneCellIsKeptForOneItem, for service and batch work, where two could be: neither is a
// second one kept for it, nor one for another.
func TestOneCellIsKeptForOneItem(t *testing.T) {
	for _, batch := range []bool{false, true} {
		a := NewAuction(Config{Patience: 2 * time.Second})
		for i := range 20 {
			s := plainState(fmt.Sprint("c", i), 1, 100, 10)
			s.Stacks = []string{"other"}
			if i < 3 {
				s.Stacks = []string{"deb"}
			}
			join(a, s)
			if err := a.Hold(Holding{Hold: s.Cell, Cell: s.Cell, Need: resource.Amounts{resource.MemoryMB: 50}}); err != nil {
				t.Fatal(err)
			}
		}
		need, c := resource.Amounts{resource.MemoryMB: 60}, Constraint{Stack: "deb"}
		for now := time.Duration(0); now < 4*time.Second; now += time.Second {
			if batch {
				a.Reserve([]Want{{Hold: "wide", Need: need, Constraint: c}}, now)
			} else if now == 0 {
				submit(t, a, 0, Item{ID: "wide", Hold: "wide", Kind: KindTask, Need: need, Constraint: c})
			}
			round(a, now)
		}
		if len(a.marks) != 1 {
			t.Errorf("batch %v: %d cells are kept for one item", batch, len(a.marks))
		}
		// Of the three that suit only one is left: the next item has to wait for it to come free.
		a.Remove("c1")
		a.Remove("c2")
		round(a, 4*time.Second)
		submit(t, a, 4*time.Second, Item{ID: "next", Hold: "next", Kind: KindTask,
			Need: resource.Amounts{resource.MemoryMB: 70}, Constraint: c})
		round(a, 4*time.Second)
		a.Reserve([]Want{{Hold: "wide", Need: need, Constraint: c}}, 6*time.Second)
		round(a, 6*time.Second)
		for _, v := range a.Cells() {
			if v.Name == "c0" && v.ReservedFor == "" {
				t.Errorf("batch %v: %+v", batch, v)
			}
		}
		if len(a.marks) > 1 {
			t.Errorf("batch %v: one cell is kept for %d items", batch, len(a.marks))
		}
	}
}

// TestAnItemMayHaveTheNameOfABatchTask for which a cell is kept.
func TestAnItemMayHaveTheNameOfABatchTask(t *testing.T) {
	a := twoProcessors(t)
	a.Reserve([]Want{narrow(0), {Hold: "w", Need: wide().Need}}, 0)
	round(a, 30*time.Second)
	if c := a.Cells()[0]; c.ReservedFor != "w" {
		t.Fatalf("%+v", c)
	}
	submit(t, a, 30*time.Second, Item{ID: "w", Hold: "service", Need: resource.Amounts{resource.CPUMilli: 100}})
	a.Push(State{Cell: "c", Process: "p", Version: 2, Capacity: resource.Amounts{"cpu_milli": 2100, "containers": 100}})
	if got := placedIDs(round(a, 30*time.Second)); got != "w" {
		t.Errorf("placed %q", got)
	}
}

// TestAPortIsShortByOne, and the least limit of open files is one.
func TestAPortIsShortByOne(t *testing.T) {
	l := NewLedger(Config{})
	host(l, "a", "alpha", "x")
	l.Reserve([]Want{{Hold: "1", Constraint: Constraint{Ports: []int{80}}}}, 0)
	r := l.Explain(fixed("web", 80))
	want := Shortage{Name: resource.Port(80), Need: 1, LargestAll: 1}
	if r == nil || len(r.Classes) != 1 || len(r.Classes[0].Short) != 1 || r.Classes[0].Short[0] != want {
		t.Errorf("%+v", r)
	}
	if _, _, ok := compatible(&State{OpenFiles: 1}, &Constraint{OpenFiles: 2}); ok {
		t.Error("two open files where one is allowed")
	}
}

// TestOneCellByName is the only one, though another has more room.
func TestOneCellByName(t *testing.T) {
	l := NewLedger(Config{})
	host(l, "a", "alpha", "x")
	host(l, "b", "beta", "x")
	for i := range 3 {
		if g := l.Reserve([]Want{{Hold: fmt.Sprint(i), Hosts: hosts("beta")}}, 0); g[0].Cell != "b" {
			t.Errorf("%+v", g)
		}
	}
}

// TestPlacementsInFlight lists the placements in flight to a process, and no other holding or process.
func TestPlacementsInFlight(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c", 1, 100, 10))
	process := a.Cells()[0].Process
	flies := func(when string, hold, process string, want bool) {
		t.Helper()
		if got := a.Flies(hold, process); got != want {
			t.Errorf("%s: %s to %s: %v", when, hold, process, got)
		}
	}
	flies("before", "t", process, false)
	it := taskItem("t", 10)
	it.Hold = "h"
	if _, r, err := a.Place(it, 0); r != nil || err != nil {
		t.Fatal(r, err)
	}
	flies("placed", "h", process, true)
	flies("placed", "h", "another", false)
	flies("placed", "t", process, false)
	if err := a.Confirm("h"); err != nil {
		t.Fatal(err)
	}
	flies("confirmed", "h", process, false)
}
