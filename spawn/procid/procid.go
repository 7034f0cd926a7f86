// Package procid identifies a process so that a later one with the same number is not mistaken for
// it. The executor and the reaper use it.
package procid

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrGone reports that a process has ended.
var ErrGone = errors.New("process has ended")

// Identity distinguishes a process from a later one with the same number.
type Identity struct {
	Pid   int
	Start uint64 // clock ticks between the boot of the machine and the process's start
}

// Of reads the identity of a living process; a zombie has ended. It returns ErrGone. After any
// other error it is unknown whether the process lives, such as when no descriptor is free for the
// check.
func Of(pid int) (Identity, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		return Identity{}, ErrGone
	}
	if err != nil {
		return Identity{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	s := string(stat)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
		return Identity{}, ErrGone
	}
	start, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		return Identity{}, err
	}
	return Identity{Pid: pid, Start: start}, nil
}

// Look returns nil while exactly this process lives, and ErrGone when it has ended; after any
// other error its state is unknown.
func (i Identity) Look() error {
	now, err := Of(i.Pid)
	if err == nil && now != i {
		return ErrGone
	}
	return err
}

// Alive reports whether exactly this process lives, for certain.
func (i Identity) Alive() bool { return i.Look() == nil }

// Open pins exactly this process: as long as the descriptor (a pidfd, close-on-exec) is open, its
// number is not reused. The caller closes it. It returns ErrGone if the process has ended; after
// any other error its state is unknown.
func (i Identity) Open() (int, error) {
	fd, err := unix.PidfdOpen(i.Pid, 0)
	switch err {
	case nil:
	case unix.ESRCH, unix.ENOENT, unix.EINVAL: // the last two: the number is a thread's now
		return -1, ErrGone
	default:
		return -1, fmt.Errorf("pin process %d: %w", i.Pid, err)
	}
	if err := i.Look(); err != nil { // after it was pinned
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
