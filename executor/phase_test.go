package executor

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"cantina/action"
	"cantina/logstore"
)

// TestLimitsCountFromTheBeginning, also while an image is pulled from a registry that accepts and stays silent, and
// while setup runs. The container's log has the phase.
func TestLimitsCountFromTheBeginning(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	slow := do("sleep 1000")
	const limit = 300 * time.Millisecond
	for name, c := range map[string]struct {
		w      action.Workload
		reason string
		timed  bool
		note   string
	}{
		"image, time limit": {action.Workload{TimeLimit: limit, Isolation: action.IsolationRootfs},
			"time limit exceeded: 300ms, while the image", true, "pulling image 127"},
		"image, start timeout": {action.Workload{StartTimeout: limit, Isolation: action.IsolationRootfs},
			"not RUNNING within the start timeout of 300ms, while the image", false, "pulling image 127"},
		"setup, time limit": {action.Workload{TimeLimit: limit, Setup: &slow}, "time limit of 300ms exceeded", true,
			"running setup"},
		"setup, start timeout": {action.Workload{StartTimeout: limit, Setup: &slow},
			"not RUNNING within the start timeout of 300ms", false, "running setup"},
		"setup, checked": {action.Workload{StartTimeout: limit, Setup: &slow,
			Checks: []action.Check{{Exec: &action.Run{Path: "/bin/true"}}}},
			"not RUNNING within the start timeout of 300ms", false, "running setup"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := testExecutor(t, nil)
			c.w.Action = do("sleep 1000")
			if c.w.Isolation == action.IsolationRootfs {
				if os.Getuid() != 0 || e.spaces == nil {
					t.Skip("needs namespaces")
				}
				c.w.Rootfs = silent.Addr().String() + "/x@sha256:" + strings.Repeat("0", 64)
			}
			r := launch(t, e, "x", Spec{Workload: c.w}).Result
			if !r.Failed || r.Stopped || r.TimedOut != c.timed || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("%+v", r)
			}
			if text := strings.Join(lines(t, e, "x", logstore.Event), "\n"); !strings.Contains(text, c.note) {
				t.Errorf("log: %q", text)
			}
		})
	}
}
