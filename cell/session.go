package cell

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"cantina/fence"
	"cantina/internal/run"
	"cantina/worker"
)

// session is the shell around worker.Cell. Steps are taken under mu; their
// effects are performed in the order of the steps, under acts, which is taken
// before mu is given back. Effects never wait and never step.
type session struct {
	clock  run.Clock
	log    *slog.Logger
	leader Leader
	dir    string
	boot   string
	cell   worker.CellName
	state  func() State
	hands  hands

	answered tidings               // whether the last heartbeat was; only runBeats touches it
	beats    chan worker.Heartbeat // one waits; a newer one replaces it
	statuses *mailbox[worker.UpdateStatus]
	begins   chan struct{}

	mu       sync.Mutex
	machine  *worker.Cell
	identity identity

	acts  sync.Mutex
	ended chan struct{}
	once  sync.Once
}

// tidings is what was told last of something that comes again and again.
type tidings struct{ told, good bool }

// first reports whether something is news.
func (t *tidings) first(good bool) bool {
	news := !t.told || t.good != good
	t.told, t.good = true, good
	return news
}

// hands is what the session does to the rest of the cell. None of them waits.
type hands interface {
	// setDeadline hands the reaper its deadline.
	setDeadline(at time.Duration)
	// launch starts the container of a batch invocation, stopRun ends it.
	launch(r worker.Run)
	stopRun(r worker.Run)
	// endBound begins to end all deadline-bound containers.
	endBound(grace time.Duration, reason string)
	// endAll begins to end every container; the cell exits.
	endAll(reason string)
	// startProbe makes and removes a real container and reports with probeEnded.
	startProbe(probe int64)
	// changed tells of the session's new state.
	changed(from, to worker.State, reason string)
}

// answers collects what the machine answers to the call that is being stepped.
type answers struct {
	report *worker.Report
	runs   []worker.RunAnswer
	notify *worker.NotifyAnswer
	found  bool
}

// step hands events to the machine and performs what follows. It returns what
// the machine answered.
func (s *session) step(events ...worker.CellEvent) answers {
	s.mu.Lock()
	now := s.clock.Boot()
	before := s.machine.Kept()
	var effects []worker.CellEffect
	for _, ev := range events {
		effects = append(effects, s.machine.Step(now, ev)...)
	}
	after := s.machine.Kept()
	s.keep(before, after)
	s.acts.Lock()
	s.mu.Unlock()
	defer s.acts.Unlock()
	var got answers
	for _, e := range effects {
		s.perform(e, &got)
	}
	return got
}

// keep writes what the next process of the folder has to know. It is called
// under mu: an answer that rests on it must not be on its way before it is written.
func (s *session) keep(before, after worker.Kept) {
	if before == after {
		return
	}
	s.identity = s.identity.keep(after)
	durable := before.SetID != after.SetID || before.Epoch != after.Epoch
	if err := s.identity.save(s.dir, durable); err != nil {
		s.log.Error("the cell's folder cannot be written", "folder", s.dir, "error", err)
	}
}

// perform does one effect.
func (s *session) perform(e worker.CellEffect, got *answers) {
	switch e := e.(type) {
	case worker.SendBeat:
		replace(s.beats, e.Beat)
	case worker.SendStatus:
		s.statuses.put(e.Update)
	case worker.AnswerReport:
		got.report = &e.Report
	case worker.AnswerRun:
		got.runs = append(got.runs, e.Answer)
	case worker.AnswerNotify:
		got.notify = &e.Answer
	case worker.AnswerKill:
		got.found = e.Found
	case worker.Launch:
		s.hands.launch(e.Run)
	case worker.StopWork:
		s.hands.stopRun(e.Run)
	case worker.StartProbe:
		s.hands.startProbe(e.Probe)
	case worker.SetDeadline:
		s.hands.setDeadline(e.At)
	case worker.EndBound:
		s.hands.endBound(e.Grace, e.Reason)
	case worker.EndAll:
		s.hands.endAll(e.Reason)
		s.finish()
	case worker.NewSession:
		replace(s.begins, struct{}{})
	case worker.CellChanged:
		s.hands.changed(e.From, e.To, e.Reason)
	case worker.Exit:
		s.finish()
	}
}

func (s *session) finish() { s.once.Do(func() { close(s.ended) }) }

// replace puts v into a channel of length one, in the place of what waits there.
func replace[T any](c chan T, v T) {
	for {
		select {
		case c <- v:
			return
		default:
		}
		select {
		case <-c:
		default:
		}
	}
}

// caller is how this process names itself in calls.
func (s *session) caller() Caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Caller{Cell: s.cell, Proc: s.machine.Proc(), Term: s.machine.Term()}
}

