package executor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cantina/action"
	"cantina/cgroup"
	"cantina/resource"
)

// hang puts a process into a frozen group of the v1 freezer, where not even KILL reaches it: the stand-in for one
// that hangs in the kernel. It returns a function that releases it.
func hang(t *testing.T, pid int) func() {
	t.Helper()
	host, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	m := host.V1["freezer"]
	if m == nil || host.Unified == nil || m.SelfDir() == "" {
		t.Skip("skipped: needs the v1 freezer beside v2 to make a process hang")
	}
	dir, err := os.MkdirTemp(m.SelfDir(), "cantina-test-")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	write := func(file, value string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
			t.Error(err)
		}
	}
	write("cgroup.procs", fmt.Sprint(pid))
	write("freezer.state", "FROZEN")
	thawed := false
	thaw := func() {
		if !thawed {
			thawed = true
			write("freezer.state", "THAWED")
		}
	}
	t.Cleanup(func() {
		thaw()
		for end := time.Now().Add(patienceOfTests); time.Now().Before(end); {
			if err := os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
				return
			}
		}
		t.Error("group of the test is left")
	})
	return thaw
}

func TestStuckContainer(t *testing.T) {
	rebooted := filepath.Join(tempDir(t), "rebooted")
	e := testExecutor(t, func(c *Config) {
		c.StuckAfter = 200 * time.Millisecond
		c.Capacity = resource.Amounts{resource.Containers: 2}
		c.RebootCommand = []string{"/bin/sh", "-c", "echo now > " + rebooted}
	})
	needGroups(t, e)
	s := sh("exec sleep 1000")
	s.Workload.Termination.Mode = action.KillNow
	e.SetDeadline(e.clock.Boot() + time.Hour)
	if err := e.Launch(Reservation{ID: "x", DeadlineBound: true}, s); err != nil {
		t.Fatal(err)
	}
	c := await(t, e, "x", runningState)
	awaitThat(t, "the shell runs sleep", func() bool {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.Pid))
		return err == nil && string(name) == "sleep\n"
	})
	thaw := hang(t, c.Pid)
	if err := e.Delete("x"); err != nil {
		t.Fatal(err)
	}
	c = await(t, e, "x", func(c Container, _ bool) bool { return c.Stuck != nil })
	if c.State == Completed || len(c.Stuck.Processes) != 1 || c.Stuck.Processes[0].Pid != c.Pid ||
		c.Stuck.Processes[0].Command != "sleep" {
		t.Errorf("%v %+v", c.State, c.Stuck)
	}
	if !strings.HasPrefix(c.Stuck.String(), "STUCK_KILLING: pid ") {
		t.Error(c.Stuck)
	}
	// It blocks no other container, and holds its resources.
	if d := launch(t, e, "other", sh("true")); d.Result.Failed {
		t.Errorf("%+v", d.Result)
	}
	if err := e.Reserve(Reservation{ID: "full", Resources: resource.Amounts{resource.Containers: 2}}); !errors.Is(err,
		ErrInsufficient) {
		t.Errorf("reserve beside a stuck container: %v", err)
	}
	e.Delete("other")
	await(t, e, "other", gone)
	if e.Unclean() {
		t.Error("unclean before the deadline")
	}
	// When it must be dead and is not, the cell takes no work.
	e.SetDeadline(e.clock.Boot() + time.Millisecond)
	for !e.Unclean() {
	}
	if err := e.Reserve(Reservation{ID: "free"}); !errors.Is(err, ErrUnclean) {
		t.Errorf("reserve on an unclean cell: %v", err)
	}
	awaitFile(t, rebooted)
	thaw()
	await(t, e, "x", gone)
	if e.Unclean() {
		t.Error("unclean after all is gone")
	}
}

