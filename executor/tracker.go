package executor

import (
	"slices"
	"syscall"
	"time"

	"cantina/cgroup"
	"cantina/spawn"
)

// with calls do with the tracker, which the container keeps meanwhile.
func (ps *programs) with(do func(t tracker)) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	do(ps.tracker)
}

// use replaces the tracker.
func (ps *programs) use(t tracker) { ps.with(func(tracker) { ps.tracker = t }) }

// startProcess starts a process of the container, which the reaper can end from then on.
func (ps *programs) startProcess(s *spawn.Spec) (p *spawn.Process, err error) {
	ps.e.freezer.starts.RLock()
	defer ps.e.freezer.starts.RUnlock()
	var in tracker
	ps.with(func(t tracker) { in, err = t, t.join(s) })
	if err != nil {
		return nil, err
	}
	if p, err = ps.e.launcher.Start(s); err != nil {
		return nil, err
	}
	ps.addProcess(p)
	return p, in.started(p)
}

// pids are the processes of the container, as far as they can be found.
func (ps *programs) pids() (pids []int, err error) {
	ps.with(func(t tracker) { pids, err = t.Procs() })
	return pids, err
}

// kill kills every process. Without shim, that of a kept container is left, so that it can record
// how the main program ended.
func (ps *programs) kill(shim bool) {
	ps.with(func(t tracker) {
		if k := ps.kept; k != nil && !shim {
			t.SignalEach(syscall.SIGKILL, func(pid int) bool { return pid != k.shim.Pid })
		} else {
			t.Kill()
		}
	})
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

// tracker finds the processes of one container, signals, counts and ends them. Its methods are
// called with programs.mu, or by the driver if they do not list processes.
type tracker interface {
	// join has a process start in the container; ErrState if none may be started. part has it start
	// in a part of the container, which ends before the whole.
	join(s *spawn.Spec) error
	part(name string, s *spawn.Spec) (part, error)
	// started reports a process to the reaper. After an error it must not run: it is killed.
	started(p *spawn.Process) error
	// beside adds a program of Exec to the processes whose end the container waits for.
	beside(p *spawn.Process)
	parentDeath() syscall.Signal // the default
	record(r *keptRecord)        // adds where a successor finds the container

	// Procs lists the live processes, as far as they can be found; alone reports that the main one
	// certainly has no other beside it.
	Procs() ([]int, error)
	alone() bool
	// signal sends a signal to every process; where that cannot be, to p and its process group. stop
	// does so once for each process. SignalEach sends it to those that want chooses, one by one.
	signal(p *spawn.Process, sig syscall.Signal)
	stop(p *spawn.Process, sig syscall.Signal)
	SignalEach(sig syscall.Signal, want func(pid int) bool) error
	// Kill kills all at once; leaveKill has the reaper do so, if it can.
	Kill() error
	leaveKill(wait time.Duration) bool
	freeze(on bool) error // stops them, or resumes them, where the class does not

	// The counters; zero = unknown. Asked are the processes that the reaper has ended.
	Usage() cgroup.Usage
	Memory() (bytes int64, known bool)
	OOMKills() int64
	Victims() []string
	Asked() (pids []int, known bool)

	// watch returns a channel that is ready when processes may have ended; nil = there is none.
	watch() (<-chan struct{}, func())
	// remove ends the tracking, unless a process is left. Nothing may be started then.
	remove() error
}

// part is the processes of one check.
type part interface {
	Kill() error
	end(main int, limit time.Duration) error // kills until none is left
	Remove() error                           // fails while one is left
}
