package worker

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"cantina/fence"
	"cantina/workerset"
)

func old(n int64, job string) Run {
	return Run{Work{job, "n"}, fence.Invocation{Term: fence.Term{Epoch: 1, Revision: 4}, Counter: n}}
}

func withMembers(ms ...Member) func(*Config) {
	return func(c *Config) { c.Members, c.NewStore = ms, false }
}

// TestMemberRowComesFirst: no credit, no work before the row is durable.
func TestMemberRowComesFirst(t *testing.T) {
	r := newRig(t, nil)
	r.beat("w1", "p1", 1)
	r.hold = true
	r.report("p1")
	r.step(BeatReceived{r.hb("w1", "p1", 1), true})
	if h, ok := r.l.MayReceive("w1"); ok || h.Reason != HoldNotMember {
		t.Fatalf("%v", h.Reason)
	}
	r.out = nil
	r.commit()
	for _, a := range peek[AnswerBeat](r) {
		if a.Answer.Eligible || a.Answer.Credit {
			t.Fatalf("computed before the commit: %+v", a)
		}
	}
	if one[Eligible](r).Proc != "p1" || r.members() != "p1:1m26s" {
		t.Fatal(r.members())
	}
	r.hold = false
	if a := r.beat("w1", "p1", 1); !a.Eligible || !a.Credit || a.Promise != 86*sec || !a.Reported {
		t.Fatalf("%+v", a)
	}
	r.step(BeatReceived{r.hb("w1", "p1", 1), false})
	if a := one[AnswerBeat](r); a.Answer.Credit {
		t.Fatal("no credit without the lease")
	}
}

// TestSilentMembersHoldOldWork: work that may run by a row is waited for; work that is new in this term is not. A
// report ends the wait for one process.
func TestSilentMembersHoldOldWork(t *testing.T) {
	r := newRig(t, func(c *Config) {
		withMembers(member("p1", "w1", 1), member("p2", "w2", 1))(c)
		c.Jobs = []JobRow{{Name: "old"}}
		c.HeldNodes = []string{"db1"}
	})
	r.healthy("w2", "p2", 1)
	ask := func(job string, nodes ...string) (Hold, bool) {
		return r.l.MayStart(r.now, Request{Work: Work{job, "n"}, Nodes: nodes, Cell: "w2"})
	}
	if h, ok := ask("old"); ok || h.Reason != HoldWait || h.Waiting != 1 || h.Longest != r.l.t.LongestWait() {
		t.Fatalf("%+v", h)
	}
	if h, ok := ask("new", "db1"); ok || h.Reason != HoldNode {
		t.Fatalf("%+v", h)
	}
	if h, ok := ask("new", "db2"); !ok {
		t.Fatalf("%+v", h)
	}
	if w := r.l.Wait(r.now); !w.Active || w.Stale || len(w.For) != 1 || w.For[0].Proc != "p1" {
		t.Fatalf("%+v", w)
	}
	r.beat("w1", "p1", 1, func(h *Heartbeat) { h.HasWork = true })
	r.report("p1", Held{Run: old(3, "old")})
	r.tick(sec)
	if h, ok := ask("old"); ok || h.Reason != HoldRunning || h.Proc != "p1" {
		t.Fatalf("%+v", h)
	}
	if h, ok := ask("old2"); !ok {
		t.Fatalf("the wait is over: %+v", h)
	}
}

// TestExpiryUsesTheRow: the promise in the row counts, not the new leader's flags.
func TestExpiryUsesTheRow(t *testing.T) {
	long := member("p1", "w1", 1)
	long.Promise = 99 * sec
	r := newRig(t, withMembers(long, member("p2", "w2", 1)))
	r.tick(92 * sec)
	if d := take[Dead](r); len(d) != 1 || d[0].Proc != "p2" {
		t.Fatalf("%v", d)
	}
	r.tick(12 * sec) // 99 · 1.01 + 5 = 104.99
	if d := take[Dead](r); len(d) != 0 || !r.l.Wait(r.now).Active {
		t.Fatalf("%v", d)
	}
	r.tick(sec)
	if d := one[Dead](r); d.Proc != "p1" || r.l.Wait(r.now).Active {
		t.Fatalf("%v", d)
	}
}

