package robust

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// witness watches work from outside cantina. Each piece holds a lock of the kernel while any of its processes
// lives, and writes its id and its fence when it begins.
type witness struct {
	t   *testing.T
	dir string
}

func newWitness(t *testing.T) *witness {
	t.Helper()
	w := &witness{t: t, dir: tempDir(t)}
	lock := filepath.Join(w.dir, "lock")
	if err := errors.Join(os.Mkdir(lock, 0o755), os.Chmod(lock, 0o777)); err != nil { // for any user of the work
		t.Fatal(err)
	}
	script := fmt.Sprintf(`#!/bin/sh
# work ID CMD...: says that two of one id live at a time; then it is left to CMD
id=$1; shift
exec 9>"%[1]s/lock/$id"
flock -n 9 || echo "$id" >>"%[1]s/twice"
echo "$id ${CANTINA_FENCE:--}" >>"%[1]s/begun"
exec "$@"
`, w.dir)
	if err := os.WriteFile(w.command(), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

// command is the program that work runs: COMMAND ID PROGRAM ARG...
func (w *witness) command() string { return filepath.Join(w.dir, "work") }

func (w *witness) lines(name string) []string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	return strings.FieldsFunc(string(b), func(r rune) bool { return r == '\n' })
}

// begun returns, for each id, the fences under which it began.
func (w *witness) begun() map[string][]string {
	w.t.Helper()
	out := map[string][]string{}
	for _, line := range w.lines("begun") {
		id, fence, _ := strings.Cut(line, " ")
		out[id] = append(out[id], fence)
	}
	return out
}

// check demands that nothing lived twice at a time.
func (w *witness) check() {
	w.t.Helper()
	for _, id := range w.lines("twice") {
		w.t.Errorf("%s began while an earlier start of it was alive", id)
	}
}

// until waits until the files of the witness satisfy want; the kernel reports each write.
func (w *witness) until(limit time.Duration, want func() bool) bool {
	w.t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		w.t.Fatalf("inotify: %v", err)
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, w.dir, unix.IN_MODIFY|unix.IN_CREATE); err != nil {
		w.t.Fatalf("inotify: %v", err)
	}
	buf := make([]byte, 4096)
	for end := time.Now().Add(limit); ; {
		if want() {
			return true
		}
		left := time.Until(end)
		if left <= 0 {
			return false
		}
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1); err != nil &&
			err != unix.EINTR {
			w.t.Fatalf("inotify: %v", err)
		}
		_, _ = unix.Read(fd, buf)
	}
}

// waitBegun waits until work began n times.
func (w *witness) waitBegun(id string, n int) {
	w.t.Helper()
	if !w.until(patience, func() bool { return len(w.begun()[id]) >= n }) {
		w.t.Fatalf("%s began %d times within %v, want %d", id, len(w.begun()[id]), patience, n)
	}
}