// heard checks a call that is not the machine's own: it must name this process
// and no lower term than the newest seen, which it raises.
func (s *session) heard(t fence.Term, proc worker.Proc) error {
	s.step(worker.CallHeard{Term: t})
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.machine.Proc(); proc != own {
		return fmt.Errorf("%w: meant for %s, this is %s", ErrProc, proc, own)
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

// view returns what the session believes.
func (s *session) view() (worker.State, worker.Proc, fence.Term) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.State(), s.machine.Proc(), s.machine.Term()
}

// run drives the session until ctx is done.
func (s *session) run(ctx context.Context) error {
	var g run.Group
	g.Add("status", s.runStatuses)
	g.Add("beat", s.runBeats)
	g.Add("tick", s.runTicks)
	return g.Run(ctx)
}

// runTicks re-reads every deadline at least each second, and begins sessions.
func (s *session) runTicks(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			s.step(worker.CellTick{})
		case <-s.begins:
			s.begin()
		}
	}
}

// begin makes the identity of the next session durable and starts it. Without a
// writable folder no session begins: the cell stays without work and tries again.
func (s *session) begin() {
	s.mu.Lock()
	next := s.identity.next(s.boot)
	err := next.save(s.dir, true)
	if err == nil {
		s.identity = next
	}
	s.mu.Unlock()
	if err != nil {
		s.log.Error("no new session: the cell's folder cannot be written", "folder", s.dir, "error", err)
		time.AfterFunc(time.Second, func() { replace(s.begins, struct{}{}) })
		return
	}
	s.step(worker.SessionBegun{Proc: next.Proc, Started: next.Started})
}

// runBeats sends heartbeats, one at a time, the newest first.
func (s *session) runBeats(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b := <-s.beats:
			s.sendBeat(ctx, b)
		}
	}
}

func (s *session) sendBeat(ctx context.Context, b worker.Heartbeat) {
	a, err := s.hear(ctx, b)
	if err != nil {
		s.step(worker.BeatFailed{Beat: b.Beat})
		return
	}
	s.step(worker.BeatAnswered{Answer: a})
}

// hear sends a heartbeat, and tells when leaders fall silent and when one answers.
func (s *session) hear(ctx context.Context, b worker.Heartbeat) (worker.HeartbeatAnswer, error) {
	limit, cancel := context.WithTimeout(ctx, max(b.Period, time.Second))
	defer cancel()
	a, err := s.leader.Heartbeat(limit, b, s.state())
	switch {
	case ctx.Err() != nil:
	case err != nil && s.answered.first(false):
		s.log.Warn("no leader answers; the cell goes on trying", "error", err)
	case err != nil:
		s.log.Debug("heartbeat", "error", err)
	case s.answered.first(true):
		s.log.Info("a leader answers")
	}
	return a, err
}

// statusCalls is how many UpdateStatus are under way at most. Each lasts as long as
// a commit: what ends meanwhile is to be in the next commit, not in the one after.
const statusCalls = 4

// runStatuses sends statuses: all that wait go in one call, few calls at a time. It
// returns when every call has ended.
func (s *session) runStatuses(ctx context.Context) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	free := make(chan struct{}, statusCalls)
	for {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		all, ok := s.statuses.take(ctx)
		if !ok {
			return ctx.Err()
		}
		calls.Go(func() {
			s.sendStatus(ctx, all)
			<-free
		})
	}
}

func (s *session) sendStatus(ctx context.Context, all []worker.UpdateStatus) {
	u := all[len(all)-1]
	for _, earlier := range all[:len(all)-1] {
		if earlier.Term == u.Term && earlier.Proc == u.Proc {
			u.Items = append(earlier.Items, u.Items...)
		}
	}
	limit, cancel := context.WithTimeout(ctx, 10*time.Second)
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

// mailbox collects values until somebody takes them all.
type mailbox[T any] struct {
	mu   sync.Mutex
	all  []T
	wake chan struct{}
}

func newMailbox[T any]() *mailbox[T] { return &mailbox[T]{wake: make(chan struct{}, 1)} }

func (m *mailbox[T]) put(v T) {
	m.mu.Lock()
	m.all = append(m.all, v)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// take waits until there is something and returns all of it.
func (m *mailbox[T]) take(ctx context.Context) ([]T, bool) {
	for {
		m.mu.Lock()
		all := m.all
		m.all = nil
		m.mu.Unlock()
		if len(all) > 0 {
			return all, true
		}
		select {
		case <-ctx.Done():
			return nil, false
		case <-m.wake:
		}
	}
}
