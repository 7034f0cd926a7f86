// Package doctor finds the isolation and limits that a machine supports, by testing real
// containers, and reports possible leaks otherwise. The verb that prints it and the state of a
// cell use it.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"cantina/action"
	"cantina/cgroup"
	"cantina/executor"
	"cantina/executor/reaperbin"
	"cantina/internal/text"
	"cantina/resource"
)

// Level is the severity of a finding.
type Level int

// The levels. Only a Failure keeps a cell from running containers.
const (
	Good    Level = iota
	Note          // something is not there, and need not be
	Warning       // something may leak, or is not enforced
	Failure
)

// String returns the printed word.
func (l Level) String() string { return [...]string{"ok", "note", "warning", "failure"}[l] }

// Finding is the result of one check.
type Finding struct {
	Name   string
	Level  Level
	Detail string // the supported mechanism, or the missing one with its consequences
}

// String returns "memory limits: ok: through v1".
func (f Finding) String() string { return f.Name + ": " + f.Level.String() + ": " + f.Detail }

// Report is all findings, in the order in which they were looked at.
type Report struct{ Findings []Finding }

// Worst is the worst level of the report.
func (r *Report) Worst() Level {
	worst := Good
	for _, f := range r.Findings {
		worst = max(worst, f.Level)
	}
	return worst
}

func (r *Report) add(name string, l Level, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{name, l, fmt.Sprintf(format, args...)})
}

// Options are the options of Examine.
type Options struct {
	Dir    string // where it makes a directory to work in; empty = the system's temporary directory
	Reaper string // path of cantina-reaper; empty = the embedded one
	// Reboot is the program and arguments that a cell would run when work that must be
	// dead does not die; nil = it stays, and takes no work.
	Reboot []string
	User   string // executor.Config.User
}

// Examine looks at the machine. It removes the directory that it works in. It takes a
// second or two, and ends early with ctx.
func Examine(ctx context.Context, o Options) (*Report, error) {
	r, reaper := &Report{}, o.Reaper
	dir, err := os.MkdirTemp(o.Dir, "cantina-doctor-")
	if err != nil {
		return nil, fmt.Errorf("doctor: %w", err)
	}
	defer os.RemoveAll(dir)
	r.kernel()
	r.user()
	r.reaper(reaper)
	mode := r.groups()
	r.containers(ctx, executor.Config{Dir: dir, Reaper: reaper, Cgroups: mode, User: o.User,
		Capacity: resource.Amounts{resource.Containers: 100, resource.MemoryMB: 1024, resource.CPUMilli: 1000}})
	r.stuck(o.Reboot)
	r.remains(o.Dir)
	return r, ctx.Err()
}

func (r *Report) kernel() {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		r.add("kernel", Warning, "unknown: %v", err)
		return
	}
	release := unix.ByteSliceToString(u.Release[:])
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		r.add("kernel", Failure,
			"%s has no pidfd (needs 5.4): a process cannot be distinguished from a later one with its number", release)
		return
	}
	unix.Close(fd)
	r.add("kernel", Good, "%s", release)
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) == nil && lim.Max < 65536 && !mayRaiseLimits() {
		r.add("open files", Warning, "at most %d, and this user may not raise that: enough for about %d containers", lim.Max,
			lim.Max/4)
	}
}

// mayRaiseLimits reports whether this process may go beyond hard limits; root in a
// container often may not.
func mayRaiseLimits() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&head, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

func (r *Report) user() {
	if os.Getuid() == 0 {
		r.add("user", Good,
			"root: other users, namespaces and root filesystems are available; a root workload with isolation none or process "+
				"can leave its control group, so use another user or namespaces")
		return
	}
	r.add("user", Note, "uid %d: containers run as this user; no namespaces, no roots", os.Getuid())
}

func (r *Report) reaper(path string) {
	var err error
	switch path {
	case reaperbin.Own:
		r.add("reaper", Good, "this program itself; with the smaller one that make build embeds, work with "+
			"on_cell_restart: keep takes less memory")
		return
	case "":
		var f *os.File
		if f, err = reaperbin.Open(); err == nil {
			f.Close()
		}
		path = "embedded"
	default:
		if err = unix.Access(path, unix.X_OK); err != nil {
			err = fmt.Errorf("%s cannot be run: %w", path, err)
		}
	}
	if err != nil {
		r.add("reaper", Failure, "%v", err)
		return
	}
	r.add("reaper", Good, "%s", path)
}

// groups looks for a tracker and for limits.
func (r *Report) groups() executor.CgroupMode {
	host, err := cgroup.Detect()
	if err != nil {
		r.add("control groups", Warning, "%v; %s", err, leak)
		return executor.CgroupNone
	}
	tree, err := cgroup.Open(host, fmt.Sprintf("doctor-%d", os.Getpid()), cgroup.Options{})
	switch {
	case errors.Is(err, cgroup.ErrUnusable):
		r.add("control groups", Warning, "%v; %s", err, leak)
		return executor.CgroupNone
	case err != nil:
		r.add("control groups", Failure, "%v", err)
		return executor.CgroupNone
	}
	defer tree.Close()
	r.add("control groups", Good, "v2 tracks and kills")
	have, through := tree.Offers()
	for _, c := range []string{"memory", "pids", "cpu"} {
		if slices.Contains(have, c) {
			r.add(c+" limit", Good, "through %s", through)
		} else {
			r.add(c+" limit", Warning, "not enforced: no controller to be had in v2 or v1")
		}
	}
	return executor.CgroupAuto
}

