package cell

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCopiedDirCountsAsNew: a copy of a data directory, beside the original or on another
// machine, claims nothing of it: its lock and its boot prove nothing about the original's
// processes. A directory that was only moved stays what it is.
func TestCopiedDirCountsAsNew(t *testing.T) {
	top := t.TempDir()
	a, b := filepath.Join(top, "a"), filepath.Join(top, "b")
	if err := errors.Join(os.Mkdir(a, 0o700), os.Mkdir(b, 0o700)); err != nil {
		t.Fatal(err)
	}
	was := Identity{DirID: "f", Started: 3, Proc: "p", Boot: "x", Epoch: 2, Deadline: time.Hour}
	for _, durable := range []bool{true, false} {
		if err := diskIdentity(a).Save(was, durable); err != nil {
			t.Fatal(err)
		}
		if id, err := diskIdentity(a).Read(); err != nil || id != was {
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
	id, err := diskIdentity(b).Read()
	if err != nil || !id.Copied || id.DirID == was.DirID || id.Proc != "" || id.Started != 0 || id.Epoch != 0 {
		t.Errorf("a copy is %+v %v", id, err)
	}
	if err := diskIdentity(b).Save(id, true); err != nil {
		t.Fatal(err)
	}
	if again, err := diskIdentity(b).Read(); err != nil || again.DirID != id.DirID || again.Copied {
		t.Errorf("later it is %+v %v", again, err)
	}
	moved := filepath.Join(top, "c")
	if err := os.Rename(a, moved); err != nil {
		t.Fatal(err)
	}
	if id, err := diskIdentity(moved).Read(); err != nil || id != was {
		t.Errorf("moved: %+v %v", id, err)
	}
}
