package node

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"cantina/action"
	"cantina/api"
	"cantina/batch"
	"cantina/bbs"
	"cantina/cell"
	"cantina/event"
	"cantina/lrp"
	"cantina/schedule"
	"cantina/task"
	"cantina/worker"
)

// TestASessionsChangeIsAnEvent: whoever watches cells sees who it is and what became
// of it.
func TestASessionsChangeIsAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		sub := tm.hub.Tail()
		tm.SessionChanged(worker.SessionChanged{Cell: "c", Proc: "p", From: worker.New, To: worker.Unhealthy, Reason: "reported"})
		b, err := sub.Next(t.Context(), time.Second)
		if err != nil || len(b.Events) != 1 {
			t.Fatalf("%+v, %v", b, err)
		}
		e := b.Events[0]
		if e.Kind != event.Cell || e.Subject != "c" || e.Cell == nil || *e.Cell != (event.CellState{Name: "c", Proc: "p", Session: worker.Unhealthy, Reason: "reported", Term: tm.Term()}) {
			t.Fatalf("%+v %+v", e, e.Cell)
		}
	})
}

// TestJobWritesHappenOnce: a repeated call with its key gets the first answer, one
// for another revision is refused, and one key is for one call.
func TestJobWritesHappenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v := view{tm}
		ctx := t.Context()
		if _, err := v.Apply(ctx, api.Application{Domain: "d", Jobs: []api.NamedJob{jobOver("j", "a", "b")}}, api.Write{Key: "apply"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		first, err := v.PauseJob(ctx, "j", true, api.Write{Key: "pause"})
		if err != nil || !first.Paused {
			t.Fatalf("%+v, %v", first, err)
		}
		if _, err := v.PauseJob(ctx, "j", false, api.Write{Key: "resume"}); err != nil {
			t.Fatal(err)
		}
		if again, err := v.PauseJob(ctx, "j", true, api.Write{Key: "pause"}); err != nil || again.Paused {
			t.Fatalf("the repeated call acted: %+v, %v", again, err)
		}
		if _, err := v.PauseJob(ctx, "j", false, api.Write{Key: "pause"}); !errors.Is(err, bbs.ErrKeyReused) {
			t.Fatalf("a key for two calls: %v", err)
		}
		for name, call := range map[string]func(api.Write) error{
			"pause":   func(w api.Write) error { _, err := v.PauseJob(ctx, "j", true, w); return err },
			"forgive": func(w api.Write) error { _, err := v.ForgiveJob(ctx, api.PairFilter{Job: "j"}, w); return err },
			"kill":    func(w api.Write) error { _, err := v.KillPairs(ctx, api.PairFilter{Job: "j"}, w); return err },
			"remove":  func(w api.Write) error { return v.RemoveJob(ctx, "j", w) },
		} {
			if err := call(api.Write{Expect: first.Revision - 1}); !errors.Is(err, bbs.ErrRevision) {
				t.Errorf("%s for another revision: %v", name, err)
			}
		}
		for range 2 {
			if n, err := v.ForgiveJob(ctx, api.PairFilter{Job: "j"}, api.Write{Key: "forgive"}); n != 0 || err != nil {
				t.Fatalf("forgiven %d, %v", n, err)
			}
			if n, err := v.KillPairs(ctx, api.PairFilter{Job: "j"}, api.Write{Key: "kill"}); n != 0 || err != nil {
				t.Fatalf("killed %d, %v", n, err)
			}
		}
		for range 2 {
			if err := v.RemoveJob(ctx, "j", api.Write{Key: "remove"}); err != nil {
				t.Fatalf("removed: %v", err)
			}
		}
		if err := v.RemoveJob(ctx, "j", api.Write{}); err == nil {
			t.Fatal("removed twice")
		}
	})
}

// jobOver is a job over hosts.
func jobOver(name string, hosts ...string) api.NamedJob {
	src := batch.Source{Kind: batch.SourceManual}
	for _, h := range hosts {
		src.Manual = append(src.Manual, batch.ManualNode{Name: h})
	}
	return api.NamedJob{
		Job: batch.Job{Name: name, Forest: name, Backoff: batch.Backoff{Seconds: []int{10}, Repeat: true},
			Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/do"}}}},
		Forest: batch.ForestSpec{Name: name, Levels: []string{"host"}, Instance: name, Sources: []batch.Source{src}},
	}
}

// TestARefusedNewcomerDrawsNoCalls: a second process of a cell's name on another machine
// is told to go, and neither its address nor its state counts.
func TestARefusedNewcomerDrawsNoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		dir := t.TempDir()
		beat := func(proc, folder string, n int64) worker.Verdict {
			a, err := tm.Heartbeat(t.Context(), worker.Heartbeat{Protocol: worker.Protocol, Cell: "c", Proc: worker.Proc(proc), Folder: folder,
				Started: 1, Boot: "b", Beat: n}, cell.State{Address: "unix:" + dir + "/" + proc})
			if err != nil {
				t.Fatal(err)
			}
			return a.Verdict
		}
		if v := beat("p", "f", 1); v != worker.Welcome {
			t.Fatal(v)
		}
		at := tm.cells.Cell("c")
		if v := beat("q", "g", 1); v != worker.DieAll {
			t.Fatal(v)
		}
		if tm.cells.Cell("c") != at || tm.states["c"].Address != "unix:"+dir+"/p" {
			t.Error("calls to the cell go to the newcomer")
		}
	})
}

