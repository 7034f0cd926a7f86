package robust

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStuckCellReboots cuts a cell off whose work hangs where not even KILL reaches it. The cell runs its
// --reboot-command once, and is empty when the work can die.
func TestStuckCellReboots(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, hasty, 1, 0)
	cell := c.startCell("c1", "--stuck=reboot", "--stuck-after=500ms", "--reboot-command=echo now >>"+w.dir+"/rebooted")
	cell.wait()
	c.session("c1", "HEALTHY")
	apply(t, c.addr(), fmt.Sprintf("domain: hang\njobs:\n  one: {command: [sh, -c, %q]}\n", "echo $$ >>"+w.dir+
		"/pid; exec sleep 1000"))
	if !w.until(patience, func() bool { return len(w.lines("pid")) == 1 }) {
		t.Fatal("the job does not start")
	}
	pid := w.pids("pid")[0]
	thaw := hang(t, pid)
	c.servers["s1"].kill() // no credit any more
	if !w.until(patience, func() bool { return len(w.lines("rebooted")) == 1 }) {
		t.Fatal("the command is not run")
	}
	if ended(pid, 0) {
		t.Fatal("the process did not hang")
	}
	thaw()
	if !ended(pid, patience) {
		t.Error("the process lives on although it can die")
	}
	if n := len(w.lines("rebooted")); n != 1 {
		t.Errorf("the command was run %d times", n)
	}
	c.startServer("s1").wait()
	c.session("c1", "HEALTHY")
}

// hang freezes a process in a group of the v1 freezer, the stand-in for one that hangs in the kernel. It returns a
// function that releases it.
func hang(t *testing.T, pid int) func() {
	t.Helper()
	dir := filepath.Join("/sys/fs/cgroup/freezer", "cantina-robust-"+strconv.Itoa(os.Getpid()))
	if _, err := os.Stat("/sys/fs/cgroup/unified/cgroup.controllers"); err != nil {
		t.Skip("skipped: needs the v1 freezer beside v2 to make a process hang")
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("skipped: no group of the v1 freezer can be made: %v", err)
	}
	write := func(file, value string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
			t.Error(err)
		}
	}
	write("cgroup.procs", strconv.Itoa(pid))
	write("freezer.state", "FROZEN")
	thawed := false
	thaw := func() {
		if !thawed {
			thawed = true
			write("freezer.state", "THAWED")
		}
	}
	t.Cleanup(func() {
		thaw()
		if !ended(pid, patience) {
			t.Errorf("process %d is left", pid)
		}
		if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
			t.Errorf("group of the test: %v", err)
		}
	})
	return thaw
}
