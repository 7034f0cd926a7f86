package executor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cantina/action"
	"cantina/spawn/procid"
)

// TestParentDeathSignal: choice a, where nothing else is left: no control groups, and the
// reaper is gone as well.
func TestParentDeathSignal(t *testing.T) {
	dir := tempDir(t)
	s := script{Dir: tempDir(t), Mode: CgroupNone}
	choices := map[string]int{"default": 0, "term": int(syscall.SIGTERM), "user": int(syscall.SIGUSR1), "none": -1}
	for name, sig := range choices {
		j := job{ID: name,
			Spec: sh(fmt.Sprintf("for s in TERM USR1; do trap \"echo $s > %[1]s/got-%[2]s; exit\" $s; done; "+
				"echo $$ > %[1]s/%[2]s; while :; do sleep 0.02; done", dir, name))}
		j.Spec.Workload.Termination.ParentDeath = sig
		s.Jobs = append(s.Jobs, j)
	}
	c := startCell(t, s)
	ids := map[string]procid.Identity{}
	for name := range choices {
		awaitFile(t, filepath.Join(dir, name))
		ids[name] = readPid(t, filepath.Join(dir, name))
	}
	t.Cleanup(func() { unix.Kill(-ids["none"].Pid, unix.SIGKILL) })
	// The cell stands still, so that it starts no other reaper.
	c.cmd.Process.Signal(syscall.SIGSTOP)
	unix.Kill(reaperOf(t, s.Dir).Pid, unix.SIGKILL)
	c.kill(t)
	for _, name := range []string{"default", "term", "user"} {
		awaitDeath(t, ids[name])
	}
	if !ids["none"].Alive() {
		t.Error("the one without a parent-death signal is gone")
	}
	for name, want := range map[string]string{"default": "", "term": "TERM", "user": "USR1", "none": ""} {
		b, err := os.ReadFile(filepath.Join(dir, "got-"+name))
		if got := strings.TrimSpace(string(b)); got != want || err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s got %q, want %q (%v)", name, got, want, err)
		}
	}
}

// TestSession: choice b. A container has a session of its own, or shares the cell's, and
// can be stopped either way.
func TestSession(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]CgroupMode{"groups": CgroupAuto, "none": CgroupNone} {
		for _, shares := range []bool{false, true} {
			e := testExecutor(t, func(c *Config) { c.Cgroups = mode })
			s := sh("exec sleep 1000") // a child is lost where there is neither a group nor a session
			s.Workload.Termination.NoSession = shares
			if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
				t.Fatal(err)
			}
			pid := await(t, e, "x", runningState).Pid
			own, err1 := unix.Getsid(0)
			its, err2 := unix.Getsid(pid)
			if err := errors.Join(err1, err2); err != nil || (own == its) != shares || !shares && its != pid {
				t.Errorf("%s, shares %v: session %d of %d, the cell's is %d: %v", name, shares, its, pid, own, err)
			}
			if err := e.Stop("x"); err != nil {
				t.Fatal(err)
			}
			if r := await(t, e, "x", completed).Result; !r.Stopped || r.Signal != int(syscall.SIGTERM) {
				t.Errorf("%s, shares %v: %+v", name, shares, r)
			}
		}
	}
}

// TestKillModes runs choice c, and the stop signal, on a process that records its signals.
func TestKillModes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		t      action.Termination
		got    string
		signal int
	}{
		"term, wait, kill": {action.Termination{Grace: 3 * time.Second}, "TERM", 9},
		"own signal":       {action.Termination{Signal: int(syscall.SIGUSR1), Grace: 3 * time.Second}, "USR1", 9},
		"kill now":         {action.Termination{Mode: action.KillNow}, "", 9},
		"heeded": {action.Termination{Signal: int(syscall.SIGUSR2), Mode: action.KillTerm}, "",
			int(syscall.SIGUSR2)},
	} {
		t.Run(name, func(t *testing.T) {
			e := testExecutor(t, nil)
			s := sh("for s in TERM USR1; do trap \"echo got $s\" $s; done; echo up; while :; do sleep 0.02; done")
			s.Workload.Termination = c.t
			if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
				t.Fatal(err)
			}
			awaitLine(t, e, "x", "up")
			if err := e.Stop("x"); err != nil {
				t.Fatal(err)
			}
			r := await(t, e, "x", completed).Result
			if out := strings.Join(r.LastOut, " "); r.Signal != c.signal || strings.Contains(out, "got") != (c.got != "") ||
				!strings.Contains(out, c.got) {
				t.Errorf("signal %d, output %q", r.Signal, out)
			}
		})
	}
}

// TestKilledByHandIsNoLackOfMemory: SIGKILL by a person in a container with a memory limit is reported as a signal.
func TestKilledByHandIsNoLackOfMemory(t *testing.T) {
	e := testExecutor(t, nil)
	needLimit(t, e, "memory")
	s := sh("kill -9 $$")
	s.Workload.Resources = map[string]int{"memory_mb": 32}
	if c := launch(t, e, "x", s); c.Result.Signal != 9 || c.Result.OOM != nil ||
		strings.Contains(c.Result.Reason, "memory") {
		t.Errorf("%+v", c.Result)
	}
}

// TestEnvironmentByLevel: only level none passes on the environment of the cell. At each level, the arguments of
// its processes show no value of an environment.
func TestEnvironmentByLevel(t *testing.T) {
	t.Setenv("OF_THE_CELL", "yes")
	const secret = "hunter2-of-the-environment"
	e := testExecutor(t, nil)
	levels := map[string]action.Isolation{"process": action.IsolationProcess, "none": action.IsolationNone}
	if os.Getuid() == 0 {
		levels["namespaces"] = action.IsolationNamespaces
	}
	for name, level := range levels {
		s := sh(`echo "cell=$OF_THE_CELL own=$PASSWORD"; sleep 1000`)
		s.Workload.Isolation, s.Workload.Env = level, []action.Variable{{Name: "PASSWORD", Value: secret}}
		if e.backend.tree() != nil {
			k := keep(s)
			if err := e.Launch(Reservation{ID: "kept " + name}, k); err != nil {
				t.Fatal(err)
			}
			awaitLine(t, e, "kept "+name, map[bool]string{true: "cell=yes own=" + secret, false: "cell= own=" +
				secret}[level == action.IsolationNone])
		}
		if err := e.Launch(Reservation{ID: name}, s); err != nil {
			t.Fatal(err)
		}
		awaitLine(t, e, name, map[bool]string{true: "cell=yes own=" + secret, false: "cell= own=" +
			secret}[level == action.IsolationNone])
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range entries {
		if _, err := strconv.Atoi(d.Name()); err == nil {
			if b, err := os.ReadFile(filepath.Join("/proc", d.Name(), "cmdline")); err == nil &&
				strings.Contains(string(b), secret) {
				t.Errorf("process %s shows the secret: %q", d.Name(), b)
			}
		}
	}
	for _, c := range e.List() {
		if strings.Contains(fmt.Sprintf("%+v %#v", c, c), secret) {
			t.Errorf("printing %s shows the secret", c.ID)
		}
		e.Delete(c.ID)
		await(t, e, c.ID, gone)
	}
}
