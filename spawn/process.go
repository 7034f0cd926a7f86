// Package spawn starts programs and watches them: with their output going into sinks, in a control
// group from the first instruction, with a parent-death signal, without a way to gain privileges,
// and without a goroutine or a blocked thread per process.
//
// A Launcher owns a few locked threads. They fork all processes, for two reasons: the kernel sends
// the parent-death signal when the forking *thread* ends, and the threads may be moved into v1
// control groups or other namespaces during a fork.
//
//	Start ──▶ running ──main process gone──▶ Done (result known) ──CloseOutput──▶ closed
//
// Other code in the same operating system process may fork freely: only own children are waited
// for.
package spawn

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cantina/cgroup"
)

// ErrGone reports that a process has ended already.
var ErrGone = errors.New("process has ended")

// Spec describes the program to start and its environment.
type Spec struct {
	// Path is a program: with a slash as it is, else looked up in PATH of Env,
	// after Enter.
	Path string
	Name string   // argv[0]; empty = Path
	Args []string // without the program's own name
	Dir  string   // empty = the cell's own
	Env  []string // NAME=value

	// Stdout and Stderr receive the output of the process; nil = /dev/null. They are closed when the
	// last holder of the pipe has closed it, or by CloseOutput.
	Stdout, Stderr io.WriteCloser
	// Stdin is descriptor 0; 0 = /dev/null. The caller keeps and closes its own copy.
	Stdin uintptr
	// Status receives the data written to descriptor 3 until the process has been waited for, and is
	// closed then: leftover processes may continue to write, and their data is dropped. Nil =
	// descriptor 3 is closed. If it is an Ender, it is called at the end, before the end is visible
	// to others.
	Status io.WriteCloser
	// Files replaces descriptors 0, 1 and 2 when set. The caller keeps and closes
	// its own copies. Stdout and Stderr are not used then.
	Files []uintptr
	// Terminal makes Files[0] the controlling terminal. It needs Session.
	Terminal bool

	Group       *cgroup.Group // nil = the cell's own group
	Session     bool          // its own session (and so its own process group)
	ParentDeath syscall.Signal
	Gain        bool // may gain privileges by exec (set-user-ID programs)
	Credential  *syscall.Credential
	OpenFiles   uint64  // RLIMIT_NOFILE; 0 = as the cell had it when it started
	CloneFlags  uintptr // CLONE_NEW…
	// KillGroup kills the process group that the process leads when it has ended
	// and before its number can be another's: the best there is without Group.
	KillGroup bool
	// Enter runs on the forking thread just before the fork and may change its namespaces and root;
	// leave, if not nil, undoes that, also after an error.
	Enter func() (leave func() error, err error)
	// The process itself makes Mounts, in its namespaces and before it becomes another user.
	Mounts []Mount
}

// Mount is one call of mount(2).
type Mount struct {
	Source, Target, Type string
	Flags                uintptr
	Optional             bool // nothing is done where Target does not exist
}

// Ender is a sink that is called when the process has ended.
type Ender interface{ Ended() }

// Result is how a process ended.
type Result struct {
	ExitCode int // meaningless when Signal is not 0
	Signal   syscall.Signal
	Usage    Usage
	Started  time.Time
	Ended    time.Time
}

// Usage is the kernel's accounting for the process and its waited-for children.
type Usage struct {
	User, System time.Duration
}

// Process is one started program.
type Process struct {
	Pid     int
	started time.Time
	loop    *loop
	done    chan struct{}
	start   *request // that hung; nil: the program was reached in time

	killGroup bool
	status    io.WriteCloser

	mu     sync.Mutex
	pidfd  int // -1 when gone
	id     uint64
	pipes  [3]*pipe
	result Result
}

// The pipes of a process.
const (
	stdoutPipe = iota
	stderrPipe
	statusPipe
)

// Gone is a process that had ended before it was watched.
func Gone(pid int) *Process {
	p := &Process{Pid: pid, pidfd: -1, done: make(chan struct{}), result: Result{ExitCode: -1}}
	close(p.done)
	return p
}

// Hangs reports that the process had neither executed its program nor ended after some time: the
// kernel does not return from accessing the program or its directory. Then Launched reports the
// outcome.
func (p *Process) Hangs() bool { return p.start != nil }

// Hanging reports that the process Hangs still: it has neither got to its program nor ended.
func (p *Process) Hanging() bool {
	if p.start == nil || p.Ended() {
		return false
	}
	select {
	case <-p.start.done:
		return false
	default:
		return true
	}
}

// Launched is closed when a process that Hangs has got to its program, or never will.
// It is nil for others.
func (p *Process) Launched() <-chan struct{} {
	if p.start == nil {
		return nil
	}
	return p.start.done
}

