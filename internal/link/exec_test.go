package link

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"cantina/fault"
	"cantina/internal/guard"
	"cantina/wire"
	pb "cantina/wire/cantinav1"
)

// talk is a caller of a session: its input, and what it got.
type talk struct {
	in  chan *pb.ExecInput // closed = the stream has ended
	got chan *pb.ExecResponse
}

func (x *talk) receive() (*pb.ExecInput, error) {
	if m, ok := <-x.in; ok {
		return m, nil
	}
	return nil, io.EOF
}

// echo is a stdin that takes what it is given once it may.
type echo struct {
	mu     sync.Mutex
	text   strings.Builder
	block  chan struct{}
	closed chan struct{}
}

func (e *echo) Write(p []byte) (int, error) {
	<-e.block
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text.Write(p)
}

func (e *echo) Close() error { close(e.closed); return nil }

func begin(t *testing.T) (x *talk, s *session, to *echo, ctx context.Context) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	x = &talk{in: make(chan *pb.ExecInput), got: make(chan *pb.ExecResponse, 100)}
	to = &echo{block: make(chan struct{}), closed: make(chan struct{})}
	out := &sender{cancel: cancel, out: func(m *pb.ExecResponse) error { x.got <- m; return nil }}
	s = &session{in: x.receive, out: out, wake: make(chan struct{}, 1)}
	return x, s, to, ctx
}

func stdin(b []byte) *pb.ExecInput { return &pb.ExecInput{Kind: &pb.ExecInput_Stdin{Stdin: b}} }

// TestSignalsPassInput: a program that does not read its input gets signals and sizes; the input is written and
// acknowledged when it reads, and then closed.
func TestSignalsPassInput(t *testing.T) {
	x, s, to, ctx := begin(t)
	sizes := make(chan uint16, 1)
	s.resize = func(rows, _ uint16) error { sizes <- rows; return nil }
	if err := s.started(ctx, to); err != nil {
		t.Fatal(err)
	}
	part := make([]byte, wire.ExecWindow/4)
	for range 4 {
		x.in <- stdin(part)
	}
	x.in <- &pb.ExecInput{Kind: &pb.ExecInput_Resize{Resize: &pb.TerminalSize{Rows: 7}}}
	if got := <-sizes; got != 7 {
		t.Error(got)
	}
	x.in <- &pb.ExecInput{Kind: &pb.ExecInput_CloseStdin{CloseStdin: true}}
	close(x.in)
	close(to.block)
	<-to.closed
	taken := 0
	for len(x.got) > 0 {
		taken += int((<-x.got).GetTaken())
	}
	if taken != wire.ExecWindow || to.text.Len() != taken || ctx.Err() != nil || s.failure() != nil {
		t.Errorf("%d taken, %d written, %v, %v", taken, to.text.Len(), ctx.Err(), s.failure())
	}
}

// TestInputIsBounded: a caller that sends more than the window has its session ended, and so does one whose stream
// ends before its input: the program does not see an end.
func TestInputIsBounded(t *testing.T) {
	for name, end := range map[string]func(x *talk){
		"too much": func(x *talk) { x.in <- stdin(make([]byte, wire.ExecWindow)); x.in <- stdin([]byte("x")) },
		"cut":      func(x *talk) { x.in <- stdin([]byte("x")); close(x.in) },
	} {
		x, s, to, ctx := begin(t)
		if err := s.started(ctx, to); err != nil {
			t.Fatal(err)
		}
		end(x)
		<-ctx.Done()
		if err := s.failure(); name == "too much" && !errors.Is(err, fault.ErrInvalid) || err == nil {
			t.Errorf("%s: %v", name, err)
		}
		close(to.block)
		select {
		case <-to.closed:
			t.Errorf("%s: the input was closed", name)
		default:
		}
	}
}

// TestNothingIsSentAfterTheEnd: a message that is sent when the session has ended does not reach its stream.
func TestNothingIsSentAfterTheEnd(t *testing.T) {
	_, s, _, _ := begin(t)
	s.out.close()
	s.out.out = func(*pb.ExecResponse) error { t.Error("sent after the end"); return nil }
	if _, err := (chunks{s.out, stdout}).Write([]byte("late")); err == nil {
		t.Error("no error")
	}
}

// works is a cell whose work repeats its input.
type works struct{ *witness }

func (works) Exec(ctx context.Context, m *pb.CellExecStart, in func() (*pb.ExecInput, error),
	out func(*pb.ExecResponse) error) error {
	if m.Container == "hangs" {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := out(&pb.ExecResponse{Kind: &pb.ExecResponse_Started{Started: &pb.ExecStarted{}}}); err != nil {
		return err
	}
	for {
		i, err := in()
		if err != nil {
			return err
		}
		if m.Container == "dies" {
			return context.Canceled // as by the end of the process
		}
		if i.GetCloseStdin() {
			return out(&pb.ExecResponse{Kind: &pb.ExecResponse_End{End: &pb.ExecEnd{ExitCode: 7}}})
		}
		if err := out(stdout(i.GetStdin())); err != nil {
			return err
		}
	}
}

// TestExecOverTheNetwork: messages go both ways while the work runs. A cell that ends is unreachable; a caller that
// goes ends the work.
func TestExecOverTheNetwork(t *testing.T) {
	a := works{&witness{agent: agent{}}}
	door, err := guard.Listener{Address: "unix:" + t.TempDir() + "/s"}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	over, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- door.Serve(over, NewCellHandler(a)) }()
	cells := NewDirectory(Security{})
	cells.Begin("mine")
	cells.SetAddress("c1", door.Address())
	t.Cleanup(func() { cells.Close(); stop(); <-served })
	far := cells.Cell("c1")
	exec := func(ctx context.Context, container string, in func() (*pb.ExecInput, error)) (out []string, err error) {
		start := &pb.CellExecStart{To: wire.FromCallee(term, "p1"), Container: container}
		err = far.Exec(ctx, start, in, func(m *pb.ExecResponse) error {
			switch {
			case m.GetStarted() != nil:
				out = append(out, "started")
			case m.GetEnd() != nil:
				out = append(out, "end")
			default:
				out = append(out, string(m.GetStdout()))
			}
			return nil
		})
		return out, err
	}
	script := func(inputs ...*pb.ExecInput) func() (*pb.ExecInput, error) {
		return func() (*pb.ExecInput, error) {
			if len(inputs) == 0 {
				return nil, io.EOF
			}
			m := inputs[0]
			inputs = inputs[1:]
			return m, nil
		}
	}
	closing := &pb.ExecInput{Kind: &pb.ExecInput_CloseStdin{CloseStdin: true}}
	if got, err := exec(t.Context(), "c", script(stdin([]byte("a")), stdin([]byte("b")), closing)); err != nil ||
		!slices.Equal(got, []string{"started", "a", "b", "end"}) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := exec(t.Context(), "dies", script(stdin([]byte("a")))); !errors.Is(err, fault.ErrUnreachable) {
		t.Errorf("the cell ended: %q, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	leaves := func() (*pb.ExecInput, error) { cancel(); <-ctx.Done(); return nil, ctx.Err() }
	if _, err := exec(ctx, "hangs", leaves); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller went: %v", err)
	}
	cancel()
}
