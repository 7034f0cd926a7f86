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
)

// alone is a cell on simulated containers whose leader never answers.
func alone(t *testing.T, dir string) (*Cell, *simulate.Executor, run.Clock) {
	t.Helper()
	clock := run.Bubble()
	exec := simulate.New(resource.Amounts{resource.MemoryMB: 100, resource.Containers: 10}, clock.Wall)
	c, err := New(Config{Name: "c1", Dir: dir, Clock: clock, Log: slog.New(slog.DiscardHandler)}, Simulated{exec}, &leader{clock: clock, silent: true})
	if err != nil {
		t.Fatal(err)
	}
	return c, exec, clock
}

// TestCellWithoutLeaderLeavesAtOnce: it does not wait for an answer that nobody owes it.
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
			t.Errorf("told to leave after 30 s, it left after %v", took)
		}
	})
}

// TestToldToEndSaysTheRemedy: the leader's word, the cell and what to do, once each.
func TestToldToEndSaysTheRemedy(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c, exec, _ := alone(t, dir)
		defer exec.Close()
		if err := exec.Launch(executor.Reservation{ID: "x"}, executor.Spec{Workload: *sleeper("forever")}); err != nil {
			t.Fatal(err)
		}
		c.endAll("another process holds its name: p7, which is HEALTHY")
		if ct, ok := exec.Get("x"); ok && ct.State != executor.Completed {
			t.Errorf("told to end everything, it leaves %v", ct.State)
		}
		var told *Told
		if err := c.Run(t.Context()); !errors.As(err, &told) {
			t.Fatalf("%v", err)
		}
		for _, part := range []string{"c1", "p7, which is HEALTHY", "--name", "leader"} {
			if text := told.Error(); strings.Count(text, part) != 1 {
				t.Errorf("%q has %q not once", text, part)
			}
		}
	})
}
