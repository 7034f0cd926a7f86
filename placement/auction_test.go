package placement

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/resource"

	"pgregory.net/rapid"
)

func plainState(name string, version int64, memory, containers int) State {
	return State{Cell: name, Process: "p-" + name, Version: version, Zone: "z", Stacks: []string{"deb"},
		Capacity: resource.Amounts{resource.MemoryMB: memory, resource.DiskMB: 1000, resource.Containers: containers}}
}

func join(a *Auction, states ...State) {
	for _, s := range states {
		a.Admit(s.Cell, s.Process, "")
		a.Push(s)
	}
}

func lrpItem(id string, index, memory int) Item {
	return Item{ID: fmt.Sprint(id, ".", index), Hold: fmt.Sprint("h-", id, ".", index), Kind: KindLRP, Group: id,
		Index: index, Need: resource.Amounts{resource.MemoryMB: memory}}
}

func taskItem(id string, memory int) Item {
	return Item{ID: id, Hold: "h-" + id, Kind: KindTask, Need: resource.Amounts{resource.MemoryMB: memory}}
}

func submit(t testing.TB, a *Auction, now time.Duration, items ...Item) {
	t.Helper()
	if err := a.Submit(now, items...); err != nil {
		t.Fatal(err)
	}
}

func placedIDs(r Result) string {
	var ids []string
	for _, p := range r.Placed {
		ids = append(ids, p.Item.ID)
	}
	return strings.Join(ids, " ")
}

func TestOrderOfWork(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c", 1, 10_000, 100))
	submit(t, a, 0, lrpItem("small", 2, 1), lrpItem("small", 0, 1), taskItem("t1", 5), lrpItem("big", 1, 50),
		lrpItem("big", 0, 50), taskItem("t2", 9), lrpItem("small", 1, 1))
	if got, want := placedIDs(round(a, 0)), "big.0 small.0 t2 t1 big.1 small.1 small.2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestBatchIsDeduplicated(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c", 1, 100, 100))
	second := lrpItem("x", 0, 10)
	second.Hold = "another attempt"
	submit(t, a, 0, lrpItem("x", 0, 10), second)
	r := round(a, 0)
	if len(r.Placed) != 1 || r.Placed[0].Item.Hold != "another attempt" {
		t.Fatalf("placed %+v", r.Placed)
	}
	submit(t, a, 0, lrpItem("x", 0, 10))
	if r := round(a, 0); len(r.Placed) != 0 || a.Waiting() != 0 {
		t.Errorf("a placement in flight is repeated: %+v", r)
	}
}

func TestRefusedWorkIsCarriedOverAndUnansweredIsNot(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c1", 1, 100, 10), plainState("c2", 1, 50, 10))
	submit(t, a, 0, lrpItem("refused", 0, 40))
	submit(t, a, 0, lrpItem("silent", 0, 10))
	r := round(a, 0)
	if len(r.Placed) != 2 || r.Placed[0].Cell != "c1" {
		t.Fatalf("placed %+v", r.Placed)
	}
	a.Refuse(0, "h-refused.0", true, "")
	r = round(a, 0)
	if got := placedIDs(r); got != "refused.0" || r.Placed[0].Cell != "c2" {
		t.Fatalf("carried over to %+v; the cell that refused rests", r.Placed)
	}
	r = round(a, 31*time.Second)
	if len(r.Placed) != 0 || len(r.Expired) != 2 || a.Waiting() != 0 {
		t.Errorf("no answer is left to convergence: %+v, %d wait", r, a.Waiting())
	}
	if _, ok := a.Where("h-silent.0"); ok {
		t.Error("its room is free again")
	}
}

func TestAskedAgainWhileInFlight(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c1", 1, 100, 10))
	submit(t, a, 0, lrpItem("x", 0, 40))
	round(a, 0)
	second := lrpItem("x", 0, 40)
	second.Hold = "another attempt"
	submit(t, a, time.Second, second)
	if r := round(a, 30*time.Second); placedIDs(r) != "x.0" || len(r.Expired) != 0 ||
		r.Placed[0].Item.Hold != "another attempt" {
		t.Errorf("joins the batch when the first attempt expires: %+v", r)
	}
}

