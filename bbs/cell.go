package bbs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"cantina/lrp"
	"cantina/task"
	"cantina/wire"
	"cantina/worker"
)

// LRPEvents gives each event of a cell's harmoniser to its index and returns one
// answer for each, after the commit: nil, or the error of lrp.Step. The cell and
// process in the events must be the caller's session; the registry has checked it.
// The second error means that the outcome of all is unknown.
func (b *BBS) LRPEvents(ctx context.Context, calls []wire.LRPCall) ([]error, error) {
	answers := make([]error, len(calls))
	_, err := b.change(ctx, func(t *tx) error {
		for i, c := range calls {
			answers[i] = t.step(c.Key, c.Event)
		}
		return nil
	})
	return answers, err
}

// TaskEvents does the same for events of tasks.
func (b *BBS) TaskEvents(ctx context.Context, calls []wire.TaskCall) ([]error, error) {
	answers := make([]error, len(calls))
	_, err := b.change(ctx, func(t *tx) error {
		for i, c := range calls {
			answers[i] = t.stepTask(c.GUID, c.Event)
		}
		return nil
	})
	return answers, err
}

// Rows is what a cell's harmoniser asks for: committed rows.
type Rows struct {
	Revision         int64
	LRPs             []lrp.Index
	Tasks            []*task.Task
	QuarantinedLRPs  []lrp.Key
	QuarantinedTasks []string
}

// Rows returns the rows of the given indices and guids and, unless only is set,
// those that name the cell. What has no row is left out.
func (b *BBS) Rows(cell string, lrps []lrp.Key, tasks []string, only bool) Rows {
	v := b.view
	v.mu.RLock()
	defer v.mu.RUnlock()
	out := Rows{Revision: v.revision}
	keys, guids := map[lrp.Key]struct{}{}, map[string]struct{}{}
	for _, k := range lrps {
		keys[k] = struct{}{}
	}
	for _, g := range tasks {
		guids[g] = struct{}{}
	}
	if !only {
		for k := range v.byCell[cell] {
			keys[k] = struct{}{}
		}
		for g := range v.taskCells[cell] {
			guids[g] = struct{}{}
		}
	}
	for k := range keys {
		if v.isBadIndex(k) {
			out.QuarantinedLRPs = append(out.QuarantinedLRPs, k)
		} else if x, ok := v.indices[k]; ok {
			out.LRPs = append(out.LRPs, x.row)
		}
	}
	for g := range guids {
		if v.badRows[TaskRow(g)] {
			out.QuarantinedTasks = append(out.QuarantinedTasks, g)
		} else if t, ok := v.tasks[g]; ok {
			out.Tasks = append(out.Tasks, t.row)
		}
	}
	slices.SortFunc(out.LRPs, func(x, y lrp.Index) int { return x.Key.Compare(y.Key) })
	slices.SortFunc(out.QuarantinedLRPs, lrp.Key.Compare)
	slices.SortFunc(out.Tasks, func(x, y *task.Task) int { return strings.Compare(x.GUID, y.GUID) })
	slices.Sort(out.QuarantinedTasks)
	return out
}

// Names reports whether a committed row names a container, by instance or uid, as one that runs.
func (b *BBS) Names(id string) bool {
	v := b.view
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, x := range v.indices {
		for _, a := range x.row.Rows() {
			if a.Instance == id {
				return true
			}
		}
	}
	for _, t := range v.tasks {
		if t.row.UID == id {
			return t.row.State == task.Running || t.row.Ending()
		}
	}
	return false
}

// OnCell counts what runs, or was claimed, on a cell: instances, and tasks that are
// RUNNING.
func (b *BBS) OnCell(cell string) (lrps, tasks int) {
	v := b.view
	v.mu.RLock()
	defer v.mu.RUnlock()
	for k := range v.byCell[cell] {
		if _, ok := v.indices[k]; ok && !v.isBadIndex(k) {
			lrps++
		}
	}
	for g := range v.taskCells[cell] {
		if t, ok := v.tasks[g]; ok && !v.badRows[TaskRow(g)] && t.row.State == task.Running {
			tasks++
		}
	}
	return lrps, tasks
}