// TestPromiseIsRaisedFirstAndLoweredLast.
func TestPromiseIsRaisedFirstAndLoweredLast(t *testing.T) {
	short, long := member("p1", "w1", 1), member("p2", "w2", 1)
	short.Promise, long.Promise = 50*sec, 95*sec
	r := newRig(t, withMembers(short, long))
	promise := func(d time.Duration) func(*Heartbeat) { return func(h *Heartbeat) { h.Promise = d } }
	r.beat("w1", "p1", 1, promise(50*sec))
	r.report("p1")
	r.hold = true
	r.step(BeatReceived{r.hb("w1", "p1", 1, promise(50*sec)), true})
	r.out, r.hold = nil, false
	r.commit()
	a := one[AnswerBeat](r).Answer
	if a.Promise != 86*sec && a.Promise != 50*sec {
		t.Fatalf("%+v", a)
	}
	if a := r.beat("w1", "p1", 1, promise(50*sec)); a.Promise != 86*sec || !a.Credit {
		t.Fatalf("%+v", a)
	}
	r.beat("w2", "p2", 1, promise(95*sec))
	r.report("p2")
	if a := r.beat("w2", "p2", 1, promise(95*sec)); a.Promise != 86*sec {
		t.Fatalf("%+v", a)
	}
	row := func() time.Duration { return r.l.procs["p2"].row.Promise }
	if row() != 95*sec {
		t.Fatal("lowered before the shorter one is acknowledged")
	}
	r.beat("w2", "p2", 1, func(h *Heartbeat) { h.Term = fence.Term{Epoch: 1, Revision: 4} })
	if row() != 95*sec {
		t.Fatal("an old beat acknowledges nothing")
	}
	r.beat("w2", "p2", 1, promise(86*sec))
	if row() != 86*sec || r.members() == "" {
		t.Fatal(row())
	}
	r.beat("w2", "p2", 1, promise(93*sec))
	if row() != 93*sec {
		t.Fatal("a longer one that the cell lives by is written down")
	}
}

// TestUnlistedProcess: work on no list gets the order to end; processes with free work or none are admitted.
func TestUnlistedProcess(t *testing.T) {
	r := newRig(t, nil)
	work := func(h *Heartbeat) { h.HasWork = true }
	if a := r.beat("w1", "p1", 1, work); a.Verdict != Die || len(r.l.Sessions(r.now)) != 0 {
		t.Fatalf("%+v", a)
	}
	if a := r.beat("w1", "p1", 1); a.Verdict != Welcome {
		t.Fatalf("%+v", a)
	}
	r.out = nil
	r.report("p1", Held{Run: old(1, "j")})
	if s := one[SendSuicide](r); s.Call.All || r.state("p1") != New {
		t.Fatal("a report of work on no list is refused")
	}
	m := newRig(t, withMembers(member("p1", "w1", 1)))
	if a := m.beat("w1", "p1", 1, work, func(h *Heartbeat) { h.Epoch = 0 }); a.Verdict != Die {
		t.Fatalf("work of another epoch: %+v", a)
	}
	if a := m.beat("w1", "p1", 1, work, func(h *Heartbeat) { h.Boot, h.DirID = "x", "other" }); a.Verdict != Refused {
		t.Fatalf("same id, other directory: %+v", a)
	}
}

// TestStale: after a restore every promise may be as long as any, everything is
// held, and unlisted work is adopted; the wait ends with restored cleared.
func TestStale(t *testing.T) {
	r := newRig(t, func(c *Config) {
		withMembers(member("p1", "w1", 1))(c)
		c.Restored = true
	})
	a := r.beat("w2", "p2", 1, func(h *Heartbeat) { h.HasWork, h.Epoch, h.Promise = true, 0, 95*sec })
	if a.Verdict != Welcome || r.members() != "p2:1m35s" || len(r.l.silent) != 2 {
		t.Fatalf("%+v %q", a, r.members())
	}
	r.report("p2", Held{Run: old(9, "j")})
	r.healthyAgain("w2", "p2")
	if h, ok := r.l.MayStart(r.now, Request{Work: Work{"brand new", "n"}, Cell: "w2"}); ok || h.Reason != HoldWait {
		t.Fatalf("nothing is provably new: %+v", h)
	}
	if r.l.IsDead("whoever") {
		t.Fatal("no process is dead by a list that is not trusted")
	}
	for r.now < 1105*sec { // 1000 + 100·1.01 + 5 = 1106
		r.tick(sec)
		r.beat("w2", "p2", 1, func(h *Heartbeat) { h.HasWork = true })
	}
	if !r.l.Wait(r.now).Active || len(peek[Dead](r)) != 0 {
		t.Fatalf("too early: %v", peek[Dead](r))
	}
	r.tick(2 * sec)
	if r.l.Wait(r.now).Active || !r.l.IsDead("whoever") {
		t.Fatal("the wait is over")
	}
	if slices.Contains(r.rows, Row(ClearRestored{})) {
		t.Fatal("a job runs that no row names: it is no new one for the next leader")
	}
	r.status("w2", "p2", StatusItem{Kind: StatusEnded, Run: old(9, "j")})
	r.apply(one[Ended](r))
	r.tick(sec)
	if !slices.Contains(r.rows, Row(ClearRestored{})) {
		t.Fatal("nothing runs that no row names, and the store stays marked")
	}
}

