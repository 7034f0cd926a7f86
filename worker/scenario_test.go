package worker

import (
	"slices"
	"testing"
	"time"

	"cantina/fence"
	"cantina/workerset"
)

// TestNewSession is scenario 5: a new entry asks for running tasks and a probe;
// the list makes it UNHEALTHY, never healthy before.
func TestNewSession(t *testing.T) {
	r := newRig(t, nil)
	a := r.beat("w1", "p1", 1)
	if a.State != New || a.Credit || a.Eligible {
		t.Fatalf("%+v", a)
	}
	if len(peek[SendReportRequest](r)) == 0 || len(peek[SendRun](r)) != 1 || peek[SendRun](r)[0].Call.Probe != 1 {
		t.Fatalf("%v", r.out)
	}
	r.out = nil
	r.tick(sec)
	if len(take[SendReportRequest](r)) != 1 {
		t.Fatal("asked again each check interval")
	}
	r.report("p1")
	if r.state("p1") != Unhealthy || r.l.procs["p1"].health.HasBeenHealthy {
		t.Fatal(r.state("p1"))
	}
}

// TestFirstHealthy is scenario 6, with the consensus witness.
func TestFirstHealthy(t *testing.T) {
	r := newRig(t, consensus)
	r.tick(sec) // a new cluster waits for no cell
	r.beat("w1", "p1", 1)
	r.beat("w2", "p2", 1)
	r.report("p1")
	r.report("p2")
	r.probe("w1", "p1", true)
	if r.state("p1") != Unhealthy {
		t.Fatal("a good probe alone is not enough")
	}
	r.out = nil
	r.beat("w1", "p1", 1)
	if a := r.beat("w1", "p1", 1); a.State != Unhealthy {
		t.Fatal("w2 has shown no set")
	}
	if h, ok := r.l.MayReceive("w1"); ok || h.Reason != HoldConsensus {
		t.Fatalf("%v", h.Reason)
	}
	r.beat("w2", "p2", 1)
	r.beat("w2", "p2", 1)
	if a := r.beat("w1", "p1", 1); a.State != Healthy {
		t.Fatalf("%+v", a)
	}
	if len(take[SendRun](r)) != 0 {
		t.Fatal("a fresh probe asks for no other")
	}
	r.beat("w3", "p3", 1) // the set changes: no permission any more
	if a := r.beat("w1", "p1", 1); a.State != Healthy {
		t.Fatal("it has been healthy")
	}
}

// TestMissedHeartbeat is scenario 7.
func TestMissedHeartbeat(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	r.probe("w1", "p1", true)
	r.tick(16 * sec)
	probes := len(peek[SendRun](r))
	if c := take[SessionChanged](r); len(c) != 1 || c[0].From != Healthy || c[0].To != Unhealthy || !c[0].WasHealthy {
		t.Fatalf("%+v", c)
	}
	if probes == 0 {
		t.Fatal("the probe's period passed too")
	}
	r.probe("w1", "p1", true)
	if a := r.beat("w1", "p1", 1); a.State != Healthy {
		t.Fatalf("%+v", a)
	}
}

// TestLostForSilenceOnly is scenario 8 and 9: no cell is lost for lack of consensus. A silent one is lost, once;
// its tasks are held until it is certainly dead.
func TestLostForSilenceOnly(t *testing.T) {
	r := newRig(t, consensus)
	r.beat("w0", "p0", 1) // never shows a set
	r.beat("w1", "p1", 1)
	r.report("p0")
	r.report("p1")
	for range 30 {
		r.tick(5 * sec)
		r.beat("w0", "p0", 1, func(h *Heartbeat) { h.SetID = workerset.ID{} })
		r.probe("w0", "p0", true)
		r.beat("w1", "p1", 1)
		r.probe("w1", "p1", true)
	}
	if r.state("p1") != Unhealthy {
		t.Fatalf("blocked by consensus alone, yet %v", r.state("p1"))
	}
	l := newRig(t, nil)
	l.healthy("w1", "p1", 1)
	x := l.run("w1", "job")
	l.answer("p1", x, RunUnknown)
	l.out = nil
	l.tick(80 * sec)
	if len(peek[SendSuicide](l)) != 1 || peek[SendSuicide](l)[0].Call.All || len(peek[Ended](l)) != 0 ||
		len(peek[Dead](l)) != 0 {
		t.Fatalf("lost, ordered to die, and not yet dead: %v", l.out)
	}
	if l.state("p1") != MustDie || l.mayRun("job") != HoldRunning {
		t.Fatal("held until certainly dead")
	}
	if v := l.l.Sessions(l.now)[0]; v.Unsure != 0 {
		t.Fatal("the unsure list is gone")
	}
	l.out = nil
	l.tick(20 * sec)
	ended, dead := peek[Ended](l), peek[Dead](l)
	if len(ended) != 1 || ended[0].Kind != Lost || len(dead) != 1 || dead[0].Proof != ProofExpiry {
		t.Fatalf("%v", l.out)
	}
	if l.members() != "p1:1m26s" || l.mayRun("job") != HoldRunning {
		t.Fatal("the row goes after the lost statuses are durable")
	}
	l.apply(ended[0])
	if l.members() != "" || l.mayRun("job") != HoldNone {
		t.Fatalf("%q %v", l.members(), l.mayRun("job"))
	}
	l.out = nil
	l.tick(10 * sec)
	if len(l.out) != 0 {
		t.Fatalf("nothing more: %v", l.out)
	}
}

