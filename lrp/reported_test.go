package lrp

import (
	"errors"
	"slices"
	"testing"
)

// TestReportedContainersComeFirst: an index that runs at most once is not placed while cells have reported
// containers of that index without a row. One after the other gets the row, until all are gone.
func TestReportedContainersComeFirst(t *testing.T) {
	for name, end := range map[string]func(*Board, Identity) Event{
		"removed": func(_ *Board, by Identity) Event { return Remove{By: by} },
		"crashed": func(_ *Board, by Identity) Event { return Crash{By: by, Reason: "r"} },
		"dead": func(b *Board, by Identity) Event {
			b.Reported.Drop(by.Proc)
			return ProcDead{by.Proc}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBoard(ConvergePolicy{})
			d := Desired{Service: svc, Process: key0.Process, Exclusive: true}
			b.PutService(&Service{Key: svc, Instances: 1, Versions: []Version{{Desired: d, High: 1}}})
			step := func(e Event) {
				t.Helper()
				x, _, err := Step(b.Index(key0), e, b.Env(key0, t0))
				if err != nil {
					t.Fatalf("%T: %v", e, err)
				}
				b.PutIndex(x)
			}
			row := func(by Identity, s State) bool {
				o := b.Index(key0).Ordinary
				return o != nil && o.State == s && o.Identity == by
			}
			b.PutIndex(Index{Key: key0, Ordinary: rowWith(t, "RUNNING other", func(a *Actual) { a.Exclusive = true })})
			b.Reported.Add(b.Index(key0), omega) // has the row
			b.Reported.Add(b.Index(key0), Identity{alpha.Instance, alpha.Cell, "earlier"})
			b.Reported.Add(b.Index(key0), alpha)
			b.Reported.Add(b.Index(key0), beta)
			step(end(b, omega))
			if !row(alpha, Claimed) {
				t.Fatalf("the first: %s", show(b.Index(key0)))
			}
			step(Start{By: alpha, Net: netA})
			step(end(b, alpha))
			if !row(beta, Claimed) {
				t.Fatalf("the second: %s", show(b.Index(key0)))
			}
			step(end(b, beta))
			if o := b.Index(key0).Ordinary; o == nil || o.State != Unclaimed && o.State != Crashed {
				t.Fatalf("all are gone: %s", show(b.Index(key0)))
			}
			if n := len(b.Reported.all); n != 0 {
				t.Errorf("%d indices are remembered", n)
			}
		})
	}
}

// TestReportedWithoutAnEvent: a row was unreadable when its container was reported, and is readable again. No other
// container claims it, and the next repetition of its request gives it to the reported one.
func TestReportedWithoutAnEvent(t *testing.T) {
	env := wantedEnv()
	env.Eligible, env.Reported = true, []Identity{beta}
	x := Index{Key: key0, Ordinary: rowOf(t, "UNCLAIMED")}
	if _, _, err := Step(x, Claim{By: alpha}, env); !errors.Is(err, ErrCannotBeClaimed) {
		t.Errorf("claimed beside it: %v", err)
	}
	after, effects, err := Step(x, Resend{}, env)
	if o := after.Ordinary; err != nil || !o.Is(beta) || !o.Exclusive || len(effects) != 1 ||
		effects[0] != (WithdrawAuction{Key: key0}) {
		t.Errorf("%s %v %v", show(after), effects, err)
	}
}

