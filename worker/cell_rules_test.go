package worker

import (
	"testing"

	"cantina/fence"
)

// TestTheFirstBeatIsForgotten as any other is, when 256 came after it.
func TestTheFirstBeatIsForgotten(t *testing.T) {
	for after, credit := range map[int]bool{255: true, 256: false} {
		r := newCellRig(t, nil)
		first := r.beat()
		for range after {
			r.now += sec / 5
			r.beat()
		}
		r.step(welcome(first))
		if r.c.credited != credit {
			t.Errorf("after %d more: credit %v", after, r.c.credited)
		}
	}
}

// TestNothingIsReportedTwice: one question names an invocation twice.
func TestNothingIsReportedTwice(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	x := x5(7, "a")
	r.step(NotifyAsked{Notify{term5, "p1", 1, []Run{x, x}}})
	if u := cellOne[SendStatus](r); len(u.Update.Items) != 1 || u.Update.Items[0].Run != x {
		t.Errorf("%+v", u.Update.Items)
	}
}

// TestAnUnreportedEnd keeps the cell, though it was counted among the work that outlives it.
func TestAnUnreportedEnd(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	x := x5(1, "a")
	r.run(x, 0)
	r.step(BoundCount{Lasting: 1})
	r.step(WorkEnded{x, "done"}) // it is counted again a moment later
	r.out = nil
	r.step(LeaveAsked{})
	for _, b := range cellTake[SendBeat](r) {
		if b.Beat.Returns {
			t.Error("it announces its return")
		}
	}
	r.tick(10 * sec)
	if r.c.Ended() {
		t.Fatal("it has left")
	}
	r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Run: x, OK: true}})
	r.out = nil
	r.step(BoundCount{})
	if b := cellTake[SendBeat](r); r.c.Ended() || len(b) > 0 && b[0].Beat.Returns {
		t.Errorf("nothing is left that comes back: %+v", b)
	}
}

// TestAnswersThatDoNotFit change nothing: those of another kind of status, of other work under the same invocation,
// and those of running work.
func TestAnswersThatDoNotFit(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	before := r.c.health.LastProbe
	r.now += sec
	r.beat()
	r.n++
	r.step(RunAsked{RunTask{Term: term5, Proc: "p1", Probe: r.n, Beat: r.c.beats.number}})
	r.step(ProbeEnded{Probe: r.n, OK: true})
	r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Kind: StatusNotRunning, Probe: r.n, OK: true}})
	r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Kind: StatusProbe, Probe: r.n, OK: true}})
	if r.c.health.LastProbe <= before {
		t.Error("the answer to the probe does not count any more")
	}
	runs, ended := x5(1, "a"), x5(2, "b")
	r.run(runs, 0)
	r.run(ended, 0)
	r.step(WorkEnded{ended, ""})
	other := ended
	other.Work.Job = "c"
	for _, x := range []Run{runs, other} {
		r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Run: x, OK: true}})
		if n := len(r.c.Held()); n != 2 {
			t.Errorf("%v: %d are held", x, n)
		}
	}
}

// TestAForeignLeaderIsNotJoined by a cell of no cluster, though it answers.
func TestAForeignLeaderIsNotJoined(t *testing.T) {
	r := newCellRig(t, nil)
	h := r.beat()
	r.step(BeatAnswered{HeartbeatAnswer{Protocol: Protocol, Cluster: "other", Term: fence.Term{Epoch: 1, Revision: 9},
		Proc: "p1", Beat: h.Beat, Verdict: Foreign, State: MustDie, Timeouts: DefaultTimeouts()}})
	if len(cellTake[ForeignHeard](r)) != 1 || r.c.Cluster() != "" || !r.c.Term().IsZero() {
		t.Errorf("cluster %q, term %v", r.c.Cluster(), r.c.Term())
	}
}

// TestAKillOfOtherWork ends nothing, though its invocation is held.
func TestAKillOfOtherWork(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	x := x5(1, "a")
	r.run(x, 0)
	other := x
	other.Work.Job = "b"
	for run, want := range map[Run]int{x: 1, other: 0} {
		r.out = nil
		r.step(KillAsked{KillTask{term5, "p1", run}})
		if got := len(cellTake[StopWork](r)); got != want {
			t.Errorf("%v: %d are ended", run, got)
		}
	}
}

// TestTheTimeInUnhealthyCountsFromTheVerdict, not from before the session was healthy.
func TestTheTimeInUnhealthyCountsFromTheVerdict(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	for range 20 {
		r.now += 5 * sec
		r.goodProbe()
		r.step(welcome(r.beat()))
	}
	r.step(welcome(r.beat(), func(a *HeartbeatAnswer) { a.State = Unhealthy }))
	r.now += 25 * sec // its probe is too old by now
	if r.step(CellTick{}); r.c.State() != Unhealthy {
		t.Errorf("a while later it is %v", r.c.State())
	}
}

// TestAnAdoptionIsOfAnotherCluster also for a cell of none: it ends its session, and joins with the next one.
func TestAnAdoptionIsOfAnotherCluster(t *testing.T) {
	r := newCellRig(t, nil)
	h := r.beat()
	r.step(BeatAnswered{HeartbeatAnswer{Protocol: Protocol, Cluster: "other", Term: fence.Term{Epoch: 1, Revision: 9},
		Proc: "p1", Beat: h.Beat, Verdict: Adopt, State: MustDie, Timeouts: DefaultTimeouts()}})
	if r.c.State() != MustDie || r.c.Cluster() != "" || !r.c.Term().IsZero() {
		t.Errorf("%v, cluster %q, term %v", r.c.State(), r.c.Cluster(), r.c.Term())
	}
	if r.step(SessionBegun{"p2", 2}); r.c.Cluster() != "other" {
		t.Errorf("cluster %q", r.c.Cluster())
	}
}

// TestOneInvocationIsOfOneWork: other work under it is not held already.
func TestOneInvocationIsOfOneWork(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	x := x5(1, "a")
	other := x
	other.Work.Job = "b"
	if a, b, c := r.run(x, 0), r.run(other, 0), r.run(x, 0); a.Result != RunOK || b.Result != RunStale ||
		c.Result != RunOK {
		t.Errorf("%v, %v, %v", a.Result, b.Result, c.Result)
	}
}
