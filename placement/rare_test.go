package placement

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"cantina/resource"
)

// Rare situations, one per test; most of them would not notice a deleted branch otherwise.

func TestWithdrawnWorkIsForgotten(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c", 1, 100, 10))
	submit(t, a, 0, lrpItem("fresh", 0, 10), lrpItem("large", 0, 500))
	if n := a.Withdraw("fresh.0", "never"); n != 1 {
		t.Errorf("%d withdrawn", n)
	}
	r := round(a, 0)
	if len(r.Placed) != 0 || len(r.Refused) != 1 || len(a.queues) != 1 {
		t.Errorf("%+v, %d queues", r, len(a.queues))
	}
	if n := a.Withdraw("large.0"); n != 1 || a.Waiting() != 0 || len(a.queues) != 0 {
		t.Errorf("%d withdrawn, %d wait in %d queues", n, a.Waiting(), len(a.queues))
	}
	submit(t, a, 1, lrpItem("x", 0, 10))
	if r := round(a, 1); placedIDs(r) != "x.0" || len(a.queues) != 0 {
		t.Errorf("%+v, %d queues", r, len(a.queues))
	}
}

func TestSinceWhenItWaits(t *testing.T) {
	a := NewAuction(Config{})
	submit(t, a, time.Second, lrpItem("x", 0, 10))
	submit(t, a, 2*time.Second, lrpItem("x", 0, 10)) // asked again: it keeps its place in time
	if at, ok := a.WaitingSince("x.0"); !ok || at != time.Second {
		t.Errorf("since %v, %v", at, ok)
	}
	if at, ok := a.WaitingSince("nobody"); ok || at != 0 {
		t.Errorf("since %v, %v", at, ok)
	}
}

func TestRefusalsOfUnknownPlacements(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c", 1, 100, 10))
	a.Refuse(0, "nobody", true, "")
	submit(t, a, 0, lrpItem("x", 0, 10))
	round(a, 0)
	if err := a.Confirm("h-x.0"); err != nil {
		t.Fatal(err)
	}
	a.Refuse(0, "h-x.0", true, "")
	if at, ok := a.Where("h-x.0"); !ok || at != "c" || a.Waiting() != 0 {
		t.Errorf("a confirmed placement was refused: %v %v, %d wait", at, ok, a.Waiting())
	}
	g := a.Reserve([]Want{{Hold: "b", Need: resource.Amounts{resource.MemoryMB: 10}}}, 0)
	if g[0].Cell != "c" {
		t.Fatalf("%+v", g)
	}
	a.Refuse(0, "b", false, "")
	if _, ok := a.Where("b"); ok || a.Waiting() != 0 {
		t.Errorf("a refused grant waits: %v, %d", ok, a.Waiting())
	}
}

func TestRefusedWhileAskedForAgainWaitsOnce(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c", 1, 100, 10))
	later := lrpItem("x", 0, 10)
	later.Hold = "later"
	for _, it := range []Item{lrpItem("x", 0, 10), later} { // of one item, two are in flight
		if _, why, err := a.Place(it, 0); why != nil || err != nil {
			t.Fatal(why, err)
		}
	}
	a.Release("later")
	second := lrpItem("x", 0, 20)
	second.Hold = "second"
	submit(t, a, 0, second)
	a.Refuse(0, "h-x.0", false, "")
	if e := a.entryOf("x.0"); a.Waiting() != 1 || e.item.Hold != "second" {
		t.Errorf("%d wait, %+v", a.Waiting(), a.entryOf("x.0"))
	}
}

