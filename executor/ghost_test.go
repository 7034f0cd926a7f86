package executor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"cantina/action"
)

// TestUnstartedWorkIsNotInherited: a kept container has a program that could not be started, or that was ended
// while it started. It leaves nothing that a successor takes for a running one.
func TestUnstartedWorkIsNotInherited(t *testing.T) {
	missing := keep(Spec{Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/no/such/program"}}}})
	for name, deleted := range map[string]bool{"deleted": true, "not deleted": false} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(tempDir(t))
			e, stop := runExecutor(t, cfg)
			needGroups(t, e)
			was := launch(t, e, "x", missing).Result
			if deleted {
				e.Delete("x")
				await(t, e, "x", gone)
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if left, err := os.ReadDir(filepath.Join(cfg.Dir, "keep")); err != nil || deleted && len(left) > 0 {
				t.Errorf("left: %v %v", left, err)
			}
			e, err := Open(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer e.release()
			c, there := e.Get("x") // the cell's record before it runs
			if there == deleted || there && (c.State != Completed || c.Result.Reason != was.Reason ||
				c.Result.Ended.Sub(was.Ended).Abs() > time.Second) {
				t.Errorf("%v %+v, was %+v", there, c, was)
			}
		})
	}
}
