package worker

import (
	"slices"
	"testing"
	"time"

	"cantina/fence"
	"cantina/workerset"
)

// TestAClusterOfListedProcessesIsNotAlone for any version of its list.
func TestAClusterOfListedProcessesIsNotAlone(t *testing.T) {
	c := Config{Term: term5, Now: sec, Timeouts: DefaultTimeouts(), NoDeadline: true, Own: "f",
		Members: []Member{member("p1", "w1", 1)}}
	l, err := NewLeader(c)
	if err != nil {
		t.Fatal(err)
	}
	if out := l.Start(); slices.Contains(out.Rows, Row(PutAlone{})) {
		t.Errorf("%+v", out)
	}
}

// TestRequiredReportOfTheOwnCell: the wait of a cluster that is alone ends only after that report. It also waits
// for each reported container that no known row names.
func TestRequiredReportOfTheOwnCell(t *testing.T) {
	r := devRig(t, func(c *Config) { c.Restored, c.Alone = true, true })
	r.devBeat("p", 7, true)
	r.second()
	if active, _ := r.l.Waits(); !active {
		t.Fatal("over before the report")
	}
	if w := r.l.Wait(r.now); w.Longest != 0 {
		t.Errorf("no time bounds the wait for the own cell: %v", w.Longest)
	}
	r.step(ReportReceived{Report{Term: term5, Proc: "p", Alive: []Alive{{ID: "i"}}}})
	r.second()
	if active, _ := r.l.Waits(); !active {
		t.Fatal("no row is known to name its container")
	}
	if a := r.l.Alive("p"); !slices.Equal(a, []Alive{{ID: "i"}}) || r.l.Alive("nobody") != nil {
		t.Errorf("%v", a)
	}
}

// TestOtherCellsAreNotTheOwnOne: a report of another process does not end the wait of a cluster that is alone.
func TestOtherCellsAreNotTheOwnOne(t *testing.T) {
	r := devRig(t, func(c *Config) { c.Restored, c.Alone = true, true })
	r.devBeat("p", 7, true)
	r.step(ReportReceived{Report{Term: term5, Proc: "p"}})
	r.devBeat("q", 8, true) // holds the name from now on, and has not reported
	r.second()
	if active, _ := r.l.Waits(); !active {
		t.Error("over by the word of a process that has lost its name")
	}
}

// TestRowsOfADevThatWentBack promise nothing, at any age.
func TestRowsOfADevThatWentBack(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.NewStore, c.NoDeadline, c.Restored = false, true, true
		c.Members = []Member{{Proc: "p1", Cell: "w1", DirID: "f", Started: 1, Boot: "b"}}
	})
	if v := r.session("p1"); v.Promise != 0 || v.Expiry != 0 || v.State != New {
		t.Errorf("%+v", v)
	}
	if r.tick(r.l.t.Lost); r.session("p1").State != New {
		t.Error("lost too early")
	}
	if r.tick(sec); r.session("p1").State != MustDie {
		t.Error("a process that never reports is lost in the end")
	}
}

func (r *rig) session(p Proc) SessionView {
	r.t.Helper()
	v, ok := r.l.Process(r.now, p)
	if !ok {
		r.t.Fatalf("%s is not known", p)
	}
	return v
}

// TestOfEqualStartsTheFirstIdHoldsTheName, so that each leader decides the same.
func TestOfEqualStartsTheFirstIdHoldsTheName(t *testing.T) {
	r := newRig(t, withMembers(member("p2@f", "w1", 1), member("p1", "w1", 1)))
	if !r.l.Holds("w1", "p1") || r.l.Holds("w1", "p2@f") {
		t.Error("p2 holds it")
	}
}

// TestAuditsNameTheProcess that they are about.
func TestAuditsNameTheProcess(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1)))
	r.step(Forget{Proc: "p1", By: "ann"})
	if a := one[Audit](r); a.Cell != "w1" || a.Proc != "p1" {
		t.Errorf("%+v", a)
	}
}

