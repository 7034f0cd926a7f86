package executor

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestReaperThatDoesNotListenIsReplaced: a deadline that the reaper could not receive goes to the next one.
func TestReaperThatDoesNotListenIsReplaced(t *testing.T) {
	e := testExecutor(t, nil)
	needGroups(t, e)
	launch(t, e, "first", sh("true"))
	if err := e.Launch(Reservation{ID: "x", DeadlineBound: true}, sh("sleep 1000")); err != nil {
		t.Fatal(err)
	}
	await(t, e, "x", runningState)
	ignoresTerm := e.recovery.reaperIdentity()
	if err := unix.Kill(ignoresTerm.Pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // it is ours while it is stopped
		if ignoresTerm.Alive() {
			unix.Kill(ignoresTerm.Pid, syscall.SIGCONT)
		}
	})
	for describe(ignoresTerm.Pid).State != "T" {
		runtime.Gosched()
	}
	for range 1000 { // more than its socket holds
		if !ignoresTerm.Alive() {
			break
		}
		e.SetDeadline(e.clock.Boot() + time.Hour)
	}
	e.SetDeadline(e.clock.Boot() + 200*time.Millisecond)
	awaitDeath(t, ignoresTerm)
	if c := await(t, e, "x", completed); c.Result.Reason != "the cell's deadline passed" {
		t.Errorf("%+v", c.Result)
	}
}
