package cgroup

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// withTree runs a test with a tree of its own.
func withTree(t *testing.T, f func(t *testing.T, tree *Tree)) {
	host, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Open(host, fmt.Sprintf("test-%d", os.Getpid()), Options{})
	if err != nil {
		t.Skip("skipped: ", err)
	}
	t.Cleanup(func() {
		tree.Close()
		if _, err := os.Stat(tree.Root()); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left", tree.Root())
		}
	})
	if err := tree.Class("c"); err != nil {
		t.Fatal(err)
	}
	f(t, tree)
}

// put starts a program and moves it into the group.
func put(t *testing.T, g *Group, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if err := os.WriteFile(filepath.Join(g.Dir(), "cgroup.procs"), fmt.Append(nil, cmd.Process.Pid), 0); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestGroupLife(t *testing.T) {
	withTree(t, func(t *testing.T, tree *Tree) {
		g, err := tree.Create("c", "a/b", Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tree.Create("c", "a/b", Limits{}); err == nil {
			t.Error("made twice")
		}
		if full, err := g.Populated(); full || err != nil {
			t.Errorf("new group: %v, %v", full, err)
		}
		cmd := put(t, g, "sleep", "1000")
		if pids, err := g.Procs(); err != nil || len(pids) != 1 || pids[0] != cmd.Process.Pid {
			t.Errorf("procs %v, %v", pids, err)
		}
		if pids, _ := At(filepath.Join(tree.Root(), "c")).Procs(); len(pids) != 1 {
			t.Errorf("class has %v", pids)
		}
		if !g.Holds(cmd.Process.Pid) || g.Holds(os.Getpid()) {
			t.Error("holds the wrong processes")
		}
		if err := g.Remove(); !errors.Is(err, ErrBusy) {
			t.Errorf("remove: %v", err)
		}
		if err := g.Freeze(); err != nil || !g.AwaitFrozen(time.Minute) {
			t.Errorf("freeze: %v", err)
		}
		if err := g.Thaw(); err != nil {
			t.Error(err)
		}
		if err := g.Signal(unix.SIGUSR1); err != nil {
			t.Error(err)
		}
		err = cmd.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !exit.Sys().(interface{ Signaled() bool }).Signaled() {
			t.Errorf("ended with %v", err)
		}
		remove(t, g)
		if full, err := g.Populated(); full || err != nil {
			t.Errorf("removed group: %v, %v", full, err)
		}
		if err := errors.Join(g.Kill(), g.Signal(unix.SIGTERM), g.Thaw(), g.Remove()); err != nil {
			t.Errorf("calls on a removed group: %v", err)
		}
	})
}

// remove deletes a group whose last process is just ending.
func remove(t *testing.T, g *Group) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		err := g.Remove()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func TestKillReachesGroupsBelow(t *testing.T) {
	withTree(t, func(t *testing.T, tree *Tree) {
		g, err := tree.Create("c", "outer", Limits{})
		if err != nil {
			t.Fatal(err)
		}
		inner := filepath.Join(g.Dir(), "made-by-the-container")
		if err := os.Mkdir(inner, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := put(t, At(inner), "sleep", "1000")
		if pids, _ := g.Procs(); len(pids) != 1 {
			t.Errorf("procs %v", pids)
		}
		if err := g.Kill(); err != nil {
			t.Fatal(err)
		}
		cmd.Wait()
		remove(t, g)
	})
}

func TestWatcherReportsTheEnd(t *testing.T) {
	withTree(t, func(t *testing.T, tree *Tree) {
		w, err := NewWatcher()
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- w.Run(t.Context()) }()
		g, err := tree.Create("c", "x", Limits{})
		if err != nil {
			t.Fatal(err)
		}
		cmd := put(t, g, "sleep", "1000")
		events, unwatch := w.Watch(g)
		cmd.Process.Kill()
		cmd.Wait()
		for full := true; full; {
			select {
			case <-events:
			case <-time.After(time.Minute):
				t.Fatal("no event")
			}
			full, _ = g.Populated()
		}
		unwatch()
		remove(t, g)
	})
}

func TestSlotsAreUsedAgainWithNewLimits(t *testing.T) {
	withTree(t, func(t *testing.T, tree *Tree) {
		if offers, through := tree.Offers(); through != "v1" || len(offers) != 3 {
			t.Skipf("skipped: limits %v through %q", offers, through)
		}
		read := func(g *Group, controller, file string) string {
			s, err := read(filepath.Join(g.SlotDirs()[controller], file))
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		var dir string
		for i, l := range []Limits{{MemoryBytes: 64 << 20, Pids: 10, CPUMilli: 500}, {Pids: 20}, {MemoryBytes: 128 << 20},
			{MemoryBytes: 32 << 20, CPUMilli: 100}} {
			g, err := tree.Create("c", fmt.Sprint("x", i), l)
			if err != nil {
				t.Fatal(err)
			}
			if d := g.SlotDirs()["memory"]; dir != "" && d != dir {
				t.Errorf("another slot: %s, was %s", d, dir)
			} else {
				dir = d
			}
			wantMemory, wantPids, wantCPU := "9223372036854771712\n", "max\n", "-1\n"
			if l.MemoryBytes > 0 {
				wantMemory = fmt.Sprintln(l.MemoryBytes)
			}
			if l.Pids > 0 {
				wantPids = fmt.Sprintln(l.Pids)
			}
			if l.CPUMilli > 0 {
				wantCPU = fmt.Sprintln(l.CPUMilli * 100)
			}
			if c := read(g, "cpu", "cpu.cfs_quota_us"); c != "-1\n" {
				t.Errorf("limits %+v before the first process runs: quota %q", l, c)
			}
			if err := g.Throttle(); err != nil {
				t.Error(err)
			}
			if m, p, c := read(g, "memory", "memory.limit_in_bytes"), read(g, "pids", "pids.max"),
				read(g, "cpu", "cpu.cfs_quota_us"); m != wantMemory || p != wantPids || c != wantCPU {
				t.Errorf("limits %+v: %q %q %q", l, m, p, c)
			}
			remove(t, g)
		}
	})
}

// TestRemovedClassesAreMadeAgain: removal of the empty directories of a tree, or of all of them, stops no later
// container. Where none can be made, the error is marked as the machine's.
func TestRemovedClassesAreMadeAgain(t *testing.T) {
	withTree(t, func(t *testing.T, tree *Tree) {
		limits := Limits{Pids: 100}
		create := func(what string) {
			t.Helper()
			g, err := tree.Create("c", what, limits)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			put(t, g, "true").Wait()
			remove(t, g)
		}
		create("first")
		if err := unix.Rmdir(filepath.Join(tree.Root(), "c")); err != nil {
			t.Fatal(err)
		}
		create("class gone")
		_, v1 := tree.Dirs()
		for _, d := range append(v1, tree.Root()) {
			RemoveEmpty(d)
		}
		create("tree gone")
		if _, err := lockDir(tree.Root()); !errors.Is(err, ErrInUse) {
			t.Errorf("the new directory is free for another cell: %v", err)
		}
		if limit := filepath.Join(tree.Root(), "cgroup.max.descendants"); exists(limit) {
			if err := os.WriteFile(limit, []byte("1"), 0); err != nil {
				t.Fatal(err)
			}
			if _, err := tree.Create("c", "too many", Limits{}); !errors.Is(err, ErrNoGroup) {
				t.Errorf("no room for groups: %v", err)
			}
		}
	})
}
