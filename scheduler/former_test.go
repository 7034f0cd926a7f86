package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"cantina/batch"
	"cantina/plan"
	"cantina/worker"
)

// onHosts is a job over a forest of this name, whose batch tasks draw on one host at a time.
func onHosts(name, forest string) plan.NamedJob {
	w := testJob(name, map[string][]string{"h": {"a"}})
	w.Job.Forest, w.Forest.Name = forest, forest
	w.Forest.Limits = map[string]map[string]batch.Limit{"host": {"readers": {Default: 1, Limit: 1}}}
	return w
}

// reported puts a run into the model, as a report of its cell does.
func (r *rig) reported(v worker.RunView) {
	r.reg.mu.Lock()
	v.Ending = false
	r.reg.model[v.Run.Work] = v
	r.reg.adopted++
	r.reg.mu.Unlock()
	r.StartsChanged()
	synctest.Wait()
}

// busy makes a job run over forest f, ends its life in some way, and returns the running tasks.
func busy(t *testing.T, st *fakeStore, f string, end func(r *rig)) worker.RunView {
	t.Helper()
	r := begin(t, st, 1)
	r.cell("c", 9)
	other := onHosts("other", "f")
	r.apply(onHosts("j", f))
	r.wantStarted("j/a")
	run := r.reg.Model()[0]
	r.reg.mayRun(true)
	r.apply(other) // waits for the host
	end(r)
	r.stop()
	return run
}

// TestEarlierRunsHoldTheirNodes: a job was removed, or born again over another forest, and the leader changes. Its
// remaining runs draw on their former nodes, although these are unknown.
func TestEarlierRunsHoldTheirNodes(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"removed": func(r *rig) { r.do(r.Remove("j")) },
		"removed and born again over another forest": func(r *rig) {
			r.do(r.Remove("j"))
			r.apply(onHosts("j", "elsewhere"))
		},
		"renewed over another forest": func(r *rig) { r.do(r.Renew("dom", onHosts("j", "elsewhere"))) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newFakeStore()
				run := busy(t, st, "f", end)
				r := begin(t, st, 2)
				if got := fmt.Sprint(r.HeldNodes()); got != "[forest/f]" && got != "[forest/elsewhere forest/f]" {
					t.Errorf("held: %s", got)
				}
				r.reported(run)
				r.cell("c", 9)
				r.wantStarted("")
				r.end("j", "a", 0, "")
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := r.reg.takeStarted(); got != "other/a" && got != "j/a other/a" {
					t.Errorf("started %s", got)
				}
				r.stop()
			})
		})
	}
}

// TestAReportIsLookedAtBeforeTheNextStart, also when the model was compared just before.
func TestAReportIsLookedAtBeforeTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		run := busy(t, st, "f", func(*rig) {})
		r := begin(t, st, 2)
		r.reg.mu.Lock()
		r.reg.hold = worker.Hold{Reason: worker.HoldWait}
		r.reg.mu.Unlock()
		r.cell("c", 9) // the model was compared
		r.reg.mu.Lock()
		r.reg.hold = worker.Hold{}
		r.reg.mu.Unlock()
		r.reported(run) // and the wait has ended with it
		r.wantStarted("")
		r.end("j", "a", 0, "")
		r.wantStarted("other/a")
		r.stop()
	})
}

// TestARenewedJobLeavesTheBoardOfItsEarlierForest: no task is picked there any more, and the running ones draw
// there until they end.
func TestARenewedJobLeavesTheBoardOfItsEarlierForest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		r.cell("c", 9)
		j := onHosts("j", "f")
		j.Forest.Sources[0].Manual[0].Children = []string{"a", "b"}
		r.apply(j)
		r.wantStarted("j/a")
		r.apply(onHosts("other", "f"))
		r.wantStarted("")
		next := onHosts("j", "elsewhere")
		next.Forest.Sources[0].Manual[0].Children = []string{"x"}
		r.do(r.Renew("dom", next))
		r.wantStarted("j/x")
		r.end("j", "a", 0, "")
		r.wantStarted("other/a")
		r.end("other", "a", 0, "")
		r.wantStarted("")
		r.stop()
	})
}

// TestAnEndOfAnEarlierLifeThatIsBeingCommitted: the end of a batch task is on its way to the store. Before it goes
// the change by which its job is born again over another forest. The new board gets the report that the task runs;
// it ends there too.
func TestAnEndOfAnEarlierLifeThatIsBeingCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 9)
		r.apply(onHosts("j", "f"))
		r.wantStarted("j/a")
		st.setManual(true)
		c, err := r.Renew("dom", onHosts("j", "elsewhere"))
		if err != nil {
			t.Fatal(err)
		}
		go r.Commit(t.Context(), c)
		synctest.Wait()
		r.Ended(r.ended("j", "a", 0, ""))
		st.setManual(false)
		synctest.Wait()
		r.wantStarted("j/a")
		r.end("j", "a", 0, "")
		if p := r.progressOf("j"); p.Done != 1 || p.Running != 0 {
			t.Errorf("progress %+v", p)
		}
		r.stop()
	})
}
