package executor

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"cantina/action"
	"cantina/spawn"
)

// askToEnd sends the stop signal and returns how long the container has.
func (c *container) askToEnd(p *spawn.Process, t *action.Termination) time.Duration {
	if t.Mode == action.KillNow {
		return 0
	}
	sig := stopSignal(t)
	c.programs.stop(p, sig, true)
	if c.files.view != nil && !handles(p.Pid, sig) {
		// Process 1 of a namespace does not even notice; the others have had theirs.
		if c.programs.tracker.alone() {
			return 0
		}
		return c.graceWithin(min(grace(t), leftoverGrace(t)))
	}
	return c.graceWithin(grace(t))
}

// stop sends a program the stop signal; with whole, because the container is to end, all that the
// target names. CONT follows: a process that was stopped by SIGSTOP handles no other signal before.
func (ps *programs) stop(p *spawn.Process, sig syscall.Signal, whole bool) {
	t := &ps.spec.Workload.Termination
	switch {
	case t.Target == action.TargetChild || t.NoSession && !whole:
		p.Signal(sig)
	case whole && (t.Target == action.TargetCgroup || t.NoSession):
		ps.with(func(now tracker) { now.stop(p, sig) })
	default:
		p.SignalGroup(sig)
	}
	if whole && t.Target != action.TargetChild {
		ps.with(func(now tracker) { now.signal(p, syscall.SIGCONT) })
	} else {
		p.Signal(syscall.SIGCONT)
	}
}

// handles reports whether a process has a handler for a signal.
func handles(pid int, sig syscall.Signal) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, "SigCgt:"); ok {
			mask, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
			return err == nil && mask&(1<<(uint(sig)-1)) != 0
		}
	}
	return false
}

// ending is the end of one container.
type ending struct {
	c      *container
	events <-chan struct{}
	kill   <-chan time.Time
	done   <-chan struct{}
	left   bool // leftovers have been signalled
	gone   bool // nothing is left
	killed time.Time
}

// finish waits until every process of the container is gone, and kills the rest after wait. It
// returns false if the cell ends while some survive. The fast case costs one removal of a
// directory.
func (c *container) finish(wait time.Duration) bool {
	e := &ending{c: c}
	if e.over() {
		return true
	}
	var unwatch func()
	e.events, unwatch = c.programs.tracker.watch()
	defer unwatch()
	if p := c.programs.alive(); p != nil {
		e.done = p.Done()
	}
	k := time.NewTimer(wait)
	defer k.Stop()
	if e.kill = k.C; c.leavesKill() {
		e.kill = nil // see delegate
	}
	deleted, leave, abort := c.deleteC, c.leaveC, c.e.abort
	look := time.NewTimer(lookAgain)
	defer look.Stop()
	for pause := lookAgain; !e.over(); {
		e.leftovers(k)
		select {
		case <-e.events:
		case <-e.done:
			e.done = nil
			if p := c.programs.alive(); p != nil {
				e.done = p.Done()
			}
		case <-e.kill:
			if c.programs.collect(); !e.over() {
				e.killAll()
				k.Reset(e.again())
			}
		case <-abort:
			abort = nil
			if e.kill = k.C; e.killed.IsZero() {
				e.killAll()
				k.Reset(e.again())
			}
		case <-deleted:
			deleted = nil
			e.delegate(k, wait)
		case <-leave:
			leave = nil
			e.delegate(k, wait)
		case <-look.C:
			pause = min(2*pause, time.Second)
			look.Reset(pause)
		case <-e.givenUp():
			if !e.over() { // it may just have ended
				return false
			}
		}
	}
	c.unstick()
	return true
}

// again is how soon KILL is repeated: a kept container is killed one by one.
func (e *ending) again() time.Duration {
	if e.c.programs.keptProgram() != nil {
		return 20 * time.Millisecond
	}
	return min(time.Second, e.c.e.cfg.StuckAfter)
}

// lookAgain is when a container is first looked at again without an event; v1
// groups and process groups send none.
const lookAgain = 5 * time.Millisecond

// over reports whether nothing is left; then the counters have been read, and are gone.
func (e *ending) over() bool {
	if !e.gone && e.c.programs.alive() == nil {
		e.c.judgement.account()
		e.c.programs.with(func(t tracker) { // housekeeping may be reading
			if e.gone = t.remove() == nil; e.gone {
				e.c.programs.tracker = &processTracker{c: e.c, shut: true}
			}
		})
	}
	return e.gone
}

// leftovers sends the stop signal to processes that outlived the main process, once.
func (e *ending) leftovers(kill *time.Timer) {
	if e.left || !e.c.programs.mainEnded() {
		return
	}
	e.left = true
	e.c.judgement.fix(true)
	if pids, err := e.c.programs.pids(); err == nil && len(pids) == 0 {
		return // the last is just going
	}
	e.c.judgement.decide()
	t := &e.c.spec.Workload.Termination
	e.c.programs.with(func(t tracker) { t.SignalEach(syscall.SIGTERM, func(int) bool { return true }) })
	if e.killed.IsZero() {
		kill.Reset(leftoverGrace(t))
		if !e.c.leavesKill() {
			e.c.e.mu.Lock()
			e.c.endBy = e.c.endsIn(leftoverGrace(t))
			e.c.e.mu.Unlock()
		}
	}
	e.c.e.emit(EventRoutable, e.c)
}

