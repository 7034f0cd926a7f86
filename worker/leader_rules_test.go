package worker

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestALaterProcessOfAnotherBootProvesNothing: a directory that was copied is used by two machines at once, and one
// that remains on the other machine is none of this process.
func TestALaterProcessOfAnotherBootProvesNothing(t *testing.T) {
	r := newRig(t, nil)
	elsewhere := func(h *Heartbeat) { h.Boot, h.PredecessorsGone = "of another machine", false }
	r.beat("w2", "q@d", 2, elsewhere)
	r.step(ReportReceived{Report{Term: term5, Proc: "q@d"}})
	r.healthy("w1", "p@d", 1)
	for end := r.now + 2*r.l.ownPromise(); r.now < end; {
		r.tick(2 * sec)
		r.beat("w2", "q@d", 2, elsewhere)
		r.probe("w2", "q@d", true)
	}
	if !r.l.IsDead("p@d") || r.l.IsDead("q@d") {
		t.Error("the silent one is dead by time, for any work on the other machine")
	}
}

// TestAFlagThatEndsTheWaitIsAudited for any length of the wait.
func TestAFlagThatEndsTheWaitIsAudited(t *testing.T) {
	r := newRig(t, func(c *Config) { withMembers(member("p1", "w1", 1))(c); c.InitialWait = 1 })
	if a := one[Audit](r); a.Kind != AuditWaitForced {
		t.Errorf("%+v", a)
	}
}

// TestALeaderWithoutADeadlineAndWithoutACell of its own is not alone.
func TestALeaderWithoutADeadlineAndWithoutACell(t *testing.T) {
	r := newRig(t, func(c *Config) { c.NoDeadline, c.NewCluster = true, false })
	if r.l.waiting.alone || slices.Contains(r.rows, Row(PutAlone{})) {
		t.Errorf("alone, rows %v", r.rows)
	}
}

// TestAnEndOfTheDeadIsTaken though the process has not reported to this leader, while its death becomes durable.
func TestAnEndOfTheDeadIsTaken(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1)))
	x := Run{Work{"job", "n"}, x5(1, "job").Invocation}
	x.Invocation.Term.Revision = 4
	r.hold = true
	r.step(Forget{Proc: "p1", By: "ann"})
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: x, Status: "done"})
	r.hold = false
	r.commit()
	if e := one[Ended](r); e.Run != x || e.Kind != Real || e.Status != "done" {
		t.Errorf("%+v", e)
	}
}

// TestARowWithoutAPromiseGivesNoCredit to a cell that lives by deadlines: it could not distinguish it from credit
// for ever.
func TestARowWithoutAPromiseGivesNoCredit(t *testing.T) {
	m := member("p1", "w1", 1)
	m.Promise = 0 // of a leader without deadlines
	r := newRig(t, withMembers(m))
	r.hold = true
	r.beat("w1", "p1", 1)
	r.report("p1")
	r.beat("w1", "p1", 1)
	var last HeartbeatAnswer
	for _, out := range r.pending {
		for _, e := range out.Effects {
			if a, ok := e.(AnswerBeat); ok {
				last = a.Answer
			}
		}
	}
	if last.Verdict != Welcome || !last.Eligible || last.Credit || last.Promise != 0 {
		t.Errorf("before the row has the promise: %+v", last)
	}
	r.hold = false
	r.commit()
	if a := r.beat("w1", "p1", 1); !a.Credit || a.Promise != r.l.ownPromise() {
		t.Errorf("when the row has it: %+v", a)
	}
}

// TestALongPromiseStaysInTheRow as long as the cell reports that it lives by it.
func TestALongPromiseStaysInTheRow(t *testing.T) {
	m := member("p1", "w1", 1)
	m.Promise = 96 * sec
	r := newRig(t, withMembers(m))
	long := func(h *Heartbeat) { h.Promise = 96 * sec }
	r.beat("w1", "p1", 1, long)
	r.report("p1")
	r.rows = nil
	for range 2 {
		if a := r.beat("w1", "p1", 1, long); !a.Credit {
			t.Fatalf("%+v", a)
		}
	}
	if got := r.members(); got != "" {
		t.Errorf("written while it lives by the longer one: %s", got)
	}
	if r.beat("w1", "p1", 1); r.members() != "p1:1m26s" {
		t.Errorf("it lives by the shorter one: %q", r.members())
	}
}