func TestItemThatDoesNotSuitItsCellWaitsLongerEachTime(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c1", 1, 100, 10))
	submit(t, a, 0, lrpItem("port", 0, 40))
	now := time.Duration(0)
	var pauses []time.Duration
	for range 7 {
		if r := round(a, now); placedIDs(r) != "port.0" {
			t.Fatalf("at %v: %+v", now, r)
		}
		a.Refuse(now, "h-port.0", false, "")
		submit(t, a, now, lrpItem("other", len(pauses), 1))
		if r := round(a, now); len(r.Placed) != 1 {
			t.Fatalf("the cell is open to others: %+v", r)
		}
		if err := a.Confirm(fmt.Sprint("h-other.", len(pauses))); err != nil {
			t.Fatal(err)
		}
		at, ok := a.Next()
		if !ok {
			t.Fatal("never again")
		}
		pauses = append(pauses, at-now)
		now = at
	}
	if got := fmt.Sprint(pauses); got != "[1s 2s 4s 8s 16s 30s 30s]" {
		t.Errorf("pauses %s", got)
	}
}

func TestWorkForACellThatGoesAwayIsFreed(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c1", 1, 100, 10))
	submit(t, a, 0, lrpItem("x", 0, 40), lrpItem("y", 0, 40))
	round(a, 0)
	if err := a.Confirm("h-y.0"); err != nil {
		t.Fatal(err)
	}
	a.Remove("c1")
	r := round(a, time.Second)
	if len(r.Expired) != 1 || r.Expired[0].ID != "x.0" {
		t.Errorf("in flight to a cell that went: %+v", r)
	}
	if at, ok := a.Where("h-y.0"); !ok || at != "c1" {
		t.Error("a confirmed holding stays until its owner releases it")
	}
}

func TestRefusalIsArithmetic(t *testing.T) {
	a := NewAuction(Config{})
	for i := range 3 {
		s := plainState(fmt.Sprint("win", i), 1, 4096, 10)
		s.Stacks = []string{"win"}
		join(a, s)
	}
	for i := range 2 {
		join(a, plainState(fmt.Sprint("deb", i), 1, 300+i, 10))
	}
	it := lrpItem("x", 0, 512)
	it.Constraint.Stack = "deb"
	submit(t, a, 0, it)
	r := round(a, 0)
	if len(r.Refused) != 1 {
		t.Fatalf("%+v", r)
	}
	want := "insufficient resources: 3 cells: other stack; 2 cells: memory 512Mi needed, " +
		"largest free 301Mi (largest cell 301Mi)"
	if got := r.Refused[0].Refusal.String(); got != want || !r.Refused[0].Refusal.Never {
		t.Errorf("got  %s (never %v)\nwant %s", got, r.Refused[0].Refusal.Never, want)
	}
	if r := round(a, 0); len(r.Refused) != 0 {
		t.Error("reported once")
	}
	join(a, plainState("large", 1, 1000, 1))
	if r := round(a, 0); placedIDs(r) != "x.0" {
		t.Errorf("a cell that helps joins: %+v", r)
	}
}

