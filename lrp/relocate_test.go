package lrp

import (
	"errors"
	"testing"
	"time"
)

// TestRelocate: an instance is moved only if it serves, has run for some time, and may have a copy.
func TestRelocate(t *testing.T) {
	later := t0.Add(MoveAfter)
	until := later.Add(time.Minute)
	for name, c := range map[string]struct {
		x      Index
		change func(*Env)
		want   string
	}{
		"it serves": {Index{Ordinary: rowOf(t, "RUNNING self")}, func(*Env) {},
			"UNCLAIMED RUNNING EVACUATING alpha | RequestAuction"},
		"it has just begun": {Index{Ordinary: rowOf(t, "RUNNING self")},
			func(e *Env) { e.Now = later.Add(-1) }, ""},
		"it is another": {Index{Ordinary: rowOf(t, "RUNNING other")}, func(*Env) {}, ""},
		"it is not ready": {Index{Ordinary: rowWith(t, "RUNNING self", func(a *Actual) { a.Net.Routable = false })},
			func(*Env) {}, ""},
		"it is stopped": {Index{Ordinary: rowWith(t, "RUNNING self", func(a *Actual) { a.Retiring = true })},
			func(*Env) {}, ""},
		"it starts": {Index{Ordinary: rowOf(t, "CLAIMED self")}, func(*Env) {}, ""},
		"it is not wanted": {Index{Ordinary: rowOf(t, "RUNNING self")},
			func(e *Env) { e.Wanted = false }, ""},
		"it is drained": {Index{Ordinary: rowOf(t, "RUNNING self"), Evacuating: copyOf("other")},
			func(*Env) {}, ""},
		"it has replaced": {Index{Ordinary: rowOf(t, "RUNNING self"), Suspect: suspectOf("other")},
			func(*Env) {}, ""},
		"exclusive": {Index{Ordinary: rowOf(t, "RUNNING self")},
			func(e *Env) { e.Desired.Exclusive = true }, ""},
		"exclusive, its row": {Index{Ordinary: rowWith(t, "RUNNING self", func(a *Actual) { a.Exclusive = true })},
			func(*Env) {}, ""},
		"stop first": {Index{Ordinary: rowOf(t, "RUNNING self")},
			func(e *Env) { e.Desired.Strategy = StopFirst }, ""},
		"there is none": {Index{}, func(*Env) {}, ""},
	} {
		env := wantedEnv()
		env.Now = later
		c.change(&env)
		c.x.Key = key0
		x, effects, err := Step(c.x, Relocate{By: alpha, Until: until}, env)
		switch {
		case c.want == "" && !errors.Is(err, ErrCannotBeMoved):
			t.Errorf("%s: %s, %v", name, reported(x, effects), err)
		case c.want != "" && (err != nil || reported(x, effects) != c.want || !x.Evacuating.Moving):
			t.Errorf("%s: %s, %v; want %s", name, reported(x, effects), err, c.want)
		}
	}
}

