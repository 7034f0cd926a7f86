package executor

import (
	"time"

	"cantina/internal/text"
)

// SlowPhase is the time after which EventSlow reports a phase.
const SlowPhase = 2 * time.Second

// inPhase records the present phase of the container, if on, and writes it into its log. A long
// phase is an event.
func (s *starting) inPhase(what string, on bool) {
	if !on {
		return
	}
	now := s.c.e.clock.Boot()
	s.c.e.mu.Lock()
	was := s.c.phase
	s.enter(what, now)
	s.c.e.mu.Unlock()
	switch {
	case s.c.hidden:
	case what != "":
		s.c.note("%s", what)
	case was.What != "":
		s.c.note("%s: over after %v", was.What, (now - was.Since).Round(time.Millisecond))
	}
}

// enter begins a phase. The executor is locked.
func (s *starting) enter(what string, now time.Duration) {
	s.quiet()
	s.c.phase = Phase{What: what, Since: now, At: s.c.e.clock.Wall(),
		Limit: shorter(s.c.spec.Workload.TimeLimit, s.c.spec.Workload.StartTimeout)}
	if what != "" && !s.c.hidden {
		s.slowAt(now + SlowPhase)
	}
}

// quiet takes back the event that is due about the phase, which is over. The executor is locked.
func (s *starting) quiet() {
	if s.notSlow != nil {
		s.notSlow()
		s.notSlow = nil
	}
}

// slowAt sends an event about the phase at a time, unless one is due anyway or it is over by
// then. The executor is locked.
func (s *starting) slowAt(at time.Duration) {
	if s.notSlow != nil {
		return
	}
	what, since := s.c.phase.What, s.c.phase.Since
	s.notSlow = s.c.e.clock.At(at, func() {
		s.c.e.mu.Lock()
		still := s.c.phase.What == what && s.c.phase.Since == since
		if still {
			s.notSlow, s.c.phase.heard = nil, s.c.e.clock.Boot()
		}
		s.c.e.mu.Unlock()
		if still {
			s.c.e.emit(EventSlow, s.c)
		}
	})
}

const (
	checksPhase = "waiting for health checks"
	// slowAgain is the least time between two events about one phase.
	slowAgain = 5 * time.Second
	// mostDetail is the longest detail in bytes.
	mostDetail = 300
)

// atChecks notes that the container waits for its health checks, and the latest failed attempt.
func (s *starting) atChecks(detail string) {
	detail = text.Shorten(detail, mostDetail)
	s.c.e.mu.Lock()
	defer s.c.e.mu.Unlock()
	if s.c.hidden || s.c.state >= Running || s.c.ends() {
		return
	}
	if s.c.phase.What != checksPhase {
		s.enter(checksPhase, s.c.e.clock.Boot())
	}
	if s.c.phase.Detail == detail {
		return
	}
	if s.c.phase.Detail = detail; s.c.phase.heard > 0 {
		s.slowAt(s.c.phase.heard + slowAgain)
	}
}
