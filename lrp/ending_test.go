package lrp

import (
	"fmt"
	"testing"
	"time"
)

// TestHarmoniseCorners has the actions of a cell where two rules meet, with and without a drain.
func TestHarmoniseCorners(t *testing.T) {
	end, slow := dying(), netA
	slow.Routable = false
	with := func(net *Net, words string, f func(*Actual)) View {
		return View{Container: Up, Net: net, Rows: Index{Ordinary: rowWith(t, words, f)}}
	}
	unready := func(a *Actual) { a.Net.Routable = false }
	known := func(a *Actual) { a.Net = end }
	exclusive := func(a *Actual) { a.Exclusive = true }
	both := func(f func(*Actual)) func(*Actual) { return func(a *Actual) { known(a); f(a) } }
	retiring := func(a *Actual) { a.Retiring = true }
	beside := func(v View, evacuating, suspect *Actual) View {
		v.Rows.Evacuating, v.Rows.Suspect = evacuating, suspect
		return v
	}
	in := func(c Container, v View) View { v.Container = c; return v }
	sick := suspectOf("self")
	sick.Net.Routable = false
	for name, c := range map[string]struct {
		v               View
		normal, emptied string // call, fate, fate when the call is refused
	}{
		"retiring, its end is not known": {with(&end, "RUNNING self", retiring), "Start leave leave",
			"Start leave leave"},
		"retiring, its end is known": {with(&end, "RUNNING self", both(retiring)), "- leave leave", "- leave leave"},
		"exclusive, its end is not known": {with(&end, "RUNNING self", exclusive), "Start leave leave",
			"Start leave leave"},
		"exclusive, its end is known": {with(&end, "RUNNING self", both(exclusive)), "- leave leave", "- leave leave"},
		"exclusive": {with(&netA, "RUNNING self", exclusive), "- leave leave",
			"Evacuate leave leave"},
		"exclusive, claimed by another": {with(&netA, "CLAIMED other", exclusive), "Start leave stop", "- delete leave"},
		"no container any more": {in(NoContainer, with(nil, "CLAIMED self", exclusive)), "Remove leave leave",
			"Remove leave leave"},
		"unready now, its row and its copy": {beside(with(&slow, "RUNNING self", unready), copyOf("self"), nil),
			"- leave leave", "Evacuate leave leave"},
		"exclusive, of another": {with(&netA, "RUNNING other", exclusive), "- delete leave", "- delete leave"},
		"exclusive, starting": {in(Starting, with(nil, "CLAIMED self", exclusive)), "- leave leave",
			"- delete leave"},
		"exclusive, reserved": {in(Reserved, with(nil, "CLAIMED self", exclusive)), "- run leave",
			"- delete leave"},
		"crashed while it was being ended": {in(CompletedCrashed, with(&end, "RUNNING self", known)), "Crash delete delete",
			"EvacuateCrashed delete delete"},
		"ended by order": {in(CompletedShutdown, with(&end, "RUNNING self", known)),
			"Remove delete delete", "EvacuateStopped delete delete"},
		"a copy that crashed": {in(CompletedCrashed,
			beside(with(nil, "UNCLAIMED", func(*Actual) {}), copyOf("self"), nil)), "Remove delete delete",
			"EvacuateCrashed delete delete"},
		"a copy that ended": {in(CompletedShutdown,
			beside(with(nil, "UNCLAIMED", func(*Actual) {}), copyOf("self"), nil)), "Remove delete delete",
			"EvacuateStopped delete delete"},
		"a copy beside one that serves": {beside(with(&slow, "RUNNING other", func(*Actual) {}), copyOf("self"), nil),
			"- delete leave", "RemoveEvacuating delete delete"},
		"a copy beside one that is unready": {beside(with(&netA, "RUNNING other", unready), copyOf("self"), nil),
			"Start leave stop", "Evacuate leave leave"},
		"another copy, and one unready": {beside(with(&netA, "RUNNING other", unready), copyOf("other"), nil),
			"- delete leave", "- delete leave"},
		"unready, beside a suspect": {beside(with(&slow, "RUNNING self", unready), nil, suspectOf("other")),
			"- leave leave", "EvacuateClaimed delete leave"},
		"unready, beside a copy": {beside(with(&slow, "RUNNING self", unready), copyOf("other"), nil),
			"- leave leave", "EvacuateClaimed delete leave"},
		"ready, beside a suspect": {beside(with(&netA, "RUNNING self", unready), nil, suspectOf("other")),
			"Start leave leave", "Evacuate leave leave"},
		"unready, beside an unready suspect": {beside(with(&slow, "RUNNING self", unready), nil,
			func() *Actual { s := *suspectOf("other"); s.Net.Routable = false; return &s }()), "- leave leave",
			"Evacuate leave leave"},
		"a suspect that is unready now": {beside(with(&slow, "UNCLAIMED", func(*Actual) {}), nil, suspectOf("self")),
			"Start leave leave", "Evacuate leave leave"},
		"an unready suspect": {beside(with(&slow, "UNCLAIMED", func(*Actual) {}), nil, sick), "- leave leave",
			"Evacuate leave leave"},
		"a copy that is unready now": {beside(with(&slow, "UNCLAIMED", func(*Actual) {}), copyOf("self"), nil),
			"Start leave stop", "Evacuate leave leave"},
	} {
		c.v.Self, c.v.Rows.Key = alpha, key0
		n, e := Harmonise(c.v), HarmoniseEvacuating(c.v)
		if got := fmt.Sprint(n.Call, n.Then, n.Refused); got != c.normal {
			t.Errorf("%s: %s, want %s", name, got, c.normal)
		}
		if got := fmt.Sprint(e.Call, e.Then, e.Refused); got != c.emptied {
			t.Errorf("%s, emptied: %s, want %s", name, got, c.emptied)
		}
	}
}

