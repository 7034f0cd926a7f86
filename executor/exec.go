package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cantina/action"
	"cantina/executor/isolate"
	"cantina/spawn"
)

// ExecSpec is one program to run beside a container's programs.
type ExecSpec struct {
	Path     string
	Args     []string // without the program's own name
	Env      []action.Variable
	Dir      string // empty = the container's directory
	User     string // empty = the workload's
	Terminal bool   // a pseudo terminal; then Stderr is empty
	// Rows and Cols are the size of the terminal; 0 = 24 and 80.
	Rows, Cols uint16
}

// ExecResult is how a program run by Exec ended.
type ExecResult struct {
	ExitCode int // meaningless when Signal is not 0
	Signal   int
}

// ExecSession is a running program and its ends of the streams. The caller reads Stdout and Stderr
// to their ends, and calls Close. Processes that the program leaves behind do not keep the streams
// open.
type ExecSession struct {
	Stdin          io.WriteCloser
	Stdout, Stderr io.Reader

	p      *spawn.Process
	master *os.File // of the pseudo terminal; nil without
	files  []*os.File
	once   sync.Once
}

// Limits of what is read after the end of the program: its output is in a pipe then, which other
// processes may hold open.
const (
	lingerTime = 300 * time.Millisecond
	lingerMost = 1 << 20
)

// output is what a program writes.
type output struct {
	f    *os.File
	x    *ExecSession
	late int // bytes that were read after its end
}

// Read implements io.Reader. It returns io.EOF when the program has ended and no more comes.
func (o *output) Read(p []byte) (int, error) {
	ended := o.x.p != nil && o.x.p.Ended()
	if ended {
		_ = o.f.SetReadDeadline(time.Now().Add(lingerTime)) // a closed one has no more output
	}
	n, err := o.f.Read(p)
	if ended {
		o.late += n
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && !ended:
		return o.Read(p) // it has just ended
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.EIO), o.late > lingerMost:
		err = io.EOF
	}
	return n, err
}

// typing is the input of a program with a terminal: its end is a character.
type typing struct{ *os.File }

// Close implements io.Closer.
func (t typing) Close() error {
	_, err := t.Write([]byte{endOfText})
	return err
}

// endOfText is Ctrl-D.
const endOfText = 4

// Exec runs a program in the control group, the namespaces and the environment of a running
// container. It ends with the container. The errors are ErrUnknown, ErrState, and those of
// starting a program.
func (e *Executor) Exec(ctx context.Context, id string, s ExecSpec) (*ExecSession, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c, pid, err := e.target(id)
	if err != nil {
		return nil, err
	}
	spec, err := c.processSpec(&action.Run{Path: s.Path, Args: s.Args, Dir: s.Dir, Env: s.Env, User: s.User})
	if err != nil {
		return nil, err
	}
	if c.files.view != nil {
		c.files.see(spec, isolate.Join(e.spaces, pid))
		// Its parent is in another pid namespace, which looks like a dead one.
		spec.ParentDeath = 0
	}
	spec.Status, spec.Session, spec.Terminal = nil, true, s.Terminal
	x := &ExecSession{}
	child, err := x.openStreams(s)
	if err != nil {
		return nil, err
	}
	if err := giveStreams(child, spec.Credential); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	for _, f := range child {
		spec.Files = append(spec.Files, f.Fd())
	}
	if x.p, err = c.startBeside(spec); err == nil && x.p.Hangs() {
		err = c.starting.awaitLaunch(x.p, s.Path, patience{over: ctx.Done()})
	}
	if err != nil {
		err = errors.Join(err, x.Close())
	}
	for i, f := range child {
		if i == 0 || f != child[i-1] {
			f.Close()
		}
	}
	if err != nil {
		return nil, err
	}
	return x, nil
}

// target finds a running container and its main process.
func (e *Executor) target(id string) (*container, int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.containers[id]
	switch {
	case c == nil:
		return nil, 0, ErrUnknown
	case c.state != Running || c.pid == 0:
		return nil, 0, ErrState
	}
	return c, c.pid, nil
}

