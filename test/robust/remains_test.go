package robust

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// remains has the leftovers of the cell with a data directory.
type remains struct {
	groups []string // directories in the hierarchies
	pids   []int    // in its control groups, or started for its directory
	mounts []string // below its directory
}

func (r remains) none() bool { return len(r.groups)+len(r.pids)+len(r.mounts) == 0 }

// cellID is the name under which the cell's groups stand in the hierarchies.
func cellID(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "executor", "id"))
	if errors.Is(err, fs.ErrNotExist) {
		return "" // it never came so far
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// find looks for everything that a cell's directory has on this machine.
func find(t *testing.T, dir string) remains {
	t.Helper()
	var r remains
	id := cellID(t, dir)
	if id != "" {
		_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() == id {
				r.groups = append(r.groups, path)
				return fs.SkipDir
			}
			return nil // a group that went away meanwhile is no error
		})
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && belongs(pid, id, dir) {
			r.pids = append(r.pids, pid)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(mounts), "\n") {
		if strings.Contains(line, dir) {
			r.mounts = append(r.mounts, line)
		}
	}
	return r
}

// belongs reports whether a process is one of the cell's: by control group, by the reaper's arguments, by the
// variables that every container has in its environment.
func belongs(pid int, id, dir string) bool {
	read := func(name string) string {
		b, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name)) // it may be gone
		return string(b)
	}
	// A dead one that its parent has not read off holds nothing.
	if _, state, ok := strings.Cut(read("stat"), ") "); !ok || state[0] == 'Z' || state[0] == 'X' {
		return false
	}
	if strings.Contains(read("environ"), "CANTINA_DIR="+dir+"/") {
		return true
	}
	return id != "" && (strings.Contains(read("cgroup"), "/"+id) || strings.Contains(read("cmdline"), "/"+id+"/"))
}

// gone waits until no process of a dead cell is left, and returns how long it
// took. It waits on the processes themselves.
func gone(t *testing.T, dir string, limit time.Duration) time.Duration {
	t.Helper()
	begin := time.Now()
	for {
		r := find(t, dir)
		if len(r.pids) == 0 {
			return time.Since(begin)
		}
		for _, pid := range r.pids {
			if !ended(pid, limit-time.Since(begin)) {
				cmd, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
				t.Fatalf("process %d (%q) is left %v after the end of its cell", pid, cmd, limit)
			}
		}
	}
}

// steady returns the processes of a cell that stay. Others end first, such as the container of its probe, and
// processes that have just got the stop signal.
func steady(t *testing.T, dir string) []int {
	t.Helper()
	all := find(t, dir).pids
	for _, pid := range all {
		ended(pid, time.Second)
	}
	return slices.DeleteFunc(all, func(pid int) bool { return ended(pid, 0) })
}

// ended waits for the end of any process.
func ended(pid int, limit time.Duration) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return true
	}
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	for end := time.Now().Add(limit); ; {
		left := max(0, time.Until(end))
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds()))
		if n > 0 {
			return true
		}
		if left == 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
	}
}

// clean demands that a cell that ended in good order left nothing.
func clean(t *testing.T, dir string) {
	t.Helper()
	if r := find(t, dir); !r.none() {
		t.Errorf("left behind: groups %v, processes %v, mounts %v", r.groups, r.pids, r.mounts)
	}
}
