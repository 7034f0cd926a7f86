package executor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"cantina/cgroup"
	"cantina/executor/shim"
)

// endedDir holds a file for each outcome.
const endedDir = "ended"

const outcomeSuffix = ".json"

func (o *order) outcomeFile() string { return cgroup.Escape(o.id) + outcomeSuffix }

// decide writes the verdict down, once, while something of the container is yet to end.
func (j *judgement) decide() {
	j.c.e.mu.Lock()
	done := j.c.outcome != nil
	j.c.e.mu.Unlock()
	if done || j.c.hidden || j.report == nil {
		return
	}
	j.account()
	r := j.report()
	j.takeTails(&r)
	if j.judge(&r); r.Stopped && !j.c.keep() {
		return // its result is no longer needed
	}
	j.writeOutcome(&r, false)
}

// takeTails adds the last lines of the output.
func (j *judgement) takeTails(r *RunResult) {
	for i, tail := range [...]*[]string{&r.LastOut, &r.LastErr} {
		if w := j.c.writers[i]; w != nil {
			*tail = w.Tail(tailLines)
		}
	}
}

// writeOutcome writes down how the container ended. Where that fails, it is known as long as
// this process lives, and is tried again.
func (j *judgement) writeOutcome(r *RunResult, reported bool) {
	o := &outcome{ID: j.c.id, Labels: j.c.labels, Bound: j.c.bound, Created: j.c.created, Result: *r, Logged: reported}
	text, err := j.c.files.resultFile()
	if o.Output = text; err != nil {
		o.Missing, o.Large = err.Error(), errors.Is(err, ErrResult)
		var call *CallError
		if errors.As(err, &call) {
			o.Missing = call.Err.Error()
		}
	}
	j.c.e.mu.Lock()
	j.c.outcome, j.c.recorded = o, true
	j.c.e.mu.Unlock()
	j.putOutcome(o, !reported)
}

// putOutcome writes the file; with sync so that it outlives the machine too.
func (j *judgement) putOutcome(o *outcome, sync bool) {
	err := os.MkdirAll(j.c.e.path(endedDir), 0o700)
	if err == nil {
		err = shim.Put(j.c.e.path(endedDir), j.c.outcomeFile(), o, sync)
	}
	if err != nil {
		j.c.e.log.Warn("the end of a container is not written down", "container", j.c.id, "error", err)
	}
	j.c.e.mu.Lock()
	defer j.c.e.mu.Unlock()
	if j.c.unsaved = err != nil; j.c.forgotten { // meanwhile
		j.removeOutcome()
	}
}

func (j *judgement) removeOutcome() {
	if err := os.Remove(filepath.Join(j.c.e.path(endedDir), j.c.outcomeFile())); err != nil &&
		!errors.Is(err, fs.ErrNotExist) {
		j.c.e.log.Warn("recorded end of a container not removed", "container", j.c.id, "error", err)
	}
}

// writeOutcomes records the ends of containers that were not deleted since the last check, because
// their leader is absent; or all, because this process ends. Stopped ones were no longer wanted.
func (e *Executor) writeOutcomes(all bool) {
	e.mu.Lock()
	var fresh, again []*container
	for _, c := range e.containers {
		switch due := c.look(all); {
		case c.hidden:
		case due == dueOutcome:
			fresh = append(fresh, c)
		case due == dueAgain:
			again = append(again, c)
		}
	}
	e.mu.Unlock()
	for _, c := range fresh {
		c.judgement.writeOutcome(&c.result, true)
	}
	for _, c := range again {
		c.judgement.putOutcome(c.outcome, false)
	}
}

// keptError is an error that was written down.
type keptError struct {
	text string
	is   error
}

func (e *keptError) Error() string { return e.text }
func (e *keptError) Unwrap() error { return e.is }

// tailLines is how many last lines of each stream a result keeps.
const tailLines = 10

// account records the kernel's counters, before the group is returned.
func (j *judgement) account() {
	u := j.c.programs.tracker.Usage()
	if j.c.bound {
		j.askedOf, j.askedKnown = j.c.programs.tracker.Asked()
	}
	j.c.e.mu.Lock()
	defer j.c.e.mu.Unlock()
	j.c.count(u)
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
