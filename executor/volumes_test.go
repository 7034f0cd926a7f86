package executor

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"cantina/action"
	"cantina/internal/removal"
	"cantina/logstore"
)

// volumeTree makes files below a directory that any user may write, and returns the allowed directory.
func volumeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(tempDir(t), "allowed")
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o666),
			os.Chmod(at, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(at, 0o777)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// contents are the files below a directory, with their texts.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(at)
		name, _ := filepath.Rel(dir, at)
		out[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// mounted are the levels that have volumes.
func mounted(t *testing.T) map[string]action.Workload {
	t.Helper()
	all := levels(t)
	for _, name := range []string{"process", "none", "kept"} {
		delete(all, name)
	}
	return all
}

// onVolumes uses volumes of each kind: it reads, writes, and prints the options of their mounts.
const onVolumes = `trap 'echo failed' EXIT
set -e
cat /tmp/v/data/in
echo new > /tmp/v/data/sub/out
cat /tmp/v/only/in
! echo x > /tmp/v/only/in
! echo x > /tmp/v/only/made
echo changed > /tmp/v/file
cat /tmp/v/fixed
! echo x > /tmp/v/fixed
cat /tmp/v/data/sub/inner/in
while read -r a b c d at options rest; do
	case $at in /tmp/v/*) echo "$at ${options%%,relatime*}";; esac
done < /proc/self/mountinfo
echo up
`

// TestVolumes: a container has files and directories of its machine at paths of its own, at each level with mounts, for
// each of its programs, and for those beside it. They have no set-user-ID programs and no devices. They are what they
// were when the container is gone, but for what it has written.
func TestVolumes(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for level, w := range mounted(t) {
		t.Run(level, func(t *testing.T) {
			dir := volumeTree(t, map[string]string{"data/in": "in data\n", "data/sub/keep": "keep", "only/in": "in only\n",
				"file": "old\n", "fixed": "fixed\n", "inner/in": "in inner\n", "data/sub/inner/hidden": ""})
			e := testExecutor(t, func(c *Config) { c.Volumes = []action.VolumeDir{{Path: dir}} })
			mounts := count(t, e).mounts
			s := Spec{Workload: w}
			s.Workload.Action.Run = &action.Run{Path: "/bin/sh", Args: []string{"-c", onVolumes + "exec sleep 1000"}}
			for at, from := range map[string]string{"data": "data", "only:ro": "only", "file": "file", "fixed:ro": "fixed",
				"data/sub/inner": "inner"} {
				at, only := strings.CutSuffix(at, ":ro")
				s.Workload.Volumes = append(s.Workload.Volumes, action.Volume{Host: filepath.Join(dir, from),
					Container: "/tmp/v/" + at, ReadOnly: only})
			}
			if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
				t.Fatal(err)
			}
			awaitOutput(t, e, logstore.Query{IDs: []string{"x"}}, func(l string) bool { return l == "up" || l == "failed" })
			out := lines(t, e, "x", logstore.Stdout)
			slices.Sort(out[min(4, len(out)):])
			if want := []string{"in data", "in only", "fixed", "in inner", "/tmp/v/data rw,nosuid,nodev",
				"/tmp/v/data/sub/inner rw,nosuid,nodev", "/tmp/v/file rw,nosuid,nodev", "/tmp/v/fixed ro,nosuid,nodev",
				"/tmp/v/only ro,nosuid,nodev", "up"}; !slices.Equal(out, want) {
				c, _ := e.Get("x")
				t.Fatalf("%q\n%q\n%+v", out, lines(t, e, "x", logstore.Stderr), c.Result)
			}
			x, err := e.Exec(t.Context(), "x", ExecSpec{Path: "/bin/sh", Args: []string{"-c",
				"cat /tmp/v/data/in && ! echo x > /tmp/v/only/in"}})
			if err != nil {
				t.Fatal(err)
			}
			if got := readAll(t, x.Stdout); got != "in data\n" {
				t.Errorf("exec: %q", got)
			}
			if r, err := x.Wait(t.Context()); err != nil || r.ExitCode != 0 {
				t.Errorf("exec: %+v, %v", r, err)
			}
			if err := x.Close(); err != nil {
				t.Error(err)
			}
			e.Delete("x")
			await(t, e, "x", gone)
			want := map[string]string{"data/in": "in data\n", "data/sub/keep": "keep", "data/sub/out": "new\n",
				"only/in": "in only\n", "file": "changed\n", "fixed": "fixed\n", "inner/in": "in inner\n",
				"data/sub/inner/hidden": ""}
			if got := contents(t, dir); !maps.Equal(got, want) {
				t.Errorf("left on the machine: %v", got)
			}
			if now := count(t, e).mounts; now != mounts {
				t.Errorf("%d mounts, before %d", now, mounts)
			}
		})
	}
}

// TestVolumesOfSeveralPrograms: setup, the main program and a check see the same volumes.
func TestVolumesOfSeveralPrograms(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for level, w := range mounted(t) {
		dir := volumeTree(t, map[string]string{"data/in": "in"})
		e := testExecutor(t, func(c *Config) { c.Volumes = []action.VolumeDir{{Path: dir}} })
		run := func(script string) action.Action {
			return action.Action{Run: &action.Run{Path: "/bin/sh", Args: []string{"-c", script}}}
		}
		setup := run("echo setup > /tmp/data/setup")
		s := Spec{Workload: w}
		s.Workload.Volumes = []action.Volume{{Host: dir + "/data", Container: "/tmp/data"}}
		s.Workload.Setup = &setup
		s.Workload.Action = run("cat /tmp/data/setup > /tmp/data/main; exec sleep 1000")
		s.Workload.Checks = []action.Check{{Exec: run("read -r x < /tmp/data/main && echo $x > /tmp/data/check").Run}}
		if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
			t.Fatal(err)
		}
		if c := await(t, e, "x", runningState); c.State != Running {
			t.Errorf("%s: %+v", level, c.Result)
		}
		if got := contents(t, dir)["data/check"]; got != "setup\n" {
			t.Errorf("%s: %q", level, got)
		}
		e.Delete("x") // a kept one would stay
		await(t, e, "x", gone)
	}
}

