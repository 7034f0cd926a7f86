package executor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cantina/action"
	"cantina/cgroup"
	"cantina/resource"
	"cantina/spawn"
)

// TestExecEndsWithItsContainerWithoutGroups: a program started beside a container is one of its processes. None of
// them is alive when the container has ended.
func TestExecEndsWithItsContainerWithoutGroups(t *testing.T) {
	dir := tempDir(t)
	e := testExecutor(t, func(c *Config) { c.Cgroups = CgroupNone })
	s := sh("echo up; exec sleep 1000")
	s.Workload.Termination = action.Termination{Grace: 200 * time.Millisecond, LeftoverGrace: 100 * time.Millisecond}
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
	t.Parallel()
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

// TestNamespacesWithoutGroups: a program that is process 1 of its namespace, and so ignores the stop signal, is
// killed once the processes beside it have had the leftover grace. It cannot be known to be alone.
func TestNamespacesWithoutGroups(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	e := testExecutor(t, func(c *Config) { c.Cgroups = CgroupNone })
	s := sh("(trap 'sleep 0.3; echo >cleaned; exit' TERM; echo up; while :; do sleep 0.01; done) & wait")
	s.Workload.Isolation = action.IsolationNamespaces
	s.Workload.Termination.Grace = 20 * time.Second
	s.Workload.Termination.LeftoverGrace = 2 * time.Second
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "x", "up")
	began := time.Now()
	if err := e.Stop("x"); err != nil {
		t.Fatal(err)
	}
	c := await(t, e, "x", completed)
	if !c.Result.Stopped || time.Since(began) > 15*time.Second {
		t.Errorf("%+v after %v", c.Result, time.Since(began))
	}
	if _, err := os.Stat(filepath.Join(c.Dir, "cleaned")); err != nil {
		t.Errorf("a process beside it was not given time to end: %v", err)
	}
}

