package cell

import (
	"context"
	"errors"
	"sync"

	"cantina/internal/run"
)

// errShortAnswer reports a response that lacks some of the requested items.
var errShortAnswer = errors.New("answer of the leader is incomplete")

// errUnsent reports an event that was not sent.
var errUnsent = errors.New("not sent")

// batcher combines calls of many goroutines into few calls of the leader: while one is in
// progress, later items wait and are sent together in the next. One of the waiting callers makes
// the call for all, then passes the next one on.
type batcher[E any] struct {
	call  func(context.Context, []E) ([]error, error)
	limit int
	park  run.Park

	mu      sync.Mutex
	waiting []*batched[E]
	flying  bool
}

type batched[E any] struct {
	event E
	wake  func() // called when there is an answer, or when this one is to make the next call
	lead  bool
	err   error
}

func newBatcher[E any](limit int, park run.Park, call func(context.Context, []E) ([]error, error)) *batcher[E] {
	return &batcher[E]{call: call, limit: limit, park: park}
}

// do sends event and returns its answer. It waits for the answer also when ctx
// ends meanwhile: the call itself ends with ctx.
func (b *batcher[E]) do(ctx context.Context, event E) error {
	mine := &batched[E]{event: event, err: errUnsent}
	var wait func(context.Context) error
	b.mu.Lock()
	b.waiting = append(b.waiting, mine)
	if b.flying {
		mine.wake, wait = b.park()
	} else {
		b.flying, mine.lead = true, true
	}
	b.mu.Unlock()
	if wait != nil {
		if err := wait(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	if mine.lead {
		b.fly(ctx)
	}
	return mine.err
}

// fly makes one call for all waiting items, in order, and passes the lead on. The first of the
// callers makes it.
func (b *batcher[E]) fly(ctx context.Context) {
	b.mu.Lock()
	n := min(len(b.waiting), b.limit)
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	b.mu.Unlock()
	events := make([]E, n)
	for i, w := range batch {
		events[i] = w.event
	}
	answers, err := b.call(ctx, events)
	b.mu.Lock()
	if len(b.waiting) > 0 {
		b.waiting[0].lead = true
		b.waiting[0].wake()
	} else {
		b.flying = false
	}
	b.mu.Unlock()
	for i, w := range batch {
		switch {
		case err != nil:
			w.err = err
		case i < len(answers):
			w.err = answers[i]
		default:
			w.err = errShortAnswer
		}
		if i > 0 {
			w.wake()
		}
	}
}
