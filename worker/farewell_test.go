package worker

import (
	"errors"
	"testing"

	"cantina/fence"
	"cantina/workerset"
)

// TestUnknownCellLeavesAtOnce: a cell waits for the answer to its farewell only when a
// leader may have it, or its folder, on a list; and never before its work has ended.
func TestUnknownCellLeavesAtOnce(t *testing.T) {
	r := newCellRig(t, nil)
	r.step(CellTick{})
	r.step(BoundCount{Containers: 1})
	r.step(FarewellAsked{})
	if r.c.Ended() {
		t.Fatal("something still runs")
	}
	r.out = nil
	r.step(BoundCount{Containers: 0})
	if len(cellTake[Exit](r)) != 1 || !r.c.Ended() {
		t.Fatal("nobody knows it: nobody is to be told")
	}
	run := x5(1, "a")
	for name, set := range map[string]func(*CellConfig){
		"worker set kept": func(c *CellConfig) { c.SetID = workerset.ID{Leader: term5, Version: 3} },
		"credit kept":     func(c *CellConfig) { c.Epoch = 4 },
		"adopted work":    func(c *CellConfig) { c.Adopted = []Held{{Run: run, Adopted: true}} },
	} {
		k := newCellRig(t, set)
		k.step(FarewellAsked{})
		if k.tick(10 * sec); k.c.Ended() {
			t.Errorf("%s: left without an answer", name)
		}
	}
	h := newCellRig(t, nil)
	h.step(CallHeard{Term: fence.Term{Epoch: 9}})
	h.step(FarewellAsked{})
	if h.tick(10 * sec); h.c.Ended() {
		t.Error("a leader has called: left without an answer")
	}
}

// TestCellNames: what may be a cell's name.
func TestCellNames(t *testing.T) {
	for name, ok := range map[CellName]bool{"c1": true, "db-7": true, "0": true, "-": true, "": false, "a b": false, "A": false, "a.b": false,
		"a_b": false, "a/b": false, "ä": false, "a\n": false, "a\xff": false} {
		if err := name.Check(); (err == nil) != ok || err != nil && !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestWhatOutlivesTheCellIsNotWaitedFor: a cell that leaves ends without a farewell, at once,
// when its successor has all that it holds; not while something else runs, or is not told.
func TestWhatOutlivesTheCellIsNotWaitedFor(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	kept, other := x5(1, "a"), x5(2, "b")
	r.run(kept, 0)
	r.run(other, 1)
	for _, s := range []struct {
		what  string
		event CellEvent
		exits bool
	}{
		{"counted", BoundCount{Containers: 3, Lasting: 2}, false},
		{"nothing was asked", BoundCount{Containers: 1, Lasting: 2}, false},
		{"a batch task runs", FarewellAsked{}, false},
		{"its end is not told", WorkEnded{other, ""}, false},
		{"told", StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Run: other, OK: true}}, true},
	} {
		r.out = nil
		r.step(s.event)
		if exits := len(cellTake[Exit](r)) == 1; exits != s.exits || r.c.Ended() != s.exits {
			t.Fatalf("%s: exits %v", s.what, exits)
		}
	}
	if n := len(cellTake[SendBeat](r)); n != 0 {
		t.Errorf("%d beats afterwards", n)
	}
}

// TestWhatIsKeptAndEndsIsWaitedFor: when all that outlived the cell has ended, it says farewell.
func TestWhatIsKeptAndEndsIsWaitedFor(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	r.step(BoundCount{Containers: 1})
	r.step(FarewellAsked{})
	if r.tick(10 * sec); r.c.Ended() {
		t.Fatal("it is being stopped, and was not waited for")
	}
	r.step(BoundCount{})
	if h := r.beat(); !h.Farewell || r.c.Ended() {
		t.Fatalf("%+v", h)
	}
}
