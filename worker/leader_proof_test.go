package worker

import (
	"slices"
	"testing"

	"cantina/fence"
	"cantina/workerset"
)

// TestEndsReportedBeforeTheDeadline: a process with a successor is not judged before the successor has reported its
// work, including ends. The delay ends with that report, or when the successor is lost.
func TestEndsReportedBeforeTheDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		comes bool
		then  func(*rig)
		dead  bool
	}{
		"none comes":                       {false, func(*rig) {}, true},
		"it is about to report":            {true, func(*rig) {}, false},
		"it has reported that all is gone": {true, func(r *rig) { r.report("p2") }, true},
		"it has reported and is silent": {true, func(r *rig) { r.step(ReportReceived{Report{Term: term5, Proc: "p2"}}) },
			true},
		"it is lost": {true, func(r *rig) { r.tick(90 * sec) }, true},
		"it is displaced": {true, func(r *rig) {
			r.beat("w1", "p3", 3,
				func(h *Heartbeat) { h.Boot = "b2" })
			r.report("p3")
		}, true},
	} {
		r := newRig(t, withMembers(member("p1", "w1", 1)))
		r.tick(90 * sec)
		if c.comes {
			r.beat("w1", "p2", 2, func(h *Heartbeat) { h.HasWork = true })
		}
		r.tick(5 * sec)
		if c.comes && r.l.IsDead("p1") {
			t.Errorf("%s: dead before its successor has reported", name)
			continue
		}
		c.then(r)
		r.tick(sec)
		if r.l.IsDead("p1") != c.dead {
			t.Errorf("%s: dead %v", name, !c.dead)
		}
	}
}

// TestOneThatNeverReportsIsDeadByTime: it is no successor of itself, and an earlier process is none of a later one.
func TestOneThatNeverReportsIsDeadByTime(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1)))
	r.beat("w1", "p1", 1)
	r.out = nil
	for range 93 { // without its lease the leader takes no cell for lost by its policy
		r.now += sec
		r.step(Tick{})
	}
	if d := take[Dead](r); len(d) != 1 || d[0].Proof != ProofExpiry {
		t.Errorf("%+v", d)
	}
}

// TestNothingBeforeTheReport: a process with a durable row gets credit when it has reported its work.
func TestNothingBeforeTheReport(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1)))
	if a := r.beat("w1", "p1", 1); a.Credit || a.Eligible || a.Reported || a.State != New {
		t.Errorf("%+v", a)
	}
	if v := r.session("p1"); v.Eligible || !v.Member || v.Reported {
		t.Errorf("%+v", v)
	}
	r.report("p1")
	if a := r.beat("w1", "p1", 1); !a.Credit || !a.Eligible || !a.Reported {
		t.Errorf("%+v", a)
	}
	if v := r.session("p1"); !v.Eligible || !v.Reported {
		t.Errorf("%+v", v)
	}
	r.hold = true
	r.beat("w2", "p2", 1)
	r.out = nil
	r.step(ReportReceived{Report{Term: term5, Proc: "p2"}})
	if v := r.session("p2"); v.Eligible || !v.Reported {
		t.Errorf("its row is not durable: %+v", v)
	}
}

// TestDeadProcessesCoverNoWork: unlisted work of a process is ended, also when it was adopted from a process that
// was declared dead a moment ago.
func TestDeadProcessesCoverNoWork(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1)))
	if a := r.beat("w1", "p2", 2, func(h *Heartbeat) { h.HasWork = true }); a.Verdict != Welcome {
		t.Fatalf("covered by its predecessor: %+v", a)
	}
	r = newRig(t, withMembers(member("p1", "w1", 1)))
	r.hold = true
	r.step(Forget{Proc: "p1", By: "ann"})
	h := r.hb("w1", "p2", 2, func(h *Heartbeat) { h.HasWork = true })
	r.step(BeatReceived{Beat: h, LeaseHeld: true})
	r.hold = false
	r.commit()
	a := take[AnswerBeat](r)
	if len(a) != 1 || a[0].Answer.Verdict != Die {
		t.Errorf("%+v", a)
	}
}

// TestAMarkIsTakenAwayOnce.
func TestAMarkIsTakenAwayOnce(t *testing.T) {
	r := newRig(t, func(c *Config) { c.NewStore, c.Restored = false, true })
	r.tick(120 * sec)
	n := 0
	for _, row := range r.rows {
		if row == (ClearRestored{}) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d times", n)
	}
}

// TestOfTwoRowsOfACellOneIsDisplaced.
func TestOfTwoRowsOfACellOneIsDisplaced(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1), member("p2@f", "w1", 2)))
	if !r.session("p1").Displaced || r.session("p2@f").Displaced || !r.session("p2@f").Holder || r.session("p1").Holder {
		t.Errorf("%+v", r.l.Sessions(r.now))
	}
}

