package store

import "time"

// Commits are cut so that one takes about commitAim: the keep-alive of the lease, and rows that others
// wait for, wait for one commit at most. A store needs time for each commit, whatever its size, and time
// for each byte; only the second is less in a smaller commit.
const (
	commitAim = 200 * time.Millisecond
	// leastBytes is the smallest limit.
	leastBytes = 128 << 10
)

// pace is the most bytes that the next commit may have, by the time that earlier ones took.
type pace struct {
	bytes, most int
	fixed       time.Duration // of a commit, whatever its size: the shortest of late; 0 = none yet
}

func newPace(most int) pace { return pace{bytes: most, most: most} }

// took takes a commit into account. One that was long for its size halves the limit: a store that is slow
// whatever the size would only get more commits. Each one in time doubles it.
func (p *pace) took(d time.Duration, bytes int) {
	if p.fixed == 0 || d < p.fixed {
		p.fixed = d
	} else {
		p.fixed += (d - p.fixed) / 64
	}
	switch aim := max(commitAim, p.fixed); {
	case d > 2*aim && bytes > min(leastBytes, p.most):
		p.bytes = max(bytes/2, min(leastBytes, p.most))
	case d <= aim:
		p.bytes = min(2*p.bytes, p.most)
	}
}
