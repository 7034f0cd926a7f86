package worker

import (
	"errors"
	"math"
	"testing"
	"time"

	"cantina/fence"
)

// cellRig is a cell with the default time-outs.
type cellRig struct {
	t   *testing.T
	c   *Cell
	now time.Duration
	out []CellEffect
	n   int64
}

func newCellRig(t *testing.T, set func(*CellConfig)) *cellRig {
	r := &cellRig{t: t, now: 500 * sec}
	c := CellConfig{Cell: "w1", Proc: "p1", Started: 1, DirID: "f", Boot: "b", Now: r.now, Timeouts: DefaultTimeouts(),
		Gone: true}
	if set != nil {
		set(&c)
	}
	r.c = NewCell(c)
	return r
}

func (r *cellRig) step(e CellEvent) {
	r.t.Helper()
	r.out = append(r.out, r.c.Step(r.now, e)...)
	if _, ok := e.(CellTick); ok && r.c.Due(r.now) <= r.now {
		r.t.Errorf("after a tick at %v, the next is due at %v", r.now, r.c.Due(r.now))
	}
}

func (r *cellRig) tick(d time.Duration) {
	for end := r.now + d; r.now < end; {
		r.now = min(r.now+sec, end)
		r.step(CellTick{})
	}
}

func cellTake[E CellEffect](r *cellRig) []E {
	var es []E
	for _, e := range r.out {
		if e, ok := e.(E); ok {
			es = append(es, e)
		}
	}
	r.out = nil
	return es
}

func cellOne[E CellEffect](r *cellRig) E {
	r.t.Helper()
	es := cellTake[E](r)
	if len(es) != 1 {
		r.t.Fatalf("want one %T, got %v", *new(E), es)
	}
	return es[0]
}

// beat makes the cell send a heartbeat and returns it.
func (r *cellRig) beat() Heartbeat {
	r.t.Helper()
	r.out = nil
	for range 40 {
		r.step(LinkBroken{})
		if bs := cellTake[SendBeat](r); len(bs) > 0 {
			return bs[len(bs)-1].Beat
		}
		r.now += sec / 10
	}
	r.t.Fatal("no heartbeat")
	return Heartbeat{}
}

func welcome(h Heartbeat, set ...func(*HeartbeatAnswer)) BeatAnswered {
	a := HeartbeatAnswer{Protocol: Protocol, Term: term5, Proc: h.Proc, Beat: h.Beat, State: Healthy, Reported: true,
		Eligible: true,
		Credit:   true, Promise: 86 * sec, Timeouts: DefaultTimeouts()}
	for _, f := range set {
		f(&a)
	}
	return BeatAnswered{a}
}

// healthy brings the cell to HEALTHY under term5.
func (r *cellRig) healthy() {
	r.t.Helper()
	h := r.beat()
	r.step(welcome(h, func(a *HeartbeatAnswer) { a.State, a.Reported, a.Eligible, a.Credit = New, false, false, false }))
	r.step(ReportAsked{ReportRequest{term5, r.c.Proc()}})
	r.goodProbe()
	r.step(welcome(r.beat()))
	if err := r.c.Accepts(r.now); err != nil {
		r.t.Fatal(err)
	}
	r.out = nil
}

func (r *cellRig) goodProbe() {
	r.t.Helper()
	r.n++
	beat := int64(1)
	if n := len(r.c.beats.sent); n > 0 {
		beat = r.c.beats.sent[n-1].number
	}
	r.step(RunAsked{RunTask{Term: term5, Proc: r.c.Proc(), Probe: r.n, Beat: beat}})
	r.step(ProbeEnded{Probe: r.n, OK: true})
	r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: r.c.Proc(), Kind: StatusProbe, Probe: r.n, OK: true}})
}

func x5(n int64, job string) Run {
	return Run{Work{job, "n"}, fence.Invocation{Term: term5, Counter: n}}
}

func (r *cellRig) run(x Run, seq int64) RunAnswer {
	r.t.Helper()
	r.out = nil
	r.step(RunAsked{RunTask{Term: term5, Proc: r.c.Proc(), Run: x, Seq: seq}})
	for _, e := range r.out {
		if a, ok := e.(AnswerRun); ok {
			return a.Answer
		}
	}
	r.t.Fatal("no answer")
	return RunAnswer{}
}

