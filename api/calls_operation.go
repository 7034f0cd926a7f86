package api

import (
	"context"
	"strings"
	"time"

	"cantina/event"
	"cantina/internal/text"
	"cantina/plan"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
)

// GetStatus returns the state of the whole.
func (c operationCalls) GetStatus(context.Context, *request[pb.GetStatusRequest]) (*response[pb.GetStatusResponse],
	error) {
	return get(c.Server, func(b *Backend) (Status, error) { return b.Operation.Status() },
		func(s *Status, _ string) *pb.GetStatusResponse {
			s.Warnings = append(c.warnings(), s.Warnings...)
			return &pb.GetStatusResponse{Status: status(s)}
		})
}

// CreateBrowserKey returns the addresses of the web UI, and a key for the loopback ports among them.
func (c operationCalls) CreateBrowserKey(context.Context, *request[pb.CreateBrowserKeyRequest]) (
	*response[pb.CreateBrowserKeyResponse], error) {
	m := &pb.CreateBrowserKeyResponse{}
	if c.cfg.Browser != nil {
		b := c.cfg.Browser()
		m.Addresses, m.Key, m.Tls = b.Addresses, b.Key.Reveal(), b.TLS
	}
	return answer(m, nil)
}

// EndWait ends the initial wait.
func (c operationCalls) EndWait(ctx context.Context, q *request[pb.EndWaitRequest]) (*response[pb.EndWaitResponse],
	error) {
	if !q.Msg.AcceptDoubleStarts {
		return nil, invalid("accept_double_starts", "must be true: work that still runs may start a second time")
	}
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) error { return b.Operation.EndWait(ctx, w) })
	return answer(&pb.EndWaitResponse{}, err)
}

// ListQuarantine lists rows that cannot be read.
func (c operationCalls) ListQuarantine(_ context.Context,
	q *request[pb.ListQuarantineRequest]) (*response[pb.ListQuarantineResponse], error) {
	all, where, err := list(c.Server, q.Msg.Page, func(b *Backend, r plan.Range) (plan.Page[Quarantined], error) {
		return b.Operation.ListQuarantine(r)
	}, func(x *Quarantined) *pb.Quarantined {
		return &pb.Quarantined{Key: text.Clean(x.Key), Reason: text.Clean(x.Reason), Content: x.Bytes}
	})
	return answer(&pb.ListQuarantineResponse{Rows: all, Listing: where}, err)
}

// ReleaseQuarantined drops a row that cannot be read, or reads it again.
func (c operationCalls) ReleaseQuarantined(ctx context.Context,
	q *request[pb.ReleaseQuarantinedRequest]) (*response[pb.ReleaseQuarantinedResponse], error) {
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) error {
		return b.Operation.ReleaseQuarantined(ctx, q.Msg.Key, q.Msg.Restore, w)
	})
	return answer(&pb.ReleaseQuarantinedResponse{}, err)
}

const (
	explainEvents = 10
	explainLines  = 10
	// explainWait is how long Explain waits for lines of output.
	explainWait = 2 * time.Second
)

// about returns the leader's backend, and the subject of a call.
func (c operationCalls) about(m *pb.Subject) (*Backend, plan.Subject, error) {
	b, err := c.now()
	if err != nil {
		return nil, plan.Subject{}, err
	}
	s, err := subject(m)
	return b, s, err
}

// Explain returns the reasons for the state of a resource, with its newest events and lines.
func (c operationCalls) Explain(ctx context.Context, q *request[pb.ExplainRequest]) (*response[pb.ExplainResponse],
	error) {
	b, s, err := c.about(q.Msg.Subject)
	if err != nil {
		return nil, err
	}
	x, err := b.Explainer.Explain(ctx, s)
	if err != nil {
		return nil, err
	}
	m := &pb.ExplainResponse{Subject: q.Msg.Subject, State: text.Clean(x.State), Wanted: text.Clean(x.Wanted),
		Fine: x.Fine}
	for _, r := range x.Reasons {
		m.Reasons = append(m.Reasons, &pb.Reason{
			Code: r.Code, Text: text.Clean(r.Text), Resource: text.Clean(r.Resource), Need: int32(r.Need), Have: int32(r.Have),
			Holder: text.Clean(r.Holder),
			Level:  text.Clean(r.Level), Change: text.Clean(r.Change), Longest: wire.FromDuration(r.Longest),
		})
	}
	m.EventsSince = wire.FromTime(b.Events.Kept())
	for _, e := range b.Events.Recent(explainEvents, func(e *event.Event) bool { return concerns(e, s) }) {
		m.Events = append(m.Events, eventMessage(&e, true))
	}
	if query := outputOf(s); query != nil {
		ctx, cancel := context.WithTimeout(ctx, explainWait)
		defer cancel()
		if page, err := readOutput(ctx, b.Logs, query, "", pageSize{lines: explainLines}); err == nil {
			m.Lines = page.lines()
		}
	}
	return answer(m, nil)
}

