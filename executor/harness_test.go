package executor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cantina/action"
	"cantina/cgroup"
	"cantina/executor/terminal"
	"cantina/logstore"
	"cantina/resource"
	"cantina/spawn/procid"
)

// patienceOfTests bounds each wait of a test: it ends a test that hangs, also on a busy and slow machine.
const patienceOfTests = 90 * time.Second

// The tests run real processes. Some need a cell that can be killed or stopped:
// then this test program runs itself as a cell, with the script in its environment.
const cellScript = "CANTINA_TEST_CELL"

// testUser names the user of work without a user. make test runs the tests a second time with it, to show that
// everything works for a user without privileges.
const testUser = "CANTINA_TEST_USER"

// builtReaper names the reaper in a test program that this one runs.
const builtReaper = "CANTINA_TEST_REAPER"

var reaperPath string

func TestMain(m *testing.M) {
	if s := os.Getenv(cellScript); s != "" {
		os.Exit(beCell(s))
	}
	if reaperPath = os.Getenv(builtReaper); reaperPath != "" {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "cantina-reaper")
	if err == nil {
		reaperPath = filepath.Join(dir, "cantina-reaper")
		build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", reaperPath, "cantina/cmd/cantina-reaper")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		build.Stderr = os.Stderr
		err = errors.Join(build.Run(), os.Setenv(builtReaper, reaperPath))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build reaper:", err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// tempDir is a directory for a test that its containers can write to, for any user.
func tempDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if os.Getenv(testUser) == "" {
		return dir
	}
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o711), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func testConfig(dataDir string) Config {
	return Config{
		Dir: dataDir, Reaper: reaperPath, User: os.Getenv(testUser), KillWait: 2 * time.Second, StuckAfter: 30 * time.Second,
		Capacity: resource.Amounts{resource.Containers: 20000, resource.MemoryMB: 1 << 20, resource.CPUMilli: 1 << 20,
			resource.DiskMB: 1 << 20},
	}
}

// testExecutor runs an executor until the test ends, and checks that it left
// nothing behind.
func testExecutor(t testing.TB, change func(*Config)) *Executor {
	t.Helper()
	cfg := testConfig(tempDir(t))
	if os.Getenv("CANTINA_TEST_LOG") != "" {
		cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if change != nil {
		change(&cfg)
	}
	e, stop := runExecutor(t, cfg)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("executor: %v", err)
		}
	})
	return e
}

func runExecutor(t testing.TB, cfg Config) (*Executor, func() error) {
	t.Helper()
	e, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var root string
	if e.backend.tree() != nil {
		root = e.backend.tree().Root()
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return e, func() error {
		cancel()
		err := <-ended
		if root != "" && err == nil {
			if _, serr := os.Stat(root); !errors.Is(serr, os.ErrNotExist) {
				err = fmt.Errorf("group %s is left", root)
			}
		}
		return err
	}
}

// adopts demands that a cell on a directory adopts a kept container, which runs, and ends in good
// order when that has been deleted.
func adopts(t testing.TB, dataDir, id string) {
	t.Helper()
	e, stop := runExecutor(t, testConfig(dataDir))
	if c, ok := e.Get(id); !ok || !c.Adopted || c.State != Running {
		t.Errorf("%+v %v", c, ok)
	}
	e.Delete(id)
	await(t, e, id, gone)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// driven is a container as its driver sees it.
func driven(e *Executor, id string) *container {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.containers[id]
}

func needGroups(t testing.TB, e *Executor) {
	t.Helper()
	if e.backend.tree() == nil {
		t.Skip("no usable control groups here")
	}
}

func sh(script string) Spec {
	return Spec{Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/sh",
		Args: []string{"-c", script}}}}}
}

// await waits until a container is in a state that ok accepts, by events, with
// the list as the truth.
func await(t testing.TB, e *Executor, id string, ok func(Container, bool) bool) Container {
	t.Helper()
	sub, err := e.Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	limit := time.NewTimer(patienceOfTests)
	defer limit.Stop()
	for {
		c, there := e.Get(id)
		if ok(c, there) {
			return c
		}
		select {
		case <-sub.C:
		case <-limit.C:
			t.Fatalf("container %s stays %v (%+v)", id, c.State, c)
		}
	}
}

func completed(c Container, there bool) bool { return there && c.State == Completed }
func runningState(c Container, there bool) bool {
	return there && (c.State == Running || c.State == Completed)
}
func gone(_ Container, there bool) bool { return !there }

// launch runs one container to its end.
func launch(t testing.TB, e *Executor, id string, s Spec) Container {
	t.Helper()
	if err := e.Launch(Reservation{ID: id}, s); err != nil {
		t.Fatal(err)
	}
	return await(t, e, id, completed)
}