// TestReasonsOfAnEvacuation: the action may be the same where the reason differs.
func TestReasonsOfAnEvacuation(t *testing.T) {
	for words, want := range map[string]string{
		"UNCLAIMED": "waiting for placement on another cell", "CLAIMED other": "another cell is starting it",
		"CLAIMED self": "the row was not unclaimed yet", "RUNNING other": "evacuated: clean up",
	} {
		if a := HarmoniseEvacuating(View{Container: Up, Self: alpha,
			Rows: Index{Key: key0, Ordinary: rowOf(t, words), Evacuating: copyOf("self")}}); a.Why != want {
			t.Errorf("%s: %s, want %s", words, a.Why, want)
		}
	}
	for words, want := range map[string]Grade{"CLAIMED self": Conceivable, "RUNNING self": Expected,
		"UNCLAIMED": Inconceivable} {
		if a := HarmoniseEvacuating(View{Container: Up, Self: alpha,
			Rows: Index{Key: key0, Ordinary: rowOf(t, words)}}); a.Grade != want {
			t.Errorf("%s: grade %v, want %v", words, a.Grade, want)
		}
	}
}

// TestChangesOfSeveralSteps: an ordinary row that no instance held goes on as the same row unless it is tried
// again, and is no copy of the index.
func TestChangesOfSeveralSteps(t *testing.T) {
	row := func(words string) Index { return Index{Key: key0, Ordinary: rowOf(t, words)} }
	beside := func(words string, c *Actual) Index {
		x := row(words)
		if x.Evacuating = c; c.Presence == Suspect {
			x.Evacuating, x.Suspect = nil, c
		}
		return x
	}
	claimed := copyOf("self")
	for name, c := range map[string]struct {
		before, after Index
		want, turn    string
	}{
		"crashed again":   {row("CRASHED"), row("CRASHED"), "changed CRASHED", "CRASHED"},
		"crashed at once": {row("UNCLAIMED"), row("CRASHED"), "changed CRASHED", "CRASHED"},
		"tried anew":      {row("CRASHED"), row("UNCLAIMED"), "created UNCLAIMED, removed CRASHED", "UNCLAIMED"},
		"waits still":     {row("UNCLAIMED"), row("UNCLAIMED+error"), "changed UNCLAIMED", "UNCLAIMED"},
		"only a copy is left": {row("UNCLAIMED"), Index{Key: key0, Evacuating: claimed},
			"created RUNNING EVACUATING, removed UNCLAIMED", "RUNNING EVACUATING"},
		"a suspect, back": {beside("UNCLAIMED", suspectOf("self")), row("RUNNING self"),
			"changed RUNNING, removed UNCLAIMED", "RUNNING"},
		"another copy": {beside("UNCLAIMED", copyOf("self")), beside("UNCLAIMED", copyOf("other")),
			"created RUNNING EVACUATING, changed UNCLAIMED, removed RUNNING EVACUATING", "RUNNING EVACUATING"},
		"its copy goes": {beside("UNCLAIMED", copyOf("self")), row("UNCLAIMED"),
			"changed UNCLAIMED, removed RUNNING EVACUATING", "UNCLAIMED"},
		"all of it goes": {beside("UNCLAIMED", copyOf("self")), Index{Key: key0},
			"removed UNCLAIMED, removed RUNNING EVACUATING", "nothing at 1"},
		"the last one goes":     {row("UNCLAIMED"), Index{Key: key0}, "removed UNCLAIMED", "nothing at 0"},
		"nothing, before also":  {Index{Key: key0}, Index{Key: key0}, "", "-"},
		"beside the shown row":  {beside("UNCLAIMED", claimed), beside("UNCLAIMED+error", claimed), "changed UNCLAIMED", "-"},
		"claimed beside a copy": {beside("UNCLAIMED", claimed), beside("CLAIMED other", claimed), "changed CLAIMED", "-"},
	} {
		all := Changes(c.before, c.after)
		got := "-"
		for i, x := range all {
			switch {
			case x.Turn && x.Shown == nil:
				got = fmt.Sprint("nothing at ", i)
			case x.Turn:
				got = x.Shown.State.String()
				if x.Shown.Presence != Ordinary {
					got += " " + x.Shown.Presence.String()
				}
				if x.After != x.Shown && c.after.Rows()[0] != x.Shown {
					got += fmt.Sprint(" with ", i)
				}
			}
		}
		if d := describe(all); d != c.want || got != c.turn {
			t.Errorf("%s: %s; turn %s; want %s; turn %s", name, d, got, c.want, c.turn)
		}
	}
}

