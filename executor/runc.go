package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cantina/action"
	"cantina/executor/runc"
	"cantina/spawn"
)

// The values of Config.Runc that are no path.
const (
	RuncAuto = "auto" // use it where it is found and can be used, else the cell's own means
	RuncOff  = "off"  // never
)

// ErrRunc reports a container that runc was to run and cannot.
var ErrRunc = errors.New("runc cannot run the container")

// roots says by whom containers with a root of their own are run.
type roots struct {
	program string // path of runc; "" = nobody but the cell
	must    bool   // the operator named it: what it cannot run is refused
	why     error  // why it is not used, or cannot be

	mu     sync.Mutex
	proven bool  // it has run something
	broken error // it failed where the cell's own means did not
}

// openRoots looks for runc.
func (e *Executor) openRoots() (*roots, error) {
	r := &roots{program: e.cfg.Runc}
	switch r.program {
	case RuncOff:
		return &roots{why: errors.New("it is switched off")}, nil
	case "", RuncAuto:
		if r.program = findRunc(); r.program == "" {
			return &roots{why: errors.New("there is no runc in " + basePath)}, nil
		}
	default:
		r.must = true
		if err := unix.Access(r.program, unix.X_OK); err != nil {
			return nil, fmt.Errorf("runc %s cannot be run: %w; install it, or let the cell do without: %s", r.program, err, RuncOff)
		}
	}
	switch {
	case e.tree == nil || !e.tree.V2():
		r.why = errors.New("it needs the unified hierarchy of control groups, so that it touches no group but the container's")
	case os.Getuid() != 0:
		r.why = errors.New("it needs root")
	}
	return r, nil
}

// findRunc looks where programs of the system are, whatever the cell's own PATH is.
func findRunc() string {
	for _, d := range filepath.SplitList(basePath[len("PATH="):]) {
		p := filepath.Join(d, "runc")
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && unix.Access(p, unix.X_OK) == nil {
			return p
		}
	}
	return ""
}

// Roots says in words by whom containers with a root of their own are run, and why.
func (e *Executor) Roots() string {
	r := e.roots
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.why == nil && r.broken == nil:
		return "by " + r.program
	case r.must:
		return "refused: " + r.program + ": " + r.why.Error()
	case r.broken != nil:
		return "by the cell itself: " + r.program + " failed: " + r.broken.Error()
	}
	return "by the cell itself: runc: " + r.why.Error()
}

// Isolation says in words how strong this machine isolates, for the cell's state.
func (e *Executor) Isolation() []string {
	var out []string
	switch {
	case e.tree == nil:
		out = append(out, "no control groups")
	case e.tree.V2():
		out = append(out, "control groups v2")
	default:
		out = append(out, "control groups v1")
	}
	if e.spaces == nil || os.Getuid() != 0 {
		return append(out, "no name spaces")
	}
	return append(out, "name spaces", "roots "+e.Roots())
}

