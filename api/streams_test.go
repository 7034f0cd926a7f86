package api_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"cantina/event"
	pb "cantina/wire/cantinav1"
)

// TestStreamsOfAClientAreBounded: one more than the most is refused at once, and one that ends
// makes room.
func TestStreamsOfAClientAreBounded(t *testing.T) {
	w := newWorld(t)
	const most = 512
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	open := func(ctx context.Context) *http.Response {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, w.http.URL+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	first, end := context.WithCancel(ctx)
	defer end()
	open(first)
	for range most - 1 {
		if r := open(ctx); r.StatusCode != http.StatusOK {
			t.Fatal(r.Status)
		}
	}
	r := open(ctx)
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(string(text), "127.0.0.1 already has 512 open streams") {
		t.Fatalf("%s %s %v", r.Status, text, err)
	}
	end()
	err = w.client.Events(t.Context(), &pb.StreamEventsRequest{}, func(*pb.StreamEventsResponse) error { return io.EOF })
	if err == nil || strings.Contains(err.Error(), "open streams") {
		t.Errorf("after one has ended: %v", err)
	}
}

// TestReadersOfAnEventGetTheSame: in each form, also over Connect in both encodings.
func TestReadersOfAnEventGetTheSame(t *testing.T) {
	w := newWorld(t)
	w.apply(t, demo)
	var all sync.WaitGroup
	texts := make([]string, 20)
	for i := range texts {
		all.Go(func() {
			err := w.client.Events(t.Context(), &pb.StreamEventsRequest{Since: "100", All: true}, func(m *pb.StreamEventsResponse) error {
				if m.Event == nil {
					return io.EOF
				}
				texts[i] += m.Event.Kind + m.Event.Subject + m.Position + "\n"
				return nil
			})
			if err == nil {
				t.Error("no end")
			}
		})
	}
	all.Wait()
	for _, x := range texts {
		if x != texts[0] || !strings.Contains(x, event.Service.String()+"d/web") {
			t.Fatalf("%q and %q", texts[0], x)
		}
	}
}
