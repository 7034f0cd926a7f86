package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: layers keep their owners and have whiteouts")
	}
}

// layerOf makes a layer of files; a name that ends in / is a directory.
func layerOf(t *testing.T, files ...string) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		h := &tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1]))}
		if strings.HasSuffix(h.Name, "/") {
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, files[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())),
			nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func imageOf(t *testing.T, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	f, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	f = f.DeepCopy()
	f.OS, f.Architecture = machine().OS, machine().Architecture
	f.Config = v1.Config{Env: []string{"A=b"}, Cmd: []string{"/bin/x"}, WorkingDir: "/w", User: "1000"}
	if img, err = mutate.ConfigFile(img, f); err != nil {
		t.Fatal(err)
	}
	return img
}

// sample is an image in which the second layer changes, removes and hides.
func sample(t *testing.T) v1.Image {
	return imageOf(t,
		layerOf(t, "etc/", "", "etc/keep", "low", "etc/gone", "low", "etc/change", "low", "var/hidden", "low"),
		layerOf(t, "etc/change", "high", "etc/.wh.gone", "", "var/.wh..wh..opq", "", "var/new", "high"))
}

// hub is a registry on loopback that counts its requests.
type hub struct {
	*httptest.Server
	requests atomic.Int64
	blobs    atomic.Int64
	before   func(w http.ResponseWriter, r *http.Request) bool
}

func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{}
	inner := registry.New()
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.requests.Add(1)
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			h.blobs.Add(1)
		}
		if h.before == nil || h.before(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hub) name(s string) string { return strings.TrimPrefix(h.URL, "http://") + "/" + s }

// push returns the reference by digest.
func (h *hub) push(t *testing.T, repo string, img v1.Image) string {
	t.Helper()
	ref, err := name.ParseReference(h.name(repo) + ":latest")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h.name(repo) + "@" + d.String()
}

func store(t *testing.T, dir string, cfg Config) *Store {
	t.Helper()
	st, err := Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func get(t *testing.T, st *Store, name string) *Image {
	t.Helper()
	i, err := st.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// checkSample mounts the layers and checks the view of a container.
func checkSample(t *testing.T, i *Image) {
	t.Helper()
	if i.Settings.Env[0] != "A=b" || i.Settings.Cmd[0] != "/bin/x" || i.Settings.WorkingDir != "/w" ||
		i.Settings.User != "1000" {
		t.Errorf("settings %+v", i.Settings)
	}
	if len(i.Layers) != 2 {
		t.Fatalf("layers %v", i.Layers)
	}
	at := t.TempDir()
	if err := unix.Mount("overlay", at, "overlay", unix.MS_RDONLY, "lowerdir="+i.Layers[1]+":"+i.Layers[0]); err != nil {
		t.Log("overlayfs cannot be mounted here, the layers are not looked at together: ", err)
		return
	}
	defer func() {
		if err := unix.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	}()
	for file, want := range map[string]string{"etc/keep": "low", "etc/change": "high", "var/new": "high"} {
		if b, err := os.ReadFile(filepath.Join(at, file)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", file, b, err)
		}
	}
	for _, file := range []string{"etc/gone", "var/hidden"} {
		if _, err := os.Lstat(filepath.Join(at, file)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there: %v", file, err)
		}
	}
}

func TestImageOfARegistry(t *testing.T) {
	needRoot(t)
	h, dir := newHub(t), t.TempDir()
	ref := h.push(t, "team/app", sample(t))
	st := store(t, dir, Config{})
	i := get(t, st, ref)
	checkSample(t, i)
	i.Close()
	before := h.requests.Load()
	st = store(t, dir, Config{}) // as after a restart
	i = get(t, st, ref)
	checkSample(t, i)
	i.Close()
	i.Close()
	if n := h.requests.Load() - before; n != 0 {
		t.Errorf("%d requests for a cached image", n)
	}
}

func TestImageOfAnIndex(t *testing.T) {
	needRoot(t)
	h := newHub(t)
	other := imageOf(t, layerOf(t, "wrong", "machine"))
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "plan9",
			Architecture: "mips"}}},
		mutate.IndexAddendum{Add: sample(t), Descriptor: v1.Descriptor{Platform: new(machine())}})
	ref, err := name.ParseReference(h.name("multi:latest"))
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	d, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	i := get(t, store(t, t.TempDir(), Config{}), h.name("multi@"+d.String()))
	defer i.Close()
	checkSample(t, i)
}

