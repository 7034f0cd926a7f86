package cell

import (
	"context"
	"errors"

	"cantina/executor"
	"cantina/task"
	"cantina/wire"
)

// taskState is the state of a container as the table for tasks tells states apart.
func taskState(c executor.Container) task.Container {
	switch c.State {
	case executor.Reserved:
		return task.Reserved
	case executor.Initializing, executor.Created, executor.Running:
		return task.Live
	case executor.Completed:
		if c.Result.NeverRan {
			return task.Unstarted
		}
		return task.Done
	}
	return task.NoContainer
}

// harmoniseTask brings one container and the row of its task together, as
// harmoniseLRP does for an instance.
func (c *Cell) harmoniseTask(ctx context.Context, id string) {
	for fresh := false; ; fresh = true {
		ct, ok := c.exec.Get(id)
		if !ok {
			return
		}
		guid := ct.Labels[labelTask]
		if fresh && !c.refresh(ctx, RowsQuery{Only: true, Tasks: []string{guid}}) {
			return
		}
		if ct, ok = c.exec.Get(id); !ok { // rows first, container second
			return
		}
		known, ok := c.known.task(guid)
		if !ok && !fresh {
			continue
		}
		v := task.View{Container: taskState(ct), Self: c.holder(), UID: ct.Labels[labelUID], Reservation: ct.ID,
			Row: known.row, Quarantined: known.quarantined, Older: c.older(ct)}
		if c.actTask(ctx, ct, v, fresh) {
			return
		}
	}
}

// actTask does what the table says and reports whether that was the last word.
func (c *Cell) actTask(ctx context.Context, ct executor.Container, v task.View, fresh bool) bool {
	a := c.taskTable(v)
	alive := ct.State != executor.Completed
	if !fresh && alive && a.Call == task.NoCall && (a.Then == task.DeleteContainer || a.Then == task.StopContainer) {
		return false
	}
	if a.Grade == task.Inconceivable {
		c.log.Error("row and container disagree", "container", ct.ID, "task", ct.Labels[labelTask], "why", a.Why)
	}
	c.noteUnknown(ct, a.Unknown, a.Why)
	fate := a.Then
	if a.Call != task.NoCall {
		err := c.taskCall(ctx, a, ct, v)
		switch {
		case err == nil:
		case taskRefused(err) && !fresh:
			return false
		case taskRefused(err):
			fate = a.Refused
		default:
			c.log.Debug("call failed", "container", ct.ID, "call", a.Call.String(), "error", err)
			c.retrySoon()
			return true
		}
	}
	switch fate {
	case task.Leave:
	case task.RunContainer:
		c.runTask(ctx, ct, v)
	case task.DeleteContainer:
		if ct.Decided && v.Row != nil && (v.Row.Ending() || v.Row.Unresolved()) {
			return true // it had ended before it was cancelled or given up: its end is to be reported
		}
		c.delete(ct.ID)
	case task.StopContainer:
		c.endReasons.first(ct.ID, a.Reason)
		c.warn("stop", ct.ID, c.exec.Stop(ct.ID))
	}
	return true
}

// older reports whether a container was started for another store than the one of the
// cell's leader, or before the age of that one.
func (c *Cell) older(ct executor.Container) bool {
	_, _, term := c.session.view()
	return ofOlder(ct.Labels, c.session.joined(), term)
}

// noteUnknown remembers, for status and for placement, that a container runs of which the
// leader's store knows nothing, and logs it once.
func (c *Cell) noteUnknown(ct executor.Container, unknown bool, why string) {
	_, known := c.unknown.get(ct.ID)
	switch {
	case !unknown && known:
		c.unknown.drop(ct.ID)
	case unknown && !known:
		c.unknown.put(ct.ID, why)
		c.log.Warn("work is not in the leader's store; leaving it alone", "container", ct.ID, "work", whatOf(ct.Labels),
			"cluster", ct.Labels[labelCluster], "remedy", "to end it: cantina cells discard "+string(c.cfg.Name))
	}
}

// runTask runs the container of a task that has been started in the store; when
// that is not possible the task has failed.
func (c *Cell) runTask(ctx context.Context, ct executor.Container, v task.View) {
	err := c.start(ct)
	if err == nil {
		return
	}
	c.log.Warn("cannot start container", "container", ct.ID, "error", err)
	result := task.Result{Failed: true, Ordered: true, Reason: task.ReasonRunFailed + ": " + why(err), ExitCode: -1}
	ev := task.Complete{UID: v.UID, By: v.Self, Result: result}
	if err := c.taskCalls.do(ctx, TaskEvent{GUID: ct.Labels[labelTask], Event: ev}); err != nil && !taskRefused(err) {
		c.log.Debug("call failed", "container", ct.ID, "call", "Complete", "error", err)
		c.retrySoon()
		return // the reservation stays: its start is tried again, and the reason is not lost
	}
	c.delete(ct.ID)
}

