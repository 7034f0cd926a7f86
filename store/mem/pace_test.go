package mem_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"cantina/internal/run"
	"cantina/store"
	"cantina/store/mem"
)

// slowDisk is a store on a busy disk: each commit takes a time of its own and time for each byte, and a keep-alive
// waits for the commit before it, as that of an embedded member does.
type slowDisk struct {
	store.Backend
	fixed   time.Duration
	perByte time.Duration

	turn    chan struct{} // guards the following; one that waits for it lets the time of the bubble pass
	commits int
	longest time.Duration
}

func (d *slowDisk) Txn(ctx context.Context, t store.Txn) (store.TxnAnswer, error) {
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	took := d.fixed
	for _, w := range t.Then {
		took += time.Duration(len(w.Key)+len(w.Value)) * d.perByte
	}
	d.commits++
	d.longest = max(d.longest, took)
	if err := run.Pause(context.WithoutCancel(ctx), took); err != nil {
		return store.TxnAnswer{}, err
	}
	return d.Backend.Txn(context.WithoutCancel(ctx), t)
}

func (d *slowDisk) KeepAlive(ctx context.Context, id store.LeaseID) (time.Duration, error) {
	d.turn <- struct{}{}
	defer func() { <-d.turn }()
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return d.Backend.KeepAlive(ctx, id)
}

// TestSlowStoreKeepsItsTerm: a flood of rows goes into a store that is slow by the byte, or by the commit. The term
// outlives it, and the number of commits is near the smallest for the time that each may take.
func TestSlowStoreKeepsItsTerm(t *testing.T) {
	const rows, size = 20_000, 250
	for _, c := range []struct {
		name           string
		fixed, perByte time.Duration
		longest        time.Duration // of a commit
		least, most    int           // commits
	}{
		{"7 s for a megabyte", 5 * time.Millisecond, 7 * time.Microsecond, 2 * time.Second, 30, 200},
		{"200 ms a commit", 200 * time.Millisecond, 10 * time.Nanosecond, 300 * time.Millisecond, 1, 25},
		{"fast", time.Millisecond, 10 * time.Nanosecond, 100 * time.Millisecond, 1, 25},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &slowDisk{Backend: mem.New(mem.Config{Limits: store.Limits{Ops: 1024, Bytes: 4 << 20}}), fixed: c.fixed,
					perByte: c.perByte, turn: make(chan struct{}, 1)}
				s, err := store.New(d, store.Config{Clock: run.Bubble(), LeaseTTL: 5 * time.Second, KeepAlive: time.Second,
					Drift: 500 * time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				r, err := s.Campaign(t.Context(), store.Candidate{ID: "a"})
				if err != nil {
					t.Fatal(err)
				}
				alone := make(chan error, 1)
				r.Submit(store.Transition{Ops: []store.Op{{Key: "cell/a", Value: []byte{1}}}},
					func(_ int64, err error) { alone <- err })
				if err := <-alone; err != nil {
					t.Fatal(err)
				}
				d.commits, d.longest = 0, 0
				var last error
				for i := range rows {
					r.Submit(store.Transition{Ops: []store.Op{{Key: fmt.Sprint("lrp/actual/", i), Value: make([]byte, size)}}},
						func(_ int64, err error) { last = err })
				}
				if err := r.Resign(t.Context()); err != nil || last != nil {
					t.Fatalf("the term ended: %v, %v", err, last)
				}
				t.Logf("%d commits, the longest %v", d.commits, d.longest)
				if d.commits < c.least || d.commits > c.most || d.longest > c.longest {
					t.Errorf("%d commits, the longest %v; want %d to %d, at most %v", d.commits, d.longest, c.least, c.most, c.longest)
				}
			})
		})
	}
}
