package leader

import (
	"errors"

	"cantina/lrp"
	"cantina/plan"
	"cantina/task"
)

// service adds how many instances of a service are unconfirmed.
func (d *unconfirmed) service(s plan.Service) plan.Service {
	for proc, n := range s.On {
		if d.of("", proc) != "" {
			s.Unconfirmed += n
		}
	}
	return s
}

// ListServices implements api.Services.
func (v view) ListServices(domain string, r plan.Range) (plan.Page[plan.Service], error) {
	if err := v.fresh(); err != nil {
		return plan.Page[plan.Service]{}, err
	}
	p, err := v.Board.ListServices(domain, r)
	return each(p, v.unconfirmed().service), err
}

// GetService implements api.Services.
func (v view) GetService(k lrp.ServiceKey) (plan.Service, error) {
	s, err := v.Board.GetService(k)
	return v.unconfirmed().service(s), errors.Join(v.fresh(), err)
}

// ListInstances implements api.Services.
func (v view) ListInstances(f plan.InstanceFilter, r plan.Range) (plan.Page[plan.Instance], error) {
	if err := v.fresh(); err != nil {
		return plan.Page[plan.Instance]{}, err
	}
	p, err := v.Board.ListInstances(f, r)
	return each(p, v.unconfirmed().instance), err
}

// InstanceOf implements api.Services.
func (v view) InstanceOf(a *lrp.Actual, revision int64) plan.Instance {
	i, newest := v.Board.InstanceOf(a, revision)
	x := v.unconfirmed().instance(i)
	if !newest {
		x.UnconfirmedReason = ""
	}
	return x
}

// TaskOf implements api.Tasks.
func (v view) TaskOf(t *task.Task, revision int64) plan.Task {
	now, err := v.Board.GetTask(t.GUID)
	if err != nil || now.Revision != revision {
		return plan.Task{Task: t, Revision: revision}
	}
	return v.unconfirmed().task(plan.Task{Task: t, Revision: revision})
}

// ListTasks implements api.Tasks.
func (v view) ListTasks(f plan.TaskFilter, r plan.Range) (plan.Page[plan.Task], error) {
	if err := v.fresh(); err != nil {
		return plan.Page[plan.Task]{}, err
	}
	p, err := v.Board.ListTasks(f, r)
	return each(p, v.unconfirmed().task), err
}

// GetTask implements api.Tasks.
func (v view) GetTask(guid string) (plan.Task, error) {
	if err := v.fresh(); err != nil {
		return plan.Task{}, err
	}
	t, err := v.Board.GetTask(guid)
	return v.unconfirmed().task(t), err
}
