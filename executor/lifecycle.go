package executor

import (
	"time"

	"cantina/action"
	"cantina/cgroup"
)

// lifecycle is a container's progress, requests, observations and counters. It is pure: it has no
// clock, lock, process or file. The container holds the executor's lock for each call, performs
// the resulting actions, and emits the returned events after it has released the lock.
type lifecycle struct {
	state      State
	result     RunResult
	ask        ask
	reason     string // of askKill
	delete     bool
	left       bool // the cell ends
	stuck      *Stuck
	hang       *Hang
	hangs      int // starts
	checks     int // started so far
	pid        int
	mains      []int // the programs that the container is for, by number
	started    time.Time
	routable   bool
	decided    bool // see Container
	decidedWhy string
	endBy      time.Time
	outcome    *outcome // nil until it is written down
	seen       bool     // COMPLETED at the last look
	recorded   bool     // there may be a file of it
	unsaved    bool     // but it could not be written
	forgotten  bool
	phase      Phase
	ports      []action.Mapping
	oomKills   int
	oom        *OOM
	used       cgroup.Usage // at the end
}

// demand is the consequences of a request for the end of a container.
type demand struct {
	first   bool // the first request: its processes are ended
	deletes bool // the first request for its deletion
	never   bool // it has not begun: it completes without having run
	forget  bool // it is over: it can go
	events  []EventKind
}

// request records a request. A running container is killed at the given time at the latest.
func (l *lifecycle) request(a ask, reason string, by time.Time) demand {
	d := demand{first: l.ask == askNothing}
	if a == askDelete {
		d.deletes, l.delete = !l.delete, true
		a, reason = askStop, ""
	}
	if d.first {
		l.ask, l.reason, l.endBy = a, reason, by
	}
	switch {
	case l.state == Reserved:
		d.never = true
	case l.state == Completed:
		d.forget = l.delete
	}
	if !d.first || d.never || d.forget {
		return d
	}
	if l.state == Running && l.routable {
		d.events = endingRoutable
		return d
	}
	d.events = endingEvents
	return d
}

// The events of a request, made once: there is one for each container that is stopped.
var (
	endingRoutable = []EventKind{EventRoutable, EventEnding}
	endingEvents   = endingRoutable[1:]
)

// hurry moves the time of the kill of a container that is being ended forward. It returns false if
// it is not being ended, or killed earlier anyway.
func (l *lifecycle) hurry(by time.Time) bool {
	if !l.ends() || l.state == Completed || !l.endBy.IsZero() && !by.Before(l.endBy) {
		return false
	}
	l.endBy = by
	return true
}

// leave records that the cell ends. A kept container that runs continues; others are ended, unless
// that was requested before.
func (l *lifecycle) leave(kept bool, by time.Time) (first, ends bool) {
	first, l.left = !l.left, true
	if kept && l.state == Running || l.ask != askNothing {
		return first, false
	}
	l.ask, l.endBy = askStop, by
	return first, true
}

// expire gives up a reservation without a start; false if it was started.
func (l *lifecycle) expire() bool {
	if l.state != Reserved || l.ask != askNothing {
		return false
	}
	l.ask, l.reason = askKill, "the reservation expired"
	return true
}

// advance moves the state forward. It returns false when that is not allowed,
// which is so when the container has completed meanwhile.
func (l *lifecycle) advance(to State) bool {
	if !l.state.next(to) {
		return false
	}
	l.state = to
	if to == Running {
		l.phase = Phase{}
	}
	return true
}

// complete sets the result, once.
func (l *lifecycle) complete(r RunResult) bool {
	if l.state == Completed {
		return false
	}
	l.state, l.result, l.stuck, l.routable, l.phase = Completed, r, nil, false, Phase{}
	return true
}

// forget reports whether the container is yet to be removed, once.
func (l *lifecycle) forget() bool {
	first := !l.forgotten
	l.forgotten = true
	return first
}

