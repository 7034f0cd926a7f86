package executor

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// TestAnUnwrittenDeadlineKeepsNothing: without the file, a successor would let the container live for ever. A
// container that ends with the cell, or has no deadline, needs no such file.
func TestAnUnwrittenDeadlineKeepsNothing(t *testing.T) {
	e := testExecutor(t, nil)
	needGroups(t, e)
	own := e.deadlines.deadlineFiles[0]
	unwritable, err := os.Open(own.Name())
	if err != nil {
		t.Fatal(err)
	}
	e.deadlines.deadlineFiles[0] = unwritable
	e.SetDeadline(e.clock.Boot() + time.Hour)
	run := func(id string, bound bool, s Spec) RunResult {
		if err := e.Launch(Reservation{ID: id, DeadlineBound: bound}, s); err != nil {
			t.Fatal(err)
		}
		return await(t, e, id, completed).Result
	}
	if r := run("kept", true, keep(sh("true"))); !r.Failed || !r.Retryable ||
		!strings.Contains(r.Reason, "cannot be written down") {
		t.Errorf("%+v", r)
	}
	for id, r := range map[string]RunResult{"ends": run("ends", true, sh("true")),
		"free": run("free", false, keep(sh("true")))} {
		if r.Failed {
			t.Errorf("%s: %+v", id, r)
		}
	}
	e.deadlines.deadlineFiles[0] = own
	e.SetDeadline(e.clock.Boot() + time.Hour)
	if r := run("later", true, keep(sh("true"))); r.Failed || errors.Join(unwritable.Close()) != nil {
		t.Errorf("%+v", r)
	}
}
