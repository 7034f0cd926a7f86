package cell

import (
	"sync"
	"time"

	"cantina/internal/run"
)

// ticks holds when the session's machine is stepped next because of time alone, and when a new
// session is to begin. Nothing wakes before.
type ticks struct {
	clock run.Clock
	loop  *run.Loop

	mu        sync.Mutex
	at        time.Duration // when the machine has something to do
	beginning bool          // a session is to begin, at beginAt
	beginAt   time.Duration
	armed     time.Duration // until when the loop waits; 0 = it looks again by itself
}

// due returns the due work, a session before a tick, or how long until some is due.
func (t *ticks) due() (begin, tick bool, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Boot()
	t.armed = 0
	if t.beginning && now >= t.beginAt {
		t.beginning = false
		return true, false, 0
	}
	if now >= t.at {
		t.at = run.Never // the step sets the next one
		return false, true, 0
	}
	t.armed = t.at
	if t.beginning {
		t.armed = min(t.armed, t.beginAt)
	}
	if t.armed == run.Never {
		return false, false, run.Never
	}
	return false, false, t.armed - now
}

// next sets when the machine has something to do. A loop that would wait longer is woken.
func (t *ticks) next(at time.Duration) {
	t.mu.Lock()
	t.at = at
	late := at < t.armed
	t.mu.Unlock()
	if late {
		t.loop.Wake()
	}
}

// beginIn has a new session begin after d.
func (t *ticks) beginIn(d time.Duration) {
	t.mu.Lock()
	t.beginning, t.beginAt = true, t.clock.Boot()+d
	t.mu.Unlock()
	t.loop.Wake()
}
