package executor

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"cantina/action"
	"cantina/cgroup"
)

func (e *Executor) path(name string) string { return filepath.Join(e.cfg.Dir, name) }

// unread reports whether err means that the file may exist but could not be read. Such a file proves nothing, so the
// cell does not start.
func unread(err error) bool {
	var at *fs.PathError
	return errors.As(err, &at) && !errors.Is(err, fs.ErrNotExist)
}

// dirsIn are the directories in a directory of the hierarchies; none when it is not there.
func dirsIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, d := range entries {
		if d.IsDir() {
			out = append(out, filepath.Join(dir, d.Name()))
		}
	}
	return out, err
}

// replaceFile writes a file so that it is there whole or not at all, into the space that was reserved for
// it, if any.
func replaceFile(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Truncate(int64(len(data)))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (fl *files) below(name string) string { return filepath.Join(fl.dir, name) }

// insideDir is the container's directory as its processes see it.
func (fl *files) insideDir() string {
	if fl.spec.Workload.Isolation == action.IsolationRootfs {
		return rootDir
	}
	return fl.dir
}

// dirPath is where the container's directory is, or will be.
func (fl *files) dirPath() string {
	if fl.dir != "" {
		return fl.dir
	}
	return filepath.Join(fl.e.cfg.Dir, "run", cgroup.Escape(fl.id))
}

func (fl *files) root() string {
	if fl.rootDir != "" {
		return fl.rootDir
	}
	return fl.dirPath()
}

// rootDir is the path of its directory for a container with its own root.
const rootDir = "/cantina"

func bootID() (string, error) {
	b, err := os.ReadFile(bootIDPath)
	return strings.TrimSpace(string(b)), err
}

const bootIDPath = "/proc/sys/kernel/random/boot_id"

func (e *Executor) keepDir(id string) string {
	return filepath.Join(e.cfg.Dir, "keep", cgroup.Escape(id))
}

// readOwn reads a file that the cell has written to a directory in which a container can make
// others: a link, a pipe, or a file of another user is as good as none.
func readOwn(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == unix.ELOOP || err == unix.ENOTDIR || err == unix.ENXIO {
		return nil, nil
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() {
		return nil, nil
	}
	return io.ReadAll(io.LimitReader(f, ownMost))
}

// ownMost is more than the cell ever writes to such a file.
const ownMost = 1 << 20

// removeDir removes the container's directory, or returns it to the pool if it may be reused. Its
// content may belong to any user.
func (fl *files) removeDir() *pooledDir {
	if fl.dir == "" {
		return nil
	}
	if fl.pooled.untouched() {
		return fl.pooled
	}
	fl.e.remains.discard(fl.dir)
	if fl.pooled == nil {
		return nil
	}
	return fl.e.dirPool.replacement()
}
