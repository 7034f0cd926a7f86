package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"cantina/action"
	"cantina/cgroup"
	"cantina/executor/isolate"
	"cantina/executor/step"
	"cantina/logstore"
	"cantina/resource"
	"cantina/spawn"
)

// tailLines is how many last lines of each stream a result keeps.
const tailLines = 10

// drive takes a container from INITIALIZING to COMPLETED.
func (c *container) drive() {
	r, gone := c.run()
	if gone {
		c.complete(r)
	}
}

// run does the work. It returns false when the cell ends while something of the
// container is left, wanted or not.
func (c *container) run() (RunResult, bool) {
	defer c.files.letGo()
	if err := c.prepare(); err != nil {
		r := RunResult{Failed: true, TimedOut: errors.Is(err, step.ErrTimeLimit), Retryable: true,
			NotMade: errors.Is(err, ErrNoGroup), Reason: err.Error(), ExitCode: -1, Ended: c.e.clock.Wall()}
		c.e.mu.Lock()
		if c.ask != askNothing { // its end was requested before its beginning
			r = c.neverRan()
		}
		c.e.mu.Unlock()
		return r, c.finish(0)
	}
	if !c.advance(Created) {
		return RunResult{}, c.finish(0)
	}
	c.spent = c.e.clock.Boot() - c.begun
	c.starting.inPhase("running setup", c.spec.Workload.Setup != nil)
	if c.single() {
		return c.runSingle()
	}
	return c.runSteps()
}

// letGo releases the resources that a container holds while it runs.
func (fl *files) letGo() {
	if fl.view != nil {
		fl.view.Close()
	}
	if fl.release != nil {
		fl.release()
	}
}

// single reports whether the workload is one program and nothing else.
func (o *order) single() bool {
	w := &o.spec.Workload
	return !o.keep() && w.Action.Run != nil && w.Setup == nil && w.Monitor == nil &&
		len(w.Sidecars) == 0 && len(w.Checks) == 0 && len(w.ReadinessChecks) == 0
}

// prepare makes the directory, the control group and the ports.
func (c *container) prepare() error {
	if a, _ := c.asked(); a != askNothing {
		return errors.New("ended before it ran")
	}
	if err := c.checkKeep(); err != nil {
		return err
	}
	if err := c.files.makeDir(); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	if err := c.givePorts(); err != nil {
		return err
	}
	if err := c.e.backend.track(c); err != nil {
		return err
	}
	if err := c.makeView(); err != nil {
		return err
	}
	return c.openOutput()
}

// makeDir gives the container its directory: a service one with its name, short-lived work a
// pooled one.
func (fl *files) makeDir() (err error) {
	defer func() {
		if errors.Is(err, syscall.ENOSPC) {
			fl.e.disk.watchDisk(true) // the next container does not have to fail for it
		}
	}()
	path := fl.dirPath()
	if fl.bound && !fl.keep() && !fl.hidden {
		f, err := fl.e.dirPool.take()
		if err != nil {
			return err
		}
		fl.pooled, path = f, f.path
	} else if err := fl.e.remains.mkdir(path); err != nil {
		return err
	}
	fl.e.mu.Lock()
	fl.dir = path
	fl.e.mu.Unlock()
	return nil
}

func (o *order) limits() cgroup.Limits {
	w := &o.spec.Workload
	l := cgroup.Limits{
		MemoryBytes: int64(w.Resources[resource.MemoryMB]) << 20,
		CPUMilli:    w.Resources[resource.CPUMilli],
		Pids:        w.MaxPids,
	}
	if o.keep() && l.Pids > 0 {
		l.Pids += shimThreads
	}
	return l
}

// shimThreads is how many threads a shim may have; they count as pids.
const shimThreads = 8

func (c *container) openOutput() error {
	if c.hidden {
		return nil
	}
	src := c.source()
	src.Rate = c.spec.Workload.LogRate
	for i, s := range [...]logstore.Stream{logstore.Stdout, logstore.Stderr} {
		w, err := c.e.out.Writer(src, s)
		if err != nil {
			return fmt.Errorf("open output: %w", err)
		}
		c.writers[i] = w
	}
	return nil
}

// source is the source of the container's output in the log store.
func (o *order) source() logstore.Source {
	return logstore.Source{ID: o.id, Labels: o.labels, Attempt: o.labels[LabelAttempt]}
}

// note writes a line of the executor into the container's log.
func (o *order) note(format string, args ...any) {
	if w, err := o.e.out.Writer(o.source(), logstore.Event); err == nil {
		fmt.Fprintf(w, format+"\n", args...)
		w.Close()
	}
}