// TestRunTask: the order of refusals, and that a refusal is final.
func TestRunTask(t *testing.T) {
	r := newCellRig(t, nil)
	r.step(welcome(r.beat(), func(a *HeartbeatAnswer) { a.State, a.Credit = New, false }))
	if a := r.run(x5(1, "a"), 0); a.Result != RunRefused {
		t.Fatalf("NEW: %+v", a)
	}
	r.healthy()
	if a := r.run(x5(1, "a"), 0); a.Result != RunStale {
		t.Fatalf("a copy of a refused call: %+v", a)
	}
	if a := r.run(x5(2, "a"), 0); a.Result != RunOK || len(cellTake[Launch](r)) != 1 {
		t.Fatalf("%+v", a)
	}
	if a := r.run(x5(2, "a"), 0); a.Result != RunOK || len(cellTake[Launch](r)) != 0 {
		t.Fatalf("held already: %+v", a)
	}
	if a := r.run(x5(3, "a"), 0); a.Result != RunRefused {
		t.Fatalf("another invocation of the task: %+v", a)
	}
	r.out = nil
	r.step(RunAsked{RunTask{Term: term5, Proc: "p0", Run: x5(4, "b")}})
	if a := cellOne[AnswerRun](r); a.Answer.Result != RunUnknown {
		t.Fatalf("meant for another process: %+v", a)
	}
	r.step(RunAsked{RunTask{Term: fence.Term{Epoch: 1, Revision: 4}, Proc: "p1", Run: x5(4, "b")}})
	if a := cellOne[AnswerRun](r); a.Answer.Result != RunUnknown || a.Answer.Term != term5 {
		t.Fatalf("a deposed leader hears the term: %+v", a)
	}
	foreign := x5(5, "c")
	foreign.Invocation.Term = fence.Term{Epoch: 1, Revision: 4}
	if a := r.run(foreign, 0); a.Result != RunStale {
		t.Fatalf("an invocation of another term: %+v", a)
	}
	r.step(welcome(r.beat(), func(a *HeartbeatAnswer) { a.Resolved = 9 }))
	if a := r.run(x5(9, "d"), 0); a.Result != RunStale || len(r.c.seen) != 0 {
		t.Fatalf("resolved: %+v, %v", a, r.c.seen)
	}
	r.step(LeaveAsked{})
	if a := r.run(x5(10, "e"), 0); a.Result != RunRefused {
		t.Fatalf("leaving: %+v", a)
	}
}

// TestSequence: a run that was declared not running never starts late (runTask 1 lost, notify 2, runTask 2, then
// runTask 1 arrives).
func TestSequence(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	late := x5(1, "a")
	r.step(NotifyAsked{Notify{term5, "p1", 2, []Run{late}}})
	if a := cellTake[AnswerNotify](r); len(a) != 1 || !a[0].Answer.OK {
		t.Fatalf("%v", a)
	}
	if a := r.run(x5(2, "b"), 2); a.Result != RunOK {
		t.Fatalf("%+v", a)
	}
	if a := r.run(late, 1); a.Result != RunRefused {
		t.Fatalf("%+v", a)
	}
	r.step(NotifyAsked{Notify{term5, "p1", 2, nil}})
	if cellOne[AnswerNotify](r).Answer.OK {
		t.Fatal("an equal number")
	}
	r.step(NotifyAsked{Notify{term5, "p0", 7, nil}})
	if cellOne[AnswerNotify](r).Answer.OK {
		t.Fatal("another process")
	}
	r.step(NotifyAsked{Notify{term5, "p1", 7, []Run{x5(2, "b"), late}}})
	n := 0
	for _, s := range r.c.outbox.notes {
		if s.item.Kind == StatusNotRunning {
			n++
		}
	}
	if n != 1 || r.c.seq != 7 {
		t.Fatalf("held ones and known ones are not reported again: %d", n)
	}
	r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Kind: StatusNotRunning, Run: late, OK: true}})
	if len(r.c.outbox.notes) != 0 {
		t.Fatal("acknowledged")
	}
}

