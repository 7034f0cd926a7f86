package executor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"cantina/action"
)

// TestTheTimeOfTheKillIsKnown from the decision to end a container. The kill comes after its grace if its program
// gets the stop signal, and after the grace of leftovers if the program has ended.
func TestTheTimeOfTheKillIsKnown(t *testing.T) {
	const own, leftovers = 20 * time.Minute, 40 * time.Minute
	ignoresTerm := `trap '' TERM; while [ ! -e end ]; do sleep 0.05; done`
	for name, x := range map[string]struct {
		w    func(dataDir string) action.Workload
		want time.Duration
	}{
		"failed check": {func(dataDir string) action.Workload {
			return action.Workload{Action: do(ignoresTerm),
				Checks: []action.Check{{Exec: sh("! test -e " + dataDir + "/sick").Workload.Action.Run,
					StartupInterval: 10 * time.Millisecond, Interval: 10 * time.Millisecond}}}
		}, own},
		"time limit": {func(string) action.Workload {
			return action.Workload{Action: action.Action{Serial: []action.Action{do(ignoresTerm)}},
				TimeLimit: 100 * time.Millisecond}
		}, own},
		"leftovers": {func(string) action.Workload {
			return action.Workload{Action: do("(" + ignoresTerm +
				") & sleep 0.2")}
		}, leftovers},
		"leftovers after a stop": {func(string) action.Workload {
			return action.Workload{TimeLimit: 2 * time.Second,
				Action: action.Action{Serial: []action.Action{do("(" + ignoresTerm +
					`) & trap 'exit 3' TERM; while :; do sleep 0.05; done`)}}}
		}, leftovers},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := testExecutor(t, nil)
			needGroups(t, e)
			dataDir := tempDir(t)
			w := x.w(dataDir)
			w.Termination = action.Termination{Grace: own, LeftoverGrace: leftovers}
			if err := e.Launch(Reservation{ID: "x"}, Spec{Workload: w}); err != nil {
				t.Fatal(err)
			}
			await(t, e, "x", func(c Container, _ bool) bool { return c.State == Running })
			begin := time.Now()
			if err := os.WriteFile(filepath.Join(dataDir, "sick"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			got := await(t, e, "x", func(c Container, _ bool) bool { // each change is an event
				return c.Decided && c.EndBy.After(begin.Add(x.want-time.Second))
			})
			if in := got.EndBy.Sub(begin); in > x.want+30*time.Second {
				t.Errorf("killed in %v, want %v", in, x.want)
			}
			if err := os.WriteFile(filepath.Join(got.Dir, "end"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			await(t, e, "x", completed)
		})
	}
}
