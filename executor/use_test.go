package executor

import (
	"os"
	"testing"
	"time"

	"cantina/resource"
)

// TestProcessUse measures this process, which has used memory and time.
func TestProcessUse(t *testing.T) {
	for first, _, _ := processUse(os.Getpid()); ; {
		now, memory, ok := processUse(os.Getpid())
		if !ok || memory < 1<<20 {
			t.Fatalf("memory %d, %v", memory, ok)
		}
		if now > first {
			break
		}
	}
	if _, _, ok := processUse(1 << 30); ok {
		t.Error("a process that cannot exist was measured")
	}
	m := MachineUse()
	if m.Busy <= 0 || m.Processors < 1 || m.MemoryAvailable <= 0 || m.MemoryTotal < m.MemoryAvailable {
		t.Errorf("%+v", m)
	}
}

// TestUses: a container is measured by its control groups, and without them by its processes.
func TestUses(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]CgroupMode{"groups": CgroupAuto, "none": CgroupNone} {
		for limited, need := range map[bool]resource.Amounts{false: nil, true: {resource.MemoryMB: 64}} {
			e := testExecutor(t, func(c *Config) { c.Cgroups = mode })
			if err := e.Launch(Reservation{ID: "sleeps"}, sh("echo done; exec sleep 1000")); err != nil {
				t.Fatal(err)
			}
			awaitLine(t, e, "sleeps", "done")
			if err := e.Launch(Reservation{ID: "works", Labels: Labels{"service": "web"}, Resources: need},
				sh("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; exec sleep 1000")); err != nil {
				t.Fatal(err)
			}
			awaitLine(t, e, "works", "done")
			uses, at := e.Uses()
			if len(uses) != 2 || at <= 0 {
				t.Fatalf("%s: %+v at %s", name, uses, at)
			}
			for _, u := range uses {
				works := u.ID == "works"
				if !u.CPUKnown || !u.MemoryKnown || u.Processes != 1 || works && u.CPU < 20*time.Millisecond ||
					!works && u.CPU > 100*time.Millisecond || works != (u.Labels["service"] == "web") {
					t.Errorf("%s, limited %v: %+v", name, limited, u)
				}
			}
			for _, u := range uses {
				e.Delete(u.ID)
				await(t, e, u.ID, gone)
			}
			if left, _ := e.Uses(); len(left) > 0 {
				t.Errorf("%s: %+v after the end", name, left)
			}
		}
	}
}