// TestCreditCountsFromSending, not from the answer's arrival.
func TestCreditCountsFromSending(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	r.now += sec
	h := r.beat()
	sent := r.now
	r.now += 10 * sec
	r.step(welcome(h))
	if d := cellOne[SetDeadline](r); d.At != sent+81*sec {
		t.Fatalf("%v, want %v", d.At, sent+81*sec)
	}
	later := r.beat()
	r.step(welcome(later))
	r.out = nil
	r.step(welcome(h, func(a *HeartbeatAnswer) { a.Promise = 500 * sec }))
	if len(cellTake[SetDeadline](r)) != 0 {
		t.Fatal("an answer to an older beat")
	}
	r.step(welcome(Heartbeat{Proc: "p1", Beat: 99}))
	r.step(welcome(Heartbeat{Proc: "p0", Beat: r.beat().Beat}))
	if len(cellTake[SetDeadline](r)) != 0 {
		t.Fatal("an answer to no beat of this process")
	}
	short := r.beat()
	r.step(welcome(short, func(a *HeartbeatAnswer) { a.Promise = 50 * sec }))
	if d := cellOne[SetDeadline](r); d.At != r.now+45*sec || r.c.Kept().Promise != 50*sec {
		t.Fatalf("a shorter promise shortens the deadline: %v", d.At)
	}
	r.step(welcome(r.beat(), func(a *HeartbeatAnswer) { a.Promise = 0 }))
	if d := cellOne[SetDeadline](r); d.At != 0 {
		t.Fatalf("no deadline: %v", d.At)
	}
}

// TestCellGivesUpFirst: silence makes it UNHEALTHY, then MUST_DIE one check
// interval before the leader; work ends, and a new session begins.
func TestCellGivesUpFirst(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	x := x5(1, "a")
	r.run(x, 0)
	at := r.c.health.LastBeat
	r.out = nil
	r.tick(16 * sec)
	if c := cellTake[CellChanged](r); len(c) != 1 || c[0].To != Unhealthy || r.c.Accepts(r.now) == nil {
		t.Fatalf("%v", c)
	}
	for r.c.State() != MustDie {
		r.tick(sec)
	}
	if took := r.now - at; took > 75*sec || took < 70*sec {
		t.Fatalf("after %v", took)
	}
	if e := cellOne[EndBound](r); e.Grace != 5*sec {
		t.Fatalf("%+v", e)
	}
	r.step(ReportAsked{ReportRequest{term5, "p1"}})
	if len(cellTake[AnswerReport](r)) != 0 {
		t.Fatal("a dying session answers no question")
	}
	r.tick(2 * sec)
	if len(cellTake[NewSession](r)) != 0 {
		t.Fatal("its work is alive")
	}
	r.step(WorkEnded{x, "killed"})
	r.tick(sec)
	if len(cellTake[NewSession](r)) != 1 {
		t.Fatal("now it is over")
	}
	r.step(SessionBegun{"p2", 2})
	if r.c.Proc() != "p2" || r.c.State() != New {
		t.Fatal("a new session")
	}
	h := r.beat()
	if h.Predecessor != "p1" || !h.PredecessorsGone || h.Started != 2 || h.HasWork {
		t.Fatalf("%+v", h)
	}
	if held := r.c.Held(); len(held) != 1 || !held[0].Ended || !held[0].Adopted {
		t.Fatalf("its status is not lost: %v", held)
	}
	r.step(SessionBegun{"p3", 3})
	if r.c.Proc() != "p2" {
		t.Fatal("it was not requested")
	}
}

// TestStuckWorkIsAdopted: work that does not end in time goes over to the next session.
func TestStuckWorkIsAdopted(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	r.run(x5(1, "a"), 0)
	r.step(SuicideAsked{Suicide{term5, "p1", false}})
	if len(cellTake[EndBound](r)) != 1 {
		t.Fatal("DIE")
	}
	r.tick(11 * sec)
	if len(cellTake[NewSession](r)) != 1 {
		t.Fatal("twice the kill wait is enough")
	}
	r.step(SessionBegun{"p2", 2})
	if h := r.beat(); !h.HasWork || h.Proc != "p2" {
		t.Fatalf("%+v", h)
	}
	r.tick(90 * sec)
	if r.c.State() == MustDie && len(cellTake[EndBound](r)) > 1 {
		t.Fatal("the old deadline is acted on once")
	}
}

