package api

import (
	"context"
	"strings"
	"time"

	"connectrpc.com/connect"

	"cantina/event"
	"cantina/internal/text"
	"cantina/plan"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

// ListCells lists cells by name, and those that are gone when all is set.
func (c *calls) ListCells(_ context.Context, q *connect.Request[pb.ListCellsRequest]) (*connect.Response[pb.ListCellsResponse], error) {
	l, where, err := list(c.Server, q.Msg.Page, func(b *Backend, r plan.Range) (plan.Page[Cell], error) { return b.Cells.ListCells(r, q.Msg.All) })
	m := &pb.ListCellsResponse{Listing: where}
	for i := range l.Items {
		m.Cells = append(m.Cells, cellMessage(&l.Items[i]))
	}
	return answer(m, err)
}

// GetCell returns one cell.
func (c *calls) GetCell(_ context.Context, q *connect.Request[pb.GetCellRequest]) (*connect.Response[pb.GetCellResponse], error) {
	b, err := c.now()
	if err != nil {
		return nil, err
	}
	at := b.Events.Newest()
	got, err := b.Cells.GetCell(worker.CellName(q.Msg.Name))
	if err != nil {
		return nil, err
	}
	return answer(&pb.GetCellResponse{Cell: cellMessage(&got), Position: at.String()}, nil)
}

const (
	// maxReason bounds the reason of a drain, in bytes, maxDeadline how long one may take.
	maxReason   = 1000
	maxDeadline = 30 * 24 * time.Hour
)

// DrainCell has a cell emptied.
func (c *calls) DrainCell(ctx context.Context, q *connect.Request[pb.DrainCellRequest]) (*connect.Response[pb.DrainCellResponse], error) {
	d := NewDrain{Reason: strings.TrimSpace(text.Clean(q.Msg.Reason)), StopBatch: q.Msg.StopBatch}
	var err error
	if d.Deadline, err = wire.ToDuration(q.Msg.Deadline); err != nil {
		return nil, invalid("deadline", "must be a duration like 600s")
	}
	switch {
	case d.Reason == "":
		return nil, invalid("reason", "must not be empty; it is shown wherever the cell is listed")
	case len(d.Reason) > maxReason:
		return nil, invalid("reason", "longer than %d bytes", maxReason)
	case q.Msg.Deadline != nil && (d.Deadline < time.Second || d.Deadline > maxDeadline):
		return nil, invalid("deadline", "must be from 1 s to 30 days")
	}
	m := &pb.DrainCellResponse{}
	err = write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) error {
		got, err := b.Cells.DrainCell(ctx, worker.CellName(q.Msg.Name), d, w)
		m.Cell = cellMessage(&got)
		return err
	})
	return answer(m, err)
}

// UndrainCell lets a cell take work again.
func (c *calls) UndrainCell(ctx context.Context, q *connect.Request[pb.UndrainCellRequest]) (*connect.Response[pb.UndrainCellResponse], error) {
	m := &pb.UndrainCellResponse{}
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) error {
		got, err := b.Cells.UndrainCell(ctx, worker.CellName(q.Msg.Name), w)
		m.Cell = cellMessage(&got)
		return err
	})
	return answer(m, err)
}

// ForgetCell is an operator's word that a cell process is dead.
func (c *calls) ForgetCell(ctx context.Context, q *connect.Request[pb.ForgetCellRequest]) (*connect.Response[pb.ForgetCellResponse], error) {
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) error { return b.Cells.ForgetCell(ctx, worker.Proc(q.Msg.Proc), w) })
	return answer(&pb.ForgetCellResponse{}, err)
}

// AdoptCell has a cell of another cluster join this one.
func (c *calls) AdoptCell(ctx context.Context, q *connect.Request[pb.AdoptCellRequest]) (*connect.Response[pb.AdoptCellResponse], error) {
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) error { return b.Cells.AdoptCell(ctx, worker.CellName(q.Msg.Name), w) })
	return answer(&pb.AdoptCellResponse{}, err)
}

// DiscardUnknown ends what runs on a cell and the store does not know.
func (c *calls) DiscardUnknown(ctx context.Context, q *connect.Request[pb.DiscardUnknownRequest]) (*connect.Response[pb.DiscardUnknownResponse], error) {
	m := &pb.DiscardUnknownResponse{}
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) error {
		ended, err := b.Cells.DiscardUnknown(ctx, worker.CellName(q.Msg.Name), w)
		for _, what := range ended {
			m.Ended = append(m.Ended, text.Clean(what))
		}
		return err
	})
	return answer(m, err)
}

