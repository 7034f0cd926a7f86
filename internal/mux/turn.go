package mux

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// turns is a lock that urgent requests and answers get before the others.
type turns struct {
	mu     sync.Mutex
	taken  bool
	urgent []chan struct{}
	others []chan struct{}
}

// take waits for the lock.
func (t *turns) take(ctx context.Context, urgent bool) error {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return nil
	}
	mine, line := make(chan struct{}), &t.others
	if urgent {
		line = &t.urgent
	}
	*line = append(*line, mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	i := slices.Index(*line, mine)
	if i >= 0 {
		*line = slices.Delete(*line, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 { // it came meanwhile
		t.give()
	}
	return fmt.Errorf("%w (%w)", ErrNotSent, ctx.Err())
}

// give hands the lock to the next.
func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, line := range []*[]chan struct{}{&t.urgent, &t.others} {
		if len(*line) > 0 {
			close((*line)[0])
			*line = (*line)[1:]
			return
		}
	}
	t.taken = false
}