// runSingle is the fast path: one program, nothing that watches it.
func (c *container) runSingle() (RunResult, bool) {
	w := &c.spec.Workload
	p, err := c.start(w.Action.Run, c.writers[0], c.writers[1],
		patience{c.stopC, c.remaining(shorter(w.StartTimeout, w.TimeLimit)), shorter(w.StartTimeout, w.TimeLimit)})
	if err != nil {
		r := RunResult{Failed: true, Reason: err.Error(), ExitCode: -1, Ended: c.e.clock.Wall()}
		r.Retryable = errors.Is(err, ErrDeadline) || errors.Is(err, ErrClosed)
		if !c.finish(0) {
			return r, false
		}
		return c.conclude(r)
	}
	c.judgement.decider, c.judgement.report = p, func() RunResult { return c.judgement.resultOf(p) }
	c.runningSingle(p.Pid)
	limit, stop := c.limit()
	defer stop()
	t := &w.Termination
	wait := leftoverGrace(t)
	overdue := false
	select {
	case <-p.Done():
	case <-c.stopC:
	case <-limit:
		overdue = true
	}
	if c.programs.collect(); p.Ended() {
		c.judgement.fix(c.killed.before(p.Result().Ended))
	} else {
		if overdue {
			c.judgement.timedOut = true
			c.e.Kill(c.id, fmt.Sprintf("time limit of %v exceeded", w.TimeLimit))
			c.judgement.report = func() RunResult { return RunResult{ExitCode: -1, Ended: c.e.clock.Wall()} }
			c.judgement.fix(true)
			c.judgement.decide()
			c.judgement.report = func() RunResult { return c.judgement.resultOf(p) }
		}
		wait = c.askToEnd(p, t)
	}
	if !c.finish(wait) {
		return RunResult{}, false
	}
	return c.conclude(c.judgement.resultOf(p))
}

// limit is ready when the time limit is over; never when there is none.
func (o *order) limit() (over <-chan struct{}, stop func()) {
	if o.spec.Workload.TimeLimit <= 0 {
		return nil, func() {}
	}
	ready := make(chan struct{})
	return ready, o.e.clock.At(o.begun+o.spec.Workload.TimeLimit, func() { close(ready) })
}