// TestOldStoresAreTrusted unless there is evidence that they went back.
func TestOldStoresAreTrusted(t *testing.T) {
	for name, set := range map[string]func(*Config){
		"an old store":               func(c *Config) { c.NewStore, c.NewCluster = false, false },
		"a new store, a new cluster": func(*Config) {},
	} {
		if _, stale := newRig(t, set).l.Waits(); stale {
			t.Errorf("%s is not trusted", name)
		}
	}
}

// TestAStoreThatHadProcesses is none that was made by a leader that is alone.
func TestAStoreThatHadProcesses(t *testing.T) {
	r := devRig(t, func(c *Config) { c.List = workerset.ID{Leader: fence.Term{Epoch: 1}, Version: 3} })
	if slices.Contains(r.rows, Row(PutAlone{})) {
		t.Error("others have led it")
	}
}

// TestProbesFailInARow, with no good one between them.
func TestProbesFailInARow(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	for i, c := range []struct{ ok, out bool }{{false, false}, {false, false}, {true, false}, {false, false},
		{false, false}, {false, true}, {false, true}, {true, false}} {
		r.tick(10 * sec)
		r.beat("w1", "p1", 1)
		r.out = nil
		r.probe("w1", "p1", c.ok)
		v := r.session("p1")
		if v.Unavailable != c.out || c.out && v.Reason != "no room" {
			t.Errorf("probe %d: %+v", i, v)
		}
		if changed := i == 5 || i == 7; len(take[Availability](r)) == 1 != changed {
			t.Errorf("probe %d: reported a change: %v", i, !changed)
		}
	}
}

// TestBlockedIsReported: a cell that the worker set holds back, and one that is lost meanwhile.
func TestBlockedIsReported(t *testing.T) {
	r := newRig(t, consensus)
	r.tick(sec)
	r.beat("w0", "p0", 1) // never shows a set
	r.beat("w1", "p1", 1)
	r.report("p1")
	r.probe("w1", "p1", true)
	r.beat("w1", "p1", 1)
	if v := r.session("p1"); !v.Blocked || v.State != Unhealthy || v.Reason != "waits for the worker set" {
		t.Errorf("%+v", v)
	}
	r.beat("w1", "p2", 2)
	if v := r.session("p1"); v.Blocked || v.State != MustDie {
		t.Errorf("%+v", v)
	}
}

// TestWorkOnNoListAfterTheSetsAgreed: work that is reported then gets the order to end, though the rows are
// unconfirmed.
func TestWorkOnNoListAfterTheSetsAgreed(t *testing.T) {
	r := newRig(t, alone)
	r.back("w1", "p1", setOf(3, 1, "p1"))
	if active, stale := r.l.Waits(); active || !stale || r.l.Wait(r.now).All || r.l.Wait(r.now+1000*sec).Longest != 0 {
		t.Fatalf("%+v", r.l.Wait(r.now))
	}
	r.beat("w2", "p2", 1)
	r.out = nil
	r.report("p2", Held{Run: old(1, "j")})
	if s := one[SendSuicide](r); s.Call.All || s.Call.Proc != "p2" || r.state("p2") != New || r.l.Live() != 0 {
		t.Errorf("%+v", s)
	}
}

// TestAShortPromiseUnconfirmedTwice: an operator confirmed a row, and it is unconfirmed again. It is
// written before the process lives by more.
func TestAShortPromiseUnconfirmedTwice(t *testing.T) {
	m := member("p1", "w1", 1)
	m.Promise = 50 * sec
	r := newRig(t, func(c *Config) { withMembers(m)(c); c.Restored = true })
	r.step(EndWait{By: "ann"})
	newer := r.l.members.list
	newer.Version += 5
	r.beat("w2", "p2", 1, func(h *Heartbeat) { h.SetID = newer })
	lives := func(h *Heartbeat) { h.Promise = m.Promise }
	r.beat("w1", "p1", 1, lives)
	r.report("p1")
	r.probe("w1", "p1", true)
	for range 3 {
		if a := r.beat("w1", "p1", 1, lives); a.Credit {
			m.Promise = a.Promise
		}
	}
	if m.Promise != 86*sec {
		t.Errorf("lives by %v", m.Promise)
	}
}

// TestTermsThatCannotBeWithoutAClock: a revision is bounded all the same; the first, second and fourth are
// reported.
func TestTermsThatCannotBeWithoutAClock(t *testing.T) {
	r := newRig(t, nil)
	for n, reported := range []bool{true, true, false, true, false, false, false, true} {
		r.out = nil
		r.step(TermHeard{"w1", "p1", fence.Term{Epoch: 1, Revision: 1 << 60}})
		if a := take[Audit](r); len(a) == 1 != reported || reported &&
			(a[0].Cell != "w1" || a[0].Proc != "p1" || a[0].Kind != AuditTerm) {
			t.Errorf("message %d: %+v", n+1, a)
		}
	}
	if r.l.RefusedTerms() != 8 {
		t.Error(r.l.RefusedTerms())
	}
}