func TestImageOfATarball(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	docker, oci := filepath.Join(dir, "docker.tar"), filepath.Join(dir, "oci.tar")
	tag, err := name.NewTag("app:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(docker, tag, sample(t)); err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(dir, "layout")
	if _, err := layout.Write(tree, mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: sample(t)})); err != nil {
		t.Fatal(err)
	}
	tarTree(t, tree, oci)
	for _, file := range []string{docker, oci} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			home := t.TempDir()
			st := store(t, home, Config{})
			i := get(t, st, file)
			checkSample(t, i)
			i.Close()
			again := get(t, st, file+"@"+i.Digest)
			checkSample(t, again)
			again.Close()
			if _, err := st.Get(t.Context(), file+"@sha256:"+strings.Repeat("0", 64)); !errors.Is(err, ErrDigest) {
				t.Errorf("wrong digest: %v", err)
			}
			if left, err := filepath.Glob(filepath.Join(home, tmpPrefix+"*")); err != nil || len(left) > 0 {
				t.Errorf("left over: %v, %v", left, err)
			}
		})
	}
}

func tarTree(t *testing.T, tree, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	if err := w.AddFS(os.DirFS(tree)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestDirIsUsedAsItIs(t *testing.T) {
	dir := t.TempDir()
	i := get(t, store(t, t.TempDir(), Config{}), dir)
	if len(i.Layers) != 1 || i.Layers[0] != dir {
		t.Errorf("%v", i.Layers)
	}
	i.Close()
}

func TestNamesThatAreRefused(t *testing.T) {
	h := newHub(t)
	st := store(t, t.TempDir(), Config{})
	rubbish := filepath.Join(t.TempDir(), "rubbish.tar")
	if err := os.WriteFile(rubbish, []byte(strings.Repeat("not a tar ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		h.name("app:latest"):                ErrUnpinned,
		h.name("app"):                       ErrUnpinned,
		"UPPER case":                        ErrName,
		"/nowhere/x.tar":                    os.ErrNotExist,
		"/dev/null":                         ErrName,
		rubbish:                             ErrFormat,
		h.name("app@sha256:12"):             ErrName,
		"/nowhere/x.tar@sha256:" + hex0(64): os.ErrNotExist,
	} {
		if _, err := st.Get(t.Context(), name); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := h.requests.Load(); n != 0 {
		t.Errorf("%d requests", n)
	}
	var status interface{ Temporary() bool }
	if _, err := st.Get(t.Context(), h.name("none@sha256:"+hex0(64))); !errors.As(err, &status) {
		t.Errorf("unknown digest: %v", err)
	}
}

func hex0(n int) string { return strings.Repeat("0", n) }

func TestForgedContentIsRefused(t *testing.T) {
	needRoot(t)
	h := newHub(t)
	ref := h.push(t, "app", sample(t))
	forged := layerOf(t, "etc/passwd", "evil")
	body, err := forged.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	evil, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/blobs/", "/manifests/"} {
		h.before = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, path) {
				w.Header().Set("Content-Type", "application/vnd.docker.distribution.manifest.v2+json")
				_, err := w.Write(evil)
				return err != nil
			}
			return true
		}
		st := store(t, t.TempDir(), Config{})
		if i, err := st.Get(t.Context(), ref); err == nil {
			t.Errorf("forged %s were taken: %v", path, i.Layers)
		}
		if st.Size() != 0 {
			t.Errorf("forged %s left %d bytes", path, st.Size())
		}
	}
}

// TestLayerThatDiffersFromTheConfig: the store itself finds a config with wrong digests of the uncompressed
// content.
func TestLayerThatDiffersFromTheConfig(t *testing.T) {
	needRoot(t)
	h := newHub(t)
	img := sample(t)
	f, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	f = f.DeepCopy()
	f.RootFS.DiffIDs[1].Hex = hex0(64)
	if img, err = mutate.ConfigFile(img, f); err != nil {
		t.Fatal(err)
	}
	st := store(t, t.TempDir(), Config{})
	if _, err := st.Get(t.Context(), h.push(t, "app", img)); !errors.Is(err, ErrDigest) {
		t.Errorf("got %v", err)
	}
	for _, l := range st.layers {
		if l.refs != 0 {
			t.Errorf("a reference is left to %s", l.DiffID)
		}
	}
}

func TestManyPullsAtOnceUnpackEachLayerOnce(t *testing.T) {
	needRoot(t)
	h := newHub(t)
	shared := layerOf(t, "base", strings.Repeat("x", 1<<20))
	refs := make([]string, 4)
	for i := range refs {
		refs[i] = h.push(t, fmt.Sprint("app", i), imageOf(t, shared, layerOf(t, "own", fmt.Sprint(i))))
	}
	st := store(t, t.TempDir(), Config{})
	before := h.blobs.Load()
	var group sync.WaitGroup
	for n := range 20 {
		group.Go(func() {
			i, err := st.Get(context.Background(), refs[n%len(refs)])
			if err != nil {
				t.Error(err)
				return
			}
			if b, err := os.ReadFile(filepath.Join(i.Layers[1], "own")); err != nil || string(b) != fmt.Sprint(n%len(refs)) {
				t.Errorf("%q, %v", b, err)
			}
			i.Close()
		})
	}
	group.Wait()
	if len(st.layers) != 5 {
		t.Errorf("%d layers", len(st.layers))
	}
	layers := h.blobs.Load() - before // configs are fetched by every pull, layers by one
	if layers > 5+20 {
		t.Errorf("%d blobs fetched", layers)
	}
}

func TestLeastRecentlyUsedLayerGoes(t *testing.T) {
	needRoot(t)
	h, dir := newHub(t), t.TempDir()
	ref := make([]string, 4)
	for i := range ref {
		ref[i] = h.push(t, fmt.Sprint("app", i), imageOf(t, layerOf(t, "own", strings.Repeat(fmt.Sprint(i), 10_000))))
	}
	st := store(t, dir, Config{MaxBytes: 40_000})
	first := get(t, st, ref[0])
	for _, r := range ref[1:] {
		get(t, st, r).Close()
	}
	if st.Size() > 40_000 {
		t.Errorf("%d bytes", st.Size())
	}
	if b, err := os.ReadFile(filepath.Join(first.Layers[0], "own")); err != nil || len(b) != 10_000 {
		t.Errorf("a layer in use was removed: %v", err)
	}
	first.Close()
	i := get(t, st, ref[1]) // was removed: comes again
	if b, err := os.ReadFile(filepath.Join(i.Layers[0], "own")); err != nil || b[0] != '1' {
		t.Error(err)
	}
	i.Close()
	if _, err := store(t, t.TempDir(), Config{MaxBytes: 5000}).Get(t.Context(), ref[0]); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	dirs, err := filepath.Glob(filepath.Join(dir, layerDir, "*.json"))
	if err != nil || len(dirs) != len(st.layers) {
		t.Errorf("%v, %v", dirs, err)
	}
}

func TestUnfinishedLayersAreRemovedAtOpen(t *testing.T) {
	needRoot(t)
	h, dir := newHub(t), t.TempDir()
	ref := h.push(t, "app", sample(t))
	st := store(t, dir, Config{})
	i := get(t, st, ref)
	i.Close()
	if err := os.Remove(i.Layers[0] + ".json"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(i.Layers[1]+".json", []byte("{cut"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, tmpPrefix+"x"), 0o700); err != nil {
		t.Fatal(err)
	}
	st = store(t, dir, Config{})
	left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || st.Size() != 0 || len(left) != 0 { // nor the record of the digest, whose layers are gone
		t.Errorf("%d bytes, %v, %v", st.Size(), left, err)
	}
	i = get(t, st, ref)
	checkSample(t, i)
	i.Close()
}

func TestPullEndsWithItsContext(t *testing.T) {
	needRoot(t)
	h := newHub(t)
	ref := h.push(t, "app", sample(t))
	arrived := make(chan bool, 10)
	h.before = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			arrived <- true
			<-r.Context().Done()
			return false
		}
		return true
	}
	st := store(t, t.TempDir(), Config{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := st.Get(ctx, ref); done <- err }()
	<-arrived
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestTarballsAreReadOrRefusedByName: image files of the usual tools are read, also compressed with gzip. Any other
// file is refused with its kind.
func TestTarballsAreReadOrRefusedByName(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain.tar")
	ref, err := name.ParseReference("example.com/app:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(plain, ref, sample(t)); err != nil {
		t.Fatal(err)
	}
	saved, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	zipped := func(b []byte) []byte {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return z.Bytes()
	}
	tarOf := func(names ...string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, n := range names {
			if err := w.WriteHeader(&tar.Header{Name: n, Mode: 0o755, Typeflag: tar.TypeDir}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	whole := zipped(saved)
	for says, content := range map[string][]byte{
		"":                 whole,
		"root file system": tarOf("./", "./etc/", "./usr/bin/"),
		"neither manifest": tarOf("some/", "thing/"),
		"gzip":             whole[:len(whole)/2],
		"not a tar":        []byte("#!/bin/sh\necho no image\n" + strings.Repeat("x", 1024)),
		"zstd":             []byte("\x28\xb5\x2f\xfd whatever"),
		"xz":               []byte("\xfd7zXZ\x00 whatever"),
		"bzip2":            []byte("BZh91AY whatever"),
		"for this machine": {},
	} {
		path := filepath.Join(dir, "image")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		st := store(t, t.TempDir(), Config{})
		i, err := st.Get(t.Context(), path)
		if says == "" && err == nil {
			checkSample(t, i)
			i.Close()
			if i, err = st.Get(t.Context(), path); err == nil { // as it was unpacked
				i.Close()
			}
		}
		if (err == nil) != (says == "") || err != nil &&
			(!errors.Is(err, ErrFormat) && says != "gzip" || !strings.Contains(err.Error(), says)) {
			t.Errorf("%q: %v", says, err)
		}
		if left, err := filepath.Glob(filepath.Join(st.dir, tmpPrefix+"*")); err != nil || len(left) > 0 {
			t.Errorf("%q: left %q, %v", says, left, err)
		}
	}
	if _, err := store(t, t.TempDir(), Config{MaxBytes: 100}).Get(t.Context(), func() string {
		path := filepath.Join(dir, "bomb")
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}()); !errors.Is(err, ErrTooLarge) {
		t.Errorf("larger than the store: %v", err)
	}
}

// TestImagesForOtherMachinesAreRefused: both platforms are named.
func TestImagesForOtherMachinesAreRefused(t *testing.T) {
	needRoot(t)
	img := sample(t)
	f, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	f = f.DeepCopy()
	f.OS, f.Architecture = "linux", "s390x"
	if img, err = mutate.ConfigFile(img, f); err != nil {
		t.Fatal(err)
	}
	h := newHub(t)
	_, err = store(t, t.TempDir(), Config{}).Get(t.Context(), h.push(t, "other", img))
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "for linux/s390x") ||
		!strings.Contains(err.Error(), "this is linux/"+runtime.GOARCH) {
		t.Error(err)
	}
}
