package api_test

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"cantina/api"
	pb "cantina/wire/cantinav1"
	"cantina/wire/cantinav1/cantinav1connect"
)

// serve answers with a handler at an address of its own.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(ln) }() // it ends with Close
	t.Cleanup(func() { _ = s.Close() })
	return ln.Addr().String()
}

func status(ctx context.Context, c *api.Client) error {
	_, err := api.Call(ctx, c, cantinav1connect.CantinaServiceClient.GetStatus, &pb.GetStatusRequest{})
	return err
}

// TestClientLeavesASilentServer: of two servers, one takes connections and requests and answers nothing, like a process
// that is stopped. A call goes on at the other. With a single server the call waits.
func TestClientLeavesASilentServer(t *testing.T) {
	hangs := func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-t.Context().Done():
		}
	}
	silent := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { hangs(r.Context()) }))
	answers := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/proto")
	}))
	c := api.NewClient(api.ClientConfig{Addresses: []string{silent, answers}, Patience: time.Minute})
	defer c.Close()
	if err := status(t.Context(), c); err != nil {
		t.Errorf("with a silent server: %v", err)
	}
	if c.Address() != answers {
		t.Errorf("the next call goes to %s", c.Address())
	}
	alone := api.NewClient(api.ClientConfig{Addresses: []string{silent}, Patience: time.Minute})
	defer alone.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	err := status(ctx, alone)
	if e, ok := err.(*api.Error); !ok || e.Code != "timeout" {
		t.Errorf("a single silent server: %v", err)
	}
}

// TestClientStaysWithABusyServer: a server that answers that it is alive may take its time for a call.
func TestClientStaysWithABusyServer(t *testing.T) {
	var health, calls atomic.Int32
	done := make(chan struct{})
	busy := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			if health.Add(1) == 2 {
				close(done)
			}
			return
		}
		calls.Add(1)
		select {
		case <-done:
			w.Header().Set("Content-Type", "application/proto")
		case <-r.Context().Done():
		}
	}))
	c := api.NewClient(api.ClientConfig{Addresses: []string{busy, "127.0.0.1:1"}, Patience: time.Minute})
	defer c.Close()
	if err := status(t.Context(), c); err != nil {
		t.Errorf("a busy server: %v", err)
	}
	if calls.Load() != 1 || health.Load() < 2 {
		t.Errorf("%d calls, %d probes", calls.Load(), health.Load())
	}
}
