package logstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk mounts a file system of a size and returns its directory.
func smallDisk(t testing.TB, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skip("skipped: nothing can be mounted here: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // it was mounted
	return dir
}

// fill takes all room of a directory's file system; free gives it back.
func fill(t testing.TB, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRefusedWritesOfAFullDiskAreAGap: while it is full, and for sources that end meanwhile: bytes
// read and bytes in gaps are the bytes written, of small and of large sources.
func TestRefusedWritesOfAFullDiskAreAGap(t *testing.T) {
	for name, before := range map[string]int{"fresh": 0, "small": 2000, "own segment": 600 << 10} {
		t.Run(name, func(t *testing.T) {
			dir := smallDisk(t, "8m")
			st, err := Open(filepath.Join(dir, "output"), Config{Promote: 64 << 10, Shared: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			line := append(bytes.Repeat([]byte("x"), 999), '\n')
			w, err := st.Writer(Source{ID: "a"}, Stdout)
			if err != nil {
				t.Fatal(err)
			}
			if name != "fresh" {
				write(t, w, string(bytes.Repeat(line, before/1000)))
			}
			free := fill(t, dir)
			const after = 1200
			for range after {
				write(t, w, string(line))
			}
			if w.Lost() == 0 {
				t.Error("nothing is known to be lost")
			}
			lost := w.Lost()
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			for i := range 50 { // others, that begin and end on a full disk
				o, err := st.Writer(Source{ID: fmt.Sprint("b", i)}, Stdout)
				if err != nil {
					t.Fatal(err)
				}
				write(t, o, "out\n")
				if err := o.Close(); err != nil {
					t.Fatal(err)
				}
			}
			look := func(full bool) {
				t.Helper()
				got, missing := tally(t, st, "a")
				if got+missing != int64(before/1000*1000+after*1000) || missing != lost {
					t.Errorf("full %v: %d bytes read, %d missing, %d lost", full, got, missing, lost)
				}
				for i := range 50 {
					if got, missing := tally(t, st, fmt.Sprint("b", i)); got+missing != 4 {
						t.Errorf("full %v: source %d: %d bytes read, %d missing", full, i, got, missing)
					}
				}
			}
			if name != "fresh" { // of which nothing could be kept before
				look(true)
			}
			free()
			st.WriteOwed()
			look(false)
		})
	}
}

// tally counts the readable bytes of a source, and the bytes in gaps of a disk error.
func tally(t testing.TB, st *Store, id string) (got, missing int64) {
	t.Helper()
	for q, more := (Query{IDs: []string{id}}), true; more; {
		page, err := st.Query(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		q.Cursor, more = page.Next, page.More
		for _, l := range page.Lines {
			switch {
			case l.Gap == nil:
				got += int64(len(l.AppendRaw(nil)))
			case l.Gap.Reason == DiskError:
				missing += l.Gap.Bytes
			}
		}
	}
	return got, missing
}
