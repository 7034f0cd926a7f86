package event

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrClosed reports that the hub's term is over.
var ErrClosed = errors.New("event stream ended: the leader's term is over")

// DefaultSize is the default number of events that a hub keeps.
const DefaultSize = 65536

// Hub keeps the newest events and wakes waiting readers. Its methods are safe for concurrent use,
// except that only one goroutine (the store's callbacks) may call Publish.
type Hub struct {
	now   func() time.Time
	began time.Time

	mu     sync.Mutex
	ring   []Event // used as a ring once full
	total  int64   // events ever published; the newest is at (total-1) % size
	size   int
	lost   Position // events up to here are not in the ring any more
	newest Position // of the newest event, or where the hub began
	wake   chan struct{}
	closed error
}

// New returns a hub that begins after revision start (of the load of the term) and keeps size
// events (0 = DefaultSize). No event of an earlier hub may have the revision start: events that
// are published without their own commit get it until the first commit.
func New(size int, start int64, now func() time.Time) *Hub {
	if size <= 0 {
		size = DefaultSize
	}
	begin := Position{Revision: start}
	return &Hub{now: now, began: now(), size: size, lost: begin, newest: begin, wake: make(chan struct{})}
}

// Publish adds the events of one commit, in their order. Several calls may share a
// revision; a revision lower than the newest is a mistake of the caller and its
// events get the newest revision, so that readers never go back. The values in the
// events must not change any more.
func (h *Hub) Publish(revision int64, events ...Event) {
	if len(events) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed != nil {
		return
	}
	at := Position{Revision: max(revision, h.newest.Revision)}
	if at.Revision == h.newest.Revision {
		at = h.newest
	}
	now := h.now()
	for _, e := range events {
		at.Number++
		e.Position, e.Time, e.Forms = at, now, &Forms{now: h.now}
		if len(h.ring) < h.size {
			h.ring = append(h.ring, e)
		} else {
			oldest := &h.ring[h.total%int64(h.size)]
			h.lost, *oldest = oldest.Position, e
		}
		h.total++
		if old := h.total - 1 - newestForms; old >= max(0, h.total-int64(len(h.ring))) {
			h.ring[old%int64(h.size)].Forms = nil
		}
	}
	h.newest = at
	close(h.wake)
	h.wake = make(chan struct{})
}

// Newest is the position of the newest event, or the start of the hub.
func (h *Hub) Newest() Position {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.newest
}

// Kept is the time from which on the hub has all events: those before were of an earlier
// term, or were too many.
func (h *Hub) Kept() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.total > int64(len(h.ring)) {
		return h.ring[h.total%int64(h.size)].Time
	}
	return h.began
}

// Close ends all subscriptions: they deliver the existing events and then ErrClosed.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed == nil {
		h.closed = ErrClosed
		close(h.wake)
	}
}

// Recent returns the newest events that keep accepts, oldest first, at most n.
func (h *Hub) Recent(n int, keep func(*Event) bool) []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Event
	for seq := h.total - 1; seq >= h.total-int64(len(h.ring)) && len(out) < n; seq-- {
		if e := &h.ring[seq%int64(h.size)]; keep(e) {
			out = append(out, *e)
		}
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// Gap: events are missing, after After and before Before. The reader must list again.
type Gap struct{ After, Before Position }

// Batch is one answer of a subscription: a gap, some events, or neither, which is
// the heartbeat.
type Batch struct {
	Gap    *Gap
	Events []Event
	// Seen is how far the subscription has read: resume strictly after it.
	Seen Position
}

// Subscription reads the events from a position on. It belongs to one goroutine
// and holds nothing: dropping it is enough.
type Subscription struct {
	hub  *Hub
	seen Position
	next int64 // number of the next event in Hub.total's count
	gap  *Gap

	wanted func(*Event) bool // nil = all
}

// Tail begins at the newest event.
func (h *Hub) Tail() *Subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &Subscription{hub: h, seen: h.newest, next: h.total}
}

// Since begins strictly after p. When events after p are not there any more, or p
// is of another time line (later than the newest), the first batch is a gap.
func (h *Hub) Since(p Position) *Subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &Subscription{hub: h, seen: p}
	oldest := h.total - int64(len(h.ring))
	low, high := oldest, h.total // the first event after p is in [low, high]
	for low < high {
		mid := (low + high) / 2
		if h.ring[mid%int64(h.size)].Compare(p) <= 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	s.next = low
	if p.Compare(h.lost) < 0 || p.Revision > h.newest.Revision {
		s.next = oldest
		s.gap = &Gap{After: p, Before: h.first()}
	}
	return s
}

// first is the position of the oldest event there is.
func (h *Hub) first() Position {
	if len(h.ring) == 0 {
		return h.newest
	}
	return h.ring[(h.total-int64(len(h.ring)))%int64(h.size)].Position
}

// maxBatch bounds the events of one batch.
const maxBatch = 256

// Only leaves out unwanted events; Seen advances over them. wanted is called under the hub's lock.
func (s *Subscription) Only(wanted func(*Event) bool) *Subscription {
	s.wanted = wanted
	return s
}

// Next waits for the next batch, at most heartbeat long: then there are no events, and Seen
// is how far the reader has come. It returns ctx's error, or
// ErrClosed after the last event of the term.
func (s *Subscription) Next(ctx context.Context, heartbeat time.Duration) (Batch, error) {
	timer := time.NewTimer(heartbeat)
	defer timer.Stop()
	for {
		b, wake, err := s.take()
		if err != nil || b.Gap != nil || len(b.Events) > 0 {
			return b, err
		}
		if wake == nil {
			continue // nothing of that was wanted
		}
		select {
		case <-ctx.Done():
			return Batch{Seen: s.seen}, ctx.Err()
		case <-timer.C:
			return Batch{Seen: s.seen}, nil
		case <-wake:
		}
	}
}

func (s *Subscription) take() (Batch, <-chan struct{}, error) {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	oldest := h.total - int64(len(h.ring))
	if s.gap == nil && s.next < oldest {
		s.gap = &Gap{After: s.seen, Before: h.first()}
		s.next = oldest
	}
	if g := s.gap; g != nil {
		s.gap = nil
		// Events before the oldest one are behind the reader now.
		s.seen = Position{Revision: g.Before.Revision, Number: g.Before.Number - 1}
		if len(h.ring) == 0 {
			s.seen = h.newest
		}
		return Batch{Gap: g, Seen: s.seen}, nil, nil
	}
	n := min(h.total-s.next, maxBatch)
	if n == 0 {
		return Batch{}, h.wake, h.closed
	}
	var events []Event
	for i := range n {
		e := &h.ring[(s.next+i)%int64(h.size)]
		if s.seen = e.Position; s.wanted == nil || s.wanted(e) {
			events = append(events, *e)
		}
	}
	s.next += n
	return Batch{Events: events, Seen: s.seen}, nil, nil
}
