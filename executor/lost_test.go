package executor

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cantina/executor/shim"
	"cantina/spawn"
)

// TestUnreadEndIsNotLost: how a kept program ended is asked for again while it cannot be
// read; it is lost only when it is not there.
func TestUnreadEndIsNotLost(t *testing.T) {
	reported := make(chan string, 1)
	e := testExecutor(t, func(cfg *Config) { cfg.Log = slog.New(slog.NewTextHandler(lineChan(reported), nil)) })
	c := newContainer(e, Reservation{ID: "x"}, nil)
	if err := c.openOutput(); err != nil {
		t.Fatal(err)
	}
	k := &kept{c: c, dir: tempDir(t), shim: spawn.Gone(1), done: make(chan struct{})}
	path := filepath.Join(k.dir, shim.EndedFile)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	k.follow(nil, func() {})
	line := <-reported
	whole := filepath.Join(k.dir, "whole") // between two steps it would be lost
	if err := errors.Join(shim.Put(k.dir, "whole", shim.Ended{ExitCode: 7}, false),
		unix.Renameat2(unix.AT_FDCWD, whole, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)); err != nil {
		t.Fatal(err)
	}
	c.followers.Wait()
	if r := k.result(); !strings.Contains(line, path) || r.Lost || r.ExitCode != 7 {
		t.Errorf("%s: %+v", line, r)
	}
	for _, w := range c.writers {
		w.Close()
	}
}

// TestSuccessorNeedsTheRecordsOfKeptWork: a cell does not start while it cannot read how something kept
// ended, or until when it may live.
func TestSuccessorNeedsTheRecordsOfKeptWork(t *testing.T) {
	t.Parallel()
	dataDir, dir := tempDir(t), tempDir(t)
	c := startCell(t, script{Dir: dataDir, Deadline: time.Hour,
		Jobs: []job{{ID: "x", Bound: true, Spec: keep(writesPid(dir, "x", ""))}}})
	ids := pidsOf(t, dir, "x")
	c.kill(t)
	deadlines, err := filepath.Glob(filepath.Join(dataDir, "deadline."+classKeepBound+".*"))
	if err != nil || len(deadlines) != 1 {
		t.Fatal(deadlines, err)
	}
	for _, path := range []string{filepath.Join(dataDir, "keep", "x", resultFile), deadlines[0]} {
		saved, err := os.ReadFile(path)
		missing := errors.Is(err, os.ErrNotExist)
		if err := errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700)); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(testConfig(dataDir)); err == nil || !strings.Contains(err.Error(), "read "+path) {
			t.Errorf("opened: %v", err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if !missing {
			if err := os.WriteFile(path, saved, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	e, stop := runExecutor(t, testConfig(dataDir))
	if !ids[0].Alive() {
		t.Error("it was ended")
	}
	await(t, e, "x", func(c Container, _ bool) bool { return c.Pid != 0 })
	e.Delete("x")
	await(t, e, "x", gone)
	if err := stop(); err != nil {
		t.Error(err)
	}
}
