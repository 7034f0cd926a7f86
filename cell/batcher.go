package cell

import (
	"context"
	"errors"
	"sync"
)

// errShortAnswer reports an answer that leaves out some of what was asked.
var errShortAnswer = errors.New("the leader's answer is too short")

// batcher turns calls of many goroutines into few calls of the leader: while one
// is on its way, what comes in waits and goes together in the next. One of those
// who wait makes the call for all, then hands the next one on.
type batcher[E any] struct {
	call  func(context.Context, []E) ([]error, error)
	limit int

	mu      sync.Mutex
	waiting []*batched[E]
	flying  bool
}

type batched[E any] struct {
	event E
	done  chan error    // buffered: one answer
	lead  chan struct{} // closed when this one is to make the next call
}

func newBatcher[E any](limit int, call func(context.Context, []E) ([]error, error)) *batcher[E] {
	return &batcher[E]{call: call, limit: limit}
}

// do sends event and returns its answer. It waits for the answer also when ctx
// ends meanwhile: the call itself ends with ctx.
func (b *batcher[E]) do(ctx context.Context, event E) error {
	mine := &batched[E]{event: event, done: make(chan error, 1), lead: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, mine)
	if !b.flying {
		b.flying = true
		close(mine.lead)
	}
	b.mu.Unlock()
	select {
	case err := <-mine.done:
		return err
	case <-mine.lead:
		b.fly(ctx)
		return <-mine.done
	}
}

// fly makes one call for all that wait, in order, and hands the lead on.
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
		close(b.waiting[0].lead)
	} else {
		b.flying = false
	}
	b.mu.Unlock()
	for i, w := range batch {
		switch {
		case err != nil:
			w.done <- err
		case i < len(answers):
			w.done <- answers[i]
		default:
			w.done <- errShortAnswer
		}
	}
}
