package worker

import (
	"slices"
	"testing"

	"cantina/workerset"
)

// TestALateReportRevivesNoProcess: a report counts once, for a session that is NEW. A report of a process that was
// given up meanwhile, or of a past term, changes nothing.
func TestALateReportRevivesNoProcess(t *testing.T) {
	late := Held{Run: old(1, "a")}
	for name, c := range map[string]struct {
		before func(r *rig)
		term   int64
		state  State
	}{
		"the session was given up": {func(r *rig) { r.tick(70 * sec) }, term5.Revision, MustDie},
		"it has reported":          {func(r *rig) { r.report("p1") }, term5.Revision, Unhealthy},
		"asked by an earlier term": {func(*rig) {}, term5.Revision - 1, New},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.beat("w1", "p1", 1)
			c.before(r)
			r.out, r.rows = nil, nil
			report := Report{Term: term5, Proc: "p1", PredecessorsGone: true, Held: []Held{late}}
			report.Term.Revision = c.term
			r.step(ReportReceived{report})
			if r.state("p1") != c.state || r.l.Live() != 0 || len(r.rows)+len(r.out) != 0 {
				t.Errorf("%v, %v, %v %v", r.state("p1"), r.l.Model(), r.rows, r.out)
			}
		})
	}
	r := newRig(t, nil)
	r.step(ReportReceived{Report{Term: term5, Proc: "nobody", Held: []Held{late}}})
	if r.l.Live() != 0 || len(r.out) != 0 {
		t.Error("a process that has never beaten")
	}
}

// held2 is a leader with a run on p1, and with another cell's process p2 that has begun a session.
func held2(t *testing.T) (*rig, Run) {
	r := newRig(t, withMembers(member("p1", "w1", 1), member("p2", "w2", 1)))
	x := old(1, "a")
	r.beat("w1", "p1", 1)
	r.report("p1", Held{Run: x})
	r.beat("w2", "p2", 1)
	r.out = nil
	return r, x
}

func (r *rig) holder(x Run) Proc {
	r.t.Helper()
	vs := r.l.Running(x.Work)
	if len(vs) != 1 || vs[0].Run != x {
		r.t.Fatalf("%+v", vs)
	}
	return vs[0].Proc
}

// TestWorkOfAnotherProcessIsNotTaken, neither by a report nor by an end. Only a later process of the directory
// adopts the work of an earlier one.
func TestWorkOfAnotherProcessIsNotTaken(t *testing.T) {
	t.Run("reported by a process of another directory", func(t *testing.T) {
		r, x := held2(t)
		r.report("p2", Held{Run: x})
		if a := peek[Audit](r); r.holder(x) != "p1" ||
			!slices.ContainsFunc(a, func(a Audit) bool { return a.Kind == AuditRefused && a.Run == x }) {
			t.Errorf("held by %s, %v", r.holder(x), a)
		}
	})
	t.Run("reported by a process of another directory that is on no list", func(t *testing.T) {
		r, x := held2(t)
		r.beat("w4", "p4", 1)
		r.out = nil
		r.report("p4", Held{Run: x})
		if s := peek[SendSuicide](r); r.holder(x) != "p1" || len(s) != 1 || s[0].Call.Proc != "p4" || s[0].Call.All ||
			r.state("p4") != New {
			t.Errorf("held by %s, %v", r.holder(x), r.out)
		}
	})
	t.Run("adopted by the next process of the directory", func(t *testing.T) {
		r, x := held2(t)
		r.beat("w1", "p3", 2, func(h *Heartbeat) { h.Predecessor = "p1" })
		r.report("p3", Held{Run: x, Adopted: true})
		if r.holder(x) != "p3" {
			t.Errorf("held by %s", r.holder(x))
		}
	})
	t.Run("another work under the same invocation", func(t *testing.T) {
		r, x := held2(t)
		r.beat("w1", "p3", 2, func(h *Heartbeat) { h.Predecessor, h.PredecessorsGone = "p1", false })
		r.step(ReportReceived{Report{Term: term5, Proc: "p3", Predecessor: "p1",
			Held: []Held{{Run: Run{Work{"b", "n"}, x.Invocation}}}}})
		if r.holder(x) != "p1" || len(r.l.Running(Work{"b", "n"})) != 0 {
			t.Errorf("held by %s, %v", r.holder(x), r.l.Model())
		}
	})
	t.Run("ended by another process", func(t *testing.T) {
		r, x := held2(t)
		r.report("p2")
		r.out = nil
		r.status("w2", "p2", StatusItem{Kind: StatusEnded, Run: x})
		if a := peek[AnswerStatus](r); len(a) != 1 || a[0].Answer.OK || len(peek[Ended](r)) != 0 ||
			len(peek[Audit](r)) != 1 || r.holder(x) != "p1" {
			t.Errorf("%v", r.out)
		}
	})
	t.Run("ended by an unknown process", func(t *testing.T) {
		r, x := held2(t)
		r.status("w9", "p9", StatusItem{Kind: StatusEnded, Run: x})
		if a := peek[AnswerStatus](r); len(a) != 1 || a[0].Answer.OK || len(peek[Ended](r)) != 0 || r.holder(x) != "p1" {
			t.Errorf("%v", r.out)
		}
	})
	t.Run("ended, reported under another cell's name", func(t *testing.T) {
		r, x := held2(t)
		r.status("w2", "p1", StatusItem{Kind: StatusEnded, Run: x})
		if a := peek[AnswerStatus](r); len(a) != 1 || a[0].Answer.OK || len(peek[Ended](r)) != 0 {
			t.Errorf("%v", r.out)
		}
	})
	t.Run("not running, reported by another process", func(t *testing.T) {
		r, x := held2(t)
		r.report("p2")
		r.out = nil
		r.status("w2", "p2", StatusItem{Kind: StatusNotRunning, Run: x})
		if len(peek[Ended](r)) != 0 || r.holder(x) != "p1" {
			t.Errorf("%v", r.out)
		}
	})
	t.Run("another work under the same invocation ended", func(t *testing.T) {
		r, x := held2(t)
		r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: Run{Work{"b", "n"}, x.Invocation}})
		if len(peek[Ended](r)) != 0 || r.holder(x) != "p1" {
			t.Errorf("%v", r.out)
		}
	})
}

