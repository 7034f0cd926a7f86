package datadir_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"cantina/fence"
	"cantina/store"
	"cantina/store/datadir"
)

func open(t *testing.T, path string) *datadir.Dir {
	t.Helper()
	f, err := datadir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // some are closed by their test
	return f
}

func TestOnlyOneOwner(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	f := open(t, dir)
	_, err := datadir.Open(dir)
	var inUse *datadir.InUse
	if !errors.Is(err, datadir.ErrInUse) || !errors.As(err, &inUse) || inUse.PID != os.Getpid() {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("data directory %s is in use by pid %d", dir, os.Getpid()); err.Error() != want {
		t.Fatalf("%q, want %q", err, want)
	}
	if err := os.WriteFile(filepath.Join(dir, "lock"), []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := datadir.Open(dir); err == nil || err.Error() != "data directory "+dir+" is in use" {
		t.Fatalf("%v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}

func TestOpenWhereThereCanBeNone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := datadir.Open(file); err == nil || errors.Is(err, datadir.ErrInUse) {
		t.Fatal(err)
	}
}

func TestMemo(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	load := func(want store.Memo) {
		t.Helper()
		if m, err := f.Load(); err != nil || m != want {
			t.Fatalf("%+v, %v, want %+v", m, err, want)
		}
	}
	load(store.Memo{})
	memo := store.Memo{Cluster: "c", Seen: fence.Term{Epoch: 1795822849, Revision: 7}, Lease: 1 << 62}
	for range 2 {
		if err := f.Save(memo); err != nil {
			t.Fatal(err)
		}
		load(memo)
	}
	// A rename is no move; a copy of the file is, until a term has begun.
	moved := filepath.Join(filepath.Dir(dir), "renamed")
	if err := errors.Join(f.Close(), os.Rename(dir, moved)); err != nil {
		t.Fatal(err)
	}
	f = open(t, moved)
	load(memo)
	text, err := os.ReadFile(f.Path("memo.json"))
	if err == nil {
		err = errors.Join(os.WriteFile(f.Path("copy"), text, 0o600), os.Rename(f.Path("copy"), f.Path("memo.json")))
	}
	if err != nil {
		t.Fatal(err)
	}
	memo.Moved = true
	load(memo)
	if err := f.Save(memo); err != nil {
		t.Fatal(err)
	}
	load(memo)
	memo.Moved = false
	if err := f.Save(memo); err != nil {
		t.Fatal(err)
	}
	load(memo)
}

func TestUnreadableMemo(t *testing.T) {
	f := open(t, t.TempDir())
	if err := os.WriteFile(f.Path("memo.json"), []byte(`{"memo":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Load(); !errors.Is(err, datadir.ErrMemo) {
		t.Fatal(err)
	}
	if err := f.Save(store.Memo{}); !errors.Is(err, datadir.ErrMemo) {
		t.Fatalf("an unreadable memo was written over: %v", err)
	}
}
