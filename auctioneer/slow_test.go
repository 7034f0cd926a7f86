package auctioneer

import (
	"testing"
	"time"
)

// TestQueuedWorkIsNotPlacedAgain: calls take minutes, as on a busy machine. Work that waits for its call stays on its
// cell; if it is withdrawn meanwhile, it is not sent.
func TestQueuedWorkIsNotPlacedAgain(t *testing.T) {
	within(t, func(t *testing.T, r rig) {
		r.cells.block = make(chan struct{})
		r.join("c", 100)
		r.request(t, work("first", 10))
		want(t, "first call", r.cells.take(), "c/p-c [first]")
		r.request(t, work("second", 10), work("third", 10))
		for range 10 {
			if r.Confirm("h-first"); len(r.cells.take()) > 0 { // its row arrives before the answer
				t.Fatal("a second call beside the first")
			}
			pass(time.Minute)
		}
		r.board.mu.Lock()
		want(t, "unanswered", r.board.unanswered)
		r.board.mu.Unlock()
		r.Release("h-third")
		close(r.cells.block)
		pass(time.Second)
		want(t, "second call", r.cells.take(), "c/p-c [second]")
	})
}
