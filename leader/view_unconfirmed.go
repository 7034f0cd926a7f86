package leader

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"cantina/api"
	"cantina/batch"
	"cantina/bbs"
	"cantina/cell"
	"cantina/lrp"
	"cantina/scheduler"
	"cantina/task"
	"cantina/worker"
)

// codeUnsure is the code of the reason that a state is only what was last heard.
const codeUnsure = "cell_unsure"

// doubt is why what is stored of a cell's work may not be so any more; empty
// when its session is in order.
func doubt(cell string, s worker.SessionView, known bool) string {
	switch {
	case !known:
		return "cell " + cell + " is not known in this term"
	case s.State == worker.Healthy:
		return ""
	}
	return fmt.Sprintf("cell %s is %v: %s", cell, s.State, s.Reason)
}

// doubts remembers what is asked for many rows.
type doubts struct {
	v    view
	text map[string]string
}

func (v view) doubts() *doubts { return &doubts{v, map[string]string{}} }

func (d *doubts) of(cell string) string {
	if cell == "" {
		return ""
	}
	text, ok := d.text[cell]
	if !ok {
		s, known := d.v.Registry.Session(worker.CellName(cell))
		text = doubt(cell, s, known)
		d.text[cell] = text
	}
	return text
}

// instance adds the doubt about its cell to an instance that a cell has.
func (d *doubts) instance(i bbs.Instance) api.Instance {
	x := api.Instance{Actual: i.Actual, Rows: i.Rows, Version: i.Version, Wanted: i.Wanted, Orphan: i.Orphan, Quarantined: i.Quarantined, Revision: i.Revision}
	if i.State == lrp.Claimed || i.State == lrp.Running {
		x.Doubt = d.of(i.Cell)
		x.Condition = d.v.condition(i.Cell, func(c cell.Condition) bool { return c.Instance != "" && c.Instance == i.Identity.Instance })
	}
	return x
}

// task adds the doubt about its cell to a task that runs.
func (d *doubts) task(t bbs.Task) api.Task {
	x := toTask(t)
	if t.Task != nil && t.State == task.Running {
		x.Doubt = d.of(t.Holder.Cell)
		x.Condition = d.v.condition(t.Holder.Cell, func(c cell.Condition) bool { return c.Task != "" && c.Task == t.GUID })
	}
	return x
}

// pair adds the doubt about its cell to a batch task that runs.
func (d *doubts) pair(p scheduler.PairView) api.Pair {
	x := api.Pair{Job: p.Job, NodeView: p.NodeView, Path: p.Path, Data: p.Data}
	if p.Class == batch.ClassRunning {
		x.Doubt = d.of(p.Cell)
	}
	return x
}

// unsurePairs adds, for each cell that has running batch tasks of a job and is not in
// order, that it is not, and how long what it has counts as running; node "" = all.
func (v view) unsurePairs(x *api.Explanation, job, node string) error {
	running, err := v.Scheduler.Pairs(job, batch.NodeFilter{Node: node, Classes: []batch.Class{batch.ClassRunning}})
	if err != nil {
		return err
	}
	on, d := map[string][]string{}, v.doubts()
	for _, p := range running {
		if d.of(p.Cell) != "" {
			on[p.Cell] = append(on[p.Cell], p.Node)
		}
	}
	d.sayUnsure(x, on)
	return nil
}

// sayUnsure adds the doubt about each cell that is not in order, with what it has of a
// subject; of many cells it names the first ones.
func (d *doubts) sayUnsure(x *api.Explanation, on map[string][]string) {
	cells := slices.Sorted(maps.Keys(on))
	for _, name := range cells[:min(len(cells), namedCells)] {
		x.Reasons = append(x.Reasons, d.v.unsureOf(name, d.of(name), list(slices.Compact(on[name]))))
	}
	if more := len(cells) - namedCells; more > 0 {
		x.Reasons = append(x.Reasons, api.Reason{Code: codeUnsure, Text: fmt.Sprintf("%d more cells that have some of it are not HEALTHY", more)})
	}
}

// unsureOf says what a doubt about a cell means for what of a subject it has. What is left on
// one that is lost is what must not run twice.
func (v view) unsureOf(cell, doubt, what string) api.Reason {
	if s, ok := v.Registry.Session(worker.CellName(cell)); ok && s.State == worker.MustDie {
		return api.Reason{Code: codeUnsure, Text: doubt + "; " + what + " may still run, and starts nowhere else before the cell is certainly dead", Longest: s.Expiry}
	}
	return api.Reason{Code: codeUnsure, Text: doubt + "; what was last heard of " + what + " is shown"}
}

// doubled adds that a batch task runs more than once: after a wait that was cut short.
func (v view) doubled(x *api.Explanation, w worker.Work) {
	if text := doubledText(v.Registry.Running(w)); text != "" {
		x.Reasons = append(x.Reasons, api.Reason{Code: "doubled", Text: text})
	}
}

