package spawn

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Go's own fork counts the forking thread as running until the child's exec is done: a program on
// a mount that hangs would block the next garbage collection, and with it the whole cell. It also
// changes to the child's directory while the child still has the cell's descriptors, including its
// locks. So the child is made here: it executes a list of system calls, in assembly, and the
// thread counts as waiting for the kernel. The child shares the cell's memory until its exec, and
// the kernel suspends the thread meanwhile (CLONE_VFORK): only then the child does not count as a
// user of the cell's memory when the kernel selects a process to kill in a container that is out
// of memory.

// op is one system call of a child. The layout is known to clone.
type op struct {
	nr   uintptr
	args [6]uintptr
	skip uint64  // bit n: error n is no reason to stop
	want uintptr // the expected result, otherwise it stops; anything = any result
}

const anything = ^uintptr(0)

// report is the message of a child that did not execute its program.
type report struct {
	op    uintptr // address of the one that failed; 0 = none
	errno uintptr
}

// clone makes a system call that creates a process, which executes ops. It returns the result of
// the call for the parent.
func clone(call *[6]uintptr, ops *op, report *report) (pid uintptr)

//go:linkname entersyscall runtime.entersyscall
func entersyscall()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()

// blocked makes the call while the thread counts as one that waits for the kernel.
//
//go:nosplit
//go:norace
func blocked(call *[6]uintptr, ops *op, r *report) uintptr {
	entersyscall()
	pid := clone(call, ops, r)
	exitsyscall()
	return pid
}

// child is a process in the making.
type child struct {
	ops    []op
	report report
	args   cloneArgs
	mask   uint64             // signals that the thread blocks, and the child shall
	tid    atomic.Int32       // set by the kernel before the child runs; 0 = not yet
	hold   []any              // targets of the pointers in ops
	search string             // directories of PATH that are tried
	mounts map[uintptr]string // where, by the argument of the call
}

// Handling of the errors that look-ups in PATH skip.
const notHere = 1<<unix.ENOENT | 1<<unix.EACCES | 1<<unix.ENOTDIR | 1<<unix.ELOOP | 1<<unix.ENAMETOOLONG

func (c *child) do(nr uintptr, args ...uintptr) *op {
	o := op{nr: nr, want: anything}
	copy(o.args[:], args)
	c.ops = append(c.ops, o)
	return &c.ops[len(c.ops)-1]
}

func (c *child) text(s string) (uintptr, error) {
	p, err := unix.BytePtrFromString(s)
	if err != nil {
		return 0, err
	}
	c.hold = append(c.hold, p)
	return uintptr(unsafe.Pointer(p)), nil
}

func (c *child) texts(list []string) (uintptr, error) {
	p, err := syscall.SlicePtrFromStrings(list)
	if err != nil {
		return 0, err
	}
	c.hold = append(c.hold, p)
	return uintptr(unsafe.Pointer(&p[0])), nil
}

// newChild lists the child's system calls, in the order of Go's own fork.
func newChild(s *Spec, files []uintptr, limit *unix.Rlimit, ignored []uintptr) (*child, error) {
	c := &child{hold: make([]any, 0, 8)}
	if len(ignored) > 0 { // a shell's "&" and nohup do not apply to containers
		hear := &sigaction{}
		c.hold = append(c.hold, hear)
		for _, sig := range ignored {
			c.do(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(hear)), 0, 8)
		}
	}
	c.do(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&c.mask)), 0, 8)
	if s.Session {
		c.do(unix.SYS_SETSID)
	}
	if err := c.mount(s.Mounts); err != nil {
		return nil, err
	}
	if cred := s.Credential; cred != nil {
		if limit != nil {
			c.openFiles(raised(limit)) // while it may
		}
		c.groups(cred.Groups)
		c.do(unix.SYS_SETRESGID, uintptr(cred.Gid), uintptr(cred.Gid), uintptr(cred.Gid))
		c.do(unix.SYS_SETRESUID, uintptr(cred.Uid), uintptr(cred.Uid), uintptr(cred.Uid))
	}
	if s.ParentDeath != 0 {
		c.do(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(s.ParentDeath))
		if s.CloneFlags&unix.CLONE_NEWPID == 0 { // else it sees no parent
			c.do(unix.SYS_GETPPID).want = uintptr(unix.Getpid()) // it may be dead by now
		}
	}
	c.descriptors(files, s.inMemory())
	if s.Terminal {
		c.do(unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 1)
	}
	if s.Dir != "" {
		dir, err := c.text(s.Dir)
		if err != nil {
			return nil, fmt.Errorf("directory %q: %w", s.Dir, err)
		}
		c.do(unix.SYS_CHDIR, dir)
	}
	if limit != nil {
		c.openFiles(limit)
	}
	return c, c.exec(s)
}