// OnProc counts of what OnCell counts what is with one process of the cell.
func (b *BBS) OnProc(cell, proc string) (lrps, tasks int) {
	v := b.view
	v.mu.RLock()
	defer v.mu.RUnlock()
	for k := range v.byCell[cell] {
		if x, ok := v.indices[k]; ok && slices.ContainsFunc(x.row.Rows(), func(a *lrp.Actual) bool { return a.OnProc(proc) }) {
			lrps++
		}
	}
	for g := range v.taskCells[cell] {
		if t, ok := v.tasks[g]; ok && !v.badRows[TaskRow(g)] && t.row.State == task.Running && t.row.Holder.Proc == proc {
			tasks++
		}
	}
	return lrps, tasks
}

// isBadIndex reports whether the index, or the service it belongs to, cannot be read.
func (v *view) isBadIndex(k lrp.Key) bool {
	if len(v.badRows) == 0 {
		return false
	}
	x, known := v.indices[k]
	return v.badRows[IndexRow(k)] || known && v.badRows[ServiceRow(serviceOf(x.row))]
}

// SessionChanged tells what became of the session of a cell process.
func (b *BBS) SessionChanged(e worker.SessionChanged) {
	cell, proc := string(e.Cell), string(e.Proc)
	switch {
	case e.To == worker.Healthy:
		b.CellHealthy(cell, proc)
	case e.To == worker.Unhealthy && e.From == worker.Healthy && e.WasHealthy:
		b.CellUnhealthy(cell, proc)
	case e.To == worker.MustDie:
		b.CellMustDie(cell, proc, e.Succeeded)
	}
}

// Dead tells that a process is certainly dead; holder is the process that has its cell's
// name now, if any. That one inherits what it has reported a container of, and, when it has taken
// over the folder of the dead one, its work that survives a restart.
// It returns how many tasks were lost.
func (b *BBS) Dead(e worker.Dead, holder worker.Proc) (lost int) {
	succeeds := e.Proof == worker.ProofSuccessor || e.Proof == worker.ProofBoot
	return b.procDead(string(e.Cell), string(e.Proc), string(holder), succeeds)
}

// InstancesOn counts the instances that a process has, or is to start.
func (b *BBS) InstancesOn(proc string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, k := range b.services.OnProc(proc) {
		if slices.ContainsFunc(b.services.Index(k).Rows(), func(a *lrp.Actual) bool { return a.Proc == proc }) {
			n++
		}
	}
	return n
}

// CellHealthy tells that the session of a process is HEALTHY (again).
func (b *BBS) CellHealthy(cell, proc string) {
	b.told(func(t *tx) {
		b.services.Heard(proc, t.now)
		b.tasks.Heard(proc)
		delete(b.unlisted, proc)
		t.onProc(proc, lrp.CellHealthy{Cell: cell, Proc: proc})
	})
}

// CellUnhealthy tells that a session that was HEALTHY in this term is UNHEALTHY.
func (b *BBS) CellUnhealthy(cell, proc string) {
	b.told(func(t *tx) { t.onProc(proc, lrp.CellUnhealthy{Cell: cell, Proc: proc}) })
}

// CellUnheard tells that a session that was not HEALTHY yet in this term has been silent for too long.
func (b *BBS) CellUnheard(cell, proc string) {
	b.told(func(t *tx) { t.onProc(proc, lrp.CellUnheard{Cell: cell, Proc: proc}) })
}

