package cell

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cantina/action"
	"cantina/executor"
	"cantina/executor/simulate"
	"cantina/internal/run"
	"cantina/placement"
	"cantina/resource"
	"cantina/worker"
)

// Displaced is the reason of an exit that the leader ordered: another process holds the cell's name.
type Displaced struct {
	Cell worker.CellName
	// Reason is the leader's.
	Reason string
}

// Error returns the remedy.
func (d *Displaced) Error() string {
	return fmt.Sprintf("the leader ended cell %s: %s. If that process lives, give one of the two another name (--name); "+
		"if its machine is gone, the name is free when the process is certainly dead (cantina cells shows when), "+
		"or at once after cantina cells forget %s", d.Cell, d.Reason, d.Cell)
}

// Executor is the part of the executor that a cell needs; package executor documents each method.
// A simulated cell has another.
type Executor interface {
	Reserve(executor.Reservation) error
	Start(id string, s executor.Spec) error
	Launch(executor.Reservation, executor.Spec) error
	Signal(id string, number int) error
	Stop(id string) error
	StopWithin(id string, grace time.Duration) error
	ShortenGrace(id string, grace time.Duration) error
	Delete(id string) error
	Get(id string) (executor.Container, bool)
	List() []executor.Container
	Watch() (Events, error)
	ResultFile(id string) ([]byte, error)
	// Collect takes the ends that have happened by now.
	Collect()
	SetDeadline(boot time.Duration)
	AdoptionRecorded()
	Capacity() resource.Amounts
	// Disk is the state of the file system that work writes to.
	Disk() executor.Disk
	Probe(ctx context.Context) error
	// Isolation describes the strength of isolation, Withdrawn the kinds of isolation that are not
	// available, and why.
	Isolation() []string
	Withdrawn() map[string]string
}

// Events is a subscription to the events of containers. Events that do not fit are dropped and
// counted: polling is the truth.
type Events interface {
	Events() <-chan executor.Event
	Lost() int
	Close()
}

// Real is an executor of real processes as a cell uses it.
type Real struct{ *executor.Executor }

// Watch subscribes to its events.
func (r Real) Watch() (Events, error) {
	s, err := r.Subscribe()
	if err != nil {
		return nil, err
	}
	return realEvents{s}, nil
}

type realEvents struct{ *executor.Subscription }

// Events returns the channel of the subscription.
func (r realEvents) Events() <-chan executor.Event { return r.C }

// Simulated is an executor without processes as a cell uses it.
type Simulated struct{ *simulate.Executor }

// Watch subscribes to its events.
func (s Simulated) Watch() (Events, error) { return s.Executor.Watch(), nil }

var (
	_ Executor = Real{}
	_ Executor = Simulated{}
)

// Config has the parts of a cell. Zero durations take the default in brackets.
type Config struct {
	Name worker.CellName
	// Dir is the cell's data directory; the executor holds its lock.
	Dir   string
	Clock run.Clock
	Log   *slog.Logger
	// Offer has the cell's own attributes for placement: zone, stacks, tags, labels, taints. The cell
	// sets the other fields.
	Offer placement.State
	// Address is the address of the cell for the leader, Host that of its instances.
	Address, Host string
	Build         string
	// Env is given to every container, weakest first; API to work that requests it.
	Env, API []action.Variable
	// Timeouts apply until a leader sends its own.
	Timeouts worker.Timeouts
	// Poll is the time between two full comparisons [30 s], DrainPoll that of a
	// cell being emptied [10 s], DrainTimeout how long that may take [10 min].
	Poll, DrainPoll, DrainTimeout time.Duration
	// ProbeTimeout bounds one probe [1 s].
	ProbeTimeout time.Duration
	// Leave is how long an orderly end waits for work to end and statuses to be acknowledged [20 s].
	Leave time.Duration
	// Abandoned, if set, is closed when the cell can no longer reach a leader: then an orderly end
	// waits for the work alone.
	Abandoned <-chan struct{}
	// OnSession, if set, gets each new state of the session; it must not wait.
	OnSession func(worker.State)
	// Runtime is the environment of the cell; a simulator has its own.
	Runtime Runtime
}

// Runtime is how the work of a cell runs concurrently, waits, and is stored. Unset fields are
// those of a real machine: goroutines, timers, and the disk.
type Runtime struct {
	// Go has f run beside everything else.
	Go func(f func())
	// Park is how code in it waits.
	Park run.Park
	// Within bounds how long a call of the leader may last.
	Within   func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	Identity IdentityStore
	// Machine makes the cell's end of the session.
	Machine func(worker.CellConfig) Machine
}

