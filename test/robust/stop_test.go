package robust

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

// TestStoppedCell stops a cell's process alone past its loss time. Its reaper ends its batch task and its exclusive
// service before they start elsewhere; its other service runs on. When the cell goes on, it begins a new session
// and stops the instances that were replaced meanwhile.
func TestStoppedCell(t *testing.T) {
	c := startNetwork(t, hasty, 2, 1)
	l := holdOnFirst(t, c)
	l.lose(func() { c.cells["c1"].signal(syscall.SIGSTOP) }, func() { c.cells["c1"].signal(syscall.SIGCONT) })
}

// TestAdoptedOutlivesTheDeadlineOfItsPredecessor kills a cell whose job and exclusive service are kept. By the
// credit of the leader that has recorded them they live past the deadline of the dead process.
func TestAdoptedOutlivesTheDeadlineOfItsPredecessor(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, hasty, 1, 1)
	const count = "echo $$ >>%[1]s/%[2]s.pid; i=0; while [ $i -lt %[3]d ]; do i=$((i+1)); echo $i >>%[1]s/%[2]s; " +
		"sleep 0.25; done"
	apply(t, c.addr(),
		fmt.Sprintf("domain: keep\nservices:\n  one: {command: [sh, -c, %q], exclusive: true, on_cell_restart: keep}\n"+
			"jobs:\n  sum: {command: [sh, -c, %q], on_cell_restart: keep}\n",
			fmt.Sprintf(count, w.dir, "one", 100_000), fmt.Sprintf(count, w.dir, "sum", 80)))
	if !w.until(patience, func() bool { return len(w.lines("one")) > 3 && len(w.lines("sum")) > 3 }) {
		t.Fatal("the work does not start")
	}
	c.cells["c1"].kill()
	c.startCell("c1").wait()
	c.session("c1", "HEALTHY")
	// A deadline of the old process has passed after 8s + 2s + 2.5s + 1s: 54 lines.
	was := len(w.lines("one"))
	if !w.until(patience, func() bool { return len(w.lines("one")) > was+60 && len(w.lines("sum")) >= 80 }) {
		t.Fatalf("the work was ended: %d lines, then %d; job %d of 80", was, len(w.lines("one")), len(w.lines("sum")))
	}
	for _, name := range []string{"one.pid", "sum.pid"} {
		if pids := w.lines(name); len(pids) != 1 {
			t.Errorf("%s: started %d times", name, len(pids))
		}
	}
	must(t, c.addr(), "wait", "sum", "--timeout", "100s")
	c.stopKept("one")
}

// TestWaitForStoppedCell restarts the leader while one of three cells is stopped. Work that this cell may run is
// held until the cell is certainly dead. Status shows it, and new work is not held.
func TestWaitForStoppedCell(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, hasty, 1, 3)
	apply(t, c.addr(), holdSpec(w, "[h1, h2, h3]"))
	for _, id := range []string{"h1", "h2", "h3"} {
		w.waitBegun(id, 1)
	}
	on := c.nodeCells("hold")
	victim := on["h1"]
	c.cells[victim].signal(syscall.SIGSTOP)
	c.servers["s1"].kill()
	c.startServer("s1").wait()
	s := c.status()
	if !s.Waiting || !strings.Contains(strings.Join(s.WaitingFor, " "), victim) || s.Longest == nil {
		t.Errorf("status does not report the wait for %s: %v", victim, s)
	} else {
		t.Logf("waiting for %v, %v left", s.WaitingFor, s.Longest.AsDuration())
	}
	apply(t, c.addr(),
		fmt.Sprintf("domain: e\njobs:\n  new: {levels: [item], nodes: [{manual: [x, y]}], command: [%s, '{}', 'true']}\n",
			w.command()))
	begin := time.Now()
	must(t, c.addr(), "wait", "new", "--timeout", "100s")
	t.Logf("new work has ended %v after it was applied", time.Since(begin))
	if len(w.begun()["h1"]) != 1 {
		t.Errorf("work of the stopped cell was started elsewhere before new work ran")
	}
	w.waitBegun("h1", 2)
	t.Logf("held work began elsewhere %v later", time.Since(begin))
	w.check()
	c.cells[victim].signal(syscall.SIGCONT)
	c.session(victim, "HEALTHY")
	t.Logf("the cell is back %v later", time.Since(begin))
	w.release()
	must(t, c.addr(), "wait", "hold", "--timeout", "100s")
	for id, list := range w.begun() {
		want := 1
		if on[id] == victim || id == "excl" {
			want = 2
		}
		if len(list) > want {
			t.Errorf("%s began %d times: %v", id, len(list), list)
		}
	}
	w.check()
}

// holdSpec has batch tasks that run until release, an exclusive service, and one that a cell keeps while it is cut
// off.
func holdSpec(w *witness, nodes string) string {
	return fmt.Sprintf(`
domain: d
services:
  excl: {command: [%[1]s, excl, sleep, "1000"], exclusive: true, stop_grace: 1s}
  free: {command: [sh, -c, 'echo $$ >>%[2]s/free; exec sleep 1000'], stop_grace: 1s}
jobs:
  hold:
    levels: [item]
    nodes: [{manual: %[3]s}]
    backoff: [500ms, repeat]
    command: [%[1]s, "{}", sh, -c, "until [ -e %[2]s/go ]; do sleep 0.1; done"]
`, w.command(), w.dir, nodes)
}

// release lets the batch tasks of holdSpec end.
func (w *witness) release() {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "go"), nil, 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// begunPids waits until n processes have written their pids, and returns them: the program of a running service may
// not have begun yet.
func (w *witness) begunPids(name string, n int) []int {
	w.t.Helper()
	if !w.until(patience, func() bool { return len(w.lines(name)) >= n }) {
		w.t.Fatalf("%d processes wrote their pids to %s, want %d", len(w.lines(name)), name, n)
	}
	return w.pids(name)
}

func (w *witness) pids(name string) []int {
	w.t.Helper()
	var out []int
	for _, line := range w.lines(name) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, pid)
	}
	return out
}

// nodeCells returns where the batch tasks of a job run.
func (c *cluster) nodeCells(job string) map[string]string {
	c.t.Helper()
	l, err := api.Call(c.t.Context(), c.client(), calls.ListNodes,
		&pb.ListNodesRequest{Domain: "d", Job: job, Page: &pb.Page{Limit: api.MaxPage}})
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[string]string{}
	for _, n := range l.Nodes {
		out[n.Node] = n.Cell
	}
	return out
}
