package executor

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"cantina/action"
	"cantina/executor/output"
)

// layer makes a layer of an image from what fill writes.
func layer(t *testing.T, fill func(w *tar.Writer) error) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := fill(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// smallImage is an image of two layers that runs a shell: the second one changes a
// file of the first and removes another.
func smallImage(t *testing.T) v1.Image {
	t.Helper()
	root := smallRoot(t)
	for _, f := range []string{"low", "gone"} {
		if err := os.WriteFile(filepath.Join(root, "etc", f), []byte("low\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	img, err := mutate.AppendLayers(empty.Image,
		layer(t, func(w *tar.Writer) error { return w.AddFS(os.DirFS(root)) }),
		layer(t, func(w *tar.Writer) error {
			if err := w.WriteHeader(&tar.Header{Name: "etc/.wh.gone", Mode: 0o644}); err != nil {
				return err
			}
			if err := w.WriteHeader(&tar.Header{Name: "etc/low", Mode: 0o644, Size: 5}); err != nil {
				return err
			}
			_, err := w.Write([]byte("high\n"))
			return err
		}))
	if err != nil {
		t.Fatal(err)
	}
	f, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	f = f.DeepCopy()
	f.OS, f.Architecture = runtime.GOOS, runtime.GOARCH
	f.Config = v1.Config{Env: []string{"FROM_IMAGE=yes"}, User: "app"}
	if img, err = mutate.ConfigFile(img, f); err != nil {
		t.Fatal(err)
	}
	return img
}

// TestRootfsImage runs containers from an image of a registry, pinned by digest, and
// from a tarball; none sees what another one wrote.
func TestRootfsImage(t *testing.T) {
	needRoot(t)
	eachRoot(t, testRootfsImage)
}

func testRootfsImage(t *testing.T, runc string) {
	img := smallImage(t)
	hub := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer hub.Close()
	ref, err := name.ParseReference(strings.TrimPrefix(hub.URL, "http://") + "/small:latest")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(file, ref, img); err != nil {
		t.Fatal(err)
	}
	e := testExecutor(t, withRunc(runc))
	mounts := count(t, e).mounts
	want := []string{"high", "image yes", "4321"}
	for id, from := range map[string]string{"registry": ref.Context().Name() + "@" + digest.String(), "tarball": file, "again": file} {
		s := sh("cat /etc/low; ls /etc; echo image $FROM_IMAGE; id -u; ls /cantina; echo > /cantina/mine")
		s.Workload.Isolation, s.Workload.Rootfs = action.IsolationRootfs, from
		c := launch(t, e, id, s)
		out := lines(t, e, id, output.Stdout)
		if c.Result.Failed {
			t.Errorf("%s: %+v %q", id, c.Result, lines(t, e, id, output.Stderr))
		}
		for _, w := range want {
			if !slices.Contains(out, w) {
				t.Errorf("%s: %q is missing in %q", id, w, out)
			}
		}
		if slices.Contains(out, "gone") || slices.Contains(out, "mine") {
			t.Errorf("%s sees what is not there: %q", id, out)
		}
		e.Delete(id)
		await(t, e, id, gone)
	}
	// Without a digest nothing is pulled.
	s := sh("true")
	s.Workload.Isolation, s.Workload.Rootfs = action.IsolationRootfs, ref.Name()
	if c := launch(t, e, "unpinned", s); !c.Result.Failed || !strings.Contains(c.Result.Reason, "pinned by digest") {
		t.Errorf("unpinned: %+v", c.Result)
	}
	if now := count(t, e).mounts; now != mounts {
		t.Errorf("%d mounts, before %d", now, mounts)
	}
}