// chooseRunc decides whether runc runs this container.
func (c *container) chooseRunc() error {
	r := c.e.roots
	why := r.why
	t := &c.spec.Workload.Termination
	switch {
	case why != nil:
	case c.keep():
		why = errors.New("on_cell_restart: keep: the shim makes the root itself")
	case t.NoSession:
		why = errors.New("it gives a program a session of its own")
	case c.e.tree.LimitsV2() && c.limits().MemoryBytes > 0 && c.limits().MemoryBytes < runcRoom:
		why = fmt.Errorf("it needs %d MB at the start, more than the limit", runcRoom>>20)
	}
	if r.must && why != nil {
		return fmt.Errorf("%w: %s: %w", ErrRunc, r.program, why)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if why == nil {
		why = r.broken
	}
	if c.runc, c.runcWhy = "", why; why == nil {
		c.runc = r.program
	}
	return nil
}

const (
	runcRoom    = 64 << 20 // bytes that runc and what starts it take where they count
	runcThreads = 48       // likewise, threads
)

// startByRunc starts one program of a container with a root of its own.
func (c *container) startByRunc(s *spawn.Spec, r *action.Run, out, errs sink, pa patience) (*spawn.Process, error) {
	p, err := c.tryRunc(s, r, out, errs, pa)
	rs := c.e.roots
	rs.mu.Lock()
	rs.proven = rs.proven || err == nil
	again := err != nil && !rs.proven && !rs.must
	rs.mu.Unlock()
	if a, _ := c.asked(); !again || a != askNothing || errors.Is(err, ErrHangs) || !c.emptied() {
		return p, err
	}
	// runc has not run anything here yet: is it its fault?
	p, oerr := c.startWithoutRunc(r, out, errs, pa)
	if oerr != nil {
		return nil, err
	}
	rs.mu.Lock()
	rs.broken = err
	rs.mu.Unlock()
	c.runcWhy = err
	c.e.log.Warn("runc is not used", "program", rs.program, "error", err)
	c.tellIsolation()
	return p, nil
}

// emptied reports whether the container is empty for certain, after it has ended what runc
// left: what has runc start a program may end before it can say that it has, and then the
// program lives.
func (c *container) emptied() bool {
	if c.alive() != nil {
		return false
	}
	for end := time.Now().Add(c.e.cfg.StuckAfter); time.Now().Before(end); time.Sleep(lookAgain) {
		if full, err := c.group.Populated(); err == nil && !full {
			return true
		}
		// One by one: a v2 group that was killed as a whole kills what is started in it later.
		if err := c.group.Signal(unix.SIGKILL); err != nil {
			return false
		}
	}
	return false
}

func (c *container) startWithoutRunc(r *action.Run, out, errs sink, pa patience) (*spawn.Process, error) {
	c.runc = ""
	c.view.Close() // nothing has been made in it that lives
	c.view = c.rootView()
	s, err := c.processSpec(r)
	if err != nil {
		return nil, err
	}
	return c.launch(s, r, out, errs, pa)
}

// tryRunc has a process of the container have runc start the program.
func (c *container) tryRunc(s *spawn.Spec, r *action.Run, out, errs sink, pa patience) (*spawn.Process, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", r.Path, err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", r.Path, err), unix.Close(fds[0]), unix.Close(fds[1]))
	}
	near := os.NewFile(uintptr(fds[0]), "runc")
	defer near.Close()
	p, err := c.launch(&spawn.Spec{Path: c.e.keeper.path, Args: []string{"runc", "-"}, Env: []string{"GOMAXPROCS=2"}, Stdin: uintptr(fds[1]),
		Group: s.Group, Unlimited: true, Session: true, Enter: s.Enter, Status: s.Status, PipeOwner: s.Credential}, r, out, errs, pa)
	unix.Close(fds[1])
	if err != nil {
		return nil, err
	}
	st, err := c.awaitRunc(near, c.runcSpec(s), r.Path, p, pa)
	if err == nil && st.Error != "" {
		err = errors.New(st.Error)
	}
	if err == nil {
		err = p.StandFor(st.Pid)
		if errors.Is(err, spawn.ErrGone) {
			err = nil // it has ended already
		}
	}
	if err != nil {
		p.Signal(syscall.SIGKILL)
		<-p.Done()
		return nil, fmt.Errorf("start %s: %w", r.Path, err)
	}
	return p, nil
}

func (c *container) runcSpec(s *spawn.Spec) *runc.Spec {
	root := c.isolateRoot()
	rs := &runc.Spec{Program: c.runc, Scratch: c.below("runc"), Root: root.Merged, Folder: root.Folder, Inside: root.Inside,
		Path: s.Path, Args: s.Args, Dir: s.Dir, Env: s.Env, Status: s.Status != nil, OpenFiles: c.e.launcher.Limit(),
		Cell: os.Getpid(), ParentDeath: int(s.ParentDeath), Slots: c.group.JoinedDirs()}
	if s.OpenFiles > 0 {
		rs.OpenFiles = [2]uint64{s.OpenFiles, s.OpenFiles}
	}
	if s.Credential != nil {
		rs.UID, rs.GID, rs.Groups = s.Credential.Uid, s.Credential.Gid, s.Credential.Groups
	}
	return rs
}

// awaitRunc tells the process what to run and waits for what comes of it.
func (c *container) awaitRunc(near *os.File, spec *runc.Spec, program string, p *spawn.Process, pa patience) (runc.Started, error) {
	var said runc.Started
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if failed = json.NewEncoder(near).Encode(spec); failed == nil {
			failed = json.NewDecoder(near).Decode(&said)
		}
	}()
	defer func() {
		near.Close() // so that nobody is waited for any more
		<-done
	}()
	if err := c.await(done, p, program, c.waiting, pa); err != nil {
		return runc.Started{}, err
	}
	if failed != nil {
		return said, fmt.Errorf("the helper that starts runc ended: %w", failed)
	}
	return said, nil
}

// waiting are the processes of the container that wait in the kernel and cannot be
// interrupted.
func (c *container) waiting() []int {
	pids, err := c.group.Procs()
	if err != nil {
		return nil
	}
	var out []int
	for _, pid := range pids {
		if describe(pid).State == "D" {
			out = append(out, pid)
		}
	}
	return out
}

// signalGroup signals the process group of a program. One that runc started is a child
// of another process, so that its number may be another's at any moment: only what is in
// the control group is signalled then.
func (c *container) signalGroup(p *spawn.Process, sig syscall.Signal) {
	if !p.Stands() {
		p.SignalGroup(sig)
		return
	}
	c.signalMembers(p.Main(), sig)
}

// signalMembers signals those of the container's processes whose group leader leads.
func (c *container) signalMembers(leader int, sig syscall.Signal) {
	c.mu.Lock()
	g := c.group
	c.mu.Unlock()
	if g == nil {
		return
	}
	pids, err := g.Procs()
	if err != nil {
		return
	}
	for _, pid := range pids {
		if pgid, err := unix.Getpgid(pid); err == nil && pgid == leader {
			g.SignalOne(pid, sig)
		}
	}
}
