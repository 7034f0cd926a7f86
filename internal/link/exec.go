package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"

	"connectrpc.com/connect"

	"cantina/action"
	"cantina/executor"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
)

// errFirst reports a stream of Exec that does not begin with its start.
var errFirst = errors.New("the first message of exec must be its start")

// Exec runs a program in a running container: the streams go both ways until the
// program has ended. A caller that goes away kills it.
func (h *cellHandler) Exec(ctx context.Context, stream *connect.BidiStream[pb.ExecRequest, pb.ExecResponse]) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	start := first.GetStart()
	if start == nil {
		return connect.NewError(connect.CodeInvalidArgument, errFirst)
	}
	if _, _, err := wire.ToCallee(start.GetTo()); err != nil {
		return toConnect(err)
	}
	a, err := wire.ToAction(&pb.Action{Kind: &pb.Action_Run{Run: start.GetProgram()}})
	if err != nil {
		return toConnect(err)
	}
	x, err := h.cell.StartExec(ctx, start.GetContainer(), execSpec(a.Run, start))
	if err != nil {
		return toConnect(err)
	}
	defer x.Close()
	var send sync.Mutex
	out := func(m *pb.ExecResponse) error {
		send.Lock()
		defer send.Unlock()
		return stream.Send(m)
	}
	var copies sync.WaitGroup
	copies.Go(func() {
		copyStream(x.Stdout, func(b []byte) error { return out(&pb.ExecResponse{Kind: &pb.ExecResponse_Stdout{Stdout: b}}) })
	})
	copies.Go(func() {
		copyStream(x.Stderr, func(b []byte) error { return out(&pb.ExecResponse{Kind: &pb.ExecResponse_Stderr{Stderr: b}}) })
	})
	go receive(stream, x) // ends with the stream, which ends with this handler
	r, err := x.Wait(ctx)
	if err != nil {
		return err
	}
	copies.Wait()
	return out(&pb.ExecResponse{Kind: &pb.ExecResponse_End{End: &pb.ExecEnd{ExitCode: int32(r.ExitCode),
		Signal: int32(r.Signal)}}})
}

func execSpec(r *action.Run, start *pb.ExecStart) executor.ExecSpec {
	return executor.ExecSpec{Path: r.Path, Args: r.Args, Env: r.Env, Dir: r.Dir, User: r.User,
		Terminal: start.GetTerminal(),
		Rows:     uint16(start.GetSize().GetRows()), Cols: uint16(start.GetSize().GetColumns())}
}

// receive hands input, sizes and signals to the program.
func receive(stream *connect.BidiStream[pb.ExecRequest, pb.ExecResponse], x *executor.ExecSession) {
	for {
		m, err := stream.Receive()
		if err != nil {
			return
		}
		switch k := m.GetKind().(type) {
		case *pb.ExecRequest_Stdin:
			if _, err := x.Stdin.Write(k.Stdin); err != nil {
				return
			}
		case *pb.ExecRequest_CloseStdin:
			x.Stdin.Close()
		case *pb.ExecRequest_Resize:
			_ = x.Resize(uint16(k.Resize.GetRows()), uint16(k.Resize.GetColumns())) // a program that has ended needs no size
		case *pb.ExecRequest_Signal:
			_ = x.Signal(syscall.Signal(k.Signal)) // nor a signal
		}
	}
}

// copyStream forwards r until its end.
func copyStream(r io.Reader, f func([]byte) error) {
	for {
		b := make([]byte, 32<<10)
		n, err := r.Read(b)
		if n > 0 && f(b[:n]) != nil || err != nil {
			return
		}
	}
}

// StartExec runs a program in a container of this cell.
func (l *Local) StartExec(ctx context.Context, container string, s executor.ExecSpec) (*executor.ExecSession, error) {
	return l.Executor.Exec(ctx, container, s)
}

// StartExec is for the machine of the cell alone: over a network the stream of
// CellService is used.
func (r *remote) StartExec(context.Context, string, executor.ExecSpec) (*executor.ExecSession, error) {
	return nil, fmt.Errorf("exec: %w", errors.ErrUnsupported)
}