func TestRefusalsByCause(t *testing.T) {
	tagged := plainState("c", 1, 100, 1)
	tagged.RequiredTags = []string{"red"}
	tainted := plainState("c", 1, 100, 1)
	tainted.Taints = []string{"slow"}
	broken := plainState("c", 1, 100, 1)
	broken.Unavailable = "probe failed: no space"
	leaving := plainState("c", 1, 100, 1)
	leaving.Draining = true
	files := plainState("c", 1, 100, 1)
	files.OpenFiles = 1000
	plain := plainState("c", 1, 100, 1)
	for _, c := range []struct {
		name  string
		cell  State
		alter func(*Item)
		text  string
		never bool
	}{
		{"untagged work", tagged, nil, `found no compatible cells: 1 cell: only for work with tag "red"`, false},
		{"tag not offered", plain, func(it *Item) { it.Constraint.Tags = []string{"blue"} },
			`found no compatible cells: 1 cell: tag "blue" not offered`, false},
		{"taint", tainted, nil, "found no compatible cells: 1 cell: taint slow", false},
		{"label", plain, func(it *Item) { it.Constraint.Labels = map[string]string{"disk": "ssd"} },
			"found no compatible cells: 1 cell: label disk=ssd missing", false},
		{"host", plain, func(it *Item) { it.Constraint.Host = "other" }, "found no compatible cells: 1 cell: other host",
			false},
		{"avoided", plain, func(it *Item) { it.Avoid = []string{"c"} }, "found no compatible cells: 1 cell: not asked for",
			false},
		{"probe", broken, nil, "found no compatible cells: 1 cell: probe failed: no space", false},
		{"evacuating", leaving, nil, "found no compatible cells: 1 cell: evacuating", false},
		{"open files", files, func(it *Item) { it.Constraint.OpenFiles = 1001 },
			"found no compatible cells: 1 cell: open_files 1001 needed, the cell allows 1000", true},
		{"open files of another stack", files, func(it *Item) {
			it.Constraint.OpenFiles, it.Constraint.Stack = 1001,
				"other"
		}, "found no compatible cells: 1 cell: other stack", false},
		{"open files of another host", files, func(it *Item) { it.Constraint.OpenFiles, it.Constraint.Host = 1001, "other" },
			"found no compatible cells: 1 cell: other host", false},
		{"named resource", plain, func(it *Item) { it.Need["gpu"] = 1 },
			"insufficient resources: 1 cell: gpu 1 needed, largest free 0 (largest cell 0)", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := NewLedger(Config{})
			l.Admit("c", "p-c", "")
			l.Push(c.cell)
			it := lrpItem("x", 0, 10)
			if c.alter != nil {
				c.alter(&it)
			}
			r := l.Explain(it)
			if r == nil || r.String() != c.text || r.Never != c.never {
				t.Errorf("got %v (never %v)\nwant %s", r, r != nil && r.Never, c.text)
			}
		})
	}
	l := NewLedger(Config{})
	if r := l.Explain(lrpItem("x", 0, 1)); r.String() != "found no compatible cells: no cells registered" || r.Never {
		t.Errorf("empty ledger: %v, never %v", r, r.Never)
	}
	large := lrpItem("x", 0, 1000)
	l.Admit("a", "p-a", "")
	l.Push(plainState("a", 1, 100, 1))
	if r := l.Explain(large); !r.Never {
		t.Errorf("larger than every cell: %v", r)
	}
	l.Admit("b", "p-b", "")
	if r := l.Explain(large); r.Never {
		t.Errorf("a cell has not reported its work yet: %v", r)
	}
	l.Push(plainState("b", 1, 2000, 1))
	l.Admit("b", "p-b", "unhealthy")
	if r := l.Explain(large); r.Never {
		t.Errorf("a cell that is not admitted could hold it: %v", r)
	}
	l = NewLedger(Config{})
	l.Admit("c", "p-c", "unhealthy")
	if r := l.Explain(lrpItem("x", 0, 1)); r.String() != "found no compatible cells: 1 cell: unhealthy" || r.Never {
		t.Errorf("not admitted: %v, never %v", r, r.Never)
	}
}

