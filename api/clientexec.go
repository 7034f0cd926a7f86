package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"connectrpc.com/connect"

	"cantina/internal/run"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
)

// Exec is a program in a container, or a copy, that runs. It ends with Close.
type Exec struct {
	// Started has the container; nil if the work could not begin: then Receive returns its end.
	Started *pb.ExecStarted

	stream  *execStream
	address string
	cancel  context.CancelFunc
	first   *pb.ExecResponse // not yet received, when Started is nil

	mu   sync.Mutex
	sent int           // input that was not taken
	room chan struct{} // wakes Write
	over chan struct{} // closed at the end
	end  sync.Once
}

// execStream sends one message at a time.
type execStream struct {
	*connect.BidiStreamForClient[pb.ExecRequest, pb.ExecResponse]
	mu sync.Mutex
}

func (s *execStream) send(m *pb.ExecRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Send(m)
}

// Exec starts a program in a container, or a copy. It is never started twice. The error is *Error.
func (c *Client) Exec(ctx context.Context, start *pb.ExecStart) (*Exec, error) {
	for failures := 0; ; failures++ {
		s, err := c.server()
		if err != nil {
			return nil, err
		}
		x, err := open(ctx, s, start)
		if err == nil {
			c.meet()
			return x, nil
		}
		e := toError(err, s.address)
		if e.Code != "not_leader" || failures == retries || ctx.Err() != nil {
			return nil, e
		}
		c.elsewhere(s, e.Detail.Leader)
		if e.Detail.Leader == "" {
			if err := run.Pause(ctx, retryPause); err != nil {
				return nil, toError(err, s.address)
			}
		}
	}
}

// retries is how often Exec looks for the leader.
const retries = 50

func open(ctx context.Context, s *server, start *pb.ExecStart) (*Exec, error) {
	ctx, cancel := context.WithCancel(ctx)
	stream := &execStream{BidiStreamForClient: s.duplex.Exec(ctx)}
	x := &Exec{stream: stream, address: s.address, cancel: cancel, room: make(chan struct{}, 1),
		over: make(chan struct{})}
	// A request whose body is not at its end is not cancelled.
	context.AfterFunc(ctx, func() { _ = x.stream.CloseRequest() })
	// An error of sending is the end of the stream: Receive returns its reason.
	_ = x.stream.send(&pb.ExecRequest{Kind: &pb.ExecRequest_Start{Start: start}})
	m, err := x.stream.Receive()
	if err != nil {
		cancel()
		return nil, err
	}
	if x.Started = m.GetStarted(); x.Started == nil {
		x.first = m
	}
	return x, nil
}

// Send sends a message other than standard input. Its error is the end of the stream: Receive returns
// the reason.
func (x *Exec) Send(m *pb.ExecInput) error {
	return x.stream.send(&pb.ExecRequest{Kind: &pb.ExecRequest_Input{Input: m}})
}

// inputChunk is how much standard input is sent at a time.
const inputChunk = 32 << 10

// Write sends standard input. It waits while the program does not read; its error is the end of the
// stream. It must not be called by several goroutines at the same time.
func (x *Exec) Write(p []byte) (n int, err error) {
	for n < len(p) {
		piece := p[n:min(len(p), n+inputChunk)]
		for !x.take(len(piece)) {
			select {
			case <-x.room:
			case <-x.over:
				return n, io.ErrClosedPipe
			}
		}
		if err := x.Send(&pb.ExecInput{Kind: &pb.ExecInput_Stdin{Stdin: piece}}); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

// take counts input that is about to be sent, if there is room for it.
func (x *Exec) take(n int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.sent+n > wire.ExecWindow {
		return false
	}
	x.sent += n
	return true
}

// CloseStdin ends standard input.
func (x *Exec) CloseStdin() error {
	return x.Send(&pb.ExecInput{Kind: &pb.ExecInput_CloseStdin{CloseStdin: true}})
}

// Receive returns the next message: output, or the end, which is the last. It must not be called by
// several goroutines at the same time. The error is *Error.
func (x *Exec) Receive() (*pb.ExecResponse, error) {
	if m := x.first; m != nil {
		x.first = nil
		return m, nil
	}
	for {
		m, err := x.stream.Receive()
		if err != nil || m.GetEnd() != nil {
			x.end.Do(func() { close(x.over) })
		}
		if err != nil {
			return nil, x.broken(err)
		}
		if m.GetTaken() == 0 {
			return m, nil
		}
		x.mu.Lock()
		x.sent -= int(m.GetTaken())
		x.mu.Unlock()
		select {
		case x.room <- struct{}{}:
		default:
		}
	}
}

func (x *Exec) broken(err error) error {
	e := toError(err, x.address)
	if e.Code == "no_connection" || errors.Is(err, io.EOF) {
		e = &Error{Code: "stream_ended", Exit: ExitConnection, cause: err, Detail: &pb.ErrorDetail{Code: "stream_ended"},
			Message: fmt.Sprintf("the connection to %s was lost: %s", x.address, reason(err))}
	}
	return e
}

// Close ends the program or the copy, unless it has ended.
func (x *Exec) Close() {
	x.end.Do(func() { close(x.over) })
	x.cancel()
}
