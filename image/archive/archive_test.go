package archive

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

type item struct {
	tar.Header
	body string
}

func makeTar(t *testing.T, items ...item) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, i := range items {
		if i.Typeflag == 0 {
			i.Typeflag = tar.TypeReg
		}
		if i.Mode == 0 {
			i.Mode = 0o644
		}
		i.Size = int64(len(i.body))
		if err := w.WriteHeader(&i.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(i.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name, body string) item { return item{Header: tar.Header{Name: name}, body: body} }

func dirAt(t *testing.T) (*os.Root, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "in")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, dir
}

func onDisk(t *testing.T, content []byte) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "archive"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAllFormatsUnpackAlike(t *testing.T) {
	plain := makeTar(t,
		item{Header: tar.Header{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o750, ModTime: time.Unix(1000, 0)}},
		item{Header: tar.Header{Name: "bin/run", Mode: 0o755}, body: "#!/bin/sh\n"},
		file("./deep/er/file", "x"),
		item{Header: tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "bin/run"}})
	var zipped, z bytes.Buffer
	g := gzip.NewWriter(&zipped)
	if _, err := g.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	zw := zip.NewWriter(&z)
	for _, e := range []struct {
		name, body string
		mode       fs.FileMode
	}{{"bin/", "", fs.ModeDir | 0o750}, {"bin/run", "#!/bin/sh\n", 0o755}, {"deep/er/file", "x", 0o644},
		{"link", "bin/run", fs.ModeSymlink | 0o777}} {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode)
		w, err := zw.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tar": plain, "tgz": zipped.Bytes(), "zip": z.Bytes()} {
		t.Run(name, func(t *testing.T) {
			root, dir := dirAt(t)
			if err := Unpack(t.Context(), onDisk(t, content), root, Options{}); err != nil {
				t.Fatal(err)
			}
			for path, mode := range map[string]fs.FileMode{"bin": fs.ModeDir | 0o750, "bin/run": 0o755, "deep/er/file": 0o644} {
				info, err := os.Lstat(filepath.Join(dir, path))
				if err != nil || info.Mode() != mode {
					t.Errorf("%s: %v, %v", path, info, err)
				}
			}
			if b, err := os.ReadFile(filepath.Join(dir, "link")); err != nil || string(b) != "#!/bin/sh\n" {
				t.Errorf("through the link: %q, %v", b, err)
			}
		})
	}
}

func TestNothingLeavesTheDir(t *testing.T) {
	link := func(name, to string) item {
		return item{Header: tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}}
	}
	for _, tc := range []struct {
		name  string
		items []item
	}{
		{"dots", []item{file("../out", "evil")}},
		{"dots in the middle", []item{file("a/../../out", "evil")}},
		{"absolute", []item{file("/out", "evil")}},
		{"through a link up", []item{link("l", ".."), file("l/out", "evil")}},
		{"through an absolute link", []item{link("l", "@parent"), file("l/out", "evil")}},
		{"over a link to a file outside", []item{link("l", "../victim"), file("l", "evil")}},
		{"hard link to a file outside", []item{{Header: tar.Header{Name: "h", Typeflag: tar.TypeLink, Linkname: "../victim"}},
			file("h", "evil")}},
		{"directory mode through a link", []item{link("l", ".."),
			{Header: tar.Header{Name: "l", Typeflag: tar.TypeDir, Mode: 0o777}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, dir := dirAt(t)
			parent := filepath.Dir(dir)
			victim := filepath.Join(parent, "victim")
			if err := os.WriteFile(victim, []byte("good"), 0o600); err != nil {
				t.Fatal(err)
			}
			for i := range tc.items {
				tc.items[i].Linkname = strings.ReplaceAll(tc.items[i].Linkname, "@parent", parent)
			}
			err := UnpackTar(t.Context(), bytes.NewReader(makeTar(t, tc.items...)), root, Options{})
			t.Log("unpacking said: ", err)
			names, err := os.ReadDir(parent)
			if err != nil || len(names) != 2 {
				t.Errorf("outside are now %v, %v", names, err)
			}
			if b, err := os.ReadFile(victim); err != nil || string(b) != "good" {
				t.Errorf("the file outside holds %q, %v", b, err)
			}
		})
	}
}

