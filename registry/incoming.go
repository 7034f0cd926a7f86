package registry

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"cantina/fault"
	"cantina/internal/run"
	"cantina/worker"
)

// answers are the calls of cells that wait until their response is durable. They are guarded by the
// machine's lock.
type answers struct {
	park     run.Park
	beats    map[beatKey]*beatWait
	statuses map[statusKey][]statusWait
}

type beatKey struct {
	proc worker.Proc
	beat int64
}

func (k beatKey) compare(o beatKey) int {
	return cmp.Or(cmp.Compare(k.proc, o.proc), cmp.Compare(k.beat, o.beat))
}

type statusKey struct {
	proc  worker.Proc
	kind  worker.StatusKind
	run   worker.Run
	probe int64
}

func (k statusKey) compare(o statusKey) int {
	return cmp.Or(cmp.Compare(k.proc, o.proc), cmp.Compare(k.kind, o.kind), k.run.Compare(o.run),
		cmp.Compare(k.probe, o.probe))
}

// end wakes all that wait.
func (a *answers) end() {
	for _, k := range slices.SortedFunc(maps.Keys(a.beats), beatKey.compare) {
		a.beats[k].wake()
		delete(a.beats, k)
	}
	for _, k := range slices.SortedFunc(maps.Keys(a.statuses), statusKey.compare) {
		for _, w := range a.statuses[k] {
			w.call.end()
		}
		delete(a.statuses, k)
	}
}

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
	if r.answers.beats[key] == c {
		delete(r.answers.beats, key)
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
	if old := r.answers.beats[key]; old != nil {
		old.wake() // a duplicated heartbeat: its caller gets no response
	}
	wake, wait := r.answers.park()
	c := &beatWait{wake: wake}
	r.answers.beats[key] = c
	r.submit(out)
	return c, wait, nil
}

// beat gives a heartbeat its answer. The lock is held.
func (a *answers) beat(got worker.HeartbeatAnswer) {
	key := beatKey{got.Proc, got.Beat}
	if c := a.beats[key]; c != nil {
		c.answer = &got
		c.wake()
		delete(a.beats, key)
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
	r.answers.forget(u, c)
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
	wake, wait := r.answers.park()
	c := &statusCall{missing: len(u.Items), wake: wake}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return c, nil, r.over
	}
	for i, it := range u.Items {
		c.answers = append(c.answers, worker.StatusAnswer{Term: r.leader.Term(), Proc: u.Proc, Kind: it.Kind, Run: it.Run,
			Probe: it.Probe})
		key := statusKey{u.Proc, it.Kind, it.Run, it.Probe}
		r.answers.statuses[key] = append(r.answers.statuses[key], statusWait{c, i})
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
func (a *answers) forget(u worker.UpdateStatus, c *statusCall) {
	for _, it := range u.Items {
		key := statusKey{u.Proc, it.Kind, it.Run, it.Probe}
		left := slices.DeleteFunc(a.statuses[key], func(w statusWait) bool { return w.call == c })
		if len(left) == 0 {
			delete(a.statuses, key)
		} else {
			a.statuses[key] = left
		}
	}
}

// status gives an item of UpdateStatus its answer. The lock is held.
func (a *answers) status(got worker.StatusAnswer) {
	key := statusKey{got.Proc, got.Kind, got.Run, got.Probe}
	for _, w := range a.statuses[key] {
		w.call.answers[w.item] = got
		if w.call.missing--; w.call.missing == 0 {
			w.call.done()
		}
	}
	delete(a.statuses, key)
}

// Heard handles a term that was seen in any other response or call.
func (r *Registry) Heard(e worker.TermHeard) { r.step(e) }
