package worker

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// TestDeregister: an empty process that reports that it leaves is dead at once.
func TestDeregister(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("w1", "p1", 1)
	leave := func(h *Heartbeat) { h.Deregister = true }
	if a := r.beat("w1", "p1", 1, leave, func(h *Heartbeat) { h.HasWork = true }); a.State != MustDie ||
		len(peek[Dead](r)) != 0 {
		t.Fatalf("not empty: %+v", a)
	}
	if a := r.beat("w1", "p1", 1, leave); a.State != MustDie || one[Dead](r).Proof != ProofDeregistered ||
		r.members() != "" {
		t.Fatalf("%+v %q", a, r.members())
	}
	if a := r.beat("w1", "p1", 1); a.Verdict != Die {
		t.Fatalf("never again under this id: %+v", a)
	}
	if a := r.beat("w9", "p9", 1, leave); a.State != MustDie {
		t.Fatalf("%+v", a)
	}
}

// TestForget: audited; an unknown process is an error.
func TestForget(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1)))
	if _, err := r.l.Step(r.now, Forget{Proc: "nobody"}); !errors.Is(err, ErrUnknownProcess) {
		t.Fatal(err)
	}
	r.step(Forget{Proc: "p1", By: "ann"})
	if a := peek[Audit](r); len(a) != 1 || a[0].Kind != AuditForgotten || one[Dead](r).Proof != ProofOperator {
		t.Fatalf("%v", a)
	}
	r.tick(sec)
	if r.l.Wait(r.now).Active || !r.l.IsDead("p1") || r.members() != "" {
		t.Fatal("gone")
	}
}

// TestDeadNonMembersAreForgotten: a lost newcomer without a row gets the order to die for a while, then it leaves
// nothing.
func TestDeadNonMembersAreForgotten(t *testing.T) {
	r := newRig(t, nil)
	r.beat("w1", "p1", 1)
	r.tick(61 * sec)
	if r.state("p1") != MustDie || r.beat("w1", "p1", 1).Verdict != Die {
		t.Fatal(r.state("p1"))
	}
	r.tick(200 * sec)
	if len(r.l.Sessions(r.now)) != 0 || r.beat("w1", "p1", 1).Verdict != Die {
		t.Fatal("kept")
	}
	if len(r.l.order) != 0 || len(r.l.goneList) != 1 {
		t.Errorf("%d are ticked on, %d ids are gone", len(r.l.order), len(r.l.goneList))
	}
}

// TestNewStoreIsStale unless the operator declares the cluster new.
func TestNewStoreIsStale(t *testing.T) {
	r := newRig(t, func(c *Config) { c.NewCluster = false })
	r.tick(sec)
	if w := r.l.Wait(r.now); !w.Active || !w.Stale {
		t.Fatalf("%+v", w)
	}
}

// TestDeathIsReportedBeforeTheRowIsDeleted: rows of services and tasks on a process without a member row are lost
// to a new leader. So work that its successor adopted is moved first.
func TestDeathIsReportedBeforeTheRowIsDeleted(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1)))
	r.beat("w1", "p2", 2, func(h *Heartbeat) { h.Predecessor, h.PredecessorsGone = "p1", true })
	r.out, r.hold = nil, true
	r.step(ReportReceived{Report{Term: term5, Proc: "p2", Predecessor: "p1", PredecessorsGone: true}})
	reported := false
	for len(r.pending) > 0 {
		out := r.pending[0]
		if slices.Contains(out.Rows, Row(DeleteMember{"p1"})) {
			if !reported {
				t.Fatal("the row is deleted in or before the transition that reports the death")
			}
			return
		}
		r.pending = r.pending[1:]
		reported = reported || slices.Contains(out.Effects, Effect(Dead{"w1", "p1", ProofSuccessor, "p2"}))
		next, err := r.l.Step(r.now, Committed{out.Seq})
		if err != nil {
			t.Fatal(err)
		}
		r.submit(next)
	}
	t.Fatalf("reported: %v, and the row stays", reported)
}

// TestReportedRemainsAreNotDeadByTime: a successor reports that some work of a process is not gone, which therefore
// does not die by KILL. The process is dead when its successor reports its end, or falls silent.
func TestReportedRemainsAreNotDeadByTime(t *testing.T) {
	for name, c := range map[string]struct {
		then func(r *rig)
		dead bool
	}{
		"it remains": {func(*rig) {}, false},
		"it is gone": {func(r *rig) { r.beat("w1", "p2", 2, func(h *Heartbeat) { h.Predecessor = "p1" }) },
			true},
		"the machine has started": {func(r *rig) {
			r.beat("w1", "p3", 3,
				func(h *Heartbeat) { h.Boot = "next" })
			r.report("p3")
		}, true},
		"no report any more": {func(r *rig) { r.tick(4 * r.l.ownPromise()) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withMembers())
			r.healthy("w1", "p1", 1)
			remains := func() {
				r.beat("w1", "p2", 2, func(h *Heartbeat) { h.Predecessor, h.PredecessorsGone, h.HasWork = "p1", false, true })
			}
			remains()
			r.step(ReportReceived{Report{Term: term5, Proc: "p2", Predecessor: "p1"}})
			for end := r.now + 2*r.l.ownPromise(); r.now < end; {
				r.tick(2 * sec)
				remains()
				r.probe("w1", "p2", true)
			}
			if r.l.IsDead("p1") {
				t.Fatal("dead by its promise, and its successor reports remains of it")
			}
			c.then(r)
			if r.l.IsDead("p1") != c.dead {
				t.Errorf("dead %v, want %v", !c.dead, c.dead)
			}
		})
	}
}

// TestDeathNamesTheSuccessorOfItsTime: the store takes nothing for a while, and sessions follow each other.
// Each death names the process that took over then, and not the last one, which may not have reported yet.
func TestDeathNamesTheSuccessorOfItsTime(t *testing.T) {
	r := newRig(t, withMembers(member("p1", "w1", 1)))
	r.hold = true
	for i, p := range []Proc{"p2", "p3", "p4"} {
		before := Proc(fmt.Sprint("p", i+1))
		r.beat("w1", p, int64(i+2), func(h *Heartbeat) { h.Predecessor, h.PredecessorsGone = before, true })
		if p != "p4" {
			r.step(ReportReceived{Report{Term: term5, Proc: p, Predecessor: before, PredecessorsGone: true}})
		}
	}
	r.commit()
	got := take[Dead](r)
	want := []Dead{{"w1", "p1", ProofSuccessor, "p2"}, {"w1", "p2", ProofSuccessor, "p3"}}
	if !slices.Equal(got, want) {
		t.Errorf("reported %v, want %v", got, want)
	}
}