// mount makes the mounts, while the process may.
func (c *child) mount(list []Mount) error {
	for _, m := range list {
		var texts [3]uintptr
		for i, text := range [...]string{m.Source, m.Target, m.Type} {
			var err error
			if texts[i], err = c.text(text); err != nil {
				return fmt.Errorf("mount %q: %w", m.Target, err)
			}
		}
		o := c.do(unix.SYS_MOUNT, texts[0], texts[1], texts[2], m.Flags)
		if m.Optional {
			o.skip = 1 << unix.ENOENT
		}
		if c.mounts == nil {
			c.mounts = map[uintptr]string{}
		}
		c.mounts[texts[1]] = m.Target
	}
	return nil
}

// openFiles sets the limit of open files.
func (c *child) openFiles(limit *unix.Rlimit) {
	c.hold = append(c.hold, limit)
	c.do(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(limit)), 0)
}

// raised permits a limit to be set later, and all descriptors to be used meanwhile.
func raised(limit *unix.Rlimit) *unix.Rlimit {
	var now unix.Rlimit
	if unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &now) != nil {
		return limit
	}
	return &unix.Rlimit{Cur: max(now.Cur, limit.Cur), Max: max(now.Max, limit.Max)}
}

// groups sets the supplementary groups.
func (c *child) groups(list []uint32) {
	if len(list) == 0 {
		c.do(unix.SYS_SETGROUPS, 0, 0)
		return
	}
	list = slices.Clone(list)
	c.hold = append(c.hold, list)
	c.do(unix.SYS_SETGROUPS, uintptr(len(list)), uintptr(unsafe.Pointer(&list[0])))
}

// inMemory reports whether the program is a descriptor of the cell's.
func (s *Spec) inMemory() bool { return strings.HasPrefix(s.Path, "/proc/self/fd/") }

// descriptors gives the child files as its first ones, and no others: at once, so that a child
// that hangs, or its exec, holds none of the cell's.
func (c *child) descriptors(files []uintptr, byExec bool) {
	n := uintptr(len(files))
	// Those that are in the way of others go up first.
	at := make([]uintptr, n)
	free := n
	for _, f := range files {
		free = max(free, f+1)
	}
	for i, f := range files {
		at[i] = f
		if f < n && f != uintptr(i) {
			at[i] = free
			c.do(unix.SYS_DUP3, f, free, unix.O_CLOEXEC)
			free++
		}
	}
	for i, f := range at {
		if f == uintptr(i) {
			c.do(unix.SYS_FCNTL, f, unix.F_SETFD, 0)
		} else {
			c.do(unix.SYS_DUP3, f, uintptr(i), 0)
		}
	}
	how := uintptr(0)
	if byExec {
		how = unix.CLOSE_RANGE_CLOEXEC
	}
	c.do(unix.SYS_CLOSE_RANGE, n, uintptr(^uint32(0)), how).skip = 1 << unix.ENOSYS
}

// exec runs the program, looked for in PATH when its name has no slash. The last
// operation cannot succeed: so every way here ends with a report.
func (c *child) exec(s *Spec) error {
	argv, err := c.texts(append(append(make([]string, 0, len(s.Args)+1), cmp.Or(s.Name, s.Path)), s.Args...))
	if err != nil {
		return fmt.Errorf("arguments: %w", err)
	}
	env, err := c.texts(s.Env)
	if err != nil {
		return fmt.Errorf("environment: %w", err)
	}
	names := []string{s.Path}
	if !strings.Contains(s.Path, "/") {
		names, c.search = inPath(s.Path, s.Env)
	}
	for _, name := range names {
		path, err := c.text(name)
		if err != nil {
			return err
		}
		c.do(unix.SYS_EXECVE, path, argv, env).skip = 1 << unix.EACCES
		if c.search != "" {
			c.ops[len(c.ops)-1].skip = notHere
			continue
		}
		// It may be a directory: then this succeeds, and the next call reports it.
		at := unix.AT_FDCWD
		c.do(unix.SYS_OPENAT, uintptr(at), path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	}
	c.do(^uintptr(0))
	return nil
}

// inPath is where a program may be, by the PATH of its environment.
func inPath(name string, env []string) (names []string, dirs string) {
	dirs = defaultPath
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			dirs = v
		}
	}
	for _, d := range filepath.SplitList(dirs) {
		if filepath.IsAbs(d) {
			names = append(names, filepath.Join(d, name))
		}
	}
	return names, "PATH " + dirs
}

// errNotInPath is the error for a program that no directory of PATH has.
type errNotInPath struct{}

// Error does not list the directories: they are those of env, or of the cell.
func (errNotInPath) Error() string { return "not found in PATH" }

// Unwrap makes it ENOENT.
func (errNotInPath) Unwrap() error { return unix.ENOENT }