// TestTheRowIsDeletedAfterTheReportOfTheDeath, for any output that becomes durable first: an earlier one, or an end
// that was on its way.
func TestTheRowIsDeletedAfterTheReportOfTheDeath(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	r.tick(sec)
	x := r.run("w1", "a")
	r.answer("p1", x, RunOK)
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: x})
	r.out, r.rows, r.hold = nil, nil, true
	r.beat("w1", "p1", 1)
	r.step(Forget{Proc: "p1", By: "ann"})
	r.step(StatusCommitted{x, Real})
	reported, went := false, false
	for len(r.pending) > 0 {
		for _, out := range r.pending { // earlier outputs come before those that follow from the death
			if slices.Contains(out.Rows, Row(DeleteMember{"p1"})) && !reported {
				t.Fatal("the row is deleted before the report of the death")
			}
		}
		out := r.pending[0]
		r.pending = r.pending[1:]
		if slices.Contains(out.Rows, Row(DeleteMember{"p1"})) {
			went = true
			if list, ok := out.Rows[len(out.Rows)-1].(PutList); !ok || list.ID.Hash != (workerset.Hash{}) {
				t.Errorf("the list without it: %+v", out.Rows)
			}
		}
		reported = reported || slices.Contains(out.Effects, Effect(Dead{"w1", "p1", ProofOperator, ""}))
		next, err := r.l.Step(r.now, Committed{out.Seq})
		if err != nil {
			t.Fatal(err)
		}
		r.submit(next)
	}
	if !reported || !went {
		t.Fatalf("reported %v, deleted %v", reported, went)
	}
}

// TestEndedWorkIsNotDoubled: an operator gets a report of two runs that may be alive, not of one whose end waits
// for its acknowledgement.
func TestEndedWorkIsNotDoubled(t *testing.T) {
	for _, ended := range []bool{false, true} {
		r, x := held2(t)
		r.report("p2", Held{Run: Run{x.Work, old(2, "a").Invocation}, Ended: ended})
		doubled := slices.ContainsFunc(take[Audit](r), func(a Audit) bool { return a.Kind == AuditDoubled })
		if doubled == ended {
			t.Errorf("ended %v: reported as doubled: %v", ended, doubled)
		}
	}
}