// TestUnreleasedRoom: room that becomes free without a call of Release is reported once, in each way. Refused batch
// work then asks again.
func TestUnreleasedRoom(t *testing.T) {
	for name, c := range map[string]func(a *Auction) (now time.Duration){
		"no answer in time":      func(*Auction) time.Duration { return time.Minute },
		"the item does not suit": func(a *Auction) time.Duration { a.Refuse(0, "h-x.0", false, ""); return time.Millisecond },
		"the cell takes nothing": func(a *Auction) time.Duration { a.Refuse(0, "h-x.0", true, ""); return time.Millisecond },
		"an unconfirmed grant ends": func(a *Auction) time.Duration {
			a.Release("h-x.0")
			a.Reserve([]Want{{Hold: "b", Need: resource.Amounts{resource.MemoryMB: 10}}}, 0)
			return time.Minute
		},
		"a cell is kept no longer": func(a *Auction) time.Duration {
			submitMore := lrpItem("big", 0, 100)
			if err := a.Submit(0, submitMore); err != nil {
				panic(err)
			}
			round(a, 0)
			if r := round(a, 25*time.Second); r.Woken || len(a.marks) != 1 {
				panic(len(a.marks))
			}
			a.Withdraw("big.0")
			return 26 * time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := NewAuction(Config{Patience: 20 * time.Second})
			join(a, plainState("c", 1, 100, 10))
			submit(t, a, 0, lrpItem("x", 0, 10))
			if r := round(a, 0); placedIDs(r) != "x.0" || r.Woken {
				t.Fatalf("%+v", r)
			}
			now := c(a)
			if r := round(a, now); !r.Woken {
				t.Error("no report")
			}
			if r := round(a, now); r.Woken {
				t.Error("reported twice")
			}
		})
	}
}

func TestACellThatRests(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c", 1, 100, 10))
	a.Rest(0, "nobody")
	a.Rest(0, "c")
	submit(t, a, 0, lrpItem("x", 0, 10))
	r := round(a, 0)
	if len(r.Placed) != 0 || len(r.Refused) != 1 ||
		r.Refused[0].Refusal.String() != "found no compatible cells: 1 cell: refused work recently" {
		t.Fatalf("%+v", r)
	}
	if at, ok := a.Next(); !ok || at != time.Second {
		t.Errorf("next at %v, %v", at, ok)
	}
	if r := round(a, time.Second); placedIDs(r) != "x.0" || !r.Woken {
		t.Errorf("%+v", r)
	}
	// A newer state ends the rest before its time.
	a.Refuse(time.Second, "h-x.0", true, "")
	if r := round(a, time.Second); len(r.Placed) != 0 {
		t.Errorf("%+v", r)
	}
	a.Push(plainState("c", 2, 100, 10))
	if r := round(a, time.Second); placedIDs(r) != "x.0" || r.Woken || len(a.resting) != 0 {
		t.Errorf("%+v, %d rest", r, len(a.resting))
	}
}

func TestStrandedAndOverTimeAtOnce(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c", 1, 100, 10))
	submit(t, a, 0, lrpItem("x", 0, 10))
	round(a, 0)
	if at, ok := a.Next(); !ok || at != 30*time.Second {
		t.Errorf("next at %v, %v", at, ok)
	}
	c := a.byName["c"]
	a.Remove("c")
	if r := round(a, 31*time.Second); len(r.Expired) != 1 {
		t.Errorf("%+v", r)
	}
	if c.used.at(dimMemory) != 0 || len(a.byName) != 0 {
		t.Errorf("used %v, %d cells are known", c.used, len(a.byName))
	}
}

func TestAllocatedWhileItWaits(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c", 1, 100, 10))
	it := lrpItem("x", 0, 10)
	submit(t, a, 0, it)
	hold := Holding{Hold: it.Hold, Cell: "c", Kind: KindLRP, Group: "x", Need: it.Need}
	if err := a.Hold(hold); err != nil {
		t.Fatal(err)
	}
	if r := round(a, 0); len(r.Placed)+len(r.Refused) != 0 || a.Waiting() != 0 || a.byName["c"].used.at(dimMemory) != 10 {
		t.Errorf("%+v, %d wait, %v used", r, a.Waiting(), a.byName["c"].used)
	}
	if err := a.Hold(hold); err != nil || a.byName["c"].used.at(dimMemory) != 10 {
		t.Errorf("held again: %v, %v used", err, a.byName["c"].used)
	}
	hold.Cell = "d"
	if err := a.Hold(hold); !errors.Is(err, ErrHeld) {
		t.Errorf("held on two cells: %v", err)
	}
}

