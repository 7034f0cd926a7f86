package worker

import (
	"slices"
	"time"
)

// cellBeats numbers and paces the heartbeats of one session.
type cellBeats struct {
	number   int64 // of the newest one
	answered int64 // the newest one with an answer
	sent     []sentBeat
	next     time.Duration // when the next one is due
	hurry    time.Duration // between two, until the session is healthy
}

type sentBeat struct {
	number int64
	at     time.Duration
}

// count takes the next number for a heartbeat that is sent now.
func (b *cellBeats) count(now, period time.Duration, healthy bool) {
	b.number++
	b.sent = append(b.sent, sentBeat{b.number, now})
	if len(b.sent) > sentBound {
		b.sent = slices.Delete(b.sent, 0, len(b.sent)-sentBound)
	}
	b.next = now + period
	if !healthy {
		b.next = now + min(b.hurry, period)
		b.hurry = min(2*b.hurry, period)
	}
}

// by has the next heartbeat sent at that time at the latest.
func (b *cellBeats) by(at time.Duration) { b.next = min(b.next, at) }

// open reports that a heartbeat was sent, and that neither it nor a later one has been answered.
func (b *cellBeats) open(beat int64) bool { return beat > b.answered && beat <= b.number }

// sentAt returns when a heartbeat was sent; of one that is forgotten, a time before that.
func (b *cellBeats) sentAt(beat int64) time.Duration {
	for _, s := range b.sent {
		if s.number == beat {
			return s.at
		}
	}
	return never
}
