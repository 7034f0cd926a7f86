package executor

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cantina/action"
	"cantina/spawn"
)

func stopSignal(t *action.Termination) syscall.Signal {
	if t.Signal == 0 {
		return syscall.SIGTERM
	}
	return syscall.Signal(t.Signal)
}

func grace(t *action.Termination) time.Duration {
	if t.Grace <= 0 {
		return action.DefaultGrace
	}
	return t.Grace
}

func leftoverGrace(t *action.Termination) time.Duration {
	if t.LeftoverGrace <= 0 {
		return action.DefaultLeftoverGrace
	}
	return t.LeftoverGrace
}

// askToEnd sends the stop signal and returns how long the container has.
func (c *container) askToEnd(p *spawn.Process, t *action.Termination) time.Duration {
	if t.Mode == action.KillNow {
		return 0
	}
	sig := stopSignal(t)
	switch {
	case t.Target == action.TargetChild || c.programs.group == nil && t.NoSession:
		p.Signal(sig)
	case t.Target == action.TargetGroup && !t.NoSession || c.programs.group == nil:
		p.SignalGroup(sig)
	default:
		c.programs.group.Signal(unix.Signal(sig))
	}
	c.programs.wake(p, t)
	if c.files.view != nil && !handles(p.Pid, sig) {
		// Process 1 of a namespace does not even notice; the others have had theirs.
		if pids, err := c.programs.group.Procs(); err == nil && len(pids) == 1 {
			return 0
		}
		return c.graceWithin(min(grace(t), leftoverGrace(t)))
	}
	return c.graceWithin(grace(t))
}

// wake sends CONT after a stop signal: a process that was stopped by SIGSTOP handles no other
// signal before.
func (ps *programs) wake(p *spawn.Process, t *action.Termination) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	switch {
	case ps.group != nil && t.Target != action.TargetChild:
		ps.group.Signal(unix.SIGCONT)
	case t.Target == action.TargetChild || t.NoSession:
		p.Signal(syscall.SIGCONT)
	default:
		p.SignalGroup(syscall.SIGCONT)
	}
}

// wakeGroup is wake for every process of a kept container.
func (ps *programs) wakeGroup() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.group != nil {
		ps.group.Signal(unix.SIGCONT)
	}
}

// graceWithin is the shorter of the workload's own grace and that of StopWithin.
func (c *container) graceWithin(own time.Duration) time.Duration {
	if within := time.Duration(c.within.Load()); within > 0 {
		return min(own, within)
	}
	return own
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
	if c.programs.group != nil {
		var unwatch func()
		e.events, unwatch = c.e.watcher.Watch(c.programs.group)
		defer unwatch()
	}
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

// over reports whether nothing is left, and gives the group back.
func (e *ending) over() bool {
	c := e.c
	if c.programs.group == nil {
		return c.programs.shutIfEnded()
	}
	if c.programs.alive() != nil {
		return false
	}
	c.judgement.account()
	dir := c.programs.group.Dir()
	c.programs.mu.Lock() // housekeeping may be reading
	err := c.programs.group.Remove()
	if err == nil {
		c.programs.group = nil
	}
	c.programs.mu.Unlock()
	if err == nil && c.leavesKill() {
		c.e.keeper.spare(dir)
	}
	return err == nil
}

// leftovers sends the stop signal to processes that outlived the main process, once.
func (e *ending) leftovers(kill *time.Timer) {
	if e.left || !e.c.programs.mainEnded() {
		return
	}
	e.left = true
	if e.c.judgement.fix(true); e.c.programs.group == nil {
		return
	}
	if pids, err := e.c.programs.group.Procs(); err == nil && len(pids) == 0 {
		return // the last is just going
	}
	e.c.judgement.decide()
	t := &e.c.spec.Workload.Termination
	e.c.programs.group.Signal(unix.Signal(syscall.SIGTERM))
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
	if c.programs.group != nil {
		c.programs.killButShim(time.Since(e.killed))
	} else {
		c.programs.killProcesses()
	}
	if time.Since(e.killed) >= c.e.cfg.StuckAfter {
		c.setStuck()
	}
}

// killProcesses kills the known processes without a group.
func (ps *programs) killProcesses() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for _, p := range ps.processes {
		if ps.spec.Workload.Termination.NoSession {
			p.Signal(syscall.SIGKILL)
		} else {
			p.SignalGroup(syscall.SIGKILL)
		}
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

// shutIfEnded reports whether every process has ended; then none is added.
func (ps *programs) shutIfEnded() bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.shut = !slices.ContainsFunc(ps.processes, func(p *spawn.Process) bool { return !p.Ended() })
	return ps.shut
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
// deleted, or its cell ends; a mere stop sends its signal and waits. Without a group the
// reaper knows the process, but ends it with the cell alone.
func (e *ending) delegate(k *time.Timer, wait time.Duration) {
	c := e.c
	switch {
	case !c.leavesKill() || e.kill != nil:
	case c.programs.group != nil:
		c.e.keeper.kill(c.programs.group.Dir(), wait)
	default:
		e.kill = k.C
		k.Reset(wait)
	}
}

// account records the kernel's counters, before the group is returned.
func (j *judgement) account() {
	u := j.c.programs.group.Usage()
	if j.c.bound {
		j.askedOf, j.askedKnown = j.c.programs.group.Asked()
	}
	j.c.e.mu.Lock()
	defer j.c.e.mu.Unlock()
	j.c.count(u)
}

// setStuck notes which processes do not die, and where they hang.
func (c *container) setStuck() {
	var pids []int
	if c.programs.group != nil {
		pids, _ = c.programs.group.Procs()
	} else if p := c.programs.alive(); p != nil {
		pids = []int{p.Pid}
	}
	s := &Stuck{Since: c.e.clock.Wall()}
	for _, pid := range pids {
		s.Processes = append(s.Processes, describe(pid))
	}
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

// describe reads the kernel's data about a process that survives KILL.
func describe(pid int) StuckProcess {
	dir := "/proc/" + strconv.Itoa(pid) + "/"
	s := StuckProcess{Pid: pid, State: "?", Where: "?"}
	if b, err := os.ReadFile(dir + "stat"); err == nil {
		text := string(b)
		i, j := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
		if i >= 0 && j > i && j+2 < len(text) {
			s.Command, s.State = text[i+1:j], text[j+2:j+3]
		}
	}
	if b, err := os.ReadFile(dir + "wchan"); err == nil && len(b) > 0 && string(b) != "0" {
		s.Where = string(b)
	}
	return s
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
	c.programs.killAll()
	time.AfterFunc(killAgain, func() { killOverdue(c) })
}

// killAgain is how soon KILL is repeated for a container whose time is over.
const killAgain = 200 * time.Millisecond

// killAll kills every process, of a kept container but its shim. A group is not removed, and given to
// another container, meanwhile.
func (ps *programs) killAll() {
	ps.mu.Lock()
	g, k := ps.group, ps.kept
	switch {
	case g == nil:
		ps.mu.Unlock()
		ps.killProcesses()
		return
	case k == nil:
		g.Kill()
	default:
		pids, _ := g.Procs() // none is as good as an error
		for _, pid := range pids {
			if pid != k.shim.Pid {
				g.SignalOne(pid, unix.SIGKILL)
			}
		}
	}
	ps.mu.Unlock()
}