// taskTable picks the table: the ordinary one, or that of a cell being emptied.
func (c *Cell) taskTable(v task.View) task.Action {
	until, on := c.evacuation()
	if !on {
		return task.Harmonise(v)
	}
	return task.HarmoniseEvacuating(v, !c.cfg.Clock.Wall().Before(until))
}

// taskCall makes one call and remembers what the row is afterwards.
func (c *Cell) taskCall(ctx context.Context, a task.Action, ct executor.Container, v task.View) error {
	guid := ct.Labels[labelTask]
	running := &task.Task{GUID: guid, UID: v.UID, State: task.Running, Holder: v.Self, Reservation: v.Reservation}
	var ev task.Event
	switch a.Call {
	case task.CallStart:
		ev = task.Start{UID: v.UID, By: v.Self, Reservation: v.Reservation, Live: v.Container == task.Live}
	case task.CallAdopt:
		ev = task.Adopt{UID: v.UID, From: v.Row.Holder.Proc, By: v.Self}
	case task.CallComplete:
		ev, running = task.Complete{UID: v.UID, By: v.Self, Result: c.resultOf(ct, v.Row)}, nil
	case task.CallReject:
		ev, running = task.Reject{UID: v.UID, By: v.Self, Reason: a.Reason, Carried: true}, nil
	case task.CallMissing, task.NoCall:
		return nil
	}
	if err := c.taskCalls.do(ctx, TaskEvent{GUID: guid, Event: ev}); err != nil {
		return err
	}
	if running != nil {
		c.known.setTask(guid, running)
	} else {
		c.known.forgetTask(guid)
	}
	return nil
}

// resultOf is how a task's container ended: when the cell has stopped it, why. The result
// file is read whether it failed or not.
func (c *Cell) resultOf(ct executor.Container, row *task.Task) task.Result {
	r := ct.Result
	out := task.Result{Failed: r.Failed, Cancelled: r.Stopped, Reason: r.Reason, ExitCode: r.ExitCode, Signal: r.Signal,
		Ordered: r.Stopped || r.Expired || r.Lost, OOM: r.OOM != nil, OutputLost: r.OutputLost, Started: r.Started, Ended: r.Ended}
	reason, ok := c.endReasons.get(ct.ID)
	if !ok && ct.Adopted && (row == nil || !row.Ending()) {
		reason, ok = reasonEarlier, true // it knew why
	}
	if ok && r.Stopped {
		out.Failed, out.Cancelled, out.Reason = true, false, reason
		return out
	}
	text, err := c.exec.ResultFile(ct.ID)
	switch {
	case err == nil:
		out.Output = text
	case !out.Failed && !out.Cancelled:
		out.Failed, out.Reason = true, task.ReasonResult+": "+why(err)
	}
	return out
}

// residualTask deals with a row that names this cell and has no container.
func (c *Cell) residualTask(ctx context.Context, t *task.Task) {
	if t.Holder.Cell != string(c.cfg.Name) {
		return
	}
	if c.has(taskContainer(t.UID)) {
		c.residual.drop(t.UID)
		return
	}
	v := task.View{Container: task.NoContainer, Self: c.holder(), UID: t.UID, Row: t}
	a := c.taskTable(v)
	if a.Call != task.CallMissing {
		return
	}
	if c.residual.changed(t.UID, t.Holder.Proc) {
		c.log.Info("row without a container", "task", t.GUID, "why", a.Why)
	}
	ev := TaskEvent{GUID: t.GUID, Event: task.Missing{UID: t.UID, By: c.holder()}}
	if err := c.taskCalls.do(ctx, ev); err != nil && !taskRefused(err) {
		c.log.Debug("call failed", "task", t.GUID, "call", "Missing", "error", err)
		c.retrySoon()
	}
}

// taskRefused reports whether the leader refused a call for good.
func taskRefused(err error) bool {
	for _, no := range []error{task.ErrNotFound, task.ErrInvalidStateTransition, task.ErrRunningOnDifferentCell, task.ErrOtherUID, wire.ErrRefused} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}
