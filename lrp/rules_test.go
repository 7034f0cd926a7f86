package lrp

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cantina/action"
)

func rowWith(t *testing.T, words string, f func(*Actual)) *Actual {
	t.Helper()
	a := rowOf(t, words)
	f(a)
	return a
}

// reported prints rows and effects: "UNCLAIMED | RequestAuction".
func reported(x Index, effects []Effect) string {
	var out []string
	for _, a := range x.Rows() {
		text := a.State.String()
		if a.Presence != Ordinary {
			text += " " + a.Presence.String()
		}
		if a.Instance != "" {
			text += " " + a.Cell
		}
		if a.Retiring {
			text += " retiring"
		}
		out = append(out, text)
	}
	out = append(out, "|")
	for _, e := range effects {
		out = append(out, strings.TrimPrefix(fmt.Sprintf("%T", e), "lrp."))
	}
	return strings.Join(out, " ")
}

// drainEnd is the end of a drain.
var drainEnd = t0.Add(time.Hour)

// TestOutdatedEvents: an event for a state that the index is not in changes nothing.
func TestOutdatedEvents(t *testing.T) {
	unwanted := func(e *Env) { e.Wanted = false }
	undefined := func(e *Env) { e.Desired, e.Wanted = nil, false }
	any := func(*Env) {}
	late := func(e *Env) { e.Now = t0.Add(24 * time.Hour) }
	exclusive := func(e *Env) { e.Desired.Exclusive = true }
	for name, c := range map[string]struct {
		x     Index
		env   func(*Env)
		event Event
		err   error
	}{
		"create an existing index":        {Index{Ordinary: rowOf(t, "CRASHED")}, any, Create{}, nil},
		"create an unwanted index":        {Index{}, unwanted, Create{}, nil},
		"create without a definition":     {Index{}, func(e *Env) { e.Desired = nil }, Create{}, nil},
		"create beside an exclusive copy": {Index{Evacuating: copyOf("other")}, exclusive, Create{}, nil},
		"undesire a wanted index":         {Index{Ordinary: rowOf(t, "RUNNING self"), Suspect: nil}, any, Undesire{}, nil},
		"restart a running index":         {Index{Ordinary: rowOf(t, "RUNNING self")}, late, RestartCrashed{}, nil},
		"restart a claimed index":         {Index{Ordinary: rowOf(t, "CLAIMED self")}, late, RestartCrashed{}, nil},
		"restart a finished index": {Index{Ordinary: rowWith(t, "CRASHED", func(a *Actual) { a.Finished = true })},
			late, RestartCrashed{}, nil},
		"restart an unwanted index": {Index{Ordinary: rowOf(t, "CRASHED")},
			func(e *Env) { late(e); e.Wanted = false }, RestartCrashed{}, nil},
		"restart nothing":                 {Index{}, late, RestartCrashed{}, nil},
		"ask again for nothing":           {Index{}, any, Resend{}, nil},
		"ask again for a running index":   {Index{Ordinary: rowOf(t, "RUNNING self")}, any, Resend{}, nil},
		"ask again for an unwanted index": {Index{Ordinary: rowOf(t, "UNCLAIMED")}, unwanted, Resend{}, nil},
		"ask again for what crashed":      {Index{Ordinary: rowOf(t, "CRASHED")}, any, Resend{}, nil},
		"ask again before its time": {Index{Ordinary: rowWith(t, "UNCLAIMED",
			func(a *Actual) { a.NotBefore = t0.Add(1) })}, any, Resend{}, nil},
		"expire before its time": {Index{Evacuating: copyOf("self")}, any, ExpireEvacuating{}, nil},
		"expire nothing":         {Index{Ordinary: rowOf(t, "RUNNING self")}, late, ExpireEvacuating{}, nil},
		"no place for a running index": {Index{Ordinary: rowOf(t, "RUNNING self")}, any, PlacementFailed{"full"},
			ErrCannotBeFailed},
		"no place for the same reason": {Index{Ordinary: rowOf(t, "UNCLAIMED+error")}, any,
			PlacementFailed{"insufficient resources"}, nil},
		"claim without a definition": {Index{Ordinary: rowOf(t, "UNCLAIMED")}, undefined, Claim{By: alpha},
			ErrCannotBeClaimed},
		"claim with a definition, unwanted": {Index{Ordinary: rowOf(t, "UNCLAIMED")}, unwanted, Claim{By: alpha},
			ErrCannotBeClaimed},
		"claim, undefined but wanted": {Index{Ordinary: rowOf(t, "UNCLAIMED")}, func(e *Env) { e.Desired = nil },
			Claim{By: alpha}, ErrCannotBeClaimed},
		"claim by the evacuating cell": {Index{Ordinary: rowOf(t, "UNCLAIMED"), Evacuating: copyOf("self")}, any,
			Claim{By: alpha}, ErrCannotBeClaimed},
		"remove an unclaimed row": {Index{Ordinary: rowOf(t, "UNCLAIMED")}, any, Remove{By: alpha}, ErrNotFound},
		"remove without proof": {Index{Ordinary: rowWith(t, "RUNNING self",
			func(a *Actual) { a.Exclusive, a.Proc = true, "older" })}, any, Remove{By: alpha}, ErrNotProven},
		"crash of nothing wanted":  {Index{}, unwanted, Crash{By: alpha}, ErrNotFound},
		"crash of nothing defined": {Index{}, func(e *Env) { e.Desired = nil }, Crash{By: alpha}, ErrNotFound},
		"crash of another's": {Index{Ordinary: rowOf(t, "RUNNING other")}, any, Crash{By: alpha},
			ErrCannotBeCrashed},
		"a cell that has nothing here": {Index{Ordinary: rowOf(t, "RUNNING other"), Suspect: nil}, any,
			CellHealthy{"alpha", "pa"}, nil},
		"a silent cell that has nothing": {Index{Ordinary: rowOf(t, "RUNNING other")}, any, CellUnhealthy{"alpha", "pa"},
			nil},
		"a silent cell, leaving": {Index{Ordinary: rowWith(t, "RUNNING self",
			func(a *Actual) { a.Retiring = true })}, any, CellUnhealthy{"alpha", "pa"}, nil},
		"a silent cell, not wanted": {Index{Ordinary: rowOf(t, "RUNNING self")}, unwanted,
			CellUnhealthy{"alpha", "pa"}, nil},
		"a silent cell, exclusive": {Index{Ordinary: rowOf(t, "RUNNING self")}, exclusive,
			CellUnheard{"alpha", "pa"}, nil},
		"a dead process of no name": {Index{Ordinary: rowOf(t, "RUNNING self")}, any, ProcDead{""}, nil},
		"moved, another cell": {Index{Ordinary: rowWith(t, "RUNNING self",
			func(a *Actual) { a.Replaces = Identity{"i", "omega", "po"} })}, any, ProcMoved{Cell: "x", From: "pa", To: "new"},
			nil},
		"moved, replaced on another cell": {Index{Ordinary: rowWith(t, "RUNNING other",
			func(a *Actual) { a.Replaces = alpha })}, any, ProcMoved{Cell: "x", From: "pa", To: "new"}, nil},
		"moved, replaced by another process": {Index{Ordinary: rowWith(t, "RUNNING other",
			func(a *Actual) { a.Replaces = alpha })}, any, ProcMoved{Cell: "alpha", From: "other", To: "new"}, nil},
		"evacuation that is over": {Index{Ordinary: rowOf(t, "RUNNING other")}, any, RemoveEvacuating{By: alpha},
			ErrNotFound},
		"evacuation, nothing else serves": {Index{Evacuating: copyOf("self")}, any, RemoveEvacuating{By: alpha},
			ErrNotYet},
		"evacuation of what another has": {Index{Ordinary: rowOf(t, "RUNNING other")}, any,
			Evacuate{By: alpha, Net: netA, Until: drainEnd}, ErrCannotBeEvacuated},
		"a claim that another has": {Index{Ordinary: rowOf(t, "CLAIMED other")}, any, EvacuateClaimed{By: alpha},
			ErrNotFound},
		"an unwanted claim": {Index{Ordinary: rowOf(t, "UNCLAIMED")}, unwanted, EvacuateClaimed{By: alpha},
			ErrNotFound},
		"a claim of an exclusive index": {Index{Ordinary: rowOf(t, "CLAIMED self")}, exclusive,
			EvacuateClaimed{By: alpha}, ErrCannotBeEvacuated},
		"exclusive by its row": {Index{Ordinary: rowWith(t, "CLAIMED self",
			func(a *Actual) { a.Exclusive = true })}, undefined, EvacuateClaimed{By: alpha}, ErrCannotBeEvacuated},
		"an exclusive one that another has": {Index{Ordinary: rowWith(t, "RUNNING other",
			func(a *Actual) { a.Exclusive = true })}, any, Remove{By: alpha}, ErrNotFound},
		"evacuation of a copy that is over": {Index{Evacuating: copyOf("self")}, any,
			Evacuate{By: alpha, Net: netA, Until: drainEnd},
			ErrCannotBeEvacuated},
		"evacuation of nothing": {Index{}, any,
			Evacuate{By: alpha, Net: netA, Until: drainEnd}, ErrCannotBeEvacuated},
		"evacuation of nothing wanted": {Index{}, unwanted,
			Evacuate{By: alpha, Net: netA, Until: drainEnd}, ErrCannotBeEvacuated},
		"evacuation of a stop-first copy": {Index{Evacuating: copyOf("self")}, exclusive,
			Evacuate{By: alpha, Net: netA, Until: drainEnd},
			ErrCannotBeEvacuated},
		"a claim of nothing": {Index{}, any, EvacuateClaimed{By: alpha}, ErrNotFound},
		"dead, no row":       {Index{}, any, ProcDead{"pa"}, nil},
		"moved, no row":      {Index{}, any, ProcMoved{Cell: "alpha", From: "pa", To: "new"}, nil},
		"heard of, exclusive": {Index{Ordinary: rowOf(t, "RUNNING self")}, exclusive,
			CellHealthy{"alpha", "pa"}, nil},
		"create beside a suspect, exclusive": {Index{Suspect: suspectOf("other")}, exclusive, Create{}, nil},
		"evacuation, no cell took it": {Index{Ordinary: rowOf(t, "UNCLAIMED+error")}, any,
			Evacuate{By: alpha, Net: netA, Until: drainEnd}, ErrCannotBeEvacuated},
		"evacuation beside a suspect": {Index{Ordinary: rowOf(t, "RUNNING self"), Suspect: suspectOf("other")}, any,
			Evacuate{By: alpha, Until: drainEnd}, ErrCannotBeEvacuated},
		"given up, exclusive, claimed": {Index{Ordinary: rowWith(t, "CLAIMED self",
			func(a *Actual) { a.Exclusive = true })}, any, CellMustDie{"alpha", "pa"}, nil},
		"a start beside another's copy": {Index{Ordinary: rowWith(t, "RUNNING other",
			func(a *Actual) { a.Net.Routable = false }), Evacuating: copyOf("other")}, any, Start{By: alpha, Net: netA},
			ErrCannotBeStarted},
		"a start of what another runs": {Index{Ordinary: rowOf(t, "RUNNING other")}, any, Start{By: alpha, Net: netA},
			ErrCannotBeStarted},
		"a start of what serves elsewhere": {Index{Ordinary: rowOf(t, "RUNNING other"), Evacuating: copyOf("self")}, any,
			Start{By: alpha, Net: netA}, ErrCannotBeStarted},
		"an exclusive start beside another": {Index{Ordinary: rowOf(t, "CLAIMED other")}, exclusive,
			Start{By: alpha, Net: netA}, ErrCannotBeStarted},
	} {
		env := wantedEnv()
		c.env(&env)
		c.x.Key = key0
		after, effects, err := Step(c.x, c.event, env)
		if after != c.x || len(effects) != 0 || !errors.Is(err, c.err) {
			t.Errorf("%s: %s %v, want nothing and %v", name, reported(after, effects), err, c.err)
		}
	}
}

