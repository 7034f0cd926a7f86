// Package apitest has a leader that lives in memory, for tests of the API and of
// the CLI. Nothing runs: a test says what happens to a task, an instance or a cell,
// and the fake commits it, with revisions, events and idempotency keys as the real
// leader has them. Only tests may import it.
package apitest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"cantina/api"
	"cantina/batch"
	"cantina/event"
	"cantina/fence"
	"cantina/lrp"
	"cantina/task"
	"cantina/worker"
)

// Fake is the leader. Its exported methods beside those of api's interfaces change
// what is shown.
type Fake struct {
	Hub  *event.Hub
	Logs *Logs

	mu       sync.Mutex
	now      func() time.Time
	revision int64
	services map[string]*api.Service
	indices  map[string]*api.Instance
	tasks    map[string]*api.Task
	gone     map[string]bool // ids of deleted tasks
	jobs     map[string]*api.Job
	pairs    map[string]map[string]*api.Pair
	cells    map[string]*api.Cell
	rows     map[string]api.Quarantined
	answers  map[string]any // idempotency key → answer
	status   api.Status
	writes   int
	minted   int
}

// New returns an empty leader.
func New(now func() time.Time) *Fake {
	f := &Fake{
		now: now, revision: 100, services: map[string]*api.Service{}, indices: map[string]*api.Instance{}, tasks: map[string]*api.Task{},
		gone: map[string]bool{}, jobs: map[string]*api.Job{}, pairs: map[string]map[string]*api.Pair{}, cells: map[string]*api.Cell{},
		rows: map[string]api.Quarantined{}, answers: map[string]any{}, Logs: NewLogs(),
	}
	f.Hub = event.New(1024, f.revision, now)
	f.status = api.Status{Cluster: "test", Leader: "here", Term: fence.Term{Epoch: 1, Revision: 7}, Build: "test", Since: now()}
	return f
}

// Backend is the fake as the API wants it.
func (f *Fake) Backend() *api.Backend {
	return &api.Backend{
		Term: fence.Term{Epoch: 1, Revision: 7}, Applications: f, Services: f, Tasks: f, Jobs: f, Cells: f, Operation: f, Explainer: f, Logs: f.Logs, Events: f.Hub,
	}
}

// Writes is how many writes were carried out: repeats of a key do not count.
func (f *Fake) Writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writes
}

// once does a write at most once per key, inside the lock as the real leader does
// it inside the commit.
func once[T any](f *Fake, w api.Write, current int64, do func() (T, error)) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a, ok := f.answers[w.Key]; ok && w.Key != "" {
		if got, same := a.(T); same {
			return got, nil
		}
		var none T
		return none, api.ErrKeyReused
	}
	if w.Expect != 0 && current >= 0 && w.Expect != current {
		var none T
		return none, fmt.Errorf("revision is %d, not %d: %w", current, w.Expect, api.ErrRevision)
	}
	f.revision++
	f.writes++
	got, err := do()
	if err == nil && w.Key != "" {
		f.answers[w.Key] = got
	}
	return got, err
}

func (f *Fake) publish(e event.Event) { f.Hub.Publish(f.revision, e) }

