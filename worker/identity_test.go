package worker

import (
	"math"
	"testing"

	"cantina/fence"
	"cantina/workerset"
)

func ofCluster(name fence.Cluster) func(*Config) {
	return func(c *Config) { c.Cluster, c.Unix = name, 1_700_000_000 }
}

// TestForeignCellChangesNothing: a heartbeat of another cluster is answered with both identities, for any term, and
// nothing in it is believed.
func TestForeignCellChangesNothing(t *testing.T) {
	r := newRig(t, ofCluster("mine"))
	h := r.hb("w1", "p1", 1)
	h.Cluster, h.Term, h.HasWork = "other", fence.Term{Epoch: 9, Revision: 9}, true
	h.SetID = workerset.ID{Leader: fence.Term{Epoch: 1}, Version: 77}
	r.step(BeatReceived{h, true})
	a := one[AnswerBeat](r).Answer
	if a.Verdict != Foreign || a.Cluster != "mine" ||
		a.Reason != "cell w1 belongs to cluster other, this is cluster mine" || !a.Term.IsZero() {
		t.Fatalf("%+v", a)
	}
	if _, known := r.l.Session(r.now, "w1"); known || r.l.deposed || len(r.rows) > 0 {
		t.Fatalf("session %v, deposed %v, rows %v", known, r.l.deposed, r.rows)
	}
}

// TestAdoptIsAPersonsDecision: the verdict comes once an operator has ordered it, and is over when the cell has
// joined.
func TestAdoptIsAPersonsDecision(t *testing.T) {
	r := newRig(t, ofCluster("mine"))
	r.step(AdoptWanted{"w1", "ann"})
	r.out = nil
	ask := func(cluster fence.Cluster) Verdict {
		h := r.hb("w1", "p1", 1)
		h.Cluster = cluster
		r.step(BeatReceived{h, true})
		return one[AnswerBeat](r).Answer.Verdict
	}
	for i, want := range []struct {
		cluster fence.Cluster
		verdict Verdict
	}{{"other", Adopt}, {"mine", Welcome}, {"other", Foreign}} {
		if got := ask(want.cluster); got != want.verdict {
			t.Fatalf("%d: cluster %s: %v, want %v", i, want.cluster, got, want.verdict)
		}
		r.out = nil
	}
}

// TestImpossibleTermIsRefused: a term that this cluster cannot have given ends nothing, from any source, and is
// counted. A term that it can have given ends the present term.
func TestImpossibleTermIsRefused(t *testing.T) {
	far := fence.Term{Epoch: 9e18, Revision: 1}
	for name, bad := range map[string]fence.Term{
		"epoch far ahead":    far,
		"the last epoch":     {Epoch: math.MaxInt64, Revision: math.MaxInt64},
		"two years ahead":    {Epoch: 1_700_000_000 + 2*366*24*3600},
		"revision far ahead": {Epoch: 1, Revision: 1 << 60},
		"negative epoch":     {Epoch: -1, Revision: 7},
		"negative revision":  {Epoch: 7, Revision: -1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, ofCluster("mine"))
			h := r.hb("w1", "p1", 1)
			h.Cluster, h.Term = "mine", bad
			events := []Event{BeatReceived{h, true}, TermHeard{"w1", "p1", bad},
				StatusReceived{UpdateStatus{Cluster: "mine", Term: bad, Cell: "w1", Proc: "p1"}},
				RunAnswered{RunAnswer{Term: bad}}, NotifyAnswered{NotifyAnswer{Term: bad}},
				ReportReceived{Report{Term: bad, Proc: "p1"}}}
			for _, e := range events {
				r.step(e)
			}
			if r.l.deposed || r.l.RefusedTerms() != len(events) {
				t.Fatalf("deposed %v, refused %d", r.l.deposed, r.l.RefusedTerms())
			}
			audits := 0
			for _, e := range r.out {
				if a, ok := e.(Audit); ok && a.Kind == AuditTerm {
					audits++
				}
			}
			if audits != 3 { // the 1st, 2nd and 4th
				t.Errorf("%d audits", audits)
			}
			r.step(TermHeard{"w1", "p1", fence.Term{Epoch: 1, Revision: 6}})
			if !r.l.deposed {
				t.Error("a higher term of this cluster ends the term")
			}
		})
	}
}

// TestTermWithoutClusterIsRefused: a cell that never joined has no leader.
func TestTermWithoutClusterIsRefused(t *testing.T) {
	r := newRig(t, ofCluster("mine"))
	h := r.hb("w1", "p1", 1)
	h.Term = fence.Term{Epoch: 1, Revision: 6}
	r.step(BeatReceived{h, true})
	if a := one[AnswerBeat](r).Answer; a.Verdict != Refused || r.l.deposed {
		t.Fatalf("%+v, deposed %v", a, r.l.deposed)
	}
	h.Term = fence.Term{}
	r.step(BeatReceived{h, true})
	if a := one[AnswerBeat](r).Answer; a.Verdict != Welcome || a.Cluster != "mine" {
		t.Fatalf("%+v", a)
	}
}

func inCluster(name fence.Cluster) func(*CellConfig) {
	return func(c *CellConfig) { c.Cluster, c.Unix = name, 1_700_000_000 }
}

func from(cluster fence.Cluster) func(*HeartbeatAnswer) {
	return func(a *HeartbeatAnswer) { a.Cluster = cluster }
}

