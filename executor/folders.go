package executor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// folders keeps empty folders ready for deadline-bound containers, which come and
// go: on a disk, making and removing a folder costs a third of what fork and exec
// of its process do. A folder is given out again only when nothing was done to it
// or in it, as its change time tells: whatever makes, removes, renames or shares a
// file in it, or changes its mode, owner or attributes, moves that.
type folders struct {
	dir   string
	clock func() time.Duration // since boot

	mu    sync.Mutex
	made  int
	spare []*folder // oldest first
}

// folder is one that was made by folders.
type folder struct {
	path    string
	inode   uint64
	changed unix.Timespec
	known   time.Duration // when changed was read
	settled bool          // when it was given out, changed was older than a tick of the file system's clock
}

const (
	// maxSpare bounds how many are kept.
	maxSpare = 64
	// fileTick is longer than two ticks of the clock that file systems use: a change
	// within one tick may leave the change time as it was.
	fileTick = 25 * time.Millisecond
)

// take gives out an empty folder.
func (f *folders) take() (*folder, error) {
	f.mu.Lock()
	if len(f.spare) > 0 && f.clock()-f.spare[0].known > fileTick {
		s := f.spare[0]
		f.spare = f.spare[1:]
		f.mu.Unlock()
		s.settled = true
		return s, nil
	}
	f.mu.Unlock()
	return f.create()
}

// create makes a folder. Its name begins with a dot, as that of no container does.
func (f *folders) create() (*folder, error) {
	f.mu.Lock()
	f.made++
	s := &folder{path: filepath.Join(f.dir, "."+strconv.Itoa(f.made))}
	f.mu.Unlock()
	if err := os.Mkdir(s.path, 0o755); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(s.path, &st); err != nil {
		return nil, errors.Join(err, os.Remove(s.path))
	}
	s.inode, s.changed, s.known = st.Ino, st.Ctim, f.clock()
	return s, nil
}

// untouched reports whether the folder is as it was made.
func (s *folder) untouched() bool {
	var st unix.Stat_t
	return s != nil && s.settled && unix.Lstat(s.path, &st) == nil && st.Ino == s.inode && st.Ctim == s.changed
}

// replacement makes a folder in the place of one that was removed, unless there are
// enough, or none can be made.
func (f *folders) replacement() *folder {
	f.mu.Lock()
	full := len(f.spare) >= maxSpare
	f.mu.Unlock()
	if full {
		return nil
	}
	s, err := f.create()
	if err != nil {
		return nil // the disk is full, or fails: the next start says so
	}
	return s
}

// put makes a folder one of those that can be given out, or removes it where there are
// enough; nil is none.
func (f *folders) put(s *folder) {
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
	if s.settled {
		i = 0 // the oldest is looked at first
	}
	f.spare = slices.Insert(f.spare, i, s)
}

// clear removes what is spare.
func (f *folders) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.spare {
		unix.Rmdir(s.path)
	}
	f.spare = nil
}

// removeAll removes a folder, which is empty most of the time.
func removeAll(path string) error {
	if unix.Rmdir(path) == nil {
		return nil
	}
	// What a container has mounted there is not its own: it is let go, not emptied.
	for _, at := range slices.Backward(mountsBelow(path)) {
		if err := unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && err != unix.EINVAL {
			return fmt.Errorf("unmount %s: %w", at, err)
		}
	}
	return os.RemoveAll(path)
}

// mountsBelow lists what is mounted in a folder, in the order of mounting.
func mountsBelow(dir string) []string {
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return !strings.HasPrefix(m.Mountpoint, dir+"/"), false
	})
	if err != nil {
		return nil
	}
	var out []string
	for _, m := range mounts {
		out = append(out, m.Mountpoint)
	}
	return out
}
