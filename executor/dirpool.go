package executor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// dirPool keeps empty directories ready for deadline-bound containers, which are short-lived: on a
// disk, creating and removing a directory costs a third of the fork and exec of its process. A
// directory is reused only if it was not modified, according to its change time: creating,
// removing, renaming or sharing a file in it, and changing its mode, owner or attributes, all
// change that time.
type dirPool struct {
	dir   string
	clock func() time.Duration // since boot

	mu    sync.Mutex
	made  int
	spare []*pooledDir // oldest first
}

// pooledDir is one that was made by directories.
type pooledDir struct {
	path    string
	inode   uint64
	changed unix.Timespec
	known   time.Duration // when changed was read
	stable  bool          // when it was given out, changed was older than a tick of the file system's clock
}

const (
	// maxSpare bounds how many are kept.
	maxSpare = 64
	// fileTick is longer than two ticks of the clock that file systems use: a change
	// within one tick may leave the change time as it was.
	fileTick = 25 * time.Millisecond
)

// take gives out an empty directory.
func (f *dirPool) take() (*pooledDir, error) {
	f.mu.Lock()
	if len(f.spare) > 0 && f.clock()-f.spare[0].known > fileTick {
		s := f.spare[0]
		f.spare = f.spare[1:]
		f.mu.Unlock()
		s.stable = true
		return s, nil
	}
	f.mu.Unlock()
	return f.create()
}

// create makes a directory. Its name begins with a dot, as that of no container does.
func (f *dirPool) create() (*pooledDir, error) {
	s := &pooledDir{}
	for err := fs.ErrExist; errors.Is(err, fs.ErrExist); { // one that could not be removed keeps its name
		f.mu.Lock()
		f.made++
		s.path = filepath.Join(f.dir, "."+strconv.Itoa(f.made))
		f.mu.Unlock()
		if err = os.Mkdir(s.path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	var st unix.Stat_t
	if err := unix.Lstat(s.path, &st); err != nil {
		return nil, errors.Join(err, os.Remove(s.path))
	}
	s.inode, s.changed, s.known = st.Ino, st.Ctim, f.clock()
	return s, nil
}

// untouched reports whether the directory is as it was made.
func (s *pooledDir) untouched() bool {
	var st unix.Stat_t
	return s != nil && s.stable && unix.Lstat(s.path, &st) == nil && st.Ino == s.inode && st.Ctim == s.changed
}

// replacement makes a directory in the place of one that was removed, unless there are
// enough, or none can be made.
func (f *dirPool) replacement() *pooledDir {
	f.mu.Lock()
	full := len(f.spare) >= maxSpare
	f.mu.Unlock()
	if full {
		return nil
	}
	s, err := f.create()
	if err != nil {
		return nil // the disk is full, or fails: the next start reports it
	}
	return s
}

// put makes a directory one of those that can be given out, or removes it where there are
// enough; nil is none.
func (f *dirPool) put(s *pooledDir) {
	if s == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.spare) >= maxSpare {
		unix.Rmdir(s.path)
		return
	}
	i := len(f.spare)
	if s.stable {
		i = 0 // the oldest is looked at first
	}
	f.spare = slices.Insert(f.spare, i, s)
}

// clear removes the spare directories.
func (f *dirPool) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.spare {
		unix.Rmdir(s.path)
	}
	f.spare = nil
}
