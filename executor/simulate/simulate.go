// Package simulate is an executor without processes: containers that only exist in memory, for
// `cantina cell --simulate` (many cells on one machine, real protocol) and for tests of the cell.
//
// A container whose program is called "sleep" ends after its argument's seconds (or a Go
// duration), "true" and "false" end at once with 0 and 1, and any other runs until it is stopped.
// Nothing is enforced.
package simulate

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"cantina/action"
	"cantina/executor"
	"cantina/resource"
)

// Executor is one simulated executor. Make it with New; Close ends its timers.
type Executor struct {
	capacity resource.Amounts
	now      func() time.Time

	mu         sync.Mutex
	containers map[string]*container
	order      []string // their ids, sorted
	used       resource.Amounts
	deadline   time.Duration
	recorded   bool // AdoptionRecorded was called
	probe      error
	disk       executor.Disk
	groups     error // why no container can be made
	subs       map[*Subscription]bool
	closed     bool
}

type container struct {
	executor.Container
	timer  *time.Timer
	due    time.Time // when it ends on its own, with code
	code   int
	fixed  []action.Port // claimed
	hung   bool          // does not end, even if it is stopped
	delete bool          // to be forgotten once it has ended
}

// New returns an empty executor with the given capacity.
func New(capacity resource.Amounts, now func() time.Time) *Executor {
	return &Executor{capacity: capacity.Clone(), now: now, containers: map[string]*container{}, used: resource.Amounts{},
		subs: map[*Subscription]bool{}}
}

// Subscription receives the events of a simulated executor.
type Subscription struct {
	e    *Executor
	c    chan executor.Event
	lost int
}

// Events returns the channel of the events.
func (s *Subscription) Events() <-chan executor.Event { return s.c }

// Lost returns how many events did not fit since it was last called.
func (s *Subscription) Lost() int {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	n := s.lost
	s.lost = 0
	return n
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	if s.e.subs[s] {
		delete(s.e.subs, s)
		close(s.c)
	}
}

// maxEvents is how many events wait for a reader. It is few: there are thousands of
// executors in a process.
const maxEvents = 64

// Watch returns a new subscription.
func (e *Executor) Watch() *Subscription {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &Subscription{e: e, c: make(chan executor.Event, maxEvents)}
	e.subs[s] = true
	return s
}

func (e *Executor) emit(k executor.EventKind, c *container) {
	for s := range e.subs {
		select {
		case s.c <- executor.Event{Kind: k, Container: c.Container}:
		default:
			s.lost++
		}
	}
}

// Reserve takes resources for a container to come.
func (e *Executor) Reserve(r executor.Reservation) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, err := e.reserve(r)
	return err
}

func (e *Executor) reserve(r executor.Reservation) (*container, error) {
	switch {
	case e.closed:
		return nil, executor.ErrClosed
	case e.containers[r.ID] != nil:
		return nil, &executor.CallError{Call: "reserve", ID: r.ID, Err: executor.ErrExists}
	case e.groups != nil && e.probe != nil:
		return nil, &executor.CallError{Call: "reserve", ID: r.ID, Err: e.groups}
	case e.disk.Fault != nil:
		return nil, &executor.CallError{Call: "reserve", ID: r.ID, Err: e.disk.Fault}
	}
	need := r.Resources.Clone()
	need[resource.Containers] = max(1, need[resource.Containers])
	limited := resource.Amounts{}
	for n, v := range need {
		if _, ok := e.capacity[n]; ok || n != resource.Containers {
			limited[n] = v
		}
	}
	if missing := e.capacity.Sub(e.used).Lacking(limited); len(missing) > 0 {
		return nil, &executor.InsufficientError{Missing: missing}
	}
	for _, p := range r.Ports {
		if holder := e.portHolder(p.Fixed); holder != "" {
			err := fmt.Errorf("port %s: port %d is in use by container %s: %w", p.Name, p.Fixed, holder, executor.ErrPortInUse)
			return nil, &executor.CallError{Call: "reserve", ID: r.ID, Err: err}
		}
	}
	e.used = e.used.Add(need)
	c := &container{fixed: r.Ports, Container: executor.Container{ID: r.ID, Labels: r.Labels, Resources: need,
		DeadlineBound: r.DeadlineBound, Created: e.now()}}
	e.containers[r.ID] = c
	at, _ := slices.BinarySearch(e.order, r.ID)
	e.order = slices.Insert(e.order, at, r.ID)
	e.emit(executor.EventReserved, c)
	return c, nil
}