// TestCellJoinsOnce: by the first answer, or by a call that names its process; then it stays.
func TestCellJoinsOnce(t *testing.T) {
	for name, join := range map[string]func(r *cellRig){
		"answer": func(r *cellRig) { r.step(welcome(r.beat(), from("mine"))) },
		"call":   func(r *cellRig) { r.step(Addressed{"mine", "p1"}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newCellRig(t, nil)
			r.step(Addressed{"other", "p9"}) // for another process
			if r.c.Cluster() != "" {
				t.Fatal("joined by a call for another process")
			}
			join(r)
			r.step(Addressed{"other", "p1"})
			if r.c.Cluster() != "mine" || r.c.Kept().Cluster != "mine" || r.beat().Cluster != "mine" {
				t.Fatalf("%q", r.c.Cluster())
			}
		})
	}
}

// TestForeignLeaderChangesNothing: no answer of a foreign leader changes the cell's session, term or work.
func TestForeignLeaderChangesNothing(t *testing.T) {
	higher := fence.Term{Epoch: 9, Revision: 1}
	for name, change := range map[string]func(*HeartbeatAnswer){
		"welcome":            func(*HeartbeatAnswer) {},
		"die":                func(a *HeartbeatAnswer) { a.Verdict = Die },
		"die-all":            func(a *HeartbeatAnswer) { a.Verdict = DieAll },
		"foreign":            func(a *HeartbeatAnswer) { a.Verdict = Foreign },
		"adopt into nothing": func(a *HeartbeatAnswer) { a.Verdict, a.Cluster = Adopt, "" },
	} {
		t.Run(name, func(t *testing.T) {
			r := newCellRig(t, inCluster("mine"))
			r.c.cluster = ""
			r.healthyIn("mine")
			before, deadline := r.c.Term(), r.c.deadline
			r.step(welcome(r.beat(), from("other"), func(a *HeartbeatAnswer) { a.Term = higher }, change))
			heard := cellTake[ForeignHeard](r)
			if len(heard) != 1 || r.c.Term() != before || r.c.Cluster() != "mine" || r.c.State() != Healthy ||
				r.c.deadline != deadline || r.c.Ended() {
				t.Fatalf("%v, term %v, cluster %s, %v, deadline %v", heard, r.c.Term(), r.c.Cluster(), r.c.State(), r.c.deadline)
			}
		})
	}
}

// healthyIn is healthy under a leader of a cluster.
func (r *cellRig) healthyIn(cluster fence.Cluster) {
	r.t.Helper()
	r.step(Addressed{cluster, r.c.Proc()})
	r.step(welcome(r.beat(), from(cluster), func(a *HeartbeatAnswer) {
		a.State, a.Reported, a.Eligible, a.Credit = New,
			false, false, false
	}))
	r.step(ReportAsked{ReportRequest{term5, r.c.Proc()}})
	r.goodProbe()
	r.step(welcome(r.beat(), from(cluster)))
	if err := r.c.Accepts(r.now); err != nil {
		r.t.Fatal(err)
	}
	r.out = nil
}

// TestAdoptedCellBeginsAnew: deadline-bound work ends. The next session belongs to the new cluster and has nothing
// from the old one.
func TestAdoptedCellBeginsAnew(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthyIn("mine")
	run := x5(1, "j")
	r.step(RunAsked{RunTask{Term: term5, Proc: r.c.Proc(), Run: run, Seq: 1}})
	r.step(welcome(r.beat(), from("other"), func(a *HeartbeatAnswer) {
		a.Verdict, a.Term = Adopt,
			fence.Term{Epoch: 9, Revision: 1}
	}))
	if len(cellTake[EndBound](r)) != 1 {
		t.Fatal("its deadline-bound work has to end")
	}
	r.step(WorkEnded{run, "x"})
	r.tick(3 * sec)
	if len(cellTake[NewSession](r)) != 1 {
		t.Fatal("no new session")
	}
	r.step(SessionBegun{"p2", 2})
	h := r.beat()
	if h.Cluster != "other" || !h.Term.IsZero() || h.Epoch != 0 || !h.SetID.IsZero() || h.HasWork || h.Predecessor != "" ||
		!h.PredecessorsGone || len(r.c.Held()) > 0 {
		t.Fatalf("%+v", h)
	}
}

// TestCellRefusesImpossibleTerm: it would refuse its own leaders for ever.
func TestCellRefusesImpossibleTerm(t *testing.T) {
	for name, bad := range map[string]fence.Term{"epoch": {Epoch: 9e18}, "revision": {Epoch: 1, Revision: 1 << 60}} {
		t.Run(name, func(t *testing.T) {
			r := newCellRig(t, inCluster("mine"))
			r.c.cluster = ""
			r.healthyIn("mine")
			r.step(CallHeard{bad})
			r.step(SuicideAsked{Suicide{bad, r.c.Proc(), true}})
			r.step(welcome(r.beat(), from("mine"), func(a *HeartbeatAnswer) { a.Term = bad }))
			if n := len(cellTake[TermRefused](r)); n == 0 || r.c.Term() != term5 || r.c.State() != Healthy || r.c.Ended() {
				t.Fatalf("%d, term %v, %v", n, r.c.Term(), r.c.State())
			}
		})
	}
}
