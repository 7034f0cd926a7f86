package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cantina/resource"
)

// ErrUnwritable reports that the cell cannot write to its data directory, and so runs nothing new.
// Reserve returns it until a test write succeeds and there is room again.
var ErrUnwritable = errors.New("the cell cannot write to its disk")

const (
	writeSize   = 64 << 10         // bytes of a test write
	writePeriod = 10 * time.Second // between two of them, while all is well
	answerLimit = 10 * time.Second // after which a file system does not answer
	floorMost   = 16 << 20         // bytes that have to be free; less on a small file system
	floorPart   = 50               // of its size, that is
	inodesMost  = 500              // inodes that have to be free; less on a file system with few of them
)

// Disk is the state of the cell's file system.
type Disk struct {
	FreeMB int
	// ForeignMB is the part of the capacity that is used without a reservation: other programs of the
	// machine, stored output, caches.
	ForeignMB int
	// Fault is why the cell cannot write; nil = it can.
	Fault error
	// Remains are the directories of earlier containers that could not be removed, each with the cause.
	Remains []string
}

// Disk returns the last result.
func (d *disk) Disk() Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Disk{FreeMB: int(d.free >> 20), Fault: d.fault, Remains: d.e.remains.left()}
	if d.measure {
		s.ForeignMB = foreign(d.e.cfg.Capacity[resource.DiskMB], s.FreeMB, int(d.used>>20))
	}
	return s
}

// foreign is the missing part of a capacity, in steps of a hundredth, so that small changes are
// not reported. All in MiB.
func foreign(capacity, free, used int) int {
	missing := capacity - free - used
	if missing <= 0 {
		return 0
	}
	step := max(1, capacity/100)
	return min(capacity, (missing+step-1)/step*step)
}

// watchDisk measures the file system, and tests it when that is due; it does not wait: a file
// system that does not answer holds nothing else up.
func (d *disk) watchDisk(now bool) {
	boot := d.e.clock.Boot()
	d.mu.Lock()
	defer d.mu.Unlock()
	due := now || d.fault != nil || !d.measure || boot-d.tested >= writePeriod || d.e.out.Faulted()
	switch {
	case d.begun != 0 && boot-d.begun >= answerLimit:
		d.set(fmt.Errorf("%w: %s has not answered for %v", ErrUnwritable, d.e.cfg.Dir, (boot - d.begun).Round(time.Second)))
	case d.begun == 0:
		if d.begun = max(boot, 1); due {
			d.tested = boot
		}
		go d.testDisk(due)
	}
}

// testDisk measures, and writes if that is due or if there is little space, and records the
// result. It ends when the file system responds.
func (d *disk) testDisk(due bool) {
	free, err := tryWrite(d.e.cfg.Dir, d.Disk().Fault != nil, due)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun = 0
	if free >= 0 {
		d.free, d.measure = free, true
	}
	if d.set(err); err == nil {
		d.e.out.WriteOwed()
	}
}

// set notes whether the cell can write; d.mu is held.
func (d *disk) set(fault error) {
	was := d.fault
	switch d.fault = fault; {
	case was == nil && fault != nil:
		d.e.log.Warn("the cell takes no work", "reason", fault)
	case was != nil && fault == nil:
		d.e.log.Info("the cell can write again", "free", d.free)
	}
}

// tryWrite writes to a directory, to disk, and returns the free bytes there (-1 = unknown). After
// a fault it requires twice the space, so that the state of the cell does not flap.
func tryWrite(dir string, again, due bool) (free int64, err error) {
	fail := func(err error) error { return fmt.Errorf("%w: %w", ErrUnwritable, err) }
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return -1, fail(fmt.Errorf("look at %s: %w", dir, err))
	}
	free = int64(fs.Bavail) * fs.Bsize
	floor := min(floorMost, int64(fs.Blocks)*fs.Bsize/floorPart)
	if again {
		floor *= 2
	}
	if !due && free >= 2*floor && freeInodes(dir, &fs, again) == nil {
		return free, nil
	}
	if err := writeThrough(dir); err != nil {
		return free, fail(fmt.Errorf("%w (%d MiB free)", err, free>>20))
	}
	if err := freeInodes(dir, &fs, again); err != nil {
		return free, fail(err)
	}
	if free < floor {
		return free, fail(fmt.Errorf("%s has %.1f MiB free, %.1f MiB are needed", dir, float64(free)/(1<<20),
			float64(floor)/(1<<20)))
	}
	return free, nil
}

// freeInodes returns an error if there are too few inodes for the files of new work; after a fault it
// requires twice as many. Some file systems have no limit, and report none.
func freeInodes(dir string, fs *unix.Statfs_t, again bool) error {
	floor := min(inodesMost, fs.Files/floorPart)
	if again {
		floor *= 2
	}
	if fs.Files == 0 || fs.Ffree > 0 && fs.Ffree >= floor {
		return nil
	}
	return fmt.Errorf("%s has %d inodes free, %d are needed: remove files there", dir, fs.Ffree, max(1, floor))
}

// writeThrough writes a file and has it on disk, and gives its room back.
func writeThrough(dir string) (err error) {
	f, err := os.OpenFile(dir+"/writable", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Truncate(0), f.Close()) }()
	if _, err := f.Write(make([]byte, writeSize)); err != nil {
		return err
	}
	return f.Sync()
}

// probeDisk tests now. A slow disk has half of a probe's time; then the last result counts.
func (d *disk) probeDisk(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit/2)
	defer cancel()
	d.mu.Lock()
	busy := d.begun != 0
	if !busy {
		d.begun = max(d.e.clock.Boot(), 1)
		d.tested = d.begun
	}
	d.mu.Unlock()
	if busy {
		return d.Disk().Fault
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.testDisk(true)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	return d.Disk().Fault
}
