package executor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// SetDeadline sets the CLOCK_BOOTTIME until which deadline-bound containers may live; 0 = forever.
// The reaper ends them then, in any state of the cell. A passed deadline stays passed until all
// deadline-bound work is gone (EventDrained) and a later one was set. (safety.md, Credit.)
func (d *deadlines) SetDeadline(boot time.Duration) {
	d.deadline.Store(int64(boot))
	d.saveDeadline(int64(boot))
	d.e.keeper.sendDeadlines()
	d.e.keeper.reopen()
}

// sendDeadlines sends the reaper the deadlines of all classes that have one, and reports whether it
// accepts them.
func (k *keeper) sendDeadlines() bool {
	at := k.e.deadlines.deadline.Load()
	text := strconv.FormatInt(at, 10)
	own := text
	ok := true
	// The classes come first: work that is started next must find its class open.
	for _, dir := range k.e.backend.classDirs(classStopBound, classKeepBound) {
		ok = ok && k.send("deadline "+dir+" "+text)
	}
	k.mu.Lock()
	groups, recorded := k.adopted, k.own
	k.mu.Unlock()
	for _, g := range groups {
		if !recorded {
			text = strconv.FormatInt(g.deadline, 10)
		}
		ok = ok && k.send("deadline "+g.dir+" "+text)
	}
	return ok && k.send("procdeadline "+own)
}

// recorded reports whether a leader has recorded the adopted containers.
func (k *keeper) recorded() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.own
}

func (k *keeper) isOwn(dir string) bool {
	return slices.Contains(k.e.backend.classDirs(classStopBound), dir)
}

func (k *keeper) onExpired(dir string) {
	if !k.isOwn(dir) {
		return
	}
	k.mu.Lock()
	k.drained = false
	k.mu.Unlock()
	k.e.deadlines.expired.Store(true)
	k.e.log.Warn("deadline passed", "class", dir)
	k.e.emit(EventExpired, nil)
}

func (k *keeper) onDrained(dir string) {
	if !k.isOwn(dir) {
		return
	}
	k.mu.Lock()
	k.drained = true
	k.mu.Unlock()
	k.reopen()
	k.e.emit(EventDrained, nil)
}

// reopen permits starts again, when the expired work is gone and there is new credit.
func (k *keeper) reopen() {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.e.deadlines.deadline.Load()
	if k.drained && (at == 0 || at > int64(k.e.clock.Boot())) {
		k.e.deadlines.expired.Store(false)
	}
}

// saveDeadline stores the deadline of the present generation, and of its adopted containers once
// those are recorded, for a successor.
func (d *deadlines) saveDeadline(at int64) {
	files := d.deadlineFiles[:min(len(d.deadlineFiles), 1)]
	if d.e.keeper != nil && d.e.keeper.recorded() {
		files = d.deadlineFiles
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(at))
	var failed error
	for _, f := range files {
		if _, err := f.WriteAt(b[:], 0); err != nil {
			d.e.log.Warn("deadline is not saved", "error", err)
			failed = errors.Join(failed, err)
		}
	}
	d.e.mu.Lock()
	d.unsaved = failed
	d.e.mu.Unlock()
}

// mayKeep returns why nothing may be started that outlives the cell and has a deadline: a
// successor would not know until when it may live.
func (d *deadlines) mayKeep() error {
	d.e.mu.Lock()
	defer d.e.mu.Unlock()
	if d.unsaved == nil {
		return nil
	}
	return fmt.Errorf("%w: it cannot be written down: %w", ErrDeadline, d.unsaved)
}

func (d *deadlines) deadlinePath(generation string) string {
	return filepath.Join(d.e.cfg.Dir, "deadline."+generation)
}

// openDeadline opens the files of the deadlines, that of this generation first.
func (d *deadlines) openDeadline() error {
	classes := []string{d.e.generation.class(classKeepBound)}
	for _, a := range d.e.recovery.adopted {
		classes = append(classes, filepath.Base(a.dir))
	}
	for _, class := range classes {
		f, err := os.OpenFile(d.deadlinePath(class), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return fmt.Errorf("open deadline file: %w", err)
		}
		d.deadlineFiles = append(d.deadlineFiles, f)
	}
	d.saveDeadline(0)
	return nil
}

// savedDeadline reads the deadline of a predecessor's class. One that is not there, or
// damaged, has passed: to end work too early is safe.
func (d *deadlines) savedDeadline(generation string) (int64, error) {
	b, err := os.ReadFile(d.deadlinePath(generation))
	if unread(err) {
		return 0, err
	}
	if err != nil || len(b) != 8 {
		return 1, nil
	}
	return int64(binary.LittleEndian.Uint64(b)), nil
}
