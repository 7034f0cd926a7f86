// Package isolate makes the view that a container has of its machine: name
// spaces, and a root file system of its own.
//
// Everything is done by the thread that forks, before the fork, but for /proc, which
// the new process mounts before it becomes its program. So no helper program runs
// inside the container, which would cost several times what the name spaces
// cost. The main process is process 1 of its pid name space: it has to wait for
// orphans itself, and signals for which it has no handler do not reach it (the
// executor knows that).
//
// This keeps containers apart by accident, not against an attacker who is root:
// there is no user name space and no device filter.
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

// Hooks are what a spawn.Spec needs for a view.
type Hooks struct {
	// CloneFlags make the name spaces that need nothing else.
	CloneFlags uintptr
	// Enter changes the calling thread; leave, when it is not nil, brings it back
	// also after an error.
	Enter func() (leave func() error, err error)
	// Mounts finish the view from inside.
	Mounts []spawn.Mount
}

// Host holds the name spaces of the cell, to come back to. Close it.
type Host struct {
	fds   []int
	flags []int
}

// OpenHost opens the name spaces of this process.
func OpenHost() (*Host, error) {
	h := &Host{}
	for _, ns := range []struct {
		name string
		flag int
	}{{"mnt", unix.CLONE_NEWNS}, {"net", unix.CLONE_NEWNET}, {"ipc", unix.CLONE_NEWIPC}, {"uts", unix.CLONE_NEWUTS}, {"pid", unix.CLONE_NEWPID}} {
		fd, err := unix.Open("/proc/self/ns/"+ns.name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			h.Close()
			return nil, fmt.Errorf("open name space %s: %w", ns.name, err)
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

// back brings the calling thread back into those of the host's name spaces that
// are named by flags.
func (h *Host) back(flags int) error {
	for i, fd := range h.fds {
		if flags&h.flags[i] == 0 {
			continue
		}
		if err := unix.Setns(fd, h.flags[i]); err != nil {
			return fmt.Errorf("leave name space: %w", err)
		}
	}
	return nil
}

// View is what the processes of one container see. Close it.
type View struct {
	host   *Host
	net    bool
	shared bool
	steps  []func() error

	mu  sync.Mutex
	mnt int // mount name space that later processes start from; -1 = none yet
	own int // network name space, likewise
}

// newView makes nothing yet; the first process does.
func newView(h *Host, net, shared bool, steps ...func() error) *View {
	v := &View{host: h, net: net, shared: shared, mnt: -1, own: -1, steps: steps}
	if net {
		v.steps = append(v.steps, loopback)
	}
	return v
}

// Hooks are for one process of the container. Each has a pid name space of its
// own, so that the end of one is not the end of the others.
func (v *View) Hooks() Hooks {
	return Hooks{CloneFlags: unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS, Enter: v.enter, Mounts: procMounts()}
}

// Close lets go of the name spaces; they end with their last process.
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
		return fmt.Errorf("make name spaces: %w", err)
	}
	defer unix.Umask(unix.Umask(0o022)) // of the thread, whose view is its own: others shall get in too
	mnt, own := -1, -1
	var err error
	if v.shared { // the host's /proc is needed for this, so before the steps
		mnt, err = unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil && v.net {
			own, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		if err != nil {
			return fmt.Errorf("keep name spaces: %w", err)
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

// again enters what the first process made.
func (v *View) again() error {
	if v.mnt < 0 {
		return nil
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("enter name spaces: %w", err)
	}
	if err := unix.Setns(v.mnt, unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter name spaces: %w", err)
	}
	if v.own >= 0 {
		if err := unix.Setns(v.own, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter name spaces: %w", err)
		}
	}
	return v.copy()
}

// copy gives the thread mounts of its own to put /proc into.
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

// loopback brings up the only interface of a new network name space.
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

// Namespaces is a view of the whole machine, read-only but for directory and a
// private /tmp, /var/tmp and /dev/shm, with processes of its own; with net also
// with a network of its own that has nothing but loopback. Shared says that more
// than one process will use it.
func Namespaces(h *Host, dir string, net, shared bool) *View {
	return newView(h, net, shared, private, func() error { return readOnlyBut(dir) })
}

// readOnlyBut makes the rest of the machine read-only.
func readOnlyBut(dir string) error {
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
	return nil
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
			return nil, fmt.Errorf("join name spaces of %d: %w", pid, err)
		}
		defer unix.Close(fd)
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return nil, fmt.Errorf("join name spaces of %d: %w", pid, err)
		}
		if err := unix.Setns(fd, flags); err != nil {
			return leave, fmt.Errorf("join name spaces of %d: %w", pid, err)
		}
		return leave, nil
	}}
}

// Of /proc, what no container may change and what none may read.
var (
	procReadOnly = []string{"bus", "fs", "irq", "sys", "sysrq-trigger"}
	procMasked   = []string{"kcore", "keys", "timer_list"}
)

// procMounts give a process the /proc of its own name space, by which a container that runs
// as root cannot change the machine.
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
