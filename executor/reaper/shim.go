package reaper

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cantina/executor/isolate"
	"cantina/executor/shim"
	"cantina/spawn"
	"cantina/spawn/procid"
)

// runShim owns one container that outlives its cell: it starts the program, keeps
// its output and how it ends in files, and ends after it. No signal but KILL ends
// it: the signals that a container gets are for the program.
func runShim(dir string) int {
	debug.SetGCPercent(10)
	// Caught, not ignored: an ignored signal would stay ignored in the program.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGVTALRM, syscall.SIGPROF, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
		syscall.SIGPIPE)
	runtime.LockOSThread() // the thread of the parent-death signal
	s := &shimmed{dir: dir}
	if err := s.start(); err != nil {
		note := shim.Started{Error: err.Error(), Found: !errors.Is(err, unix.ENOENT), At: time.Now()}
		if err := shim.Put(dir, shim.StartedFile, note, false); err != nil {
			say(err.Error())
		}
		return 1
	}
	if err := s.serve(); err != nil {
		say(err.Error())
		return 1
	}
	return 0
}

// shimmed is the shim's container.
type shimmed struct {
	dir        string
	pid, pidfd int
	streams    [3]stream // stdout, stderr, status
	status     shim.LastLine
	limit      *shim.TimeLimit // nil = none, or its last signal is sent
	late       bool            // it has sent one
}

// stream is one pipe and the file that it goes into.
type stream struct {
	pipe  int // -1 = closed
	n     int // 1 or 2; 0 = the status
	file  int // -1 = none yet
	at    int64
	begin int64 // of file
}

func (s *shimmed) start() error {
	var spec shim.Spec
	if err := shim.Get(s.dir, shim.SpecFile, &spec); err != nil {
		return err
	}
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	files := []uintptr{uintptr(null), uintptr(null), uintptr(null)}
	if spec.Status {
		files = append(files, uintptr(null))
	}
	for i := range s.streams {
		st := &s.streams[i]
		*st = stream{pipe: -1, file: -1, n: i + 1}
		if i < 2 && spec.Quiet || i == 2 && !spec.Status {
			continue
		}
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		st.pipe, files[i+1] = p[0], uintptr(p[1])
		defer unix.Close(p[1])
		if u := spec.User; u != nil {
			if err := unix.Fchown(p[1], int(u.Uid), int(u.Gid)); err != nil {
				return err
			}
		}
	}
	if err := shim.Reserve(s.dir, shim.EndedFile, shim.EndedSize(spec.Status)); err != nil {
		return err
	}
	s.streams[2].n, s.limit = 0, spec.TimeLimit
	ps, err := processSpec(&spec)
	if err != nil {
		return err
	}
	if s.pid, s.pidfd, err = spawn.Fork(ps, files, spec.Limit); err != nil {
		if s.pid > 0 {
			unix.Kill(s.pid, unix.SIGKILL)
		}
		return err
	}
	id, err := procid.Of(s.pid)
	if errors.Is(err, procid.ErrGone) { // already a zombie; the start time still identifies it
		id, err = procid.Identity{Pid: s.pid}, nil
	}
	if err != nil {
		unix.Kill(s.pid, unix.SIGKILL)
		return err
	}
	return shim.Put(s.dir, shim.StartedFile, shim.Started{Pid: s.pid, Start: id.Start, At: time.Now(), Found: true}, false)
}

func processSpec(s *shim.Spec) (*spawn.Spec, error) {
	ps := &spawn.Spec{Path: s.Path, Args: s.Args, Dir: s.Dir, Env: s.Env, Session: s.Session, OpenFiles: s.OpenFiles,
		ParentDeath: unix.SIGKILL}
	if s.User != nil {
		ps.Credential = &syscall.Credential{Uid: s.User.Uid, Gid: s.User.Gid, Groups: s.User.Groups}
	}
	if s.View == nil && s.Reach == "" {
		return ps, nil
	}
	host, err := isolate.OpenHost()
	if err != nil {
		return nil, err
	}
	h := isolate.Hooks{}
	switch {
	case s.View == nil:
	case s.View.Root != nil:
		h = isolate.Rootfs(host, *s.View.Root, false).Hooks()
	default:
		h = isolate.Namespaces(host, s.View.ContainerDir, s.View.Binds, s.View.OwnNet, false).Hooks()
	}
	if s.Reach != "" {
		h = isolate.Reach(host, h, s.Reach, ps.Credential)
	}
	ps.CloneFlags, ps.Enter, ps.Mounts = h.CloneFlags, h.Enter, h.Mounts
	return ps, nil
}

// serve copies output until the process has ended and its pipes are closed.
func (s *shimmed) serve() error {
	buf := make([]byte, 64<<10)
	for {
		var fds [4]unix.PollFd
		n := 0
		for i := range s.streams {
			if p := s.streams[i].pipe; p >= 0 {
				fds[n] = unix.PollFd{Fd: int32(p), Events: unix.POLLIN}
				n++
			}
		}
		if s.pidfd >= 0 {
			fds[n] = unix.PollFd{Fd: int32(s.pidfd), Events: unix.POLLIN}
			n++
		}
		if n == 0 {
			return nil
		}
		if _, err := unix.Poll(fds[:n], s.holdLimit()); err != nil && err != unix.EINTR {
			return err
		}
		for _, f := range fds[:n] {
			if f.Revents == 0 {
				continue
			}
			if err := s.ready(int(f.Fd), buf); err != nil {
				return err
			}
		}
	}
}