// GetStatus returns the state of the whole.
func (c *calls) GetStatus(context.Context, *connect.Request[pb.GetStatusRequest]) (*connect.Response[pb.GetStatusResponse], error) {
	b, err := c.now()
	if err != nil {
		return nil, err
	}
	s, err := b.Operation.Status()
	if err != nil {
		return nil, err
	}
	s.Warnings = append(c.warnings(), s.Warnings...)
	return answer(&pb.GetStatusResponse{Status: status(&s)}, nil)
}

// EndWait ends the initial wait.
func (c *calls) EndWait(ctx context.Context, q *connect.Request[pb.EndWaitRequest]) (*connect.Response[pb.EndWaitResponse], error) {
	if !q.Msg.AcceptDoubleStarts {
		return nil, invalid("accept_double_starts", "must be true: work that still runs may start a second time")
	}
	err := write(ctx, c.Server, q.Msg.Write, func(b *Backend, w plan.Write) error { return b.Operation.EndWait(ctx, w) })
	return answer(&pb.EndWaitResponse{}, err)
}

// ListQuarantine lists rows that cannot be read.
func (c *calls) ListQuarantine(_ context.Context, q *connect.Request[pb.ListQuarantineRequest]) (*connect.Response[pb.ListQuarantineResponse], error) {
	l, where, err := list(c.Server, q.Msg.Page, func(b *Backend, r plan.Range) (plan.Page[Quarantined], error) { return b.Operation.ListQuarantine(r) })
	m := &pb.ListQuarantineResponse{Listing: where}
	for _, x := range l.Items {
		m.Rows = append(m.Rows, &pb.Quarantined{Key: text.Clean(x.Key), Reason: text.Clean(x.Reason), Content: x.Bytes})
	}
	return answer(m, err)
}

// ReleaseQuarantined drops a row that cannot be read, or reads it again.
func (c *calls) ReleaseQuarantined(ctx context.Context, q *connect.Request[pb.ReleaseQuarantinedRequest]) (*connect.Response[pb.ReleaseQuarantinedResponse], error) {
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

// Explain says why something is in its state, with its newest events and lines.
func (c *calls) Explain(ctx context.Context, q *connect.Request[pb.ExplainRequest]) (*connect.Response[pb.ExplainResponse], error) {
	b, err := c.now()
	if err != nil {
		return nil, err
	}
	s, err := subject(q.Msg.Subject)
	if err != nil {
		return nil, err
	}
	x, err := b.Explainer.Explain(ctx, s)
	if err != nil {
		return nil, err
	}
	m := &pb.ExplainResponse{Subject: q.Msg.Subject, State: text.Clean(x.State), Wanted: text.Clean(x.Wanted), Fine: x.Fine}
	for _, r := range x.Reasons {
		m.Reasons = append(m.Reasons, &pb.Reason{
			Code: r.Code, Text: text.Clean(r.Text), Resource: text.Clean(r.Resource), Need: int32(r.Need), Have: int32(r.Have), Holder: text.Clean(r.Holder),
			Level: text.Clean(r.Level), Change: text.Clean(r.Change), Longest: wire.FromDuration(r.Longest),
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

func subject(m *pb.Subject) (plan.Subject, error) {
	s := plan.Subject{Kind: plan.SubjectKind(m.GetKind()), Domain: m.GetDomain(), Name: m.GetName(), Index: int(m.GetIndex()), Node: m.GetNode()}
	switch s.Kind {
	case plan.SubjectService, plan.SubjectInstance, plan.SubjectSchedule:
		s.Domain = orDefault(s.Domain)
	case plan.SubjectTask, plan.SubjectJob, plan.SubjectCell:
	case plan.SubjectNode:
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
		return e.Instance != nil && e.Instance.Service.Domain == s.Domain && e.Instance.Service.Name == s.Name && e.Instance.Key.Index == s.Index
	case plan.SubjectTask:
		return e.Kind == event.Task && e.Subject == s.Name
	case plan.SubjectJob:
		return e.Kind == event.Job && e.Subject == s.Name || e.JobNode != nil && e.JobNode.Job == s.Name
	case plan.SubjectNode:
		return e.JobNode != nil && e.JobNode.Job == s.Name && e.JobNode.Node == s.Node
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
