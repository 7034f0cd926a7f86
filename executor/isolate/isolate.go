// Package isolate makes a container's view of its machine: namespaces, and a root file system.
//
// The forking thread does everything before the fork, except /proc, which the new process mounts
// before it becomes its program. So no helper program runs inside the container, which would cost
// several times as much as the namespaces. The main process is process 1 of its pid namespace: it
// must wait for orphans itself, and signals without a handler do not reach it (the executor
// handles that).
//
// This protects against accidents, not against an attacker who is root: there is no user namespace
// and no device filter.
//
// Only the executor uses this package.
package isolate

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"cantina/spawn"
)

// Hooks are the fields of a spawn.Spec that a view needs.
type Hooks struct {
	// CloneFlags make the namespaces that need nothing else.
	CloneFlags uintptr
	// Enter changes the calling thread; leave, when it is not nil, brings it back
	// also after an error.
	Enter func() (leave func() error, err error)
	// Mounts finish the view from inside.
	Mounts []spawn.Mount
}

// Host holds the namespaces of the cell, to return to. Close it.
type Host struct {
	fds   []int
	flags []int
}

// OpenHost opens the namespaces of this process.
func OpenHost() (*Host, error) {
	h := &Host{}
	for _, ns := range []struct {
		name string
		flag int
	}{{"mnt", unix.CLONE_NEWNS}, {"net", unix.CLONE_NEWNET}, {"ipc", unix.CLONE_NEWIPC}, {"uts", unix.CLONE_NEWUTS},
		{"pid", unix.CLONE_NEWPID}} {
		fd, err := unix.Open("/proc/self/ns/"+ns.name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			h.Close()
			return nil, fmt.Errorf("open namespace %s: %w", ns.name, err)
		}
		h.fds, h.flags = append(h.fds, fd), append(h.flags, ns.flag)
	}
	return h, nil
}

// Close closes the descriptors.
func (h *Host) Close() error {
	for _, fd := range h.fds {
		unix.Close(fd)
	}
	h.fds = nil
	return nil
}

// back returns the calling thread to those of the host's namespaces that flags names.
func (h *Host) back(flags int) error {
	for i, fd := range h.fds {
		if flags&h.flags[i] == 0 {
			continue
		}
		if err := unix.Setns(fd, h.flags[i]); err != nil {
			return fmt.Errorf("leave namespace: %w", err)
		}
	}
	return nil
}

// View is the view of one container's processes. Close it.
type View struct {
	host   *Host
	net    bool
	shared bool
	steps  []func() error

	mu  sync.Mutex
	mnt int // mount namespace from which later processes start; -1 = none yet
	own int // network namespace, likewise
}

// newView makes nothing yet; the first process does.
func newView(h *Host, net, shared bool, steps ...func() error) *View {
	v := &View{host: h, net: net, shared: shared, mnt: -1, own: -1, steps: steps}
	if net {
		v.steps = append(v.steps, loopback)
	}
	return v
}

// Hooks are for one process of the container. Each has its own pid namespace, so that the end of
// one is not the end of the others.
func (v *View) Hooks() Hooks {
	return Hooks{CloneFlags: unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS, Enter: v.enter,
		Mounts: procMounts()}
}

// Close releases the namespaces; they end with their last process.
func (v *View) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, fd := range []*int{&v.mnt, &v.own} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
	return nil
}

func (v *View) flags() int {
	if v.net {
		return unix.CLONE_NEWNS | unix.CLONE_NEWNET
	}
	return unix.CLONE_NEWNS
}

func (v *View) enter() (func() error, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	leave := func() error { return v.host.back(v.flags()) }
	err := v.again()
	if v.mnt < 0 {
		err = v.first()
	}
	return leave, err
}

