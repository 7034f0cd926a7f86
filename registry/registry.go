package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"cantina/batch"
	"cantina/fault"
	"cantina/fence"
	"cantina/internal/run"
	"cantina/store"
	"cantina/worker"
)

// Store is the part of a term that the registry needs.
type Store interface {
	Submit(t store.Transition, done func(revision int64, err error))
	ClearRestored(done func(revision int64, err error))
	LeaseHeld() bool
}

// Cells sends calls to cells. An error of a call is an unknown outcome, unless NeverSent reports
// that the call certainly was not sent.
type Cells interface {
	GetRunningTasks(ctx context.Context, cell worker.CellName, q worker.ReportRequest) (worker.Report, error)
	// RunTasks sends calls of one term, process and sequence number; payloads has the
	// work of each (nil for a probe). One answer for each batch task, in order.
	RunTasks(ctx context.Context, cell worker.CellName, calls []worker.RunTask,
		payloads []*batch.Payload) ([]worker.RunAnswer, error)
	NotifyIfTasksNotRunning(ctx context.Context, cell worker.CellName, q worker.Notify) (worker.NotifyAnswer, error)
	// KillTask sends calls of one term and process.
	KillTask(ctx context.Context, cell worker.CellName, calls []worker.KillTask) error
	RequestSuicide(ctx context.Context, cell worker.CellName, s worker.Suicide) error
	NeverSent(err error) bool
}

// Listener receives the consequences of session changes, after they are durable, in order, from
// one goroutine at a time. Its methods may call the registry; they must not wait.
type Listener interface {
	SessionChanged(worker.SessionChanged)
	Unheard(worker.Unheard)
	Availability(worker.Availability)
	Eligible(worker.Eligible)
	Dead(worker.Dead)
	Ended(worker.Ended)
	StartsChanged()
	Audit(worker.Audit)
	// Deposed: a higher term was received; the term must end.
	Deposed(higher fence.Term)
}

// Config has the parts of a registry. Worker's Members, List, Now and Statuses are filled in.
type Config struct {
	Worker   worker.Config
	Store    Store
	Cells    Cells
	Listener Listener
	Statuses worker.Statuses
	Clock    run.Clock
	Log      *slog.Logger
	// Behind reports whether something has arrived from a cell that is not handled; nil = never.
	Behind func(worker.CellName) bool
	// Runtime is how the registry's calls run and wait; a simulator has its own.
	Runtime Runtime
}

// Runtime is how calls run concurrently, wait, and are limited in time. Unset fields are those of
// a real process: goroutines, channels and timers.
type Runtime struct {
	// Go has f run beside everything else.
	Go     func(f func())
	Park   run.Park
	Within func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	// Machine makes the leader's end of the protocol.
	Machine func(worker.Config) (*worker.Leader, error)
	// Watch, if set, gets each event before it is applied, and the function that it returns gets the
	// output. Neither may call the registry.
	Watch func(worker.Event) func(worker.Output, error)
}

func (g Runtime) withDefaults() Runtime {
	if g.Park == nil {
		g.Park = run.OnChannel
	}
	if g.Within == nil {
		g.Within = context.WithTimeout
	}
	if g.Machine == nil {
		g.Machine = worker.NewLeader
	}
	return g
}

// Registry is the worker registry of one term: it passes events to the machine, and its output to
// the store, the cells and the listener.
type Registry struct {
	machine
	cfg     Config
	log     *slog.Logger
	calls   *calls
	answers answers
}

// machine is the leader's end of the worker protocol under its lock: the sessions of the cells, the
// model of running work, and whether the term is over. Questions about them are its methods.
type machine struct {
	now    func() time.Duration
	mu     sync.Mutex
	leader *worker.Leader
	over   error
}