// startBeside starts a process beside the container's programs, unless the container just ends.
func (c *container) startBeside(s *spawn.Spec) (p *spawn.Process, err error) {
	if err := c.e.keeper.wait(c.bound); err != nil {
		return nil, err
	}
	c.e.freezer.starts.RLock() // before the lock of with, which Thaw may need
	defer c.e.freezer.starts.RUnlock()
	var in tracker
	c.programs.with(func(t tracker) { // nothing is removed meanwhile
		if in, err = t, t.join(s); err != nil {
			return
		}
		if p, err = c.e.launcher.Start(s); err == nil {
			t.beside(p)
		}
	})
	if err == nil {
		err = in.started(p)
	}
	return p, err
}

// openStreams makes the streams and returns the child's ends of 0, 1 and 2.
func (x *ExecSession) openStreams(s ExecSpec) ([]*os.File, error) {
	if s.Terminal {
		master, slave, err := openTerminal()
		if err != nil {
			return nil, fmt.Errorf("open terminal: %w", err)
		}
		x.master, x.Stdin, x.Stdout, x.Stderr = master, typing{master}, &output{f: master, x: x}, strings.NewReader("")
		x.files = []*os.File{master}
		if s.Rows == 0 || s.Cols == 0 {
			s.Rows, s.Cols = 24, 80
		}
		if err := x.Resize(s.Rows, s.Cols); err != nil {
			return nil, errors.Join(fmt.Errorf("size terminal: %w", err), master.Close(), slave.Close())
		}
		return []*os.File{slave, slave, slave}, nil
	}
	var child []*os.File
	var own [3]*os.File
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			for _, f := range append(child, x.files...) {
				f.Close()
			}
			return nil, fmt.Errorf("open streams: %w", err)
		}
		if i == 0 {
			r, w = w, r
		}
		own[i], child = r, append(child, w)
		x.files = append(x.files, r)
	}
	x.Stdin, x.Stdout, x.Stderr = own[0], &output{f: own[1], x: x}, &output{f: own[2], x: x}
	return child, nil
}

// giveStreams lets the user of the program open its streams by name: /dev/stdout and the like.
func giveStreams(child []*os.File, who *syscall.Credential) error {
	if who == nil {
		return nil
	}
	for _, f := range child {
		if err := f.Chown(int(who.Uid), int(who.Gid)); err != nil {
			return fmt.Errorf("give streams to uid %d: %w", who.Uid, err)
		}
	}
	return nil
}

// Resize changes the size of the terminal.
func (x *ExecSession) Resize(rows, cols uint16) error {
	if x.master == nil {
		return nil
	}
	return control(x.master, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
}

// openTerminal opens a pseudo terminal. Reads of the master end with a deadline and with Close.
func openTerminal() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err != nil {
		return nil, nil, err
	}
	number := 0
	err = control(master, func(fd int) error {
		n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
		number = n
		return errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	})
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, nil, errors.Join(err, master.Close())
	}
	return master, slave, nil
}

// control calls f with a descriptor; os.File.Fd would make it block.
func control(f *os.File, do func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	err = c.Control(func(fd uintptr) { result = do(int(fd)) })
	return errors.Join(err, result)
}

// Signal sends a signal to the program. It returns spawn.ErrGone when it ended.
func (x *ExecSession) Signal(sig syscall.Signal) error { return x.p.Signal(sig) }

// Wait returns how the program ended, or the error of ctx.
func (x *ExecSession) Wait(ctx context.Context) (ExecResult, error) {
	select {
	case <-x.p.Done():
		for _, f := range x.files {
			_ = f.SetReadDeadline(time.Now().Add(lingerTime)) // for reads in progress
		}
		r := x.p.Result()
		return ExecResult{ExitCode: r.ExitCode, Signal: int(r.Signal)}, nil
	case <-ctx.Done():
		return ExecResult{}, ctx.Err()
	}
}

// Close closes the streams, and kills the program when it has not ended.
func (x *ExecSession) Close() error {
	x.once.Do(func() {
		if x.p != nil { // before it reads the end of its input
			x.p.SignalGroup(unix.SIGKILL)
		}
		for _, f := range x.files {
			f.Close()
		}
	})
	return nil
}
