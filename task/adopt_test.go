package task

import (
	"errors"
	"testing"
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
	if after, _, err := Step(cancelled, Adopt{UID: "u", From: "pa", By: later}, env()); err != nil || after.Holder != later || !after.Ending() {
		t.Errorf("cancelled, and its container has not ended: %v %+v", err, after)
	}
	if _, _, err := Step(row, Adopt{UID: "x", From: "pa", By: later}, env()); !errors.Is(err, ErrOtherUID) {
		t.Errorf("another uid: %v", err)
	}
	lost := rowOf(t, "RESOLVING self")
	lost.Outcome = Lost
	if _, _, err := Step(lost, Delete{}, env()); !errors.Is(err, ErrLostUnresolved) {
		t.Errorf("a lost task on its way out: %v", err)
	}
}