// TestReplacementOnOneDir is scenario 10: the data directory's lock is the machine lock.
func TestReplacementOnOneDir(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p5", 5)
	x := r.run("w1", "job")
	if a := r.beat("w1", "p4", 4); a.Verdict != Refused || r.state("p5") != Healthy {
		t.Fatalf("an older process: %+v", a)
	}
	r.out = nil
	a := r.beat("w1", "p6", 6)
	if a.State != New || len(peek[SendSuicide](r)) != 0 || len(peek[SendReportRequest](r)) == 0 ||
		len(peek[SendRun](r)) != 1 {
		t.Fatalf("a newer process replaces silently: %+v %v", a, r.out)
	}
	if c := peek[SessionChanged](r); len(c) != 1 || !c[0].Displaced || !c[0].Succeeded {
		t.Fatalf("the predecessor was succeeded: %+v", c)
	}
	if r.state("p5") != MustDie || len(peek[Ended](r)) != 0 {
		t.Fatal("nothing of the predecessor is discarded before the successor reports")
	}
	r.report("p6")
	e := one[Ended](r)
	if e.Kind != Lost || e.Run != x {
		t.Fatalf("%+v", e)
	}
	r.apply(e)
	if r.members() != "p6:1m26s" {
		t.Fatal(r.members())
	}
	if a := r.beat("w1", "p7", 6); a.State != New || len(peek[Audit](r)) == 0 {
		t.Fatalf("the same start twice: the newcomer stays, loudly: %+v", a)
	}
}

// TestReplacementFromElsewhere is scenario 11, with and without the bump flag.
func TestReplacementFromElsewhere(t *testing.T) {
	for _, bump := range []bool{false, true} {
		r := newRig(t, func(c *Config) { c.AllowBump = bump })
		r.healthy("w1", "p1", 1)
		if a := r.beat("w1", "p2@b", 1); a.Verdict != DieAll || !one[SendSuicide](r).Call.All {
			t.Fatalf("a healthy holder stays: %+v", a)
		}
		r.tick(20 * sec)
		r.out = nil
		a := r.beat("w1", "p3@b", 2)
		if bump {
			if c := peek[SessionChanged](r); len(c) != 1 || !c[0].Displaced || c[0].Succeeded {
				t.Fatalf("another machine succeeds no process: %+v", c)
			}
			if s := one[SendSuicide](r); a.State != New || s.Call.Proc != "p1" || !s.Call.All {
				t.Fatalf("%+v %+v", a, s)
			}
			if a := r.beat("w1", "p1", 1); a.Verdict != DieAll {
				t.Fatalf("the displaced one gets the order again: %+v", a)
			}
			if !r.l.procs["p1"].row.Displaced {
				t.Fatal("and its row has it")
			}
			if a := r.beat("w1", "p4@c", 1); a.State != New {
				t.Fatalf("NEW may be bumped too: %+v", a)
			}
			continue
		}
		if a.Verdict != DieAll {
			t.Fatalf("%+v", a)
		}
		r.tick(60 * sec)
		r.out = nil
		if a := r.beat("w1", "p1", 1); a.Verdict != Die {
			t.Fatalf("MUST_DIE, ordered again: %+v", a)
		}
		if a := r.beat("w1", "p4@b", 3); a.State != New || !one[SendSuicide](r).Call.All {
			t.Fatalf("a lost holder is replaced: %+v", a)
		}
	}
}

