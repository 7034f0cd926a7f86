// Package image converts the name of a workload's root file system to layers for overlayfs: a
// directory of the cell, a tarball (an OCI layout, or the format of "docker save"), or a registry
// reference that is pinned by digest. (Diego executor, image layers; OCI image specification.)
//
//	name ──▶ manifest and config (verified by digest) ──▶ layers, each unpacked once
//	     ──▶ Image in use ──Close──▶ kept until space is needed
//
// Layers are shared between images and containers, and verified by the digest of their
// uncompressed content. A layer gets its name only when it is complete and on disk, so a killed
// process or a power failure loses at most the layer that was being unpacked. A reference by
// digest that was resolved before needs no network.
//
// The executor opens one Store. Unpacking keeps owners and devices and makes whiteouts, so it
// needs root.
package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"cantina/internal/removal"
	"cantina/internal/run"
)

// Errors of this package. Errors of the network and the disk are wrapped.
var (
	// ErrUnpinned: a registry reference without a digest.
	ErrUnpinned = errors.New("image not pinned by digest (want NAME@sha256:…)")
	// ErrName: neither an existing file or directory nor a registry reference.
	ErrName = errors.New("bad image name")
	// ErrDigest: the content does not match its digest.
	ErrDigest = errors.New("image digest does not match")
	// ErrFormat: the tarball holds no image, or none for this machine.
	ErrFormat = errors.New("no image for this machine in it")
	// ErrTooLarge: the unpacked image does not fit into Config.MaxBytes.
	ErrTooLarge = errors.New("image too large")
)

// Config bounds a store. Zero fields get the defaults named there.
type Config struct {
	MaxBytes  int64             // unpacked layers on disk; 20 GiB
	Keychain  authn.Keychain    // credentials for registries; nil = none
	Transport http.RoundTripper // to registries; nil = a default transport
	Clock     run.Clock         // Wall orders uses; the kernel's
	Log       *slog.Logger
}

// Image is a root file system in use.
type Image struct {
	// Layers are directories of the cell, the lowest first; read only, shared.
	Layers []string
	// Settings are the image's defaults for its programs.
	Settings Settings
	// Digest is that of the manifest or of the tarball; empty for a directory.
	Digest string

	release func()
	once    sync.Once
}

// Settings are the defaults that an image brings.
type Settings struct {
	Env        []string // NAME=value
	Entrypoint []string
	Cmd        []string
	WorkingDir string
	User       string
	StopSignal string
}

// Close reports that the layers are no longer in use. A second Close does nothing.
func (i *Image) Close() { i.once.Do(i.release) }

// Store holds unpacked layers. Make one with Open.
type Store struct {
	dir      string
	cfg      Config
	platform v1.Platform

	mu     sync.Mutex
	layers map[string]*layer // by directory name
	size   int64
	busy   map[string]chan struct{} // layers being unpacked
	serial int
}

// layer is one unpacked layer. Its JSON form lies beside its directory.
type layer struct {
	DiffID string
	Size   int64 // bytes of content
	Used   time.Time

	name string
	refs int
}

const (
	layerDir  = "l"
	imageDir  = "i"
	tmpPrefix = "tmp-"
)

// Open opens the store in dir, which it creates if needed. Unfinished layers are removed. It
// starts nothing.
func Open(dir string, cfg Config) (*Store, error) {
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = 20 << 30
	}
	if cfg.Keychain == nil {
		cfg.Keychain = authn.NewMultiKeychain()
	}
	if cfg.Clock.Wall == nil {
		cfg.Clock = run.Kernel()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 10 * time.Second,
			ResponseHeaderTimeout: time.Minute, IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 4}
	}
	st := &Store{dir: dir, cfg: cfg, platform: machine(), layers: map[string]*layer{}, busy: map[string]chan struct{}{}}
	for _, sub := range []string{layerDir, imageDir} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, fmt.Errorf("open image store: %w", err)
		}
	}
	if err := st.load(); err != nil {
		return nil, fmt.Errorf("open image store %s: %w", dir, err)
	}
	return st, nil
}

