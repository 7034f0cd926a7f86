package batch

import "cantina/fence"

// Rules are the inputs for applying a report besides the statuses.
type Rules struct {
	// Next was decided when the invocation started.
	Next NextBackoff
	// Retries as in Job.
	Retries int
	// Began is when the invocation started, Unix milliseconds; 0 = not known.
	Began int64
	// Guard is the least pause after a lost cell, in seconds: 0 where loss is only
	// declared once the process is certainly dead.
	Guard int
}

// lossAllowance is how many losses beyond the retries a batch task survives: a loss is rarely its
// fault, but a task that kills its cells must not do so forever.
const lossAllowance = 3

// pace is the least time between two starts of a batch task that wants to run again, in
// seconds. (Beyond Bistro, where one that has nothing to do yet runs as fast as it can.)
const pace = 1

// Apply returns the status after a report of an invocation, given the stored one (Bistro statuses,
// update). Now is Unix milliseconds.
func Apply(prev Status, inv fence.Invocation, r Report, now int64, rules Rules) Status {
	s := Status{
		Bits: r.Bits, Time: now, Attempts: prev.Attempts, Losses: prev.Losses, Invocation: inv,
		ExitCode: r.ExitCode, Signal: r.Signal, Reason: r.Reason,
	}
	progress := prev.configured()
	switch {
	case r.Bits&UsesBackoff == 0 && r.Bits&Overwriteable != 0:
		s.Backoff = progress // it never ran: the sequence stays where it was
	case r.Bits&UsesBackoff == 0 && r.Bits&(Done|Incomplete) != 0:
		s.Attempts, s.Losses = 0, 0 // it made progress: the sequence restarts
		if s.Paced() && !r.Moved && rules.Began > 0 && now-rules.Began < pace*1000 {
			s.Backoff = pace
		}
	case r.Bits&UsesBackoff == 0:
	case r.Bits&KeepBackoff != 0 || r.Bits&Error == 0:
		// Also for bits 8|64, which Bistro's scheduler did not survive.
		s.Backoff = progress
		if s.Backoff == 0 {
			s.Backoff = rules.Next.Seconds
		}
	default:
		s.Backoff = rules.Next.Seconds
	}
	if r.Bits&HasSavedBackoff != 0 {
		s.Saved = rules.Next.Seconds
		s.Backoff = max(s.Backoff, rules.Guard)
	}
	s.count(r, rules)
	return s
}

// count advances attempts and losses and turns an error into a failure when they
// are spent.
func (s *Status) count(r Report, rules Rules) {
	if r.Bits&Error == 0 {
		return
	}
	spent := r.Bits&(UsesBackoff|KeepBackoff) == UsesBackoff && rules.Next.NoMore
	switch {
	case r.Bits&HasSavedBackoff != 0:
		s.Losses++
		spent = spent || rules.Retries >= 0 && s.Losses > rules.Retries+lossAllowance
	case r.Bits&Overwriteable == 0:
		s.Attempts++
		spent = spent || rules.Retries >= 0 && s.Attempts > rules.Retries
	}
	if spent {
		s.Bits = s.Bits&^Error | Failed
	}
}

// configured is the progress in the backoff list: the job's own value.
func (s Status) configured() int {
	switch {
	case s.Bits&HasSavedBackoff != 0:
		return s.Saved
	case s.Paced():
		return 0
	}
	return s.Backoff
}

// Paced reports whether the task ran, requests another run, and requested no backoff: it runs at
// once, but at most once in a second. Its Backoff is the rest of that second, and does not advance
// the backoff list.
func (s Status) Paced() bool {
	return s.Bits&Incomplete != 0 && s.Bits&UsesBackoff == 0
}

// Due returns until when the status keeps its task from running, Unix
// milliseconds; at that time it may run. 0 = it does not.
func (s Status) Due() int64 {
	if s.Bits&(Failed|Done) != 0 || s.Bits&UsesBackoff == 0 && (!s.Paced() || s.Backoff == 0) {
		return 0
	}
	return s.Time + int64(s.Backoff)*1000
}

// Replaces reports whether a report may be applied to a stored status of a task that does not run
// (Bistro status table rules): a synthetic one never, a real one only to a synthetic one, and no
// report of the same or an earlier invocation twice.
func Replaces(prev Status, inv fence.Invocation, r Report) bool {
	c := inv.Compare(prev.Invocation)
	switch {
	case c > 0:
		return true
	case c < 0:
		return false
	}
	return r.Bits&Overwriteable == 0 && prev.Bits&Overwriteable != 0
}

// Retried returns the status that lets a failed task run again and whether it changed: its
// attempts restart; the guard after a lost cell stays in force.
func Retried(s Status) (Status, bool) {
	old := s
	if s.Bits&Failed != 0 {
		s.Bits = s.Bits&^Failed | Error
	}
	switch {
	case s.Bits&HasSavedBackoff != 0:
		s.Saved = 0
	case s.Bits&UsesBackoff != 0:
		s.Backoff = 0
	}
	s.Attempts, s.Losses = 0, 0
	return s, s != old
}