// TestDeadline: work without credit ends at the deadline also before any contact.
func TestDeadline(t *testing.T) {
	x := x5(3, "a")
	r := newCellRig(t, func(c *CellConfig) {
		c.Adopted, c.Deadline, c.Promise = []Held{{Run: x, Adopted: true}}, 510*sec, 70*sec
	})
	if h := r.beat(); !h.HasWork || h.Promise != 70*sec {
		t.Fatalf("%+v", h)
	}
	r.tick(11 * sec)
	if r.c.State() != MustDie || len(cellTake[EndBound](r)) != 1 {
		t.Fatal("the predecessor's deadline")
	}
	r.now += 20 * sec
	if err := r.c.Accepts(r.now); !errors.Is(err, ErrNotAccepting) {
		t.Fatal(err)
	}
}

// TestProbe: dated by the beat before it, one at a time, the newest answer counts.
func TestProbe(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	h := r.beat()
	sent := r.now
	r.step(welcome(h))
	r.now += 3 * sec
	r.step(RunAsked{RunTask{Term: term5, Proc: "p1", Probe: 7, Beat: h.Beat}})
	r.step(RunAsked{RunTask{Term: term5, Proc: "p1", Probe: 8, Beat: h.Beat}})
	if p := cellOne[StartProbe](r); p.Probe != 7 {
		t.Fatalf("%+v", p)
	}
	r.step(ProbeEnded{Probe: 8, OK: true})
	if len(cellTake[SendStatus](r)) != 0 {
		t.Fatal("not running")
	}
	r.step(ProbeEnded{Probe: 7, Reason: "no room"})
	if i := cellOne[SendStatus](r).Update.Items; len(i) != 1 || i[0].Probe != 7 || i[0].OK || i[0].Reason != "no room" {
		t.Fatalf("%+v", i)
	}
	r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Kind: StatusProbe, Probe: 6, OK: true}})
	r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Kind: StatusProbe, Probe: 7, OK: true}})
	if r.c.health.LastProbe != sent {
		t.Fatalf("%v, want %v", r.c.health.LastProbe, sent)
	}
}

// TestTheCellDeregisters: when empty; the answer lets the process go.
func TestTheCellDeregisters(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	x := x5(1, "a")
	r.run(x, 0)
	r.step(LeaveAsked{})
	if h := r.beat(); h.Deregister {
		t.Fatal("not empty")
	}
	r.step(WorkEnded{x, ""})
	r.step(StatusAnswered{StatusAnswer{Term: term5, Proc: "p1", Run: x, OK: true}})
	r.step(BoundCount{Containers: 2})
	if h := r.beat(); h.Deregister || !h.HasWork {
		t.Fatalf("%+v", h)
	}
	r.step(BoundCount{Containers: 0})
	h := r.beat()
	if !h.Deregister {
		t.Fatalf("%+v", h)
	}
	r.step(welcome(h, func(a *HeartbeatAnswer) { a.State = MustDie }))
	if len(cellTake[Exit](r)) != 1 || !r.c.Ended() {
		t.Fatal("heard")
	}
}

// TestPredecessorsCleared is reported with the next beat, which comes at once.
func TestPredecessorsCleared(t *testing.T) {
	r := newCellRig(t, func(c *CellConfig) { c.Gone, c.Predecessor = false, "p0" })
	if h := r.beat(); h.PredecessorsGone || h.Predecessor != "p0" {
		t.Fatalf("%+v", h)
	}
	r.out = nil
	r.step(PredecessorsCleared{})
	if b := cellOne[SendBeat](r); !b.Beat.PredecessorsGone {
		t.Fatalf("%+v", b)
	}
}

// TestNeverLostBeforeContact: without a leader nothing times out.
func TestNeverLostBeforeContact(t *testing.T) {
	r := newCellRig(t, nil)
	r.tick(1000 * sec)
	if r.c.State() != New {
		t.Fatal(r.c.State())
	}
	n := len(cellTake[SendBeat](r))
	if n < 200 || n > 260 {
		t.Fatalf("%d beats", n)
	}
}

