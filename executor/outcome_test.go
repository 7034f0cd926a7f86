package executor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cantina/action"
)

// TestTheVerdictOutlivesAKilledCell: a cell gets KILL while a container is ending. The successor reports the
// decided outcome, ends the rest, and forgets the container when it gets the order.
func TestTheVerdictOutlivesAKilledCell(t *testing.T) {
	sidecar := func(s *Spec) {
		s.Workload.Sidecars = []action.Action{sh(`trap '' TERM; while :; do sleep 1; done`).Workload.Action}
		s.Workload.Termination.Grace = time.Minute
	}
	checked := func(s *Spec) {
		s.Workload.Checks = []action.Check{{Exec: &action.Run{Path: "true"}}}
	}
	serial := func(s *Spec) {
		fails := sh("exit 9")
		s.Workload.Action = action.Action{Serial: []action.Action{{Try: &fails.Workload.Action}, s.Workload.Action}}
	}
	for shape, x := range map[string]struct {
		change func(*Spec)
		bound  bool
		codes  []int
	}{
		"single":   {func(*Spec) {}, false, []int{0, 3}},
		"bound":    {func(*Spec) {}, true, []int{0, 3}},
		"serial":   {serial, false, []int{0, 3}},
		"sidecars": {sidecar, false, []int{0, 3}},
		"checks":   {checked, false, []int{3}}, // after code 0 they go on
		"kept":     {func(s *Spec) { s.Workload.OnCellRestart = action.RestartKeep }, true, []int{0, 3}},
	} {
		for _, code := range x.codes {
			t.Run(fmt.Sprint(shape, " ", code), func(t *testing.T) {
				t.Parallel()
				dataDir, file := tempDir(t), filepath.Join(tempDir(t), "go")
				s := leaving(file, code)
				s.Workload.Action.Run.Args[1] = "until [ -e " + file + ".run ]; do sleep 0.01; done; " +
					s.Workload.Action.Run.Args[1]
				x.change(&s)
				c := startCell(t, script{Dir: dataDir, Deadline: time.Hour, Jobs: []job{{ID: "x", Bound: x.bound, Spec: s}}})
				if err := os.WriteFile(file+".run", nil, 0o600); err != nil { // it is RUNNING
					t.Fatal(err)
				}
				awaitFile(t, file+".left")
				awaitFile(t, filepath.Join(dataDir, endedDir, "x"+outcomeSuffix))
				c.kill(t)
				e, stop := runExecutor(t, testConfig(dataDir))
				defer stop()
				if err := os.WriteFile(file, nil, 0o600); err != nil { // the files of a kept one may be gone
					t.Fatal(err)
				}
				got := await(t, e, "x", completed)
				if r := got.Result; r.ExitCode != code || r.Failed != (code != 0) || r.Stopped || r.Lost ||
					string(r.Status) != "written" {
					t.Errorf("%+v status %q", r, r.Status)
				}
				if out, err := e.ResultFile("x"); err != nil || string(out) != "result\n" {
					t.Errorf("result file %q, %v", out, err)
				}
				if !got.Adopted || got.DeadlineBound != x.bound {
					t.Errorf("%+v", got)
				}
				forgets(t, e, dataDir, "x")
			})
		}
	}
}

