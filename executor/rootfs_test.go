package executor

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
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
	"cantina/logstore"
)

// layer makes a layer of an image from the files that fill writes.
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
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())),
			nil
	})
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

// TestRootfsImage runs containers from an image of a registry, pinned by digest, and from a tarball. No container
// sees the writes of another.
func TestRootfsImage(t *testing.T) {
	t.Parallel()
	needRoot(t)
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
	file := filepath.Join(tempDir(t), "image.tar")
	if err := tarball.WriteToFile(file, ref, img); err != nil {
		t.Fatal(err)
	}
	e := testExecutor(t, nil)
	mounts := count(t, e).mounts
	want := []string{"high", "image yes", "4321"}
	for id, from := range map[string]string{"registry": ref.Context().Name() + "@" + digest.String(), "tarball": file,
		"again": file} {
		s := sh("cat /etc/low; ls /etc; echo image $FROM_IMAGE; id -u; ls /cantina; echo > /cantina/mine")
		s.Workload.Isolation, s.Workload.Rootfs = action.IsolationRootfs, from
		c := launch(t, e, id, s)
		out := lines(t, e, id, logstore.Stdout)
		if c.Result.Failed {
			t.Errorf("%s: %+v %q", id, c.Result, lines(t, e, id, logstore.Stderr))
		}
		for _, w := range want {
			if !slices.Contains(out, w) {
				t.Errorf("%s: %q is missing in %q", id, w, out)
			}
		}
		if slices.Contains(out, "gone") || slices.Contains(out, "mine") {
			t.Errorf("%s sees a missing file: %q", id, out)
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

// TestTheMachineIsNotChangedFromInside: a container that runs as root changes no setting of
// the kernel by its /proc or /sys, and reads no memory.
func TestTheMachineIsNotChangedFromInside(t *testing.T) {
	needRoot(t)
	const script = `for f in /proc/sys/vm/drop_caches /proc/sys/kernel/hostname /proc/sysrq-trigger \
	/sys/kernel/mm/ksm/run; do
	(echo 0 > $f) 2>/dev/null && echo wrote $f
done
touch /sys/made 2>/dev/null && echo made
cat /proc/sys/kernel/ostype
test -s /proc/keys && echo keys
test -d /sys/class/net/lo && echo net
(echo 0 > /proc/self/oom_score_adj) && echo own`
	e := testExecutor(t, nil)
	root := smallRoot(t)
	copyProgram(t, root, "/usr/bin/touch")
	for i, w := range []action.Workload{{Isolation: action.IsolationNamespaces},
		{Isolation: action.IsolationNamespaces, OwnNet: true},
		{Isolation: action.IsolationRootfs, Rootfs: root}, {Isolation: action.IsolationRootfs, Rootfs: root, OwnNet: true},
		{Isolation: action.IsolationNamespaces,
			Sidecars: []action.Action{{Run: &action.Run{Path: "sleep", Args: []string{"1000"}}}}}} {
		s := sh(script)
		run := s.Workload.Action.Run
		s.Workload = w
		s.Workload.Action.Run, s.Workload.User = run, "0"
		id := fmt.Sprint("x", i)
		c := launch(t, e, id, s)
		if out := lines(t, e, id, logstore.Stdout); !slices.Equal(out, []string{"Linux", "net", "own"}) {
			t.Errorf("%v, own net %v: %q, %+v", w.Isolation, w.OwnNet, out, c.Result)
		}
	}
}

// TestARootKnowsItsOwnNames: the loopback has its names, also in a network of its own and where a tool left an
// empty file. Entries of the image stay.
func TestARootKnowsItsOwnNames(t *testing.T) {
	t.Parallel()
	needRoot(t)
	e := testExecutor(t, nil)
	for i, hosts := range []string{"none", "", "10.0.0.1 mine\n"} {
		root := smallRoot(t)
		if hosts != "none" {
			if err := os.WriteFile(filepath.Join(root, "etc/hosts"), []byte(hosts), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		s := sh("cat /etc/hosts; ls /sys/class/net")
		s.Workload.Isolation, s.Workload.Rootfs, s.Workload.OwnNet = action.IsolationRootfs, root, true
		id := fmt.Sprint("x", i)
		r := launch(t, e, id, s).Result
		out := strings.Join(lines(t, e, id, logstore.Stdout), "\n")
		if mine := strings.Contains(out, "10.0.0.1 mine"); r.Failed || mine != (i == 2) ||
			strings.Contains(out, "127.0.0.1\tlocalhost") == mine || !strings.HasSuffix(out, "\nlo") {
			t.Errorf("%q: %+v %q", hosts, r, out)
		}
	}
}

// TestLinksOfAnImageLeadNowhere: where the cell makes or mounts something in a root, no link
// of the image brings it to the machine.
func TestLinksOfAnImageLeadNowhere(t *testing.T) {
	needRoot(t)
	for _, name := range []string{"dev", "proc", "sys", "cantina", "etc", "etc/hosts"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outside, root := tempDir(t), smallRoot(t)
			if err := errors.Join(os.RemoveAll(filepath.Join(root, name)),
				os.Symlink(filepath.Join(outside, "target"), filepath.Join(root, name))); err != nil {
				t.Fatal(err)
			}
			if name != "etc/hosts" {
				if err := os.Mkdir(filepath.Join(outside, "target"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			e := testExecutor(t, nil)
			s := sh("true")
			s.Workload.Isolation, s.Workload.Rootfs, s.Workload.OwnNet = action.IsolationRootfs, root, true
			r := launch(t, e, "x", s).Result
			if made, err := filepath.Glob(filepath.Join(outside, "target*", "*")); err != nil || len(made) > 0 {
				t.Errorf("%s: %q was made on the machine, %v", name, made, err)
			}
			if info, err := os.Stat(filepath.Join(outside, "target")); err == nil && !info.IsDir() {
				t.Errorf("%s: %v was made on the machine", name, info)
			}
			if name != "etc/hosts" && !r.Failed {
				t.Errorf("%s: %+v", name, r)
			}
		})
	}
}

// TestResultFilesThatAreNotReadable: the error names the cause, not the system call.
func TestResultFilesThatAreNotReadable(t *testing.T) {
	root := tempDir(t)
	for name, target := range map[string]string{"out": "/etc/passwd", "up": "../../passwd", "circle": "circle"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
		if _, err := openBelow(root, name); !errors.Is(err, errLink) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := openBelow(root, "none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := openBelow("/", "proc/self/status"); !errors.Is(err, errLink) {
		t.Errorf("another file system: %v", err)
	}
}
