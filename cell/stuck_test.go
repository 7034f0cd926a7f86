package cell

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"cantina/executor"
	"cantina/executor/simulate"
	"cantina/fence"
	"cantina/internal/run"
	"cantina/resource"
	"cantina/worker"
)

// inherited is an executor whose containers all come from an earlier process.
type inherited struct{ Simulated }

func (e inherited) List() []executor.Container {
	all := e.Simulated.List()
	for i := range all {
		all[i].Adopted = true
	}
	return all
}

// TestStuckWorkIsReported: a batch task that an earlier process could not end is held by this one, so that it runs
// nowhere else. A container that has lost its name cannot be identified. The end of the earlier process is not
// proven before that container's own end.
func TestStuckWorkIsReported(t *testing.T) {
	run1 := worker.Run{Work: worker.Work{Job: "j", Node: "n"},
		Invocation: fence.Invocation{Term: fence.Term{Epoch: 1, Revision: 7}, Counter: 1}}
	for name, labels := range map[string]executor.Labels{"batch": batchLabels(run1, &BatchWork{}), "nameless": nil} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				clock := run.Bubble()
				exec := simulate.New(resource.Amounts{resource.MemoryMB: 100, resource.Containers: 10}, clock.Wall)
				defer exec.Close()
				if err := exec.Launch(executor.Reservation{ID: "x", Labels: labels, DeadlineBound: true},
					executor.Spec{Workload: *sleeper("forever")}); err != nil {
					t.Fatal(err)
				}
				exec.Hang("x")
				if err := exec.Stop("x"); err != nil {
					t.Fatal(err)
				}
				c, err := New(Config{Name: "c1", Dir: dir, Clock: clock, Log: slog.New(slog.DiscardHandler)},
					inherited{Simulated{exec}}, &leader{clock: clock, silent: true})
				if err != nil {
					t.Fatal(err)
				}
				defer c.queue.Close()
				c.countBound()
				report := func() *worker.Report {
					_, proc, _ := c.session.view()
					return c.session.step(worker.ReportAsked{Call: worker.ReportRequest{Term: fence.Term{Epoch: 1, Revision: 8},
						Proc: proc}}).report
				}
				r := report()
				if held := len(r.Held) == 1 && r.Held[0].Run == run1 && r.Held[0].Adopted &&
					!r.Held[0].Ended; held != (labels != nil) {
					t.Errorf("it answers for %+v", r.Held)
				}
				if r.PredecessorsGone != (labels != nil) {
					t.Errorf("it reports its predecessors as gone: %v", r.PredecessorsGone)
				}
				if s := c.report.state(); !strings.HasPrefix(s.Unavailable, "unclean: ") || len(s.Conditions) != 1 {
					t.Errorf("it reports %q, %v", s.Unavailable, s.Conditions)
				}
				exec.Release("x")
				ct, _ := exec.Get("x")
				c.Happened(executor.Event{Kind: executor.EventCompleted, Container: ct})
				synctest.Wait()
				if r = report(); !r.PredecessorsGone || labels == nil && len(exec.List()) > 0 ||
					c.report.state().Unavailable != "" {
					t.Errorf("it has ended: %+v, left %v", r, exec.List())
				}
			})
		})
	}
}
