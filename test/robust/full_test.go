package robust

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a file system of some MiB.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return disk
}

// TestFullDiskUnderTheStore: running work goes on, reads are answered, and writes are refused with the reason. All
// goes on when there is room. With too little room at the start, clients get the cause. (docs/decisions/0212)
func TestFullDiskUnderTheStore(t *testing.T) {
	disk := smallDisk(t, "400m")
	ballast, beats := filepath.Join(disk, "ballast"), filepath.Join(t.TempDir(), "beats")
	fill(t, ballast)
	d := start(t, "dev", "dev", "--data", filepath.Join(disk, "data"), "--listen", "127.0.0.1:0", "--socket",
		"none").wait()
	refused := func(args ...string) {
		t.Helper()
		if r := cli(t, d.Addr, args...); r.code != 1 ||
			!strings.Contains(r.err, "MiB free in "+filepath.Join(disk, "data", "server")) ||
			!strings.Contains(r.err, "store is full") {
			t.Errorf("cantina %s: exit code %d, %s", strings.Join(args, " "), r.code, r.err)
		}
	}
	refused("status")
	refused("run", "--", "true")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	d.log.until(d.ended, patience, func(text string) bool { return strings.Contains(text, "msg=leading") })
	apply(t, d.Addr, "domain: d\nservices: {web: {command: [sh, -c, 'while sleep 0.1; do echo >>"+beats+"; done']}}\n")
	must(t, d.Addr, "wait", "web", "--timeout", "60s")
	spec := write(t, "again.yaml", "domain: d\nservices: {other: {command: [sleep, '60']}}\n")
	for range soak(3, 30) {
		fill(t, ballast)
		refused("run", "--", "true")
		refused("apply", spec)
		refused("stop", "web")
		before := length(t, beats)
		if !eventually(func() bool { return length(t, beats) > before+5 }) {
			t.Error("the service does not go on")
		}
		if out := must(t, d.Addr, "ps"); !strings.Contains(out, "web/0") || !strings.Contains(out, "RUNNING") {
			t.Errorf("ps on a full disk: %s", out)
		}
		shows(t, d.Addr, []string{"writes are suspended", "MiB free in"}, "status")
		if code, text := scrape(t, d.Addr, "/readyz", nil); code != 503 || !strings.Contains(text, "[-]writes failed: ") {
			t.Errorf("ready with a full disk: %d %s", code, text)
		}
		if code, text := scrape(t, d.Addr, "/healthz", nil); code != 200 {
			t.Errorf("a restart does not help a full disk: %d %s", code, text)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		if out := must(t, d.Addr, "run", "--timeout", "60s", "--", "echo", "alive"); out != "alive\n" {
			t.Errorf("with room again, a task printed %q", out)
		}
	}
	if out := must(t, d.Addr, "ps", "-o", "json"); !strings.Contains(out, "RUNNING") ||
		strings.Contains(out, `"crashes": 1`) {
		t.Errorf("the service was not left alone: %s", out)
	}
	if n := strings.Count(d.log.tail(100000), "term begun"); n != 1 {
		t.Errorf("%d terms", n)
	}
	d.stop()
	fill(t, ballast)
	d = start(t, "dev", "dev", "--data", filepath.Join(disk, "data"), "--listen", "127.0.0.1:0", "--socket", "none").wait()
	refused("task", "ls")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	d.log.until(d.ended, patience, func(text string) bool { return strings.Contains(text, "msg=leading") })
	must(t, d.Addr, "task", "ls")
	d.stop()
}

// length is how many bytes a file has.
func length(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// narrow leaves less room on a file system than a server needs, and returns a function that frees it.
func narrow(t *testing.T, disk string) (free func()) {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(disk, &fs); err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(disk, "ballast")
	f, err := os.Create(ballast)
	if err == nil {
		err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, int64(fs.Bavail)*fs.Bsize-40<<20), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
}

// lives reports that a process of a piece of work is alive.
func (w *witness) lives(id string) bool {
	w.t.Helper()
	f, err := os.OpenFile(filepath.Join(w.dir, "lock", id), os.O_RDWR, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK
}

// TestServerWithoutRoom: the disk of a server is full for longer than a cell lives without its leader. Healthy
// cells go on with all their work, and ends wait and are taken once. A joining cell has to wait, and a lost one is
// given up when that can be written. A server that starts meanwhile reports why it does not lead.
// (docs/decisions/0525)
func TestServerWithoutRoom(t *testing.T) {
	disk := smallDisk(t, "500m") // which its users leave first
	c := newCluster(t, "", hasty)
	c.disk = disk
	c.addresses = []string{c.freeAddress()}
	c.startServer("s1").wait()
	c.startCell("c1", "--label", "at=c1").wait()
	w := newWitness(t)
	apply(t, c.addr(), holdSpec(w, "[h1]"))
	on := func(cell, id string, command ...string) {
		t.Helper()
		argv := []string{"run", "-d", "--id", id, "--cell-label", "at=" + cell, "--", w.command(), id}
		must(t, c.addr(), append(argv, command...)...)
		w.waitBegun(id, 1)
	}
	on("c1", "long", "sleep", "1000")
	on("c1", "short", "sh", "-c", "until [ -e "+w.dir+"/go ]; do sleep 0.1; done")
	w.waitBegun("h1", 1)
	must(t, c.addr(), "wait", "excl", "free", "--timeout", "60s")
	free := w.begunPids("free", 1)[0]
	c2 := c.startCell("c2", "--label", "at=c2").wait()
	on("c2", "gone", "sleep", "1000")
	proc := c.cell("c1").Proc

	stays := func(limit time.Duration) {
		t.Helper()
		if w.until(limit, func() bool { return !w.lives("excl") || !w.lives("long") || ended(free, 0) }) {
			t.Fatalf("exclusive service lives: %v, task lives: %v; cell c1:\n%s", w.lives("excl"), w.lives("long"),
				c.cells["c1"].log.tail(20))
		}
	}
	mend := narrow(t, c.disk)
	c3 := c.startCell("c3")
	c2.kill()
	w.release() // a batch task and a task end
	stays(15 * time.Second)
	if x := c.cell("c1"); x.Session != "HEALTHY" || x.Proc != proc {
		t.Errorf("c1 on a full disk: %v", x)
	}
	shows(t, c.addr(), []string{"writes are suspended", "MiB free in"}, "status")
	shows(t, c.addr(), []string{"short", "RUNNING"}, "task", "ls")
	mend()

	must(t, c.addr(), "wait", "short", "--timeout", "60s")
	must(t, c.addr(), "wait", "job/hold", "--timeout", "60s")
	if r := cli(t, c.addr(), "wait", "gone", "--timeout", "60s"); r.code != 6 {
		t.Errorf("the task of the cell that is gone: exit code %d, %s", r.code, r.err)
	}
	c3.wait()
	c.session("c3", "HEALTHY")
	stays(0)

	mend = narrow(t, c.disk)
	c.servers["s1"].kill()
	s1 := c.startServer("s1").wait()
	if r := cli(t, c.addr(), "ps"); r.code != 1 || !strings.Contains(r.err, "MiB free in "+filepath.Join(c.disk, "s1")) {
		t.Errorf("ps at a server that cannot start: exit code %d, %s", r.code, r.err)
	}
	stays(time.Second)
	mend()
	s1.log.until(s1.ended, patience, func(text string) bool { return strings.Contains(text, "msg=leading") })
	c.session("c1", "HEALTHY")
	stays(time.Second)
	for id, fences := range w.begun() {
		if len(fences) != 1 {
			t.Errorf("%s began %d times", id, len(fences))
		}
	}
	w.check()
	if x := c.cell("c1"); x.Proc != proc {
		t.Errorf("c1 began a new session: %v", x)
	}
	c.startCell("c2").wait() // it removes the leftovers of its predecessor
	c.session("c2", "HEALTHY")
}
