// Package step runs a container's workload: it interprets the action tree, coordinates setup,
// action, sidecars, health and readiness checks, and reports the result. (Diego executor, Step
// semantics; Diego dev notes, Health checks.)
//
//	setup ──ok──▶ action + sidecars + checks ──decided──▶ the others cancelled ──all gone──▶ Result
//	                │ no checks: the first program of the action has started
//	                │ checks: each has passed once
//	                ▼
//	             RUNNING ──readiness checks──▶ routable or not, any number of times
//
// The end is decided by:
//
//   - the action, if it fails; if it succeeds without checks, or with sidecars. A checked
//     action without sidecars may end with status 0 and leave its work to background
//     processes: then the checks decide.
//   - the end of a sidecar, in any way.
//   - a check: not every one has passed within the start timeout, or one fails after it
//     had passed.
//   - the time limit, or ctx.
//
// Past ends are collected before a deadline is handled or a program is stopped: while the cell was
// stopped, programs continued. (Decision 0428.)
//
// The package decides when and in which order; the Host starts, signals and waits for programs. It
// uses no clock except the timers of package time and of contexts, and the boot clock that it is
// given.
//
// The executor runs one Engine for all its containers. It may run a workload of a single program
// without checks without this package.
package step

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"cantina/action"
	"cantina/executor/place"
	"cantina/image/cache"
	"cantina/internal/run"
)

// Host is the executor's part for one container.
type Host interface {
	// Start starts a program in the container. It does not wait for it.
	Start(ctx context.Context, l Launch) (Process, error)
	// Dial connects to a declared port of the container, by name.
	Dial(ctx context.Context, port string) (net.Conn, error)
	// Place returns where on the cell a path of the container is.
	Place(path string) (Place, error)
	// Full returns why the container may not continue if it exceeds its disk limit; nil else. It is
	// called when a program or a transfer has ended.
	Full() error
	// Local copies a file of the machine, which may be where nothing answers, to where it
	// can be read; the caller removes the copy.
	Local(ctx context.Context, path string) (copied string, remove func() error, err error)
}

// Observer receives the events. Its methods return at once and may be called from several
// goroutines.
type Observer interface {
	// Note takes a line for the container's log.
	Note(line string)
	// Waiting is called before the container is RUNNING: it waits for its health checks, and how
	// their latest attempt failed, if any has.
	Waiting(reason string)
	// Running is called at most once: the container is RUNNING.
	Running()
	// Decided is called at most once, before the first signal: the result of the workload is fixed,
	// and programs of it are to be ended first. ErrCanceled: ctx has ended.
	Decided(Result)
	// Routable is called at each change once the container is RUNNING.
	Routable(ok bool)
}

// Launch is a program to be started.
type Launch struct {
	Run *action.Run
	// Out takes both output streams; nil = the container's own streams.
	Out io.WriteCloser
	// Check: it is a check's program, not a main program of the container.
	Check bool
}

// Process is a started program.
type Process interface {
	// Done is closed when it has ended and was waited for. Ended collects a past end, and other past
	// ends of the container, and reports whether Done is closed.
	Done() <-chan struct{}
	Ended() bool
	// Exit is how it ended; valid after Done.
	Exit() Exit
	// Stop sends the workload's stop signal, Kill sends KILL. Each goes to the program and its
	// processes, as far as the host can distinguish them from the rest of the container. Both return
	// at once; on an ended process they do nothing.
	Stop()
	Kill()
}

// Exit is how a program ended.
type Exit struct {
	Code        int // meaningless when Signal is not 0
	Signal      int
	OutOfMemory bool
	// Stopped: it, or the whole container, was stopped before it ended.
	Stopped bool
	// Killed: the host killed all of the container at a request before it ended, which may come
	// before the interpreter has seen the request.
	Killed bool
	// TimeLimit: its host ended it, since the workload's time limit was over.
	TimeLimit bool
}

// Place is a path of the container as seen from the cell.
type Place struct {
	place.Place
	// Carry puts a file there ("put"), or takes a copy of one from there ("take"), where
	// the cell shall not touch the path itself; nil = it may.
	Carry func(ctx context.Context, verb string, f place.File) error
	// Copy is the path of that copy.
	Copy string
}

// How many of each kind run at a time on the whole cell.
const (
	maxDownloads = 5
	maxUploads   = 5
	maxChecks    = 64
)

// Engine runs workloads. Make one with New; it is safe for concurrent use.
type Engine struct {
	cache     *cache.Cache
	client    *http.Client
	downloads slots
	uploads   slots
	checks    slots
	clock     run.Clock
}

// New makes an Engine that downloads through c. It starts nothing.
func New(c *cache.Cache, clock run.Clock) *Engine {
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 5 * time.Minute, DisableKeepAlives: true}}
	return &Engine{clock: clock, cache: c, client: client, downloads: make(slots, maxDownloads),
		uploads: make(slots, maxUploads), checks: make(slots, maxChecks)}
}

