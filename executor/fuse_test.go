package executor

import (
	"strings"
	"testing"
	"time"

	"cantina/action"
	"cantina/executor/executortest"
)

func TestStuckInAHungMount(t *testing.T) {
	needRoot(t)
	hung, err := executortest.Hang(tempDir(t))
	if err != nil {
		t.Skip("skipped: ", err)
	}
	t.Cleanup(func() {
		if err := hung.Release(); err != nil {
			t.Error(err)
		}
	})
	e := testExecutor(t, func(c *Config) { c.StuckAfter = 200 * time.Millisecond })
	needGroups(t, e)
	s := sh("exec cat " + hung.Dir + "/name")
	s.Workload.Termination.Mode = action.KillNow
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	<-hung.Hung
	await(t, e, "x", runningState)
	if err := e.Delete("x"); err != nil {
		t.Fatal(err)
	}
	c := await(t, e, "x", func(c Container, there bool) bool { return !there || c.Stuck != nil })
	if c.Stuck == nil || len(c.Stuck.Processes) != 1 || c.Stuck.Processes[0].Command != "cat" ||
		!strings.Contains(c.Stuck.String(), "request_wait_answer") {
		t.Errorf("%v %+v", c.State, c.Stuck)
	}
	t.Log(c.Stuck)
	if d := launch(t, e, "other", sh("true")); d.Result.Failed {
		t.Errorf("beside it: %+v", d.Result)
	}
	if err := hung.Release(); err != nil {
		t.Error(err)
	}
	await(t, e, "x", gone)
}
