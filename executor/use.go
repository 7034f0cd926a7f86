package executor

import (
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Use is the use of processors and memory by one container, since its start and now.
type Use struct {
	ID          string
	Labels      Labels
	Processes   int
	CPU         time.Duration // since its start
	Memory      int64         // bytes now
	CPUKnown    bool
	MemoryKnown bool
}

// Uses measures all containers that have processes. Where no control group counts, the live processes are summed: their
// memory that is shared counts several times, and the time of those that have ended is missing. at is the boot time.
func (e *Executor) Uses() (all []Use, at time.Duration) {
	e.mu.Lock()
	var live []*container
	for _, c := range e.containers {
		if c.state == Created || c.state == Running {
			live = append(live, c)
			all = append(all, Use{ID: c.id, Labels: c.labels})
		}
	}
	e.mu.Unlock()
	at = e.cfg.Clock.Boot()
	for i, c := range live {
		c.programs.measure(&all[i])
	}
	return all, at
}

func (ps *programs) measure(u *Use) {
	var pids []int
	ps.with(func(t tracker) {
		pids, _ = t.Procs()
		counted := t.Usage()
		u.CPU, u.CPUKnown = counted.User+counted.System, counted.Counted
		u.Memory, u.MemoryKnown = t.Memory()
	})
	u.Processes = len(pids)
	if u.CPUKnown && u.MemoryKnown {
		return
	}
	var cpu time.Duration
	var memory int64
	found := false
	for _, pid := range pids {
		c, m, ok := processUse(pid)
		cpu, memory, found = cpu+c, memory+m, found || ok
	}
	if !u.CPUKnown {
		u.CPU, u.CPUKnown = cpu, found
	}
	if !u.MemoryKnown {
		u.Memory, u.MemoryKnown = memory, found
	}
}

// tick is the unit of processor time in /proc: USER_HZ is 100 on every architecture of Linux that Go runs on.
const tick = time.Second / 100

// processUse reads the processor time and the resident memory of a process.
func processUse(pid int) (cpu time.Duration, memory int64, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, 0, false
	}
	// The name of the program is in parentheses and may have blanks: fields are counted behind it.
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(f) < 22 {
		return 0, 0, false
	}
	number := func(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n }
	return time.Duration(number(f[11])+number(f[12])) * tick, number(f[21]) * int64(os.Getpagesize()), true
}

// Machine is the use of the whole machine; zero = unknown.
type Machine struct {
	Busy                         time.Duration // of all processors, since boot
	Processors                   int
	MemoryTotal, MemoryAvailable int64
}

// MachineUse measures the machine.
func MachineUse() Machine {
	m := Machine{Processors: runtime.NumCPU()}
	if stat, err := os.ReadFile("/proc/stat"); err == nil {
		line, _, _ := strings.Cut(string(stat), "\n")
		// cpu user nice system idle iowait irq softirq steal
		for i, s := range strings.Fields(line) {
			if n, err := strconv.ParseInt(s, 10, 64); err == nil && i != 4 && i != 5 && i <= 8 {
				m.Busy += time.Duration(n) * tick
			}
		}
	}
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			f := strings.Fields(line)
			if len(f) < 2 {
				continue
			}
			n, _ := strconv.ParseInt(f[1], 10, 64)
			switch f[0] {
			case "MemTotal:":
				m.MemoryTotal = n << 10
			case "MemAvailable:":
				m.MemoryAvailable = n << 10
			}
		}
	}
	return m
}
