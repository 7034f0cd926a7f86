package registry

import (
	"context"
	"fmt"
	"time"

	"cantina/worker"
)

// Heartbeat takes a cell's heartbeat and returns the leader's answer once what it
// rests on is durable. holds, when not nil, is called before any call to the cell that
// follows from the heartbeat, if the sender has its cell's name now; it must not wait or
// call the registry. worker.ErrMalformed for a heartbeat that no correct cell sends;
// ErrOver when the term ends first.
func (r *Registry) Heartbeat(ctx context.Context, b worker.Heartbeat, holds func()) (worker.HeartbeatAnswer, error) {
	key := beatKey{b.Proc, b.Beat}
	c, err := r.beat(key, b, holds)
	if err != nil {
		return worker.HeartbeatAnswer{}, fmt.Errorf("heartbeat: %w", err)
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.beats[key] == c {
			delete(r.beats, key)
		}
	}()
	select {
	case a, ok := <-c:
		if !ok {
			return a, ErrOver
		}
		return a, nil
	case <-ctx.Done():
		return worker.HeartbeatAnswer{}, ctx.Err()
	}
}

// beat hands a heartbeat to the machine and returns where its answer will come.
func (r *Registry) beat(key beatKey, b worker.Heartbeat, holds func()) (chan worker.HeartbeatAnswer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.stepLocked(worker.BeatReceived{Beat: b, LeaseHeld: r.cfg.Store.LeaseHeld()}); err != nil {
		return nil, err
	}
	if holds != nil && r.leader.Holds(b.Cell, b.Proc) {
		holds()
	}
	if old := r.beats[key]; old != nil {
		close(old) // a doubled beat: its caller gets no answer
	}
	c := make(chan worker.HeartbeatAnswer, 1) // what answers it waits for the lock
	r.beats[key] = c
	return c, nil
}

func (r *Registry) answerBeat(a worker.HeartbeatAnswer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := beatKey{a.Proc, a.Beat}
	if c := r.beats[key]; c != nil {
		c <- a
		delete(r.beats, key)
	}
}

// statusPatience is how long UpdateStatus waits for items to become durable;
// what is not answered by then is sent again.
const statusPatience = 5 * time.Second

// UpdateStatus takes ended invocations, "was not running" and answers to probes.
// It returns one answer for each item; one that is not durable in time is not OK.
func (r *Registry) UpdateStatus(ctx context.Context, u worker.UpdateStatus) ([]worker.StatusAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	waits := make([]chan worker.StatusAnswer, len(u.Items))
	r.mu.Lock()
	if r.over != nil {
		defer r.mu.Unlock()
		return nil, r.over
	}
	for i, it := range u.Items {
		waits[i] = make(chan worker.StatusAnswer, 1)
		key := statusKey{u.Proc, it.Kind, it.Run, it.Probe}
		r.statuses[key] = append(r.statuses[key], waits[i])
	}
	term := r.leader.Term()
	err := r.stepLocked(worker.StatusReceived{Update: u})
	r.mu.Unlock()
	defer r.forgetWaits(u, waits)
	if err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	out := make([]worker.StatusAnswer, len(u.Items))
	for i, it := range u.Items {
		out[i] = worker.StatusAnswer{Term: term, Proc: u.Proc, Kind: it.Kind, Run: it.Run, Probe: it.Probe}
		select {
		case a, ok := <-waits[i]:
			if !ok {
				return nil, ErrOver
			}
			out[i] = a
		case <-ctx.Done():
		}
	}
	return out, nil
}

func (r *Registry) forgetWaits(u worker.UpdateStatus, waits []chan worker.StatusAnswer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, it := range u.Items {
		key := statusKey{u.Proc, it.Kind, it.Run, it.Probe}
		var left []chan worker.StatusAnswer
		for _, c := range r.statuses[key] {
			if c != waits[i] {
				left = append(left, c)
			}
		}
		if len(left) == 0 {
			delete(r.statuses, key)
		} else {
			r.statuses[key] = left
		}
	}
}

func (r *Registry) answerStatus(a worker.StatusAnswer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := statusKey{a.Proc, a.Kind, a.Run, a.Probe}
	for _, c := range r.statuses[key] {
		c <- a
	}
	delete(r.statuses, key)
}

// Heard takes a term that was seen in any other answer or call.
func (r *Registry) Heard(e worker.TermHeard) { r.step(e) }
