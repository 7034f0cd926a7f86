package leader

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"cantina/auctioneer"
	"cantina/batch"
	"cantina/cell"
	"cantina/internal/text"
	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
	"cantina/worker"
)

// codeUnconfirmed is the code of the reason that a state is only the last reported one.
const codeUnconfirmed = "cell_unconfirmed"

// unconfirmedReason is why the stored state of the work of a cell's process may be outdated; empty
// if its session is in order. A later process under the cell's name is no evidence about it.
func unconfirmedReason(cell string, s worker.SessionView, known bool) string {
	switch {
	case !known:
		return "the process of cell " + cell + " that has it is not known in this term"
	case s.State == worker.Healthy:
		return ""
	case !s.Holder:
		return fmt.Sprintf("it is with an earlier process of cell %s, %s, which is %v: %s", cell, s.Proc, s.State, s.Reason)
	}
	return fmt.Sprintf("cell %s is %v: %s", cell, s.State, s.Reason)
}

// unconfirmed caches queries that are made for many rows.
type unconfirmed struct {
	*Term
	text map[string]string
	wait *string // see awaits; nil = not queried yet
}

func newUnconfirmed(t *Term) *unconfirmed { return &unconfirmed{Term: t, text: map[string]string{}} }

// awaits names the cells that the leader still waits for: work without a place may get one then.
// Empty = none.
func (d *unconfirmed) awaits() string {
	if d.wait == nil {
		text := awaitsText(d.awaited())
		d.wait = &text
	}
	return *d.wait
}

func awaitsText(cells []string) string {
	switch len(cells) {
	case 0:
		return ""
	case 1:
		return "the leader waits for cell " + cells[0] + " to report"
	}
	return "the leader waits for cells " + list(cells) + " to report"
}

// placement is why work has no place, after its possible causes.
func (d *unconfirmed) placement(why string) string {
	code, text, ok := strings.Cut(why, ": ")
	if wait := d.awaits(); ok && wait != "" {
		return code + ": " + wait + "; " + text
	}
	return why
}

// of is the reason for the work of a process of a cell.
func (d *unconfirmed) of(cell, proc string) string {
	if cell == "" && proc == "" {
		return ""
	}
	text, ok := d.text[cell+"/"+proc]
	if !ok {
		s, known := d.Registry.Process(worker.Proc(proc))
		text = unconfirmedReason(cell, s, known)
		d.text[cell+"/"+proc] = text
	}
	return text
}

// instance marks an instance that a cell has.
func (d *unconfirmed) instance(i plan.Instance) plan.Instance {
	if i.State == lrp.Claimed || i.State == lrp.Running {
		i.UnconfirmedReason = d.of(i.Cell, i.Proc)
		i.Condition = d.reported().text(i.Cell, func(c cell.Condition) bool {
			return c.Instance != "" &&
				c.Instance == i.Identity.Instance
		})
	}
	if i.PlacementError != "" {
		i.PlacementError = d.placement(i.PlacementError)
	}
	return i
}

// task marks a task that runs, or is being ended.
func (d *unconfirmed) task(t plan.Task) plan.Task {
	t.BeingEnded = t.Task != nil && t.Ending() && d.Board.BeingEnded(t.Task)
	if t.Task != nil && t.State == task.Running {
		t.UnconfirmedReason = d.of(t.Holder.Cell, t.Holder.Proc)
		t.Condition = d.reported().text(t.Holder.Cell,
			func(c cell.Condition) bool { return c.Task != "" && c.Task == t.GUID })
	}
	if t.Task != nil && t.State == task.Pending && t.Rejection != "" {
		row := *t.Task
		row.Rejection = d.placement(t.Rejection)
		t.Task = &row
	}
	return t
}

// node marks a batch task that runs.
func (d *unconfirmed) node(p plan.JobNode) plan.JobNode {
	if p.Class == batch.ClassRunning || p.Cell != "" {
		p.UnconfirmedReason = d.of(p.Cell, d.procOf(p))
		removed := ""
		p.Condition = d.reported().text(p.Cell, func(c cell.Condition) bool {
			is := c.Job == p.Job && c.Node == p.Node && !c.Unknown
			if is && d.reported().ofRemovedJob(&c) {
				removed = batch.WaitsForRemoved + ": "
			}
			return is
		})
		p.Condition = removed + p.Condition
	}
	return p
}

// procOf is the process that has a batch task which runs.
func (d *unconfirmed) procOf(p plan.JobNode) string {
	for _, r := range d.Registry.Running(worker.Work{Job: p.Job, Node: p.Node}) {
		if r.Run.Invocation == p.Invocation {
			return string(r.Proc)
		}
	}
	return ""
}

// holder is a process of a cell that has some of a subject.
type holder struct{ cell, proc string }

func (h holder) compare(o holder) int {
	return cmp.Or(cmp.Compare(h.cell, o.cell), cmp.Compare(h.proc, o.proc))
}

