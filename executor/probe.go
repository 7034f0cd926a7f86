package executor

import (
	"context"
	"fmt"
	"time"

	"cantina/action"
)

// probeLimit is how long a probe may take.
const probeLimit = time.Second

// Probe makes a container of the default isolation, runs /bin/true in it and
// removes it, outside the ledger: one slot is kept back for it. It says why the
// cell cannot run work, within a second. Nothing of it is stored or listed.
// (Bistro worker protocol, healthcheck; Diego executor, Self test.)
func (e *Executor) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return fmt.Errorf("probe: %w", ErrClosed)
	}
	e.probes++
	c := newContainer(e, Reservation{ID: fmt.Sprint("#probe-", e.probes)}, nil)
	c.hidden = true
	c.delete = true
	close(c.deleteC)
	e.probing[c] = true
	e.startLocked(c, Spec{Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/true"}}}})
	e.mu.Unlock()
	select {
	case <-c.doneC:
		e.mu.Lock()
		delete(e.probing, c)
		e.mu.Unlock()
	case <-ctx.Done():
		e.mu.Lock()
		after := c.request(askKill, "took too long")
		e.mu.Unlock()
		after()
		return fmt.Errorf("probe: %w", ctx.Err())
	}
	if r := c.result; r.Failed || r.Stopped {
		return fmt.Errorf("probe: /bin/true: %s", r.Reason)
	}
	return nil
}
