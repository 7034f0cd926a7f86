package spawn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cantina/cgroup"
	"cantina/spawn/procid"
)

// ErrClosed reports that the launcher has ended.
var ErrClosed = errors.New("launcher has ended")

// starters is how many threads fork at the same time. A thread waits in the kernel, not
// on a processor: for its child to get to its program, and with v1 controllers for
// grace periods when it enters and leaves their groups.
const starters = 32

// defaultPath is where programs are looked up when Env has no PATH.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Launcher starts processes. Make it with NewLauncher and call Run.
type Launcher struct {
	tree    *cgroup.Tree // nil without control groups
	null    *os.File
	limit   unix.Rlimit   // of open files, for processes without their own
	ignored []uintptr     // signals that the cell ignores
	plain   chan *request // threads that may gain privileges
	bound   chan *request // threads with no_new_privs, permanently
	idle    chan *starter // that have nothing to do
	loops   []*loop
	wakers  []int // see wakers
	turn    atomic.Uint32
	slots   chan struct{} // starts that hold descriptors for their children
	ended   chan struct{}

	mu    sync.Mutex
	free  sync.Cond // of mu: fewer work
	done  <-chan struct{}
	fast  []*starter
	works int // threads that do not hang
	hangs int // threads that wait for a child that does not get to its program
	pools [3]pool
	over  bool
}

// request is one start, as a thread sees it.
type request struct {
	spec  *Spec
	files []uintptr
	child []int // those of files that go to a starter
	spare func() error
	pool  int
	pid   int
	err   error
	lost  bool // the thread did not get back
	late  bool // the launcher had ended when the thread was back: its descriptors are closed
	done  chan struct{}

	mu       sync.Mutex
	made     *child
	tid      int  // of the thread, while it waits for the child
	returned bool // the thread waits no more
	hangs    bool
}

// NewLauncher returns a launcher for processes in the groups of tree; nil = none.
func NewLauncher(tree *cgroup.Tree) (*Launcher, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open launcher: %w", err)
	}
	l := &Launcher{tree: tree, null: null, plain: make(chan *request), bound: make(chan *request),
		slots: make(chan struct{}, maxStarts), ended: make(chan struct{})}
	l.free.L = &l.mu
	if l.limit, err = inheritedLimit(); err != nil {
		return nil, fmt.Errorf("open launcher: %w", err)
	}
	l.ignored = inheritedIgnores()
	for range max(1, min(runtime.GOMAXPROCS(0)/2, 8)) {
		lp, err := newLoop()
		if err != nil {
			return nil, err
		}
		l.loops = append(l.loops, lp)
	}
	if l.wakers, err = wakers(); err != nil {
		return nil, err
	}
	n := starters
	l.idle = make(chan *starter, n+maxHangs)
	for range n {
		st, err := newStarter()
		if err != nil {
			return nil, err
		}
		l.fast = append(l.fast, st)
	}
	// The descriptors that the cell itself was started with stay with it.
	unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	return l, nil
}

// inheritedLimit is the limit of open files that the cell was started with. Go's runtime has
// raised it since, and passes it only to its own children.
func inheritedLimit() (unix.Rlimit, error) {
	runtime.LockOSThread() // of the tracer
	defer runtime.UnlockOSThread()
	var lim unix.Rlimit
	pid, err := syscall.ForkExec("/proc/self/exe", []string{"cantina"},
		&syscall.ProcAttr{Sys: &syscall.SysProcAttr{Ptrace: true}})
	if err != nil {
		return lim, fmt.Errorf("read the limit of open files: %w", err)
	}
	err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &lim)
	unix.Kill(pid, unix.SIGKILL)
	for {
		var ws unix.WaitStatus
		if _, werr := wait4(pid, &ws, 0, nil); werr != nil || !ws.Stopped() {
			break
		}
	}
	if err != nil {
		return lim, fmt.Errorf("read the limit of open files: %w", err)
	}
	return lim, nil
}

// Limit is the soft and the hard limit of open files of a process that is given none.
func (l *Launcher) Limit() [2]uint64 { return [2]uint64{l.limit.Cur, l.limit.Max} }

// Run serves until ctx is done. Processes that still live then lose their parent thread, so they
// get their parent-death signal. A thread whose child hangs is not waited for.
func (l *Launcher) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(l.loops))
	for i, lp := range l.loops {
		wg.Go(func() { errs[i] = lp.run(ctx) })
	}
	l.mu.Lock()
	l.done = ctx.Done()
	n := len(l.fast)
	l.pools = [3]pool{poolFast: {n, n}, poolBound: {n, n}, poolPlain: {1, 1}}
	for _, st := range l.fast {
		l.thread(func() { st.serve(l.done, l) })
		l.idle <- st
	}
	for range n {
		l.thread(func() { l.serve(l.done, l.bound, true) })
	}
	l.thread(func() { l.serve(l.done, l.plain, false) })
	l.mu.Unlock()
	wg.Wait()
	l.mu.Lock()
	for l.works > 0 {
		l.free.Wait()
	}
	fast := l.fast
	l.over = true
	l.mu.Unlock()
	close(l.ended)
	l.null.Close()
	for _, st := range fast {
		st.close()
	}
	return errors.Join(errs...)
}

