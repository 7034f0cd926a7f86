// Package packaging installs, starts, upgrades and removes the Debian package with dpkg.
package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"cantina/packaging"
)

// TestLifeOfThePackage runs testdata/life.sh with packages of two versions: on an overlay of the root file system, in
// namespaces of its own. There is no systemd in them: the commands of the units run as their users.
func TestLifeOfThePackage(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: mounts an overlay of the root file system")
	}
	for _, program := range []string{"dpkg-deb", "dpkg", "unshare", "setpriv", "systemd-sysusers", "systemd-analyze"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs Debian and systemd: %v", err)
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		text, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, text)
		}
		return string(text)
	}
	run("make", "-s", "executor/reaperbin/cantina-reaper")
	var debs []string
	for i, version := range []string{"first", "second"} {
		b := packaging.Build{Arch: runtime.GOARCH, Program: filepath.Join(dir, version),
			Pages: filepath.Join(dir, "pages-"+version)}
		run("go", "build", "-trimpath", "-ldflags=-s -w -X main.version="+version, "-o", b.Program, "./cmd/cantina")
		r := packaging.Release{Version: version, Next: "0.1.0", Time: time.Unix(1700000000+int64(i), 0), Source: root}
		if err := r.Pages(t.Context(), b.Program, b.Pages); err != nil {
			t.Fatal(err)
		}
		debs = append(debs, filepath.Join(dir, version+".deb"))
		if err := r.Deb(t.Context(), b, debs[i], "none"); err != nil {
			t.Fatal(err)
		}
	}
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	got := run("unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "bash",
		filepath.Join(root, "test", "packaging", "testdata", "life.sh"), debs[0], debs[1], work)
	if !strings.HasSuffix(got, "package is good\n") {
		t.Error(got)
	}
}
