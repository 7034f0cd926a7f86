package scheduler

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/batch"
	"cantina/plan"
	"cantina/worker"
)

// killed are the batch tasks that are to be ended, since the last call; the registry keeps the intents.
func (r *rig) killed() string {
	r.reg.mu.Lock()
	defer r.reg.mu.Unlock()
	var out []string
	for _, x := range r.reg.kills {
		out = append(out, x.Work.Job+"/"+x.Work.Node)
	}
	r.reg.kills = nil
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}

func (r *rig) wantKilled(what, want string) {
	r.t.Helper()
	synctest.Wait()
	if got := r.killed(); got != want {
		r.t.Errorf("%s: killed %q, want %q", what, got, want)
	}
}

// applyFile applies all jobs of a file: others are removed.
func (r *rig) applyFile(wanted ...plan.NamedJob) {
	r.t.Helper()
	r.do(r.Apply("dom", wanted, plan.Prune{On: true}))
}

// orphaned is a job whose orphans are ended after a time; removed is the fate of its tasks once a file has
// it no more.
func orphaned(name string, after time.Duration, removed *batch.Orphans, nodes ...string) plan.NamedJob {
	w := testJob(name, map[string][]string{"h": nodes})
	w.Job.Orphans = batch.Orphans{Kill: true, After: after}
	w.Forest.Removed = removed
	return w
}

// TestOrphansAreEnded: of a disabled job and of a removed node, after their time, in the next term too; never
// before the nodes were read, or while they cannot be.
func TestOrphansAreEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 9)
		r.apply(orphaned("j", time.Minute, nil, "a", "b"))
		pass(0)
		r.wantStarted("j/a j/b")
		r.apply(orphaned("j", time.Minute, nil, "b"))
		pass(59 * time.Second)
		r.wantKilled("early", "")
		pass(2 * time.Second)
		r.wantKilled("a removed node", "j/a")
		pass(time.Hour)
		r.wantKilled("again", "")
		r.end("j", "a", 1, "")
		off := orphaned("j", 0, nil, "b")
		off.Job.Disabled = true
		r.apply(off)
		pass(0)
		r.wantKilled("a disabled job", "j/b")
		r.stop()
		r = begin(t, st, 2, r.reg.Model()...) // the intent is no row: the next leader finds the orphan
		r.cell("c", 9)
		pass(0)
		r.wantKilled("next term", "j/b")
		r.stop()
	})
}

// TestNoOrphansBeforeTheNodes: a node that no reading has found yet is not gone.
func TestNoOrphansBeforeTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 9)
		file := filepath.Join(t.TempDir(), "nodes")
		if err := os.WriteFile(file, []byte("a\nb\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		w := orphaned("j", 0, nil)
		w.Forest.Levels = []string{"db"}
		w.Forest.Sources = []batch.Source{{Kind: batch.SourceFile, File: file}}
		r.apply(w)
		pass(0)
		r.wantStarted("j/a j/b")
		r.stop()
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		r = begin(t, st, 2, r.reg.Model()...)
		r.cell("c", 9)
		pass(time.Hour)
		r.wantKilled("unread nodes", "")
		if err := os.WriteFile(file, []byte("a\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		r.wantKilled("read nodes", "j/b")
		r.stop()
	})
}

// TestWorkOfRemovedJobs: of a job that a file does not have any more it is ended by the settings of that file, counted
// from the removal, also by the next leader; a removal by name, or of remaining work, ends it at once.
func TestWorkOfRemovedJobs(t *testing.T) {
	for name, c := range map[string]struct {
		fate    *batch.Orphans
		killed  time.Duration // 0 = at once, below 0 = never
		byNow   bool          // then it is removed by its name
		restart bool
		again   bool // then it is created again
	}{
		"at once":                {nil, 0, false, false, false},
		"after a minute":         {&batch.Orphans{Kill: true, After: time.Minute}, time.Minute, false, false, false},
		"with no delay":          {&batch.Orphans{Kill: true}, 0, false, false, false},
		"never":                  {&batch.Orphans{}, -1, false, false, false},
		"by name":                {&batch.Orphans{}, 0, true, false, false},
		"in the next term":       {&batch.Orphans{Kill: true, After: time.Minute}, time.Minute, false, true, false},
		"never in the next term": {&batch.Orphans{}, -1, false, true, false},
		"by name in the next":    {&batch.Orphans{}, 0, true, true, false},
		"created again":          {&batch.Orphans{}, 0, false, false, true},
		"created in the next":    {&batch.Orphans{}, 0, false, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newFakeStore()
				r := begin(t, st, 1)
				r.cell("c", 9)
				r.applyFile(orphaned("dom/j", time.Second, c.fate, "a"), testJob("dom/k", map[string][]string{"h": {"x"}}))
				pass(0)
				r.wantStarted("dom/j/a dom/k/x")
				r.applyFile(testJob("dom/k", map[string][]string{"h": {"x"}}))
				if c.restart {
					r.stop()
					r = begin(t, st, 2, r.reg.Model()...)
					r.cell("c", 9)
				}
				if c.byNow {
					r.wantKilled("before", "")
					r.do(r.Remove("dom/j"))
				}
				if c.again {
					r.wantKilled("before", "")
					r.applyFile(orphaned("dom/j", time.Second, c.fate, "a"), testJob("dom/k", map[string][]string{"h": {"x"}}))
				}
				if c.killed > 0 {
					pass(c.killed - 2*time.Second)
					r.wantKilled("early", "")
					if r.KillStored(r.runOf("dom/j", "a")) {
						t.Error("the intent is stored before its time")
					}
				}
				pass(max(c.killed, 0) + 2*time.Second)
				want := "dom/j/a"
				if c.killed < 0 {
					pass(time.Hour)
					want = ""
				}
				r.wantKilled("in the end", want)
				if got := r.KillStored(r.runOf("dom/j", "a")); got != (want != "") {
					t.Errorf("stored: %v", got)
				}
				r.end("dom/j", "a", 0, "")
				r.reg.mayRun(false)
				pass(time.Minute)
				if got := st.keys("job/"); !c.again && len(got) != 1 {
					t.Errorf("left over: %v", got)
				}
				r.stop()
			})
		})
	}
}

// runOf is the run of a batch task in the model.
func (r *rig) runOf(job, node string) worker.Run {
	r.reg.mu.Lock()
	defer r.reg.mu.Unlock()
	return r.reg.model[worker.Work{Job: job, Node: node}].Run
}
