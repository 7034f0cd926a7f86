package executor

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cantina/cgroup"
	"cantina/spawn/procid"
)

// writesPid is a container that writes its pid to dir/name and sleeps; its forked child, in a session of its own,
// writes dir/name.child.
func writesPid(dir, name, prelude string) Spec {
	return sh(fmt.Sprintf("%s setsid sh -c '%s echo $$ > %s/%s.child; while :; do sleep 1; done' & echo $$ > %s/%s; "+
		"while :; do sleep 1; done",
		prelude, prelude, dir, name, dir, name))
}

func pidsOf(t *testing.T, dir, name string) []procid.Identity {
	awaitFile(t, filepath.Join(dir, name))
	awaitFile(t, filepath.Join(dir, name+".child"))
	return []procid.Identity{readPid(t, filepath.Join(dir, name)), readPid(t, filepath.Join(dir, name+".child"))}
}

func TestDeadlineHoldsWhileTheCellIsStopped(t *testing.T) {
	t.Parallel()
	dataDir, dir := tempDir(t), tempDir(t)
	c := startCell(t, script{Dir: dataDir, Jobs: []job{
		{ID: "bound", Bound: true, Spec: writesPid(dir, "bound", "")},
		{ID: "stubborn", Bound: true, Spec: writesPid(dir, "stubborn", `trap "" TERM;`)},
		{ID: "free", Spec: writesPid(dir, "free", "")},
	}})
	bound, stubborn, free := pidsOf(t, dir, "bound"), pidsOf(t, dir, "stubborn"), pidsOf(t, dir, "free")
	began := time.Now()
	c.deadline(t, time.Second)
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, id := range bound {
		awaitDeath(t, id)
	}
	t.Logf("what heeds TERM was gone %v after the cell was stopped", time.Since(began))
	for _, id := range stubborn {
		awaitDeath(t, id)
	}
	t.Logf("all that is deadline-bound was gone %v after the cell was stopped", time.Since(began))
	for _, id := range free {
		if !id.Alive() {
			t.Errorf("free process %d is gone", id.Pid)
		}
	}
	tracker, reaper := trackerOf(t, dataDir), reaperOf(t, dataDir)
	awaitEmpty(t, classAt(t, tracker, classStopBound))
	c.kill(t)
	for _, id := range free {
		awaitDeath(t, id)
	}
	// The reaper goes last, and leaves no group behind.
	awaitDeath(t, reaper)
	if left, _ := filepath.Glob(tracker + "/stop.*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	cgroup.RemoveEmpty(tracker)
}

func TestNothingOutlivesAKilledCell(t *testing.T) {
	t.Parallel()
	dataDir, dir := tempDir(t), tempDir(t)
	s := script{Dir: dataDir}
	for i := range 100 {
		n := fmt.Sprint("polite", i)
		s.Jobs = append(s.Jobs, job{ID: n, Bound: i%2 == 0, Spec: sh("setsid sleep 1000 & sleep 1000")})
	}
	s.Jobs = append(s.Jobs, job{ID: "stubborn", Spec: writesPid(dir, "stubborn", `trap "" TERM;`)})
	c := startCell(t, s)
	stubborn := pidsOf(t, dir, "stubborn")
	tracker := trackerOf(t, dataDir)
	c.kill(t)
	awaitEmptyBut(t, tracker, 4)
	for _, id := range stubborn {
		awaitDeath(t, id)
	}
	// The next cell finds nothing, and nothing of the groups is left.
	e, stop := runExecutor(t, testConfig(dataDir))
	if l := e.List(); len(l) != 0 {
		t.Errorf("successor has %+v", l)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// awaitEmptyBut waits until at most n processes are left.
func awaitEmptyBut(t *testing.T, dir string, n int) {
	t.Helper()
	end := time.NewTimer(patienceOfTests)
	defer end.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		pids, _ := cgroup.At(dir).Procs()
		if len(pids) <= n {
			return
		}
		select {
		case <-tick.C:
		case <-end.C:
			t.Fatalf("%d processes are left after %v", len(pids), patienceOfTests)
		}
	}
}

func TestReaperIsRestarted(t *testing.T) {
	e := testExecutor(t, nil)
	launch(t, e, "before", sh("true"))
	for i := range 3 {
		id := e.recovery.reaperIdentity()
		if id.Pid == 0 || unix.Kill(id.Pid, unix.SIGKILL) != nil {
			t.Fatalf("no reaper to kill: %+v", id)
		}
		awaitDeath(t, id)
		for e.keeper.up.Load() && e.recovery.reaperIdentity() == id {
			runtime.Gosched()
		}
		c := launch(t, e, fmt.Sprint("after", i), sh("true"))
		if c.Result.Failed {
			t.Errorf("start after the reaper's death: %+v", c.Result)
		}
	}
}

// TestNextReaperOpensClosedClasses: a reaper freezes the classes that it has closed. When it ends, starts go on
// with the next one, and do not hang.
func TestNextReaperOpensClosedClasses(t *testing.T) {
	e := testExecutor(t, nil)
	needGroups(t, e)
	sub, err := e.Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	starts := func(when string) {
		t.Helper()
		for id, s := range map[string]Spec{"bound": sh("true"), "free": sh("true"), "kept": keep(sh("true"))} {
			if err := e.Launch(Reservation{ID: id, DeadlineBound: id != "free"}, s); err != nil {
				t.Fatalf("%s, %s: %v", when, id, err)
			}
			if c := await(t, e, id, completed); c.Result.Failed {
				t.Errorf("%s, %s: %+v", when, id, c.Result)
			}
			e.Delete(id)
			await(t, e, id, gone)
		}
	}
	for _, sig := range []syscall.Signal{unix.SIGKILL, unix.SIGTERM} {
		for _, passed := range []bool{true, false} {
			e.SetDeadline(e.clock.Boot() + time.Hour)
			starts("before")
			if passed {
				e.SetDeadline(e.clock.Boot() + time.Millisecond)
				for ev := range sub.C {
					if ev.Kind == EventDrained {
						break
					}
				}
			}
			reaper := e.recovery.reaperIdentity()
			if err := unix.Kill(reaper.Pid, sig); err != nil {
				t.Fatal(err)
			}
			awaitDeath(t, reaper)
			for e.keeper.up.Load() && e.recovery.reaperIdentity() == reaper {
				runtime.Gosched()
			}
			e.SetDeadline(e.clock.Boot() + time.Hour)
			starts(fmt.Sprintf("after %v, deadline passed %v", sig, passed))
		}
	}
}

func TestDeadlineOfARunningCell(t *testing.T) {
	e := testExecutor(t, nil)
	needGroups(t, e)
	sub, err := e.Subscribe()
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	launch(t, e, "first", sh("true"))
	e.SetDeadline(e.clock.Boot() + time.Hour)
	if err := e.Launch(Reservation{ID: "bound", DeadlineBound: true}, sh("sleep 1000")); err != nil {
		t.Fatal(err)
	}
	if err := e.Launch(Reservation{ID: "free"}, sh("sleep 1000")); err != nil {
		t.Fatal(err)
	}
	await(t, e, "bound", runningState)
	e.SetDeadline(e.clock.Boot() + 300*time.Millisecond)
	c := await(t, e, "bound", completed)
	if !c.Result.Failed || c.Result.Reason != "the cell's deadline passed" {
		t.Errorf("result = %+v", c.Result)
	}
	for ev := range sub.C {
		if ev.Kind == EventDrained {
			break
		}
	}
	if err := e.Launch(Reservation{ID: "late", DeadlineBound: true}, sh("true")); err == nil {
		t.Error("deadline-bound work started after the deadline")
	}
	e.SetDeadline(e.clock.Boot() + time.Hour)
	if err := e.Launch(Reservation{ID: "next", DeadlineBound: true}, sh("true")); err != nil {
		t.Fatal(err)
	}
	if c := await(t, e, "next", completed); c.Result.Failed {
		t.Errorf("after new credit: %+v", c.Result)
	}
	if c, _ := e.Get("free"); c.State != Running {
		t.Errorf("free container is %v: %+v", c.State, c.Result)
	}
}

// reaperIdentity is the reaper that was started last.
func (r *recovery) reaperIdentity() procid.Identity {
	var l previous
	b, err := os.ReadFile(r.e.path(previousFile))
	if err != nil || json.Unmarshal(b, &l) != nil {
		return procid.Identity{}
	}
	return l.Reaper
}
