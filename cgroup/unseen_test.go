package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestUnseenProcessesAreAlive: the kernel lists processes of a pid namespace that the reader
// does not see into as 0: they cannot be signalled, and are not gone.
func TestUnseenProcessesAreAlive(t *testing.T) {
	for text, want := range map[string]bool{"": false, "0\n": true, "0\n0\n": true} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.events"),
			fmt.Appendf(nil, "populated %d\nfrozen 0\n", min(len(text), 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		g := At(dir)
		full, err := g.Populated()
		pids, perr := g.Procs()
		if err != nil || perr != nil || full != want || len(pids) != 0 {
			t.Errorf("%q: populated %v %v, pids %v %v", text, full, err, pids, perr)
		}
	}
}
