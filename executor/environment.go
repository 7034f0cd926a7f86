package executor

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"cantina/action"
	"cantina/executor/shim"
	"cantina/internal/run"
	"cantina/spawn"
)

// sink takes one stream of a process.
type sink = io.WriteCloser

// basePath is the PATH of a container that names none.
const basePath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// StatusPath is where a process finds the pipe for its status.
const StatusPath = "/dev/fd/3"

// environment builds the environment of a program; a later name overrides an earlier. Weakest
// first: the cell's own and its defaults, the account's, the image's, the workload's and its secrets, the
// container's, the program's own, the ports.
func (c *container) environment(r *action.Run, a *account) ([]string, error) {
	w := &c.spec.Workload
	var env []string
	if a.cred == nil { // at level none the cell's own environment has the account
		env = a.environment()
	}
	if w.Isolation == action.IsolationNone {
		env = append(env, os.Environ()...)
	}
	n := 10 + len(c.spec.Defaults) + len(c.files.image.Env) + len(w.Env) + len(c.spec.Env) + len(r.Env) + 2*len(c.ports)
	env = append(make([]string, 0, len(env)+n), env...)
	env = addVariables(append(env, basePath), c.spec.Defaults)
	if a.cred != nil {
		env = append(env, a.environment()...)
	}
	env = append(env, c.files.image.Env...)
	env = addVariables(env, w.Env)
	secrets, err := c.e.secrets(c.spec.Domain, w.Secrets)
	if err != nil {
		return nil, err
	}
	env = addVariables(env, secrets)
	env = append(env, "CANTINA_CONTAINER="+c.id, "CANTINA_DIR="+c.files.insideDir())
	for _, list := range [...][]action.Variable{c.spec.Env, r.Env} {
		env = addVariables(env, list)
	}
	for i, p := range c.ports {
		if i == 0 {
			env = append(env, "PORT="+strconv.Itoa(p.Port))
		}
		env = append(env, action.PortVariable(p.Name)+"="+strconv.Itoa(p.Port))
	}
	if c.spec.StatusPipe {
		env = append(env, "CANTINA_STATUS="+StatusPath)
	}
	return lastWins(env), nil
}

func addVariables(env []string, list []action.Variable) []string {
	for _, v := range list {
		env = append(env, v.Name+"="+v.Value)
	}
	return env
}

func lastWins(env []string) []string {
	at := make(map[string]int, len(env))
	out := env[:0]
	for _, e := range env {
		name, _, ok := strings.Cut(e, "=")
		if !ok || strings.IndexByte(e, 0) >= 0 {
			continue
		}
		if i, seen := at[name]; seen {
			out[i] = e
			continue
		}
		at[name] = len(out)
		out = append(out, e)
	}
	return out
}

// statusSink keeps the last line written to the status pipe.
type statusSink struct {
	mu   sync.Mutex
	line shim.LastLine
}

// Write stores the output of a process.
func (s *statusSink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line.Take(p)
	return len(p), nil
}

// Close does nothing: several processes share the sink.
func (s *statusSink) Close() error { return nil }

// programStatus receives the status output of one program. The programs of a container have one
// status: its last line, from any of them.
type programStatus struct {
	*statusSink
	c     *container
	atEnd []byte // the status when this program ended
}

// Ended records the status when the program ends: others may have written unread data in time.
func (p *programStatus) Ended() {
	p.c.programs.mu.Lock()
	all := slices.Clone(p.c.programs.processes)
	p.c.programs.mu.Unlock()
	for _, other := range all {
		other.DrainStatus()
	}
	p.atEnd = p.last()
}

// statusAt is the status when a program ended; now, when it has not.
func (j *judgement) statusAt(p *spawn.Process) []byte {
	if p != nil && p.Ended() {
		if s, ok := p.Status().(*programStatus); ok {
			return s.atEnd
		}
	}
	return j.c.status.last()
}

func (s *statusSink) last() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.line.Last()
}

// errLink reports a path of a container that is not followed.
var errLink = errors.New("a link leads out of the directory or in a circle, or it is on another file system")

// openBelow opens a file named by a container; no link leads out of root, and none to another file
// system, which might not respond.
func openBelow(root, name string) (*os.File, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: root, Err: err}
	}
	defer unix.Close(dir)
	rel, err := filepath.Rel("/", filepath.Join("/", name))
	if err != nil {
		return nil, err
	}
	// A pipe put there must not hold the cell.
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(dir, rel, how)
	for try := 0; err == unix.EAGAIN && try < 100; try++ { // something was renamed meanwhile
		fd, err = unix.Openat2(dir, rel, how)
	}
	if err == unix.EXDEV || err == unix.ELOOP {
		err = errLink
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		f.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a plain file")}
	}
	return f, nil
}

// lockDir takes the lock of a data directory for as long as the file is open.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := run.Lock(f); err != nil {
		f.Close()
		if err == unix.EWOULDBLOCK {
			return nil, ErrInUse
		}
		return nil, err
	}
	return f, nil
}

// RaiseFileLimit raises the cell's limit of descriptors as far as the system permits, without
// changing that of its children: the Go runtime restores it.
func RaiseFileLimit() {
	var lim unix.Rlimit
	if unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &lim) != nil {
		return
	}
	most := uint64(1 << 20)
	want := unix.Rlimit{Cur: max(lim.Cur, most), Max: max(lim.Max, most)}
	if rawPrlimit(&want) != nil {
		want = unix.Rlimit{Cur: lim.Max, Max: lim.Max}
		rawPrlimit(&want)
	}
}

// MostOpenFiles is the highest limit of open files that this process can give a program.
func MostOpenFiles() int {
	var lim unix.Rlimit
	if unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &lim) != nil {
		return 0
	}
	head, caps := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	if unix.Capget(&head, &caps[0]) == nil && caps[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0 {
		// only the kernel bounds it
		b, err := os.ReadFile("/proc/sys/fs/nr_open")
		if n, perr := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && perr == nil {
			return n
		}
	}
	return int(min(lim.Max, math.MaxInt32))
}

// rawPrlimit goes past the wrapper, which would make the new limit the children's.
func rawPrlimit(lim *unix.Rlimit) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(lim)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
