package leader

import (
	"math"
	"slices"
	"strconv"
	"time"

	"cantina/api"
	"cantina/bbs"
	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
	"cantina/worker"
)

// maxHeld bounds how much held work, and how many rollouts, a status lists.
const maxHeld = 50

// codeHeld is the code of the reason that the initial wait holds something.
const codeHeld = "initial_wait"

// staleText is why tasks and exclusive instances wait while the rows may be older than the cells'
// work: one that is not started according to the rows may run.
const staleText = bbs.HeldByWait

// held lists the work that the initial wait holds: jobs, then exclusive instances and tasks.
func (v operationView) held(s *api.Status, w worker.WaitView, all []plan.Job) {
	if !w.Active && !w.Stale {
		return
	}
	add := func(h api.Held) {
		if len(s.Held) == maxHeld {
			s.HeldMore++
			return
		}
		s.Held = append(s.Held, h)
	}
	for _, j := range all {
		if j.Progress.State.Ended() || j.Removed {
			continue
		}
		if h, ok := v.Registry.MayRun(worker.Request{Work: worker.Work{Job: j.Name}, JobUID: j.UID}); !ok {
			add(api.Held{What: "job " + j.Name, Reason: h.Reason.String(), Cell: string(h.Cell), Proc: string(h.Proc),
				Longest: h.Longest})
		}
	}
	if !w.Stale {
		return
	}
	everything := plan.Range{Limit: math.MaxInt32} // which has no error: those are of a range that begins somewhere
	instances, _ := v.Board.ListInstances(plan.InstanceFilter{States: []lrp.State{lrp.Unclaimed}}, everything)
	for _, i := range instances.Items {
		if i.Exclusive {
			add(api.Held{What: "instance " + i.Service.String() + "/" + strconv.Itoa(i.Key.Index), Reason: staleText,
				Longest: w.Longest})
		}
	}
	tasks, _ := v.Board.ListTasks(plan.TaskFilter{States: []task.State{task.Pending}}, everything)
	for _, t := range tasks.Items {
		add(api.Held{What: "task " + t.GUID, Reason: staleText, Longest: w.Longest})
	}
}

// sayHeld replaces the reason that work is about to be placed by the initial wait that holds it.
func sayHeld(x *plan.Explanation, longest time.Duration) {
	x.Reasons = slices.DeleteFunc(x.Reasons, func(r plan.Reason) bool {
		return r.Code == "placing" ||
			r.Text == staleText
	})
	x.Reasons = slices.Insert(x.Reasons, 0, plan.Reason{Code: codeHeld, Text: staleText, Longest: longest,
		Change: "cantina leader end-wait --accept-double-starts --yes, where you know that no such cell runs anything"})
}