// TestVolumesStayInside: no path and no link leads out of the allowed directories, and a refused one is named with the
// reason. Nothing is made on the machine.
func TestVolumesStayInside(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := volumeTree(t, map[string]string{"data/in": "in", "file": "file"})
	outside := filepath.Join(filepath.Dir(dir), "allowed2")
	if err := errors.Join(os.Mkdir(outside, 0o755), os.WriteFile(outside+"/key", []byte("theirs"), 0o644),
		os.Mkdir(dir+"/deep", 0o755), syscall.Mkfifo(dir+"/pipe", 0o600), os.Mkdir(dir+"2/ro", 0o755)); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"inside": "data", "absolute": dir + "/data", "out": "../allowed2",
		"file-out": "../allowed2/key", "deep/out": "../../allowed2", "root": "/", "magic": "/proc/self/root", "loop": "loop",
		"dangling": "gone"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	before := contents(t, filepath.Dir(dir))
	e := testExecutor(t, func(c *Config) {
		c.Volumes = []action.VolumeDir{{Path: dir}, {Path: outside + "/ro", ReadOnly: true}}
	})
	none := testExecutor(t, nil)
	const links = "a symbolic link leads out of the allowed directory"
	for name, x := range map[string]struct {
		e       *Executor
		v       action.Volume
		problem string // empty = it runs
	}{
		"the directory itself":    {e, action.Volume{Host: dir, Container: "/tmp/a"}, ""},
		"a link inside":           {e, action.Volume{Host: dir + "/inside", Container: "/tmp/a"}, ""},
		"an absolute link":        {e, action.Volume{Host: dir + "/absolute", Container: "/tmp/a"}, links},
		"a link out":              {e, action.Volume{Host: dir + "/out", Container: "/tmp/a"}, links},
		"through a link out":      {e, action.Volume{Host: dir + "/out/key", Container: "/tmp/a"}, links},
		"a link to a file":        {e, action.Volume{Host: dir + "/file-out", Container: "/tmp/a"}, links},
		"a deep link":             {e, action.Volume{Host: dir + "/deep/out/key", Container: "/tmp/a"}, links},
		"the root":                {e, action.Volume{Host: dir + "/root", Container: "/tmp/a"}, links},
		"a link of the kernel":    {e, action.Volume{Host: dir + "/magic", Container: "/tmp/a"}, links},
		"a circle":                {e, action.Volume{Host: dir + "/loop", Container: "/tmp/a"}, links},
		"a link to nothing":       {e, action.Volume{Host: dir + "/dangling", Container: "/tmp/a"}, "no such file"},
		"a missing path":          {e, action.Volume{Host: dir + "/gone", Container: "/tmp/a"}, "/gone: no such file"},
		"a file as a directory":   {e, action.Volume{Host: dir + "/file/x", Container: "/tmp/a"}, "not a directory"},
		"a pipe":                  {e, action.Volume{Host: dir + "/pipe", Container: "/tmp/a"}, "neither a directory nor"},
		"another directory":       {e, action.Volume{Host: outside, Container: "/tmp/a"}, "this cell allows only " + dir},
		"above":                   {e, action.Volume{Host: filepath.Dir(dir), Container: "/tmp/a"}, "this cell allows only"},
		"a read-only directory":   {e, action.Volume{Host: outside + "/ro", Container: "/tmp/a"}, "only with :ro"},
		"read-only in it":         {e, action.Volume{Host: outside + "/ro", Container: "/tmp/a", ReadOnly: true}, ""},
		"none allowed":            {none, action.Volume{Host: dir, Container: "/tmp/a"}, "this cell allows no volumes"},
		"the parent":              {e, action.Volume{Host: dir + "/../allowed2", Container: "/tmp/a"}, "must be without .."},
		"relative":                {e, action.Volume{Host: "data", Container: "/tmp/a"}, "must be an absolute path"},
		"the own root":            {e, action.Volume{Host: dir, Container: "/"}, "must be below /"},
		"processes":               {e, action.Volume{Host: dir, Container: "/proc/sys"}, "/proc belongs to the container"},
		"the data of the cell":    {e, action.Volume{Host: dir, Container: e.cfg.Dir}, "overlaps the cell's data directory"},
		"a directory on a file":   {e, action.Volume{Host: dir, Container: "/etc/passwd"}, "one of both is a directory"},
		"a missing mount point":   {e, action.Volume{Host: dir, Container: "/no/such/path"}, "does not have this path"},
		"a mount point in a file": {e, action.Volume{Host: dir, Container: "/etc/passwd/x"}, "not a directory"},
	} {
		s := sh("ls /tmp/a > /dev/null")
		s.Workload.Isolation, s.Workload.Volumes = action.IsolationNamespaces, []action.Volume{x.v}
		r := launch(t, x.e, strings.ReplaceAll(name, " ", "-"), s).Result
		if r.Failed != (x.problem != "") || !strings.Contains(r.Reason, x.problem) ||
			x.problem != "" && !strings.Contains(r.Reason, "volume") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	s := sh("true")
	s.Workload.Volumes = []action.Volume{{Host: dir, Container: "/tmp/a"}}
	if r := launch(t, e, "process", s).Result; !r.Failed ||
		!strings.Contains(r.Reason, "isolation process has no mounts") {
		t.Errorf("%+v", r)
	}
	if after := contents(t, filepath.Dir(dir)); !maps.Equal(before, after) {
		t.Errorf("before %v, after %v", before, after)
	}
}

// TestVolumesInARoot: mount points are made where the image has none. A link of the image leads a mount point to where
// programs see it, never out of the root. No transfer ends below a volume, where no program would see it.
func TestVolumesInARoot(t *testing.T) {
	t.Parallel()
	needRoot(t)
	root := smallRoot(t)
	outside := tempDir(t)
	if err := errors.Join(os.Symlink(outside, root+"/out"), os.Symlink("../../../../../../../..", root+"/up"),
		os.Mkdir(root+"/run", 0o755), os.Symlink("/run", root+"/link"),
		os.Symlink("/no/such", root+"/dangling")); err != nil {
		t.Fatal(err)
	}
	image := contents(t, root)
	dir := volumeTree(t, map[string]string{"data/in": "in\n"})
	e := testExecutor(t, func(c *Config) { c.Volumes = []action.VolumeDir{{Path: dir}} })
	for at, seen := range map[string]string{"/new/deep/path": "/new/deep/path", "/etc": "/etc", "/link/x": "/run/x",
		"/up/x": "/x"} {
		s := sh("cat " + seen + "/in")
		s.Workload.Isolation, s.Workload.Rootfs, s.Workload.User = action.IsolationRootfs, root, "0"
		s.Workload.Volumes = []action.Volume{{Host: dir + "/data", Container: at}}
		id := strings.ReplaceAll("at"+at, "/", "-")
		r := launch(t, e, id, s).Result
		if out := lines(t, e, id, logstore.Stdout); r.Failed || !slices.Equal(out, []string{"in"}) {
			t.Errorf("%s: %q %+v", at, out, r)
		}
	}
	for at, problem := range map[string]string{"/dangling": "leads to a missing path",
		"/dangling/x": "leads to a missing path",
		"/out":        "leads to a missing path", "/out/x": "leads to a missing path",
		"/cantina/x": "container's own directory",
		"/bin/sh":    "one of both is a directory", "/bin/sh/x": "not a directory"} {
		s := sh("true")
		s.Workload.Isolation, s.Workload.Rootfs = action.IsolationRootfs, root
		s.Workload.Volumes = []action.Volume{{Host: dir + "/data", Container: at}}
		r := launch(t, e, strings.ReplaceAll("bad"+at, "/", "-"), s).Result
		if !r.Failed || !strings.Contains(r.Reason, problem) {
			t.Errorf("%s: %+v", at, r)
		}
	}
	source := filepath.Join(tempDir(t), "source")
	if err := errors.Join(os.WriteFile(source, []byte("fetched"), 0o644)); err != nil {
		t.Fatal(err)
	}
	s := sh("true")
	s.Workload.Isolation, s.Workload.Rootfs = action.IsolationRootfs, root
	s.Workload.Volumes = []action.Volume{{Host: dir + "/data", Container: "/data"}}
	s.Workload.Setup = &action.Action{Download: &action.Download{From: "file://" + source, To: "/data/fetched",
		AllowUnpinned: true}}
	if r := launch(t, e, "transfer", s).Result; !r.Failed || !strings.Contains(r.Reason, "is in a volume") {
		t.Errorf("%+v", r)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("made outside: %v, %v", left, err)
	}
	if now := contents(t, root); !maps.Equal(image, now) {
		t.Errorf("the image was changed")
	}
}

// TestVolumesDoNotRace: while a directory and a link out of the allowed one are exchanged all the time, a container
// gets the directory or an error.
func TestVolumesDoNotRace(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := volumeTree(t, map[string]string{"way/data/in": "inside"})
	outside := filepath.Join(filepath.Dir(dir), "outside")
	if err := errors.Join(os.MkdirAll(outside+"/data", 0o755), os.WriteFile(outside+"/data/in", []byte("outside"), 0o644),
		os.Symlink(outside, dir+"/other")); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan error)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, dir+"/way", unix.AT_FDCWD, dir+"/other", unix.RENAME_EXCHANGE); err != nil {
				stopped <- err
				return
			}
		}
	}()
	e := testExecutor(t, func(c *Config) { c.Volumes = []action.VolumeDir{{Path: dir}} })
	got := map[string]int{}
	for i := range 60 {
		s := sh("cat /tmp/a/in")
		s.Workload.Isolation = action.IsolationNamespaces
		s.Workload.Volumes = []action.Volume{{Host: dir + "/way/data", Container: "/tmp/a"}}
		id := fmt.Sprint("x", i)
		switch r := launch(t, e, id, s).Result; {
		case !r.Failed:
			got[strings.Join(lines(t, e, id, logstore.Stdout), "|")]++
		case strings.Contains(r.Reason, "symbolic link"):
			got["refused"]++
		default:
			t.Errorf("%+v", r)
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Skip("skipped: this file system exchanges no names: ", err)
	}
	if got["inside"]+got["refused"] != 60 || got["inside"] == 0 || got["refused"] == 0 {
		t.Errorf("%v", got)
	}
}

