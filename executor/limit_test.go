package executor

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cantina/action"
	"cantina/logstore"
	"cantina/resource"
)

// needLimit skips a test if nothing enforces the limit here.
func needLimit(t testing.TB, e *Executor, name string) {
	t.Helper()
	needGroups(t, e)
	offers, through := e.backend.tree().Offers()
	if !slices.Contains(offers, name) {
		t.Skipf("skipped: no limit on %s here", name)
	}
	t.Logf("%s is limited through %s; the other version was not tested", name, through)
}

// hog takes memory until it is killed: the input is one line without an end.
const hog = "exec tail /dev/zero"

func TestOutOfMemoryIsReported(t *testing.T) {
	t.Parallel()
	e := testExecutor(t, nil)
	needLimit(t, e, "memory")
	s := sh(hog)
	s.Workload.Resources = resource.Amounts{resource.MemoryMB: 32}
	for i := range 3 { // the counters of a pooled slot restart at zero
		c := launch(t, e, fmt.Sprint("oom", i), s)
		r := c.Result
		if r.OOM == nil || r.OOM.Limit != 32<<20 || r.OOM.Peak < 20<<20 || r.OOM.Kills != 1 || r.Signal != 9 ||
			!strings.Contains(r.Reason, "out of memory") {
			t.Errorf("result = %+v %+v", r, r.OOM)
		}
		k := sh("kill -9 $$")
		k.Workload.Resources = s.Workload.Resources
		if c := launch(t, e, fmt.Sprint("kill", i), k); c.Result.OOM != nil || c.Result.Signal != 9 {
			t.Errorf("killed by hand: %+v", c.Result)
		}
	}
}

// TestVerdictIsNotOfThePredecessor, for any limits that follow one another in one slot.
func TestVerdictIsNotOfThePredecessor(t *testing.T) {
	t.Parallel()
	e := testExecutor(t, nil)
	needLimit(t, e, "memory")
	needLimit(t, e, "cpu")
	for i, next := range []func(*action.Workload){
		func(w *action.Workload) { w.Resources = resource.Amounts{resource.CPUMilli: 900} },
		func(w *action.Workload) { w.MaxPids = 50 },
		func(w *action.Workload) { w.Resources = resource.Amounts{resource.MemoryMB: 900} },
		func(*action.Workload) {},
	} {
		s := sh(hog)
		s.Workload.Resources = resource.Amounts{resource.MemoryMB: 32}
		if c := launch(t, e, fmt.Sprint("hog", i), s); c.Result.OOM == nil {
			t.Errorf("no lack of memory: %+v", c.Result)
		}
		s = sh("exit 3")
		next(&s.Workload)
		c := launch(t, e, fmt.Sprint("next", i), s)
		if r := c.Result; r.OOM != nil || c.OOMKills != 0 || r.Reason != "exit status 3" || r.Usage.MemoryPeak > 20<<20 {
			t.Errorf("%d: %+v %+v", i, r, c.OOMKills)
		}
	}
}

func TestOutOfMemoryOfAChildIsReported(t *testing.T) {
	e := testExecutor(t, nil)
	needLimit(t, e, "memory")
	s := sh("(" + hog + "); echo child $?; sleep 1000")
	s.Workload.Resources = resource.Amounts{resource.MemoryMB: 32}
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "x", "child 137")
	if _, err := os.Stat("/dev/kmsg"); err == nil && os.Getuid() == 0 {
		awaitEvent(t, e, "x", "killed for lack of memory: tail (pid ")
	} else {
		awaitEvent(t, e, "x", "killed for lack of memory")
	}
	if c, _ := e.Get("x"); c.State != Running || c.OOMKills != 1 {
		t.Errorf("%v, %d kills", c.State, c.OOMKills)
	}
	e.Stop("x")
	if c := await(t, e, "x", completed); c.Result.OOM == nil || c.Result.OOM.Kills != 1 {
		t.Errorf("result %+v", c.Result)
	}
}

// awaitEvent follows the executor's own lines about a container.
func awaitEvent(t testing.TB, e *Executor, id, part string) {
	t.Helper()
	q := logstore.Query{IDs: []string{id}, Streams: []logstore.Stream{logstore.Event}}
	awaitOutput(t, e, q, func(l string) bool { return strings.Contains(l, part) })
}

func TestForkBombUnderAPidsLimit(t *testing.T) {
	e := testExecutor(t, nil)
	needLimit(t, e, "pids")
	s := sh("bomb() { bomb | bomb & }; (bomb) & sh -c 'while :; do sleep 1000 & done' & exec sleep 1000")
	s.Workload.MaxPids = 50
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	c := await(t, e, "x", runningState)
	for end := time.Now().Add(2 * time.Second); c.State == Running && time.Now().Before(end); {
		// at its limit, or burnt out
		if pids, _ := driven(e, "x").programs.pids(); len(pids) > 50 {
			t.Fatalf("%d processes", len(pids))
		} else if len(pids) > 20 {
			break
		}
		c, _ = e.Get("x")
	}
	began := time.Now()
	if err := e.Delete("x"); err != nil {
		t.Fatal(err)
	}
	await(t, e, "x", gone)
	t.Logf("gone after %v", time.Since(began))
}

