package executor

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"cantina/action"
)

// TestAShorterGrace: work that is being ended, or is not yet, is killed after the shorter grace, in
// every shape and kill_mode; its result stays that of a stop.
func TestAShorterGrace(t *testing.T) {
	const ignores = `trap '' TERM; echo up; while :; do sleep 0.02; done`
	shapes := map[string]func(*Spec){
		"single":    func(*Spec) {},
		"steps":     func(s *Spec) { s.Workload.Action = action.Action{Serial: []action.Action{s.Workload.Action}} },
		"kept":      func(s *Spec) { s.Workload.OnCellRestart = action.RestartKeep },
		"kill term": func(s *Spec) { s.Workload.Termination.Mode = action.KillTerm },
		"leftovers": func(s *Spec) {
			s.Workload.Action = do("(" + ignores + ") & trap 'exit 0' TERM; while :; do sleep 0.02; done")
		},
		"child": func(s *Spec) { s.Workload.Termination.Target = action.TargetChild },
	}
	for shape, change := range shapes {
		for _, before := range []bool{false, true} {
			t.Run(shape, func(t *testing.T) {
				t.Parallel()
				e := testExecutor(t, nil)
				needGroups(t, e)
				s := sh(ignores)
				s.Workload.Termination = action.Termination{Grace: time.Hour, LeftoverGrace: time.Hour}
				change(&s)
				if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
					t.Fatal(err)
				}
				awaitLine(t, e, "x", "up")
				if before {
					if err := e.Stop("x"); err != nil {
						t.Fatal(err)
					}
				}
				if err := e.ShortenGrace("x", 50*time.Millisecond); err != nil {
					t.Fatal(err)
				}
				if r := await(t, e, "x", completed).Result; !r.Stopped {
					t.Errorf("%+v", r)
				}
			})
		}
	}
}

// TestKillBeforeTheDriverSeesTheRequest: a program that is killed at once, at a request, was stopped;
// it has not failed on its own. The kill may come before the driver of the container runs.
func TestKillBeforeTheDriverSeesTheRequest(t *testing.T) {
	t.Parallel()
	for shape, change := range map[string]func(*Spec){
		"single": func(*Spec) {},
		"steps":  func(s *Spec) { s.Workload.Action = action.Action{Serial: []action.Action{s.Workload.Action}} },
		"kept":   func(s *Spec) { s.Workload.OnCellRestart = action.RestartKeep },
	} {
		t.Run(shape, func(t *testing.T) {
			e := testExecutor(t, nil)
			needGroups(t, e)
			s := sh(`trap '' TERM; echo up; exec sleep 100`)
			change(&s)
			for i := range 20 {
				id := strconv.Itoa(i)
				if err := e.Launch(Reservation{ID: id}, s); err != nil {
					t.Fatal(err)
				}
				awaitLine(t, e, id, "up")
				if err := e.ShortenGrace(id, 0); err != nil {
					t.Fatal(err)
				}
				e.mu.Lock()
				c := e.containers[id]
				e.mu.Unlock()
				killOverdue(c)
				if r := await(t, e, id, completed).Result; !r.Stopped || r.Failed {
					t.Fatalf("%d: %+v", i, r)
				}
			}
		})
	}
}

// TestAShorterGraceIsShown: the time of the kill moves forward, never back.
func TestAShorterGraceIsShown(t *testing.T) {
	e := testExecutor(t, nil)
	needGroups(t, e)
	s := sh(`trap '' TERM; echo up; while :; do sleep 0.02; done`)
	s.Workload.Termination.Grace = time.Hour
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "x", "up")
	for _, g := range []time.Duration{30 * time.Minute, 20 * time.Minute, 40 * time.Minute} {
		begin := time.Now()
		if err := e.ShortenGrace("x", g); err != nil {
			t.Fatal(err)
		}
		c, _ := e.Get("x")
		if in := c.EndBy.Sub(begin); in > min(g, 30*time.Minute)+time.Second {
			t.Errorf("%v: killed in %v", g, in)
		}
	}
	if c, _ := e.Get("x"); time.Until(c.EndBy) > 20*time.Minute {
		t.Errorf("killed in %v", time.Until(c.EndBy))
	}
	if err := e.ShortenGrace("x", 0); err != nil {
		t.Fatal(err)
	}
	await(t, e, "x", completed)
	if err := e.ShortenGrace("x", 0); err != nil { // it stays completed
		t.Error(err)
	}
	if err := e.ShortenGrace("y", 0); !errors.Is(err, ErrUnknown) {
		t.Error(err)
	}
}

// TestStoppedProcessesHandleTheStopSignal: CONT follows it, so that a process which SIGSTOP has
// stopped ends by its own handler and not by KILL.
func TestStoppedProcessesHandleTheStopSignal(t *testing.T) {
	for shape, change := range map[string]func(*Spec){
		"single": func(*Spec) {},
		"steps":  func(s *Spec) { s.Workload.Action = action.Action{Serial: []action.Action{s.Workload.Action}} },
		"kept":   func(s *Spec) { s.Workload.OnCellRestart = action.RestartKeep },
		"child":  func(s *Spec) { s.Workload.Termination.Target = action.TargetChild },
		"group":  func(s *Spec) { s.Workload.Termination.Target = action.TargetGroup },
	} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			e := testExecutor(t, nil)
			needGroups(t, e)
			s := sh(`trap 'echo bye; exit 7' TERM; echo up; kill -STOP $$; while :; do sleep 0.02; done`)
			s.Workload.Termination.Grace = time.Minute
			change(&s)
			if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
				t.Fatal(err)
			}
			awaitLine(t, e, "x", "up")
			if err := e.Stop("x"); err != nil {
				t.Fatal(err)
			}
			if r := await(t, e, "x", completed).Result; r.ExitCode != 7 {
				t.Errorf("%+v", r)
			}
		})
	}
}
