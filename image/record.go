package image

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// maxRecords is how many resolved digests are remembered, the latest used: images that differ
// in their settings alone share all layers, so that the room for layers does not bound them.
const maxRecords = 1000

// record is the stored data of a resolved digest, kept as long as all its layers.
type record struct {
	Digest   string
	Layers   []string
	Settings Settings
}

func (st *Store) recordPath(digest string) string {
	return filepath.Join(st.dir, imageDir, layerName(digest)+".json")
}

// remember makes the next use of the digest one without network.
func (st *Store) remember(r record) {
	b, err := json.Marshal(r)
	if err == nil {
		err = writeFile(st.recordPath(r.Digest), b)
	}
	if err != nil {
		st.cfg.Log.Warn("image record not written", "digest", r.Digest, "error", err)
	}
	st.boundRecords()
}

// recall makes an Image from stored data; nil if a part is missing.
func (st *Store) recall(digest string) *Image {
	path := st.recordPath(digest)
	r, err := readRecord(path)
	if err != nil || r.Digest != digest {
		return nil
	}
	var held []*layer
	for _, id := range r.Layers {
		l := st.hold(layerName(id))
		if l == nil {
			st.letGo(held)
			return nil
		}
		held = append(held, l)
	}
	now := st.cfg.Clock.Wall()
	_ = os.Chtimes(path, time.Time{}, now) // without it the record goes earlier
	return st.image(held, r.Settings, digest)
}

func readRecord(path string) (r record, err error) {
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	return r, err
}

// sweep removes the records of images with a missing layer, and invalid files. An image that is
// resolved again at that time may lose its record, and is requested once more.
func (st *Store) sweep() {
	base := filepath.Join(st.dir, imageDir)
	for _, e := range st.records() {
		path := filepath.Join(base, e.Name())
		r, err := readRecord(path)
		whole := err == nil && path == st.recordPath(r.Digest) &&
			!slices.ContainsFunc(r.Layers, func(id string) bool { return !st.has(layerName(id)) })
		if !whole {
			st.removeRecord(path)
		}
	}
}

// boundRecords removes the records beyond maxRecords, the longest unused first.
func (st *Store) boundRecords() {
	all := st.records()
	if len(all) <= maxRecords {
		return
	}
	used := map[string]time.Time{}
	for _, e := range all {
		if info, err := e.Info(); err == nil {
			used[e.Name()] = info.ModTime()
		}
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return used[a.Name()].Compare(used[b.Name()]) })
	for _, e := range all[:len(all)-maxRecords] {
		st.removeRecord(filepath.Join(st.dir, imageDir, e.Name()))
	}
}

func (st *Store) records() []fs.DirEntry {
	all, err := os.ReadDir(filepath.Join(st.dir, imageDir))
	if err != nil {
		st.cfg.Log.Warn("image records not read", "error", err)
	}
	return all
}

func (st *Store) removeRecord(path string) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		st.cfg.Log.Warn("image record not removed", "file", filepath.Base(path), "error", err)
	}
}

// has reports whether a layer is here.
func (st *Store) has(name string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.layers[name] != nil
}
