package cell

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/executor"
	"cantina/executor/simulate"
	"cantina/internal/run"
	"cantina/resource"
	"cantina/task"
)

// alone is a cell on simulated containers whose leader never answers.
func alone(t *testing.T, dir string) (*Cell, *simulate.Executor, run.Clock) {
	t.Helper()
	clock := run.Bubble()
	exec := simulate.New(resource.Amounts{resource.MemoryMB: 100, resource.Containers: 10}, clock.Wall)
	c, err := New(Config{Name: "c1", Dir: dir, Clock: clock, Log: slog.New(slog.DiscardHandler)}, Simulated{exec},
		&leader{clock: clock, silent: true})
	if err != nil {
		t.Fatal(err)
	}
	return c, exec, clock
}

// TestCellWithoutLeaderLeavesAtOnce: it waits for no answer.
func TestCellWithoutLeaderLeavesAtOnce(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c, exec, clock := alone(t, dir)
		defer exec.Close()
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		if err := c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if took := clock.Boot() - time.Hour; took < 30*time.Second || took > 31*time.Second {
			t.Errorf("ordered to leave after 30 s, it left after %v", took)
		}
	})
}

// TestAnEndedCellNamesTheRemedy: the error has the leader's reason, the cell and the remedy, once each.
func TestAnEndedCellNamesTheRemedy(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c, exec, _ := alone(t, dir)
		defer exec.Close()
		if err := exec.Launch(executor.Reservation{ID: "x"}, executor.Spec{Workload: *sleeper("forever")}); err != nil {
			t.Fatal(err)
		}
		c.session.acts.hands.endAll("another process holds its name: p7, which is HEALTHY")
		if ct, ok := exec.Get("x"); ok && ct.State != executor.Completed {
			t.Errorf("ordered to end everything, it leaves %v", ct.State)
		}
		var reported *Displaced
		if err := c.Run(t.Context()); !errors.As(err, &reported) {
			t.Fatalf("%v", err)
		}
		for _, part := range []string{"ended cell c1:", "cantina cells forget c1", "p7, which is HEALTHY", "--name",
			"leader"} {
			if text := reported.Error(); strings.Count(text, part) != 1 {
				t.Errorf("%q has %q not once", text, part)
			}
		}
	})
}

// TestKeptWorkIsNotWaitedFor: a cell that leaves waits for the work that it ends, not for the work that outlives
// it.
func TestKeptWorkIsNotWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		keep, hang bool
		least, at  time.Duration
	}{
		"all ends":                   {false, false, 0, time.Second},
		"all is kept":                {true, false, 0, 100 * time.Millisecond},
		"one hangs":                  {true, true, 5 * time.Second, 6 * time.Second}, // Config.Leave
		"nothing is kept, one hangs": {false, true, 5 * time.Second, 6 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.runTask(task.Definition{})
				if c.keep {
					w.exec.Keep("t-u1")
				}
				if err := w.exec.Launch(executor.Reservation{ID: "x", DeadlineBound: true},
					executor.Spec{Workload: *sleeper("forever")}); err != nil {
					t.Fatal(err)
				}
				if c.hang {
					w.exec.Hang("x")
				}
				synctest.Wait()
				began := w.clock.Boot()
				w.cell.leave(t.Context())
				if took := w.clock.Boot() - began; took < c.least || took > c.at {
					t.Errorf("it left after %v, not after %v to %v", took, c.least, c.at)
				}
				if ct, ok := w.exec.Get("t-u1"); c.keep && (!ok || ct.State != executor.Running) {
					t.Errorf("the kept container is %+v", ct)
				}
			})
		})
	}
}

// TestACellWhoseServerFailedWaitsForItsWorkAlone: no server can receive its statuses.
func TestACellWhoseServerFailedWaitsForItsWorkAlone(t *testing.T) {
	for name, c := range map[string]struct {
		works, hangs bool
		least, at    time.Duration
	}{
		"nothing runs": {at: 100 * time.Millisecond},
		"a task ends":  {works: true, at: time.Second},
		"a task hangs": {works: true, hangs: true, least: 3 * time.Second, at: 3500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				clock, abandoned := run.Bubble(), make(chan struct{})
				exec := simulate.New(resource.Amounts{resource.MemoryMB: 100, resource.Containers: 10}, clock.Wall)
				defer exec.Close()
				cell, err := New(Config{Name: "c1", Dir: dir, Clock: clock, Log: slog.New(slog.DiscardHandler),
					Abandoned: abandoned}, Simulated{exec}, &leader{clock: clock, silent: true})
				if err != nil {
					t.Fatal(err)
				}
				if c.works {
					if err := exec.Launch(executor.Reservation{ID: "x", DeadlineBound: true},
						executor.Spec{Workload: *sleeper("forever")}); err != nil {
						t.Fatal(err)
					}
				}
				if c.hangs {
					exec.Hang("x")
					time.AfterFunc(13*time.Second, func() { exec.Release("x") })
				}
				ctx, stop := context.WithCancel(t.Context())
				time.AfterFunc(10*time.Second, func() { close(abandoned); stop() })
				if err := cell.Run(ctx); err != nil {
					t.Fatal(err)
				}
				if took := clock.Boot() - time.Hour - 10*time.Second; took < c.least || took > c.at {
					t.Errorf("it ended after %v, not after %v to %v", took, c.least, c.at)
				}
			})
		})
	}
}
