package api

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"cantina/batch"
	"cantina/fault"
	"cantina/internal/text"
	"cantina/plan"
	pb "cantina/wire/cantinav1"
)

// ListJobs lists jobs by name.
func (c *calls) ListJobs(_ context.Context, q *connect.Request[pb.ListJobsRequest]) (*connect.Response[pb.ListJobsResponse], error) {
	l, where, err := list(c.Server, q.Msg.Page, func(b *Backend, r plan.Range) (plan.Page[plan.Job], error) { return b.Jobs.ListJobs(q.Msg.Domain, r) })
	m := &pb.ListJobsResponse{Listing: where}
	for i := range l.Items {
		m.Jobs = append(m.Jobs, job(&l.Items[i], false))
	}
	return answer(m, err)
}

// GetJob returns a job with its definition.
func (c *calls) GetJob(_ context.Context, q *connect.Request[pb.GetJobRequest]) (*connect.Response[pb.GetJobResponse], error) {
	b, err := c.now()
	if err != nil {
		return nil, err
	}
	at := b.Events.Newest()
	j, err := b.Jobs.GetJob(q.Msg.Name)
	if err != nil {
		return nil, err
	}
	return answer(&pb.GetJobResponse{Job: job(&j, true), Position: at.String()}, nil)
}

func nodeFilter(job string, states []string, node, below string) (plan.JobNodeFilter, error) {
	f := plan.JobNodeFilter{Job: job, Node: node, Below: below}
	if job == "" {
		return f, invalid("job", "must not be empty")
	}
	for _, s := range states {
		found := false
		for c := batch.ClassAbsent; c <= batch.ClassReady; c++ {
			if c.String() == s {
				f.Classes, found = append(f.Classes, c), true
			}
		}
		if !found {
			return f, invalid("state", "invalid state %q: must be one of ready, running, done, failed, backoff, blocked, avoided, disabled, absent", text.Shorten(s, 60))
		}
	}
	return f, nil
}

// knownNodes refuses a filter that names a node which the job has not, or one that
// no node of the job is below: an empty answer would look like success.
func knownNodes(b *Backend, f plan.JobNodeFilter) error {
	for _, one := range []plan.JobNodeFilter{{Job: f.Job, Node: f.Node}, {Job: f.Job, Below: f.Below}} {
		if one.Node == "" && one.Below == "" {
			continue
		}
		l, err := b.Jobs.ListNodes(one, plan.Range{Limit: 1})
		switch {
		case err != nil:
			return err
		case len(l.Items) > 0:
		case one.Node != "":
			return fmt.Errorf("job %s has no node %s: %w", f.Job, text.Shorten(f.Node, 60), fault.ErrNotFound)
		default:
			return fmt.Errorf("job %s has no node below %s: %w", f.Job, text.Shorten(f.Below, 60), fault.ErrNotFound)
		}
	}
	return nil
}

// ListNodes lists the batch tasks of a job.
func (c *calls) ListNodes(_ context.Context, q *connect.Request[pb.ListNodesRequest]) (*connect.Response[pb.ListNodesResponse], error) {
	f, err := nodeFilter(q.Msg.Job, q.Msg.State, q.Msg.Node, q.Msg.Below)
	if err != nil {
		return nil, err
	}
	l, where, err := list(c.Server, q.Msg.Page, func(b *Backend, r plan.Range) (plan.Page[plan.JobNode], error) {
		if err := knownNodes(b, f); err != nil {
			return plan.Page[plan.JobNode]{}, err
		}
		return b.Jobs.ListNodes(f, r)
	})
	m := &pb.ListNodesResponse{Listing: where}
	for i := range l.Items {
		m.Nodes = append(m.Nodes, listedNode(&l.Items[i]))
	}
	return answer(m, err)
}

// ListResults lists ended batch tasks with what they reported.
func (c *calls) ListResults(ctx context.Context, q *connect.Request[pb.ListResultsRequest]) (*connect.Response[pb.ListResultsResponse], error) {
	f, err := nodeFilter(q.Msg.Job, q.Msg.State, q.Msg.Node, q.Msg.Below)
	if err != nil {
		return nil, err
	}
	l, where, err := list(c.Server, q.Msg.Page, func(b *Backend, r plan.Range) (plan.Page[plan.JobNode], error) {
		if err := knownNodes(b, f); err != nil {
			return plan.Page[plan.JobNode]{}, err
		}
		return b.Jobs.ListResults(ctx, f, r)
	})
	m := &pb.ListResultsResponse{Listing: where}
	for i := range l.Items {
		m.Results = append(m.Results, listedNode(&l.Items[i]))
	}
	return answer(m, err)
}

// RemoveJob deletes a job; what runs of it is ended.
func (c *calls) RemoveJob(ctx context.Context, q *connect.Request[pb.RemoveJobRequest]) (*connect.Response[pb.RemoveJobResponse], error) {
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) error { return b.Jobs.RemoveJob(ctx, q.Msg.Name, w) })
	return answer(&pb.RemoveJobResponse{}, err)
}

// PauseJob stops or resumes starting batch tasks.
func (c *calls) PauseJob(ctx context.Context, q *connect.Request[pb.PauseJobRequest]) (*connect.Response[pb.PauseJobResponse], error) {
	var j plan.Job
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) (err error) {
		j, err = b.Jobs.PauseJob(ctx, q.Msg.Name, q.Msg.Paused, w)
		return err
	})
	return answer(&pb.PauseJobResponse{Job: job(&j, false)}, err)
}

// RetryJob lets failed batch tasks run again.
func (c *calls) RetryJob(ctx context.Context, q *connect.Request[pb.RetryJobRequest]) (*connect.Response[pb.RetryJobResponse], error) {
	n, err := c.changeNodes(ctx, q.Msg, Jobs.RetryJob)
	return answer(&pb.RetryJobResponse{Retried: n}, err)
}

// KillJob ends running batch tasks.
func (c *calls) KillJob(ctx context.Context, q *connect.Request[pb.KillJobRequest]) (*connect.Response[pb.KillJobResponse], error) {
	n, err := c.changeNodes(ctx, q.Msg, Jobs.KillJob)
	return answer(&pb.KillJobResponse{Killed: n}, err)
}

// changeNodes changes the batch tasks of a job that a request names, and returns how
// many.
func (c *calls) changeNodes(ctx context.Context, q interface {
	GetName() string
	GetNode() string
	GetBelow() string
	GetWrite() *pb.Write
}, change func(Jobs, context.Context, plan.JobNodeFilter, plan.Write) (int, error)) (int32, error) {
	f, err := nodeFilter(q.GetName(), nil, q.GetNode(), q.GetBelow())
	if err != nil {
		return 0, err
	}
	n := 0
	err = write(ctx, c.Server, q.GetWrite(), func(b *Backend, w plan.Write) (err error) {
		if err = knownNodes(b, f); err != nil {
			return err
		}
		n, err = change(b.Jobs, ctx, f, w)
		return err
	})
	return int32(n), err
}