// TestADecidedEndOutlivesAKilledCell: a cell gets KILL while it ends the remaining programs of a tree whose outcome
// is decided, or that is over its time limit.
func TestADecidedEndOutlivesAKilledCell(t *testing.T) {
	ignoresTerm := sh(`trap '' TERM; while :; do sleep 1; done`).Workload.Action
	fails := sh("sleep 0.3; exit 4").Workload.Action
	timeout := action.Action{Timeout: &action.Timeout{After: 300 * time.Millisecond, Action: ignoresTerm}}
	for name, x := range map[string]struct {
		a      action.Action
		limit  time.Duration
		code   int
		reason string
		timed  bool
	}{
		"codependent": {action.Action{Codependent: []action.Action{fails, ignoresTerm}}, 0, 4, "exit status 4",
			false},
		"timeout":           {timeout, 0, -1, "exceeded timeout of 300ms", false},
		"timeout, forgiven": {action.Action{Try: &timeout}, 0, 0, "", false},
		"time limit":        {ignoresTerm, 300 * time.Millisecond, -1, "time limit of 300ms exceeded", true},
		"time limit of a tree": {action.Action{Serial: []action.Action{ignoresTerm}}, 300 * time.Millisecond, -1,
			"time limit of 300ms exceeded", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dataDir := tempDir(t)
			s := Spec{Workload: action.Workload{Action: x.a, TimeLimit: x.limit}}
			s.Workload.Termination.Grace = time.Minute
			c := startCell(t, script{Dir: dataDir, Deadline: time.Hour, Jobs: []job{{ID: "x", Spec: s}}})
			awaitFile(t, filepath.Join(dataDir, endedDir, "x"+outcomeSuffix))
			c.kill(t)
			e, stop := runExecutor(t, testConfig(dataDir))
			defer stop()
			r := await(t, e, "x", completed).Result
			if r.ExitCode != x.code || r.Failed != (x.reason != "") || !strings.HasSuffix(r.Reason, x.reason) ||
				r.TimedOut != x.timed || r.Stopped || r.Lost {
				t.Errorf("%+v", r)
			}
			forgets(t, e, dataDir, "x")
		})
	}
}

// forgets demands that a container that has been deleted leaves no file about its end.
func forgets(t *testing.T, e *Executor, dataDir, id string) {
	t.Helper()
	if err := e.Delete(id); err != nil {
		t.Error(err)
	}
	await(t, e, id, gone)
	if left, err := os.ReadDir(filepath.Join(dataDir, endedDir)); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// TestAnUnreportedEndOutlivesTheCell: also when nothing was left of the container, and
// whether the cell is killed or ends in good order.
func TestAnUnreportedEndOutlivesTheCell(t *testing.T) {
	ends := sh("echo result > r; echo written >&3; exit 3")
	ends.StatusPipe, ends.Workload.ResultFile = true, "r"
	for name, end := range map[string]func(t *testing.T, dataDir string){
		"killed": func(t *testing.T, dataDir string) {
			c := startCell(t, script{Dir: dataDir, Jobs: []job{{ID: "x", Spec: ends}}})
			awaitFile(t, filepath.Join(dataDir, endedDir, "x"+outcomeSuffix))
			c.kill(t)
		},
		"ended": func(t *testing.T, dataDir string) {
			e, stop := runExecutor(t, testConfig(dataDir))
			launch(t, e, "x", ends)
			if err := stop(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dataDir := tempDir(t)
			end(t, dataDir)
			for range 2 { // the second successor has it too
				e, stop := runExecutor(t, testConfig(dataDir))
				r := await(t, e, "x", completed).Result
				if out, err := e.ResultFile("x"); r.ExitCode != 3 || string(r.Status) != "written" || string(out) != "result\n" ||
					err != nil {
					t.Errorf("%+v, result file %q %v", r, out, err)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			}
			e, stop := runExecutor(t, testConfig(dataDir))
			forgets(t, e, dataDir, "x")
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDamagedEnd: a file about an end that is damaged, or half written, is dropped; one that
// cannot be read keeps the cell from starting.
func TestDamagedEnd(t *testing.T) {
	dataDir := tempDir(t)
	dir := filepath.Join(dataDir, endedDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.json", "b.json.new"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(`{"ID":"a`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	e, stop := runExecutor(t, testConfig(dataDir))
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 || len(e.List()) > 0 {
		t.Errorf("left: %v %v, %+v", left, err, e.List())
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "c.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(testConfig(dataDir)); err == nil {
		t.Error("opened although an end cannot be read")
	}
}
