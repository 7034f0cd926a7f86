package api

import (
	"context"
	"errors"
	"fmt"

	"cantina/fault"
	"cantina/internal/text"
	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
	pb "cantina/wire/cantinav1"
)

// ListTasks lists tasks by id.
func (c taskCalls) ListTasks(_ context.Context, q *request[pb.ListTasksRequest]) (*response[pb.ListTasksResponse],
	error) {
	states, err := taskStates(q.Msg.State)
	if err != nil {
		return nil, err
	}
	outcomes, err := taskOutcomes(q.Msg.Outcome)
	if err != nil {
		return nil, err
	}
	labels, err := selector(q.Msg.Selector)
	if err != nil {
		return nil, err
	}
	all, where, err := list(c.Server, q.Msg.Page, func(b *Backend, r plan.Range) (plan.Page[plan.Task], error) {
		return b.Tasks.ListTasks(plan.TaskFilter{Domain: q.Msg.Domain, Name: q.Msg.Name, Cell: q.Msg.Cell, States: states,
			Outcomes: outcomes, Labels: labels}, r)
	}, func(t *plan.Task) *pb.Task { return planTask(t, false) })
	return answer(&pb.ListTasksResponse{Tasks: all, Listing: where}, err)
}

// planTask puts a task on the wire; nil when there is none, beside an error.
func planTask(t *plan.Task, whole bool) *pb.Task {
	if t.Task == nil {
		return nil
	}
	m := taskMessage(t.Task, t.Revision, whole)
	m.Ending = t.BeingEnded
	m.UnconfirmedReason, m.Condition = text.Clean(t.UnconfirmedReason), text.Clean(t.Condition)
	return m
}

func taskStates(names []string) ([]task.State, error) {
	return named("state", names, task.Pending, task.Resolving)
}

func taskOutcomes(names []string) ([]task.Outcome, error) {
	return named("outcome", names, task.Succeeded, task.Lost)
}

// GetTask returns a task with its result and definition.
func (c taskCalls) GetTask(_ context.Context, q *request[pb.GetTaskRequest]) (*response[pb.GetTaskResponse], error) {
	return get(c.Server, func(b *Backend) (plan.Task, error) { return b.Tasks.GetTask(q.Msg.Id) },
		func(t *plan.Task, at string) *pb.GetTaskResponse {
			return &pb.GetTaskResponse{Task: planTask(t, true), Position: at}
		})
}

// RunTask submits a task.
func (c taskCalls) RunTask(ctx context.Context, q *request[pb.RunTaskRequest]) (*response[pb.RunTaskResponse], error) {
	begin := c.begin()
	d, err := toDefinition(q.Msg.Definition)
	if err != nil {
		return nil, err
	}
	n := plan.NewTask{GUID: q.Msg.Id, Domain: orDefault(q.Msg.Domain), Name: q.Msg.Name, Definition: d}
	for field, name := range map[string]string{"id": n.GUID, "domain": n.Domain, "name": n.Name} {
		if name != "" && !lrp.ValidName(name) {
			return nil, invalid(field, lrp.NameRule)
		}
	}
	if len(d.Annotation) > lrp.MaxAnnotation {
		return nil, invalid("definition.annotation", "longer than 10 KiB")
	}
	var t plan.Task
	err = write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) (err error) {
		asked := c.begin()
		t, err = b.Tasks.DesireTask(ctx, n, w)
		c.traced(&t, StepCommit, asked, err)
		return err
	})
	c.traced(&t, StepCall, begin, err)
	return answer(&pb.RunTaskResponse{Task: planTask(&t, true)}, err)
}

// CancelTask ends a task.
func (c taskCalls) CancelTask(ctx context.Context,
	q *request[pb.CancelOneTaskRequest]) (*response[pb.CancelOneTaskResponse], error) {
	var t plan.Task
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) (err error) {
		t, err = b.Tasks.CancelTask(ctx, q.Msg.Id, w)
		return inWords(b, q.Msg.Id, err)
	})
	return answer(&pb.CancelOneTaskResponse{Task: planTask(&t, false)}, err)
}

