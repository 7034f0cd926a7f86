package worker

import (
	"testing"

	"cantina/fence"
)

// TestRunResults has the meaning of each result of a RunTask.
func TestRunResults(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	r.tick(sec)
	for i, c := range []struct {
		res    RunResult
		ends   bool
		unsure bool
	}{{RunOK, false, false}, {RunNeverSent, true, false}, {RunRefused, true, false}, {RunUnknown, false, true},
		{RunStale, false, true}} {
		x := r.run("w1", string(rune('a'+i)))
		r.out = nil
		r.answer("p2", x, c.res) // the answer for another process
		r.answer("p1", x, c.res)
		if e := peek[Ended](r); (len(e) == 1) != c.ends || c.ends && e[0].Kind != NeverStarted {
			t.Errorf("%v: %v", c.res, e)
		}
		if n := peek[SendNotify](r); (len(n) >= 1 || r.l.Sessions(r.now)[0].Unsure > 0) != c.unsure {
			t.Errorf("%v: %v", c.res, n)
		}
		r.answer("p1", x, RunUnknown)
		for _, e := range take[Ended](r) {
			r.apply(e)
		}
		for _, run := range r.l.procs["p1"].unsure.runs {
			r.status("w1", "p1", StatusItem{Kind: StatusNotRunning, Run: run})
		}
		for _, e := range take[Ended](r) {
			r.apply(e)
		}
	}
	if r.l.Live() != 1 {
		t.Fatalf("only the started one: %v", r.l.Model())
	}
}

// TestResolved: the mark follows the oldest RunTask whose fate is open.
func TestResolved(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	r.tick(sec)
	mark := func() int64 { return r.beat("w1", "p1", 1).Resolved }
	a, b, c := r.run("w1", "a"), r.run("w1", "b"), r.run("w1", "c")
	if mark() != 0 {
		t.Fatal(mark())
	}
	r.answer("p1", b, RunOK)
	if mark() != 0 {
		t.Fatal("the first is open")
	}
	r.answer("p1", a, RunRefused)
	if mark() != 2 {
		t.Fatal(mark())
	}
	r.answer("p1", c, RunUnknown)
	r.out = nil
	if mark() != 2 {
		t.Fatal("unsure is open")
	}
	seq := r.l.procs["p1"].seq
	r.step(NotifyAnswered{NotifyAnswer{Term: term5, Proc: "p1", Seq: seq}})
	if mark() != 2 {
		t.Fatal("a failed question")
	}
	r.tick(3 * sec)
	older := fence.Term{Epoch: term5.Epoch, Revision: term5.Revision - 1}
	r.step(NotifyAnswered{NotifyAnswer{Term: older, Proc: "p1", Seq: seq + 1, OK: true}})
	if mark() != 2 {
		t.Fatal("the answer to a question of an earlier term, under the same number")
	}
	r.step(NotifyAnswered{NotifyAnswer{Term: term5, Proc: "p1", Seq: seq + 1, OK: true}})
	if mark() != 3 {
		t.Fatal(mark())
	}
}

// TestUnavailable: three failing probes in a row; a good one ends it. Any answer
// counts as contact.
func TestUnavailable(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	r.tick(sec)
	for i := range 4 {
		r.tick(10 * sec)
		r.beat("w1", "p1", 1)
		r.probe("w1", "p1", false)
		if r.state("p1") != Healthy {
			t.Fatalf("probe %d: %v", i, r.state("p1"))
		}
	}
	if a := one[Availability](r); !a.Unavailable || a.Reason != "no room" {
		t.Fatalf("%+v", a)
	}
	if h, ok := r.l.MayReceive("w1"); ok || h.Reason != HoldUnavailable {
		t.Fatalf("%+v", h)
	}
	r.status("w1", "p1", StatusItem{Kind: StatusProbe, Probe: 1, OK: true}) // stale
	if _, ok := r.l.MayReceive("w1"); ok {
		t.Fatal("an old answer")
	}
	r.tick(10 * sec)
	r.beat("w1", "p1", 1)
	r.out = nil
	r.probe("w1", "p1", true)
	if a := one[Availability](r); a.Unavailable {
		t.Fatalf("%+v", a)
	}
}

// TestResolvedCountsThisTermOnly: the end of an invocation of an earlier term does not
// resolve one of this term with the same counter.
func TestResolvedCountsThisTermOnly(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1)))
	r.beat("w1", "p1", 1)
	r.report("p1", Held{Run: old(1, "a")})
	r.probe("w1", "p1", true)
	r.beat("w1", "p1", 1)
	r.tick(sec)
	if x := r.run("w1", "b"); x.Invocation.Counter != 1 {
		t.Fatal(x)
	}
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: old(1, "a")})
	if a := r.beat("w1", "p1", 1); a.Resolved != 0 {
		t.Errorf("resolved %d while its RunTask is on its way", a.Resolved)
	}
}
