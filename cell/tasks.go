package cell

import (
	"context"
	"errors"

	"cantina/executor"
	"cantina/task"
	"cantina/wire"
	"cantina/worker"
)

// taskState is the state of a container as the table for tasks distinguishes states.
func taskState(c *executor.Container) task.Container {
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
func (h *harmoniser) harmoniseTask(ctx context.Context, id string) {
	for fresh := false; ; fresh = true {
		labels, _, ok := h.containers.brief(id)
		if !ok {
			return
		}
		guid := labels[labelTask]
		if fresh && !h.refresh(ctx, RowsQuery{Only: true, Tasks: []string{guid}}) {
			return
		}
		ct, ok := h.exec.Get(id)
		if !ok { // rows first, container second
			return
		}
		known, ok := h.known.task(guid)
		if !ok && !fresh {
			continue
		}
		v := task.View{Container: taskState(&ct), Self: h.holder(), UID: ct.Labels[labelUID], Reservation: ct.ID,
			Row: known.row, Quarantined: known.quarantined, Older: h.older(&ct)}
		if h.actTask(ctx, &ct, &v, fresh) {
			return
		}
	}
}

// actTask performs the action of the table and reports whether it was the last one.
func (h *harmoniser) actTask(ctx context.Context, ct *executor.Container, v *task.View, fresh bool) bool {
	a := h.taskTable(v)
	alive := ct.State != executor.Completed
	if !fresh && alive && a.Call == task.NoCall && (a.Then == task.DeleteContainer || a.Then == task.StopContainer) {
		return false
	}
	if a.Grade == task.Inconceivable {
		h.log.Error("row and container disagree", "container", ct.ID, "task", ct.Labels[labelTask], "why", a.Why)
	}
	h.noteUnknown(ct, a.Unknown, a.Why)
	fate := a.Then
	if a.Call != task.NoCall {
		err := h.taskCall(ctx, a, ct, v)
		switch {
		case err == nil:
		case taskRefused(err) && !fresh:
			return false
		case taskRefused(err):
			fate = a.Refused
		default:
			h.log.Debug("call failed", "container", ct.ID, "call", a.Call.String(), "error", err)
			h.polls.retrySoon()
			return true
		}
	}
	switch fate {
	case task.Leave:
	case task.RunContainer:
		h.runTask(ctx, ct, v)
	case task.DeleteContainer:
		if ct.Decided && v.Row != nil && (v.Row.Ending() || v.Row.Unresolved()) {
			return true // it had ended before it was cancelled or given up: its end is to be reported
		}
		h.containers.delete(ct.ID)
	case task.StopContainer:
		h.containers.endReasons.first(ct.ID, a.Reason)
		h.containers.warn("stop", ct.ID, h.exec.Stop(ct.ID))
	}
	return true
}

// older reports whether a container was started for another store than the one of the
// cell's leader, or before the age of that one.
func (h *harmoniser) older(ct *executor.Container) bool {
	_, _, term := h.session.view()
	return ofOlder(ct.Labels, h.session.joined(), term)
}

// noteUnknown records, for status and for placement, that a container runs work that the leader's
// store does not contain, and logs it once.
func (h *harmoniser) noteUnknown(ct *executor.Container, unknown bool, why string) {
	_, known := h.containers.unknown.get(ct.ID)
	switch {
	case !unknown && known:
		h.containers.unknown.drop(ct.ID)
	case unknown && !known:
		h.containers.unknown.put(ct.ID, why)
		h.log.Warn("work is not in the leader's store; leaving it alone", "container", ct.ID, "work", whatOf(ct.Labels),
			"cluster", ct.Labels[labelCluster], "remedy", "to end it: cantina cells discard "+string(h.cfg.Name))
	}
}

// runTask runs the container of a task that has been started in the store; when
// that is not possible the task has failed.
func (h *harmoniser) runTask(ctx context.Context, ct *executor.Container, v *task.View) {
	err := h.containers.start(ct)
	if err == nil {
		return
	}
	h.log.Warn("cannot start container", "container", ct.ID, "error", err)
	result := task.Result{Failed: true, Ordered: true, Reason: task.ReasonRunFailed + ": " + why(err), ExitCode: -1}
	ev := task.Complete{UID: v.UID, By: v.Self, Result: result}
	if err := h.taskCalls.do(ctx, TaskEvent{GUID: ct.Labels[labelTask], Event: ev}); err != nil && !taskRefused(err) {
		h.log.Debug("call failed", "container", ct.ID, "call", "Complete", "error", err)
		h.polls.retrySoon()
		return // the reservation stays: its start is tried again, and the reason is not lost
	}
	h.containers.delete(ct.ID)
}

// taskTable picks the table: the ordinary one, or that of a cell being emptied.
func (h *harmoniser) taskTable(v *task.View) task.Action {
	until, on := h.drain.drainState()
	if !on {
		return task.Harmonise(*v)
	}
	return task.HarmoniseEvacuating(*v, !h.cfg.Clock.Wall().Before(until))
}

// taskCall makes one call and remembers the resulting row.
func (h *harmoniser) taskCall(ctx context.Context, a task.Action, ct *executor.Container, v *task.View) error {
	guid := ct.Labels[labelTask]
	running := &task.Task{GUID: guid, UID: v.UID, State: task.Running, Holder: v.Self, Reservation: v.Reservation}
	var ev task.Event
	switch a.Call {
	case task.CallStart:
		ev = task.Start{UID: v.UID, By: v.Self, Reservation: v.Reservation, Live: v.Container == task.Live}
	case task.CallAdopt:
		ev = task.Adopt{UID: v.UID, From: v.Row.Holder.Proc, By: v.Self}
	case task.CallComplete:
		ev, running = task.Complete{UID: v.UID, By: v.Self, Result: h.resultOf(ct, v.Row)}, nil
	case task.CallReject:
		ev, running = task.Reject{UID: v.UID, By: v.Self, Reason: a.Reason, Carried: true}, nil
	case task.CallMissing, task.NoCall:
		return nil
	}
	if err := h.taskCalls.do(ctx, TaskEvent{GUID: guid, Event: ev}); err != nil {
		return err
	}
	if running != nil {
		h.known.setTask(guid, running)
	} else {
		h.known.forgetTask(guid)
	}
	return nil
}

// resultOf is how a task's container ended: when the cell has stopped it, why. The result
// file is read whether it failed or not.
func (h *harmoniser) resultOf(ct *executor.Container, row *task.Task) task.Result {
	r := ct.Result
	out := task.Result{Failed: r.Failed, Cancelled: r.Stopped, Reason: r.Reason, ExitCode: r.ExitCode, Signal: r.Signal,
		Ordered: r.Stopped || r.Expired || r.Lost, Lost: r.Lost, OOM: r.OOM != nil, OutputLost: r.OutputLost,
		Started: r.Started, Ended: r.Ended}
	reason, ok := h.containers.endReasons.get(ct.ID)
	if !ok && ct.Adopted && (row == nil || !row.Ending()) {
		reason, ok = reasonEarlier, true // it knew why
	}
	if ok && r.Stopped {
		out.Failed, out.Cancelled, out.Reason = true, false, reason
		return out
	}
	text, err := h.exec.ResultFile(ct.ID)
	switch {
	case err == nil:
		out.Output = text
	case !out.Failed && !out.Cancelled:
		out.Failed, out.Reason = true, task.ReasonResult+": "+why(err)
	}
	return out
}

// residualTask deals with a row that names this cell and has no container.
func (h *harmoniser) residualTask(ctx context.Context, t *task.Task) {
	if t.Holder.Cell != string(h.cfg.Name) {
		return
	}
	if h.containers.has(TaskContainer(t.UID)) {
		h.residual.drop(t.UID)
		return
	}
	v := task.View{Container: task.NoContainer, Self: h.holder(), UID: t.UID, Row: t,
		Earlier: h.session.isEarlier(worker.Proc(t.Holder.Proc)) && !h.containers.nameless()}
	a := h.taskTable(&v)
	if a.Call != task.CallMissing {
		return
	}
	if h.residual.changed(t.UID, t.Holder.Proc) {
		h.log.Info("no container for a row of the store; reporting that to the leader", "task", t.GUID, "why", a.Why)
	}
	ev := TaskEvent{GUID: t.GUID, Event: task.Missing{UID: t.UID, By: h.holder()}}
	if err := h.taskCalls.do(ctx, ev); err != nil && !taskRefused(err) {
		h.log.Debug("call failed", "task", t.GUID, "call", "Missing", "error", err)
		h.polls.retrySoon()
	}
}

// taskRefused reports whether the leader's refusal of a call is final.
func taskRefused(err error) bool {
	for _, no := range []error{task.ErrNotFound, task.ErrInvalidStateTransition, task.ErrRunningOnDifferentCell,
		task.ErrOtherUID, wire.ErrRefused} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}
