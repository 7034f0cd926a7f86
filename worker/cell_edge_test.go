package worker

import (
	"slices"
	"testing"
	"time"

	"cantina/fence"
	"cantina/workerset"
)

// TestAnEndedCellDoesNothing for any message.
func TestAnEndedCellDoesNothing(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	r.step(SuicideAsked{Suicide{term5, "p1", true}})
	if !r.c.Ended() || len(cellTake[EndAll](r)) != 1 {
		t.Fatal("DIE-ALL")
	}
	r.step(RunAsked{RunTask{Term: term5, Proc: "p1", Run: x5(1, "a")}})
	r.step(NotifyAsked{Notify{term5, "p1", 9, nil}})
	r.step(WorkEnded{x5(1, "a"), ""})
	r.step(SuicideAsked{Suicide{term5, "p1", true}})
	r.tick(200 * sec)
	if len(r.out) != 0 || r.c.Overdue(r.now) {
		t.Errorf("overdue %v, %+v", r.c.Overdue(r.now), r.out)
	}
}

// TestOverdue: Overdue reports the finding of the next step: the deadline has passed, or a leader was silent for
// too long.
func TestOverdue(t *testing.T) {
	r := newCellRig(t, nil)
	if r.c.Overdue(r.now + 1000*sec) {
		t.Error("before the first contact")
	}
	r.healthy()
	at := r.c.Kept().Deadline
	for moment, want := range map[time.Duration]bool{at - 1: false, at: true, at + 1: true} {
		if got := r.c.Overdue(moment); got != want {
			t.Errorf("%v from the deadline: %v", moment-at, got)
		}
	}
	r.now = at
	r.step(CellTick{})
	if r.c.State() != MustDie || r.c.Overdue(r.now) {
		t.Error("the deadline is acted on once")
	}
	r.step(SessionBegun{"p2", 2})
	if r.step(CellTick{}); r.c.State() != New || r.c.Overdue(r.now) {
		t.Error("the next session is held to the deadline of the one before")
	}
	lost := newCellRig(t, nil)
	lost.step(CallHeard{term5})
	began, last := lost.now, DefaultTimeouts().Lost-DefaultTimeouts().Check
	if lost.c.Overdue(began+last) || !lost.c.Overdue(began+last+1) {
		t.Error("a leader that was heard of once, and falls silent")
	}
	free := newCellRig(t, nil)
	free.step(welcome(free.beat(), func(a *HeartbeatAnswer) { a.Promise = 0 }))
	if free.c.Overdue(free.now + 1000*sec) {
		t.Error("a leader in the same process")
	}
}

// TestAdoptedWork: it is held as adopted, with its recorded end.
func TestAdoptedWork(t *testing.T) {
	runs, ended := x5(1, "a"), x5(2, "b")
	r := newCellRig(t, func(c *CellConfig) {
		c.Adopted, c.Statuses = []Held{{Run: ended, Ended: true}, {Run: runs}}, map[Run]string{ended: "done"}
	})
	want := []Held{{Run: runs, Adopted: true}, {Run: ended, Ended: true, Adopted: true}}
	if got := r.c.Held(); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	r.healthy()
	r.tick(4 * sec)
	u := cellTake[SendStatus](r)
	if len(u) == 0 || len(u[0].Update.Items) != 1 || u[0].Update.Items[0].Run != ended ||
		u[0].Update.Items[0].Status != "done" {
		t.Errorf("%+v", u)
	}
	if a := r.run(x5(3, "c"), 0); a.Result != RunOK {
		t.Fatalf("%+v", a)
	}
	if got := r.c.Held()[2]; got != (Held{Run: x5(3, "c")}) {
		t.Errorf("its own starts: %+v", got)
	}
}

// TestANewSessionCountsFromOne, also after more than one.
func TestANewSessionCountsFromOne(t *testing.T) {
	r := newCellRig(t, nil)
	r.step(CallHeard{term5})
	for n, proc := range []Proc{"p2", "p3", "p4"} {
		r.tick(sec)
		r.out = nil
		r.step(SuicideAsked{Suicide{term5, r.c.Proc(), false}})
		if len(cellTake[NewSession](r)) != 1 {
			t.Fatal("no new session is asked for")
		}
		r.step(SessionBegun{proc, int64(n + 2)})
		if b := cellOne[SendBeat](r).Beat; b.Beat != 1 || b.Proc != proc || b.Started != int64(n+2) {
			t.Errorf("%+v", b)
		}
	}
}

