package executor

import "sync"

// EventKind is the kind of an event.
type EventKind int

// The kinds of events. Expired and Drained are of the cell, not of a container.
const (
	EventReserved  EventKind = iota
	EventRunning             // became RUNNING
	EventRoutable            // readiness changed
	EventCompleted           // has a result
	EventDeleted             // is gone
	EventStuck               // does not die, or is not stuck any more
	EventSlow                // has been at one phase of its start for long
	EventEnding              // its end has begun
	EventExpired             // the deadline passed: the reaper ends deadline-bound work
	EventDrained             // nothing deadline-bound is left
)

// Event is a hint that a container changed: the truth is in Get and List.
type Event struct {
	Kind      EventKind
	Container Container // empty for Expired and Drained
}

// eventBuffer is how many events a subscription holds back.
const eventBuffer = 1024

// Subscription receives events. Events that do not fit are dropped and counted.
type Subscription struct {
	C <-chan Event

	c    chan Event
	hub  *hub
	mu   sync.Mutex
	lost int
}

// Lost returns how many events have been dropped since it was last called. When
// it is not 0 the subscriber lists all containers.
func (s *Subscription) Lost() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.lost
	s.lost = 0
	return n
}

// Close ends the subscription and closes C.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.hub.subs[s] {
		delete(s.hub.subs, s)
		close(s.c)
	}
}

// hub hands events to all subscriptions without ever waiting.
type hub struct {
	mu   sync.Mutex
	subs map[*Subscription]bool
}

func (h *hub) subscribe() *Subscription {
	c := make(chan Event, eventBuffer)
	s := &Subscription{C: c, c: c, hub: h}
	h.mu.Lock()
	h.subs[s] = true
	h.mu.Unlock()
	return s
}

func (h *hub) emit(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		select {
		case s.c <- e:
		default:
			s.mu.Lock()
			s.lost++
			s.mu.Unlock()
		}
	}
}

func (h *hub) none() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs) == 0
}
