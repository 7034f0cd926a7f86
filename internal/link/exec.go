package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"

	"connectrpc.com/connect"

	"cantina/executor"
	"cantina/fault"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
)

// errInput reports a caller that sends more than wire.ExecWindow.
var errInput = fault.New(fault.ErrInvalid, "too much input that was not taken")

// Exec runs a program in a running container, or copies files: see Cell.
func (h *cellHandler) Exec(ctx context.Context, stream *connect.BidiStream[pb.CellExecRequest, pb.ExecResponse]) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil {
		return connect.NewError(connect.CodeInvalidArgument, errors.New("the first message of exec must be its start"))
	}
	in := func() (*pb.ExecInput, error) {
		m, err := stream.Receive()
		return m.GetInput(), err
	}
	err = called(ctx).Exec(ctx, start, in, stream.Send)
	if errors.Is(err, context.Canceled) {
		return connect.NewError(connect.CodeCanceled, err)
	}
	return toConnect(err)
}

// Exec implements Cell.
func (l *Local) Exec(ctx context.Context, m *pb.CellExecStart, in func() (*pb.ExecInput, error),
	out func(*pb.ExecResponse) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &session{in: in, out: &sender{cancel: cancel, out: out}, wake: make(chan struct{}, 1)}
	defer s.out.close()
	end, err := s.run(ctx, l.Executor, m.GetContainer(), m.GetWork())
	if cause := s.failure(); errors.Is(cause, io.EOF) {
		return context.Canceled // the caller went
	} else if cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	return s.out.send(&pb.ExecResponse{Kind: &pb.ExecResponse_End{End: end}})
}

// session is a program or a copy, and its caller.
type session struct {
	in     func() (*pb.ExecInput, error)
	resize func(rows, cols uint16) error
	signal func(syscall.Signal) error

	out *sender

	wake   chan struct{}
	mu     sync.Mutex
	held   []byte // input that was not written yet
	size   int    // of the input that was not taken
	closed bool   // no more input follows
	failed error  // of the caller
}

// run returns how the work ended. Only a caller that is gone, or breaks the rules, is an error.
func (s *session) run(ctx context.Context, e *executor.Executor, id string, w *pb.ExecWork) (*pb.ExecEnd, error) {
	if w.GetCopy() != nil {
		return s.copy(ctx, e, id, w.GetCopy())
	}
	a, err := wire.ToAction(&pb.Action{Kind: &pb.Action_Run{Run: w.GetProgram()}})
	if err != nil {
		return nil, err
	}
	x, err := e.Exec(ctx, id, executor.ExecSpec{Path: a.Run.Path, Args: a.Run.Args, Env: a.Run.Env, Dir: a.Run.Dir,
		User: a.Run.User, Terminal: w.GetTerminal(),
		Rows: uint16(w.GetSize().GetRows()), Cols: uint16(w.GetSize().GetColumns())})
	if err != nil {
		return notDone(ctx, err)
	}
	defer x.Close()
	s.resize, s.signal = x.Resize, x.Signal
	if err := s.started(ctx, x.Stdin); err != nil {
		return nil, err
	}
	var copies sync.WaitGroup
	for f, kind := range map[io.Reader]func([]byte) *pb.ExecResponse{
		x.Stdout: stdout,
		x.Stderr: func(b []byte) *pb.ExecResponse { return &pb.ExecResponse{Kind: &pb.ExecResponse_Stderr{Stderr: b}} },
	} {
		copies.Go(func() { _, _ = io.CopyBuffer(chunks{s.out, kind}, f, make([]byte, 32<<10)) }) // send cancels
	}
	r, err := x.Wait(ctx)
	if err != nil {
		return nil, err
	}
	copies.Wait()
	return &pb.ExecEnd{ExitCode: int32(r.ExitCode), Signal: int32(r.Signal)}, nil
}

func (s *session) copy(ctx context.Context, e *executor.Executor, id string, c *pb.ExecCopy) (*pb.ExecEnd, error) {
	at := executor.CopySpec{Path: c.GetPath(), Name: c.GetName(), User: c.GetUser()}
	r, w := io.Pipe()
	defer r.Close() // the input ends with the copy
	defer context.AfterFunc(ctx, func() { r.CloseWithError(ctx.Err()) })()
	if err := s.started(ctx, w); err != nil {
		return nil, err
	}
	var err error
	if c.GetToContainer() {
		err = e.CopyIn(ctx, id, at, r)
	} else {
		err = e.CopyOut(ctx, id, at, chunks{s.out, stdout})
	}
	if err != nil {
		return notDone(ctx, err)
	}
	return &pb.ExecEnd{}, nil
}

// notDone is the end of work that failed, unless its caller is gone.
func notDone(ctx context.Context, err error) (*pb.ExecEnd, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return &pb.ExecEnd{ExitCode: -1, Reason: err.Error()}, nil
}