// DeleteTask removes a task that has ended.
func (c taskCalls) DeleteTask(ctx context.Context, q *request[pb.DeleteTaskRequest]) (*response[pb.DeleteTaskResponse],
	error) {
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) error {
		return inWords(b, q.Msg.Id, b.Tasks.DeleteTask(ctx, q.Msg.Id, w))
	})
	return answer(&pb.DeleteTaskResponse{}, err)
}

// inWords names the state of a task that refused a request, instead of the refused step.
func inWords(b *Backend, id string, err error) error {
	if errors.Is(err, task.ErrSameName) {
		return &FieldError{Err: err, Hint: "stop that task, or wait until it has ended"}
	}
	if !errors.Is(err, task.ErrInvalidStateTransition) && !errors.Is(err, task.ErrEnding) &&
		!errors.Is(err, task.ErrMayStillRun) {
		return err
	}
	t, gone := b.Tasks.GetTask(id)
	switch {
	case gone != nil:
		return err
	case errors.Is(err, task.ErrMayStillRun):
		return &FieldError{
			Err: fault.As(fmt.Errorf("task %s may still run on cell %s, which has not reported it since it was lost",
				id, t.Holder.Cell), err),
			Hint: "wait until the cell is back; or, if the container is certainly gone, add --accept-double-starts"}
	case errors.Is(err, task.ErrEnding) && t.MayStillRun:
		return &FieldError{
			Err: fault.As(fmt.Errorf("task %s was cancelled, but may still run on cell %s, which has not reported since", id,
				t.Holder.Cell), err),
			Hint: "wait until the cell is back; or, if the container is certainly gone: cantina task resolve " + id +
				" --as failed --accept-double-starts"}
	case errors.Is(err, task.ErrEnding):
		return fault.As(fmt.Errorf("task %s was cancelled, but its container on cell %s may still run; "+
			"the task is kept until the container is gone", id, t.Holder.Cell), err)
	case t.Outcome == task.Lost && t.Resolution != task.Unresolved:
		return fault.As(fmt.Errorf("task %s is already resolved as %s", id, t.Resolution), err)
	case t.Ended():
		return fault.As(fmt.Errorf("task %s has already ended: %s", id, t.Outcome), err)
	}
	return &FieldError{Err: fault.As(fmt.Errorf("task %s has not ended: it is %s", id, t.State), err),
		Hint: "stop it, or wait until it has ended"}
}

// ResolveTask records a person's decision about a lost task.
func (c taskCalls) ResolveTask(ctx context.Context,
	q *request[pb.ResolveTaskRequest]) (*response[pb.ResolveTaskResponse], error) {
	var as task.Resolution
	switch q.Msg.As {
	case "done":
		as = task.ResolvedDone
	case "failed":
		as = task.ResolvedFailed
	case "rerun":
		as = task.ResolvedRerun
	default:
		return nil, invalid("as", "must be done, failed or rerun")
	}
	var t plan.Task
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) (err error) {
		t, err = b.Tasks.ResolveTask(ctx, q.Msg.Id, as, q.Msg.AcceptDoubleStarts, w)
		return inWords(b, q.Msg.Id, err)
	})
	return answer(&pb.ResolveTaskResponse{Task: planTask(&t, false)}, err)
}

// RerunTask starts an ended task once more, as a new task.
func (c taskCalls) RerunTask(ctx context.Context, q *request[pb.RerunTaskRequest]) (*response[pb.RerunTaskResponse],
	error) {
	var t plan.Task
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) (err error) {
		t, err = b.Tasks.RerunTask(ctx, q.Msg.Id, w)
		return inWords(b, q.Msg.Id, err)
	})
	return answer(&pb.RerunTaskResponse{Task: planTask(&t, true)}, err)
}
