package worker

import (
	"slices"
	"testing"

	"cantina/fence"
	"cantina/workerset"
)

// TestANewerRunThanTheLastAppliedOne is none that has ended: it is taken into the model, and its end is counted.
func TestANewerRunThanTheLastAppliedOne(t *testing.T) {
	for name, kind := range map[string]bool{"the older one ended": true, "the older one was lost": false} {
		r := newRig(t, withMembers(member("p1", "w1", 1)))
		before, now := old(1, "j"), old(2, "j")
		r.applied[before.Work] = applied{before.Invocation, kind}
		r.beat("w1", "p1", 1, func(h *Heartbeat) { h.HasWork = true })
		r.report("p1", Held{Run: now})
		if rs := r.l.Running(now.Work); len(rs) != 1 || rs[0] != (RunView{Run: now, Cell: "w1", Proc: "p1", Sure: true}) ||
			r.l.Adopted() != 1 {
			t.Errorf("%s: %+v, adopted %d", name, rs, r.l.Adopted())
		}
		r.out = nil
		r.status("w9", "p9", StatusItem{Kind: StatusEnded, Run: old(3, "j"), Status: "done"}) // of an unknown process
		if e := one[Ended](r); e.Run != old(3, "j") || e.Kind != Real || e.Status != "done" {
			t.Errorf("%s: %+v", name, e)
		}
		r.status("w9", "p9", StatusItem{Kind: StatusEnded, Run: before, Status: "done"})
		switch a, e := peek[AnswerStatus](r), peek[Ended](r); {
		case kind && (len(e) != 0 || len(a) != 1 || !a[0].Answer.OK):
			t.Errorf("%s: it was applied: %+v, %+v", name, a, e)
		case !kind && (len(e) != 1 || len(a) != 0):
			t.Errorf("%s: a real end beats the loss: %+v, %+v", name, a, e)
		}
		r.out = nil
		r.status("w9", "p9", StatusItem{Kind: StatusEnded, Run: old(0, "j")})
		if a := one[AnswerStatus](r); !a.Answer.OK {
			t.Errorf("%s: a run older than the last applied one is dropped", name)
		}
	}
}

// TestAVetoIsOnlyForTheSilent: a process that has joined lives by the promise of its row.
func TestAVetoIsOnlyForTheSilent(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1), member("p2", "w2", 1)))
	r.healthy("w1", "p1", 1)
	newer := r.l.members.list
	newer.Version += 5
	r.beat("w3", "p3", 1, func(h *Heartbeat) { h.SetID = newer })
	if a, b := r.session("p1").Promise, r.session("p2").Promise; a != 86*sec || b != 100*sec {
		t.Errorf("promises %v and %v", a, b)
	}
	if list := r.l.members.list.Version; list < newer.Version {
		t.Errorf("version %d of the list", list)
	}
	newer.Version += 5
	r.out = nil
	if r.beat("w4", "p4", 1, func(h *Heartbeat) { h.SetID = newer }); len(peek[Audit](r)) != 0 ||
		r.l.members.list.Version != newer.Version {
		t.Errorf("reported once: %+v, version %d", peek[Audit](r), r.l.members.list.Version)
	}
}

// TestAVetoAfterTheWait: a veto after the sets have ended the wait starts the wait over.
func TestAVetoAfterTheWait(t *testing.T) {
	r := newRig(t, nil)
	r.tick(sec)
	if active, stale := r.l.Waits(); active || stale {
		t.Fatal("nothing to wait for")
	}
	for _, version := range []uint64{5, 9} {
		r.step(EndWait{By: "ann"})
		r.out = nil
		r.beat("w1", "p1", 1, func(h *Heartbeat) { h.SetID = workerset.ID{Leader: fence.Term{Epoch: 1}, Version: version} })
		if a := take[Audit](r); len(a) != 1 || a[0].Kind != AuditStale || a[0].Cell != "w1" || a[0].Proc != "p1" {
			t.Errorf("%+v", a)
		}
		if active, stale := r.l.Waits(); !active || !stale {
			t.Errorf("waits %v, blind %v", active, stale)
		}
	}
}

// TestReturnedProcesses: the processes that are back, may live, and hold a name.
func TestReturnedProcesses(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1), member("p2", "w2", 1), member("p9@g", "w1", 9)))
	if r.l.IsBack("p1") || r.l.IsBack("nobody") {
		t.Error("back before it came")
	}
	if got, _ := r.l.MayLive("w1"); !slices.Equal(got, []Proc{"p1", "p9@g"}) {
		t.Errorf("%v", got)
	}
	r.beat("w3", "p3", 1)
	if got, joining := r.l.MayLive("w3"); len(got) > 0 || joining != "p3" {
		t.Errorf("%v, and %q may become one", got, joining)
	}
	r.healthy("w3", "p3", 1)
	if got, joining := r.l.MayLive("w3"); !slices.Equal(got, []Proc{"p3"}) || joining != "" {
		t.Errorf("%v, and %q may become one", got, joining)
	}
	r.healthy("w2", "p2", 1)
	if !r.l.IsBack("p2") || !r.l.Holds("w2", "p2") || r.l.Holds("w2", "p1") || r.l.Holds("w9", "p2") {
		t.Error("p2 is back, and holds w2")
	}
	if r.tick(20 * sec); r.l.IsBack("p2") {
		t.Error("it is UNHEALTHY")
	}
	r.hold = true
	r.step(Forget{Proc: "p1", By: "ann"})
	if got, _ := r.l.MayLive("w1"); !slices.Equal(got, []Proc{"p9@g"}) || !r.l.IsDead("p1") || !r.session("p1").Dead {
		t.Errorf("%v", got)
	}
	r.hold = false
	if r.commit(); !r.l.IsDead("p1") || r.l.IsDead("p9@g") || !r.l.IsDead("nobody") {
		t.Error("who is dead")
	}
	stale := newRig(t, func(c *Config) { withMembers(member("p1", "w1", 1))(c); c.Restored = true })
	if stale.step(Forget{Proc: "p1", By: "ann"}); !stale.l.IsDead("p1") || stale.l.IsDead("nobody") {
		t.Error("of a list that is not trusted only those are dead that were declared so")
	}
}

// TestWorkOfEachCell counts the possible runs of a job and on a cell.
func TestWorkOfEachCell(t *testing.T) {
	r := newRig(t, withMembers(member("p3", "w3", 1)))
	r.healthy("w1", "p1", 1)
	r.healthy("w2", "p2", 1)
	if r.l.Idle("a") {
		t.Error("idle during the wait")
	}
	r.step(Forget{Proc: "p3", By: "ann"})
	r.tick(sec)
	if !r.l.Idle("a") {
		t.Error("nothing runs")
	}
	r.run("w1", "a")
	r.run("w1", "b")
	r.run("w2", "c")
	if r.l.Idle("a") || !r.l.Idle("d") || r.l.OnCell("w1") != 2 || r.l.OnCell("w2") != 1 || r.l.OnCell("w3") != 0 {
		t.Errorf("w1 %d, w2 %d", r.l.OnCell("w1"), r.l.OnCell("w2"))
	}
	if m := r.l.Model(); len(m) != 3 || m[0].Run.Work.Job != "a" || m[2].Cell != "w2" || m[2].Sure || m[2].Ending ||
		m[2].Kill {
		t.Errorf("%+v", m)
	}
}