func TestOnlyRefusalsAreReported(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c", 1, 100, 10))
	submit(t, a, 0, lrpItem("fits", 0, 60), lrpItem("not", 0, 61))
	r := round(a, 0)
	if len(r.Placed) != 1 || len(r.Refused) != 1 || r.Refused[0].Refusal == nil ||
		r.Refused[0].Item.ID == r.Placed[0].Item.ID {
		t.Fatalf("%+v", r)
	}
	if a.ExplainWaiting("nobody") != nil || a.ExplainWaiting(r.Placed[0].Item.ID) != nil ||
		a.ExplainWaiting(r.Refused[0].Item.ID) == nil {
		t.Error("why it waits")
	}
}

// TestAnotherRefusalCodeIsReported: a refusal with a new code is reported again, once the cells have changed.
func TestAnotherRefusalCodeIsReported(t *testing.T) {
	broken := plainState("c", 2, 100, 10)
	broken.Unavailable = "probe failed"
	for name, change := range map[string]func(*Auction){
		"the probe fails":     func(a *Auction) { a.Push(broken) },
		"the session is gone": func(a *Auction) { a.Admit("c", "p-c", "unhealthy") },
	} {
		a := NewAuction(Config{})
		join(a, plainState("c", 1, 100, 10))
		submit(t, a, 0, lrpItem("holds", 0, 90))
		round(a, 0)
		submit(t, a, 0, lrpItem("x", 0, 50))
		if r := round(a, 0); len(r.Refused) != 1 || r.Refused[0].Refusal.Code != InsufficientResources {
			t.Fatalf("%s: %+v", name, r)
		}
		change(a)
		if r := round(a, 2*time.Second); len(r.Refused) != 1 || r.Refused[0].Refusal.Code != NoCompatibleCells {
			t.Errorf("%s: %+v", name, r)
		}
		if r := round(a, 4*time.Second); len(r.Refused) != 0 {
			t.Errorf("%s: reported again without a change: %+v", name, r)
		}
	}
}

func TestReasonsOfAnUnavailableCell(t *testing.T) {
	a := NewAuction(Config{})
	states := map[string]func(*State){
		"evacuating": func(s *State) { s.Draining = true }, "probe failed": func(s *State) { s.Unavailable = "probe failed" },
		"": func(*State) {}, "refused work recently": func(*State) {}, "unhealthy": func(*State) {},
	}
	for why, alter := range states {
		s := plainState("cell "+why, 1, 100, 10)
		alter(&s)
		join(a, s)
	}
	a.Admit("cell unhealthy", "p-cell unhealthy", "unhealthy")
	a.Rest(0, "cell refused work recently")
	a.Admit("cell waiting for its first report", "p", "")
	for _, c := range a.Cells() {
		if "cell "+c.Reason != c.Name {
			t.Errorf("%s: %q", c.Name, c.Reason)
		}
	}
	for why, text := range map[string]string{
		"unhealthy":                    "found no compatible cells: 1 cell: unhealthy",
		"waiting for its first report": "found no compatible cells: 1 cell: waiting for its first report",
	} {
		l := NewLedger(Config{})
		l.Admit("c", "p-c", "")
		if why == "unhealthy" {
			l.Push(plainState("c", 1, 100, 10))
			l.Admit("c", "p-c", why)
		}
		if r := l.Explain(lrpItem("x", 0, 1)); r == nil || r.String() != text {
			t.Errorf("%s: %v", why, r)
		}
	}
}

