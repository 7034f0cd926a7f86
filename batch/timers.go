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

// Advance moves the board's clock (Unix milliseconds): tasks in backoff until now may run. A clock
// that goes back extends no backoff that is over. The first call sets the beginning of the board:
// it comes before statuses are loaded.
func (b *Board) Advance(now int64) {
	if b.now == 0 {
		b.began = now
	}
	b.now = max(b.now, now)
	for len(b.due) > 0 && b.due[0].at <= b.now {
		x := b.due.pop()
		if j := b.jobs[x.job]; j != nil && int(x.node) < len(j.records) && j.records[x.node].class == ClassBackoff {
			b.changed(j, x.node)
		}
	}
}

// NextDue returns when the next backoff ends; ok is false when none does.
func (b *Board) NextDue() (at int64, ok bool) {
	for len(b.due) > 0 {
		if x := b.due[0]; b.waits(x) {
			return x.at, true
		}
		b.due.pop()
	}
	return 0, false
}

// waits reports whether a batch task is in backoff until the time of the timer.
func (b *Board) waits(x timer) bool {
	j := b.jobs[x.job]
	return j != nil && int(x.node) < len(j.records) && j.records[x.node].class == ClassBackoff && b.dueAt(&j.records[x.node]) == x.at
}

// leastThin is how many timers are never looked through.
const leastThin = 1024

// thinOut drops obsolete timers and duplicates: each reading of the nodes sets one for every task
// in backoff. It is called when half may be such.
func (b *Board) thinOut() {
	kept := slices.DeleteFunc(b.due, func(x timer) bool { return !b.waits(x) })
	slices.SortFunc(kept, func(x, y timer) int {
		return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.job, y.job), cmp.Compare(x.node, y.node))
	})
	b.due = slices.Compact(kept) // in order is a heap
	b.thin = max(leastThin, 2*len(b.due))
}
