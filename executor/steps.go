package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"cantina/action"
	"cantina/executor/place"
	"cantina/executor/step"
	"cantina/resource"
	"cantina/spawn"
)

// runSteps runs a workload that is more than one program, or is kept.
func (c *container) runSteps() (RunResult, bool) {
	return c.interpret(&c.spec.Workload, step.Spent{Total: c.spent, Start: c.spent})
}

func (c *container) interpret(w *action.Workload, spent step.Spent) (RunResult, bool) {
	ctx, release := until(c.stopC, c.mayGoOn())
	h := &stepHost{c: c}
	res := c.e.steps.Run(ctx, w, spent, h, h)
	release()
	c.judgement.decideBy(res)
	c.judgement.fix(errors.Is(res.Err, step.ErrCanceled))
	k := c.programs.keptProgram()
	if k != nil && k.isDetached() || k == nil && c.programs.adoptedFrom != nil && c.leftAlone() {
		c.followers.Wait()
		return RunResult{}, false
	}
	if !c.finish(leftoverGrace(&c.spec.Workload.Termination)) {
		return RunResult{}, false
	}
	c.followers.Wait()
	return c.conclude(c.judgement.stepResult(res))
}

// decideBy records which program decided, and how to get its outcome.
func (j *judgement) decideBy(res step.Result) {
	j.decider = nil
	if p, ok := res.Process.(*stepProcess); ok {
		j.decider = p.p
	}
	j.report = func() RunResult { return j.stepResult(res) }
}

func (j *judgement) stepResult(res step.Result) RunResult {
	r := RunResult{ExitCode: -1, Ended: j.c.e.clock.Wall()}
	switch p := res.Process.(type) {
	case *stepProcess:
		if p.p.Ended() {
			r = j.resultOf(p.p)
		}
		if res.Err == nil && !r.Lost {
			r.ExitCode, r.Signal = 0, 0 // the failure of the last program may be ignored
		}
	case *kept:
		if p.running() { // a check decided
			break
		}
		r = p.result()
		j.addCounted(&r)
	}
	j.timedOut = errors.Is(res.Err, step.ErrTimeLimit)
	r.Failed, r.TimedOut, r.Reason = res.Err != nil, j.timedOut, step.Reason(res.Err)
	r.Retryable = errors.Is(res.Err, ErrDeadline) || errors.Is(res.Err, ErrClosed)
	if r.Lost {
		r.Failed, r.Reason = true, "its exit status was not recorded"
		return r
	}
	if res.Err == nil && r.ExitCode < 0 && r.Signal == 0 {
		r.ExitCode = 0 // the tree had no program, or its failure was ignored
	}
	return r
}

// Note puts a line into the container's log.
func (h *stepHost) Note(line string) { h.c.note("%s", line) }

// Running makes the container RUNNING.
func (h *stepHost) Running() {
	if h.c.advance(Running) {
		h.c.e.emit(EventRunning, h.c)
	}
}

// Waiting notes why the container is not healthy yet.
func (h *stepHost) Waiting(reason string) { h.c.starting.atChecks(reason) }

// Decided is called when the verdict is fixed while programs of the container are yet to end. One
// whose end was requested has its verdict when they have ended.
func (h *stepHost) Decided(res step.Result) {
	c := h.c
	if errors.Is(res.Err, step.ErrCanceled) {
		return
	}
	c.judgement.decideBy(res)
	c.judgement.fix(false)
	if !c.leavesKill() {
		c.e.mu.Lock()
		c.decidedWhy = step.Reason(res.Err)
		c.endBy = c.endsIn(c.graceOf(&c.spec.Workload.Termination))
		c.e.mu.Unlock()
	}
	c.judgement.decide()
	c.e.emit(EventRoutable, c)
	c.e.emit(EventEnding, c)
}

// Routable notes whether the container takes traffic.
func (h *stepHost) Routable(ok bool) {
	h.c.e.mu.Lock()
	changed := h.c.route(ok)
	h.c.e.mu.Unlock()
	if changed {
		h.c.e.emit(EventRoutable, h.c)
	}
}

