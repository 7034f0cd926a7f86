package worker

import (
	"slices"
	"testing"
)

// TestALateLeaderJudgesNoOne: a cell with unhandled messages is named by Late, and keeps its state in a tick that
// names it as behind. Without that it is UNHEALTHY. Its promise passes all the same: then it is dead.
func TestALateLeaderJudgesNoOne(t *testing.T) {
	for _, behind := range []bool{true, false} {
		r := newRig(t, nil)
		r.healthy("c", "p", 1)
		state := func() State { return r.state("p") }
		if late := r.l.Late(r.now); len(late) != 0 {
			t.Fatalf("late: %v", late)
		}
		for range 20 {
			r.now += sec
			e := Tick{LeaseHeld: true}
			if late := r.l.Late(r.now); behind {
				e.Behind = late
			}
			r.step(e)
		}
		if late := r.l.Late(r.now); !slices.Equal(late, []CellName{"c"}) {
			t.Errorf("late: %v", late)
		}
		if got := state(); behind != (got == Healthy) || !behind && got != Unhealthy {
			t.Errorf("behind %v: %v", behind, got)
		}
		var dead []Dead
		for range 600 {
			r.now += sec
			r.step(Tick{LeaseHeld: true, Behind: []CellName{"c"}})
			dead = append(dead, take[Dead](r)...)
		}
		if len(dead) != 1 || dead[0].Proof != ProofExpiry {
			t.Errorf("behind %v: dead %+v", behind, dead)
		}
	}
}

// TestLostWorkIsNotLate: its silence has been judged. The name of its cell may be that of another one.
func TestLostWorkIsNotLate(t *testing.T) {
	r := newRig(t, nil)
	r.healthy("c", "p", 1)
	r.tick(r.l.t.HeartbeatGap() + sec)
	if late := r.l.Late(r.now); !slices.Equal(late, []CellName{"c"}) {
		t.Fatalf("late: %v", late)
	}
	r.tick(r.l.t.Lost)
	r.healthy("c", "q@other", 1)
	if r.state("p") != MustDie {
		t.Fatal(r.state("p"))
	}
	if late := r.l.Late(r.now); len(late) != 0 {
		t.Errorf("late: %v", late)
	}
}
