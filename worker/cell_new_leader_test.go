package worker

import (
	"slices"
	"testing"

	"cantina/fence"
	"cantina/workerset"
)

// TestNewLeader: a higher term in any message makes the session NEW, forgets the
// sequence, and keeps work and statuses; lower terms are refused.
func TestNewLeader(t *testing.T) {
	high := fence.Term{Epoch: 1, Revision: 9}
	for name, e := range map[string]CellEvent{
		"report": ReportAsked{ReportRequest{high, "p1"}}, "run": RunAsked{RunTask{Term: high, Proc: "p1", Run: x5(9, "z")}},
		"notify": NotifyAsked{Notify{high, "p1", 1, nil}}, "status": StatusAnswered{StatusAnswer{Term: high, Proc: "p1"}},
		"call": CallHeard{high}, "kill": KillAsked{KillTask{high, "p1", x5(1, "a")}},
		"suicide": SuicideAsked{Suicide{high, "p1", false}},
	} {
		r := newCellRig(t, nil)
		r.healthy()
		r.run(x5(1, "a"), 0)
		r.run(x5(2, "b"), 0)
		r.step(WorkEnded{x5(2, "b"), "done"})
		r.step(NotifyAsked{Notify{term5, "p1", 4, []Run{x5(7, "q")}}})
		r.out = nil
		r.step(e)
		if r.c.Term() != high || r.c.Accepts(r.now) == nil {
			t.Errorf("%s: term %v", name, r.c.Term())
		}
		if name == "suicide" {
			continue
		}
		if r.c.State() != New || name != "notify" && r.c.seq != 0 || len(r.c.Held()) != 2 {
			t.Errorf("%s: %v, seq %d", name, r.c.State(), r.c.seq)
		}
		r.out = nil
		r.step(ReportAsked{ReportRequest{high, "p1"}})
		got := cellTake[AnswerReport](r)
		if len(got) != 1 || got[0].Report.Term != high || len(got[0].Report.Held) != 2 || !got[0].Report.Held[1].Ended {
			t.Errorf("%s: %+v", name, got)
		}
		r.step(ReportAsked{ReportRequest{term5, "p1"}})
		if got := cellTake[AnswerReport](r); len(got) != 1 || got[0].Report.Term != high {
			t.Errorf("%s: a deposed leader hears the term: %+v", name, got)
		}
		r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Run: x5(2, "b"), OK: true}})
		if len(r.c.Held()) != 2 {
			t.Errorf("%s: a late acknowledgement of the old leader", name)
		}
		r.step(welcome(r.beat()))
		if r.c.State() != New {
			t.Errorf("%s: a late answer of the old leader", name)
		}
		r.tick(4 * sec)
		found := false
		for _, s := range cellTake[SendStatus](r) {
			found = found || slices.ContainsFunc(s.Update.Items,
				func(i StatusItem) bool { return i.Run == x5(2, "b") && s.Update.Term == high })
		}
		if !found {
			t.Errorf("%s: the status is sent to the new leader", name)
		}
	}
}

// TestBeatsAtOnce: after a new term, a report, a broken connection.
func TestBeatsAtOnce(t *testing.T) {
	r := newCellRig(t, nil)
	h := r.beat()
	r.step(welcome(h, func(a *HeartbeatAnswer) { a.State, a.Reported, a.Credit = New, false, false }))
	if len(cellTake[SendBeat](r)) != 1 {
		t.Fatal("the term is new")
	}
	r.step(ReportAsked{ReportRequest{term5, "p1"}})
	r.now += sec / 10
	r.step(CellTick{})
	if len(cellTake[SendBeat](r)) != 1 {
		t.Fatal("it has reported")
	}
	r.goodProbe()
	r.step(welcome(r.beat()))
	r.out = nil
	r.tick(4 * sec)
	if n := len(cellTake[SendBeat](r)); n != 0 {
		t.Fatalf("%d beats within one period", n)
	}
	r.step(LinkBroken{})
	b := cellOne[SendBeat](r)
	r.step(BeatFailed{b.Beat.Beat - 1})
	r.tick(sec)
	if len(cellTake[SendBeat](r)) != 0 {
		t.Fatal("an older beat failed")
	}
	b = SendBeat{r.beat()}
	r.step(BeatFailed{b.Beat.Beat})
	r.tick(sec)
	if len(cellTake[SendBeat](r)) != 1 {
		t.Fatal("again within a second")
	}
}

// TestVerdicts: refused, die, die all.
func TestVerdicts(t *testing.T) {
	verdict := func(r *cellRig, v Verdict) {
		r.t.Helper()
		r.step(welcome(r.beat(), func(a *HeartbeatAnswer) { a.Verdict = v }))
	}
	r := newCellRig(t, nil)
	r.healthy()
	verdict(r, Refused)
	if r.c.State() != Healthy {
		t.Fatal("refused changes nothing")
	}
	verdict(r, Die)
	if len(cellTake[NewSession](r)) != 1 || r.c.State() != MustDie {
		t.Fatal("nothing runs: a new session at once")
	}
	r.step(SessionBegun{"p2", 2})
	r.beat()
	r.step(SuicideAsked{Suicide{term5, "p1", true}})
	if r.c.Ended() {
		t.Fatal("meant for another process")
	}
	verdict(r, DieAll)
	if len(cellTake[EndAll](r)) != 1 || !r.c.Ended() || r.c.Step(r.now, CellTick{}) != nil {
		t.Fatal("everything ends")
	}
	// Scenario 29 and 30: a request ends all work first.
	s := newCellRig(t, nil)
	s.healthy()
	s.run(x5(1, "a"), 0)
	s.step(SuicideAsked{Suicide{term5, "p1", true}})
	if len(cellTake[EndAll](s)) != 1 {
		t.Fatal("requestSuicide")
	}
	m := newCellRig(t, nil)
	m.healthy()
	m.step(welcome(m.beat(), func(a *HeartbeatAnswer) { a.State = MustDie }))
	if m.c.State() != MustDie {
		t.Fatal("the leader's state is followed")
	}
}