func (g Runtime) withDefaults(dir string) Runtime {
	if g.Go == nil {
		g.Go = func(f func()) { go f() }
	}
	if g.Park == nil {
		g.Park = run.OnChannel
	}
	if g.Identity == nil {
		g.Identity = diskIdentity(dir)
	}
	if g.Machine == nil {
		g.Machine = func(c worker.CellConfig) Machine { return worker.NewCell(c) }
	}
	return g
}

func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	set(&c.Poll, 30*time.Second)
	set(&c.DrainPoll, 10*time.Second)
	set(&c.DrainTimeout, 10*time.Minute)
	set(&c.ProbeTimeout, time.Second)
	set(&c.Leave, 20*time.Second)
	if c.Timeouts == (worker.Timeouts{}) {
		c.Timeouts = worker.DefaultTimeouts()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Host == "" {
		c.Host = "127.0.0.1"
	}
	c.Runtime = c.Runtime.withDefaults(c.Dir)
	return c
}

// Cell is one cell process. Make it with New and call Run; the leader may call at any time in
// between. It passes events, polls and calls of the leader to the parts, each of which has its own
// state and its own lock.
type Cell struct {
	cfg     Config
	log     *slog.Logger
	exec    Executor
	leader  Leader
	session *session
	queue   *run.Keyed
	vital   *run.Keyed // calls that keep the session alive: they wait for no other work

	containers *containers
	drain      *evacuating
	polls      *polls
	rows       *harmoniser
	batch      *batchRuns
	report     *reporter
	exit       *onceError

	leaving  atomic.Bool
	ended    chan struct{} // has a value when a container has ended since that was looked at
	counting sync.Mutex    // a count and its report are one step: an older one never follows
}

// New reads the directory's identity, begins a session and takes over the executor's adopted
// containers. The executor must be open, and its lock held.
func New(cfg Config, exec Executor, leader Leader) (*Cell, error) {
	cfg = cfg.withDefaults()
	rt := cfg.Runtime
	boot, err := rt.Identity.Boot()
	if err != nil {
		return nil, err
	}
	before, err := rt.Identity.Read()
	if err != nil {
		return nil, err
	}
	if before.Copied {
		cfg.Log.Warn("data directory is a copy or was restored from a backup; using a new identity", "directory", cfg.Dir)
		forgetEnds(exec)
	}
	id := before.next(boot, rt.Identity.NewProc())
	id.Name = cfg.Name
	if err := rt.Identity.Save(id, true); err != nil {
		return nil, err
	}
	c := &Cell{cfg: cfg, log: cfg.Log, exec: exec, leader: leader, queue: run.NewKeyed(64, rt.Go),
		vital: run.NewKeyed(2, rt.Go),
		exit:  newOnceError(), ended: make(chan struct{}, 1)}
	c.containers = &containers{cfg: &c.cfg, log: c.log, exec: exec, plans: newTable[plan](),
		endReasons: newTable[string](), unknown: newTable[string]()}
	c.drain = &evacuating{cfg: &c.cfg}
	c.polls = &polls{clock: cfg.Clock, loop: run.NewLoop("poll", c.nextPoll)}
	c.report = &reporter{cfg: &c.cfg, exec: exec, containers: c.containers, drain: c.drain, leaving: &c.leaving}
	c.session = &session{clock: cfg.Clock, log: cfg.Log, leader: leader, store: rt.Identity, boot: boot,
		state:    c.report.state,
		identity: id, cell: cfg.Name, address: cfg.Address, within: rt.Within}
	c.batch = newBatchRuns(c)
	c.rows = newHarmoniser(c)
	c.session.makeLoops(&orders{batchRuns: c.batch, vital: c.vital, polls: c.polls, exit: c.exit})
	c.session.machine = rt.Machine(c.machineConfig(before, id))
	return c, nil
}

// forgetEnds discards a directory's records of ended containers: they may be old, or another's.
func forgetEnds(exec Executor) {
	for _, ct := range exec.List() {
		if ct.State == executor.Completed {
			_ = exec.Delete(ct.ID) // no work of it is left
		}
	}
}

