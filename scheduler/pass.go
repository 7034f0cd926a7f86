package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"cantina/batch"
	"cantina/fault"
	"cantina/fence"
	"cantina/label"
	"cantina/placement"
	"cantina/store"
	"cantina/worker"
)

// firstChunk and maxChunk limit how many batch tasks are picked before cells are asked: few at
// first, because usually one slot is free; more while all find room.
const firstChunk, maxChunk = 16, 1024

// maxTries limits how often a refused request is repeated because others returned their grants.
const maxTries = 3

// Run starts batch tasks until ctx is done or the term is over, and returns when
// every script has ended. The error is ctx's, or wraps ErrOver.
func (s *Scheduler) Run(ctx context.Context) error {
	var readers sync.WaitGroup
	defer readers.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, ok := s.Pass(ctx)
		if ok {
			timer.Reset(next)
		} else {
			timer.Stop()
		}
		for _, read := range s.Reads() {
			readers.Go(func() { read(ctx) })
		}
		select {
		case <-s.wake:
		case <-s.cfg.Auctioneer.Room():
			s.unblock()
		case <-timer.C:
		case <-s.failed:
			s.mu.Lock()
			defer s.mu.Unlock()
			return errors.Join(fault.ErrTermOver, s.over)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Woken takes the wake-up tokens of Pass; it does not wait.
func (s *Scheduler) Woken() bool {
	woken := false
	select {
	case <-s.wake:
		woken = true
	default:
	}
	select {
	case <-s.cfg.Auctioneer.Room():
		s.unblock()
		woken = true
	default:
	}
	return woken
}

// Pass starts the tasks that may start now, and returns the time until work is due anyway; ok is
// false if none is. Reads follow (Reads). Run calls it; so does a caller with its own loop. It
// waits only for the store, and only if a task wants its last report.
func (s *Scheduler) Pass(ctx context.Context) (next time.Duration, ok bool) {
	s.adoption.adopt()
	if !s.begin() {
		return time.Second, true
	}
	s.endOrphans()
	for chunk := firstChunk; ctx.Err() == nil; chunk = min(2*chunk, maxChunk) {
		picks := s.pick(chunk)
		if len(picks) == 0 {
			break
		}
		if !s.place(ctx, picks) {
			chunk = firstChunk / 2
		}
	}
	s.tidy()
	return s.due()
}

// begin moves the clocks of the boards that the pass looks at, and forgets refusals when something changed. It is
// false if the ends of tasks could not be written: then nothing starts.
func (s *Scheduler) begin() bool {
	full := store.NoRoom(s.cfg.Store) != nil
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed && !full {
		s.changed = false
		for f := range s.refused {
			f.board.Unblock()
			s.stir(f)
		}
		clear(s.refused)
	}
	s.gather()
	if full {
		s.postpone()
		return false
	}
	s.stats.Passes++
	now := s.nowMilli()
	for _, f := range s.looked {
		f.board.Advance(now)
	}
	if len(s.looked) > 0 {
		s.openGates()
		s.stats.Looked += s.rouse()
	}
	return true
}

// pick is a batch task that wants a cell.
type pick struct {
	batch.Start
	j     *job
	spec  *batch.Job
	f     *forest
	of    int // the version of the forest
	prev  batch.Status
	mark  uint32
	grant placement.Grant

	order   placement.Order // of cells, as the forest has it when it is picked
	weights map[string]int
}

// pick asks the boards in turn.
func (s *Scheduler) pick(most int) []*pick {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return nil
	}
	var out []*pick
	for _, f := range s.inOrder() {
		if !f.listed() {
			continue
		}
		share := max(most-len(out), 1)
		for _, st := range f.board.Pick(share) {
			j := s.jobs[st.Key.Job]
			p := &pick{Start: st, j: j, spec: j.spec, f: f, of: f.version, mark: f.board.Mark(st.Key)}
			p.prev, _ = f.board.Status(st.Key)
			p.order, p.weights = f.board.Cells()
			out = append(out, p)
		}
	}
	return out
}

// inOrder returns the forests of the pass in order of name, beginning with another one each
// time, so that none takes all room.
func (s *Scheduler) inOrder() []*forest {
	if len(s.looked) == 0 {
		return nil
	}
	at := s.stats.Passes % len(s.looked)
	return slices.Concat(s.looked[at:], s.looked[:at])
}

func holdID(k batch.Key) string { return "batch/" + k.Job + "\x00" + k.Node }

func (p *pick) request(cell string) worker.Request {
	r := worker.Request{Work: worker.Work(p.Key), JobUID: p.spec.UID, Cell: worker.CellName(cell)}
	if len(p.Draws) > 0 {
		r.Nodes = drawNames(p.spec.Forest)
	}
	return r
}

// place gives picks to cells. It reports whether all found one.
func (s *Scheduler) place(ctx context.Context, picks []*pick) bool {
	var wants []placement.Want
	var asked []*pick
	constraints := make(map[*batch.Job]placement.Constraint)
	shadows := s.adoption.shadowing()
	for _, p := range picks {
		if hold, ok := s.cfg.Registry.MayRun(p.request("")); !ok {
			s.held(p, hold)
			continue
		}
		if shadows && s.adoption.shadowed(p) {
			continue
		}
		c, ok := constraints[p.spec]
		if !ok {
			c = constraintOf(p.spec)
			constraints[p.spec] = c
		}
		c.Host = p.Host
		wants = append(wants, placement.Want{Hold: holdID(p.Key), Need: p.Cell, Constraint: c, Hosts: p.Hosts,
			Order: p.order, Weights: p.weights})
		asked = append(asked, p)
	}
	all := len(asked) == len(picks)
	for tries := 0; len(asked) > 0; tries++ {
		grants := s.cfg.Auctioneer.Reserve(wants)
		var refused []*pick
		var again []placement.Want
		var confirmed, declined []string
		for i, p := range asked {
			p.grant = grants[i]
			switch {
			case p.grant.Refusal != nil:
				refused, again = append(refused, p), append(again, wants[i])
			case s.start(ctx, p):
				confirmed = append(confirmed, p.grant.Hold)
			default:
				declined = append(declined, p.grant.Hold)
			}
		}
		if len(confirmed) > 0 {
			s.cfg.Auctioneer.Confirm(confirmed...)
		}
		all = all && len(refused)+len(declined) == 0
		if len(declined) > 0 {
			s.cfg.Auctioneer.Decline(declined...)
		}
		if len(declined) == 0 || tries == maxTries {
			for _, p := range refused {
				s.refuse(p, p.grant.Refusal.String())
			}
			break
		}
		// The refused request may have missed only returned grants, which no token of Room reports.
		asked, wants = refused, again
	}
	return all
}

// constraintOf returns the requirements of a job on cells, without those of single tasks.
func constraintOf(j *batch.Job) placement.Constraint {
	conditions, _ := label.ParseAll(j.Conditions) // of a definition: all are right
	return placement.Constraint{
		Stack: j.Stack, Tags: j.Tags, Labels: j.Labels, Tolerates: j.Tolerates, Conditions: conditions,
		OpenFiles: j.Workload.MostOpenFiles(), Isolation: j.Workload.Kinds(), Ports: j.Workload.FixedPorts(),
		Volumes: j.Workload.HostPaths(),
	}
}

// refuse takes a pick back that found no cell.
func (s *Scheduler) refuse(p *pick, why string) {
	scope := batch.ScopeJob
	if p.Host != "" && p.spec.Host == "" {
		scope = batch.ScopeHost
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Refused++
	s.unpicked(p, scope, why)
}

// held takes a pick back that may not run now.
func (s *Scheduler) held(p *pick, h worker.Hold) {
	if h.Reason == worker.HoldRunning {
		s.running(p)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unpicked(p, batch.ScopeJob, h.Reason.String())
}

// running takes that a batch task runs which the board did not know of.
func (s *Scheduler) running(p *pick) {
	s.adoption.compare(func() []worker.RunView { return s.cfg.Registry.Running(worker.Work(p.Key)) }, func() {
		s.unpicked(p, batch.ScopeNode, worker.HoldRunning.String())
	})
}

// start gives a granted pick to its cell. The lock is not held: the registry may call back.
func (s *Scheduler) start(ctx context.Context, p *pick) bool {
	data := s.previousData(ctx, p)
	if s.adoption.outdated(p) {
		return false
	}
	var broken error
	inv, hold, ok := s.cfg.Registry.StartBatch(p.request(p.grant.Cell), func(inv fence.Invocation) (batch.Payload, bool) {
		if s.overtaken(p, inv) {
			return batch.Payload{}, false
		}
		e, err := batch.Expand(p.spec, &p.Start, inv, batch.Where{Cell: p.grant.Cell, Host: p.grant.Host}, p.prev, data)
		broken = err
		return e.Payload(p.spec, p.Key, inv), true
	})
	if hold.Reason == worker.HoldVetoed {
		return false
	}
	if !ok {
		s.held(p, hold)
		return false
	}
	s.mu.Lock()
	s.stats.Started++
	s.seen(inv)
	kill := broken != nil
	switch {
	case s.statuses.early[inv]:
		delete(s.statuses.early, inv) // it has ended already, and its room is given back
		s.mu.Unlock()
		return false
	case p.f.board.Started(p.Key, inv, p.grant.Cell) != nil:
		// Its job went away in between: it counts as running until it ends.
		p.f.board.Adopt(p.Key, inv, p.grant.Cell)
		kill = true
	}
	s.mu.Unlock()
	if kill {
		s.cfg.Registry.Kill(worker.Run{Work: worker.Work(p.Key), Invocation: inv})
	}
	return true
}

// overtaken withdraws a pick whose job is being removed or created again, or whose nodes have another
// definition by now. Otherwise the invocation that it is about to get is known from now on: later
// births are younger.
func (s *Scheduler) overtaken(p *pick, inv fence.Invocation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[p.Key.Job]
	switch {
	case j == nil || j.row.deleted || j.row.uid != p.spec.UID || s.ending(p.Key.Job, p.spec.UID):
		s.unpicked(p, batch.ScopeJob, "its job is being removed or replaced")
	case p.f.version != p.of:
		s.unpicked(p, batch.ScopeJob, "the definition of its nodes has changed")
	default:
		s.seen(inv)
		return false
	}
	return true
}

// previousData reads the task's last report, which only Bistro's call passes on.
func (s *Scheduler) previousData(ctx context.Context, p *pick) []byte {
	if p.spec.Call != batch.CallBistro || p.prev.Bits == 0 || p.mark == 0 {
		return nil
	}
	found, err := s.readSegments(ctx, p.spec.UID, []uint32{p.mark})
	if err != nil {
		s.cfg.Log.Warn("cannot read previous data", "job", p.Key.Job, "node", p.Key.Node, "error", err)
	}
	return found[p.mark][p.Key.Node].data
}

// due returns after how long the next backoff ends or nodes are to be read.
func (s *Scheduler) due() (next time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	consider := func(d time.Duration) {
		if d = max(d, 0); !ok || d < next {
			next, ok = d, true
		}
	}
	s.settle()
	if len(s.times) > 0 {
		consider(s.times[0].lookAt - s.cfg.Clock.Boot())
	}
	if len(s.tombs) > 0 {
		consider(tidyEvery)
	}
	if at, due := s.nextRemoved(s.now()); due {
		consider(at.Sub(s.now()))
	}
	return next, ok
}