// TestRowsAfterEvents has rows and effects after one event, of cases that the other tables have not.
func TestRowsAfterEvents(t *testing.T) {
	any := func(*Env) {}
	unwanted := func(e *Env) { e.Wanted = false }
	orphan := func(e *Env) { e.Desired, e.Wanted, e.Fresh = nil, false, false }
	late := func(e *Env) { e.Now = t0.Add(24 * time.Hour) }
	onFailure := func(e *Env) { e.Desired.Restart.Mode = RestartOnFailure }
	retiring := func(a *Actual) { a.Retiring = true }
	for name, c := range map[string]struct {
		x     Index
		env   func(*Env)
		event Event
		want  string
	}{
		"a copy goes, and a place is asked for": {Index{Ordinary: rowOf(t, "UNCLAIMED"), Evacuating: copyOf("self")},
			any, RemoveEvacuating{By: alpha}, "UNCLAIMED | RequestAuction"},
		"a copy of an unwanted index goes": {Index{Ordinary: rowOf(t, "UNCLAIMED"), Evacuating: copyOf("self")},
			unwanted, RemoveEvacuating{By: alpha}, "UNCLAIMED |"},
		"a copy of a claimed index goes": {Index{Ordinary: rowOf(t, "CLAIMED other"),
			Evacuating: copyOf("self")}, any, RemoveEvacuating{By: alpha}, "CLAIMED omega |"},
		"undesired, all its rows": {Index{Ordinary: rowOf(t, "UNCLAIMED"), Evacuating: copyOf("self")},
			unwanted, Undesire{}, "RUNNING EVACUATING alpha retiring | StopInstance WithdrawAuction"},
		"undesired, claimed": {Index{Ordinary: rowOf(t, "CLAIMED self")}, unwanted, Undesire{},
			"CLAIMED alpha retiring | StopInstance"},
		"undesired, crashed": {Index{Ordinary: rowOf(t, "CRASHED")}, unwanted, Undesire{}, "|"},
		"retired, claimed": {Index{Ordinary: rowOf(t, "CLAIMED self")}, any, Retire{},
			"CLAIMED alpha retiring | StopInstance"},
		"retired, crashed, wanted": {Index{Ordinary: rowOf(t, "CRASHED")}, any, Retire{},
			"UNCLAIMED | RequestAuction"},
		"retired, waiting, not wanted": {Index{Ordinary: rowOf(t, "UNCLAIMED")}, unwanted, Retire{},
			"| WithdrawAuction"},
		"asked again, at its time": {Index{Ordinary: rowWith(t, "UNCLAIMED",
			func(a *Actual) { a.NotBefore = t0 })}, any, Resend{}, "UNCLAIMED | RequestAuction"},
		"asked again to stop, claimed": {Index{Ordinary: rowWith(t, "CLAIMED self", retiring)}, any, Resend{},
			"CLAIMED alpha retiring | StopInstance"},
		"asked again to stop, running": {Index{Ordinary: rowWith(t, "RUNNING self", retiring)}, unwanted,
			Resend{}, "RUNNING alpha retiring | StopInstance"},
		"expired": {Index{Ordinary: rowOf(t, "RUNNING other"),
			Evacuating: copyOf("self")}, func(e *Env) { e.Now = t0.Add(time.Minute) }, ExpireEvacuating{}, "RUNNING omega |"},
		"crashed, not wanted": {Index{Ordinary: rowOf(t, "RUNNING self")}, unwanted, Crash{By: alpha},
			"| CrashNoted"},
		"crashed, an orphan": {Index{Ordinary: rowOf(t, "RUNNING self")}, orphan, Crash{By: alpha},
			"CRASHED | CrashNoted"},
		"crashed, an orphan that was stopped": {Index{Ordinary: rowWith(t, "RUNNING self", retiring)}, orphan,
			Crash{By: alpha}, "CRASHED | CrashNoted"},
		"crashed, was to start afresh": {Index{Ordinary: rowWith(t, "RUNNING self", retiring)}, any,
			Crash{By: alpha}, "UNCLAIMED | CrashNoted RequestAuction"},
		"crashed, the copy": {Index{Ordinary: rowOf(t, "RUNNING other"),
			Evacuating: copyOf("self")}, any, Crash{By: alpha}, "RUNNING omega |"},
		"crashed, the copy, nothing else": {Index{Evacuating: copyOf("self")}, unwanted, Crash{By: alpha}, "|"},
		"crashed, the copy, nothing else, wanted": {Index{Evacuating: copyOf("self")}, any, Crash{By: alpha},
			"UNCLAIMED | CrashNoted RequestAuction"},
		"crashed, without a row": {Index{}, any, Crash{By: alpha},
			"UNCLAIMED | CrashNoted RequestAuction"},
		"ended well, restarts always": {Index{Ordinary: rowOf(t, "RUNNING self")}, any,
			Crash{By: alpha, Clean: true}, "UNCLAIMED | CrashNoted RequestAuction"},
		"ended well, restarts on failure": {Index{Ordinary: rowOf(t, "RUNNING self")}, onFailure,
			Crash{By: alpha, Clean: true}, "CRASHED | CrashNoted"},
		"failed, restarts on failure": {Index{Ordinary: rowOf(t, "RUNNING self")}, onFailure,
			Crash{By: alpha}, "UNCLAIMED | CrashNoted RequestAuction"},
		"removed, an exclusive one that waits": {Index{Ordinary: rowOf(t, "RUNNING other"),
			Evacuating: copyOf("self")}, any, Remove{By: alpha}, "RUNNING omega |"},
		"removed, by its successor": {Index{Ordinary: rowWith(t, "RUNNING self",
			func(a *Actual) { a.Proc = "older" })}, any, Remove{By: alpha}, "UNCLAIMED | RequestAuction"},
		"started, claimed by another": {Index{Ordinary: rowOf(t, "CLAIMED other")}, any,
			Start{By: alpha, Net: netA}, "RUNNING alpha | StopInstance"},
		"started, a copy serves, this one does not": {Index{Ordinary: rowOf(t, "CLAIMED self"),
			Evacuating: copyOf("other")}, any, Start{By: alpha}, "RUNNING alpha RUNNING EVACUATING beta |"},
		"started, a copy serves, this one too": {Index{Ordinary: rowOf(t, "CLAIMED self"),
			Evacuating: copyOf("other")}, any, Start{By: alpha, Net: netA}, "RUNNING alpha | StopInstance"},
		"started, its own copy": {Index{Ordinary: rowOf(t, "CLAIMED other"),
			Evacuating: copyOf("self")}, any, Start{By: alpha, Net: netA}, "RUNNING alpha | StopInstance"},
		"silent, a copy is there already": {Index{Ordinary: rowOf(t, "RUNNING self"),
			Evacuating: copyOf("other")}, any, CellUnhealthy{"alpha", "pa"},
			"UNCLAIMED RUNNING EVACUATING beta | RequestAuction"},
		"silent, claimed": {Index{Ordinary: rowOf(t, "CLAIMED self")}, any,
			CellUnhealthy{"alpha", "pa"}, "UNCLAIMED | RequestAuction"},
		"back, its replacement waits": {Index{Ordinary: rowOf(t, "UNCLAIMED"), Suspect: suspectOf("self")},
			any, CellHealthy{"alpha", "pa"}, "RUNNING alpha | WithdrawAuction"},
		"back, its replacement has crashed": {Index{Ordinary: rowOf(t, "CRASHED"), Suspect: suspectOf("self")}, any,
			CellHealthy{"alpha", "pa"}, "RUNNING alpha |"},
		"evacuated, the suspect of another": {Index{Ordinary: rowOf(t, "RUNNING self"),
			Suspect: suspectOf("other")}, any, Evacuate{By: alpha, Net: netA, Until: drainEnd},
			"UNCLAIMED RUNNING EVACUATING alpha | StopInstance RequestAuction"},
		"evacuated, the suspect itself": {Index{Ordinary: rowOf(t, "UNCLAIMED"), Suspect: suspectOf("self")},
			any, Evacuate{By: alpha, Net: netA, Until: drainEnd},
			"UNCLAIMED RUNNING EVACUATING alpha | RequestAuction"},
		"a claim given back": {Index{Ordinary: rowOf(t, "CLAIMED self")}, any,
			EvacuateClaimed{By: alpha}, "UNCLAIMED | RequestAuction"},
		"a claim given back that was not heard": {Index{Ordinary: rowOf(t, "UNCLAIMED")}, any,
			EvacuateClaimed{By: alpha}, "UNCLAIMED | AttemptDropped RequestAuction"},
		"given up, what replaced it is still waiting": {Index{Ordinary: rowOf(t, "UNCLAIMED"), Suspect: suspectOf("self")},
			any, CellMustDie{"alpha", "pa"}, "UNCLAIMED | RequestAuction"},
		"undesired, a copy alone": {Index{Evacuating: copyOf("self")}, unwanted, Undesire{},
			"RUNNING EVACUATING alpha retiring | StopInstance"},
		"undesired, a suspect alone": {Index{Suspect: suspectOf("self")}, unwanted, Undesire{},
			"| StopInstance"},
		"dead, a copy alone":    {Index{Evacuating: copyOf("self")}, any, ProcDead{"pa"}, "|"},
		"dead, a suspect alone": {Index{Suspect: suspectOf("self")}, any, ProcDead{"pa"}, "|"},
		"moved, a copy alone": {Index{Evacuating: copyOf("self")}, any,
			ProcMoved{Cell: "alpha", From: "pa", To: "new"}, "RUNNING EVACUATING alpha |"},
		"a claim given back, its copy alone": {Index{Evacuating: copyOf("self")}, any, EvacuateClaimed{By: alpha},
			"|"},
		"a place is asked for while it waits": {Index{Ordinary: rowOf(t, "UNCLAIMED"), Suspect: suspectOf("self")}, any,
			Remove{By: alpha}, "UNCLAIMED | RequestAuction"},
		"back, and the new one does not serve": {Index{Ordinary: rowWith(t, "RUNNING other",
			func(a *Actual) { a.Net.Routable = false }), Suspect: suspectOf("self")}, any, CellHealthy{"alpha", "pa"},
			"RUNNING alpha | StopInstance"},
		"back, and neither serves, the newer stays": {Index{Ordinary: rowWith(t, "RUNNING other",
			func(a *Actual) { a.Net.Routable = false }),
			Suspect: func() *Actual { s := *suspectOf("self"); s.Net.Routable = false; return &s }()}, any,
			CellHealthy{"alpha", "pa"}, "RUNNING omega | StopInstance"},
		"heard of, a claim is not marked": {Index{Ordinary: rowOf(t, "CLAIMED self")}, any,
			CellUnheard{"alpha", "pa"}, "UNCLAIMED | RequestAuction"},
		"created beside a copy": {Index{Evacuating: copyOf("self")}, any, Create{},
			"UNCLAIMED RUNNING EVACUATING alpha | RequestAuction"},
		"an exclusive claim given back, not heard": {Index{Ordinary: rowOf(t, "UNCLAIMED")},
			func(e *Env) { e.Desired.Exclusive = true }, EvacuateClaimed{By: alpha},
			"UNCLAIMED | AttemptDropped RequestAuction"},
		"silent, without a definition": {Index{Ordinary: rowOf(t, "RUNNING self")},
			func(e *Env) { e.Desired = nil }, CellUnhealthy{"alpha", "pa"}, "UNCLAIMED RUNNING SUSPECT alpha | RequestAuction"},
		"replaced, without a definition": {Index{Ordinary: rowOf(t, "CLAIMED other"), Suspect: suspectOf("self")},
			orphan, Start{By: omega, Net: netA}, "RUNNING omega | StopInstance"},
		"back, beside one that serves": {Index{Ordinary: rowOf(t, "RUNNING other"), Suspect: suspectOf("self")},
			any, CellHealthy{"alpha", "pa"}, "RUNNING alpha | StopInstance"},
		"crashed, the copy, without a definition": {Index{Evacuating: copyOf("self")}, func(e *Env) { e.Desired = nil },
			Crash{By: alpha}, "|"},
		"started, unready, its own copy goes": {Index{Ordinary: rowOf(t, "CLAIMED self"), Evacuating: copyOf("self")}, any,
			Start{By: alpha}, "RUNNING alpha |"},
		"evacuated again, no place is asked for": {Index{Ordinary: rowOf(t, "UNCLAIMED"), Evacuating: copyOf("self")}, any,
			Evacuate{By: alpha, Net: netA, Until: drainEnd}, "UNCLAIMED RUNNING EVACUATING alpha |"},
		"restarted, when it is time": {Index{Ordinary: rowOf(t, "CRASHED")}, late, RestartCrashed{},
			"UNCLAIMED | RequestAuction"},
	} {
		env := wantedEnv()
		c.env(&env)
		c.x.Key = key0
		after, effects, err := Step(c.x, c.event, env)
		if got := reported(after, effects); err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, c.want)
		}
	}
}

