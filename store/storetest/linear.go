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

// history records the operations of clients.
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

// holders hands the term of the day to the clients.
type holders struct {
	first chan struct{} // closed when there is one

	mu         sync.Mutex
	leadership *store.Leadership
}

func (s *holders) get() *store.Leadership {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leadership
}

func (s *holders) set(r *store.Leadership) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leadership == nil {
		close(s.first)
	}
	s.leadership = r
}

// crowd is servers that stand for election in turn, and clients of the presumed leader.
type crowd struct {
	f       Fixture
	h       *history
	stop    context.Context // done when the last term is over
	holders []*holders
	leases  sync.Map      // term → store.LeaseID
	next    chan struct{} // one token per term
}

// linearizable: clients write and read rows through the presumed leader, including old leaders,
// while leaders lose their leases and requests get lost. Their operations must be a history of one
// store.
func linearizable(t *testing.T, f Fixture) {
	const clients, terms, calls = 4, 8, 100 // calls at least, per term
	stop, cancel := context.WithCancel(ctx(t))
	c := &crowd{f: f, h: &history{start: time.Now()}, stop: stop, next: make(chan struct{}),
		holders: []*holders{{first: make(chan struct{})}, {first: make(chan struct{})}}}
	var servers, all sync.WaitGroup
	for i := range c.holders {
		b := &counting{Backend: newLossy(f.Open(t), int64(i), 0.1)}
		b.Backend.(*lossy).enable(true)
		s := f.on(t, b, store.Config{KeepAlive: 100 * time.Millisecond})
		servers.Go(func() { c.stand(i, s, b) })
	}
	all.Go(func() {
		defer cancel()
		c.depose(t, terms, calls)
	})
	for i := range clients {
		all.Go(func() { c.client(i) })
	}
	all.Wait()
	servers.Wait()
	result, info := porcupine.CheckOperationsVerbose(registers, c.h.ops, patience)
	if result != porcupine.Ok {
		path := t.ArtifactDir() + "/history.html"
		_ = porcupine.VisualizePath(registers, info, path) // the verdict is valid without the picture
		t.Fatalf("%d calls are not linearizable (%s): %s", len(c.h.ops), result, path)
	}
	if len(c.h.ops) < terms*calls {
		t.Fatalf("only %d calls", len(c.h.ops))
	}
	t.Logf("%d calls, unknown %d, terms %d", len(c.h.ops), c.h.unknown(), terms)
}

// stand is a server that repeatedly stands for election.
func (c *crowd) stand(i int, s *store.Store, b *counting) {
	for c.stop.Err() == nil {
		r, err := s.Campaign(c.stop, store.Candidate{ID: fmt.Sprint("s", i)})
		if err != nil {
			return // stopped
		}
		c.leases.Store(r.Term(), b.lease())
		c.holders[i].set(r)
		select {
		case c.next <- struct{}{}:
		case <-c.stop.Done():
		}
		select {
		case <-r.Done():
		case <-c.stop.Done():
		}
		_ = r.Resign(context.Background()) // the term may have ended by a fault
	}
}

// depose takes the lease of each leader in turn, after the clients had a while with it.
func (c *crowd) depose(t *testing.T, terms, calls int) {
	for range terms {
		select {
		case <-c.next:
		case <-c.stop.Done():
			return
		}
		c.h.resolve(calls, c.stop)
		for _, s := range c.holders {
			if r := s.get(); r != nil && r.Err() == nil {
				if id, ok := c.leases.Load(r.Term()); ok {
					_ = c.f.Open(t).Revoke(c.stop, id.(store.LeaseID)) // it may be gone already
				}
			}
		}
	}
}

// client writes and reads at random.
func (c *crowd) client(i int) {
	const keys = 3
	rng := rand.New(rand.NewSource(int64(i)))
	select {
	case <-c.holders[0].first:
	case <-c.holders[1].first:
	case <-c.stop.Done():
	}
	for n := 0; c.stop.Err() == nil; n++ {
		r := c.holders[rng.Intn(len(c.holders))].get()
		if r == nil || r.Err() != nil { // one that has lost its lease without knowing is welcome
			runtime.Gosched()
			continue
		}
		in := call{key: fmt.Sprint("k", rng.Intn(keys)), write: rng.Intn(2) == 0, value: fmt.Sprintf("%d-%d", i, n)}
		c.h.do(c.stop, i, r, in)
	}
}

// resolve waits until the clients have made n more calls.
func (h *history) resolve(n int, stop context.Context) {
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

func (h *history) do(ctx context.Context, client int, r *store.Leadership, in call) {
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
