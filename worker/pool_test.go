package worker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/workerset"
)

// TestProtocolMismatch is scenario 14.
func TestProtocolMismatch(t *testing.T) {
	r := newRig(t, nil)
	a := r.beat("w1", "p1", 1, func(h *Heartbeat) { h.Protocol++ })
	if a.Verdict != Refused || len(r.l.Sessions(r.now)) != 0 {
		t.Fatalf("%+v", a)
	}
	if _, err := r.l.Step(r.now, BeatReceived{}); err == nil {
		t.Fatal("an empty heartbeat")
	}
	if a := r.beat("w1", "p1", 1); a.Verdict != Welcome {
		t.Fatalf("%+v", a)
	}
	if v, ok := r.l.Session(r.now, "w1"); !ok || v.Proc != "p1" || !v.Holder {
		t.Fatalf("%+v", v)
	}
}

// TestVersionsOfThePool is scenarios 15 to 17: versions 1, 2, 3; a rejected
// newcomer changes nothing, a replacement advances by two.
func TestVersionsOfThePool(t *testing.T) {
	r := newRig(t, consensus)
	r.tick(sec)
	for i, c := range []CellName{"w1", "w2", "w3"} {
		r.beat(c, Proc("p"+c), 1)
		if id := r.l.sessions.set.Current(); id.Version != uint64(i+1) || id.Hash.Count != i+1 || id.Leader != term5 {
			t.Fatalf("%+v", id)
		}
	}
	id := r.l.sessions.set.Current()
	for _, c := range []CellName{"w2", "w3"} {
		r.report(Proc("p" + c))
		if a := r.beat(c, Proc("p"+c), 1); !a.Credit || a.SetID != id {
			t.Fatalf("%+v", a)
		}
	}
	pass := func(d time.Duration) {
		for end := r.now + d; r.now < end; {
			r.tick(min(sec, end-r.now))
			for _, c := range []CellName{"w2", "w3"} {
				r.probe(c, Proc("p"+c), true)
				r.beat(c, Proc("p"+c), 1)
			}
		}
	}
	pass(59 * sec)
	if a := r.beat("w1", "new@h2", 1); a.Verdict != DieAll {
		t.Fatalf("%+v", a)
	}
	if a := r.beat("w1", "pw1", 1); a.State != New || r.l.sessions.set.Current() != id ||
		len(peek[SendReportRequest](r)) == 0 {
		t.Fatalf("the rejected newcomer changed something: %+v", a)
	}
	pass(3 * sec)
	r.out = nil
	a := r.beat("w1", "newer@h2", 1)
	is, want := r.l.sessions.set.Current(), (workerset.Hash{}.Add("pw2").Add("pw3").Add("newer@h2"))
	if a.State != New || is.Version != 5 || is.Hash != want {
		t.Fatalf("removal and addition are two versions: %+v %+v", a, is)
	}
	if s := take[SendSuicide](r); len(s) != 1 || s[0].Call.Proc != "pw1" {
		t.Fatalf("%v", s)
	}
}

// TestWaitWithoutCells is scenario 18: with hashes alone an empty leader waits as
// long as any promise may last, but in a new cluster; with the list it waits for nothing.
func TestWaitWithoutCells(t *testing.T) {
	r := newRig(t, func(c *Config) { consensus(c); c.NewStore = false })
	longest := r.l.t.Stretch(r.l.t.MaxDiesWithin)
	for _, d := range []time.Duration{0, sec, 5 * sec, longest - 2*sec} {
		r.now = 1000*sec + d
		r.step(Tick{LeaseHeld: true})
		if w := r.l.Wait(r.now); !w.Active || !w.All || w.Stale || w.Longest != longest-d {
			t.Fatalf("at %v: %+v", d, w)
		}
	}
	if r.mayRun("new") != HoldWait {
		t.Fatal("nothing is provably new: its cell may be one that no set names")
	}
	r.now = 1000*sec + longest
	r.step(Tick{LeaseHeld: true})
	if r.l.Wait(r.now).Active {
		t.Fatal("left")
	}
	r.now = 1003 * sec
	r.step(Tick{LeaseHeld: true})
	if r.l.Wait(r.now).Active {
		t.Fatal("never entered again")
	}
	for _, w := range []Witness{WitnessList, WitnessConsensus} {
		l := newRig(t, func(c *Config) { c.Witness = w })
		l.tick(sec)
		if l.l.Wait(l.now).Active {
			t.Fatal("the list of a new cluster is empty")
		}
	}
}

