package node

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"cantina/api"
	"cantina/bbs"
	"cantina/cell"
	"cantina/lrp"
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
		s, known := d.v.reg.Session(worker.CellName(cell))
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

// unsure adds, for each cell that has some of a service and is not in order, that it is
// not and what it has; index < 0 = all.
func (v view) unsure(x *api.Explanation, k lrp.ServiceKey, index int) error {
	on, reasons, d := map[string][]string{}, map[string]string{}, v.doubts()
	p, err := v.board.ListInstances(bbs.InstanceFilter{Domain: k.Domain, Service: k.Name}, bbs.Range{Limit: math.MaxInt32})
	if err != nil {
		return err
	}
	for _, row := range p.Items {
		i := d.instance(row)
		if (index < 0 || i.Key.Index == index) && i.State == lrp.Unclaimed && i.PlacementError != "" {
			v.remedy(x, lrpItem(i.Key))
		}
		if i.Doubt != "" && (index < 0 || i.Key.Index == index) {
			on[i.Cell] = append(on[i.Cell], fmt.Sprintf("%s/%d", k.Name, i.Key.Index))
			reasons[i.Cell] = i.Doubt
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
	cells := make([]string, 0, len(on))
	for name := range on {
		cells = append(cells, name)
	}
	slices.Sort(cells)
	for _, name := range cells[:min(len(cells), namedCells)] {
		names := slices.Compact(on[name])
		x.Reasons = append(x.Reasons, api.Reason{Code: codeUnsure, Text: reasons[name] + "; what was last heard of " + list(names) + " is shown"})
	}
	if more := len(cells) - namedCells; more > 0 {
		x.Reasons = append(x.Reasons, api.Reason{Code: codeUnsure, Text: fmt.Sprintf("%d more cells that have some of it are not HEALTHY", more)})
	}
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
	t, err := v.board.GetTask(guid)
	if err != nil {
		return err
	}
	if t.State == task.Pending && t.Rejection != "" {
		v.remedy(x, taskItem(guid))
	}
	v.heldUp(x, func(c cell.Condition) bool { return c.Task == guid })
	if text := v.doubts().task(t).Doubt; text != "" {
		x.Reasons = append(x.Reasons, api.Reason{Code: codeUnsure, Text: text + "; what was last heard of it is shown"})
	}
	return nil
}

// remedy adds what would help to the reasons for which a waiting item has no place.
func (v view) remedy(x *api.Explanation, item string) {
	_, why, waits := v.house.Explain(item)
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
		lrps, tasks := v.board.OnCell(string(s.Cell))
		switch n := lrps + tasks; {
		case !s.Holder || text == "" || n == 0:
		case len(out) == namedCells:
			more++
		default:
			out = append(out, fmt.Sprintf("%s; what was last heard of its %s is shown", text, counted(lrps, tasks)))
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("%d more cells with work are not HEALTHY: cantina cells", more))
	}
	return out
}

func counted(lrps, tasks int) string {
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
	return strings.Join(parts, " and ")
}
