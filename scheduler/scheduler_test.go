package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cantina/batch"
	"cantina/fault"
	"cantina/fence"
	"cantina/plan"
	"cantina/store"
	"cantina/worker"
)

func TestJobRunsToItsEndAndStaysEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 7)
		r.cell("c", 3)
		w := testJob("sum", map[string][]string{"h1": {"a", "b", "c"}, "h2": {"d"}})
		w.Forest.Limits = map[string]map[string]batch.Limit{"host": {"readers": {Default: 1, Limit: 2}}}
		c := r.apply(w)
		if c.Lines[0].Verb != plan.VerbCreate || c.Lines[0].Nodes != 4 {
			t.Errorf("%+v", c.Lines)
		}
		r.wantStarted("sum/a sum/b sum/d") // two on h1, and the cell is full
		p := r.reg.payload[worker.Work{Job: "sum", Node: "a"}]
		if p.Program.Args[0] != "a" || p.Labels["job"] != "sum" || p.Labels["invocation"] == "" || p.Domain != "dom" {
			t.Errorf("payload %+v", p)
		}
		r.end("sum", "d", 0, `{"result":"done","data":{"lines":4}}`)
		r.wantStarted("") // h1 stands two
		r.end("sum", "a", 0, "done")
		r.wantStarted("sum/c")
		r.end("sum", "b", 0, "")
		r.end("sum", "c", 0, "failed")
		if p := r.progressOf("sum"); p.State != batch.JobFailed || p.Done != 3 || p.Failed != 1 {
			t.Errorf("%+v", p)
		}
		results, err := r.Results(t.Context(), "sum", batch.NodeFilter{})
		if err != nil || len(results) != 4 || string(results[3].Data) != `{"lines":4}` ||
			strings.Join(results[3].Path, "/") != "sum/h2/d" {
			t.Errorf("%+v, %v", results, err)
		}
		if got := r.reg.takeAcks(); strings.Count(got, "real") != 4 {
			t.Errorf("acks %s", got)
		}
		r.stop()

		r = begin(t, st, 9)
		r.cell("c", 3)
		r.wantStarted("")
		if p := r.progressOf("sum"); p.State != batch.JobFailed || p.Done != 3 || p.Failed != 1 {
			t.Errorf("after a change of leader: %+v", p)
		}
		if n, err := r.Retry(t.Context(), "sum", batch.NodeFilter{}); n != 1 || err != nil {
			t.Errorf("forgave %d, %v", n, err)
		}
		r.wantStarted("sum/c")
		r.end("sum", "c", 0, "")
		if p := r.progressOf("sum"); p.State != batch.JobDone {
			t.Errorf("%+v", p)
		}
		r.stop()
	})
}

func TestBackoffSurvivesAChangeOfLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 1)
		r.apply(testJob("j", map[string][]string{"h": {"a"}}))
		r.wantStarted("j/a")
		r.end("j", "a", 3, "")
		pass(4 * time.Second)
		r.stop()
		r = begin(t, st, 2)
		r.cell("c", 1)
		pass(5 * time.Second)
		r.wantStarted("")
		nodes, err := r.JobNodes("j", batch.NodeFilter{})
		if err != nil || nodes[0].Class != batch.ClassBackoff || nodes[0].Status.Attempts != 1 ||
			nodes[0].Status.Reason != "exit code 3" {
			t.Errorf("%+v, %v", nodes, err)
		}
		pass(2 * time.Second)
		r.wantStarted("j/a")
		r.end("j", "a", 3, "")
		pass(11 * time.Second)
		r.end("j", "a", 3, "")
		if p := r.progressOf("j"); p.State != batch.JobFailed {
			t.Errorf("two retries, then failed: %+v", p)
		}
		r.stop()
	})
}

