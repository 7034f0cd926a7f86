// Package apitest has an in-memory leader for tests of the API and of the CLI. No work runs: a
// test changes the state of a task, an instance or a cell. The fake commits it with revisions,
// events and idempotency keys like the real leader. Only tests may import it.
package apitest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"cantina/api"
	"cantina/event"
	"cantina/fault"
	"cantina/fence"
	"cantina/lrp"
	"cantina/plan"
	"cantina/schedule"
	"cantina/task"
)

// Fake is the leader. Its exported methods besides those of api's interfaces change the state.
type Fake struct {
	Logs *Logs
	// Containers run programs.
	Containers *Containers

	*commits
	serviceRows
	taskRows
	jobRows
	scheduleRows
	cellRows
	rows   map[string]*api.Quarantined
	status api.Status
	// Graces are the calls of ShortenStop.
	Graces []string
}

// commits are what the parts of the leader share: one lock, revisions, events and answers.
type commits struct {
	Hub *event.Hub

	mu       sync.Mutex
	now      func() time.Time
	revision int64
	answers  map[string]any // idempotency key → answer
	writes   int
	minted   int
}

// The rows of each owner.
type (
	serviceRows struct {
		*commits
		services map[string]*plan.Service
		indices  map[string]*plan.Instance
	}
	taskRows struct {
		*commits
		tasks map[string]*plan.Task
		gone  map[string]bool // ids of deleted tasks
	}
	jobRows struct {
		*commits
		jobs  map[string]*plan.Job
		nodes map[string]map[string]*plan.JobNode
	}
	scheduleRows struct {
		*commits
		schedules map[string]*plan.Schedule
	}
	cellRows struct {
		*commits
		cells map[string]*api.Cell
	}
)

// New returns an empty leader.
func New(now func() time.Time) *Fake {
	c := &commits{now: now, revision: 100, answers: map[string]any{}, Hub: event.New(1024, 100, now)}
	return &Fake{
		commits: c, Logs: NewLogs(), Containers: NewContainers(), rows: map[string]*api.Quarantined{},
		serviceRows:  serviceRows{c, map[string]*plan.Service{}, map[string]*plan.Instance{}},
		taskRows:     taskRows{c, map[string]*plan.Task{}, map[string]bool{}},
		jobRows:      jobRows{c, map[string]*plan.Job{}, map[string]map[string]*plan.JobNode{}},
		scheduleRows: scheduleRows{c, map[string]*plan.Schedule{}}, cellRows: cellRows{c, map[string]*api.Cell{}},
		status: api.Status{Cluster: "test", Leader: "here", Term: fence.Term{Epoch: 1, Revision: 7}, Build: "test",
			Since: now()},
	}
}

// Backend is the fake as the API wants it.
func (f *Fake) Backend() *api.Backend {
	return &api.Backend{
		Applications: f, Services: f, Tasks: f, Jobs: f, Schedules: f, Cells: f, Operation: f, Stops: f, Explainer: f,
		Logs: f.Logs, Containers: f.Containers, Events: f.Hub,
	}
}

// Writes is how many writes were carried out: repeats of a key do not count.
func (f *commits) Writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

// once does a write at most once per key, inside the lock as the real leader does
// it inside the commit.
func once[T any](f *commits, w plan.Write, current int64, do func() (T, error)) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a, ok := f.answers[w.Key]; ok && w.Key != "" {
		if got, same := a.(T); same {
			return got, nil
		}
		var none T
		return none, fault.ErrKeyReused
	}
	if w.Expect != 0 && current >= 0 && w.Expect != current {
		var none T
		return none, fmt.Errorf("revision is %d, not %d: %w", current, w.Expect, fault.ErrRevision)
	}
	f.revision++
	f.writes++
	got, err := do()
	if err == nil && w.Key != "" {
		f.answers[w.Key] = got
	}
	return got, err
}

func (f *commits) publish(e event.Event) { f.Hub.Publish(f.revision, e) }

// page cuts one page out of a map, in the order of its keys.
func page[T any](f *commits, all map[string]*T, r plan.Range, keep func(*T) bool) plan.Page[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := plan.Page[T]{Revision: f.revision}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if k <= r.After || !keep(all[k]) {
			continue
		}
		if len(out.Items) == r.Limit {
			return out
		}
		out.Items = append(out.Items, *all[k])
		out.Next = k
	}
	out.Next = ""
	return out
}