// page cuts one page out of a map, in the order of its keys.
func page[T any](f *Fake, all map[string]*T, r api.Range, keep func(*T) bool) api.Listed[T] {
	out := api.Listed[T]{Revision: f.revision}
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

// Plan tells creates, replaces and, with prune, removals.
func (f *Fake) Plan(_ context.Context, a api.Application) (api.Applied, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.diff(a), nil
}

func (f *Fake) diff(a api.Application) api.Applied {
	out := api.Applied{Revision: f.revision}
	for i := range a.Services {
		d := &a.Services[i]
		c := api.Change{Kind: "service", Name: d.Service.Name, Verb: api.VerbCreate}
		if s := f.services[d.Service.String()]; s != nil {
			c.Verb = api.VerbKeep
			if s.Instances != d.Instances {
				c.Verb = api.VerbUpdate
				c.Fields = []api.FieldChange{{Path: "instances", Old: fmt.Sprint(s.Instances), New: fmt.Sprint(d.Instances)}}
			}
		}
		out.Changes = append(out.Changes, c)
	}
	for _, t := range a.Tasks {
		verb := api.VerbCreate
		if f.tasks[a.Domain+"."+t.Name] != nil {
			verb = api.VerbKeep
		}
		out.Changes = append(out.Changes, api.Change{Kind: "task", Name: t.Name, Verb: verb})
	}
	for _, j := range a.Jobs {
		verb := api.VerbCreate
		if f.jobs[j.Job.Name] != nil {
			verb = api.VerbKeep
		}
		out.Changes = append(out.Changes, api.Change{Kind: "job", Name: j.Job.Name, Verb: verb, Nodes: -1})
	}
	if a.Prune {
		for _, k := range slices.Sorted(maps.Keys(f.services)) {
			s := f.services[k]
			if s.Key.Domain == a.Domain && !slices.ContainsFunc(a.Services, func(d lrp.Desired) bool { return d.Service == s.Key }) {
				out.Changes = append(out.Changes, api.Change{Kind: "service", Name: s.Key.Name, Verb: api.VerbRemove})
			}
		}
	}
	return out
}

// Apply does what Plan tells.
func (f *Fake) Apply(_ context.Context, a api.Application, w api.Write) (api.Applied, error) {
	return once(f, w, f.current(), func() (api.Applied, error) {
		out := f.diff(a)
		out.Revision = f.revision
		for i := range a.Services {
			f.putService(a.Services[i])
		}
		for _, t := range a.Tasks {
			if f.tasks[a.Domain+"."+t.Name] == nil {
				f.putTask(api.NewTask{GUID: a.Domain + "." + t.Name, Domain: a.Domain, Name: t.Name, Definition: t.Definition})
			}
		}
		for _, j := range a.Jobs {
			if f.jobs[j.Job.Name] == nil {
				f.jobs[j.Job.Name] = &api.Job{Job: j.Job, Forest: j.Forest, Created: f.now(), Revision: f.revision}
				f.publish(event.Event{Kind: event.Job, Domain: a.Domain, Subject: j.Job.Name, Job: &event.JobState{Name: j.Job.Name}})
			}
		}
		for _, c := range out.Changes {
			if c.Verb == api.VerbRemove {
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

func (f *Fake) putService(d lrp.Desired) {
	k := d.Service.String()
	s := f.services[k]
	if s == nil {
		f.minted++
		d.Process = fmt.Sprintf("p%d", f.minted)
		s = &api.Service{Service: lrp.Service{Key: d.Service, Applied: f.now(), Versions: []lrp.Version{{Desired: d, Number: 1, Good: true}}}}
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

func (f *Fake) putInstance(a lrp.Actual) {
	x := &api.Instance{Actual: a, Version: 1, Wanted: true, Revision: f.revision, Rows: lrp.Index{Key: a.Key}}
	row := a
	x.Rows.Ordinary = &row
	f.indices[indexKey(a.Service, a.Key.Index)] = x
	f.publish(event.Event{Kind: event.Instance, Domain: a.Service.Domain, Subject: a.Key.String(), Instance: &row})
}

func (f *Fake) dropInstance(a lrp.Actual) {
	delete(f.indices, indexKey(a.Service, a.Key.Index))
	f.publish(event.Event{Kind: event.Instance, Domain: a.Service.Domain, Subject: a.Key.String(), Instance: &a, Gone: true})
}

func (f *Fake) dropService(k lrp.ServiceKey) {
	for i := 0; f.indices[indexKey(k, i)] != nil; i++ {
		f.dropInstance(f.indices[indexKey(k, i)].Actual)
	}
	s := f.services[k.String()].Service
	delete(f.services, k.String())
	f.publish(event.Event{Kind: event.Service, Domain: k.Domain, Subject: k.String(), Service: &s, Gone: true})
}

// count brings the figures of a service up to date.
func (f *Fake) count(k lrp.ServiceKey) {
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
func (f *Fake) SetInstance(k lrp.ServiceKey, index int, change func(*lrp.Actual)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	a := f.indices[indexKey(k, index)].Actual
	change(&a)
	f.putInstance(a)
	f.count(k)
}

// ListServices implements api.Services.
func (f *Fake) ListServices(domain string, r api.Range) (api.Listed[api.Service], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return page(f, f.services, r, func(s *api.Service) bool { return domain == "" || s.Key.Domain == domain }), nil
}

// GetService implements api.Services.
func (f *Fake) GetService(k lrp.ServiceKey) (api.Service, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.services[k.String()]; s != nil {
		return *s, nil
	}
	return api.Service{}, fmt.Errorf("service %s: %w", k, api.ErrNotFound)
}

// ListInstances implements api.Services.
func (f *Fake) ListInstances(q api.InstanceFilter, r api.Range) (api.Listed[api.Instance], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return page(f, f.indices, r, func(x *api.Instance) bool {
		return (q.Domain == "" || x.Service.Domain == q.Domain) && (q.Service == "" || x.Service.Name == q.Service) &&
			(q.Cell == "" || x.Cell == q.Cell) && (len(q.States) == 0 || slices.Contains(q.States, x.State))
	}), nil
}

// ScaleService implements api.Services.
func (f *Fake) ScaleService(_ context.Context, k lrp.ServiceKey, n int, w api.Write) (api.Service, error) {
	s, err := f.GetService(k)
	if err != nil {
		return s, err
	}
	return once(f, w, s.Revision, func() (api.Service, error) {
		d := s.Versions[0].Desired
		d.Instances = n
		f.putService(d)
		return *f.services[k.String()], nil
	})
}

// RemoveService implements api.Services.
func (f *Fake) RemoveService(_ context.Context, k lrp.ServiceKey, w api.Write) (api.Service, error) {
	s, err := f.GetService(k)
	if err != nil {
		return s, err
	}
	return once(f, w, s.Revision, func() (api.Service, error) {
		f.dropService(k)
		s.Removed = true
		return s, nil
	})
}

// RetireInstances implements api.Services.
func (f *Fake) RetireInstances(_ context.Context, k lrp.ServiceKey, indices []int, w api.Write) (int, error) {
	s, err := f.GetService(k)
	if err != nil {
		return 0, err
	}
	return once(f, w, s.Revision, func() (int, error) {
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

func (f *Fake) putTask(n api.NewTask) *api.Task {
	if n.GUID == "" {
		f.minted++
		n.GUID = fmt.Sprintf("t%04d", f.minted)
	}
	f.minted++
	t := &api.Task{Revision: f.revision, Task: &task.Task{
		GUID: n.GUID, UID: fmt.Sprintf("u%d", f.minted), Domain: n.Domain, Name: n.Name, Definition: &n.Definition, Created: f.now(), Updated: f.now(),
	}}
	f.tasks[n.GUID] = t
	f.publish(event.Event{Kind: event.Task, Domain: n.Domain, Subject: n.GUID, Task: t.Task})
	return t
}

// SetTask changes a task's row.
func (f *Fake) SetTask(guid string, change func(*task.Task)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	f.setTask(guid, change)
}

func (f *Fake) setTask(guid string, change func(*task.Task)) api.Task {
	t := *f.tasks[guid].Task
	change(&t)
	if t.Ended() && t.FirstCompleted.IsZero() {
		t.FirstCompleted = f.now()
	}
	f.tasks[guid] = &api.Task{Task: &t, Revision: f.revision}
	f.publish(event.Event{Kind: event.Task, Domain: t.Domain, Subject: guid, Task: &t})
	return *f.tasks[guid]
}

// ListTasks implements api.Tasks.
func (f *Fake) ListTasks(q api.TaskFilter, r api.Range) (api.Listed[api.Task], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return page(f, f.tasks, r, func(t *api.Task) bool {
		return (q.Domain == "" || t.Domain == q.Domain) && (q.Name == "" || t.Name == q.Name) &&
			(q.Cell == "" || t.Holder.Cell == q.Cell) && (len(q.States) == 0 || slices.Contains(q.States, t.State))
	}), nil
}

// GetTask implements api.Tasks.
func (f *Fake) GetTask(guid string) (api.Task, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.tasks[guid]; t != nil {
		return *t, nil
	}
	if f.gone[guid] {
		return api.Task{}, fmt.Errorf("task %s: collected 12:00, kept 24 h: %w", guid, api.ErrCollected)
	}
	return api.Task{}, fmt.Errorf("task %s: %w", guid, task.ErrNotFound)
}

// DesireTask implements api.Tasks.
func (f *Fake) DesireTask(_ context.Context, n api.NewTask, w api.Write) (api.Task, error) {
	return once(f, w, -1, func() (api.Task, error) {
		if f.tasks[n.GUID] != nil {
			return api.Task{}, fmt.Errorf("task %s: %w", n.GUID, task.ErrExists)
		}
		return *f.putTask(n), nil
	})
}

// CancelTask implements api.Tasks.
func (f *Fake) CancelTask(_ context.Context, guid string, w api.Write) (api.Task, error) {
	t, err := f.GetTask(guid)
	if err != nil {
		return t, err
	}
	return once(f, w, t.Revision, func() (api.Task, error) {
		if t.Ended() {
			return t, fmt.Errorf("task %s: %w", guid, task.ErrInvalidStateTransition)
		}
		return f.setTask(guid, func(t *task.Task) {
			t.State, t.Outcome, t.Result.Cancelled, t.Result.Reason = task.Completed, task.Cancelled, true, task.ReasonCancelled
		}), nil
	})
}

// DeleteTask implements api.Tasks.
func (f *Fake) DeleteTask(_ context.Context, guid string, w api.Write) error {
	t, err := f.GetTask(guid)
	if err != nil {
		return err
	}
	_, err = once(f, w, t.Revision, func() (bool, error) {
		if !t.Ended() {
			return false, fmt.Errorf("task %s is %s: %w", guid, t.State, task.ErrInvalidStateTransition)
		}
		delete(f.tasks, guid)
		f.gone[guid] = true
		f.publish(event.Event{Kind: event.Task, Domain: t.Domain, Subject: guid, Task: t.Task, Gone: true})
		return true, nil
	})
	return err
}

// SettleTask implements api.Tasks.
func (f *Fake) SettleTask(_ context.Context, guid string, as task.Resolution, w api.Write) (api.Task, error) {
	t, err := f.GetTask(guid)
	if err != nil {
		return t, err
	}
	return once(f, w, t.Revision, func() (api.Task, error) {
		if t.Outcome != task.Lost {
			return t, fmt.Errorf("task %s is not lost: %w", guid, api.ErrConflict)
		}
		return f.setTask(guid, func(t *task.Task) { t.Resolution = as }), nil
	})
}

// SetJob changes a job, and its pairs.
func (f *Fake) SetJob(name string, change func(*api.Job), pairs ...api.Pair) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	next := *f.jobs[name]
	change(&next)
	next.Revision = f.revision
	f.jobs[name] = &next
	for i := range pairs {
		p := pairs[i]
		p.Job = name
		if f.pairs[name] == nil {
			f.pairs[name] = map[string]*api.Pair{}
		}
		f.pairs[name][p.Node] = &p
		if p.Class == batch.ClassDone || p.Class == batch.ClassFailed {
			f.publish(event.Event{Kind: event.Pair, Subject: name + "/" + p.Node, Pair: &event.PairState{Job: name, NodeView: p.NodeView}})
		}
	}
	f.publish(event.Event{Kind: event.Job, Domain: next.Domain, Subject: name, Job: &event.JobState{
		Name: name, UID: next.UID, Progress: next.Progress, NodesKnown: next.NodesKnown, Removed: next.Removed,
	}})
}

// ListJobs implements api.Jobs.
func (f *Fake) ListJobs(domain string, r api.Range) (api.Listed[api.Job], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return page(f, f.jobs, r, func(j *api.Job) bool { return domain == "" || j.Domain == domain }), nil
}

// GetJob implements api.Jobs.
func (f *Fake) GetJob(name string) (api.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if j := f.jobs[name]; j != nil {
		return *j, nil
	}
	return api.Job{}, fmt.Errorf("job %s: %w", name, api.ErrNotFound)
}

// ListPairs implements api.Jobs.
func (f *Fake) ListPairs(q api.PairFilter, r api.Range) (api.Listed[api.Pair], error) {
	if _, err := f.GetJob(q.Job); err != nil {
		return api.Listed[api.Pair]{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return page(f, f.pairs[q.Job], r, func(p *api.Pair) bool {
		return (q.Node == "" || q.Node == p.Node) && (q.Below == "" || slices.Contains(p.Path, q.Below)) &&
			(len(q.Classes) == 0 || slices.Contains(q.Classes, p.Class))
	}), nil
}

// ListResults implements api.Jobs.
func (f *Fake) ListResults(_ context.Context, q api.PairFilter, r api.Range) (api.Listed[api.Pair], error) {
	if len(q.Classes) == 0 {
		q.Classes = []batch.Class{batch.ClassDone, batch.ClassFailed}
	}
	return f.ListPairs(q, r)
}

// RemoveJob implements api.ChangeJobs.
func (f *Fake) RemoveJob(_ context.Context, name string, w api.Write) error {
	j, err := f.GetJob(name)
	if err != nil {
		return err
	}
	_, err = once(f, w, j.Revision, func() (bool, error) {
		delete(f.jobs, name)
		f.publish(event.Event{Kind: event.Job, Domain: j.Domain, Subject: name, Gone: true, Job: &event.JobState{Name: name, Removed: true}})
		return true, nil
	})
	return err
}

// PauseJob implements api.ChangeJobs.
func (f *Fake) PauseJob(_ context.Context, name string, paused bool, w api.Write) (api.Job, error) {
	j, err := f.GetJob(name)
	if err != nil {
		return j, err
	}
	return once(f, w, j.Revision, func() (api.Job, error) {
		j.Paused, j.Revision = paused, f.revision
		f.jobs[name] = &j
		return j, nil
	})
}

func (f *Fake) changePairs(q api.PairFilter, w api.Write, from batch.Class, change func(*api.Pair)) (int, error) {
	if _, err := f.GetJob(q.Job); err != nil {
		return 0, err
	}
	return once(f, w, -1, func() (int, error) {
		n := 0
		for _, p := range f.pairs[q.Job] {
			if p.Class == from && (q.Node == "" || q.Node == p.Node) {
				change(p)
				n++
			}
		}
		return n, nil
	})
}

// ForgiveJob implements api.ChangeJobs.
func (f *Fake) ForgiveJob(_ context.Context, q api.PairFilter, w api.Write) (int, error) {
	return f.changePairs(q, w, batch.ClassFailed, func(p *api.Pair) { p.Class = batch.ClassReady })
}

// KillPairs implements api.ChangeJobs.
func (f *Fake) KillPairs(_ context.Context, q api.PairFilter, w api.Write) (int, error) {
	return f.changePairs(q, w, batch.ClassRunning, func(p *api.Pair) { p.Class = batch.ClassBackoff })
}

// SetCell adds or changes a cell.
func (f *Fake) SetCell(c api.Cell) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	f.cells[string(c.Name)] = &c
	f.publish(event.Event{Kind: event.Cell, Subject: string(c.Name), Cell: &event.CellState{Name: c.Name, Proc: c.Proc, Session: c.Session, Reason: c.Reason}})
}

// ListCells implements api.Cells.
func (f *Fake) ListCells(r api.Range) (api.Listed[api.Cell], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return page(f, f.cells, r, func(*api.Cell) bool { return true }), nil
}

// GetCell implements api.Cells.
func (f *Fake) GetCell(name worker.CellName) (api.Cell, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.cells[string(name)]; c != nil {
		return *c, nil
	}
	return api.Cell{}, fmt.Errorf("cell %s: %w", name, api.ErrNotFound)
}

// ForgetCell implements api.Cells.
func (f *Fake) ForgetCell(_ context.Context, proc worker.Proc, w api.Write) error {
	_, err := once(f, w, -1, func() (bool, error) {
		for k, c := range f.cells {
			if c.Proc == proc {
				delete(f.cells, k)
				return true, nil
			}
		}
		return false, fmt.Errorf("process %s: %w", proc, api.ErrNotFound)
	})
	return err
}

// SetStatus changes what Status shows.
func (f *Fake) SetStatus(change func(*api.Status)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.status)
}

// Status implements api.Operation.
func (f *Fake) Status() (api.Status, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.status
	s.Revision, s.Quarantined = f.revision, len(f.rows)
	s.Counts = map[string]int{"services": len(f.services), "instances": len(f.indices), "tasks": len(f.tasks), "jobs": len(f.jobs), "cells": len(f.cells)}
	return s, nil
}

// EndWait implements api.Operation.
func (f *Fake) EndWait(_ context.Context, w api.Write) error {
	_, err := once(f, w, -1, func() (bool, error) {
		f.status.Waiting = false
		return true, nil
	})
	return err
}

// Quarantine adds a row that cannot be read.
func (f *Fake) Quarantine(q api.Quarantined) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rows[q.Key] = q
}

// ListQuarantine implements api.Operation.
func (f *Fake) ListQuarantine(r api.Range) (api.Listed[api.Quarantined], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string]*api.Quarantined{}
	for k, q := range f.rows {
		all[k] = &q
	}
	return page(f, all, r, func(*api.Quarantined) bool { return true }), nil
}

// ReleaseQuarantined implements api.Operation.
func (f *Fake) ReleaseQuarantined(_ context.Context, key string, restore bool, w api.Write) error {
	_, err := once(f, w, -1, func() (bool, error) {
		if _, ok := f.rows[key]; !ok {
			return false, fmt.Errorf("row %s: %w", key, api.ErrNotFound)
		}
		if restore {
			return false, fmt.Errorf("row %s is still not readable: %w", key, api.ErrConflict)
		}
		delete(f.rows, key)
		return true, nil
	})
	return err
}

// Explain implements api.Explainer: a PENDING task lacks memory, everything else is
// as wanted.
func (f *Fake) Explain(_ context.Context, s api.Subject) (api.Explanation, error) {
	x := api.Explanation{Subject: s, State: "as it is", Wanted: "as it is", Fine: true}
	var err error
	switch s.Kind {
	case api.SubjectTask:
		var t api.Task
		if t, err = f.GetTask(s.Name); err == nil && t.State == task.Pending {
			x.State, x.Wanted, x.Fine = "PENDING", "RUNNING", false
			x.Reasons = []api.Reason{{
				Code: "insufficient_resources", Text: "no cell has memory_mb 512 free, the largest has 300", Resource: "memory_mb", Need: 512, Have: 300,
				Level: "cell", Change: "ask for memory: 300Mi or less",
			}}
		}
	case api.SubjectService, api.SubjectInstance:
		_, err = f.GetService(lrp.ServiceKey{Domain: s.Domain, Name: s.Name})
	case api.SubjectJob, api.SubjectPair:
		_, err = f.GetJob(s.Name)
	case api.SubjectCell:
		_, err = f.GetCell(worker.CellName(s.Name))
	}
	return x, err
}

// compareLines orders output as the cells do.
func compareLines(a, b line) int { return cmp.Compare(a.position, b.position) }