// LaunchError is why the process did not get to its program; nil when it did. It is
// valid after Launched.
func (p *Process) LaunchError() error {
	if p.start == nil {
		return nil
	}
	<-p.start.done
	if p.start.err == nil {
		return nil
	}
	return fmt.Errorf("start %s: %w", p.start.spec.Path, p.start.err)
}

// Done is closed when the process has ended and has been waited for.
func (p *Process) Done() <-chan struct{} { return p.done }

// Look collects the end of the process now, if it has ended, as the loop would a little later, and
// reports whether Done is closed. Call it before acting on a deadline or on a request: while this
// program was stopped, or had no processor, the process may have ended.
func (p *Process) Look() bool {
	if p.readable() {
		p.ready(make([]byte, 64<<10))
	}
	return p.Ended()
}

// readable reports whether the process has ended and has not been waited for.
func (p *Process) readable() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd < 0 {
		return false
	}
	fds := []unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, 0); err != unix.EINTR {
			break
		}
	}
	return fds[0].Revents != 0
}

// Ended reports whether Done is closed.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Closed reports whether the process has ended and its output pipes are closed.
func (p *Process) Closed() bool {
	if !p.Ended() {
		return false
	}
	for _, pi := range p.pipes {
		if pi != nil && pi.open() {
			return false
		}
	}
	return true
}

// DrainStatus reads the present content of the status pipe.
func (p *Process) DrainStatus() {
	if pi := p.pipes[statusPipe]; pi != nil && pi.open() {
		pi.drain(make([]byte, 4096))
	}
}

// Status is the sink of Spec.Status.
func (p *Process) Status() io.WriteCloser { return p.status }

// Result is valid after Done.
func (p *Process) Result() Result {
	<-p.done
	return p.result
}

// Signal sends sig to the process alone. It returns ErrGone when it has ended.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd < 0 {
		return ErrGone
	}
	err := unix.PidfdSendSignal(p.pidfd, sig, nil, 0)
	if err == unix.ESRCH {
		return ErrGone
	}
	if err != nil {
		return fmt.Errorf("signal %d to %d: %w", sig, p.Pid, err)
	}
	return nil
}

// SignalGroup sends sig to the process group that the process leads. It returns
// ErrGone when the process has ended: its number could be another's by then.
func (p *Process) SignalGroup(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd < 0 {
		return ErrGone
	}
	if err := unix.Kill(-p.Pid, sig); err != nil && err != unix.ESRCH {
		return fmt.Errorf("signal %d to group %d: %w", sig, p.Pid, err)
	}
	return nil
}

// ready is called by the loop when the process has become waitable.
func (p *Process) ready(buf []byte) {
	for i, pi := range p.pipes {
		switch {
		case pi == nil:
		case i == statusPipe: // before its pid is gone, by which others see its end
			pi.end(buf)
		default:
			pi.drain(buf)
		}
	}
	if e, ok := p.status.(Ender); ok {
		e.Ended()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd < 0 {
		return
	}
	if p.killGroup {
		unix.Kill(-p.Pid, unix.SIGKILL)
	}
	var ws unix.WaitStatus
	var ru unix.Rusage
	pid, err := wait4(p.Pid, &ws, unix.WNOHANG, &ru)
	if err == nil && pid == 0 {
		return
	}
	p.result = Result{Started: p.started, Ended: time.Now(), ExitCode: -1}
	switch {
	case err != nil: // other code waited for our child
		p.result.ExitCode = -1
	case ws.Signaled():
		p.result.Signal = ws.Signal()
	default:
		p.result.ExitCode = ws.ExitStatus()
	}
	p.result.Usage = Usage{User: duration(ru.Utime), System: duration(ru.Stime)}
	p.loop.remove(p.pidfd, p.id)
	unix.Close(p.pidfd)
	p.pidfd = -1
	close(p.done)
}

func duration(t unix.Timeval) time.Duration { return time.Duration(t.Nano()) }

func wait4(pid int, ws *unix.WaitStatus, options int, ru *unix.Rusage) (int, error) {
	for {
		got, err := unix.Wait4(pid, ws, options, ru)
		if err != unix.EINTR {
			return got, err
		}
	}
}

// CloseOutput reads the rest of the pipes and closes them, even if other processes hold the other
// ends. Call it when the container is empty.
func (p *Process) CloseOutput() {
	var buf []byte
	for _, pi := range p.pipes {
		if pi == nil || !pi.open() {
			continue
		}
		if buf == nil {
			buf = make([]byte, 64<<10)
		}
		pi.drain(buf)
		pi.close()
	}
}

func (p *pipe) open() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fd >= 0
}
