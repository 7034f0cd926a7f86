package cell

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCopiedFolderCountsAsNew: a copy of a data folder, beside the original or on another
// machine, claims nothing of it: its lock and its boot prove nothing about the original's
// processes. A folder that was only moved stays what it is.
func TestCopiedFolderCountsAsNew(t *testing.T) {
	top := t.TempDir()
	a, b := filepath.Join(top, "a"), filepath.Join(top, "b")
	if err := errors.Join(os.Mkdir(a, 0o700), os.Mkdir(b, 0o700)); err != nil {
		t.Fatal(err)
	}
	was := Identity{Folder: "f", Started: 3, Proc: "p", Boot: "x", Epoch: 2, Deadline: time.Hour}
	for _, durable := range []bool{true, false} {
		if err := diskFolder(a).Save(was, durable); err != nil {
			t.Fatal(err)
		}
		if id, err := diskFolder(a).Read(); err != nil || id != was {
			t.Errorf("%+v %v", id, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(a, identityFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(b, identityFile), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	id, err := diskFolder(b).Read()
	if err != nil || !id.Copied || id.Folder == was.Folder || id.Proc != "" || id.Started != 0 || id.Epoch != 0 {
		t.Errorf("a copy is %+v %v", id, err)
	}
	if err := diskFolder(b).Save(id, true); err != nil {
		t.Fatal(err)
	}
	if again, err := diskFolder(b).Read(); err != nil || again.Folder != id.Folder || again.Copied {
		t.Errorf("later it is %+v %v", again, err)
	}
	moved := filepath.Join(top, "c")
	if err := os.Rename(a, moved); err != nil {
		t.Fatal(err)
	}
	if id, err := diskFolder(moved).Read(); err != nil || id != was {
		t.Errorf("moved: %+v %v", id, err)
	}
}
