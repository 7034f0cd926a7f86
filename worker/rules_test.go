package worker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"cantina/fence"
)

// TestIncompleteHeartbeats: each required field of a heartbeat is needed alone.
func TestIncompleteHeartbeats(t *testing.T) {
	for name, change := range map[string]func(*Heartbeat){
		"no cell": func(h *Heartbeat) { h.Cell = "" }, "no process": func(h *Heartbeat) { h.Proc = "" },
		"no directory": func(h *Heartbeat) { h.DirID = "" },
		"no beat":      func(h *Heartbeat) { h.Beat = 0 }, "a negative beat": func(h *Heartbeat) { h.Beat = -1 },
		"a negative period":  func(h *Heartbeat) { h.Period = -1 },
		"a negative promise": func(h *Heartbeat) { h.Promise = -1 },
		"an endless period":  func(h *Heartbeat) { h.Period = longestDuration + 1 },
		"an endless promise": func(h *Heartbeat) { h.Promise = longestDuration + 1 },
	} {
		r := newRig(t, nil)
		if _, err := r.l.Step(r.now, BeatReceived{Beat: r.hb("w1", "p1", 1, change), LeaseHeld: true}); !errors.Is(err,
			ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := newRig(t, nil)
	if a := r.beat("w1", "p1", 1, func(h *Heartbeat) {
		h.Period, h.Promise = longestDuration,
			longestDuration
	}); a.Verdict != Welcome {
		t.Errorf("the longest durations: %+v", a)
	}
}

// TestAProcessIsOneThing: its id belongs to one cell, one directory and one start.
func TestAProcessIsOneThing(t *testing.T) {
	for name, change := range map[string]func(*Heartbeat){
		"another cell": func(h *Heartbeat) { h.Cell = "w2" }, "another directory": func(h *Heartbeat) { h.DirID = "f" },
		"another start": func(h *Heartbeat) { h.Started = 2 },
	} {
		r := newRig(t, nil)
		r.healthy("w1", "p1", 1)
		if a := r.beat("w1", "p1", 1, change); a.Verdict != Refused {
			t.Errorf("%s: %+v", name, a)
		}
		if a := r.beat("w1", "p1", 1); a.Verdict != Welcome {
			t.Errorf("%s: the process itself: %+v", name, a)
		}
	}
}

// TestTheHolderOfAName: a newcomer under the name of another process, by directory, start, state and flag.
func TestTheHolderOfAName(t *testing.T) {
	silence := func(d time.Duration) func(*rig) { return func(r *rig) { r.tick(d) } }
	at := DefaultTimeouts()
	for name, c := range map[string]struct {
		set     func(*Config)
		before  func(*rig)
		proc    Proc
		started int64
		verdict Verdict
		state   State // of p1 afterwards
	}{
		"a later process of the directory":    {nil, silence(0), "p2", 2, Welcome, MustDie},
		"the same start in the directory":     {nil, silence(0), "p2", 1, Welcome, MustDie},
		"an earlier process of the directory": {nil, silence(0), "p2", 0, Refused, Healthy},
		"another directory":                   {nil, silence(0), "p2@f", 2, DieAll, Healthy},
		"another directory, silent":           {nil, silence(at.HeartbeatGap() + 5*sec), "p2@f", 2, DieAll, Unhealthy},
		"another directory, silent, may bump": {func(c *Config) { c.AllowBump = true }, silence(at.HeartbeatGap() + 5*sec),
			"p2@f", 2, Welcome, MustDie},
		"another directory, healthy, may bump": {func(c *Config) { c.AllowBump = true }, silence(0), "p2@f", 2, DieAll,
			Healthy},
		"another directory, after it was lost": {nil, silence(at.HeartbeatGap() + at.Lost + 10*sec), "p2@f", 2, Welcome,
			MustDie},
	} {
		r := newRig(t, c.set)
		r.healthy("w1", "p1", 1)
		c.before(r)
		r.out = nil
		a := r.beat("w1", c.proc, c.started)
		if a.Verdict != c.verdict || r.state("p1") != c.state {
			t.Errorf("%s: %v (%s), p1 is %v; want %v, %v", name, a.Verdict, a.Reason, r.state("p1"), c.verdict, c.state)
		}
		if c.verdict != Welcome {
			continue
		}
		if old := r.beat("w1", "p1", 1); old.Verdict != DieAll && old.Verdict != Die {
			t.Errorf("%s: the displaced one: %+v", name, old)
		}
	}
	r := newRig(t, func(c *Config) { c.NewStore, c.Members = false, []Member{member("p1", "w1", 1)} })
	if a := r.beat("w1", "p2@f", 2); a.Verdict != Refused {
		t.Errorf("one that was not heard of yet: %+v", a)
	}
	r = newRig(t, func(c *Config) { c.NewStore, c.NoDeadline, c.Members = false, true, []Member{member("p1", "w1", 1)} })
	if a := r.beat("w1", "p2@f", 2); a.Verdict != Welcome {
		t.Errorf("one of another dev, which no leader hears: %+v", a)
	}
}

// TestTheLatestRowHoldsTheName of the rows that a leader finds; a displaced one never.
func TestTheLatestRowHoldsTheName(t *testing.T) {
	for name, members := range map[string][]Member{
		"in order":    {member("p1", "w1", 1), member("p2@f", "w1", 2)},
		"in no order": {member("p2@f", "w1", 2), member("p1", "w1", 1)},
		"one displaced": {member("p2@f", "w1", 2), func() Member {
			m := member("p3@g", "w1",
				3)
			m.Displaced = true
			return m
		}()},
	} {
		r := newRig(t, func(c *Config) { c.NewStore, c.Members = false, members })
		if got := r.l.holders["w1"]; got == nil || got.row.Proc != "p2@f" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestAnAnswerOfARunIsAboutIt: an answer of another process, for another run, or after its end, changes nothing.
func TestAnAnswerOfARunIsAboutIt(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	r.healthy("w2", "p2", 1)
	x := r.run("w1", "a")
	r.out = nil
	wrong := Run{Work{"b", "n"}, x.Invocation}
	r.answer("p2", x, RunRefused)
	r.answer("p1", wrong, RunRefused)
	r.answer("p1", Run{x.Work, fence.Invocation{Term: term5, Counter: 99}}, RunRefused)
	r.status("w2", "p2", StatusItem{Kind: StatusNotRunning, Run: x})
	r.status("w1", "p1", StatusItem{Kind: StatusNotRunning, Run: wrong})
	if e := take[Ended](r); len(e) != 0 {
		t.Fatalf("ended by another's word: %+v", e)
	}
	r.answer("p2", x, RunOK) // so that it would be sure
	r.answer("p1", wrong, RunOK)
	r.answer("p1", x, RunRefused)
	if e := take[Ended](r); len(e) != 1 || e[0].Run != x || e[0].Kind != NeverStarted {
		t.Fatalf("refused by its own cell: %+v", e)
	}
	r.answer("p1", x, RunOK) // it is ending
	r.answer("p1", x, RunRefused)
	if e := take[Ended](r); len(e) != 0 {
		t.Fatalf("ended twice: %+v", e)
	}
	r.step(StatusCommitted{wrong, NeverStarted})
	r.step(StatusCommitted{x, Real})
	if r.l.Live() != 1 {
		t.Fatal("forgotten before its own end was stored")
	}
	r.step(StatusCommitted{x, NeverStarted})
	if r.l.Live() != 0 {
		t.Fatal("its end is stored")
	}
	y := r.run("w1", "c")
	r.step(StatusCommitted{y, NeverStarted})
	if r.l.Live() != 1 {
		t.Fatal("it has not ended")
	}
}

// TestAKillIsRepeated until the run ends, and is sent at once when the cell may have got the run.
func TestAKillIsRepeated(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	x := r.run("w1", "a")
	r.out = nil
	r.step(KillWanted{Run: Run{Work{"b", "n"}, x.Invocation}})
	if k := take[SendKill](r); len(k) != 0 {
		t.Fatalf("another run of the invocation: %+v", k)
	}
	r.step(KillWanted{Run: x})
	if k := take[SendKill](r); len(k) != 1 || k[0].Call.Run != x {
		t.Fatalf("%+v", k)
	}
	r.answer("p1", x, RunOK)
	if k := take[SendKill](r); len(k) != 1 {
		t.Fatalf("it was just started: %+v", k)
	}
	r.tick(killPause - sec)
	if k := take[SendKill](r); len(k) != 0 {
		t.Fatalf("too early: %+v", k)
	}
	r.tick(2 * sec)
	if k := take[SendKill](r); len(k) != 1 {
		t.Fatalf("after the pause: %+v", k)
	}
	r.status("w1", "p1", StatusItem{Kind: StatusEnded, Run: x, Status: "s"})
	r.out = nil
	r.step(KillWanted{Run: x})
	r.tick(3 * killPause)
	if k := take[SendKill](r); len(k) != 0 {
		t.Fatalf("it has ended: %+v", k)
	}
}

// TestWordsOfProofs has a sentence for each.
func TestWordsOfProofs(t *testing.T) {
	seen := map[string]bool{}
	for p := ProofDeregistered; p <= ProofOperator; p++ {
		if words := p.Words(); words == "" || words == p.String() || seen[words] {
			t.Errorf("%v: %q", p, words)
		} else {
			seen[words] = true
		}
	}
}

// TestReasonsAgainstNewWork name the first condition that a cell does not meet.
func TestReasonsAgainstNewWork(t *testing.T) {
	r := newRig(t, nil)
	why := func() HoldReason { h, _ := r.l.MayReceive("w1"); return h.Reason }
	if why() != HoldNoSession {
		t.Error(why())
	}
	r.beat("w1", "p1", 1)
	if why() != HoldNotReported {
		t.Error(why())
	}
	r.hold = true
	r.report("p1")
	if why() != HoldNotMember {
		t.Error(why())
	}
	r.hold = false
	r.commit()
	if why() != HoldNotHealthy {
		t.Error(why())
	}
	r.probe("w1", "p1", true)
	r.beat("w1", "p1", 1)
	if why() != HoldNone {
		t.Error(why())
	}
	r.tick(DefaultTimeouts().HeartbeatGap() + 5*sec)
	if h, ok := r.l.MayReceive("w1"); ok || h.Reason != HoldNotHealthy || h.Proc != "p1" || h.Cell != "w1" {
		t.Error(fmt.Sprint(h, ok))
	}
}
