package process

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cantina/executor/cgroup"
	"cantina/executor/procid"
)

// ErrClosed reports that the launcher has ended.
var ErrClosed = errors.New("launcher has ended")

// defaultPath is where programs are looked up when Env has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Launcher starts processes. Make it with NewLauncher and call Run.
type Launcher struct {
	tree  *cgroup.Tree // nil without control groups
	null  *os.File
	plain chan *request // threads that may gain privileges
	bound chan *request // threads with no_new_privs, for ever
	fast  []*starter
	idle  chan *starter // that have nothing to do
	loops []*loop
	turn  atomic.Uint32
	slots chan struct{} // starts that hold descriptors for their children
	ended chan struct{}
}

// maxStarts bounds how many starts have the child's ends of their pipes open: a
// burst of thousands waits without them, or it would need five descriptors for each
// container instead of three.
const maxStarts = 64

type request struct {
	spec  *Spec
	files []uintptr
	child []int // those of files that go to a starter
	path  string
	pid   int
	err   error
	lost  bool // the thread did not get back
	done  chan struct{}
}

// NewLauncher returns a launcher for processes in the groups of tree; nil = none.
func NewLauncher(tree *cgroup.Tree) (*Launcher, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open launcher: %w", err)
	}
	l := &Launcher{tree: tree, null: null, plain: make(chan *request), bound: make(chan *request), slots: make(chan struct{}, maxStarts), ended: make(chan struct{})}
	for range max(1, min(runtime.GOMAXPROCS(0)/2, 8)) {
		lp, err := newLoop()
		if err != nil {
			return nil, err
		}
		l.loops = append(l.loops, lp)
	}
	n := max(2, min(runtime.GOMAXPROCS(0), 8))
	l.idle = make(chan *starter, n)
	for range n {
		st, err := newStarter()
		if err != nil {
			return nil, err
		}
		l.fast = append(l.fast, st)
		l.idle <- st
	}
	// Whatever descriptors the cell itself was started with stay with it.
	unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	return l, nil
}

// Run serves until ctx is done. Processes that still live then lose their
// parent thread, so they get their parent-death signal.
func (l *Launcher) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(l.loops))
	for i, lp := range l.loops {
		wg.Go(func() { errs[i] = lp.run(ctx) })
	}
	for _, st := range l.fast {
		wg.Go(func() { st.serve(ctx, l) })
	}
	for range len(l.fast) {
		wg.Go(func() { l.serve(ctx, l.bound, true) })
	}
	wg.Go(func() { l.serve(ctx, l.plain, false) })
	wg.Wait()
	close(l.ended)
	l.null.Close()
	for _, st := range l.fast {
		st.close()
	}
	return errors.Join(errs...)
}

// serve forks on one thread. The goroutine ends locked, and its thread with it.
func (l *Launcher) serve(ctx context.Context, in chan *request, restricted bool) {
	runtime.LockOSThread()
	var broken error
	if restricted {
		broken = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-in:
			if r.err = broken; broken == nil {
				l.fork(r)
			}
			lost := r.lost
			close(r.done)
			if lost {
				// This thread is where it must not fork again; it stays, because
				// its end would be the death of its children.
				<-ctx.Done()
				return
			}
		}
	}
}

// Start starts a process. The error names the program when it cannot be run.
func (l *Launcher) Start(s *Spec) (*Process, error) {
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-l.ended:
		return nil, fmt.Errorf("start %s: %w", s.Path, ErrClosed)
	}
	lp := l.loops[int(l.turn.Add(1))%len(l.loops)]
	p := &Process{loop: lp, done: make(chan struct{}), pidfd: -1, killGroup: s.KillGroup}
	r := &request{spec: s, done: make(chan struct{})}
	child, err := p.openFiles(l, s, r)
	if err == nil {
		p.started = time.Now()
		err = l.ask(r, child)
	}
	for _, fd := range child {
		unix.Close(fd)
	}
	if r.pid > 0 {
		var perr error
		p.Pid = r.pid
		// Nobody has waited for it: the number is still its own.
		if p.pidfd, perr = unix.PidfdOpen(r.pid, 0); perr != nil {
			err = errors.Join(err, perr)
		}
	}
	if err == nil {
		err = p.watch()
	}
	if err != nil {
		p.discard()
		return nil, fmt.Errorf("start %s: %w", s.Path, plainer(s, err))
	}
	return p, nil
}

