package api_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"cantina/api"
	"cantina/internal/heaptest"
	"cantina/task"
	pb "cantina/wire/cantinav1"
)

// front is a server over a fake leader that counts its connections.
type front struct {
	*world
	address string
	conns   sync.WaitGroup
}

func newFront(t *testing.T) *front {
	f := &front{world: newWorld(t)}
	s := httptest.NewUnstartedServer(f.server.Handler())
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			f.conns.Add(1)
		case http.StateClosed, http.StateHijacked:
			f.conns.Done()
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	f.address = s.Listener.Addr().String()
	return f
}

// streams opens concurrent streams, each over its own connection, and returns when all have ended
// and no data of them is left.
func (f *front) streams(n int, one func(i int, c *api.Client)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			c := api.NewClient(api.ClientConfig{Addresses: []string{f.address}, NewKey: newID})
			defer c.Close()
			one(i, c)
		})
	}
	all.Wait()
	f.conns.Wait()
}

// TestMemoryIsFreed: ended streams leave nothing in memory, for each kind of end: by their readers, by a connection
// that was cut, or with their subject.
func TestMemoryIsFreed(t *testing.T) {
	if testing.Short() {
		t.Skip("make test runs it, without the race detector")
	}
	for name, one := range map[string]func(f *front, i int, c *api.Client){
		"events": func(f *front, i int, c *api.Client) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			q := &pb.StreamEventsRequest{Since: "100", All: i%2 == 0}
			_ = c.Events(ctx, q, func(*pb.StreamEventsResponse) error {
				if i%3 == 0 {
					cancel()
					return nil
				}
				return api.Stop()
			})
		},
		"events over v1": func(f *front, i int, _ *api.Client) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.address+"/v1/events?since=100", nil)
			if err != nil {
				panic(err)
			}
			if i%2 == 0 {
				q.Header.Set("Accept", "text/event-stream")
			}
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			if r, err := client.Do(q); err == nil {
				_, _ = r.Body.Read(make([]byte, 10))
				_ = r.Body.Close()
			}
		},
		"log followers": func(f *front, i int, c *api.Client) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			q := &pb.FollowOutputRequest{Query: &pb.OutputQuery{Domain: "d", Service: "web", Tail: int32(i % 2)},
				Packed: i%4 < 2}
			if i%5 == 0 {
				q.Query = &pb.OutputQuery{Task: "d.once"}
			}
			_ = c.FollowOutput(ctx, q, func(m *pb.FollowOutputResponse) error {
				switch {
				case i%5 == 0: // to its end
				case i%3 == 0:
					return api.Stop()
				default:
					cancel()
				}
				return nil
			})
		},
		"of missing subjects": func(f *front, i int, c *api.Client) {
			_ = c.FollowOutput(context.Background(),
				&pb.FollowOutputRequest{Query: &pb.OutputQuery{Task: fmt.Sprint("none", newID())}},
				func(*pb.FollowOutputResponse) error { return nil })
			_ = c.Events(context.Background(), &pb.StreamEventsRequest{Since: "no position"},
				func(*pb.StreamEventsResponse) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			if !heaptest.Child(t) {
				return
			}
			f := newFront(t)
			f.apply(t, demo)
			f.SetTask("d.once", func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Succeeded })
			for _, cell := range []string{"c1", "c2"} {
				f.Logs.Write(cell, "x", map[string]string{"service": "web", "domain": "d", "index": "0"},
					pb.LogStream_LOG_STREAM_STDOUT, "hello")
			}
			heaptest.Levels(t, heaptest.Config{Things: 10, Rounds: 3, Warm: 4, Round: func(int) {
				f.streams(10, func(i int, c *api.Client) { one(f, i, c) })
			}})
		})
	}
}
