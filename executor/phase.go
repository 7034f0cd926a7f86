package executor

import (
	"time"

	"cantina/internal/text"
)

// Phase is what a container is at that does not run yet, for people.
type Phase struct {
	What  string        // "running setup"; empty = nothing that takes long
	Since time.Duration // boot time
	At    time.Time     // the same by the wall clock
	Limit time.Duration // what ends it at the latest, counted from the start of the container; 0 = nothing
	// Detail is why it is still at that: the latest failed attempt of a health check.
	Detail string

	heard time.Duration // boot time of the latest event; 0 = there was none
}

// SlowPhase is after how long EventSlow tells of a phase.
const SlowPhase = 2 * time.Second

// inPhase notes what the container is at from now on, if on, and writes it into its log. When it is
// at that for long it is an event.
func (c *container) inPhase(what string, on bool) {
	if !on {
		return
	}
	now := c.e.clock.Boot()
	c.e.mu.Lock()
	was := c.phase
	c.enter(what, now)
	c.e.mu.Unlock()
	switch {
	case c.hidden:
	case what != "":
		c.note("%s", what)
	case was.What != "":
		c.note("%s: over after %v", was.What, (now - was.Since).Round(time.Millisecond))
	}
}

// enter begins a phase. The executor is locked.
func (c *container) enter(what string, now time.Duration) {
	c.quiet()
	c.phase = Phase{What: what, Since: now, At: c.e.clock.Wall(), Limit: shorter(c.spec.Workload.TimeLimit, c.spec.Workload.StartTimeout)}
	if what != "" && !c.hidden {
		c.slowAt(now + SlowPhase)
	}
}

// quiet takes back the event that is due about the phase, which is over. The executor is locked.
func (c *container) quiet() {
	if c.notSlow != nil {
		c.notSlow()
		c.notSlow = nil
	}
}

// slowAt sends an event about the phase at a time, unless one is due anyway or it is over by
// then. The executor is locked.
func (c *container) slowAt(at time.Duration) {
	if c.notSlow != nil {
		return
	}
	what, since := c.phase.What, c.phase.Since
	c.notSlow = c.e.clock.At(at, func() {
		c.e.mu.Lock()
		still := c.phase.What == what && c.phase.Since == since
		if still {
			c.notSlow, c.phase.heard = nil, c.e.clock.Boot()
		}
		c.e.mu.Unlock()
		if still {
			c.e.emit(EventSlow, c)
		}
	})
}

const (
	checksPhase = "waiting for health checks"
	// slowAgain is the least time between two events about one phase.
	slowAgain = 5 * time.Second
	// mostDetail is the longest detail in bytes.
	mostDetail = 300
)

// atChecks notes that the container waits for its health checks, and the latest failed attempt.
func (c *container) atChecks(detail string) {
	detail = text.Shorten(detail, mostDetail)
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if c.hidden || c.state >= Running || c.ends() {
		return
	}
	if c.phase.What != checksPhase {
		c.enter(checksPhase, c.e.clock.Boot())
	}
	if c.phase.Detail == detail {
		return
	}
	if c.phase.Detail = detail; c.phase.heard > 0 {
		c.slowAt(c.phase.heard + slowAgain)
	}
}