// plainer says of a folder that it is one: the kernel speaks of permissions.
func plainer(s *Spec, err error) error {
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	if info, serr := os.Stat(s.Path); serr == nil && info.IsDir() {
		return fmt.Errorf("is a directory: %w", err)
	}
	return err
}

// ask has a thread fork.
func (l *Launcher) ask(r *request, child []int) error {
	if r.spec.suits() {
		select {
		case st := <-l.idle:
			defer func() { l.idle <- st }()
			return st.ask(r, child, l.ended)
		case <-l.ended:
			return ErrClosed
		}
	}
	in := l.bound
	if r.spec.Gain {
		in = l.plain
	}
	select {
	case in <- r:
		<-r.done
		return r.err
	case <-l.ended:
		return ErrClosed
	}
}

// Watch returns a process that is not a child: Done is closed when it has ended,
// but its result is not known (ExitCode -1). It returns ErrGone when id lives no
// more.
func (l *Launcher) Watch(id procid.Identity) (*Process, error) {
	fd, err := unix.PidfdOpen(id.Pid, 0)
	if err != nil {
		return nil, fmt.Errorf("watch process %d: %w", id.Pid, ErrGone)
	}
	p := &Process{Pid: id.Pid, pidfd: fd, loop: l.loops[int(l.turn.Add(1))%len(l.loops)], done: make(chan struct{}), started: time.Now()}
	if !id.Alive() { // looked at after it was pinned
		unix.Close(fd)
		return nil, fmt.Errorf("watch process %d: %w", id.Pid, ErrGone)
	}
	if err := p.watch(); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("watch process %d: %w", id.Pid, err)
	}
	return p, nil
}

// openFiles makes the pipes and returns the descriptors to close after the fork.
func (p *Process) openFiles(l *Launcher, s *Spec, r *request) ([]int, error) {
	r.files = append(make([]uintptr, 0, 4), s.Files...)
	if s.Files == nil {
		r.files = append(r.files, l.null.Fd(), l.null.Fd(), l.null.Fd())
	}
	child := make([]int, 0, 3)
	attach := func(i, at int, use bool, sink func() (*pipe, int, error)) error {
		if !use {
			return nil
		}
		pi, fd, err := sink()
		if err != nil {
			return err
		}
		p.pipes[i] = pi
		child = append(child, fd)
		if at < len(r.files) {
			r.files[at] = uintptr(fd)
		} else {
			r.files = append(r.files, uintptr(fd))
		}
		return nil
	}
	own := s.Files == nil
	err := errors.Join(
		attach(0, 1, own && s.Stdout != nil, func() (*pipe, int, error) { return newPipe(p.loop, s.Stdout) }),
		attach(1, 2, own && s.Stderr != nil, func() (*pipe, int, error) { return newPipe(p.loop, s.Stderr) }),
		attach(2, 3, s.Status != nil, func() (*pipe, int, error) { return newPipe(p.loop, s.Status) }),
	)
	return child, err
}

