package batch

import (
	"cmp"
	"slices"
)

// timer is when a batch task may run again. It is only a hint: the task is checked again.
type timer struct {
	at   int64
	job  string
	node int32
}

// timers is a binary heap by time.
type timers []timer

func (t *timers) push(x timer) {
	*t = append(*t, x)
	s := *t
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if s[up].at <= s[i].at {
			return
		}
		s[up], s[i] = s[i], s[up]
		i = up
	}
}

func (t *timers) pop() timer {
	s := *t
	x := s[0]
	n := len(s) - 1
	s[0] = s[n]
	s = s[:n]
	*t = s
	for i := 0; ; {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < n && s[c].at < s[least].at {
				least = c
			}
		}
		if least == i {
			return x
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}

// clock is the board's time, and the backoffs that end with it. All times are Unix milliseconds.
type clock struct {
	jobs  *jobs
	now   int64
	began int64 // the first time of Advance
	due   timers
	thin  int // length of due at which past and duplicate entries are dropped
}

// Advance moves the board's clock (Unix milliseconds): tasks in backoff until now may run. A clock
// that goes back extends no backoff that is over. The first call sets the beginning of the board:
// it comes before statuses are loaded.
func (b *Board) Advance(now int64) {
	if b.clock.now == 0 {
		b.clock.began = now
	}
	b.clock.now = max(b.clock.now, now)
	for j, node := b.clock.ended(); j != nil; j, node = b.clock.ended() {
		b.derived.changed(j, node)
	}
}

// ended returns a batch task whose backoff has ended, each once; nil if there is none.
func (c *clock) ended() (j *job, node int32) {
	for len(c.due) > 0 && c.due[0].at <= c.now {
		x := c.due.pop()
		if j := c.jobs.named[x.job]; j != nil && int(x.node) < len(j.records) && j.records[x.node].class == ClassBackoff {
			return j, x.node
		}
	}
	return nil, 0
}

// NextDue returns when the next backoff ends; ok is false when none does.
func (c *clock) NextDue() (at int64, ok bool) {
	for len(c.due) > 0 {
		if x := c.due[0]; c.waits(x) {
			return x.at, true
		}
		c.due.pop()
	}
	return 0, false
}

// waits reports whether a batch task is in backoff until the time of the timer.
func (c *clock) waits(x timer) bool {
	j := c.jobs.named[x.job]
	return j != nil && int(x.node) < len(j.records) && j.records[x.node].class == ClassBackoff &&
		c.dueAt(&j.records[x.node]) == x.at
}

// leastThin is how many timers are never looked through.
const leastThin = 1024

// thinOut drops obsolete timers and duplicates: each reading of the nodes sets one for every task
// in backoff. It is called when half may be such.
func (c *clock) thinOut() {
	kept := slices.DeleteFunc(c.due, func(x timer) bool { return !c.waits(x) })
	slices.SortFunc(kept, func(x, y timer) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.job, y.job), cmp.Compare(x.node, y.node))
	})
	c.due = slices.Compact(kept) // in order is a heap
	c.thin = max(leastThin, 2*len(c.due))
}

// dueAt is until when a batch task is in backoff. An end in the future is by the clock of an
// earlier leader, which was wrong: its backoff counts from the beginning of this board, also once
// that time has come.
func (c *clock) dueAt(x *record) int64 {
	at := x.time
	if x.ahead {
		at = c.began
	}
	return Status{Bits: x.bits, Time: at, Backoff: int(x.backoff)}.Due()
}

// schedule remembers when a batch task leaves its backoff.
func (c *clock) schedule(j *job, node int32, x *record) {
	if x.class != ClassBackoff {
		return
	}
	c.due.push(timer{at: c.dueAt(x), job: j.Name, node: node})
	if len(c.due) >= c.thin {
		c.thinOut()
	}
}
