package scheduler

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/batch"
	"cantina/plan"
)

// after is a job over nodes of its own that comes after others.
func after(name string, nodes []string, before ...string) plan.NamedJob {
	w := testJob(name, map[string][]string{"h-" + name: nodes})
	w.Job.After, w.Job.Retries = before, 0
	return w
}

func (r *rig) wantState(job string, state batch.State, reason string) {
	r.t.Helper()
	if p := r.progressOf(job); p.State != state || !strings.Contains(p.Reason, reason) {
		r.t.Errorf("%s is %v: %q; want %v: %q", job, p.State, p.Reason, state, reason)
	}
}

// TestAJobAfterOthers starts in the moment in which the last node of the last of them is done, over other nodes,
// in the next term too; a failure goes through the chain, and a retry lets it go on.
func TestAJobAfterOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 9)
		r.apply(after("first", []string{"a", "b"}), after("other", []string{"o"}),
			after("second", []string{"s"}, "first", "other"),
			after("third", []string{"t"}, "second"))
		pass(0)
		r.wantStarted("first/a first/b other/o")
		r.wantState("second", batch.JobWaiting, "comes after job first, which is done on 0 of 2 nodes")
		r.end("first", "a", 0, "")
		r.end("other", "o", 0, "")
		pass(time.Second)
		r.wantStarted("")
		r.end("first", "b", 1, "")
		pass(0)
		r.wantState("second", batch.JobFailed, "comes after job first, which failed on 1 node")
		r.wantState("third", batch.JobFailed, "after job second, which comes after job first, which failed")
		if why, err := r.Explain("third", "t"); err != nil || len(why) != 1 ||
			!strings.Contains(why[0].Text, "after job second") {
			t.Errorf("%v %v", why, err)
		}
		if _, err := r.Retry(t.Context(), "first", batch.NodeFilter{}); err != nil {
			t.Fatal(err)
		}
		pass(0)
		r.wantStarted("first/b")
		r.wantState("third", batch.JobWaiting, "after job second, which is done on 0 of 1 node")
		r.end("first", "b", 0, "")
		pass(0)
		r.wantStarted("second/s")
		r.end("second", "s", 0, "")
		pass(0)
		r.wantStarted("third/t")
		r.stop()
		r = begin(t, st, 2, r.reg.Model()...)
		r.cell("c", 9)
		pass(time.Second)
		r.wantStarted("")
		if p := r.progressOf("third"); p.Running != 1 {
			t.Errorf("%+v", p)
		}
		r.stop()
	})
}

// TestJobsAfterWhatChanges: a job that they come after is paused, disabled, removed, created again, or comes after
// them by a later file.
func TestJobsAfterWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		defer func() { r.stop() }()
		r.cell("c", 9)
		off := after("first", []string{"a"})
		off.Job.Disabled = true
		second := after("second", []string{"s"}, "first")
		r.apply(off, second)
		pass(0)
		r.wantState("second", batch.JobWaiting, "after job first, which is disabled")
		r.do(r.Remove("first"))
		pass(0)
		r.wantState("second", batch.JobFailed, "after job first, which does not exist")
		r.apply(after("first", []string{"a"}, "second"))
		pass(0)
		r.wantState("second", batch.JobFailed, "in a circle")
		r.wantState("first", batch.JobFailed, "in a circle")
		third := after("first", []string{"a"}, "third")
		r.apply(third)
		pass(0)
		r.wantState("second", batch.JobFailed, "after job third, which does not exist")
		r.apply(after("first", nil))
		pass(0)
		r.wantStarted("second/s") // first has no node, so it is done
		r.end("second", "s", 0, "")
		r.apply(after("first", []string{"a"}))
		pass(0)
		r.wantStarted("first/a")
		r.wantState("second", batch.JobDone, "")
	})
}

// gatesCurrent compares each gate with the one that the jobs before it give now.
func (r *rig) gatesCurrent() {
	r.t.Helper()
	synctest.Wait()
	r.locked(func() {
		for name, j := range r.jobs {
			if j.row.deleted || j.spec == nil {
				continue
			}
			want := batch.Gate{}
			if len(j.spec.After) > 0 {
				want = batch.GateOf(r.before(j))
			}
			if got := j.forest.board.Gate(name); got != want {
				r.t.Fatalf("job %s has the gate %+v, want %+v", name, got, want)
			}
		}
	})
}