// portHolder is the container that has a fixed port; empty = none.
func (e *Executor) portHolder(port int) string {
	for id, c := range e.containers {
		if port != 0 && slices.ContainsFunc(c.fixed, func(p action.Port) bool { return p.Fixed == port }) {
			return id
		}
	}
	return ""
}

// Start runs a reserved container.
func (e *Executor) Start(id string, s executor.Spec) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.containers[id]
	switch {
	case c == nil:
		return &executor.CallError{Call: "start", ID: id, Err: executor.ErrUnknown}
	case c.State != executor.Reserved:
		return &executor.CallError{Call: "start", ID: id, Err: executor.ErrState}
	}
	e.start(c, s)
	return nil
}

func (e *Executor) start(c *container, s executor.Spec) {
	if e.groups != nil {
		e.probe = e.groups
		c.Result = executor.RunResult{Failed: true, Retryable: true, NotMade: true, Reason: e.groups.Error(), ExitCode: -1}
		e.complete(c)
		return
	}
	c.State, c.Routable = executor.Running, true
	c.Result.Started = e.now()
	for i, p := range s.Workload.Ports {
		port := p.Fixed
		if port == 0 {
			port = 20000 + i
		}
		c.Ports = append(c.Ports, action.Mapping{Name: p.Name, Port: port})
	}
	e.emit(executor.EventRunning, c)
	if after, code, ok := fate(s.Workload.Action.Run); ok {
		c.due, c.code = e.now().Add(after), code
		c.timer = time.AfterFunc(after, func() { e.exit(c.ID, code) })
	}
}

// fate returns when and how a simulated program ends on its own.
func fate(r *action.Run) (after time.Duration, code int, ok bool) {
	if r == nil {
		return 0, 0, false
	}
	switch path.Base(r.Path) {
	case "true":
		return 0, 0, true
	case "false":
		return 0, 1, true
	case "sleep":
		if len(r.Args) == 1 {
			text := r.Args[0]
			if !strings.ContainsAny(text, "hmsuµn") {
				text += "s"
			}
			d, err := time.ParseDuration(text)
			return d, 0, err == nil
		}
	}
	return 0, 0, false
}

// exit ends a container as if its program had ended with code.
func (e *Executor) exit(id string, code int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.exitLocked(e.containers[id], code)
}

func (e *Executor) exitLocked(c *container, code int) {
	if c != nil && c.State == executor.Running && !c.hung {
		c.Result.ExitCode, c.Result.Failed = code, code != 0
		if code != 0 {
			c.Result.Reason = fmt.Sprintf("exit status %d", code)
		}
		e.complete(c)
	}
}

// Collect ends containers that are due, even if their timer has not fired yet.
func (e *Executor) Collect() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.containers {
		e.collect(c)
	}
}

func (e *Executor) collect(c *container) {
	if !c.due.IsZero() && !e.now().Before(c.due) {
		e.exitLocked(c, c.code)
	}
}

// Exit ends a container as if its program had ended with code; for tests.
func (e *Executor) Exit(id string, code int) { e.exit(id, code) }

func (e *Executor) complete(c *container) {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.State, c.Result.Ended = executor.Completed, e.now()
	e.emit(executor.EventCompleted, c)
}

// Launch reserves and starts in one step.
func (e *Executor) Launch(r executor.Reservation, s executor.Spec) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.reserve(r)
	if err == nil {
		e.start(c, s)
	}
	return err
}

