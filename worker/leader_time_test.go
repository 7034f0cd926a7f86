package worker

import (
	"slices"
	"testing"

	"cantina/workerset"
)

// TestALostNewcomerIsKeptToItsTime, and not a moment longer.
func TestALostNewcomerIsKeptToItsTime(t *testing.T) {
	r := newRig(t, nil)
	r.beat("w1", "p1", 1)
	to := r.l.t
	if r.tick(to.Lost + to.Stretch(to.MaxDiesWithin) - sec); len(r.l.Sessions(r.now)) != 1 {
		t.Error("forgotten too early")
	}
	if r.tick(sec); len(r.l.Sessions(r.now)) != 0 {
		t.Error("kept")
	}
}

// TestASureRun is one that the cell did not deny when it was asked.
func TestASureRun(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	next := r.l.NextInvocation()
	x := r.run("w1", "a")
	if x.Invocation != next || r.l.NextInvocation().Counter != next.Counter+1 {
		t.Errorf("%v, want %v", x.Invocation, next)
	}
	r.answer("p1", x, RunUnknown)
	n := one[SendNotify](r).Call
	if rs := r.l.Running(x.Work); len(rs) != 1 || rs[0].Sure {
		t.Errorf("%+v", rs)
	}
	r.step(NotifyAnswered{NotifyAnswer{Term: term5, Proc: "p1", Seq: n.Seq, OK: true}})
	if rs := r.l.Running(x.Work); len(rs) != 1 || !rs[0].Sure || r.session("p1").Unsure != 0 {
		t.Errorf("%+v", rs)
	}
	r.tick(60 * sec)
	r.tick(20 * sec)
	h, _ := r.l.MayRun(r.now, Request{Work: x.Work})
	if v := r.session("p1"); v.State != MustDie || h.Longest != v.Expiry || h.Longest == 0 || h.Cell != "w1" ||
		h.Proc != "p1" {
		t.Errorf("%+v of %+v", h, v)
	}
}

// TestReportsOfALostSuccessorDoNotCount: it need not be dead itself.
func TestReportsOfALostSuccessorDoNotCount(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	r.beat("w1", "p2", 2, func(h *Heartbeat) { h.Predecessor, h.PredecessorsGone, h.HasWork = "p1", false, true })
	r.step(ReportReceived{Report{Term: term5, Proc: "p2", Predecessor: "p1"}})
	for range 10 {
		r.tick(5 * sec)
		r.probe("w1", "p2", true)
		r.beat("w1", "p2", 2, func(h *Heartbeat) { h.PredecessorsGone, h.HasWork = false, true })
	}
	r.tick(80 * sec)
	if r.state("p2") != MustDie || r.l.IsDead("p2") || !r.l.IsDead("p1") {
		t.Errorf("p2 is %v, dead %v; p1 dead %v", r.state("p2"), r.l.IsDead("p2"), r.l.IsDead("p1"))
	}
}

// TestAnUnconfirmedListIsWrittenAnew when the rows are confirmed: the lists that cells remember are older then.
func TestAnUnconfirmedListIsWrittenAnew(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.NewStore, c.Restored, c.List = false, true, workerset.ID{Version: 7}
	})
	r.tick(120 * sec)
	var last workerset.ID
	for _, row := range r.rows {
		if put, ok := row.(PutList); ok {
			last = put.ID
		}
	}
	if last.Version != 8 {
		t.Errorf("%+v", last)
	}
}

// TestUnheardForWantOfAProbe: one that beats, and answers no probe.
func TestUnheardForWantOfAProbe(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1)))
	start := r.now
	for len(peek[Unheard](r)) == 0 && r.now < start+100*sec {
		r.tick(sec)
		r.beat("w1", "p1", 1)
	}
	if got := r.now - start; got != r.l.t.HealthcheckGap()+sec {
		t.Errorf("reported after %v", got)
	}
}

// TestASteadySessionWritesNothing.
func TestASteadySessionWritesNothing(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	r.rows = nil
	for range 20 {
		r.tick(5 * sec)
		r.probe("w1", "p1", true)
		r.beat("w1", "p1", 1)
	}
	if len(r.rows) != 0 {
		t.Errorf("%+v", r.rows)
	}
}

// TestAnotherHolderOfADev keeps its name once it has reported.
func TestAnotherHolderOfADev(t *testing.T) {
	r := newRig(t, func(c *Config) { c.NoDeadline = true })
	r.beat("w1", "p1", 1)
	r.report("p1")
	r.probe("w1", "p1", true)
	if a := r.beat("w1", "p2@f", 2); a.Verdict != DieAll || !r.l.Holds("w1", "p1") {
		t.Errorf("%+v", a)
	}
}

// TestCreditFollowsTheStore while a longer promise is on its way there.
func TestCreditFollowsTheStore(t *testing.T) {
	m := member("p1", "w1", 1)
	m.Promise = 50 * sec
	r := newRig(t, withMembers(m))
	lives := func(h *Heartbeat) { h.Promise = 50 * sec }
	r.hold = true
	r.step(BeatReceived{Beat: r.hb("w1", "p1", 1, lives), LeaseHeld: true})
	r.report("p1")
	for len(r.pending) > 0 && len(peek[AnswerBeat](r)) == 0 { // performed, and not noted as durable yet
		r.out = append(r.out, r.pending[0].Effects...)
		r.pending = r.pending[1:]
	}
	r.out = nil
	r.step(BeatReceived{Beat: r.hb("w1", "p1", 1, lives), LeaseHeld: true})
	r.hold = false
	r.commit()
	if a := take[AnswerBeat](r); len(a) != 1 || !a[0].Answer.Credit || a[0].Answer.Promise != 50*sec {
		t.Errorf("%+v", a)
	}
	if a := r.beat("w1", "p1", 1, lives); a.Promise != 86*sec {
		t.Errorf("%+v", a)
	}
}

// TestTheRowOfADeadOneIsNotWrittenAgain when another takes its name.
func TestTheRowOfADeadOneIsNotWrittenAgain(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1)))
	r.hold = true
	r.step(Forget{Proc: "p1", By: "ann"})
	r.beat("w1", "p2@f", 1)
	r.hold = false
	r.commit()
	if slices.ContainsFunc(r.rows, func(row Row) bool {
		put, ok := row.(PutMember)
		return ok && put.Member.Proc == "p1"
	}) || !r.l.Holds("w1", "p2@f") {
		t.Errorf("%+v", r.rows)
	}
}
