package doctor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"cantina/executor"
)

func TestExamine(t *testing.T) {
	dir := t.TempDir()
	reaper := filepath.Join(dir, "cantina-reaper")
	build := exec.Command("go", "build", "-o", reaper, "cantina/cmd/cantina-reaper")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r, err := Examine(t.Context(), Options{Dir: dir, Reaper: reaper})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]Level{}
	for _, f := range r.Findings {
		t.Log(f)
		if _, twice := seen[f.Name]; twice || f.Detail == "" {
			t.Errorf("finding %+v", f)
		}
		seen[f.Name] = f.Level
	}
	for _, name := range []string{"kernel", "user", "reaper", "control groups", "container", "stuck work"} {
		if l, there := seen[name]; !there || l == Failure {
			t.Errorf("%s: %v, %v", name, there, l)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "cantina-doctor-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestMissingReaperIsAFailure(t *testing.T) {
	r := &Report{}
	r.reaper(filepath.Join(t.TempDir(), "none"))
	if r.Worst() != Failure {
		t.Errorf("%+v", r.Findings)
	}
}

// The limits that doctor reports are those that the kernel enforces.
func TestMayRaiseLimits(t *testing.T) {
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &was); err != nil {
		t.Fatal(err)
	}
	low := unix.Rlimit{Cur: 0, Max: 0}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &low); err != nil {
		t.Fatal(err)
	}
	err := unix.Setrlimit(unix.RLIMIT_CORE, &was)
	if was.Max > 0 && mayRaiseLimits() != (err == nil) {
		t.Errorf("may raise limits: %v, the kernel returns %v", mayRaiseLimits(), err)
	}
}

// TestStuckWork: doctor prints its action, and that it would not work.
func TestStuckWork(t *testing.T) {
	for name, c := range map[string]struct {
		reboot []string
		level  Level
		says   string
	}{
		"stay":    {nil, Note, "without new work"},
		"reboot":  {[]string{"/bin/sh", "-c", "true --now"}, Note, `runs "true --now"`},
		"missing": {[]string{"/bin/sh", "-c", "no-such-program -f"}, Warning, "no-such-program is not found"},
	} {
		r := &Report{}
		r.stuck(c.reboot)
		if f := r.Findings[0]; f.Level != c.level || !strings.Contains(f.Detail, c.says) {
			t.Errorf("%s: %v", name, f)
		}
	}
}

// TestRemainsAreReported, of a cell's data directory and of dev's.
func TestRemainsAreReported(t *testing.T) {
	for _, below := range []string{"executor", "cell/executor"} {
		dir := t.TempDir()
		r := &Report{}
		if r.remains(dir); len(r.Findings) != 0 {
			t.Errorf("nothing is left: %v", r.Findings)
		}
		path := filepath.Join(executor.Remains(filepath.Join(dir, below)), "x")
		if err := os.MkdirAll(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if r.remains(dir); r.Worst() != Warning || !strings.Contains(r.Findings[0].Detail, path) {
			t.Errorf("%s: %v", below, r.Findings)
		}
	}
}
