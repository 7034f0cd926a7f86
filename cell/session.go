package cell

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cantina/fence"
	"cantina/internal/run"
	"cantina/worker"
)

// Machine is worker.Cell as its shell drives it.
type Machine interface {
	Step(now time.Duration, e worker.CellEvent) []worker.CellEffect
	Kept() worker.Kept
	Proc() worker.Proc
	Cluster() fence.Cluster
	Term() fence.Term
	State() worker.State
	Accepts(now time.Duration) error
	Overdue(now time.Duration) bool
	Due(now time.Duration) time.Duration
}

var _ Machine = (*worker.Cell)(nil)

// session is the shell around worker.Cell. Steps are taken under mu; their
// effects are performed in the order of the steps, under the lock of acts, which is taken
// before mu is given back. Effects never wait and never step.
type session struct {
	clock  run.Clock
	log    *slog.Logger
	leader Leader
	store  IdentityStore
	boot   string
	cell   worker.CellName
	state  func() State
	within func(context.Context, time.Duration) (context.Context, context.CancelFunc) // nil = of the kernel

	address     string
	lastForeign fence.Cluster // the last reported one; of that loop

	refusal  string          // last reported; of that loop
	answered lastResult      // state of the last heartbeat; only used by the loop of heartbeats
	causes   map[string]bool // why none answered since one did, without numbers: each is logged once
	electing electing
	ticks    *ticks
	acts     *acts

	mu       sync.Mutex
	machine  Machine
	identity Identity
	unsaved  bool // of identity; owed: it was to be durable
	owed     bool

	member atomic.Value // fence.Cluster: the one the cell belongs to
}

// lastResult is the last reported result of a repeated operation.
type lastResult struct{ reported, good bool }

// first reports whether something is news.
func (t *lastResult) first(good bool) bool {
	news := !t.reported || t.good != good
	t.reported, t.good = true, good
	return news
}

// electionTime is how long servers that have just started may take to choose a leader.
const electionTime = 10 * time.Second

// electing is a start at which servers answer, and none leads yet.
type electing struct {
	seen  bool
	since time.Duration
}

// still reports whether that is no news yet at now.
func (e *electing) still(now time.Duration) bool {
	if !e.seen {
		e.seen, e.since = true, now
	}
	return now-e.since < electionTime
}

// hands are the session's actions on the rest of the cell. None of them waits.
type hands interface {
	// setDeadline hands the reaper its deadline.
	setDeadline(at time.Duration)
	// ended takes the ends of batch invocations that have happened by now.
	ended() worker.EndsCollected
	// launch starts the container of a batch invocation, stopRun ends it.
	launch(r worker.Run)
	stopRun(r worker.Run)
	// endBound begins to end all deadline-bound containers.
	endBound(grace time.Duration, reason string)
	// endAll begins to end every container; the cell exits.
	endAll(reason string)
	// startProbe makes and removes a real container and reports with probeEnded.
	startProbe(probe int64)
	// changed reports the session's new state.
	changed(from, to worker.State, reason string)
}

// answers collects the machine's responses to the call that is being stepped.
type answers struct {
	report *worker.Report
	runs   []worker.RunAnswer
	notify *worker.NotifyAnswer
	found  bool
}

// step passes events to the machine and performs the effects. It returns the machine's response.
// Before the machine ends work because of a deadline, it gets the past ends: the cell may have
// been stopped meanwhile.
func (s *session) step(events ...worker.CellEvent) answers {
	s.mu.Lock()
	if s.machine.Overdue(s.clock.Boot()) {
		s.mu.Unlock()
		first := s.acts.hands.ended()
		s.mu.Lock()
		events = append([]worker.CellEvent{first}, events...)
	}
	now := s.clock.Boot()
	before := s.machine.Kept()
	var effects []worker.CellEffect
	for _, ev := range events {
		effects = append(effects, s.machine.Step(now, ev)...)
	}
	after := s.machine.Kept()
	s.member.Store(after.Cluster)
	s.keep(before, after)
	s.ticks.next(s.due(now))
	s.acts.mu.Lock()
	s.mu.Unlock()
	defer s.acts.mu.Unlock()
	var got answers
	for _, e := range effects {
		s.acts.perform(e, &got)
	}
	return got
}

// due returns when the next step is due because of time alone: for the machine, or for a failed
// write. It is called under mu.
func (s *session) due(now time.Duration) time.Duration {
	due := s.machine.Due(now)
	if s.unsaved {
		due = min(due, now+retryPause)
	}
	return due
}

// keep stores the data for the next process of the directory. It is called under mu: a response
// that rests on it must not be sent before it is stored. A failed write is retried at the next
// step, as durably.
func (s *session) keep(before, after worker.Kept) {
	if before == after && !s.unsaved {
		return
	}
	s.identity = s.identity.keep(after)
	durable := s.owed || before.Cluster != after.Cluster || before.SetID != after.SetID || before.Epoch != after.Epoch
	err := s.store.Save(s.identity, durable)
	if err != nil && !s.unsaved {
		s.log.Error("cell's data directory is not writable; retrying", "error", err)
	}
	s.unsaved, s.owed = err != nil, err != nil && durable
}

// joined is the cluster that the cell belongs to; empty before its first join.
func (s *session) joined() fence.Cluster {
	c, _ := s.member.Load().(fence.Cluster)
	return c
}

// caller is how this process names itself in calls.
func (s *session) caller() Caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Caller{Cluster: s.machine.Cluster(), Cell: s.cell, Proc: s.machine.Proc(), Term: s.machine.Term()}
}

// addressed checks the cluster of a leader's call before the rest of it is read: a call of another
// cluster is refused and changes nothing. So is one that names another process of a cell without a
// cluster, and one that arrives while the process is ending: it no longer joins a cluster.
func (s *session) addressed(cluster fence.Cluster, proc worker.Proc) error {
	s.step(worker.Addressed{Cluster: cluster, Proc: proc})
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.machine.Cluster()
	if own == "" {
		return fmt.Errorf("%w: addressed to %s; this process is %s and has not joined a cluster", ErrProc, proc,
			s.machine.Proc())
	}
	if cluster != own {
		return &Foreign{Cell: s.cell, Address: s.address, Cluster: own, Other: cluster}
	}
	return nil
}

// heard checks a call that is not the machine's own: it must name this process and no lower term
// than the newest seen, which it raises.
func (s *session) heard(t fence.Term, proc worker.Proc) error {
	if err := s.meant(t, proc); err != nil {
		return err
	}
	s.step(worker.CallHeard{Term: t})
	return s.meant(t, proc)
}

// meant is heard for calls that only read: their term is not adopted.
func (s *session) meant(t fence.Term, proc worker.Proc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.machine.Proc(); proc != own {
		return fmt.Errorf("%w: for %s, this is %s", ErrProc, proc, own)
	}
	if own := s.machine.Term(); own.Less(t) {
		return fmt.Errorf("%w: %v, the newest accepted is %v", ErrNewer, t, own)
	}
	if own := s.machine.Term(); t.Less(own) {
		return fmt.Errorf("%w: %v, the newest is %v", ErrTerm, t, own)
	}
	return nil
}

// accepts returns nil when the cell may take new work now.
func (s *session) accepts() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Accepts(s.clock.Boot())
}

// isEarlier reports whether a process was an earlier session of this directory.
func (s *session) isEarlier(proc worker.Proc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.identity.Earlier, proc)
}

// view returns the session's state.
func (s *session) view() (worker.State, worker.Proc, fence.Term) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.State(), s.machine.Proc(), s.machine.Term()
}
