package registry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cantina/fault"
	"cantina/worker"
)

// Heartbeat handles a cell's heartbeat and returns the leader's response once its basis is
// durable. holds, if not nil, is called before any call to the cell that follows from the
// heartbeat, if the sender now has its cell's name; it must not wait or call the registry.
// worker.ErrMalformed for a heartbeat that no correct cell sends; ErrOver if the term ends first.
func (r *Registry) Heartbeat(ctx context.Context, b worker.Heartbeat, holds func()) (worker.HeartbeatAnswer, error) {
	key := beatKey{b.Proc, b.Beat}
	c, wait, err := r.beat(key, b, holds)
	if err != nil {
		return worker.HeartbeatAnswer{}, fmt.Errorf("heartbeat: %w", err)
	}
	err = wait(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.beats[key] == c {
		delete(r.beats, key)
	}
	switch {
	case c.answer != nil:
		return *c.answer, nil
	case err != nil:
		return worker.HeartbeatAnswer{}, err
	}
	return worker.HeartbeatAnswer{}, fault.ErrTermOver
}

// beatWait is a heartbeat that waits for its answer. It is woken once.
type beatWait struct {
	wake   func()
	answer *worker.HeartbeatAnswer // nil = there will be none
}

// beat passes a heartbeat to the machine and returns the place of its response.
func (r *Registry) beat(key beatKey, b worker.Heartbeat, holds func()) (*beatWait, func(context.Context) error, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return nil, nil, r.over
	}
	out, err := r.take(worker.BeatReceived{Beat: b, LeaseHeld: r.cfg.Store.LeaseHeld()})
	if err != nil {
		return nil, nil, err
	}
	if holds != nil && r.leader.Holds(b.Cell, b.Proc) {
		holds()
	}
	if old := r.beats[key]; old != nil {
		old.wake() // a duplicated heartbeat: its caller gets no response
	}
	wake, wait := r.cfg.Runtime.Park()
	c := &beatWait{wake: wake}
	r.beats[key] = c
	r.submit(out)
	return c, wait, nil
}

// answerBeat lets a heartbeat go with its answer. The lock is held.
func (r *Registry) answerBeat(a worker.HeartbeatAnswer) {
	key := beatKey{a.Proc, a.Beat}
	if c := r.beats[key]; c != nil {
		c.answer = &a
		c.wake()
		delete(r.beats, key)
	}
}

// statusPatience is how long UpdateStatus waits for items to become durable; items without a
// response by then are sent again.
const statusPatience = 5 * time.Second

// statusCall is one UpdateStatus in progress.
type statusCall struct {
	answers []worker.StatusAnswer
	missing int
	over    bool
	woken   bool
	wake    func()
}

// statusWait is one item of it.
type statusWait struct {
	call *statusCall
	item int
}

// end lets the call go without the answers that are missing.
func (c *statusCall) end() {
	c.over = true
	c.done()
}

func (c *statusCall) done() {
	if !c.woken {
		c.woken = true
		c.wake()
	}
}

// UpdateStatus takes ended invocations, "was not running" and answers to probes.
// It returns one answer for each item; one that is not durable in time is not OK.
func (r *Registry) UpdateStatus(ctx context.Context, u worker.UpdateStatus) ([]worker.StatusAnswer, error) {
	ctx, cancel := r.cfg.Runtime.Within(ctx, statusPatience)
	defer cancel()
	c, wait, err := r.status(u)
	if err == nil && wait != nil {
		_ = wait(ctx) // items without a response by then are not OK
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	forget(r.statuses, u, c)
	switch {
	case err != nil:
		return nil, err
	case c.over && c.missing > 0:
		return nil, fault.ErrTermOver
	}
	return slices.Clone(c.answers), nil
}

// status hands the items to the machine and returns where their answers will come.
func (r *Registry) status(u worker.UpdateStatus) (*statusCall, func(context.Context) error, error) {
	wake, wait := r.cfg.Runtime.Park()
	c := &statusCall{missing: len(u.Items), wake: wake}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return c, nil, r.over
	}
	for i, it := range u.Items {
		c.answers = append(c.answers, worker.StatusAnswer{Term: r.leader.Term(), Proc: u.Proc, Kind: it.Kind, Run: it.Run, Probe: it.Probe})
		key := statusKey{u.Proc, it.Kind, it.Run, it.Probe}
		r.statuses[key] = append(r.statuses[key], statusWait{c, i})
	}
	if err := r.stepLocked(worker.StatusReceived{Update: u}); err != nil {
		return c, nil, fmt.Errorf("status: %w", err)
	}
	if len(u.Items) == 0 {
		wait = nil
	}
	return c, wait, nil
}

// forget drops the waiting items of a call.
func forget(statuses map[statusKey][]statusWait, u worker.UpdateStatus, c *statusCall) {
	for _, it := range u.Items {
		key := statusKey{u.Proc, it.Kind, it.Run, it.Probe}
		left := slices.DeleteFunc(statuses[key], func(w statusWait) bool { return w.call == c })
		if len(left) == 0 {
			delete(statuses, key)
		} else {
			statuses[key] = left
		}
	}
}

// answerStatus gives an item of UpdateStatus its answer. The lock is held.
func (r *Registry) answerStatus(a worker.StatusAnswer) {
	key := statusKey{a.Proc, a.Kind, a.Run, a.Probe}
	for _, w := range r.statuses[key] {
		w.call.answers[w.item] = a
		if w.call.missing--; w.call.missing == 0 {
			w.call.done()
		}
	}
	delete(r.statuses, key)
}

// Heard handles a term that was seen in any other response or call.
func (r *Registry) Heard(e worker.TermHeard) { r.step(e) }
