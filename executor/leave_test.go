package executor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cantina/logstore"
)

func TestGracefulEndLetsKeptGoOn(t *testing.T) {
	cfg := testConfig(tempDir(t))
	e, stop := runExecutor(t, cfg)
	needGroups(t, e)
	if err := e.Launch(Reservation{ID: "x"}, keep(sh("echo up; while :; do sleep 0.1; done"))); err != nil {
		t.Fatal(err)
	}
	if err := e.Launch(Reservation{ID: "ends"}, sh("sleep 1000")); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "x", "up")
	pid := await(t, e, "x", runningState).Pid
	if err := stop(); err == nil || !strings.Contains(err.Error(), "is left") {
		t.Errorf("stop: %v, want the group of the kept container left", err)
	}
	e, stop = runExecutor(t, cfg)
	if len(e.List()) != 1 {
		t.Errorf("%+v", e.List())
	}
	c := await(t, e, "x", func(c Container, _ bool) bool { return c.Pid != 0 })
	if c.Pid != pid || !c.Adopted || c.State != Running {
		t.Errorf("%+v, pid was %d", c, pid)
	}
	e.Delete("x")
	await(t, e, "x", gone)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestGracefulEndEndsTheRequestedWork: a kept container may have an end requested, or a program that has ended. It
// does not outlive its cell. It is stopped and killed after its grace; its last output is stored, and nothing is
// left.
func TestGracefulEndEndsTheRequestedWork(t *testing.T) {
	t.Parallel()
	const loop = "; while :; do sleep 0.05; done"
	dir := tempDir(t)
	late := fmt.Sprintf(`trap "echo ending; while [ ! -e %s/go ]; do sleep 0.05; done; echo late; exit" TERM; echo up; `+
		`echo > %s/trap%s`, dir, dir, loop)
	for name, c := range map[string]struct {
		script string
		stop   func(*Executor, string) error
		last   string // "late": it ends by itself when the test lets it
	}{
		"heeds no signal": {"trap 'echo ending' TERM; echo up" + loop, (*Executor).Stop, "ending"},
		"is deleted":      {"trap 'echo ending' TERM; echo up" + loop, (*Executor).Delete, ""},
		"is slow to end":  {"(" + late + ") & wait; wait", (*Executor).Stop, "late"},
		"leftovers are":   {"trap 'exit 3' TERM; (" + late + ") &" + loop[1:], (*Executor).Stop, "late"},
		"ended on its own": {"(" + late + ") & until [ -e " + dir + "/trap ]; do sleep 0.05; done; exit 3",
			func(*Executor, string) error { return nil }, "late"},
	} {
		t.Run(name, func(t *testing.T) {
			os.Remove(filepath.Join(dir, "go"))
			os.Remove(filepath.Join(dir, "trap"))
			cfg := testConfig(tempDir(t))
			e, stop := runExecutor(t, cfg)
			needGroups(t, e)
			s := keep(sh(c.script))
			grace := 2 * time.Second
			if c.last == "late" {
				grace = time.Hour
			}
			s.Workload.Termination.Grace, s.Workload.Termination.LeftoverGrace = grace, grace
			if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
				t.Fatal(err)
			}
			awaitLine(t, e, "x", "up")
			e.mu.Lock()
			x := e.containers["x"]
			e.mu.Unlock()
			if err := c.stop(e, "x"); err != nil {
				t.Fatal(err)
			}
			awaitLine(t, e, "x", "ending")
			ended := make(chan error)
			go func() { ended <- stop() }()
			<-x.leaveC
			if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			e, stop = runExecutor(t, cfg)
			if c.last != "" {
				out := lines(t, e, "x", logstore.Stdout)
				if len(out) == 0 || out[len(out)-1] != c.last {
					t.Errorf("%q", out)
				}
				if s, ok := e.Get("x"); !ok || s.State != Completed {
					t.Errorf("%+v %v", s, ok)
				}
				e.Delete("x")
			}
			await(t, e, "x", gone)
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}