// Plan returns creations, replacements and, with prune, removals.
func (f *Fake) Plan(_ context.Context, a plan.Application) (plan.Applied, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.diff(a.InDomain()), nil
}

func (f *Fake) diff(a plan.Application) plan.Applied {
	out := plan.Applied{Revision: f.revision}
	for i := range a.Services {
		d := &a.Services[i]
		c := plan.Change{Kind: "service", Name: d.Service.Name, Verb: plan.VerbCreate}
		if s := f.services[d.Service.String()]; s != nil {
			c.Verb = plan.VerbKeep
			if s.Instances != d.Instances {
				c.Verb = plan.VerbUpdate
				c.Fields = []plan.FieldChange{{Path: "instances", Old: fmt.Sprint(s.Instances), New: fmt.Sprint(d.Instances)}}
			}
		}
		out.Changes = append(out.Changes, c)
	}
	for _, t := range a.Tasks {
		verb := plan.VerbCreate
		if f.tasks[a.Domain+"."+t.Name] != nil {
			verb = plan.VerbKeep
		}
		out.Changes = append(out.Changes, plan.Change{Kind: "task", Name: t.Name, Verb: verb})
	}
	for _, j := range a.Jobs {
		verb := plan.VerbCreate
		if f.jobs[j.Job.Name] != nil {
			verb = plan.VerbKeep
		}
		out.Changes = append(out.Changes, plan.Change{Kind: "job", Name: j.Job.ShortName(), Verb: verb, Nodes: -1})
	}
	for _, s := range a.Schedules {
		verb := plan.VerbCreate
		if f.schedules[a.Domain+"/"+s.Name] != nil {
			verb = plan.VerbKeep
		}
		out.Changes = append(out.Changes, plan.Change{Kind: "schedule", Name: s.Name, Verb: verb})
		out.Warnings = append(out.Warnings, s.Warnings...)
	}
	if a.Prune.On {
		for _, k := range slices.Sorted(maps.Keys(f.services)) {
			s := f.services[k]
			if s.Key.Domain == a.Domain && !slices.ContainsFunc(a.Services,
				func(d lrp.Desired) bool { return d.Service == s.Key }) && a.Prune.Takes(s.Labels()) {
				out.Changes = append(out.Changes, plan.Change{Kind: "service", Name: s.Key.Name, Verb: plan.VerbRemove})
			}
		}
	}
	return out
}

// Apply makes the changes of Plan.
func (f *Fake) Apply(_ context.Context, a plan.Application, w plan.Write) (plan.Applied, error) {
	a = a.InDomain()
	return once(f.commits, w, f.current(), func() (plan.Applied, error) {
		out := f.diff(a)
		out.Revision = f.revision
		for i := range a.Services {
			f.putService(a.Services[i])
		}
		for _, t := range a.Tasks {
			if f.tasks[a.Domain+"."+t.Name] == nil {
				f.putTask(plan.NewTask{GUID: a.Domain + "." + t.Name, Domain: a.Domain, Name: t.Name, Definition: t.Definition})
			}
		}
		for _, j := range a.Jobs {
			if f.jobs[j.Job.Name] == nil {
				f.jobs[j.Job.Name] = &plan.Job{Job: j.Job, Forest: j.Forest, Created: f.now(), Revision: f.revision}
				f.publish(event.Event{Kind: event.Job, Domain: a.Domain, Subject: j.Job.Name,
					Job: &event.JobState{Name: j.Job.Name}})
			}
		}
		for _, s := range a.Schedules {
			if k := (schedule.Key{Domain: a.Domain, Name: s.Name}); f.schedules[k.String()] == nil {
				f.putSchedule(k, s.Definition)
			}
		}
		for _, c := range out.Changes {
			if c.Verb == plan.VerbRemove {
				f.dropService(lrp.ServiceKey{Domain: a.Domain, Name: c.Name})
			}
		}
		return out, nil
	})
}

func (f *Fake) current() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.revision
}

