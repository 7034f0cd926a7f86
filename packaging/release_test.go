package packaging

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// made writes all files of a release into a new directory.
func made(t *testing.T) string {
	t.Helper()
	dir, pages := t.TempDir(), t.TempDir()
	for _, page := range []string{"cantina.1", "cantina-server.1", "bash", "zsh", "fish"} {
		if err := os.WriteFile(filepath.Join(pages, page), []byte("text of "+page+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", program,
		"cantina/cmd/cantina-reaper")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	r := Release{Version: "v0.1.0-rc1", Next: "0.1.0", Time: time.Unix(1700000000, 0), Source: ".."}
	b := Build{Arch: runtime.GOARCH, Program: program, Pages: pages}
	to := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(r.Archive(b, to("cantina.tar.gz")), r.Image(b, to("image.tar")), r.BOM(b, to("bom.json")),
		r.Deb(t.Context(), b, to("cantina.deb"), "none"), Sums(dir))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSameBytes: two runs give the same files, whatever the umask.
func TestSameBytes(t *testing.T) {
	first := made(t)
	old := syscall.Umask(0o077)
	second := made(t)
	syscall.Umask(old)
	all, err := os.ReadDir(first)
	if err != nil || len(all) != 5 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, f := range all {
		var sums [2][32]byte
		for i, dir := range []string{first, second} {
			data, err := os.ReadFile(filepath.Join(dir, f.Name()))
			if err != nil || len(data) == 0 {
				t.Fatalf("%s: %v", f.Name(), err)
			}
			sums[i] = sha256.Sum256(data)
		}
		if sums[0] != sums[1] {
			t.Errorf("%s differs", f.Name())
		}
	}
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = first
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
}

// TestContents looks into each file of a release.
func TestContents(t *testing.T) {
	dir := made(t)
	f, err := os.Open(filepath.Join(dir, "cantina.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	archive := list(t, z)
	for _, name := range []string{"cantina", "cantina/usr/bin/cantina", "cantina/usr/share/man/man1/cantina-server.1.gz",
		"cantina/usr/lib/systemd/system/cantina-cell.service", "cantina/etc/default/cantina-server"} {
		if archive[name] == nil {
			t.Errorf("the archive has no %s", name)
		}
	}

	text, err := exec.CommandContext(t.Context(), "dpkg-deb", "--contents", filepath.Join(dir, "cantina.deb")).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if !strings.Contains(line, " root/root ") {
			t.Errorf("not of root: %s", line)
		}
	}
	text, err = exec.CommandContext(t.Context(), "dpkg-deb", "--field", filepath.Join(dir, "cantina.deb"), "Version",
		"Architecture").Output()
	if want := "Version: 0.1.0~rc1\nArchitecture: " + runtime.GOARCH + "\n"; err != nil || string(text) != want {
		t.Errorf("%q, %v, want %q", text, err, want)
	}

	image, err := tarball.ImageFromPath(filepath.Join(dir, "image.tar"), nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil || config.Architecture != runtime.GOARCH || config.Config.User != "65532:65532" {
		t.Errorf("%+v, %v", config, err)
	}
	layers := mutate.Extract(image)
	defer layers.Close()
	files := list(t, layers)
	if p := files["usr/bin/cantina"]; p == nil || p.Mode != 0o755 {
		t.Errorf("program of the image: %+v", p)
	}
	if d := files[imageData]; d == nil || d.Uid != imageUser || d.Mode != 0o700 {
		t.Errorf("data directory of the image: %+v", d)
	}

	var bom struct {
		Components []struct{ Name, Version string }
		Metadata   struct{ Component struct{ Version string } }
	}
	text, err = os.ReadFile(filepath.Join(dir, "bom.json"))
	if err != nil || json.Unmarshal(text, &bom) != nil {
		t.Fatalf("%s, %v", text, err)
	}
	var names []string
	for _, c := range bom.Components {
		if c.Version == "" {
			t.Errorf("%s has no version", c.Name)
		}
		names = append(names, c.Name)
	}
	for _, want := range []string{"std", "golang.org/x/sys", "preact"} {
		if !slices.Contains(names, want) {
			t.Errorf("the bill of materials has no %s: %v", want, names)
		}
	}
	if bom.Metadata.Component.Version != "v0.1.0-rc1" {
		t.Errorf("version %q", bom.Metadata.Component.Version)
	}
}

func list(t *testing.T, from io.Reader) map[string]*tar.Header {
	t.Helper()
	out := map[string]*tar.Header{}
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(h.Name, "/")] = h
	}
}

// TestOrderOfDebVersions: a package of a later source is newer, for dpkg.
func TestOrderOfDebVersions(t *testing.T) {
	at := func(version string, minute int64) string {
		return Release{Version: version, Next: "0.2.0", Time: time.Unix(1700000000+60*minute, 0)}.debVersion()
	}
	ordered := []string{at("v0.1.0-rc1", 0), at("0.1.0", 0), at("f00d-dirty", 1), at("0123456", 2), at("v0.2.0", 3)}
	for i := range ordered[1:] {
		err := exec.CommandContext(t.Context(), "dpkg", "--compare-versions", ordered[i], "lt", ordered[i+1]).Run()
		if err != nil {
			t.Errorf("%s is not older than %s", ordered[i], ordered[i+1])
		}
	}
	next, err := NextVersion([]byte("# Changelog\n\n## [0.3.1] - 2030-01-01\n\n## 0.3.0\n"))
	if err != nil || next != "0.3.1" {
		t.Errorf("%q, %v", next, err)
	}
	if _, err := NextVersion([]byte("# Changelog\n")); err == nil {
		t.Error("a version of an empty changelog")
	}
}