// machineConfig is the initial state of the machine.
func (c *Cell) machineConfig(before, id Identity) worker.CellConfig {
	m := worker.CellConfig{Cell: c.cfg.Name, Proc: id.Proc, Started: id.Started, DirID: id.DirID, Boot: id.Boot,
		Cluster: id.Cluster, Unix: c.cfg.Clock.Wall().Unix(),
		Now: c.cfg.Clock.Boot(), Timeouts: c.cfg.Timeouts, SetID: before.SetID, Epoch: before.Epoch,
		Predecessor: before.Proc, Deadline: id.Deadline, Promise: id.Promise, Gone: !c.containers.nameless(),
		Statuses: map[worker.Run]string{}}
	for _, ct := range c.exec.List() {
		r, ok := runOf(ct.Labels)
		if ct.Labels[labelKind] != kindBatch || !ok || ofOther(ct.Labels, id.Cluster) {
			continue
		}
		ended := ct.State == executor.Completed
		m.Adopted = append(m.Adopted, worker.Held{Run: r, Ended: ended, Adopted: true})
		if status, err := c.containers.statusOf(&ct); ended && err == nil {
			m.Statuses[r] = status
		}
	}
	return m
}

// Run drives the cell until ctx is done, the leader orders its end, or it cannot continue. When
// ctx is done it takes no new work, ends work that does not outlive it, waits (bounded) until the
// leader has acknowledged all statuses, and deregisters.
func (c *Cell) Run(ctx context.Context) error {
	events, err := c.exec.Watch()
	if err != nil {
		return fmt.Errorf("cell: %w", err)
	}
	defer events.Close()
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var g run.Group
	for _, l := range c.Begin() {
		g.Add(l.Name, l.Run)
	}
	g.Add("events", func(ctx context.Context) error { return c.runEvents(ctx, events) })
	g.Add("lifetime", func(inner context.Context) error { return c.lifetime(ctx, inner) })
	err = g.Run(inner)
	c.queue.Close()
	c.vital.Close()
	return err
}

// State returns the state of the cell's session.
func (c *Cell) State() worker.State {
	state, _, _ := c.session.view()
	return state
}

// Leaving reports that the cell takes no new work, because it is being emptied or its process ends.
func (c *Cell) Leaving() bool { return c.leaving.Load() || c.drain.now().on }

// ProbeFailed reports that the last probe could not make and remove a container.
func (c *Cell) ProbeFailed() bool { return c.batch.probeFailed.Load() }

// DirID is the id of the cell's data directory.
func (c *Cell) DirID() string {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	return c.session.identity.DirID
}

// Begin passes the existing containers to the session and returns the loops to drive while the
// cell lives. Run does that; a caller of Begin passes events on, and calls Leave and Over, itself.
func (c *Cell) Begin() []*run.Loop {
	c.countBound()
	return append(c.session.loops(), c.batch.ending, c.polls.loop)
}

// Cleared reports that the work of earlier processes of the directory is gone, or taken over. The
// executor of a real cell has ensured that when it is open, except for containers that survive
// KILL and have no name any more. If the Runtime of a cell reports otherwise, the leader does not
// treat the end of its predecessors as proven before.
func (c *Cell) Cleared() { c.session.step(worker.PredecessorsCleared{}) }

// namelessEnded removes such a container. With the last one all earlier work is gone.
func (c *Cell) namelessEnded(id string) {
	c.containers.delete(id)
	if !c.containers.nameless() {
		c.Cleared()
	}
}

// Over returns the reason why the cell must end: a *Displaced, or nil when it has left.
func (c *Cell) Over() (bool, error) {
	select {
	case <-c.exit.done:
		return true, c.exit.err
	case <-c.session.acts.ended:
		return true, nil
	default:
		return false, nil
	}
}

// lifetime returns when the cell must end: in order, or because the leader ordered it.
func (c *Cell) lifetime(outer, inner context.Context) error {
	select {
	case <-c.exit.done:
		return c.exit.err
	case <-inner.Done():
		return inner.Err()
	case <-outer.Done():
	}
	c.leave(inner)
	return context.Canceled
}

// Leave takes no new work, stops all work that does not outlive the cell, and makes the session
// deregister when none is left. If all remaining work outlives it, it announces that the next
// process of the directory will return. It does not wait for any of that.
func (c *Cell) Leave() {
	c.leaving.Store(true)
	c.countBound()
	c.session.step(worker.LeaveAsked{})
	for _, ct := range c.exec.List() {
		if c.outlives(&ct) || ct.State == executor.Completed {
			continue
		}
		c.containers.stop(ct.ID, reasonLeaving)
	}
}

