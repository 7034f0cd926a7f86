package robust

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

// TestCrashesWaitByTheClock: a service that ends at once is restarted by its policy, at growing intervals, until it
// is given up. Later reads report that, and an operator's retry starts it anew.
func TestCrashesWaitByTheClock(t *testing.T) {
	w := newWitness(t)
	d := startDev(t, tempDir(t)).wait()
	apply(t, d.Addr, fmt.Sprintf(`
domain: d
services:
  ends:
    command: [sh, -c, 'date +%%s%%N >>%s/starts; exit 4']
    restart: {immediate: 2, base: 1s, max: 2s, give_up: 5}
`, w.dir))
	// Crashes 1 and 2 restart at once, 3, 4 and 5 wait 1, 2 and 2 s, 6 is the last.
	if !w.until(patience, func() bool { return len(w.lines("starts")) >= 6 }) {
		t.Fatalf("it started %d times", len(w.lines("starts")))
	}
	var at []time.Duration
	for _, line := range w.lines("starts") {
		n, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, time.Duration(n))
	}
	for i, least := range []time.Duration{0, 0, time.Second, 2 * time.Second, 2 * time.Second} {
		// How much later than that it comes is the machine's affair; a minute is not.
		if got := at[i+1] - at[i]; got < least || got > least+time.Minute {
			t.Errorf("start %d came %v after the one before, want %v", i+2, got, least)
		}
	}
	shows(t, d.Addr, []string{"crashed 6 times; no more restarts, last: exit status 4"}, "explain", "ends/0")
	if w.until(3*time.Second, func() bool { return len(w.lines("starts")) > 6 }) {
		t.Errorf("it was started again after it was given up")
	}
	must(t, d.Addr, "restart", "ends/0")
	if !w.until(patience, func() bool { return len(w.lines("starts")) > 6 }) {
		t.Error("a person's word did not start it")
	}
}

// TestFixedPortsAreWaitedFor: a service waits without a crash for a fixed port of another that ends slowly, or of
// another program of the machine. A port that can never fit is refused.
func TestFixedPortsAreWaitedFor(t *testing.T) {
	d := startDev(t, t.TempDir()).wait()
	client := d.client()
	spec := func(name string, port, more string) string {
		return "domain: d\nservices:\n  " + name +
			": {command: [sh, -c, 'trap \"sleep 1; exit 0\" TERM; sleep 1000 & wait'], ports: [{name: http, fixed: " + port +
			"}]" + more + "}\n"
	}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	apply(t, d.Addr, spec("old", port, ""))
	shows(t, d.Addr, []string{"port " + port + " is in use"}, "explain", "old")
	l.Close()
	must(t, d.Addr, "wait", "old", "--timeout", "100s")
	must(t, d.Addr, "apply", "--prune", "-l", "!keep", "--yes", write(t, "renamed.yaml", spec("new", port, "")))
	if got := cli(t, d.Addr, "explain", "new"); !strings.Contains(got.out, "port "+port+
		" needed, largest free 0 (d/old/0 has it)") {
		t.Errorf("while the old one ends: %+v", got)
	}
	must(t, d.Addr, "wait", "new", "--timeout", "100s")
	crashes := 0
	list, err := api.Call(t.Context(), client, calls.ListInstances, &pb.ListInstancesRequest{Domain: "d"})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list.Instances {
		crashes += int(x.CrashCount)
	}
	if events := must(t, d.Addr, "events", "--since", "1"); crashes != 0 || strings.Contains(events, "crash ") {
		t.Errorf("%d crashes:\n%s", crashes, events)
	}
	for _, args := range [][]string{
		{"plan", write(t, "twice.yaml", spec("new", port, ", instances: 2"))},
		{"plan", write(t, "other.yaml", spec("other", port, ""))},
		{"apply", write(t, "other.yaml", spec("other", port, ""))},
		{"service", "scale", "new", "2"},
	} {
		if got := cli(t, d.Addr, args...); got.code != 2 ||
			!strings.Contains(got.err, "port "+port+" is fixed for 2 instances") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// TestKilledCellMoves kills the cell of a service: it runs on the other one.
func TestKilledCellMoves(t *testing.T) {
	c := startCluster(t, hasty, 1, 2)
	apply(t, c.addr(), "domain: d\nservices: {web: {command: [sleep, '1000'], instances: 4, stop_grace: 1s}}\n")
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	if on := strings.Join(c.onCells("web"), " "); !strings.Contains(on, "c1") || !strings.Contains(on, "c2") {
		t.Fatalf("web is %s: it is not spread", on)
	}
	c.cells["c1"].kill()
	begin := time.Now()
	c.session("c1", "MUST_DIE")
	must(t, c.addr(), "wait", "web", "--timeout", "100s")
	t.Logf("whole again %v after the kill", time.Since(begin).Round(time.Millisecond))
	for _, on := range c.onCells("web") {
		if on != "RUNNING on c2" {
			t.Errorf("web is %s", on)
		}
	}
	t.Logf("nothing of it runs on after %v", gone(t, c.cellDir("c1"), patience).Round(time.Millisecond))
	c.startCell("c1").wait() // it removes the leftovers of its predecessor
	c.session("c1", "HEALTHY")
}

// TestScalingLeavesNothing scales a service from 1 to 50 and to 0, and removes it
// while it runs again: no process, no row and no control group is left.
func TestScalingLeavesNothing(t *testing.T) {
	w, data := newWitness(t), tempDir(t)
	d := startDev(t, data).wait()
	apply(t, d.Addr,
		fmt.Sprintf("domain: d\nservices: {web: {command: [sh, -c, 'echo $$ >>%s/pids; exec sleep 1000'], stop_grace: 1s}}\n",
			w.dir))
	must(t, d.Addr, "wait", "web", "--timeout", "100s")
	w.begunPids("pids", 1)
	for _, n := range []string{"50", "0", "20"} {
		must(t, d.Addr, "service", "scale", "web", n)
		if n != "0" {
			must(t, d.Addr, "wait", "web", "--timeout", "100s")
			w.begunPids("pids", map[string]int{"50": 50, "20": 70}[n])
			if got := strings.Count(must(t, d.Addr, "ps", "web", "-q"), "\n"); strconv.Itoa(got) != n {
				t.Errorf("%d instances, want %s", got, n)
			}
			continue
		}
		must(t, d.Addr, "wait", "web", "--for", "stopped", "--timeout", "100s")
		none(t, d, w)
	}
	must(t, d.Addr, "rm", "web", "--yes")
	must(t, d.Addr, "wait", "web", "--for", "stopped", "--timeout", "100s")
	none(t, d, w)
	if n := len(w.pids("pids")); n != 70 {
		t.Errorf("%d processes were started, want 70", n)
	}
	if r := cli(t, d.Addr, "explain", "web"); r.code != api.ExitNotFound {
		t.Errorf("removed: %d %s", r.code, r.out)
	}
	d.stop()
	clean(t, filepath.Join(data, "cell"))
}

// none demands that nothing of a service is left.
func none(t *testing.T, d *process, w *witness) {
	t.Helper()
	if got := must(t, d.Addr, "ps", "--all", "-o", "json"); strings.TrimSpace(got) != "[]" {
		t.Errorf("rows are left: %s", got)
	}
	for _, pid := range w.pids("pids") {
		if !ended(pid, 0) {
			t.Errorf("process %d is left", pid)
		}
	}
}
