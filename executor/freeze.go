package executor

import (
	"errors"
	"time"

	"cantina/cgroup"
)

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

// setFrozen freezes the classes, and each container that has none.
func (f *freezer) setFrozen(on bool) error {
	var errs []error
	dirs := f.e.backend.classDirs(classStopBound, classStopFree, classKeepBound, classKeepFree)
	dirs = append(dirs, f.e.recovery.kept...)
	set := (*cgroup.Group).Thaw
	if on {
		set = (*cgroup.Group).Freeze
	}
	for _, dir := range dirs {
		errs = append(errs, set(cgroup.At(dir)))
	}
	for _, dir := range dirs {
		if on && !cgroup.At(dir).AwaitFrozen(freezeWait) {
			f.e.log.Warn("not everything is frozen yet", "class", dir)
		}
	}
	for _, c := range f.e.live(func(*container) bool { return true }) {
		c.programs.with(func(t tracker) { errs = append(errs, t.freeze(on)) })
	}
	return errors.Join(errs...)
}

// freezeWait is how long a class has to freeze before the cell continues.
const freezeWait = 200 * time.Millisecond
