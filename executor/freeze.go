package executor

import (
	"errors"
	"sync"
	"syscall"
	"time"

	"cantina/cgroup"
	"cantina/spawn"
)

// freezer stops all containers together, and resumes them.
type freezer struct {
	e      *Executor
	starts sync.RWMutex // held for writing while all is frozen
	frozen bool         // guarded by e.mu
}

// Freeze stops all containers without ending them, and holds back starts, until Thaw: the effect
// of Ctrl-Z on a cell in a terminal. A second Freeze does nothing.
func (f *freezer) Freeze() error {
	f.e.mu.Lock()
	again := f.frozen
	f.frozen = true
	f.e.mu.Unlock()
	if again {
		return nil
	}
	f.starts.Lock() // no thread of ours is in a group any more
	return f.setFrozen(true)
}

// Thaw undoes Freeze.
func (f *freezer) Thaw() error {
	f.e.mu.Lock()
	was := f.frozen
	f.frozen = false
	f.e.mu.Unlock()
	if !was {
		return nil
	}
	err := f.setFrozen(false)
	f.starts.Unlock()
	return err
}

func (f *freezer) setFrozen(on bool) error {
	if f.e.tree == nil {
		return f.stopGroups(on)
	}
	var errs []error
	var classes []*cgroup.Group
	for _, name := range f.e.generation.classes() {
		classes = append(classes, f.e.tree.ClassGroup(name))
	}
	for _, dir := range f.e.recovery.kept {
		classes = append(classes, cgroup.At(dir))
	}
	for _, g := range classes {
		if on {
			errs = append(errs, g.Freeze())
		} else {
			errs = append(errs, g.Thaw())
		}
	}
	if on {
		for _, g := range classes {
			if !g.AwaitFrozen(freezeWait) {
				f.e.log.Warn("not everything is frozen yet", "class", g.Dir())
			}
		}
	}
	return errors.Join(errs...)
}

// freezeWait is how long a class has to freeze before the cell continues.
const freezeWait = 200 * time.Millisecond

// stopGroups stops containers as far as possible without control groups.
func (f *freezer) stopGroups(on bool) error {
	sig := syscall.SIGCONT
	if on {
		sig = syscall.SIGSTOP
	}
	var errs []error
	for _, c := range f.e.live(func(*container) bool { return true }) {
		c.programs.mu.Lock()
		for _, p := range c.programs.processes {
			if err := p.SignalGroup(sig); err != nil && !errors.Is(err, spawn.ErrGone) {
				errs = append(errs, err)
			}
		}
		c.programs.mu.Unlock()
	}
	return errors.Join(errs...)
}