// TestKeptFieldsOfARow: which fields outlive a change of the row.
func TestKeptFieldsOfARow(t *testing.T) {
	env := wantedEnv()
	env.Desired = nil // a row keeps its meaning when the definition is gone
	env.Now = t0.Add(time.Hour)
	old := rowWith(t, "RUNNING self", func(a *Actual) { a.Exclusive, a.CrashCount, a.CrashReason = true, 4, "why" })
	step := func(x Index, e Event) Index {
		t.Helper()
		x.Key = key0
		after, _, err := Step(x, e, env)
		if err != nil {
			t.Fatalf("%T: %v", e, err)
		}
		return after
	}
	if a := step(Index{Ordinary: old}, ProcDead{"pa"}).Ordinary; a.CrashCount != 4 || a.CrashReason != "why" ||
		a.Service != svc || !a.Exclusive || a.Since != env.Now {
		t.Errorf("placed again: %+v", a)
	}
	claimed := rowWith(t, "CLAIMED self", func(a *Actual) { a.CrashCount, a.CrashReason, a.Retiring = 4, "why", true })
	if a := step(Index{Ordinary: claimed}, Start{By: alpha, Net: netA}).Ordinary; a.CrashCount != 4 ||
		a.CrashReason != "" || !a.Retiring || a.Service != svc {
		t.Errorf("started: %+v", a)
	}
	if a := step(Index{Ordinary: claimed}, Start{By: omega, Net: netA}).Ordinary; a.Retiring {
		t.Errorf("another one is not to be stopped: %+v", a)
	}
	env = wantedEnv()
	env.Now = t0.Add(time.Hour)
	waiting := rowWith(t, "UNCLAIMED", func(a *Actual) { a.CrashCount, a.CrashReason = 4, "why" })
	if a := step(Index{Ordinary: waiting}, Claim{By: alpha}).Ordinary; a.CrashCount != 4 || a.CrashReason != "why" ||
		a.Since != env.Now {
		t.Errorf("claimed: %+v", a)
	}
	if a := step(Index{}, Create{}).Ordinary; a.Service != svc || a.Exclusive {
		t.Errorf("created: %+v", a)
	}
	other := ServiceKey{Domain: "d", Name: "lost"}
	if a := step(Index{}, Start{By: alpha, Net: netA, Service: other, Exclusive: true}).Ordinary; a.Service != svc ||
		a.Exclusive {
		t.Errorf("the definition knows better than the cell: %+v", a)
	}
	env.Desired = nil
	if a := step(Index{}, Start{By: alpha, Net: netA, Service: other, Exclusive: true}).Ordinary; a.Service != other ||
		!a.Exclusive {
		t.Errorf("without a definition the cell knows: %+v", a)
	}
	env = wantedEnv()
	long := rowWith(t, "RUNNING self", func(a *Actual) { a.Since = t0.Add(-time.Hour) })
	if e := step(Index{Ordinary: long}, Evacuate{By: alpha, Net: netA, Until: t0}).Evacuating; e.Since != long.Since ||
		e.Service != svc {
		t.Errorf("evacuated, it runs since %v", e.Since)
	}
	if e := step(Index{Ordinary: rowWith(t, "CLAIMED self", func(a *Actual) { a.Since = long.Since })},
		Evacuate{By: alpha, Net: netA, Until: t0}).Evacuating; e.Since != env.Now {
		t.Errorf("evacuated, it was only claimed since %v", e.Since)
	}
	older := suspectOf("other")
	older.Since = t0.Add(-2 * time.Hour)
	if e := step(Index{Ordinary: long, Suspect: older},
		Evacuate{By: alpha, Net: netA, Until: t0}).Evacuating; e.Since != long.Since {
		t.Errorf("evacuated beside an older suspect, it runs since %v", e.Since)
	}
	ours := rowOf(t, "RUNNING self")
	for name, e := range map[string]Start{
		"process":     {By: Identity{alpha.Instance, alpha.Cell, "new"}, Net: netA},
		"address":     {By: alpha, Net: Net{Address: "x", Routable: true, Zone: "z1"}},
		"being ended": {By: alpha, Net: Net{Address: netA.Address, Routable: true, Zone: "z1", Stopping: true}},
		"its end":     {By: alpha, Net: Net{Address: netA.Address, Routable: true, Zone: "z1", StopBy: t0}},
		"zone":        {By: alpha, Net: Net{Address: netA.Address, Routable: true}},
		"readiness":   {By: alpha, Net: Net{Address: netA.Address, Zone: "z1"}},
		"ports": {By: alpha, Net: Net{Address: netA.Address, Routable: true, Zone: "z1",
			Ports: make([]action.Mapping, 1)}},
	} {
		if a := step(Index{Ordinary: ours}, e).Ordinary; a == ours || a.Proc != e.By.Proc || !a.Net.Equal(e.Net) ||
			a.Since != ours.Since {
			t.Errorf("%s has changed: %+v", name, a)
		}
	}
	if a := step(Index{Ordinary: ours}, Start{By: alpha, Net: netA}).Ordinary; a != ours {
		t.Errorf("nothing has changed: %+v", a)
	}
	for _, c := range []struct{ in, out string }{
		{strings.Repeat("x", 1024), strings.Repeat("x", 1024)},
		{strings.Repeat("x", 1025), strings.Repeat("x", 1013) + "(truncated)"},
		{strings.Repeat("x", 1012) + "ü" + strings.Repeat("x", 100), strings.Repeat("x", 1012) + "(truncated)"},
	} {
		if got := Cut(c.in); got != c.out {
			t.Errorf("cut to %d bytes, want %d", len(got), len(c.out))
		}
	}
}