// unconfirmedNodes adds a reason for each cell that has running batch tasks of a job and is not in
// order, and how long its work counts as running; node "" = all.
func (v explainView) unconfirmedNodes(x *plan.Explanation, job, node string) error {
	running, err := v.Scheduler.JobNodes(job, batch.NodeFilter{Node: node,
		Classes: []batch.Class{batch.ClassRunning, batch.ClassBlocked}})
	if err != nil {
		return err
	}
	on, d := map[holder][]string{}, newUnconfirmed(v.Term)
	left := map[string][]string{}
	for _, p := range running {
		if p.Cell == "" {
			continue // it waits for another job
		}
		if p.Class == batch.ClassRunning {
			left[p.Cell] = append(left[p.Cell], p.Node)
		}
		if h := (holder{p.Cell, d.procOf(p)}); d.of(h.cell, h.proc) != "" {
			on[h] = append(on[h], p.Node)
		}
	}
	v.sayDrained(x, mayFinish(v.Term, left))
	d.reportUnconfirmed(x, on)
	return nil
}

// mayFinish is the consequence of a cell's drain for batch tasks on the listed nodes of each cell.
func mayFinish(t *Term, nodes map[string][]string) map[string]string {
	out := map[string]string{}
	for name, on := range nodes {
		out[name] = list(on) + " may finish there until the deadline, and runs again on another cell otherwise"
		if d := t.drainOf(worker.CellName(name)); d != nil && d.StopBatch {
			out[name] = list(on) + " is ended there, and runs again on another cell"
		}
	}
	return out
}

// reportUnconfirmed adds a reason for each process that is not in order, with its part of a
// subject; of many it names the first ones. Unconfirmed work is not as desired.
func (d *unconfirmed) reportUnconfirmed(x *plan.Explanation, on map[holder][]string) {
	cells := slices.SortedFunc(maps.Keys(on), holder.compare)
	x.Fine = x.Fine && len(cells) == 0
	for _, h := range cells[:min(len(cells), namedCells)] {
		x.Reasons = append(x.Reasons, d.reason(h, d.of(h.cell, h.proc), list(slices.Compact(on[h]))))
	}
	if more := len(cells) - namedCells; more > 0 {
		x.Reasons = append(x.Reasons, plan.Reason{Code: codeUnconfirmed,
			Text: fmt.Sprintf("%d more cells that have some of it are not HEALTHY", more)})
	}
}

// reason describes the consequences of an unconfirmed cell for its part of a subject. The
// remaining work of a lost one is work that must not run twice.
func (d *unconfirmed) reason(h holder, unconfirmedReason, what string) plan.Reason {
	if s, ok := d.Registry.Process(worker.Proc(h.proc)); ok && s.State == worker.MustDie {
		which := "the cell"
		if !s.Holder {
			which = "that process"
		}
		r := plan.Reason{Code: codeUnconfirmed, Text: unconfirmedReason + "; " + what +
			" may still run, and starts nowhere else before " + which + " is certainly dead", Longest: s.Expiry}
		if s.Member && !s.Dead {
			r.Change = forgetHint(forgotten(&s))
		}
		return r
	}
	return plan.Reason{Code: codeUnconfirmed, Text: unconfirmedReason + "; the last report of " + what + " is shown"}
}

