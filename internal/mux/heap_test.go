package mux

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"cantina/internal/heaptest"
)

// TestMemoryIsFreed: of connections that were opened, used in both directions and ended by
// either end, with calls under way or without, nothing stays.
func TestMemoryIsFreed(t *testing.T) {
	if testing.Short() {
		t.Skip("make test runs it, without the race detector")
	}
	if !heaptest.Child(t) {
		return
	}
	s := newServer(t, silentAt("/silent", echo("server")))
	heaptest.Levels(t, heaptest.Config{Things: 12, Rounds: 4, Warm: 2, Round: func(round int) {
		for i := range 12 {
			c := NewClient(Config{Connect: s.dial, Service: Service{Handler: silentAt("/silent", echo("client"))},
				Address: fmt.Sprint("cell", round, i)})
			if _, _, err := post(t.Context(), c, "/x", "a"); err != nil {
				t.Fatal(err)
			}
			l := <-s.conns
			<-s.from
			if _, _, err := post(t.Context(), l, "/x", "b"); err != nil {
				t.Fatal(err)
			}
			limit, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			switch i % 4 {
			case 0: // a call that is given up
				_, _, _ = post(limit, c, "/silent", "")
			case 1:
				_, _, _ = post(limit, l, "/silent", "")
			case 2:
				l.End()
			case 3:
				c.Idle()
			}
			cancel()
			c.Close()
			l.Close()
		}
	}})
}

// silentAt never answers at path, until the connection ends.
func silentAt(path string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == path {
			<-q.Context().Done()
			return
		}
		h.ServeHTTP(w, q)
	})
}
