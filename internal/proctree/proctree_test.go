package proctree

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cantina/spawn/procid"
)

// stragglers are the leftovers of a program: each writes its pid to $1.NAME once it has its final form.
var stragglers = map[string]string{
	"in the background": `sh -c 'echo $$ >$1; exec sleep 1000' x $1.a &`,
	"deaf":              `sh -c 'trap "" TERM HUP INT; echo $$ >$1; exec sleep 1000' x $1.b &`,
	"own session":       `setsid sh -c 'echo $$ >$1; exec sleep 1000' x $1.c &`,
	"no parent":         `(setsid sh -c 'echo $$ >$1; exec sleep 1000' x $1.d &);`,
	"no environment":    `env -i /bin/sh -c 'echo $$ >$1; while :; do sleep 0.01; done' x $1.e &`,
	"forks":             `setsid sh -c 'echo $$ >$1; while :; do sleep 1000 & sleep 0.01; done' x $1.f &`,
}

// TestNothingIsLeft: with a group and by marks alone.
func TestNothingIsLeft(t *testing.T) {
	for name, byMark := range map[string]bool{"groups": false, "marks": true} {
		for kind, script := range stragglers {
			t.Run(name+" "+kind, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "pid")
				b := New(byMark)
				c := exec.Command("/bin/sh", "-c", script+" until [ -s $1.? ]; do sleep 0.01; done", "sh", file)
				b.Prepare(c)
				if err := c.Run(); err != nil {
					t.Fatal(err)
				}
				found, err := filepath.Glob(file + ".?")
				if err != nil || len(found) != 1 {
					t.Fatal(found, err)
				}
				text, err := os.ReadFile(found[0])
				if err != nil {
					t.Fatal(err)
				}
				pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
				id, err := procid.Of(pid)
				if err != nil {
					t.Fatal("it ended by itself", err)
				}
				if err := b.End(c.Process.Pid, 10*time.Second); err != nil {
					t.Error(err)
				}
				if !errors.Is(id.Look(), procid.ErrGone) {
					t.Errorf("process %d is left", pid)
				}
				if left := members(b.mark, c.Process.Pid); len(left) > 0 {
					t.Errorf("left: %v", left)
				}
			})
		}
	}
}

// TestUnrelatedProcessesStay: a mark, or a session, is that of one process tree alone.
func TestUnrelatedProcessesStay(t *testing.T) {
	a, b := New(true), New(true)
	c := exec.Command("sleep", "1000")
	b.Prepare(c)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if err := a.End(1<<22-1, time.Second); err != nil {
		t.Error(err)
	}
	id, err := procid.Of(c.Process.Pid)
	if err != nil {
		t.Fatal("an unrelated process was killed", err)
	}
	if err := a.End(id.Pid, time.Second); err != nil || !id.Alive() {
		t.Error("a later process with the pid of the program was killed", err)
	}
	if err := b.End(id.Pid, time.Second); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err == nil {
		t.Error("it was not killed")
	}
}

// TestLeftoversOfADeadProcessAreRemoved: the group of a process that is gone goes with the next process tree.
func TestLeftoversOfADeadProcessAreRemoved(t *testing.T) {
	b := New(false)
	if b.group == nil {
		t.Skip("no unified control group here")
	}
	dead := filepath.Join(filepath.Dir(b.group.Dir()), groupPrefix+"4194300-1-00")
	if err := os.Mkdir(dead, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := b.End(0, time.Second); err != nil {
		t.Error(err)
	}
	if err := New(false).End(0, time.Second); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Error("it is left", err)
	}
}
