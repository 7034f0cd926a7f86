package leader

import (
	"testing"
	"testing/synctest"
	"time"

	"cantina/action"
	"cantina/fault"
	"cantina/plan"
	"cantina/schedule"
	"cantina/task"
)

// everyMinute is a schedule of a job with its own nodes, or of a task.
func everyMinute(name string, job bool) plan.NamedSchedule {
	s := plan.NamedSchedule{Name: name, Definition: schedule.Definition{Calendar: schedule.Calendar{Line: "@every 60s"}}}
	if job {
		j := jobOver(name, "a", "b")
		s.Definition.Job = &schedule.Job{Job: j.Job, Forest: j.Forest}
	} else {
		run := action.Action{Run: &action.Run{Path: "/bin/true"}}
		s.Definition.Task = &task.Definition{Workload: action.Workload{Action: run}}
	}
	return s
}

// TestAPruneLeavesTheJobOfASchedule alone while the file has the schedule, and takes both
// when it has not.
func TestAPruneLeavesTheJobOfASchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v := viewOf(tm)
		a := plan.Application{Domain: "d", Schedules: []plan.NamedSchedule{everyMinute("j", true), everyMinute("t", false)},
			Prune: plan.Prune{On: true}}
		if _, err := v.Apply(t.Context(), a, plan.Write{}); err != nil {
			t.Fatal(err)
		}
		pass(61 * time.Second)
		if _, err := v.GetJob("d/j"); err != nil {
			t.Fatalf("the schedule did not run its job: %v", err)
		}
		l, err := v.ListTasks(plan.TaskFilter{Domain: "d"}, plan.Range{Limit: 10})
		if err != nil || len(l.Items) != 1 || l.Items[0].Name != "t" {
			t.Fatalf("%+v, %v", l.Items, err)
		}
		got, err := v.Apply(t.Context(), a, plan.Write{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range got.Changes {
			if c.Verb != plan.VerbKeep {
				t.Errorf("%s %s %s", c.Verb, c.Kind, c.Name)
			}
		}
		a.Schedules = nil
		if got, err = v.Apply(t.Context(), a, plan.Write{}); err != nil || len(got.Changes) != 3 {
			t.Fatalf("%+v, %v", got.Changes, err)
		}
		if s, err := v.ListSchedules(plan.NameFilter{Domain: "d"}, plan.Range{Limit: 10}); err != nil || len(s.Items) != 0 {
			t.Fatalf("%+v, %v", s.Items, err)
		}
	})
}

// TestSchedulesArePaged in order of domain and name.
func TestSchedulesArePaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tm, end := begin(t)
		defer end()
		v := viewOf(tm)
		for _, domain := range []string{"e", "d"} {
			if _, err := v.Apply(t.Context(), plan.Application{Domain: domain,
				Schedules: []plan.NamedSchedule{everyMinute("y", false), everyMinute("x", false)}}, plan.Write{}); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for r := (plan.Range{Limit: 1}); ; {
			l, err := v.ListSchedules(plan.NameFilter{}, r)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range l.Items {
				got = append(got, s.Key.String())
			}
			if r.After = l.Next; r.After == "" {
				break
			}
		}
		if len(got) != 4 || got[0] != "d/x" || got[1] != "d/y" || got[2] != "e/x" || got[3] != "e/y" {
			t.Fatal(got)
		}
	})
}

// TestEndedRunsAreNotLive: a run is shown as living until its task has ended, and nothing of it is left.
func TestEndedRunsAreNotLive(t *testing.T) {
	row := func(change func(*task.Task)) plan.Task {
		x := task.Task{State: task.Completed, Outcome: task.Succeeded, Holder: task.Holder{Cell: "c", Proc: "p"}}
		change(&x)
		return plan.Task{Task: &x}
	}
	for name, c := range map[string]struct {
		row  plan.Task
		err  error
		want bool
	}{
		"succeeded":     {row(func(*task.Task) {}), nil, true},
		"running":       {row(func(x *task.Task) { x.State = task.Running }), nil, false},
		"being ended":   {row(func(x *task.Task) { x.Outcome = task.Cancelled }), nil, false},
		"lost, may run": {row(func(x *task.Task) { x.Outcome, x.MayStillRun = task.Lost, true }), nil, false},
		"pruned":        {plan.Task{}, task.ErrNotFound, true},
		"unreadable":    {plan.Task{}, fault.ErrQuarantined, false},
	} {
		if got := hasEnded(c.row, c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
