package run

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A process that is killed while it forks briefly leaves its locks to a child that has not
// executed another program yet.
const (
	lockPatience = 500 * time.Millisecond
	lockPause    = 5 * time.Millisecond
)

// Lock takes the lock of a file for this process, for as long as the file is open.
// It returns unix.EWOULDBLOCK when a living process has it, after the moment for
// which a dead one can have it still.
func Lock(f *os.File) error {
	for end := time.Now().Add(lockPatience); ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil || !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return err
		case time.Now().After(end):
			return err
		}
		time.Sleep(lockPause)
	}
}
