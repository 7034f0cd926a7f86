package worker

import (
	"slices"
	"testing"

	"cantina/fence"
	"cantina/workerset"
)

// The worker set as the only witness: these leaders know of a store that went back, so that its list proves nothing
// (worker-set consensus, "How can Bistro's consensus mechanism fail?").
func alone(c *Config) { c.Witness, c.Restored = WitnessConsensus, true }

// back brings a process back to a new leader, with the set that it shows.
func (r *rig) back(c CellName, p Proc, set workerset.ID, held ...Held) {
	r.t.Helper()
	r.sets[p] = set
	r.beat(c, p, 1, func(h *Heartbeat) { h.HasWork = len(held) > 0 })
	r.report(p, held...)
	r.beat(c, p, 1, func(h *Heartbeat) { h.HasWork = len(held) > 0 })
	r.probe(c, p, true)
	r.tick(sec)
}

// TestUnknownWorker: leaders changed quickly. The second one still waited for w2, which is cut off
// and runs something, and gave no set to w1; so the third one, which w1 finds first, waits too.
func TestUnknownWorker(t *testing.T) {
	set := setOf(3, 2, "p1", "p2")
	second := newRig(t, alone)
	second.back("w1", "p1", set)
	if got := second.sets["p1"]; got != set {
		t.Fatalf("a leader that waits gives the set %+v", got)
	}
	third := newRig(t, alone)
	third.back("w1", "p1", second.sets["p1"])
	if !third.l.Wait(third.now).Active || third.mayRun("j") != HoldWait {
		t.Fatal("w2 may run it")
	}
	third.back("w2", "p2", set, Held{Run: Run{Work{"j", "n"},
		fence.Invocation{Term: fence.Term{Epoch: 1, Revision: 3}, Counter: 1}}})
	if third.l.Wait(third.now).Active || third.mayRun("j") != HoldRunning || third.mayRun("k") != HoldNone {
		t.Fatal("all that the set names are back")
	}
}

// TestMustDieWorker: w1 was lost and its name taken by another machine; the suicide request got
// lost. Until the first w1 is certainly dead it is in the set, and the second takes no work.
func TestMustDieWorker(t *testing.T) {
	r := newRig(t, consensus)
	r.tick(sec)
	r.beat("w1", "p1", 1)
	r.report("p1")
	r.probe("w1", "p1", true)
	r.beat("w1", "p1", 1)
	if a := r.beat("w1", "p1", 1); a.State != Healthy {
		t.Fatalf("%+v", a)
	}
	r.run("w1", "j")
	r.tick(80 * sec)
	next := func() HeartbeatAnswer {
		r.beat("w1", "p1b@b", 1)
		r.report("p1b@b")
		r.probe("w1", "p1b@b", true)
		r.beat("w1", "p1b@b", 1)
		r.tick(sec)
		return r.beat("w1", "p1b@b", 1)
	}
	a := next()
	if h, ok := r.l.MayReceive("w1"); ok || h.Reason != HoldConsensus ||
		a.SetID.Hash != (workerset.Hash{}.Add("p1").Add("p1b@b")) {
		t.Fatalf("%v, %+v", h, a)
	}
	if a := r.beat("w1", "p1", 1, func(h *Heartbeat) { h.HasWork = true }); a.Verdict != DieAll {
		t.Fatalf("the displaced one gets the order: %+v", a)
	}
	for end := r.now + r.l.t.LongestWait(); r.now < end && !r.l.procs["p1"].dead; {
		r.tick(5 * sec)
		next()
	}
	next()
	if a := next(); a.State != Healthy || r.l.sessions.set.Has("p1") || a.SetID.Hash != (workerset.Hash{}.Add("p1b@b")) {
		t.Fatalf("the first is dead: %+v", a)
	}
}

// TestTheSetIsGivenWithCredit, because the set must not outlive it, and to each of its members.
func TestTheSetIsGivenWithCredit(t *testing.T) {
	r := newRig(t, func(c *Config) { consensus(c); c.TurnoverLimit = 1 })
	r.tick(sec)
	if a := r.beat("w1", "p1", 1); !a.SetID.IsZero() {
		t.Fatalf("not reported: %+v", a)
	}
	r.report("p1")
	h := r.hb("w1", "p1", 1)
	r.out = nil
	r.step(BeatReceived{Beat: h})
	if a := one[AnswerBeat](r).Answer; a.Credit || !a.SetID.IsZero() {
		t.Fatalf("no lease: %+v", a)
	}
	if a := r.beat("w1", "p1", 1); !a.Credit || a.SetID != r.l.sessions.set.Current() {
		t.Fatalf("%+v", a)
	}
	r.beat("w2", "p2", 1)
	r.report("p2")
	if a := r.beat("w2", "p2", 1); !a.Credit || !a.SetID.IsZero() || r.l.sessions.set.Queued() != 1 {
		t.Fatalf("it waits outside the set: %+v", a)
	}
}