func (f *serviceRows) putService(d lrp.Desired) {
	k := d.Service.String()
	s := f.services[k]
	if s == nil {
		f.minted++
		d.Process = fmt.Sprintf("p%d", f.minted)
		s = &plan.Service{Service: lrp.Service{Key: d.Service, Applied: f.now(),
			Versions: []lrp.Version{{Desired: d, Number: 1, Good: true}}}}
	}
	next := *s
	next.Instances, next.Revision = d.Instances, f.revision
	f.services[k] = &next
	process := next.Versions[0].Process
	for i := range d.Instances {
		if f.indices[indexKey(d.Service, i)] == nil {
			f.putInstance(lrp.Actual{Key: lrp.Key{Process: process, Index: i}, Service: d.Service, Since: f.now()})
		}
	}
	for i := d.Instances; f.indices[indexKey(d.Service, i)] != nil; i++ {
		f.dropInstance(f.indices[indexKey(d.Service, i)].Actual)
	}
	f.count(d.Service)
	row := f.services[k].Service
	f.publish(event.Event{Kind: event.Service, Domain: d.Service.Domain, Subject: k, Service: &row})
}

func indexKey(k lrp.ServiceKey, i int) string { return fmt.Sprintf("%s/%06d", k, i) }

func (f *serviceRows) putInstance(a lrp.Actual) {
	x := &plan.Instance{Actual: a, Version: 1, Wanted: true, Revision: f.revision, Rows: lrp.Index{Key: a.Key}}
	row := a
	x.Rows.Ordinary = &row
	f.indices[indexKey(a.Service, a.Key.Index)] = x
	f.publish(event.Event{Kind: event.Instance, Domain: a.Service.Domain,
		Subject: fmt.Sprintf("%s/%d", a.Service, a.Key.Index), Instance: &row, Turn: true, Shown: &row})
}

func (f *serviceRows) dropInstance(a lrp.Actual) {
	delete(f.indices, indexKey(a.Service, a.Key.Index))
	f.publish(event.Event{Kind: event.Instance, Domain: a.Service.Domain,
		Subject: fmt.Sprintf("%s/%d", a.Service, a.Key.Index), Instance: &a, Gone: true, Turn: true})
}

func (f *serviceRows) dropService(k lrp.ServiceKey) {
	for i := 0; f.indices[indexKey(k, i)] != nil; i++ {
		f.dropInstance(f.indices[indexKey(k, i)].Actual)
	}
	s := f.services[k.String()].Service
	delete(f.services, k.String())
	f.publish(event.Event{Kind: event.Service, Domain: k.Domain, Subject: k.String(), Service: &s, Gone: true})
}

// count brings the figures of a service up to date.
func (f *serviceRows) count(k lrp.ServiceKey) {
	s := f.services[k.String()]
	if s == nil {
		return
	}
	next := *s
	next.Running, next.Routable, next.Crashed = 0, 0, 0
	for _, x := range f.indices {
		if x.Service != k {
			continue
		}
		switch x.State {
		case lrp.Running:
			next.Running++
			if x.Net.Routable {
				next.Routable++
			}
		case lrp.Crashed:
			next.Crashed++
		case lrp.Unclaimed, lrp.Claimed:
		}
	}
	f.services[k.String()] = &next
}

// SetInstance changes the row of one index.
func (f *serviceRows) SetInstance(k lrp.ServiceKey, index int, change func(*lrp.Actual)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	a := f.indices[indexKey(k, index)].Actual
	change(&a)
	f.putInstance(a)
	f.count(k)
}

// SetService changes the row of a service.
func (f *serviceRows) SetService(k lrp.ServiceKey, change func(*lrp.Service)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	next := *f.services[k.String()]
	change(&next.Service)
	f.services[k.String()] = &next
	row := next.Service
	f.publish(event.Event{Kind: event.Service, Domain: k.Domain, Subject: k.String(), Service: &row})
}

// ListServices implements api.Services.
func (f *serviceRows) ListServices(q plan.NameFilter, r plan.Range) (plan.Page[plan.Service], error) {
	return page(f.commits, f.services, r, func(s *plan.Service) bool {
		return q.Takes(s.Key.Domain, s.Key.Name) && q.Labels.Selects(s.Labels())
	}), nil
}

// labels are those of a service; the lock is held.
func (f *serviceRows) labels(k lrp.ServiceKey) map[string]string {
	if s := f.services[k.String()]; s != nil {
		return s.Labels()
	}
	return nil
}

// GetService implements api.Services.
func (f *serviceRows) GetService(k lrp.ServiceKey) (plan.Service, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.services[k.String()]; s != nil {
		return *s, nil
	}
	return plan.Service{}, fmt.Errorf("service %s: %w", k, fault.ErrNotFound)
}

