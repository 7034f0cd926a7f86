package executor

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"cantina/action"
	"cantina/executor/shim"
)

// An idle container costs the machine little beside its own process.
func TestIdleContainersAreCheap(t *testing.T) {
	n, kept := 500, 50
	if soak() {
		n, kept = 5000, 1000
	}
	// Thousands that are killed at once take their time on a machine that does much else.
	e := testExecutor(t, func(c *Config) { c.StuckAfter = 30 * time.Second })
	needGroups(t, e)
	s := Spec{Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "sleep", Args: []string{"10000"}}}}}
	s.Workload.Termination.Mode = action.KillNow
	fill := func(prefix string, n int, s Spec) {
		for i := range n {
			if err := e.Launch(Reservation{ID: fmt.Sprint(prefix, i)}, s); err != nil {
				t.Fatal(err)
			}
		}
		for i := range n {
			await(t, e, fmt.Sprint(prefix, i), runningState)
		}
	}
	fill("warm", 50, s)
	h0, m0 := count(t, e), memory(t, os.Getpid(), "Rss")
	fill("idle", n, s)
	h1, m1 := count(t, e), memory(t, os.Getpid(), "Rss")
	fds := float64(h1.descriptors-h0.descriptors) / float64(n)
	kb := float64(m1-m0) / float64(n)
	t.Logf("an idle container costs %.2f descriptors and %.1f kB of the cell", fds, kb)
	// Threads that take the place of slow ones have a few of the cell's descriptors.
	if math.Round(fds) > 3 || kb > 100 {
		t.Error("that is too much")
	}
	fill("keep", kept, keep(s))
	sum := 0
	for i := range kept {
		var k keptRecord
		if err := shim.Get(e.keepDir(fmt.Sprint("keep", i)), keptRecordFile, &k); err != nil {
			t.Fatal(err)
		}
		sum += memory(t, k.Shim.Pid, "Pss")
	}
	t.Logf("a shim has %d kB (Pss, of %d)", sum/kept, kept)
	if sum/kept > 3000 {
		t.Error("that is too much")
	}
	for i := range kept {
		e.Delete(fmt.Sprint("keep", i))
	}
	for i := range kept {
		await(t, e, fmt.Sprint("keep", i), gone)
	}
}

// memory reads a line of smaps_rollup in kB.
func memory(t *testing.T, pid int, name string) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name+":" {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s in %s", name, b)
	return 0
}
