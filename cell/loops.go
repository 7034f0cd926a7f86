package cell

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"cantina/fence"
	"cantina/internal/run"
	"cantina/worker"
)

// The session's loops. None of them has its own goroutine: run.Loop.Run drives them, or a
// simulator.

// statusCalls limits the UpdateStatus calls of a queue in progress. One with ends lasts as long as a
// commit: ends in that time should be in the next commit, not in the one after. Any call may hang.
const statusCalls = 4

// statusQueue is statuses that wait, and the loops that send them.
type statusQueue struct {
	mailbox[worker.UpdateStatus]
	loops [statusCalls]*run.Loop
}

// send has a status sent.
func (q *statusQueue) send(u worker.UpdateStatus) {
	q.put(u)
	for _, l := range q.loops {
		l.Wake()
	}
}

// makeLoops makes them; they run when a caller drives them.
func (s *session) makeLoops(h hands) {
	s.ticks = &ticks{clock: s.clock, loop: run.NewLoop("tick", s.nextTick)}
	s.acts = &acts{log: s.log, hands: h, ticks: s.ticks, ended: make(chan struct{}),
		beating: run.NewLoop("beat", s.nextBeat)}
	for _, q := range []*statusQueue{&s.acts.statuses, &s.acts.probes} {
		for i := range q.loops {
			q.loops[i] = run.NewLoop("status", func() (func(context.Context), time.Duration) { return s.nextStatuses(q) })
		}
	}
}

func (s *session) loops() []*run.Loop {
	return slices.Concat(s.acts.statuses.loops[:], s.acts.probes.loops[:], []*run.Loop{s.acts.beating, s.ticks.loop})
}

// nextTick steps the machine when it has something to do, and begins sessions.
func (s *session) nextTick() (func(context.Context), time.Duration) {
	begin, tick, wait := s.ticks.due()
	switch {
	case begin:
		return s.begin, 0
	case tick:
		return func(context.Context) { s.step(worker.CellTick{}) }, 0
	}
	return nil, wait
}

// begin makes the identity of the next session durable and starts it. Without a
// writable directory no session begins: the cell stays without work and tries again.
func (s *session) begin(context.Context) {
	s.mu.Lock()
	next := s.identity.next(s.boot, s.store.NewProc())
	err := s.store.Save(next, true)
	if err == nil {
		s.identity = next
	}
	s.mu.Unlock()
	if err != nil {
		s.log.Error("cannot register: the cell's data directory is not writable", "error", err)
		s.ticks.beginIn(time.Second)
		return
	}
	s.step(worker.SessionBegun{Proc: next.Proc, Started: next.Started})
}

// nextBeat sends heartbeats, one at a time, the newest first.
func (s *session) nextBeat() (func(context.Context), time.Duration) {
	all := s.acts.beats.take()
	if len(all) == 0 {
		return nil, run.Never
	}
	return func(ctx context.Context) { s.sendBeat(ctx, all[0]) }, 0
}

func (s *session) sendBeat(ctx context.Context, b worker.Heartbeat) {
	a, err := s.hear(ctx, b)
	if err != nil {
		s.step(worker.BeatFailed{Beat: b.Beat})
		return
	}
	s.step(worker.BeatAnswered{Answer: a})
	s.logForeign(b.Cluster)
}

// logForeign logs once each foreign cluster whose leader answered, until the own one does.
func (s *session) logForeign(own fence.Cluster) {
	for _, e := range s.acts.foreign.take() {
		if s.lastForeign == e.Cluster {
			continue
		}
		s.lastForeign = e.Cluster
		s.log.Warn("refused by a server of another cluster; nothing changes on this cell",
			"cell", string(s.cell), "address", s.address, "cluster", string(own), "other", string(e.Cluster),
			"remedy", "set --servers to the servers of this cell's cluster; to move the cell: cantina cells adopt "+
				string(s.cell)+" at the other cluster")
	}
}

// hear sends a heartbeat, and logs when leaders become silent and when one answers.
func (s *session) hear(ctx context.Context, b worker.Heartbeat) (worker.HeartbeatAnswer, error) {
	limit, cancel := s.limit(ctx, max(b.Period, time.Second))
	defer cancel()
	a, err := s.leader.Heartbeat(limit, b, s.state())
	switch {
	case ctx.Err() != nil:
	case !s.answered.reported && errors.Is(err, ErrNotLeader) && s.electing.still(s.clock.Boot()):
		s.log.Debug("no leader elected yet")
	case err != nil && s.silence(err):
		s.log.Warn("no answer from a leader; retrying", "error", err)
	case err != nil:
		s.log.Debug("heartbeat", "error", err)
	case a.Verdict == worker.Foreign:
	case a.Verdict == worker.Refused:
		if s.refusal != a.Reason {
			s.refusal = a.Reason
			s.log.Warn("refused by the leader for now; retrying", "reason", a.Reason)
		}
	case s.answered.first(true):
		clear(s.causes)
		s.log.Info("connected to the leader")
	}
	return a, err
}

// silence reports whether it is news that no leader answers, or why.
func (s *session) silence(err error) bool {
	// Ports differ from attempt to attempt.
	cause := strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, err.Error())
	first := s.answered.first(false)
	if !first && (s.causes[cause] || len(s.causes) >= maxCauses) {
		return false
	}
	if s.causes == nil {
		s.causes = map[string]bool{}
	}
	s.causes[cause] = true
	return true
}

// maxCauses bounds the causes that are logged until a leader answers: each server may have its own.
const maxCauses = 20

// limit bounds how long a call may last.
func (s *session) limit(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if s.within != nil {
		return s.within(ctx, d)
	}
	return run.Patient(ctx, d)
}

// nextStatuses sends the statuses of a queue: all that wait go in one call.
func (s *session) nextStatuses(q *statusQueue) (func(context.Context), time.Duration) {
	all := q.take()
	if len(all) == 0 {
		return nil, run.Never
	}
	return func(ctx context.Context) { s.sendStatus(ctx, all) }, 0
}

func (s *session) sendStatus(ctx context.Context, all []worker.UpdateStatus) {
	u := all[len(all)-1]
	for _, earlier := range all[:len(all)-1] {
		if earlier.Term == u.Term && earlier.Proc == u.Proc {
			u.Items = append(earlier.Items, u.Items...)
		}
	}
	limit, cancel := s.limit(ctx, 10*time.Second)
	defer cancel()
	got, err := s.leader.UpdateStatus(limit, u)
	if err != nil {
		s.log.Debug("status", "error", err)
		s.step(worker.StatusFailed{})
		return
	}
	events := make([]worker.CellEvent, len(got))
	for i, a := range got {
		events[i] = worker.StatusAnswered{Answer: a}
	}
	s.step(events...)
}

// mailbox collects values until a reader takes them all.
type mailbox[T any] struct {
	mu  sync.Mutex
	all []T
}

func (m *mailbox[T]) put(v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, v)
}

// replace replaces the waiting values by v.
func (m *mailbox[T]) replace(v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all[:0:0], v)
}

// peek returns all waiting values without removing them.
func (m *mailbox[T]) peek() []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[:len(m.all):len(m.all)]
}

// take returns all that waits.
func (m *mailbox[T]) take() []T {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.all
	m.all = nil
	return all
}
