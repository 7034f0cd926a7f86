package run

import (
	"context"
	"sync"
)

// Keyed runs operations so that per key at most one runs and at most one waits:
// an operation pushed while another of its key waits replaces it (the newest
// wins, the older one is dropped: it would have looked at older facts). Different
// keys run side by side, up to the width.
type Keyed struct {
	width chan struct{}

	mu      sync.Mutex
	waiting map[string]func(context.Context) // next operation of a busy key
	busy    map[string]bool
	closed  bool
	active  sync.WaitGroup
	ctx     context.Context
	cancel  context.CancelFunc
}

// NewKeyed returns a queue that runs at most width operations at once.
func NewKeyed(width int) *Keyed {
	ctx, cancel := context.WithCancel(context.Background())
	return &Keyed{
		width:   make(chan struct{}, width),
		waiting: map[string]func(context.Context){},
		busy:    map[string]bool{},
		ctx:     ctx,
		cancel:  cancel,
	}
}

// Push queues op for key. After Close it does nothing.
func (q *Keyed) Push(key string, op func(context.Context)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	if q.busy[key] {
		q.waiting[key] = op
		return
	}
	q.busy[key] = true
	q.active.Add(1)
	go q.work(key, op)
}

func (q *Keyed) work(key string, op func(context.Context)) {
	defer q.active.Done()
	for op != nil {
		q.width <- struct{}{}
		op(q.ctx)
		<-q.width
		q.mu.Lock()
		op = q.waiting[key]
		delete(q.waiting, key)
		if op == nil || q.closed {
			op = nil
			delete(q.busy, key)
		}
		q.mu.Unlock()
	}
}

// Close cancels the context of running operations, drops what waits and returns
// when nothing runs any more.
func (q *Keyed) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cancel()
	q.active.Wait()
}

// Idle returns when nothing runs and nothing waits; new work may come at once.
func (q *Keyed) Idle() { q.active.Wait() }