// New loads the members and begins the term. It returns ErrTimeouts for impossible timeouts.
func New(cfg Config, rows []store.Row) (*Registry, error) {
	cfg.Runtime = cfg.Runtime.withDefaults()
	members, list, bad := load(rows, cfg.Worker.Timeouts)
	for _, text := range bad {
		cfg.Log.Error("member row cannot be read; waiting as long as the longest promise", "row", text)
	}
	w := cfg.Worker
	w.Alone = isAlone(w.Cluster, rows)
	w.Members, w.List, w.Now, w.Unix, w.Statuses = members, list, cfg.Clock.Boot(), cfg.Clock.Wall().Unix(), cfg.Statuses
	leader, err := cfg.Runtime.Machine(w)
	if err != nil {
		return nil, fmt.Errorf("registry: %w", err)
	}
	r := &Registry{cfg: cfg, log: cfg.Log, machine: machine{now: cfg.Clock.Boot, leader: leader},
		answers: answers{park: cfg.Runtime.Park, beats: map[beatKey]*beatWait{}, statuses: map[statusKey][]statusWait{}}}
	r.calls = newCalls(&r.machine, &cfg, r.step)
	return r, nil
}

// tickPeriod is how often the leader reads the clocks: at least each second, with any check
// interval (that is longer than the drift of a long timeout).
func tickPeriod(check time.Duration) time.Duration {
	return max(min(check/4, time.Second), 10*time.Millisecond)
}

// Run ticks until ctx is done, then waits for every call to a cell.
func (r *Registry) Run(ctx context.Context) error {
	defer r.calls.active.Wait()
	defer r.calls.cancel()
	r.Begin()
	tick := time.NewTicker(tickPeriod(r.cfg.Worker.Timeouts.Check))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			r.end(fault.ErrTermOver)
			return ctx.Err()
		case <-tick.C:
			r.Tick()
		}
	}
}

// Begin submits the first output of a term. Run does it; a caller that drives a registry without
// Run does it once, and calls Tick regularly.
func (r *Registry) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.submit(r.leader.Start())
}

// Tick looks at every deadline.
func (r *Registry) Tick() {
	r.step(worker.Tick{LeaseHeld: r.cfg.Store.LeaseHeld(), Behind: r.behind()})
}

// Behind returns how many cells are late, and have sent something that is not handled: this leader is late.
func (r *Registry) Behind() int { return len(r.behind()) }

func (r *Registry) behind() (cells []worker.CellName) {
	if r.cfg.Behind == nil {
		return nil
	}
	for _, cell := range r.late() {
		if r.cfg.Behind(cell) {
			cells = append(cells, cell)
		}
	}
	return cells
}

// End is the end of the term for a caller that drives a registry without Run.
func (r *Registry) End() { r.end(fault.ErrTermOver) }

// end is the end of the term: all that wait for answers get an error.
func (r *Registry) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over == nil {
		r.over = err
		r.answers.end()
	}
}

// step passes events to the machine, in order, until it refuses one, and submits the output.
func (r *Registry) step(events ...worker.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		err := r.stepLocked(e)
		if err == nil {
			continue
		}
		if r.over == nil && !errors.Is(err, worker.ErrDeposed) {
			r.log.Warn("refused", "event", fmt.Sprintf("%T", e), "error", err)
		}
		return
	}
}

func (r *Registry) stepLocked(e worker.Event) error {
	if r.over != nil {
		return r.over
	}
	out, err := r.take(e)
	if err == nil {
		r.submit(out)
	}
	return err
}

// take hands one event to the machine.
func (r *Registry) take(e worker.Event) (worker.Output, error) {
	watch := r.cfg.Runtime.Watch
	if watch == nil {
		return r.leader.Step(r.now(), e)
	}
	after := watch(e)
	out, err := r.leader.Step(r.now(), e)
	after(out, err)
	return out, err
}

// submit performs effects at once that need no commit, and queues the rest of an output behind all
// earlier ones. It is called with mu held, so that outputs are submitted in the order in which
// they were made.
func (r *Registry) submit(out worker.Output) {
	atOnce, after, commit := out.Split()
	for _, e := range atOnce {
		r.performLocked(e)
	}
	if !commit {
		return
	}
	ops, restored := opsOf(r.cfg.Worker.Cluster, out.Rows)
	if restored {
		r.cfg.Store.ClearRestored(func(_ int64, err error) {
			if err != nil {
				r.end(err)
			}
		})
	}
	r.cfg.Store.Submit(store.Transition{Ops: ops}, func(_ int64, err error) {
		if err != nil {
			r.end(err)
			return
		}
		for _, e := range after {
			r.perform(e)
		}
		r.step(worker.Committed{Seq: out.Seq})
	})
}

