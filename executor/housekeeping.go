package executor

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"cantina/cgroup"
	"cantina/internal/removal"
	"cantina/resource"
)

// The intervals at which the executor checks for changes without events.
const (
	lookPeriod = time.Second      // reservations, kills for lack of memory
	diskPeriod = 10 * time.Second // a container's disk usage; each lookPeriod during setup
)

// housekeeper repeatedly checks for changes without events.
type housekeeper struct{ e *Executor }

// housekeep expires reservations, reports children killed for lack of memory, and checks disk
// usage.
func (h housekeeper) housekeep(ctx context.Context) error {
	h.e.disk.watchDisk(true)
	look := time.NewTicker(lookPeriod)
	defer look.Stop()
	var disk time.Duration
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		h.expire()
		h.watchMemory()
		h.e.writeOutcomes(false)
		h.e.disk.watchDisk(false)
		now := h.e.clock.Boot()
		all := now-disk >= diskPeriod
		if h.watchDisks(all); all {
			disk = now
		}
	}
}

// expire gives up reservations without a start.
func (h housekeeper) expire() {
	now := h.e.clock.Boot()
	var late []*container
	h.e.mu.Lock()
	for _, c := range h.e.containers {
		if now >= c.expires && c.lifecycle.expire() {
			close(c.stopC)
			late = append(late, c)
		}
	}
	h.e.mu.Unlock()
	for _, c := range late {
		c.complete(c.neverRan())
	}
}

// watchMemory reports a process that was killed for lack of memory while its container lives on.
func (h housekeeper) watchMemory() {
	limited := func(c *container) bool { return c.spec.Workload.Resources[resource.MemoryMB] > 0 }
	for _, c := range h.e.live(limited) {
		kills := c.programs.oomKillsNow()
		h.e.mu.Lock()
		more := c.countKills(kills)
		h.e.mu.Unlock()
		if more > 0 {
			u, victims := c.programs.memoryNow()
			c.note("%d processes were killed for lack of memory%s (limit %d bytes, peak %d bytes)", more, victims,
				u.MemoryLimit, u.MemoryPeak)
		}
	}
}

// oomKillsNow reads that counter alone.
func (ps *programs) oomKillsNow() (n int) {
	ps.with(func(t tracker) { n = int(t.OOMKills()) })
	return n
}

// memoryNow reads the counters, and names the killed processes if the kernel's log is readable.
func (ps *programs) memoryNow() (u cgroup.Usage, victims string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if names := ps.tracker.Victims(); len(names) > 0 {
		victims = ": " + strings.Join(names, ", ")
	}
	return ps.tracker.Usage(), victims
}

// watchDisks ends containers that exceed their disk limit, and sums their usage: of all of them,
// or only of those in setup, where downloads are written.
func (h housekeeper) watchDisks(all bool) {
	h.e.mu.Lock()
	var limited []*container
	for _, c := range h.e.containers {
		if c.diskLimit() > 0 && c.files.dir != "" && (all || c.state == Created) {
			limited = append(limited, c)
		}
	}
	h.e.mu.Unlock()
	var sum int64
	for _, c := range limited {
		used, over := c.files.overDisk(&c.programs)
		sum += min(used, c.diskLimit())
		if over != "" {
			c.note("%s", over)
			h.e.Kill(c.id, over)
		}
	}
	if all {
		h.e.disk.mu.Lock()
		h.e.disk.used = sum
		h.e.disk.mu.Unlock()
	}
}

// diskLimit is in bytes; 0 = none.
func (o *order) diskLimit() int64 {
	return int64(o.spec.Workload.Resources[resource.DiskMB]) << 20
}

// overDisk returns the container's bytes on disk, and why it may not continue if these are too
// many.
func (fl *files) overDisk(ps *programs) (used int64, over string) {
	limit := fl.diskLimit()
	if limit <= 0 {
		return 0, ""
	}
	pids, _ := ps.pids()
	if used = diskUsage(fl.dir) + fl.unseen(pids); used > limit {
		over = fmt.Sprintf("disk limit exceeded: %d bytes used, %d allowed", used, limit)
	}
	return used, over
}

// unseen sums the unnamed files of the container's processes: deleted files that are open, and
// their own file system at /tmp in a namespace.
func (fl *files) unseen(pids []int) int64 {
	var here unix.Stat_t
	if unix.Stat(fl.dir, &here) != nil {
		return 0
	}
	var sum int64
	seen := map[[2]uint64]bool{}
	for _, pid := range pids {
		dir := fmt.Sprintf("/proc/%d/", pid)
		fds, err := os.ReadDir(dir + "fd")
		if err != nil {
			continue // it has ended
		}
		for _, fd := range fds {
			name := dir + "fd/" + fd.Name()
			if at, err := os.Readlink(name); err != nil || !strings.HasSuffix(at, " (deleted)") || !filepath.IsAbs(at) {
				continue
			}
			sum += blocksOnce(name, seen, func(st *unix.Stat_t) bool { return st.Dev == here.Dev && st.Nlink == 0 })
		}
		if fl.view != nil {
			sum += ownTmp(dir, seen)
		}
	}
	return sum
}

// blocksOnce is the size of a file, once, if want holds.
func blocksOnce(name string, seen map[[2]uint64]bool, want func(*unix.Stat_t) bool) int64 {
	var st unix.Stat_t
	if unix.Stat(name, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || seen[[2]uint64{st.Dev, st.Ino}] ||
		!want(&st) {
		return 0
	}
	seen[[2]uint64{st.Dev, st.Ino}] = true
	return st.Blocks * 512
}

// ownTmp is the content of the /tmp of a process if that is in memory and not the machine's.
func ownTmp(dir string, seen map[[2]uint64]bool) int64 {
	var st, ours unix.Stat_t
	var fs unix.Statfs_t
	if unix.Stat(dir+"root/tmp", &st) != nil || unix.Statfs(dir+"root/tmp", &fs) != nil || fs.Type != unix.TMPFS_MAGIC {
		return 0
	}
	if unix.Stat("/tmp", &ours) == nil && ours.Dev == st.Dev || seen[[2]uint64{st.Dev, 0}] {
		return 0
	}
	seen[[2]uint64{st.Dev, 0}] = true
	return int64(fs.Blocks-fs.Bfree) * fs.Bsize
}

// diskUsage adds up the blocks below a directory, each file once.
func diskUsage(dir string) int64 {
	var sum int64
	seen := map[uint64]bool{}
	mounts, _ := removal.Mounts(dir) // not the container's own, and they may not answer
	filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if slices.Contains(mounts, at) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Nlink > 1 && !d.IsDir() && seen[st.Ino] {
			return nil
		}
		seen[st.Ino] = true
		sum += st.Blocks * 512
		return nil
	})
	return sum
}
