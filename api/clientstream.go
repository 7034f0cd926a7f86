package api

import (
	"context"
	"errors"
	"io"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"

	"cantina/internal/run"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
)

func protoValue(s string) protoreflect.Value { return protoreflect.ValueOfString(s) }

// errStop ends a stream from inside its callback without an error.
var errStop = errors.New("stream stopped by its reader")

// Stop returns the error by which a callback ends its stream: the stream's method
// then returns nil.
func Stop() error { return errStop }

// StreamPatience is how long a stream that broke is taken up again without news.
const StreamPatience = 30 * time.Second

// Events calls each for every message of the event stream. A stream that breaks is resumed at its
// position. So is one whose each returns the error of a call that may succeed later: it gets the
// same message again. Events returns when ctx is done, each fails, or no server can be reached for
// some time.
func (c *Client) Events(ctx context.Context, q *pb.StreamEventsRequest,
	each func(*pb.StreamEventsResponse) error) error {
	return follow(ctx, c, func(ctx context.Context, s *server, progress func()) error {
		res, err := s.calls.StreamEvents(ctx, connect.NewRequest(q))
		return receive(res, err, func(m *pb.StreamEventsResponse) error {
			progress()
			if err := each(m); err != nil {
				return err
			}
			if m.Position != "" {
				q.Since = m.Position
			}
			return nil
		})
	})
}

// FollowOutput calls each for every message of an output stream until it ends. A stream that
// breaks is resumed at its position. logstore.EachPacked reads packed messages.
func (c *Client) FollowOutput(ctx context.Context, q *pb.FollowOutputRequest,
	each func(*pb.FollowOutputResponse) error) error {
	return follow(ctx, c, func(ctx context.Context, s *server, progress func()) error {
		res, err := s.calls.FollowOutput(ctx, connect.NewRequest(q))
		ended := false
		err = receive(res, err, func(m *pb.FollowOutputResponse) error {
			progress()
			if err := each(m); err != nil {
				return err
			}
			if m.Cursor != "" {
				q.Cursor = m.Cursor
			}
			if ended = m.End; ended {
				return errStop
			}
			return nil
		})
		return err
	})
}

// ReadOutput calls each for the packed pages of an output, in order, until its end or,
// with tail, for one page. The next page is read while each works on one.
// patience is how long the first page may wait for a leader.
func (c *Client) ReadOutput(ctx context.Context, patience time.Duration, q *pb.OutputQuery,
	each func(*pb.ReadOutputResponse) error) error {
	type result struct {
		m   *pb.ReadOutputResponse
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	pages := make(chan result)
	done := make(chan struct{})
	defer func() { cancel(); <-done }()
	go func() {
		defer close(done)
		defer close(pages)
		req := &pb.ReadOutputRequest{Query: q, Page: &pb.Page{}, Packed: true}
		for {
			m, err := CallFor(ctx, c, patience, cantinav1connect.CantinaServiceClient.ReadOutput, req)
			select {
			case pages <- result{m, err}:
			case <-ctx.Done():
				return
			}
			if err != nil || !m.More || q.GetTail() > 0 {
				return
			}
			req.Page.Cursor, patience = m.Next, StreamPatience // output that was begun is not given up for a new leader
		}
	}()
	for r := range pages {
		if r.err != nil {
			return r.err
		}
		if err := each(r.m); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// follow opens a stream repeatedly until it ends normally. once returns nil if the server ended it
// without an error.
func follow(ctx context.Context, c *Client, once func(context.Context, *server, func()) error) error {
	last := time.Now()
	for {
		err := c.try(ctx, c.cfg.Patience, func(s *server) error {
			news := false
			callCtx, end := c.whileAlive(ctx, s, probeStream)
			defer end()
			err := once(callCtx, s, func() { news = true })
			if err != nil && errors.Is(context.Cause(callCtx), errSilent) {
				err = silent(s.address, err)
			}
			if news {
				last = time.Now() // counted from the break: this process may have been stopped before it
			}
			return err
		})
		if errors.Is(err, errStop) {
			return nil
		}
		var e *Error
		if err != nil && (!errors.As(err, &e) || !repeatable(e.Code) || time.Since(last) > StreamPatience) {
			return err
		}
		if ctx.Err() != nil {
			return toError(ctx.Err(), "")
		}
		if err := run.Pause(ctx, retryPause); err != nil {
			return toError(err, "")
		}
	}
}

func receive[M any](res *connect.ServerStreamForClient[M], err error, each func(*M) error) error {
	if err != nil {
		return err
	}
	for res.Receive() {
		if err := each(res.Msg()); err != nil {
			// The connection is unusable; its own error adds no information.
			_ = res.Close()
			var e *Error
			if errors.As(err, &e) && repeatable(e.Code) {
				return err
			}
			return &Error{Code: "stopped", Message: err.Error(), Detail: &pb.ErrorDetail{}, Exit: ExitFailed, cause: err}
		}
	}
	err = res.Err()
	if cerr := res.Close(); err == nil && cerr != nil && !errors.Is(cerr, io.EOF) {
		err = cerr
	}
	return err
}