// ListInstances implements api.Services.
func (f *serviceRows) ListInstances(q plan.InstanceFilter, r plan.Range) (plan.Page[plan.Instance], error) {
	return page(f.commits, f.indices, r, func(x *plan.Instance) bool {
		return (q.Domain == "" || x.Service.Domain == q.Domain) && (q.Service == "" || x.Service.Name == q.Service) &&
			(q.Cell == "" || x.Cell == q.Cell) && (x.Orphan || !q.Orphans) &&
			(len(q.Labels) == 0 || q.Labels.Selects(f.labels(x.Service))) &&
			(len(q.States) == 0 || slices.Contains(q.States, x.State))
	}), nil
}

// InstanceOf implements api.Services.
func (f *serviceRows) InstanceOf(a *lrp.Actual, revision int64) plan.Instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := plan.Instance{Actual: *a, Revision: revision}
	for _, x := range f.indices {
		if x.Key == a.Key {
			out.Version = x.Version
			if x.Revision == revision {
				out.Orphan, out.UnconfirmedReason = x.Orphan, x.UnconfirmedReason
			}
		}
	}
	return out
}

// TaskOf implements api.Tasks.
func (f *taskRows) TaskOf(t *task.Task, revision int64) plan.Task {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := plan.Task{Task: t, Revision: revision}
	if x := f.tasks[t.GUID]; x != nil && x.Revision == revision {
		out.UnconfirmedReason = x.UnconfirmedReason
	}
	return out
}

// ScaleService implements api.Services.
func (f *serviceRows) ScaleService(_ context.Context, k lrp.ServiceKey, n int, w plan.Write) (plan.Service, error) {
	s, err := f.GetService(k)
	if err != nil {
		return s, err
	}
	return once(f.commits, w, s.Revision, func() (plan.Service, error) {
		d := s.Versions[0].Desired
		d.Instances = n
		f.putService(d)
		return *f.services[k.String()], nil
	})
}

// RemoveService implements api.Services.
func (f *serviceRows) RemoveService(_ context.Context, k lrp.ServiceKey, w plan.Write) (plan.Service, error) {
	s, err := f.GetService(k)
	if err != nil {
		return s, err
	}
	return once(f.commits, w, s.Revision, func() (plan.Service, error) {
		f.dropService(k)
		s.Removed = true
		return s, nil
	})
}

// RestartService implements api.Services.
func (f *serviceRows) RestartService(ctx context.Context, k lrp.ServiceKey, w plan.Write) (int, error) {
	return f.RetireInstances(ctx, k, nil, w)
}

// RetireInstances implements api.Services.
func (f *serviceRows) RetireInstances(_ context.Context, k lrp.ServiceKey, indices []int, w plan.Write) (int, error) {
	s, err := f.GetService(k)
	if err != nil {
		return 0, err
	}
	return once(f.commits, w, s.Revision, func() (int, error) {
		n := 0
		for i := range s.Instances {
			if len(indices) == 0 || slices.Contains(indices, i) {
				a := f.indices[indexKey(k, i)].Actual
				a.Retiring = true
				f.putInstance(a)
				n++
			}
		}
		return n, nil
	})
}

func (f *taskRows) putTask(n plan.NewTask) *plan.Task {
	if n.GUID == "" {
		f.minted++
		n.GUID = fmt.Sprintf("t%04d", f.minted)
	}
	f.minted++
	t := &plan.Task{Revision: f.revision, Task: &task.Task{
		GUID: n.GUID, UID: fmt.Sprintf("u%d", f.minted), Domain: n.Domain, Name: n.Name, Definition: &n.Definition,
		Created: f.now(), Updated: f.now(),
	}}
	f.tasks[n.GUID] = t
	f.publish(event.Event{Kind: event.Task, Domain: n.Domain, Subject: n.GUID, Task: t.Task})
	return t
}

// SetTask changes a task's row.
func (f *taskRows) SetTask(guid string, change func(*task.Task)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	f.setTask(guid, change)
}

func (f *taskRows) setTask(guid string, change func(*task.Task)) plan.Task {
	t := *f.tasks[guid].Task
	change(&t)
	if t.Ended() && t.FirstCompleted.IsZero() {
		t.FirstCompleted = f.now()
	}
	f.tasks[guid] = &plan.Task{Task: &t, Revision: f.revision}
	f.publish(event.Event{Kind: event.Task, Domain: t.Domain, Subject: guid, Task: &t})
	return *f.tasks[guid]
}

