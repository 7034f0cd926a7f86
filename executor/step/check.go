package step

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"cantina/action"
	"cantina/internal/run"
	"cantina/internal/text"
)

// The defaults of checks. (Diego executor, Health checks.)
const (
	defaultTimeout  = time.Second
	defaultStartup  = 2 * time.Second
	defaultInterval = 30 * time.Second
	// firstPause is how long after its first failure a starting check is repeated; the
	// pauses double up to the start-up interval, so that a fast program is RUNNING fast.
	firstPause = 100 * time.Millisecond
)

// checker is one check, ready to be repeated.
type checker struct {
	attempt  func(ctx context.Context) error
	startup  time.Duration
	interval time.Duration

	attempts int
	last     error
	failed   func(error) // gets each failed attempt of untilSuccess; may be nil
}

func orElse(d, fallback time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return fallback
}

func (p *program) checker(c *action.Check) *checker {
	timeout := orElse(c.Timeout, defaultTimeout)
	name := ""
	var try func(ctx context.Context) error
	switch {
	case c.HTTP != nil:
		name = fmt.Sprintf("HTTP check of port %s, path %s", c.HTTP.Port, rooted(c.HTTP.Path))
		try = func(ctx context.Context) error { return p.checkHTTP(ctx, c.HTTP) }
	case c.TCP != nil:
		name = "TCP check of port " + c.TCP.Port
		try = func(ctx context.Context) error { return p.checkTCP(ctx, c.TCP) }
	case c.Exec != nil:
		name = "check " + c.Exec.Path
		try = func(ctx context.Context) error { return p.checkProgram(ctx, &action.Action{Run: c.Exec}) }
	default:
		try = func(context.Context) error { return ErrEmpty }
	}
	return &checker{startup: orElse(c.StartupInterval, defaultStartup), interval: orElse(c.Interval, defaultInterval),
		attempt: func(ctx context.Context) error {
			err := p.bounded(ctx, timeout, try)
			var exit *ExitError // names the program
			if err != nil && name != "" && ctx.Err() == nil && !errors.As(err, &exit) {
				err = fmt.Errorf("%s: %w", name, err)
			}
			return err
		}}
}

// rooted is the path of a request.
func rooted(path string) string { return "/" + strings.TrimPrefix(path, "/") }

// statusError is a response that is no success.
type statusError struct {
	code int
	line string // the first of its body, as far as it arrived in time
}

func (e *statusError) Error() string {
	if e.line == "" {
		return fmt.Sprintf("status %d", e.code)
	}
	return fmt.Sprintf("status %d: %s", e.code, e.line)
}

// bounded makes one attempt within its time and the cell's number of checks.
func (p *program) bounded(ctx context.Context, timeout time.Duration, try func(context.Context) error) error {
	if err := p.e.checks.take(ctx); err != nil {
		return err
	}
	defer p.e.checks.give()
	inner, cancel := run.Patient(ctx, timeout)
	defer cancel()
	err := try(inner)
	var own *ExitError
	var status *statusError
	if err != nil && ctx.Err() == nil && inner.Err() != nil && !errors.As(err, &own) && !errors.As(err, &status) {
		return fmt.Errorf("timed out after %v", timeout)
	}
	return err
}

// checkers are those of the workload; the monitor action counts as one.
func (p *program) checkers() []*checker {
	if len(p.w.Checks) == 0 && p.w.Monitor != nil {
		return []*checker{{startup: defaultStartup, interval: defaultInterval, attempt: func(ctx context.Context) error {
			if err := p.e.checks.take(ctx); err != nil {
				return err
			}
			defer p.e.checks.give()
			return p.checkProgram(ctx, p.w.Monitor)
		}}}
	}
	return p.prepare(p.w.Checks)
}

func (p *program) prepare(checks []action.Check) []*checker {
	cs := make([]*checker, len(checks))
	for i := range checks {
		cs[i] = p.checker(&checks[i])
	}
	return cs
}