// holdLimit ends the program when its time limit is over and no cell does so. It returns the
// milliseconds until the next action; -1 = none.
func (s *shimmed) holdLimit() int {
	if s.limit == nil || s.pidfd < 0 {
		return -1
	}
	const look = 10 * time.Second // the machine may sleep meanwhile
	now := time.Duration(bootNow())
	if left := s.limit.At + shim.TimeLimitWait - now; left > 0 {
		return int(min(left, look).Milliseconds()) + 1
	}
	l := s.limit
	if _, err := os.Stat(filepath.Join(s.dir, shim.EndingFile)); err != nil || l.Signal == 0 {
		s.signal(unix.Signal(l.Signal))
	}
	if s.limit = nil; l.Signal != 0 && l.Grace >= 0 {
		s.limit = &shim.TimeLimit{At: now + l.Grace}
	}
	return s.holdLimit()
}

// signal signals the program and its process group; KILL when sig is 0.
func (s *shimmed) signal(sig unix.Signal) {
	if sig == 0 {
		sig = unix.SIGKILL
	}
	fds := []unix.PollFd{{Fd: int32(s.pidfd), Events: unix.POLLIN}}
	if n, _ := unix.Poll(fds, 0); n > 0 {
		return // it has ended on its own
	}
	s.late = true
	unix.Kill(-s.pid, sig) // its number is its own until it is waited for
	unix.PidfdSendSignal(s.pidfd, sig, nil, 0)
}

func (s *shimmed) ready(fd int, buf []byte) error {
	if fd == s.pidfd {
		return s.ended(buf)
	}
	for i := range s.streams {
		if st := &s.streams[i]; st.pipe == fd {
			_, err := s.copy(st, buf)
			return err
		}
	}
	return nil
}

// copy moves one buffer from a pipe; false when there was none.
func (s *shimmed) copy(st *stream, buf []byte) (bool, error) {
	n, err := unix.Read(st.pipe, buf)
	switch {
	case err == unix.EINTR:
		return true, nil
	case err == unix.EAGAIN:
		return false, nil
	case n <= 0:
		unix.Close(st.pipe)
		if st.file >= 0 {
			unix.Close(st.file)
		}
		st.pipe, st.file = -1, -1
		return false, nil
	}
	if st.n == 0 {
		s.status.Take(buf[:n])
		return true, nil
	}
	return true, s.store(st, buf[:n])
}

// store appends to the stream's file. While no cell takes the output, it waits, and so does the
// program.
func (s *shimmed) store(st *stream, p []byte) error {
	for len(p) > 0 {
		if st.file >= 0 && st.at-st.begin >= shim.SegmentSize {
			unix.Close(st.file)
			st.file = -1
		}
		if st.file < 0 {
			s.awaitRoom(st.n)
			fd, err := unix.Open(shim.SegmentPath(s.dir, st.n, st.at), unix.O_WRONLY|unix.O_CREAT|unix.O_APPEND|unix.O_CLOEXEC,
				0o600)
			if err == unix.ENOSPC || err == unix.EDQUOT {
				time.Sleep(time.Second)
				continue
			}
			if err != nil {
				return err
			}
			st.file, st.begin = fd, st.at
		}
		n, err := unix.Write(st.file, p)
		if err == unix.EINTR {
			continue
		}
		if err == unix.ENOSPC || err == unix.EDQUOT {
			time.Sleep(time.Second) // a full disk holds the program, not more
			continue
		}
		if err != nil {
			return err
		}
		st.at += int64(n)
		p = p[n:]
	}
	return nil
}

func (s *shimmed) awaitRoom(n int) {
	for {
		segments, err := shim.Segments(s.dir, n)
		if err != nil || len(segments) < shim.MaxSegments {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// ended reads the rest of the pipes, and records the end of the process.
func (s *shimmed) ended(buf []byte) error {
	for i := range s.streams {
		st := &s.streams[i]
		if st.pipe >= 0 {
			unix.SetNonblock(st.pipe, true)
		}
		const most = 1 << 20
		for got := 0; st.pipe >= 0 && got < most; got += len(buf) {
			if more, err := s.copy(st, buf); err != nil {
				return err
			} else if !more {
				break
			}
		}
	}
	var ws unix.WaitStatus
	var ru unix.Rusage
	if _, err := unix.Wait4(s.pid, &ws, 0, &ru); err != nil {
		return err
	}
	unix.Close(s.pidfd)
	s.pidfd = -1
	e := shim.Ended{ExitCode: ws.ExitStatus(), User: time.Duration(ru.Utime.Nano()),
		System: time.Duration(ru.Stime.Nano()),
		At:     time.Now(), Status: s.status.Last(), TimeLimit: s.late}
	if ws.Signaled() {
		e.Signal = int(ws.Signal())
	}
	return shim.Put(s.dir, shim.EndedFile, e, true)
}