// TestCautionWait is scenario 19: a custom wait ends in time, with a warning, for any missing cells.
func TestCautionWait(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.InitialWait = 10 * sec
		c.Members = []Member{member("p1", "w1", 1)}
	})
	if a := one[Audit](r); a.Kind != AuditWaitForced {
		t.Fatalf("%+v", a)
	}
	r.tick(9 * sec)
	if w := r.l.Wait(r.now); !w.Active || w.Longest != sec || len(w.For) != 1 ||
		w.For[0].Longest != r.l.t.Stretch(86*sec)-9*sec {
		t.Fatalf("%+v", w)
	}
	r.tick(sec)
	if r.l.Wait(r.now).Active || take[Audit](r)[0].Kind != AuditWaitForced {
		t.Fatal("forced")
	}
	n := newRig(t, func(c *Config) {
		c.InitialWait = 10 * sec
		c.Members = []Member{member("p1", "w1", 1), member("p2", "w2", 1)}
	})
	n.tick(5 * sec)
	n.beat("w1", "p1", 1)
	n.tick(5 * sec)
	if !n.l.Wait(n.now).Active {
		t.Fatal("ready, but what w1 runs is not known yet")
	}
	n.report("p1")
	n.out = nil
	n.tick(sec)
	if n.l.Wait(n.now).Active || !strings.HasSuffix(take[Audit](n)[0].Text, "no report from: w2") {
		t.Fatal("w1 has reported; w2 is not waited for")
	}
	m := newRig(t, func(c *Config) { c.Members = []Member{member("p1", "w1", 1)} })
	m.step(EndWait{By: "ann"})
	if a := one[Audit](m); a.Kind != AuditWaitForced || m.l.Wait(m.now).Active ||
		!strings.Contains(a.Text, "ann, who accepts double starts; no report from: w1") {
		t.Fatalf("%+v", a)
	}
	m.step(EndWait{By: "ann"})
	if len(m.out) != 0 {
		t.Fatal("once")
	}
}

// TestUnreportedProcessesAreNamed when the wait is cut short, at most ten.
func TestUnreportedProcessesAreNamed(t *testing.T) {
	for n, want := range map[int]string{
		0:  "every listed process has reported",
		2:  "no report from: w10, w11",
		10: "no report from: w10, w11, w12, w13, w14, w15, w16, w17, w18, w19",
		11: "no report from: w10, w11, w12, w13, w14, w15, w16, w17, w18, w19 and 1 more",
		12: "no report from: w10, w11, w12, w13, w14, w15, w16, w17, w18, w19 and 2 more",
	} {
		var ms []Member
		for i := range n {
			ms = append(ms, member(Proc(fmt.Sprint("p", 10+i)), CellName(fmt.Sprint("w", 10+i)), 1))
		}
		r := newRig(t, withMembers(ms...))
		r.step(EndWait{By: "ann"})
		if a := one[Audit](r); !strings.HasSuffix(a.Text, "; "+want) {
			t.Errorf("%d: %s", n, a.Text)
		}
		r.tick(sec)
		if slices.Contains(r.rows, Row(ClearRestored{})) {
			t.Error("the store was not restored")
		}
	}
}

// TestConsensusWithAnImpostor is scenario 20.
func TestConsensusWithAnImpostor(t *testing.T) {
	r := newRig(t, func(c *Config) { consensus(c); c.NewStore = false })
	r.sets = map[Proc]workerset.ID{"p1": setOf(3, 2, "p1", "p2"), "p2": setOf(3, 2, "p1", "p2"), "p3": setOf(2, 1, "p3")}
	r.beat("w2", "p2", 1)
	r.beat("w3", "p3", 1)
	r.beat("w1", "p1", 1)
	r.report("p1")
	r.report("p2")
	r.beat("w1", "p1", 1)
	r.beat("w2", "p2", 1)
	r.tick(5 * sec)
	if !r.l.Wait(r.now).Active {
		t.Fatal("w3 has not reported its work yet")
	}
	for range 13 {
		r.tick(5 * sec)
		r.beat("w1", "p1", 1)
		r.beat("w2", "p2", 1)
		if r.l.Wait(r.now).Active {
			continue
		}
		break
	}
	if r.l.Wait(r.now).Active {
		t.Fatal("w3 never reported: it is lost after 60 s, and the others agree")
	}
	if r.state("p3") != MustDie || r.l.sessions.set.Len() != 2 {
		t.Fatal("w3 is out")
	}
}

// TestNothingStartsWithoutACell is scenario 23.
func TestNothingStartsWithoutACell(t *testing.T) {
	r := newRig(t, nil)
	if _, _, err := r.l.RunBatch(r.now, Request{Work: Work{"j", "n"}, Cell: "w1"}); err == nil {
		t.Fatal("no cell")
	}
	r.healthy("w1", "p1", 1)
	r.tick(sec)
	x := r.run("w1", "j")
	if c := one[SendRun](r); c.Call.Run != x || c.Cell != "w1" || c.Call.Term != term5 {
		t.Fatalf("%+v", c)
	}
	if h, ok := r.l.MayStart(r.now, Request{Work: x.Work, Cell: "w1"}); ok || h.Reason != HoldRunning ||
		h.Invocation != x.Invocation {
		t.Fatalf("%+v", h)
	}
}