func doubledText(runs []worker.RunView) string {
	if len(runs) < 2 {
		return ""
	}
	var on []string
	for _, r := range runs {
		on = append(on, fmt.Sprintf("on cell %s as %v", r.Cell, r.Run.Invocation))
	}
	return "it runs more than once, since the initial wait was cut short or the store went back: " + list(on)
}

// unsure adds, for each cell that has some of a service and is not in order, that it is
// not and what it has; index < 0 = all.
func (v view) unsure(x *api.Explanation, k lrp.ServiceKey, index int) error {
	on, d := map[string][]string{}, v.doubts()
	p, err := v.Board.ListInstances(bbs.InstanceFilter{Domain: k.Domain, Service: k.Name}, bbs.Range{Limit: math.MaxInt32})
	if err != nil {
		return err
	}
	w, blind := v.blind()
	for _, row := range p.Items {
		i := d.instance(row)
		if blind && (index < 0 || i.Key.Index == index) && i.State == lrp.Unclaimed && i.Exclusive {
			sayHeld(x, w.Longest)
			blind = false
		}
		if (index < 0 || i.Key.Index == index) && i.State == lrp.Unclaimed && i.PlacementError != "" {
			v.remedy(x, LRPItem(i.Key))
		}
		if i.Doubt != "" && (index < 0 || i.Key.Index == index) {
			on[i.Cell] = append(on[i.Cell], fmt.Sprintf("%s/%d", k.Name, i.Key.Index))
		}
	}
	instances := map[string]bool{}
	for _, row := range p.Items {
		if index < 0 || row.Key.Index == index {
			for _, a := range row.Rows.Rows() {
				instances[a.Identity.Instance] = true
			}
		}
	}
	v.heldUp(x, func(c cell.Condition) bool { return c.Instance != "" && instances[c.Instance] })
	d.sayUnsure(x, on)
	return nil
}

// namedCells and namedThings are how many cells, and things on one, a text names.
const (
	namedCells  = 5
	namedThings = 5
)

// list joins names, of many the first ones.
func list(names []string) string {
	if more := len(names) - namedThings; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedThings], ", "), more)
	}
	return strings.Join(names, ", ")
}

// unsureTask does the same for a task.
func (v view) unsureTask(x *api.Explanation, guid string) error {
	t, err := v.Board.GetTask(guid)
	if err != nil {
		return err
	}
	if t.State == task.Pending && t.Rejection != "" {
		v.remedy(x, TaskItem(guid))
	}
	if w, blind := v.blind(); blind && t.State == task.Pending {
		sayHeld(x, w.Longest)
	}
	v.heldUp(x, func(c cell.Condition) bool { return c.Task == guid })
	if text := v.doubts().task(t).Doubt; text != "" {
		x.Reasons = append(x.Reasons, api.Reason{Code: codeUnsure, Text: text + "; what was last heard of it is shown"})
	}
	return nil
}

// remedy adds what would help to the reasons for which a waiting item has no place.
func (v view) remedy(x *api.Explanation, item string) {
	_, why, waits := v.Auctioneer.Explain(item)
	if !waits || why == nil {
		return
	}
	for i := range x.Reasons {
		if r := &x.Reasons[i]; r.Change == "" && r.Code == why.Code.Name() {
			r.Change = why.Remedy()
		}
	}
}

// unsureCells warns of cells that have work and are not in order.
func (v view) unsureCells(sessions []worker.SessionView) []string {
	var out []string
	more := 0
	for _, s := range sessions {
		text := doubt(string(s.Cell), s, true)
		lrps, tasks := 0, 0
		if s.Holder {
			lrps, tasks = v.Board.OnCell(string(s.Cell))
		} else { // only what its rows of batch tasks hold is known to be its own
			text += fmt.Sprintf(" (process %s, which does not hold the name)", s.Proc)
		}
		switch {
		case s.State == worker.Healthy || lrps+tasks+s.Work == 0:
		case len(out) == namedCells:
			more++
		case s.State == worker.MustDie:
			text += fmt.Sprintf("; its %s may still run: what must not run twice starts nowhere else before it is certainly dead", counted(lrps, tasks, s.Work))
			if s.Expiry > 0 {
				text += fmt.Sprintf(", in %v at most", s.Expiry.Round(time.Second))
			}
			out = append(out, text)
		default:
			out = append(out, fmt.Sprintf("%s; what was last heard of its %s is shown", text, counted(lrps, tasks, s.Work)))
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("%d more cells with work are not HEALTHY: cantina cells", more))
	}
	return out
}

func counted(lrps, tasks, pairs int) string {
	var parts []string
	add := func(n int, name string) {
		if n == 1 {
			parts = append(parts, "1 "+name)
		} else if n > 1 {
			parts = append(parts, fmt.Sprintf("%d %ss", n, name))
		}
	}
	add(lrps, "instance")
	add(tasks, "task")
	add(pairs, "batch task")
	if n := len(parts) - 1; n > 1 {
		parts = []string{strings.Join(parts[:n], ", "), parts[n]}
	}
	return strings.Join(parts, " and ")
}
