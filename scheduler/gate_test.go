package scheduler

import (
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