// Start starts a process. The error names the program when it cannot be run. When the
// program or its directory is where the kernel does not come back from, Start returns all
// the same, with a process that is not Launched yet.
func (l *Launcher) Start(s *Spec) (*Process, error) {
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-l.ended:
		return nil, fmt.Errorf("start %s: %w", s.Path, ErrClosed)
	}
	lp := l.loops[int(l.turn.Add(1))%len(l.loops)]
	p := &Process{loop: lp, done: make(chan struct{}), pidfd: -1, killGroup: s.KillGroup, status: s.Status}
	r := &request{spec: s, done: make(chan struct{})}
	child, err := p.openFiles(l, s, r)
	if err == nil {
		p.started = time.Now()
		err = l.ask(r, child)
	}
	for _, fd := range child {
		unix.Close(fd)
	}
	var pid int
	if errors.Is(err, errHangs) { // the thread still writes to r
		p.start, pid, err = r, int(r.made.tid.Load()), nil
	} else {
		pid = r.pid
	}
	if pid > 0 {
		var perr error
		p.Pid = pid
		// It has not been waited for: the number is still its own.
		if p.pidfd, perr = unix.PidfdOpen(pid, 0); perr != nil {
			err = errors.Join(err, perr)
		}
	}
	if err == nil {
		err = p.watch()
	}
	if err != nil {
		p.discard()
		return nil, fmt.Errorf("start %s: %w", s.Path, err)
	}
	return p, nil
}

// Watch returns a process that is not a child: Done is closed when it has ended,
// but its result is not known (ExitCode -1). It returns procid.ErrGone when id lives no
// more; after any other error it may.
func (l *Launcher) Watch(id procid.Identity) (*Process, error) {
	fd, err := id.Open()
	if err != nil {
		return nil, fmt.Errorf("watch process %d: %w", id.Pid, err)
	}
	p := &Process{Pid: id.Pid, pidfd: fd, loop: l.loops[int(l.turn.Add(1))%len(l.loops)], done: make(chan struct{}),
		started: time.Now()}
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
		if s.Stdin != 0 {
			r.files[0] = s.Stdin
		}
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
		if who := s.Credential; who != nil {
			if err := unix.Fchown(fd, int(who.Uid), int(who.Gid)); err != nil {
				return fmt.Errorf("give pipe to uid %d: %w", who.Uid, err)
			}
		}
		if at < len(r.files) {
			r.files[at] = uintptr(fd)
		} else {
			r.files = append(r.files, uintptr(fd))
		}
		return nil
	}
	own := s.Files == nil
	err := errors.Join(
		attach(stdoutPipe, 1, own && s.Stdout != nil, func() (*pipe, int, error) { return newPipe(p.loop, s.Stdout) }),
		attach(stderrPipe, 2, own && s.Stderr != nil, func() (*pipe, int, error) { return newPipe(p.loop, s.Stderr) }),
		attach(statusPipe, 3, s.Status != nil, func() (*pipe, int, error) { return newPipe(p.loop, s.Status) }),
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
		if p.killGroup {
			unix.Kill(-p.Pid, unix.SIGKILL)
		}
		unix.Kill(p.Pid, unix.SIGKILL)
		wait4(p.Pid, nil, 0, nil)
	}
	if p.pidfd >= 0 {
		unix.Close(p.pidfd)
		p.pidfd = -1
	}
}

// Fork starts a process on the calling thread, which the caller has locked, with files as its
// first descriptors. The caller waits for it. Spec.Group, and the output fields, are not used.
// Limit is the soft and the hard limit of open files if the Spec has none. It is for the shim,
// which has no launcher.
func Fork(s *Spec, files []uintptr, limit [2]uint64) (pid, pidfd int, err error) {
	r := &request{spec: s, files: files}
	(&Launcher{limit: unix.Rlimit{Cur: limit[0], Max: limit[1]}, ignored: inheritedIgnores()}).fork(r)
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
	limit := &l.limit
	if s.OpenFiles > 0 {
		limit = &unix.Rlimit{Cur: s.OpenFiles, Max: s.OpenFiles}
	}
	made, err := newChild(s, r.files, limit, l.ignored)
	if err != nil {
		r.err = err
		return
	}
	group := -1
	if s.Group != nil {
		if group, r.err = s.Group.OpenDir(); r.err != nil {
			return
		}
		if group >= 0 {
			defer unix.Close(group)
		}
		if s.Group.NeedsThread() {
			defer r.leave(s.Group.LeaveThread)
			if r.err = s.Group.JoinThread(); r.err != nil {
				return
			}
		}
	}
	if s.Enter != nil {
		leave, err := s.Enter()
		if leave != nil {
			defer r.leave(leave)
		}
		if r.err = err; err != nil {
			return
		}
	}
	r.mu.Lock()
	r.made, r.tid = made, unix.Gettid()
	r.mu.Unlock()
	r.pid, r.err = made.spawn(s.CloneFlags, group)
	if s.Group != nil {
		_ = s.Group.Throttle() // fails only if the group was removed: then its processes have ended
	}
	if l.back(r); r.late {
		r.err = errors.Join(r.err, ErrClosed)
	}
	if r.err == nil {
		r.err = made.failure(s)
	}
}

// leave brings the thread back to where it forks from.
func (r *request) leave(back func() error) {
	if r.late {
		return // the thread ends
	}
	if err := back(); err != nil {
		r.err, r.lost = errors.Join(r.err, err), true
	}
}