func TestSuccessorShowsStuckWork(t *testing.T) {
	t.Parallel()
	dataDir, dir := tempDir(t), tempDir(t)
	c := startCell(t,
		script{Dir: dataDir, Jobs: []job{{ID: "x", Bound: true,
			Spec: sh(fmt.Sprintf("echo $$ > %s/x; exec sleep 1000", dir))}}})
	awaitFile(t, filepath.Join(dir, "x"))
	id := readPid(t, filepath.Join(dir, "x"))
	thaw := hang(t, id.Pid)
	c.kill(t)
	cfg := testConfig(dataDir)
	cfg.KillWait, cfg.StuckAfter = 100*time.Millisecond, 200*time.Millisecond
	e, stop := runExecutor(t, cfg)
	got, there := e.Get("x")
	if !there || got.Stuck == nil || got.State == Completed || !got.Adopted || !e.Unclean() {
		t.Errorf("%v %+v, unclean %v", there, got, e.Unclean())
	}
	if got.Labels["name"] != "x" || got.Resources[resource.Containers] != 1 || e.used[resource.Containers] != 1 {
		t.Errorf("the stuck work is unknown: %v takes %v, in all %v", got.Labels, got.Resources, e.used)
	}
	thaw()
	if got = await(t, e, "x", completed); !got.Result.Lost || !got.Result.Failed {
		t.Errorf("%+v", got.Result)
	}
	e.Delete("x")
	await(t, e, "x", gone)
	if n := e.used[resource.Containers]; n != 0 {
		t.Errorf("room of %d containers is taken by nothing", n)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestSuccessorKnowsAProbe: a hanging probe belongs to no work. The successor of its cell waits for its end, but
// holds no resources for it.
func TestSuccessorKnowsAProbe(t *testing.T) {
	t.Parallel()
	dataDir, dir := tempDir(t), tempDir(t)
	id := probePrefix + "1"
	c := startCell(t,
		script{Dir: dataDir, Jobs: []job{{ID: id, Spec: sh(fmt.Sprintf("echo $$ > %s/x; exec sleep 1000", dir))}}})
	awaitFile(t, filepath.Join(dir, "x"))
	thaw := hang(t, readPid(t, filepath.Join(dir, "x")).Pid)
	group := filepath.Join(classAt(t, trackerOf(t, dataDir), classStopFree), cgroup.Escape(id))
	c.kill(t)
	cfg := testConfig(dataDir)
	cfg.KillWait, cfg.StuckAfter = 100*time.Millisecond, 200*time.Millisecond
	e, stop := runExecutor(t, cfg)
	if all := e.List(); len(all) != 0 || e.Unclean() || e.used[resource.Containers] != 0 {
		t.Errorf("%+v, unclean %v, taken %v", all, e.Unclean(), e.used)
	}
	if full, err := cgroup.At(group).Populated(); !full || err != nil {
		t.Fatalf("the probe has ended: %v", err)
	}
	if err := stop(); !errors.Is(err, ErrUnclean) {
		t.Errorf("an end beside it: %v", err)
	}
	e, stop = runExecutor(t, cfg)
	if err := e.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	thaw()
	awaitEmpty(t, group)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// endsClean waits for the end of released stuck containers, and for that of the executor: nothing is left.
func endsClean(t *testing.T, e *Executor, id string, stop func() error) {
	t.Helper()
	await(t, e, id, completed)
	e.Delete(id)
	await(t, e, id, gone)
	if e.Unclean() {
		t.Error("unclean although nothing is left")
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestSuccessorShowsUnadoptableWork: a container that was to outlive its cell, and whose files are unreadable, is
// ended. If it does not die, it is shown as stuck, and its work is unknown.
func TestSuccessorShowsUnadoptableWork(t *testing.T) {
	t.Parallel()
	dataDir, dir := tempDir(t), tempDir(t)
	c := startCell(t,
		script{Dir: dataDir, Jobs: []job{{ID: "x", Bound: true,
			Spec: keep(sh(fmt.Sprintf("echo $$ > %s/x; exec sleep 1000", dir)))}}})
	awaitFile(t, filepath.Join(dir, "x"))
	thaw := hang(t, readPid(t, filepath.Join(dir, "x")).Pid)
	c.kill(t)
	written, err := filepath.Glob(filepath.Join(dataDir, "keep", "*", keptRecordFile))
	if err != nil || len(written) != 1 {
		t.Fatal(written, err)
	}
	if err := os.Remove(written[0]); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(dataDir)
	cfg.KillWait, cfg.StuckAfter = 100*time.Millisecond, 200*time.Millisecond
	e, stop := runExecutor(t, cfg)
	all := e.List()
	if len(all) != 1 || all[0].Stuck == nil || all[0].Labels != nil || !all[0].Adopted || !all[0].DeadlineBound ||
		!e.Unclean() {
		t.Fatalf("%+v, unclean %v", all, e.Unclean())
	}
	thaw()
	endsClean(t, e, all[0].ID, stop)
}

// TestSuccessorShowsStuckWorkWithoutGroups: a stuck container is present, but its work is unknown. A cell does not
// declare its predecessor dead then.
func TestSuccessorShowsStuckWorkWithoutGroups(t *testing.T) {
	t.Parallel()
	dataDir, dir := tempDir(t), tempDir(t)
	c := startCell(t, script{Dir: dataDir, Mode: CgroupNone,
		Jobs: []job{{ID: "x", Bound: true, Spec: sh(fmt.Sprintf("echo $$ > %s/x; exec sleep 1000", dir))}}})
	awaitFile(t, filepath.Join(dir, "x"))
	thaw := hang(t, readPid(t, filepath.Join(dir, "x")).Pid)
	c.kill(t)
	cfg := testConfig(dataDir)
	cfg.Cgroups, cfg.KillWait, cfg.StuckAfter = CgroupNone, 100*time.Millisecond, 200*time.Millisecond
	e, stop := runExecutor(t, cfg)
	all := e.List()
	if len(all) != 1 || all[0].Stuck == nil || all[0].Labels != nil || !all[0].Adopted || !e.Unclean() {
		t.Fatalf("%+v, unclean %v", all, e.Unclean())
	}
	thaw()
	endsClean(t, e, all[0].ID, stop)
}
