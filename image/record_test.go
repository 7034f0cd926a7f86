package image

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"cantina/internal/heaptest"
)

func recordFiles(t *testing.T, dir string) int {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(dir, imageDir))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// TestARecordGoesWithItsLayers: the record of an image is removed with the first of its layers. No record is left
// of one that a dead process was about to write.
func TestARecordGoesWithItsLayers(t *testing.T) {
	needRoot(t)
	h, dir := newHub(t), t.TempDir()
	st := store(t, dir, Config{MaxBytes: 40_000})
	for i := range 20 {
		img := imageOf(t, layerOf(t, "own", fmt.Sprintf("%010000d", i)))
		get(t, st, h.push(t, fmt.Sprint("app", i), img)).Close()
		if n := recordFiles(t, dir); n != len(st.layers) {
			t.Fatalf("%d records for %d layers after %d images", n, len(st.layers), i+1)
		}
	}
	if err := os.WriteFile(st.recordPath("x")+".part", []byte("{cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	st = store(t, dir, Config{MaxBytes: 40_000})
	if n := recordFiles(t, dir); n != len(st.layers) || n == 0 {
		t.Errorf("%d records for %d layers after a restart", n, len(st.layers))
	}
}

// TestRecordsOfSharedLayersAreBounded: images that differ in their settings alone never make room
// for one another; the records used last stay.
func TestRecordsOfSharedLayersAreBounded(t *testing.T) {
	needRoot(t)
	h, dir := newHub(t), t.TempDir()
	st := store(t, dir, Config{})
	ref := h.push(t, "first", sample(t))
	get(t, st, ref).Close()
	old := time.Now().Add(-time.Hour)
	for i := range maxRecords + 50 {
		r := record{Digest: fmt.Sprint("sha256:", i)}
		st.remember(r)
		if i == maxRecords-10 {
			get(t, st, ref).Close() // used again
		}
		if i < maxRecords-10 {
			if err := os.Chtimes(st.recordPath(r.Digest), old, old.Add(time.Duration(i)*time.Second)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := recordFiles(t, dir); n != maxRecords {
		t.Errorf("%d records, not %d", n, maxRecords)
	}
	before := h.requests.Load()
	get(t, st, ref).Close()
	if n := h.requests.Load() - before; n != 0 {
		t.Errorf("the record of an image in use went: %d requests", n)
	}
	if _, err := os.Stat(st.recordPath("sha256:0")); err == nil {
		t.Error("the record that was unused the longest is there")
	}
}

// TestMemoryIsFreed: of images that made room for others, or could not be had, nothing stays.
func TestMemoryIsFreed(t *testing.T) {
	if testing.Short() {
		t.Skip("make test runs it")
	}
	needRoot(t)
	if !heaptest.Child(t) {
		return
	}
	h := newHub(t)
	st := store(t, t.TempDir(), Config{MaxBytes: 30_000})
	const images = 100
	var refs []string
	for i := range images {
		img := imageOf(t, layerOf(t, "own", fmt.Sprintf("%010000d", i)), layerOf(t, "of-all", "x"))
		refs = append(refs, h.push(t, fmt.Sprint("app", i), img))
	}
	heaptest.Levels(t, heaptest.Config{Things: 10, Rounds: 1, Warm: 1, Round: func(round int) {
		for i := range 10 {
			get(t, st, refs[(10*round+i)%images]).Close()
			if _, err := st.Get(t.Context(), h.name("none")+"@sha256:"+hex0(50)+fmt.Sprintf("%014d", 10*round+i)); err == nil {
				t.Fatal("an image that is not there")
			}
		}
	}})
}
