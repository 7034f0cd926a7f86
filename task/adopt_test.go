package task

import (
	"errors"
	"testing"
	"time"
)

func TestAdopt(t *testing.T) {
	row := rowOf(t, "RUNNING self")
	row.Reservation = "r"
	later := Holder{"alpha", "pa2"}
	after, _, err := Step(row, Adopt{UID: "u", From: "pa", By: later}, env())
	if err != nil || after.Holder != later || after.Reservation != "" || after.State != Running {
		t.Fatalf("%v %+v", err, after)
	}
	if same, _, err := Step(after, Adopt{UID: "u", From: "pa", By: later}, env()); err != nil || same != after {
		t.Errorf("repeated: %v", err)
	}
	for _, from := range []Adopt{{UID: "u", From: "other", By: later}, {UID: "u", From: "pa", By: Holder{"omega", "po"}}} {
		if same, _, err := Step(row, from, env()); !errors.Is(err, ErrRunningOnDifferentCell) || same != row {
			t.Errorf("%+v: %v", from, err)
		}
	}
	ended := rowOf(t, "COMPLETED self")
	if same, _, err := Step(ended, Adopt{UID: "u", From: "pa", By: later}, env()); err != nil || same != ended {
		t.Errorf("ended: %v", err)
	}
	cancelled, _, err := Step(row, Cancel{}, env())
	if err != nil {
		t.Fatal(err)
	}
	if after, _, err := Step(cancelled, Adopt{UID: "u", From: "pa", By: later}, env()); err != nil ||
		after.Holder != later || !after.Ending() {
		t.Errorf("cancelled, and its container has not ended: %v %+v", err, after)
	}
	if _, _, err := Step(row, Adopt{UID: "x", From: "pa", By: later}, env()); !errors.Is(err, ErrOtherUID) {
		t.Errorf("another uid: %v", err)
	}
	for name, c := range map[string]struct {
		change func(*Task)
		over   time.Duration
		dead   bool
		want   error
	}{
		"its cell lives":        {func(*Task) {}, time.Hour, false, ErrEnding},
		"its cell is dead":      {func(*Task) {}, 0, true, nil},
		"its container is gone": {func(x *Task) { x.Result.Ended = t0 }, 0, false, nil},
		"may outlive its dead cell": {func(x *Task) { x.Definition.OnLost = LostKeep }, 20 * time.Second,
			true, ErrEnding},
		"may outlive its dead cell, the grace is over": {func(x *Task) { x.Definition.OnLost = LostKeep }, 22 * time.Second,
			true, nil},
		"cancelled before it ran": {func(x *Task) { x.Holder = Holder{} }, 0, false, nil},
	} {
		resolving, _, err := Step(cancelled, Resolve{}, env())
		if err != nil {
			t.Fatal(err)
		}
		x, d := *resolving, *resolving.Definition
		x.Definition = &d
		c.change(&x)
		e := env()
		e.Over, e.HolderDead = c.over, c.dead
		if after, _, err := Step(&x, Delete{}, e); !errors.Is(err, c.want) || err == nil && after != nil {
			t.Errorf("delete of a cancelled task, %s: %v %v", name, after, err)
		}
	}
	lost := rowOf(t, "RESOLVING self")
	lost.Outcome = Lost
	if _, _, err := Step(lost, Delete{}, env()); !errors.Is(err, ErrLostUnresolved) {
		t.Errorf("a lost task on its way out: %v", err)
	}
}
