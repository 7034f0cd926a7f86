package sim

import (
	"container/heap"
	"fmt"
	"time"

	"cantina/internal/run"
	"cantina/worker"
)

// kernel is the clocks of a server as its shells read them.
func (s *server) kernel() run.Clock {
	return run.Clock{Wall: func() time.Time { return s.wall.Add(s.local() + s.w.plans.off(s.id)) }, Boot: s.local}
}

// setWall sets the wall clock of a server that begins a term: it is wrong by less than a second.
// From then on it runs as the machine's own clock does, and steps when there are schedules.
func (s *server) setWall() {
	s.wall = epoch().Add(s.w.now + s.w.between(-time.Second, time.Second) - s.local())
}

func (m *machine) local() time.Duration { return m.clock.at(m.w.now) }

func (m *machine) on(fn func()) {
	if !m.alive || !m.up {
		return
	}
	life := m.life
	if m.paused > m.w.now {
		m.inbox = append(m.inbox, func() {
			if m.alive && m.life == life {
				fn()
			}
		})
		return
	}
	fn()
}

func (m *machine) later(d time.Duration, fn func()) {
	life := m.life
	m.w.after(d, func() {
		if m.alive && m.life == life {
			m.on(fn)
		}
	})
}

func (m *machine) boot() string { return fmt.Sprint(m.id, "-", m.boots) }

func (m *machine) proc() worker.Proc {
	if m.agent == nil {
		return ""
	}
	return m.agent.Proc()
}

func (s *server) local() time.Duration { return s.clock.at(s.w.now) }

// on runs fn in the server's process: later if it is paused, never if it is dead or was restarted
// since.
func (s *server) on(fn func()) {
	life := s.life
	if !s.alive {
		return
	}
	if s.paused > s.w.now {
		s.inbox = append(s.inbox, func() {
			if s.alive && s.life == life {
				fn()
				s.turn()
			}
		})
		return
	}
	fn()
	s.turn()
}

func (s *server) later(d time.Duration, fn func()) {
	life := s.life
	s.w.after(d, func() {
		if s.alive && s.life == life {
			s.on(fn)
		}
	})
}

func (w *world) after(d time.Duration, fn func()) {
	w.seq++
	heap.Push(&w.q, planned{w.now + max(d, 0), w.seq, fn})
}

// newClock draws a rate: two machines differ by less than 1 %.
func (w *world) newClock() clock {
	return clock{started: w.now, perMill: time.Duration(w.rng.IntN(9000) - 4500)}
}

// off is how far the wall clock of a server is off.
func (p *plans) off(server int) time.Duration {
	if p.wall == nil {
		return 0
	}
	return p.wall[server]
}

func (p *plans) chance(perMille int) bool { return p.rng.IntN(1000) < perMille }

func (p *plans) between(a, b time.Duration) time.Duration {
	return a + time.Duration(p.rng.Int64N(int64(max(b-a, 1))))
}

// firstWall is the time of right wall clocks at the beginning: shortly before a repeated hour in
// Berlin.
func firstWall() time.Time { return time.Date(2026, 10, 25, 0, 59, 0, 0, time.UTC) }

// epoch is where all wall clocks begin.
func epoch() time.Time { return firstWall() }