func TestUnchangedStates(t *testing.T) {
	l := NewLedger(Config{})
	if l.Push(State{Process: "p"}) || len(l.byName) != 0 {
		t.Error("a state of no cell")
	}
	if !l.Admit("c", "p-c", "") || l.Admit("c", "p-c", "") || !l.Admit("c", "p-c", "unhealthy") ||
		l.Admit("c", "p-c", "unhealthy") || !l.Admit("c", "p-c", "other") {
		t.Error("only changes are reported")
	}
	s := plainState("c", 1, 100, 10)
	s.Host = "h1"
	l.Push(s)
	s.Version, s.Host = 2, "h2"
	l.Push(s)
	s.Version = 3
	l.Push(s)
	if len(l.hosts) != 1 || len(l.hosts["h2"]) != 1 {
		t.Errorf("machines %v", l.hosts)
	}
	l.Remove("c")
	if len(l.hosts) != 0 || len(l.byName) != 0 {
		t.Errorf("%d machines, %d cells after the last has gone", len(l.hosts), len(l.byName))
	}
}

// TestCellsThatComeAndGo take no more room than those that are there at a time.
func TestCellsThatComeAndGo(t *testing.T) {
	l := NewLedger(Config{})
	for i := range 100 {
		name := fmt.Sprint("c", i)
		l.Admit(name, "p-"+name, "")
		l.Push(plainState(name, 1, 100, 10))
		l.Remove(name)
	}
	if len(l.cells) != 1 || len(l.classes) != 1 || len(l.classes[0].slots) != 1 || l.classes[0].live != 0 {
		t.Errorf("%d cells, %d classes, %d slots", len(l.cells), len(l.classes), len(l.classes[0].slots))
	}
}

func TestGroupsAreForgotten(t *testing.T) {
	l := NewLedger(Config{})
	for _, name := range []string{"c", "d"} {
		s := plainState(name, 1, 100, 10)
		s.Zone = name
		l.Admit(name, "p-"+name, "")
		l.Push(s)
	}
	hold := func(id, cell string, k Kind) {
		if err := l.Hold(Holding{Hold: id, Cell: cell, Kind: k, Group: "g"}); err != nil {
			t.Fatal(err)
		}
	}
	hold("1", "c", KindLRP)
	hold("2", "d", KindLRP)
	hold("3", "c", KindBatch) // of no group, for any field
	if n := l.Release("3", "never"); n != 1 || l.groups["g"].total != 2 {
		t.Errorf("%d released, group %+v", n, l.groups["g"])
	}
	l.Release("1")
	if g := l.groups["g"]; g.total != 1 || len(g.classes) != 1 {
		t.Errorf("group %+v", g)
	}
	l.Release("2")
	if len(l.groups) != 0 {
		t.Errorf("%d groups are left", len(l.groups))
	}
}

