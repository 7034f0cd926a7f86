package mem_test

import (
	"testing"
	"testing/synctest"
	"time"

	"cantina/internal/run"
	"cantina/store"
	"cantina/store/mem"
)

// TestCommitsAreMeasured: each commit with its size, and with the wait of its oldest transition.
func TestCommitsAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type measured struct {
			took, waited       time.Duration
			transitions, bytes int
		}
		all := make(chan measured, 10)
		held, slow := make(chan struct{}), false
		b := mem.New(mem.Config{Fault: func(c mem.Call, _ store.Txn) mem.Fault {
			if c == mem.CallTxn && slow {
				<-held
			}
			return mem.None
		}})
		s, err := store.New(b, store.Config{Clock: run.Bubble(), LeaseTTL: time.Minute,
			Committed: func(took, waited time.Duration, transitions, bytes int) {
				all <- measured{took, waited, transitions, bytes}
			}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Campaign(t.Context(), store.Candidate{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		slow = true
		done := func(int64, error) {}
		r.Submit(store.Transition{Ops: []store.Op{{Key: "a", Value: []byte("1")}}}, done)
		synctest.Wait() // its commit is in progress
		r.Submit(store.Transition{Ops: []store.Op{{Key: "b", Value: []byte("22")}}}, done)
		<-time.After(time.Second)
		r.Submit(store.Transition{Ops: []store.Op{{Key: "c", Value: []byte("333")}}}, done)
		synctest.Wait()
		if waiting, _ := r.Queues(); waiting != 2 {
			t.Errorf("%d wait", waiting)
		}
		<-time.After(time.Second)
		close(held)
		synctest.Wait()
		first, second := <-all, <-all
		if first.took != 2*time.Second || first.waited != 0 || first.transitions != 1 || first.bytes <= 0 {
			t.Errorf("the first: %+v", first)
		}
		if second.took != 0 || second.waited != 2*time.Second || second.transitions != 2 || second.bytes <= first.bytes {
			t.Errorf("the second: %+v", second)
		}
		if err := r.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