// CellMustDie tells that the leader has given a session up. Succeeded: a later
// process has taken its folder in the same boot: then all rows wait for ProcDead, which comes when that
// process has reported what it has of them, or when either process is given up for good.
func (b *BBS) CellMustDie(cell, proc string, succeeded bool) {
	b.told(func(t *tx) {
		if succeeded {
			b.waiting[cell] = append(b.waiting[cell], proc)
			return
		}
		for _, p := range append([]string{proc}, b.waiting[cell]...) {
			t.onProc(p, lrp.CellMustDie{Cell: cell, Proc: p})
		}
		delete(b.waiting, cell)
	})
}

// ProcDead tells that a process is certainly dead. successor is the process that
// has taken its folder over, empty when there is none or it is not known: rows of work that
// survives the restart of a cell, and of what it has reported as alive, go to it, and its
// harmoniser says whether they are true. It returns how many tasks were lost.
func (b *BBS) ProcDead(cell, proc, successor string) (lost int) {
	return b.procDead(cell, proc, successor, true)
}

func (b *BBS) procDead(cell, proc, heir string, succeeds bool) (lost int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isOver() != nil {
		return 0
	}
	t := b.begin(b.now())
	if heir != "" && heir != proc {
		t.inherit(cell, proc, heir, succeeds)
	}
	t.onProc(proc, lrp.ProcDead{Proc: proc})
	for _, g := range t.b.tasks.OnProc(proc) {
		if t.b.tasks.Get(g).State == task.Running {
			lost++
		}
		t.tryTask(g, task.ProcDead{Proc: proc})
	}
	if left := slices.DeleteFunc(b.waiting[cell], func(p string) bool { return p == proc }); len(left) > 0 {
		b.waiting[cell] = left
	} else {
		delete(b.waiting, cell)
	}
	b.services.ProcDied(proc)
	b.tasks.ProcDied(proc)
	b.submit(t, nil)
	b.converge(false)
	return lost
}

// inherit moves the rows of what the heir has reported a container of; when it succeeds the process
// on its folder also of work that its cell keeps over a restart.
func (t *tx) inherit(cell, proc, heir string, succeeds bool) {
	b := t.b
	alive := b.cfg.Sessions.Alive(heir)
	for _, k := range b.services.OnProc(proc) {
		d := b.services.Env(k, t.now).Desired
		lives := slices.ContainsFunc(b.services.Index(k).Rows(), func(a *lrp.Actual) bool { return a.Proc == proc && slices.Contains(alive, a.Instance) })
		if lives || succeeds && d != nil && d.Workload.OnCellRestart.Survives() {
			t.try(k, lrp.ProcMoved{Cell: cell, From: proc, To: heir})
		}
	}
	for _, g := range b.tasks.OnProc(proc) {
		row := b.tasks.Get(g)
		if slices.Contains(alive, row.UID) || succeeds && row.State == task.Running && row.Definition.Workload.OnCellRestart.Survives() {
			t.tryTask(g, task.Adopt{UID: row.UID, From: proc, By: task.Holder{Cell: cell, Proc: heir}})
		}
	}
}

// told decides what a change of a session means for the rows on it.
func (b *BBS) told(fn func(t *tx)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isOver() != nil {
		return
	}
	t := b.begin(b.now())
	fn(t)
	if len(t.indices)+len(t.tasks)+len(t.lrpEffects)+len(t.taskEffects) > 0 {
		b.submit(t, nil)
	}
	b.converge(false)
}

// onProc gives one event to every row of a service on a process.
func (t *tx) onProc(proc string, e lrp.Event) {
	for _, k := range t.b.services.OnProc(proc) {
		t.try(k, e)
	}
}

// try is step for events of the leader, whose failure is only worth a line.
func (t *tx) try(k lrp.Key, e lrp.Event) {
	if err := t.step(k, e); err != nil {
		t.b.cfg.Log.Warn("event refused", "index", k.String(), "event", fmt.Sprintf("%T", e), "error", err)
	}
}

