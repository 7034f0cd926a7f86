package runc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cellGone is the signal by which this process learns that the cell is gone.
const cellGone = unix.Signal(38)

// Serve reads a Spec from the socket, runs it, says Started, and returns when the program
// has ended. It returns the program's exit status, or does not return but ends by the
// signal that ended the program.
func Serve(socket *os.File) int {
	runtime.LockOSThread() // name spaces and the parent-death signal are a thread's
	events := make(chan os.Signal, 16)
	signal.Notify(events, cellGone)
	// They are meant for the program; caught, not ignored: that would be inherited.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGVTALRM, syscall.SIGPROF, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE)
	s, pid, err := bringUp(socket)
	said := Started{Pid: pid}
	if err != nil {
		said.Error = err.Error()
	}
	err = errors.Join(err, json.NewEncoder(socket).Encode(said), socket.Close(), letGoOfOutput())
	if err != nil {
		if pid > 0 {
			unix.Kill(pid, unix.SIGKILL)
		}
		return 1
	}
	go func() {
		for range events {
			unix.Kill(pid, unix.Signal(s.ParentDeath)) // our child: the number is its own
		}
	}()
	return end(pid)
}

// bringUp has runc make and start the container; the program's pid is that of a child of
// this process then.
func bringUp(socket io.Reader) (*Spec, int, error) {
	var s Spec
	if err := json.NewDecoder(socket).Decode(&s); err != nil {
		return nil, 0, fmt.Errorf("read what to run: %w", err)
	}
	if err := adopt(&s); err != nil {
		return nil, 0, err
	}
	l, err := openLimits(s.Slots)
	if err != nil {
		return nil, 0, err
	}
	if err := s.enter(); err != nil {
		return nil, 0, err
	}
	pidFile := filepath.Join(s.Scratch, "pid")
	create := []string{"create", "--bundle", s.Scratch, "--pid-file", pidFile}
	if s.Status {
		create = append(create, "--preserve-fds", "1")
	}
	if err := s.runc(true, append(create, "c")...); err != nil {
		return nil, 0, err
	}
	b, err := os.ReadFile(pidFile)
	if err != nil {
		return nil, 0, fmt.Errorf("runc: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return nil, 0, fmt.Errorf("runc: pid %q: %w", b, err)
	}
	return &s, pid, s.start(pid, l)
}

// adopt makes this process the parent of what runc leaves, and has it told when the cell
// is gone.
func adopt(s *Spec) error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become the parent: %w", err)
	}
	if s.ParentDeath == 0 {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(cellGone), 0, 0, 0); err != nil {
		return fmt.Errorf("watch the cell: %w", err)
	}
	if unix.Getppid() != s.Cell {
		return errors.New("the cell is gone")
	}
	return nil
}

// enter gives this thread, and what it forks, the view that runc has: the container's
// group as the only one, and a file system in memory for runc's files.
func (s *Spec) enter() error {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("make name spaces for runc: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("detach mounts for runc: %w", err)
	}
	const groups = "/sys/fs/cgroup"
	if err := unix.Unmount(groups, unix.MNT_DETACH); err != nil && err != unix.EINVAL {
		return fmt.Errorf("hide control groups from runc: %w", err)
	}
	if err := unix.Mount("cgroup2", groups, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("show runc its control group: %w", err)
	}
	if err := unix.Mount("tmpfs", s.Scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=700,size=8m"); err != nil {
		return fmt.Errorf("make a directory for runc: %w", err)
	}
	text, err := s.encode(ownCapabilities())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.Scratch, "config.json"), text, 0o600); err != nil {
		return fmt.Errorf("configure runc: %w", err)
	}
	return nil
}

func ownCapabilities() []string {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&head, &data[0]) != nil {
		return nil
	}
	return named(uint64(data[1].Permitted)<<32 | uint64(data[0].Permitted))
}

// runc runs a command of runc to its end. The error is what runc says of it. With output,
// descriptors 1 to 3 go to the program.
func (s *Spec) runc(output bool, args ...string) error {
	log := filepath.Join(s.Scratch, "log")
	cmd := exec.Command(s.Program, append([]string{"--root", filepath.Join(s.Scratch, "state"), "--log", log, "--log-format", "json"}, args...)...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "GOMAXPROCS=2"}
	if output {
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if s.Status {
			cmd.ExtraFiles = []*os.File{os.NewFile(3, "status")}
		}
	}
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if text := lastMessage(log); text != "" {
		return errors.New(text)
	}
	return fmt.Errorf("%s %s: %w", s.Program, args[0], err)
}

// lastMessage is the last error in a log of runc.
func lastMessage(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // read only
	last := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var l struct{ Level, Msg string }
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Level == "error" {
			last = l.Msg
		}
	}
	for _, lead := range []string{"runc create failed: ", "unable to start container process: "} {
		last = strings.TrimPrefix(last, lead)
	}
	return last
}

// start puts the program, which waits, into its limits and lets it go.
func (s *Spec) start(pid int, l *limits) error {
	if err := l.add(pid); err != nil {
		return err
	}
	before := processName(pid)
	if err := s.runc(false, "start", "c"); err != nil {
		return err
	}
	// It is at the program as soon as its name is another: a few instructions from here.
	for end := time.Now().Add(time.Second); processName(pid) == before && time.Now().Before(end); {
		time.Sleep(200 * time.Microsecond)
	}
	return l.settle()
}

// processName is what the kernel calls a process; "" when it is gone.
func processName(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return string(b)
}

// letGoOfOutput leaves the output to the program alone.
func letGoOfOutput() error {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	for fd := range 4 {
		if err := unix.Dup3(null, fd, 0); err != nil && fd != null {
			return fmt.Errorf("let go of the output: %w", err)
		}
	}
	return nil
}

// end waits for the program and ends as it did.
func end(pid int) int {
	var ws unix.WaitStatus
	for {
		got, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 1
		case got == pid && ws.Exited():
			return ws.ExitStatus()
		case got == pid && ws.Signaled():
			return die(ws.Signal())
		}
	}
}

// die ends this process by a signal, without a dump of its memory.
func die(sig unix.Signal) int {
	// Errors leave the defaults: a dump, or an exit status in place of the signal.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	signal.Reset(sig)
	var none [4]uintptr // the default action, whatever the Go runtime has set
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), sigaction(&none), 0, 8, 0, 0)
	unix.Kill(os.Getpid(), sig)
	time.Sleep(time.Second) // it is delivered at once, to whatever thread
	return 128 + int(sig)
}
