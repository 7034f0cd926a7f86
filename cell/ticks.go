package cell

import (
	"sync"
	"time"

	"cantina/internal/run"
)

// ticks holds when the deadlines are looked at next, and when a new session is to begin.
type ticks struct {
	clock run.Clock
	loop  *run.Loop

	mu        sync.Mutex
	at        time.Duration
	beginning bool // a session is to begin, at beginAt
	beginAt   time.Duration
}

// due returns the due work, a session before a tick, or how long until some is due.
func (t *ticks) due() (begin, tick bool, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Boot()
	if t.beginning && now >= t.beginAt {
		t.beginning = false
		return true, false, 0
	}
	if now >= t.at {
		t.at = now + tickEvery
		return false, true, 0
	}
	return false, false, t.at - now // a session that is to begin waits a little longer at most
}

// beginIn has a new session begin after d.
func (t *ticks) beginIn(d time.Duration) {
	t.mu.Lock()
	t.beginning, t.beginAt = true, t.clock.Boot()+d
	t.mu.Unlock()
	t.loop.Wake()
}
