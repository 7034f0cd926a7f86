package executor

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cantina/internal/run"
)

// stableDir returns a pool, and a directory that the pool gave out as settled.
func stableDir(t *testing.T) (*dirPool, *pooledDir) {
	t.Helper()
	now := time.Hour
	f := &dirPool{dir: tempDir(t), clock: func() time.Duration { return now }}
	first, err := f.take()
	if err != nil {
		t.Fatal(err)
	}
	if first.stable || first.untouched() {
		t.Fatal("a new directory's change time may hide a change")
	}
	f.put(f.replacement())
	now += fileTick + 1
	s, err := f.take()
	if err != nil || !s.stable || s.path == first.path {
		t.Fatalf("%+v, %v", s, err)
	}
	// The change time of a directory moves on once a tick of the kernel's clock is over.
	for end := s.changed; ; {
		var ts unix.Timespec
		if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts); ts.Nano() > end.Nano() {
			return f, s
		}
	}
}

func TestDirIsGivenOutAgain(t *testing.T) {
	f, s := stableDir(t)
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

// TestTouchedDirIsNotGivenOutAgain after any change by a container.
func TestTouchedDirIsNotGivenOutAgain(t *testing.T) {
	for name, do := range map[string]func(dir string) error{
		"a file": func(dir string) error { return os.WriteFile(dir+"/x", nil, 0o600) },
		"a file that is gone": func(dir string) error {
			if err := os.WriteFile(dir+"/x", nil, 0o600); err != nil {
				return err
			}
			return os.Remove(dir + "/x")
		},
		"a directory": func(dir string) error { return os.Mkdir(dir+"/x", 0o700) },
		"mode":        func(dir string) error { return os.Chmod(dir, 0o777) },
		"same mode":   func(dir string) error { return os.Chmod(dir, 0o755) },
		"owner":       func(dir string) error { return os.Chown(dir, 1, 1) },
		"attribute":   func(dir string) error { return unix.Setxattr(dir, "user.x", []byte("y"), 0) },
		"times":       func(dir string) error { return os.Chtimes(dir, time.Unix(1, 0), time.Unix(1, 0)) },
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
			_, s := stableDir(t)
			if err := do(s.path); err != nil {
				t.Fatal(err)
			}
			if s.untouched() {
				t.Fatal("it would be given out again")
			}
		})
	}
}

// TestDirsOfShortContainers: no container sees the files of an earlier one.
func TestDirsOfShortContainers(t *testing.T) {
	t.Parallel()
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

// TestFewDirsAreKept: after many containers at once only a few directories wait for the next ones.
func TestFewDirsAreKept(t *testing.T) {
	f := &dirPool{dir: tempDir(t), clock: run.Kernel().Boot}
	var out []*pooledDir
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
		t.Errorf("%d directories, %d of them spare, %v; want %d", len(left), len(f.spare), err, maxSpare)
	}
}
