package logstore

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestEndedSourceIsReadWhole: a long append of another source hides nothing of an ended one, neither from a query
// nor from a follower until the end.
func TestEndedSourceIsReadWhole(t *testing.T) {
	st, err := Open(t.TempDir(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	slow := st.pos.begin(1, time.Now())
	w, err := st.Writer(Source{ID: "quick"}, Stdout)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("A\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	read := make(chan int, 2)
	go func() {
		p, err := st.Query(context.Background(), Query{IDs: []string{"quick"}})
		if err != nil {
			t.Error(err)
		}
		read <- len(p.Lines)
	}()
	go func() {
		n := 0
		if err := st.Follow(context.Background(), Query{IDs: []string{"quick"}, UntilEnd: true},
			func(Line) error { n++; return nil }); err != nil {
			t.Error(err)
		}
		read <- n
	}()
	for waits := false; !waits; runtime.Gosched() { // a reader, or it has read too early
		st.pos.mu.Lock()
		waits = st.pos.ended != nil || len(read) > 0
		st.pos.mu.Unlock()
	}
	st.pos.end(slow)
	for range 2 {
		if n := <-read; n != 1 {
			t.Errorf("%d lines, want 1", n)
		}
	}
}

// TestResolved: it waits for writes that had begun at the call, for no later ones, and no longer than its reader.
func TestResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		now := time.Now()
		a, b := c.begin(1, now), c.begin(1, now)
		got := make(chan Position, 1)
		go func() {
			p, err := c.resolved(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- p
		}()
		synctest.Wait()
		later := c.begin(1, now)
		c.end(b)
		synctest.Wait()
		select {
		case p := <-got:
			t.Fatalf("settled at %d while %d is under way", p, a)
		default:
		}
		c.end(a)
		if p := <-got; p != b {
			t.Errorf("settled at %d, want %d", p, b)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.resolved(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("settled = %v", err)
		}
		c.end(later)
	})
}
