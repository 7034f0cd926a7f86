package executor

import "time"

// Phase is what a container is at that does not run yet, for people.
type Phase struct {
	What  string        // "its image is made ready"; empty = nothing that takes long
	Since time.Duration // boot time
}

// inPhase notes what the container is at from now on, if on, and writes it into its log.
func (c *container) inPhase(what string, on bool) {
	if !on {
		return
	}
	now := c.e.clock.Boot()
	c.e.mu.Lock()
	was := c.phase
	c.phase = Phase{what, now}
	c.e.mu.Unlock()
	switch {
	case c.hidden:
	case what != "":
		c.note("%s", what)
	case was.What != "":
		c.note("%s: over after %v", was.What, (now - was.Since).Round(time.Millisecond))
	}
}
