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
