package executor

import "slices"

// verdict is what counts for how a container ended. It is fixed when its main program has
// ended: whatever is asked of the container afterwards, or happens to what the program left
// behind, ends leftovers and changes nothing else.
type verdict struct {
	asked    ask    // before the program ended
	reason   string // of askKill
	late     bool   // the cell's deadline had passed; counts where the reaper leaves no word
	oomKills int
	status   []byte
}

// fix fixes the verdict, once. Asked is whether the program was ended because somebody asked
// for it; else it has ended by itself, even if somebody asked at the same moment.
func (c *container) fix(asked bool) {
	if c.fixed != nil {
		return
	}
	v := &verdict{late: c.e.deadlines.pastDeadline(), oomKills: c.oomKillsNow(), status: c.statusAt(c.decider)}
	if asked {
		v.asked, v.reason = c.asked()
	} else if _, over := c.overDisk(); over != "" {
		c.note("%s", over)
		v.asked, v.reason = askKill, over
	}
	c.fixed = v
	if !asked && !c.leavesKill() {
		c.e.mu.Lock()
		c.lifecycle.decide(c.endsIn(leftoverGrace(&c.spec.Workload.Termination)))
		c.e.mu.Unlock()
	}
}

// reaped reports whether the reaper ended the program, because the cell's deadline had passed.
// What the reaper found ended has its own end, however late it is seen.
func (c *container) reaped(r *RunResult, v *verdict) bool {
	switch {
	case !c.bound:
		return false
	case c.askedKnown:
		return slices.ContainsFunc(c.mains, func(pid int) bool { return slices.Contains(c.askedOf, pid) })
	}
	return r.Failed && (r.Signal != 0 || r.Lost) && v.late
}

// judge turns what happened into what is reported.
func (c *container) judge(r *RunResult) {
	if c.inherited {
		*r = c.outcome.Result
		return
	}
	c.fix(true)
	v := c.fixed
	if r.Status == nil {
		r.Status = v.status
	}
	if v.asked == askNothing && v.oomKills == 0 {
		r.OOM = nil // that was a leftover
	}
	switch {
	case v.asked == askStop:
		r.Stopped, r.Failed, r.Reason = true, false, ""
	case v.asked == askKill:
		r.Failed, r.TimedOut, r.Reason = true, c.timedOut, v.reason
	case r.Failed && r.OOM != nil:
		r.Reason += " (out of memory)"
	case c.reaped(r, v):
		r.Failed = true
		r.Expired, r.Reason = true, "the cell's deadline passed"
	}
}