func (p *Process) watch() error {
	for _, pi := range p.pipes {
		if pi != nil {
			if err := pi.watch(); err != nil {
				return err
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	p.id, err = p.loop.add(p.pidfd, p)
	return err
}

// discard undoes a start that failed, also one that failed after the fork.
func (p *Process) discard() {
	for _, pi := range p.pipes {
		if pi != nil {
			pi.close()
		}
	}
	if p.Pid > 0 { // not waited for: the number is still its own
		unix.Kill(p.Pid, unix.SIGKILL)
		wait4(p.Pid, nil, 0, nil)
	}
	if p.pidfd >= 0 {
		unix.Close(p.pidfd)
		p.pidfd = -1
	}
}

// Fork starts a process on the calling thread, which the caller has locked, with
// files as its first descriptors. The caller waits for it. Spec.Group, and what
// concerns output, are not used. It is for the shim, which has no launcher.
func Fork(s *Spec, files []uintptr) (pid, pidfd int, err error) {
	r := &request{spec: s, files: files}
	(&Launcher{}).fork(r)
	if r.pid > 0 {
		var perr error
		if pidfd, perr = unix.PidfdOpen(r.pid, 0); perr != nil {
			r.err = errors.Join(r.err, perr)
		}
	}
	return r.pid, pidfd, r.err
}

// fork runs on a locked thread.
func (l *Launcher) fork(r *request) {
	s := r.spec
	attr := &syscall.ProcAttr{Dir: s.Dir, Env: s.Env, Files: r.files, Sys: &syscall.SysProcAttr{
		Setsid: s.Session, Setctty: s.Terminal, Pdeathsig: s.ParentDeath, Credential: s.Credential,
		Cloneflags: s.CloneFlags, Ptrace: s.OpenFiles > 0 || s.Stopped != nil,
	}}
	if s.Group != nil {
		fd, err := s.Group.OpenDir()
		if err != nil {
			r.err = err
			return
		}
		if fd >= 0 {
			defer unix.Close(fd)
			attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, fd
		}
		if s.Group.NeedsThread() {
			defer r.back(s.Group.LeaveThread)
			if r.err = s.Group.JoinThread(); r.err != nil {
				return
			}
		}
	}
	if s.Enter != nil {
		leave, err := s.Enter()
		if leave != nil {
			defer r.back(leave)
		}
		if r.err = err; err != nil {
			return
		}
	}
	if r.path, r.err = lookPath(s.Path, s.Env); r.err != nil {
		return
	}
	argv := append(append(make([]string, 0, len(s.Args)+1), s.Path), s.Args...)
	r.pid, r.err = syscall.ForkExec(r.path, argv, attr)
	if r.err == nil && attr.Sys.Ptrace {
		r.err = prepare(r.pid, s)
	}
}

// back brings the thread back to where it forks from.
func (r *request) back(leave func() error) {
	if err := leave(); err != nil {
		r.err, r.lost = errors.Join(r.err, err), true
	}
}

// prepare finishes a child that stands still at its first instruction, being
// traced, and lets it go.
func prepare(pid int, s *Spec) error {
	var info unix.Siginfo
	const want = unix.WSTOPPED | unix.WEXITED | unix.WNOWAIT
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, want, nil)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return fmt.Errorf("prepare process: %w", err)
		}
	}
	if info.Code != cldTrapped && info.Code != cldStopped {
		return nil // killed already; the exit is waited for like any other
	}
	var ws unix.WaitStatus
	if _, err := wait4(pid, &ws, 0, nil); err != nil {
		return fmt.Errorf("prepare process: %w", err)
	}
	var errs []error
	if s.OpenFiles > 0 {
		lim := unix.Rlimit{Cur: s.OpenFiles, Max: s.OpenFiles}
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &lim, nil); err != nil {
			errs = append(errs, fmt.Errorf("limit open files to %d: %w", s.OpenFiles, err))
		}
	}
	if s.Stopped != nil {
		errs = append(errs, s.Stopped(pid))
	}
	sig := ws.StopSignal()
	if sig == unix.SIGTRAP { // of the exec itself
		sig = 0
	}
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, uintptr(pid), 0, uintptr(sig), 0, 0); errno != 0 && errno != unix.ESRCH {
		errs = append(errs, fmt.Errorf("let process go: %w", errno))
	}
	return errors.Join(errs...)
}

// Codes of a Siginfo.
const (
	cldTrapped = 4
	cldStopped = 5
)

func lookPath(path string, env []string) (string, error) {
	if strings.Contains(path, "/") {
		return path, nil
	}
	dirs := defaultPath
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			dirs = v
		}
	}
	for _, d := range filepath.SplitList(dirs) {
		if d == "" || !filepath.IsAbs(d) {
			continue
		}
		full := filepath.Join(d, path)
		var st unix.Stat_t
		if unix.Stat(full, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Mode&0o111 != 0 {
			return full, nil
		}
	}
	return "", fmt.Errorf("not found in PATH %s: %w", dirs, unix.ENOENT)
}