// TestPositionOfTheTurn: with the change of the row that is shown, among any number of others. If that row did not
// change, it is with the first change, and with the last when no row is shown any more.
func TestPositionOfTheTurn(t *testing.T) {
	copied := copyOf("other")
	for name, c := range map[string]struct {
		before, after Index
		want          int
	}{
		"the second is shown": {Index{Ordinary: rowOf(t, "CLAIMED self")},
			Index{Ordinary: rowOf(t, "RUNNING self"), Evacuating: copied}, 0},
		"a copy is shown": {Index{Ordinary: rowOf(t, "RUNNING self")},
			Index{Ordinary: rowWith(t, "RUNNING self", func(a *Actual) { a.Net.Routable = false }), Evacuating: copied}, 1},
		"it did not change": {Index{Ordinary: rowOf(t, "RUNNING self"), Evacuating: copied},
			Index{Ordinary: rowOf(t, "CLAIMED other"), Evacuating: copied}, 0},
		"nothing is left": {Index{Ordinary: rowOf(t, "UNCLAIMED"), Evacuating: copied}, Index{}, 1},
	} {
		c.before.Key, c.after.Key = key0, key0
		at := -1
		for i, x := range Changes(c.before, c.after) {
			if x.Turn {
				at = i
			}
			if want := x.After != nil && x.After != c.after.Resolved(); x.Hidden != want {
				t.Errorf("%s: change %d hidden %v", name, i, x.Hidden)
			}
		}
		if at != c.want {
			t.Errorf("%s: with change %d, want %d", name, at, c.want)
		}
	}
}

// TestPlansOfAPlaceThatIsAskedFor: a copy is waited for as long as its service requires, also when that is shorter
// than the timeout of a request. The earlier of two times is kept.
func TestPlansOfAPlaceThatIsAskedFor(t *testing.T) {
	until := func(d time.Duration) func(*Actual) { return func(a *Actual) { a.NotBefore = t0.Add(d) } }
	b := boardOf(t, 1, plainService)
	b.PutIndex(Index{Key: key0, Ordinary: rowWith(t, "UNCLAIMED", until(10*time.Second)), Suspect: suspectOf("self")})
	for _, c := range []struct {
		at   time.Duration
		want string
		due  time.Duration
	}{{0, "", 10}, {9, "", 10}, {10, "0:lrp.Resend ", 40}, {39, "", 40}, {40, "0:lrp.Resend ", 70}} {
		if got := moves(b.Converge(t0.Add(c.at * time.Second))); got != c.want {
			t.Errorf("after %d s: %q, want %q", c.at, got, c.want)
		}
		if due, ok := b.NextDue(); !ok || !due.Equal(t0.Add(c.due*time.Second)) {
			t.Errorf("after %d s: next look after %v", c.at, due.Sub(t0))
		}
	}
	b = boardOf(t, 1, plainService)
	b.PutIndex(Index{Key: key0, Ordinary: rowOf(t, "UNCLAIMED"), Evacuating: copyOf("self")}) // expires after a minute
	b.Converge(t0)
	if due, _ := b.NextDue(); !due.Equal(t0.Add(30 * time.Second)) {
		t.Errorf("next look after %v", due.Sub(t0))
	}
}
