package cgroup

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cpuPeriod is the period of the processor quota in microseconds.
const cpuPeriod = 100000

// maxPool bounds how many limit slots of v1 wait for their next container.
const maxPool = 256

// Usage is the usage of a container, as far as its controllers report it.
type Usage struct {
	MemoryPeak  int64 // bytes; 0 = unknown
	MemoryLimit int64 // bytes; 0 = none
	OOMKills    int64 // processes killed for lack of memory
	// User and System are the processor time of all processes; Counted: it is known.
	User, System time.Duration
	Counted      bool
}

// slot is one set of v1 limit groups, used by one container after the other.
type slot struct {
	dirs    map[string]string // controller → directory
	limits  Limits
	quota   bool     // the processor quota of limits is in force
	joined  []string // controllers that limit the present container: it is in their groups alone
	charged bool     // memory was charged to it before
	killed  int64    // oom_kill when the present container began
	adopted bool     // of a predecessor: never pooled
}

// SlotDirs are the v1 directories that limit the container, by controller.
func (g *Group) SlotDirs() map[string]string {
	if g.slot == nil {
		return nil
	}
	return g.slot.dirs
}

// LimitsV2 reports whether limits are those of the tracker's groups.
func (t *Tree) LimitsV2() bool { return t.v2ctl }

func (g *Group) limit(l Limits) error {
	if g.tree.v2ctl {
		g.v2l, g.cpuMilli = true, l.CPUMilli
		return limitV2(g.dir, l)
	}
	s, err := g.tree.acquire()
	if err != nil {
		return err
	}
	if err := s.set(l); err != nil {
		s.remove()
		return err
	}
	g.slot = s
	return nil
}

func limitV2(dir string, l Limits) error {
	var errs []error
	set := func(file, value string) { errs = append(errs, write(filepath.Join(dir, file), value)) }
	if l.MemoryBytes > 0 {
		set("memory.max", strconv.FormatInt(l.MemoryBytes, 10))
		if exists(filepath.Join(dir, "memory.swap.max")) {
			set("memory.swap.max", "0")
		}
	}
	if l.Pids > 0 {
		set("pids.max", strconv.Itoa(l.Pids))
	}
	return errors.Join(errs...)
}

// Throttle puts the processor quota into force, once. It is called when the first
// process has got to its program: the thread that forks it waits for that, and would
// wait for the quota too, which with 1 ms in 100 is less than an exec takes.
func (g *Group) Throttle() error {
	var err error
	g.throttle.Do(func() {
		switch s := g.slot; {
		case g.part: // the whole was throttled before
		case g.v2l && g.cpuMilli > 0:
			err = write(filepath.Join(g.dir, "cpu.max"), fmt.Sprintf("%d %d", quota(g.cpuMilli), cpuPeriod))
		case s != nil && s.dirs["cpu"] != "" && s.limits.CPUMilli > 0:
			err = write(filepath.Join(s.dirs["cpu"], "cpu.cfs_quota_us"), strconv.Itoa(quota(s.limits.CPUMilli)))
			s.quota = err == nil
		}
	})
	return err
}

// quota is the processor time per period; the kernel's least is 1 ms.
func quota(milli int) int { return max(milli*cpuPeriod/1000, 1000) }

// acquire returns a slot of the pool, or a new one. Slots that another program has removed are
// dropped. ErrNoGroup if none can be made.
func (t *Tree) acquire() (*slot, error) {
	t.mu.Lock()
	for n := len(t.pool); n > 0; n = len(t.pool) {
		s := t.pool[n-1]
		t.pool = t.pool[:n-1]
		if !s.whole() {
			s.remove()
			continue
		}
		t.mu.Unlock()
		return s, nil
	}
	t.slots++
	name := "slot-" + t.generation + "-" + strconv.Itoa(t.slots)
	t.mu.Unlock()
	s := &slot{dirs: map[string]string{}}
	for c, root := range t.v1 {
		dir := filepath.Join(root, name)
		err := makeDir(dir)
		if errors.Is(err, unix.ENOENT) {
			err = errors.Join(makeDir(filepath.Dir(root)), makeDir(root), makeDir(dir))
		}
		if err != nil {
			s.remove()
			return nil, fmt.Errorf("%w: %w", ErrNoGroup, err)
		}
		s.dirs[c] = dir
	}
	return s, nil
}

func (t *Tree) release(s *slot) {
	t.mu.Lock()
	full := t.base == nil || len(t.pool) >= maxPool || s.adopted
	if !full {
		t.pool = append(t.pool, s)
	}
	t.mu.Unlock()
	if full {
		s.remove()
	}
}

// whole reports whether all directories of a slot are there.
func (s *slot) whole() bool {
	for _, d := range s.dirs {
		if !exists(d) {
			return false
		}
	}
	return true
}

func (s *slot) remove() {
	for _, d := range s.dirs {
		unix.Rmdir(d)
	}
}

func (s *slot) joinThread() error {
	for _, c := range s.joined {
		if err := write(filepath.Join(s.dirs[c], "tasks"), "0"); err != nil {
			return err
		}
	}
	return nil
}

