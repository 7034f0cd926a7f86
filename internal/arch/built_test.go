package arch

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoBuiltProgramIsCommitted: `go build ./cmd/cantina` leaves one in the directory where it runs.
func TestNoBuiltProgramIsCommitted(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "-C", "../..", "ls-files", "-z").Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	files := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(files) < 100 {
		t.Fatalf("only %d tracked files", len(files))
	}
	for _, name := range files {
		f, err := os.Open(filepath.Join("../..", name))
		if os.IsNotExist(err) { // deleted, not committed yet
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 4)
		n, err := io.ReadFull(f, head)
		_ = f.Close()
		if err == nil && bytes.Equal(head[:n], []byte("\x7fELF")) {
			t.Errorf("%s is a built program: git rm it", name)
		}
	}
}
