package sim

import (
	"slices"
	"strings"
	"time"

	"cantina/worker"
)

// late has the leader be late for some seconds, again and again.
func (w *world) late() {
	if w.calm {
		return
	}
	w.after(w.between(10*time.Second, 30*time.Second), w.late)
	if r := w.leading(); r != nil {
		d := w.between(2*time.Second, 15*time.Second)
		w.trace("server %d is late for %v", r.s.id, d)
		r.s.backlog.late = w.now + d
		w.res.Late++
	}
}

// arrive has a server read a message of a machine: in the order of arrival, after all that has arrived
// before.
func (s *server) arrive(m *machine, read func()) {
	if !s.alive {
		return
	}
	b := &s.backlog
	if b.late <= s.w.now && len(b.unread) == 0 {
		s.on(read)
		return
	}
	b.unread = append(b.unread, arrival{m, m.proc(), read})
	if !b.reading {
		b.reading = true
		s.later(s.pace(), s.readNext)
	}
}

// pace is the time between two messages that a server reads. While it is late they come faster: each cell sends several
// a second.
func (s *server) pace() time.Duration {
	if s.backlog.late > s.w.now {
		return time.Second / time.Duration(s.w.cfg.Cells)
	}
	return 100 * time.Microsecond
}

func (s *server) readNext() {
	b := &s.backlog
	if len(b.unread) == 0 {
		b.reading = false
		return
	}
	next := b.unread[0]
	b.unread = b.unread[1:]
	s.later(s.pace(), s.readNext)
	next.read()
}

// behind implements registry.Config.Behind.
func (s *server) behind(name worker.CellName) bool {
	return slices.ContainsFunc(s.backlog.unread, func(a arrival) bool { return a.from.name == name })
}

// judged: I15. A leader finds no process silent of which it has not read all that has arrived.
func (s *server) judged(e worker.SessionChanged) {
	if e.To != worker.Unhealthy || !strings.HasPrefix(e.Reason, "no heartbeat") &&
		!strings.HasPrefix(e.Reason, "last answered probe") {
		return
	}
	if slices.ContainsFunc(s.backlog.unread, func(a arrival) bool { return a.proc == e.Proc }) {
		s.w.fail("I15", "server %d finds %s of cell %s silent (%s), and has not read what arrived from it", s.id,
			e.Proc, e.Cell, e.Reason)
	}
}

// mostInstances is how many instances a service has at most: few, or one for every second of many cells.
func (w *world) mostInstances() int { return max(instances, w.cfg.Cells/2) }