// Start starts one program of the tree.
func (h *stepHost) Start(ctx context.Context, l step.Launch) (step.Process, error) {
	c := h.c
	main := !l.Check && c.keep() && l.Run == c.spec.Workload.Action.Run
	if main && c.programs.adoptedFrom != nil {
		return h.resumed(ctx, l.Run) // limits that passed without a cell
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if main {
		return h.remember(h.startKept(ctx, l.Run))
	}
	out, errs := sink(&lineSink{w: c.writers[0]}), sink(&lineSink{w: c.writers[1]})
	if l.Out != nil {
		shared := &sharedSink{w: l.Out, users: 2}
		out, errs = shared, shared
	}
	if l.Check {
		p, err := h.startCheck(ctx, l.Run, out, errs)
		if err != nil && l.Out != nil {
			l.Out.Close()
		}
		return p, err
	}
	p, err := c.start(l.Run, out, errs, c.starting.patienceOf(ctx))
	if err != nil {
		if l.Out != nil {
			l.Out.Close()
		}
		return nil, err
	}
	c.starting.setPid(p.Pid)
	return &stepProcess{h: h, p: p}, nil
}

// resumed attaches to a kept program. That is tried once even when ctx has ended: how the
// program ended meanwhile counts.
func (h *stepHost) resumed(ctx context.Context, r *action.Run) (step.Process, error) {
	return h.remember(h.resume(ctx, r))
}

// remember notes the program of a kept container.
func (h *stepHost) remember(k *kept, err error) (step.Process, error) {
	if err != nil {
		return nil, err
	}
	h.c.programs.mu.Lock()
	h.c.programs.kept = k
	h.c.programs.mu.Unlock()
	return k, nil
}

// Dial connects to a declared port.
func (h *stepHost) Dial(ctx context.Context, port string) (net.Conn, error) {
	c := h.c
	c.e.mu.Lock()
	n := 0
	for _, m := range c.ports {
		if m.Name == port {
			n = m.Port
		}
	}
	c.e.mu.Unlock()
	if n == 0 {
		return nil, fmt.Errorf("port %q is not declared", port)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n)))
}

// mostUnpacked is the maximum unpacked size of an archive: the requested disk of the work, else
// the cell's limit.
func (o *order) mostUnpacked() int64 {
	if mb := o.spec.Workload.Resources[resource.DiskMB]; mb > 0 {
		return int64(mb) << 20
	}
	return o.e.cfg.UnpackMax
}

// ErrOutside reports a path that leads out of the container.
var ErrOutside = errors.New("path leads out of the container")

// Place finds a path of the container on the machine, for transfers.
func (h *stepHost) Place(name string) (step.Place, error) {
	c := h.c
	p := step.Place{Place: place.Place{Root: c.files.root(), Most: c.mostUnpacked()}}
	if err := c.files.own(&p.Place, ""); err != nil {
		return p, err
	}
	if !path.IsAbs(name) {
		p.Path = name
		return p, nil
	}
	rel, err := filepath.Rel(c.files.insideDir(), path.Clean(name))
	switch level := c.spec.Workload.Isolation; {
	case err == nil && filepath.IsLocal(rel):
		p.Path = rel
	case level == action.IsolationRootfs && inVolume(c.spec.Workload.Volumes, name):
		return p, fmt.Errorf("%s is in a volume: %w", name, ErrOutside)
	case level == action.IsolationRootfs:
		p.Root, p.Path = c.files.below("upper"), name
	case level == action.IsolationNamespaces:
		return p, fmt.Errorf("%s: %w", name, ErrOutside)
	default: // it may do so itself, as its own user
		p.Root, p.Path = "/", name
		p.Carry, p.Copy = h.carry, c.files.below(fmt.Sprintf(".upload-%d", c.files.copies.Add(1)))
	}
	return p, nil
}

// Full returns why the container may not continue: it exceeds its disk limit.
func (h *stepHost) Full() error {
	if _, over := h.c.files.overDisk(&h.c.programs); over != "" {
		return errors.New(over)
	}
	return nil
}

