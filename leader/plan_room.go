package leader

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"cantina/internal/text"
	"cantina/lrp"
	"cantina/placement"
	"cantina/plan"
	"cantina/task"
)

// noteRoom notes where the planned work would be placed now, and the refusal by each class of cells if there is no
// room. Nothing is noted while cells may still join.
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

// noteFit notes the cells of n instances, and why not all fit.
func (v applicationView) noteFit(c *plan.Change, it placement.Item, n int) {
	cells, why := v.Auctioneer.Fit(it, n)
	switch {
	case why == nil && len(cells) < n:
		c.AddNote(fmt.Sprintf("the first %d fit now: %s", len(cells), spread(cells)))
	case why == nil:
		c.AddNote("fits now: " + spread(cells))
	case len(cells) == 0:
		c.AddNote("no cell has room now: " + text.Shorten(why.String(), 1000))
	default:
		c.AddNote(fmt.Sprintf("room now for %d of %d (%s); for the next: %s", len(cells), n, spread(cells),
			text.Shorten(why.String(), 1000)))
	}
}

// shownCells is how many cells a note names.
const shownCells = 5

// spread names cells and how many instances each would have, those with most first.
func spread(cells []string) string {
	count := map[string]int{}
	for _, c := range cells {
		count[c]++
	}
	names := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	var out []string
	for _, c := range names[:min(shownCells, len(names))] {
		out = append(out, fmt.Sprintf("%d on %s", count[c], c))
	}
	if more := len(names) - shownCells; more > 0 {
		out = append(out, "and "+text.Count(more, "more cell"))
	}
	return strings.Join(out, ", ")
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
