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

// processes handles the reports of cells about their containers, and changes the rows of a cell
// process when its session changes or it dies.
type processes struct {
	*rows
	unlisted map[string]bool // that rows name and a list that may be wrong does not
	// waiting has, for each cell name, the given-up processes whose rows of work that survives a
	// restart are kept until a successor has reported.
	waiting map[string][]string
}

// LRPEvents gives each event of a cell's harmoniser to its index and returns one
// answer for each, after the commit: nil, or the error of lrp.Step. The cell and
// process in the events must be the caller's session; the registry has checked it.
// The second error means that the outcome of all is unknown.
func (ps *processes) LRPEvents(ctx context.Context, calls []wire.LRPCall) ([]error, error) {
	answers := make([]error, len(calls))
	_, err := ps.change(ctx, func(t *tx) error {
		for i, c := range calls {
			answers[i] = t.step(c.Key, c.Event)
		}
		return nil
	})
	return answers, err
}

// TaskEvents does the same for events of tasks.
func (ps *processes) TaskEvents(ctx context.Context, calls []wire.TaskCall) ([]error, error) {
	answers := make([]error, len(calls))
	_, err := ps.change(ctx, func(t *tx) error {
		for i, c := range calls {
			answers[i] = t.stepTask(c.GUID, c.Event)
		}
		return nil
	})
	return answers, err
}

// Rows is the answer to a cell's harmoniser: committed rows.
type Rows struct {
	Revision         int64
	LRPs             []lrp.Index
	Tasks            []*task.Task
	QuarantinedLRPs  []lrp.Key
	QuarantinedTasks []string
}

