package executor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cantina/logstore"
	"cantina/resource"
)

// fill takes all room of a directory's file system; free gives it back.
func fill(t testing.TB, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if err := errors.Join(f.Close()); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// TestACellOnAFullDisk: it takes no work and reports the reason. Lost output is a gap and stands in the result. The
// cell goes on by itself when there is room.
func TestACellOnAFullDisk(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dataDir := tempDir(t)
	if err := unix.Mount("tmpfs", dataDir, "tmpfs", 0, "size=32m"); err != nil {
		t.Skip("skipped: nothing can be mounted here: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dataDir, unix.MNT_DETACH) }) // it was mounted
	cfg := testConfig(dataDir)
	cfg.Capacity[resource.DiskMB] = 32
	e, stop := runExecutor(t, cfg)
	awaitThat(t, "a measure", func() bool { return e.Disk().FreeMB > 0 })
	if d := e.Disk(); d.Fault != nil || d.FreeMB < 25 || d.ForeignMB > 6 {
		t.Errorf("an empty disk: %+v", d)
	}
	done := filepath.Join(tempDir(t), "go")
	s := sh("echo up; until [ -e " + done +
		" ]; do sleep 0.01; done; head -c 2000000 /dev/zero | tr '\\0' '\\n'; printf end")
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "x", "up")
	free := fill(t, dataDir)
	if err := e.Probe(t.Context()); !errors.Is(err, ErrUnwritable) ||
		!strings.Contains(err.Error(), "no space left on device") {
		t.Errorf("the self-test: %v", err)
	}
	if err := e.Reserve(Reservation{ID: "y"}); !errors.Is(err, ErrUnwritable) {
		t.Errorf("reserve: %v", err)
	}
	if d := e.Disk(); d.FreeMB != 0 || d.ForeignMB < 31 || d.Fault == nil {
		t.Errorf("a full disk: %+v", d)
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := await(t, e, "x", completed).Result
	if r.Failed || r.OutputLost == 0 {
		t.Errorf("%+v", r)
	}
	var got, missing int64
	for q, more := (logstore.Query{IDs: []string{"x"}, Streams: []logstore.Stream{logstore.Stdout}}), true; more; {
		page, err := e.Output().Query(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page.Lines {
			if l.Gap != nil && l.Gap.Reason == logstore.DiskError {
				missing += l.Gap.Bytes
			}
			got += int64(len(l.AppendRaw(nil)))
		}
		q.Cursor, more = page.Next, page.More
	}
	if missing != r.OutputLost || got+missing != 3+2000000+3 {
		t.Errorf("%d bytes read, %d missing, %d lost", got, missing, r.OutputLost)
	}
	free()
	awaitThat(t, "the end of the fault", func() bool { return e.Disk().Fault == nil })
	if err := e.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	if c := launch(t, e, "z", sh("echo out")); c.Result.Failed || c.Result.OutputLost != 0 {
		t.Errorf("%+v", c.Result)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestForeignDisk measures the used part of the capacity that no reservation covers.
func TestForeignDisk(t *testing.T) {
	for _, c := range []struct{ capacity, free, used, want int }{
		{1000, 1000, 0, 0}, {1000, 2000, 0, 0}, {1000, 900, 100, 0}, {1000, 900, 50, 50}, {1000, 895, 50, 60},
		{1000, 0, 0, 1000}, {10, 0, 4, 6}, {0, 0, 0, 0}, {100, 50, 80, 0},
	} {
		if got := foreign(c.capacity, c.free, c.used); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// TestACellWithoutInodes takes no work and reports the reason, within seconds and without a probe, and goes on by
// itself when there are some.
func TestACellWithoutInodes(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dataDir := tempDir(t)
	if err := unix.Mount("tmpfs", dataDir, "tmpfs", 0, "size=64m,nr_inodes=2000"); err != nil {
		t.Skip("skipped: nothing can be mounted here: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dataDir, unix.MNT_DETACH) }) // it was mounted
	e, stop := runExecutor(t, testConfig(dataDir))
	awaitThat(t, "a measure", func() bool { return e.Disk().FreeMB > 0 })
	if c := launch(t, e, "x", sh("mkdir many; i=0; while : > many/$i; do i=$((i+1)); done; true")); c.State != Completed {
		t.Fatalf("%+v", c)
	}
	awaitThat(t, "the fault", func() bool { return e.Disk().Fault != nil })
	if err := e.Disk().Fault; !errors.Is(err, ErrUnwritable) ||
		!strings.Contains(err.Error(), "0 inodes free, 40 are needed") &&
			!strings.Contains(err.Error(), "0 inodes free, 80 are needed") {
		t.Errorf("the fault: %v", err)
	}
	if err := e.Reserve(Reservation{ID: "y"}); !errors.Is(err, ErrUnwritable) {
		t.Errorf("reserve: %v", err)
	}
	e.Delete("x")
	await(t, e, "x", gone)
	awaitThat(t, "the end of the fault", func() bool { return e.Disk().Fault == nil })
	if c := launch(t, e, "z", sh("echo out")); c.Result.Failed {
		t.Errorf("%+v", c.Result)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestFreeInodes: file systems of any size, and those that count none.
func TestFreeInodes(t *testing.T) {
	for _, c := range []struct {
		all, free uint64
		again, ok bool
	}{
		{0, 0, false, true}, {1 << 20, 500, false, true}, {1 << 20, 499, false, false}, {1 << 20, 999, true, false},
		{1 << 20, 1000, true, true},
		{1000, 20, false, true}, {1000, 19, false, false}, {10, 1, false, true}, {10, 0, false, false},
	} {
		err := freeInodes("/d", &unix.Statfs_t{Files: c.all, Ffree: c.free}, c.again)
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "inodes free") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