// TestUnsureSchedule is scenario 12: at once, then after 2, 4, … 256, 256 periods.
func TestUnsureSchedule(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Timeouts.Lost, c.Timeouts.MaxDiesWithin, c.Timeouts.Check = 4000*sec, 5000*sec, 41*sec
	})
	r.l.t.Check = sec
	r.healthy("w1", "p1", 1)
	x := r.run("w1", "job")
	at := r.now
	r.answer("p1", x, RunUnknown)
	if n := one[SendNotify](r); n.Call.Seq != 1 || !slices.Equal(n.Call.Runs, []Run{x}) {
		t.Fatalf("%+v", n)
	}
	for i, want := range []int{2, 4, 8, 16, 32, 64, 128, 256, 256} {
		r.out = nil
		r.tick(at + time.Duration(want)*unsurePeriod - sec - r.now)
		if n := take[SendNotify](r); len(n) != 0 {
			t.Fatalf("question %d comes early: %v", i, n)
		}
		r.tick(sec)
		if n := one[SendNotify](r); n.Call.Seq != int64(i+2) {
			t.Fatalf("question %d: %+v", i, n)
		}
		at = r.now
	}
	r.step(NotifyAnswered{NotifyAnswer{Term: term5, Proc: "p1", Seq: 10, OK: true}})
	r.out = nil
	r.tick(600 * sec)
	if n := take[SendNotify](r); len(n) != 0 {
		t.Fatalf("answered: %v", n)
	}
	if r.mayRun("job") != HoldRunning {
		t.Fatal("running until further notice")
	}
	r.healthyAgain("w1", "p1")
	y := r.run("w1", "other")
	r.answer("p1", y, RunUnknown)
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: y})
	if n := take[SendNotify](r); len(n) != 1 {
		t.Fatal("the pauses begin again")
	}
	r.tick(10 * sec)
	if n := take[SendNotify](r); len(n) != 0 {
		t.Fatal("a real status takes it off the list")
	}
}

func (r *rig) healthyAgain(c CellName, p Proc) {
	r.t.Helper()
	r.probe(c, p, true)
	r.beat(c, p, 1)
	r.out = nil
}

// TestStatuses is scenario 13: which updates are taken, refused and dropped.
func TestStatuses(t *testing.T) {
	r := newRig(t, nil)
	r.beat("w1", "p1", 1)
	x0 := Run{Work{"job", "n"}, fence.Invocation{Term: term5, Counter: 1}}
	r.out = nil
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: x0})
	if one[AnswerStatus](r).Answer.OK {
		t.Fatal("a NEW session gets the order to retry")
	}
	r.report("p1")
	r.probe("w1", "p1", false)
	r.beat("w1", "p1", 1)
	r.out = nil

	x := r.run("w1", "job")
	r.status("w2", "p1", StatusItem{Kind: StatusEnded, Run: x})
	if one[AnswerStatus](r).Answer.OK {
		t.Fatal("wrong cell")
	}
	other := x
	other.Invocation.Counter += 7
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: other, Status: "done"})
	r.out = nil // an unknown invocation goes to the scheduler, which decides
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: x, Status: "done"})
	e := one[Ended](r)
	if e.Run != x || e.Kind != Real || e.Status != "done" {
		t.Fatalf("%+v", e)
	}
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: x, Status: "done"})
	if len(peek[Ended](r)) != 0 || len(peek[AnswerStatus](r)) != 0 {
		t.Fatal("a replay waits for the same commit")
	}
	r.apply(e)
	if a := take[AnswerStatus](r); len(a) != 1 || !a[0].Answer.OK {
		t.Fatalf("%v", a)
	}
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: x, Status: "done"})
	if a := one[AnswerStatus](r); !a.Answer.OK {
		t.Fatal("a later replay is acknowledged")
	}
	r.status("w1", "p1", StatusItem{Kind: StatusNotRunning, Run: x})
	if len(peek[Ended](r)) != 0 || !one[AnswerStatus](r).Answer.OK {
		t.Fatal("not running, after its end: redundant")
	}
	old := x
	old.Invocation.Counter = 0
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: old})
	if !one[AnswerStatus](r).Answer.OK {
		t.Fatal("an older invocation is dropped and acknowledged")
	}
	r.step(StatusReceived{UpdateStatus{Term: fence.Term{Epoch: 1, Revision: 4}, Cell: "w1", Proc: "p1",
		Items: []StatusItem{{Run: x}}}})
	if one[AnswerStatus](r).Answer.OK {
		t.Fatal("of an earlier term: retry")
	}
}

