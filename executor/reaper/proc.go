package reaper

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"cantina/spawn/procid"
)

// proc is one main process where there are no control groups: it and its
// process group are all that can be found of a container.
type proc struct {
	pid, pidfd int
	bound      bool
	stop       bool
	ending     bool
	signal     unix.Signal
	grace      int64
	deadline   int64
	killAt     int64
}

// addProc takes PID START bound|free stop|keep SIGNAL GRACE_MS.
func (w *watcher) addProc(f []string) {
	pid := int(number(f[0]))
	fd, err := procid.Identity{Pid: pid, Start: uint64(number(f[1]))}.Open()
	if errors.Is(err, procid.ErrGone) {
		return
	}
	if err != nil {
		say(err.Error() + ": it is not ended with its cell")
		return
	}
	w.dropProc(pid)
	w.procs[pid] = &proc{pid: pid, pidfd: fd, bound: f[2] == "bound", stop: f[3] == "stop",
		signal: unix.Signal(number(f[4])), grace: number(f[5])}
}

func (w *watcher) dropProc(pid int) {
	if p := w.procs[pid]; p != nil {
		unix.Close(p.pidfd)
		delete(w.procs, pid)
	}
}

func (p *proc) setDeadline(at int64) {
	if p.bound && !p.ending {
		p.deadline = at
	}
}

func (p *proc) isGone() bool { return unix.PidfdSendSignal(p.pidfd, 0, nil, 0) == unix.ESRCH }

// step signals the group; the pidfd shows first that the number is still its own.
func (p *proc) step(now, killWait int64) {
	if p.deadline > 0 && now >= p.deadline {
		p.ending = true
	}
	if !p.ending || p.isGone() {
		return
	}
	switch {
	case p.killAt == 0:
		p.killAt = now + min(p.grace, killWait)*1e6
		unix.Kill(-p.pid, p.signal)
		unix.PidfdSendSignal(p.pidfd, p.signal, nil, 0)
	case now >= p.killAt:
		unix.Kill(-p.pid, unix.SIGKILL)
		unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
	}
}

// readMessages ends its channel when the cell is gone.
func readMessages(f *os.File, out chan<- string) {
	buf := make([]byte, 8192)
	for {
		n, err := f.Read(buf)
		if err != nil || n == 0 {
			close(out)
			return
		}
		out <- string(buf[:n])
	}
}

func readTimer(f *os.File, out chan<- struct{}) {
	buf := make([]byte, 8)
	for {
		if _, err := f.Read(buf); err != nil {
			return
		}
		select {
		case out <- struct{}{}:
		default:
		}
	}
}
