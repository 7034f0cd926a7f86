package lrp

import (
	"errors"
	"testing"
)

type unknownEvent struct{}

func (unknownEvent) event() {}

// TestRareRows are the corners that the tables and the search do not reach.
func TestRareRows(t *testing.T) {
	env := wantedEnv()
	unwanted := env
	unwanted.Wanted = false
	barred := env
	barred.Eligible = false
	suspect := rowOf(t, "RUNNING self")
	suspect.Presence = Suspect

	if _, _, err := Step(Index{Key: key0}, unknownEvent{}, env); err == nil {
		t.Error("an unknown event was taken")
	}
	x, effects, err := Step(Index{Key: key0, Ordinary: rowOf(t, "UNCLAIMED")}, Retire{}, unwanted)
	if err != nil || !x.Empty() || !has(effects, WithdrawAuction{key0}) {
		t.Errorf("an unwanted row is retired: %v %v", err, effects)
	}
	x = Index{Key: key0, Ordinary: rowOf(t, "CLAIMED other"), Suspect: suspect}
	if same, _, err := Step(x, Claim{By: alpha}, barred); err != nil || same != x {
		t.Errorf("the suspect claims: %v", err)
	}
	x = Index{Key: key0, Ordinary: rowOf(t, "CLAIMED self")}
	if same, _, err := Step(x, Claim{By: alpha}, barred); err != nil || same != x {
		t.Errorf("a repeated claim of a cell that gets no new work: %v", err)
	}
	moved := alpha
	moved.Proc = "later"
	if y, _, err := Step(x, Claim{By: moved}, env); err != nil || y.Ordinary.Proc != "later" ||
		!y.Ordinary.Since.Equal(t0) {
		t.Errorf("a repeated claim by a later process: %v %+v", err, y.Ordinary)
	}
	if _, effects, _ := Step(Index{Key: key0, Ordinary: rowOf(t, "UNCLAIMED")}, Start{By: alpha, Net: netA},
		env); !has(effects, WithdrawAuction{key0}) {
		t.Errorf("it runs, but its auction goes on: %v", effects)
	}
	if _, _, err := Step(Index{Key: key0}, Crash{By: alpha}, unwanted); !errors.Is(err, ErrNotFound) {
		t.Errorf("a crash of an unwanted index without a row: %v", err)
	}
	y, _, err := Step(Index{Key: key0, Suspect: suspect}, CellHealthy{"alpha", "pa"}, unwanted)
	if err != nil || y.Suspect != nil || words(y.Ordinary) != "RUNNING self" {
		t.Errorf("back, and there is no replacement: %v %s", err, show(y))
	}
	// Rows that only a mistake elsewhere can have made are put right.
	both := Index{Key: key0, Ordinary: rowOf(t, "RUNNING other"), Suspect: suspect}
	env.Desired.OnReturn = ReturnNew
	y, effects, _ = Step(both, CellHealthy{"alpha", "pa"}, env)
	if y.Suspect != nil || words(y.Ordinary) != "RUNNING other" || !has(effects, StopInstance{key0, alpha}) {
		t.Errorf("a suspect beside a running instance: %s %v", show(y), effects)
	}
	if y, _, err := Step(Index{Key: key0, Evacuating: copyOf("self")}, RemoveEvacuating{By: alpha}, env); !errors.Is(err,
		ErrNotYet) || y.Evacuating == nil {
		t.Errorf("a wanted index whose row is about to be made: %v", err)
	}
	if _, _, err := Step(Index{Key: key0, Evacuating: copyOf("other")}, RemoveEvacuating{By: alpha}, env); !errors.Is(err,
		ErrNotFound) {
		t.Errorf("another cell's copy: %v", err)
	}
}