func (t *tx) tryTask(guid string, e task.Event) {
	if err := t.stepTask(guid, e); err != nil {
		t.b.cfg.Log.Warn("event refused", "task", guid, "event", fmt.Sprintf("%T", e), "error", err)
	}
}

// PlacementFailed tells why no cell took an instance.
func (b *BBS) PlacementFailed(k lrp.Key, reason string) {
	b.quiet(func(t *tx) error { return t.step(k, lrp.PlacementFailed{Reason: reason}) })
}

// TaskRejected tells why no cell took a task; never means that none ever could.
func (b *BBS) TaskRejected(guid, uid, reason string, never bool) {
	b.quiet(func(t *tx) error { return t.stepTask(guid, task.Reject{UID: uid, Reason: reason, Never: never}) })
}

// TaskRefused tells why the cell that was to run a task did not take it; the
// auction goes on with it. (Diego dev notes, Task Lifecycle.)
func (b *BBS) TaskRefused(guid, uid, reason string) {
	b.quiet(func(t *tx) error {
		return t.stepTask(guid, task.Reject{UID: uid, Reason: reason, Carried: true})
	})
}

// send hands the end of a task to whoever delivers it. Until that answers the task is not demoted.
func (b *BBS) send(t *task.Task) {
	if t.State != task.Resolving {
		return // the end was replaced, or the task deleted, in the same commit
	}
	b.sending(t.Delivery(), true)
	if !b.cfg.Callbacks.Send(t) {
		b.sending(t.Delivery(), false)
	}
}

func (b *BBS) sending(d task.Delivery, on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks.Sending(d, on)
}

// Delivers reports whether a verdict on a task is still to be delivered: it is the newest, and
// the task RESOLVING.
func (b *BBS) Delivers(d task.Delivery) bool {
	row := b.view.task(d.GUID)
	return row != nil && row.State == task.Resolving && row.Delivery() == d
}

// CallbackDone tells what came of a run of attempts to deliver the end of a task.
func (b *BBS) CallbackDone(d task.Delivery, delivered bool, problem string) {
	b.quiet(func(t *tx) error {
		return t.stepTask(d.GUID, task.CallbackDone{UID: d.UID, Verdict: d.Verdict, Delivered: delivered, Error: problem})
	})
}

// quiet runs a change that nobody waits for; a refusal means that it came too late.
func (b *BBS) quiet(fn func(t *tx) error) {
	if err := b.changeLocked(fn, nil); err != nil {
		b.cfg.Log.Debug("event arrived too late", "error", err)
	}
}

// refuse tells of many at once, in one change, why no cell may be given them.
func (b *BBS) refuse(lrps []lrp.Key, tasks []TaskID, reason string) {
	b.quiet(func(t *tx) error {
		for _, k := range lrps {
			if err := t.step(k, lrp.PlacementFailed{Reason: reason}); err != nil {
				b.cfg.Log.Debug("event arrived too late", "error", err)
			}
		}
		for _, id := range tasks {
			if err := t.stepTask(id.GUID, task.Reject{UID: id.UID, Reason: reason, Carried: true}); err != nil {
				b.cfg.Log.Debug("event arrived too late", "error", err)
			}
		}
		return nil
	})
}

// Pending returns everything that waits for a place.
func (b *BBS) Pending() ([]LRPWant, []TaskWant) {
	v := b.view
	var lrps []LRPWant
	now := b.cfg.Clock.Wall()
	for _, k := range v.instancesInOrder() {
		if w, ok := v.want(k.key); ok && !now.Before(v.notBefore(k.key)) {
			lrps = append(lrps, w)
		}
	}
	var tasks []TaskWant
	for _, g := range v.tasksInOrder() {
		if t := v.task(g); t != nil && t.State == task.Pending {
			tasks = append(tasks, TaskWant{GUID: t.GUID, UID: t.UID, Domain: t.Domain, Definition: t.Definition})
		}
	}
	return lrps, tasks
}
