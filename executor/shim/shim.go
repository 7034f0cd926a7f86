// Package shim is the communication between a cell and the shim of a kept container: files in one
// directory, so that either may die at any time.
//
//	spec      cell → shim   the program to run
//	started   shim → cell   the process, or why there is none
//	1.N, 2.N  shim → cell   stdout and stderr, raw, from byte N on; the cell removes
//	                        stored files
//	ended     shim → cell   how the process ended; on disk before the shim ends
//	ending    cell → shim   the cell is ending the process
//
// The space for "ended" is taken before the program starts, so that a full disk does not prevent it. If a
// shim is gone without it, the result is lost: it is never read as success. All files
// except the output's appear whole, by renaming.
//
// The executor and cantina-reaper use this package.
package shim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"cantina/executor/isolate"
	"cantina/internal/space"
)

// Names of the files.
const (
	SpecFile    = "spec"
	StartedFile = "started"
	EndedFile   = "ended"
	EndingFile  = "ending"
)

// The bounds of the output that waits for a cell; beyond them the process waits.
const (
	SegmentSize = 4 << 20 // bytes
	MaxSegments = 64      // of each stream
)

// Spec is the program of a shim.
type Spec struct {
	Path      string
	Args      []string
	Dir       string
	Env       []string
	OpenFiles uint64
	Limit     [2]uint64 // soft and hard limit of open files when OpenFiles is 0
	User      *User     // nil = the cell's own
	Reach     string    // directory that the user must get to, in directories that it may not enter; empty = none
	Session   bool
	Status    bool // descriptor 3
	Quiet     bool // output is dropped
	View      *View
	TimeLimit *TimeLimit // nil = none
}

// TimeLimit is when a shim ends its program, and how, unless the cell is ending it already.
type TimeLimit struct {
	At     time.Duration // boot time
	Signal int           // stop signal; 0 = KILL at once
	Grace  time.Duration // from Signal to KILL; negative = KILL never follows
}

// TimeLimitWait is how long a shim leaves its program to the cell when the time limit is over.
const TimeLimitWait = 2 * time.Second

// User is the user of the program.
type User struct {
	Uid, Gid uint32
	Groups   []uint32
}

// View is the view of the program; Root nil = the machine, read-only.
type View struct {
	ContainerDir string
	Binds        []isolate.Bind // of Root nil
	OwnNet       bool
	Root         *isolate.Root
}

// LastLine keeps the last line of a stream, of at most 64 KiB when it is not
// terminated. (Bistro, Pipes.) The zero value is ready.
type LastLine struct {
	line []byte // last whole line
	part []byte // begun after it
}

// Take takes the written data.
func (l *LastLine) Take(p []byte) {
	l.part = append(l.part, p...)
	if i := bytes.LastIndexByte(l.part, '\n'); i >= 0 {
		whole := l.part[:i]
		l.line = bytes.Clone(whole[bytes.LastIndexByte(whole, '\n')+1:])
		l.part = append(l.part[:0], l.part[i+1:]...)
	}
	const most = 64 << 10
	l.part = l.part[:min(len(l.part), most)]
}

// Last is the last line, also when it is not terminated; nil when none came.
func (l *LastLine) Last() []byte {
	if len(l.part) > 0 {
		return bytes.Clone(l.part)
	}
	return l.line
}

// Started is the result of the start.
type Started struct {
	Pid   int
	Start uint64 // clock ticks since boot, as in procid.Identity
	At    time.Time
	Error string // empty when it runs
	Found bool   // false: there is no such program
}

// Ended is how the process ended.
type Ended struct {
	ExitCode     int // meaningless when Signal is not 0
	Signal       int
	User, System time.Duration
	At           time.Time
	Status       []byte // last line of descriptor 3; nil = none
	TimeLimit    bool   // the shim has ended it, since its time limit was over
}

// EndedSize is the space that a record of the end needs; status is whether it has a status line.
func EndedSize(status bool) int64 {
	if status {
		return 96 << 10 // 64 KiB in base64, and the other fields
	}
	return 4 << 10
}

// Reserve takes the space on the disk that Put needs for a file, so that Put succeeds on a disk that
// is full by then.
func Reserve(dir, name string, size int64) error {
	return space.Reserve(filepath.Join(dir, name+".new"), size)
}

// Put writes a file whole, and to disk when sync is set. It writes into the space that Reserve has taken.
func Put(dir, name string, v any, sync bool) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, name+".new"), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if _, err = f.Write(b); err == nil {
		err = f.Truncate(int64(len(b)))
	}
	if err == nil && sync {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// Get reads a file that Put wrote. The error is os.ErrNotExist when it is not there.
func Get(dir, name string, v any) error {
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// Segment is one file of a stream.
type Segment struct {
	Path string
	From int64 // of its first byte in the stream
}

// Segments lists the files of a stream (1 or 2) in order.
func Segments(dir string, stream int) ([]Segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []Segment
	prefix := strconv.Itoa(stream) + "."
	for _, e := range entries {
		if text, ok := strings.CutPrefix(e.Name(), prefix); ok {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				out = append(out, Segment{filepath.Join(dir, e.Name()), n})
			}
		}
	}
	slices.SortFunc(out, func(a, b Segment) int { return int(min(max(a.From-b.From, -1), 1)) })
	return out, nil
}

// SegmentPath is the file of a stream that begins at byte from.
func SegmentPath(dir string, stream int, from int64) string {
	return filepath.Join(dir, strconv.Itoa(stream)+"."+strconv.FormatInt(from, 10))
}
