package etcd_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"cantina/internal/run"
	"cantina/store"
	"cantina/store/etcdtest"
)

// Records of 700 bytes, one row per transition, as an actual LRP.
func BenchmarkCommit(b *testing.B) {
	value := make([]byte, 700)
	backends := map[string]func(b *testing.B) store.Backend{
		"embedded": func(b *testing.B) store.Backend {
			m, f := startMember(b, b.TempDir())
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- m.Run(ctx) }()
			b.Cleanup(func() { cancel(); <-ended; m.Close(); f.Close() })
			return m.Backend()
		},
		"plain": func(b *testing.B) store.Backend { return etcdtest.Start(b).Dial(b) },
	}
	for _, name := range []string{"embedded", "plain"} {
		b.Run(name+"/batched", func(b *testing.B) {
			r := reign(b, backends[name](b))
			b.ResetTimer()
			for i := range b.N {
				if err := r.Wait(b.Context()); err != nil {
					b.Fatal(err)
				}
				r.Submit(store.Transition{Ops: []store.Op{{Key: fmt.Sprint("lrp/actual/", i%20000), Value: value}}}, nil)
			}
			commit(b, r, store.Transition{})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
		})
		b.Run(name+"/one-by-one", func(b *testing.B) {
			r := reign(b, backends[name](b))
			took := make([]time.Duration, b.N)
			b.ResetTimer()
			for i := range b.N {
				start := time.Now()
				commit(b, r, store.Transition{Ops: []store.Op{{Key: fmt.Sprint("lrp/actual/", i%20000), Value: value}}})
				took[i] = time.Since(start)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
			slices.Sort(took)
			b.ReportMetric(float64(took[b.N/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[b.N*99/100].Microseconds()), "p99-µs")
		})
	}
}

func reign(b testing.TB, backend store.Backend) *store.Reign {
	b.Helper()
	s, err := store.New(backend, store.Config{Clock: run.Kernel()})
	if err != nil {
		b.Fatal(err)
	}
	r, err := s.Campaign(context.Background(), store.Candidate{ID: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Resign(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return r
}

func commit(b testing.TB, r *store.Reign, t store.Transition) {
	b.Helper()
	done := make(chan error, 1)
	r.Submit(t, func(_ int64, err error) { done <- err })
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