// TestRowsAreTrustedWithWorkOfKnownJobs: runs of jobs that have rows, or that were started in this term, keep no
// mark.
func TestRowsAreTrustedWithWorkOfKnownJobs(t *testing.T) {
	r := newRig(t, func(c *Config) {
		withMembers(member("p1", "w1", 1))(c)
		c.Restored, c.Jobs = true, []JobRow{{Name: "j", UID: "u"}}
	})
	r.beat("w1", "p1", 1)
	r.report("p1", Held{Run: old(9, "j")})
	r.healthyAgain("w1", "p1")
	for range 12 {
		r.tick(10 * sec)
		r.healthyAgain("w1", "p1")
	}
	if r.l.Wait(r.now).Active || !slices.Contains(r.rows, Row(ClearRestored{})) {
		t.Fatal("the store stays marked")
	}
}

// TestHashVetoes: a cell that remembers a newer list proves that the store went
// back, also after the wait.
func TestHashVetoes(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1), member("p9", "w9", 1)))
	r.healthy("w1", "p1", 1)
	for range 12 {
		r.tick(10 * sec)
		r.healthyAgain("w1", "p1")
	}
	if r.l.Wait(r.now).Active {
		t.Fatal("over")
	}
	r.out = nil
	newer := r.l.members.list
	newer.Version += 5
	r.beat("w2", "p2", 1, func(h *Heartbeat) { h.SetID = newer })
	if a := take[Audit](r); len(a) == 0 || a[len(a)-1].Kind != AuditStale {
		t.Fatalf("%v", a)
	}
	if w := r.l.Wait(r.now); !w.Active || !w.Stale {
		t.Fatalf("%+v", w)
	}
	r.beat("w3", "p3", 1, func(h *Heartbeat) { h.SetID = newer })
	if a := take[Audit](r); len(a) != 0 {
		t.Fatalf("once: %v", a)
	}
	other := r.l.members.list
	other.Hash = workerset.Hash{}.Add("else")
	m := newRig(t, withMembers(member("p1", "w1", 1)))
	other.Version = m.l.members.list.Version
	m.beat("w2", "p2", 1, func(h *Heartbeat) { h.SetID = other })
	if !m.l.waiting.stale {
		t.Fatal("same version, other content")
	}
	n := newRig(t, withMembers(member("p1", "w1", 1)))
	older := n.l.members.list
	older.Version--
	n.beat("w2", "p2", 1, func(h *Heartbeat) { h.SetID = older })
	n.beat("w3", "p3", 1, func(h *Heartbeat) { h.SetID = workerset.ID{Leader: fence.Term{Epoch: 9}, Version: 99} })
	if n.l.waiting.stale {
		t.Fatal("an older list, or one of another epoch, proves nothing")
	}
}

// TestVetoReportsPossibleDoubles: work started while the list was older unnoticed.
func TestVetoReportsPossibleDoubles(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	r.tick(sec)
	x := r.run("w1", "j")
	r.out = nil
	newer := r.l.members.list
	newer.Version += 2
	r.beat("w1", "p1", 1, func(h *Heartbeat) { h.SetID, h.HasWork = newer, true })
	a := take[Audit](r)
	if len(a) != 2 || a[0].Kind != AuditDoubled || a[0].Run != x {
		t.Fatalf("%v", a)
	}
}

