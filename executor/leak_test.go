package executor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cantina/action"
	"cantina/spawn/procid"
)

// soak reports whether the long forms of tests are wanted.
func soak() bool { return os.Getenv("CANTINA_SOAK") != "" }

// holdings counts the things that a leak would make grow.
type holdings struct{ descriptors, goroutines, groups, mounts, containerDirs int }

func count(t testing.TB, e *Executor) holdings {
	t.Helper()
	dirs := func(pattern string) int {
		l, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return len(l)
	}
	// The thread that the program began with may be one that forks, with a table of its own.
	h := holdings{descriptors: dirs("/proc/thread-self/fd/*"), goroutines: runtime.NumGoroutine(),
		containerDirs: dirs(e.path("run") + "/[^.]*")}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) { // others of the machine mount as well
		if strings.Contains(line, e.cfg.Dir) {
			h.mounts++
		}
	}
	if e.backend.tree() != nil {
		h.groups = dirs(e.backend.tree().Root() + "/*/*")
	}
	return h
}

func TestManyContainersLeakNothing(t *testing.T) {
	n := 1000
	if soak() {
		n = 10000
	}
	e := testExecutor(t, nil)
	w := newWaiters(t, e)
	limited := sh("true")
	limited.Workload.MaxPids = 50
	specs := []Spec{sh("true"), limited, sh("setsid sleep 1000 & exit 3"), sh("echo hello")}
	if os.Getuid() == 0 {
		ns := sh("true")
		ns.Workload.Isolation = action.IsolationNamespaces
		tree := Spec{Workload: action.Workload{Action: action.Action{Serial: []action.Action{do("true"), do("true")}},
			Isolation: action.IsolationNamespaces}}
		specs = append(specs, ns, tree)
	}
	round := func(from, to int) {
		const side = 20
		for i := from; i < to; i += side {
			var wait []<-chan Container
			for j := i; j < min(i+side, to); j++ {
				id := fmt.Sprint("c", j)
				wait = append(wait, w.expect(id))
				s := specs[j%len(specs)]
				s.Workload.Termination.LeftoverGrace = 10 * time.Millisecond
				if err := e.Launch(Reservation{ID: id, DeadlineBound: j%2 == 0}, s); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range wait {
				if c := <-c; c.Result.Failed != (c.Result.ExitCode == 3) {
					t.Fatalf("%+v", c.Result)
				}
			}
			for j := i; j < min(i+side, to); j++ {
				if err := e.Delete(fmt.Sprint("c", j)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	round(0, 100)
	awaitDrivers(e)
	before := count(t, e)
	round(100, n)
	awaitDrivers(e)
	// On a busy machine a start counts as hanging: another thread forks then, and stays. A leak of one in twenty
	// containers is more.
	const threads = 40
	after := count(t, e)
	if after.descriptors > before.descriptors+threads || after.goroutines > before.goroutines+threads ||
		after.groups > before.groups || after.mounts != before.mounts || after.containerDirs != before.containerDirs {
		t.Errorf("after 100 containers %+v, after %d %+v", before, n, after)
	}
	if !e.Free().Equal(e.Capacity()) || len(e.List()) != 0 {
		t.Errorf("free %v, list %v", e.Free(), e.List())
	}
}

// awaitDrivers waits until no driver runs any more.
func awaitDrivers(e *Executor) {
	for len(e.List()) > 0 {
		runtime.Gosched()
	}
	e.drivers.Wait()
}

// Pdeathsig is about threads: the thread that forked must not end before the cell.
func TestThreadsComeAndGoButNoSignalComes(t *testing.T) {
	n, length := 60, 10*time.Second
	if testing.Short() {
		n, length = 50, 3*time.Second
	}
	if soak() {
		n, length = 200, 10*time.Minute
	}
	e := testExecutor(t, nil)
	dir := tempDir(t)
	for i := range n {
		if err := e.Launch(Reservation{ID: fmt.Sprint("s", i)},
			sh(fmt.Sprintf("trap 'echo hit >> %s/hit' TERM INT HUP USR1; while :; do sleep 0.5; done", dir))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range n {
		await(t, e, fmt.Sprint("s", i), runningState)
	}
	end := timer(length)
	threads := 0
	for done := false; !done; {
		select {
		case <-end:
			done = true
		default:
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			runtime.LockOSThread() // ends with the goroutine
			launchNothing(t, e, threads)
		}()
		<-ended
		threads++
	}
	for i := range n {
		if c, _ := e.Get(fmt.Sprint("s", i)); c.State != Running {
			t.Errorf("%s: %v %+v", c.ID, c.State, c.Result)
		}
	}
	if b, err := os.ReadFile(filepath.Join(dir, "hit")); err == nil {
		t.Errorf("signals came: %q", b)
	}
	t.Logf("%d services lived while %d threads came and went", n, threads)
}

func launchNothing(t *testing.T, e *Executor, i int) {
	id := fmt.Sprint("t", i)
	if err := e.Launch(Reservation{ID: id}, sh("true")); err != nil {
		t.Error(err)
		return
	}
	await(t, e, id, completed)
	e.Delete(id)
}

func TestWithoutControlGroups(t *testing.T) {
	e := testExecutor(t, func(c *Config) { c.Cgroups = CgroupNone })
	if c := launch(t, e, "code", sh("echo A; exit 3")); c.Result.ExitCode != 3 || c.Result.LastOut[0] != "A" {
		t.Errorf("%+v", c.Result)
	}
	// The group of a process that ended is ended, too.
	dir := tempDir(t)
	launch(t, e, "left", sh(fmt.Sprintf("sh -c 'echo $$ > %s/a; exec sleep 1000' & while [ ! -s %s/a ]; do :; done", dir,
		dir)))
	b, _ := os.ReadFile(filepath.Join(dir, "a"))
	var pid int
	fmt.Sscan(string(b), &pid)
	if id, err := procid.Of(pid); err == nil {
		awaitDeath(t, id)
	}
	s := sh("trap '' TERM; echo up; while :; do sleep 1; done")
	s.Workload.Termination.Grace = 100 * time.Millisecond
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "x", "up")
	e.Stop("x")
	if c := await(t, e, "x", completed); !c.Result.Stopped || c.Result.Signal != 9 {
		t.Errorf("%+v", c.Result)
	}
	if c := launch(t, e, "keep", keep(sh("true"))); !strings.Contains(c.Result.Reason, errKeepGroups.Error()) {
		t.Errorf("%+v", c.Result)
	}
}

func TestReaperWithoutControlGroups(t *testing.T) {
	dir := tempDir(t)
	alone := func(name, prelude string) Spec {
		s := sh(fmt.Sprintf("%s echo $$ > %s/%s; while :; do sleep 1; done", prelude, dir, name))
		s.Workload.Termination.ParentDeath = -1 // only the reaper is left
		return s
	}
	c := startCell(t, script{Dir: tempDir(t), Mode: CgroupNone, Jobs: []job{
		{ID: "bound", Bound: true, Spec: alone("bound", "")}, {ID: "free", Spec: alone("free", `trap "" TERM;`)}}})
	for _, n := range []string{"bound", "free"} {
		awaitFile(t, filepath.Join(dir, n))
	}
	bound, free := readPid(t, filepath.Join(dir, "bound")), readPid(t, filepath.Join(dir, "free"))
	c.deadline(t, time.Second)
	c.cmd.Process.Signal(syscall.SIGSTOP)
	// Its parent is stopped and does not wait for it: it stays a zombie.
	end := time.Now().Add(patienceOfTests)
	for bound.Alive() && time.Now().Before(end) {
		runtime.Gosched()
	}
	if bound.Alive() || !free.Alive() {
		t.Errorf("bound alive %v, free alive %v", bound.Alive(), free.Alive())
	}
	c.kill(t)
	awaitDeath(t, free)
}

// Mode delegate of the note: the cell sends only TERM, all KILL is the reaper's.
func TestDelegatedKill(t *testing.T) {
	e := testExecutor(t, nil)
	needGroups(t, e)
	s := sh("trap 'echo asked' TERM; echo up; while :; do sleep 0.05; done")
	s.Workload.Termination.Mode = action.KillTerm
	s.Workload.Termination.Grace = 100 * time.Millisecond
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "x", "up")
	if err := e.Stop("x"); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "x", "asked")
	c, _ := e.Get("x")
	id, err := procid.Of(c.Pid)
	if err != nil || c.State != Running {
		t.Fatalf("the cell killed: %v %+v", err, c.Result)
	}
	// A TERM alone makes the reaper end everything, itself last.
	reaper := e.recovery.reaperIdentity()
	if !reaper.Alive() {
		t.Fatalf("no reaper: %+v", reaper)
	}
	if err := unix.Kill(reaper.Pid, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	awaitDeath(t, id)
	awaitDeath(t, reaper)
	if c := await(t, e, "x", completed); !c.Result.Stopped || c.Result.Signal != 9 {
		t.Errorf("%+v", c.Result)
	}
	// The next reaper permits starts again in the classes that the last one had closed for good.
	for _, bound := range []bool{true, false} {
		id := fmt.Sprint("after, bound ", bound)
		if err := e.Launch(Reservation{ID: id, DeadlineBound: bound}, sh("true")); err != nil {
			t.Fatal(err)
		}
		if c := await(t, e, id, completed); c.Result.Failed {
			t.Errorf("%s: %+v", id, c.Result)
		}
	}
}

func TestDeleteInDelegateMode(t *testing.T) {
	e := testExecutor(t, nil)
	needGroups(t, e)
	s := sh("trap '' TERM; echo up; while :; do sleep 1; done")
	s.Workload.Termination.Mode, s.Workload.Termination.Grace = action.KillTerm, 100*time.Millisecond
	for i, before := range []func(string) error{func(string) error { return nil }, e.Stop} {
		id := fmt.Sprint("x", i)
		if err := e.Launch(Reservation{ID: id}, s); err != nil {
			t.Fatal(err)
		}
		awaitLine(t, e, id, "up")
		if err := errors.Join(before(id), e.Delete(id)); err != nil {
			t.Fatal(err)
		}
		await(t, e, id, gone)
	}
}

// TestReaperForgetsEndedProcesses: a kill that was passed to the reaper does not reach a later container of the
// same id, also through a restarted reaper.
func TestReaperForgetsEndedProcesses(t *testing.T) {
	t.Parallel()
	e := testExecutor(t, nil)
	needGroups(t, e)
	const grace = 700 * time.Millisecond
	s := sh("echo up; sleep 1000")
	s.Workload.Termination.Mode, s.Workload.Termination.Grace = action.KillTerm, grace
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "x", "up")
	e.Delete("x") // heeds TERM long before the kill is due
	await(t, e, "x", gone)
	e.keeper.mu.Lock()
	if n := len(e.keeper.kills); n != 0 {
		t.Errorf("%d kills are kept", n)
	}
	e.keeper.mu.Unlock()
	if err := e.Launch(Reservation{ID: "x"}, sh("echo again; sleep 1000")); err != nil {
		t.Fatal(err)
	}
	over := timer(2 * grace)
	<-over
	if c, _ := e.Get("x"); c.State != Running {
		t.Errorf("the second container is %v: %+v", c.State, c.Result)
	}
}

func TestKillTargets(t *testing.T) {
	t.Parallel()
	e := testExecutor(t, nil)
	needGroups(t, e)
	for target, want := range map[action.KillTarget]string{action.TargetChild: "main", action.TargetGroup: "main group",
		action.TargetCgroup: "main group session"} {
		id := fmt.Sprint("t", target)
		dir := tempDir(t)
		one := func(name, how string) string {
			return fmt.Sprintf("%s sh -c 'trap \"echo > %s/%s; exit\" TERM; echo > %s/up-%s; while :; do sleep 0.02; done'", how,
				dir, name, dir, name)
		}
		s := sh(one("group", "") + " & " + one("session", "setsid") + " & trap 'echo > " + dir + "/main; until [ -e " + dir +
			"/seen ]; do sleep 0.02; done; exit' TERM; echo > " + dir + "/up-main; while :; do sleep 0.02; done")
		s.Workload.Termination.Target, s.Workload.Termination.Grace = target, time.Hour
		if err := e.Launch(Reservation{ID: id}, s); err != nil {
			t.Fatal(err)
		}
		for _, n := range []string{"main", "group", "session"} {
			awaitFile(t, filepath.Join(dir, "up-"+n))
		}
		e.Stop(id)
		for n := range strings.FieldsSeq(want) {
			awaitFile(t, filepath.Join(dir, n))
		}
		tick := timer(150 * time.Millisecond) // no event may come; while the main process is there nothing is left over
		<-tick
		var got []string
		for _, n := range []string{"main", "group", "session"} {
			if _, err := os.Stat(filepath.Join(dir, n)); err == nil {
				got = append(got, n)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("target %d reached %q, want %q", target, got, want)
		}
		if err := os.WriteFile(filepath.Join(dir, "seen"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		await(t, e, id, completed)
	}
}

func TestBigOutput(t *testing.T) {
	n := 400
	if testing.Short() {
		n = 200
	}
	if soak() {
		n = 1024
	}
	e := testExecutor(t, nil)
	var before, m runtime.MemStats
	runtime.ReadMemStats(&before)
	c := launch(t, e, "x",
		sh(fmt.Sprintf("dd if=/dev/zero bs=1M count=%d 2>/dev/null | tr '\\0' 'a' | fold -w 1000; exit 6", n)))
	if c.Result.ExitCode != 6 {
		t.Errorf("%+v", c.Result)
	}
	runtime.ReadMemStats(&m)
	grown := int64(m.Sys-before.Sys) >> 20
	if grown > 100 {
		t.Errorf("the cell grew by %d MB", grown)
	}
	t.Logf("%d MB in %v, the cell grew by %d MB", n, c.Result.Ended.Sub(c.Result.Started), grown)
}
