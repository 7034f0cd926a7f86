package executor

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// maxSignal is the last signal of Linux.
const maxSignal = 64

// Signal sends a signal to the main process of a running container, and to nothing
// else. It returns ErrUnknown, and ErrState when there is no main process, or it has
// just ended.
func (e *Executor) Signal(id string, number int) error {
	if number < 1 || number > maxSignal {
		return fmt.Errorf("signal %d to %s: %w", number, id, unix.EINVAL)
	}
	c, pid, err := e.target(id)
	if err == nil {
		err = c.programs.signalMain(pid, unix.Signal(number))
	}
	if err != nil {
		return fmt.Errorf("signal %d to %s: %w", number, id, err)
	}
	return nil
}

// signalMain first pins the process with a descriptor: its number may be reused by then, and the
// container's own record shows that.
func (ps *programs) signalMain(pid int, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return ErrState
	}
	defer unix.Close(fd)
	if pids, err := ps.pids(); err != nil || !slices.Contains(pids, pid) {
		return ErrState
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil {
		if err == unix.ESRCH {
			return ErrState
		}
		return err
	}
	return nil
}
