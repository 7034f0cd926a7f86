package executor

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cantina/action"
	"cantina/resource"
)

// leaving is a program that writes a status and ends with a code, and leaves a child that
// heeds no TERM: once the program is gone it writes a status too and makes file.left, and it
// ends when file is there, with another status.
func leaving(file string, code int) Spec {
	s := sh(fmt.Sprintf(`trap '' TERM; main=$$; (while kill -0 $main 2>/dev/null; do sleep 0.01; done
echo late >&3; echo left >%[1]s.left; until [ -e %[1]s ]; do sleep 0.01; done; echo later >&3) &
echo result > r; echo written >&3; exit %[2]d`, file, code))
	s.StatusPipe = true
	s.Workload.ResultFile = "r"
	s.Workload.Termination.LeftoverGrace = time.Minute
	return s
}

// TestTheVerdictIsFixedWhenTheMainProgramEnds: requests while leftovers are ended do not change the outcome of the
// container.
func TestTheVerdictIsFixedWhenTheMainProgramEnds(t *testing.T) {
	shapes := map[string]func(*Spec){
		"single": func(*Spec) {},
		"steps":  func(s *Spec) { s.Workload.Setup = setup() },
		"kept":   func(s *Spec) { s.Workload.OnCellRestart = action.RestartKeep },
	}
	asks := map[string]func(e *Executor, id string) error{
		"stop":        func(e *Executor, id string) error { return e.Stop(id) },
		"stop within": func(e *Executor, id string) error { return e.StopWithin(id, time.Second) },
		"kill":        func(e *Executor, id string) error { return e.Kill(id, "somebody wants it") },
		"deadline":    func(e *Executor, _ string) error { e.SetDeadline(e.clock.Boot()); return nil },
	}
	for shape, change := range shapes {
		for name, ask := range asks {
			for _, code := range []int{0, 3} {
				t.Run(fmt.Sprint(shape, " ", name, " ", code), func(t *testing.T) {
					t.Parallel()
					e := testExecutor(t, nil)
					needGroups(t, e)
					file := filepath.Join(tempDir(t), "go")
					s := leaving(file, code)
					change(&s)
					if err := e.Launch(Reservation{ID: "x", DeadlineBound: true}, s); err != nil {
						t.Fatal(err)
					}
					awaitFile(t, file+".left")
					if err := ask(e, "x"); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(file, nil, 0o600); err != nil {
						t.Fatal(err)
					}
					r := await(t, e, "x", completed).Result
					if r.ExitCode != code || r.Stopped || r.TimedOut || r.Lost || r.Failed != (code != 0) || code != 0 &&
						r.Reason != reasonOf(shape, code) {
						t.Errorf("%+v", r)
					}
					if string(r.Status) != "written" {
						t.Errorf("status %q", r.Status)
					}
					if out, err := e.ResultFile("x"); err != nil || string(out) != "result\n" {
						t.Errorf("result file %q, %v", out, err)
					}
				})
			}
		}
	}
}

func reasonOf(shape string, code int) string {
	if shape == "single" {
		return fmt.Sprint("exit status ", code)
	}
	return fmt.Sprint("/bin/sh: exit status ", code)
}

