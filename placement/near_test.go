package placement

import (
	"fmt"
	"strings"
	"testing"

	"cantina/label"
	"cantina/resource"
)

func conditions(texts ...string) []label.Condition {
	out, err := label.ParseAll(texts)
	if err != nil {
		panic(err)
	}
	return out
}

// racks is a fleet of cells with a rack each, in one zone.
func racks(racks ...string) *Auction {
	a := NewAuction(Config{})
	for i, r := range racks {
		s := plainState(fmt.Sprint("c", i), 1, 1000, 50)
		s.Labels = map[string]string{"rack": r}
		join(a, s)
	}
	return a
}

func limited(id string, index int, limits ...Limit) Item {
	it := lrpItem(id, index, 10)
	it.Service, it.Constraint.Limits = "default/"+id, limits
	return it
}

// placedOn submits items and returns the cells of those that a round places.
func placedOn(t *testing.T, a *Auction, items ...Item) (cells []string, refused []Refused) {
	t.Helper()
	if err := a.Submit(0, items...); err != nil {
		t.Fatal(err)
	}
	r := a.Round(0)
	for _, p := range r.Placed {
		cells = append(cells, p.Cell)
	}
	return cells, r.Refused
}

func TestASpreadOverALabelGoesBeforeEvenUse(t *testing.T) {
	a := racks("r1", "r1", "r1", "r2")
	var items []Item
	for i := range 4 {
		it := lrpItem("web", i, 10)
		it.Constraint.Spread = []string{"rack"}
		items = append(items, it)
	}
	cells, _ := placedOn(t, a, items...)
	n := 0
	for _, c := range cells {
		if c == "c3" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d of 4 in rack r2, which is one of two: %v", n, cells)
	}
}

// TestALabelIsCountedFromItsFirstUseOn: instances that are there before a spread names the label count.
func TestALabelIsCountedFromItsFirstUseOn(t *testing.T) {
	a := racks("r1", "r2")
	if err := a.Hold(Holding{Hold: "old", Cell: "c0", Group: "web"}); err != nil {
		t.Fatal(err)
	}
	it := limited("web", 1, Limit{"rack", 1})
	if cells, _ := placedOn(t, a, it); len(cells) != 1 || cells[0] != "c1" {
		t.Error(cells)
	}
}

func TestALimitHoldsUntilAnInstanceGoes(t *testing.T) {
	a := racks("r1", "r1", "r2")
	cells, refused := placedOn(t, a, limited("web", 0, Limit{"rack", 1}), limited("web", 1, Limit{"rack", 1}),
		limited("web", 2, Limit{"rack", 1}), limited("api", 0, Limit{"rack", 1}))
	if len(cells) != 3 || len(refused) != 1 {
		t.Fatal(cells, refused)
	}
	want := "found no compatible cells: 3 cells: max_per rack: 1 is reached"
	if got := refused[0].Refusal.String(); got != want {
		t.Errorf("refusal %q, want %q", got, want)
	}
	if next, _ := placedOn(t, a); len(next) != 0 {
		t.Error(next)
	}
	a.Release("h-web.0")
	if next, _ := placedOn(t, a); len(next) != 1 {
		t.Error("the end of an instance in the rack lets nothing be placed")
	}
}

// TestALimitDoesNotCountWhatLeaves: an instance that replaces one on a cell to be avoided may be in the same
// rack.
func TestALimitDoesNotCountWhatLeaves(t *testing.T) {
	a := racks("r1", "r1")
	placedOn(t, a, limited("web", 0, Limit{"rack", 1}))
	a.Withdraw("web.0")
	again := limited("web", 0, Limit{"rack", 1})
	again.ID, again.Hold, again.Avoid = "again", "h-again", []string{"c0", "c0"}
	if cells, _ := placedOn(t, a, again); len(cells) != 1 || cells[0] != "c1" {
		t.Error(cells)
	}
}