// leave does so and waits, bounded.
func (c *Cell) leave(ctx context.Context) {
	limit, cancel := context.WithTimeout(ctx, c.cfg.Leave)
	defer cancel()
	c.Leave()
	select {
	case <-c.session.acts.ended:
		return
	default:
		c.log.Info("shutting down: stopping work and deregistering from the leader", "timeout", c.cfg.Leave)
	}
	abandoned, ended := c.cfg.Abandoned, chan struct{}(nil)
	for {
		select {
		case <-c.session.acts.ended:
			return
		case <-c.exit.done:
			return
		case <-abandoned:
			abandoned, ended = nil, c.ended
		case <-ended:
		case <-limit.Done():
			c.log.Warn("exiting without deregistration: no answer from the leader, or work is still running", "after",
				c.cfg.Leave)
			return
		}
		if ended != nil && !c.ending() {
			return
		}
	}
}

// ending reports whether work has still to end that does not outlive the cell.
func (c *Cell) ending() bool {
	return slices.ContainsFunc(c.exec.List(), func(ct executor.Container) bool {
		return !c.outlives(&ct) && ct.State != executor.Completed
	})
}

// outlives reports whether a container is kept at a restart of the cell.
func (c *Cell) outlives(ct *executor.Container) bool { return ct.Kept }

// runEvents triggers early the work of a poll.
func (c *Cell) runEvents(ctx context.Context, s Events) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-s.Events():
			if !ok {
				return errors.New("executor has stopped")
			}
			if s.Lost() > 0 {
				c.polls.pollNow()
			}
			c.Happened(e)
		}
	}
}

// Happened takes an event of the executor. It does not wait.
func (c *Cell) Happened(e executor.Event) {
	switch e.Kind {
	case executor.EventRunning, executor.EventRoutable:
		if c.leaving.Load() {
			c.countBound()
		}
		c.look(&e.Container)
	case executor.EventCompleted:
		select {
		case c.ended <- struct{}{}:
		default:
		}
		// An ended one may stay until the leader accepts this process again, and the leader does not
		// accept one that reports work.
		c.recount(&e.Container)
		c.look(&e.Container)
	case executor.EventDeleted:
		c.containers.forget(e.Container.ID)
		c.recount(&e.Container)
		c.emptied()
	case executor.EventExpired, executor.EventDrained, executor.EventStuck:
		c.countBound()
	case executor.EventSlow, executor.EventEnding:
		c.LinkBroken() // the leader gets its phase, or its end, at once
	case executor.EventReserved:
	}
}

// recount counts again when the state of a counted container has changed.
func (c *Cell) recount(ct *executor.Container) {
	if c.leaving.Load() || ct.DeadlineBound && ct.Labels[labelKind] != kindBatch {
		c.countBound()
	}
}

// look brings one container and its row together, in the order of its key.
func (c *Cell) look(ct *executor.Container) {
	if ct.Labels[labelKind] != kindBatch {
		c.push(ct.ID)
		return
	}
	if ct.State == executor.Completed {
		c.batch.batchEnded(ct)
	}
}

func (c *Cell) push(id string) {
	c.queue.Push(id, func(ctx context.Context) {
		labels, state, ok := c.containers.brief(id)
		if !ok {
			return
		}
		switch labels[labelKind] {
		case kindLRP:
			c.rows.harmoniseLRP(ctx, id)
		case kindTask:
			c.rows.harmoniseTask(ctx, id)
		case "":
			if state == executor.Completed {
				c.namelessEnded(id)
			}
		}
	})
}

// countBound passes to the session the number of deadline-bound containers besides batch tasks,
// and the number of those that outlive the cell.
func (c *Cell) countBound() {
	c.counting.Lock()
	defer c.counting.Unlock()
	var n worker.BoundCount
	leaving := c.leaving.Load()
	for _, ct := range c.exec.List() {
		bound := ct.DeadlineBound || ct.Labels[labelKind] == kindBatch
		switch {
		case bound && ct.Outlives():
			n.Lasting++
		case ct.Outlives():
			n.Kept++
		}
		if ct.Labels[labelKind] == kindBatch {
			continue
		}
		alive := ct.State != executor.Completed || ct.Stuck != nil
		// A leaving cell deregisters only if no work is left except containers that cannot be reported
		// to any leader.
		if ct.DeadlineBound && alive || leaving && !c.outlives(&ct) && (alive || !c.rows.unreadable(&ct)) {
			n.Containers++
		}
	}
	c.session.step(n)
}

// sameState compares the fields that can change while a cell runs.
func sameState(a, b placement.State) bool {
	return a.Draining == b.Draining && a.Unavailable == b.Unavailable && a.Capacity.Equal(b.Capacity) &&
		a.Foreign.Equal(b.Foreign) && maps.Equal(a.Withdrawn, b.Withdrawn)
}

// leavingText is why a cell whose process is ending takes no work.
const leavingText = "its process is shutting down"