// TestANewLeaderHasToGiveCreditItself: that of the one before it lets nothing start.
func TestANewLeaderHasToGiveCreditItself(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	next := fence.Term{Epoch: 1, Revision: 6}
	r.step(ReportAsked{ReportRequest{next, "p1"}})
	of := func(a *HeartbeatAnswer) { a.Term, a.Credit = next, false }
	r.step(welcome(r.beat(), of))
	r.n++
	r.step(RunAsked{RunTask{Term: next, Proc: "p1", Probe: r.n, Beat: r.c.beats.number}})
	r.step(ProbeEnded{Probe: r.n, OK: true})
	r.step(StatusAnswered{StatusAnswer{Term: next, Proc: "p1", Kind: StatusProbe, Probe: r.n, OK: true}})
	r.step(welcome(r.beat(), of, func(a *HeartbeatAnswer) { a.Credit = true }))
	if r.c.State() != Healthy || r.c.Accepts(r.now) != nil {
		t.Fatalf("%v, %v", r.c.State(), r.c.Accepts(r.now))
	}
	third := fence.Term{Epoch: 1, Revision: 7}
	r.step(ReportAsked{ReportRequest{third, "p1"}})
	for range 3 {
		r.step(RunAsked{RunTask{Term: third, Proc: "p1", Probe: r.n + 1, Beat: r.c.beats.number}})
		r.n++
		r.step(ProbeEnded{Probe: r.n, OK: true})
		r.step(StatusAnswered{StatusAnswer{Term: third, Proc: "p1", Kind: StatusProbe, Probe: r.n, OK: true}})
		h := r.beat()
		r.step(BeatAnswered{HeartbeatAnswer{Protocol: Protocol, Term: third, Proc: "p1", Beat: h.Beat, State: Unhealthy,
			Reported: true, Eligible: true, Timeouts: r.c.t}})
	}
	if err := r.c.Accepts(r.now); err == nil || r.c.credited {
		t.Errorf("it takes work of a leader that gave it no credit: %v", err)
	}
}

// TestStatusesComeAfterTheReport: a leader that does not know the cell's work yet would refuse them. A dying cell
// sends them all the same.
func TestStatusesComeAfterTheReport(t *testing.T) {
	x, y := x5(1, "a"), x5(2, "b")
	r := newCellRig(t, nil)
	r.healthy()
	r.run(x, 0)
	r.run(y, 0)
	next := fence.Term{Epoch: 1, Revision: 6}
	r.step(CallHeard{next})
	r.out = nil
	r.step(WorkEnded{x, "done"})
	if r.tick(5 * sec); len(cellTake[SendStatus](r)) != 0 {
		t.Fatal("sent before the report")
	}
	r.step(ReportAsked{ReportRequest{next, "p1"}})
	if u := cellOne[SendStatus](r).Update; u.Term != next || len(u.Items) != 1 || u.Items[0].Run != x {
		t.Fatalf("%+v", u)
	}
	d := newCellRig(t, nil)
	d.healthy()
	d.run(x, 0)
	d.run(y, 0)
	d.step(CallHeard{next})
	d.step(WorkEnded{x, "done"})
	d.out = nil
	d.step(SuicideAsked{Suicide{next, "p1", false}})
	if u := cellOne[SendStatus](d).Update; len(u.Items) != 1 || u.Items[0].Run != x {
		t.Errorf("%+v", u)
	}
}

