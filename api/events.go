package api

import (
	"context"
	"errors"
	"slices"
	"time"

	"connectrpc.com/connect"

	"cantina/event"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
)

// Heartbeat is how often a stream without news says that it is alive.
const Heartbeat = 15 * time.Second

// StreamEvents sends committed changes in order, from strictly after a position
// on, until the client goes or the term ends.
func (c *calls) StreamEvents(ctx context.Context, q *connect.Request[pb.StreamEventsRequest], out *connect.ServerStream[pb.StreamEventsResponse]) error {
	return c.streamEvents(ctx, q.Msg, out.Send)
}

func (s *Server) streamEvents(ctx context.Context, q *pb.StreamEventsRequest, send func(*pb.StreamEventsResponse) error) error {
	b, err := s.now()
	if err != nil {
		return err
	}
	wanted, err := eventFilter(q)
	if err != nil {
		return err
	}
	sub := b.Events.Tail()
	if q.Since != "" && q.Since != "tail" {
		p, err := event.ParsePosition(q.Since)
		if err != nil {
			return &FieldError{Err: err, Field: "since", Hint: "a revision, or the position of an event or list"}
		}
		sub = b.Events.Since(p)
	}
	sub = sub.Only(wanted)
	// Once all that is there has been read, a message says how far that goes: a client that
	// wants no more ends there, one that loses the stream before the next event resumes
	// there, and neither waits for an event that passes the filter.
	wait := time.Duration(0)
	for {
		batch, err := sub.Next(ctx, wait)
		if errors.Is(err, context.Canceled) {
			return nil // the client went
		}
		if err != nil {
			return err
		}
		if err := sendBatch(b, batch, q, send); err != nil {
			return err
		}
		if batch.Gap == nil && len(batch.Events) == 0 {
			wait = Heartbeat
		}
	}
}

func sendBatch(now *Backend, b event.Batch, q *pb.StreamEventsRequest, send func(*pb.StreamEventsResponse) error) error {
	if g := b.Gap; g != nil {
		return send(&pb.StreamEventsResponse{Gap: &pb.Gap{After: g.After.String(), Before: g.Before.String()}, Position: b.Seen.String()})
	}
	for i := range b.Events {
		e := &b.Events[i]
		if err := send(&pb.StreamEventsResponse{Event: shownEvent(now, e, q.All), Position: e.Position.String()}); err != nil {
			return err
		}
	}
	if len(b.Events) > 0 {
		return nil
	}
	return send(&pb.StreamEventsResponse{Position: b.Seen.String()})
}

func eventFilter(q *pb.StreamEventsRequest) (func(*event.Event) bool, error) {
	var kinds []event.Kind
	for _, name := range q.Kind {
		found := false
		for k := event.Service; k <= event.Note; k++ {
			if k.String() == name {
				kinds, found = append(kinds, k), true
			}
		}
		if !found {
			return nil, invalid("kind", "%q is none of service, instance, task, job, pair, cell, schedule, note", shorten(name))
		}
	}
	return func(e *event.Event) bool {
		return (q.All || e.Kind != event.Instance || e.Turn) && (len(kinds) == 0 || slices.Contains(kinds, e.Kind)) &&
			(q.Domain == "" || e.Domain == q.Domain) && (q.Subject == "" || e.Subject == q.Subject)
	}, nil
}

// eventMessage puts an event on the wire: of an instance the row that changed when
// all is set, otherwise the row that readers see of its index.
func eventMessage(e *event.Event, all bool) *pb.Event {
	m := &pb.Event{
		Revision: e.Revision, Position: e.Position.String(), Time: wire.FromTime(e.Time), Kind: e.Kind.String(),
		Domain: e.Domain, Subject: clean(e.Subject), Gone: e.Gone, Text: clean(e.Text),
	}
	switch {
	case e.Service != nil:
		m.Service = service(&Service{Service: *e.Service}, false)
	case e.Instance != nil && all:
		m.Instance = instance(e.Instance)
		m.Instance.Hidden = e.Hidden
	case e.Instance != nil && e.Shown != nil:
		m.Instance, m.Gone = instance(e.Shown), false
	case e.Instance != nil:
		m.Instance, m.Gone = instance(e.Instance), true
	case e.Task != nil:
		m.Task = taskMessage(e.Task, e.Revision, false)
	case e.Job != nil:
		j := e.Job
		m.Job = &pb.Job{Name: j.Name, Uid: j.UID, Domain: e.Domain, State: stateWord(j.State, j.Removed, j.NodesKnown), Counts: counts(&j.Progress), Reason: clean(j.Reason)}
	case e.Pair != nil:
		m.Node = node(e.Pair.Job, &e.Pair.NodeView)
	case e.Schedule != nil:
		m.Schedule = scheduleMessage(&Schedule{Row: *e.Schedule, Revision: e.Revision})
	case e.Cell != nil:
		m.Cell = &pb.Cell{Name: string(e.Cell.Name), Proc: string(e.Cell.Proc), Session: e.Cell.Session.String(), Reason: clean(e.Cell.Reason), Evacuating: e.Cell.Evacuating, Unavailable: clean(e.Cell.Unavailable)}
	}
	return m
}