// TestLeastCountOfAClass: once every cell of a class has an instance the search need
// not look for one without.
func TestLeastCountOfAClass(t *testing.T) {
	l := NewLedger(Config{})
	for i := range 3 {
		name := fmt.Sprint("c", i)
		l.Admit(name, "p-"+name, "")
		l.Push(plainState(name, 1, 100, 10))
	}
	for i, cell := range []string{"c0", "c0", "c1", "c1", "c2", "c2", "c2"} {
		if got := l.groups["g"].floor(0, 3); i < 5 && got != 0 {
			t.Errorf("%d instances: at least %d on each cell", i, got)
		}
		if err := l.Hold(Holding{Hold: fmt.Sprint(i), Cell: cell, Kind: KindLRP, Group: "g"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.groups["g"].floor(0, 3); got != 2 {
		t.Errorf("at least %d on each cell, want 2", got)
	}
}

func TestCallsThatCannotBe(t *testing.T) {
	l := NewLedger(Config{})
	l.Admit("c", "p-c", "")
	l.Push(plainState("c", 1, 100, 10))
	it := lrpItem("x", 0, 10)
	for _, bad := range []Item{{ID: "x"}, {Hold: "x"}} {
		if _, _, err := l.Place(bad, 0); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for _, bad := range []Holding{{Hold: "x"}, {Cell: "c"}} {
		if err := l.Hold(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, _, err := l.Place(it, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Place(it, 0); !errors.Is(err, ErrHeld) {
		t.Errorf("placed twice: %v", err)
	}
	if err := l.Confirm("never"); !errors.Is(err, ErrUnknownHolding) {
		t.Errorf("confirmed: %v", err)
	}
}

// TestARestartedInstanceJoinsTheBatch: its first attempt was confirmed and is no
// longer in flight.
func TestARestartedInstanceJoinsTheBatch(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c", 1, 100, 10))
	submit(t, a, 0, lrpItem("x", 0, 10))
	round(a, 0)
	if err := a.Confirm("h-x.0"); err != nil {
		t.Fatal(err)
	}
	second := lrpItem("x", 0, 10)
	second.Hold = "second"
	submit(t, a, 1, second)
	if r := round(a, 1); placedIDs(r) != "x.0" || r.Placed[0].Item.Hold != "second" {
		t.Errorf("%+v", r)
	}
}

// TestWorkThatFitsNoCell leaves the batch reserve to batch work.
func TestWorkThatFitsNoCell(t *testing.T) {
	l := NewLedger(Config{BatchReserve: 50})
	l.Admit("c", "p-c", "")
	l.Push(plainState("c", 1, 100, 10))
	if r := l.Explain(lrpItem("x", 0, 60)); r == nil || !r.Never {
		t.Errorf("more than services may have: %v", r)
	}
	if r := l.Explain(lrpItem("x", 0, 50)); r != nil {
		t.Errorf("just what they may have: %v", r)
	}
	g := l.Reserve([]Want{{Hold: "1", Need: resource.Amounts{resource.MemoryMB: 60}},
		{Hold: "2", Need: resource.Amounts{resource.MemoryMB: 60}},
		{Hold: "3", Need: resource.Amounts{resource.MemoryMB: 60}},
		{Hold: "1", Need: resource.Amounts{resource.MemoryMB: 60}}}, 0)
	if g[0].Cell != "c" || g[1].Refusal == nil || g[1].Refusal.Never || g[2].Refusal != g[1].Refusal || g[3].Cell != "c" ||
		g[3].Refusal != nil {
		t.Errorf("%+v", g)
	}
}

func TestMissing(t *testing.T) {
	l := NewLedger(Config{})
	for i, memory := range []int{10, 30} {
		name := fmt.Sprint("c", i)
		s := plainState(name, 1, memory, i) // c0 has no container to give
		l.Admit(name, "p-"+name, "")
		l.Push(s)
	}
	it := lrpItem("x", 0, 50)
	r := l.Explain(it)
	if got := fmt.Sprint(r.Missing()); got != "[containers 1 needed, 0 free memory 50Mi needed, 30Mi free]" {
		t.Errorf("%s of %v", got, r)
	}
	if r := RefusedByCell("c", ""); r.Cell != "c" ||
		r.String() != "insufficient resources: 1 cell: c refused: no reason given" {
		t.Errorf("%+v", r)
	}
}

func TestManyNames(t *testing.T) {
	l := NewLedger(Config{})
	s := plainState("c", 1, 100, 10)
	for i := range maxDims + 6 {
		s.Capacity[fmt.Sprintf("r%03d", i)] = 5
	}
	l.Admit("c", "p-c", "")
	l.Push(s)
	for name, fits := range map[string]bool{"r000": true, fmt.Sprintf("r%03d", maxDims+5): false} {
		it := lrpItem("x", 0, 1)
		it.Need[name] = 1
		if r := l.Explain(it); (r == nil) != fits {
			t.Errorf("%s: %v", name, r)
		}
	}
	if len(l.dims.names) != maxDims {
		t.Errorf("%d names", len(l.dims.names))
	}
	for range 20 {
		_, unknown := l.dims.vector(resource.Amounts{"x": 1, "b": 2, "m": 3, "a": 0})
		if got := fmt.Sprint(unknown); got != "[b 2 needed, 0 free m 3 needed, 0 free x 1 needed, 0 free]" {
			t.Fatal(got)
		}
	}
}

func TestShapesAreBounded(t *testing.T) {
	l := NewLedger(Config{})
	for i := range maxShapes {
		l.shapes[fmt.Sprint(i)] = nil
	}
	l.shapeOf(&Item{})
	if len(l.shapes) != 1 {
		t.Errorf("%d shapes", len(l.shapes))
	}
}

func TestOrderOfVerdicts(t *testing.T) {
	one := [3]int{1}
	for _, c := range []struct {
		a, b verdict
		less bool
	}{
		{verdict{[3]int{}, 5, 9}, verdict{one, 0, 0}, true}, {verdict{one, 0, 0}, verdict{[3]int{}, 5, 9}, false},
		{verdict{one, 0, 9}, verdict{one, 5, 0}, true}, {verdict{one, 5, 0}, verdict{one, 0, 9}, false},
		{verdict{one, 5, 0}, verdict{one, 5, 9}, true}, {verdict{one, 5, 9}, verdict{one, 5, 9}, false},
	} {
		if c.a.less(c.b) != c.less {
			t.Errorf("%v < %v: %v", c.a, c.b, !c.less)
		}
	}
}

// TestASearchTouchesAPath: among many fitting cells, the best is found without a visit of all of them, for any
// order.
func TestASearchTouchesAPath(t *testing.T) {
	const n = 1024
	for name, used := range map[string]func(i int) int{
		"the best is last": func(i int) int { return n - i }, "the best is first": func(i int) int { return i },
	} {
		l := NewLedger(Config{})
		for i := range n {
			cell := fmt.Sprint("c", i)
			l.Admit(cell, "p-"+cell, "")
			l.Push(plainState(cell, 1, 10*n, 10))
			if err := l.Hold(Holding{Hold: cell, Cell: cell, Kind: KindLRP, Group: "other",
				Need: resource.Amounts{resource.MemoryMB: used(i)}}); err != nil {
				t.Fatal(err)
			}
		}
		before := l.visits
		p, r, err := l.Place(lrpItem("x", 0, 10), 0)
		best := "c0"
		if name == "the best is last" {
			best = fmt.Sprint("c", n-1)
		}
		if err != nil || r != nil || p.Cell != best || l.visits-before > 64 {
			t.Errorf("%s: on %s, %d visits; %v %v", name, p.Cell, l.visits-before, r, err)
		}
	}
}

func TestWorkThatAvoidsItsReservedCell(t *testing.T) {
	l := NewLedger(Config{})
	l.Admit("c", "p-c", "")
	l.Push(plainState("c", 1, 100, 10))
	it := lrpItem("x", 0, 10)
	it.Avoid = []string{"c"}
	s := l.shapeOf(&it)
	if l.fits(s, l.byName["c"], nil) || l.servable(s, l.byName["c"]) {
		t.Error("it would get the cell that it avoids")
	}
	if !slices.Equal(s.avoid, it.Avoid) {
		t.Error(s.avoid)
	}
}

// TestPinnedInstancesSpreadOverZones: also among the cells of one machine the zone
// with the fewest instances comes first.
func TestPinnedInstancesSpreadOverZones(t *testing.T) {
	l := NewLedger(Config{})
	for _, c := range []struct{ name, zone string }{{"a1", "z1"}, {"a2", "z1"}, {"b1", "z2"}} {
		s := plainState(c.name, 1, 100, 10)
		s.Zone, s.Host = c.zone, "h"
		if c.name == "b1" {
			s.Foreign = resource.Amounts{resource.MemoryMB: 50} // the worse cell but for its zone
		}
		l.Admit(c.name, "p-"+c.name, "")
		l.Push(s)
	}
	it := lrpItem("x", 0, 10)
	it.Constraint.Host = "h"
	if _, _, err := l.Place(it, 0); err != nil {
		t.Fatal(err)
	}
	it.ID, it.Hold = "second", "second"
	if p, r, err := l.Place(it, 0); err != nil || r != nil || p.Cell != "b1" {
		t.Errorf("on %s: %v, %v", p.Cell, r, err)
	}
}
