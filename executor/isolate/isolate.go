// Package isolate makes the view that a container has of its machine: name
// spaces, and a root file system of its own.
//
// Everything is done by the thread that forks, before the fork and while the new
// process stands still at its first instruction. So no helper program runs
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
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Hooks are what a spawn.Spec needs for a view.
type Hooks struct {
	// CloneFlags make the name spaces that need nothing else.
	CloneFlags uintptr
	// Enter changes the calling thread; leave, when it is not nil, brings it back
	// also after an error.
	Enter func() (leave func() error, err error)
	// Stopped finishes the view of the process pid, which stands still at its
	// first instruction, from inside the view.
	Stopped func(pid int) error
}

// Host holds the name spaces of the cell, to come back to. Close it.
type Host struct {
	fds   []int
	flags []int
	// OwnProc reports that a container can have a /proc of its own processes. Without
	// it (kernels before 6.17) it sees those of the machine.
	OwnProc bool
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
	h.OwnProc = h.probeProc()
	return h, nil
}

func (h *Host) probeProc() bool {
	fs, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return false
	}
	defer unix.Close(fs)
	return unix.FsconfigSetFd(fs, "pidns", h.fds[len(h.fds)-1]) == nil
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
	h := Hooks{CloneFlags: unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS, Enter: v.enter}
	if v.host.OwnProc {
		h.Stopped = func(pid int) error {
			if err := mountProc(pid, "/proc"); err != nil {
				return err
			}
			return guardProc("/proc")
		}
	}
	return h
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

// Namespaces is a view of the whole machine, read-only but for folder and a
// private /tmp, /var/tmp and /dev/shm, with processes of its own; with net also
// with a network of its own that has nothing but loopback. Shared says that more
// than one process will use it.
func Namespaces(h *Host, folder string, net, shared bool) *View {
	return newView(h, net, shared, private, func() error { return readOnlyBut(folder) })
}

// readOnlyBut makes the rest of the machine read-only.
func readOnlyBut(folder string) error {
	own, err := unix.OpenTree(unix.AT_FDCWD, folder, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("bind %s: %w", folder, err)
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
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("bind %s: %w", folder, err)
	}
	if err := unix.MoveMount(own, "", unix.AT_FDCWD, folder, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("bind %s: %w", folder, err)
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

// mountProc mounts the processes of pid's name space at dir, seen by the thread.
func mountProc(pid int, dir string) error {
	fs, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	defer unix.Close(fs)
	// The thread's own /proc may be gone with the old root.
	ns, err := pidNamespace(pid)
	if err != nil {
		return err
	}
	defer unix.Close(ns)
	if err := unix.FsconfigSetFd(fs, "pidns", ns); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	m, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	defer unix.Close(m)
	if err := unix.MoveMount(m, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	return nil
}

// Of /proc, what no container may change and what none may read.
var (
	ProcReadOnly = []string{"bus", "fs", "irq", "sys", "sysrq-trigger"}
	ProcMasked   = []string{"kcore", "keys", "timer_list"}
)

// guardProc keeps a container that runs as root from changing the machine by its /proc, as
// runc does it.
func guardProc(proc string) error {
	for i, list := range [...][]string{ProcReadOnly, ProcMasked} {
		for _, name := range list {
			at := filepath.Join(proc, name)
			from := at
			if i > 0 {
				from = "/dev/null"
			}
			if err := guard(from, at); err != nil && err != unix.ENOENT {
				return fmt.Errorf("guard %s: %w", at, err)
			}
		}
	}
	return nil
}

// guard shows from, read-only, in the place of at.
func guard(from, at string) error {
	var st unix.Stat_t
	if err := unix.Lstat(at, &st); err != nil {
		return err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return err
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// pidNamespace opens the pid name space of a process through a pidfd, which needs
// no /proc.
func pidNamespace(pid int) (int, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return -1, fmt.Errorf("open pid name space of %d: %w", pid, err)
	}
	defer unix.Close(fd)
	const pidfdGetPidNamespace = 0xff05 // _IO(0xFF, 5)
	ns, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), pidfdGetPidNamespace, 0)
	if errno != 0 {
		return -1, fmt.Errorf("open pid name space of %d: %w", pid, errno)
	}
	return int(ns), nil
}
