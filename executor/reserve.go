package executor

import (
	"errors"
	"slices"
	"time"

	"cantina/action"
	"cantina/logstore"
	"cantina/resource"
)

// Output is the store of the containers' output.
func (e *Executor) Output() *logstore.Store { return e.out }

// Capacity is the total for containers.
func (e *Executor) Capacity() resource.Amounts { return e.cfg.Capacity.Clone() }

// Free is the unused amount.
func (e *Executor) Free() resource.Amounts {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cfg.Capacity.Sub(e.used)
}

// Subscribe returns a subscription to events; the caller closes it.
func (e *Executor) Subscribe() (*Subscription, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, ErrClosed
	}
	return e.hub.subscribe(), nil
}

// Get returns one container.
func (e *Executor) Get(id string) (Container, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, ok := e.containers[id]
	if !ok {
		return Container{}, false
	}
	return c.snapshot(), true
}

// List returns all containers, in no order.
func (e *Executor) List() []Container {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]Container, 0, len(e.containers))
	for _, c := range e.containers {
		out = append(out, c.snapshot())
	}
	return out
}

// Reserve claims resources and fixed ports. It returns ErrInsufficient (an InsufficientError),
// ErrPortInUse, ErrExists, ErrDeadline, ErrUnclean, ErrNoGroup, ErrUnwritable or ErrClosed.
func (e *Executor) Reserve(r Reservation) error {
	if _, exists := e.Get(r.ID); exists {
		return &CallError{"reserve", r.ID, ErrExists}
	}
	fixed := slices.DeleteFunc(slices.Clone(r.Ports), func(p action.Port) bool { return p.Fixed == 0 })
	ports, err := e.ports.takePorts(fixed, nil)
	if err != nil {
		return &CallError{"reserve", r.ID, err}
	}
	e.mu.Lock()
	c, err := e.reserveLocked(r)
	if err == nil {
		c.ports = ports
	}
	e.mu.Unlock()
	if err != nil {
		e.ports.givePortsBack(ports)
		return &CallError{"reserve", r.ID, err}
	}
	e.emit(EventReserved, c)
	return nil
}

func (e *Executor) reserveLocked(r Reservation) (*container, error) {
	switch {
	case e.closed:
		return nil, ErrClosed
	case r.ID == "":
		return nil, errors.New("a container needs an id")
	case e.containers[r.ID] != nil:
		return nil, ErrExists
	case r.DeadlineBound && e.deadlines.pastDeadline():
		return nil, ErrDeadline
	case e.uncleanLocked():
		return nil, ErrUnclean
	case e.prober.groupless != nil:
		return nil, e.prober.groupless
	}
	d := e.Disk()
	if d.Fault != nil {
		return nil, d.Fault
	}
	need := r.Resources
	if need[resource.Containers] == 0 {
		need = need.Add(resource.Amounts{resource.Containers: 1})
	}
	free := e.cfg.Capacity.Sub(e.used)
	if d.ForeignMB > 0 {
		free = free.Sub(resource.Amounts{resource.DiskMB: d.ForeignMB})
	}
	if lacking := free.Lacking(need); len(lacking) > 0 {
		return nil, &InsufficientError{lacking}
	}
	if r.Expires <= 0 {
		r.Expires = time.Minute
	}
	c := newContainer(e, r, need)
	e.take(need, 1)
	e.containers[r.ID] = c
	return c, nil
}

// Start runs a reserved container. It returns at once; see Get and Subscribe.
// It returns ErrUnknown, ErrState or ErrClosed.
func (e *Executor) Start(id string, s Spec) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.containers[id]
	switch {
	case c == nil:
		return &CallError{"start", id, ErrUnknown}
	case e.closed:
		return &CallError{"start", id, ErrClosed}
	case c.state != Reserved || c.ask != askNothing:
		return &CallError{"start", id, ErrState}
	}
	e.startLocked(c, s)
	return nil
}

func (e *Executor) startLocked(c *container, s Spec) {
	c.spec = s
	c.state = Initializing
	c.begun = e.clock.Boot()
	e.drivers.Go(func() { c.drive() })
}

// Launch is Reserve and Start in one step.
func (e *Executor) Launch(r Reservation, s Spec) error {
	e.mu.Lock()
	c, err := e.reserveLocked(r)
	if err == nil {
		e.startLocked(c, s)
	}
	e.mu.Unlock()
	if err != nil {
		return &CallError{"launch", r.ID, err}
	}
	return nil
}

// Stop ends a container gracefully; the result has Stopped. It returns ErrUnknown; a completed
// container is unchanged.
func (e *Executor) Stop(id string) error { return e.askFor(id, askStop, "") }

// StopWithin is Stop with the shorter of the workload's own grace and grace, for deadline-bound
// work whose time is over. It returns ErrUnknown.
func (e *Executor) StopWithin(id string, grace time.Duration) error {
	e.mu.Lock()
	if c := e.containers[id]; c != nil {
		c.within.Store(int64(grace))
	}
	e.mu.Unlock()
	return e.askFor(id, askStop, "")
}

// Kill ends a container like Stop, but the result is Failed with the reason.
func (e *Executor) Kill(id, reason string) error { return e.askFor(id, askKill, reason) }

// Delete stops a container in any state and removes it when none of its processes is left. It
// returns at once, with ErrUnknown if there is none.
func (e *Executor) Delete(id string) error { return e.askFor(id, askDelete, "") }

func (e *Executor) askFor(id string, a ask, reason string) error {
	e.mu.Lock()
	c := e.containers[id]
	if c == nil {
		e.mu.Unlock()
		return &CallError{a.String(), id, ErrUnknown}
	}
	after := c.request(a, reason)
	e.mu.Unlock()
	after()
	return nil
}
