package proctree

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cantina/spawn/procid"
)

// EndMarked kills every process with a mark ("NAME=value") in its environment, every one of
// the session that the program led, and all that these have started, until none is left, at
// most for limit. ErrLeft.
func EndMarked(mark string, session int, limit time.Duration) error {
	return repeat(limit, func() (bool, error) {
		found := members(mark, session)
		var first error
		for _, id := range found {
			if err := kill(id); err != nil && first == nil {
				first = err
			}
		}
		return len(found) == 0, first
	})
}

func kill(id procid.Identity) error {
	fd, err := id.Open()
	if errors.Is(err, procid.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return err
	}
	return nil
}

// process is the data of one process in /proc.
type process struct {
	id              procid.Identity
	parent, session int
	member          bool
}

// members looks through all processes of the machine.
func members(mark string, session int) []procid.Identity {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	all := map[int]*process{}
	self := os.Getpid()
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == self {
			continue
		}
		if p := look(pid); p != nil {
			p.member = hasMark(pid, mark)
			all[pid] = p
		}
	}
	if all[session] != nil && !all[session].member { // the number is another's by now
		session = 0
	}
	for changed := true; changed; {
		changed = false
		for _, p := range all {
			if p.member {
				continue
			}
			parent := all[p.parent]
			if session > 0 && p.session == session || parent != nil && parent.member {
				p.member, changed = true, true
			}
		}
	}
	var out []procid.Identity
	for _, p := range all {
		if p.member {
			out = append(out, p.id)
		}
	}
	return out
}

// look reads one process; nil when it has ended.
func look(pid int) *process {
	id, err := procid.Of(pid)
	if err != nil {
		return nil
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 4 {
		return nil
	}
	p := &process{id: id}
	if p.parent, err = strconv.Atoi(f[1]); err == nil {
		p.session, err = strconv.Atoi(f[3])
	}
	if err != nil {
		return nil
	}
	return p
}

func hasMark(pid int, mark string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if string(v) == mark {
			return true
		}
	}
	return false
}
