package isolate

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Bind is a file or a directory of the machine that a view has at a path of its own.
type Bind struct {
	Root     string // directory of the machine: no link leads there, and none of Path leads out of it
	Path     string // of the file or directory below Root; "." = Root itself
	Target   string // absolute path in the view
	ReadOnly bool
}

func (b *Bind) name() string { return path.Join(b.Root, b.Path) }

// tree is a copy of the mounts of a Bind, which are not in the view yet.
type tree struct {
	*Bind
	fd  int
	dir bool
}

// trees copies the mounts of binds, the outermost target first. Call it before the view covers any of them.
func trees(binds []Bind) (all []tree, done func(), err error) {
	done = func() {
		for _, t := range all {
			unix.Close(t.fd)
		}
	}
	for i := range binds {
		t, err := binds[i].open()
		if err != nil {
			done()
			return nil, nil, fmt.Errorf("volume %s: %w", binds[i].name(), err)
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b tree) int { return cmp.Compare(a.Target, b.Target) })
	return all, done, nil
}

// open finds the file or directory, holds it, and copies its mounts: a path that changes meanwhile has no effect.
func (b *Bind) open() (tree, error) {
	t := tree{Bind: b}
	root, err := openAt(unix.AT_FDCWD, b.Root, unix.O_DIRECTORY, unix.RESOLVE_NO_SYMLINKS)
	if err == unix.ELOOP {
		return t, fmt.Errorf("the path of the allowed directory %s has a symbolic link now", b.Root)
	}
	if err != nil {
		return t, fmt.Errorf("allowed directory %s: %w", b.Root, err)
	}
	defer unix.Close(root)
	fd, err := openAt(root, b.Path, 0, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_MAGICLINKS)
	if err == unix.EXDEV || err == unix.ELOOP {
		return t, fmt.Errorf("a symbolic link leads out of the allowed directory %s, or in a circle", b.Root)
	}
	if err != nil {
		return t, err
	}
	defer unix.Close(fd)
	if t.dir, err = isDir(fd); err != nil {
		return t, err
	}
	t.fd, err = unix.OpenTree(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return t, fmt.Errorf("copy mounts: %w", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if b.ReadOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(t.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		unix.Close(t.fd)
		return t, fmt.Errorf("set attributes of mounts: %w", err)
	}
	return t, nil
}

// openAt holds a file or directory without opening it: so nothing waits for a pipe or a device.
func openAt(dir int, name string, flags, resolve uint64) (int, error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: resolve}
	fd, err := unix.Openat2(dir, name, how)
	for try := 0; err == unix.EAGAIN && try < 1000; try++ { // something was renamed meanwhile
		fd, err = unix.Openat2(dir, name, how)
	}
	return fd, err
}

// isDir refuses all but directories and regular files. It does not wait for a remote file system.
func isDir(fd int) (bool, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st); err != nil {
		return false, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return true, nil
	case unix.S_IFREG:
		return false, nil
	}
	return false, errors.New("neither a directory nor a regular file")
}

// attach puts the trees into the view whose root is at a path.
func attach(view string, all []tree) error {
	if len(all) == 0 {
		return nil
	}
	root, err := unix.Open(view, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	defer unix.Close(root)
	for i := range all {
		if err := all[i].attach(root, all[:i]); err != nil {
			return fmt.Errorf("volume %s at %s: %w", all[i].name(), all[i].Target, err)
		}
	}
	return nil
}

// attach puts a tree into the view. A missing path is made, but not in another volume.
func (t *tree) attach(root int, before []tree) error {
	inner := slices.ContainsFunc(before, func(o tree) bool { return strings.HasPrefix(t.Target, o.Target+"/") })
	at, err := mountPoint(root, t.Target, t.dir, !inner)
	switch {
	case err == unix.EROFS:
		return errors.New("the machine does not have this path, where it is read-only for the container; create it there, " +
			"choose a path below /tmp, or use a rootfs")
	case err != nil:
		return err
	}
	defer unix.Close(at)
	if dir, err := isDir(at); err != nil || dir != t.dir {
		return cmp.Or(err, errors.New("one of both is a directory, the other is a file"))
	}
	if err := unix.MoveMount(t.fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	return nil
}

// mountPoint holds a path of the view, and makes its missing parts. A link of the view leads to where its processes see
// it lead, never out of the view.
func mountPoint(root int, name string, dir, missing bool) (int, error) {
	fd, err := openAt(root, name, 0, unix.RESOLVE_IN_ROOT|unix.RESOLVE_NO_MAGICLINKS)
	if err != unix.ENOENT || !missing {
		return fd, err
	}
	up, err := mountPoint(root, path.Dir(name), true, true)
	if err != nil {
		return -1, err
	}
	defer unix.Close(up)
	base := path.Base(name)
	if dir {
		err = unix.Mkdirat(up, base, 0o755)
	} else {
		err = unix.Mknodat(up, base, unix.S_IFREG|0o644, 0)
	}
	if err == unix.EEXIST {
		err = errors.New("a symbolic link on the path leads to a missing path")
	}
	if err != nil {
		return -1, err
	}
	return openAt(up, base, unix.O_NOFOLLOW, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
}
