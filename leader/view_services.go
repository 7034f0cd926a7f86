package leader

import (
	"context"
	"errors"

	"cantina/api"
	"cantina/bbs"
	"cantina/lrp"
	"cantina/task"
)

func toService(s bbs.Service) api.Service {
	return api.Service{Service: s.Service, Running: s.Running, Routable: s.Routable, Stopping: s.Stopping, Crashed: s.Crashed, Revision: s.Revision}
}

// service adds how many instances of a service have a doubt.
func (d *doubts) service(s bbs.Service) api.Service {
	x := toService(s)
	for proc, n := range s.On {
		if d.of("", proc) != "" {
			x.Unconfirmed += n
		}
	}
	return x
}

// ListServices implements api.Services.
func (v view) ListServices(domain string, r api.Range) (api.Listed[api.Service], error) {
	if err := v.fresh(); err != nil {
		return api.Listed[api.Service]{}, err
	}
	p, err := v.Board.ListServices(domain, fromRange(r))
	return listed(p, v.doubts().service), err
}

// GetService implements api.Services.
func (v view) GetService(k lrp.ServiceKey) (api.Service, error) {
	s, err := v.Board.GetService(k)
	return v.doubts().service(s), errors.Join(v.fresh(), err)
}

// ListInstances implements api.Services.
func (v view) ListInstances(f api.InstanceFilter, r api.Range) (api.Listed[api.Instance], error) {
	if err := v.fresh(); err != nil {
		return api.Listed[api.Instance]{}, err
	}
	p, err := v.Board.ListInstances(bbs.InstanceFilter(f), fromRange(r))
	return listed(p, v.doubts().instance), err
}

// InstanceOf implements api.Services.
func (v view) InstanceOf(a *lrp.Actual, revision int64) api.Instance {
	i, newest := v.Board.InstanceOf(a, revision)
	x := v.doubts().instance(i)
	if !newest {
		x.Doubt = ""
	}
	return x
}

// TaskOf implements api.Tasks.
func (v view) TaskOf(t *task.Task, revision int64) api.Task {
	now, err := v.Board.GetTask(t.GUID)
	if err != nil || now.Revision != revision {
		return api.Task{Task: t, Revision: revision}
	}
	return v.doubts().task(bbs.Task{Task: t, Revision: revision})
}

// ScaleService implements api.Services.
func (v view) ScaleService(ctx context.Context, k lrp.ServiceKey, instances int, w api.Write) (api.Service, error) {
	s, err := v.Board.ScaleService(ctx, k, instances, toWrite(w))
	return toService(s), err
}

// RemoveService implements api.Services.
func (v view) RemoveService(ctx context.Context, k lrp.ServiceKey, w api.Write) (api.Service, error) {
	s, err := v.Board.RemoveService(ctx, k, toWrite(w))
	return toService(s), err
}

// RestartService implements api.Services.
func (v view) RestartService(ctx context.Context, k lrp.ServiceKey, w api.Write) (int, error) {
	return v.Board.RestartService(ctx, k, toWrite(w))
}

// RetireInstances implements api.Services.
func (v view) RetireInstances(ctx context.Context, k lrp.ServiceKey, indices []int, w api.Write) (int, error) {
	return v.Board.RetireInstances(ctx, k, indices, toWrite(w))
}

func toTask(t bbs.Task) api.Task { return api.Task{Task: t.Task, Revision: t.Revision} }

// ListTasks implements api.Tasks.
func (v view) ListTasks(f api.TaskFilter, r api.Range) (api.Listed[api.Task], error) {
	if err := v.fresh(); err != nil {
		return api.Listed[api.Task]{}, err
	}
	p, err := v.Board.ListTasks(bbs.TaskFilter(f), fromRange(r))
	return listed(p, v.doubts().task), err
}

// GetTask implements api.Tasks.
func (v view) GetTask(guid string) (api.Task, error) {
	if err := v.fresh(); err != nil {
		return api.Task{}, err
	}
	t, err := v.Board.GetTask(guid)
	return v.doubts().task(t), err
}

// DesireTask implements api.Tasks.
func (v view) DesireTask(ctx context.Context, n api.NewTask, w api.Write) (api.Task, error) {
	t, err := v.Board.DesireTask(ctx, bbs.NewTask(n), toWrite(w))
	return toTask(t), err
}

// CancelTask implements api.Tasks.
func (v view) CancelTask(ctx context.Context, guid string, w api.Write) (api.Task, error) {
	t, err := v.Board.CancelTask(ctx, guid, toWrite(w))
	return toTask(t), err
}

// DeleteTask implements api.Tasks.
func (v view) DeleteTask(ctx context.Context, guid string, w api.Write) error {
	return v.Board.DeleteTask(ctx, guid, toWrite(w))
}

// SettleTask implements api.Tasks.
func (v view) SettleTask(ctx context.Context, guid string, as task.Resolution, w api.Write) (api.Task, error) {
	t, err := v.Board.SettleTask(ctx, guid, as, toWrite(w))
	return toTask(t), err
}
