package executor

import (
	"errors"
	"fmt"
	"syscall"

	"cantina/executor/step"
	"cantina/logstore"
	"cantina/spawn"
)

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

// runningSingle makes a container of one program RUNNING, which it is at once.
func (c *container) runningSingle(pid int) {
	c.e.mu.Lock()
	c.begin(pid, c.e.clock.Wall())
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
