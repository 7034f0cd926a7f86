package api

import (
	"context"
	"fmt"

	"cantina/batch"
	"cantina/fault"
	"cantina/internal/text"
	"cantina/plan"
	pb "cantina/wire/cantinav1"
)

// ListJobs lists jobs by name.
func (c jobCalls) ListJobs(_ context.Context, q *request[pb.ListJobsRequest]) (*response[pb.ListJobsResponse], error) {
	f, err := nameFilter(q.Msg)
	if err != nil {
		return nil, err
	}
	all, where, err := list(c.Server, q.Msg.Page, func(b *Backend, r plan.Range) (plan.Page[plan.Job], error) {
		return b.Jobs.ListJobs(f, r)
	}, func(j *plan.Job) *pb.Job { return job(j, false) })
	return answer(&pb.ListJobsResponse{Jobs: all, Listing: where}, err)
}

// jobKey puts in the default domain.
func jobKey(domain, name string) string { return batch.FullName(orDefault(domain), name) }

// GetJob returns a job with its definition.
func (c jobCalls) GetJob(_ context.Context, q *request[pb.GetJobRequest]) (*response[pb.GetJobResponse], error) {
	return get(c.Server, func(b *Backend) (plan.Job, error) { return b.Jobs.GetJob(jobKey(q.Msg.Domain, q.Msg.Name)) },
		func(j *plan.Job, at string) *pb.GetJobResponse {
			return &pb.GetJobResponse{Job: job(j, true), Position: at}
		})
}

func nodeFilter(domain, job string, states []string, node, below string) (plan.JobNodeFilter, error) {
	f := plan.JobNodeFilter{Job: jobKey(domain, job), Node: node, Below: below}
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
			return f,
				invalid("state",
					"invalid state %q: must be one of ready, running, done, failed, backoff, blocked, avoided, disabled, absent",
					text.Shorten(s, 60))
		}
	}
	return f, nil
}

// knownNodes refuses a filter with a node that the job does not have, or that is no ancestor of
// its nodes: an empty answer would look like success.
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
func (c jobCalls) ListNodes(_ context.Context, q *request[pb.ListNodesRequest]) (*response[pb.ListNodesResponse],
	error) {
	nodes, where, err := c.nodes(q.Msg, Jobs.ListNodes)
	return answer(&pb.ListNodesResponse{Nodes: nodes, Listing: where}, err)
}

// maxGroups bounds the groups of one answer.
const maxGroups = 2000

// ListGroups counts the batch tasks of a job below each node of one level.
func (c jobCalls) ListGroups(_ context.Context, q *request[pb.ListGroupsRequest]) (*response[pb.ListGroupsResponse],
	error) {
	return get(c.Server, func(b *Backend) ([]batch.Group, error) {
		return b.Jobs.ListGroups(jobKey(q.Msg.Domain, q.Msg.Job), q.Msg.Below)
	}, func(all *[]batch.Group, _ string) *pb.ListGroupsResponse {
		shown := (*all)[:min(len(*all), maxGroups)]
		out := &pb.ListGroupsResponse{More: int32(len(*all) - len(shown))}
		for i := range shown {
			out.Groups = append(out.Groups, &pb.Group{Node: shown[i].Node, Level: shown[i].Level,
				Counts: counts(&shown[i].Progress)})
		}
		return out
	})
}

// ListResults lists ended batch tasks with their reports.
func (c jobCalls) ListResults(ctx context.Context,
	q *request[pb.ListResultsRequest]) (*response[pb.ListResultsResponse], error) {
	nodes, where, err := c.nodes(q.Msg, func(j Jobs, f plan.JobNodeFilter, r plan.Range) (plan.Page[plan.JobNode], error) {
		return j.ListResults(ctx, f, r)
	})
	return answer(&pb.ListResultsResponse{Results: nodes, Listing: where}, err)
}

// nodes reads the requested batch tasks.
func (c jobCalls) nodes(q interface {
	GetDomain() string
	GetJob() string
	GetState() []string
	GetNode() string
	GetBelow() string
	GetPage() *pb.Page
}, read func(Jobs, plan.JobNodeFilter, plan.Range) (plan.Page[plan.JobNode], error)) ([]*pb.JobNode, *pb.Listing,
	error) {
	f, err := nodeFilter(q.GetDomain(), q.GetJob(), q.GetState(), q.GetNode(), q.GetBelow())
	if err != nil {
		return nil, nil, err
	}
	return list(c.Server, q.GetPage(), func(b *Backend, r plan.Range) (plan.Page[plan.JobNode], error) {
		if err := knownNodes(b, f); err != nil {
			return plan.Page[plan.JobNode]{}, err
		}
		return read(b.Jobs, f, r)
	}, listedNode)
}

// RemoveJob deletes a job and ends its running batch tasks.
func (c jobCalls) RemoveJob(ctx context.Context, q *request[pb.RemoveJobRequest]) (*response[pb.RemoveJobResponse],
	error) {
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend,
		w plan.Write) error {
		return b.Jobs.RemoveJob(ctx, jobKey(q.Msg.Domain, q.Msg.Name), w)
	})
	return answer(&pb.RemoveJobResponse{}, err)
}

// PauseJob stops or resumes starting batch tasks.
func (c jobCalls) PauseJob(ctx context.Context, q *request[pb.PauseJobRequest]) (*response[pb.PauseJobResponse],
	error) {
	var j plan.Job
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) (err error) {
		j, err = b.Jobs.PauseJob(ctx, jobKey(q.Msg.Domain, q.Msg.Name), q.Msg.Paused, w)
		return err
	})
	return answer(&pb.PauseJobResponse{Job: job(&j, false)}, err)
}

// RetryJob lets failed batch tasks run again.
func (c jobCalls) RetryJob(ctx context.Context, q *request[pb.RetryJobRequest]) (*response[pb.RetryJobResponse],
	error) {
	n, err := c.changeNodes(ctx, q.Msg, Jobs.RetryJob)
	return answer(&pb.RetryJobResponse{Retried: n}, err)
}

// KillJob ends running batch tasks.
func (c jobCalls) KillJob(ctx context.Context, q *request[pb.KillJobRequest]) (*response[pb.KillJobResponse], error) {
	n, err := c.changeNodes(ctx, q.Msg, Jobs.KillJob)
	return answer(&pb.KillJobResponse{Killed: n}, err)
}

// changeNodes changes the batch tasks of a job that a request names, and returns how
// many.
func (c jobCalls) changeNodes(ctx context.Context, q interface {
	GetDomain() string
	GetName() string
	GetNode() string
	GetBelow() string
	GetWrite() *pb.Write
}, change func(Jobs, context.Context, plan.JobNodeFilter, plan.Write) (int, error)) (int32, error) {
	f, err := nodeFilter(q.GetDomain(), q.GetName(), nil, q.GetNode(), q.GetBelow())
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
