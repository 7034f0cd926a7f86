package leader

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"cantina/action"
	"cantina/fault"
	"cantina/lrp"
	"cantina/plan"
	"cantina/schedule"
	"cantina/task"
)

// TestEveryChangeMovesTheRevisionOfTheDomain: a plan from before any change of a domain's desired
// state is refused, for any owner of the row; the actual state changes no revision.
func TestEveryChangeMovesTheRevisionOfTheDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v, ctx := viewOf(tm), t.Context()
		web := lrp.ServiceKey{Domain: "d", Name: "web"}
		full := plan.Application{Domain: "d", Services: []lrp.Desired{{Service: web, Instances: 1,
			Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/do"}}}}}}
		if _, err := v.Apply(ctx, full, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		planned := func() int64 {
			synctest.Wait()
			p, err := v.Plan(ctx, plan.Application{Domain: "d"})
			if err != nil || p.Revision == 0 {
				t.Fatalf("%+v, %v", p, err)
			}
			return p.Revision
		}
		apply := func(a plan.Application) func() error {
			return func() error {
				a.Domain = "d"
				got, err := v.Apply(ctx, a, plan.Write{})
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
			{"a new task", true, apply(plan.Application{Tasks: []plan.NamedTask{{Name: "t", Definition: def}}})},
			{"a new job", true, apply(plan.Application{Jobs: []plan.NamedJob{jobOver("j", "a")}})},
			{"the same job", false, apply(plan.Application{Jobs: []plan.NamedJob{jobOver("j", "a")}})},
			{"another job", true, apply(plan.Application{Jobs: []plan.NamedJob{jobOver("j", "a", "b")}})},
			{"a new schedule", true, apply(plan.Application{Schedules: []plan.NamedSchedule{everyMinute("s", false)}})},
			{"the same schedule", false, apply(plan.Application{Schedules: []plan.NamedSchedule{everyMinute("s", false)}})},
			{"scale", true, func() error { _, err := v.ScaleService(ctx, web, 3, plan.Write{}); return err }},
			{"scale to the same", false, func() error { _, err := v.ScaleService(ctx, web, 3, plan.Write{}); return err }},
			{"restart", false, func() error { _, err := v.RestartService(ctx, web, plan.Write{}); return err }},
			{"retire", false, func() error { _, err := v.RetireInstances(ctx, web, nil, plan.Write{}); return err }},
			{"pause job", true, func() error { _, err := v.PauseJob(ctx, "d/j", true, plan.Write{}); return err }},
			{"pause job again", false, func() error { _, err := v.PauseJob(ctx, "d/j", true, plan.Write{}); return err }},
			{"forgive", false, func() error {
				_, err := v.RetryJob(ctx, plan.JobNodeFilter{Job: "d/j"},
					plan.Write{})
				return err
			}},
			{"kill", false, func() error { _, err := v.KillJob(ctx, plan.JobNodeFilter{Job: "d/j"}, plan.Write{}); return err }},
			{"pause schedule", true, func() error {
				return v.PauseSchedule(ctx, schedule.Key{Domain: "d", Name: "s"}, true,
					plan.Write{})
			}},
			{"pause schedule again", false, func() error {
				return v.PauseSchedule(ctx, schedule.Key{Domain: "d", Name: "s"},
					true, plan.Write{})
			}},
			{"resume schedule", true, func() error {
				return v.PauseSchedule(ctx, schedule.Key{Domain: "d", Name: "s"}, false,
					plan.Write{})
			}},
			{"a run of a schedule", false, func() error {
				_, err := v.RunSchedule(ctx, schedule.Key{Domain: "d", Name: "s"}, time.Time{}, plan.Write{})
				return err
			}},
			{"what schedules start", false, func() error { pass(5 * time.Minute); return nil }},
			{"a task of its own", false, func() error {
				_, err := v.DesireTask(ctx, plan.NewTask{GUID: "own", Domain: "d", Definition: def}, plan.Write{})
				return err
			}},
			{"remove schedule", true, func() error {
				return v.RemoveSchedule(ctx, schedule.Key{Domain: "d", Name: "s"},
					plan.Write{})
			}},
			{"remove job", true, func() error { return v.RemoveJob(ctx, "d/j", plan.Write{}) }},
			{"remove service", true, func() error { _, err := v.RemoveService(ctx, web, plan.Write{}); return err }},
			{"prune", true, apply(plan.Application{Prune: plan.Prune{On: true}})},
		} {
			before := planned()
			if err := c.do(); err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
			after := planned()
			if moved := after != before; moved != c.moves {
				t.Errorf("%s: revision %d, then %d", c.what, before, after)
			}
			_, err := v.Apply(ctx, full, plan.Write{Expect: before - 1})
			if c.moves {
				_, err = v.Apply(ctx, full, plan.Write{Expect: before})
			}
			if !errors.Is(err, fault.ErrRevision) {
				t.Errorf("%s: a plan of before was applied: %v", c.what, err)
			}
		}
	})
}
