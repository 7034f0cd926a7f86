package leader

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"cantina/batch"
	"cantina/bbs"
	"cantina/plan"
	"cantina/scheduler"
)

// ListJobs implements api.Jobs.
func (v jobView) ListJobs(f plan.NameFilter, r plan.Range) (plan.Page[plan.Job], error) {
	if err := v.fresh(); err != nil {
		return plan.Page[plan.Job]{}, err
	}
	all := v.Scheduler.Jobs(f, r.After, r.Limit+1)
	out := plan.Page[plan.Job]{}
	for i, j := range all {
		if i == r.Limit {
			out.Next = all[i-1].Name
			break
		}
		out.Items = append(out.Items, v.noteStopping(j))
	}
	return out, nil
}

// GetJob implements api.Jobs.
func (v jobView) GetJob(name string) (plan.Job, error) {
	j, err := v.Scheduler.Job(name)
	return v.noteStopping(j), errors.Join(v.fresh(), err)
}

// noteStopping adds to a job that some of its batch tasks, or of a removed job of its name, are
// being stopped.
func (v jobView) noteStopping(j plan.Job) plan.Job {
	if j.Progress.Running+j.Progress.Blocked > 0 && j.Progress.Reason == "" {
		j.Progress.Reason = v.reported().stoppingOf(j.Name)
	}
	return j
}

func nodeFilter(f plan.JobNodeFilter, r plan.Range) batch.NodeFilter {
	n := batch.NodeFilter{Classes: f.Classes, Node: f.Node, Below: f.Below, After: r.After}
	if r.Limit > 0 {
		n.Limit = r.Limit + 1
	}
	return n
}

func (v jobView) nodes(all []plan.JobNode, limit int) plan.Page[plan.JobNode] {
	out, d := plan.Page[plan.JobNode]{}, newUnconfirmed(v.Term)
	for i, p := range all {
		if i == limit {
			out.Next = all[i-1].Node
			break
		}
		out.Items = append(out.Items, d.node(p))
	}
	return out
}

// ListNodes implements api.Jobs.
func (v jobView) ListNodes(f plan.JobNodeFilter, r plan.Range) (plan.Page[plan.JobNode], error) {
	if err := v.fresh(); err != nil {
		return plan.Page[plan.JobNode]{}, err
	}
	all, err := v.Scheduler.JobNodes(f.Job, nodeFilter(f, r))
	return v.nodes(all, r.Limit), err
}

// ListGroups implements api.Jobs.
func (v jobView) ListGroups(name, below string) ([]batch.Group, error) {
	if err := v.fresh(); err != nil {
		return nil, err
	}
	return v.Scheduler.JobGroups(name, below)
}

// ListResults implements api.Jobs.
func (v jobView) ListResults(ctx context.Context, f plan.JobNodeFilter, r plan.Range) (plan.Page[plan.JobNode], error) {
	all, err := v.Scheduler.Results(ctx, f.Job, nodeFilter(f, r))
	return v.nodes(all, r.Limit), err
}

// change commits a change of one job, once for the caller's key, and returns how
// many batch tasks it touches.
func (v jobView) change(ctx context.Context, w plan.Write, operation string, f plan.JobNodeFilter,
	prepare func(*bbs.Decision) (*scheduler.Change, error)) (int, error) {
	answer, _, err := v.Board.WriteDecision(ctx, w, operation, request(f), func(d *bbs.Decision) ([]byte, error) {
		c, err := prepare(d)
		if err != nil {
			return nil, err
		}
		d.Add(c.Part)
		// A job whose creation is on its way has no revision yet.
		j, err := v.Scheduler.Job(f.Job)
		if err != nil && !errors.Is(err, batch.ErrUnknownJob) {
			return nil, err
		}
		if err := d.Expect(scheduler.JobRow(f.Job), j.Revision, w.Expect); err != nil {
			return nil, err
		}
		n := 0
		for _, l := range c.Lines {
			n += max(l.Nodes, 0)
		}
		return strconv.AppendInt(nil, int64(n), 10), nil
	})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(answer))
}

// define is change for the desired state of a job: it increments the domain's revision.
func (v jobView) define(ctx context.Context, w plan.Write, operation, name string,
	prepare func() (*scheduler.Change, error)) error {
	_, err := v.change(ctx, w, operation, plan.JobNodeFilter{Job: name}, func(d *bbs.Decision) (*scheduler.Change, error) {
		c, err := prepare()
		if err == nil && len(c.Ops) > 0 {
			d.Redefine(c.Domain)
		}
		return c, err
	})
	return err
}

// request identifies a call with a filter, to distinguish a repetition from another call.
func request(f plan.JobNodeFilter) []byte {
	return fmt.Appendf(nil, "%q %v %q %q", f.Job, f.Classes, f.Node, f.Below)
}

// RemoveJob implements api.Jobs.
func (v jobView) RemoveJob(ctx context.Context, name string, w plan.Write) error {
	return v.define(ctx, w, "remove job", name, func() (*scheduler.Change, error) { return v.Scheduler.Remove(name) })
}

// PauseJob implements api.Jobs.
func (v jobView) PauseJob(ctx context.Context, name string, paused bool, w plan.Write) (plan.Job, error) {
	operation := "pause job"
	if !paused {
		operation = "resume job"
	}
	if err := v.define(ctx, w, operation, name, func() (*scheduler.Change,
		error) {
		return v.Scheduler.Pause(name, paused)
	}); err != nil {
		return plan.Job{}, err
	}
	return v.GetJob(name)
}

// RetryJob implements api.Jobs. It may take several commits, each of which can be repeated; the
// key is stored with the response when all are done.
func (v jobView) RetryJob(ctx context.Context, f plan.JobNodeFilter, w plan.Write) (int, error) {
	const operation = "forgive job"
	answer, ok, err := v.Board.Answered(ctx, w, operation, request(f))
	if err != nil {
		return 0, err
	}
	if ok {
		return strconv.Atoi(string(answer))
	}
	if w.Expect != 0 { // before anything is done
		nothing := func(*bbs.Decision) (*scheduler.Change, error) {
			return &scheduler.Change{}, v.Scheduler.Changeable(f.Job)
		}
		if _, err := v.change(ctx, plan.Write{Expect: w.Expect, By: w.By}, operation, f, nothing); err != nil {
			return 0, err
		}
	}
	n, err := v.Scheduler.Retry(ctx, f.Job, nodeFilter(f, plan.Range{}))
	if err != nil || w.Key == "" {
		return n, err
	}
	return v.change(ctx, plan.Write{Key: w.Key, By: w.By}, operation, f, func(*bbs.Decision) (*scheduler.Change, error) {
		return &scheduler.Change{Lines: []plan.Change{{Name: f.Job, Nodes: n}}}, nil
	})
}

// KillJob implements api.Jobs.
func (v jobView) KillJob(ctx context.Context, f plan.JobNodeFilter, w plan.Write) (int, error) {
	return v.change(ctx, w, "kill pairs", f, func(*bbs.Decision) (*scheduler.Change, error) {
		return v.Scheduler.Kill(f.Job, nodeFilter(f, plan.Range{}))
	})
}
