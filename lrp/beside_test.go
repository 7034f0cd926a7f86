package lrp

import (
	"errors"
	"slices"
	"testing"
)

// TestVersionsOfAnExclusiveIndex: an index of an exclusive service is not placed while another version has an instance
// of it, be it one that the store does not know as a version. It is placed when that one is gone.
func TestVersionsOfAnExclusiveIndex(t *testing.T) {
	b := NewBoard(ConvergePolicy{})
	d := Desired{Service: svc, Process: key0.Process, Exclusive: true}
	b.PutService(&Service{Key: svc, Instances: 1, Versions: []Version{{Desired: d, High: 1}}})
	older := Key{"older", key0.Index}
	row := *rowOf(t, "RUNNING other")
	row.Key, row.Service, row.Exclusive = older, svc, true
	b.PutIndex(Index{Key: older, Ordinary: &row})
	step := func(e Event, env Env) (Index, []Effect) {
		t.Helper()
		x, effects, err := Step(b.Index(key0), e, env)
		if err != nil {
			t.Fatalf("%T: %v", e, err)
		}
		b.PutIndex(x)
		return x, effects
	}
	x, effects := step(Create{}, b.Env(key0, t0))
	if o := x.Ordinary; o == nil || o.State != Unclaimed || o.PlacementError != heldByOther || len(effects) != 0 {
		t.Fatalf("created: %s %v", show(x), effects)
	}
	env := b.Env(key0, t0)
	env.Eligible = true
	if _, _, err := Step(b.Index(key0), Claim{By: alpha}, env); !errors.Is(err, ErrCannotBeClaimed) {
		t.Errorf("claimed: %v", err)
	}
	if _, effects = step(Resend{}, b.Env(key0, t0)); len(effects) != 0 {
		t.Errorf("asked for: %v", effects)
	}
	clear(b.dirtyKeys)
	b.PutIndex(Index{Key: older})
	if _, dirty := b.dirtyKeys[key0]; !dirty || b.Env(key0, t0).Beside || len(b.exclusive) != 0 {
		t.Errorf("the other is gone: looked at %v, %+v", dirty, b.exclusive)
	}
	if _, effects = step(Resend{}, b.Env(key0, t0)); !slices.Equal(effects, []Effect{RequestAuction{Key: key0}}) {
		t.Errorf("not asked for: %v", effects)
	}
}

// TestOnlyExclusiveVersionsAreBeside each other, while a cell has the instance or may have it.
func TestOnlyExclusiveVersionsAreBeside(t *testing.T) {
	for _, c := range []struct {
		older          string // the row of another version
		exclusive, new bool   // the other version, this one
		want           bool
	}{
		{"RUNNING other", true, true, true}, {"CLAIMED other", true, true, true}, {"UNCLAIMED", true, true, false},
		{"CRASHED", true, true, false}, {"RUNNING other", false, true, false}, {"CLAIMED other", false, true, false},
		{"RUNNING other", true, false, false}, {"CLAIMED other", true, false, false},
	} {
		b := NewBoard(ConvergePolicy{})
		d := Desired{Service: svc, Process: key0.Process, Exclusive: c.new}
		b.PutService(&Service{Key: svc, Instances: 2, Versions: []Version{{Desired: d, High: 2}}})
		older := rowOf(t, c.older)
		older.Key, older.Service, older.Exclusive = Key{"older", key0.Index}, svc, c.exclusive
		b.PutIndex(Index{Key: older.Key, Ordinary: older})
		if got := b.Env(key0, t0).Beside; got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
		if b.Env(Key{key0.Process, key0.Index + 1}, t0).Beside {
			t.Errorf("%+v: another index", c)
		}
	}
}