func TestProcessorQuota(t *testing.T) {
	t.Parallel()
	e := testExecutor(t, nil)
	needLimit(t, e, "cpu")
	s := sh("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
	s.Workload.Resources = resource.Amounts{resource.CPUMilli: 100}
	c := launch(t, e, "x", s)
	used := c.Result.Usage.User + c.Result.Usage.System
	wall := c.Result.Ended.Sub(c.Result.Started)
	if used == 0 || float64(used)/float64(wall) > 0.3 {
		t.Errorf("used %v in %v with a tenth of a processor", used, wall)
	}
}

// TestDiskLimit: usage over the limit is found during the run and at the end of a step. It counts files, deleted
// files that are still open, and a private /tmp.
func TestDiskLimit(t *testing.T) {
	const big = "dd if=/dev/zero of=%s bs=1M count=4 2>/dev/null; "
	scripts := map[string]string{
		"runs":            fmt.Sprintf(big, "big") + "sleep 1000",
		"ends at once":    fmt.Sprintf(big, "big"),
		"fails at once":   fmt.Sprintf(big, "big") + "exit 3",
		"deleted, open":   "exec 5>big; rm big; dd if=/dev/zero bs=1M count=4 >&5 2>/dev/null; sleep 1000",
		"setup":           "true",
		"first of two":    "true",
		"own /tmp":        fmt.Sprintf(big, "/tmp/big") + "sleep 1000",
		"within the rule": "dd if=/dev/zero of=big bs=1k count=100 2>/dev/null",
	}
	for name, script := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := testExecutor(t, nil)
			s := sh(script)
			s.Workload.Resources = resource.Amounts{resource.DiskMB: 1}
			fill := do(fmt.Sprintf(big, "big"))
			switch name {
			case "setup":
				s.Workload.Setup = &fill
			case "first of two":
				s.Workload.Action = action.Action{Serial: []action.Action{fill, do("touch ran; rm -f big")}}
			case "own /tmp":
				needRoot(t)
				needGroups(t, e)
				s.Workload.Isolation = action.IsolationNamespaces
			}
			c := launch(t, e, "x", s)
			if over := c.Result.Failed && strings.Contains(c.Result.Reason,
				"disk limit exceeded"); over != (name != "within the rule") {
				t.Errorf("%+v", c.Result)
			}
			if _, err := os.Stat(filepath.Join(c.Dir, "ran")); err == nil {
				t.Error("the next step ran")
			}
		})
	}
}

// freePorts returns the first of n consecutive free ports, none of which the kernel gives out.
func freePorts(t testing.TB, n int) int {
	t.Helper()
	low, _ := ephemeral()
search:
	for range 100 {
		first := 1024 + rand.IntN(max(1, low-1024-n))
		for p := first; p < first+n; p++ {
			if !usable(p) {
				continue search
			}
		}
		return first
	}
	t.Skip("skipped: no ", n, " free ports in a row")
	return 0
}

func TestPortsAreNotGivenTwice(t *testing.T) {
	first := freePorts(t, 6)
	last, taken := first+5, first+1
	e := testExecutor(t, func(c *Config) { c.FirstPort, c.LastPort = first, last })
	held, err := net.Listen("tcp", fmt.Sprint(":", taken))
	if err != nil {
		t.Skip("skipped: somebody has just taken a port: ", err)
	}
	defer held.Close()
	s := sh("sleep 1000")
	s.Workload.Ports = []action.Port{{Name: "a"}, {Name: "b"}}
	seen := map[int]bool{}
	for i := range 2 {
		id := fmt.Sprint("c", i)
		if err := e.Launch(Reservation{ID: id}, s); err != nil {
			t.Fatal(err)
		}
		c := await(t, e, id, runningState)
		if len(c.Ports) != 2 {
			t.Fatalf("%+v", c)
		}
		for _, p := range c.Ports {
			if seen[p.Port] || p.Port == taken || p.Port < first || p.Port > last {
				t.Errorf("port %d", p.Port)
			}
			seen[p.Port] = true
		}
	}
	if c := launch(t, e, "full", s); !c.Result.Failed || !strings.Contains(c.Result.Reason, "no free port") ||
		!c.Result.Retryable {
		t.Errorf("%+v", c.Result)
	}
	// A completed container still holds its ports; a deleted one does not.
	e.Stop("c0")
	await(t, e, "c0", completed)
	if c := launch(t, e, "still", s); !c.Result.Failed {
		t.Errorf("%+v", c.Result)
	}
	e.Delete("c0")
	await(t, e, "c0", gone)
	if err := e.Launch(Reservation{ID: "next"}, s); err != nil {
		t.Fatal(err)
	}
	if c := await(t, e, "next", runningState); c.State != Running {
		t.Errorf("%+v", c.Result)
	}
}

func TestEphemeralPortsAreNeverGiven(t *testing.T) {
	var p ports
	p.open(100, 300)
	p.low, p.high = 101, 299
	for _, want := range []int{100, 300} {
		got, err := p.take(action.Port{})
		if err != nil && got == 0 {
			t.Skip("skipped: low ports need root: ", err)
		}
		if got != want {
			t.Errorf("got %s, want %d", strconv.Itoa(got), want)
		}
	}
}
