package executor

import (
	"context"
	"fmt"
	"time"

	"cantina/action"
	"cantina/cgroup"
)

// probePrefix begins the ids of probes; nothing else has such.
const probePrefix = "#probe-"

// probeLimit is how long a probe may take.
const probeLimit = time.Second

// ErrNoGroup reports that the cell can make no control group, and so no container.
// From the first container that got none on, Reserve returns it, until a probe finds
// that groups can be made again.
var ErrNoGroup = cgroup.ErrNoGroup

// setGroupless remembers whether control groups can be made; nil = they can.
func (p *prober) setGroupless(err error) {
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	p.groupless = err
}

// Probe creates and removes a control group in each class, and writes to the data directory, to
// disk. Then it creates a container of the default isolation, runs /bin/true in it and removes it,
// outside the ledger: one slot is reserved for it. It reports why the cell cannot run work, within
// a second. It is neither stored nor listed. (Bistro worker protocol, healthcheck; Diego executor,
// Self test.)
func (p *prober) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	p.e.mu.Lock()
	if p.e.closed {
		p.e.mu.Unlock()
		return fmt.Errorf("probe: %w", ErrClosed)
	}
	p.probes++
	id := fmt.Sprint(probePrefix, p.probes)
	p.e.drivers.Add(1) // Close waits for it
	p.e.mu.Unlock()
	err := p.e.backend.try(id)
	if p.setGroupless(err); err != nil {
		err = fmt.Errorf("probe: %w", err)
	} else {
		err = p.e.disk.probeDisk(ctx)
	}
	p.e.drivers.Done()
	if err != nil {
		return err
	}
	r, err := p.run(ctx, id, action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/true"}}})
	switch {
	case err != nil:
		return fmt.Errorf("probe: %w", err)
	case r.Failed || r.Stopped:
		return fmt.Errorf("probe: /bin/true: %s", r.Reason)
	}
	return nil
}

// run runs a hidden container and removes it. It returns ErrClosed, or the error of ctx.
func (p *prober) run(ctx context.Context, id string, w action.Workload) (RunResult, error) {
	p.e.mu.Lock()
	if p.e.closed {
		p.e.mu.Unlock()
		return RunResult{}, ErrClosed
	}
	c := newContainer(p.e, Reservation{ID: id}, nil)
	c.hidden, c.delete = true, true
	close(c.deleteC)
	p.probing[c] = true
	p.e.startLocked(c, Spec{Workload: w})
	p.e.mu.Unlock()
	select {
	case <-c.doneC:
		return c.result, nil
	case <-ctx.Done():
	}
	p.e.mu.Lock()
	after := c.request(askKill, "took too long")
	p.e.mu.Unlock()
	after()
	return RunResult{}, ctx.Err()
}
