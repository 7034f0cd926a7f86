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

// lookedAt returns how many forests and jobs the passes look at while something happens.
func (r *rig) lookedAt(happens func()) int {
	synctest.Wait()
	before := r.Scheduler.Stats()
	happens()
	synctest.Wait()
	after := r.Scheduler.Stats()
	if after.Passes == before.Passes {
		r.t.Error("no pass")
	}
	return after.Looked - before.Looked
}

// TestAPassCostsInProportionToChanges: beside a few or many other jobs in any state, an end, a start and a pass that
// was woken for nothing look at the same few forests and jobs.
func TestAPassCostsInProportionToChanges(t *testing.T) {
	states := map[string]func(r *rig, name string){
		"done":    func(r *rig, name string) { r.end(name, "a", 0, "") },
		"running": func(*rig, string) {},
		"paused": func(r *rig, name string) {
			r.do(r.Pause(name, true))
			r.end(name, "a", 1, "")
		},
		"in backoff":             func(r *rig, name string) { r.end(name, "a", 1, "") },
		"removed, still running": func(r *rig, name string) { r.do(r.Remove(name)) },
		"removed": func(r *rig, name string) {
			r.do(r.Remove(name))
			r.end(name, "a", 0, "")
		},
	}
	for state, bring := range states {
		t.Run(state, func(t *testing.T) {
			looked := map[int][2]int{}
			for _, others := range []int{3, 60} {
				synctest.Test(t, func(t *testing.T) {
					r := begin(t, newFakeStore(), 1)
					defer r.stop()
					r.cell("c", 1000)
					job := func(name string, nodes ...string) plan.NamedJob {
						w := testJob(name, map[string][]string{"h": nodes})
						w.Job.Backoff = batch.Backoff{Seconds: []int{3600}, Repeat: true}
						return w
					}
					all := []plan.NamedJob{job("it", "a", "b", "c", "d")}
					for i := range others {
						all = append(all, job(fmt.Sprint("other", i), "a"))
					}
					r.apply(all...)
					for i := range others {
						bring(r, fmt.Sprint("other", i))
					}
					pass(2 * time.Second)
					r.lookedAt(func() { ring(r.wake) }) // what the changes above have left
					looked[others] = [2]int{
						r.lookedAt(func() { r.end("it", "a", 0, "") }),
						r.lookedAt(func() { ring(r.wake) }),
					}
				})
			}
			if looked[3] != looked[60] || looked[60][0] == 0 || looked[60][0] > 8 {
				t.Errorf("beside 3 others %d, beside 60 %d", looked[3], looked[60])
			}
		})
	}
}

// TestATombstoneGoesWithItsLastTask: its row is deleted when its work has ended, without a wait.
func TestATombstoneGoesWithItsLastTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		defer r.stop()
		r.cell("c", 5)
		r.apply(jobWith(2, "a", "b"))
		r.end("j", "a", 0, "")
		r.do(r.Remove("j"))
		pass(time.Second)
		if got := st.keys(jobPrefix); len(got) != 1 {
			t.Errorf("while b runs: %v", got)
		}
		r.end("j", "b", 0, "")
		if got := st.keys(jobPrefix); len(got) != 0 {
			t.Errorf("rows %v", got)
		}
		r.locked(func() {
			if n := len(r.forests) + len(r.uids) + len(r.untidy); n > 1 {
				t.Errorf("%d forests, %d uids, %d untidy", len(r.forests), len(r.uids), len(r.untidy))
			}
		})
		if r.reg.Live() != 0 || len(r.reg.Running(worker.Work{Job: "j", Node: "b"})) != 0 {
			t.Error("b still runs")
		}
	})
}