// slots bounds how many do something at a time.
type slots chan struct{}

func (s slots) take(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return canceled(ctx)
	}
}

func (s slots) give() { <-s }

// Spent is how long a container has taken before its workload is run here.
type Spent struct {
	Total time.Duration // counts for the time limit
	Start time.Duration // counts for the start timeout
}

// Result is how a workload ended.
type Result struct {
	// Err is nil after success. Reason(Err) is shown.
	Err error
	// Process is the program that decided: the one that failed, else the last one of
	// the action; nil when none was started.
	Process Process
}

// program is one workload being run.
type program struct {
	e *Engine
	w *action.Workload
	h Host
	o Observer

	total   time.Duration // boot time from which the time limit counts
	since   time.Duration // boot time from which the start timeout counts
	running chan struct{} // closed when RUNNING
	once    sync.Once
	begun   chan struct{} // closed when the action's first program has started, or it has none
	begin   sync.Once
	starts  atomic.Int32 // in progress

	mu   sync.Mutex
	last Process // of the action

	why      func(error) error
	decision decision
}

// decision is how the workload ends, fixed once while programs are yet to be ended.
type decision struct {
	mu      sync.Mutex
	made    bool
	verdict *error // that Decided has taken; nil = none, or it was canceled
}

// Run runs the workload to its end and returns when all processes that it started have ended or
// survive KILL (ErrStuck). When ctx ends it stops running programs according to the workload's
// Termination, and the error is ErrCanceled.
func (e *Engine) Run(ctx context.Context, w *action.Workload, spent Spent, h Host, o Observer) Result {
	now := e.clock.Boot()
	p := &program{e: e, w: w, h: h, o: o, total: now - spent.Total, since: now - spent.Start,
		running: make(chan struct{}), begun: make(chan struct{})}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if w.TimeLimit > 0 {
		limited, cancel = e.clock.Until(ctx, p.total+w.TimeLimit, &limitError{w.TimeLimit})
	}
	defer cancel()
	limited, release := p.limitStart(limited)
	defer release()
	p.why = func(err error) error { return because(ctx, limited, err) }
	return p.result(p.upheld(ctx, p.why(p.all(limited))))
}

// because is err, or the limit that canceled the run.
func because(ctx, limited context.Context, err error) error {
	var limit *limitError
	var late *startError
	switch cause := context.Cause(limited); {
	case err == nil || ctx.Err() != nil || !errors.Is(err, ErrCanceled):
	case errors.As(cause, &limit):
		return limit
	case errors.As(cause, &late):
		return late
	}
	return err
}

// decide fixes how the workload ends, once, while programs are yet to be ended. It returns
// when that is recorded.
func (p *program) decide(err error) {
	d := &p.decision
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.made {
		return
	}
	d.made = true
	if err = p.why(err); !errors.Is(err, ErrCanceled) {
		d.verdict = &err
	}
	p.o.Decided(p.result(err))
}

// upheld is the verdict that was recorded, else err; a program that does not end is added.
func (p *program) upheld(ctx context.Context, err error) error {
	switch verdict := p.decision.verdict; {
	case verdict == nil || errors.Is(err, ErrStuck) && ctx.Err() == nil:
		return err
	case errors.Is(err, ErrStuck):
		return join(*verdict, ErrStuck)
	default:
		return *verdict
	}
}

// result is how the workload ended with err.
func (p *program) result(err error) Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := Result{Err: err, Process: p.last}
	var exit *ExitError
	if errors.As(err, &exit) {
		r.Process = exit.Process
	}
	return r
}

// limitStart ends the run when the container is not RUNNING in time. Once it is checked, the
// checks see to that.
func (p *program) limitStart(ctx context.Context) (context.Context, func()) {
	if p.w.StartTimeout <= 0 {
		return ctx, func() {}
	}
	inner, fail := context.WithCancelCause(ctx)
	var t *time.Timer
	t = time.AfterFunc(time.Hour, func() {
		switch {
		case p.started():
		case p.starts.Load() > 0: // one that hangs is given up by the host, which knows where
			t.Reset(100 * time.Millisecond)
		default:
			fail(&startError{p.w.StartTimeout})
		}
	})
	t.Reset(p.w.StartTimeout - (p.e.clock.Boot() - p.since))
	return inner, func() {
		t.Stop()
		fail(nil)
	}
}

// started reports whether the container is RUNNING, or its checks decide about that.
func (p *program) started() bool {
	wait := p.running
	if p.checked() {
		wait = p.begun
	}
	select {
	case <-wait:
		return true
	default:
		return false
	}
}

// startError: the container did not become RUNNING in time.
type startError struct{ limit time.Duration }

