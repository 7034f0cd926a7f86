package isolate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Reach adds to the hooks of a process that its user can reach directory although it may not enter
// the directories on the path: only root can enter the data directory of a cell. In its own mounts
// the first of those that it may not enter is covered by an empty one, which leads only to
// directory. So it finds its directory at the same path as any other program, and sees no more
// than before. Nothing changes on disk.
func Reach(h *Host, base Hooks, dir string, who *syscall.Credential) Hooks {
	out := base
	out.Enter = func() (leave func() error, err error) {
		if base.Enter != nil {
			if leave, err = base.Enter(); err != nil {
				return leave, err
			}
		}
		closed, err := firstClosed(dir, who)
		if err != nil || closed == "" {
			return leave, err
		}
		if closed == "/" {
			return leave, fmt.Errorf("uid %d may not even enter /: %w", who.Uid, unix.EACCES)
		}
		if leave == nil {
			leave = func() error { return h.back(unix.CLONE_NEWNS) }
		}
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return leave, fmt.Errorf("make a mount namespace for the directory of uid %d: %w", who.Uid, err)
		}
		if err := private(); err != nil {
			return leave, err
		}
		return leave, cover(closed, dir)
	}
	return out
}

// firstClosed is the first directory on the way to directory that a user may not enter; "" = none.
// The calling thread, which is locked, looks as that user.
func firstClosed(dir string, who *syscall.Credential) (closed string, err error) {
	back, err := lookAs(who)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, back()) }()
	for at := "/"; ; {
		fd, err := unix.Open(at+"/.", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		switch {
		case err == unix.EACCES:
			return at, nil
		case err != nil:
			return "", fmt.Errorf("enter %s: %w", at, err)
		}
		unix.Close(fd)
		if at == dir {
			return "", nil
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(dir, at), "/"), "/")
		at = filepath.Join(at, name)
	}
}

// lookAs gives the calling thread, and no other, the rights of a user for file system look-ups.
func lookAs(who *syscall.Credential) (back func() error, err error) {
	before, err := unix.Getgroups()
	if err != nil {
		return nil, fmt.Errorf("look as uid %d: %w", who.Uid, err)
	}
	groups := make([]uint32, len(before))
	for i, g := range before {
		groups[i] = uint32(g)
	}
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	back = func() error {
		return errors.Join(fsID(unix.SYS_SETFSUID, uid), fsID(unix.SYS_SETFSGID, gid), setGroups(groups))
	}
	if err := errors.Join(setGroups(who.Groups), fsID(unix.SYS_SETFSGID, who.Gid),
		fsID(unix.SYS_SETFSUID, who.Uid)); err != nil {
		return nil, errors.Join(fmt.Errorf("look as uid %d: %w", who.Uid, err), back())
	}
	return back, nil
}

// fsID sets an id of the thread for file systems; the call itself reports no error.
func fsID(call uintptr, id uint32) error {
	unix.RawSyscall(call, uintptr(id), 0, 0)
	if now, _, _ := unix.RawSyscall(call, uintptr(^uint32(0)), 0, 0); uint32(now) != id {
		return unix.EPERM
	}
	return nil
}

// setGroups sets the groups of the thread.
func setGroups(list []uint32) error {
	var first *uint32
	if len(list) > 0 {
		first = &list[0]
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(list)), uintptr(unsafe.Pointer(first)), 0)
	runtime.KeepAlive(list)
	if errno != 0 {
		return errno
	}
	return nil
}

// cover hides a directory behind an empty one that leads to a directory below it and nowhere else.
func cover(closed, dir string) error {
	defer unix.Umask(unix.Umask(0)) // of the thread, which has its own mounts
	own, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("bind %s: %w", dir, err)
	}
	defer unix.Close(own)
	if err := unix.Mount("tmpfs", closed, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		"mode=711,size=64k"); err != nil {
		return fmt.Errorf("cover %s: %w", closed, err)
	}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return fmt.Errorf("cover %s: %w", closed, err)
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, closed, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("cover %s: %w", closed, err)
	}
	if err := unix.MoveMount(own, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("bind %s: %w", dir, err)
	}
	return nil
}