// TestAProcessIsReapedOnce, for any number of proofs of its death before that is durable.
func TestAProcessIsReapedOnce(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1), member("p2", "w2", 1)))
	r.hold = true
	r.step(Forget{Proc: "p1", By: "ann"})
	r.step(Forget{Proc: "p1", By: "bob"})
	r.hold = false
	r.commit()
	if d := take[Dead](r); len(d) != 1 {
		t.Errorf("%+v", d)
	}
	deleted := 0
	for _, row := range r.rows {
		if row == (DeleteMember{"p1"}) {
			deleted++
		}
	}
	if list := (workerset.Hash{}).Add("p2"); deleted != 1 || r.l.members.list.Hash != list {
		t.Errorf("deleted %d times, the list is %+v", deleted, r.l.members.list)
	}
	if _, held := r.l.Session(r.now, "w1"); held || r.l.Holds("w1", "p1") {
		t.Error("it holds the name of its cell still")
	}
	if h, _ := r.l.MayReceive("w1"); h.Reason != HoldNoSession {
		t.Error(h.Reason)
	}
	if _, known := r.l.Process(r.now, "p1"); known || !r.l.IsDead("p1") || r.l.IsDead("p2") {
		t.Error("p1 is gone, p2 is not")
	}
}

// TestThreeProcessesOfADir: when the first is reaped, the second is still an earlier one of the third.
func TestThreeProcessesOfADir(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1), member("p2", "w1", 2)))
	r.step(Forget{Proc: "p1", By: "ann"})
	r.out = nil
	r.beat("w1", "p3", 3)
	r.report("p3")
	if d := one[Dead](r); d.Proc != "p2" || d.Proof != ProofSuccessor {
		t.Errorf("%+v", d)
	}
	if r.beat("w1", "p3", 3); len(r.l.dirs) != 1 || len(r.l.dirs["w1"]) != 1 {
		t.Errorf("remembers %v", r.l.dirs)
	}
	r.step(Forget{Proc: "p3", By: "ann"})
	if len(r.l.dirs) != 0 {
		t.Errorf("remembers %v", r.l.dirs)
	}
}

// TestAMessageOfAHigherTermIsNotTaken: its content is not read.
func TestAMessageOfAHigherTermIsNotTaken(t *testing.T) {
	high := fence.Term{Epoch: 1, Revision: 6}
	start := func() (*rig, Run) {
		r := newRig(t, nil)
		r.healthy("w1", "p1", 1)
		x := r.run("w1", "a")
		r.out = nil
		return r, x
	}
	for name, event := range map[string]func(*rig, Run) Event{
		"heartbeat": func(r *rig, _ Run) Event {
			return BeatReceived{r.hb("w1", "p1", 1, func(h *Heartbeat) { h.Term = high }), true}
		},
		"an answer of a term that cannot be": func(_ *rig, x Run) Event {
			return RunAnswered{RunAnswer{Term: fence.Term{Epoch: -1}, Proc: "p1", Run: x, Result: RunRefused}}
		},
		"answer": func(_ *rig, x Run) Event {
			return RunAnswered{RunAnswer{Term: high, Proc: "p1", Run: x, Result: RunRefused}}
		},
		"status": func(_ *rig, x Run) Event {
			return StatusReceived{UpdateStatus{Term: high, Cell: "w1", Proc: "p1",
				Items: []StatusItem{{Kind: StatusEnded, Run: x}}}}
		},
	} {
		r, x := start()
		r.step(event(r, x))
		if _, ok := r.out[0].(Audit); len(r.out) != 1 || r.out[0] != (EndTerm{high}) && !ok {
			t.Errorf("%s: %+v", name, r.out)
		}
	}
}

// TestAKillIsRepeatedAtItsTime, not a moment later.
func TestAKillIsRepeatedAtItsTime(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	r.tick(sec)
	x := r.run("w1", "a")
	r.step(KillWanted{x})
	r.out = nil
	if r.tick(killPause - sec); len(peek[SendKill](r)) != 0 {
		t.Fatal("too early")
	}
	if r.tick(sec); len(take[SendKill](r)) != 1 {
		t.Error("not in time")
	}
}

// TestAnyLengthEndsTheWait that a flag sets.
func TestAnyLengthEndsTheWait(t *testing.T) {
	r := newRig(t, func(c *Config) { withMembers(member("p1", "w1", 1))(c); c.InitialWait = 1 })
	if r.tick(sec); r.l.Wait(r.now).Active {
		t.Error("it goes on")
	}
}