// ListTasks implements api.Tasks.
func (f *taskRows) ListTasks(q plan.TaskFilter, r plan.Range) (plan.Page[plan.Task], error) {
	return page(f.commits, f.tasks, r, func(t *plan.Task) bool {
		return (q.Domain == "" || t.Domain == q.Domain) && (q.Name == "" || t.Name == q.Name) &&
			(q.Cell == "" || t.Holder.Cell == q.Cell) && (len(q.States) == 0 || slices.Contains(q.States, t.State)) &&
			(len(q.Outcomes) == 0 || slices.Contains(q.Outcomes, t.Outcome)) &&
			(len(q.Labels) == 0 || t.Definition != nil && q.Labels.Selects(t.Definition.Workload.Labels))
	}), nil
}

// GetTask implements api.Tasks.
func (f *taskRows) GetTask(guid string) (plan.Task, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.tasks[guid]; t != nil {
		return *t, nil
	}
	if f.gone[guid] {
		return plan.Task{}, fmt.Errorf("task %s: collected 12:00, kept 24 h: %w", guid, fault.ErrCollected)
	}
	return plan.Task{}, fmt.Errorf("task %s: %w", guid, task.ErrNotFound)
}

// DesireTask implements api.Tasks.
func (f *taskRows) DesireTask(_ context.Context, n plan.NewTask, w plan.Write) (plan.Task, error) {
	return once(f.commits, w, -1, func() (plan.Task, error) {
		if f.tasks[n.GUID] != nil {
			return plan.Task{}, fmt.Errorf("task %s: %w", n.GUID, task.ErrExists)
		}
		return *f.putTask(n), nil
	})
}

// CancelTask implements api.Tasks.
func (f *taskRows) CancelTask(_ context.Context, guid string, w plan.Write) (plan.Task, error) {
	t, err := f.GetTask(guid)
	if err != nil {
		return t, err
	}
	return once(f.commits, w, t.Revision, func() (plan.Task, error) {
		if t.Ended() {
			return t, fmt.Errorf("task %s: %w", guid, task.ErrInvalidStateTransition)
		}
		return f.setTask(guid, func(t *task.Task) {
			t.State, t.Outcome, t.Result.Cancelled, t.Result.Reason = task.Completed, task.Cancelled, true, task.ReasonCancelled
		}), nil
	})
}

// DeleteTask implements api.Tasks.
func (f *taskRows) DeleteTask(_ context.Context, guid string, w plan.Write) error {
	t, err := f.GetTask(guid)
	if err != nil {
		return err
	}
	_, err = once(f.commits, w, t.Revision, func() (bool, error) {
		if !t.Ended() {
			return false, fmt.Errorf("task %s is %s: %w", guid, t.State, task.ErrInvalidStateTransition)
		}
		if t.Ending() { // its container is gone soon after
			f.tasks[guid].Result.Ended = f.now()
			return false, fmt.Errorf("task %s: on cell %s: %w", guid, t.Holder.Cell, task.ErrEnding)
		}
		delete(f.tasks, guid)
		f.gone[guid] = true
		f.publish(event.Event{Kind: event.Task, Domain: t.Domain, Subject: guid, Task: t.Task, Gone: true})
		return true, nil
	})
	return err
}

// ResolveTask implements api.Tasks.
func (f *taskRows) ResolveTask(_ context.Context, guid string, as task.Resolution, _ bool,
	w plan.Write) (plan.Task, error) {
	t, err := f.GetTask(guid)
	if err != nil {
		return t, err
	}
	return once(f.commits, w, t.Revision, func() (plan.Task, error) {
		if t.Outcome != task.Lost {
			return t, fmt.Errorf("task %s: %w", guid, task.ErrInvalidStateTransition)
		}
		return f.setTask(guid, func(t *task.Task) { t.Resolution = as }), nil
	})
}

// RerunTask implements api.Tasks.
func (f *taskRows) RerunTask(ctx context.Context, guid string, w plan.Write) (plan.Task, error) {
	t, err := f.GetTask(guid)
	switch {
	case err != nil:
		return t, err
	case !t.Ended():
		return t, fmt.Errorf("task %s: %w", guid, task.ErrInvalidStateTransition)
	case t.Unresolved():
		return t, fmt.Errorf("task %s: %w", guid, task.ErrLostUnresolved)
	}
	return f.DesireTask(ctx, plan.NewTask{Domain: t.Domain, Name: t.Name, Definition: *t.Definition}, w)
}