func (e *ending) killAll() {
	c := e.c
	if e.killed.IsZero() {
		e.killed = time.Now()
		c.e.kills.Add(1)
	}
	c.programs.kill(time.Since(e.killed) >= shimWait)
	if time.Since(e.killed) >= c.e.cfg.StuckAfter {
		c.setStuck()
	}
}

// mainEnded reports whether the main programs have ended; a shim may still wait for holders of
// their output.
func (ps *programs) mainEnded() bool {
	if k := ps.keptProgram(); k != nil {
		return isClosed(k.done)
	}
	return ps.alive() == nil
}

// alive is a started process that has not been waited for; nil = none.
func (ps *programs) alive() *spawn.Process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.processes {
		if !p.Ended() {
			return p
		}
	}
	return nil
}

// givenUp is ready when the cell ends while the container is stuck.
func (e *ending) givenUp() <-chan struct{} {
	e.c.e.mu.Lock()
	defer e.c.e.mu.Unlock()
	if e.c.stuck == nil {
		return nil
	}
	return e.c.leaveC
}

// leavesKill reports whether KILL is the reaper's business alone.
func (o *order) leavesKill() bool { return o.spec.Workload.Termination.Mode == action.KillTerm }

// delegate sees to the KILL of a container that leaves it to the reaper, when it is to be
// deleted, or its cell ends; a mere stop sends its signal and waits.
func (e *ending) delegate(k *time.Timer, wait time.Duration) {
	c := e.c
	switch {
	case !c.leavesKill() || e.kill != nil:
	case !c.programs.tracker.leaveKill(wait):
		e.kill = k.C
		k.Reset(wait)
	}
}

// setStuck notes which processes do not die, and where they hang.
func (c *container) setStuck() {
	pids, _ := c.programs.pids() // none is as good as an error: it is for a text
	s := &Stuck{Since: c.e.clock.Wall(), Processes: describeAll(pids)}
	c.e.mu.Lock()
	first := c.stick(s)
	c.e.stuck[c] = true
	must := c.left || c.e.uncleanLocked()
	c.e.mu.Unlock()
	if must {
		reboot(c.e, c)
	}
	if first {
		c.e.log.Warn("container does not die", "container", c.id, "where", s.String())
		c.note("%s", s)
		c.e.emit(EventStuck, c)
	}
}

// reboot runs the operator's command, once, because something does not die that
// must be dead.
func reboot(e *Executor, c *container) {
	if len(e.cfg.RebootCommand) == 0 {
		return
	}
	e.rebooting.Do(func() {
		e.log.Error("rebooting: a container does not die", "container", c.id)
		cmd := e.cfg.RebootCommand
		if _, err := e.launcher.Start(&spawn.Spec{Path: cmd[0], Args: cmd[1:], Env: os.Environ(), Session: true,
			Gain: true}); err != nil {
			e.log.Error("reboot command", "error", err)
		}
	})
}

func (c *container) unstick() {
	c.e.mu.Lock()
	was := c.lifecycle.unstick()
	delete(c.e.stuck, c)
	c.e.mu.Unlock()
	if was {
		c.e.emit(EventStuck, c)
	}
}

// ShortenGrace ends a container like Stop and has it killed after grace, also when it is being
// ended already, and whatever its own graces and kill_mode are. A kill that comes earlier stays.
// It returns ErrUnknown; a completed container is unchanged.
func (e *Executor) ShortenGrace(id string, grace time.Duration) error {
	e.mu.Lock()
	c := e.containers[id]
	if c == nil {
		e.mu.Unlock()
		return &CallError{"shorten the grace of", id, ErrUnknown}
	}
	c.within.Store(int64(max(grace, 1)))
	by := c.endsIn(grace)
	sooner := c.lifecycle.hurry(by)
	after := c.request(askStop, "")
	e.mu.Unlock()
	after()
	if sooner {
		e.emit(EventRoutable, c) // its row shows the time
		e.emit(EventEnding, c)
	}
	time.AfterFunc(grace, func() { killOverdue(c) })
	return nil
}

// killOverdue kills what is left of a container whose time is over, until it has completed.
func killOverdue(c *container) {
	c.e.mu.Lock()
	over := c.state == Completed || c.forgotten
	c.e.mu.Unlock()
	if over {
		return
	}
	c.programs.collect()
	c.killed.isNow()
	c.programs.kill(false)
	time.AfterFunc(killAgain, func() { killOverdue(c) })
}

// killAgain is how soon KILL is repeated for a container whose time is over.
const killAgain = 200 * time.Millisecond

// stopping records that a program is about to be stopped; with whole, because the container is.
func (h *stepHost) stopping(own *moment, whole ask) {
	h.c.programs.collect()
	own.isNow()
	if whole != askNothing {
		h.asked.isNow()
	}
}
