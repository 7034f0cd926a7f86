package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if err := Pause(t.Context(), time.Minute); err != nil || time.Since(begin) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin = time.Now()
		if err := Pause(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

func TestGroupStopsInReverseOrder(t *testing.T) {
	var mu sync.Mutex
	var order []string
	wait := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			order = append(order, name)
			return ctx.Err()
		}
	}
	boom := errors.New("boom")
	var g Group
	g.Add("store", wait("store"))
	g.Add("api", wait("api"))
	g.Add("cell", func(context.Context) error { return boom })
	err := g.Run(context.Background())
	if !errors.Is(err, boom) || !strings.Contains(err.Error(), "cell: boom") {
		t.Fatalf("got %v", err)
	}
	if strings.Join(order, " ") != "api store" {
		t.Fatalf("stopped in order %v", order)
	}
}

func TestGroupEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var g Group
	g.Add("one", func(ctx context.Context) error { cancel(); <-ctx.Done(); return ctx.Err() })
	if err := g.Run(ctx); err != nil {
		t.Fatalf("a cancelled part is no failure: %v", err)
	}
	if err := new(Group).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestKeyedRunsOnePerKeyAndKeepsTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewKeyed(4, func(f func()) { go f() })
		var got []int
		var mu sync.Mutex
		note := func(n int) func(context.Context) {
			return func(context.Context) { mu.Lock(); got = append(got, n); mu.Unlock() }
		}
		release := make(chan struct{})
		q.Push("a", func(context.Context) { <-release; note(1)(nil) })
		synctest.Wait()
		q.Push("a", note(2))
		q.Push("a", note(3))
		q.Push("b", note(9))
		synctest.Wait()
		if len(got) != 1 || got[0] != 9 {
			t.Fatalf("another key waits for a busy one: %v", got)
		}
		close(release)
		q.Idle()
		if len(got) != 3 || got[1] != 1 || got[2] != 3 {
			t.Fatalf("got %v, want 9 1 3: the replaced operation must not run", got)
		}
		q.Close()
		q.Push("a", note(4))
		synctest.Wait()
		if len(got) != 3 {
			t.Fatal("a closed queue ran something")
		}
	})
}

func TestBatchesCollectWhileACallIsInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
		var mu sync.Mutex
		var calls []string
		b := NewBatches(func(f func(context.Context)) { go f(t.Context()) }, func(_ context.Context, key string,
			items []int) {
			mu.Lock()
			calls = append(calls, fmt.Sprint(key, items))
			mu.Unlock()
			<-release[key]
		})
		take := func() []string { mu.Lock(); defer mu.Unlock(); got := calls; calls = nil; return got }
		b.Add("a", 1)
		synctest.Wait()
		for i := range 3 {
			b.Add("a", 2+i)
		}
		b.Add("b", 9)
		synctest.Wait()
		if got := take(); !slices.Equal(got, []string{"a[1]", "b[9]"}) {
			t.Fatalf("%v: one call per key at a time, and keys do not wait for one another", got)
		}
		close(release["a"])
		close(release["b"])
		synctest.Wait()
		if got := take(); !slices.Equal(got, []string{"a[2 3 4]"}) {
			t.Fatalf("%v: the items that waited go in one call", got)
		}
		b.Add("a", 5)
		synctest.Wait()
		if got := take(); !slices.Equal(got, []string{"a[5]"}) || len(b.waiting) != 0 {
			t.Fatalf("%v, %d keys are kept", got, len(b.waiting))
		}
	})
}

func TestKeyedCloseCancelsAndWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewKeyed(1, func(f func()) { go f() })
		var ended bool
		q.Push("a", func(ctx context.Context) { <-ctx.Done(); ended = true })
		synctest.Wait()
		q.Push("a", func(context.Context) { t.Error("what waited ran after Close") })
		q.Close()
		if !ended {
			t.Fatal("Close returned before its operation")
		}
	})
}

func TestKernelClocks(t *testing.T) {
	c := Kernel()
	a, b := c.Boot(), c.Boot()
	if a <= 0 || b < a {
		t.Fatalf("boot clock went from %v to %v", a, b)
	}
	if c.Wall().Location().String() != "UTC" {
		t.Fatal("wall time is not UTC")
	}
}

// TestALoopAsksAgainWhenWokenOrDue: present work is done at once, piece after piece. Then the loop waits for its
// time or for a wake-up, for the first of the two.
func TestALoopAsksAgainWhenWokenOrDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var work atomic.Int64
		work.Store(2)
		var did []time.Duration
		l := NewLoop("test", func() (func(context.Context), time.Duration) {
			if work.Load() == 0 {
				return nil, time.Hour
			}
			work.Add(-1)
			return func(context.Context) { did = append(did, time.Since(begin)) }, 0
		})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- l.Run(ctx) }()
		time.Sleep(time.Minute)
		work.Add(1)
		l.Wake()
		l.Wake()
		synctest.Wait()
		work.Add(1)
		time.Sleep(time.Hour)
		synctest.Wait() // the loop is due at the same moment
		stop()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if want := []time.Duration{0, 0, time.Minute, time.Minute + time.Hour}; !slices.Equal(did, want) {
			t.Errorf("%v, want %v", did, want)
		}
	})
}