// lines returns the lines that a container wrote to one stream.
func lines(t testing.TB, e *Executor, id string, stream logstore.Stream) []string {
	t.Helper()
	page, err := e.Output().Query(context.Background(),
		logstore.Query{IDs: []string{id}, Streams: []logstore.Stream{stream}, Limit: 100000})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, l := range page.Lines {
		if l.Gap == nil {
			out = append(out, string(l.Data))
		}
	}
	return out
}

// script has the actions of a test cell.
type script struct {
	Dir      string
	Volumes  []action.VolumeDir
	Reaper   string
	Mode     CgroupMode
	Jobs     []job
	Deadline time.Duration // from the start; 0 = none
	Stuck    time.Duration // its StuckAfter; 0 = that of testConfig
	Terminal bool          // serve the signals of a terminal instead of the input
}

type job struct {
	ID    string
	Bound bool
	Keep  bool
	Spec  Spec
}

// beCell is the test cell: it starts its containers, prints "ready" when all are
// running, and goes on until it is killed or its input ends. A line of input is a duration:
// the deadline is that far off from then on, which it answers with "set".
func beCell(text string) int {
	var s script
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	os.Unsetenv(cellScript)
	cfg := testConfig(s.Dir)
	cfg.Reaper, cfg.Cgroups, cfg.Volumes = s.Reaper, s.Mode, s.Volumes
	if s.Stuck > 0 {
		cfg.StuckAfter = s.Stuck
	}
	e, err := Open(cfg)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	sub, _ := e.Subscribe()
	if s.Deadline > 0 {
		e.SetDeadline(e.clock.Boot() + s.Deadline)
	}
	for _, j := range s.Jobs {
		if err := e.Launch(Reservation{ID: j.ID, DeadlineBound: j.Bound, Labels: Labels{"name": j.ID}}, j.Spec); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	for ready := 0; ready < len(e.List()); {
		ready = 0
		for _, c := range e.List() {
			if c.State == Running || c.State == Completed || c.Hang != nil {
				ready++
			}
		}
		if ready < len(e.List()) {
			<-sub.C
		}
	}
	sub.Close()
	if s.Terminal {
		return inTerminal(e, cancel, ended)
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		d, err := time.ParseDuration(in.Text())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			break
		}
		e.SetDeadline(e.clock.Boot() + d) // the reaper gets it before it returns
		fmt.Println("set")
	}
	cancel()
	if err := <-ended; err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// inTerminal is how a command runs a cell in a terminal.
func inTerminal(e *Executor, stop func(), ended <-chan error) int {
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() {
		served <- terminal.Serve(ctx, terminal.Listen(), e, stop, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	}()
	// Serve has to have begun, or the first signal would be the default's.
	for !terminalServes() {
		runtime.Gosched()
	}
	fmt.Println("ready")
	err := <-ended
	cancel()
	<-served
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// terminalServes reports whether SIGTSTP is caught by now.
func terminalServes() bool { return handles(os.Getpid(), syscall.SIGTSTP) }

// cell is a test cell in a process of its own.
type cell struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
}

func startCell(t testing.TB, s script) *cell {
	t.Helper()
	s.Reaper = reaperPath
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), cellScript+"="+string(b))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &cell{cmd: cmd, stdin: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGCONT)
		cmd.Process.Kill()
		cmd.Wait()
		endLeftovers(t, s.Dir)
	})
	line, err := c.out.ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "ready" {
		t.Fatalf("cell prints %q, %v", line, err)
	}
	return c
}

// endLeftovers kills the processes that a failed test left in the groups of a data directory. It removes the empty
// groups of a cell without a successor.
func endLeftovers(t testing.TB, dataDir string) {
	var l previous
	b, err := os.ReadFile(filepath.Join(dataDir, previousFile))
	if err != nil || json.Unmarshal(b, &l) != nil {
		return
	}
	if fd, err := l.Reaper.Open(); err == nil {
		syscall.Kill(l.Reaper.Pid, syscall.SIGTERM)
		awaitPidfd(fd, patienceOfTests)
		syscall.Close(fd)
	}
	for _, p := range l.sites() {
		classes, _ := filepath.Glob(p.Tracker + "/*.*.*") // the pattern is good
		for _, c := range classes {
			if g := cgroup.At(c); g.Thaw() == nil && g.Kill() == nil {
				awaitEmpty(t, c)
			}
		}
		for _, dir := range append(p.V1, p.Tracker) {
			cgroup.RemoveEmpty(dir)
		}
	}
}

// deadline sets the cell's deadline so far off, and returns a time that is not before it. A
// cell that starts with a short one may have passed it before the test has looked around.
func (c *cell) deadline(t testing.TB, in time.Duration) time.Time {
	t.Helper()
	fmt.Fprintln(c.stdin, in)
	if line, err := c.out.ReadString('\n'); err != nil || line != "set\n" {
		t.Fatalf("cell prints %q, %v", line, err)
	}
	return time.Now().Add(in)
}

func (c *cell) kill(t testing.TB) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.cmd.Wait()
}

