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
	width int
	spawn func(func())

	mu      sync.Mutex
	running int
	ready   []operation                      // busy keys that wait for others to end, in order
	waiting map[string]func(context.Context) // next operation of a busy key
	busy    map[string]bool
	closed  bool
	active  sync.WaitGroup
	ctx     context.Context
	cancel  context.CancelFunc
}

type operation struct {
	key string
	run func(context.Context)
}

// NewKeyed returns a queue that runs at most width operations at once; spawn runs a function
// concurrently.
func NewKeyed(width int, spawn func(func())) *Keyed {
	ctx, cancel := context.WithCancel(context.Background())
	return &Keyed{width: width, spawn: spawn, waiting: map[string]func(context.Context){}, busy: map[string]bool{},
		ctx: ctx, cancel: cancel}
}

// Push queues op for key. After Close it does nothing.
func (q *Keyed) Push(key string, op func(context.Context)) {
	if q.add(operation{key, op}) {
		q.spawn(q.work)
	}
}

// add queues an operation and reports whether a worker must be started.
func (q *Keyed) add(op operation) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return false
	case q.busy[op.key]:
		q.waiting[op.key] = op.run
		return false
	}
	q.busy[op.key] = true
	q.active.Add(1)
	q.ready = append(q.ready, op)
	if q.running == q.width {
		return false
	}
	q.running++
	return true
}

// work runs operations until none is ready.
func (q *Keyed) work() {
	for op, ok := q.next(); ok; op, ok = q.next() {
		op.run(q.ctx)
		q.ended(op.key)
	}
}

func (q *Keyed) next() (operation, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.ready) == 0 {
		q.running--
		return operation{}, false
	}
	op := q.ready[0]
	q.ready[0] = operation{} // its data is deleted with it
	q.ready = q.ready[1:]
	return op, true
}

// ended has the next operation of a key be ready, if one waits.
func (q *Keyed) ended(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if next := q.waiting[key]; next != nil && !q.closed {
		delete(q.waiting, key)
		q.ready = append(q.ready, operation{key, next})
		return
	}
	delete(q.waiting, key)
	delete(q.busy, key)
	q.active.Done()
}

// Close cancels the context of running operations, drops those that wait for one of their key, and
// returns when none is running.
func (q *Keyed) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cancel()
	q.active.Wait()
}

// Idle returns when nothing runs and nothing waits; new work may come at once.
func (q *Keyed) Idle() { q.active.Wait() }