// first makes the view on the calling thread.
func (v *View) first() error {
	if err := unix.Unshare(v.flags()); err != nil {
		return fmt.Errorf("make namespaces: %w", err)
	}
	defer unix.Umask(unix.Umask(0o022)) // of the thread, which has its own view: others must be able to enter too
	mnt, own := -1, -1
	var err error
	if v.shared { // the host's /proc is needed for this, so before the steps
		mnt, err = unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil && v.net {
			own, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		if err != nil {
			return fmt.Errorf("keep namespaces: %w", err)
		}
	}
	for _, s := range v.steps {
		if err := s(); err != nil {
			unix.Close(mnt)
			unix.Close(own)
			return err
		}
	}
	v.mnt, v.own = mnt, own
	if v.shared {
		return v.copy()
	}
	return nil
}

// again enters the namespaces that the first process made.
func (v *View) again() error {
	if v.mnt < 0 {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("enter namespaces: %w", err)
	}
	if err := unix.Setns(v.mnt, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter namespaces: %w", err)
	}
	if v.own >= 0 {
		if err := unix.Setns(v.own, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter namespaces: %w", err)
		}
	}
	return v.copy()
}

// copy gives the thread its own mounts for /proc.
func (v *View) copy() error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("copy mounts: %w", err)
	}
	return nil
}

// private keeps mounts of the view out of the host.
func private() error {
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("detach mounts: %w", err)
	}
	return nil
}

// loopback brings up the only interface of a new network namespace.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("bring up loopback: %w", err)
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("bring up loopback: %w", err)
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("bring up loopback: %w", err)
	}
	return nil
}

// Namespaces is a view of the whole machine, read-only except for directory, binds and a private /tmp,
// /var/tmp and /dev/shm, with its own processes; with net also with a private network that has
// only loopback. Shared: more than one process will use it.
func Namespaces(h *Host, dir string, binds []Bind, net, shared bool) *View {
	return newView(h, net, shared, private, func() error { return readOnlyBut(dir, binds) })
}

// readOnlyBut makes the rest of the machine read-only.
func readOnlyBut(dir string, binds []Bind) error {
	all, done, err := trees(binds)
	if err != nil {
		return err
	}
	defer done()
	own, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("bind %s: %w", dir, err)
	}
	defer unix.Close(own)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("make the machine read-only: %w", err)
	}
	for _, tmp := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		if err := mountTmp(tmp); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("bind %s: %w", dir, err)
	}
	if err := unix.MoveMount(own, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("bind %s: %w", dir, err)
	}
	return attach("/", all)
}

func mountTmp(dir string) error {
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return nil
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	return nil
}

// Join is the view that the process pid has, for another process beside it.
func Join(h *Host, pid int) Hooks {
	const flags = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET
	leave := func() error { return h.back(flags) }
	return Hooks{Enter: func() (func() error, error) {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return nil, fmt.Errorf("join namespaces of %d: %w", pid, err)
		}
		defer unix.Close(fd)
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return nil, fmt.Errorf("join namespaces of %d: %w", pid, err)
		}
		if err := unix.Setns(fd, flags); err != nil {
			return leave, fmt.Errorf("join namespaces of %d: %w", pid, err)
		}
		return leave, nil
	}}
}

// Of /proc, the parts that no container may change and that none may read.
var (
	procReadOnly = []string{"bus", "fs", "irq", "sys", "sysrq-trigger"}
	procMasked   = []string{"kcore", "keys", "timer_list"}
)

// procMounts give a process the /proc of its own namespace, with which a container that runs as
// root cannot change the machine.
func procMounts() []spawn.Mount {
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	out := []spawn.Mount{{Source: "proc", Target: "/proc", Type: "proc", Flags: safe}}
	guard := func(from, at string, flags uintptr) {
		out = append(out, spawn.Mount{Source: from, Target: at, Flags: unix.MS_BIND, Optional: true},
			spawn.Mount{Target: at, Flags: unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY | flags, Optional: true})
	}
	for _, name := range procReadOnly {
		guard("/proc/"+name, "/proc/"+name, safe)
	}
	for _, name := range procMasked {
		guard("/dev/null", "/proc/"+name, unix.MS_NOSUID|unix.MS_NOEXEC)
	}
	return out
}