// Stop ends a container.
func (e *Executor) Stop(id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.containers[id]
	if c == nil {
		return &executor.CallError{Call: "stop", ID: id, Err: executor.ErrUnknown}
	}
	e.collect(c)
	e.end(c)
	return nil
}

// Signal does nothing to a running container: there is no process.
func (e *Executor) Signal(id string, number int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch c := e.containers[id]; {
	case c == nil:
		return fmt.Errorf("signal %d to %s: %w", number, id, executor.ErrUnknown)
	case c.State != executor.Running:
		return fmt.Errorf("signal %d to %s: %w", number, id, executor.ErrState)
	}
	return nil
}

// StopWithin is Stop.
func (e *Executor) StopWithin(id string, _ time.Duration) error { return e.Stop(id) }

// ShortenGrace is Stop.
func (e *Executor) ShortenGrace(id string, _ time.Duration) error { return e.Stop(id) }

// Delete forgets a container in any state.
func (e *Executor) Delete(id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.containers[id]
	if c == nil {
		return fmt.Errorf("delete %s: %w", id, executor.ErrUnknown)
	}
	if c.hung {
		c.delete = true
		e.end(c)
		return nil
	}
	e.forget(c)
	return nil
}

func (e *Executor) forget(c *container) {
	if c.timer != nil {
		c.timer.Stop()
	}
	delete(e.containers, c.ID)
	at, _ := slices.BinarySearch(e.order, c.ID)
	e.order = slices.Delete(e.order, at, at+1)
	e.used = e.used.Sub(c.Resources)
	e.emit(executor.EventDeleted, c)
}

// Get returns one container.
func (e *Executor) Get(id string) (executor.Container, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.containers[id]
	if c == nil {
		return executor.Container{}, false
	}
	return c.Container, true
}

// List returns all containers in order of id.
func (e *Executor) List() []executor.Container {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make([]executor.Container, 0, len(e.containers))
	for _, id := range e.order {
		out = append(out, e.containers[id].Container)
	}
	return out
}

// ResultFile returns nothing: simulated programs write no file.
func (e *Executor) ResultFile(string) ([]byte, error) { return nil, nil }

// SetDeadline notes the deadline; nothing ends by it.
func (e *Executor) SetDeadline(boot time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deadline = boot
}

// AdoptionRecorded notes that it was called; nothing is adopted here.
func (e *Executor) AdoptionRecorded() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.recorded = true
}

// Recorded reports whether AdoptionRecorded was called.
func (e *Executor) Recorded() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.recorded
}

// Deadline returns the last value of SetDeadline.
func (e *Executor) Deadline() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.deadline
}

// Capacity returns the argument of New.
func (e *Executor) Capacity() resource.Amounts { return e.capacity.Clone() }

// Disk returns the last value of SetDisk.
func (e *Executor) Disk() executor.Disk {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.disk
}

// SetDisk sets the result of Disk; with a fault Reserve refuses.
func (e *Executor) SetDisk(d executor.Disk) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.disk = d
}

// Withdrawn returns no withdrawn kinds.
func (e *Executor) Withdrawn() map[string]string { return nil }

// Isolation reports that there is none.
func (e *Executor) Isolation() []string { return []string{"simulated"} }

// Probe succeeds, unless FailProbes was called.
func (e *Executor) Probe(context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.probe
}

// FailProbes lets every probe fail with err; nil lets them succeed again.
func (e *Executor) FailProbes(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.probe = err
}

// FailGroups makes the creation of containers fail from now on, for lack of control groups: the
// first start finds it, and Reserve refuses since then.
func (e *Executor) FailGroups() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.groups = executor.ErrNoGroup
}

// Close stops all timers and refuses further containers.
func (e *Executor) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for _, c := range e.containers {
		if c.timer != nil {
			c.timer.Stop()
		}
	}
}
