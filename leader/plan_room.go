package leader

import (
	"fmt"
	"slices"
	"strconv"

	"cantina/internal/text"
	"cantina/lrp"
	"cantina/placement"
	"cantina/plan"
	"cantina/task"
)

// noteRoom notes the planned work for which no cell has room now, with the refusal by each class of cells. Nothing is
// noted while cells may still join.
func (v applicationView) noteRoom(out *plan.Applied, a plan.Application) {
	if !v.settled() {
		return
	}
	services, tasks := map[string]*lrp.Desired{}, map[string]*task.Definition{}
	for i := range a.Services {
		services[a.Services[i].Service.Name] = &a.Services[i]
	}
	for i := range a.Tasks {
		tasks[a.Tasks[i].Name] = &a.Tasks[i].Definition
	}
	for i := range out.Changes {
		c := &out.Changes[i]
		switch {
		case c.Kind == "service" && services[c.Name] != nil:
			d := services[c.Name]
			if n := added(d, c); n > 0 {
				v.noteFit(c, serviceItem(d), n)
			}
		case c.Kind == "task" && tasks[c.Name] != nil && (c.Verb == plan.VerbCreate || c.Verb == plan.VerbReplace):
			v.noteFit(c, taskItem(tasks[c.Name]), 1)
		}
	}
}

// settled reports whether no cell is likely to join soon: the time for it is over, or the only cell is there.
func (v applicationView) settled() bool {
	alone := v.cfg.NoDeadline && slices.ContainsFunc(v.Auctioneer.Cells(),
		func(c placement.CellView) bool { return c.Reason == "" })
	return alone || v.joined()
}

// added is how many more instances than now a change of a service runs at once: a new version begins with one
// beside the old ones, or with none if they stop first.
func added(d *lrp.Desired, c *plan.Change) int {
	switch {
	case c.Verb == plan.VerbCreate:
		return d.Instances
	case c.Verb == plan.VerbReplace && !d.StopFirst():
		return min(d.Instances, 1)
	case c.Verb == plan.VerbUpdate:
		for _, f := range c.Fields {
			if f.Path == "instances" {
				old, err := strconv.Atoi(f.Old)
				if err != nil {
					return 0
				}
				return d.Instances - old
			}
		}
	}
	return 0
}

// noteFit notes how many of n fit, if not all do.
func (v applicationView) noteFit(c *plan.Change, it placement.Item, n int) {
	fit, why := v.Auctioneer.Fit(it, n)
	switch {
	case why == nil:
	case n == 1 || fit == 0:
		c.AddNote("no cell has room now: " + text.Shorten(why.String(), 1000))
	default:
		c.AddNote(fmt.Sprintf("room now for %d of %d; for the next: %s", fit, n, text.Shorten(why.String(), 1000)))
	}
}

// serviceItem is an instance that is not wanted yet, and a group of its own.
func serviceItem(d *lrp.Desired) placement.Item {
	return placement.Item{ID: "plan", Hold: "plan", Kind: placement.KindLRP, Group: "\x00plan",
		Service: d.Service.String(), Need: d.Workload.Resources, Constraint: Suits(d)}
}

func taskItem(d *task.Definition) placement.Item {
	return placement.Item{ID: "plan", Hold: "plan", Kind: placement.KindTask, Need: d.Workload.Resources,
		Constraint: taskSuits(d)}
}