// TestProbesAreSentInTime and are answered late, as far as they are remembered.
func TestProbesAreSentInTime(t *testing.T) {
	to := DefaultTimeouts()
	to.Lost, to.DriftPerMille, to.MaxDiesWithin = 1000*sec, 0, 2000*sec
	r := newRig(t, func(c *Config) { c.Timeouts = to })
	r.healthy("w1", "p1", 1)
	start := r.now
	for n := range int64(16) { // the first was sent, and answered, when it came
		r.tick(to.Healthcheck - sec)
		if p := take[SendRun](r); len(p) != 0 {
			t.Fatalf("%v: %+v", r.now-start, p)
		}
		r.tick(sec)
		if p := one[SendRun](r); p.Call.Probe != n+2 {
			t.Fatalf("%+v", p)
		}
		r.beat("w1", "p1", 1)
	}
	if v := r.session("p1"); v.State != Unhealthy || v.Reason != "last answered probe sent 2m40s ago" {
		t.Fatalf("%+v", v)
	}
	late := func(number int64) {
		r.status("w1", "p1", StatusItem{Kind: StatusProbe, Probe: number, OK: true})
	}
	r.tick(to.Healthcheck) // the 18th: the second is forgotten
	r.beat("w1", "p1", 1)
	if late(2); r.session("p1").Reason != "last answered probe sent 2m50s ago" {
		t.Error("the second is remembered")
	}
	if late(3); r.session("p1").Reason != "last answered probe sent 2m30s ago" {
		t.Errorf("the third is forgotten: %s", r.session("p1").Reason)
	}
}

// TestSessionsAreReportedInFull: each change of a session's state is reported, with all of its fields.
func TestSessionsAreReportedInFull(t *testing.T) {
	r := newRig(t, nil)
	want := func(what string, c SessionChanged) {
		t.Helper()
		c.Cell, c.Proc = "w1", "p1"
		if got := one[SessionChanged](r); got != c {
			t.Errorf("%s:\n%+v, want\n%+v", what, got, c)
		}
	}
	r.beat("w1", "p1", 1)
	if r.beat("w1", "p1", 1).Reason != "" {
		t.Error("a reason of a welcome")
	}
	if v := r.session("p1"); v.Reason != "no probe answered yet" || v.Eligible || v.Reported || v.Member || !v.Holder {
		t.Errorf("%+v", v)
	}
	r.out = nil
	r.report("p1")
	want("report", SessionChanged{From: New, To: Unhealthy, Reason: "reported what it runs"})
	r.probe("w1", "p1", true)
	if len(peek[StartsChanged](r)) != 1 {
		t.Error("a cell became healthy: starts may be possible")
	}
	want("probe", SessionChanged{From: Unhealthy, To: Healthy, Reason: "beats and answers probes"})
	if v := r.session("p1"); v.Reason != "beats and answers probes" || !v.Eligible || v.Blocked || v.Promise != 86*sec ||
		v.Expiry != r.l.t.LongestWait() {
		t.Errorf("%+v", v)
	}
	if v, _ := r.l.Process(r.now+200*sec, "p1"); v.Expiry != 0 {
		t.Errorf("its expiry has passed: %v", v.Expiry)
	}
	r.tick(16 * sec)
	if v := r.session("p1"); v.Blocked {
		t.Error("no worker set blocks it")
	}
	want("silence", SessionChanged{From: Healthy, To: Unhealthy, WasHealthy: true, Reason: "no heartbeat for 16s"})
	r.tick(60 * sec)
	want("lost", SessionChanged{From: Unhealthy, To: MustDie, WasHealthy: true, Reason: "lost: no heartbeat for 1m16s"})
}

// TestAProcessIsNotItsOwnSuccessor: a silent process that has reported remains of its predecessors is dead by time
// all the same.
func TestAProcessIsNotItsOwnSuccessor(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	r.beat("w1", "p1", 1, func(h *Heartbeat) { h.PredecessorsGone = false })
	r.out = nil
	for range 93 { // without its lease the leader takes no cell for lost by its policy
		r.now += sec
		r.step(Tick{})
	}
	if d := take[Dead](r); len(d) != 1 || d[0].Proof != ProofExpiry {
		t.Errorf("%+v", d)
	}
}

// TestAnAnswerOfAnUnknownProcess to a question changes nothing.
func TestAnAnswerOfAnUnknownProcess(t *testing.T) {
	r := newRig(t, nil)
	r.step(NotifyAnswered{NotifyAnswer{Term: term5, Proc: "nobody", Seq: 1, OK: true}})
	r.healthy("w1", "p1", 1)
	r.step(NotifyAnswered{NotifyAnswer{Term: term5, Proc: "p1", Seq: 1, OK: true}})
	if len(r.out) != 0 {
		t.Errorf("%+v", r.out)
	}
}

