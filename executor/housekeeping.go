package executor

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"cantina/executor/cgroup"
	"cantina/resource"
)

// How often the executor looks at what sends no event.
const (
	lookPeriod = time.Second      // reservations, kills for lack of memory
	diskPeriod = 10 * time.Second // what a container has on disk
)

// housekeep expires reservations, tells of children killed for lack of memory,
// and watches disks.
func (e *Executor) housekeep(ctx context.Context) error {
	look := time.NewTicker(lookPeriod)
	defer look.Stop()
	var disk time.Duration
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		e.expire()
		e.watchMemory()
		if now := e.clock.Boot(); now-disk >= diskPeriod {
			disk = now
			e.watchDisks()
		}
	}
}

// expire gives up reservations whose start never came.
func (e *Executor) expire() {
	now := e.clock.Boot()
	var late []*container
	e.mu.Lock()
	for _, c := range e.containers {
		if c.state == Reserved && c.ask == askNothing && now >= c.expires {
			c.ask, c.reason = askKill, "the reservation expired"
			close(c.stopC)
			late = append(late, c)
		}
	}
	e.mu.Unlock()
	for _, c := range late {
		c.complete(c.neverRan())
	}
}

// live returns the containers that run and for which want holds.
func (e *Executor) live(want func(*container) bool) []*container {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []*container
	for _, c := range e.containers {
		if c.state == Running && want(c) {
			out = append(out, c)
		}
	}
	return out
}

// watchMemory tells of a process that was killed for lack of memory while its
// container lives on.
func (e *Executor) watchMemory() {
	limited := func(c *container) bool { return c.spec.Workload.Resources[resource.MemoryMB] > 0 }
	for _, c := range e.live(limited) {
		kills := c.oomKillsNow()
		e.mu.Lock()
		more := kills - c.oomKills
		if more > 0 && c.state == Running {
			c.oomKills = kills
		}
		e.mu.Unlock()
		if more > 0 {
			u := c.usageNow()
			c.note("%d processes were killed for lack of memory%s (limit %d bytes, peak %d bytes)", more, c.victims(), u.MemoryLimit, u.MemoryPeak)
		}
	}
}

// oomKillsNow reads that counter alone while the container has a group.
func (c *container) oomKillsNow() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.group == nil {
		return 0
	}
	return int(c.group.OOMKills())
}

// usageNow reads the counters while the container has a group.
func (c *container) usageNow() cgroup.Usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.group == nil {
		return cgroup.Usage{}
	}
	return c.group.Usage()
}

// victims names who was killed, where the kernel's log may be read.
func (c *container) victims() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.group == nil {
		return ""
	}
	names := c.group.Victims()
	if len(names) == 0 {
		return ""
	}
	return ": " + strings.Join(names, ", ")
}

// watchDisks ends containers that have more on disk than they may.
func (e *Executor) watchDisks() {
	for _, c := range e.live(func(c *container) bool { return c.spec.Workload.Resources[resource.DiskMB] > 0 }) {
		limit := int64(c.spec.Workload.Resources[resource.DiskMB]) << 20
		if used := diskUsage(c.folder); used > limit {
			c.note("%d bytes on disk, %d allowed", used, limit)
			e.Kill(c.id, fmt.Sprintf("disk limit exceeded: %d bytes used, %d allowed", used, limit))
		}
	}
}

// diskUsage adds up the blocks below a folder, each file once.
func diskUsage(dir string) int64 {
	var sum int64
	seen := map[uint64]bool{}
	mounts := mountsBelow(dir) // not the container's own, and they may not answer
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

// removeFolder removes the container's folder, or returns it when it may be given
// out again. What it holds may belong to anyone.
func (c *container) removeFolder() *folder {
	if c.folder == "" {
		return nil
	}
	if c.pooled.untouched() {
		return c.pooled
	}
	if err := removeAll(c.folder); err != nil {
		c.e.log.Warn("folder is not removed", "container", c.id, "error", err)
	}
	if c.pooled == nil {
		return nil
	}
	return c.e.folders.replacement()
}
