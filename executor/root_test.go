package executor

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cantina/action"
	"cantina/logstore"
	"cantina/resource"
)

// rootExecutor runs an executor, and makes specs with a root of their own.
func rootExecutor(t *testing.T) (*Executor, func(script string) Spec) {
	t.Helper()
	needRoot(t)
	e := testExecutor(t, nil)
	needGroups(t, e)
	root := smallRoot(t)
	return e, func(script string) Spec {
		s := sh(script)
		s.Workload.Isolation, s.Workload.Rootfs = action.IsolationRootfs, root
		return s
	}
}

// TestRootResults: a program with a root of its own is reported as any other.
func TestRootResults(t *testing.T) {
	t.Parallel()
	e, root := rootExecutor(t)
	for want, script := range map[string]string{
		"exit status 3":   "echo out; echo err >&2; exit 3",
		"exit status 137": "exit 137",
	} {
		id := strings.ReplaceAll(want, " ", "-")
		c := launch(t, e, id, root(script))
		if !c.Result.Failed || c.Result.Reason != want || c.Result.Started.IsZero() ||
			c.Result.Usage.User+c.Result.Usage.System == 0 {
			t.Errorf("%q: %+v", want, c.Result)
		}
	}
	c := launch(t, e, "status", func() Spec {
		s := root("echo progress 1 >&3; echo half >&3; echo $CANTINA_STATUS; sleep 0; echo bye")
		s.StatusPipe = true
		return s
	}())
	if string(c.Result.Status) != "half" || !slices.Equal(lines(t, e, "status", logstore.Stdout),
		[]string{"/dev/fd/3", "bye"}) {
		t.Errorf("%+v %q", c.Result, c.Result.Status)
	}
	for _, program := range []string{"/no/such", "nosuch"} {
		s := root("")
		s.Workload.Action.Run.Path = program
		if c := launch(t, e, strings.ReplaceAll("none"+program, "/", "-"), s); !c.Result.Failed ||
			!strings.Contains(c.Result.Reason, program) {
			t.Errorf("%+v", c.Result)
		}
	}
}

