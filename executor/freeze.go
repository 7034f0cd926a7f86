package executor

import (
	"errors"
	"syscall"
	"time"

	"cantina/cgroup"
	"cantina/spawn"
)

// Freeze stops all containers without ending them, and holds back starts, until
// Thaw: what Ctrl-Z means for a cell in a terminal. A second Freeze does nothing.
func (e *Executor) Freeze() error {
	e.mu.Lock()
	again := e.frozen
	e.frozen = true
	e.mu.Unlock()
	if again {
		return nil
	}
	e.starts.Lock() // no thread of ours is in a group any more
	return e.setFrozen(true)
}

// Thaw undoes Freeze.
func (e *Executor) Thaw() error {
	e.mu.Lock()
	was := e.frozen
	e.frozen = false
	e.mu.Unlock()
	if !was {
		return nil
	}
	err := e.setFrozen(false)
	e.starts.Unlock()
	return err
}

func (e *Executor) setFrozen(on bool) error {
	if e.tree == nil {
		return e.stopGroups(on)
	}
	var errs []error
	var classes []*cgroup.Group
	for _, name := range e.classes() {
		classes = append(classes, e.tree.ClassGroup(name))
	}
	for _, dir := range e.kept {
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
				e.log.Warn("not everything is frozen yet", "class", g.Dir())
			}
		}
	}
	return errors.Join(errs...)
}

// freezeWait is how long a class has to freeze before the cell goes on.
const freezeWait = 200 * time.Millisecond

// stopGroups does without control groups what can be done.
func (e *Executor) stopGroups(on bool) error {
	sig := syscall.SIGCONT
	if on {
		sig = syscall.SIGSTOP
	}
	var errs []error
	for _, c := range e.live(func(*container) bool { return true }) {
		c.mu.Lock()
		for _, p := range c.processes {
			if err := p.SignalGroup(sig); err != nil && !errors.Is(err, spawn.ErrGone) {
				errs = append(errs, err)
			}
		}
		c.mu.Unlock()
	}
	return errors.Join(errs...)
}
