// Package procid names a process so that a later one with the same number is
// never taken for it. The executor and the reaper use it.
package procid

import (
	"errors"
	"os"
	"strconv"
	"strings"
)

// ErrGone reports that a process has ended.
var ErrGone = errors.New("process has ended")

// Identity is what tells a process from a later one with the same number.
type Identity struct {
	Pid   int
	Start uint64 // clock ticks between the boot of the machine and the process's start
}

// Of reads the identity of a living process; a zombie has ended. It returns
// ErrGone.
func Of(pid int) (Identity, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return Identity{}, ErrGone
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

// Alive reports whether exactly this process lives.
func (i Identity) Alive() bool {
	now, err := Of(i.Pid)
	return err == nil && now == i
}