// TestEventsThatDoNotEndTheWait for a leader whose witness is the worker set.
func TestEventsThatDoNotEndTheWait(t *testing.T) {
	set := setOf(3, 2, "p1", "p2")
	for name, c := range map[string]struct {
		start func(c *Config)
		do    func(r *rig)
	}{
		"one of the set has not reported": {alone, func(r *rig) {
			r.back("w1", "p1", set)
			r.sets["p2"] = set
			r.beat("w2", "p2", 1)
			r.beat("w2", "p2", 1)
		}},
		"one of the set was lost before its report": {alone, func(r *rig) {
			r.sets["p2"] = set
			r.beat("w2", "p2", 1, func(h *Heartbeat) { h.HasWork = true })
			for r.state("p2") != MustDie {
				r.tick(5 * sec)
				r.beat("w1", "p1", 1)
			}
			r.back("w1", "p1", set)
		}},
		"a newcomer has not reported": {alone, func(r *rig) {
			r.beat("w3", "p3", 1)
			r.back("w1", "p1", set)
			r.back("w2", "p2", set)
		}},
		"a late heartbeat shows a set that its sender shows no more": {alone, func(r *rig) {
			r.sets["p1"] = set
			r.beat("w1", "p1", 1, func(h *Heartbeat) { h.Term, h.SetID = fence.Term{Epoch: 1, Revision: 4}, setOf(2, 1, "p1") })
			r.report("p1")
			r.beat("w1", "p1", 1, func(h *Heartbeat) { h.Term, h.SetID = fence.Term{Epoch: 1, Revision: 4}, setOf(2, 1, "p1") })
			r.beat("w1", "p1", 1)
			r.tick(sec)
		}},
		"a member list is no worker set": {alone, func(r *rig) {
			r.back("w1", "p1", workerset.ID{Leader: fence.Term{Epoch: 1}, Version: 4, Hash: workerset.Hash{}.Add("p1")})
		}},
		"one that the trusted list names is not back": {func(c *Config) {
			consensus(c)
			withMembers(member("p1", "w1", 1), member("p2", "w2", 1), member("p4", "w4", 1))(c)
		}, func(r *rig) {
			r.back("w1", "p1", set)
			r.back("w2", "p2", set)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.start)
			c.do(r)
			if !r.l.Wait(r.now).Active || r.mayRun("j") != HoldWait {
				t.Error("the wait is over")
			}
		})
	}
}

// TestALongPromiseIsWaitedFor: a row may have a longer promise than this leader's flags allow.
func TestALongPromiseIsWaitedFor(t *testing.T) {
	long := member("p1", "w1", 1)
	long.Promise = 300 * sec
	r := newRig(t, func(c *Config) { consensus(c); withMembers(long)(c) })
	r.tick(r.l.t.Stretch(300*sec) - sec)
	if w := r.l.Wait(r.now); !w.Active || w.Longest != sec {
		t.Fatalf("%+v", w)
	}
	r.tick(2 * sec)
	if r.l.Wait(r.now).Active {
		t.Fatal("it is dead")
	}
}

// TestRowsThatWentBackStayUnconfirmed: the cells' sets name all processes with batch work. Tasks and exclusive
// instances that stand as waiting in an older store may run all the same.
func TestRowsThatWentBackStayUnconfirmed(t *testing.T) {
	r := newRig(t, alone)
	r.back("w1", "p1", setOf(3, 1, "p1"))
	w := r.l.Wait(r.now)
	if w.Active || !w.Stale || w.Longest != r.l.waiting.t0+r.l.t.Stretch(r.l.t.MaxDiesWithin)-r.now ||
		r.mayRun("j") != HoldNone || r.l.IsDead("whoever") {
		t.Fatalf("%+v, %v", w, r.mayRun("j"))
	}
	for range 3 {
		r.beat("w1", "p1", 1)
	}
	if h, ok := r.l.MayReceive("w1"); !ok {
		t.Fatalf("%v", h)
	}
	for end := r.now + w.Longest; r.now < end; {
		if slices.Contains(r.rows, Row(ClearRestored{})) {
			t.Fatal("the next leader would believe the rows")
		}
		r.out = nil
		r.tick(min(5*sec, end-r.now))
		r.probe("w1", "p1", true)
		r.beat("w1", "p1", 1)
	}
	if r.l.Wait(r.now).Stale || !r.l.IsDead("whoever") || len(peek[StartsChanged](r)) == 0 ||
		!slices.Contains(r.rows, Row(ClearRestored{})) {
		t.Fatalf("what no row names is dead by now: %v", r.rows)
	}
	long := member("p9", "w9", 1)
	long.Promise = 300 * sec
	other := newRig(t, func(c *Config) { withMembers(long)(c); alone(c) })
	other.back("w1", "p1", setOf(3, 1, "p1"))
	if w := other.l.Wait(other.now); w.Active || w.Longest != other.l.waiting.t0+other.l.t.Stretch(300*sec)-other.now {
		t.Fatalf("a silent process that may live longer by its row: %+v", w)
	}
	forced := newRig(t, alone)
	forced.back("w1", "p1", setOf(3, 1, "p1"))
	forced.step(EndWait{By: "ann"})
	if forced.l.Wait(forced.now).Stale {
		t.Fatal("the operator's word ends that too")
	}
}
