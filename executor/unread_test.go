package executor

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// filesBelow are the directories and files below some of a data directory's, by their inodes.
func filesBelow(t testing.TB, dataDir string, names ...string) map[string]uint64 {
	t.Helper()
	all := map[string]uint64{}
	for _, name := range names {
		err := filepath.WalkDir(filepath.Join(dataDir, name), func(at string, _ os.DirEntry, err error) error {
			var st unix.Stat_t
			if err = errors.Join(err, unix.Lstat(at, &st)); err == nil {
				all[at] = st.Ino
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestUnknownBootClearsNothing: a cell that cannot determine the boot of the machine does not start. It removes no
// file that its successor needs to find living processes.
func TestUnknownBootClearsNothing(t *testing.T) {
	t.Parallel()
	dataDir := tempDir(t)
	cell := startCell(t,
		script{Dir: dataDir, Jobs: []job{{ID: "k", Spec: keep(sh("echo up; while :; do sleep 0.1; done"))}}})
	cell.kill(t)
	if err := os.WriteFile(filepath.Join(dataDir, "run", "k", ".pid"), []byte("1 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := filesBelow(t, dataDir, "run/k/.pid", "keep/k/container")
	e := newExecutor(testConfig(dataDir))
	failed := errors.New("no descriptor")
	e.boot = func() (string, error) { return "", failed }
	err := e.open()
	e.release()
	if !errors.Is(err, failed) {
		t.Errorf("opened: %v", err)
	}
	if after := filesBelow(t, dataDir, "run/k/.pid", "keep/k/container"); !maps.Equal(before, after) {
		t.Errorf("files are %v, were %v", after, before)
	}
	adopts(t, dataDir, "k")
}

// TestUnreadPreviousIsNotDamaged: a file that could not be read is an error; only a readable file with invalid
// content is damaged.
func TestUnreadPreviousIsNotDamaged(t *testing.T) {
	dataDir := tempDir(t)
	path := filepath.Join(dataDir, previousFile)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(testConfig(dataDir)); err == nil || !strings.Contains(err.Error(), "read "+path) {
		t.Errorf("opened: %v", err)
	}
}
