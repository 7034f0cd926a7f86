package api

import (
	"context"
	"fmt"
	"sync"

	"cantina/fault"
)

// maxStreams is how many streams of events and output a client may have open at once: one of
// this machine's users, a certificate's name, or a network address.
const maxStreams = 512

// streams counts the open ones.
type streams struct {
	mu    sync.Mutex
	count map[string]int
}

// open counts one more for the caller; done gives it back.
func (s *streams) open(ctx context.Context) (done func(), err error) {
	who := clientOf(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == nil {
		s.count = map[string]int{}
	}
	if s.count[who] >= maxStreams {
		return nil, fmt.Errorf("%s already has %d open streams (the limit); close some: %w", who, maxStreams, fault.ErrBusy)
	}
	s.count[who]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.count[who]--; s.count[who] == 0 {
			delete(s.count, who)
		}
	}, nil
}

// clientOf names the client of a call without its port.
func clientOf(ctx context.Context) string { return withoutPort(caller(ctx)) }