// performLocked performs effects that need the lock, which is held, and reports whether this was
// one. It never waits.
func (r *Registry) performLocked(e worker.Effect) bool {
	switch e := e.(type) {
	case worker.AnswerBeat:
		r.answers.beat(e.Answer)
	case worker.AnswerStatus:
		r.answers.status(e.Answer)
	case worker.SendReportRequest:
		r.calls.report(e)
	case worker.SendRun:
		r.calls.run(e)
	default:
		return false
	}
	return true
}

// perform does one effect after its commit. It never waits.
func (r *Registry) perform(e worker.Effect) {
	r.mu.Lock()
	done := r.performLocked(e)
	r.mu.Unlock()
	if done {
		return
	}
	switch e := e.(type) {
	case worker.SendNotify:
		r.calls.start(func() { r.calls.notify(e) })
	case worker.SendKill:
		r.calls.kill(e)
	case worker.SendSuicide:
		r.calls.start(func() { r.calls.suicide(e) })
	case worker.SessionChanged:
		r.cfg.Listener.SessionChanged(e)
	case worker.Unheard:
		r.cfg.Listener.Unheard(e)
	case worker.Availability:
		r.cfg.Listener.Availability(e)
	case worker.Eligible:
		r.cfg.Listener.Eligible(e)
	case worker.Dead:
		r.cfg.Listener.Dead(e)
	case worker.Ended:
		r.cfg.Listener.Ended(e)
	case worker.StartsChanged:
		r.cfg.Listener.StartsChanged()
	case worker.Audit:
		r.cfg.Listener.Audit(e)
	case worker.EndTerm:
		r.end(fault.ErrTermOver)
		r.cfg.Listener.Deposed(e.Higher)
	}
}

// Term returns the term of the leader.
func (r *Registry) Term() fence.Term { return r.cfg.Worker.Term }

// StartBatch starts a batch task on q.Cell if it may: the invocation enters the model. After
// everything before it is durable, the result of payload is sent to the cell. payload gets the
// invocation before it is assigned, and may refuse it: then nothing has started, HoldVetoed is
// returned, and the next start gets this invocation. No start comes between the two.
func (r *Registry) StartBatch(q worker.Request,
	payload func(fence.Invocation) (p batch.Payload, ok bool)) (fence.Invocation, worker.Hold, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return fence.Invocation{}, worker.Hold{Reason: worker.HoldDeposed}, false
	}
	now := r.now()
	if h, ok := r.leader.MayStart(now, q); !ok {
		return fence.Invocation{}, h, false
	}
	p, ok := payload(r.leader.NextInvocation())
	if !ok {
		return fence.Invocation{}, worker.Hold{Reason: worker.HoldVetoed}, false
	}
	inv, out, err := r.leader.RunBatch(now, q)
	if err != nil { // it may start, according to a check under the same lock
		r.log.Error("start refused although it was allowed", "job", q.Work.Job, "node", q.Work.Node, "error", err)
		return fence.Invocation{}, worker.Hold{Reason: worker.HoldVetoed}, false
	}
	r.calls.payloads[inv] = &p
	r.submit(out)
	return inv, worker.Hold{}, true
}

// Kill ends an invocation; repeated until it has ended.
func (r *Registry) Kill(x worker.Run) { r.step(worker.KillWanted{Run: x}) }

// StatusCommitted acknowledges an end that the scheduler received.
func (r *Registry) StatusCommitted(x worker.Run, kind worker.Synthetic) {
	r.step(worker.StatusCommitted{Run: x, Kind: kind})
}

// EndWait is an operator's end of the initial wait; double starts are accepted.
func (r *Registry) EndWait(by string) error { return r.operator(worker.EndWait{By: by}) }

// Adopt lets a cell of another cluster join this one, by an operator's request.
func (r *Registry) Adopt(name worker.CellName, by string) error {
	return r.operator(worker.AdoptWanted{Cell: name, By: by})
}

// Forget declares a process dead, by an operator's request. worker.ErrUnknownProcess if the id is
// unknown.
func (r *Registry) Forget(proc worker.Proc, by string) error {
	return r.operator(worker.Forget{Proc: proc, By: by})
}

func (r *Registry) operator(e worker.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return r.over
	}
	out, err := r.take(e)
	if err != nil {
		return err
	}
	r.submit(out)
	return nil
}