func (e *startError) Error() string {
	return fmt.Sprintf("not RUNNING within the start timeout of %v", e.limit)
}

// limitError: the whole run took too long.
type limitError struct{ limit time.Duration }

func (e *limitError) Error() string { return fmt.Sprintf("time limit of %v exceeded", e.limit) }
func (e *limitError) Unwrap() error { return ErrTimeLimit }

func (p *program) all(ctx context.Context) error {
	if p.w.Setup != nil {
		failed := func(err error) {
			if err != nil {
				p.decide(prefix("setup", err))
			}
		}
		if err := p.do(ctx, p.w.Setup, scope{decided: failed}); err != nil {
			return prefix("setup", err)
		}
	}
	if p.checked() || len(p.w.Sidecars) > 0 || len(p.w.ReadinessChecks) > 0 {
		return p.group(ctx)
	}
	return p.do(ctx, &p.w.Action, scope{main: true, started: p.becomeRunning, decided: p.decide})
}

// checked reports whether checks decide when the container is RUNNING.
func (p *program) checked() bool { return len(p.w.Checks) > 0 || p.w.Monitor != nil }

func (p *program) becomeRunning() {
	p.once.Do(func() {
		p.o.Running()
		close(p.running)
		if len(p.w.ReadinessChecks) == 0 {
			p.o.Routable(true)
		}
	})
}

// member is one part of the group that lives and ends together.
type member int

const (
	memberAction member = iota
	memberSidecar
	memberHealth
	memberReadiness
)

type ending struct {
	who   member
	err   error
	taken chan struct{} // it has yet to end, but will with err; closed when that is recorded
}

// group runs action, sidecars and checks until one of them decides.
func (p *program) group(ctx context.Context) error {
	gctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ends := make(chan ending)
	n := 0
	add := func(who member, run func(context.Context) error) {
		n++
		go func() { ends <- ending{who: who, err: run(gctx)} }()
	}
	early := func(who member, err error) {
		e := ending{who, err, make(chan struct{})}
		ends <- e
		<-e.taken
	}
	add(memberAction, func(ctx context.Context) error {
		begin := func() { p.begin.Do(func() { close(p.begun) }) }
		defer begin()
		started := p.becomeRunning
		if p.checked() {
			started = begin
		}
		return p.do(ctx, &p.w.Action, scope{main: true, started: started,
			decided: func(err error) { early(memberAction, err) }})
	})
	for i := range p.w.Sidecars {
		add(memberSidecar, func(ctx context.Context) error {
			end := func(err error) error {
				if err == nil {
					err = ErrEnded
				}
				return prefix(fmt.Sprintf("sidecar %d", i), err)
			}
			return end(p.do(ctx, &p.w.Sidecars[i], scope{decided: func(err error) { early(memberSidecar, end(err)) }}))
		})
	}
	if p.checked() {
		add(memberHealth, p.health)
	}
	if len(p.w.ReadinessChecks) > 0 {
		add(memberReadiness, p.readiness)
	}
	return p.await(ctx, cancel, ends, n, 1+len(p.w.Sidecars))
}

// unroute removes a RUNNING container that its health checks end from traffic: it may take long to
// stop.
func (p *program) unroute(who member) {
	if who != memberHealth {
		return
	}
	select {
	case <-p.running:
		p.o.Routable(false)
	default:
	}
}

// await waits for all n members; the first that decides ends the others. Parts are those
// among them that are no checks.
func (p *program) await(ctx context.Context, cancel func(), ends <-chan ending, n, parts int) error {
	decided := false
	var result, canceledBy error
	for n > 0 {
		e := <-ends
		if e.taken != nil {
			switch {
			case decided:
			case ctx.Err() != nil && errors.Is(e.err, ErrCanceled):
				p.decide(e.err)
			case !p.background(e):
				decided, result = true, e.err
				p.decide(e.err)
			}
			close(e.taken)
			continue
		}
		n--
		if e.who == memberAction || e.who == memberSidecar {
			parts--
		}
		switch {
		case decided:
			if errors.Is(e.err, ErrStuck) {
				result = join(result, e.err)
			}
			cancel()
			continue
		case ctx.Err() != nil && errors.Is(e.err, ErrCanceled):
			if canceledBy == nil || errors.Is(e.err, ErrStuck) {
				canceledBy = e.err // unless another had ended before
			}
			continue
		case e.who == memberReadiness:
			continue // ends only with the others
		case p.background(e):
			continue
		}
		decided, result = true, e.err
		p.unroute(e.who)
		if parts > 0 {
			p.decide(e.err)
		}
		cancel()
	}
	if !decided && canceledBy != nil {
		return canceledBy
	}
	return result
}

// background reports whether the action has succeeded and left background processes to the checks.
func (p *program) background(e ending) bool {
	return e.who == memberAction && e.err == nil && p.checked() && len(p.w.Sidecars) == 0
}