// TestRowsThatDoNotAddUp: a list that was half written is not trusted.
func TestRowsThatDoNotAddUp(t *testing.T) {
	r := newRig(t, func(c *Config) {
		withMembers(member("p1", "w1", 1))(c)
		c.List = workerset.ID{Version: 3, Hash: workerset.Hash{}.Add("p1").Add("p2")}
	})
	if !r.l.Wait(r.now).Stale {
		t.Fatal("trusted")
	}
}

// TestAdoption: a successor moves the work that it adopted, and the rest is lost, in one step.
func TestAdoption(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	r.tick(sec)
	x, y := r.run("w1", "kept"), r.run("w1", "gone")
	r.answer("p1", x, RunOK)
	r.kill(x)
	r.out = nil
	r.beat("w1", "p2", 2, func(h *Heartbeat) { h.HasWork, h.PredecessorsGone = true, false })
	r.step(ReportReceived{Report{Term: term5, Proc: "p2", Predecessor: "p1", Held: []Held{{Run: x, Adopted: true}}}})
	if len(peek[Dead](r)) != 0 || r.mayRun("gone") != HoldRunning {
		t.Fatal("not every container of p1 is gone")
	}
	if k := take[SendKill](r); len(k) == 0 || k[0].Call.Proc != "p2" {
		t.Fatalf("the kill goes to the present holder: %v", k)
	}
	r.beat("w1", "p2", 2, func(h *Heartbeat) { h.HasWork = true })
	d, e := peek[Dead](r), peek[Ended](r)
	if len(d) != 1 || d[0].Proc != "p1" || d[0].Proof != ProofSuccessor || len(e) != 1 || e[0].Run != y {
		t.Fatalf("%v %v", d, e)
	}
	if rs := r.l.Running(x.Work); len(rs) != 1 || rs[0].Proc != "p2" || rs[0].Ending || !rs[0].Sure {
		t.Fatalf("%v", rs)
	}
	r.apply(e[0])
	if r.members() != "p2:1m26s" {
		t.Fatal(r.members())
	}
	r.out = nil
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: x}) // late, from a process that is known no more
	if a := peek[AnswerStatus](r); len(a) != 1 || a[0].Answer.OK || len(peek[Ended](r)) != 0 {
		t.Fatalf("only p2 reports on its own runs: %v %v", a, peek[Ended](r))
	}
}

func (r *rig) kill(x Run) { r.kills[x] = true; r.step(KillWanted{x}) }

// TestShortPromiseOfAnOldCopy: a restored row that promises less than this leader does is raised to the longest
// promise first. Then the cell is credited with the leader's own promise, and its row comes down to that. Otherwise
// it would live by the short one for ever, and end its work while its session lasts.
func TestShortPromiseOfAnOldCopy(t *testing.T) {
	m := member("p1", "w1", 1)
	m.Promise = 50 * sec
	r := newRig(t, func(c *Config) {
		withMembers(m)(c)
		c.Restored = true
	})
	lives := func(h *Heartbeat) { h.Promise = m.Promise }
	r.beat("w1", "p1", 1, lives)
	r.report("p1")
	r.probe("w1", "p1", true)
	for range 3 {
		if a := r.beat("w1", "p1", 1, lives); a.Credit {
			m.Promise = a.Promise
		}
	}
	own := r.l.ownPromise()
	if want := "p1:" + own.String(); m.Promise != own || r.members() != want {
		t.Fatalf("lives by %v, row %s, want %s", m.Promise, r.members(), want)
	}
}

// TestReboot: another boot id on the directory's lock proves death at once.
func TestReboot(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1)))
	r.beat("w1", "p2", 2, func(h *Heartbeat) { h.Boot, h.PredecessorsGone = "next", false })
	if c := peek[SessionChanged](r); len(c) != 1 || !c[0].Displaced || c[0].Succeeded {
		t.Fatalf("nothing survives a reboot: %+v", c)
	}
	r.step(ReportReceived{Report{Term: term5, Proc: "p2"}})
	if d := one[Dead](r); d.Proof != ProofBoot || d.Proc != "p1" {
		t.Fatalf("%+v", d)
	}
}

