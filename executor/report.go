package executor

import (
	"fmt"
	"strings"
	"time"
)

// logEnd writes into the container's log how a failed one ended. The result goes
// with the container; this stays as long as the output, for each attempt.
func (o *order) logEnd(r *RunResult) {
	if r.Failed && !o.hidden {
		o.note("%s", r)
	}
}

// String returns "user 30ms, system 10ms, memory 12.3 MB". Uncounted values are named.
func (u *Usage) String() string {
	s := fmt.Sprintf("user %v, system %v", u.User.Round(time.Millisecond), u.System.Round(time.Millisecond))
	if !u.Whole {
		s += " (of the main program and the children it waited for)"
	}
	if u.MemoryPeak == 0 {
		return s + ", memory not counted without a limit"
	}
	return s + fmt.Sprintf(", memory %.1f MB", float64(u.MemoryPeak)/(1<<20))
}

// String describes how a container ended, and its usage: "exit status 3 after 1.2s; user 30ms,
// system 10ms, memory 12.3 MB".
func (r *RunResult) String() string {
	var b strings.Builder
	b.WriteString(r.Reason)
	if !r.Failed {
		fmt.Fprintf(&b, "exit status %d", r.ExitCode)
	}
	if r.Started.IsZero() {
		return b.String()
	}
	fmt.Fprintf(&b, " after %v", r.Ended.Sub(r.Started).Round(time.Millisecond))
	if r.Lost {
		return b.String()
	}
	u := &r.Usage
	fmt.Fprintf(&b, "; %s", u)
	if r.OOM != nil {
		fmt.Fprintf(&b, "; %d killed for lack of memory, limit %d MB, peak %d MB", r.OOM.Kills, r.OOM.Limit>>20,
			r.OOM.Peak>>20)
	}
	return b.String()
}
