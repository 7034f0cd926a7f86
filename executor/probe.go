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
func (e *Executor) setGroupless(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.groupless = err
}

// tryClasses makes and removes a group in each class, with limits as those of a container.
func (e *Executor) tryClasses(name string) error {
	if e.tree == nil {
		return nil
	}
	for _, class := range e.classes() {
		g, err := e.tree.Create(class, name, cgroup.Limits{Pids: probePids})
		if err == nil {
			err = g.Remove()
		}
		if err != nil {
			e.setGroupless(err)
			return fmt.Errorf("probe: %w", err)
		}
	}
	e.setGroupless(nil)
	return nil
}

// probePids is a limit that any hierarchy takes.
const probePids = 100

// Probe makes and removes a control group in each class, and writes to the data directory, to
// disk. Then it makes a container of
// the default isolation, runs /bin/true in it and removes it, outside the ledger: one
// slot is kept back for it. It says why the cell cannot run work, within a second.
// Nothing of it is stored or listed.
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
	id := fmt.Sprint(probePrefix, e.probes)
	e.drivers.Add(1) // whoever closes waits for it
	e.mu.Unlock()
	err := e.tryClasses(id)
	if err == nil {
		err = e.probeDisk(ctx)
	}
	e.drivers.Done()
	if err != nil {
		return err
	}
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return fmt.Errorf("probe: %w", ErrClosed)
	}
	c := newContainer(e, Reservation{ID: id}, nil)
	c.hidden = true
	c.delete = true
	close(c.deleteC)
	e.probing[c] = true
	e.startLocked(c, Spec{Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/true"}}}})
	e.mu.Unlock()
	select {
	case <-c.doneC:
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