// load finds the whole layers and removes everything else.
func (st *Store) load() error {
	base := filepath.Join(st.dir, layerDir)
	names, err := os.ReadDir(base)
	if err != nil {
		return err
	}
	good := map[string]bool{}
	for _, n := range names {
		if !n.IsDir() {
			continue
		}
		l := &layer{name: n.Name()}
		b, err := os.ReadFile(filepath.Join(base, n.Name()+".json"))
		if err != nil || json.Unmarshal(b, l) != nil || layerName(l.DiffID) != n.Name() {
			continue
		}
		st.layers[l.name] = l
		st.size += l.Size
		good[l.name], good[l.name+".json"] = true, true
	}
	for _, n := range names {
		if !good[n.Name()] {
			st.discard(filepath.Join(base, n.Name()))
		}
	}
	st.sweep()
	tmp, err := filepath.Glob(filepath.Join(st.dir, tmpPrefix+"*"))
	for _, t := range tmp {
		st.discard(t)
	}
	return err
}

// discard removes what is left of a layer. An image chooses what is in it: it may not be removable
// as it is, and keeps nothing from its start.
func (st *Store) discard(path string) {
	if err := removal.Tree(path); err != nil {
		st.cfg.Log.Warn("cannot remove directory; trying again at the next start", "path", path, "error", err)
	}
}

var pinnedFile = regexp.MustCompile(`^(.+)@sha256:([0-9a-f]{64})$`)

// Get resolves name and makes its layers available; the caller closes the Image when the container
// is gone. name is an absolute path of a directory or a tarball, the latter with an optional
// suffix @sha256:… (of the file), or a registry reference with the digest of a manifest or an
// index. It fails with the errors of this package, ctx's error, or network and disk errors.
func (st *Store) Get(ctx context.Context, name string) (*Image, error) {
	i, err := st.get(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", name, err)
	}
	return i, nil
}

func (st *Store) get(ctx context.Context, name string) (*Image, error) {
	if !filepath.IsAbs(name) {
		return st.fromRegistry(ctx, name)
	}
	path, sum := name, ""
	info, err := os.Stat(path)
	if m := pinnedFile.FindStringSubmatch(name); err != nil && m != nil {
		path, sum = m[1], m[2]
		info, err = os.Stat(path)
	}
	switch {
	case err != nil:
		return nil, err
	case info.IsDir() && sum == "":
		return &Image{Layers: []string{path}, release: func() {}}, nil
	case info.Mode().IsRegular():
		return st.fromTarball(ctx, path, sum)
	}
	return nil, ErrName
}

// use makes the Image of an image whose manifest is known and verified.
func (st *Store) use(ctx context.Context, img v1.Image, digest string) (*Image, error) {
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	if len(layers) != len(file.RootFS.DiffIDs) {
		return nil, fmt.Errorf("%w: %d layers, but %d in the config", ErrFormat, len(layers), len(file.RootFS.DiffIDs))
	}
	if err := st.suits(v1.Platform{OS: file.OS, Architecture: file.Architecture}); err != nil {
		return nil, err
	}
	rec := record{Digest: digest, Settings: settings(file)}
	var held []*layer
	for i, l := range layers {
		id := file.RootFS.DiffIDs[i]
		h, err := st.obtain(ctx, id, l)
		if err != nil {
			st.letGo(held)
			return nil, fmt.Errorf("layer %s: %w", id, err)
		}
		held = append(held, h)
		rec.Layers = append(rec.Layers, id.String())
	}
	st.remember(rec)
	return st.image(held, rec.Settings, digest), nil
}

// suits refuses an image for another machine; one that names none is accepted.
func (st *Store) suits(p v1.Platform) error {
	if p.OS == "" || p.Architecture == "" || p.Satisfies(st.platform) {
		return nil
	}
	return fmt.Errorf("%w: it is for %s/%s, and this is %s/%s", ErrFormat, p.OS, p.Architecture, st.platform.OS,
		st.platform.Architecture)
}

// image takes over the references of held. A layer that occurs twice is used
// where it is higher: overlayfs refuses a directory twice, and the lower one is covered.
func (st *Store) image(held []*layer, s Settings, digest string) *Image {
	var dirs []string
	for i, l := range held {
		if !slices.Contains(held[i+1:], l) {
			dirs = append(dirs, filepath.Join(st.dir, layerDir, l.name))
		}
	}
	return &Image{Layers: dirs, Settings: s, Digest: digest, release: func() { st.letGo(held) }}
}

func settings(f *v1.ConfigFile) Settings {
	c := f.Config
	return Settings{Env: c.Env, Entrypoint: c.Entrypoint, Cmd: c.Cmd, WorkingDir: c.WorkingDir, User: c.User,
		StopSignal: c.StopSignal}
}

// writeFile replaces a small file whole or not at all.
func writeFile(path string, b []byte) error {
	tmp := path + ".part"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return os.Rename(tmp, path)
}

// Size is the size of the unpacked layers, in bytes.
func (st *Store) Size() int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.size
}
