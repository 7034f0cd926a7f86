package callback

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"cantina/internal/heaptest"
	"cantina/task"
)

// TestMemoryIsFreed: of ends that were delivered, or could not be, nothing stays.
func TestMemoryIsFreed(t *testing.T) {
	if testing.Short() {
		t.Skip("make test runs it, without the race detector")
	}
	if !heaptest.Child(t) {
		return
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/cut":
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	done := make(chan bool, 100)
	s := New(Config{Wall: time.Now, Wanted: func(d task.Delivery) bool {
		if d.GUID[0] == 'x' { // taken back
			done <- true
		}
		return d.GUID[0] != 'x'
	}, Done: func(task.Delivery, bool, string) { done <- true }})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	urls := []string{server.URL, server.URL + "/busy", server.URL + "/cut", "http://127.0.0.1:1/nobody", "not a URL"}
	heaptest.Levels(t, heaptest.Config{Things: 100, Rounds: 3, Warm: 2, Round: func(round int) {
		for i := range 100 {
			guid := fmt.Sprintf("%c%d-%d", "tx"[i/80], round, i)
			if !s.Send(&task.Task{GUID: guid, UID: guid, Domain: "d", Verdict: 1,
				Definition: &task.Definition{CallbackURL: urls[i%len(urls)]}}) {
				t.Fatal("the queue is full")
			}
		}
		for range 100 {
			<-done
		}
	}})
	cancel()
	<-ended
}
