package worker

import (
	"errors"
	"testing"

	"cantina/fence"
	"cantina/workerset"
)

// TestUnknownCellLeavesAtOnce: a cell waits for the answer to its deregistration only when a
// leader may have it, or its directory, on a list; and never before its work has ended.
func TestUnknownCellLeavesAtOnce(t *testing.T) {
	r := newCellRig(t, nil)
	r.step(CellTick{})
	r.step(BoundCount{Containers: 1})
	r.step(LeaveAsked{})
	if r.c.Ended() {
		t.Fatal("something still runs")
	}
	r.out = nil
	r.step(BoundCount{Containers: 0})
	if len(cellTake[Exit](r)) != 1 || !r.c.Ended() {
		t.Fatal("no leader knows it: there is no report to make")
	}
	run := x5(1, "a")
	for name, set := range map[string]func(*CellConfig){
		"worker set kept": func(c *CellConfig) { c.SetID = workerset.ID{Leader: term5, Version: 3} },
		"credit kept":     func(c *CellConfig) { c.Epoch = 4 },
		"adopted work":    func(c *CellConfig) { c.Adopted = []Held{{Run: run, Adopted: true}} },
	} {
		k := newCellRig(t, set)
		k.step(LeaveAsked{})
		if k.tick(10 * sec); k.c.Ended() {
			t.Errorf("%s: left without an answer", name)
		}
	}
	h := newCellRig(t, nil)
	h.step(CallHeard{Term: fence.Term{Epoch: 9}})
	h.step(LeaveAsked{})
	if h.tick(10 * sec); h.c.Ended() {
		t.Error("a leader has called: left without an answer")
	}
}

// TestCellNames has the valid and the invalid names of a cell.
func TestCellNames(t *testing.T) {
	for name, ok := range map[CellName]bool{"c1": true, "db-7": true, "0": true, "-": true, "": false, "a b": false,
		"A": false, "a.b": false,
		"a_b": false, "a/b": false, "ä": false, "a\n": false, "a\xff": false} {
		if err := name.Check(); (err == nil) != ok || err != nil && !errors.Is(err, ErrName) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestWorkThatOutlivesTheCellIsNotWaitedFor: a leaving cell whose successor has all of its work ends without
// deregistering. It ends as soon as its notice of return is answered, or no leader answers. It does not end while
// other work runs, or is not reported.
func TestWorkThatOutlivesTheCellIsNotWaitedFor(t *testing.T) {
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
		{"a batch task runs", LeaveAsked{}, false},
		{"its end is not reported", WorkEnded{other, ""}, false},
	} {
		r.out = nil
		r.step(s.event)
		if exits := len(cellTake[Exit](r)) == 1; exits != s.exits || r.c.Ended() != s.exits {
			t.Fatalf("%s: exits %v", s.what, exits)
		}
	}
	r.out = nil
	r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Run: other, OK: true}})
	r.leavesAnnounced(t)
}

// leavesAnnounced checks that the cell announces its return, and ends with the answer.
func (r *cellRig) leavesAnnounced(t *testing.T) {
	t.Helper()
	beats := cellTake[SendBeat](r)
	if len(beats) != 1 || !beats[0].Beat.Returns || beats[0].Beat.Deregister {
		t.Fatalf("announced with %+v", beats)
	}
	r.out = nil
	r.step(BeatAnswered{HeartbeatAnswer{Protocol: Protocol, Term: term5, Proc: beats[0].Beat.Proc,
		Beat: beats[0].Beat.Beat, State: Healthy, Timeouts: r.c.t}})
	if len(cellTake[Exit](r)) != 1 || !r.c.Ended() {
		t.Fatal("it was answered, and goes on")
	}
}

// TestKeptWorkDoesNotDeregister: a cell that leaves work behind without a deadline, services most of all, does not
// report that it is gone for good.
func TestKeptWorkDoesNotDeregister(t *testing.T) {
	leave := func(t *testing.T) *cellRig {
		r := newCellRig(t, nil)
		r.healthy()
		r.step(BoundCount{Containers: 1, Kept: 2})
		r.step(LeaveAsked{})
		if cellTake[SendBeat](r); r.c.Ended() {
			t.Fatal("something ends yet")
		}
		r.out = nil
		r.step(BoundCount{Kept: 2})
		return r
	}
	leave(t).leavesAnnounced(t)
	silent := leave(t)
	if silent.c.Ended() {
		t.Fatal("it did not report it")
	}
	if due := silent.c.Due(silent.now); due != silent.now+returnWait {
		t.Errorf("at %v, the end of its wait is due at %v", silent.now, due)
	}
	if silent.tick(2 * sec); !silent.c.Ended() {
		t.Error("it waits for a leader that does not answer")
	}
	failed := leave(t)
	beat := cellTake[SendBeat](failed)[0].Beat.Beat
	if failed.step(BeatFailed{Beat: beat - 1}); failed.c.Ended() {
		t.Error("an earlier call failed, and it does not wait for the answer to the last one")
	}
	if failed.step(BeatFailed{Beat: beat}); !failed.c.Ended() {
		t.Error("the call failed, and it goes on")
	}
	nobody := newCellRig(t, nil)
	nobody.step(BoundCount{Kept: 1})
	if nobody.step(LeaveAsked{}); !nobody.c.Ended() {
		t.Error("no leader was ever heard, and it waits for one")
	}
	ended := leave(t)
	ended.out = nil
	if ended.step(BoundCount{}); ended.c.Ended() {
		t.Error("the kept work has ended: it deregisters, and waits for the answer")
	}
	if h := ended.beat(); !h.Deregister || h.Returns {
		t.Errorf("%+v", h)
	}
}

// TestEndingKeptWorkIsWaitedFor: when all that outlived the cell has ended, it deregisters.
func TestEndingKeptWorkIsWaitedFor(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	r.step(BoundCount{Containers: 1})
	r.step(LeaveAsked{})
	if r.tick(10 * sec); r.c.Ended() {
		t.Fatal("it is being stopped, and was not waited for")
	}
	r.step(BoundCount{})
	if h := r.beat(); !h.Deregister || r.c.Ended() {
		t.Fatalf("%+v", h)
	}
}

// TestEachSessionAnnouncesTheNextProcess: that the one before it has done so is not enough.
func TestEachSessionAnnouncesTheNextProcess(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	r.step(BoundCount{Kept: 1})
	r.out = nil
	r.step(LeaveAsked{})
	if beats := cellTake[SendBeat](r); len(beats) != 1 || !beats[0].Beat.Returns {
		t.Fatalf("announced with %+v", beats)
	}
	r.step(BoundCount{Containers: 1, Kept: 1}) // one that was being started
	r.tick(2 * sec)
	r.step(SuicideAsked{Suicide{term5, "p1", false}})
	if r.tick(11 * sec); len(cellTake[NewSession](r)) != 1 || r.c.Ended() {
		t.Fatal("a container does not end, and the session does not change")
	}
	r.step(SessionBegun{"p2", 2})
	r.out = nil
	r.step(BoundCount{Kept: 1})
	r.leavesAnnounced(t)
}