// TestACommitOfNoEnd: the commit of an end that the leader did not hand out takes out nothing that runs.
func TestACommitOfNoEnd(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	x := r.run("w1", "a")
	for _, kind := range []Synthetic{Real, NeverStarted, Lost} {
		if r.step(StatusCommitted{x, kind}); r.l.Live() != 1 {
			t.Errorf("%v: %d run", kind, r.l.Live())
		}
	}
}

// TestIDsOfRemovedProcessesAreBounded: a bounded number of ids, the newest.
func TestIDsOfRemovedProcessesAreBounded(t *testing.T) {
	r := newRoster(&term{t: DefaultTimeouts()})
	for i := range goneBound + 3 {
		name := fmt.Sprint("p", i)
		r.forget(r.newProcess(Member{Proc: Proc(name), Cell: CellName(name), DirID: name}, 0))
	}
	if len(r.gone) != goneBound || len(r.goneList) != goneBound {
		t.Errorf("%d ids are kept, %d in order", len(r.gone), len(r.goneList))
	}
	for p, kept := range map[Proc]bool{"p0": false, "p2": false, "p3": true, "p16386": true} {
		if _, known := r.gone[p]; known != kept {
			t.Errorf("%s is kept: %v", p, known)
		}
	}
}

// TestAnInvocationThatWasNotGiven in this term is neither kept nor applied: its number will be that of another start.
func TestAnInvocationThatWasNotGiven(t *testing.T) {
	r := newRig(t, withMembers(member("p2", "w2", 1)))
	r.healthy("w1", "p1", 1)
	given := r.run("w1", "a")
	r.beat("w2", "p2", 1)
	r.out = nil
	r.report("p2", Held{Run: x5(0, "b")}, Held{Run: x5(2, "b")}, Held{Run: x5(-1, "b")})
	if a := take[Audit](r); len(a) != 3 || a[0].Kind != AuditRefused || a[0].Proc != "p2" || r.l.Live() != 1 {
		t.Errorf("%+v, %d run", a, r.l.Live())
	}
	for _, proc := range []Proc{"p2", "nobody"} {
		r.status("w2", proc, StatusItem{Kind: StatusEnded, Run: x5(2, "b"), Status: "done"})
		if e := peek[Ended](r); len(e) != 0 {
			t.Errorf("%+v", e)
		}
		if a := one[AnswerStatus](r); !a.Answer.OK {
			t.Errorf("the cell repeats the report: %+v", a)
		}
	}
	if next := r.run("w1", "b"); next.Invocation.Counter != 2 || r.l.Live() != 2 {
		t.Errorf("%v", next)
	}
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: given, Status: "done"})
	if e := one[Ended](r); e.Run != given {
		t.Errorf("%+v", e)
	}
}

// TestALateEndIsAcknowledgedWhenDurable: that the newest rows have it is not enough.
func TestALateEndIsAcknowledgedWhenDurable(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	x := x5(3, "a")
	x.Invocation.Term.Revision = 4
	end := StatusItem{Kind: StatusEnded, Run: x, Status: "done"}
	r.status("w1", "p1", end)
	if e := one[Ended](r); e.Run != x || e.Kind != Real {
		t.Fatalf("%+v", e)
	}
	r.applied[x.Work] = applied{x.Invocation, true} // the commit is on its way
	r.status("w1", "p1", end)
	if len(r.out) != 0 {
		t.Errorf("not durable: %+v", r.out)
	}
	r.step(StatusCommitted{x, Real})
	if a := one[AnswerStatus](r); a.Answer.Run != x || !a.Answer.OK {
		t.Errorf("%+v", a)
	}
	r.status("w1", "p1", end)
	if a := one[AnswerStatus](r); !a.Answer.OK {
		t.Errorf("repeated: %+v", a)
	}
}

