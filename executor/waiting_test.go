package executor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cantina/action"
)

// TestWaitingForHealthChecksIsAPhase: it has the failure of the latest attempt. It is an event when it takes long
// and when the reason changes, seldom. It is over when the container is RUNNING.
func TestWaitingForHealthChecksIsAPhase(t *testing.T) {
	probe := func(dataDir string) *action.Run {
		return sh("cd " + dataDir + "; test -e ok && exit 0; cat why; exit 4").Workload.Action.Run
	}
	const soon = 20 * time.Millisecond
	for name, x := range map[string]struct {
		w    func(dataDir string) action.Workload
		want string
	}{
		"exec": {func(dataDir string) action.Workload {
			return action.Workload{Checks: []action.Check{{Exec: probe(dataDir), StartupInterval: soon}}}
		}, "exit status 4: why-not"},
		"monitor": {func(dataDir string) action.Workload {
			return action.Workload{Monitor: &action.Action{Run: probe(dataDir)}}
		}, "exit status 4: why-not"},
		"tcp": {func(string) action.Workload {
			return action.Workload{Checks: []action.Check{{TCP: &action.TCPCheck{Port: "web"}, StartupInterval: soon}}}
		}, "TCP check of port web: "},
		"http": {func(string) action.Workload {
			return action.Workload{Checks: []action.Check{{HTTP: &action.HTTPCheck{Port: "web", Path: "/x"},
				StartupInterval: soon}}}
		}, "HTTP check of port web, path /x: "},
		"after setup": {func(dataDir string) action.Workload {
			setup := do("true")
			return action.Workload{Setup: &setup, Checks: []action.Check{{Exec: probe(dataDir), StartupInterval: soon}}}
		}, "exit status 4: why-not"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := testExecutor(t, nil)
			dataDir := tempDir(t)
			put := func(name, text string) {
				if err := os.WriteFile(filepath.Join(dataDir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			put("why", "why-not")
			sub, err := e.Subscribe()
			if err != nil {
				t.Fatal(err)
			}
			defer sub.Close()
			w := x.w(dataDir)
			w.Action = do("sleep 1000")
			s := Spec{Workload: w}
			if w.Checks != nil && w.Checks[0].Exec == nil {
				s.Workload.Ports = []action.Port{{Name: "web"}}
			}
			if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
				t.Fatal(err)
			}
			slow := func() (Phase, time.Time) {
				for ev := range sub.C {
					if ev.Kind == EventSlow {
						return ev.Container.Phase, time.Now()
					}
				}
				return Phase{}, time.Time{}
			}
			p, first := slow()
			if p.What != checksPhase || !strings.Contains(p.Detail, x.want) {
				t.Errorf("%+v, want %q", p, x.want)
			}
			if !strings.Contains(x.want, "why-not") {
				return
			}
			put("why", "another")
			p, second := slow()
			if !strings.Contains(p.Detail, "another") || second.Sub(first) < slowAgain-time.Second {
				t.Errorf("%+v, after %v", p, second.Sub(first))
			}
			put("ok", "")
			if c := await(t, e, "x", func(c Container, _ bool) bool { return c.State == Running }); c.Phase != (Phase{}) {
				t.Errorf("RUNNING at %+v", c.Phase)
			}
		})
	}
}