// TestThawWhileAProgramWaits: a program that is to start while all is frozen starts after Thaw, for which it does not
// hold a lock.
func TestThawWhileAProgramWaits(t *testing.T) {
	for name, mode := range map[string]CgroupMode{"groups": CgroupAuto, "none": CgroupNone} {
		cfg := testConfig(tempDir(t))
		cfg.Cgroups = mode
		e, stop := runExecutor(t, cfg)
		if err := e.Launch(Reservation{ID: "x"}, sh("exec sleep 1000")); err != nil {
			t.Fatal(err)
		}
		await(t, e, "x", runningState)
		if err := e.Freeze(); err != nil {
			t.Fatal(err)
		}
		started, thawed := make(chan error, 1), make(chan error, 1)
		go func() {
			x, err := e.Exec(t.Context(), "x", ExecSpec{Path: "/bin/true"})
			if err == nil {
				_, err = x.Wait(t.Context())
				x.Close()
			}
			started <- err
		}()
		awaitThat(t, "the start that waits", func() bool {
			text := make([]byte, 1<<20)
			text = text[:runtime.Stack(text, true)]
			return bytes.Contains(text, []byte("startBeside")) && bytes.Contains(text, []byte("RWMutex).RLock"))
		})
		go func() { thawed <- e.Thaw() }()
		for what, done := range map[string]chan error{"thaw": thawed, "start": started} {
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("%s: %s: %v", name, what, err)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%s: %s does not come back", name, what) // stop would not either
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestStopSignalOfAProgramWithoutSession: it reaches a program that shares the cell's session, for each target and
// each shape of the work.
func TestStopSignalOfAProgramWithoutSession(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]CgroupMode{"groups": CgroupAuto, "none": CgroupNone} {
		e := testExecutor(t, func(c *Config) { c.Cgroups = mode })
		for _, target := range []action.KillTarget{action.TargetCgroup, action.TargetGroup, action.TargetChild} {
			for _, steps := range []bool{false, true} {
				id := fmt.Sprint(name, target, steps)
				s := sh("exec sleep 1000")
				s.Workload.Termination.NoSession, s.Workload.Termination.Target = true, target
				if steps {
					s.Workload.Setup = &action.Action{Run: &action.Run{Path: "/bin/true"}}
				}
				if err := e.Launch(Reservation{ID: id}, s); err != nil {
					t.Fatal(err)
				}
				await(t, e, id, func(c Container, _ bool) bool { return c.State == Running && c.Pid != 0 })
				if err := e.Stop(id); err != nil {
					t.Fatal(err)
				}
				if r := await(t, e, id, completed).Result; !r.Stopped || r.Signal != int(syscall.SIGTERM) {
					t.Errorf("%s: %+v", id, r)
				}
			}
		}
	}
}

// TestProgramBesideAdoptedWorkWithoutGroups: a cell without control groups runs a program in the group of a container
// that an earlier cell has limited, and a check as well.
func TestProgramBesideAdoptedWorkWithoutGroups(t *testing.T) {
	t.Parallel()
	dataDir, dir := tempDir(t), tempDir(t)
	s := keep(sh("exec sleep 1000"))
	s.Workload.MaxPids, s.Workload.Resources = 100, resource.Amounts{resource.MemoryMB: 64}
	s.Workload.ReadinessChecks = []action.Check{{Exec: &action.Run{Path: "/bin/sh", Args: []string{"-c",
		"cat /proc/self/cgroup >>" + dir + "/checks"}}, Interval: 10 * time.Millisecond, Timeout: 10 * time.Second}}
	c := startCell(t, script{Dir: dataDir, Jobs: []job{{ID: "x", Spec: s}}})
	awaitFile(t, filepath.Join(dir, "checks"))
	c.kill(t)
	tracker := trackerOf(t, dataDir)
	if err := os.Remove(filepath.Join(dir, "checks")); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(dataDir)
	cfg.Cgroups = CgroupNone
	e, stop := runExecutor(t, cfg)
	await(t, e, "x", func(c Container, _ bool) bool { return c.State == Running && c.Pid != 0 && c.Routable })
	awaitFile(t, filepath.Join(dir, "checks"))
	x, err := e.Exec(t.Context(), "x", ExecSpec{Path: "/bin/cat", Args: []string{"/proc/self/cgroup"}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(x.Stdout)
	x.Close()
	if err != nil || !strings.Contains(string(text), "/"+filepath.Base(tracker)+"/") {
		t.Errorf("not in the container's group: %s, %v", text, err)
	}
	if b, err := os.ReadFile("/proc/self/cgroup"); err != nil || strings.Contains(string(b), "/slot-") {
		t.Errorf("this process: %s, %v", b, err)
	}
	e.Delete("x")
	await(t, e, "x", gone)
	if err := stop(); err != nil {
		t.Error(err)
	}
	cgroup.RemoveEmpty(tracker)
}

// TestTrackers: both kinds answer the same questions about a container that runs, and after its end nothing is
// started in it.
func TestTrackers(t *testing.T) {
	for name, mode := range map[string]CgroupMode{"groups": CgroupAuto, "none": CgroupNone} {
		e := testExecutor(t, func(c *Config) { c.Cgroups = mode })
		if err := e.Launch(Reservation{ID: "x"}, sh("exec sleep 1000")); err != nil {
			t.Fatal(err)
		}
		pid := await(t, e, "x", runningState).Pid
		ps := &driven(e, "x").programs
		ps.with(func(now tracker) {
			if pids, err := now.Procs(); err != nil || !slices.Equal(pids, []int{pid}) {
				t.Errorf("%s: lists %v, %v, want %d", name, pids, err, pid)
			}
			if err := now.remove(); !errors.Is(err, cgroup.ErrBusy) {
				t.Errorf("%s: removed with a process: %v", name, err)
			}
			if err := now.SignalEach(unix.SIGKILL, func(other int) bool { return other != pid }); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			now.stop(ps.processes[0], syscall.SIGTERM)
		})
		if r := await(t, e, "x", completed).Result; r.Signal != int(syscall.SIGTERM) {
			t.Errorf("%s: %+v", name, r)
		}
		if p, err := ps.startProcess(&spawn.Spec{Path: "/bin/true"}); !errors.Is(err, ErrState) {
			t.Errorf("%s: started %v, %v after the end", name, p, err)
		}
		ps.with(func(now tracker) {
			if pids, err := now.Procs(); len(pids) > 0 || err != nil || now.remove() != nil || now.alone() {
				t.Errorf("%s: after the end: %v, %v", name, pids, err)
			}
		})
	}
}

// TestOnlyOpenChoosesTheBackend: the rest of the package calls the interfaces and does not ask which one it has.
func TestOnlyOpenChoosesTheBackend(t *testing.T) {
	asks := regexp.MustCompile(`(tree\(\)|[tT]racker|backend|\bgroup) [!=]= nil|(tracker|backend)\.\(|&controlGroups\{`)
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 20 {
		t.Fatal(files, err)
	}
	chosen := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			switch {
			case strings.HasSuffix(name, "_test.go") || !asks.MatchString(line):
			case strings.Contains(line, "backend = &controlGroups{"):
				chosen++
			default:
				t.Errorf("%s:%d asks which backend it has: %s", name, i+1, strings.TrimSpace(line))
			}
		}
	}
	if chosen != 1 {
		t.Errorf("the backend is chosen in %d places, want 1", chosen)
	}
}