// TestRootSecrets: the environment stands neither in arguments nor on disk.
func TestRootSecrets(t *testing.T) {
	t.Parallel()
	e, root := rootExecutor(t)
	s := root("test \"$PASSWORD\" = hunter2-xyzzy && echo known; sleep 1000")
	s.Workload.Env = []action.Variable{{Name: "PASSWORD", Value: "hunter2-xyzzy"}}
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "x", "known")
	pids, err := driven(e, "x").programs.pids()
	if err != nil || len(pids) < 1 {
		t.Fatalf("%v, %v", pids, err)
	}
	for _, pid := range pids {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil ||
			strings.Contains(string(b), "hunter2-xyzzy\x00") && !strings.Contains(string(b), "test ") {
			t.Errorf("%q, %v", b, err)
		}
	}
	err = filepath.WalkDir(e.cfg.Dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(p)
		if strings.Contains(string(b), "hunter2-xyzzy") {
			t.Errorf("%s holds the secret", p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRootStop: the stop signal comes once, its handler runs, and processes in a session of their own are ended
// too. This holds with each destination, and without a handler.
func TestRootStop(t *testing.T) {
	t.Parallel()
	e, root := rootExecutor(t)
	const script = "trap 'echo term; n=1' TERM; (trap '' TERM; exec sleep 1000) & echo up; n=0; while test $n = 0; " +
		"do wait; done; exit 0"
	for name, target := range map[string]action.KillTarget{"all": action.TargetCgroup, "group": action.TargetGroup,
		"child": action.TargetChild} {
		s := root(script)
		s.Workload.Termination = action.Termination{Target: target, LeftoverGrace: 100 * time.Millisecond}
		if err := e.Launch(Reservation{ID: name}, s); err != nil {
			t.Fatal(err)
		}
		awaitLine(t, e, name, "up")
		if err := e.Stop(name); err != nil {
			t.Fatal(err)
		}
		c := await(t, e, name, completed)
		if out := lines(t, e, name, logstore.Stdout); !c.Result.Stopped || !slices.Equal(out, []string{"up", "term"}) {
			t.Errorf("%s: %+v %q", name, c.Result, out)
		}
	}
	s := root("echo up; sleep 1000")
	s.Workload.Termination.Grace = time.Hour // no wait: the program has no handler
	if err := e.Launch(Reservation{ID: "deaf"}, s); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "deaf", "up")
	e.Stop("deaf")
	if c := await(t, e, "deaf", completed); !c.Result.Stopped {
		t.Errorf("%+v", c.Result)
	}
	// Killed by hand: the whole container ends, with that signal.
	if err := e.Launch(Reservation{ID: "killed"}, root("sleep 1000 & echo up; wait")); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "killed", "up")
	pid := await(t, e, "killed", runningState).Pid
	if pid < 2 {
		t.Fatalf("pid %d", pid)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if c := await(t, e, "killed", completed); c.Result.Signal != 9 || !c.Result.Failed {
		t.Errorf("%+v", c.Result)
	}
}

// TestRootLimits: limits hold for the program alone, also tight ones.
func TestRootLimits(t *testing.T) {
	t.Parallel()
	e, root := rootExecutor(t)
	have, _ := e.backend.tree().Offers()
	s := root("ulimit -n; i=0; while test $i -lt 40; do sleep 1000 & i=$((i+1)); done; echo all")
	s.Workload.Action.Run.OpenFiles, s.Workload.MaxPids = 123, 5
	if slices.Contains(have, "pids") {
		c := launch(t, e, "pids", s)
		if out := lines(t, e, "pids", logstore.Stdout); len(out) == 0 || out[0] != "123" || slices.Contains(out, "all") ||
			!c.Result.Failed {
			t.Errorf("%+v %q", c.Result, out)
		}
	}
	if slices.Contains(have, "memory") && !e.backend.tree().LimitsV2() {
		s := root("x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done")
		s.Workload.Resources = resource.Amounts{resource.MemoryMB: 16}
		if c := launch(t, e, "memory", s); c.Result.OOM == nil || c.Result.OOM.Limit != 16<<20 || c.Result.Signal != 9 {
			t.Errorf("%+v", c.Result)
		}
	}
}

// TestRootTree: several programs share a root, checks and exec join the program, and files are copied out of its
// root. A network of its own is a private one.
func TestRootTree(t *testing.T) {
	t.Parallel()
	e, root := rootExecutor(t)
	s := root("cat /from-setup; ls /proc; echo up; cat /proc/net/dev; sleep 1000")
	s.Workload.OwnNet, s.Workload.User = true, "0" // it writes into its root
	s.Workload.Setup = &action.Action{Run: &action.Run{Path: "sh", Args: []string{"-c", "echo set up > /from-setup"}}}
	s.Workload.Checks = []action.Check{{Exec: &action.Run{Path: "/bin/sh",
		Args: []string{"-c", "cat /proc/1/cmdline > /cantina/one"}}}}
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	c := await(t, e, "x", runningState)
	if c.State != Running {
		t.Fatalf("%+v", c.Result)
	}
	awaitLine(t, e, "x", "up")
	x, err := e.Exec(t.Context(), "x", ExecSpec{Path: "cat", Args: []string{"/cantina/one"}})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if b, err := io.ReadAll(x.Stdout); err != nil || !strings.Contains(string(b), "sleep 1000") {
		t.Errorf("process 1 is %q, %v", b, err)
	}
	var b strings.Builder
	if err := e.CopyOut(t.Context(), "x", CopySpec{Path: "/from-setup"}, &b); err != nil ||
		!strings.Contains(b.String(), "set up") {
		t.Errorf("%q, %v", b.String(), err)
	}
	out := lines(t, e, "x", logstore.Stdout)
	if !slices.Contains(out, "set up") || !slices.Contains(out, "1") || strings.Contains(strings.Join(out, "\n"), "eth") {
		t.Errorf("%q", out)
	}
}

// TestRootEndsWithItsCell: nothing with a root of its own outlives a cell that is killed.
func TestRootEndsWithItsCell(t *testing.T) {
	t.Parallel()
	_, root := rootExecutor(t)
	dataDir := tempDir(t)
	s := root("sh -c 'trap \"\" TERM; echo $$ > pid; sleep 1000' & sh -c 'exec sleep 1000'")
	c := startCell(t, script{Dir: dataDir, Jobs: []job{{ID: "x", Spec: s}}})
	tracker := trackerOf(t, dataDir)
	class := classAt(t, tracker, classStopFree)
	c.kill(t)
	awaitEmpty(t, class)
}

// TestRootNoticesTheDeathOfTheCell: the parent-death signal reaches the program, also
// when the reaper does nothing.
func TestRootNoticesTheDeathOfTheCell(t *testing.T) {
	t.Parallel()
	_, root := rootExecutor(t)
	dataDir := tempDir(t)
	c := startCell(t,
		script{Dir: dataDir,
			Jobs: []job{{ID: "x", Spec: root("trap 'exit 0' TERM; echo up > up; while :; do sleep 1000 & wait; done")}}})
	awaitOne(t, filepath.Join(dataDir, "run", "*", "directory", "up")) // process 1 gets only signals that it handles
	reaper := reaperOf(t, dataDir)
	if err := unix.Kill(reaper.Pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Kill(reaper.Pid, unix.SIGCONT); err != nil {
			t.Error(err)
		}
		awaitDeath(t, reaper)
	}()
	class := classAt(t, trackerOf(t, dataDir), classStopFree)
	c.kill(t)
	awaitEmpty(t, class)
}