// pids reads the pid files that containers wrote.
func readPid(t testing.TB, path string) procid.Identity {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(b), &pid); err != nil {
		t.Fatalf("%s: %q: %v", path, b, err)
	}
	id, err := procid.Of(pid)
	if err != nil {
		t.Fatalf("%s: process %d: %v", path, pid, err)
	}
	return id
}

// awaitDeath waits until a process that is not a child is gone.
func awaitDeath(t testing.TB, id procid.Identity) time.Duration {
	t.Helper()
	began := time.Now()
	fd, err := pidfdOf(id)
	if err != nil {
		return 0
	}
	defer syscall.Close(fd)
	if !awaitPidfd(fd, patienceOfTests) {
		t.Fatalf("process %d is still alive after %v", id.Pid, patienceOfTests)
	}
	return time.Since(began)
}

// previousOf returns the record that the cell of a data directory wrote for its successor.
func previousOf(t testing.TB, dataDir string) previous {
	t.Helper()
	var l previous
	b, err := os.ReadFile(filepath.Join(dataDir, previousFile))
	if err == nil {
		err = json.Unmarshal(b, &l)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// trackerOf is the tracker directory of a data directory, as its cell wrote it down.
func trackerOf(t testing.TB, dataDir string) string {
	t.Helper()
	return previousOf(t, dataDir).Tracker
}

// reaperOf is the reaper of a data directory.
func reaperOf(t testing.TB, dataDir string) procid.Identity {
	t.Helper()
	return previousOf(t, dataDir).Reaper
}

// classAt is the one directory of a class in a tracker.
func classAt(t testing.TB, tracker, kind string) string {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(tracker, kind+".*"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("class %s: %v, %v", kind, dirs, err)
	}
	return dirs[0]
}

// awaitEmpty waits until a group holds no process.
func awaitEmpty(t testing.TB, dir string) {
	t.Helper()
	g := cgroup.At(dir)
	w, err := cgroup.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patienceOfTests)
	defer cancel()
	go w.Run(ctx)
	events, unwatch := w.Watch(g)
	defer unwatch()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if full, err := g.Populated(); err == nil && !full {
			return
		}
		select {
		case <-events:
		case <-tick.C:
		case <-ctx.Done():
			pids, _ := g.Procs()
			t.Fatalf("group %s still holds %v after %v", dir, pids, patienceOfTests)
		}
	}
}

func pidfdOf(id procid.Identity) (int, error) {
	fd, _, errno := syscall.Syscall(434, uintptr(id.Pid), 0, 0)
	if errno != 0 {
		return -1, errno
	}
	if !id.Alive() {
		syscall.Close(int(fd))
		return -1, procid.ErrGone
	}
	return int(fd), nil
}

// waiters passes each completed container to its waiting caller.
type waiters struct {
	mu   sync.Mutex
	want map[string]chan Container
}

func newWaiters(t testing.TB, e *Executor) *waiters {
	t.Helper()
	sub, err := e.Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	w := &waiters{want: map[string]chan Container{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ev := range sub.C {
			if ev.Kind == EventCompleted {
				w.give(ev.Container)
			}
			if sub.Lost() > 0 {
				for _, c := range e.List() {
					if c.State == Completed {
						w.give(c)
					}
				}
			}
		}
	}()
	t.Cleanup(func() { sub.Close(); <-ended })
	return w
}

func (w *waiters) expect(id string) <-chan Container {
	c := make(chan Container, 1)
	w.mu.Lock()
	w.want[id] = c
	w.mu.Unlock()
	return c
}

func (w *waiters) give(c Container) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d := w.want[c.ID]; d != nil {
		delete(w.want, c.ID)
		d <- c
	}
}

// awaitLine follows a container's output until a line comes.
func awaitLine(t testing.TB, e *Executor, id, want string) {
	t.Helper()
	awaitOutput(t, e, logstore.Query{IDs: []string{id}}, func(l string) bool { return l == want })
}

// awaitOutputNote follows the events of a container until one has text.
func awaitOutputNote(t testing.TB, e *Executor, id, text string) {
	t.Helper()
	awaitOutput(t, e, logstore.Query{IDs: []string{id}, Streams: []logstore.Stream{logstore.Event}},
		func(l string) bool { return strings.Contains(l, text) })
}

func awaitOutput(t testing.TB, e *Executor, q logstore.Query, ok func(string) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patienceOfTests)
	defer cancel()
	found := errors.New("found")
	err := e.Output().Follow(ctx, q, func(l logstore.Line) error {
		if ok(string(l.Data)) {
			return found
		}
		return nil
	})
	if err != found {
		for _, id := range q.IDs {
			c, there := e.Get(id)
			t.Logf("%s: %v %+v", id, there, c)
		}
		t.Fatalf("the line of %v does not come: %v", q.IDs, err)
	}
}

// startUnrelated starts a process that has nothing to do with the executor.
func startUnrelated(t testing.TB) procid.Identity {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	id, err := procid.Of(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