// collect collects past ends of the container's programs. It comes before every action because of
// a deadline, or a request: while the cell was stopped, or had no processor, its programs
// continued, and their ends count. (Decision 0428.)
func (ps *programs) collect() {
	ps.mu.Lock()
	all, k := slices.Clone(ps.processes), ps.kept
	ps.mu.Unlock()
	for _, p := range all {
		p.Look()
	}
	if k != nil {
		k.collect()
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// runningSingle makes a container of one program RUNNING, which it is at once.
func (c *container) runningSingle(pid int) {
	c.e.mu.Lock()
	c.begin(pid)
	moved := c.lifecycle.advance(Running)
	if moved {
		c.starting.quiet()
		c.route(true)
	}
	c.e.mu.Unlock()
	if moved {
		c.e.emit(EventRunning, c)
	}
}

// leftAlone reports whether the cell ends while the container, whose end was not requested,
// continues.
func (c *container) leftAlone() bool {
	select {
	case <-c.mayGoOn():
		a, _ := c.asked()
		return a == askNothing
	default:
		return false
	}
}

// mayGoOn is ready when the cell ends and the container may continue without it.
func (c *container) mayGoOn() <-chan struct{} {
	if c.keep() {
		return c.leaveC
	}
	return nil
}

// until returns a context that is done when one of two channels is closed. The caller
// calls release.
func until(one, other <-chan struct{}) (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-one:
		case <-other:
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx, func() {
		cancel()
		<-watched
	}
}

// conclude closes the parts of the run, of which no process is left, and adds the data that is
// known only now.
func (c *container) conclude(r RunResult) (RunResult, bool) {
	c.programs.mu.Lock()
	all := c.programs.processes
	c.programs.processes = nil
	c.programs.mu.Unlock()
	for _, p := range all {
		p.CloseOutput()
		c.e.keeper.gone(p)
	}
	c.judgement.takeTails(&r)
	c.judgement.judge(&r)
	c.logEnd(&r)
	c.saveAndClose(&r)
	return r, true
}

// saveAndClose closes the streams. The result of a kept container is written down
// first, so that a successor does not take the output twice; but last when closing
// still stores an unfinished line.
func (c *container) saveAndClose(r *RunResult) {
	kept, unfinished := c.programs.writtenDown(), false
	for i, w := range c.writers {
		if w != nil && c.given[i] != w.Written() {
			unfinished = true
		}
	}
	if kept && !unfinished {
		c.saveResult(r)
	}
	for _, w := range c.writers {
		if w != nil {
			w.Close()
			r.OutputLost += w.Lost()
		}
	}
	if kept && unfinished {
		c.saveResult(r)
	}
}

func (j *judgement) resultOf(p *spawn.Process) RunResult {
	pr := p.Result()
	r := RunResult{ExitCode: pr.ExitCode, Signal: int(pr.Signal), Started: pr.Started.UTC(), Ended: pr.Ended.UTC(),
		Usage: Usage{User: pr.Usage.User, System: pr.Usage.System}}
	if pr.Signal != 0 {
		r.ExitCode = -1
		r.Failed, r.Reason = true, fmt.Sprintf("killed by signal %d (%v)", pr.Signal, pr.Signal)
	} else if pr.ExitCode != 0 {
		r.Failed, r.Reason = true, fmt.Sprintf("exit status %d", pr.ExitCode)
	}
	j.addCounted(&r)
	return r
}

// addCounted adds the group's counters.
func (j *judgement) addCounted(r *RunResult) {
	j.c.e.mu.Lock()
	defer j.c.e.mu.Unlock()
	j.c.addAccount(r)
}

func (s *starting) setPid(pid int) {
	s.c.e.mu.Lock()
	s.c.begin(pid)
	s.c.e.mu.Unlock()
}

// start starts one program of the container.
func (c *container) start(r *action.Run, out, errs sink, pa patience) (*spawn.Process, error) {
	if err := c.e.keeper.wait(c.bound); err != nil {
		return nil, err
	}
	s, err := c.processSpec(r)
	if err != nil {
		return nil, err
	}
	return c.launch(s, r, out, errs, pa)
}

func (c *container) launch(s *spawn.Spec, r *action.Run, out, errs sink, pa patience) (*spawn.Process, error) {
	if !r.SuppressOutput && !c.hidden {
		s.Stdout, s.Stderr = out, errs
	}
	p, err := c.programs.startProcess(s)
	if err == nil && p.Hangs() {
		err = c.starting.awaitLaunch(p, r.Path, pa)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// remaining is the rest of a limit, at least a little; 0 stays no limit.
func (c *container) remaining(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return max(limit-c.spent, 1)
}

// shorter is the shorter of two limits, of which 0 is none.
func shorter(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// addProcess adds a process, and removes those that are gone.
func (ps *programs) addProcess(p *spawn.Process) {
	var gone []*spawn.Process
	ps.mu.Lock()
	ps.processes = append(slices.DeleteFunc(ps.processes, func(old *spawn.Process) bool {
		over := old.Closed()
		if over {
			gone = append(gone, old)
		}
		return over
	}), p)
	ps.mu.Unlock()
	for _, old := range gone {
		ps.e.keeper.gone(old)
	}
}

func (c *container) processSpec(r *action.Run) (*spawn.Spec, error) {
	w := &c.spec.Workload
	who, err := c.files.identify(r)
	if err != nil {
		return nil, err
	}
	if who.cred != nil && w.Isolation != action.IsolationRootfs && c.e.spaces == nil {
		return nil, fmt.Errorf("user %q: this machine has no namespaces, which it needs to reach its directory",
			c.files.user(r))
	}
	if err := c.files.giveDir(who.cred, r.User == "" || r.User == w.User); err != nil {
		return nil, err
	}
	s := &spawn.Spec{Path: r.Path, Args: r.Args, Dir: r.Dir, Env: c.environment(r, &who), Credential: who.cred,
		Session: !w.Termination.NoSession, ParentDeath: c.programs.parentDeath(), Gain: w.Isolation == action.IsolationNone,
		OpenFiles: uint64(max(r.OpenFiles, 0))}
	if s.Dir == "" {
		s.Dir = cmp.Or(c.files.image.WorkingDir, c.files.insideDir())
	}
	if c.spec.StatusPipe {
		s.Status = &programStatus{statusSink: &c.status, c: c}
	}
	h := isolate.Hooks{}
	if c.files.view != nil {
		h = c.files.view.Hooks()
	}
	c.files.see(s, h)
	return s, nil
}

// see gives a process its view, from which its user gets to the container's directory.
func (fl *files) see(s *spawn.Spec, h isolate.Hooks) {
	if s.Credential != nil && fl.spec.Workload.Isolation != action.IsolationRootfs {
		h = isolate.Reach(fl.e.spaces, h, fl.dir, s.Credential)
	}
	s.CloneFlags, s.Enter, s.Mounts = h.CloneFlags, h.Enter, h.Mounts
}

// parentDeath is choice a of "Bistro task termination".
func (ps *programs) parentDeath() (sig syscall.Signal) {
	t := &ps.spec.Workload.Termination
	switch {
	case ps.keep() || t.ParentDeath < 0:
		return 0
	case t.ParentDeath > 0:
		return syscall.Signal(t.ParentDeath)
	}
	ps.with(func(now tracker) { sig = now.parentDeath() })
	return sig
}

func (o *order) class() string {
	switch {
	case o.keep() && o.bound:
		return o.e.generation.class(classKeepBound)
	case o.keep():
		return o.e.generation.class(classKeepFree)
	case o.bound:
		return o.e.generation.class(classStopBound)
	}
	return o.e.generation.class(classStopFree)
}

// timer returns a channel that is ready after d; d ≤ 0 is never.
func timer(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return time.After(d)
}