// TestPromisesThatCanBe: none, and up to a year.
func TestPromisesThatCanBe(t *testing.T) {
	for promise, want := range map[time.Duration]bool{
		-1: false, 0: true, 1: true, 365 * 24 * time.Hour: true, 365*24*time.Hour + 1: false, 1<<63 - 1: false,
	} {
		if got := (Member{Promise: promise}).Possible(); got != want {
			t.Errorf("%v: %v", promise, got)
		}
	}
}

// TestTheMarkOfARestoredStoreGoes when nothing of earlier terms runs that no row names, though this term has started
// work of a new name.
func TestTheMarkOfARestoredStoreGoes(t *testing.T) {
	r := newRig(t, func(c *Config) {
		withMembers(member("p1", "w1", 1))(c)
		c.Restored = true
	})
	old := x5(1, "old")
	old.Invocation.Term.Revision = 4
	r.beat("w1", "p1", 1)
	r.report("p1", Held{Run: old})
	r.probe("w1", "p1", true)
	for range 60 {
		r.beat("w1", "p1", 1)
		r.probe("w1", "p1", true)
		r.tick(2 * sec)
	}
	cleared := func() bool { return slices.Contains(r.rows, Row(ClearRestored{})) }
	if r.l.Wait(r.now).Active || cleared() {
		t.Fatalf("wait %v, cleared %v while old work of no row runs", r.l.Wait(r.now).Active, cleared())
	}
	r.run("w1", "new")
	r.out = nil
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: old, Status: "done"})
	r.apply(one[Ended](r))
	if r.tick(sec); !cleared() || r.l.Live() != 1 {
		t.Errorf("cleared %v, %d run", cleared(), r.l.Live())
	}
}

// TestAnEarlierProcessWithoutARow vouches for nothing: the work of a later one of its directory is on no list.
func TestAnEarlierProcessWithoutARow(t *testing.T) {
	for row, want := range map[bool]Verdict{false: Die, true: Welcome} {
		r := newRig(t, nil)
		r.beat("w1", "p1", 1)
		if row {
			r.report("p1")
		}
		if a := r.beat("w1", "p2", 2, func(h *Heartbeat) { h.HasWork = true }); a.Verdict != want {
			t.Errorf("p1 has a row: %v, p2 gets %v", row, a.Verdict)
		}
	}
}

// TestDeregisteringProvesTheDeathOfPredecessors: a process that leaves for good, and reports no remains of earlier
// ones, proves their death with its own.
func TestDeregisteringProvesTheDeathOfPredecessors(t *testing.T) {
	for gone, want := range map[bool][]Proof{true: {ProofSuccessor, ProofDeregistered}, false: {ProofDeregistered}} {
		r := newRig(t, withMembers(member("p1", "w1", 1)))
		r.beat("w1", "p2", 2, func(h *Heartbeat) { h.PredecessorsGone = false })
		r.step(ReportReceived{Report{Term: term5, Proc: "p2"}})
		r.out = nil
		r.beat("w1", "p2", 2, func(h *Heartbeat) { h.Deregister, h.PredecessorsGone = true, gone })
		var got []Proof
		for _, d := range take[Dead](r) {
			got = append(got, d.Proof)
		}
		if !slices.Equal(got, want) {
			t.Errorf("nothing is left: %v: %v, want %v", gone, got, want)
		}
	}
}

// TestNoProofBeforeTheReport: a process's statement on earlier ones counts when the leader has its list of their
// work.
func TestNoProofBeforeTheReport(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1)))
	r.beat("w1", "p2", 2)
	r.out = nil
	r.beat("w1", "p2", 2, func(h *Heartbeat) { h.Deregister = true })
	if d := take[Dead](r); len(d) != 1 || d[0].Proc != "p2" || r.l.IsDead("p1") {
		t.Errorf("%+v", d)
	}
}

// TestWorkOfAKnownProcessWithoutARow is on no list either.
func TestWorkOfAKnownProcessWithoutARow(t *testing.T) {
	r := newRig(t, nil)
	r.beat("w1", "p1", 1)
	if a := r.beat("w1", "p1", 1, func(h *Heartbeat) { h.HasWork = true }); a.Verdict != Die {
		t.Errorf("%+v", a)
	}
}