// ShortenStop has work that is to end killed after a shorter grace.
func (c operationCalls) ShortenStop(
	ctx context.Context, q *request[pb.ShortenStopRequest],
) (*response[pb.ShortenStopResponse], error) {
	b, s, err := c.about(q.Msg.Subject)
	if err != nil {
		return nil, err
	}
	grace, err := wire.ToDuration(q.Msg.Grace)
	if err != nil || grace < 0 || grace > maxDeadline {
		return nil, invalid("grace", "must be a duration from 0s to 30 days")
	}
	got, err := b.Stops.ShortenStop(ctx, s, grace)
	return answer(&pb.ShortenStopResponse{Ending: int32(got.Ending), Shortened: int32(got.Shortened),
		Unreached: got.Unreached}, err)
}

func subject(m *pb.Subject) (plan.Subject, error) {
	s := plan.Subject{Kind: plan.SubjectKind(m.GetKind()), Domain: m.GetDomain(), Name: m.GetName(),
		Index: int(m.GetIndex()), Node: m.GetNode()}
	switch s.Kind {
	case plan.SubjectService, plan.SubjectInstance, plan.SubjectJob, plan.SubjectSchedule:
		s.Domain = orDefault(s.Domain)
	case plan.SubjectTask, plan.SubjectCell:
	case plan.SubjectNode:
		s.Domain = orDefault(s.Domain)
		if s.Node == "" {
			return s, invalid("subject.node", "must not be empty")
		}
	default:
		return s, invalid("subject.kind", "must be service, instance, task, job, node, cell or schedule")
	}
	if s.Name == "" {
		return s, invalid("subject.name", "must not be empty")
	}
	return s, nil
}

// concerns reports whether an event is about a subject.
func concerns(e *event.Event, s plan.Subject) bool {
	switch s.Kind {
	case plan.SubjectService:
		return e.Service != nil && e.Subject == s.Domain+"/"+s.Name ||
			e.Instance != nil && e.Instance.Service.Domain == s.Domain && e.Instance.Service.Name == s.Name
	case plan.SubjectInstance:
		return e.Instance != nil && e.Instance.Service.Domain == s.Domain && e.Instance.Service.Name == s.Name &&
			e.Instance.Key.Index == s.Index
	case plan.SubjectTask:
		return e.Kind == event.Task && e.Subject == s.Name
	case plan.SubjectJob:
		return e.Kind == event.Job && e.Subject == s.Job() || e.JobNode != nil && e.JobNode.Job == s.Job()
	case plan.SubjectNode:
		return e.JobNode != nil && e.JobNode.Job == s.Job() && e.JobNode.Node == s.Node
	case plan.SubjectSchedule:
		return e.Kind == event.Schedule && e.Subject == s.Domain+"/"+s.Name
	case plan.SubjectCell:
		return e.Kind == event.Cell && e.Subject == s.Name || e.Kind == event.Note && strings.Contains(e.Subject, s.Name)
	}
	return false
}

// outputOf is the query for a subject's output; nil when it has none.
func outputOf(s plan.Subject) *pb.OutputQuery {
	q := &pb.OutputQuery{Domain: s.Domain, Tail: explainLines}
	switch s.Kind {
	case plan.SubjectService:
		q.Service = s.Name
	case plan.SubjectInstance:
		index := int32(s.Index)
		q.Service, q.Index = s.Name, &index
	case plan.SubjectTask:
		q.Task = s.Name
	case plan.SubjectNode:
		q.Job, q.Node = s.Name, s.Node
	case plan.SubjectJob, plan.SubjectCell, plan.SubjectSchedule:
		return nil
	}
	return q
}
