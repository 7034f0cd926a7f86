package executor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cantina/internal/run"
)

// settledFolder returns a pool, and a folder of it that was given out as settled.
func settledFolder(t *testing.T) (*folders, *folder) {
	t.Helper()
	now := time.Hour
	f := &folders{dir: tempDir(t), clock: func() time.Duration { return now }}
	first, err := f.take()
	if err != nil {
		t.Fatal(err)
	}
	if first.settled || first.untouched() {
		t.Fatal("a new folder's change time may hide a change")
	}
	f.put(f.replacement())
	now += fileTick + 1
	s, err := f.take()
	if err != nil || !s.settled || s.path == first.path {
		t.Fatalf("%+v, %v", s, err)
	}
	// The change time of a folder moves on once a tick of the kernel's clock is over.
	for end := s.changed; ; {
		var ts unix.Timespec
		if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts); ts.Nano() > end.Nano() {
			return f, s
		}
	}
}

func TestFolderIsGivenOutAgain(t *testing.T) {
	f, s := settledFolder(t)
	if _, err := os.ReadDir(s.path); err != nil {
		t.Fatal(err)
	}
	if !s.untouched() {
		t.Fatal("nothing was done to it")
	}
	f.put(s)
	if again, err := f.take(); err != nil || again != s {
		t.Fatalf("%+v, %v", again, err)
	}
	f.put(s)
	f.clear()
	if left, _ := filepath.Glob(f.dir + "/.[0-9]*"); len(left) != 1 { // the first is still out
		t.Fatalf("left: %v", left)
	}
}

// TestTouchedFolderIsNotGivenOutAgain: whatever a container does to its folder.
func TestTouchedFolderIsNotGivenOutAgain(t *testing.T) {
	for name, do := range map[string]func(dir string) error{
		"a file": func(dir string) error { return os.WriteFile(dir+"/x", nil, 0o600) },
		"a file that is gone": func(dir string) error {
			if err := os.WriteFile(dir+"/x", nil, 0o600); err != nil {
				return err
			}
			return os.Remove(dir + "/x")
		},
		"a folder":  func(dir string) error { return os.Mkdir(dir+"/x", 0o700) },
		"mode":      func(dir string) error { return os.Chmod(dir, 0o777) },
		"same mode": func(dir string) error { return os.Chmod(dir, 0o755) },
		"owner":     func(dir string) error { return os.Chown(dir, 1, 1) },
		"attribute": func(dir string) error { return unix.Setxattr(dir, "user.x", []byte("y"), 0) },
		"times":     func(dir string) error { return os.Chtimes(dir, time.Unix(1, 0), time.Unix(1, 0)) },
		"replaced": func(dir string) error {
			if err := os.Remove(dir); err != nil {
				return err
			}
			return os.Mkdir(dir, 0o755)
		},
		"removed": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			if name == "owner" && os.Getuid() != 0 {
				t.Skip("needs root")
			}
			_, s := settledFolder(t)
			if err := do(s.path); err != nil {
				t.Fatal(err)
			}
			if s.untouched() {
				t.Fatal("it would be given out again")
			}
		})
	}
}

// TestFoldersOfShortContainers: what one container leaves, no other one sees.
func TestFoldersOfShortContainers(t *testing.T) {
	e := testExecutor(t, nil)
	for i := range 30 {
		id := string(rune('A' + i))
		s := sh(`test -z "$(ls -A)" || exit 9; test ` + id + ` = A || echo x > left`)
		if i%2 == 0 {
			s = sh(`test -z "$(ls -A)" || exit 9`)
		}
		if err := e.Launch(Reservation{ID: id, DeadlineBound: true}, s); err != nil {
			t.Fatal(err)
		}
		if c := await(t, e, id, completed); c.Result.Failed {
			t.Fatalf("%s: %+v", id, c.Result)
		}
		e.Delete(id)
		await(t, e, id, gone)
	}
}

// TestFewFoldersAreKept: after many containers at once only a few folders wait for the next ones.
func TestFewFoldersAreKept(t *testing.T) {
	f := &folders{dir: tempDir(t), clock: run.Kernel().Boot}
	var out []*folder
	for range 2 * maxSpare {
		s, err := f.take()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, s)
	}
	for _, s := range out {
		f.put(s)
	}
	left, err := os.ReadDir(f.dir)
	if err != nil || len(left) != maxSpare || len(f.spare) != maxSpare {
		t.Errorf("%d folders, %d of them spare, %v; want %d", len(left), len(f.spare), err, maxSpare)
	}
}
