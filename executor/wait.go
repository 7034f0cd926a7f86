package executor

import (
	"context"
	"sync/atomic"
	"time"
)

// moment is when something first happened, Unix nanoseconds; 0 = not yet.
type moment struct{ at atomic.Int64 }

func (m *moment) isNow() { m.at.CompareAndSwap(0, time.Now().UnixNano()) }

// before reports whether it happened before t.
func (m *moment) before(t time.Time) bool {
	at := m.at.Load()
	return at != 0 && t.UnixNano() >= at
}

// timer returns a channel that is ready after d; d ≤ 0 is never.
func timer(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return time.After(d)
}

// shorter is the shorter of two limits, of which 0 is none.
func shorter(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// until returns a context that is done when one of two channels is closed. The caller
// calls release.
func until(one, other <-chan struct{}) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-one:
		case <-other:
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx, func() {
		cancel()
		<-watched
	}
}

// comes waits for an event that is certain, except after a fault.
func comes(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-time.After(hangsAfter):
		return false
	}
}

// hangsAfter is how often a slow start is checked: one that waits in the kernel is reported as
// hanging, one that only has no processor yet is not.
const hangsAfter = 500 * time.Millisecond