// TestADeregistrationIsSentAtOnce when the last status is acknowledged, and once.
func TestADeregistrationIsSentAtOnce(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	x := x5(1, "a")
	r.run(x, 0)
	r.step(LeaveAsked{})
	r.step(WorkEnded{x, ""})
	if b := cellTake[SendBeat](r); slices.ContainsFunc(b, func(b SendBeat) bool { return b.Beat.Deregister }) {
		t.Fatal("its status is not acknowledged")
	}
	r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Run: x, OK: true}})
	b := cellTake[SendBeat](r)
	if len(b) != 1 || !b[0].Beat.Deregister {
		t.Fatalf("%+v", b)
	}
	r.step(CellTick{})
	if b := cellTake[SendBeat](r); len(b) != 0 {
		t.Errorf("again at the same moment: %+v", b)
	}
	r.step(BeatAnswered{HeartbeatAnswer{Protocol: Protocol, Term: term5, Proc: "p1", Beat: b[0].Beat.Beat, State: Healthy,
		Reported: true, Timeouts: r.c.t}})
	if r.c.Ended() {
		t.Error("a leader that goes on with the session has not heard the deregistration")
	}
}

// TestBeatsAreForgotten: an answer to one of more than 256 ago gives no credit.
func TestBeatsAreForgotten(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	r.now += sec
	first := r.beat()
	r.now += sec
	second := r.beat()
	for range 255 {
		r.now += sec / 5
		r.beat()
	}
	r.out = nil
	r.step(welcome(first))
	if d := cellTake[SetDeadline](r); len(d) != 0 {
		t.Errorf("%+v", d)
	}
	r.step(welcome(second))
	if d := cellTake[SetDeadline](r); len(d) != 1 {
		t.Errorf("the 256th: %+v", d)
	}
}

// TestAnswersToOthers change nothing: of another process, of another protocol.
func TestAnswersToOthers(t *testing.T) {
	for name, set := range map[string]func(*HeartbeatAnswer){
		"process":  func(a *HeartbeatAnswer) { a.Proc = "p0" },
		"protocol": func(a *HeartbeatAnswer) { a.Protocol++ },
		"beat":     func(a *HeartbeatAnswer) { a.Beat++ },
	} {
		r := newCellRig(t, nil)
		r.healthy()
		before := r.c.Kept()
		r.now += sec
		h := r.beat()
		r.step(welcome(h, set))
		if r.c.Kept() != before {
			t.Errorf("%s: %+v, was %+v", name, r.c.Kept(), before)
		}
		r.step(welcome(h, func(a *HeartbeatAnswer) { a.Promise = a.Timeouts.MaxDiesWithin }))
		if r.c.Kept().Promise != DefaultTimeouts().MaxDiesWithin {
			t.Errorf("%s: the longest promise is possible: %+v", name, r.c.Kept())
		}
	}
}

// TestVerdictsNeedNoTimeouts: only a welcome has to come with time-outs that can be.
func TestVerdictsNeedNoTimeouts(t *testing.T) {
	for v, ends := range map[Verdict]bool{Die: true, DieAll: true, Refused: false} {
		r := newCellRig(t, nil)
		r.healthy()
		h := r.beat()
		r.step(BeatAnswered{HeartbeatAnswer{Protocol: Protocol, Term: term5, Proc: "p1", Beat: h.Beat, Verdict: v}})
		if got := r.c.State() == MustDie; got != ends {
			t.Errorf("%v: %v", v, r.c.State())
		}
		if r.c.Ended() != (v == DieAll) {
			t.Errorf("%v: ended %v", v, r.c.Ended())
		}
	}
}

// TestUndeliveredReportsAreSentAgain a second later, and not before.
func TestUndeliveredReportsAreSentAgain(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	x := x5(7, "a")
	r.step(NotifyAsked{Notify{term5, "p1", 1, []Run{x}}})
	reported := func() int {
		n := 0
		for _, u := range cellTake[SendStatus](r) {
			for _, it := range u.Update.Items {
				if it.Kind == StatusNotRunning && it.Run == x {
					n++
				}
			}
		}
		return n
	}
	if reported() != 1 {
		t.Fatal("not reported")
	}
	r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Kind: StatusNotRunning, Run: x}})
	r.now += refusedWait - 1
	if r.step(CellTick{}); reported() != 0 {
		t.Error("too early")
	}
	r.now++
	if r.step(CellTick{}); reported() != 1 {
		t.Error("not reported again")
	}
	r.now += statusRetry - 1
	if r.step(CellTick{}); reported() != 0 {
		t.Error("too early without an answer")
	}
	r.now++
	if r.step(CellTick{}); reported() != 1 {
		t.Error("not reported again without an answer")
	}
	r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Kind: StatusNotRunning, Run: x, OK: true}})
	r.now += 2 * statusRetry
	if r.step(CellTick{}); reported() != 0 {
		t.Error("reported again although it was taken")
	}
}

