package executor

import (
	"slices"

	"cantina/spawn"
)

// verdict is the data that counts for how a container ended. It is fixed when its main program has
// ended: later requests to the container, and later events of its leftovers, end leftovers and
// change nothing else.
type verdict struct {
	asked    ask    // before the program ended
	reason   string // of askKill
	late     bool   // the cell's deadline had passed; counts if the reaper leaves no record
	oomKills int
	status   []byte
}

// judgement finds out how a container ended. The driver owns it.
type judgement struct {
	c          *container
	fixed      *verdict         // nil until the main program has ended
	decider    *spawn.Process   // whose end decides; nil = none, or a kept one
	report     func() RunResult // how it ended, once the main program has; nil until it ran
	timedOut   bool
	inherited  bool  // the verdict is a predecessor's: it is in outcome
	askedOf    []int // processes that the reaper ended
	askedKnown bool  // the group has that record
}

// fix fixes the verdict, once. Asked is whether the program was ended by a request; else it has
// ended on its own, even if there was a request at the same time.
func (j *judgement) fix(asked bool) {
	if j.fixed != nil {
		return
	}
	v := &verdict{late: j.c.e.deadlines.pastDeadline(), oomKills: j.c.programs.oomKillsNow(),
		status: j.statusAt(j.decider)}
	if asked {
		v.asked, v.reason = j.c.asked()
	} else if _, over := j.c.files.overDisk(&j.c.programs); over != "" {
		j.c.note("%s", over)
		v.asked, v.reason = askKill, over
	}
	j.fixed = v
	if !asked && !j.c.leavesKill() {
		j.c.e.mu.Lock()
		j.c.lifecycle.decide(j.c.endsIn(leftoverGrace(&j.c.spec.Workload.Termination)))
		j.c.e.mu.Unlock()
	}
}

// reaped reports whether the reaper ended the program, because the cell's deadline had passed. A
// program that the reaper found ended has its own end, even if it is seen late.
func (j *judgement) reaped(r *RunResult, v *verdict) bool {
	switch {
	case !j.c.bound:
		return false
	case j.askedKnown:
		return slices.ContainsFunc(j.c.mains, func(pid int) bool { return slices.Contains(j.askedOf, pid) })
	}
	return r.Failed && (r.Signal != 0 || r.Lost) && v.late
}

// judge converts the events to the reported result.
func (j *judgement) judge(r *RunResult) {
	if j.inherited {
		*r = j.c.outcome.Result
		return
	}
	j.fix(true)
	v := j.fixed
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
		r.Failed, r.TimedOut, r.Reason = true, j.timedOut, v.reason
	case r.Failed && r.OOM != nil:
		r.Reason += " (out of memory)"
	case j.reaped(r, v):
		r.Failed = true
		r.Expired, r.Reason = true, "the cell's deadline passed"
	}
}
