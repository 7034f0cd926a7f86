package logstore

import (
	"context"
	"slices"
	"sync"
	"time"
)

// clock assigns positions and knows up to which one all lines are on disk.
//
// Writers of different segments append concurrently. A reader that saw position 7 while 6 was
// still being written would lose 6 permanently, so readers stop at the last position before the
// first append in progress. They do not miss lines written before their start either: resolved
// waits for the appends before it.
type clock struct {
	mu     sync.Mutex
	last   Position
	active []Position    // first positions of appends in progress; as many as there are writers in a system call
	sizes  []int         // and how many positions each reserved
	ended  chan struct{} // closed at the next end; nil = no one waits
}

// begin reserves n positions; end must follow.
func (c *clock) begin(n int, now time.Time) Position {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.last + 1
	if w := Position(max(now.UnixNano(), 1)); w > first {
		first = w
	}
	c.last = first + Position(n) - 1
	c.active, c.sizes = append(c.active, first), append(c.sizes, n)
	return first
}

// end makes the positions of the matching begin visible, used or not. It reports whether positions
// of others had waited for it: their followers must be woken.
func (c *clock) end(first Position) (released bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	oldest := slices.Min(c.active) == first
	i := slices.Index(c.active, first)
	c.active = slices.Delete(c.active, i, i+1)
	newest := first + Position(c.sizes[i]) - 1
	c.sizes = slices.Delete(c.sizes, i, i+1)
	if c.ended != nil {
		close(c.ended)
		c.ended = nil
	}
	return oldest && newest < c.last
}

// resolved is the last position up to which nothing can appear any more, once all that
// has been written so far is below it: an append of one source
// that takes long must not hide the last lines of another that has ended.
func (c *clock) resolved(ctx context.Context) (Position, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for asked := c.last; c.visibleLocked() < asked; {
		if c.ended == nil {
			c.ended = make(chan struct{})
		}
		ended := c.ended
		c.mu.Unlock()
		select {
		case <-ended:
			c.mu.Lock()
		case <-ctx.Done():
			c.mu.Lock()
			return 0, ctx.Err()
		}
	}
	return c.visibleLocked(), nil
}

// visibleLocked is the last position up to which nothing can appear any more.
func (c *clock) visibleLocked() Position {
	v := c.last
	for _, a := range c.active {
		v = min(v, a-1)
	}
	return v
}

// advance makes sure that later positions are greater than p.
func (c *clock) advance(p Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, p)
}