// TestAnAllowedDirectoryIsWhatItWas: after its path has become a link, nothing of it is given.
func TestAnAllowedDirectoryIsWhatItWas(t *testing.T) {
	needRoot(t)
	dir := volumeTree(t, map[string]string{"data/in": "in"})
	link := filepath.Join(tempDir(t), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	e := testExecutor(t, func(c *Config) { c.Volumes = []action.VolumeDir{{Path: link}} })
	s := sh("cat /tmp/a/in")
	s.Workload.Isolation = action.IsolationNamespaces
	s.Workload.Volumes = []action.Volume{{Host: link + "/data", Container: "/tmp/a"}}
	if r := launch(t, e, "before", s).Result; r.Failed {
		t.Errorf("through the operator's own link: %+v", r)
	}
	if err := errors.Join(os.Rename(dir, dir+"-moved"), os.Symlink("/etc", dir)); err != nil {
		t.Fatal(err)
	}
	s.Workload.Volumes[0].Host = link
	if r := launch(t, e, "after", s).Result; !r.Failed || !strings.Contains(r.Reason, "has a symbolic link now") {
		t.Errorf("%+v", r)
	}
}

// TestVolumeDirectoriesAreApart from each other and from the cell's own.
func TestVolumeDirectoriesAreApart(t *testing.T) {
	dir := tempDir(t)
	if err := errors.Join(os.MkdirAll(dir+"/data/executor", 0o755), os.MkdirAll(dir+"/a/b", 0o755),
		os.MkdirAll(dir+"/secrets/d", 0o755), os.Symlink("a/b", dir+"/link"),
		os.WriteFile(dir+"/file", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for problem, list := range map[string][]string{
		"overlaps the data directory": {"data"}, "no such file": {"gone"}, "not a directory": {"file"},
		"overlaps the directory of secrets": {"secrets/d"}, "b overlaps": {"a", "a/b"}, "link overlaps": {"a", "link"},
		"a overlaps": {"a/b", "a"}, "overlaps the": {"."},
	} {
		cfg := testConfig(dir + "/data/executor")
		cfg.Secrets = dir + "/secrets"
		for _, name := range list {
			cfg.Volumes = append(cfg.Volumes, action.VolumeDir{Path: filepath.Join(dir, name)})
		}
		e, err := Open(cfg)
		if err == nil {
			e.release()
		}
		if err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%v: %v; want %s", list, err, problem)
		}
	}
}

// TestVolumesOutliveTheirContainers: whatever ends a container, the files of its volumes stay: also when the cell and
// its reaper are killed, when a successor clears up, and when the directory is removed while the volume is mounted.
func TestVolumesOutliveTheirContainers(t *testing.T) {
	t.Parallel()
	needRoot(t)
	files := map[string]string{"data/a": "a", "data/deep/er/b": "b", "file": "c"}
	dir := volumeTree(t, files)
	dataDir := tempDir(t)
	s := script{Dir: dataDir, Volumes: []action.VolumeDir{{Path: dir}}}
	for level, w := range mounted(t) {
		x := Spec{Workload: w}
		x.Workload.Action.Run = &action.Run{Path: "/bin/sh", Args: []string{"-c", "exec sleep 1000"}}
		x.Workload.Volumes = []action.Volume{{Host: dir + "/data", Container: "/tmp/v/data"},
			{Host: dir + "/file", Container: "/tmp/v/file"}}
		s.Jobs = append(s.Jobs, job{ID: level, Spec: x})
	}
	c := startCell(t, s)
	dirs, err := dirsIn(filepath.Join(dataDir, "run"))
	if err != nil || len(dirs) < len(s.Jobs) {
		t.Fatalf("%v, %v", dirs, err)
	}
	for _, at := range dirs[:len(dirs)/2] { // as after a fault: their processes live
		if err := removal.Tree(at); err != nil {
			t.Error(err)
		}
	}
	if err := unix.Kill(reaperOf(t, dataDir).Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.kill(t)
	cfg := testConfig(dataDir)
	cfg.Volumes = s.Volumes
	e, stop := runExecutor(t, cfg)
	for _, x := range e.List() {
		e.Delete(x.ID)
		await(t, e, x.ID, gone)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Join(dataDir, "run")); err != nil || len(left) != 0 {
		t.Errorf("containers: %v, %v", left, err)
	}
	if got := contents(t, dir); !maps.Equal(got, files) {
		t.Errorf("left on the machine: %v", got)
	}
}
