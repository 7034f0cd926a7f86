package space

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReserve: the file has its space, whatever it was before.
func TestReserve(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path, make([]byte, 100<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	for _, size := range []int64{8 << 10, 64 << 10} {
		if err := Reserve(path, size); err != nil {
			t.Fatal(err)
		}
		if err := unix.Stat(path, &st); err != nil || st.Size != size || st.Blocks*512 < size {
			t.Errorf("%d bytes: size %d, %d blocks, %v", size, st.Size, st.Blocks, err)
		}
	}
	if Reserve(filepath.Join(path, "y"), 1) == nil {
		t.Error("reserved in no directory")
	}
}
