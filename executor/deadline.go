package executor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// SetDeadline tells until which CLOCK_BOOTTIME deadline-bound containers may
// live; 0 = for ever. The reaper ends them then, whatever becomes of the cell. A
// deadline that passed stays passed until everything deadline-bound is gone
// (EventDrained) and a later one was set. (Never twice, Credit.)
func (e *Executor) SetDeadline(boot time.Duration) {
	e.deadline.Store(int64(boot))
	e.saveDeadline(int64(boot))
	e.keeper.tellDeadline()
	e.keeper.reopen()
}

// pastDeadline reports whether deadline-bound work may not be started.
func (e *Executor) pastDeadline() bool {
	at := e.deadline.Load()
	return e.expired.Load() || at != 0 && int64(e.clock.Boot()) >= at
}

// tellDeadline tells the reaper the deadlines of all classes that have one, and reports
// whether it takes them.
func (k *keeper) tellDeadline() bool {
	at := k.e.deadline.Load()
	text := strconv.FormatInt(at, 10)
	var ok bool
	if k.e.tree == nil {
		ok = k.send("procdeadline " + text)
	} else {
		root := k.e.tree.Root()
		ok = k.send("deadline "+filepath.Join(root, k.e.classOf(classStopBound))+" "+text) &&
			k.send("deadline "+filepath.Join(root, k.e.classOf(classKeepBound))+" "+text)
	}
	k.mu.Lock()
	groups, own := k.adopted, k.own
	k.mu.Unlock()
	for _, g := range groups {
		if !own {
			text = strconv.FormatInt(g.deadline, 10)
		}
		ok = ok && k.send("deadline "+g.dir+" "+text)
	}
	return ok
}

// recorded reports whether a leader has recorded what was adopted.
func (k *keeper) recorded() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.own
}

func (k *keeper) isOwn(dir string) bool {
	return dir == filepath.Join(k.e.tree.Root(), k.e.classOf(classStopBound))
}

func (k *keeper) onExpired(dir string) {
	if k.e.tree == nil || !k.isOwn(dir) {
		return
	}
	k.mu.Lock()
	k.drained = false
	k.mu.Unlock()
	k.e.expired.Store(true)
	k.e.log.Warn("deadline passed", "class", dir)
	k.e.emit(EventExpired, nil)
}

func (k *keeper) onDrained(dir string) {
	if k.e.tree == nil || !k.isOwn(dir) {
		return
	}
	k.mu.Lock()
	k.drained = true
	k.mu.Unlock()
	k.reopen()
	k.e.emit(EventDrained, nil)
}

// reopen allows starts again, when what expired is gone and there is new credit.
func (k *keeper) reopen() {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.e.deadline.Load()
	if k.drained && (at == 0 || at > int64(k.e.clock.Boot())) {
		k.e.expired.Store(false)
	}
}

// adoptedClass is a class of containers that a predecessor left to be kept.
type adoptedClass struct {
	dir      string
	deadline int64 // the predecessor's, boot time in ns; 0 = none
}

// saveDeadline writes down the deadline of the present generation, and of what it
// has adopted once that is recorded, so that a successor knows it.
func (e *Executor) saveDeadline(at int64) {
	files := e.deadlineFiles[:min(len(e.deadlineFiles), 1)]
	if e.keeper != nil && e.keeper.recorded() {
		files = e.deadlineFiles
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(at))
	var failed error
	for _, f := range files {
		if _, err := f.WriteAt(b[:], 0); err != nil {
			e.log.Warn("deadline is not saved", "error", err)
			failed = errors.Join(failed, err)
		}
	}
	e.mu.Lock()
	e.unsaved = failed
	e.mu.Unlock()
}

// mayKeep returns why nothing may be started that outlives the cell and has a deadline: a
// successor would not know until when it may live.
func (e *Executor) mayKeep() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.unsaved == nil {
		return nil
	}
	return fmt.Errorf("%w: it cannot be written down: %w", ErrDeadline, e.unsaved)
}

func (e *Executor) deadlinePath(generation string) string {
	return filepath.Join(e.cfg.Dir, "deadline."+generation)
}

// openDeadline opens the files of the deadlines, that of this generation first.
func (e *Executor) openDeadline() error {
	classes := []string{e.classOf(classKeepBound)}
	for _, a := range e.adopted {
		classes = append(classes, filepath.Base(a.dir))
	}
	for _, class := range classes {
		f, err := os.OpenFile(e.deadlinePath(class), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return fmt.Errorf("open deadline: %w", err)
		}
		e.deadlineFiles = append(e.deadlineFiles, f)
	}
	e.saveDeadline(0)
	return nil
}

// savedDeadline reads the deadline of a predecessor's class. One that is not there, or
// damaged, has passed: to end work too early is safe.
func (e *Executor) savedDeadline(generation string) (int64, error) {
	b, err := os.ReadFile(e.deadlinePath(generation))
	if unread(err) {
		return 0, err
	}
	if err != nil || len(b) != 8 {
		return 1, nil
	}
	return int64(binary.LittleEndian.Uint64(b)), nil
}