// TestPredicatesOfARow: each takes all its conditions.
func TestPredicatesOfARow(t *testing.T) {
	running := rowOf(t, "RUNNING self")
	crashed := rowWith(t, "CRASHED", func(a *Actual) { a.Identity = alpha })
	claimed := rowWith(t, "CLAIMED self", func(a *Actual) { a.Net = netA })
	var none *Actual
	for name, c := range map[string]struct{ got, want bool }{
		"on its process":         {running.OnProc("pa"), true},
		"on another":             {running.OnProc("po"), false},
		"claimed on its process": {claimed.OnProc("pa"), true},
		"crashed on no process":  {crashed.OnProc("pa"), false},
		"none on a process":      {none.OnProc("pa"), false},
		"serves":                 {running.Serves(), true},
		"claimed does not serve": {claimed.Serves(), false},
		"unheard does not serve": {rowWith(t, "RUNNING self", func(a *Actual) { a.Unheard = true }).Serves(), false},
		"unready does not serve": {rowWith(t, "RUNNING self", func(a *Actual) { a.Net.Routable = false }).Serves(),
			false},
		"does not stop":          {running.Stopping(), false},
		"none does not stop":     {none.Stopping(), false},
		"is":                     {running.Is(alpha), true},
		"is not":                 {running.Is(omega), false},
		"crashed is no instance": {crashed.Is(alpha), false},
		"none is no instance":    {none.Is(alpha), false},
		"replaced": {rowWith(t, "RUNNING other", func(a *Actual) { a.Replaces = alpha }).replaced(alpha),
			true},
		"replaced another": {rowWith(t, "RUNNING other", func(a *Actual) { a.Replaces = beta }).replaced(alpha),
			false},
		"replaced none": {rowOf(t, "RUNNING other").replaced(Identity{}), false},
		"replaced itself": {rowWith(t, "RUNNING self", func(a *Actual) { a.Replaces = alpha }).replaced(alpha),
			false},
		"claimed replaced none": {rowWith(t, "CLAIMED other", func(a *Actual) { a.Replaces = alpha }).replaced(alpha),
			false},
		"an empty index":              {Index{}.Empty(), true},
		"an ordinary row is not":      {Index{Ordinary: running}.Empty(), false},
		"an evacuating row is not":    {Index{Evacuating: copyOf("self")}.Empty(), false},
		"a suspect row is not":        {Index{Suspect: suspectOf("self")}.Empty(), false},
		"keeps an orphan":             {Env{}.keepsOrphan(), true},
		"no orphan in a fresh domain": {Env{Fresh: true}.keepsOrphan(), false},
		"no orphan with a definition": {Env{Desired: definition()}.keepsOrphan(), false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v", name, c.got)
		}
	}
}