// leak is the guarantee that is lost without control groups. (Bistro task termination, choices
// without CGroups.)
const leak = "only process groups and parent-death signals are left. A process that makes a session of its own " +
	"outlives its container and its cell, limits are not enforced, and on_cell_restart: keep is refused"

// containers tries each level of isolation.
func (r *Report) containers(ctx context.Context, cfg executor.Config) {
	e, err := executor.Open(cfg)
	if err != nil {
		r.add("container", Failure, "%v", err)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			r.add("clean end", Failure, "%v", err)
		}
	}()
	began := time.Now()
	if err := e.Probe(ctx); err != nil {
		r.add("container", Failure, "%v", err)
		return
	}
	r.add("container", Good, "made, run and removed in %v", time.Since(began).Round(time.Millisecond))
	t := action.Action{Run: &action.Run{Path: "/bin/true"}}
	r.try(ctx, e, "namespaces", "pid, mount, ipc, uts", 0,
		action.Workload{Action: t, Isolation: action.IsolationNamespaces})
	r.try(ctx, e, "own network", "loopback only", 0,
		action.Workload{Action: t, Isolation: action.IsolationNamespaces, OwnNet: true})
	r.rootfs(ctx, e, cfg)
	if os.Getuid() == 0 {
		// The tests of a workload: it enters its directory, writes there, and to its streams by name.
		t := action.Action{Run: &action.Run{Path: "/bin/sh",
			Args: []string{"-c",
				`set -e; cd "$CANTINA_DIR"; : > written; echo > /dev/stdout; echo > /dev/stderr; echo done > "$CANTINA_STATUS"`}}}
		r.try(ctx, e, "other users", "by name or number, each with its directory, its streams and its status pipe", 0,
			action.Workload{Action: t, User: "65534:65534"})
		r.try(ctx, e, "other users in namespaces", "likewise", 0,
			action.Workload{Action: t, User: "65534:65534", Isolation: action.IsolationNamespaces})
	}
}

// rootfs tests a root file system whose only file is a program without libraries.
func (r *Report) rootfs(ctx context.Context, e *executor.Executor, cfg executor.Config) {
	root := filepath.Join(cfg.Dir, "root")
	if err := executor.WriteExit0(root, "program"); err != nil {
		r.add("root file system", Warning, "not tried: %v", err)
		return
	}
	w := action.Workload{Action: action.Action{Run: &action.Run{Path: "/program"}}, Isolation: action.IsolationRootfs,
		Rootfs: root}
	r.try(ctx, e, "root file system", "overlayfs", 0, w)
}

// try runs one container and expects an exit status.
func (r *Report) try(ctx context.Context, e *executor.Executor, name, what string, want int, w action.Workload) {
	id := "doctor " + name
	sub, err := e.Subscribe()
	if err == nil {
		defer sub.Close()
		err = e.Launch(executor.Reservation{ID: id}, executor.Spec{Workload: w, StatusPipe: true})
	}
	if err != nil {
		r.add(name, Warning, "not tried: %v", err)
		return
	}
	limit := time.After(10 * time.Second)
	for {
		if c, ok := e.Get(id); ok && c.State == executor.Completed {
			if c.Result.ExitCode == want && c.Result.Signal == 0 {
				r.add(name, Good, "%s", what)
			} else {
				r.add(name, Warning, "not possible: %s%s", c.Result.Reason, strings.Join(c.Result.LastErr, "; "))
			}
			return
		}
		select {
		case <-sub.C:
		case <-limit:
			r.add(name, Warning, "takes too long")
			return
		case <-ctx.Done():
			return
		}
	}
}

// stuck describes a cell's action on a process that survives KILL. It runs nothing.
func (r *Report) stuck(reboot []string) {
	if len(reboot) == 0 {
		r.add("stuck work", Note,
			"--stuck=keep-unclean: if work past its deadline survives KILL, the cell stays without new work and reports it to "+
				"the leader; nothing is started in its place")
		return
	}
	text := reboot[len(reboot)-1]
	program := text
	if f := strings.Fields(text); len(f) > 0 {
		program = f[0]
	}
	switch path, err := exec.LookPath(program); {
	case err != nil:
		r.add("stuck work", Warning,
			"--stuck=reboot would run %q, whose program %s is not found: the cell would stay as with keep-unclean", text,
			program)
	case os.Getuid() != 0 && (filepath.Base(path) == "reboot" || filepath.Base(path) == "systemctl"):
		r.add("stuck work", Warning, "--stuck=reboot would run %q, which uid %d may not be allowed to do", text, os.Getuid())
	default:
		r.add("stuck work", Note,
			"--stuck=reboot: when work that must be dead does not die, or the cell ends with such work, the cell runs %q "+
				"(%s), once", text, path)
	}
}

// remains reports the directories of containers that the cell of a data directory could not remove.
func (r *Report) remains(dir string) {
	if dir == "" {
		return
	}
	var left []string
	for _, below := range []string{"executor", "cell/executor"} {
		found, _ := filepath.Glob(filepath.Join(executor.Remains(filepath.Join(dir, below)), "*")) // the pattern is valid
		left = append(left, found...)
	}
	if len(left) > 0 {
		r.add("remains", Warning,
			"%s of earlier containers cannot be removed, and the cell goes on trying: %s; its log has the cause",
			text.CountAs(len(left), "directory", "directories"), left[0])
	}
}