// TestLengthOfTheWait, by the rows of silent cells, the flag, and the elapsed time.
func TestLengthOfTheWait(t *testing.T) {
	unbounded := member("p3", "w3", 1)
	unbounded.Promise = 0
	many := []Member{unbounded}
	for _, p := range []Proc{"a", "b", "c", "d", "e", "f", "g", "h"} {
		many = append(many, member(p, CellName(p), 1))
	}
	stretched := DefaultTimeouts().LongestWait()
	for name, c := range map[string]struct {
		set   func(*Config)
		after time.Duration
		want  time.Duration
	}{
		"many, and one without a bound": {withMembers(many...), 0, 0},
		"one":                           {withMembers(member("p1", "w1", 1)), 0, stretched},
		"one without a bound":           {withMembers(member("p1", "w1", 1), unbounded), 0, 0},
		"one without a bound, in a restored store": {func(c *Config) {
			withMembers(unbounded)(c)
			c.Restored = true
		}, 0, 0},
		"none, in a restored store": {func(c *Config) { c.NewStore, c.Restored = false, true }, 0, 106 * sec},
		"the flag is shorter": {func(c *Config) {
			withMembers(member("p1", "w1", 1))(c)
			c.InitialWait = 1
		}, 0, 1},
		"the flag is longer": {func(c *Config) {
			withMembers(member("p1", "w1", 1))(c)
			c.InitialWait = 500 * sec
		}, 0, stretched},
		"all has passed": {withMembers(member("p1", "w1", 1)), 300 * sec, 0},
	} {
		r := newRig(t, c.set)
		w := r.l.Wait(r.now + c.after)
		if w.Longest != c.want || !w.Active {
			t.Errorf("%s: %v, want %v", name, w.Longest, c.want)
		}
		for _, f := range w.For {
			if f.Proc == "p1" && f.Longest != max(0, stretched-c.after) {
				t.Errorf("%s: p1 %v", name, f.Longest)
			}
		}
	}
}

// TestLatenessOfTheLeaderIsNoSilence: while something of a cell is unread, its session is not lost, and the time
// until it is does not pass. A message that is read then never worsens the session.
func TestLatenessOfTheLeaderIsNoSilence(t *testing.T) {
	second := member("p2@second", "w1", 3)
	second.Promise = 0 // no work can be alive, so that it never dies of its promise
	r := newRig(t, withMembers(member("p1@first", "w1", 5), second))
	r.step(Forget{Proc: "p1@first", By: "ann"})
	for end := r.now + 2*r.l.t.Lost; r.now < end; {
		r.now += sec
		r.step(Tick{LeaseHeld: true, Behind: []CellName{"w1"}})
	}
	r.out = nil
	if a := r.beat("w1", "p2@second", 3, func(h *Heartbeat) { h.Promise = 0 }); a.Verdict != Welcome || a.Credit {
		t.Errorf("%+v", a)
	}
	for end := r.now + r.l.t.Lost; r.now < end; {
		r.step(Tick{LeaseHeld: true})
		if n := len(take[SendSuicide](r)); n != 0 {
			t.Fatalf("lost %v before its time", end-r.now)
		}
		r.now += sec
	}
	r.now += 2 * sec
	r.step(Tick{LeaseHeld: true})
	if p := r.l.procs["p2@second"]; p != nil && p.health.State != MustDie {
		t.Errorf("not lost, and silent for too long: %+v", p.health)
	}
}

// TestAMessageWorsensNoSession: a late leader reads the answer to an old probe before the heartbeat that came with
// it, or the heartbeat before the answer.
func TestAMessageWorsensNoSession(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	for end := r.now + 2*r.l.t.HealthcheckGap(); r.now < end; {
		r.now += sec
		r.step(Tick{LeaseHeld: true, Behind: []CellName{"w1"}})
	}
	r.out = nil
	r.beat("w1", "p1", 1)
	if got := take[SessionChanged](r); len(got) != 0 {
		t.Errorf("a heartbeat: %+v", got)
	}
	r.step(Tick{LeaseHeld: true})
	if got := take[SessionChanged](r); len(got) != 1 || got[0].To != Unhealthy {
		t.Errorf("the next tick, with nothing unread: %+v", got)
	}
}

// TestOneWithoutABoundIsEnough: the wait for it has none, for any order of visits.
func TestOneWithoutABoundIsEnough(t *testing.T) {
	without := member("p2", "w2", 1)
	without.Promise = 0
	r := newRig(t, withMembers(member("p1", "w1", 1), without, member("p3", "w3", 1)))
	for range 100 { // they are looked at in any order
		if w := r.l.Wait(r.now); w.Longest != 0 || len(w.For) != 3 {
			t.Fatalf("%+v", w)
		}
	}
}