// TestHarmoniseOlderContainers: a container that a younger store does not know is left alone only if it runs, and
// only without rows.
func TestHarmoniseOlderContainers(t *testing.T) {
	row := Index{Key: key0, Ordinary: rowOf(t, "RUNNING other")}
	for name, c := range map[string]struct {
		v       View
		call    Call
		then    Fate
		refused Fate
	}{
		"starting, unknown":         {View{Container: Starting, Older: true}, NoCall, Leave, Leave},
		"starting, elsewhere":       {View{Container: Starting, Older: true, Rows: row}, NoCall, DeleteContainer, Leave},
		"starting, not from before": {View{Container: Starting}, NoCall, DeleteContainer, Leave},
		"runs, unknown":             {View{Container: Up, Older: true}, CallStart, Leave, Leave},
		"runs, unknown, not older":  {View{Container: Up}, CallStart, Leave, StopContainer},
		"runs, to be placed": {View{Container: Up, Older: true,
			Rows: Index{Key: key0, Ordinary: rowOf(t, "UNCLAIMED")}}, CallStart, Leave, StopContainer},
		"crashed, unknown": {View{Container: CompletedCrashed, Older: true}, CallCrash, DeleteContainer,
			DeleteContainer},
		"reserved, unknown": {View{Container: Reserved, Older: true}, NoCall, DeleteContainer, Leave},
		"ended, unknown":    {View{Container: CompletedShutdown, Older: true}, NoCall, DeleteContainer, Leave},
		"runs, unready, to be stopped": {View{Container: Up, Net: &netA,
			Rows: Index{Key: key0, Ordinary: rowWith(t, "RUNNING self", func(a *Actual) { a.Retiring = true })}}, NoCall,
			StopContainer, Leave},
		"reserved, to be stopped": {View{Container: Reserved,
			Rows: Index{Key: key0, Ordinary: rowWith(t, "CLAIMED self", func(a *Actual) { a.Retiring = true })}}, NoCall,
			StopContainer, Leave},
		"starting, to be stopped": {View{Container: Starting,
			Rows: Index{Key: key0, Ordinary: rowWith(t, "CLAIMED self", func(a *Actual) { a.Retiring = true })}}, NoCall,
			StopContainer, Leave},
		"ended, was to be stopped": {View{Container: CompletedShutdown,
			Rows: Index{Key: key0, Ordinary: rowWith(t, "RUNNING self", func(a *Actual) { a.Retiring = true })}}, CallRemove,
			DeleteContainer, DeleteContainer},
		"claimed, not its net yet": {View{Container: Starting, Net: &netA,
			Rows: Index{Key: key0, Ordinary: rowWith(t, "CLAIMED self", func(a *Actual) { a.Proc = "older" })}}, NoCall, Leave,
			Leave},
	} {
		c.v.Self = alpha
		a := Harmonise(c.v)
		if a.Call != c.call || a.Then != c.then || a.Refused != c.refused {
			t.Errorf("%s: %v %v %v, want %v %v %v", name, a.Call, a.Then, a.Refused, c.call, c.then, c.refused)
		}
	}
}