// TestCodes are the notes' two placement errors, as codes for programs.
func TestCodes(t *testing.T) {
	for text, want := range map[string]string{
		(&Refusal{Code: NoCompatibleCells}).String():     "no_compatible_cells",
		(&Refusal{Code: InsufficientResources}).String(): "insufficient_resources",
		RefusedByCell("c", "").String():                  "insufficient_resources",
		"no definition of this process":                  "", "": "", "insufficient resources": "",
	} {
		if got := CodeOf(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Code(7).String() + ", " + Code(7).Name(); got != "unknown placement error, unknown" {
		t.Error(got)
	}
	if got := fmt.Sprint(KindLRP, KindTask, KindBatch, Kind(9)); got != "lrp task batch unknown kind" {
		t.Error(got)
	}
}

func TestFreedRoomGoesToWaitingWork(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c", 1, 100, 100))
	submit(t, a, 0, lrpItem("holder", 0, 90))
	round(a, 0)
	submit(t, a, 1, lrpItem("w", 1, 30), taskItem("t", 20), lrpItem("v", 0, 40))
	if r := round(a, 1); len(r.Placed) != 0 || len(r.Refused) != 3 {
		t.Fatalf("%+v", r)
	}
	before := a.visits
	round(a, 2)
	if a.visits != before {
		t.Error("nothing changed, yet it searched")
	}
	a.Release("h-holder.0")
	if got := placedIDs(round(a, 3)); got != "v.0 t w.1" {
		t.Errorf("placed %s", got)
	}
}

func TestLongWaitReservesOneCell(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c1", 1, 100, 100), plainState("c2", 1, 100, 100))
	var small []Item
	for i := range 20 {
		small = append(small, lrpItem(fmt.Sprint("s", i), 0, 10))
	}
	submit(t, a, 0, small...)
	round(a, 0)
	for _, it := range small {
		if err := a.Confirm(it.Hold); err != nil {
			t.Fatal(err)
		}
	}
	submit(t, a, 0, lrpItem("large", 0, 60))
	round(a, 0)
	if at, ok := a.Next(); !ok || at != 30*time.Second {
		t.Fatalf("next round at %v, %v", at, ok)
	}
	now := 30 * time.Second
	round(a, now)
	if len(a.marks) != 1 {
		t.Fatal("no cell is reserved")
	}
	kept := a.marks[0].mark.name
	placed := false
	for n := 0; !placed; n++ {
		if n == len(small) {
			t.Fatal("the large item starves")
		}
		// One small item ends, another comes at once.
		a.Release(small[n].Hold)
		submit(t, a, now, lrpItem(fmt.Sprint("new", n), 0, 10))
		for _, p := range round(a, now).Placed {
			if p.Item.ID == "large.0" {
				placed = true
				if p.Cell != kept {
					t.Errorf("placed on %s, reserved %s", p.Cell, kept)
				}
			} else if p.Cell == kept && !placed {
				t.Errorf("%s took the room reserved on %s", p.Item.ID, kept)
			}
		}
	}
	for _, c := range a.Cells() {
		if c.ReservedFor != "" {
			t.Errorf("%s is still reserved for %s", c.Name, c.ReservedFor)
		}
	}
}

func TestReservationMovesWhenItsCellGoes(t *testing.T) {
	a := NewAuction(Config{})
	join(a, plainState("c1", 1, 100, 1), plainState("c2", 1, 100, 1))
	submit(t, a, 0, lrpItem("a", 0, 10), lrpItem("b", 0, 10))
	for _, p := range round(a, 0).Placed {
		if err := a.Confirm(p.Item.Hold); err != nil {
			t.Fatal(err)
		}
	}
	submit(t, a, 0, lrpItem("w", 0, 50))
	round(a, time.Minute)
	first := a.marks[0].mark.name
	a.Remove(first)
	round(a, time.Minute)
	if len(a.marks) != 1 || a.marks[0].mark.name == first {
		t.Errorf("reserved: %v", a.marks)
	}
	a.Withdraw("w.0")
	if len(a.marks) != 0 {
		t.Error("a withdrawn item keeps its reservation")
	}
}

func TestBatchReserve(t *testing.T) {
	a := NewAuction(Config{BatchReserve: 30})
	join(a, plainState("c", 1, 100, 100))
	submit(t, a, 0, lrpItem("x", 0, 60), lrpItem("y", 0, 20))
	if got := placedIDs(round(a, 0)); got != "x.0" {
		t.Errorf("services took %s, 30 of 100 belong to batch", got)
	}
	want := func(h string, n int) Want { return Want{Hold: h, Need: resource.Amounts{resource.MemoryMB: n}} }
	g := a.Reserve([]Want{want("b1", 30), want("b2", 30), want("b3", 5)}, 0)
	if g[0].Cell != "c" || g[1].Refusal == nil || g[2].Cell != "c" {
		t.Errorf("grants %+v", g)
	}
	if g := a.Reserve([]Want{want("b1", 30)}, 0); g[0].Cell != "c" {
		t.Error("a repeated want is granted where it is")
	}
	a.Release("h-x.0")
	if got := placedIDs(round(a, 0)); got != "y.0" {
		t.Errorf("after release: %s", got)
	}
}

func TestVersionedState(t *testing.T) {
	l := NewLedger(Config{})
	l.Admit("c", "p-c", "")
	if !l.Push(plainState("c", 5, 100, 1)) || l.Push(plainState("c", 5, 200, 1)) || l.Push(plainState("c", 4, 300, 1)) {
		t.Fatal("only newer states count")
	}
	if got := l.Cells()[0].Capacity[resource.MemoryMB]; got != 100 {
		t.Errorf("capacity %d", got)
	}
	l.Admit("c", "successor", "")
	if r := l.Explain(lrpItem("x", 0, 1)); r == nil {
		t.Error("the state of a predecessor counts for its successor")
	}
	s := plainState("c", 1, 50, 1)
	s.Process = "successor"
	if !l.Push(s) || l.Explain(lrpItem("x", 0, 1)) != nil {
		t.Error("a new process starts its own versions")
	}
}

func TestRoundIsBounded(t *testing.T) {
	a := NewAuction(Config{Batch: 3})
	join(a, plainState("c", 1, 1000, 100))
	for i := range 7 {
		submit(t, a, 0, lrpItem("x", i, 1))
	}
	var sizes []int
	for {
		r := round(a, 0)
		sizes = append(sizes, len(r.Placed))
		if !r.More {
			break
		}
	}
	if !slices.Equal(sizes, []int{3, 3, 1}) {
		t.Errorf("rounds of %v", sizes)
	}
}

// TestAuctionNeverOverbooksAndNeverForgets drives the whole auction.
func TestAuctionNeverOverbooksAndNeverForgets(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a := NewAuction(Config{BatchReserve: rapid.SampledFrom([]int{0, 25}).Draw(rt, "reserve")})
		var now time.Duration
		fate := map[string]string{} // item → waiting, flying, held
		holds := map[string]string{}
		n := 0
		version := int64(0)
		some := func(rt *rapid.T, what string) (string, bool) {
			var ids []string
			for id, f := range fate {
				if f == what {
					ids = append(ids, id)
				}
			}
			slices.Sort(ids)
			if len(ids) == 0 {
				return "", false
			}
			return rapid.SampledFrom(ids).Draw(rt, what), true
		}
		rt.Repeat(map[string]func(*rapid.T){
			"join": func(rt *rapid.T) {
				version++
				join(a, plainState(fmt.Sprint("c", rapid.IntRange(0, 3).Draw(rt, "cell")), version,
					rapid.IntRange(50, 150).Draw(rt, "memory"), 8))
			},
			"submit": func(rt *rapid.T) {
				n++
				it := lrpItem(fmt.Sprint("x", n), rapid.IntRange(0, 2).Draw(rt, "index"), rapid.IntRange(1, 120).Draw(rt, "memory"))
				submit(t, a, now, it)
				fate[it.ID], holds[it.ID] = "waiting", it.Hold
			},
			"withdraw": func(rt *rapid.T) {
				if id, ok := some(rt, "waiting"); ok {
					if a.Withdraw(id) != 1 {
						rt.Fatalf("%s does not wait", id)
					}
					delete(fate, id)
				}
			},
			"confirm": func(rt *rapid.T) {
				if id, ok := some(rt, "flying"); ok {
					if err := a.Confirm(holds[id]); err != nil {
						rt.Fatal(err)
					}
					fate[id] = "held"
				}
			},
			"refuse": func(rt *rapid.T) {
				if id, ok := some(rt, "flying"); ok {
					a.Refuse(now, holds[id], rapid.Bool().Draw(rt, "full"), "")
					fate[id] = "waiting"
				}
			},
			"release": func(rt *rapid.T) {
				if id, ok := some(rt, "held"); ok {
					if a.Release(holds[id]) != 1 {
						rt.Fatalf("%s is not allocated", id)
					}
					delete(fate, id)
				}
			},
			"batch": func(rt *rapid.T) {
				n++
				a.Reserve([]Want{{Hold: fmt.Sprint("b", n),
					Need: resource.Amounts{resource.MemoryMB: rapid.IntRange(1, 60).Draw(rt, "memory")}}}, now)
			},
			"round": func(rt *rapid.T) {
				now += time.Duration(rapid.IntRange(0, 20).Draw(rt, "seconds")) * time.Second
				before := map[string]int64{}
				for _, c := range a.byName {
					before[c.name] = a.left(c, KindBatch, dimMemory)
				}
				r := round(a, now)
				for _, it := range r.Expired {
					if fate[it.ID] != "flying" {
						rt.Fatalf("%s expired, was %s", it.ID, fate[it.ID])
					}
					delete(fate, it.ID)
				}
				for _, p := range r.Placed {
					if fate[p.Item.ID] != "waiting" {
						rt.Fatalf("%s placed, was %s", p.Item.ID, fate[p.Item.ID])
					}
					fate[p.Item.ID] = "flying"
				}
				// Waiting items find no cell.
				for id, f := range fate {
					if f == "waiting" && a.entryOf(id).from <= now {
						e := a.entryOf(id)
						if all := oracle(a.Ledger, e.item); len(all) > 0 {
							rt.Fatalf("%s waits, oracle has %v", id, all)
						}
					}
				}
			},
			"": func(rt *rapid.T) {
				checkLedger(rt, a.Ledger)
				ids := map[string]bool{} // of all that wait or are in flight
				for _, h := range a.holds {
					if h.inFlight {
						ids[h.item.ID] = true
					}
				}
				if len(ids) != a.InFlight() {
					rt.Fatalf("%d in flight, the holdings have %d", a.InFlight(), len(ids))
				}
				for id, f := range fate {
					if f == "waiting" {
						ids[id] = true
					}
				}
				if len(ids) != len(a.flights.pending) {
					rt.Fatalf("%d items are pending, %d are in flight or wait", len(a.flights.pending), len(ids))
				}
				waiting := 0
				for id, f := range fate {
					if f == "waiting" {
						waiting++
						if a.entryOf(id) == nil {
							rt.Fatalf("%s is forgotten", id)
						}
						continue
					}
					if _, ok := a.Where(holds[id]); !ok && f != "flying" {
						rt.Fatalf("%s (%s) is not allocated", id, f)
					}
				}
				if waiting != a.Waiting() {
					rt.Fatalf("%d wait, want %d", a.Waiting(), waiting)
				}
				for _, e := range a.marks {
					if e.gone || e.mark == nil || e.mark.earmarkFor != e.item.ID {
						rt.Fatalf("reservation %+v", e)
					}
				}
			},
		})
	})
}