// TestBackoffsDoNotFollowTheWallClock: one that is set within a term, or was wrong in the term
// before, makes none longer.
func TestBackoffsDoNotFollowTheWallClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := beginOff(t, st, 1, time.Hour)
		r.cell("c", 2)
		r.apply(testJob("j", map[string][]string{"h": {"a", "b"}}))
		r.wantStarted("j/a j/b")
		pass(time.Second)
		r.off.Store(0) // set right
		r.end("j", "a", 3, "")
		pass(8 * time.Second)
		r.wantStarted("")
		pass(2 * time.Second)
		r.wantStarted("j/a")
		r.off.Store(int64(time.Hour)) // and wrong again
		r.end("j", "b", 3, "")
		r.end("j", "a", 3, "")
		r.stop()
		r = begin(t, st, 2) // another server, whose clock is right
		r.cell("c", 2)
		pass(8 * time.Second)
		r.wantStarted("")
		pass(3 * time.Second)
		r.wantStarted("j/a j/b")
		r.stop()
	})
}

func TestInitialWaitHoldsAndReportsAreAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 9)
		w := testJob("j", map[string][]string{"h": {"a", "b", "d"}})
		w.Forest.Limits = map[string]map[string]batch.Limit{"host": {"readers": {Default: 1, Limit: 1}}}
		r.apply(w)
		r.wantStarted("j/a")
		running := r.reg.Model()
		r.stop()

		r = begin(t, st, 2)
		r.reg.mu.Lock()
		r.reg.hold = worker.Hold{Reason: worker.HoldWait, Longest: time.Minute}
		r.reg.mu.Unlock()
		if got := fmt.Sprint(r.Names(), r.HeldNodes()); got != "[{j uid1-1}] [forest/j]" {
			t.Errorf("held: %s", got)
		}
		r.cell("c", 9)
		r.wantStarted("")
		if why, err := r.Explain("j", "b"); err != nil ||
			!strings.Contains(fmt.Sprint(why), "initial wait: a cell that has not reported yet may run it") ||
			why[0].Longest != time.Minute || why[0].Change != "" {
			t.Errorf("explain: %v, %v", why, err)
		}
		r.reg.mu.Lock()
		r.reg.hold = worker.Hold{}
		r.reg.model[running[0].Run.Work] = running[0]
		r.reg.mu.Unlock()
		r.StartsChanged()
		pass(2 * time.Second)
		r.StartsChanged()
		r.wantStarted("") // the host stands one reader, and it was reported
		if p := r.progressOf("j"); p.Running != 1 {
			t.Errorf("%+v", p)
		}
		if c := r.auction.Cells()[0]; c.Holdings != 1 {
			t.Errorf("the cell holds it: %+v", c)
		}
		r.Ended(endOf(running[0].Run, "c", 0, ""))
		r.wantStarted("j/b")
		r.stop()
	})
}

func TestRemovalEndsRunningTasksAndKeepsTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 1)
		r.apply(testJob("j", map[string][]string{"h": {"a", "b"}}))
		r.end("j", "a", 0, "")
		r.reg.takeStarted()
		r.do(r.Remove("j"))
		x := r.reg.Model()[0].Run
		if len(r.reg.kills) != 1 || r.reg.kills[0] != x || !r.KillStored(x) {
			t.Errorf("kills %v", r.reg.kills)
		}
		if v, err := r.Job("j"); err != nil || !v.Removed || v.Progress.Running != 1 {
			t.Errorf("%+v, %v", v, err)
		}
		pass(time.Minute)
		if got := st.keys(""); fmt.Sprint(got) != "[job/j]" {
			t.Errorf("a tombstone stays while it may run: %v", got)
		}
		// A new leader ends it too, and a job of the same name is another one.
		r.stop()
		r = begin(t, st, 2, worker.RunView{Run: x, Cell: "c"})
		if !r.KillStored(x) || len(r.Names()) != 1 {
			t.Error("the new leader does not know")
		}
		r.cell("c", 5)
		r.apply(testJob("j", map[string][]string{"h": {"a", "b"}}))
		r.wantStarted("j/a")
		r.Ended(endOf(x, "c", 0, ""))
		r.wantStarted("j/b") // the old job's end is not the new one's result
		r.do(r.Remove("j"))
		r.end("j", "a", 0, "")
		r.end("j", "b", 0, "")
		r.reg.mayRun(false)
		pass(time.Minute)
		if got := st.keys(""); len(got) != 0 {
			t.Errorf("nothing of it can run, left: %v", got)
		}
		if _, err := r.Job("j"); !errors.Is(err, batch.ErrUnknownJob) {
			t.Error(err)
		}
		r.stop()
	})
}

func TestRecreatedOnAnotherForestWhileItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		r.cell("c", 9)
		base := testJob("base", map[string][]string{"h": {"a", "b"}})
		base.Forest.Limits = map[string]map[string]batch.Limit{"host": {"readers": {Default: 1, Limit: 1}}}
		j := testJob("j", map[string][]string{"h": {"a"}})
		base.Job.Disabled = true
		r.apply(base, j)
		r.wantStarted("j/a")
		r.do(r.Remove("j"))
		j.Job.Forest, j.Forest = "base", batch.ForestSpec{}
		r.apply(j)
		r.wantStarted("") // a runs, and draws on the host
		r.end("j", "a", 0, "")
		// A pass may come before the model has lost the earlier run: then b is first.
		first, second := "a", "b"
		if synctest.Wait(); r.reg.takeStarted() == "j/b" {
			first, second = "b", "a"
		}
		r.end("j", first, 0, "")
		r.wantStarted("j/" + second)
		pass(time.Minute)
		r.locked(func() {
			if len(r.forests) != 1 {
				t.Errorf("%d forests", len(r.forests))
			}
		})
		r.stop()
	})
}

func TestPauseKillAndTheirRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 1)
		r.apply(testJob("j", map[string][]string{"h": {"a", "b"}}))
		r.wantStarted("j/a")
		r.do(r.Pause("j", true))
		r.do(r.Kill("j", batch.NodeFilter{}))
		x := r.reg.Model()[0].Run
		if len(r.reg.kills) != 1 || !r.KillStored(x) || len(st.keys(killPrefix)) != 1 {
			t.Errorf("kills %v, rows %v", r.reg.kills, st.keys(killPrefix))
		}
		r.stop()
		r = begin(t, st, 2, worker.RunView{Run: x, Cell: "c"})
		r.cell("c", 1)
		if !r.KillStored(x) {
			t.Error("the intent is not kept")
		}
		pass(2 * time.Second)
		r.StartsChanged()
		synctest.Wait()
		e := endOf(x, "c", 0, "incomplete")
		r.Ended(e)
		r.wantStarted("")
		if got := st.keys(killPrefix); len(got) != 0 {
			t.Errorf("kill rows left: %v", got)
		}
		if p := r.progressOf("j"); p.State != batch.JobPaused {
			t.Errorf("%+v", p)
		}
		r.do(r.Pause("j", false))
		r.wantStarted("j/a")
		r.stop()
	})
}

func TestApplyPlansAndRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		one, two := testJob("one", map[string][]string{"h": {"a"}}), testJob("two", map[string][]string{"h": {"a"}})
		r.apply(one, two)
		lines, err := r.Plan("dom", []plan.NamedJob{one}, plan.Prune{On: true})
		if err != nil || lines[0].Verb != plan.VerbKeep || lines[1].Verb != plan.VerbRemove {
			t.Errorf("%+v, %v", lines, err)
		}
		one.Job.Workload.Action.Run.Args = []string{"-v", "{}"}
		one.Job.Retries = 5
		one.Forest.Sources[0].Manual = append(one.Forest.Sources[0].Manual, batch.ManualNode{Name: "h2"})
		lines, err = r.Plan("dom", []plan.NamedJob{one, two}, plan.Prune{})
		if err != nil || lines[0].Verb != plan.VerbUpdate || lines[1].Verb != plan.VerbKeep {
			t.Fatalf("%+v, %v", lines, err)
		}
		var paths []string
		for _, f := range lines[0].Fields {
			paths = append(paths, f.Path)
		}
		if got := strings.Join(paths, " "); got != "retries workload.action.run.args nodes.sources[0].manual[h2]" {
			t.Errorf("fields %s", got)
		}
		if f := lines[0].Fields[2]; f.Old != "" || f.New != "{name: h2}" {
			t.Errorf("%+v", f)
		}
		bad := testJob("bad", map[string][]string{"h": {"a"}})
		bad.Job.Level = "moon"
		nowhere := testJob("nowhere", nil)
		nowhere.Job.Forest, nowhere.Forest = "x", batch.ForestSpec{}
		if _, err := r.Apply("dom", []plan.NamedJob{bad, nowhere, two, two}, plan.Prune{}); !errors.Is(err, ErrInvalid) ||
			strings.Count(err.Error(), "\n") != 2 {
			t.Errorf("all at once: %v", err)
		}
		if got := st.keys(jobPrefix); fmt.Sprint(got) != "[job/one job/two]" {
			t.Errorf("rows %v", got)
		}
		c, err := r.Apply("dom", nil, plan.Prune{On: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Commit(t.Context(), c, store.Op{Key: "idem/x", Value: []byte("y")}); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if got := st.keys(""); fmt.Sprint(got) != "[idem/x]" {
			t.Errorf("rows %v", got)
		}
		r.stop()
	})
}

func TestRowsThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 9)
		r.apply(testJob("good", map[string][]string{"h": {"a"}}), testJob("bad", map[string][]string{"h": {"a"}}),
			testJob("seg", map[string][]string{"h": {"a"}}))
		r.end("seg", "a", 0, "")
		r.reg.takeStarted()
		r.stop()
		segment := st.keys(statusPrefix)[0]
		st.rows["job/bad"] = []byte("garbage")
		st.rows[segment] = []byte("garbage")
		st.rows["batch/forest/odd"] = []byte("garbage")
		r = begin(t, st, 2)
		r.cell("c", 9)
		if len(st.bad) != 3 {
			t.Errorf("quarantined %v", st.bad)
		}
		r.wantStarted("good/a") // neither bad nor seg start anything
		if p := r.progressOf("seg"); p.State != batch.JobInvalid || !strings.Contains(p.Reason, segment) {
			t.Errorf("%+v", p)
		}
		if p := r.progressOf("bad"); p.State != batch.JobInvalid {
			t.Errorf("%+v", p)
		}
		if len(r.Names()) != 3 {
			t.Errorf("a name that cannot be read is held: %v", r.Names())
		}
		if _, err := r.Apply("dom", []plan.NamedJob{testJob("bad", nil)},
			plan.Prune{}); !errors.Is(err, fault.ErrQuarantined) {
			t.Error(err)
		}
		if _, err := r.Remove("bad"); !errors.Is(err, fault.ErrQuarantined) {
			t.Error(err)
		}
		// No component writes a quarantined row: such a commit would end the term.
		if _, err := r.Apply("dom", []plan.NamedJob{testJob("odd", nil)},
			plan.Prune{}); !errors.Is(err, fault.ErrQuarantined) {
			t.Error(err)
		}
		r.stop()
		st.rows["batch/forest/seg"] = []byte("garbage")
		good, _ := r.Job("good")
		st.rows[killKey(good.UID, "a")] = []byte("garbage")
		r = begin(t, st, 3, r.reg.Model()...)
		pass(adoptEvery)
		if _, err := r.Kill("good", batch.NodeFilter{}); !errors.Is(err, fault.ErrQuarantined) {
			t.Error(err)
		}
		if _, err := r.Apply("dom", []plan.NamedJob{testJob("seg", nil)},
			plan.Prune{}); !errors.Is(err, fault.ErrQuarantined) {
			t.Error(err)
		}
		r.do(r.Remove("seg"))
		if string(st.rows["batch/forest/seg"]) != "garbage" {
			t.Error("a quarantined row was written")
		}
		r.stop()
	})
}

func TestScriptSources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		r.cell("c", 9)
		r.scripts.set(nil, map[string]string{"hosts j": "h1\nh2\n", "files h1": "x\ny\n", "files h2": "z\n"})
		w := testJob("j", nil)
		w.Forest.Sources = []batch.Source{
			{Kind: batch.SourceScript, ParentLevel: batch.LevelInstance, Script: []string{"hosts"}},
			{Kind: batch.SourceScript, ParentLevel: "host", Script: []string{"files"}},
		}
		r.apply(w)
		r.wantStarted("j/x j/y j/z")
		for _, n := range []string{"x", "y", "z"} {
			r.end("j", n, 0, "")
		}
		r.scripts.set(errors.New("no such directory"), nil)
		pass(5 * time.Minute)
		v, err := r.Job("j")
		if err != nil || !strings.Contains(v.NodesError, "no such directory") || v.Progress.Done != 3 {
			t.Errorf("the last good nodes stay: %+v, %v", v, err)
		}
		r.scripts.set(nil, map[string]string{"hosts j": "h1\nh2\n", "files h1": "x\ny\nnew\n", "files h2": "z\n"})
		pass(time.Minute)
		r.wantStarted("j/new")
		if v, _ := r.Job("j"); v.NodesError != "" {
			t.Errorf("%+v", v)
		}
		r.scripts.set(nil, map[string]string{"hosts j": "h1\n", "files h1": "x\ny\nx\n"})
		pass(5 * time.Minute)
		if v, _ := r.Job("j"); !strings.Contains(v.NodesError, `node "x" twice`) || !v.NodesKnown || v.Progress.Total != 3 {
			t.Errorf("a repeated name is reported and harms nothing: %+v", v)
		}
		r.stop()
	})
}

func TestTermEndsWithItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 1)
		r.apply(testJob("j", map[string][]string{"h": {"a", "b"}}))
		st.setManual(true)
		r.end("j", "a", 0, "")
		st.mu.Lock()
		q := st.queue[0]
		st.mu.Unlock()
		q.done(0, errors.New("displaced"))
		synctest.Wait()
		if got := r.reg.takeAcks(); got != "" {
			t.Errorf("acknowledged: %s", got)
		}
		if r.over == nil {
			t.Error("the term goes on")
		}
		r.stop()
	})
}

func TestRerun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newFakeStore()
		r := begin(t, st, 1)
		r.cell("c", 9)
		r.apply(testJob("j", map[string][]string{"h": {"a", "b"}, "i": {"c"}}))
		for _, n := range []string{"a", "b", "c"} {
			r.end("j", n, 0, "")
		}
		r.reg.takeStarted()
		if n, err := r.Rerun(t.Context(), "j", batch.NodeFilter{Below: "h"}); n != 2 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		r.wantStarted("j/a j/b")
		if _, err := r.Rerun(t.Context(), "none", batch.NodeFilter{}); !errors.Is(err, batch.ErrUnknownJob) {
			t.Error(err)
		}
		r.end("j", "a", 0, "")
		r.end("j", "b", 0, "")
		if p := r.progressOf("j"); p.Done != 3 {
			t.Errorf("%+v", p)
		}
		// A late replay of the first invocations changes nothing.
		r.Ended(endOf(worker.Run{Work: worker.Work{Job: "j", Node: "a"},
			Invocation: fence.Invocation{Term: r.reg.term, Counter: 1}}, "c", 9, ""))
		synctest.Wait()
		if p := r.progressOf("j"); p.Done != 3 {
			t.Errorf("%+v", p)
		}
		r.stop()
	})
}

// TestAChangeOfNodesIsWaitedFor: a job that was done has not ended while the nodes of its new
// definition are not read.
func TestAChangeOfNodesIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := begin(t, newFakeStore(), 1)
		defer func() { r.stop() }()
		r.cell("c", 9)
		w := testJob("j", nil)
		w.Forest.Levels = []string{"host"}
		w.Forest.Sources = []batch.Source{{Kind: batch.SourceScript, ParentLevel: batch.LevelInstance,
			Script: []string{"old"}}}
		r.scripts.set(nil, map[string]string{"old j": "a\n"})
		r.apply(w)
		r.end("j", "a", 0, "")
		if p := r.progressOf("j"); p.State != batch.JobDone {
			t.Fatal(p.State)
		}
		r.scripts.set(errors.New("no answer"), nil)
		w.Forest.Sources = []batch.Source{{Kind: batch.SourceScript, ParentLevel: batch.LevelInstance,
			Script: []string{"new"}}}
		r.apply(w)
		v, err := r.Job("j")
		if err != nil || v.Over() || v.Progress.State != batch.JobWaiting || !strings.Contains(v.Progress.Reason,
			"no answer") {
			t.Errorf("ended with the nodes of the old definition: %+v, %v", v.Progress, err)
		}
		r.scripts.set(nil, map[string]string{"new j": "a\n"})
		pass(time.Minute)
		if p := r.progressOf("j"); p.State != batch.JobDone {
			t.Error(p.State)
		}
		r.scripts.set(errors.New("gone"), nil) // the same definition, read again: it stays done
		pass(5 * time.Minute)
		if v, _ := r.Job("j"); v.Progress.State != batch.JobDone || v.NodesError == "" {
			t.Errorf("%+v", v)
		}
	})
}