func TestNames(t *testing.T) {
	for _, s := range []interface{ String() string }{New, Unhealthy, Healthy, MustDie, State(9), Welcome, Refused, Die,
		DieAll, Verdict(9),
		RunUnknown, RunOK, RunNeverSent, RunRefused, RunStale, RunResult(9), ProofDeregistered, ProofExpiry, ProofSuccessor,
		ProofBoot,
		ProofOperator, Proof(9), Real, NeverStarted, Lost, Synthetic(9), HoldReason(99)} {
		if s.String() == "" {
			t.Errorf("%#v has no name", s)
		}
	}
	seen := map[string]bool{}
	for h := HoldNone; h <= HoldDeposed; h++ {
		if s := h.String(); s == "unknown" || seen[s] {
			t.Errorf("%d: %q", h, s)
		} else {
			seen[s] = true
		}
	}
	if r := x5(1, "a"); r.Compare(x5(2, "a")) >= 0 || r.Work.String() != "a/n" || r.Compare(x5(1, "b")) >= 0 {
		t.Fatal("order")
	}
}

// TestAccepts: each reason against new work, alone.
func TestAccepts(t *testing.T) {
	for name, corrupt := range map[string]func(*cellRig){
		"leaving":     func(r *cellRig) { r.c.leaving = true },
		"renewing":    func(r *cellRig) { r.c.renewing = true },
		"ended":       func(r *cellRig) { r.c.ended = true },
		"unhealthy":   func(r *cellRig) { r.c.health.State = Unhealthy },
		"not durable": func(r *cellRig) { r.c.eligible = false },
		"no credit":   func(r *cellRig) { r.c.credited = false },
		"too late":    func(r *cellRig) { r.now = r.c.deadline },
	} {
		r := newCellRig(t, nil)
		r.healthy()
		corrupt(r)
		if err := r.c.Accepts(r.now); !errors.Is(err, ErrNotAccepting) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := newCellRig(t, nil)
	r.healthy()
	r.step(welcome(r.beat(), func(a *HeartbeatAnswer) { a.Verdict = Refused }))
	if at := r.c.beats.next - r.now; at != sec {
		t.Errorf("after a refusal the next heartbeat is due in %v", at)
	}
}

// TestASuspendedLaptopLosesNothing: where leader and cell are one process there is no
// deadline, and a jump of the clock ends nothing.
func TestASuspendedLaptopLosesNothing(t *testing.T) {
	r := newCellRig(t, nil)
	r.healthy()
	h := r.beat()
	r.step(welcome(h, func(a *HeartbeatAnswer) { a.Promise = 0 }))
	r.run(x5(1, "j"), 0)
	r.out = nil
	r.now += 8 * time.Hour
	for range 20 { // no credit yet: the lease has slept too
		r.step(CellTick{})
		r.now += sec / 10
	}
	for _, e := range r.out {
		switch e.(type) {
		case EndBound, EndAll, NewSession:
			t.Errorf("%T after a suspension", e)
		}
	}
	h = r.beat()
	r.step(welcome(h, func(a *HeartbeatAnswer) { a.Promise = 0 }))
	r.goodProbe()
	r.step(welcome(r.beat(), func(a *HeartbeatAnswer) { a.Promise = 0 }))
	if len(r.c.Held()) != 1 || r.c.State() != Healthy {
		t.Errorf("%v, %v", r.c.Held(), r.c.State())
	}
}

// TestImpossibleAnswersAreDropped: no answer makes a cell spin, or gives credit for ever.
func TestImpossibleAnswersAreDropped(t *testing.T) {
	for name, set := range map[string]func(*HeartbeatAnswer){
		"no time-outs":   func(a *HeartbeatAnswer) { a.Timeouts = Timeouts{} },
		"promise":        func(a *HeartbeatAnswer) { a.Promise = math.MaxInt64 },
		"negative":       func(a *HeartbeatAnswer) { a.Promise = -sec },
		"never too long": func(a *HeartbeatAnswer) { a.Timeouts.MaxDiesWithin, a.Promise = math.MaxInt64, math.MaxInt64 },
	} {
		r := newCellRig(t, nil)
		r.healthy()
		before := r.c.Kept()
		h := r.beat()
		r.step(welcome(h, set))
		if r.c.Kept() != before {
			t.Errorf("%s: %+v", name, r.c.Kept())
		}
		r.out = nil
		for range 1000 {
			r.step(CellTick{})
		}
		if n := len(cellTake[SendBeat](r)); n > 1 {
			t.Errorf("%s: %d heartbeats at one moment", name, n)
		}
	}
}