// doubled adds that a batch task runs more than once: after a wait that was cut short.
func (v explainView) doubled(x *plan.Explanation, w worker.Work) {
	if text := doubledText(v.Registry.Running(w)); text != "" {
		x.Reasons = append(x.Reasons, plan.Reason{Code: "doubled", Text: text})
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

// addUnconfirmed adds a reason for each cell that has a part of a service and is not in order,
// with its part; index < 0 = all.
func (v explainView) addUnconfirmed(x *plan.Explanation, k lrp.ServiceKey, index int) error {
	on, d := map[holder][]string{}, newUnconfirmed(v.Term)
	p, err := v.Board.ListInstances(plan.InstanceFilter{Domain: k.Domain, Service: k.Name},
		plan.Range{Limit: math.MaxInt32})
	if err != nil {
		return err
	}
	w := v.Registry.Wait()
	stale := w.Stale
	for _, row := range p.Items {
		i := d.instance(row)
		if stale && (index < 0 || i.Key.Index == index) && i.State == lrp.Unclaimed && i.Exclusive {
			sayHeld(x, w.Longest)
			stale = false
		}
		if (index < 0 || i.Key.Index == index) && i.State == lrp.Unclaimed {
			v.remedy(x, LRPItem(i.Key))
		}
		if i.UnconfirmedReason != "" && (index < 0 || i.Key.Index == index) {
			h := holder{i.Cell, i.Proc}
			on[h] = append(on[h], fmt.Sprintf("%s/%d", k.Name, i.Key.Index))
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
	v.sayDrained(x, movedFirst(p.Items, index))
	d.reportUnconfirmed(x, on)
	return nil
}

// movedFirst is the consequence of a cell's drain for each instance without a copy: it is stopped
// there before it starts elsewhere. One with a copy has a separate reason.
func movedFirst(rows []plan.Instance, index int) map[string]string {
	on := map[string][]string{}
	for _, row := range rows {
		o := row.Rows.Ordinary
		if o == nil || o.Cell == "" || index >= 0 && row.Key.Index != index {
			continue
		}
		on[o.Cell] = append(on[o.Cell], fmt.Sprintf("%s/%d", row.Service.Name, row.Key.Index))
	}
	out := map[string]string{}
	for name, what := range on {
		out[name] = list(what) + " is stopped there before it starts on another cell"
	}
	return out
}

// namedCells and namedThings limit the cells, and items per cell, that a text names.
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
func (v explainView) unsureTask(x *plan.Explanation, guid string) error {
	t, err := v.Board.GetTask(guid)
	if err != nil {
		return err
	}
	if t.State == task.Pending {
		v.remedy(x, TaskItem(guid))
	}
	if w := v.Registry.Wait(); w.Stale && t.State == task.Pending {
		sayHeld(x, w.Longest)
	}
	v.heldUp(x, func(c cell.Condition) bool { return c.Task == guid && !(c.Starting() && t.Ended()) })
	if t.State == task.Running {
		v.sayDrained(x, map[string]string{t.Holder.Cell: "it may finish there until the deadline, and fails then"})
	}
	d := newUnconfirmed(v.Term)
	if text := d.task(t).UnconfirmedReason; text != "" {
		x.Fine = false
		x.Reasons = append(x.Reasons, d.reason(holder{t.Holder.Cell, t.Holder.Proc}, text, "it"))
	}
	return nil
}

// codeAwaited is the code of the reason that the leader still waits for cells.
const codeAwaited = "cells_awaited"

// sayAwaited adds, once and before all, that cells are waited for, and reports whether any are.
func (v explainView) sayAwaited(x *plan.Explanation) bool {
	text := awaitsText(v.awaited())
	if text != "" && !slices.ContainsFunc(x.Reasons, func(r plan.Reason) bool { return r.Code == codeAwaited }) {
		x.Reasons = slices.Insert(x.Reasons, 0, plan.Reason{Code: codeAwaited, Text: text,
			Longest: v.Registry.Wait().Longest})
	}
	return text != ""
}

// remedy adds remedies to the reasons for which a waiting item has no place.
func (v explainView) remedy(x *plan.Explanation, item string) {
	if v.sayAwaited(x) { // they may have room
		return
	}
	if cell, n := auctioneer.Awaits(v.Auctioneer, item); n > 0 {
		x.Reasons = append(x.Reasons, plan.Reason{Code: "preempting", Text: fmt.Sprintf(
			"waits for %s on cell %s to end, of lower preempt_priority; the room is reserved", text.Count(n, "instance"), cell)})
	}
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

// unconfirmedCells warns of cells that have work and are not in order.
func (v operationView) unconfirmedCells(sessions []worker.SessionView) []string {
	var out []string
	more := 0
	for _, s := range sessions {
		if s.State == worker.Healthy {
			continue
		}
		text := fmt.Sprintf("cell %s is %v: %s", s.Cell, s.State, s.Reason)
		if !s.Holder {
			text = fmt.Sprintf("an earlier process of cell %s, %s, is %v: %s", s.Cell, s.Proc, s.State, s.Reason)
		}
		lrps, tasks := v.Board.OnProc(string(s.Cell), string(s.Proc))
		switch {
		case lrps+tasks+s.Work == 0:
		case len(out) == namedCells:
			more++
		case s.State == worker.MustDie:
			text += fmt.Sprintf("; its %s may still run; tasks and exclusive instances start elsewhere only after it is "+
				"declared dead", counted(lrps, tasks, s.Work))
			if s.Expiry > 0 {
				text += fmt.Sprintf(", within %v", s.Expiry.Round(time.Second))
			}
			if s.Member && !s.Dead {
				text += "; to declare it now: " + forgetHint(forgotten(&s))
			}
			out = append(out, text)
		default:
			out = append(out, fmt.Sprintf("%s; its %s are shown as last reported", text, counted(lrps, tasks, s.Work)))
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("%d more cells with work are not HEALTHY: cantina cells", more))
	}
	return out
}

// forgotten is how cells forget names a process: by its cell, if it has the cell's name.
func forgotten(s *worker.SessionView) string {
	if s.Holder {
		return string(s.Cell)
	}
	return string(s.Proc)
}

func counted(lrps, tasks, nodes int) string {
	var parts []string
	add := func(n int, name string) {
		if n > 0 {
			parts = append(parts, text.Count(n, name))
		}
	}
	add(lrps, "instance")
	add(tasks, "task")
	add(nodes, "batch task")
	if n := len(parts) - 1; n > 1 {
		parts = []string{strings.Join(parts[:n], ", "), parts[n]}
	}
	return strings.Join(parts, " and ")
}
