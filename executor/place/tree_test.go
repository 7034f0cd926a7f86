package place

import (
	"archive/tar"
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// stream is a tar stream: names that end with / are directories, "a -> b" is a link.
func stream(t *testing.T, entries ...string) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e, Typeflag: tar.TypeReg, Mode: 0o604, Size: 4}
		name, target, link := strings.Cut(e, " -> ")
		switch hard, to, ok := strings.Cut(e, " => "); {
		case link:
			h = &tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: target}
		case ok:
			h = &tar.Header{Name: hard, Typeflag: tar.TypeLink, Linkname: to}
		case strings.HasSuffix(e, "/"):
			h = &tar.Header{Name: e, Typeflag: tar.TypeDir, Mode: 0o751}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte("evil")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// content lists a tree: files with their content, links with their target, directories with a slash.
func content(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || at == dir {
			return err
		}
		name := at[len(dir)+1:]
		switch {
		case d.IsDir():
			name += "/"
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(at)
			out = append(out, name+" -> "+to)
			return err
		default:
			b, err := os.ReadFile(at)
			out = append(out, name+"="+string(b))
			return err
		}
		out = append(out, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, " ")
}

// TestUnpackStaysInTheDestination: no stream changes anything but the named file or directory at the destination.
func TestUnpackStaysInTheDestination(t *testing.T) {
	const here = "here/ here/.profile=mine"
	const before = here + " out=mine"
	for name, c := range map[string]struct {
		to, name string
		entries  []string
		want     string // of the tree, HERE for the directory as it was; empty = as before, and an error
	}{
		"a file into a directory":          {"here", "x", []string{"x"}, "HERE here/x=evil out=mine"},
		"a file to a name":                 {"here/y", "x", []string{"x"}, "HERE here/y=evil out=mine"},
		"a file over a file":               {"out", "x", []string{"x"}, "HERE out=evil"},
		"a directory to a name":            {"new", "x", []string{"x/", "x/a"}, "HERE new/ new/a=evil out=mine"},
		"a directory into one":             {"here", "x", []string{"x/", "x/a"}, "HERE here/x/ here/x/a=evil out=mine"},
		"content":                          {"here", "", []string{"./", "./a"}, "HERE here/a=evil out=mine"},
		"content to a new one":             {"new", "", []string{"./", "./a"}, "HERE new/ new/a=evil out=mine"},
		"content, up and absolute":         {"here", "", []string{"../a", "/b"}, "HERE here/a=evil here/b=evil out=mine"},
		"another name":                     {"here", "x", []string{".profile"}, ""},
		"another name for a name":          {"new", "x", []string{"out"}, ""},
		"up":                               {"here", "x", []string{"x/../.profile"}, ""},
		"up out":                           {"here", "x", []string{"../out"}, ""},
		"absolute":                         {"here", "x", []string{"/out"}, ""},
		"a hard link to another":           {"here", "x", []string{"x/a => .profile"}, ""},
		"over a directory":                 {"here", ".profile", []string{".profile/", ".profile/a"}, ""},
		"a directory to a file":            {"out", "x", []string{"x/", "x/a"}, ""},
		"to a file as directory":           {"out/", "x", []string{"x"}, ""},
		"to a directory that is not there": {"new/", "x", []string{"x"}, ""},
		"in a directory that is not there": {"no/new", "x", []string{"x"}, ""},
		"content to a file":                {"out", "", []string{"./a"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			at := filepath.Join(dir, "here")
			for _, err := range []error{os.Mkdir(at, 0o755), os.WriteFile(at+"/.profile", []byte("mine"), 0o600),
				os.WriteFile(dir+"/out", []byte("mine"), 0o600)} {
				if err != nil {
					t.Fatal(err)
				}
			}
			err := Unpack(t.Context(), stream(t, c.entries...), dir+"/"+c.to, c.name, 0)
			if got := content(t, dir); c.want == "" && (err == nil || got != before) || c.want != "" &&
				(err != nil || got != strings.Replace(c.want, "HERE", here, 1)) {
				t.Errorf("%v\n%s", err, got)
			}
		})
	}
}

// TestUnpackFollowsNoLinks: links that a stream makes, or that are there, lead to nothing else.
func TestUnpackFollowsNoLinks(t *testing.T) {
	for _, entries := range [][]string{
		{"x -> .", "x/.profile"}, {"x -> ..", "x/out"}, {"x/", "x/l -> ../.profile", "x/l"},
		{"x/", "x/l -> ..", "x/l/.profile"},
		{"x/", "x/l -> ../../out", "x/l"}, {"x/", "x/l -> /", "x/l/etc/cantina-test"}, {"x/", "x/old/.profile"},
	} {
		dir := t.TempDir()
		for _, err := range []error{os.MkdirAll(dir+"/here/x", 0o755),
			os.WriteFile(dir+"/here/.profile", []byte("mine"), 0o600),
			os.WriteFile(dir+"/out", []byte("mine"), 0o600), os.Symlink("..", dir+"/here/x/old")} {
			if err != nil {
				t.Fatal(err)
			}
		}
		err := Unpack(t.Context(), stream(t, entries...), dir+"/here", "x", 0)
		got := content(t, dir)
		if !strings.Contains(got, "here/.profile=mine") || !strings.Contains(got, "out=mine") {
			t.Errorf("%q: %v: %s", entries, err, got)
		}
		if _, err := os.Lstat("/etc/cantina-test"); err == nil {
			t.Fatalf("%q: written outside", entries)
		}
	}
}

// TestPackAndUnpack: modes, links and times survive; existing directories keep their modes.
func TestPackAndUnpack(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{os.MkdirAll(dir+"/a/sub", 0o750), os.WriteFile(dir+"/a/sub/f", []byte("one"), 0o604),
		os.Symlink("sub/f", dir+"/a/l"), os.Symlink("a", dir+"/top"), os.MkdirAll(dir+"/to/top/sub", 0o711)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := Pack(t.Context(), dir+"/top", &b); err != nil {
		t.Fatal(err)
	}
	text := b.Bytes()
	if err := Unpack(t.Context(), bytes.NewReader(text), dir+"/to", BaseOf(dir+"/top"), 0); err != nil {
		t.Fatal(err)
	}
	if got := content(t, dir+"/to"); got != "top/ top/l -> sub/f top/sub/ top/sub/f=one" {
		t.Error(got)
	}
	info, err := os.Stat(dir + "/to/top/sub/f")
	if err != nil || info.Mode() != 0o604 {
		t.Error(info.Mode(), err)
	}
	was, err := os.Stat(dir + "/a/sub/f")
	if err != nil || info.ModTime().Sub(was.ModTime()).Abs() > time.Second/2 { // archives round to seconds
		t.Error(info.ModTime(), err)
	}
	if info, err := os.Stat(dir + "/to/top/sub"); err != nil || info.Mode().Perm() != 0o711 {
		t.Error(info.Mode(), err)
	}
	if err := Unpack(t.Context(), bytes.NewReader(text), dir+"/new", BaseOf(dir+"/top"), 0); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir + "/new/sub"); err != nil || info.Mode().Perm() != 0o750 {
		t.Error(info.Mode(), err)
	}
	if err := Unpack(t.Context(), bytes.NewReader(text), dir+"/small", BaseOf(dir+"/top"), 4096); err == nil {
		t.Error("more than the limit was unpacked")
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := Pack(ctx, dir+"/top", &b); err == nil {
		t.Error("packed without end")
	}
	for name, want := range map[string]string{"/": "", "/a": "a", "/a/": "a", "/a/.": "", ".": "", "a/b": "b"} {
		if got := BaseOf(name); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}
