package apitest

import (
	"context"
	"fmt"
	"math"
	"slices"

	"cantina/batch"
	"cantina/event"
	"cantina/fault"
	"cantina/plan"
)

// SetJob changes a job, NAME of the domain default or DOMAIN/NAME, and its batch tasks.
func (f *jobRows) SetJob(name string, change func(*plan.Job), nodes ...plan.JobNode) {
	if domain, short := batch.SplitName(name); domain == "" {
		name = batch.FullName("default", short)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision++
	next := *f.jobs[name]
	change(&next)
	next.Revision = f.revision
	f.jobs[name] = &next
	for i := range nodes {
		p := nodes[i]
		p.Job = name
		if f.nodes[name] == nil {
			f.nodes[name] = map[string]*plan.JobNode{}
		}
		f.nodes[name][p.Node] = &p
		if p.Class == batch.ClassDone || p.Class == batch.ClassFailed {
			f.publish(event.Event{Kind: event.JobNode, Subject: name + "/" + p.Node,
				JobNode: &event.NodeState{Job: name, NodeView: p.NodeView}})
		}
	}
	f.publish(event.Event{Kind: event.Job, Domain: next.Domain, Subject: name, Job: &event.JobState{
		Name: name, UID: next.UID, Progress: next.Progress, NodesKnown: next.NodesKnown, Removed: next.Removed,
	}})
}

// ListJobs implements api.Jobs.
func (f *jobRows) ListJobs(q plan.NameFilter, r plan.Range) (plan.Page[plan.Job], error) {
	return page(f.commits, f.jobs, r, func(j *plan.Job) bool {
		return q.Takes(batch.SplitName(j.Name)) && q.Labels.Selects(j.Workload.Labels)
	}), nil
}

// GetJob implements api.Jobs.
func (f *jobRows) GetJob(name string) (plan.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if j := f.jobs[name]; j != nil {
		return *j, nil
	}
	return plan.Job{}, fmt.Errorf("job %s: %w", name, fault.ErrNotFound)
}

// ListNodes implements api.Jobs.
func (f *jobRows) ListNodes(q plan.JobNodeFilter, r plan.Range) (plan.Page[plan.JobNode], error) {
	if _, err := f.GetJob(q.Job); err != nil {
		return plan.Page[plan.JobNode]{}, err
	}
	f.mu.Lock()
	nodes := f.nodes[q.Job]
	f.mu.Unlock()
	return page(f.commits, nodes, r, func(p *plan.JobNode) bool {
		return (q.Node == "" || q.Node == p.Node) && (q.Below == "" || slices.Contains(p.Path, q.Below)) &&
			(len(q.Classes) == 0 || slices.Contains(q.Classes, p.Class))
	}), nil
}

// ListGroups implements api.Jobs: of the level below the instance.
func (f *jobRows) ListGroups(name, below string) ([]batch.Group, error) {
	all, err := f.ListNodes(plan.JobNodeFilter{Job: name, Below: below}, plan.Range{Limit: math.MaxInt32})
	var out []batch.Group
	for _, n := range all.Items {
		at := slices.Index(n.Path, below) + 1
		if below == "" {
			at = 1
		}
		if at >= len(n.Path)-1 {
			continue
		}
		i := slices.IndexFunc(out, func(g batch.Group) bool { return g.Node == n.Path[at] })
		if i < 0 {
			i, out = len(out), append(out, batch.Group{Node: n.Path[at], Level: fmt.Sprint("level", at)})
		}
		out[i].Total++
		if n.Class == batch.ClassFailed {
			out[i].Failed++
		}
	}
	return out, err
}

// ListResults implements api.Jobs.
func (f *jobRows) ListResults(_ context.Context, q plan.JobNodeFilter, r plan.Range) (plan.Page[plan.JobNode], error) {
	if len(q.Classes) == 0 {
		q.Classes = []batch.Class{batch.ClassDone, batch.ClassFailed}
	}
	return f.ListNodes(q, r)
}

// RemoveJob implements api.ChangeJobs.
func (f *jobRows) RemoveJob(_ context.Context, name string, w plan.Write) error {
	j, err := f.GetJob(name)
	if err != nil {
		return err
	}
	_, err = once(f.commits, w, j.Revision, func() (bool, error) {
		delete(f.jobs, name)
		f.publish(event.Event{Kind: event.Job, Domain: j.Domain, Subject: name, Gone: true,
			Job: &event.JobState{Name: name, Removed: true}})
		return true, nil
	})
	return err
}

// PauseJob implements api.ChangeJobs.
func (f *jobRows) PauseJob(_ context.Context, name string, paused bool, w plan.Write) (plan.Job, error) {
	j, err := f.GetJob(name)
	if err != nil {
		return j, err
	}
	return once(f.commits, w, j.Revision, func() (plan.Job, error) {
		j.Paused, j.Revision = paused, f.revision
		f.jobs[name] = &j
		return j, nil
	})
}

func (f *jobRows) changeNodes(q plan.JobNodeFilter, w plan.Write, from batch.Class, change func(*plan.JobNode)) (int,
	error) {
	if _, err := f.GetJob(q.Job); err != nil {
		return 0, err
	}
	return once(f.commits, w, -1, func() (int, error) {
		n := 0
		for _, p := range f.nodes[q.Job] {
			if p.Class == from && (q.Node == "" || q.Node == p.Node) {
				change(p)
				n++
			}
		}
		return n, nil
	})
}

// RetryJob implements api.ChangeJobs.
func (f *jobRows) RetryJob(_ context.Context, q plan.JobNodeFilter, w plan.Write) (int, error) {
	return f.changeNodes(q, w, batch.ClassFailed, func(p *plan.JobNode) { p.Class = batch.ClassReady })
}

// KillJob implements api.ChangeJobs.
func (f *jobRows) KillJob(_ context.Context, q plan.JobNodeFilter, w plan.Write) (int, error) {
	return f.changeNodes(q, w, batch.ClassRunning, func(p *plan.JobNode) { p.Class = batch.ClassBackoff })
}
