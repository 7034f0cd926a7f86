package api_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"

	"cantina/api"
	"cantina/api/apitest"
	"cantina/fence"
	"cantina/internal/guard"
	pb "cantina/wire/cantinav1"
)

// opened serves a fake leader behind a real socket, which HTTP/2 needs.
func opened(t *testing.T, f *apitest.Fake) (s *api.Server, address string, end func()) {
	t.Helper()
	s = api.New(api.Config{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Build: "test", NewID: newID})
	if f != nil {
		s.Lead(f.Backend())
	}
	door, err := guard.Listener{Address: "unix:" + t.TempDir() + "/s"}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = door.Serve(ctx, s.Handler()) }()
	end = func() { stop(); <-done }
	t.Cleanup(end)
	return s, door.Address(), end
}

func work(path string, args ...string) *pb.ExecStart {
	return &pb.ExecStart{Subject: &pb.Subject{Kind: "service", Name: "web"},
		Work: &pb.ExecWork{Kind: &pb.ExecWork_Program{Program: &pb.Run{Path: path, Args: args}}}}
}

// TestExec: a server that does not lead names the leader, and the client follows. Much more input than the window
// passes; the last message is the end.
func TestExec(t *testing.T) {
	f := apitest.New(clock)
	_, leads, _ := opened(t, f)
	standby, address, _ := opened(t, nil)
	standby.Follow(leads, fence.Term{Epoch: 1, Revision: 8})
	c := api.NewClient(api.ClientConfig{Addresses: []string{address}, NewKey: newID})
	defer c.Close()
	x, err := c.Exec(t.Context(), work("cat"))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if x.Started.GetSubject() != "web/0" || x.Started.GetCell() != "c1" {
		t.Error(x.Started)
	}
	text := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	sent := make(chan error, 1)
	go func() {
		_, err := x.Write(text)
		sent <- errors.Join(err, x.CloseStdin())
	}()
	var got bytes.Buffer
	for {
		m, err := x.Receive()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetEnd() != nil {
			break
		}
		got.Write(m.GetStdout())
	}
	if err := <-sent; err != nil || !bytes.Equal(got.Bytes(), text) {
		t.Errorf("%v, %d of %d bytes", err, got.Len(), len(text))
	}
	if _, err := x.Write([]byte("late")); err == nil {
		_, err = x.Write(make([]byte, 2<<20))
		if !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, io.EOF) {
			t.Errorf("written after the end: %v", err)
		}
	}
}

// TestExecEnds: by a client that goes, by a server that ends, and by a request that is none.
func TestExecEnds(t *testing.T) {
	f := apitest.New(clock)
	_, address, end := opened(t, f)
	c := api.NewClient(api.ClientConfig{Addresses: []string{address}, NewKey: newID})
	defer c.Close()
	for name, start := range map[string]*pb.ExecStart{"no work": {Subject: &pb.Subject{Kind: "service", Name: "web"}},
		"no subject": {Work: work("cat").Work}, "no program": work(""),
		"no path": {Subject: &pb.Subject{Kind: "task", Name: "x"},
			Work: &pb.ExecWork{Kind: &pb.ExecWork_Copy{Copy: &pb.ExecCopy{}}}}} {
		_, err := c.Exec(t.Context(), start)
		var e *api.Error
		if !errors.As(err, &e) || e.Code != "invalid" {
			t.Errorf("%s: %v", name, err)
		}
	}
	x, err := c.Exec(t.Context(), work("none"))
	if err != nil || x.Started != nil {
		t.Fatal(err)
	}
	if m, err := x.Receive(); err != nil || m.GetEnd().GetReason() != "start none: not found in PATH" {
		t.Error(m, err)
	}
	x.Close()
	if x, err = c.Exec(t.Context(), work("wait")); err != nil {
		t.Fatal(err)
	}
	x.Close()
	<-f.Containers.Gone
	if _, err := x.Receive(); err == nil {
		t.Error("received after its own end")
	}
	if x, err = c.Exec(t.Context(), work("wait")); err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	ended := make(chan error)
	go func() { _, err := x.Receive(); ended <- err }()
	end()
	var e *api.Error
	if err := <-ended; !errors.As(err, &e) || e.Exit != api.ExitConnection || e.Code != "stream_ended" {
		t.Errorf("the server ended: %v", err)
	}
}

// TestExecOverTLS: a listener with certificates offers HTTP/2, with and without other calls before.
func TestExecOverTLS(t *testing.T) {
	a := newAuthority(t)
	f := apitest.New(clock)
	s := api.New(api.Config{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Build: "test", NewID: newID})
	s.Lead(f.Backend())
	door, err := guard.Listener{Address: "127.0.0.1:0", TLS: a.issue(t, "server", a)}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = door.Serve(ctx, s.Handler()) }()
	defer func() { stop(); <-done }()
	conf, err := a.issue(t, "client", a).Client()
	if err != nil {
		t.Fatal(err)
	}
	c := api.NewClient(api.ClientConfig{Addresses: []string{door.Address()}, TLS: conf, NewKey: newID})
	defer c.Close()
	for range 2 {
		x, err := c.Exec(t.Context(), work("exit", "7"))
		if err != nil {
			t.Fatal(err)
		}
		if m, err := x.Receive(); err != nil || m.GetEnd().GetExitCode() != 7 {
			t.Error(m, err)
		}
		x.Close()
		if _, err := api.Call(t.Context(), c, calls.GetStatus, &pb.GetStatusRequest{}); err != nil {
			t.Error(err)
		}
	}
}
