package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"cantina/image/archive"
	"cantina/internal/removal"
)

// layerName is the directory of a digest: short, because overlayfs takes all layers
// of an image in one line of limited length.
func layerName(digest string) string {
	sum := sha256.Sum256([]byte(digest))
	return hex.EncodeToString(sum[:12])
}

// hold takes a reference to a layer that is here; nil when it is not.
func (st *Store) hold(name string) *layer {
	st.mu.Lock()
	defer st.mu.Unlock()
	l := st.layers[name]
	if l != nil {
		l.refs++
		l.Used = st.cfg.Clock.Wall()
	}
	return l
}

// letGo releases references and removes layers beyond the limit.
func (st *Store) letGo(held []*layer) {
	st.mu.Lock()
	for _, l := range held {
		l.refs--
	}
	gone := st.evict(0)
	st.mu.Unlock()
	st.remove(gone)
}

// evict chooses layers that have to go, the least recently used first; st.mu is held.
func (st *Store) evict(need int64) []*layer {
	var gone []*layer
	for st.size+need > st.cfg.MaxBytes {
		var oldest *layer
		for _, l := range st.layers {
			if l.refs == 0 && (oldest == nil || l.Used.Before(oldest.Used)) {
				oldest = l
			}
		}
		if oldest == nil {
			break
		}
		delete(st.layers, oldest.name)
		st.size -= oldest.Size
		st.busy[oldest.name] = make(chan struct{}) // it is not unpacked again before it is gone
		gone = append(gone, oldest)
	}
	return gone
}

func (st *Store) remove(gone []*layer) {
	for _, l := range gone {
		path := filepath.Join(st.dir, layerDir, l.name)
		// The description goes first: without it a directory counts as unfinished.
		if err := errors.Join(os.Remove(path+".json"), removal.Tree(path)); err != nil {
			st.cfg.Log.Warn("image layer not removed", "layer", l.DiffID, "error", err)
		}
		st.done(l.name)
	}
	if len(gone) > 0 {
		st.sweep()
	}
}

// done wakes the callers that wait for a layer's directory.
func (st *Store) done(name string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	close(st.busy[name])
	delete(st.busy, name)
}

// obtain makes a layer available, with a reference. The first caller unpacks it; if it gives up,
// the next takes over.
func (st *Store) obtain(ctx context.Context, id v1.Hash, from v1.Layer) (*layer, error) {
	name := layerName(id.String())
	for {
		if l := st.hold(name); l != nil {
			return l, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		st.mu.Lock()
		wait := st.busy[name]
		first := wait == nil && st.layers[name] == nil
		if first {
			st.busy[name] = make(chan struct{})
		}
		st.mu.Unlock()
		if first {
			return st.unpack(ctx, name, id, from)
		}
		if wait != nil {
			select {
			case <-wait:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
}

// unpack unpacks and verifies a layer; the caller has marked it busy.
func (st *Store) unpack(ctx context.Context, name string, id v1.Hash, from v1.Layer) (*layer, error) {
	defer st.done(name)
	st.mu.Lock()
	st.serial++
	tmp := filepath.Join(st.dir, fmt.Sprintf("%s%s-%d", tmpPrefix, name, st.serial))
	st.mu.Unlock()
	size, err := st.unpackTo(ctx, tmp, id, from)
	if err != nil {
		return nil, errors.Join(err, removal.Tree(tmp))
	}
	l := &layer{DiffID: id.String(), Size: size, Used: st.cfg.Clock.Wall(), name: name, refs: 1}
	text, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(st.dir, layerDir, name)
	if err := errors.Join(removal.Tree(path), os.Rename(tmp, path)); err != nil {
		return nil, errors.Join(err, removal.Tree(tmp))
	}
	if err := writeFile(path+".json", text); err != nil { // after the directory: it makes the layer valid
		return nil, errors.Join(err, removal.Tree(path))
	}
	st.mu.Lock()
	gone := st.evict(size)
	st.layers[name] = l
	st.size += size
	st.mu.Unlock()
	st.remove(gone)
	return l, nil
}

func (st *Store) unpackTo(ctx context.Context, dir string, id v1.Hash, from v1.Layer) (int64, error) {
	if id.Algorithm != "sha256" {
		return 0, fmt.Errorf("%w: algorithm %s", ErrDigest, id.Algorithm)
	}
	if err := errors.Join(removal.Tree(dir), os.Mkdir(dir, 0o755)); err != nil {
		return 0, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer func() { _ = root.Close() }() // a directory that was read
	r, err := from.Uncompressed()
	if err != nil {
		return 0, err
	}
	counted := &counter{r: r, h: sha256.New()}
	err = archive.UnpackTar(ctx, counted, root, archive.Options{Layer: true, MaxBytes: st.cfg.MaxBytes})
	if errors.Is(err, archive.ErrTooLarge) {
		err = errors.Join(ErrTooLarge, err)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, counted) // data after the tar's end is part of the digest
	}
	if err = errors.Join(err, r.Close()); err != nil {
		return 0, err
	}
	if got := hex.EncodeToString(counted.h.Sum(nil)); got != id.Hex {
		return 0, fmt.Errorf("%w: layer is sha256:%s", ErrDigest, got)
	}
	return counted.n, syncDir(dir)
}

// syncDir brings everything that was unpacked to the disk before the layer gets its name.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = unix.Syncfs(int(f.Fd()))
	if errors.Is(err, unix.ENOSYS) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

// counter hashes and counts the read bytes.
type counter struct {
	r io.Reader
	h hash.Hash
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.h.Write(p[:n])
	c.n += int64(n)
	return n, err
}