// TestWhateverADomainDesiresMovesItsRevision: a plan that was made before any change of
// what the domain desires is refused, whoever owns the row; what becomes of it moves nothing.
func TestWhateverADomainDesiresMovesItsRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v, ctx := view{tm}, t.Context()
		web := lrp.ServiceKey{Domain: "d", Name: "web"}
		full := api.Application{Domain: "d", Services: []lrp.Desired{{Service: web, Instances: 1, Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/do"}}}}}}
		if _, err := v.Apply(ctx, full, api.Write{}); err != nil {
			t.Fatal(err)
		}
		planned := func() int64 {
			synctest.Wait()
			p, err := v.Plan(ctx, api.Application{Domain: "d"})
			if err != nil || p.Revision == 0 {
				t.Fatalf("%+v, %v", p, err)
			}
			return p.Revision
		}
		apply := func(a api.Application) func() error {
			return func() error {
				a.Domain = "d"
				got, err := v.Apply(ctx, a, api.Write{})
				if now := planned(); err == nil && got.Revision != now {
					t.Errorf("apply answers revision %d, plan then %d", got.Revision, now)
				}
				return err
			}
		}
		def := task.Definition{Workload: full.Services[0].Workload}
		for _, c := range []struct {
			what  string
			moves bool
			do    func() error
		}{
			{"a new task", true, apply(api.Application{Tasks: []api.NamedTask{{Name: "t", Definition: def}}})},
			{"a new job", true, apply(api.Application{Jobs: []api.NamedJob{jobOver("j", "a")}})},
			{"the same job", false, apply(api.Application{Jobs: []api.NamedJob{jobOver("j", "a")}})},
			{"another job", true, apply(api.Application{Jobs: []api.NamedJob{jobOver("j", "a", "b")}})},
			{"a new schedule", true, apply(api.Application{Schedules: []api.NamedSchedule{everyMinute("s", false)}})},
			{"the same schedule", false, apply(api.Application{Schedules: []api.NamedSchedule{everyMinute("s", false)}})},
			{"scale", true, func() error { _, err := v.ScaleService(ctx, web, 3, api.Write{}); return err }},
			{"scale to the same", false, func() error { _, err := v.ScaleService(ctx, web, 3, api.Write{}); return err }},
			{"retire", false, func() error { _, err := v.RetireInstances(ctx, web, nil, api.Write{}); return err }},
			{"pause job", true, func() error { _, err := v.PauseJob(ctx, "j", true, api.Write{}); return err }},
			{"pause job again", false, func() error { _, err := v.PauseJob(ctx, "j", true, api.Write{}); return err }},
			{"forgive", false, func() error { _, err := v.ForgiveJob(ctx, api.PairFilter{Job: "j"}, api.Write{}); return err }},
			{"kill", false, func() error { _, err := v.KillPairs(ctx, api.PairFilter{Job: "j"}, api.Write{}); return err }},
			{"pause schedule", true, func() error { return v.PauseSchedule(ctx, schedule.Key{Domain: "d", Name: "s"}, true, api.Write{}) }},
			{"pause schedule again", false, func() error { return v.PauseSchedule(ctx, schedule.Key{Domain: "d", Name: "s"}, true, api.Write{}) }},
			{"resume schedule", true, func() error { return v.PauseSchedule(ctx, schedule.Key{Domain: "d", Name: "s"}, false, api.Write{}) }},
			{"a run of a schedule", false, func() error {
				_, err := v.RunSchedule(ctx, schedule.Key{Domain: "d", Name: "s"}, time.Time{}, api.Write{})
				return err
			}},
			{"what schedules start", false, func() error { pass(5 * time.Minute); return nil }},
			{"a task of its own", false, func() error {
				_, err := v.DesireTask(ctx, api.NewTask{GUID: "own", Domain: "d", Definition: def}, api.Write{})
				return err
			}},
			{"remove schedule", true, func() error { return v.RemoveSchedule(ctx, schedule.Key{Domain: "d", Name: "s"}, api.Write{}) }},
			{"remove job", true, func() error { return v.RemoveJob(ctx, "j", api.Write{}) }},
			{"remove service", true, func() error { _, err := v.RemoveService(ctx, web, api.Write{}); return err }},
			{"prune", true, apply(api.Application{Prune: true})},
		} {
			before := planned()
			if err := c.do(); err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
			after := planned()
			if moved := after != before; moved != c.moves {
				t.Errorf("%s: revision %d, then %d", c.what, before, after)
			}
			_, err := v.Apply(ctx, full, api.Write{Expect: before - 1})
			if c.moves {
				_, err = v.Apply(ctx, full, api.Write{Expect: before})
			}
			if !errors.Is(err, bbs.ErrRevision) {
				t.Errorf("%s: a plan of before was applied: %v", c.what, err)
			}
		}
	})
}

// TestWhateverIsListedCanBeExplained: also a job that was removed, as long as it is listed.
func TestWhateverIsListedCanBeExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v, ctx := view{tm}, t.Context()
		if _, err := v.Apply(ctx, api.Application{Domain: "d", Jobs: []api.NamedJob{jobOver("j", "a"), jobOver("k", "a")}}, api.Write{}); err != nil {
			t.Fatal(err)
		}
		if err := v.RemoveJob(ctx, "j", api.Write{}); err != nil {
			t.Fatal(err)
		}
		l, err := v.ListJobs("", api.Range{Limit: 10})
		if err != nil || len(l.Items) != 2 || !l.Items[0].Removed {
			t.Fatalf("%+v, %v", l.Items, err)
		}
		for _, j := range l.Items {
			e, err := v.Explain(ctx, api.Subject{Kind: api.SubjectJob, Name: j.Name})
			if err != nil || e.State == "" || j.Removed != (e.State == "removed") {
				t.Errorf("%s: %+v, %v", j.Name, e, err)
			}
		}
	})
}
