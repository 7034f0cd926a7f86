package apitest

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"

	"cantina/plan"
	pb "cantina/wire/cantinav1"
)

// Containers are containers without processes. "cat" repeats its input, and "env" prints its
// variables. "exit" ends with its argument, "kill" with that signal, "signal" with the next signal it
// gets. "wait" runs until its caller goes. Other programs are not found. Copies are streams by their path.
type Containers struct {
	mu sync.Mutex
	// Running is how many of every subject run.
	Running int32
	streams map[string][]byte
	last    *pb.ExecWork
	// Gone gets a value when the caller of "wait" has gone.
	Gone chan struct{}
}

// NewContainers returns containers of which one runs for each subject.
func NewContainers() *Containers {
	return &Containers{Running: 1, streams: map[string][]byte{}, Gone: make(chan struct{}, 1)}
}

// Last is the work that was started last.
func (p *Containers) Last() *pb.ExecWork {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// Exec implements api.Containers.
func (p *Containers) Exec(ctx context.Context, s plan.Subject, w *pb.ExecWork, in func() (*pb.ExecInput, error),
	out func(*pb.ExecResponse) error) error {
	p.mu.Lock()
	p.last = w
	running := p.Running
	p.mu.Unlock()
	path, args := w.GetProgram().GetPath(), w.GetProgram().GetArgs()
	x := &exchange{ctx, in, out}
	switch path {
	case "", "cat", "exit", "kill", "signal", "env", "wait":
	default:
		return x.end(&pb.ExecEnd{ExitCode: -1, Reason: "start " + path + ": not found in PATH"})
	}
	err := out(&pb.ExecResponse{Kind: &pb.ExecResponse_Started{Started: &pb.ExecStarted{Subject: s.Name + "/0",
		Cell: "c1", Running: running}}})
	if err != nil {
		return err
	}
	number := func() int32 { n, _ := strconv.Atoi(args[0]); return int32(n) } // a mistake in a test shows as 0
	switch path {
	case "":
		return p.copy(x, w.GetCopy())
	case "cat":
		_, err = x.input(true)
	case "exit":
		return x.end(&pb.ExecEnd{ExitCode: number()})
	case "kill":
		return x.end(&pb.ExecEnd{Signal: number()})
	case "signal":
		n := int32(0)
		if n, err = x.signal(); err == nil {
			return x.end(&pb.ExecEnd{Signal: n})
		}
	case "env":
		for _, v := range w.GetProgram().GetEnv() {
			if err == nil {
				err = x.print(fmt.Appendf(nil, "%s=%s\n", v.Name, v.Value))
			}
		}
	case "wait":
		<-ctx.Done()
		p.Gone <- struct{}{}
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	return x.end(&pb.ExecEnd{})
}

func (p *Containers) copy(x *exchange, c *pb.ExecCopy) error {
	if c.GetToContainer() {
		b, err := x.input(false)
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.streams[c.GetPath()] = b
		p.mu.Unlock()
		return x.end(&pb.ExecEnd{})
	}
	p.mu.Lock()
	b, ok := p.streams[c.GetPath()]
	p.mu.Unlock()
	if !ok {
		return x.end(&pb.ExecEnd{ExitCode: -1, Reason: "lstat " + c.GetPath() + ": no such file or directory"})
	}
	if err := x.print(b); err != nil {
		return err
	}
	return x.end(&pb.ExecEnd{})
}

// Hold stores a stream that a copy of path returns.
func (p *Containers) Hold(path string, stream []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams[path] = stream
}

// exchange is the messages of one caller.
type exchange struct {
	ctx context.Context
	in  func() (*pb.ExecInput, error)
	out func(*pb.ExecResponse) error
}

func (x *exchange) print(b []byte) error {
	return x.out(&pb.ExecResponse{Kind: &pb.ExecResponse_Stdout{Stdout: b}})
}

func (x *exchange) end(m *pb.ExecEnd) error {
	return x.out(&pb.ExecResponse{Kind: &pb.ExecResponse_End{End: m}})
}

// input takes the input until it is closed, and repeats it if echo is set.
func (x *exchange) input(echo bool) ([]byte, error) {
	var all bytes.Buffer
	for {
		m, err := x.in()
		switch {
		case err != nil:
			return nil, err
		case m.GetCloseStdin():
			return all.Bytes(), nil
		}
		b := m.GetStdin()
		if echo {
			err = x.print(b)
		} else {
			all.Write(b)
		}
		if err == nil && len(b) > 0 {
			err = x.out(&pb.ExecResponse{Kind: &pb.ExecResponse_Taken{Taken: int32(len(b))}})
		}
		if err != nil {
			return nil, err
		}
	}
}

// signal waits for a signal.
func (x *exchange) signal() (int32, error) {
	for {
		m, err := x.in()
		if err != nil || m.GetSignal() > 0 {
			return m.GetSignal(), err
		}
	}
}
