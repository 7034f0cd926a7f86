// Package removal removes directories that untrusted programs could write to. Such a program may
// nest them without a limit, mount over them, take their modes away or set attributes that forbid
// a removal. Tree holds few descriptors at any depth, follows no link and enters no mount.
package removal

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	// openMost is how many nested directories are open at once. Deeper ones are moved up first.
	openMost = 32
	// nameMost is how much of a name an error shows.
	nameMost = 80
	// roundMost is how often a directory is read again after something in it was removed. A tree of
	// openMost times as many levels is removed; files that are written in it meanwhile stay.
	roundMost = 100_000
)

// Tree removes a file or a directory with all in it, and unmounts what is mounted on it or below.
// A missing one is no error. After an error part of it may be left; the error names one cause.
func Tree(path string) error {
	if unix.Rmdir(path) == nil { // it is empty most of the time
		return nil
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	path = filepath.Join(dir, filepath.Base(path))
	if err := unmount(path); err != nil {
		return err
	}
	parent, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", shorten(dir), err)
	}
	defer unix.Close(parent)
	r := &remover{top: -1}
	if r.entry(parent, filepath.Base(path), 0); r.lasts(parent, filepath.Base(path)) {
		return fmt.Errorf("remove %s: %w", shorten(path), r.err)
	}
	return nil
}

// shorten cuts a path, or a name in it that a program has chosen.
func shorten(path string) string {
	if len(path) <= 4*nameMost {
		return path
	}
	return path[:2*nameMost] + "…" + path[len(path)-nameMost:]
}

// remover removes one tree.
type remover struct {
	top    int // descriptor of the root of the tree, to which deep directories are moved
	serial int
	err    error // why the last one stays that could not be removed
}

// lasts reports whether an entry is still there.
func (r *remover) lasts(dir int, name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil && err != unix.ENOENT && r.err == nil {
		r.err = err
	}
	if err == nil && r.err == nil {
		r.err = unix.EBUSY
	}
	return err != unix.ENOENT
}

// fail notes why an entry stays.
func (r *remover) fail(verb, name string, err error) bool {
	if err != unix.ENOENT {
		r.err = fmt.Errorf("%s %.*q: %w", verb, nameMost, name, err)
	}
	return false
}

// entry removes one entry of an open directory, or moves it up. It reports whether the directory
// has changed.
func (r *remover) entry(dir int, name string, depth int) bool {
	err := unix.Unlinkat(dir, name, 0)
	if forbidden(err) {
		err = r.permitted(dir, name, func() error { return unix.Unlinkat(dir, name, 0) })
	}
	if err == nil || err != unix.EISDIR {
		return err == nil || r.fail("remove", name, err)
	}
	err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	if err == nil || err != unix.ENOTEMPTY && err != unix.EEXIST {
		return err == nil || r.fail("remove", name, err)
	}
	if depth > openMost {
		return r.moveUp(dir, name)
	}
	fd, err := open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
	if err == unix.EACCES {
		err = r.permitted(dir, name, func() (err error) {
			fd, err = open(dir, name, unix.O_RDONLY|unix.O_DIRECTORY)
			return err
		})
	}
	if err != nil {
		return r.fail("open", name, err)
	}
	if depth == 0 {
		r.top = fd
	}
	changed := r.empty(fd, depth+1)
	unix.Close(fd)
	if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err != nil {
		if r.err == nil {
			r.fail("remove", name, err)
		}
		return changed
	}
	return true
}

// empty removes what is in a directory, and reports whether that was anything.
func (r *remover) empty(dir, depth int) (changed bool) {
	buf := make([]byte, 8<<10)
	for again, round := true, 0; again && round < roundMost; round++ {
		again = false
		if _, err := unix.Seek(dir, 0, 0); err != nil {
			r.fail("read", "directory", err)
			return changed
		}
		for {
			n, err := unix.ReadDirent(dir, buf)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				r.fail("read", "directory", err)
			}
			if n <= 0 {
				break
			}
			_, _, names := unix.ParseDirent(buf[:n], -1, nil)
			for _, name := range names {
				again = r.entry(dir, name, depth) || again
			}
		}
		changed = changed || again
	}
	return changed
}

// moveUp makes a deep directory an entry of the root of the tree.
func (r *remover) moveUp(dir int, name string) bool {
	for {
		r.serial++
		move := func() error { return unix.Renameat(dir, name, r.top, ".deep-"+strconv.Itoa(r.serial)) }
		err := move()
		if forbidden(err) {
			err = r.permitted(dir, name, move)
		}
		switch err {
		case nil:
			return true
		case unix.ENOTEMPTY, unix.EEXIST, unix.ENOTDIR: // a name that the tree itself has
			continue
		}
		return r.fail("move", name, err)
	}
}

func forbidden(err error) bool { return err == unix.EPERM || err == unix.EACCES }

// permitted does something with an entry for which its attributes and its mode, or those of its
// directory, must not forbid it. A file that has other names keeps its attributes.
func (r *remover) permitted(dir int, name string, do func() error) error {
	clearFlags(dir)
	if r.top >= 0 {
		clearFlags(r.top)
	}
	grant(dir)
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFDIR {
		if fd, err := open(dir, name, unix.O_PATH|unix.O_DIRECTORY); err == nil {
			grant(fd)
			unix.Close(fd)
		}
	}
	if kind != unix.S_IFDIR && kind != unix.S_IFREG { // it has no attributes, and may not be opened
		return do()
	}
	fd, err := open(dir, name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return do()
	}
	defer unix.Close(fd)
	flags, cleared := clearFlags(fd)
	if kind == unix.S_IFDIR {
		grant(fd)
	}
	err = do()
	if cleared && kind == unix.S_IFREG && unix.Fstat(fd, &st) == nil && st.Nlink > 0 {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags) // they were just cleared the same way
	}
	return err
}

// grant lets the owner of a directory read and change it.
func grant(fd int) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode&0o700 != 0o700 {
		_ = unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700) // else the removal fails, and reports why
	}
}

// clearFlags clears the attributes that forbid a removal, and returns those that there were.
func clearFlags(fd int) (was int, cleared bool) {
	// FS_IMMUTABLE_FL and FS_APPEND_FL have the same values
	const forbid = unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err != nil || flags&forbid == 0 {
		return int(flags), false
	}
	return int(flags), unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags&^forbid)) == nil
}

// open opens an entry of a directory that is on the same mount. It follows no link.
func open(dir int, name string, flags int) (int, error) {
	flags |= unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{Flags: uint64(flags),
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH})
	if err != unix.ENOSYS && err != unix.EPERM { // before Linux 5.6, or filtered
		return fd, err
	}
	if fd, err = unix.Openat(dir, name, flags, 0); err != nil {
		return -1, err
	}
	var here, there unix.Stat_t
	if err := errors.Join(unix.Fstat(dir, &here), unix.Fstat(fd, &there)); err != nil || here.Dev != there.Dev {
		unix.Close(fd)
		return -1, unix.EXDEV
	}
	return fd, nil
}