// moving returns an index that is moved from alpha.
func moving(t *testing.T, until time.Time) Index {
	env := wantedEnv()
	env.Now = t0.Add(MoveAfter)
	x, _, err := Step(Index{Key: key0, Ordinary: rowOf(t, "RUNNING self")}, Relocate{By: alpha, Until: until}, env)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// TestAMoveEnds: the old instance is stopped as soon as the new one serves, and not before. Without a cell that starts
// a new one, the old one is the ordinary one again at the end of the time.
func TestAMoveEnds(t *testing.T) {
	until := t0.Add(time.Hour)
	ready, unready := netA, netA
	unready.Routable = false
	start := func(by Identity, net Net) Event { return Start{By: by, Net: net, Service: svc} }
	for name, c := range map[string]struct {
		at     time.Time
		events []Event
		want   string
	}{
		"claimed": {t0, []Event{Claim{By: omega}}, "CLAIMED omega RUNNING EVACUATING alpha |"},
		"started, not ready": {t0, []Event{Claim{By: omega}, start(omega, unready)},
			"RUNNING omega RUNNING EVACUATING alpha |"},
		"it serves": {t0, []Event{Claim{By: omega}, start(omega, ready)},
			"RUNNING omega | StopInstance"},
		"the new one crashes": {t0, []Event{Claim{By: omega}, Crash{By: omega}},
			"UNCLAIMED RUNNING EVACUATING alpha | CrashNoted RequestAuction"},
		"the new one crashes again and again": {t0, []Event{Claim{By: omega}, Crash{By: omega}, Claim{By: omega},
			Crash{By: omega}, Claim{By: omega}, Crash{By: omega}}, "RUNNING alpha | CrashNoted"},
		"the old one crashes":  {t0, []Event{Crash{By: alpha}}, "UNCLAIMED | RequestAuction"},
		"the old cell is lost": {t0, []Event{CellMustDie{"alpha", "pa"}}, "UNCLAIMED | RequestAuction"},
		"not over yet": {until.Add(-1), []Event{ExpireEvacuating{}},
			"UNCLAIMED RUNNING EVACUATING alpha |"},
		"over": {until, []Event{ExpireEvacuating{}}, "RUNNING alpha | WithdrawAuction"},
		"over, and it starts": {until, []Event{Claim{By: omega}, ExpireEvacuating{}},
			"CLAIMED omega RUNNING EVACUATING alpha |"},
		"over, it has crashed": {until, []Event{Claim{By: omega}, Crash{By: omega}, ExpireEvacuating{}},
			"RUNNING alpha | WithdrawAuction"},
		"a drain": {t0, []Event{Evacuate{By: alpha, Net: netA, Until: until.Add(1)}},
			"UNCLAIMED RUNNING EVACUATING alpha |"},
		"its ports change": {t0, []Event{Evacuate{By: alpha, Net: unready}},
			"UNCLAIMED RUNNING EVACUATING alpha |"},
		"it is not wanted": {t0, []Event{Undesire{}},
			"RUNNING EVACUATING alpha retiring | StopInstance WithdrawAuction"},
		"a retry of the claim": {t0, []Event{Claim{By: omega}, Claim{By: omega}},
			"CLAIMED omega RUNNING EVACUATING alpha |"},
	} {
		x := moving(t, until)
		env := wantedEnv()
		env.Now = c.at
		var effects []Effect
		for _, e := range c.events {
			if _, ok := e.(Undesire); ok {
				env.Wanted = false
			}
			var err error
			if x, effects, err = Step(x, e, env); err != nil {
				t.Errorf("%s: %T: %v", name, e, err)
			}
		}
		if got := reported(x, effects); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if err := Check(x); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if e := x.Evacuating; e != nil && e.Moving == (name == "a drain") {
			t.Errorf("%s: moving %v", name, e.Moving)
		}
	}
	env := wantedEnv()
	x := Index{Key: key0, Evacuating: copyOf("self"), Ordinary: rowOf(t, "UNCLAIMED")}
	if _, _, err := Step(x, Evacuate{By: alpha, Net: netA}, env); !errors.Is(err, ErrCannotBeEvacuated) {
		t.Errorf("a cell that is not drained refreshes the row of a drain: %v", err)
	}
}

// TestACellKeepsAMovedInstance: the cell of a moved instance leaves it alone, reports changes, and stops it when
// another one serves.
func TestACellKeepsAMovedInstance(t *testing.T) {
	x := moving(t, t0.Add(time.Hour))
	net, unready := x.Evacuating.Net, x.Evacuating.Net
	unready.Routable = false
	served := x
	served.Ordinary = rowOf(t, "RUNNING other")
	served.Evacuating = x.Evacuating
	for name, c := range map[string]struct {
		x    Index
		net  Net
		call Call
		then Fate
	}{
		"as in the row":      {x, net, NoCall, Leave},
		"readiness changes":  {x, unready, CallEvacuate, Leave},
		"another one serves": {served, net, CallRemoveEvacuating, DeleteContainer},
		"the move is over": {Index{Key: key0, Ordinary: rowOf(t, "RUNNING self")}, rowOf(t,
			"RUNNING self").Net, NoCall, Leave},
		"another one is there": {Index{Key: key0, Ordinary: rowOf(t,
			"RUNNING other")}, net, NoCall, DeleteContainer},
	} {
		a := Harmonise(View{Container: Up, Self: alpha, Net: &c.net, Rows: c.x})
		if a.Call != c.call || a.Then != c.then {
			t.Errorf("%s: %v, %v; want %v, %v", name, a.Call, a.Then, c.call, c.then)
		}
	}
}
