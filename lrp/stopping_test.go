package lrp

import (
	"errors"
	"testing"
	"time"
)

// dying is how a running container is reached that its cell is ending.
func dying() Net {
	n := netA
	n.Routable, n.Stopping, n.StopBy = false, true, t0.Add(time.Minute)
	return n
}

// TestEndingInstancesTakeNoPlace: an instance that its cell is ending shows that in its own row, under each table,
// and takes no other row. A waiting index is placed meanwhile.
func TestEndingInstancesTakeNoPlace(t *testing.T) {
	net := dying()
	for name, ordinary := range map[string]string{"not claimed": "UNCLAIMED", "starting elsewhere": "CLAIMED other",
		"crashed": "CRASHED"} {
		x := Index{Key: key0, Ordinary: rowOf(t, ordinary)}
		v := View{Container: Up, Self: alpha, Net: &net, Rows: x}
		for _, a := range []Action{Harmonise(v), HarmoniseEvacuating(v)} {
			if a.Call != NoCall || a.Then != Leave {
				t.Errorf("%s: %v %v", name, a.Call, a.Then)
			}
		}
		if _, _, err := Step(x, Start{By: alpha, Net: net, Service: svc}, wantedEnv()); !errors.Is(err, ErrCannotBeStarted) {
			t.Errorf("%s: %v", name, err)
		}
	}
	x := Index{Key: key0, Ordinary: rowOf(t, "RUNNING self")}
	if a := Harmonise(View{Container: Up, Self: alpha, Net: &net, Rows: x}); a.Call != CallStart {
		t.Errorf("its own row: %v", a)
	}
	x, _, err := Step(x, Start{By: alpha, Net: net, Service: svc}, wantedEnv())
	if err != nil || !x.Ordinary.Stopping() || x.Ordinary.Serves() {
		t.Errorf("its own row: %s %v", show(x), err)
	}
	if a := Harmonise(View{Container: Up, Self: alpha, Net: &net, Rows: x}); a.Call != NoCall || a.Then != Leave {
		t.Errorf("it is known: %v", a)
	}
}

// TestADrainDeadlineEndsACopyInSight: a copy whose time is over does not serve. Its row stays until it is gone,
// also when the drain is undone; the index is placed again.
func TestADrainDeadlineEndsACopyInSight(t *testing.T) {
	net := dying()
	x := Index{Key: key0, Ordinary: rowOf(t, "UNCLAIMED"), Evacuating: copyOf("self")}
	if a := HarmoniseEvacuating(View{Container: Up, Self: alpha, Net: &net, Rows: x}); a.Call != CallEvacuate ||
		a.Then != Leave {
		t.Fatalf("%v", a)
	}
	for name, e := range map[string]Event{"while it is emptied": Evacuate{By: alpha, Net: net, Until: t0.Add(time.Hour)},
		"taken back": Start{By: alpha, Net: net, Service: svc}} {
		after, _, err := Step(x, e, wantedEnv())
		if err != nil || Check(after) != nil || after.Evacuating.Serves() || !after.Evacuating.Stopping() ||
			after.Ordinary.State != Unclaimed {
			t.Errorf("%s: %s %v", name, show(after), err)
		}
		if r := after.Resolved(); r != after.Evacuating {
			t.Errorf("%s: shown is %+v", name, r)
		}
		if a := Harmonise(View{Container: CompletedShutdown, Self: alpha, Rows: after}); a.Call != CallRemove ||
			a.Then != DeleteContainer {
			t.Errorf("%s, when it has ended: %v", name, a)
		}
		gone, _, err := Step(after, Remove{By: alpha}, wantedEnv())
		if err != nil || gone.Evacuating != nil || gone.Ordinary.State != Unclaimed {
			t.Errorf("%s, when it has ended: %s %v", name, show(gone), err)
		}
	}
	exclusive := rowOf(t, "RUNNING self")
	exclusive.Exclusive = true
	env := wantedEnv()
	env.OthersRunning = false
	x = Index{Key: key0, Ordinary: exclusive}
	after, _, err := Step(x, Evacuate{By: alpha, Net: net}, env)
	if err != nil || !after.Ordinary.Stopping() || after.Ordinary.Retiring || after.Ordinary.State != Running {
		t.Errorf("exclusive: %s %v", show(after), err)
	}
	claimed := rowOf(t, "CLAIMED self")
	claimed.Exclusive = true
	after, _, err = Step(Index{Key: key0, Ordinary: claimed}, Evacuate{By: alpha, Net: net}, env)
	if err != nil || !after.Ordinary.Stopping() || after.Ordinary.State != Claimed || Check(after) != nil {
		t.Errorf("exclusive, and its start not reported yet: %s %v", show(after), err)
	}
}

// TestAGivenUpCellServesNothing: an exclusive row stays until its process is certainly dead, and
// nothing is routed to it.
func TestAGivenUpCellServesNothing(t *testing.T) {
	row := rowOf(t, "RUNNING self")
	row.Exclusive, row.Net.Routable = true, true
	x, _, err := Step(Index{Key: key0, Ordinary: row}, CellMustDie{"alpha", "pa"}, wantedEnv())
	if err != nil || x.Ordinary.State != Running || x.Ordinary.Serves() || !x.Ordinary.Unheard {
		t.Fatalf("%s %v", show(x), err)
	}
	if x, _, _ = Step(x, ProcDead{"pa"}, wantedEnv()); x.Ordinary.State != Unclaimed {
		t.Errorf("%s", show(x))
	}
}

// TestTheLastCrashMoves: the cause, place and time of the last crash of an index stay with it over starts and
// moves, until an operator restarts it.
func TestTheLastCrashMoves(t *testing.T) {
	env := wantedEnv()
	x := Index{Key: key0, Ordinary: rowOf(t, "RUNNING self")}
	want := LastCrash{Reason: "exit status 3", Cell: alpha.Cell, At: env.Now}
	for _, e := range []Event{Crash{By: alpha, Reason: "exit status 3"}, Claim{By: omega},
		Start{By: omega, Net: netA, Service: svc},
		Remove{By: omega}, Claim{By: alpha}, Start{By: alpha, Net: netA, Service: svc},
		Evacuate{By: alpha, Net: netA, Until: t0.Add(time.Hour)},
		Claim{By: omega}, Start{By: omega, Net: netA, Service: svc}} {
		var err error
		if x, _, err = Step(x, e, env); err != nil || x.Ordinary.LastCrash != want {
			t.Fatalf("%T: %+v %v", e, x.Ordinary, err)
		}
	}
	for _, e := range []Event{Retire{}, Remove{By: omega}} {
		x, _, _ = Step(x, e, env)
	}
	if x.Ordinary.LastCrash != (LastCrash{}) {
		t.Errorf("started afresh: %+v", x.Ordinary)
	}
}