func TestBoundsAndRefusals(t *testing.T) {
	for _, tc := range []struct {
		name    string
		content []byte
		o       Options
		want    error
	}{
		{"too many bytes", makeTar(t, file("a", strings.Repeat("x", 6000)), file("b", strings.Repeat("x", 6000))),
			Options{MaxBytes: 11_999}, ErrTooLarge},
		{"as many bytes as allowed", makeTar(t, file("a", strings.Repeat("x", 6000)), file("b", strings.Repeat("x", 6000))),
			Options{MaxBytes: 12_000}, nil},
		{"too many blocks", makeTar(t, file("a", ""), file("b", ""), file("c", "")), Options{MaxBytes: 3*4096 - 1},
			ErrTooLarge},
		{"as many blocks as allowed", makeTar(t, file("a", ""), file("b", ""), file("c", "")), Options{MaxBytes: 3 * 4096},
			nil},
		{"too many implied directories", makeTar(t, file("a/b/c/d", "")), Options{MaxBytes: 4*4096 - 1}, ErrTooLarge},
		{"too many entries", makeTar(t, file("a", ""), file("b", ""), file("c", "")), Options{MaxEntries: 2}, ErrTooLarge},
		{"device", makeTar(t, item{Header: tar.Header{Name: "sda", Typeflag: tar.TypeBlock}}), Options{}, ErrEntry},
		{"not an archive", []byte(strings.Repeat("hello ", 200)), Options{}, ErrFormat},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root, _ := dirAt(t)
			if err := Unpack(t.Context(), onDisk(t, tc.content), root, tc.o); !errors.Is(err, tc.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	root, _ := dirAt(t)
	if err := Unpack(t.Context(), onDisk(t, makeTar(t, file("a", strings.Repeat("x", 5000)))[:3000]), root,
		Options{}); err == nil {
		t.Error("a cut archive was taken")
	}
}

func TestUnpackingEndsWithItsContext(t *testing.T) {
	root, _ := dirAt(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Unpack(ctx, onDisk(t, makeTar(t, file("a", "x"))), root, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestLayersKeepOwnersAndWhiteouts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: makes devices and changes owners")
	}
	root, dir := dirAt(t)
	err := UnpackTar(t.Context(), bytes.NewReader(makeTar(t,
		item{Header: tar.Header{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755}},
		item{Header: tar.Header{Name: "bin/su", Mode: 0o4755, Uid: 0, Gid: 42,
			PAXRecords: map[string]string{paxXattr + "user.note": "hi", paxXattr + "trusted.overlay.redirect": "/x"}},
			body: "x"},
		item{Header: tar.Header{Name: "home/u", Mode: 0o644, Uid: 1000, Gid: 1000}},
		item{Header: tar.Header{Name: "dev/null", Typeflag: tar.TypeChar, Mode: 0o666, Devmajor: 1, Devminor: 3}},
		file("etc/.wh.passwd", ""), file("var/cache/.wh..wh..opq", ""), file("tmp/.wh..wh.plnk", ""))), root,
		Options{Layer: true})
	if err != nil {
		t.Fatal(err)
	}
	stat := func(name string) *syscall.Stat_t {
		t.Helper()
		var st syscall.Stat_t
		if err := syscall.Lstat(filepath.Join(dir, name), &st); err != nil {
			t.Fatal(name, err)
		}
		return &st
	}
	if st := stat("bin/su"); st.Mode&0o7777 != 0o4755 || st.Gid != 42 {
		t.Errorf("su: mode %o, group %d", st.Mode, st.Gid)
	}
	if st := stat("home/u"); st.Uid != 1000 {
		t.Errorf("owner %d", st.Uid)
	}
	if st := stat("dev/null"); st.Mode&syscall.S_IFMT != syscall.S_IFCHR || st.Rdev != unix.Mkdev(1, 3) {
		t.Errorf("device: mode %o, %x", st.Mode, st.Rdev)
	}
	if st := stat("etc/passwd"); st.Mode&syscall.S_IFMT != syscall.S_IFCHR || st.Rdev != 0 {
		t.Errorf("whiteout: mode %o, %x", st.Mode, st.Rdev)
	}
	attr := func(name, key string) string {
		b := make([]byte, 64)
		n, err := unix.Lgetxattr(filepath.Join(dir, name), key, b)
		if err != nil {
			return ""
		}
		return string(b[:n])
	}
	if attr("var/cache", "trusted.overlay.opaque") != "y" || attr("bin/su", "user.note") != "hi" ||
		attr("bin/su", "trusted.overlay.redirect") != "" {
		t.Error("wrong extended attributes")
	}
	if _, err := os.Lstat(filepath.Join(dir, "tmp/.wh..wh.plnk")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("bookkeeping was unpacked: %v", err)
	}
}

// TestImpossibleOwnersAreRefused: a file without an owner does not become root's.
func TestImpossibleOwnersAreRefused(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: changes owners")
	}
	for _, h := range []tar.Header{{Uid: math.MaxUint32}, {Gid: math.MaxUint32}, {Uid: -1}, {Gid: math.MaxUint32 + 1000}} {
		root, _ := dirAt(t)
		h.Name, h.Mode, h.Format = "a", 0o644, tar.FormatGNU // which has room for such numbers
		err := UnpackTar(t.Context(), bytes.NewReader(makeTar(t, item{Header: h})), root, Options{Layer: true})
		if !errors.Is(err, ErrEntry) || !strings.Contains(err.Error(), "a belongs to") {
			t.Errorf("%d:%d: %v", h.Uid, h.Gid, err)
		}
	}
}

func TestOwnerOfADownload(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: changes owners")
	}
	root, dir := dirAt(t)
	if err := UnpackTar(t.Context(), bytes.NewReader(makeTar(t,
		item{Header: tar.Header{Name: "a/b", Mode: 0o4755}, body: "x"})), root,
		Options{Owned: true, Uid: 65534, Gid: 65534}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "a/b"} {
		var st syscall.Stat_t
		if err := syscall.Lstat(filepath.Join(dir, name), &st); err != nil || st.Uid != 65534 || st.Mode&0o7000 != 0 {
			t.Errorf("%s: owner %d, mode %o, %v", name, st.Uid, st.Mode, err)
		}
	}
}