// TestStatusLists is scenario 31: running work, and unacknowledged ends, are reported.
func TestStatusLists(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	a, b := x5(1, "a"), x5(2, "b")
	r.run(a, 0)
	r.run(b, 0)
	if len(r.c.Held()) != 2 {
		t.Fatal("two")
	}
	r.out = nil
	r.step(KillAsked{KillTask{term5, "p1", a}})
	if s, k := cellTake[StopWork](r), 0; len(s) != 1 || s[0].Run != a || k != 0 {
		t.Fatalf("%v", s)
	}
	r.step(KillAsked{KillTask{term5, "p1", x5(9, "z")}})
	if k := cellOne[AnswerKill](r); k.Found {
		t.Fatal("not held")
	}
	r.step(WorkEnded{a, "killed"})
	if u := cellOne[SendStatus](r).Update; len(u.Items) != 1 || u.Items[0].Status != "killed" {
		t.Fatalf("%+v", u)
	}
	if len(r.c.Held()) != 2 || r.run(x5(3, "a"), 0).Result != RunRefused {
		t.Fatal("held until acknowledged")
	}
	r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Run: a}})
	r.tick(sec)
	if len(cellTake[SendStatus](r)) != 1 {
		t.Fatal("sent again")
	}
	r.step(StatusFailed{})
	r.tick(sec)
	if len(cellTake[SendStatus](r)) != 1 {
		t.Fatal("and again")
	}
	r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Run: a, OK: true}})
	if h := r.c.Held(); len(h) != 1 || h[0].Run != b {
		t.Fatalf("%v", h)
	}
	r.step(WorkEnded{a, "twice"})
	r.step(WorkEnded{b, "done"})
	r.step(KillAsked{KillTask{term5, "p1", b}})
	if len(cellTake[StopWork](r)) != 0 {
		t.Fatal("it has ended")
	}
	if r.run(x5(4, "a"), 0).Result != RunOK {
		t.Fatal("free again")
	}
}

// TestProtocolOfTheLeader is scenario 32.
func TestProtocolOfTheLeader(t *testing.T) {
	r := newCellRig(t, nil)
	for range 3 {
		r.step(welcome(r.beat(), func(a *HeartbeatAnswer) { a.Protocol = -1 }))
		if !r.c.Term().IsZero() {
			t.Fatal("associated")
		}
	}
	r.step(welcome(r.beat()))
	if r.c.Term() != term5 {
		t.Fatal("associated now")
	}
}

// TestSetEcho is scenario 33: the newest set of one leader is shown, never an older one.
func TestSetEcho(t *testing.T) {
	id := func(rev int64, v uint64) workerset.ID {
		return workerset.ID{Leader: fence.Term{Epoch: 1, Revision: rev}, Version: v}
	}
	r := newCellRig(t, nil)
	h := r.beat()
	if !h.SetID.IsZero() {
		t.Fatal("nothing seen")
	}
	for _, c := range []struct{ given, shown workerset.ID }{
		{id(5, 3), id(5, 3)}, {id(5, 4), id(5, 4)}, {id(5, 2), id(5, 4)}, {id(5, 4+1<<63), id(5, 4)},
		{workerset.ID{}, id(5, 4)}, {id(6, 1), id(6, 1)}, {workerset.ID{}, id(6, 1)},
	} {
		r.step(welcome(h, func(a *HeartbeatAnswer) { a.SetID = c.given }))
		if h = r.beat(); h.SetID != c.shown || r.c.Kept().SetID != c.shown {
			t.Fatalf("given %v, shows %v", c.given, h.SetID)
		}
	}
}

// TestAnyAnswerRaisesTheTerm: also one to a beat that was overtaken.
func TestAnyAnswerRaisesTheTerm(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	first := r.beat()
	r.step(welcome(r.beat()))
	higher := fence.Term{Epoch: term5.Epoch, Revision: term5.Revision + 1}
	r.step(welcome(first, func(a *HeartbeatAnswer) { a.Term = higher }))
	if r.c.Term() != higher || r.c.State() != New {
		t.Errorf("%v, %v", r.c.Term(), r.c.State())
	}
}

// TestManyQuestions: a question is noted once for any number of requests, and many are written in little time.
func TestManyQuestions(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	var runs []Run
	for n := range int64(50_000) {
		runs = append(runs, x5(n+1, "j"))
	}
	for seq := range int64(3) {
		r.step(NotifyAsked{Notify{term5, "p1", seq + 1, runs}})
	}
	if len(r.c.outbox.notes) != len(runs) {
		t.Errorf("%d notes", len(r.c.outbox.notes))
	}
}
