package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"cantina/action"
	"cantina/executor/executortest"
	"cantina/resource"
)

// hungMount mounts a file system whose look-ups hang, until the test ends.
func hungMount(t *testing.T) *executortest.HungMount {
	t.Helper()
	needRoot(t)
	dir, err := os.MkdirTemp("/run", "cantina-test") // containers have a /tmp of their own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	h, err := executortest.Hang(dir)
	if err != nil {
		t.Skip("skipped: ", err)
	}
	t.Cleanup(func() {
		if err := h.Release(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func program(path string, args ...string) Spec {
	return Spec{Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: path, Args: args}}}}
}

func hangs(c Container, _ bool) bool { return c.Hang != nil }

// hungStarts are the ways in which a start can hang in dir, by name.
func hungStarts(dir string) map[string]Spec {
	inDir := program("/bin/true")
	inDir.Workload.Action.Run.Dir = dir + "/directory"
	inPath := program("tool")
	inPath.Workload.Env = []action.Variable{{Name: "PATH", Value: "/nowhere:" + dir}}
	inView := program(dir + "/viewed")
	inView.Workload.Isolation = action.IsolationNamespaces
	inLimits := program(dir + "/limited")
	inLimits.Workload.Resources = resource.Amounts{resource.MemoryMB: 50}
	inLimits.Workload.MaxPids = 5
	inSteps := program(dir + "/step")
	inSteps.Workload.Setup = &action.Action{Run: &action.Run{Path: "/bin/true"}}
	kept := program(dir + "/kept")
	kept.Workload.OnCellRestart = action.RestartKeep
	plain := program(dir + "/plain")
	plain.Workload.Isolation = action.IsolationNone
	return map[string]Spec{"program": program(dir + "/program"), "directory": inDir, "path": inPath, "namespaces": inView,
		"limits": inLimits, "step": inSteps, "kept": kept, "none": plain}
}

// TestHungStartBlocksNoOthers: programs and directories that the kernel does not come
// back from stop neither other starts, nor the probe, nor the collection of garbage.
func TestHungStartBlocksNoOthers(t *testing.T) {
	h := hungMount(t)
	e, stop := runExecutor(t, func() Config {
		c := testConfig(tempDir(t))
		c.StuckAfter = 200 * time.Millisecond
		return c
	}())
	needGroups(t, e)
	starts := hungStarts(h.Dir)
	for name, s := range starts {
		for i := range 2 { // more than there are threads that fork
			if err := e.Launch(Reservation{ID: fmt.Sprint(name, i), Resources: resource.Amounts{resource.CPUMilli: 10}},
				s); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name := range starts {
		for i := range 2 {
			c := await(t, e, fmt.Sprint(name, i), hangs)
			if text := c.Hang.String(); !strings.HasPrefix(text, "START_HANGS: ") || !strings.Contains(text, " in state ") {
				t.Errorf("%s: %v", name, c.Hang)
			}
			if c.State == Running || c.State == Completed {
				t.Errorf("%s: %v", name, c.State)
			}
		}
	}
	runtime.GC()
	if free := e.Free()[resource.CPUMilli]; free != e.Capacity()[resource.CPUMilli]-2*10*len(starts) {
		t.Errorf("capacity: %d is free", free)
	}
	for i := range 30 {
		if c := launch(t, e, fmt.Sprint("other", i), sh("true")); c.Result.Failed {
			t.Fatalf("beside it: %+v", c.Result)
		}
	}
	if err := e.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	// One is stopped, and does not die; the others when the cell ends, which is bounded.
	if err := e.Stop("program0"); err != nil {
		t.Fatal(err)
	}
	c := await(t, e, "program0", func(c Container, _ bool) bool { return c.Stuck != nil })
	if c.State == Completed || c.Hang != nil {
		t.Errorf("%+v", c)
	}
	t.Log(c.Stuck)
	began := time.Now()
	if err := stop(); !errors.Is(err, ErrUnclean) {
		t.Errorf("end of the cell: %v", err)
	}
	if took := time.Since(began); took > 30*time.Second { // 2 s and a bit, on a machine that does nothing else
		t.Errorf("the end of the cell took %v", took)
	}
	clearTracker(t, e, h)
}

// clearTracker lets the hung go and waits until the groups of an unclean executor are
// empty, which its reaper does.
func clearTracker(t *testing.T, e *Executor, h *executortest.HungMount) {
	t.Helper()
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	for _, class := range e.generation.classes() {
		awaitEmpty(t, filepath.Join(e.backend.tree().Root(), class))
	}
}

// TestHungStartGoesOn: a file system that answers after a while costs nothing but that.
func TestHungStartGoesOn(t *testing.T) {
	t.Parallel()
	h := hungMount(t)
	e := testExecutor(t, nil)
	for name, s := range hungStarts(h.Dir) {
		if err := e.Launch(Reservation{ID: name}, s); err != nil {
			t.Fatal(err)
		}
		await(t, e, name, hangs)
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	for name := range hungStarts(h.Dir) {
		c := await(t, e, name, completed)
		if !c.Result.Failed || c.Hang != nil || c.Result.Reason == "" || c.Stuck != nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestHungStartTimeout: the start timeout ends a start as far as the kernel lets it.
func TestHungStartTimeout(t *testing.T) {
	t.Parallel()
	h := hungMount(t)
	e := testExecutor(t, func(c *Config) { c.StuckAfter = 100 * time.Millisecond })
	needGroups(t, e)
	checked := hungStarts(h.Dir)["program"]
	checked.Workload.Checks = []action.Check{{TCP: &action.TCPCheck{Port: "a"}}}
	checked.Workload.Ports = []action.Port{{Name: "a"}}
	starts := hungStarts(h.Dir)
	starts["checked"] = checked
	for name, s := range starts {
		s.Workload.StartTimeout = 800 * time.Millisecond
		if err := e.Launch(Reservation{ID: name}, s); err != nil {
			t.Fatal(err)
		}
	}
	for name := range starts {
		if c := await(t, e, name, func(c Container, _ bool) bool { return c.Stuck != nil }); c.State == Completed {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	for name := range starts {
		c := await(t, e, name, completed)
		if want := "within 800ms"; !c.Result.Failed || !strings.Contains(c.Result.Reason, want) {
			t.Errorf("%s: %+v", name, c.Result)
		}
	}
}

// TestHungCheckAndExec: programs beside the main one hang alone, and once.
func TestHungCheckAndExec(t *testing.T) {
	h := hungMount(t)
	e := testExecutor(t, func(c *Config) { c.StuckAfter = 100 * time.Millisecond })
	s := sh("sleep 1000")
	s.Workload.ReadinessChecks = []action.Check{{Exec: &action.Run{Path: h.Dir + "/check"},
		StartupInterval: 10 * time.Millisecond, Interval: 10 * time.Millisecond, Timeout: 700 * time.Millisecond}}
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	awaitOutputNote(t, e, "x", "START_HANGS")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := e.Exec(ctx, "x", ExecSpec{Path: h.Dir + "/exec"}); !errors.Is(err, ErrHangs) {
		t.Errorf("exec = %v", err)
	}
	c, _ := e.Get("x")
	if c.State != Running || c.Routable {
		t.Errorf("%+v", c)
	}
	// The shell, its sleep, the check, the exec.
	if pids, err := driven(e, "x").programs.pids(); err != nil || len(pids) > 4 {
		t.Errorf("processes %v, %v", pids, err)
	}
	if err := e.Delete("x"); err != nil {
		t.Fatal(err)
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	await(t, e, "x", gone)
}

// TestCellWithHungStartEnds: the cell's process ends although a start hangs. The hung start keeps nothing of the
// cell, above all not its lock. Its successor shows the stuck container.
func TestCellWithHungStartEnds(t *testing.T) {
	t.Parallel()
	h := hungMount(t)
	dataDir := tempDir(t)
	starts := hungStarts(h.Dir)
	s := script{Dir: dataDir, Stuck: time.Second}
	for _, name := range []string{"none", "program", "namespaces"} {
		s.Jobs = append(s.Jobs, job{ID: name, Bound: true, Spec: starts[name]})
	}
	c := startCell(t, s)
	ended := make(chan error, 1)
	c.stdin.Close()
	go func() { ended <- c.cmd.Wait() }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the cell reports itself clean")
		}
	case <-time.After(patienceOfTests):
		t.Fatal("the cell does not end")
	}
	cfg := testConfig(dataDir)
	cfg.KillWait, cfg.StuckAfter = 100*time.Millisecond, 200*time.Millisecond
	e, stop := runExecutor(t, cfg)
	for _, j := range s.Jobs {
		if got, there := e.Get(j.ID); !there || got.Stuck == nil || got.State == Completed {
			t.Errorf("%s: %v %+v", j.ID, there, got)
		}
	}
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	for _, j := range s.Jobs {
		await(t, e, j.ID, completed)
		e.Delete(j.ID)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestDirectoryIsNamed: for a program that is a directory, the error names it as a directory.
func TestDirectoryIsNamed(t *testing.T) {
	e := testExecutor(t, nil)
	dir := tempDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if c := launch(t, e, "x", program(dir)); !strings.Contains(c.Result.Reason, "is a directory") {
		t.Errorf("%+v", c.Result)
	}
	s := program("/bin/true")
	s.Workload.Action.Run.Dir = "/no/such/directory"
	if c := launch(t, e, "y", s); !strings.Contains(c.Result.Reason, "directory /no/such/directory: no such file") {
		t.Errorf("%+v", c.Result)
	}
}

// TestHungTransfers: files that go to, or come from, a file system that does not answer
// hang alone: more of them than may be fetched at a time.
func TestHungTransfers(t *testing.T) {
	t.Parallel()
	h := hungMount(t)
	e := testExecutor(t, func(c *Config) { c.StuckAfter = 100 * time.Millisecond })
	needGroups(t, e)
	source := filepath.Join(tempDir(t), "file")
	if err := os.WriteFile(source, []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	download := func(to string) Spec {
		return Spec{Workload: action.Workload{Action: action.Action{Download: &action.Download{From: "file://" + source,
			To: to, AllowUnpinned: true}}}}
	}
	upload := Spec{Workload: action.Workload{Action: action.Action{Upload: &action.Upload{From: h.Dir + "/result",
		To: "http://127.0.0.1:1/x"}}}}
	all := map[string]Spec{"upload": upload}
	for i := range 7 {
		all[fmt.Sprint("download", i)] = download(fmt.Sprint(h.Dir, "/to", i))
	}
	for id, s := range all {
		if err := e.Launch(Reservation{ID: id}, s); err != nil {
			t.Fatal(err)
		}
	}
	for id := range all {
		c := await(t, e, id, hangs)
		if text := c.Hang.String(); !strings.Contains(text, h.Dir) || !strings.Contains(text, "cantina-reaper") {
			t.Errorf("%s: %s", id, text)
		}
	}
	target := filepath.Join(tempDir(t), "there")
	if c := launch(t, e, "beside", download(target)); c.Result.Failed {
		t.Errorf("beside them: %+v", c.Result)
	}
	if b, err := os.ReadFile(target); err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
	for id := range all {
		if err := e.Stop(id); err != nil {
			t.Fatal(err)
		}
	}
	await(t, e, "upload", func(c Container, _ bool) bool { return c.Stuck != nil || c.State == Completed })
	if err := h.Release(); err != nil {
		t.Error(err)
	}
	for id := range all {
		if c := await(t, e, id, completed); !c.Result.Stopped {
			t.Errorf("%s: %+v", id, c.Result)
		}
	}
}

// TestUploadFromOutside: a file outside the container's directory is uploaded through a copy,
// of which nothing stays; errors name the path as the container does.
func TestUploadFromOutside(t *testing.T) {
	e := testExecutor(t, nil)
	got := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- string(b)
	}))
	defer server.Close()
	source := filepath.Join(tempDir(t), "result")
	if err := os.WriteFile(source, []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	up := func(from string) Spec {
		return Spec{Workload: action.Workload{Action: action.Action{Upload: &action.Upload{From: from, To: server.URL}}}}
	}
	c := launch(t, e, "x", up(source))
	if c.Result.Failed || <-got != "content" {
		t.Errorf("%+v", c.Result)
	}
	if left, err := os.ReadDir(c.Dir); err != nil || len(left) != 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
	if c := launch(t, e, "none", up("/no/such")); !c.Result.Failed || !strings.Contains(c.Result.Reason, "no such file") {
		t.Errorf("%+v", c.Result)
	}
}

// TestHungSourcesAndCopies: a file: source, a copy and a result file on a file system that
// does not answer hang alone, or not at all.
func TestHungSourcesAndCopies(t *testing.T) {
	t.Parallel()
	h := hungMount(t)
	e := testExecutor(t, func(c *Config) { c.StuckAfter = 100 * time.Millisecond })
	needGroups(t, e)
	download := func(from string) Spec {
		return Spec{Workload: action.Workload{Action: action.Action{Download: &action.Download{From: "file://" + from,
			To: "here", AllowUnpinned: true}}}}
	}
	for i := range 7 { // more than are fetched at a time
		if err := e.Launch(Reservation{ID: fmt.Sprint("source", i)}, download(h.Dir+"/file")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 7 {
		if c := await(t, e, fmt.Sprint("source", i), hangs); !strings.Contains(c.Hang.String(), h.Dir+"/file") {
			t.Error(c.Hang)
		}
	}
	source := filepath.Join(tempDir(t), "file")
	if err := os.WriteFile(source, []byte("content"), 0o644); err != nil {
		t.Fatal(err)
	}
	if c := launch(t, e, "beside", download(source)); c.Result.Failed {
		t.Errorf("beside them: %+v", c.Result)
	}
	s := sh("sleep 1000")
	s.Workload.Isolation = action.IsolationNamespaces // it sees the whole machine
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	await(t, e, "x", runningState)
	for name, copy := range map[string]func(context.Context) error{
		"out": func(ctx context.Context) error { return e.CopyOut(ctx, "x", CopySpec{Path: h.Dir + "/a"}, io.Discard) },
		"in": func(ctx context.Context) error {
			return e.CopyIn(ctx, "x", CopySpec{Path: h.Dir + "/a"}, strings.NewReader(""))
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if err := copy(ctx); !errors.Is(err, ErrHangs) {
			t.Errorf("copy %s: %v", name, err)
		}
		cancel()
	}
	// A result file is read without access to the mounts in the directory.
	r := sh("true")
	r.Workload.ResultFile = "mnt/result"
	dataDir := launch(t, e, "result", r).Dir
	if err := os.MkdirAll(filepath.Join(dataDir, "mnt"), 0o755); err != nil {
		t.Fatal(err)
	}
	inner, err := executortest.Hang(filepath.Join(dataDir, "mnt"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.ResultFile("result"); err == nil || !strings.Contains(err.Error(), "mnt/result") {
		t.Errorf("result file: %v", err)
	}
	if err := errors.Join(inner.Release(), h.Release()); err != nil {
		t.Error(err)
	}
	for i := range 7 {
		if c := await(t, e, fmt.Sprint("source", i), completed); !c.Result.Failed {
			t.Errorf("%+v", c.Result)
		}
	}
	e.Delete("x")
	await(t, e, "x", gone)
}