// TestRestartOnOneMachineWaitsForNothing: the successor's report ends the wait.
func TestRestartOnOneMachineWaitsForNothing(t *testing.T) {
	m := member("p1", "w1", 1)
	m.Promise = 0
	r := newRig(t, func(c *Config) {
		withMembers(m)(c)
		c.NoDeadline = true
		c.Jobs = []JobRow{{Name: "old"}}
	})
	if w := r.l.Wait(r.now); !w.Active || w.Longest != 0 {
		t.Fatalf("no deadline, no bound: %+v", w)
	}
	r.healthy("w1", "p2", 2)
	r.tick(sec)
	if h, ok := r.l.MayStart(r.now, Request{Work: Work{"old", "n"}, Cell: "w1"}); !ok {
		t.Fatalf("%+v", h)
	}
	if a := r.beat("w1", "p2", 2); !a.Credit || a.Promise != 0 {
		t.Fatalf("%+v", a)
	}
	if _, ok := r.l.sessions.expiry(r.l.procs["p2"]); ok {
		t.Fatal("never expires")
	}
}

// TestReports: of another term or process, twice, or of applied ends.
func TestReports(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1)))
	r.step(ReportReceived{Report{Term: term5, Proc: "p1"}})
	if len(r.l.silent) != 1 {
		t.Fatal("a report of a process that has not beaten")
	}
	r.beat("w1", "p1", 1)
	r.step(ReportReceived{Report{Term: fence.Term{Epoch: 1, Revision: 4}, Proc: "p1"}})
	r.step(ReportReceived{Report{Term: term5, Proc: "p9"}})
	if r.state("p1") != New {
		t.Fatal("of another term, or of no process")
	}
	done, lost, killed := old(1, "done"), old(2, "lost"), old(3, "killed")
	r.applied[done.Work], r.applied[lost.Work] = applied{done.Invocation, true}, applied{lost.Invocation, false}
	r.kills[killed] = true
	r.report("p1", Held{Run: done, Ended: true}, Held{Run: lost}, Held{Run: killed})
	if r.mayRun("done") != HoldNone || r.mayRun("lost") != HoldRunning || r.mayRun("killed") != HoldRunning {
		t.Fatal("an applied end leaves the model alone, a synthetic one does not")
	}
	r.tick(sec)
	if k := take[SendKill](r); len(k) != 1 || k[0].Call.Run != killed {
		t.Fatalf("the stored kill is sent again: %v", k)
	}
	r.tick(6 * sec)
	if k := take[SendKill](r); len(k) != 1 {
		t.Fatalf("and again: %v", k)
	}
	r.report("p1", Held{Run: old(7, "late")})
	if r.mayRun("late") != HoldNone {
		t.Fatal("a second report")
	}
	r.beat("w2", "p2", 1)
	r.l.waiting.wait = true
	r.l.waiting.stale = true
	r.report("p2", Held{Run: old(8, "lost")})
	if a := take[Audit](r); len(a) == 0 || a[0].Kind != AuditDoubled ||
		a[0].Text != "may run twice: also held as "+lost.Invocation.String()+" by cell w1 (process p1)" {
		t.Fatalf("%v", a)
	}
}

// TestHigherTermEndsTheTerm for any message with it, and then nothing is taken.
func TestHigherTermEndsTheTerm(t *testing.T) {
	high := fence.Term{Epoch: 1, Revision: 6}
	for name, e := range map[string]Event{
		"beat":   BeatReceived{Beat: Heartbeat{Term: high, Cell: "w", Proc: "p", DirID: "f", Beat: 1}},
		"report": ReportReceived{Report{Term: high}}, "status": StatusReceived{UpdateStatus{Term: high}},
		"run": RunAnswered{RunAnswer{Term: high}}, "notify": NotifyAnswered{NotifyAnswer{Term: high}},
		"heard": TermHeard{Term: high},
	} {
		r := newRig(t, nil)
		r.step(e)
		if d := one[EndTerm](r); d.Higher != high {
			t.Errorf("%s: %+v", name, d)
		}
		if _, err := r.l.Step(r.now, Tick{}); !errors.Is(err, ErrDeposed) {
			t.Errorf("%s: %v", name, err)
		}
		if h, _ := r.l.MayReceive("w"); h.Reason != HoldDeposed {
			t.Errorf("%s: %v", name, h.Reason)
		}
	}
	r := newRig(t, nil)
	r.beat("w1", "p1", 1)
	r.report("p1", Held{Run: Run{Work{"j", "n"}, fence.Invocation{Term: high, Counter: 1}}})
	if len(take[EndTerm](r)) != 1 {
		t.Fatal("a reported invocation of a higher term")
	}
	l := newRig(t, nil)
	l.step(TermHeard{Term: term5})
	if len(l.out) != 0 {
		t.Fatal("its own term")
	}
}

