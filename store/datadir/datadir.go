// Package datadir is a server's data directory: the lock that makes one process its owner, and the
// server's record about its store beside it.
//
// The lock is the kernel's (flock): it ends with the process, in any case, so its holder knows
// that every earlier owner is dead. Package node opens the directory first and closes it last;
// store/etcd keeps its member inside; store.Store reads and writes the memo. Source:
// docs/design/safety.md, Terms.
package datadir

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"cantina/internal/run"
	"cantina/store"
)

// Errors of a data directory.
var (
	// ErrInUse reports a directory that another process holds.
	ErrInUse = errors.New("data directory in use")
	// ErrMemo reports a memo that cannot be read. Its content is not guessed: the operator moves the
	// file away, and the store is then treated as moved.
	ErrMemo = errors.New("unreadable memo")
)

const (
	lockName = "lock"
	memoName = "memo.json"
)

// Dir is a locked data directory. It is a store.Memory.
type Dir struct {
	path string
	lock *os.File
	mu   sync.Mutex // guards memo.json
}

var _ store.Memory = (*Dir)(nil)

// InUse is the error of Open on a directory that another process holds; it wraps
// ErrInUse.
type InUse struct {
	Path string
	// PID is the process that holds it; 0 when it could not be read.
	PID int
}

// Error names the process that holds the directory.
func (e *InUse) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("data directory %s is in use", e.Path)
	}
	return fmt.Sprintf("data directory %s is in use by pid %d", e.Path, e.PID)
}

// Unwrap returns ErrInUse.
func (e *InUse) Unwrap() error { return ErrInUse }

// Open makes the directory when there is none (mode 0700) and locks it. It fails at
// once with *InUse when another process, or another Directory of this one, holds it.
func Open(path string) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", path, err)
	}
	if err := take(lock); err != nil {
		defer lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &InUse{Path: path, PID: holder(lock)}
		}
		return nil, fmt.Errorf("lock data directory %s: %w", path, err)
	}
	return &Dir{path: path, lock: lock}, nil
}

// take locks the file and writes this process into it.
func take(lock *os.File) error {
	if err := run.Lock(lock); err != nil {
		return err
	}
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	if errors.Is(err, unix.ENOSPC) {
		return nil // the lock holds all the same; only its holder is not named
	}
	return err
}

func holder(lock *os.File) int {
	b := make([]byte, 32)
	n, _ := lock.ReadAt(b, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		return 0
	}
	return pid
}

// Path returns the path of a name inside the directory.
func (f *Dir) Path(name string) string { return filepath.Join(f.path, name) }

// Close gives the lock back. All that works inside the directory must have ended.
func (f *Dir) Close() error { return f.lock.Close() }

// page is memo.json. Inode and Born name the file itself: a copy of the directory, or
// one restored from a backup, has others.
type page struct {
	ID    string     `json:"id"`
	Inode uint64     `json:"inode"`
	Born  int64      `json:"born_ns,omitempty"`
	Memo  store.Memo `json:"memo"`
}

// Load returns the memo, zero when none was saved yet. Its Moved is set when the
// memo was written to another file than the one read: the directory was copied, moved
// to another file system, or put back from a backup.
func (f *Dir) Load() (store.Memo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.read()
	return p.Memo, err
}

func (f *Dir) read() (p page, err error) {
	file, err := os.Open(f.Path(memoName))
	if errors.Is(err, os.ErrNotExist) {
		return page{}, nil
	}
	if err != nil {
		return page{}, fmt.Errorf("memo: %w", err)
	}
	defer file.Close()
	if err := json.NewDecoder(file).Decode(&p); err != nil {
		return page{}, fmt.Errorf("%s: %w: %v", file.Name(), ErrMemo, err)
	}
	inode, born, err := identity(file)
	if err != nil {
		return page{}, err
	}
	p.Memo.Moved = p.Memo.Moved || p.Inode != inode || p.Born != born
	return p, nil
}

// identity returns the inode and, where the file system knows it, the birth time
// of a file.
func identity(file *os.File) (inode uint64, born int64, err error) {
	var x unix.Statx_t
	if err := unix.Statx(int(file.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &x); err != nil {
		return 0, 0, fmt.Errorf("stat %s: %w", file.Name(), err)
	}
	if x.Mask&unix.STATX_BTIME != 0 {
		born = x.Btime.Sec*1e9 + int64(x.Btime.Nsec)
	}
	return x.Ino, born, nil
}

// Save makes the memo durable. It writes a new file and renames it, so the memo is
// the old one or the new one, never half.
func (f *Dir) Save(m store.Memo) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, err := f.read()
	if err != nil {
		return err
	}
	p.Memo = m
	if p.ID == "" {
		p.ID = rand.Text()
	}
	if err := f.write(p); err != nil {
		return fmt.Errorf("save %s: %w", f.Path(memoName), err)
	}
	return nil
}

func (f *Dir) write(p page) error {
	name := f.Path(memoName + ".new")
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if p.Inode, p.Born, err = identity(file); err != nil {
		return err
	}
	if err := json.NewEncoder(file).Encode(p); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := os.Rename(name, f.Path(memoName)); err != nil {
		return err
	}
	dir, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