// health waits until every check has passed once and then until one fails. It begins when the
// action's first program has started.
func (p *program) health(ctx context.Context) error {
	select {
	case <-p.begun:
	case <-ctx.Done():
		return canceled(ctx)
	}
	cs := p.checkers()
	p.o.Note("waiting for the health checks to pass")
	p.o.Waiting("")
	for _, c := range cs {
		c.failed = func(err error) { p.o.Waiting(Reason(err)) }
	}
	if err := p.startup(ctx, cs); err != nil {
		return err
	}
	p.o.Note("container became healthy")
	p.becomeRunning()
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, len(cs))
	for _, c := range cs {
		go func() { failed <- c.untilFailure(inner) }()
	}
	err := <-failed
	cancel()
	for range len(cs) - 1 {
		<-failed
	}
	if ctx.Err() != nil {
		return canceled(ctx)
	}
	p.o.Note("container became unhealthy: " + Reason(err))
	return fmt.Errorf("%w: %w", ErrUnhealthy, err)
}

// startup runs all checks until each has passed once.
func (p *program) startup(ctx context.Context, cs []*checker) error {
	inner, cancel := ctx, context.CancelFunc(func() {})
	if p.w.StartTimeout > 0 {
		inner, cancel = p.e.clock.Until(ctx, p.since+p.w.StartTimeout, context.DeadlineExceeded)
	}
	defer cancel()
	var group sync.WaitGroup
	for _, c := range cs {
		group.Go(func() {
			if c.untilSuccess(inner); c.last != nil && inner.Err() != nil && ctx.Err() == nil && p.late() {
				c.try(ctx) // no check for some time
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return canceled(ctx)
	}
	var errs []error
	attempts := 0
	for _, c := range cs {
		attempts = max(attempts, c.attempts)
		errs = append(errs, c.last)
	}
	if err := join(errs...); err != nil {
		p.o.Note(fmt.Sprintf("not healthy within %v: the start-up checks never passed", p.w.StartTimeout))
		return fmt.Errorf("%w: never healthy within %v (%d attempts): %w", ErrUnhealthy, p.w.StartTimeout, attempts, err)
	}
	return nil
}

// lateBy is by how much a deadline is missed by a cell that was stopped, or had no processor.
const lateBy = 20 * time.Millisecond

// late reports whether the end of the start timeout was noticed late.
func (p *program) late() bool { return p.e.clock.Boot() > p.since+p.w.StartTimeout+lateBy }

// untilSuccess tries at the start-up cadence until the check passes or ctx ends.
func (c *checker) untilSuccess(ctx context.Context) {
	pause := min(firstPause, c.startup)
	for !c.try(ctx) && sleep(ctx, pause) == nil {
		pause = min(2*pause, c.startup)
	}
}

// try makes one attempt and reports whether no other is wanted: it passed, or ctx ended.
func (c *checker) try(ctx context.Context) bool {
	err := c.attempt(ctx)
	if err != nil && ctx.Err() != nil {
		if c.last == nil {
			c.last = errors.New("no answer")
		}
		return true
	}
	if c.attempts, c.last = c.attempts+1, err; err != nil && c.failed != nil {
		c.failed(err)
	}
	return err == nil
}

// untilFailure tries at the steady cadence until the check fails or ctx ends.
func (c *checker) untilFailure(ctx context.Context) error {
	for {
		if err := sleep(ctx, c.interval); err != nil {
			return err
		}
		if err := c.attempt(ctx); err != nil {
			return err
		}
	}
}

// readiness decides, once the container is RUNNING, whether it is routable: while
// all readiness checks pass. It never ends the container.
func (p *program) readiness(ctx context.Context) error {
	select {
	case <-p.running:
	case <-ctx.Done():
		return canceled(ctx)
	}
	cs := p.prepare(p.w.ReadinessChecks)
	type news struct {
		i   int
		err error
	}
	updates := make(chan news)
	var group sync.WaitGroup
	for i, c := range cs {
		group.Go(func() {
			c.watch(ctx, func(err error) {
				select {
				case updates <- news{i, err}:
				case <-ctx.Done():
				}
			})
		})
	}
	go func() { group.Wait(); close(updates) }()
	state := make([]error, len(cs))
	for i := range state {
		state[i] = errors.New("not checked yet")
	}
	routable := false
	for u := range updates {
		state[u.i] = u.err
		if now := join(state...) == nil; now != routable {
			routable = now
			p.o.Routable(now)
			if now {
				p.o.Note("readiness checks pass: routable")
			} else {
				p.o.Note("readiness check failed: not routable: " + Reason(u.err))
			}
		}
	}
	return canceled(ctx)
}

// watch reports every result until ctx ends: at the start-up cadence while the
// check fails, at the steady one while it passes.
func (c *checker) watch(ctx context.Context, report func(error)) {
	pause := min(firstPause, c.startup)
	for {
		err := c.attempt(ctx)
		if ctx.Err() != nil {
			return
		}
		report(err)
		wait := c.interval
		if err != nil {
			wait, pause = pause, min(2*pause, c.startup)
		} else {
			pause = min(firstPause, c.startup)
		}
		if sleep(ctx, wait) != nil {
			return
		}
	}
}

// checkTCP is healthy when a connection is accepted.
func (p *program) checkTCP(ctx context.Context, c *action.TCPCheck) error {
	conn, err := p.h.Dial(ctx, c.Port)
	if err != nil {
		return err
	}
	return conn.Close()
}

// checkHTTP is healthy when the answer to GET has status 200.
func (p *program) checkHTTP(ctx context.Context, c *action.HTTPCheck) error {
	u, err := url.Parse("http://localhost" + rooted(c.Path))
	if err != nil {
		return errors.New("bad path")
	}
	t := &http.Transport{DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return p.h.Dial(ctx, c.Port) }}
	req := (&http.Request{Method: http.MethodGet, URL: u, Host: "localhost",
		Header: http.Header{"User-Agent": {"cantina-check"}}}).WithContext(ctx)
	res, err := t.RoundTrip(req) // one request: a redirect is not an answer of 200
	if err != nil {
		return err
	}
	defer res.Body.Close() // the status is the result; a body may be endless
	if res.StatusCode == http.StatusOK {
		return nil
	}
	return &statusError{res.StatusCode, firstLine(res.Body)}
}

// maxLine is how many bytes of a response are read to explain a failed check.
const maxLine = 200

// firstLine is the beginning of a response, as far as it arrives in time.
func firstLine(body io.Reader) string {
	// Text that was read before an error is as good.
	line, _ := bufio.NewReader(io.LimitReader(body, maxLine)).ReadString('\n')
	return strings.TrimSpace(text.Clean(line))
}

// checkProgram runs a check's programs; their output becomes part of the error.
func (p *program) checkProgram(ctx context.Context, a *action.Action) error {
	out := &capture{}
	err := p.do(ctx, a, scope{check: true, out: out})
	var exit *ExitError
	if errors.As(err, &exit) {
		if text := out.text(); text != "" && exit.Output == "" {
			exit.Output = text
		}
	}
	return err
}

// capture keeps the end of the output of a check's programs.
type capture struct {
	mu sync.Mutex
	b  []byte
}

const captureSize = 1024

// Write never fails.
func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.b = append(c.b, p[max(0, len(p)-captureSize):]...)
	if len(c.b) > 2*captureSize {
		c.b = append(c.b[:0], c.b[len(c.b)-captureSize:]...)
	}
	return len(p), nil
}

// Close does nothing: one capture serves several programs.
func (c *capture) Close() error { return nil }

func (c *capture) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := bytes.Split(bytes.TrimSpace(c.b[max(0, len(c.b)-captureSize):]), []byte("\n"))
	return strings.ToValidUTF8(string(bytes.Join(lines, []byte(" | "))), "?")
}
