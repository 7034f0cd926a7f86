package api

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"cantina/batch"
	"cantina/event"
	"cantina/internal/guard"
	"cantina/internal/text"
	"cantina/plan"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
)

// Heartbeat is the interval of progress messages on a stream without events.
const Heartbeat = 15 * time.Second

// StreamEvents sends committed changes in order, from strictly after a position
// on, until the client goes or the term ends.
func (c streamCalls) StreamEvents(ctx context.Context, q *request[pb.StreamEventsRequest],
	out *connect.ServerStream[pb.StreamEventsResponse]) error {
	binary := strings.HasSuffix(q.Header().Get("Content-Type"), "proto")
	return c.streamEvents(ctx, q.Msg, reader{
		event: func(e *shared) error {
			if binary {
				return out.Send(e.encoded())
			}
			return out.Send(e.message())
		},
		other: out.Send,
		flush: func() error { return nil }, // each message is
	})
}

// reader reads the events of a stream.
type reader struct {
	event func(*shared) error
	other func(*pb.StreamEventsResponse) error // a gap, or how far the stream has come
	flush func() error
}

// shared is an event for many readers: each form is made once and used by all.
type shared struct {
	now *Backend
	e   *event.Event
	all bool
}

// form is the key of a form of an event.
type form struct {
	kind string
	all  bool
}

func (x *shared) message() *pb.StreamEventsResponse {
	return event.Form(x.e.Forms, form{"message", x.all}, func() *pb.StreamEventsResponse {
		return &pb.StreamEventsResponse{Event: shownEvent(x.now, x.e, x.all), Position: x.e.Position.String()}
	})
}

// encoded is a message with a stored encoding, as fields that are not parsed.
func (x *shared) encoded() *pb.StreamEventsResponse {
	m := x.message()
	return event.Form(x.e.Forms, form{"encoded", x.all}, func() *pb.StreamEventsResponse {
		text, err := proto.Marshal(m)
		if err != nil {
			return m // the sender gets the error
		}
		raw := &pb.StreamEventsResponse{}
		raw.ProtoReflect().SetUnknown(text)
		return raw
	})
}

// text is the event as /v1 writes it.
func (x *shared) text(sse bool) []byte {
	m := x.message()
	kind := "lines"
	if sse {
		kind = "sse"
	}
	return event.Form(x.e.Forms, form{kind, x.all}, func() []byte { return record(m, m.Position, m.Event.Kind, sse) })
}

func (s *Server) streamEvents(ctx context.Context, q *pb.StreamEventsRequest, to reader) error {
	b, err := s.now()
	if err != nil {
		return err
	}
	done, err := s.streams.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	guard.Narrow(ctx)
	wanted, err := eventFilter(q)
	if err != nil {
		return err
	}
	sub := b.Events.Tail()
	if q.Since != "" && q.Since != "tail" {
		p, err := event.ParsePosition(q.Since)
		if err != nil {
			return &FieldError{Err: err, Field: "since", Hint: "must be a revision, or the position of an event or list"}
		}
		sub = b.Events.Since(p)
	}
	sub = sub.Only(wanted)
	// Once all existing events have been read, a message has the position so far. A client that wants
	// no more events ends there. One that loses the stream before the next event resumes there.
	// Neither waits for an event that passes the filter.
	wait := time.Duration(0)
	for {
		batch, err := sub.Next(ctx, wait)
		if errors.Is(err, context.Canceled) {
			return nil // the client went
		}
		if err != nil {
			return err
		}
		if err := sendBatch(b, batch, q.All, to); err != nil {
			return err
		}
		if batch.Gap == nil && len(batch.Events) == 0 {
			wait = Heartbeat
		}
	}
}

func sendBatch(now *Backend, b event.Batch, all bool, to reader) error {
	if g := b.Gap; g != nil {
		return to.other(&pb.StreamEventsResponse{Gap: &pb.Gap{After: g.After.String(), Before: g.Before.String()},
			Position: b.Seen.String()})
	}
	for i := range b.Events {
		if err := to.event(&shared{now, &b.Events[i], all}); err != nil {
			return err
		}
	}
	if len(b.Events) > 0 {
		return to.flush()
	}
	return to.other(&pb.StreamEventsResponse{Position: b.Seen.String()})
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
			return nil,
				invalid("kind", "invalid kind %q: must be one of service, instance, task, job, node, cell, schedule, note",
					text.Shorten(name, 60))
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
		Domain: e.Domain, Subject: text.Clean(e.Subject), Gone: e.Gone, Text: text.Clean(e.Text),
	}
	switch {
	case e.Service != nil:
		m.Service = service(&plan.Service{Service: *e.Service}, false)
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
		m.Job = &pb.Job{Uid: j.UID, State: stateWord(j.State, j.Removed, j.NodesKnown),
			Counts: counts(&j.Progress), Reason: text.Clean(j.Reason), Labels: text.CleanMap(j.Labels)}
		m.Job.Domain, m.Job.Name = batch.SplitName(j.Name)
	case e.JobNode != nil:
		m.Node = node(e.JobNode.Job, &e.JobNode.NodeView)
	case e.Schedule != nil:
		m.Schedule = scheduleMessage(&plan.Schedule{Row: *e.Schedule, Revision: e.Revision})
	case e.Cell != nil:
		m.Cell = &pb.Cell{Name: string(e.Cell.Name), Proc: string(e.Cell.Proc), Session: e.Cell.Session.String(),
			Reason: text.Clean(e.Cell.Reason), Draining: e.Cell.Draining, Unavailable: text.Clean(e.Cell.Unavailable)}
	}
	return m
}