// TestLateAnswerMovesTheAttempt: a task was given to a cell that did not answer, then
// to another; the first one has it after all. The ledger follows the row.
func TestLateAnswerMovesTheAttempt(t *testing.T) {
	for name, it := range map[string]Item{"task": taskItem("t", 60), "asked again while in flight": lrpItem("x", 0, 60)} {
		t.Run(name, func(t *testing.T) {
			a := NewAuction(Config{InFlight: time.Second})
			join(a, plainState("c1", 1, 100, 10))
			submit(t, a, 0, it)
			first := round(a, 0).Placed
			submit(t, a, 0, it)
			a.Admit("c1", "p-c1", "silent")
			join(a, plainState("c2", 1, 100, 10))
			second := round(a, 2*time.Second).Placed
			if len(first) != 1 || len(second) != 1 || second[0].Cell != "c2" || second[0].Item.Hold != it.Hold {
				t.Fatalf("placed %+v, then %+v", first, second)
			}
			row := Holding{Hold: it.Hold, Cell: "c1", Kind: it.Kind, Group: it.Group, Need: it.Need}
			if err := a.Hold(row); err != nil {
				t.Fatal(err)
			}
			a.Refuse(2*time.Second, it.Hold, true, "") // the answer of the other cell comes too late
			for _, v := range a.Cells() {
				want := 0
				if v.Name == "c1" {
					want = 60
				}
				if v.Used[resource.MemoryMB] != want || v.InFlight != 0 {
					t.Errorf("%s: %v used, %d in flight", v.Name, v.Used, v.InFlight)
				}
			}
			row.Cell = "c2"
			if err := a.Hold(row); !errors.Is(err, ErrHeld) {
				t.Errorf("what a row has allocated moves: %v", err)
			}
			if a.Release(it.Hold); a.Waiting() != 0 {
				t.Errorf("%d wait", a.Waiting())
			}
		})
	}
}