// TestAnAnswerOfAnotherClusterIsTakenOnce, if it answers a heartbeat that was sent.
func TestAnAnswerOfAnotherClusterIsTakenOnce(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthyIn("mine")
	h := r.beat()
	foreign := func(beat int64) {
		r.out = nil
		r.step(BeatAnswered{HeartbeatAnswer{Protocol: Protocol, Cluster: "other", Proc: "p1", Beat: beat, Verdict: Foreign,
			Reason: "why"}})
	}
	if foreign(h.Beat + 1); len(cellTake[ForeignHeard](r)) != 0 {
		t.Error("an answer to no heartbeat")
	}
	if foreign(h.Beat); cellOne[ForeignHeard](r) != (ForeignHeard{"other", "why"}) {
		t.Error("not heard")
	}
	if foreign(h.Beat); len(cellTake[ForeignHeard](r)) != 0 {
		t.Error("heard twice")
	}
}

// TestAMovedCellKeepsOnlyItsNewCluster, and nothing of the old one.
func TestAMovedCellKeepsOnlyItsNewCluster(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthyIn("mine")
	r.step(welcome(r.beat(), from("mine"), func(a *HeartbeatAnswer) { a.SetID = workerset.ID{Leader: term5, Version: 3} }))
	r.step(welcome(r.beat(), from("other"), func(a *HeartbeatAnswer) {
		a.Verdict, a.Term = Adopt,
			fence.Term{Epoch: 9, Revision: 1}
	}))
	r.step(SessionBegun{"p2", 2})
	if k := r.c.Kept(); k != (Kept{Proc: "p2", Cluster: "other"}) {
		t.Errorf("%+v", k)
	}
}

// TestNoClockBoundsNoEpoch: without a wall clock any epoch can be.
func TestNoClockBoundsNoEpoch(t *testing.T) {
	far := fence.Term{Epoch: 5_000_000_000, Revision: 1}
	for unix, believed := range map[int64]bool{0: true, 1: false} {
		r := newCellRig(t, func(c *CellConfig) { c.Unix = unix })
		if r.step(CallHeard{far}); (r.c.Term() == far) != believed {
			t.Errorf("the clock is at %d: the cell is in term %v", unix, r.c.Term())
		}
		l := newRig(t, func(c *Config) { c.Unix = unix })
		l.step(TermHeard{"w1", "p1", far})
		if _, err := l.l.Step(l.now, Tick{}); (err != nil) != believed {
			t.Errorf("the clock is at %d: the leader goes on: %v", unix, err == nil)
		}
	}
}

// TestADyingSessionStaysOne for any message.
func TestADyingSessionStaysOne(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	r.run(x5(1, "a"), 0)
	r.step(SuicideAsked{Suicide{term5, "p1", false}})
	r.out = nil
	r.step(SuicideAsked{Suicide{term5, "p1", false}})
	r.step(CallHeard{fence.Term{Epoch: 1, Revision: 6}})
	if r.c.State() != MustDie || r.c.Term().Revision != 6 || len(r.out) != 0 {
		t.Errorf("%v in term %v, %+v", r.c.State(), r.c.Term(), r.out)
	}
	if r.tick(2 * sec); len(r.out) != 0 {
		t.Errorf("its work is alive: %+v", r.out)
	}
}

// TestANewLeaderWithoutReports is not beaten at without a pause.
func TestANewLeaderWithoutReports(t *testing.T) {
	r := newCellRig(t, nil)
	answer := func(reported bool) []SendBeat {
		h := r.beat()
		r.out = nil
		r.step(welcome(h, func(a *HeartbeatAnswer) {
			a.State, a.Reported, a.Eligible, a.Credit = New, reported, false,
				false
		}))
		return cellTake[SendBeat](r)
	}
	if b := answer(false); len(b) != 1 {
		t.Errorf("a first leader: %+v", b)
	}
	if b := answer(false); len(b) != 0 {
		t.Errorf("again: %+v", b)
	}
	if b := answer(true); len(b) != 1 {
		t.Errorf("it has the report: %+v", b)
	}
}

