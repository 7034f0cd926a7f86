package mem_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cantina/internal/run"
	"cantina/store"
	"cantina/store/mem"
)

// A leader whose keep-alives no longer arrive gives the lease up by its own clock, a drift before the store ends
// it. The next leader begins not earlier than that; the old term ends by itself.
func TestLeaseRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cut atomic.Bool
		start := time.Now()
		b := mem.New(mem.Config{Fault: func(c mem.Call, _ store.Txn) mem.Fault {
			if cut.Load() && (c == mem.CallKeepAlive || c == mem.CallRevoke) {
				return mem.LoseRequest
			}
			return mem.None
		}})
		s, err := store.New(b, store.Config{Clock: run.Bubble(), LeaseTTL: 5 * time.Second, KeepAlive: time.Second,
			Drift: 500 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Campaign(t.Context(), store.Candidate{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(10*time.Second + time.Millisecond) // the last keep-alive that arrives is sent at 10 s
		cut.Store(true)
		next := make(chan *store.Leadership, 1)
		go func() {
			r2, err := newStore(t, b).Campaign(t.Context(), store.Candidate{ID: "b"})
			if err != nil {
				t.Error(err)
			}
			if since := time.Since(start); since < 15*time.Second || since > 16*time.Second {
				t.Errorf("the next term began after %s", since)
			}
			if r.LeaseHeld() {
				t.Error("two servers hold the lease")
			}
			next <- r2
		}()
		<-time.After(14490*time.Millisecond - time.Since(start))
		if !r.LeaseHeld() {
			t.Error("not held any more just before TTL - drift")
		}
		<-time.After(20 * time.Millisecond)
		if r.LeaseHeld() {
			t.Error("held after TTL - drift")
		}
		<-r.Done()
		if since := time.Since(start); since < 15*time.Second || since > 17*time.Second ||
			!errors.Is(r.Err(), store.ErrLeaseGone) && !errors.Is(r.Err(), store.ErrDisplaced) {
			t.Errorf("ended after %s by %v", since, r.Err())
		}
		cut.Store(false)
		_ = r.Resign(t.Context())
		if err := (<-next).Resign(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A machine is suspended: its boot clock jumps while the store stood still with it
// (one process). The lease is not held until the next keep-alive proves it, and the
// term goes on.
func TestSuspendedTogetherWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asleep atomic.Int64
		clock := run.Bubble()
		boot := clock.Boot
		clock.Boot = func() time.Duration { return boot() + time.Duration(asleep.Load()) }
		s, err := store.New(mem.New(mem.Config{}), store.Config{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Campaign(t.Context(), store.Candidate{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(3500 * time.Millisecond)
		asleep.Store(int64(8 * time.Hour))
		if r.LeaseHeld() {
			t.Fatal("held after eight hours of sleep")
		}
		if _, _, err := r.Get(t.Context(), "k"); !errors.Is(err, store.ErrLeaseNotProven) {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		if !r.LeaseHeld() || r.Err() != nil {
			t.Fatalf("not held after a keep-alive; %v", r.Err())
		}
		if err := r.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// Faults of the memory store: each request lost, its answer lost, or landing later.
func TestFaults(t *testing.T) {
	ctx := context.Background()
	next := mem.None
	b := mem.New(mem.Config{Fault: func(mem.Call, store.Txn) mem.Fault { f := next; next = mem.None; return f }})
	put := func(key string, f mem.Fault) error {
		next = f
		_, err := b.Txn(ctx, store.Txn{
			If:   []store.Condition{{Key: key, Check: store.CreatedAt, Created: 0}},
			Then: []store.Write{{Key: key, Value: []byte("v")}},
		})
		return err
	}
	there := func(key string) bool {
		p, err := b.Range(ctx, store.Query{From: key, To: key + "\x00"})
		if err != nil {
			t.Fatal(err)
		}
		return len(p.Entries) == 1
	}
	for _, c := range []struct {
		fault mem.Fault
		err   error
		there bool
	}{
		{mem.None, nil, true}, {mem.LoseRequest, mem.ErrRequestLost, false}, {mem.LoseAnswer, mem.ErrAnswerLost, true},
		{mem.LandLater, mem.ErrRequestLost, false}, {mem.Fill, store.ErrFull, false},
	} {
		key := string(rune('a' + c.fault))
		if err := put(key, c.fault); !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || there(key) != c.there {
			t.Errorf("fault %d: %v, there %v", c.fault, err, there(key))
		}
	}
	if err := put("late", mem.LandLater); !errors.Is(err, mem.ErrRequestLost) {
		t.Fatal(err)
	}
	if err := put("late", mem.None); err != nil {
		t.Fatal(err)
	}
	clone := b.Clone()
	if n := b.Land(); n != 1 || !there(string(rune('a'+mem.LandLater))) { // of two, one still meets its condition
		t.Fatalf("%d landed", n)
	}
	if p, err := clone.Range(ctx, store.Query{From: "a", To: "zzzz"}); err != nil || len(p.Entries) != 3 {
		t.Fatalf("the clone has %+v, %v", p.Entries, err)
	}
	for name, call := range map[string]func() error{
		"range":      func() error { _, err := b.Range(ctx, store.Query{From: "a", To: "b"}); return err },
		"changed":    func() error { return b.Changed(ctx, "a", 0) },
		"grant":      func() error { _, _, err := b.Grant(ctx, time.Second); return err },
		"keep alive": func() error { _, err := b.KeepAlive(ctx, 1); return err },
		"revoke":     func() error { return b.Revoke(ctx, 1) },
	} {
		next = mem.LoseRequest
		if err := call(); !errors.Is(err, mem.ErrRequestLost) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The memory store runs by a clock that is handed in, without a timer: as the
// simulator uses it.
func TestClockHandedIn(t *testing.T) {
	ctx := context.Background()
	var now atomic.Int64
	b := mem.New(mem.Config{Now: func() time.Duration { return time.Duration(now.Load()) }})
	id, _, err := b.Grant(ctx, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	a, err := b.Txn(ctx, store.Txn{Then: []store.Write{{Key: "k", Value: []byte("v"), Lease: id}}})
	if err != nil || !a.Done {
		t.Fatal(a, err)
	}
	now.Store(int64(4 * time.Second))
	if _, err := b.KeepAlive(ctx, id); err != nil {
		t.Fatal(err)
	}
	now.Store(int64(8 * time.Second))
	if ids := b.Leases(); len(ids) != 1 || ids[0] != id {
		t.Fatalf("leases %v", ids)
	}
	gone := make(chan error, 1)
	go func() { gone <- b.Changed(ctx, "k", a.Revision) }()
	now.Store(int64(9 * time.Second))
	b.Wake()
	if err := <-gone; err != nil {
		t.Fatal(err)
	}
	if _, err := b.KeepAlive(ctx, id); !errors.Is(err, store.ErrLeaseGone) {
		t.Fatal(err)
	}
}