// TestGatesFollowEveryChange: jobs come after and depend on others, in circles too, over nodes of their own or shared
// ones. After each drawn change every gate is as a full look at all jobs has it, and in the next term too.
func TestGatesFollowEveryChange(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 9))
			st := newFakeStore()
			r := begin(t, st, 1)
			r.cell("c", 5)
			names := []string{"a", "b", "c", "d", "e", "f"}
			draw := func(of int) (out []string) {
				for _, n := range names {
					if rnd.IntN(of) == 0 {
						out = append(out, n)
					}
				}
				return out
			}
			job := func(name string) plan.NamedJob {
				w := testJob(name, map[string][]string{"h-" + name: {"x", "y"}})
				if rnd.IntN(3) > 0 {
					w = testJob("shared", map[string][]string{"h": {"x", "y"}})
					w.Job.Name = name
				}
				w.Job.Retries, w.Job.After = rnd.IntN(2), draw(4)
				w.Job.DependsOn = draw(5)
				w.Job.Paused, w.Job.Disabled = rnd.IntN(6) == 0, rnd.IntN(8) == 0
				return w
			}
			for step := range 80 {
				name := names[rnd.IntN(len(names))]
				switch rnd.IntN(8) {
				case 0, 1:
					r.change(r.Apply("dom", []plan.NamedJob{job(name)}, plan.Prune{}))
				case 2:
					r.change(r.Remove(name))
				case 3:
					r.change(r.Pause(name, rnd.IntN(2) == 0))
				case 4:
					_, _ = r.Retry(t.Context(), name, batch.NodeFilter{})
				case 5:
					pass(time.Minute)
				default:
					for _, v := range r.reg.Model() {
						if rnd.IntN(2) == 0 {
							r.end(v.Run.Work.Job, v.Run.Work.Node, rnd.IntN(3)/2, "")
						}
					}
				}
				pass(time.Second)
				r.gatesCurrent()
				if step == 40 {
					running := r.reg.Model()
					r.stop()
					r = begin(t, st, 2, running...)
					r.cell("c", 5)
					pass(time.Second)
					r.gatesCurrent()
				}
			}
			r.stop()
		})
	}
}

// change submits a prepared change, if there is one.
func (r *rig) change(c *Change, err error) {
	if err == nil {
		r.do(c, nil)
	}
}

// TestGatesCostInProportionToChanges: an end of a job computes the gates of those that come after it, beside a few or
// many other gated jobs.
func TestGatesCostInProportionToChanges(t *testing.T) {
	counts := map[int]int{}
	for _, others := range []int{2, 60} {
		synctest.Test(t, func(t *testing.T) {
			r := begin(t, newFakeStore(), 1)
			defer r.stop()
			r.cell("c", 1000)
			all := []plan.NamedJob{after("it", []string{"a", "b"}), after("next", []string{"n"}, "it"),
				after("last", []string{"l"}, "next"), after("base", []string{"o", "p"})}
			for i := range others {
				all = append(all, after(fmt.Sprint("other", i), []string{"o"}, "base"))
			}
			r.apply(all...)
			pass(time.Second)
			before := r.Scheduler.Stats().Gates
			r.end("it", "a", 0, "")
			pass(time.Second)
			counts[others] = r.Scheduler.Stats().Gates - before
		})
	}
	if counts[2] == 0 || counts[2] != counts[60] || counts[60] > 4 {
		t.Errorf("gates computed beside 2 others %d, beside 60 %d", counts[2], counts[60])
	}
}

// TestAGateFollowsADependency: a job comes after one that depends on the nodes of another. When that one fails on all
// nodes, the second never starts, so that the third never does.
func TestAGateFollowsADependency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		defer r.stop()
		r.cell("c", 5)
		first := testJob("shared", map[string][]string{"h": {"x"}})
		second := first
		first.Job.Name, second.Job.Name = "first", "second"
		first.Job.Retries, second.Job.DependsOn = 0, []string{"first"}
		r.apply(first, second, after("third", []string{"t"}, "second"))
		pass(0)
		r.wantStarted("first/x")
		r.end("first", "x", 1, "")
		pass(0)
		r.gatesCurrent()
		r.wantState("third", batch.JobFailed, "after job second")
	})
}
