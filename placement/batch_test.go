package placement

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cantina/resource"
)

// narrow and wide are batch work of one and two processors.
func narrow(i int) Want {
	return Want{Hold: fmt.Sprintf("batch/narrow\x00n%d", i), Need: resource.Amounts{"cpu_milli": 1000}}
}
func wide() Want { return Want{Hold: "batch/wide\x00w", Need: resource.Amounts{"cpu_milli": 2000}} }

// twoProcessors is an auction with one cell, and how time goes on: each second one narrow task
// ends and both jobs ask again.
func twoProcessors(t *testing.T) *Auction {
	a := NewAuction(Config{Patience: 30 * time.Second})
	a.Push(State{Cell: "c", Process: "p", Version: 1, Capacity: resource.Amounts{"cpu_milli": 2000, "containers": 100}})
	a.Admit("c", "p", "")
	return a
}

// TestWideBatchWorkIsNotStarved by an endless supply of narrow work: the wait is bounded, the reasons of both name
// it, and services have their turn all the same.
func TestWideBatchWorkIsNotStarved(t *testing.T) {
	a := twoProcessors(t)
	n, granted := 0, time.Duration(0)
	var running []string
	for now := time.Duration(0); now < 2*time.Minute; now += time.Second {
		if len(running) > 0 {
			a.Release(running[0])
			running = running[1:]
		}
		a.Round(now)
		g := a.Reserve([]Want{narrow(n), narrow(n + 1), wide()}, now)
		for _, x := range g[:2] {
			if x.Refusal == nil {
				running, n = append(running, x.Hold), n+1
			}
		}
		if g[2].Refusal == nil {
			granted = now
			break
		}
		kept := a.Cells()[0].ReservedFor != ""
		if text := g[2].Refusal.String(); kept != strings.Contains(text, "cell c is reserved for it") {
			t.Fatal(now, text)
		}
		if kept && (g[0].Refusal == nil || !strings.Contains(g[0].Refusal.String(),
			"cell c is reserved for batch/wide/w, which has waited longer")) {
			t.Fatal(now, g[0])
		}
	}
	if granted < 30*time.Second || granted > 34*time.Second || n < 20 {
		t.Fatalf("granted after %v beside %d", granted, n)
	}
	if c := a.Cells()[0]; c.ReservedFor != "" || len(a.batch.byShape) != 1 {
		t.Fatalf("%+v, %d wait", c, len(a.batch.byShape))
	}
}

// TestServicesMayUseRoomReservedForBatch; tasks may not.
func TestServicesMayUseRoomReservedForBatch(t *testing.T) {
	a := twoProcessors(t)
	a.Reserve([]Want{narrow(0), wide()}, 0)
	a.Round(30 * time.Second)
	if c := a.Cells()[0]; c.ReservedFor != "batch/wide/w" {
		t.Fatalf("%+v", c)
	}
	need := resource.Amounts{"cpu_milli": 1000}
	if r := a.Explain(Item{ID: "t", Hold: "t", Kind: KindTask, Need: need}); r == nil ||
		!strings.Contains(r.String(), "reserved for batch/wide/w") {
		t.Fatal(r)
	}
	if r := a.Explain(Item{ID: "l", Hold: "l", Kind: KindLRP, Need: need}); r != nil {
		t.Fatal(r)
	}
}

// TestUnneededReservationsAreReleased: waiting callers are woken first.
func TestUnneededReservationsAreReleased(t *testing.T) {
	a := twoProcessors(t)
	a.Reserve([]Want{narrow(0), wide()}, 0)
	var last time.Duration
	woken := 0
	for range 20 {
		at, ok := a.Next()
		if !ok {
			break
		}
		last = max(last, at)
		r := a.Round(last)
		if r.Woken {
			woken++
		}
	}
	if c := a.Cells()[0]; c.ReservedFor != "" || last != 40*time.Second || woken < 2 || len(a.batch.byShape) != 0 {
		t.Fatalf("%+v at %v, woken %d times, %d wait", c, last, woken, len(a.batch.byShape))
	}
	if g := a.Reserve([]Want{narrow(1)}, last); g[0].Refusal != nil {
		t.Fatal(g[0].Refusal)
	}
}
