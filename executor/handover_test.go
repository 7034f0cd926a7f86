package executor

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"cantina/cgroup"
)

// TestDeadlineIsHeldAllThrough: after the death of a cell process some reaper holds the deadline of kept work and
// ends it, for any fate of the successors.
func TestDeadlineIsHeldAllThrough(t *testing.T) {
	for name, succeed := range map[string]func(t *testing.T, dataDir string){
		"cannot start": func(t *testing.T, dataDir string) {
			saved := filepath.Join(dataDir, "saved")
			path := filepath.Join(dataDir, "keep", "x", keptRecordFile)
			if err := errors.Join(os.Rename(path, saved), os.Mkdir(path, 0o700)); err != nil {
				t.Fatal(err)
			}
			if e, err := Open(testConfig(dataDir)); err == nil {
				e.release()
				t.Error("it has opened with an unreadable file")
			}
			if err := errors.Join(os.Remove(path), os.Rename(saved, path)); err != nil {
				t.Fatal(err)
			}
		},
		"ends before it runs": func(t *testing.T, dataDir string) {
			e, err := Open(testConfig(dataDir))
			if err != nil {
				t.Fatal(err)
			}
			e.release()
		},
		"ends twice before it runs": func(t *testing.T, dataDir string) {
			for range 2 {
				e, err := Open(testConfig(dataDir))
				if err != nil {
					t.Fatal(err)
				}
				e.release()
			}
		},
		"is killed": func(t *testing.T, dataDir string) {
			startCell(t, script{Dir: dataDir}).kill(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dataDir, dir := tempDir(t), tempDir(t)
			c := startCell(t, script{Dir: dataDir, Deadline: 4 * time.Second,
				Jobs: []job{{ID: "x", Bound: true, Spec: keep(writesPid(dir, "x", ""))}}})
			ids := pidsOf(t, dir, "x")
			c.kill(t)
			succeed(t, dataDir)
			if !ids[0].Alive() {
				t.Error("it was ended before its deadline")
			}
			for _, id := range ids {
				awaitDeath(t, id)
			}
			e, stop := runExecutor(t, testConfig(dataDir))
			await(t, e, "x", completed)
			e.Delete("x")
			await(t, e, "x", gone)
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOldReapersAreReplaced: when a reaper of this process holds the deadlines, no older one does, after any number
// of processes without a reaper.
func TestOldReapersAreReplaced(t *testing.T) {
	dataDir, dir := tempDir(t), tempDir(t)
	c := startCell(t, script{Dir: dataDir, Deadline: 4 * time.Second,
		Jobs: []job{{ID: "x", Bound: true, Spec: keep(writesPid(dir, "x", ""))}}})
	ids := pidsOf(t, dir, "x")
	old := reaperOf(t, dataDir)
	c.kill(t)
	e, err := Open(testConfig(dataDir))
	if err != nil {
		t.Fatal(err)
	}
	e.release()
	if !old.Alive() {
		t.Fatal("no process holds the deadline")
	}
	e, stop := runExecutor(t, testConfig(dataDir))
	e.SetDeadline(e.clock.Boot() + time.Hour)
	e.AdoptionRecorded()
	awaitDeath(t, old)
	if !ids[0].Alive() {
		t.Error("it was ended although its adoption was recorded")
	}
	e.Delete("x")
	await(t, e, "x", gone)
	if err := stop(); err != nil {
		t.Error(err)
	}
	if l := previousOf(t, dataDir); len(l.Reapers) > 0 {
		t.Errorf("left: %+v", l)
	}
}

// TestGroupsOfEarlierProcessesAreKnown: a process that has its groups elsewhere than its
// predecessor hands on where the predecessor's are, as long as something lives there.
func TestGroupsOfEarlierProcessesAreKnown(t *testing.T) {
	for name, last := range map[string]CgroupMode{"back": CgroupAuto, "none": CgroupNone} {
		t.Run(name, func(t *testing.T) {
			dataDir, dir := tempDir(t), tempDir(t)
			c := startCell(t, script{Dir: dataDir, Deadline: time.Hour,
				Jobs: []job{{ID: "x", Bound: true, Spec: keep(writesPid(dir, "x", ""))}}})
			ids := pidsOf(t, dir, "x")
			c.kill(t)
			first := trackerOf(t, dataDir)
			class := classAt(t, first, classKeepBound)
			startCell(t, script{Dir: dataDir, Mode: CgroupNone}).kill(t)
			// Work that the second has not recorded is left by the first, and is not kept.
			stray := cgroup.At(filepath.Join(class, "stray"))
			if err := os.Mkdir(stray.Dir(), 0o755); err != nil {
				t.Fatal(err)
			}
			unrelated := startUnrelated(t)
			if err := os.WriteFile(filepath.Join(stray.Dir(), "cgroup.procs"), []byte(strconv.Itoa(unrelated.Pid)),
				0); err != nil {
				t.Fatal(err)
			}
			cfg := testConfig(dataDir)
			cfg.Cgroups = last
			e, stop := runExecutor(t, cfg)
			if unrelated.Alive() {
				t.Error("the rest of the first's groups is alive")
				syscall.Kill(unrelated.Pid, syscall.SIGKILL)
			}
			if len(e.recovery.adopted) != 1 || e.recovery.adopted[0].dir != class ||
				e.recovery.adopted[0].deadline <= int64(e.clock.Boot()) {
				t.Errorf("adopted: %+v, want the deadline of %s", e.recovery.adopted, class)
			}
			if _, err := os.Stat(filepath.Join(dataDir, "run", "x")); err != nil || !ids[0].Alive() {
				t.Errorf("alive: %v, its directory: %v", ids[0].Alive(), err)
			}
			// A deadline reaches it there, for each kind of tracking.
			await(t, e, "x", func(c Container, _ bool) bool { return c.Pid != 0 })
			e.SetDeadline(e.clock.Boot() + 100*time.Millisecond)
			e.AdoptionRecorded()
			for _, id := range ids {
				awaitDeath(t, id)
			}
			await(t, e, "x", completed)
			e.Delete("x")
			await(t, e, "x", gone)
			if err := stop(); err != nil {
				t.Error(err)
			}
			cgroup.RemoveEmpty(first)
		})
	}
}