// failure is why the child did not get to its program; nil when it did, or was killed.
func (c *child) failure(s *Spec) error {
	if c.report.op == 0 {
		return nil
	}
	errno := unix.Errno(c.report.errno)
	o := &c.ops[(c.report.op-uintptr(unsafe.Pointer(&c.ops[0])))/unsafe.Sizeof(op{})]
	switch {
	case o.nr == ^uintptr(0) && c.search != "":
		return errNotInPath{}
	case o.nr == ^uintptr(0):
		return fmt.Errorf("is a directory: %w", unix.EACCES)
	case o.nr == unix.SYS_OPENAT: // error of exec
		return unix.EACCES
	case o.nr == unix.SYS_GETPPID:
		return errors.New("its parent is gone")
	case o.nr == unix.SYS_PRLIMIT64:
		return fmt.Errorf("limit of %d open files: %w", s.OpenFiles, errno)
	case o.nr == unix.SYS_MOUNT:
		return fmt.Errorf("mount %s: %w", c.mounts[o.args[1]], errno)
	case o.nr == unix.SYS_CHDIR:
		return fmt.Errorf("directory %s: %w", s.Dir, errno)
	}
	return errno
}

// cloneArgs are the arguments of clone3 (Linux, include/uapi/linux/sched.h).
type cloneArgs struct {
	flags, pidfd, childTid, parentTid, exitSignal, stack, stackSize, tls, setTid, setTidSize, cgroup uint64
}

const (
	cloneClearSighand = 0x100000000
	cloneFlags        = unix.CLONE_VM | unix.CLONE_VFORK | unix.CLONE_PARENT_SETTID
	signals           = 64
)

// spawn makes the child, in the group that cgroup is a descriptor of; -1 = the
// thread's own. It returns when the program runs, or the child has ended.
func (c *child) spawn(flags uintptr, cgroup int) (int, error) {
	all := ^uint64(0)
	if err := setMask(&all, &c.mask); err != nil {
		return 0, err
	}
	defer func() { _ = setMask(&c.mask, nil) }() // it was that before
	c.args = cloneArgs{flags: uint64(flags) | cloneFlags | cloneClearSighand,
		parentTid: uint64(uintptr(unsafe.Pointer(&c.tid))), exitSignal: uint64(unix.SIGCHLD)}
	if cgroup >= 0 {
		c.args.flags |= unix.CLONE_INTO_CGROUP
		c.args.cgroup = uint64(cgroup)
	}
	call := &[6]uintptr{unix.SYS_CLONE3, uintptr(unsafe.Pointer(&c.args)), unsafe.Sizeof(c.args)}
	pid := blocked(call, &c.ops[0], &c.report)
	if unix.Errno(-pid) == unix.ENOSYS && cgroup < 0 {
		pid = c.spawnOld(flags)
	}
	runtime.KeepAlive(c)
	if errno := -int(pid); errno > 0 && errno < 4096 {
		return 0, fmt.Errorf("make process: %w", unix.Errno(errno))
	}
	return int(pid), nil
}

// spawnOld does it on an old kernel, or in a container that simulates one.
func (c *child) spawnOld(flags uintptr) uintptr {
	c.clearHandlers()
	call := &[6]uintptr{unix.SYS_CLONE, flags | cloneFlags | uintptr(unix.SIGCHLD), 0, uintptr(unsafe.Pointer(&c.tid))}
	return blocked(call, &c.ops[0], &c.report)
}

// setMask sets which signals the thread blocks.
func setMask(mask, old *uint64) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(mask)),
		uintptr(unsafe.Pointer(old)), 8, 0, 0)
	if errno != 0 {
		return fmt.Errorf("block signals: %w", errno)
	}
	return nil
}

// sigaction is the kernel's, with room for all of its forms. The zero value is the
// default action.
type sigaction struct{ handler, flags, restorer, mask uintptr }

// Handling of a signal.
const (
	byDefault = 0
	ignore    = 1
)

// handlers are the handlers of all signals, from 1 on.
func handlers() [signals]uintptr {
	var out [signals]uintptr
	for i := range out {
		var was sigaction
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(i+1), 0, uintptr(unsafe.Pointer(&was)), 8, 0,
			0); errno == 0 {
			out[i] = was.handler
		}
	}
	return out
}

// inheritedIgnoresare the signals that this process ignores.
func inheritedIgnores() []uintptr {
	var out []uintptr
	for i, h := range handlers() {
		if h == ignore {
			out = append(out, uintptr(i+1))
		}
	}
	return out
}

// clearHandlers has the child forget the cell's handlers of signals before it
// unblocks any.
func (c *child) clearHandlers() {
	rest, none := c.ops, &sigaction{}
	c.ops, c.hold = make([]op, 0, len(c.ops)+signals), append(c.hold, none)
	for i, h := range handlers() {
		if h != byDefault && h != ignore {
			c.do(unix.SYS_RT_SIGACTION, uintptr(i+1), uintptr(unsafe.Pointer(none)), 0, 8)
		}
	}
	c.ops = append(c.ops, rest...)
}