// neverRan is the result of a container that was ended before it ran.
func (l *lifecycle) neverRan(ended time.Time) RunResult {
	r := RunResult{ExitCode: -1, NeverRan: true, Ended: ended}
	if l.ask == askKill {
		r.Failed, r.Reason, r.Retryable = true, l.reason, true
	} else {
		r.Stopped = true
	}
	return r
}

// ends reports whether the container is being ended: nothing is to be routed to it.
func (l *lifecycle) ends() bool { return l.ask != askNothing || l.decided }

// endWhy is why the container is being ended; empty if that was requested without a reason, or it
// is not being ended.
func (l *lifecycle) endWhy() string {
	switch {
	case l.state == Completed:
		return ""
	case l.decided && l.decidedWhy != "":
		return l.decidedWhy
	case l.decided:
		return "its main program has ended; its leftover processes are being ended"
	}
	return l.reason
}

// decide records that the main program has ended on its own.
func (l *lifecycle) decide(by time.Time) { l.decided, l.endBy = true, by }

// begin notes a program that the container is for.
func (l *lifecycle) begin(pid int, at time.Time) {
	l.pid, l.mains = pid, append(l.mains, pid)
	if l.started.IsZero() {
		l.started = at
	}
}

// route notes whether the container takes traffic, while it runs; true when that is new.
func (l *lifecycle) route(ok bool) bool {
	if l.routable == ok || l.state != Running {
		return false
	}
	l.routable = ok
	return true
}

// check is the number of one more check, and the process to look at.
func (l *lifecycle) check() (n, pid int) {
	l.checks++
	return l.checks, l.pid
}

// stick records processes that survive KILL; true if it is the first time.
func (l *lifecycle) stick(s *Stuck) bool {
	first := l.stuck == nil
	if !first {
		s.Since = l.stuck.Since
	}
	l.stuck = s
	return first
}

// unstick notes that all has died; false when nothing was stuck.
func (l *lifecycle) unstick() bool {
	was := l.stuck != nil
	l.stuck = nil
	return was
}

// startHangs notes a start that hangs; true when no other does.
func (l *lifecycle) startHangs(h *Hang) bool {
	l.hangs++
	l.hang = h
	return l.hangs == 1
}

// startGoesOn notes that one start less hangs; true when it was the last.
func (l *lifecycle) startGoesOn() bool {
	l.hangs--
	if l.hangs > 0 {
		return false
	}
	l.hang = nil
	return true
}

// count records the kernel's counters, before the group is returned.
func (l *lifecycle) count(u cgroup.Usage) {
	l.used = u
	if u.OOMKills > 0 {
		l.oomKills = int(u.OOMKills)
		l.oom = &OOM{Kills: int(u.OOMKills), Limit: u.MemoryLimit, Peak: u.MemoryPeak}
	}
}

// countKills notes how many processes were killed for lack of memory so far, and returns how many
// of them are new.
func (l *lifecycle) countKills(kills int) int {
	more := max(kills-l.oomKills, 0)
	if more > 0 && l.state == Running {
		l.oomKills = kills
	}
	return more
}

// addAccount adds the counters to a result.
func (l *lifecycle) addAccount(r *RunResult) {
	if l.used.Counted {
		r.Usage.User, r.Usage.System, r.Usage.Whole = l.used.User, l.used.System, true
	}
	r.Usage.MemoryPeak, r.OOM = l.used.MemoryPeak, l.oom
}

// due is the record to write of a container that was not deleted since the last check.
type due int

const (
	dueNothing due = iota
	dueOutcome     // how it ended
	dueAgain       // the same: it could not be written
)

// look is the regular check, or the last one, which counts at once.
func (l *lifecycle) look(last bool) due {
	seen := l.seen
	l.seen = l.state == Completed
	switch {
	case !l.seen || l.delete || l.result.Stopped || !last && !seen:
	case l.outcome == nil:
		return dueOutcome
	case l.unsaved:
		return dueAgain
	}
	return dueNothing
}

// ask is a request to a container; a later one replaces an earlier lower one.
type ask int

func (a ask) String() string { return [...]string{"start", "stop", "kill", "delete"}[a] }

const (
	askNothing ask = iota
	askStop
	askKill
	askDelete // stop, and forget
)
