package placement

import (
	"strings"
	"testing"
	"time"

	"cantina/resource"
)

// host is a cell of a machine with room for plenty.
func host(l interface {
	Push(State) bool
	Admit(cell, process, reason string) bool
}, cell, machine, address string) {
	l.Push(State{Cell: cell, Process: "p", Version: 1, Host: machine, InstanceAddress: address,
		Capacity: resource.Amounts{resource.MemoryMB: 100, resource.Containers: 100}})
	l.Admit(cell, "p", "")
}

func fixed(id string, ports ...int) Item {
	return Item{ID: id, Hold: "h-" + id, Name: "d/" + id, Group: "g", Constraint: Constraint{Ports: ports}}
}

// TestAPortIsHeldOnceAMachine by all its cells together, in flight or held, and by no cell of another machine, of
// the same name or of none.
func TestAPortIsHeldOnceAMachine(t *testing.T) {
	a := NewAuction(Config{})
	host(a, "a1", "alpha", "10.0.0.1")
	host(a, "a2", "alpha", "10.0.0.1")
	if err := a.Submit(0, fixed("web", 80), fixed("api", 80), fixed("other", 81)); err != nil {
		t.Fatal(err)
	}
	r := a.Round(0)
	if len(r.Placed) != 2 || len(r.Refused) != 1 || r.Refused[0].Refusal.Code != InsufficientResources ||
		r.Refused[0].Refusal.Never {
		t.Fatalf("%+v", r)
	}
	first := r.Placed[0].Item
	for _, text := range []string{r.Refused[0].Refusal.String(), a.ExplainWaiting(r.Refused[0].Item.ID).String()} {
		if text != "insufficient resources: 2 cells: port 80 needed, largest free 0 ("+first.Name+" has it)" {
			t.Errorf("refused with %q", text)
		}
	}
	if text := r.Refused[0].Refusal.Remedy(); !strings.Contains(text, "add a cell with port 80 free") {
		t.Errorf("remedy: %q", text)
	}
	for _, p := range r.Placed {
		if err := a.Confirm(p.Item.Hold); err != nil {
			t.Fatal(err)
		}
	}
	// No other room is reserved for work that waits for a port.
	if r := a.Round(time.Hour); len(r.Placed) != 0 || len(a.marks) != 0 {
		t.Errorf("%+v, cells kept: %d", r, len(a.marks))
	}
	if a.Release(first.Hold); len(a.Round(time.Hour).Placed) != 1 {
		t.Error("the port is free, and what waited is not placed")
	}
	for _, x := range [][2]string{{"alpha", "10.0.0.2"}, {"beta", "10.0.0.1"}, {"", "10.0.0.1"}, {"", "10.0.0.1"}} {
		host(a, "on "+x[0]+x[1]+string(rune('a'+len(a.byName))), x[0], x[1])
		if err := a.Submit(time.Hour, Item{ID: "again", Hold: "again" + x[0] + x[1] + string(rune('a'+len(a.byName))),
			Constraint: Constraint{Ports: []int{80}}}); err != nil {
			t.Fatal(err)
		}
		r := a.Round(time.Hour)
		if len(r.Placed) != 1 {
			t.Fatalf("a machine %v of its own: %+v", x, r)
		}
		_ = a.Confirm(r.Placed[0].Item.Hold)
	}
}

// TestPortsOfBatchWork: a grant takes its ports too, the next of the same call among them.
func TestPortsOfBatchWork(t *testing.T) {
	l := NewLedger(Config{})
	host(l, "a1", "alpha", "x")
	c := Constraint{Ports: []int{80}}
	g := l.Reserve([]Want{{Hold: "1", Constraint: c}, {Hold: "2", Constraint: c},
		{Hold: "3", Constraint: Constraint{Ports: []int{81}}}}, 0)
	if g[0].Cell == "" || g[1].Refusal == nil || g[2].Cell == "" {
		t.Errorf("%+v", g)
	}
}

// TestMachines lists each machine once, for any cells, also while none of them takes work.
func TestMachines(t *testing.T) {
	l := NewLedger(Config{})
	host(l, "a1", "alpha", "x")
	host(l, "a2", "alpha", "x")
	host(l, "b1", "beta", "x")
	l.Admit("b1", "p", "being drained")
	host(l, "n1", "", "")
	host(l, "n2", "", "")
	gone := []State{{Cell: "c1", Host: "gamma"}, {Cell: "a1", Host: "delta"}}
	if n := l.Machines([]Constraint{{}}, gone); n != 5 {
		t.Errorf("%d machines, want alpha, beta, gamma and the two without a name", n)
	}
	if n := l.Machines([]Constraint{{Labels: map[string]string{"no": "such"}}}, gone); n != 0 {
		t.Errorf("%d machines have a label that none has", n)
	}
}
