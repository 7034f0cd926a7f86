package apitest

import (
	"context"
	"fmt"
	"slices"

	"cantina/batch"
	"cantina/event"
	"cantina/fault"
	"cantina/plan"
)

// SetJob changes a job, and its pairs.
func (f *Fake) SetJob(name string, change func(*plan.Job), pairs ...plan.Pair) {
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
			f.pairs[name] = map[string]*plan.Pair{}
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
func (f *Fake) ListJobs(domain string, r plan.Range) (plan.Page[plan.Job], error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return page(f, f.jobs, r, func(j *plan.Job) bool { return domain == "" || j.Domain == domain }), nil
}

// GetJob implements api.Jobs.
func (f *Fake) GetJob(name string) (plan.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if j := f.jobs[name]; j != nil {
		return *j, nil
	}
	return plan.Job{}, fmt.Errorf("job %s: %w", name, fault.ErrNotFound)
}

// ListPairs implements api.Jobs.
func (f *Fake) ListPairs(q plan.PairFilter, r plan.Range) (plan.Page[plan.Pair], error) {
	if _, err := f.GetJob(q.Job); err != nil {
		return plan.Page[plan.Pair]{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return page(f, f.pairs[q.Job], r, func(p *plan.Pair) bool {
		return (q.Node == "" || q.Node == p.Node) && (q.Below == "" || slices.Contains(p.Path, q.Below)) &&
			(len(q.Classes) == 0 || slices.Contains(q.Classes, p.Class))
	}), nil
}

// ListResults implements api.Jobs.
func (f *Fake) ListResults(_ context.Context, q plan.PairFilter, r plan.Range) (plan.Page[plan.Pair], error) {
	if len(q.Classes) == 0 {
		q.Classes = []batch.Class{batch.ClassDone, batch.ClassFailed}
	}
	return f.ListPairs(q, r)
}

// RemoveJob implements api.ChangeJobs.
func (f *Fake) RemoveJob(_ context.Context, name string, w plan.Write) error {
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
func (f *Fake) PauseJob(_ context.Context, name string, paused bool, w plan.Write) (plan.Job, error) {
	j, err := f.GetJob(name)
	if err != nil {
		return j, err
	}
	return once(f, w, j.Revision, func() (plan.Job, error) {
		j.Paused, j.Revision = paused, f.revision
		f.jobs[name] = &j
		return j, nil
	})
}

func (f *Fake) changePairs(q plan.PairFilter, w plan.Write, from batch.Class, change func(*plan.Pair)) (int, error) {
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
func (f *Fake) ForgiveJob(_ context.Context, q plan.PairFilter, w plan.Write) (int, error) {
	return f.changePairs(q, w, batch.ClassFailed, func(p *plan.Pair) { p.Class = batch.ClassReady })
}

// KillPairs implements api.ChangeJobs.
func (f *Fake) KillPairs(_ context.Context, q plan.PairFilter, w plan.Write) (int, error) {
	return f.changePairs(q, w, batch.ClassRunning, func(p *plan.Pair) { p.Class = batch.ClassBackoff })
}
