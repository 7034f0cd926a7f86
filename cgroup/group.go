package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ErrBusy reports that a group still holds a process.
var ErrBusy = errors.New("group holds a process")

// StopAttr is the extended attribute of a v2 group in which the reaper finds
// how its container is stopped: "<signal> <grace in milliseconds>".
const StopAttr = "user.cantina.stop"

// WorkAttr is the extended attribute of a v2 group that describes its container, for a cell's
// successor that finds it and cannot end it.
const WorkAttr = "user.cantina.work"

// maxWork is how long that may be, in bytes.
const maxWork = 16 << 10

// Group is the control group of one container (or of a class).
type Group struct {
	tree *Tree // nil for a group found again by path
	dir  string
	slot *slot
	v2l  bool // has its own limits
	part bool // of another group, whose slot it is

	cpuMilli int // processor limit through v2
	throttle sync.Once
}

// At is the group in an existing tracker directory, for adoption and clearing.
func At(dir string) *Group { return &Group{dir: dir} }

// Dir is the tracker's directory of the group.
func (g *Group) Dir() string { return g.dir }

// OpenDir opens the group's directory for clone(CLONE_INTO_CGROUP). The caller closes it.
func (g *Group) OpenDir() (int, error) {
	fd, err := openFile(g.dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, fmt.Errorf("open group %s: %w", g.dir, err)
	}
	return fd, nil
}

// NeedsThread reports whether JoinThread has something to do. Without a tree there is no way back:
// a process that is started in an adopted container then is tracked, but not limited by v1.
func (g *Group) NeedsThread() bool { return g.slot != nil && g.tree != nil }

// JoinThread moves the calling thread into the v1 groups of the container, so that a process that
// it forks is there from the first instruction. LeaveThread undoes it.
func (g *Group) JoinThread() error {
	if g.slot != nil {
		return g.slot.joinThread()
	}
	return nil
}

// LeaveThread brings the calling thread back into the cell's own groups, also from
// a JoinThread that failed half way.
func (g *Group) LeaveThread() error { return g.leave("0") }

// LeaveThreadOf is LeaveThread for another thread of this process.
func (g *Group) LeaveThreadOf(tid int) error { return g.leave(strconv.Itoa(tid)) }

func (g *Group) leave(thread string) error {
	var first error
	if g.slot == nil {
		return nil
	}
	for _, c := range g.slot.joined {
		if err := writeFD(g.tree.base[c], thread); err != nil && first == nil {
			first = fmt.Errorf("leave %s: %w", c, err)
		}
	}
	return first
}

// partPrefix begins the names of parts.
const partPrefix = "cantina-part-"

// Part makes a group within the group, for processes that end before the whole: it counts for the
// limits of the whole. The caller removes it with Remove; remaining processes end with the whole.
func (g *Group) Part(name string) (*Group, error) {
	p := &Group{tree: g.tree, dir: filepath.Join(g.dir, partPrefix+Escape(name)), slot: g.slot, part: true}
	if err := unix.Mkdir(p.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make group %s: %w", p.dir, err)
	}
	return p, nil
}

// Parts finds the parts that another process has made.
func (g *Group) Parts() []*Group {
	found, err := filepath.Glob(filepath.Join(g.dir, partPrefix+"*"))
	if err != nil {
		return nil // the pattern is a good one
	}
	out := make([]*Group, len(found))
	for i, dir := range found {
		out[i] = &Group{tree: g.tree, dir: dir, part: true}
	}
	return out
}

// SetStop leaves the signal and the grace (ms) for the reaper, where they are
// not the defaults.
func (g *Group) SetStop(signal int, graceMS int64) error {
	v := strconv.Itoa(signal) + " " + strconv.FormatInt(graceMS, 10)
	if err := unix.Setxattr(g.dir, StopAttr, []byte(v), 0); err != nil {
		return fmt.Errorf("set %s of %s: %w", StopAttr, g.dir, err)
	}
	return nil
}

// AskedAttr is the extended attribute of a v2 group that names the processes which the reaper
// found in it when it began to end it: "<pid> <pid> …".
const AskedAttr = "user.cantina.asked"

// maxAsked is how long that may be, in bytes.
const maxAsked = 16 << 10

// SetAsked adds processes to those that the reaper is about to end.
func (g *Group) SetAsked(pids []int) error {
	all, _ := g.Asked()
	var b []byte
	for _, pid := range append(all, pids...) {
		if b = strconv.AppendInt(b, int64(pid), 10); len(b) > maxAsked {
			break
		}
		b = append(b, ' ')
	}
	if err := unix.Setxattr(g.dir, AskedAttr, b[:min(len(b), maxAsked)], 0); err != nil {
		return fmt.Errorf("set %s of %s: %w", AskedAttr, g.dir, err)
	}
	return nil
}