func TestServicesStayApart(t *testing.T) {
	a := racks("r1", "r1")
	db := limited("db", 0)
	db.Constraint.Apart = []string{"default/web"}
	web := []Item{limited("web", 0), limited("web", 1), limited("web", 2)}
	cells, _ := placedOn(t, a, append(web, db)...) // index 0 of both first
	at, _ := a.Where(db.Hold)
	for _, w := range web {
		if c, _ := a.Where(w.Hold); c == at || c == "" {
			t.Errorf("db on %q, %s on %q", at, w.ID, c)
		}
	}
	if len(cells) != 4 {
		t.Fatal(cells)
	}
}

// TestAWaitingServiceLearnsThatAnotherAvoidsIt: work that waited together with that of other services gets a
// queue of its own once another service is kept apart from it, and does not hold up the others.
func TestAWaitingServiceLearnsThatAnotherAvoidsIt(t *testing.T) {
	a := racks("r1")
	big := func(id string) Item { it := limited(id, 0); it.Need[resource.MemoryMB] = 900; return it }
	full := big("full")
	placedOn(t, a, full, big("web"), big("api"))
	db := limited("db", 1)
	db.Constraint.Apart = []string{"default/web"}
	if cells, _ := placedOn(t, a, db); len(cells) != 1 {
		t.Fatal(cells)
	}
	a.Release(full.Hold)
	cells, _ := placedOn(t, a)
	if _, api := a.Where("h-api.0"); len(cells) != 1 || !api {
		t.Errorf("placed on %v, api %v", cells, api)
	}
	want := "1 cell: kept apart from default/db"
	if r := a.ExplainWaiting("web.0"); r == nil || !strings.HasSuffix(r.String(), want) {
		t.Errorf("%v, want %q", r, want)
	}
	a.Release(db.Hold)
	a.Release("h-api.0")
	if cells, _ := placedOn(t, a); len(cells) != 1 {
		t.Error("the end of the service that avoids it lets nothing be placed")
	}
}

// TestNoCellIsReservedThatALimitForbids: the long wait for another instance's end reserves nothing.
func TestNoCellIsReservedThatALimitForbids(t *testing.T) {
	a := racks("r1")
	placedOn(t, a, limited("web", 0, Limit{label.Cell, 1}), limited("web", 1, Limit{label.Cell, 1}))
	a.Round(2 * a.cfg.Patience)
	if len(a.marks) != 0 {
		t.Error("a cell is reserved for an instance that it may not get")
	}
}

func TestFitCountsAndLeavesNothingBehind(t *testing.T) {
	a := racks("r1", "r1", "r2")
	it := limited("web", 0, Limit{"rack", 2})
	fit, why := a.Fit(it, 10)
	n := len(fit)
	if want := "found no compatible cells: 3 cells: max_per rack: 2 is reached"; n != 4 || why == nil ||
		why.String() != want {
		t.Errorf("%d fit: %v", n, why)
	}
	if fit, why := a.Fit(it, 4); len(fit) != 4 || why != nil {
		t.Errorf("%d fit after a trial: %v", len(fit), why)
	}
	if len(a.holds)+len(a.groups)+len(a.flights.pending) != 0 {
		t.Errorf("left: %v", a.holds)
	}
	if fit, why := a.Fit(lrpItem("small", 0, 0), 5000); len(fit) != maxFit && why == nil {
		t.Error(len(fit), why)
	}
}

// TestUntriedWorkIsCounted: items that wait for a round, and items that wait for room.
func TestUntriedWorkIsCounted(t *testing.T) {
	a := racks("r1")
	count := func(when string, untried, flying int) {
		t.Helper()
		if a.Untried() != untried || a.InFlight() != flying {
			t.Errorf("%s: %d untried, %d in flight", when, a.Untried(), a.InFlight())
		}
	}
	if err := a.Submit(0, lrpItem("web", 0, 10), lrpItem("huge", 0, 10_000)); err != nil {
		t.Fatal(err)
	}
	count("submitted", 2, 0)
	a.Round(0)
	count("after a round", 0, 1)
	if err := a.Confirm("h-web.0"); err != nil {
		t.Fatal(err)
	}
	count("confirmed", 0, 0)
}
