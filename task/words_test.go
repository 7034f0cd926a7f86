package task_test

import (
	"fmt"
	"testing"
	"time"

	"cantina/task"
)

// TestWordsOfASpecFile: each value as a spec file has it.
func TestWordsOfASpecFile(t *testing.T) {
	for got, want := range map[fmt.Stringer]string{
		task.WhenFullWait: "wait", task.WhenFullFail: "fail", task.WhenFull(2): "WhenFull(2)",
		task.LostEnd: "end", task.LostKeep: "keep", task.OnLost(2): "OnLost(2)",
	} {
		if got.String() != want {
			t.Errorf("%T %q, want %q", got, got, want)
		}
	}
}

// TestADeadProcessIsRememberedWhileARowNamesIt, and of the others the newest.
func TestADeadProcessIsRememberedWhileARowNamesIt(t *testing.T) {
	b := task.NewBoard(task.Policy{})
	row, _, err := task.Desire(task.Task{GUID: "t", UID: "u", Domain: "d", Definition: &task.Definition{}},
		time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	row, _, err = task.Step(row, task.Start{UID: "u", By: task.Holder{Cell: "c", Proc: "named"}, Reservation: "r"},
		task.Env{Now: time.Unix(1, 0), Eligible: true})
	if err != nil {
		t.Fatal(err)
	}
	b.Put(row)
	for _, proc := range []string{"named", "other"} {
		b.ProcDied(proc)
	}
	for i := range 600 {
		b.ProcDied(fmt.Sprint("p", i))
	}
	if !b.Dead("named") || b.Dead("other") || !b.Dead("p599") {
		t.Errorf("named %v, an old one %v, the newest %v", b.Dead("named"), b.Dead("other"), b.Dead("p599"))
	}
}
