package robust

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// TestFullDiskUnderTheStore: what runs goes on, reads are answered, writes are refused with the
// reason, and all goes on when there is room; with too little of it at the start clients get
// the cause. (docs/decisions/0212)
func TestFullDiskUnderTheStore(t *testing.T) {
	disk := smallDisk(t, "400m")
	ballast, beats := filepath.Join(disk, "ballast"), filepath.Join(t.TempDir(), "beats")
	fill(t, ballast)
	d := start(t, "dev", "dev", "--data", filepath.Join(disk, "data"), "--listen", "127.0.0.1:0", "--socket", "none").wait()
	refused := func(args ...string) {
		t.Helper()
		if r := cli(t, d.Addr, args...); r.code != 1 || !strings.Contains(r.err, "MiB free in "+filepath.Join(disk, "data", "server")) || !strings.Contains(r.err, "store is full") {
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
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		if out := must(t, d.Addr, "run", "--timeout", "60s", "--", "echo", "alive"); out != "alive\n" {
			t.Errorf("with room again, a task printed %q", out)
		}
	}
	if out := must(t, d.Addr, "ps", "-o", "json"); !strings.Contains(out, "RUNNING") || strings.Contains(out, `"crashes": 1`) {
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
