package worker

import (
	"math"
	"time"
)

// never is the time of something that has not happened: further back than any gap.
const never = time.Duration(-1 << 62)

// forever is the time of something that will not happen.
const forever = time.Duration(math.MaxInt64)

// Health is the data from which the state of a session is computed; one function serves both ends
// (Bistro: the worker models its own state with the same timeouts).
type Health struct {
	State           State
	BecameUnhealthy time.Duration // when it left HEALTHY, or began
	BecameHealthy   time.Duration // when it last became HEALTHY
	LastProbe       time.Duration // when the newest answered probe was sent
	LastBeat        time.Duration // when the newest heartbeat counted
	HasBeenHealthy  bool          // in this session
}

// Gaps are the limits Health is held against. Lost 0 = never lost.
type Gaps struct {
	Probe, Beat, Lost time.Duration
}

// NewHealth returns the health of a session that begins now.
func NewHealth(now time.Duration) Health {
	return Health{BecameUnhealthy: now, LastProbe: never, LastBeat: never}
}

// Next returns the state at now. allowed is false while the worker set forbids a
// first HEALTHY; a session that is UNHEALTHY for that reason alone (blocked) is
// never lost. HEALTHY never becomes MUST_DIE in one step; comparisons are strict.
// Any answer to a probe counts, a failing one too (decision 0400).
func (h Health) Next(now time.Duration, g Gaps, allowed bool) (next State, blocked bool) {
	if h.State == MustDie {
		return MustDie, false
	}
	switch {
	case h.State == New:
		next = New
	case now > h.LastProbe+g.Probe || now > h.LastBeat+g.Beat:
		next = Unhealthy
	case !allowed && !h.HasBeenHealthy:
		next, blocked = Unhealthy, true
	default:
		next = Healthy
	}
	lost := g.Lost > 0 && next != Healthy && h.State != Healthy && now > h.BecameUnhealthy+g.Lost
	if lost && !blocked {
		return MustDie, false
	}
	return next, blocked
}

// Advance moves h to its state at now and returns the result of Next. The time in UNHEALTHY counts
// from when the limit passed, not from when that was noticed. So the cell, which checks each
// second, gives up before the leader does.
func (h *Health) Advance(now time.Duration, g Gaps, allowed bool) (blocked bool) {
	next, blocked := h.Next(now, g, allowed)
	if h.State == Healthy && next != Healthy {
		h.BecameUnhealthy = max(h.BecameHealthy, min(now, h.LastProbe+g.Probe, h.LastBeat+g.Beat))
	}
	if next == Healthy && h.State != Healthy {
		h.BecameHealthy = now
	}
	if next == Healthy {
		h.HasBeenHealthy = true
	}
	h.State = next
	return blocked
}

// due returns when Advance changes h next if nothing is heard meanwhile: a time that has passed if
// it would now, forever if it never would.
func (h Health) due(now time.Duration, g Gaps) time.Duration {
	if next, _ := h.Next(now, g, false); next != h.State {
		return now
	}
	var limits []time.Duration
	if h.State != New {
		limits = append(limits, h.LastProbe+g.Probe, h.LastBeat+g.Beat)
	}
	if h.State != Healthy && g.Lost > 0 {
		limits = append(limits, h.BecameUnhealthy+g.Lost)
	}
	due := forever
	for _, limit := range limits {
		if limit >= now { // a limit is passed after it
			due = min(due, limit+1)
		}
	}
	return due
}
