package worker

import (
	"slices"
	"testing"
)

// TestReportIsFollowedByABeat: a cell that waits long between heartbeats sends one at once when the leader has
// requested its list. So the leader's new view reaches it.
func TestReportIsFollowedByABeat(t *testing.T) {
	r := newCellRig(t, nil)
	r.step(welcome(r.beat(), func(a *HeartbeatAnswer) {
		a.State, a.Reported, a.Eligible, a.Credit = New, false, false,
			false
	}))
	r.tick(30 * sec) // without an answer the pauses grow to a period
	r.out = nil
	for range 100 {
		r.step(CellTick{})
		if len(cellTake[SendBeat](r)) > 0 {
			break
		}
		r.now += sec / 10
	}
	r.now += sec / 10
	r.step(ReportAsked{ReportRequest{term5, "p1"}})
	r.now += sec / 10
	r.step(CellTick{})
	if b := cellTake[SendBeat](r); len(b) != 1 {
		t.Errorf("%d heartbeats within 100 ms of the report", len(b))
	}
}

// TestStatusesGoOnWhileItDies: work that ends before or during the end of the session is reported to the leader
// meanwhile, and not only by the next session.
func TestStatusesGoOnWhileItDies(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	a, b := x5(1, "a"), x5(2, "b")
	r.run(a, 0)
	r.run(b, 0)
	r.step(SuicideAsked{Suicide{term5, "p1", false}})
	r.out = nil
	r.step(WorkEnded{a, "killed"})
	u := cellOne[SendStatus](r).Update
	if u.Proc != "p1" || len(u.Items) != 1 || u.Items[0].Run != a || u.Items[0].Status != "killed" {
		t.Errorf("%+v", u)
	}
	r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Run: a, OK: true}})
	if h := r.c.Held(); len(h) != 1 || h[0].Run != b || r.c.Proc() != "p1" {
		t.Errorf("%v in session %s", h, r.c.Proc())
	}
}

// TestStatusesOfAReplacedProcess: the leader takes from a process that it has reaped only the ends of work that no
// other process holds. The successor reports the work that it has adopted.
func TestStatusesOfAReplacedProcess(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	r.tick(sec)
	kept, gone := r.run("w1", "kept"), r.run("w1", "gone")
	r.answer("p1", kept, RunOK)
	r.answer("p1", gone, RunOK)
	r.beat("w1", "p2", 2)
	r.out = nil
	r.step(ReportReceived{Report{Term: term5, Proc: "p2", Predecessor: "p1", PredecessorsGone: true,
		Held: []Held{{Run: kept, Adopted: true}}}})
	for _, e := range take[Ended](r) {
		r.apply(e)
	}
	if r.l.procs["p1"] != nil || r.members() != "p2:1m26s" {
		t.Fatalf("p1 is reaped: %s", r.members())
	}
	r.out = nil
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: kept, Status: "done"})
	if len(peek[Ended](r)) != 0 || one[AnswerStatus](r).Answer.OK {
		t.Error("adopted: p2 reports its end, and p1 gets no order to forget it")
	}
	r.status("w1", "p1", StatusItem{Kind: StatusNotRunning, Run: kept}, StatusItem{Kind: StatusProbe, Probe: 1, OK: true})
	if e := peek[Ended](r); len(e) != 0 {
		t.Errorf("a reaped process ends what its successor holds: %+v", e)
	}
	if a := take[AnswerStatus](r); len(a) != 2 || !a[0].Answer.OK || !a[1].Answer.OK {
		t.Errorf("what means nothing any more is acknowledged: %v", a)
	}
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: gone, Status: "done"})
	if e := one[Ended](r); e.Run != gone || e.Kind != Real {
		t.Errorf("a real end beats the loss: %+v", e)
	}
	if rs := r.l.Running(kept.Work); len(rs) != 1 || rs[0].Proc != "p2" {
		t.Errorf("%v", rs)
	}
}

// TestNotRunningWhileTheEndIsOnItsWay: the answer to a question that crosses the end is
// acknowledged, and takes nothing from the end that is being committed.
func TestNotRunningWhileTheEndIsOnItsWay(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	r.tick(sec)
	x := r.run("w1", "job")
	r.answer("p1", x, RunUnknown)
	r.out = nil
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: x, Status: "done"})
	end := one[Ended](r)
	r.status("w1", "p1", StatusItem{Kind: StatusNotRunning, Run: x})
	if e := peek[Ended](r); len(e) != 0 {
		t.Errorf("ended twice: %+v", e)
	}
	if !one[AnswerStatus](r).Answer.OK {
		t.Error("redundant: acknowledged")
	}
	r.apply(end)
	if a := take[AnswerStatus](r); len(a) != 1 || !a[0].Answer.OK || r.mayRun("job") != HoldNone {
		t.Errorf("%v, %v", a, r.mayRun("job"))
	}
}

// TestNoRunTaskBeforeTheReport: a listed process has a durable row at once. It gets no work before its list is in,
// and the hold gives that reason.
func TestNoRunTaskBeforeTheReport(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1)))
	r.beat("w1", "p1", 1)
	r.probe("w1", "p1", true)
	if h, ok := r.l.MayReceive("w1"); ok || h.Reason != HoldNotReported || h.Proc != "p1" {
		t.Errorf("%+v", h)
	}
	r.out = nil
	if _, _, err := r.l.RunBatch(r.now, Request{Work: Work{"j", "n"}, Cell: "w1"}); err == nil ||
		slices.ContainsFunc(peek[SendRun](r), func(c SendRun) bool { return c.Call.Probe == 0 }) {
		t.Error("started before the report")
	}
}
