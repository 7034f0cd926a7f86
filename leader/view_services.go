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
func (v boardView) ListServices(f plan.NameFilter, r plan.Range) (plan.Page[plan.Service], error) {
	if err := v.term.fresh(); err != nil {
		return plan.Page[plan.Service]{}, err
	}
	p, err := v.BBS.ListServices(f, r)
	return each(p, newUnconfirmed(v.term).service), err
}

// GetService implements api.Services.
func (v boardView) GetService(k lrp.ServiceKey) (plan.Service, error) {
	s, err := v.BBS.GetService(k)
	return newUnconfirmed(v.term).service(s), errors.Join(v.term.fresh(), err)
}

// ListInstances implements api.Services.
func (v boardView) ListInstances(f plan.InstanceFilter, r plan.Range) (plan.Page[plan.Instance], error) {
	if err := v.term.fresh(); err != nil {
		return plan.Page[plan.Instance]{}, err
	}
	p, err := v.BBS.ListInstances(f, r)
	return each(p, newUnconfirmed(v.term).instance), err
}

// InstanceOf implements api.Services.
func (v boardView) InstanceOf(a *lrp.Actual, revision int64) plan.Instance {
	i, newest := v.BBS.InstanceOf(a, revision)
	x := newUnconfirmed(v.term).instance(i)
	if !newest {
		x.UnconfirmedReason = ""
	}
	return x
}

// TaskOf implements api.Tasks.
func (v boardView) TaskOf(t *task.Task, revision int64) plan.Task {
	now, err := v.BBS.GetTask(t.GUID)
	if err != nil || now.Revision != revision {
		return plan.Task{Task: t, Revision: revision}
	}
	return newUnconfirmed(v.term).task(plan.Task{Task: t, Revision: revision})
}

// ListTasks implements api.Tasks.
func (v boardView) ListTasks(f plan.TaskFilter, r plan.Range) (plan.Page[plan.Task], error) {
	if err := v.term.fresh(); err != nil {
		return plan.Page[plan.Task]{}, err
	}
	p, err := v.BBS.ListTasks(f, r)
	return each(p, newUnconfirmed(v.term).task), err
}

// GetTask implements api.Tasks.
func (v boardView) GetTask(guid string) (plan.Task, error) {
	t, err := v.BBS.GetTask(guid)
	return newUnconfirmed(v.term).task(t), errors.Join(v.term.fresh(), err)
}