// TestTheVerdictOutlivesTheCell: the same when the cell ends meanwhile, and when a leftover is
// killed for lack of memory.
func TestTheVerdictOutlivesTheCell(t *testing.T) {
	t.Parallel()
	t.Run("end of the cell", func(t *testing.T) {
		e, stop := runExecutor(t, testConfig(tempDir(t)))
		needGroups(t, e)
		file := filepath.Join(tempDir(t), "go")
		if err := e.Launch(Reservation{ID: "x"}, leaving(file, 0)); err != nil {
			t.Fatal(err)
		}
		awaitFile(t, file+".left")
		ended := make(chan error, 1)
		go func() { ended <- stop() }()
		<-e.containers["x"].stopC
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if c, _ := e.Get("x"); c.Result.Stopped || c.Result.Failed || c.Result.ExitCode != 0 {
			t.Errorf("%+v", c.Result)
		}
	})
	t.Run("memory of a leftover", func(t *testing.T) {
		e := testExecutor(t, nil)
		needLimit(t, e, "memory")
		s := sh(`trap '' TERM; main=$$; (while kill -0 $main 2>/dev/null; do sleep 0.01; done; ` +
			`exec head -c 200M /dev/zero | tail -c 199M >/dev/null) & exit 3`)
		s.Workload.Resources = resource.Amounts{resource.MemoryMB: 32}
		s.Workload.Termination.LeftoverGrace = time.Minute
		if r := launch(t, e, "x", s).Result; r.OOM != nil || r.Reason != "exit status 3" || r.ExitCode != 3 {
			t.Errorf("%+v", r)
		}
	})
}

func setup() *action.Action {
	s := sh("true")
	return &s.Workload.Action
}

// TestTheStatusIsThatOfTheMainProgram: a status written before its end counts, from any process. A later one by a
// leftover or a sidecar does not count, and its writer is not disturbed.
func TestTheStatusIsThatOfTheMainProgram(t *testing.T) {
	const awaitEnd = `while kill -0 $(cat main) 2>/dev/null; do sleep 0.01; done; `
	for name, x := range map[string]struct{ status, main, other string }{
		"leftover":            {"mine", `echo mine >&3`, awaitEnd + `echo late >&3 && touch wrote`},
		"leftover in parts":   {"mine", `echo mine >&3`, awaitEnd + `printf la >&3; printf te >&3 && touch wrote`},
		"unfinished":          {"mi", `printf mi >&3`, awaitEnd + `printf ne >&3 && touch wrote`},
		"nothing of its own":  {"", `:`, awaitEnd + `echo late >&3 && touch wrote`},
		"by a child, in time": {"child", `until [ -e wrote ]; do sleep 0.01; done`, `echo child >&3 && touch wrote`},
		"much, and all of late": {"mine", `echo mine >&3`, awaitEnd +
			`head -c 300000 /dev/zero | tr '\0' '\n' >&3 && touch wrote`},
	} {
		for shape, change := range map[string]func(*Spec){
			"single": func(*Spec) {},
			"serial": func(s *Spec) {
				s.Workload.Action = action.Action{Serial: []action.Action{s.Workload.Action,
					sh("until [ -e wrote ]; do sleep 0.01; done").Workload.Action}}
			},
			"kept": func(s *Spec) { s.Workload.OnCellRestart = action.RestartKeep },
			"sidecar": func(s *Spec) {
				s.Workload.Sidecars = []action.Action{sh("trap '' TERM; touch ready; until [ -e main ]; do sleep 0.01; done; " +
					x.other + "; " + awaitEnd + ":").Workload.Action}
			},
		} {
			t.Run(name+" "+shape, func(t *testing.T) {
				t.Parallel()
				e := testExecutor(t, nil)
				needGroups(t, e)
				s := sh(fmt.Sprintf(`trap "" TERM; echo $$ > main.new; mv main.new main; (%s) & %s`, x.other, x.main))
				if shape == "sidecar" {
					s = sh(fmt.Sprintf(`until [ -e ready ]; do sleep 0.01; done; echo $$ > main.new; mv main.new main; %s`, x.main))
				}
				s.StatusPipe = true
				s.Workload.Termination.Grace, s.Workload.Termination.LeftoverGrace = time.Minute, time.Minute
				change(&s)
				c := launch(t, e, "x", s)
				if string(c.Result.Status) != x.status {
					t.Errorf("status %q, want %q; %+v", c.Result.Status, x.status, c.Result)
				}
				if _, err := os.Stat(filepath.Join(c.Dir, "wrote")); err != nil {
					t.Error("who wrote was disturbed: ", err)
				}
			})
		}
	}
}