// Local has a process of the container copy a file of the machine, so that it hangs alone
// where nothing answers.
func (h *stepHost) Local(ctx context.Context, name string) (string, func() error, error) {
	c := h.c
	to := c.files.below(fmt.Sprintf(".source-%d", c.files.copies.Add(1)))
	at := place.Place{Root: "/", Path: name}
	if err := c.files.own(&at, ""); err != nil {
		return "", nil, err
	}
	if err := h.carry(ctx, "take", place.File{At: at, Path: to, Into: name}); err != nil {
		return "", nil, err
	}
	return to, func() error { return os.Remove(to) }, nil
}

// own sets the owner of a place of the container: a user of it, or the workload's.
func (fl *files) own(p *place.Place, user string) error {
	a, err := fl.identify(&action.Run{User: user})
	if err == nil && a.cred != nil {
		p.Owned, p.Uid, p.Gid, p.Groups = true, int(a.cred.Uid), int(a.cred.Gid), a.cred.Groups
	}
	return err
}

// stepProcess is one program of the tree.
type stepProcess struct {
	h     *stepHost
	p     *spawn.Process
	asked moment // to stop
}

// Done is closed when the program has ended.
func (s *stepProcess) Done() <-chan struct{} { return s.p.Done() }

// Ended collects past ends.
func (s *stepProcess) Ended() bool {
	s.h.c.programs.collect()
	return s.p.Ended()
}

// Exit is how the program ended.
func (s *stepProcess) Exit() step.Exit {
	r := s.p.Result()
	e := step.Exit{Code: r.ExitCode, Signal: int(r.Signal), Stopped: s.asked.before(r.Ended) ||
		s.h.asked.before(r.Ended),
		Killed: s.h.c.killed.before(r.Ended)}
	if e.Code != 0 || e.Signal != 0 {
		e.OutOfMemory = s.h.c.programs.oomKillsNow() > 0
	}
	return e
}

// Stop sends the stop signal: to the whole container when that is to end, else to
// the program's process group.
func (s *stepProcess) Stop() {
	c := s.h.c
	t := &c.spec.Workload.Termination
	sig := stopSignal(t)
	whole, _ := c.asked()
	s.h.stopping(&s.asked, whole)
	c.programs.stop(s.p, sig, whole != askNothing)
	if c.files.view != nil && !handles(s.p.Pid, sig) {
		// Process 1 of a namespace without a handler does not notice.
		time.AfterFunc(min(leftoverGrace(t), grace(t)), s.Kill)
	}
}

// Kill kills the program and its process group.
func (s *stepProcess) Kill() {
	s.p.Look()
	s.asked.isNow()
	if s.h.c.spec.Workload.Termination.NoSession {
		s.p.Signal(syscall.SIGKILL)
		return
	}
	s.p.SignalGroup(syscall.SIGKILL)
}

// lineSink hands on whole lines, so that those of several programs do not mix.
type lineSink struct {
	w    io.Writer
	part []byte
}

// maxPart is the longest line that is held back.
const maxPart = 64 << 10

// Write stores a program's output.
func (l *lineSink) Write(p []byte) (int, error) {
	i := bytes.LastIndexByte(p, '\n') + 1
	if len(l.part) == 0 && i == len(p) {
		return l.w.Write(p)
	}
	if i > 0 {
		l.w.Write(append(l.part, p[:i]...))
		l.part = l.part[:0]
	}
	l.part = append(l.part, p[i:]...)
	if len(l.part) > maxPart {
		l.w.Write(l.part)
		l.part = l.part[:0]
	}
	return len(p), nil
}

// Close hands on an unfinished line as a line.
func (l *lineSink) Close() error {
	if len(l.part) > 0 {
		l.w.Write(append(l.part, '\n'))
		l.part = nil
	}
	return nil
}

// sharedSink is closed by the last of its users.
type sharedSink struct {
	w     io.WriteCloser
	mu    sync.Mutex
	users int
}

// Write stores a program's output from either stream.
func (s *sharedSink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}

// Close closes the sink after the last user.
func (s *sharedSink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users > 0 {
		return nil
	}
	return s.w.Close()
}
