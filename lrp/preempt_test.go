package lrp

import (
	"errors"
	"testing"
)

// TestPreempt: an instance is stopped for other work only if it serves, may have a copy, has none, and has a lower
// priority.
func TestPreempt(t *testing.T) {
	any := func(*Env) {}
	running := Index{Ordinary: rowOf(t, "RUNNING self")}
	for name, c := range map[string]struct {
		x        Index
		change   func(*Env)
		priority int
		ok       bool
	}{
		"higher":         {running, any, 51, true},
		"equal":          {running, any, 50, false},
		"lower":          {running, any, 1, false},
		"higher than 80": {running, func(e *Env) { e.Desired.PreemptPriority = 80 }, 81, true},
		"equal to 80":    {running, func(e *Env) { e.Desired.PreemptPriority = 80 }, 80, false},
		"no definition":  {running, func(e *Env) { e.Desired = nil }, 100, false},
		"not wanted":     {running, func(e *Env) { e.Wanted = false }, 100, false},
		"exclusive":      {running, func(e *Env) { e.Desired.Exclusive = true }, 100, false},
		"stop first":     {running, func(e *Env) { e.Desired.Strategy = StopFirst }, 100, false},
		"exclusive, its row": {Index{Ordinary: rowWith(t, "RUNNING self", func(a *Actual) { a.Exclusive = true })}, any,
			100, false},
		"not ready": {Index{Ordinary: rowWith(t, "RUNNING self", func(a *Actual) { a.Net.Routable = false })}, any, 100,
			false},
		"not heard": {Index{Ordinary: rowWith(t, "RUNNING self", func(a *Actual) { a.Unheard = true })}, any, 100, false},
		"stopping": {Index{Ordinary: rowWith(t, "RUNNING self", func(a *Actual) { a.Retiring = true })}, any, 100,
			false},
		"its cell stops it": {Index{Ordinary: rowWith(t, "RUNNING self", func(a *Actual) { a.Net.Stopping = true })}, any,
			100, false},
		"another": {Index{Ordinary: rowOf(t, "RUNNING other")}, any, 100, false},
		"claimed": {Index{Ordinary: rowOf(t, "CLAIMED self")}, any, 100, false},
		"waiting": {Index{Ordinary: rowOf(t, "UNCLAIMED")}, any, 100, false},
		"moved":   {Index{Ordinary: running.Ordinary, Evacuating: copyOf("other")}, any, 100, false},
		"suspect": {Index{Ordinary: running.Ordinary, Suspect: suspectOf("other")}, any, 100, false},
		"none":    {Index{}, any, 100, false},
	} {
		env := wantedEnv()
		c.change(&env)
		c.x.Key = key0
		x, effects, err := Step(c.x, Preempt{By: alpha, For: "default/web/0", Priority: c.priority}, env)
		want := Preempted{By: "default/web/0", Priority: c.priority, Cell: "alpha", At: t0}
		switch {
		case !c.ok && (!errors.Is(err, ErrCannotBePreempted) || x != c.x):
			t.Errorf("%s: %s, %v", name, reported(x, effects), err)
		case c.ok && (err != nil || x.Ordinary.Preempted != want ||
			reported(x, effects) != "RUNNING alpha retiring | StopInstance PreemptionNoted"):
			t.Errorf("%s: %s, %v, %+v", name, reported(x, effects), err, x.Ordinary)
		}
	}
}

// TestPreemptedIsExplained: the reason stays from the stop on until the index is claimed again, whether its container
// ended by the stop or crashed.
func TestPreemptedIsExplained(t *testing.T) {
	env := wantedEnv()
	stopped, _, err := Step(Index{Key: key0, Ordinary: rowOf(t, "RUNNING self")},
		Preempt{By: alpha, For: "task t", Priority: 60}, env)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		events []Event
		want   string
		keeps  bool
	}{
		"ready":   {[]Event{Start{By: alpha, Net: netA, Service: svc}}, "RUNNING alpha retiring | ", true},
		"again":   {[]Event{Retire{}}, "RUNNING alpha retiring | ", true},
		"removed": {[]Event{Remove{By: alpha}}, "UNCLAIMED | ", true},
		"crashed": {[]Event{Crash{By: alpha}}, "UNCLAIMED | ", true},
		"no room": {[]Event{Remove{By: alpha}, PlacementFailed{"full"}}, "UNCLAIMED | ", true},
		"dead":    {[]Event{ProcDead{Proc: "pa"}}, "UNCLAIMED | ", false},
		"claimed": {[]Event{Remove{By: alpha}, Claim{By: omega}}, "CLAIMED omega | ", false},
		"started": {[]Event{Remove{By: alpha}, Start{By: omega, Net: netA}}, "RUNNING omega | ", false},
	} {
		x := stopped
		for _, e := range c.events {
			y, _, err := Step(x, e, env)
			if err != nil {
				t.Fatalf("%s: %T: %v", name, e, err)
			}
			x = y
		}
		if err := Check(x); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := reported(x, nil) + " "; got != c.want ||
			(x.Ordinary.Preempted != Preempted{}) != c.keeps {
			t.Errorf("%s: %q, %+v", name, got, x.Ordinary.Preempted)
		}
	}
}
