package executor

import "time"

// Phase is what a container is at that does not run yet, for people.
type Phase struct {
	What  string        // "running setup"; empty = nothing that takes long
	Since time.Duration // boot time
	At    time.Time     // the same by the wall clock
	Limit time.Duration // what ends it at the latest, counted from the start of the container; 0 = nothing
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
	c.phase = Phase{what, now, c.e.clock.Wall(), shorter(c.spec.Workload.TimeLimit, c.spec.Workload.StartTimeout)}
	c.e.mu.Unlock()
	switch {
	case c.hidden:
	case what != "":
		c.note("%s", what)
		c.e.clock.At(now+SlowPhase, func() {
			c.e.mu.Lock()
			still := c.phase.What == what && c.phase.Since == now
			c.e.mu.Unlock()
			if still {
				c.e.emit(EventSlow, c)
			}
		})
	case was.What != "":
		c.note("%s: over after %v", was.What, (now - was.Since).Round(time.Millisecond))
	}
}
