package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrInUse reports that another cell's process has the groups of an id.
var ErrInUse = errors.New("the control groups are in use by another cell")

// OwnerAttr is the extended attribute of a v2 directory of one cell with the cell's data
// directory.
const OwnerAttr = "user.cantina.directory"

// keepClass begins the names of classes whose containers outlive their cell.
const keepClass = "keep."

// claimTime is how long a claim waits for a process that only checks.
const claimTime = 2 * time.Second

// claim takes the lock of a cell's tracker directory, for as long as the descriptor is open: while
// a process has it, no other process treats the directory as a dead cell's.
func claim(dir string) (int, error) {
	for end := time.Now().Add(claimTime); ; unix.Nanosleep(&unix.Timespec{Nsec: 5e6}, nil) {
		if err := makeDir(dir); err != nil {
			return -1, err
		}
		fd, err := lockDir(dir)
		if err == nil {
			var held, there unix.Stat_t
			if unix.Fstat(fd, &held) == nil && unix.Stat(dir, &there) == nil && held.Ino == there.Ino {
				return fd, nil
			}
			unix.Close(fd) // it was removed before it was locked
			continue
		}
		if time.Now().After(end) {
			return -1, fmt.Errorf("claim %s: %w", dir, err)
		}
	}
}

// lockDir locks a directory, or returns ErrInUse.
func lockDir(dir string) (int, error) {
	fd, err := openFile(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		unix.Close(fd)
		if err == unix.EWOULDBLOCK {
			err = ErrInUse
		}
		return -1, err
	}
	return fd, nil
}

// SetOwner records the owner of the tree, for Abandoned.
func (t *Tree) SetOwner(owner string) error {
	t.mu.Lock()
	t.owner = owner
	t.mu.Unlock()
	return t.leaveOwner(owner)
}

func (t *Tree) leaveOwner(owner string) error {
	if err := unix.Setxattr(t.root, OwnerAttr, []byte(owner), 0); err != nil {
		return fmt.Errorf("set %s of %s: %w", OwnerAttr, t.root, err)
	}
	return nil
}

// Abandoned are the ids whose cell has no process any more, with their directories and their
// owner's record.
func (h Host) Abandoned() []Abandoned {
	var out []Abandoned
	seen := map[string]bool{}
	for _, top := range h.tops() {
		entries, err := os.ReadDir(top)
		if err != nil {
			continue
		}
		for _, d := range entries {
			if id := d.Name(); d.IsDir() && isID(id) && !seen[id] {
				seen[id] = true
				if a, ok := h.abandoned(id); ok {
					out = append(out, a)
				}
			}
		}
	}
	return out
}

// Abandoned is the tree of a dead cell.
type Abandoned struct {
	ID    string
	Owner string // as SetOwner left it
	dirs  []string
}

// abandoned reports whether no process holds the directories of an id.
func (h Host) abandoned(id string) (Abandoned, bool) {
	a := Abandoned{ID: id, dirs: h.Dirs(id)}
	unlock, ok := a.lock()
	if !ok {
		return a, false
	}
	defer unlock()
	buf := make([]byte, 4096)
	for _, dir := range a.dirs {
		if n, err := unix.Getxattr(dir, OwnerAttr, buf); err == nil {
			a.Owner = string(buf[:n])
		}
	}
	return a, true
}

// lock locks the existing directories, as the cell would.
func (a Abandoned) lock() (unlock func(), ok bool) {
	var fds []int
	unlock = func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}
	for _, dir := range a.dirs {
		fd, err := lockDir(dir)
		if err != nil {
			unlock()
			return nil, false
		}
		fds = append(fds, fd)
	}
	return unlock, true
}

// Remove removes its empty groups, unless it has a container that should outlive the cell: its
// successor needs it. A tree without an owner is left alone: its cell may take no lock, and be
// alive.
func (a Abandoned) Remove() {
	if a.Owner == "" {
		return
	}
	unlock, ok := a.lock()
	if !ok {
		return
	}
	defer unlock()
	for _, dir := range a.dirs {
		if kept, err := filepath.Glob(filepath.Join(dir, keepClass+"*", "*")); err != nil || hasDir(kept) {
			return
		}
	}
	for _, dir := range a.dirs {
		RemoveEmpty(dir)
	}
}

// Kept are the processes of containers that were to outlive the cell.
func (a Abandoned) Kept() []int {
	var pids []int
	for _, dir := range a.dirs {
		classes, _ := filepath.Glob(filepath.Join(dir, keepClass+"*")) // the pattern is good
		for _, c := range classes {
			more, _ := At(c).Procs() // unreadable: it is gone
			pids = append(pids, more...)
		}
	}
	return pids
}

func hasDir(paths []string) bool {
	for _, p := range paths {
		if info, err := os.Lstat(p); err == nil && info.IsDir() {
			return true
		}
	}
	return false
}

// isID reports whether a name is one that executors give their directories.
func isID(name string) bool {
	return len(name) == 16 && strings.Trim(name, "0123456789abcdef") == ""
}

// tops are the directories below which cells have theirs, of all hierarchies.
func (h Host) tops() []string {
	var out []string
	for _, m := range h.mounts() {
		if self := m.SelfDir(); self != "" {
			out = append(out, filepath.Join(self, "cantina"))
		}
	}
	return out
}