// TestAnOutdatedRefusalIsReportedAgain: also when the cells change at once after it was
// made, and nothing happens later; amounts that move are no news.
func TestAnOutdatedRefusalIsReportedAgain(t *testing.T) {
	a := NewAuction(Config{})
	it := lrpItem("x", 0, 10)
	it.Constraint.Labels = map[string]string{"disk": "fast"}
	submit(t, a, 0, it)
	reported := func(now time.Duration, want string) {
		t.Helper()
		r := round(a, now)
		got := ""
		for _, x := range r.Refused {
			got += x.Refusal.String()
		}
		if got != want {
			t.Fatalf("at %v: %q, want %q", now, got, want)
		}
	}
	reported(0, "found no compatible cells: no cells registered")
	now := 100 * time.Millisecond
	for _, step := range []struct {
		change func()
		want   string
	}{
		{func() { a.Admit("c", "p-c", "unhealthy") }, "found no compatible cells: 1 cell: unhealthy"},
		{func() { a.Admit("c", "p-c", ""); a.Push(plainState("c", 1, 100, 10)) },
			"found no compatible cells: 1 cell: label disk=fast missing"},
		{func() { a.Push(plainState("c", 2, 90, 10)) }, ""},
	} {
		step.change()
		reported(now, "") // it is not looked at that often
		at, ok := a.Next()
		if !ok || at > now+lookAgain {
			t.Fatalf("the next round is at %v, %v", at, ok)
		}
		now = at
		reported(now, step.want)
		now += 100 * time.Millisecond
	}
	if at, ok := a.Next(); ok && at < now+lookAgain {
		t.Errorf("nothing has changed, and the next round is at %v", at)
	}
}
