package auctioneer

import (
	"testing"
	"testing/synctest"
	"time"

	"cantina/internal/run"
	"cantina/placement"
	"cantina/resource"
)

// TestAChangeWaitsForNoRound: a caller leaves its change for the holder of the lock. The holder makes all changes,
// in order, when it releases the lock.
func TestAChangeWaitsForNoRound(t *testing.T) {
	within(t, func(t *testing.T, r rig) {
		r.join("a", 100)
		r.request(t, work("flying", 10))
		synctest.Wait()
		r.cells.take()
		r.lock() // a round is being made
		r.Confirm("h-flying")
		r.join("b", 50)
		r.join("c", 50)
		r.Remove("c")
		r.Follow(placement.Holding{Hold: "seen", Cell: "b", Kind: placement.KindTask,
			Need: resource.Amounts{resource.MemoryMB: 20}})
		if err := r.Request(work("x", 60), work("y", 60), placement.Item{ID: "z"}); err == nil {
			t.Error("an item without a hold is taken")
		}
		r.Withdraw("y")
		r.Release("h-flying")
		r.Rest("a")
		r.Decline("h-unknown")
		r.unlock()
		synctest.Wait()
		want(t, "calls while a rests", r.cells.take())
		pass(2 * time.Second)
		want(t, "calls", r.cells.take(), "a/p-a [x]")
		all := r.Cells()
		if len(all) != 2 || all[0].Used[resource.MemoryMB] != 60 || all[1].Used[resource.MemoryMB] != 20 {
			t.Errorf("%+v", all)
		}
		if waits := r.Waits("x", "y", "z"); waits[0] || waits[1] || waits[2] {
			t.Errorf("waiting: %v", waits)
		}
	})
}

// TestARoundIsShort: it ends at its bound, its calls begin, and the next one follows.
func TestARoundIsShort(t *testing.T) {
	cells := &fakeCells{}
	begun := 0
	a := New(Config{Clock: run.Clock{Boot: func() time.Duration { return time.Hour }},
		Placement: placement.Config{Batch: 3},
		Runtime:   Runtime{Go: func(func()) { begun++ }}}, cells, &fakeBoard{})
	for _, c := range []string{"a", "b", "c", "d"} {
		a.Admit(c, "p", "")
		a.Push(placement.State{Cell: c, Process: "p", Version: 1,
			Capacity: resource.Amounts{resource.MemoryMB: 100, resource.Containers: 9}})
	}
	if err := a.Request(work("1", 1), work("2", 1), work("3", 1), work("4", 1), work("5", 1)); err != nil {
		t.Fatal(err)
	}
	for turn, placed := range []int{3, 5} {
		do, _ := a.Loop().Next()
		if do == nil {
			t.Fatal("nothing to do")
		}
		if do(t.Context()); a.Stats().Placed != placed || begun == 0 {
			t.Errorf("turn %d: %d placed, %d calls begun", turn, a.Stats().Placed, begun)
		}
	}
	if do, _ := a.Loop().Next(); do != nil {
		t.Error("a round without work")
	}
	if err := a.Request(work("6", 1), work("7", 1), work("8", 1), work("9", 1)); err != nil {
		t.Fatal(err)
	}
	if g := a.Reserve([]placement.Want{{Hold: "b", Need: resource.Amounts{resource.MemoryMB: 1}}}); g[0].Refusal != nil ||
		a.Stats().Placed != 9 {
		t.Errorf("batch work before the waiting work: %+v, %d placed", g, a.Stats().Placed)
	}
}