// TestFound has the row after the report of a container, by the rows before it.
func TestFound(t *testing.T) {
	exclusive, none := wantedEnv(), wantedEnv()
	exclusive.Desired.Exclusive, none.Desired = true, nil
	both := Index{Ordinary: rowOf(t, "RUNNING other"), Suspect: suspectOf("other"), Evacuating: copyOf("other")}
	for _, c := range []struct {
		name  string
		x     Index
		env   Env
		stale bool
		want  string // "" = no change
	}{
		{"with another instance", Index{Ordinary: rowOf(t, "RUNNING other")}, exclusive, false, ""},
		{"claimed by another", Index{Ordinary: rowOf(t, "CLAIMED other")}, exclusive, false, ""},
		{"as in the row", Index{Ordinary: rowOf(t, "RUNNING self")}, exclusive, true, ""},
		{"as claimed", Index{Ordinary: rowOf(t, "CLAIMED self")}, exclusive, true, ""},
		{"a suspect", Index{Ordinary: rowOf(t, "UNCLAIMED"), Suspect: suspectOf("self")}, exclusive, true, ""},
		{"a copy", Index{Ordinary: rowOf(t, "RUNNING other"), Evacuating: copyOf("self")}, exclusive, true, ""},
		{"the row was lost", Index{}, exclusive, false, "CLAIMED alpha |"},
		{"the definition, too", Index{}, none, false, "CLAIMED alpha |"},
		{"placed nowhere", Index{Ordinary: rowOf(t, "UNCLAIMED")}, exclusive, false, "CLAIMED alpha | WithdrawAuction"},
		{"crashed before", Index{Ordinary: rowOf(t, "CRASHED")}, exclusive, false, "CLAIMED alpha |"},
		{"an older row runs another", Index{Ordinary: rowOf(t, "RUNNING other")}, exclusive, true, "CLAIMED alpha |"},
		{"an older row claims another", Index{Ordinary: rowOf(t, "CLAIMED other")}, exclusive, true, "CLAIMED alpha |"},
		{"an older row has copies", both, exclusive, true, "CLAIMED alpha |"},
	} {
		c.x.Key = key0
		after, effects, err := Step(c.x, Found{By: alpha, Service: svc, Stale: c.stale}, c.env)
		switch got := reported(after, effects); {
		case err != nil, c.want == "" && (after != c.x || len(effects) > 0), c.want != "" && got != c.want:
			t.Errorf("%s: %s %v, want %q", c.name, got, err, c.want)
		case c.want != "" && (!after.Ordinary.Exclusive || after.Ordinary.Service != svc):
			t.Errorf("%s: %+v", c.name, after.Ordinary)
		}
	}
}

// TestLeft forgets a reported container when its row goes, and not while another row of the index has it.
func TestLeft(t *testing.T) {
	running, gone := Index{Key: key0, Ordinary: rowOf(t, "RUNNING other")}, Index{Key: key0}
	other, row := running.Ordinary.Identity, *running.Ordinary
	row.Presence = Suspect
	suspect := Index{Key: key0, Suspect: &row}
	for name, c := range map[string]struct {
		before, after Index
		stays         bool
	}{
		"the row stays": {running, running, true}, "another row of it comes": {gone, suspect, true},
		"it becomes suspect": {running, suspect, true}, "the row goes": {running, gone, false},
		"it has none": {gone, gone, true},
	} {
		r := Reported{all: map[Key][]Identity{key0: {other, beta}}}
		r.left(c.before, c.after)
		if all := r.Get(key0); slices.Contains(all, other) != c.stays || !slices.Contains(all, beta) {
			t.Errorf("%s: %v", name, all)
		}
	}
}

// TestResendMovesNoRow: a row that is placed, or not wanted, stays as it is, though another container is reported.
func TestResendMovesNoRow(t *testing.T) {
	env, none := wantedEnv(), wantedEnv()
	env.Reported, none.Reported, none.Wanted = []Identity{beta}, []Identity{beta}, false
	for text, e := range map[string]Env{"RUNNING other": env, "CLAIMED other": env, "CRASHED": env, "UNCLAIMED": none} {
		x := Index{Key: key0, Ordinary: rowOf(t, text)}
		after, effects, err := Step(x, Resend{}, e)
		if err != nil || show(after) != show(x) || len(effects) != 0 {
			t.Errorf("%s: %s %v %v", text, show(after), effects, err)
		}
	}
}

// TestOnlyAWaitingRowIsWithdrawn: a row on a cell has no auction.
func TestOnlyAWaitingRowIsWithdrawn(t *testing.T) {
	env := wantedEnv()
	env.Reported = []Identity{beta}
	for _, text := range []string{"RUNNING other", "CLAIMED other"} {
		x := Index{Key: key0, Ordinary: rowOf(t, text)}
		by := x.Ordinary.Identity
		for _, e := range []Event{Remove{By: by}, ProcDead{by.Proc}} {
			after, effects, err := Step(x, e, env)
			if o := after.Ordinary; err != nil || o == nil || !o.Is(beta) || o.State != Claimed {
				t.Errorf("%s, %T: %s %v", text, e, show(after), err)
			}
			if slices.Contains(effects, Effect(WithdrawAuction{Key: key0})) {
				t.Errorf("%s, %T: %v", text, e, effects)
			}
		}
	}
}