// TestKeptWorkDoesNotEndTheCell: only one that leaves ends for it.
func TestKeptWorkDoesNotEndTheCell(t *testing.T) {
	for name, count := range map[string]BoundCount{"kept": {Kept: 2}, "lasting": {Containers: 2, Lasting: 2}} {
		r := newCellRig(t, nil)
		r.healthy()
		r.step(count)
		if h := r.beat(); h.Returns || h.Deregister || h.HasWork != (count.Containers > 0) || r.c.Ended() {
			t.Errorf("%s: %+v, ended %v", name, h, r.c.Ended())
		}
	}
}

// TestEndsCollectedTogether are ends as any, and come before the deadline.
func TestEndsCollectedTogether(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	a, b := x5(1, "a"), x5(2, "b")
	r.run(a, 0)
	r.run(b, 0)
	r.out = nil
	r.now = r.c.Kept().Deadline
	r.step(EndsCollected{[]WorkEnded{{a, "one"}, {b, "two"}, {x5(3, "c"), "of nobody"}}})
	if len(cellTake[EndBound](r)) != 0 {
		t.Error("nothing is left to be ended")
	}
	if held := r.c.Held(); len(held) != 2 || !held[0].Ended || !held[1].Ended {
		t.Errorf("%+v", held)
	}
}

// TestTwoNotesAreTwo: one that was taken does not take the other with it.
func TestTwoNotesAreTwo(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	x, y := x5(7, "a"), x5(8, "b")
	r.step(NotifyAsked{Notify{term5, "p1", 1, []Run{x, y}}})
	r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Kind: StatusNotRunning, Run: y, OK: true}})
	r.out = nil
	r.now += statusRetry
	r.step(CellTick{})
	if u := cellOne[SendStatus](r).Update.Items; len(u) != 1 || u[0].Run != x {
		t.Errorf("%+v", u)
	}
}

// TestAProcessThatEndsItsWorkHasNoNotice: its declarations of work as not running are forgotten with the session.
func TestAProcessThatEndsItsWorkHasNoNotice(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	r.run(x5(1, "a"), 0)
	ask := func(seq int64) NotifyAnswer {
		r.out = nil
		r.step(NotifyAsked{Notify{Term: term5, Proc: "p1", Seq: seq, Runs: []Run{x5(2, "b")}}})
		return cellOne[AnswerNotify](r).Answer
	}
	if a := ask(1); !a.OK {
		t.Fatalf("%+v", a)
	}
	r.step(SuicideAsked{Suicide{term5, "p1", false}})
	if a := ask(2); a.OK {
		t.Errorf("it ends its work: %+v", a)
	}
}

// TestASetWithoutItsCreditIsNotTaken: the cell shows no set to the next leader that its work may outlive.
func TestASetWithoutItsCreditIsNotTaken(t *testing.T) {
	for late, taken := range map[int]bool{sentBound - 1: true, sentBound: false} {
		r := newCellRig(t, nil)
		r.healthy()
		first := r.beat()
		for range late {
			r.beat()
		}
		set := workerset.ID{Leader: term5, Version: 7}
		r.step(welcome(first, func(a *HeartbeatAnswer) { a.SetID = set }))
		if got := r.c.Kept().SetID; (got == set) != taken {
			t.Errorf("an answer to the heartbeat before the last %d: the set is %+v", late, got)
		}
	}
}

// TestADeadlineIsDue, even when it is soon.
func TestADeadlineIsDue(t *testing.T) {
	x := x5(3, "a")
	r := newCellRig(t, func(c *CellConfig) {
		c.Adopted, c.Deadline, c.Promise = []Held{{Run: x, Adopted: true}}, c.Now+firstHurry/2, 70*sec
	})
	deadline := r.now + firstHurry/2
	r.step(CellTick{})
	if due := r.c.Due(r.now); due != deadline {
		t.Fatalf("due at %v, the deadline is %v", due, deadline)
	}
	r.now = deadline
	r.step(CellTick{})
	if len(cellTake[EndBound](r)) != 1 {
		t.Error("its work goes on")
	}
}