// started reports the start, and has the input written to stdin from now on.
func (s *session) started(ctx context.Context, stdin io.WriteCloser) error {
	err := s.out.send(&pb.ExecResponse{Kind: &pb.ExecResponse_Started{Started: &pb.ExecStarted{}}})
	if err == nil {
		go s.receive() // ends with the stream, which ends with its handler
		go s.write(ctx, stdin)
	}
	return err
}

// sender sends messages, one at a time. cancel ends the session.
type sender struct {
	cancel context.CancelFunc

	mu     sync.Mutex
	out    func(*pb.ExecResponse) error
	closed bool
}

// close returns when no message is being sent, and none will be: out must not be called after its
// stream has ended.
func (s *sender) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// send sends one message; a caller that takes none ends the session.
func (s *sender) send(m *pb.ExecResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return io.ErrClosedPipe
	}
	err := s.out(m)
	if err != nil {
		s.cancel()
	}
	return err
}

// receive takes the caller's messages, and never waits for the program: signals and sizes are not
// held up by input that it does not read.
func (s *session) receive() {
	for {
		m, err := s.in()
		if err != nil {
			s.end(err)
			return
		}
		switch k := m.GetKind().(type) {
		case *pb.ExecInput_Stdin:
			if !s.hold(k.Stdin) {
				s.end(errInput)
				return
			}
		case *pb.ExecInput_CloseStdin:
			s.end(nil)
		case *pb.ExecInput_Resize:
			if s.resize != nil { // a program that has ended needs no size
				_ = s.resize(uint16(k.Resize.GetRows()), uint16(k.Resize.GetColumns()))
			}
		case *pb.ExecInput_Signal:
			if s.signal != nil { // nor a signal
				_ = s.signal(syscall.Signal(k.Signal))
			}
		}
	}
}

// hold keeps input for write. It reports false if that is too much.
func (s *session) hold(b []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return true
	}
	s.held, s.size = append(s.held, b...), s.size+len(b)
	s.awake()
	return s.size <= wire.ExecWindow
}

// end ends the input. An error also ends the session, and so does a stream that ends before its
// input: a program must not take a part of it for the whole.
func (s *session) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && !(s.closed && errors.Is(err, io.EOF)) {
		s.failed = err
		s.out.cancel()
		return
	}
	s.closed = true
	s.awake()
}

func (s *session) awake() {
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
}

func (s *session) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// write writes the input, and closes it at its end only. Input that the program does not take any
// more is discarded.
func (s *session) write(ctx context.Context, to io.WriteCloser) {
	for {
		s.mu.Lock()
		b, closed := s.held, s.closed
		s.held = nil
		s.mu.Unlock()
		if len(b) > 0 {
			_, _ = to.Write(b)
			s.mu.Lock()
			s.size -= len(b)
			s.mu.Unlock()
			if s.out.send(&pb.ExecResponse{Kind: &pb.ExecResponse_Taken{Taken: int32(len(b))}}) != nil {
				return
			}
			continue
		}
		if closed {
			_ = to.Close() // it has ended
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
	}
}

func stdout(b []byte) *pb.ExecResponse {
	return &pb.ExecResponse{Kind: &pb.ExecResponse_Stdout{Stdout: b}}
}

// chunks sends what is written to it.
type chunks struct {
	s    *sender
	kind func([]byte) *pb.ExecResponse
}

// Write implements io.Writer.
func (c chunks) Write(b []byte) (int, error) {
	if err := c.s.send(c.kind(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Exec implements Cell: over a stream of its own.
func (r *remote) Exec(ctx context.Context, m *pb.CellExecStart, in func() (*pb.ExecInput, error),
	out func(*pb.ExecResponse) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream := r.duplex().Exec(ctx)
	// A request whose body is not at its end is not cancelled.
	context.AfterFunc(ctx, func() { _ = stream.CloseRequest() })
	// An error of sending is the end of the stream: Receive returns its reason.
	_ = stream.Send(&pb.CellExecRequest{Kind: &pb.CellExecRequest_Start{Start: m}})
	go func() { // ends with the stream, or with that of the caller
		for {
			m, err := in()
			if err == nil {
				err = stream.Send(&pb.CellExecRequest{Kind: &pb.CellExecRequest_Input{Input: m}})
			}
			if errors.Is(err, io.EOF) {
				_ = stream.CloseRequest()
				return
			}
			if err != nil {
				cancel()
				return
			}
		}
	}()
	for {
		m, err := stream.Receive()
		if err != nil {
			return lost(ctx, err)
		}
		if err := out(m); err != nil || m.GetEnd() != nil {
			return err
		}
	}
}

// lost is the error of a stream that a cell ended without an end of the work.
func lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if connect.IsWireError(err) && connect.CodeOf(err) != connect.CodeCanceled || neverSent(err) {
		return fromConnect(err)
	}
	return fmt.Errorf("connection lost, and the program or copy ended with it: %w", fault.ErrUnreachable)
}
