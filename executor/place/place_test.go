package place

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestFileNamesStayRelative(t *testing.T) {
	for in, want := range map[string]string{"/a/b": "a/b", "../x": "x", "": ".", "/": ".", "a/../..": "."} {
		if got := relative(in); got != want || filepath.IsAbs(got) {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// TestPutAndTake: a file that was put is executable and complete; a taken file equals its source. Only regular
// files are taken, and no link leads out.
func TestPutAndTake(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	from := filepath.Join(dir, "artifact")
	if err := os.WriteFile(from, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Put(t.Context(), File{At: Place{Root: root, Path: "/a/b/"}, Path: from, Into: "tool",
		Dir: true}); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(root, "a/b/tool"))
	if err != nil || info.Mode().Perm() != 0o755 || info.Size() != 7 {
		t.Errorf("%v, %v", info, err)
	}
	copied := filepath.Join(dir, "copy")
	if err := Take(t.Context(), File{At: Place{Root: root, Path: "a/b/tool"}, Path: copied}); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(copied); err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
	if err := Take(t.Context(), File{At: Place{Root: root, Path: "a/b/tool"}, Path: copied}); !errors.Is(err,
		fs.ErrExist) {
		t.Errorf("over a file that is there: %v", err)
	}
	if err := os.Symlink(dir, filepath.Join(root, "out")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"a", "out/artifact", "none"} {
		if err := Take(t.Context(), File{At: Place{Root: root, Path: path}, Path: copied + "2"}); err == nil {
			t.Errorf("%s was taken", path)
		}
	}
	if err := Put(t.Context(), File{At: Place{Root: root, Path: "out/new"}, Path: from}); err == nil {
		t.Error("put through a link")
	}
}