// TestPolicyClockStandsStill: without proof of the lease, or after a stall, no
// session times out; certain death does not wait.
func TestPolicyClockStandsStill(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	for range 80 {
		r.now += sec
		r.step(Tick{})
	}
	if r.state("p1") != Healthy {
		t.Fatal("policy without proof of leadership")
	}
	r.now += 8 * sec
	r.step(Tick{LeaseHeld: true})
	if r.state("p1") != Healthy {
		t.Fatal("a stalled leader")
	}
	r.now += 5 * sec
	r.step(Tick{})
	if d := one[Dead](r); d.Proof != ProofExpiry {
		t.Fatalf("%+v", d)
	}
}

// TestUnknownEventIsRefused and changes nothing.
func TestUnknownEventIsRefused(t *testing.T) {
	r := newRig(t, nil)
	if _, err := r.l.Step(r.now, nil); !errors.Is(err, ErrMalformed) {
		t.Fatal(err)
	}
	if _, err := NewLeader(Config{}); !errors.Is(err, ErrTimeouts) {
		t.Fatal(err)
	}
}

// A probe that is dated by no heartbeat leaves the cell's own end UNHEALTHY until
// the next one.
func TestTheFirstProbeIsDatedByTheBeatThatCameBeforeIt(t *testing.T) {
	l, err := NewLeader(Config{Term: fence.Term{Epoch: 1, Revision: 5}, Now: time.Hour, Timeouts: DefaultTimeouts()})
	if err != nil {
		t.Fatal(err)
	}
	out,
		err := l.Step(time.Hour, BeatReceived{Beat: Heartbeat{Protocol: Protocol, Cell: "w", Proc: "p", DirID: "f", Beat: 3,
		Period: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range out.Effects {
		if r, ok := e.(SendRun); ok {
			if r.Call.Beat != 3 {
				t.Fatalf("the probe names beat %d, want 3", r.Call.Beat)
			}
			return
		}
	}
	t.Fatalf("no probe in %+v", out.Effects)
}

// TestAStallIsSeenByTheFirstEvent: after a stall the waiting heartbeats come before the tick, and no cell becomes
// suspect.
func TestAStallIsSeenByTheFirstEvent(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	r.tick(sec)
	r.out = nil
	r.now += 20 * sec
	if a := r.beat("w1", "p1", 1); a.State != Healthy {
		t.Errorf("%v", a.State)
	}
	if c := peek[SessionChanged](r); len(c) > 0 {
		t.Errorf("%+v", c)
	}
}

// TestImpossibleDurationsAreMalformed: a promise beyond all clocks would make the
// expiry of its process overflow into the past.
func TestImpossibleDurationsAreMalformed(t *testing.T) {
	for name, set := range map[string]func(*Heartbeat){
		"promise":  func(h *Heartbeat) { h.Promise = math.MaxInt64 },
		"negative": func(h *Heartbeat) { h.Promise = -1 },
		"period":   func(h *Heartbeat) { h.Period = math.MaxInt64 },
	} {
		r := newRig(t, nil)
		r.healthy("w1", "p1", 1)
		if _, err := r.l.Step(r.now, BeatReceived{Beat: r.hb("w1", "p1", 1, set), LeaseHeld: true}); !errors.Is(err,
			ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
		r.tick(2 * sec)
		if d := peek[Dead](r); len(d) > 0 {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestAdoptedOnNoListIsNotEligibleBeforeItsReport: a durable row alone does not show that the process may get work.
func TestAdoptedOnNoListIsNotEligibleBeforeItsReport(t *testing.T) {
	r := newRig(t, func(c *Config) { c.NewStore, c.Restored = false, true })
	r.beat("w1", "p1", 1, func(h *Heartbeat) { h.HasWork, h.Promise = true, 86*sec })
	if e := take[Eligible](r); len(e) != 0 || r.members() == "" {
		t.Fatalf("%v, members %s", e, r.members())
	}
	r.report("p1", Held{Run: old(1, "a")})
	one[Eligible](r)
}
