package sim

import (
	"context"
	"strconv"
	"time"

	"cantina/cell"
	"cantina/executor"
	"cantina/lrp"
	"cantina/resource"
	"cantina/worker"
)

// engine is the executor of one agent: it implements cell.Executor over the machine's
// containers. When the process is gone nothing that it does reaches the machine.
type engine struct {
	m    *machine
	life int
}

func (h *engine) gone() bool { return h.m.life != h.life || !h.m.alive }

// Reserve claims room for a container of an instance or a task.
func (h *engine) Reserve(r executor.Reservation) error {
	m := h.m
	need := need(r.Resources)
	fail := func(err error) error { return &executor.CallError{Call: "reserve", ID: r.ID, Err: err} }
	switch lacking := m.w.capacity().Sub(m.containers.used()).Lacking(need); {
	case h.gone():
		return fail(executor.ErrClosed)
	case m.containers.unit(r.ID) != nil:
		return fail(executor.ErrExists)
	case r.DeadlineBound && m.containers.pastDeadline():
		return fail(executor.ErrDeadline)
	case m.containers.unclean():
		return fail(executor.ErrUnclean)
	case len(lacking) > 0:
		return fail(&executor.InsufficientError{Missing: lacking})
	}
	l := r.Labels
	u := &unit{m: m, id: r.ID, labels: l, service: lrp.ServiceKey{Domain: l["domain"], Name: l["service"]},
		exclusive: l["exclusive"] != "",
		guid:      l["task"], uid: l["uid"], bound: r.DeadlineBound, need: need, procs: []worker.Proc{m.proc()},
		made: m.w.store.made}
	u.key.Process = l["process"]
	u.key.Index, _ = strconv.Atoi(l["index"]) // a task has none
	m.containers.units = append(m.containers.units, u)
	m.w.after(time.Minute, func() { m.containers.expire(u) })
	return nil
}

// Start runs a reserved container.
func (h *engine) Start(id string, s executor.Spec) error {
	m := h.m
	u := m.containers.unit(id)
	fail := func(err error) error { return &executor.CallError{Call: "start", ID: id, Err: err} }
	switch {
	case h.gone():
		return fail(executor.ErrClosed)
	case u == nil:
		return fail(executor.ErrUnknown)
	case u.state != reserved || u.asked:
		return fail(executor.ErrState)
	}
	u.keep = s.Workload.OnCellRestart.Survives()
	m.containers.beginUnit(u)
	return nil
}

// Launch runs the container of a batch invocation.
func (h *engine) Launch(r executor.Reservation, s executor.Spec) error {
	if h.gone() {
		return &executor.CallError{Call: "reserve", ID: r.ID, Err: executor.ErrClosed}
	}
	if h.m.containers.unclean() {
		return &executor.CallError{Call: "reserve", ID: r.ID, Err: executor.ErrUnclean}
	}
	if lacking := h.m.w.capacity().Sub(h.m.containers.used()).Lacking(need(r.Resources)); len(lacking) > 0 {
		return &executor.CallError{Call: "reserve", ID: r.ID, Err: &executor.InsufficientError{Missing: lacking}}
	}
	h.m.containers.launch(r, s.Workload.OnCellRestart.Survives())
	return nil
}

// Signal does nothing: there is no process.
func (h *engine) Signal(string, int) error { return nil }

// Stop ends a container gracefully.
func (h *engine) Stop(id string) error {
	return h.stop(id, func() time.Duration { return h.m.containers.grace() })
}

// StopWithin ends it within grace and the time of a kill.
func (h *engine) StopWithin(id string, grace time.Duration) error {
	return h.stop(id, func() time.Duration { return h.m.w.between(0, grace) + h.m.w.between(0, killWait) })
}

// ShortenGrace is StopWithin.
func (h *engine) ShortenGrace(id string, grace time.Duration) error { return h.StopWithin(id, grace) }

func (h *engine) stop(id string, within func() time.Duration) error {
	m := h.m
	if h.gone() {
		return executor.ErrClosed
	}
	if u := m.containers.unit(id); u != nil {
		m.containers.stopUnit(u, within())
		return nil
	}
	if c := m.containers.container(id); c != nil {
		if c.alive {
			c.asked = true
			m.containers.end(c, within())
		}
		return nil
	}
	return &executor.CallError{Call: "stop", ID: id, Err: executor.ErrUnknown}
}

// Delete stops a container and removes it when no process of it is left.
func (h *engine) Delete(id string) error {
	m := h.m
	if h.gone() {
		return executor.ErrClosed
	}
	if u := m.containers.unit(id); u != nil {
		if u.uid != "" {
			m.w.check.dropped(m.w, u)
		}
		m.containers.deleteUnit(u)
		return nil
	}
	if c := m.containers.container(id); c != nil {
		if c.alive {
			c.deleting, c.asked = true, true
			m.containers.end(c, m.containers.grace())
		} else {
			m.containers.drop(c)
		}
		return nil
	}
	return &executor.CallError{Call: "delete", ID: id, Err: executor.ErrUnknown}
}

// Get returns one container.
func (h *engine) Get(id string) (executor.Container, bool) {
	if h.gone() {
		return executor.Container{}, false
	}
	if u := h.m.containers.unit(id); u != nil {
		return u.snapshot(), true
	}
	if c := h.m.containers.container(id); c != nil {
		return c.snapshot(), true
	}
	return executor.Container{}, false
}

// List returns all that the agent knows, in the order of their making.
func (h *engine) List() []executor.Container {
	if h.gone() {
		return nil
	}
	out := make([]executor.Container, 0, len(h.m.containers.units)+len(h.m.containers.box))
	for _, u := range h.m.containers.units {
		if !u.orphan {
			out = append(out, u.snapshot())
		}
	}
	for _, c := range h.m.containers.box {
		if !c.orphan {
			out = append(out, c.snapshot())
		}
	}
	return out
}

// Watch is not used: the world hands events to the cell.
func (h *engine) Watch() (cell.Events, error) { return nil, executor.ErrClosed }

// ResultFile returns a task's result file: none.
func (h *engine) ResultFile(string) ([]byte, error) { return nil, nil }

// Collect does nothing: how a container is shown is how it is.
func (h *engine) Collect() {}

// SetDeadline hands the reaper its deadline.
func (h *engine) SetDeadline(at time.Duration) {
	if !h.gone() {
		h.m.deadline = at
		h.m.reaper()
	}
}

// AdoptionRecorded changes nothing: the reaper has one deadline for all.
func (h *engine) AdoptionRecorded() {}

// Capacity is the cell's capacity for services and tasks.
func (h *engine) Capacity() resource.Amounts { return h.m.w.capacity() }

// Withdrawn returns no withdrawn kinds.
func (h *engine) Withdrawn() map[string]string { return nil }

// Disk reports that there is space.
func (h *engine) Disk() executor.Disk { return executor.Disk{} }

// Isolation describes the available isolation: none.
func (h *engine) Isolation() []string { return nil }

// Probe makes and removes a container.
func (h *engine) Probe(ctx context.Context) error {
	m := h.m
	if h.gone() {
		return executor.ErrClosed
	}
	wake, wait := m.threads.park()
	m.later(m.w.between(5*time.Millisecond, 300*time.Millisecond), wake)
	if err := wait(ctx); err != nil {
		return err
	}
	if m.broken > m.w.now {
		return errNoProbe
	}
	return nil
}
