package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"connectrpc.com/connect"

	pb "cantina/wire/cantinav1"
)

// moment reads a time parameter, RFC 3339.
func moment(text string) (v protoreflect.Value, problem string) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return v, "must be a time like 2026-01-02T15:04:05Z"
	}
	return protoreflect.ValueOfMessage(timestamppb.New(t).ProtoReflect()), ""
}

// stream writes messages as server-sent events or as JSON lines, as the client accepts.
type stream struct {
	w       http.ResponseWriter
	flush   *http.ResponseController
	sse     bool
	started bool
}

func newStream(w http.ResponseWriter, r *http.Request) *stream {
	return &stream{w: w, flush: http.NewResponseController(w),
		sse: strings.Contains(r.Header.Get("Accept"), "text/event-stream")}
}

func (s *stream) start() {
	if s.started {
		return
	}
	s.started = true
	kind := "application/jsonl"
	if s.sse {
		kind = "text/event-stream"
	}
	s.w.Header().Set("Content-Type", kind)
	s.w.Header().Set("Cache-Control", "no-store")
}

// send writes one message; id is where to resume and name the event's name.
func (s *stream) send(m proto.Message, id, name string) error {
	if err := s.write(record(m, id, name, s.sse)); err != nil {
		return err
	}
	return s.flush.Flush()
}

// write writes a record, which goes out at the next flush.
func (s *stream) write(text []byte) error {
	s.start()
	_, err := s.w.Write(text)
	return err
}

// record is one message as a server-sent event, or as a JSON line.
func record(m proto.Message, id, name string, sse bool) []byte {
	text := JSON(m)
	if !sse {
		return append(text, '\n')
	}
	var out []byte
	if id != "" {
		out = fmt.Appendf(out, "id: %s\n", id)
	}
	return fmt.Appendf(out, "event: %s\ndata: %s\n\n", name, text)
}

// end reports an error: as the response if nothing was sent yet, else as the last record of the
// stream.
func (s *stream) end(srv *Server, r *http.Request, err error) {
	if err == nil || r.Context().Err() != nil {
		return
	}
	if !s.started {
		srv.problem(s.w, r, err)
		return
	}
	_, id := srv.identify(r.Context())
	class, d := srv.detail(err, id)
	text, merr := json.Marshal(map[string]any{"error": json.RawMessage(JSON(d)), "detail": srv.say(err, class, id)})
	if merr != nil {
		return
	}
	if s.sse {
		text = append([]byte("event: error\ndata: "), append(text, '\n')...)
	}
	_, _ = s.w.Write(append(text, '\n'))
	_ = s.flush.Flush()
}

// v1Events streams committed changes. A reconnecting EventSource resumes by its
// Last-Event-ID.
func (s *Server) v1Events(w http.ResponseWriter, r *http.Request) {
	out := newStream(w, r)
	q := &pb.StreamEventsRequest{}
	_, err := parameters(r, q)
	if id := r.Header.Get("Last-Event-ID"); id != "" && err == nil {
		q.Since = id
	}
	if err == nil {
		err = s.streamEvents(r.Context(), q, reader{
			event: func(e *shared) error { return out.write(e.text(out.sse)) },
			other: func(m *pb.StreamEventsResponse) error {
				name := "heartbeat"
				if m.Gap != nil {
					name = "gap"
				}
				return out.send(m, m.Position, name)
			},
			flush: out.flush.Flush,
		})
	}
	out.end(s, r, err)
}

// v1Output reads output: a page as JSON; with follow a stream; with raw the bytes
// themselves.
func (s *Server) v1Output(w http.ResponseWriter, r *http.Request, c *calls) {
	follow, raw := flag(r, "follow"), flag(r, "raw")
	values := r.URL.Query()
	values.Del("follow")
	values.Del("raw")
	r.URL.RawQuery = values.Encode()
	out := newStream(w, r)
	var err error
	switch {
	case follow && raw:
		out.sse = false
		err = s.v1FollowRaw(w, r, out)
	case follow:
		q := &pb.FollowOutputRequest{}
		if _, err = parameters(r, q); err == nil {
			err = s.followOutput(r.Context(), q, func(m *pb.FollowOutputResponse) error {
				return out.send(m, m.Cursor,
					"output")
			})
		}
	case raw:
		err = s.v1Raw(w, r, c, out)
	default:
		err = call(c.ReadOutput, nil).serve(w, r)
	}
	out.end(s, r, err)
}

func flag(r *http.Request, name string) bool {
	v := r.URL.Query()
	return v.Has(name) && v.Get(name) != "false" && v.Get(name) != "0"
}

// rawLine writes a line exactly as the process wrote it.
func rawLine(w http.ResponseWriter, l *pb.OutputLine) error {
	text := l.Raw
	if len(text) == 0 {
		text = []byte(l.Text)
	}
	if !l.Unterminated && l.Gap == nil {
		text = append(text, '\n')
	}
	_, err := w.Write(text)
	return err
}

func (s *Server) v1Raw(w http.ResponseWriter, r *http.Request, c *calls, out *stream) error {
	q := &pb.ReadOutputRequest{}
	if _, err := parameters(r, q); err != nil {
		return err
	}
	if q.Page == nil {
		q.Page = &pb.Page{}
	}
	if q.Page.Limit == 0 {
		q.Page.Limit = MaxPage
	}
	for {
		page, err := c.ReadOutput(r.Context(), connect.NewRequest(q))
		if err != nil {
			return err
		}
		if !out.started {
			out.started = true
			w.Header().Set("Content-Type", "application/octet-stream")
		}
		for _, l := range page.Msg.Lines {
			if err := rawLine(w, l); err != nil {
				return nil // the client went
			}
		}
		if len(page.Msg.Lines) == 0 || page.Msg.Next == q.Page.Cursor || q.Query.GetTail() > 0 || q.Query.GetBackward() {
			return nil
		}
		q.Page.Cursor = page.Msg.Next
	}
}

func (s *Server) v1FollowRaw(w http.ResponseWriter, r *http.Request, out *stream) error {
	q := &pb.FollowOutputRequest{}
	if _, err := parameters(r, q); err != nil {
		return err
	}
	return s.followOutput(r.Context(), q, func(m *pb.FollowOutputResponse) error {
		if !out.started {
			out.started = true
			w.Header().Set("Content-Type", "application/octet-stream")
		}
		for _, l := range m.Lines {
			if err := rawLine(w, l); err != nil {
				return err
			}
		}
		return out.flush.Flush()
	})
}
