package executor

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"cantina/internal/removal"
)

// stubborn are scripts that leave a directory which a plain removal does not remove.
func stubborn(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{
		"a deep tree": `perl -e 'for (1..1500) { mkdir "d"; chdir "d" }'`,
		"no modes":    `mkdir -p r/x; chmod 0 r .`,
	}
	if _, err := exec.LookPath("perl"); err != nil {
		delete(all, "a deep tree")
	}
	if os.Geteuid() == 0 && os.Getenv(testUser) == "" {
		all["a mount on it"] = `mount -t tmpfs z "$CANTINA_DIR"`
		all["an append-only directory"] = `mkdir r; chattr +a r`
		all["an immutable directory"] = `mkdir r; chattr +i r; chattr +i .`
	}
	return all
}

// TestNoContainerKeepsACellFromItsStart, whatever it has left in its directory when the cell dies.
func TestNoContainerKeepsACellFromItsStart(t *testing.T) {
	dataDir := tempDir(t)
	s := script{Dir: dataDir, Deadline: time.Minute}
	for name, text := range stubborn(t) {
		s.Jobs = append(s.Jobs, job{ID: name, Spec: sh(text + "\necho made; sleep 60")},
			job{ID: name + ", bound", Bound: true, Spec: sh(text + "\nsleep 60")})
	}
	s.Jobs = append(s.Jobs, job{ID: "directory", Spec: sh("mkdir .pid; sleep 60")},
		job{ID: "pipe", Spec: sh("mkfifo .pid; sleep 60")},
		job{ID: "link", Spec: sh("ln -s /dev/zero .pid; sleep 60")})
	c := startCell(t, s)
	made := func() bool {
		dirs, err := dirsIn(filepath.Join(dataDir, "run"))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, dir := range dirs {
			entries, err := os.ReadDir(dir)
			if at, _ := removal.Mounts(dir); err == nil && len(entries) == 0 && len(at) == 0 {
				continue
			}
			n++
		}
		return n == len(s.Jobs)
	}
	awaitThat(t, "what the containers leave", made)
	c.kill(t)
	e, stop := runExecutor(t, testConfig(dataDir))
	for _, dir := range []string{"run", remainsDir} {
		left, err := os.ReadDir(filepath.Join(dataDir, dir))
		if err != nil || len(left) != 0 {
			t.Errorf("%s has %v, %v", dir, left, err)
		}
	}
	if r := e.Disk().Remains; len(r) != 0 {
		t.Errorf("remains: %v", r)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestDeletedDirectoriesAreGone, whatever a container has left there.
func TestDeletedDirectoriesAreGone(t *testing.T) {
	t.Parallel()
	e := testExecutor(t, nil)
	for name, text := range stubborn(t) {
		t.Run(name, func(t *testing.T) {
			c := launch(t, e, name, sh(text))
			if c.Result.Failed {
				t.Skip("skipped: it is not possible here: ", c.Result.Reason)
			}
			e.Delete(name)
			await(t, e, name, gone)
			if _, err := os.Lstat(c.Dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", c.Dir, err)
			}
		})
	}
}

// stays opens an executor in which the directories of some containers cannot be removed, as long as
// wanted returns true for their path.
func stays(t *testing.T, cfg Config, wanted func(path string) bool) *Executor {
	t.Helper()
	e := newExecutor(cfg)
	e.remains.remove = func(path string) error {
		if wanted(path) {
			return unix.EBUSY
		}
		return removal.Tree(path)
	}
	if err := e.open(); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestRemainsAreTriedAgain: a directory that cannot be removed keeps no cell from its start, is
// moved out of the way and reported, and is removed once that is possible.
func TestRemainsAreTriedAgain(t *testing.T) {
	cfg := testConfig(tempDir(t))
	old := filepath.Join(cfg.Dir, "run", "x")
	if err := os.MkdirAll(old+"/of the old one", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.Dir, previousFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := stays(t, cfg, func(string) bool { return true })
	paths := e.remains.paths()
	if len(paths) != 1 || filepath.Dir(paths[0]) != e.path(remainsDir) {
		t.Fatalf("remains: %v", paths)
	}
	if r := e.Disk().Remains; len(r) != 1 || !strings.Contains(r[0], paths[0]) || !strings.Contains(r[0], "busy") {
		t.Errorf("reported: %q", r)
	}
	if err := e.remains.mkdir(old); err != nil {
		t.Errorf("a new container of the same name: %v", err)
	}
	if left, err := os.ReadDir(old); err != nil || len(left) != 0 {
		t.Errorf("it gets %v, %v", left, err)
	}
	e.release()

	next := stays(t, cfg, func(string) bool { return false })
	defer next.release()
	if r := next.Disk().Remains; len(r) != 0 {
		t.Errorf("not tried yet, and reported: %q", r)
	}
	for _, path := range next.remains.paths() {
		next.remains.again(path)
	}
	if _, err := os.Lstat(paths[0]); !errors.Is(err, os.ErrNotExist) || len(next.remains.paths()) != 0 {
		t.Errorf("it is still there: %v, %v", err, next.remains.paths())
	}
}

// TestANameThatIsLeftIsNotGivenOut by the pool.
func TestANameThatIsLeftIsNotGivenOut(t *testing.T) {
	f := &dirPool{dir: tempDir(t), clock: func() time.Duration { return time.Hour }}
	for _, name := range []string{"/.1/x", "/.2"} {
		if err := os.MkdirAll(f.dir+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := f.take(); err != nil || s.path != f.dir+"/.3" {
		t.Errorf("%+v, %v", s, err)
	}
}
