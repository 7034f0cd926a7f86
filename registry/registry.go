package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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
	RunTasks(ctx context.Context, cell worker.CellName, calls []worker.RunTask, payloads []*batch.Payload) ([]worker.RunAnswer, error)
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

// Registry is the worker registry of one term.
type Registry struct {
	cfg Config
	log *slog.Logger

	ctx    context.Context // of all calls to cells; ends with Run or Close
	cancel context.CancelFunc
	calls  sync.WaitGroup

	mu        sync.Mutex
	leader    *worker.Leader
	payloads  map[fence.Invocation]*batch.Payload
	beats     map[beatKey]*beatWait
	statuses  map[statusKey][]statusWait
	runQueues map[queueKey]*runQueue
	kills     map[killKey]map[worker.Run]worker.KillTask // a key exists while a call is in progress
	reports   map[worker.Proc]int                        // getRunningTasks in progress
	over      error
}

type beatKey struct {
	proc worker.Proc
	beat int64
}

func (k beatKey) compare(o beatKey) int {
	return cmp.Or(cmp.Compare(k.proc, o.proc), cmp.Compare(k.beat, o.beat))
}

type statusKey struct {
	proc  worker.Proc
	kind  worker.StatusKind
	run   worker.Run
	probe int64
}

func (k statusKey) compare(o statusKey) int {
	return cmp.Or(cmp.Compare(k.proc, o.proc), cmp.Compare(k.kind, o.kind), k.run.Compare(o.run), cmp.Compare(k.probe, o.probe))
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
	ctx, cancel := context.WithCancel(context.Background())
	r := &Registry{cfg: cfg, log: cfg.Log, ctx: ctx, cancel: cancel, leader: leader, payloads: map[fence.Invocation]*batch.Payload{},
		beats: map[beatKey]*beatWait{}, statuses: map[statusKey][]statusWait{}, runQueues: map[queueKey]*runQueue{},
		kills: map[killKey]map[worker.Run]worker.KillTask{}, reports: map[worker.Proc]int{}}
	return r, nil
}

// tickPeriod is how often the leader reads the clocks: at least each second, with any check
// interval (that is longer than the drift of a long timeout).
func tickPeriod(check time.Duration) time.Duration {
	return max(min(check/4, time.Second), 10*time.Millisecond)
}

// Run ticks until ctx is done, then waits for every call to a cell.
func (r *Registry) Run(ctx context.Context) error {
	defer r.calls.Wait()
	defer r.cancel()
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
	e := worker.Tick{LeaseHeld: r.cfg.Store.LeaseHeld()}
	if r.cfg.Behind != nil {
		r.mu.Lock()
		late := r.leader.Late(r.now())
		r.mu.Unlock()
		for _, cell := range late {
			if r.cfg.Behind(cell) {
				e.Behind = append(e.Behind, cell)
			}
		}
	}
	r.step(e)
}

// End is the end of the term for a caller that drives a registry without Run.
func (r *Registry) End() { r.end(fault.ErrTermOver) }

// end lets all that wait for answers go.
func (r *Registry) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over != nil {
		return
	}
	r.over = err
	for _, k := range slices.SortedFunc(maps.Keys(r.beats), beatKey.compare) {
		r.beats[k].wake()
		delete(r.beats, k)
	}
	for _, k := range slices.SortedFunc(maps.Keys(r.statuses), statusKey.compare) {
		for _, w := range r.statuses[k] {
			w.call.end()
		}
		delete(r.statuses, k)
	}
}

// step passes one event to the machine and submits the output.
func (r *Registry) step(e worker.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.stepLocked(e); err != nil && r.over == nil && !errors.Is(err, worker.ErrDeposed) {
		r.log.Warn("refused", "event", fmt.Sprintf("%T", e), "error", err)
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

// spawn runs f beside everything else, and Run waits for it.
func (r *Registry) spawn(f func()) {
	if r.cfg.Runtime.Go != nil {
		r.cfg.Runtime.Go(f)
		return
	}
	r.calls.Go(f)
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
		r.answerBeat(e.Answer)
	case worker.AnswerStatus:
		r.answerStatus(e.Answer)
	case worker.SendReportRequest:
		r.askReport(e)
	case worker.SendRun:
		r.queueRun(e)
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
		r.call(func(ctx context.Context) { r.notify(ctx, e) })
	case worker.SendKill:
		r.queueKill(e)
	case worker.SendSuicide:
		r.call(func(ctx context.Context) {
			r.debug("RequestSuicide", e.Cell, r.cfg.Cells.RequestSuicide(ctx, e.Cell, e.Call))
		})
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

func (r *Registry) debug(call string, cell worker.CellName, err error) {
	if err != nil {
		r.log.Debug("call failed", "call", call, "cell", string(cell), "error", err)
	}
}

// call runs f in a goroutine of the registry, unless the term is over.
func (r *Registry) call(f func(context.Context)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over == nil {
		r.spawn(func() { f(r.ctx) })
	}
}

// maxReports limits the getRunningTasks in progress for one process: the leader sends one with
// every heartbeat of a new session, and one that hangs must not be the only one.
const maxReports = 2

// askReport requests a process's running work, unless enough requests are in progress. The lock is
// held.
func (r *Registry) askReport(e worker.SendReportRequest) {
	if r.over != nil || r.reports[e.Call.Proc] == maxReports {
		return
	}
	r.reports[e.Call.Proc]++
	r.spawn(func() { r.report(r.ctx, e) })
}

func (r *Registry) report(ctx context.Context, e worker.SendReportRequest) {
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.reports[e.Call.Proc]--; r.reports[e.Call.Proc] == 0 {
			delete(r.reports, e.Call.Proc)
		}
	}()
	got, err := r.cfg.Cells.GetRunningTasks(ctx, e.Cell, e.Call)
	if err != nil {
		r.debug("GetRunningTasks", e.Cell, err)
		return
	}
	r.step(worker.ReportReceived{Report: got})
}

func (r *Registry) notify(ctx context.Context, e worker.SendNotify) {
	got, err := r.cfg.Cells.NotifyIfTasksNotRunning(ctx, e.Cell, e.Call)
	if err != nil {
		r.debug("NotifyIfTasksNotRunning", e.Cell, err)
		got = worker.NotifyAnswer{Term: e.Call.Term, Proc: e.Call.Proc, Seq: e.Call.Seq}
	}
	r.step(worker.NotifyAnswered{Answer: got})
}