// TestRealBeatsSynthetic: a synthetic end loses to a real one, in either order.
func TestRealBeatsSynthetic(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	x := r.run("w1", "job")
	r.answer("p1", x, RunUnknown)
	r.out = nil
	r.status("w1", "p1", StatusItem{Kind: StatusNotRunning, Run: x})
	e := one[Ended](r)
	if e.Kind != NeverStarted {
		t.Fatalf("%+v", e)
	}
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: x, Status: "done"})
	real := one[Ended](r)
	if real.Kind != Real {
		t.Fatalf("%+v", real)
	}
	r.apply(e) // the synthetic one commits first
	if len(peek[AnswerStatus](r)) != 0 || r.mayRun("job") != HoldRunning {
		t.Fatal("the cell is acknowledged when the real one is durable")
	}
	r.apply(real)
	if !one[AnswerStatus](r).Answer.OK || r.mayRun("job") != HoldNone {
		t.Fatal("acknowledged")
	}
	// Scenario 24: the real end comes after the loss was applied.
	y := r.run("w1", "job")
	r.applied[y.Work] = applied{y.Invocation, false}
	r.tick(120 * sec)
	for _, e := range take[Ended](r) {
		r.apply(e)
	}
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: y, Status: "done"})
	if e := one[Ended](r); e.Kind != Real || e.Run != y {
		t.Fatalf("%+v", e)
	}
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: y, Status: "done"})
	if len(take[Ended](r)) != 0 {
		t.Fatal("handed over once")
	}
	r.apply(Ended{Run: y, Kind: Real})
	if !one[AnswerStatus](r).Answer.OK {
		t.Fatal("acknowledged")
	}
}

// TestLateEndAfterRestart is scenario 25: where the original aborts, the end of
// the older invocation is dropped.
func TestLateEndAfterRestart(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	r.healthy("w2", "p2", 1)
	r.tick(sec)
	x := r.run("w1", "j")
	r.step(Forget{Proc: "p1", By: "ann"})
	r.apply(one[Ended](r))
	y := r.run("w2", "j")
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: x, Status: "done"})
	if e := one[Ended](r); e.Run != x || e.Kind != Real {
		t.Fatalf("a real end beats the loss that was applied: %+v", e)
	}
	if rs := r.l.Running(y.Work); len(rs) != 1 || rs[0].Run != y {
		t.Fatalf("%v", rs)
	}
}

// TestReportOfALateEnd: a successor reports late ends before they are durable. Each is counted once, and
// acknowledged to both.
func TestReportOfALateEnd(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	r.tick(sec)
	x := r.run("w1", "j")
	r.step(Forget{Proc: "p1", By: "ann"})
	r.apply(one[Ended](r))
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: x, Status: "done"})
	e := one[Ended](r)
	r.beat("w1", "p3", 3)
	r.out = nil
	r.step(ReportReceived{Report{Term: term5, Proc: "p3", Predecessor: "p1",
		Held: []Held{{Run: x, Adopted: true, Ended: true}}}})
	r.status("w1", "p3", StatusItem{Kind: StatusEnded, Run: x, Status: "done"})
	if e := peek[Ended](r); len(e) != 0 || r.state("p3") != Unhealthy {
		t.Fatalf("counted twice: %+v", e)
	}
	r.apply(e)
	if a := take[AnswerStatus](r); len(a) != 2 || !a[0].Answer.OK || !a[1].Answer.OK || r.mayRun("j") != HoldNone {
		t.Fatalf("both are acknowledged, and nothing runs: %v %v", a, r.mayRun("j"))
	}
}

// TestANewSessionAsksNothing: questions belong to the session whose RunTasks failed; a
// successor begins with number 0, and is asked nothing while it is NEW or later.
func TestANewSessionAsksNothing(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p5", 5)
	x := r.run("w1", "job")
	r.answer("p5", x, RunUnknown)
	if n := one[SendNotify](r); n.Call.Seq != 1 {
		t.Fatalf("%+v", n)
	}
	r.beat("w1", "p6", 6)
	r.tick(5 * sec)
	r.report("p6", Held{Run: x, Adopted: true})
	r.tick(sec)
	r.healthyAgain("w1", "p6")
	y := r.run("w1", "other")
	r.tick(5 * sec)
	if n := peek[SendNotify](r); len(n) != 0 {
		t.Errorf("%+v", n)
	}
	calls := slices.DeleteFunc(take[SendRun](r), func(c SendRun) bool { return c.Call.Run != y })
	if len(calls) != 1 || calls[0].Call.Seq != 0 {
		t.Errorf("%+v", calls)
	}
}