// Rows returns the rows of the given indices and guids and, unless only is set, those that name
// the cell. Missing rows are left out.
func (q *queries) Rows(cell string, lrps []lrp.Key, tasks []string, only bool) Rows {
	v := q.view
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
func (q *queries) Names(id string) bool {
	v := q.view
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

// OnCell counts the running or claimed work on a cell: instances, and RUNNING tasks.
func (q *queries) OnCell(cell string) (lrps, tasks int) {
	v := q.view
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

// OnProc is the part of OnCell that is on one process of the cell.
func (q *queries) OnProc(cell, proc string) (lrps, tasks int) {
	v := q.view
	v.mu.RLock()
	defer v.mu.RUnlock()
	for k := range v.byCell[cell] {
		if x, ok := v.indices[k]; ok && slices.ContainsFunc(x.row.Rows(),
			func(a *lrp.Actual) bool { return a.OnProc(proc) }) {
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

// SessionChanged handles a change of the session of a cell process.
func (ps *processes) SessionChanged(e worker.SessionChanged) {
	cell, proc := string(e.Cell), string(e.Proc)
	switch {
	case e.To == worker.Healthy:
		ps.CellHealthy(cell, proc)
	case e.To == worker.Unhealthy && e.From == worker.New:
		ps.reported(cell, proc)
	case e.To == worker.Unhealthy && e.From == worker.Healthy && e.WasHealthy:
		ps.CellUnhealthy(cell, proc)
	case e.To == worker.MustDie:
		ps.CellMustDie(cell, proc, e.Succeeded)
	}
}

// Dead handles the certain death of a process. holder is the process that now has its cell's name,
// if any. It takes over work that it has reported a container of. If it has taken over the
// directory of the dead process, it also takes over work that survives a restart. Dead returns the
// number of lost tasks.
func (ps *processes) Dead(e worker.Dead, holder worker.Proc) (lost int) {
	succeeds := e.Proof == worker.ProofSuccessor || e.Proof == worker.ProofBoot
	return ps.procDead(string(e.Cell), string(e.Proc), string(holder), succeeds)
}

// InstancesOn counts the instances that a process has, or is to start.
func (ps *processes) InstancesOn(proc string) int {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	n := 0
	for _, k := range ps.services.OnProc(proc) {
		if slices.ContainsFunc(ps.services.Index(k).Rows(), func(a *lrp.Actual) bool { return a.Proc == proc }) {
			n++
		}
	}
	return n
}

// CellHealthy: the session of a process is HEALTHY (again).
func (ps *processes) CellHealthy(cell, proc string) {
	ps.onSession(func(t *tx) {
		ps.services.Heard(proc, t.now)
		ps.tasks.Heard(proc)
		delete(ps.unlisted, proc)
		t.onProc(proc, lrp.CellHealthy{Cell: cell, Proc: proc})
	})
}

// CellUnhealthy: a session that was HEALTHY in this term is UNHEALTHY.
func (ps *processes) CellUnhealthy(cell, proc string) {
	ps.onSession(func(t *tx) { t.onProc(proc, lrp.CellUnhealthy{Cell: cell, Proc: proc}) })
}

// reported: a process has reported the containers that it has. Work that must not run twice gets
// the rows of those, since a store that went back may have it as waiting, or with another instance.
// As long as another that was reported has the row, a container is remembered beside it.
func (ps *processes) reported(cell, proc string) {
	alive := ps.cfg.Sessions.Alive(proc)
	stale := ps.cfg.Sessions.Stale()
	ps.onSession(func(t *tx) {
		ps.services.Reported.Keep(proc, func(_ lrp.Key, instance string) bool { return names(alive, instance) })
		for _, a := range alive {
			by := lrp.Identity{Instance: a.ID, Cell: cell, Proc: proc}
			switch k := (lrp.Key{Process: a.Process, Index: a.Index}); {
			case k.Process != "":
				ps.services.Reported.Add(ps.services.Index(k), by)
				service := lrp.ServiceKey{Domain: a.Domain, Name: a.Service}
				t.try(k, lrp.Found{By: by, Service: service, Stale: stale && !ps.confirmed(k)})
			case a.Task != "":
				t.foundTask(a, task.Found{UID: a.ID, Bound: a.Bound, By: task.Holder{Cell: cell, Proc: proc}})
			}
		}
	})
}

// Lists handles the list of all indices and tasks whose containers a process has: a reported
// container that is not there any more is gone. Its end is not reported if it was being deleted
// before the report.
func (ps *processes) Lists(proc string, lrps []lrp.Key, guids []string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.services.Reported.Keep(proc, func(k lrp.Key, _ string) bool { return slices.Contains(lrps, k) })
	ps.tasks.Reported.Keep(proc, guids)
	if t := ps.begin(ps.now()); !t.empty() && ps.isOver() == nil {
		ps.submit(t, nil)
	}
}

// confirmed reports whether the process in an index's row has reported the instance there.
func (ps *processes) confirmed(k lrp.Key) bool {
	o := ps.services.Index(k).Ordinary
	return o != nil && names(ps.cfg.Sessions.Alive(o.Proc), o.Instance)
}

// foundTask gives a task its container if it is PENDING, also if it was made again in a restored
// store, or if it is marked as one that may still run. A container of which the store has no task is remembered.
func (t *tx) foundTask(a worker.Alive, f task.Found) {
	row := t.b.tasks.Get(a.Task)
	switch {
	case row != nil && (row.State == task.Pending && (row.UID == a.ID || a.Older) ||
		row.MayStillRun && row.UID == a.ID):
		t.tryTask(a.Task, f)
	case a.Older && row == nil && t.foundApplied(a.Task, f):
	case a.Older && (row == nil || row.UID != a.ID):
		t.b.tasks.Reported.Add(a.Task, f)
	}
}

// foundApplied makes the row of a run of a task of a spec file: the store went back, the file was
// applied again, and the task waits under an earlier number than the run that a cell has reported.
// The waiting one is cancelled.
func (t *tx) foundApplied(guid string, f task.Found) bool {
	base := task.AppliedBase(guid)
	for i, c := range base {
		if c != '.' {
			continue
		}
		key := appliedRow(base[:i], base[i+1:])
		last, ok := t.b.applied[key]
		row := t.b.tasks.Get(last.guid)
		if !ok || row == nil || row.State != task.Pending || !t.b.free(guid) || t.b.leftOut(key) ||
			t.b.leftOut(TaskRow(row.GUID)) {
			continue
		}
		t.b.tasks.Reported.Add(guid, f)
		err := t.desire(task.Task{GUID: guid, UID: f.UID, Domain: row.Domain, Name: row.Name, Definition: row.Definition})
		if err != nil {
			t.b.cfg.Log.Warn("cannot take over a reported task", "task", guid, "error", err)
			return false
		}
		t.setApplied(row.Domain, row.Name, guid, []byte(last.digest))
		t.tryTask(row.GUID, task.Cancel{})
		return true
	}
	return false
}

// forgetReported forgets a reported container that has no row, until the change is undone.
func (t *tx) forgetReported(guid string) (f task.Found, ok bool) {
	all := &t.b.tasks.Reported
	if f, ok = all.Get(guid); ok {
		all.Remove(guid)
		t.undo = append(t.undo, func() { all.Add(guid, f) })
	}
	return f, ok
}

// CellUnheard: a session that was not HEALTHY yet in this term has been silent for too long.
func (ps *processes) CellUnheard(cell, proc string) {
	ps.onSession(func(t *tx) { t.onProc(proc, lrp.CellUnheard{Cell: cell, Proc: proc}) })
}

// CellMustDie: the leader has given a session up. Succeeded: a later process has taken its
// directory in the same boot. Then all rows wait for ProcDead, which follows when that process has
// reported its part of them, or when either process is given up permanently.
func (ps *processes) CellMustDie(cell, proc string, succeeded bool) {
	ps.onSession(func(t *tx) {
		if succeeded {
			ps.waiting[cell] = append(ps.waiting[cell], proc)
			return
		}
		for _, p := range append([]string{proc}, ps.waiting[cell]...) {
			t.onProc(p, lrp.CellMustDie{Cell: cell, Proc: p})
		}
		delete(ps.waiting, cell)
	})
}

// ProcDead: a process is certainly dead. successor is the process that has taken over its
// directory, empty if there is none or it is unknown. Rows of work that survives the restart of a
// cell, and of work that it has reported as alive, move to it, and its harmoniser confirms them.
// It returns the number of lost tasks.
func (ps *processes) ProcDead(cell, proc, successor string) (lost int) {
	return ps.procDead(cell, proc, successor, true)
}

func (ps *processes) procDead(cell, proc, successor string, succeeds bool) (lost int) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.isOver() != nil {
		return 0
	}
	t := ps.begin(ps.now())
	if successor != "" && successor != proc {
		t.handOver(cell, proc, successor, succeeds)
	}
	ps.services.Reported.Drop(proc) // before its rows are free: they would go to its containers
	t.onProc(proc, lrp.ProcDead{Proc: proc})
	for _, g := range t.b.tasks.OnProc(proc) {
		if t.b.tasks.Get(g).State == task.Running {
			lost++
		}
		t.tryTask(g, task.ProcDead{Proc: proc})
	}
	if left := slices.DeleteFunc(ps.waiting[cell], func(p string) bool { return p == proc }); len(left) > 0 {
		ps.waiting[cell] = left
	} else {
		delete(ps.waiting, cell)
	}
	ps.services.ProcDied(proc)
	ps.tasks.ProcDied(proc)
	ps.submit(t, nil)
	ps.converge(false)
	return lost
}

// handOver moves the rows of work that the successor has reported a container of. If it succeeds
// the process on its directory, it also moves work that its cell keeps over a restart.
func (t *tx) handOver(cell, proc, successor string, succeeds bool) {
	b := t.b
	alive := b.cfg.Sessions.Alive(successor)
	for _, k := range b.services.OnProc(proc) {
		d := b.services.Env(k, t.now).Desired
		lives := slices.ContainsFunc(b.services.Index(k).Rows(), func(a *lrp.Actual) bool {
			return a.Proc == proc && names(alive, a.Instance)
		})
		if lives || succeeds && d != nil && d.Workload.OnCellRestart.Survives() {
			t.try(k, lrp.ProcMoved{Cell: cell, From: proc, To: successor})
		}
	}
	for _, g := range b.tasks.OnProc(proc) {
		row := b.tasks.Get(g)
		if names(alive, row.UID) ||
			succeeds && row.State == task.Running && row.Definition.Workload.OnCellRestart.Survives() {
			t.tryTask(g, task.Adopt{UID: row.UID, From: proc, By: task.Holder{Cell: cell, Proc: successor}})
		}
	}
}

// names reports whether one of the containers has the id.
func names(alive []worker.Alive, id string) bool {
	return slices.ContainsFunc(alive, func(a worker.Alive) bool { return a.ID == id })
}

// onProc gives one event to every row of a service on a process.
func (t *tx) onProc(proc string, e lrp.Event) {
	for _, k := range t.b.services.OnProc(proc) {
		t.try(k, e)
	}
}

// try is step for events of the leader whose failure is only logged.
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
