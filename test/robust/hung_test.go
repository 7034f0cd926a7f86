package robust

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cantina/executor/executortest"
)

// hangingCluster is a server without cells, and a mount whose files hang in the kernel until it is released. That
// is done before the cells have to end.
func hangingCluster(t *testing.T, flags []string) (*cluster, *witness, *executortest.HungMount) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root to mount")
	}
	hung, err := executortest.Hang(tempDir(t))
	if err != nil {
		t.Skip("skipped: ", err)
	}
	w := newWitness(t)
	c := startCluster(t, flags, 1, 0)
	t.Cleanup(func() {
		if err := hung.Release(); err != nil {
			t.Error(err)
		}
	})
	return c, w, hung
}

// TestHungWorkIsStartedNowhereElse lets a batch task hang in the kernel and takes the leader away. The task must be
// dead and is not: its cell runs the command that reboots the machine, once, and stays. The next leader starts the
// task nowhere else while the cell reports that it may still run, and starts other work on another cell.
func TestHungWorkIsStartedNowhereElse(t *testing.T) {
	c, w, hung := hangingCluster(t, hasty)
	c.startCell("c1", "--stuck", "reboot", "--reboot-command", "echo now >>"+w.dir+"/rebooted").wait()
	c.session("c1", "HEALTHY")
	job := "domain: d\njobs:\n  %s: {levels: [item], nodes: [{manual: [x]}], command: [sh, -c, %q]}\n"
	apply(t, c.addr(), fmt.Sprintf(job, "hangs", fmt.Sprintf("echo begun >>%s/hangs; cat %s/name; true", w.dir, hung.Dir)))
	<-hung.Hung

	c.servers["s1"].kill()
	if !w.until(patience, func() bool { return len(w.lines("rebooted")) > 0 }) {
		t.Fatal("the command is not run")
	}
	c.startCell("c2").wait()
	c.startServer("s1").wait()
	c.session("c2", "HEALTHY")
	apply(t, c.addr(), fmt.Sprintf(job, "other", "true"))
	must(t, c.addr(), "wait", "other", "--timeout", "100s")
	if n := len(w.lines("hangs")); n != 1 {
		t.Errorf("work that may still run began %d times", n)
	}
	if n := len(w.lines("rebooted")); n != 1 {
		t.Errorf("the reboot command ran %d times", n)
	}
	select {
	case <-c.cells["c1"].ended:
		t.Errorf("the cell of stuck work ended: %v", c.cells["c1"].err)
	default:
	}
	if err := hung.Release(); err != nil {
		t.Fatal(err)
	}
	must(t, c.addr(), "wait", "hangs", "--timeout", "100s")
	if n := len(w.lines("hangs")); n != 2 {
		t.Errorf("the work that hung began %d times in all, want 2", n)
	}
	c.session("c1", "HEALTHY")
}

// TestHungWorkOfAKilledCell kills the process of a cell whose batch task and task hang in the kernel. Its next
// process holds both, names the place where they hang, and takes no work. Neither starts on another cell until it
// has ended.
func TestHungWorkOfAKilledCell(t *testing.T) {
	c, w, hung := hangingCluster(t, patient)
	c.startCell("c1", "--stuck-after=300ms").wait()
	c.session("c1", "HEALTHY")
	hangs := func(name string) string {
		return fmt.Sprintf("echo begun >>%s/%s; cat %s/name; true", w.dir, name, hung.Dir)
	}
	apply(t, c.addr(),
		fmt.Sprintf("domain: d\njobs:\n  job: {levels: [item], nodes: [{manual: [x]}], command: [sh, -c, %q]}\n",
			hangs("job")))
	<-hung.Hung
	if err := runTask(t.Context(), c.client(), "t1", "sh", "-c", hangs("task")); err != nil {
		t.Fatal(err)
	}
	if !w.until(patience, func() bool { return len(w.lines("task")) == 1 }) {
		t.Fatal("the task does not begin")
	}
	// Nothing reports that the second one hangs, too. It waits for the first in state D.
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(patience); uninterruptible(t, hung.Dir) == 0; <-again.C {
		if time.Now().After(end) {
			t.Fatal("job and task do not both hang in the kernel")
		}
	}
	c.cells["c1"].kill()
	c.startCell("c1", "--stuck-after=300ms").wait()
	c.session("c1", "HEALTHY")
	c.startCell("c2").wait()
	c.session("c2", "HEALTHY")
	apply(t, c.addr(), "domain: e\njobs:\n  other: {levels: [item], nodes: [{manual: [x]}], command: [\"true\"]}\n")
	must(t, c.addr(), "wait", "other", "--timeout", "100s")
	if x := getTask(t, c.client(), "t1"); x.State != "RUNNING" || x.Cell != "c1" {
		t.Errorf("the task: %v", x)
	}
	shows(t, c.addr(), []string{"unclean: ", "STUCK_KILLING"}, "explain", "cell/c1")
	if n, m := len(w.lines("job")), len(w.lines("task")); n != 1 || m != 1 {
		t.Errorf("work that may still run began %d and %d times", n, m)
	}
	if err := hung.Release(); err != nil {
		t.Fatal(err)
	}
	must(t, c.addr(), "wait", "job", "--timeout", "100s")
	cli(t, c.addr(), "wait", "t1", "--timeout", "100s")
	if x := getTask(t, c.client(), "t1"); x.Outcome != "lost" || x.MayStillRun { // no process knows how it ended
		t.Errorf("the task: %v", x)
	}
	if n, m := len(w.lines("job")), len(w.lines("task")); n != 2 || m != 1 {
		t.Errorf("the batch task began %d times in all, the task %d", n, m)
	}
	c.session("c1", "HEALTHY")
}

// uninterruptible counts the processes in state D whose command line names a directory.
func uninterruptible(t *testing.T, dir string) int {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range all {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		line, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err == nil && strings.HasPrefix(rest, "D") && strings.Contains(string(line), dir) {
			n++
		}
	}
	return n
}
