package mem_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"cantina/internal/run"
	"cantina/store"
	"cantina/store/mem"
)

// Two servers in a bubble: one leads, its lease runs out, the other takes over.
func TestTakeOverInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		b := mem.New(mem.Config{})
		a := newStore(t, b)
		r, err := a.Campaign(ctx, store.Candidate{ID: "a", Addresses: []string{"a:1"}})
		if err != nil {
			t.Fatal(err)
		}
		if l, err := newStore(t, b).Leader(ctx); err != nil || l.ID != "a" || l.Term != r.Term() {
			t.Fatalf("leader %+v, %v", l, err)
		}
		won := make(chan *store.Leadership, 1)
		go func() {
			r2, err := newStore(t, b).Campaign(ctx, store.Candidate{ID: "b"})
			if err != nil {
				t.Error(err)
			}
			won <- r2
		}()
		done := make(chan error, 1)
		r.Submit(store.Transition{Ops: []store.Op{{Key: "k", Value: []byte("v")}}}, func(_ int64, err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute) // of the bubble: the lease is kept
		if !r.LeaseHeld() {
			t.Fatal("lease not held")
		}
		b.Expire(b.Leases()[0])
		r2 := <-won
		if !r.Term().Less(r2.Term()) {
			t.Fatalf("%s then %s", r.Term(), r2.Term())
		}
		if rows := r2.Rows(); len(rows) != 1 || rows[0].Key != "k" || string(rows[0].Value) != "v" {
			t.Fatalf("rows %v", rows)
		}
		r.Submit(store.Transition{Ops: []store.Op{{Key: "k", Value: []byte("old leader")}}},
			func(_ int64, err error) { done <- err })
		if err := <-done; !errors.Is(err, store.ErrDisplaced) && !errors.Is(err, store.ErrLeaseGone) {
			t.Fatalf("old leader wrote: %v", err)
		}
		_ = r.Resign(ctx)
		if err := r2.Resign(ctx); err != nil {
			t.Fatal(err)
		}
	})
}

func newStore(t *testing.T, b store.Backend) *store.Store {
	t.Helper()
	s, err := store.New(b, store.Config{Clock: run.Bubble()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func BenchmarkSubmit(b *testing.B) {
	s, err := store.New(mem.New(mem.Config{}), store.Config{Clock: run.Bubble()})
	if err != nil {
		b.Fatal(err)
	}
	r, err := s.Campaign(context.Background(), store.Candidate{ID: "a"})
	if err != nil {
		b.Fatal(err)
	}
	value := make([]byte, 700)
	last := make(chan struct{})
	n := 0
	for b.Loop() {
		n++
		r.Submit(store.Transition{Ops: []store.Op{{Key: fmt.Sprint("k", n%1000), Value: value}}}, nil)
	}
	r.Submit(store.Transition{}, func(int64, error) { close(last) })
	<-last
	if err := r.Resign(context.Background()); err != nil {
		b.Fatal(err)
	}
}
