package executor

import (
	"fmt"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cantina/action"
)

// TestExecEndsWithItsContainerWithoutGroups: a program started beside a container is one of its processes. None of
// them is alive when the container has ended.
func TestExecEndsWithItsContainerWithoutGroups(t *testing.T) {
	dir := tempDir(t)
	e := testExecutor(t, func(c *Config) { c.Cgroups = CgroupNone })
	s := sh("echo up; exec sleep 1000")
	s.Workload.Termination.LeftoverGrace = 100 * time.Millisecond
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "x", "up")
	await(t, e, "x", runningState)
	x, err := e.Exec(t.Context(), "x", ExecSpec{Path: "/bin/sh",
		Args: []string{"-c", fmt.Sprintf("trap '' TERM HUP; echo $$ > %s/beside; while :; do sleep 0.1; done", dir)}})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	awaitFile(t, filepath.Join(dir, "beside"))
	id := readPid(t, filepath.Join(dir, "beside"))
	if err := e.Stop("x"); err != nil {
		t.Fatal(err)
	}
	if c := await(t, e, "x", completed); id.Alive() || !c.Result.Stopped {
		t.Errorf("alive: %v; %+v", id.Alive(), c.Result)
	}
	if s, err := e.Exec(t.Context(), "x", ExecSpec{Path: "/bin/true"}); err == nil {
		s.Close()
		t.Error("a program was started beside an ended container")
	}
}

// TestEveryProcessIsWrittenDownWithoutGroups: a successor ends all processes of a container,
// not only the one that was started last.
func TestEveryProcessIsWrittenDownWithoutGroups(t *testing.T) {
	dataDir, dir := tempDir(t), tempDir(t)
	s := writesPid(dir, "main", "")
	s.Workload.Sidecars = []action.Action{writesPid(dir, "side", "").Workload.Action}
	s.Workload.Termination.ParentDeath = -1
	c := startCell(t, script{Dir: dataDir, Mode: CgroupNone, Jobs: []job{{ID: "x", Spec: s}}})
	main, side := pidsOf(t, dir, "main"), pidsOf(t, dir, "side")
	t.Cleanup(func() {
		for _, id := range append(main, side...) {
			if id.Alive() {
				unix.Kill(id.Pid, unix.SIGKILL)
			}
		}
	})
	c.cmd.Process.Signal(syscall.SIGSTOP) // so that it starts no other reaper
	unix.Kill(reaperOf(t, dataDir).Pid, unix.SIGKILL)
	c.kill(t)
	cfg := testConfig(dataDir)
	cfg.Cgroups = CgroupNone
	_, stop := runExecutor(t, cfg)
	if main[0].Alive() || side[0].Alive() {
		t.Errorf("alive: main %v, sidecar %v", main[0].Alive(), side[0].Alive())
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