// set brings the slot to the limits of its next container and forgets the peak
// and the kills of the last one.
func (s *slot) set(l Limits) error {
	var errs []error
	if d := s.dirs["memory"]; d != "" {
		errs = append(errs, s.setMemory(d, l.MemoryBytes))
	}
	if d := s.dirs["pids"]; d != "" && l.Pids != s.limits.Pids {
		errs = append(errs, write(filepath.Join(d, "pids.max"), orMax(l.Pids)))
	}
	if s.quota {
		errs = append(errs, write(filepath.Join(s.dirs["cpu"], "cpu.cfs_quota_us"), "-1"))
		s.quota = false
	}
	s.limits, s.joined = l, joined(s.dirs, l)
	return errors.Join(errs...)
}

// joined are the controllers with a directory that limit something.
func joined(dirs map[string]string, l Limits) []string {
	out := make([]string, 0, len(limitControllers))
	for i, limited := range [...]bool{l.MemoryBytes > 0, l.Pids > 0, l.CPUMilli > 0} {
		if c := limitControllers[i]; limited && dirs[c] != "" {
			out = append(out, c)
		}
	}
	return out
}

func orMax(n int) string {
	if n <= 0 {
		return "max"
	}
	return strconv.Itoa(max(n, 2)) // the thread that forks the first process counts too
}

func (s *slot) setMemory(dir string, limit int64) error {
	if limit == 0 { // the container is not put there
		if s.limits.MemoryBytes == 0 {
			return nil
		}
		return setMemoryLimit(dir, 0, s.limits.MemoryBytes)
	}
	if s.charged { // the usage of an earlier one does not count for the next
		if used, _ := readInt(filepath.Join(dir, "memory.usage_in_bytes")); used > 1<<20 {
			write(filepath.Join(dir, "memory.force_empty"), "0")
		}
	}
	s.killed, _ = readField(filepath.Join(dir, "memory.oom_control"), "oom_kill")
	if limit != s.limits.MemoryBytes {
		if err := setMemoryLimit(dir, limit, s.limits.MemoryBytes); err != nil {
			return err
		}
	}
	write(filepath.Join(dir, "memory.max_usage_in_bytes"), "0")
	s.charged = true
	return nil
}

// setMemoryLimit sets memory and memory+swap alike; the kernel wants the second
// never below the first.
func setMemoryLimit(dir string, limit, old int64) error {
	value := strconv.FormatInt(limit, 10)
	if limit == 0 {
		value = "-1"
	}
	files := []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}
	if !exists(filepath.Join(dir, files[1])) {
		files = files[:1]
	} else if limit == 0 || old != 0 && limit > old {
		files[0], files[1] = files[1], files[0]
	}
	for _, f := range files {
		if err := write(filepath.Join(dir, f), value); err != nil {
			return err
		}
	}
	return nil
}

// OOMKills is how many processes of the container were killed for lack of memory.
func (g *Group) OOMKills() int64 {
	var n int64
	switch {
	case g.slot != nil && g.slot.limits.MemoryBytes > 0 && g.slot.dirs["memory"] != "":
		n, _ = readField(filepath.Join(g.slot.dirs["memory"], "memory.oom_control"), "oom_kill")
		n -= g.slot.killed
	case g.v2l:
		n, _ = readField(filepath.Join(g.dir, "memory.events"), "oom_kill")
	}
	return max(n, 0)
}

// Memory returns the memory that the container uses now, without file pages that can be dropped. known is false if no
// controller counts it.
func (g *Group) Memory() (bytes int64, known bool) {
	dir, now, cache := g.dir, "memory.current", "inactive_file"
	if g.slot != nil {
		dir, now, cache = g.slot.dirs["memory"], "memory.usage_in_bytes", "total_inactive_file"
		if dir == "" || g.slot.limits.MemoryBytes <= 0 {
			return 0, false
		}
	}
	all, err := readInt(filepath.Join(dir, now))
	if err != nil {
		return 0, false
	}
	file, _ := readField(filepath.Join(dir, "memory.stat"), cache)
	return max(all-file, 0), true
}

// Usage returns the container's usage. Memory is counted if it is limited.
func (g *Group) Usage() Usage {
	u := Usage{OOMKills: g.OOMKills()}
	stat := filepath.Join(g.dir, "cpu.stat")
	user, err1 := readField(stat, "user_usec")
	system, err2 := readField(stat, "system_usec")
	u.Counted = err1 == nil && err2 == nil
	u.User, u.System = time.Duration(user)*time.Microsecond, time.Duration(system)*time.Microsecond
	switch {
	case g.slot != nil && g.slot.limits.MemoryBytes > 0 && g.slot.dirs["memory"] != "":
		d := g.slot.dirs["memory"]
		u.MemoryLimit = g.slot.limits.MemoryBytes
		u.MemoryPeak, _ = readInt(filepath.Join(d, "memory.max_usage_in_bytes"))
	case g.v2l:
		u.MemoryPeak, _ = readInt(filepath.Join(g.dir, "memory.peak"))
		u.MemoryLimit, _ = readInt(filepath.Join(g.dir, "memory.max"))
		if u.MemoryLimit == 1<<63-1 {
			u.MemoryLimit = 0
		}
	}
	return u
}
