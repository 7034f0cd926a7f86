package etcd_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"cantina/internal/run"
	"cantina/store"
	"cantina/store/etcd"
	"cantina/store/etcdtest"
)

// Records of 700 bytes, one row per transition, as an actual LRP.
func BenchmarkCommit(b *testing.B) {
	value := make([]byte, 700)
	backends := map[string]func(b *testing.B) store.Backend{
		"embedded": func(b *testing.B) store.Backend {
			return benchMember(b, etcd.MemberConfig{})
		},
		"embedded-128": func(b *testing.B) store.Backend {
			return benchMember(b, etcd.MemberConfig{Limits: store.Limits{Ops: 128, Bytes: 3 << 19}})
		},
		"plain": func(b *testing.B) store.Backend { return etcdtest.Start(b).Dial(b) },
	}
	for _, name := range []string{"embedded", "embedded-128", "plain"} {
		b.Run(name+"/batched", func(b *testing.B) {
			r := leadership(b, backends[name](b))
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
			r := leadership(b, backends[name](b))
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

func benchMember(b *testing.B, c etcd.MemberConfig) store.Backend {
	m, f := startMemberWith(b, b.TempDir(), c)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		<-ended
		stopMember(b, m, f)
	})
	return m.Backend()
}

// BenchmarkLoad begins a term on a store of 100,000 rows of 700 bytes.
func BenchmarkLoad(b *testing.B) {
	backend := benchMember(b, etcd.MemberConfig{})
	s := newStore(b, backend, store.Config{})
	r, err := s.Campaign(context.Background(), store.Candidate{ID: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	const rows = 100_000
	for i := range rows {
		r.Submit(store.Transition{Ops: []store.Op{{Key: fmt.Sprint("lrp/actual/", i), Value: make([]byte, 700)}}}, nil)
	}
	for b.Loop() {
		if err := r.Resign(context.Background()); err != nil {
			b.Fatal(err)
		}
		if r, err = s.Campaign(context.Background(), store.Candidate{ID: "bench"}); err != nil {
			b.Fatal(err)
		}
		if got := len(r.Rows()); got != rows {
			b.Fatalf("%d rows", got)
		}
	}
	if err := r.Resign(context.Background()); err != nil {
		b.Fatal(err)
	}
}

func leadership(b testing.TB, backend store.Backend) *store.Leadership {
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

func commit(b testing.TB, r *store.Leadership, t store.Transition) {
	b.Helper()
	done := make(chan error, 1)
	r.Submit(t, func(_ int64, err error) { done <- err })
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