// Asked returns the processes that the reaper has ended; known is false if the group has no
// attributes.
func (g *Group) Asked() (pids []int, known bool) {
	buf := make([]byte, maxAsked)
	n, err := unix.Getxattr(g.dir, AskedAttr, buf)
	if err == unix.ENODATA {
		return nil, true
	}
	if err != nil {
		return nil, false
	}
	for _, f := range strings.Fields(string(buf[:n])) {
		if pid, err := strconv.Atoi(f); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, true
}

// SetWork stores the description of the group's container, unless it is more than 16 KiB.
func (g *Group) SetWork(work []byte) error {
	if len(work) > maxWork {
		return nil
	}
	if err := unix.Setxattr(g.dir, WorkAttr, work, 0); err != nil {
		return fmt.Errorf("set %s of %s: %w", WorkAttr, g.dir, err)
	}
	return nil
}

// Work returns the result of SetWork; nil if there is none.
func (g *Group) Work() []byte {
	buf := make([]byte, maxWork)
	n, err := unix.Getxattr(g.dir, WorkAttr, buf)
	if err != nil {
		return nil
	}
	return buf[:n]
}

// Procs lists the processes in the group and below it. A group that is gone has none. Processes
// without a number here are left out: they are in a pid namespace that this process cannot see,
// for example if its predecessor ran outside of its container.
func (g *Group) Procs() ([]int, error) {
	var pids []int
	self := os.Getpid()
	err := walk(g.dir, func(dir string) error {
		s, err := read(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			return err
		}
		for _, f := range strings.Fields(s) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 0 && pid != self {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids, err
}

// walk calls fn for dir and the groups below; groups that vanish meanwhile are skipped.
func walk(dir string, fn func(string) error) error {
	if err := fn(dir); err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
			return nil
		}
		return err
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := walk(filepath.Join(dir, e.Name()), fn); err != nil {
				return err
			}
		}
	}
	return nil
}

// Populated reports whether a process is alive in the group or below.
func (g *Group) Populated() (bool, error) {
	n, err := readField(g.Events(), "populated")
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return false, nil
	}
	return n != 0, err
}

// Events is the file whose modification means that Populated may have changed.
func (g *Group) Events() string { return filepath.Join(g.dir, "cgroup.events") }

// Signal sends sig to every process of the group.
func (g *Group) Signal(sig unix.Signal) error {
	return g.SignalEach(sig, func(int) bool { return true })
}

// SignalEach sends sig to the processes of the group that want chooses. Each is pinned and looked
// at again before, so that a reused pid is never hit.
func (g *Group) SignalEach(sig unix.Signal, want func(pid int) bool) error {
	pids, err := g.Procs()
	if err != nil {
		return err
	}
	var first error
	for _, pid := range pids {
		if !want(pid) {
			continue
		}
		if err := g.SignalOne(pid, sig); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// SignalOne sends sig to one process if it is in the group.
func (g *Group) SignalOne(pid int, sig unix.Signal) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil // gone, or a thread that is ending
	}
	defer unix.Close(fd)
	if !g.Holds(pid) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, sig, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("signal %d to %d: %w", sig, pid, err)
	}
	return nil
}

// Holds reports whether pid is in the group or below it right now.
func (g *Group) Holds(pid int) bool {
	s, err := read("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return false
	}
	for line := range strings.Lines(s) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) == 3 && parts[1] == "" {
			for p := parts[2]; strings.Contains(p, "/cantina/"); p = filepath.Dir(p) {
				if strings.HasSuffix(g.dir, p) {
					return true
				}
			}
		}
	}
	return false
}

// Kill sends SIGKILL to all of the group at once. It does not wait.
func (g *Group) Kill() error { return g.set("cgroup.kill", "1") }

// Freeze stops every process of the group without a signal. It does not wait
// until all are stopped.
func (g *Group) Freeze() error { return g.set("cgroup.freeze", "1") }

// Thaw undoes Freeze.
func (g *Group) Thaw() error { return g.set("cgroup.freeze", "0") }

// set writes a file of a group; one that is gone needs nothing.
func (g *Group) set(file, value string) error {
	err := write(filepath.Join(g.dir, file), value)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

// AwaitFrozen waits until Freeze has reached every process, at most for limit. It
// reports whether it has.
func (g *Group) AwaitFrozen(limit time.Duration) bool {
	for end := time.Now().Add(limit); ; unix.Nanosleep(&unix.Timespec{Nsec: 1e6}, nil) {
		n, err := readField(g.Events(), "frozen")
		frozen := n != 0 || err != nil
		if frozen || time.Now().After(end) {
			return frozen
		}
	}
}

// Remove gives the group back. It returns ErrBusy while a process is left.
func (g *Group) Remove() error {
	err := unix.Rmdir(g.dir)
	if err == unix.EBUSY || err == unix.ENOTEMPTY {
		g.removeBelow()
		err = unix.Rmdir(g.dir)
	}
	switch {
	case err == unix.EBUSY:
		return fmt.Errorf("remove %s: %w", g.dir, ErrBusy)
	case err != nil && err != unix.ENOENT:
		return fmt.Errorf("remove %s: %w", g.dir, err)
	}
	if g.slot != nil && !g.part {
		if g.tree == nil { // adopted by a cell without groups
			g.slot.remove()
		} else {
			g.tree.release(g.slot)
		}
		g.slot = nil
	}
	return nil
}

// removeBelow removes empty groups that the container made itself.
func (g *Group) removeBelow() {
	entries, err := os.ReadDir(g.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			RemoveEmpty(filepath.Join(g.dir, e.Name()))
		}
	}
}
