package executor

import (
	"errors"
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

// needRunc is the path of runc.
func needRunc(t testing.TB) string {
	t.Helper()
	needRoot(t)
	path := findRunc()
	if path == "" {
		t.Skip("skipped: there is no runc here; the package runc has it")
	}
	return path
}

// eachRoot runs a test with runc and without.
func eachRoot(t *testing.T, test func(t *testing.T, runc string)) {
	t.Run("cell", func(t *testing.T) { test(t, RuncOff) })
	t.Run("runc", func(t *testing.T) { test(t, needRunc(t)) })
}

func withRunc(runc string) func(*Config) { return func(c *Config) { c.Runc = runc } }

// runcExecutor runs an executor that has to use runc, and a spec with a root of its own.
func runcExecutor(t *testing.T) (*Executor, func(script string) Spec) {
	t.Helper()
	e := testExecutor(t, withRunc(needRunc(t)))
	needGroups(t, e)
	if !e.tree.V2() {
		t.Skip("skipped: runc needs the unified hierarchy of control groups")
	}
	root := smallRoot(t)
	return e, func(script string) Spec {
		s := sh(script)
		s.Workload.Isolation, s.Workload.Rootfs = action.IsolationRootfs, root
		return s
	}
}

// groupsOfMachine are all control groups that are not this project's.
func groupsOfMachine(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(p string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "cantina":
			return fs.SkipDir
		case d.IsDir():
			out = append(out, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRuncResults: a program that runc runs is reported as any other.
func TestRuncResults(t *testing.T) {
	e, root := runcExecutor(t)
	for want, script := range map[string]string{
		"exit status 3":   "echo out; echo err >&2; exit 3",
		"exit status 137": "exit 137",
	} {
		id := strings.ReplaceAll(want, " ", "-")
		c := launch(t, e, id, root(script))
		if !c.Result.Failed || c.Result.Reason != want || c.Result.Started.IsZero() || c.Result.Usage.User+c.Result.Usage.System == 0 {
			t.Errorf("%q: %+v", want, c.Result)
		}
	}
	c := launch(t, e, "status", func() Spec {
		s := root("echo progress 1 >&3; echo half >&3; echo $CANTINA_STATUS; sleep 0; echo bye")
		s.StatusPipe = true
		return s
	}())
	if string(c.Result.Status) != "half" || !slices.Equal(lines(t, e, "status", logstore.Stdout), []string{"/dev/fd/3", "bye"}) {
		t.Errorf("%+v %q", c.Result, c.Result.Status)
	}
	for _, program := range []string{"/no/such", "nosuch"} {
		s := root("")
		s.Workload.Action.Run.Path = program
		if c := launch(t, e, strings.ReplaceAll("none"+program, "/", "-"), s); !c.Result.Failed || !strings.Contains(c.Result.Reason, program) {
			t.Errorf("%+v", c.Result)
		}
	}
	awaitOutputNote(t, e, "status", "isolation: rootfs, by "+e.cfg.Runc)
	if text := e.Roots(); text != "by "+e.cfg.Runc {
		t.Error(text)
	}
}

// TestRuncTouchesNoOtherGroup: runc makes no control group but in the container's, and
// leaves no mount, no folder and no process.
func TestRuncTouchesNoOtherGroup(t *testing.T) {
	e, root := runcExecutor(t)
	before := count(t, e)
	// Others of the machine make and remove groups of theirs, but not each time.
	var groups, now []string
	for try := 0; ; try++ {
		groups = groupsOfMachine(t)
		if err := e.Launch(Reservation{ID: "x", Resources: resource.Amounts{resource.MemoryMB: 64}}, root("echo up; sleep 1000")); err != nil {
			t.Fatal(err)
		}
		await(t, e, "x", runningState)
		if now = groupsOfMachine(t); slices.Equal(now, groups) || try == 9 {
			break
		}
		e.Delete("x")
		await(t, e, "x", gone)
	}
	if !slices.Equal(now, groups) {
		t.Errorf("control groups %v, before %v", now, groups)
	}
	c := await(t, e, "x", runningState)
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.Pid))
	if err != nil {
		t.Fatal(err)
	}
	e.mu.Lock()
	g := e.containers["x"].group
	e.mu.Unlock()
	if !g.Holds(c.Pid) {
		t.Errorf("the program is not in the container's group: %s", b)
	}
	if dir := g.JoinedDirs()["memory"]; dir != "" && !strings.Contains(string(b), filepath.Base(dir)) {
		t.Errorf("the program is not in its limits %s: %s", dir, b)
	}
	e.Delete("x")
	await(t, e, "x", gone)
	if now := count(t, e); now.mounts != before.mounts {
		t.Errorf("%d mounts, before %d", now.mounts, before.mounts)
	}
	if left, err := os.ReadDir(e.path("run")); err != nil || len(left) > 1 {
		t.Errorf("folders are left: %v, %v", left, err)
	}
}

// TestRuncSecrets: the environment stands neither in arguments nor on disk.
func TestRuncSecrets(t *testing.T) {
	e, root := runcExecutor(t)
	s := root("test \"$PASSWORD\" = hunter2-xyzzy && echo known; sleep 1000")
	s.Workload.Env = []action.Variable{{Name: "PASSWORD", Value: "hunter2-xyzzy"}}
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "x", "known")
	e.mu.Lock()
	g := e.containers["x"].group
	e.mu.Unlock()
	pids, err := g.Procs()
	if err != nil || len(pids) < 2 {
		t.Fatalf("%v, %v", pids, err)
	}
	for _, pid := range pids {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || strings.Contains(string(b), "hunter2-xyzzy\x00") && !strings.Contains(string(b), "test ") {
			t.Errorf("%q, %v", b, err)
		}
	}
	err = filepath.WalkDir(e.cfg.Folder, func(p string, d fs.DirEntry, err error) error {
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

// TestRuncStop: the stop signal comes once, its handler runs, and what makes a session
// of its own is ended too; likewise with each destination, and without a handler.
func TestRuncStop(t *testing.T) {
	e, root := runcExecutor(t)
	const script = "trap 'echo term; n=1' TERM; (trap '' TERM; exec sleep 1000) & echo up; n=0; while test $n = 0; do wait; done; exit 0"
	for name, target := range map[string]action.KillTarget{"all": action.TargetCgroup, "group": action.TargetGroup, "child": action.TargetChild} {
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
	s.Workload.Termination.Grace = time.Hour // nobody can wait for what nobody handles
	if err := e.Launch(Reservation{ID: "deaf"}, s); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "deaf", "up")
	e.Stop("deaf")
	if c := await(t, e, "deaf", completed); !c.Result.Stopped {
		t.Errorf("%+v", c.Result)
	}
	// Killed by hand: the whole container ends, with that signal.
	for _, whom := range []string{"program", "helper"} {
		if err := e.Launch(Reservation{ID: whom}, root("sleep 1000 & echo up; wait")); err != nil {
			t.Fatal(err)
		}
		awaitLine(t, e, whom, "up")
		pid := await(t, e, whom, runningState).Pid
		if whom == "helper" {
			pid = parentOf(t, pid)
		}
		if pid < 2 {
			t.Fatalf("pid %d", pid)
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if c := await(t, e, whom, completed); c.Result.Signal != 9 || !c.Result.Failed {
			t.Errorf("%s: %+v", whom, c.Result)
		}
	}
}

// parentOf is the parent of a process.
func parentOf(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	var state string
	var parent int
	if _, err := fmt.Sscan(string(b[strings.LastIndexByte(string(b), ')')+1:]), &state, &parent); err != nil {
		t.Fatal(err)
	}
	return parent
}

// TestRuncLimits: limits hold for the program alone, also tight ones.
func TestRuncLimits(t *testing.T) {
	e, root := runcExecutor(t)
	have, _ := e.tree.Offers()
	s := root("ulimit -n; i=0; while test $i -lt 40; do sleep 1000 & i=$((i+1)); done; echo all")
	s.Workload.Action.Run.OpenFiles, s.Workload.MaxPids = 123, 5
	if slices.Contains(have, "pids") {
		c := launch(t, e, "pids", s)
		if out := lines(t, e, "pids", logstore.Stdout); len(out) == 0 || out[0] != "123" || slices.Contains(out, "all") || !c.Result.Failed {
			t.Errorf("%+v %q", c.Result, out)
		}
	}
	if slices.Contains(have, "memory") && !e.tree.LimitsV2() {
		s := root("x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done")
		s.Workload.Resources = resource.Amounts{resource.MemoryMB: 16}
		if c := launch(t, e, "memory", s); c.Result.OOM == nil || c.Result.OOM.Limit != 16<<20 || c.Result.Signal != 9 {
			t.Errorf("%+v", c.Result)
		}
	}
}

// TestRuncTree: several programs share a root, checks and exec join the program, files
// are copied out of its root, and a network of its own is one.
func TestRuncTree(t *testing.T) {
	e, root := runcExecutor(t)
	s := root("cat /from-setup; ls /proc; echo up; cat /proc/net/dev; sleep 1000")
	s.Workload.OwnNet, s.Workload.User = true, "0" // it writes into its root
	s.Workload.Setup = &action.Action{Run: &action.Run{Path: "sh", Args: []string{"-c", "echo set up > /from-setup"}}}
	s.Workload.Checks = []action.Check{{Exec: &action.Run{Path: "/bin/sh", Args: []string{"-c", "cat /proc/1/cmdline > /cantina/one"}}}}
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
	if err := e.CopyOut(t.Context(), "x", "/from-setup", &b); err != nil || !strings.Contains(b.String(), "set up") {
		t.Errorf("%q, %v", b.String(), err)
	}
	out := lines(t, e, "x", logstore.Stdout)
	if !slices.Contains(out, "set up") || !slices.Contains(out, "1") || strings.Contains(strings.Join(out, "\n"), "eth") {
		t.Errorf("%q", out)
	}
}

// TestRuncEndsWithItsCell: nothing that runc runs outlives a cell that is killed.
func TestRuncEndsWithItsCell(t *testing.T) {
	_, root := runcExecutor(t)
	folder := tempDir(t)
	s := root("sh -c 'trap \"\" TERM; echo $$ > pid; sleep 1000' & sh -c 'exec sleep 1000'")
	c := startCell(t, script{Folder: folder, Jobs: []job{{ID: "x", Spec: s}}})
	tracker := trackerOf(t, folder)
	class := classAt(t, tracker, classStopFree)
	entries, err := filepath.Glob(filepath.Join(class, "*", "init"))
	if err != nil || len(entries) != 1 {
		t.Fatalf("groups %v, %v", entries, err)
	}
	c.kill(t)
	awaitEmpty(t, class)
}

// TestRuncHandsOnTheDeathOfTheCell: the parent-death signal reaches the program, also
// when the reaper does nothing.
func TestRuncHandsOnTheDeathOfTheCell(t *testing.T) {
	_, root := runcExecutor(t)
	folder := tempDir(t)
	c := startCell(t, script{Folder: folder, Jobs: []job{{ID: "x", Spec: root("trap 'exit 0' TERM; echo up > up; while :; do sleep 1000 & wait; done")}}})
	awaitOne(t, filepath.Join(folder, "run", "*", "folder", "up")) // process 1 hears only what it handles
	reaper := reaperOf(t, folder)
	if err := unix.Kill(reaper.Pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Kill(reaper.Pid, unix.SIGCONT); err != nil {
			t.Error(err)
		}
		awaitDeath(t, reaper)
	}()
	class := classAt(t, trackerOf(t, folder), classStopFree)
	c.kill(t)
	awaitEmpty(t, class)
}

// TestRuncIsRefused: a runc named by its path is used or the container is refused, with
// the reason; auto goes on without and says so.
func TestRuncIsRefused(t *testing.T) {
	path := needRunc(t)
	root := smallRoot(t)
	kept := sh("true")
	kept.Workload.Isolation, kept.Workload.Rootfs, kept.Workload.OnCellRestart = action.IsolationRootfs, root, action.RestartKeep
	e := testExecutor(t, withRunc(path))
	needGroups(t, e)
	if c := launch(t, e, "kept", kept); !c.Result.Failed || !strings.Contains(c.Result.Reason, "on_cell_restart: keep") {
		t.Errorf("%+v", c.Result)
	}
	auto := testExecutor(t, withRunc(RuncAuto))
	if c := launch(t, auto, "kept", kept); c.Result.Failed {
		t.Errorf("%+v", c.Result)
	}
	awaitOutputNote(t, auto, "kept", "by the cell itself: runc: on_cell_restart: keep")
	if _, err := Open(func() Config { c := testConfig(tempDir(t)); c.Runc = "/no/such/runc"; return c }()); err == nil || !strings.Contains(err.Error(), "/no/such/runc") {
		t.Errorf("%v", err)
	}
	v1 := testExecutor(t, func(c *Config) { c.Runc, c.Cgroups = path, CgroupNone })
	plain := kept
	plain.Workload.OnCellRestart = action.RestartStop
	if c := launch(t, v1, "x", plain); !c.Result.Failed || !strings.Contains(c.Result.Reason, "unified hierarchy") {
		t.Errorf("%+v", c.Result)
	}
	if text := v1.Roots(); !strings.HasPrefix(text, "refused: "+path) {
		t.Error(text)
	}
}

// TestBrokenRuncIsNotUsed: a runc that runs nothing here is found out by the first
// container, which runs all the same.
func TestBrokenRuncIsNotUsed(t *testing.T) {
	needRunc(t)
	e := testExecutor(t, nil)
	needGroups(t, e)
	broken := filepath.Join(tempDir(t), "runc")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if e.roots.why != nil {
		t.Skip("skipped: ", e.roots.why)
	}
	e.roots.program = broken
	s := sh("echo up")
	s.Workload.Isolation, s.Workload.Rootfs = action.IsolationRootfs, smallRoot(t)
	wrong := s
	wrong.Workload.Action = action.Action{Run: &action.Run{Path: "/no/such"}}
	if c := launch(t, e, "wrong", wrong); !c.Result.Failed {
		t.Errorf("%+v", c.Result)
	}
	if e.roots.broken != nil {
		t.Errorf("blamed for what is not there: %v", e.roots.broken)
	}
	for i := range 2 {
		id := fmt.Sprint("x", i)
		if c := launch(t, e, id, s); c.Result.Failed {
			t.Errorf("%+v", c.Result)
		}
		awaitOutputNote(t, e, id, "by the cell itself: runc: ")
	}
	if text := e.Roots(); !strings.Contains(text, broken+" failed: ") {
		t.Error(text)
	}
}

// BenchmarkRunc is the launch of /bin/sh in a root of its own, with runc and without.
func BenchmarkRunc(b *testing.B) {
	root := smallRoot(b)
	for _, mode := range []string{RuncOff, needRunc(b)} {
		b.Run(filepath.Base(mode), func(b *testing.B) {
			e := testExecutor(b, withRunc(mode))
			w := newWaiters(b, e)
			s := sh("exit 0")
			s.Workload.Isolation, s.Workload.Rootfs = action.IsolationRootfs, root
			for i := range b.N {
				id := fmt.Sprint("b", i)
				done := w.expect(id)
				if err := e.Launch(Reservation{ID: id}, s); err != nil {
					b.Fatal(err)
				}
				if c := <-done; c.Result.Failed {
					b.Fatalf("%+v", c.Result)
				}
				e.Delete(id)
			}
		})
	}
}
