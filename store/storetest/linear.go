package storetest

import (
	"context"
	"fmt"
	"math/rand"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"cantina/store"
)

// call writes a row, or reads it.
type call struct {
	key   string
	write bool
	value string
}

type outcome struct {
	value   string
	unknown bool // a write that may or may not have happened
}

// registers is a store of rows, each a register. A write of unknown outcome is
// given the end of time to happen in.
var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := make(map[string][]porcupine.Operation)
		for _, op := range history {
			k := op.Input.(call).key
			byKey[k] = append(byKey[k], op)
		}
		var parts [][]porcupine.Operation
		for _, ops := range byKey {
			parts = append(parts, ops)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		in, out := input.(call), output.(outcome)
		if in.write {
			return true, in.value
		}
		return out.value == state.(string), state
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v → %+v", input, output)
	},
}

// history records what clients saw.
type history struct {
	mu    sync.Mutex
	start time.Time
	ops   []porcupine.Operation
}

func (h *history) now() int64 { return time.Since(h.start).Nanoseconds() }

func (h *history) add(client int, in call, began int64, out outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	end := h.now()
	if out.unknown {
		end = int64(1) << 60
	}
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: in, Call: began, Output: out, Return: end})
}

// seats hands the reign of the day to the clients.
type seats struct {
	first chan struct{} // closed when there is one

	mu    sync.Mutex
	reign *store.Reign
}

func (s *seats) get() *store.Reign {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reign
}

func (s *seats) set(r *store.Reign) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reign == nil {
		close(s.first)
	}
	s.reign = r
}

// linearizable: clients write and read rows through whoever they believe to lead,
// old leaders included, while leaders lose their leases and requests get lost. What
// they see must be a history of one store.
func linearizable(t *testing.T, f Fixture) {
	const clients, keys, terms, calls = 4, 3, 8, 100 // calls at least, per term
	h := &history{start: time.Now()}
	reigns := make([]*seats, 2)
	for i := range reigns {
		reigns[i] = &seats{first: make(chan struct{})}
	}
	var leases sync.Map
	stop, cancel := context.WithCancel(ctx(t))
	next := make(chan struct{}) // one token per term
	var servers, all sync.WaitGroup
	for i := range reigns {
		b := &counting{Backend: newLossy(f.Open(t), int64(i), 0.1)}
		b.Backend.(*lossy).enable(true)
		s := f.on(t, b, store.Config{KeepAlive: 100 * time.Millisecond, SettleTimeout: 10 * time.Second})
		servers.Go(func() {
			for stop.Err() == nil {
				r, err := s.Campaign(stop, store.Candidate{ID: fmt.Sprint("s", i)})
				if err != nil {
					return // stopped
				}
				leases.Store(r.Term(), b.lease())
				reigns[i].set(r)
				select {
				case next <- struct{}{}:
				case <-stop.Done():
				}
				select {
				case <-r.Done():
				case <-stop.Done():
				}
				_ = r.Resign(context.Background()) // the term may have ended by a fault
			}
		})
	}
	go func() { // takes the lease of each leader in turn, after the clients had a while with it
		defer cancel()
		for range terms {
			select {
			case <-next:
			case <-stop.Done():
				return
			}
			h.settle(calls, stop)
			for _, s := range reigns {
				if r := s.get(); r != nil && r.Err() == nil {
					if id, ok := leases.Load(r.Term()); ok {
						_ = f.Open(t).Revoke(stop, id.(store.LeaseID)) // it may be gone already
					}
				}
			}
		}
	}()
	for c := range clients {
		all.Go(func() {
			rng := rand.New(rand.NewSource(int64(c)))
			select {
			case <-reigns[0].first:
			case <-reigns[1].first:
			case <-stop.Done():
			}
			for n := 0; stop.Err() == nil; n++ {
				r := reigns[rng.Intn(len(reigns))].get()
				if r == nil || r.Err() != nil { // one that has lost its lease without knowing is welcome
					runtime.Gosched()
					continue
				}
				in := call{key: fmt.Sprint("k", rng.Intn(keys)), write: rng.Intn(2) == 0, value: fmt.Sprintf("%d-%d", c, n)}
				h.do(stop, c, r, in)
			}
		})
	}
	all.Wait()
	cancel()
	servers.Wait()
	result, info := porcupine.CheckOperationsVerbose(registers, h.ops, patience)
	if result != porcupine.Ok {
		path := t.ArtifactDir() + "/history.html"
		_ = porcupine.VisualizePath(registers, info, path) // the verdict stands without the picture
		t.Fatalf("%d calls are not linearizable (%s): %s", len(h.ops), result, path)
	}
	if len(h.ops) < terms*calls {
		t.Fatalf("only %d calls", len(h.ops))
	}
	t.Logf("%d calls, unknown %d, terms %d", len(h.ops), h.unknown(), terms)
}

// settle waits until the clients have made n more calls.
func (h *history) settle(n int, stop context.Context) {
	h.mu.Lock()
	want := len(h.ops) + n
	h.mu.Unlock()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-stop.Done():
			return
		case <-tick.C:
		}
		h.mu.Lock()
		enough := len(h.ops) >= want
		h.mu.Unlock()
		if enough {
			return
		}
	}
}

func (h *history) unknown() int {
	n := 0
	for _, op := range h.ops {
		if op.Output.(outcome).unknown {
			n++
		}
	}
	return n
}

func (h *history) do(ctx context.Context, client int, r *store.Reign, in call) {
	began := h.now()
	if !in.write {
		row, _, err := r.Get(ctx, in.key)
		if err == nil {
			h.add(client, in, began, outcome{value: string(row.Value)})
		}
		return
	}
	done := make(chan error, 1)
	r.Submit(set(in.key, in.value), func(_ int64, err error) { done <- err })
	err := <-done
	h.add(client, in, began, outcome{unknown: err != nil})
}
