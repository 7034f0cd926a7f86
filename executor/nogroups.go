package executor

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"cantina/cgroup"
	"cantina/internal/proctree"
	"cantina/spawn"
)

// errKeepGroups reports a cell on which nothing can be kept.
var errKeepGroups = errors.New("keep needs control groups")

// processGroups is the backend of a machine without usable control groups. It finds the processes
// that the cell started and their process groups, not a process that made its own session. Nothing
// outlives the cell, is limited or counted, and the reaper learns of each process.
type processGroups struct{}

func (processGroups) track(c *container) error {
	c.programs.use(&processTracker{c: c})
	return nil
}

func (processGroups) try(string) error              { return nil }
func (processGroups) canKeep() error                { return errKeepGroups }
func (processGroups) classDirs(...string) []string  { return nil }
func (processGroups) tree() *cgroup.Tree            { return nil }
func (processGroups) Dirs() (t string, v1 []string) { return "", nil }
func (processGroups) Patterns() []string            { return nil }
func (processGroups) Close() error                  { return nil }
func (processGroups) String() string                { return "no control groups" }

// processTracker tracks the processes that the cell has started for a container. With shut, it is
// also the tracker of a container that has none yet, or no more.
type processTracker struct {
	c    *container
	shut bool // nothing may be started
}

func (t *processTracker) join(s *spawn.Spec) error {
	if t.shut {
		return ErrState
	}
	s.KillGroup = s.Session
	return nil
}

// part marks the processes of a check by a variable.
func (t *processTracker) part(name string, s *spawn.Spec) (part, error) {
	mark := fmt.Sprintf("%s=%d-%s-%s", proctree.MarkName, os.Getpid(), t.c.id, name)
	s.Env = append(s.Env, mark)
	return markPart(mark), nil
}

// started also records the process for a successor. The process group ends with the process, see
// join.
func (t *processTracker) started(p *spawn.Process) error {
	err := t.c.e.keeper.record(t.c, p)
	if err != nil {
		p.Signal(syscall.SIGKILL)
	}
	return err
}

func (t *processTracker) beside(p *spawn.Process) {
	t.c.programs.processes = append(t.c.programs.processes, p)
}

func (t *processTracker) parentDeath() syscall.Signal { return syscall.SIGKILL }
func (t *processTracker) record(*keptRecord)          {}

func (t *processTracker) Procs() (pids []int, err error) {
	for _, p := range t.c.programs.processes {
		if !p.Ended() {
			pids = append(pids, p.Pid)
		}
	}
	return pids, nil
}

func (t *processTracker) alone() bool { return false } // its children are not known

func (t *processTracker) signal(p *spawn.Process, sig syscall.Signal) {
	if t.c.spec.Workload.Termination.NoSession {
		p.Signal(sig)
	} else {
		p.SignalGroup(sig)
	}
}

func (t *processTracker) stop(p *spawn.Process, sig syscall.Signal) { t.signal(p, sig) }

func (t *processTracker) SignalEach(sig syscall.Signal, want func(pid int) bool) error {
	for _, p := range t.c.programs.processes {
		if want(p.Pid) {
			p.Signal(sig)
		}
	}
	return nil
}

func (t *processTracker) Kill() error {
	for _, p := range t.c.programs.processes {
		t.signal(p, syscall.SIGKILL)
	}
	return nil
}

// The reaper knows the processes, but ends them with the cell alone.
func (t *processTracker) leaveKill(time.Duration) bool { return false }

func (t *processTracker) freeze(on bool) error {
	sig := syscall.SIGCONT
	if on {
		sig = syscall.SIGSTOP
	}
	var errs []error
	for _, p := range t.c.programs.processes {
		if err := p.SignalGroup(sig); !errors.Is(err, spawn.ErrGone) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (t *processTracker) Usage() cgroup.Usage              { return cgroup.Usage{} }
func (t *processTracker) Memory() (int64, bool)            { return 0, false }
func (t *processTracker) OOMKills() int64                  { return 0 }
func (t *processTracker) Victims() []string                { return nil }
func (t *processTracker) Asked() ([]int, bool)             { return nil, false }
func (t *processTracker) watch() (<-chan struct{}, func()) { return nil, func() {} }

func (t *processTracker) remove() error {
	if pids, _ := t.Procs(); len(pids) > 0 {
		return cgroup.ErrBusy
	}
	t.shut = true
	return nil
}

// markPart is the processes with a variable in their environment, their sessions and children.
type markPart string

func (markPart) Kill() error   { return nil } // its main program is killed
func (markPart) Remove() error { return nil } // nothing is left behind to be removed

func (p markPart) end(main int, limit time.Duration) error {
	if err := proctree.EndMarked(string(p), main, limit); err != nil {
		return fmt.Errorf("pid %d: %w", main, err)
	}
	return nil
}
