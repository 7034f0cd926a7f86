package executor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"cantina/action"
	"cantina/spawn/procid"
)

// TestWhatABrokenRuncLeftIsEnded: before the cell makes a root itself, because runc failed, it
// ends what runc has started all the same: the program never runs twice.
func TestWhatABrokenRuncLeftIsEnded(t *testing.T) {
	needRunc(t)
	e := testExecutor(t, nil)
	needGroups(t, e)
	if e.roots.why != nil {
		t.Skip("skipped: ", e.roots.why)
	}
	dir := tempDir(t)
	broken := filepath.Join(dir, "runc")
	script := fmt.Sprintf("#!/bin/sh\nsetsid sh -c 'trap \"\" TERM; echo $$ > %s/left; while :; do sleep 0.1; done' > /dev/null 2>&1 &\nwhile [ ! -s %s/left ]; do sleep 0.01; done\nexit 0\n", dir, dir)
	if err := os.WriteFile(broken, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	e.roots.program = broken
	s := sh("echo up; while :; do sleep 0.1; done")
	s.Workload.Isolation, s.Workload.Rootfs = action.IsolationRootfs, smallRoot(t)
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	if c := await(t, e, "x", runningState); c.State != Running || e.Roots() == "by "+broken {
		t.Errorf("%+v, roots %s", c, e.Roots())
	}
	var pid int
	if _, err := fmt.Sscan(string(mustRead(t, filepath.Join(dir, "left"))), &pid); err != nil {
		t.Fatal(err)
	}
	if id, err := procid.Of(pid); !errors.Is(err, procid.ErrGone) {
		t.Errorf("what runc started lives beside what the cell started: %+v %v", id, err)
	}
	e.Delete("x")
	await(t, e, "x", gone)
}
