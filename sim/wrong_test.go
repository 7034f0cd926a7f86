package sim

import (
	"cantina/lrp"
	"cantina/task"
)

// wrongRule is the decisions of services and tasks with one rule broken.
type wrongRule struct {
	name  string
	rules rules
}

type (
	lrpStep  = func(lrp.Index, lrp.Event, lrp.Env) (lrp.Index, []lrp.Effect, error)
	taskStep = func(*task.Task, task.Event, task.Env) (*task.Task, []task.Effect, error)
)

func wrongRules() []wrongRule {
	lrps := func(name string, f lrpStep) wrongRule {
		return wrongRule{name, rules{step: f, stepTask: task.Step}}
	}
	tasks := func(name string, f taskStep) wrongRule {
		return wrongRule{name, rules{step: lrp.Step, stepTask: f}}
	}
	asking := func(r wrongRule) wrongRule {
		r.rules.asks = true
		return r
	}
	early := rightRules()
	early.early = true
	fakes, forgets, alone := rightRules(), rightRules(), rightRules()
	fakes.fakes, forgets.forgets, alone.alone = true, true, true
	return []wrongRule{
		{"ActBeforeCommit", early},
		{"StuckToldGone", fakes},
		{"StuckForgotten", forgets},
		{"StuckDiesWithItsProcess", alone},
		tasks("LeaveTwice", leaveTwice),
		tasks("LostStartsAgain", lostStartsAgain),
		asking(tasks("StartWhileBlind", func(t *task.Task, e task.Event, env task.Env) (*task.Task, []task.Effect, error) {
			env.Eligible = true
			return task.Step(t, e, env)
		})),
		tasks("EndReplaced", endReplaced),
		lrps("ExclusiveAtMustDie", func(x lrp.Index, e lrp.Event, env lrp.Env) (lrp.Index, []lrp.Effect, error) {
			if d, ok := e.(lrp.CellMustDie); ok {
				e = lrp.ProcDead{Proc: d.Proc}
			}
			return lrp.Step(x, e, env)
		}),
		lrps("SuspectStays", func(x lrp.Index, e lrp.Event, env lrp.Env) (lrp.Index, []lrp.Effect, error) {
			if _, ok := e.(lrp.CellHealthy); ok {
				return x, nil, nil
			}
			return lrp.Step(x, e, env)
		}),
		asking(lrps("ClaimWhileBlind", func(x lrp.Index, e lrp.Event, env lrp.Env) (lrp.Index, []lrp.Effect, error) {
			env.Eligible = true
			return lrp.Step(x, e, env)
		})),
		lrps("HandOverIgnored", func(x lrp.Index, e lrp.Event, env lrp.Env) (lrp.Index, []lrp.Effect, error) {
			if _, ok := e.(lrp.ProcMoved); ok {
				return x, nil, nil
			}
			return lrp.Step(x, e, env)
		}),
		lrps("RemovedUnproven", func(x lrp.Index, e lrp.Event, env lrp.Env) (lrp.Index, []lrp.Effect, error) {
			if r, ok := e.(lrp.Remove); ok && x.Ordinary.Is(r.By) {
				e = lrp.Remove{By: x.Ordinary.Identity}
			}
			return lrp.Step(x, e, env)
		}),
		lrps("StopForgotten", func(x lrp.Index, e lrp.Event, env lrp.Env) (lrp.Index, []lrp.Effect, error) {
			if _, ok := e.(lrp.Undesire); ok && !env.Wanted {
				return lrp.Index{Key: x.Key}, nil, nil // the row goes, and nobody proves that its container did
			}
			return lrp.Step(x, e, env)
		}),
	}
}

// leaveTwice gives leave to run to whoever asks.
func leaveTwice(t *task.Task, e task.Event, env task.Env) (*task.Task, []task.Effect, error) {
	s, ok := e.(task.Start)
	if !ok || t == nil || t.State != task.Running || t.UID != s.UID || !env.Eligible {
		return task.Step(t, e, env)
	}
	n := *t
	n.Holder, n.Reservation = s.By, s.Reservation
	return &n, nil, nil
}

// lostStartsAgain puts a lost task back among those that wait.
func lostStartsAgain(t *task.Task, e task.Event, env task.Env) (*task.Task, []task.Effect, error) {
	d, ok := e.(task.ProcDead)
	if !ok || t == nil || t.State != task.Running || t.Holder.Proc != d.Proc {
		return task.Step(t, e, env)
	}
	n := *t
	n.State, n.Holder, n.Reservation, n.Updated = task.Pending, task.Holder{}, "", env.Now
	return &n, []task.Effect{task.RequestAuction{GUID: t.GUID, UID: t.UID}}, nil
}

// endReplaced lets a second word on the end of a task overwrite the first.
func endReplaced(t *task.Task, e task.Event, env task.Env) (*task.Task, []task.Effect, error) {
	c, ok := e.(task.Complete)
	if !ok || t == nil || t.State != task.Completed || t.UID != c.UID {
		return task.Step(t, e, env)
	}
	n := *t
	n.Outcome, n.Result = c.Result.Outcome(), c.Result
	return &n, nil, nil
}
