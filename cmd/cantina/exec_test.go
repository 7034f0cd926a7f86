package main

import (
	"archive/tar"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cantina/api"
)

// TestExecCodes: the exit code is that of the program, with the codes of a shell for a signal and for a program that
// does not start. --client-exit-code gives 0 or 1.
func TestExecCodes(t *testing.T) {
	s := newShell(t)
	s.apply()
	for _, c := range []struct {
		want int
		args []string
	}{
		{0, []string{"exit", "0"}}, {7, []string{"exit", "7"}}, {143, []string{"kill", "15"}}, {137, []string{"kill", "9"}},
		{127, []string{"nosuch"}},
	} {
		if _, errs, code := s.run(append([]string{"exec", "web/0", "--"}, c.args...)...); code != c.want {
			t.Errorf("%q: %d, want %d: %s", c.args, code, c.want, errs)
		}
		want := min(c.want, 1)
		if _, errs, code := s.run(append([]string{"exec", "--client-exit-code", "web/0", "--"}, c.args...)...); code != want {
			t.Errorf("%q with --client-exit-code: %d: %s", c.args, code, errs)
		}
	}
	for text, args := range map[string][]string{
		"no SUBJECT":                              {"exec"},
		"no program given; for example":           {"exec", "web"},
		"write --":                                {"exec", "web", "ls"},
		"a cell has no container":                 {"exec", "cell/c1", "--", "ls"},
		"-t needs a terminal":                     {"exec", "-it", "web", "--", "ls"},
		`"ctrl-1" is not a valid key`:             {"exec", "--detach-keys", "ctrl-1", "web", "--", "ls"},
		"the name must not be empty":              {"exec", "-e", "=x", "web", "--", "ls"},
		"one of source and destination":           {"cp", "web:a", "web:b"},
		"one of source and destination must be S": {"cp", "a", "./b:c"},
	} {
		s.fails(api.ExitUsage, text, args...)
	}
	s.fails(api.ExitNotFound, "not found", "exec", "none", "--", "ls")
	s.fails(api.ExitNotFound, "not found", "cp", "none:x", ".")
}

// TestExecInput: without -i the program has an empty input. The first of several is noted. TERM and --env arrive.
func TestExecInput(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.in = "typed\n"
	if got := s.ok("exec", "web", "--", "cat"); got != "" {
		t.Errorf("%q", got)
	}
	s.Containers.Running = 3
	out, errs, code := s.run("exec", "-i", "web", "--", "cat")
	if out != "typed\n" || code != 0 || !strings.Contains(errs, "3 are running; using web/0 on cell c1") {
		t.Errorf("%q %q %d", out, errs, code)
	}
	if _, errs, _ := s.run("exec", "-q", "web", "--", "cat"); errs != "" {
		t.Errorf("%q", errs)
	}
	s.env["TERM"], s.env["LOCAL"] = "vt100", "here"
	if got := s.ok("exec", "-t", "web", "-e", "A=b", "-e", "LOCAL", "--", "env"); got != "TERM=vt100\nA=b\nLOCAL=here\n" {
		t.Errorf("%q", got)
	}
	s.ok("exec", "-w", "/tmp", "-u", "app", "web/0", "--", "exit", "0")
	if p := s.Containers.Last().GetProgram(); p.GetDir() != "/tmp" || p.GetUser() != "app" {
		t.Error(p)
	}
}

// TestCompletionOfCopies: names of work get a colon, files are the shell's own.
func TestCompletionOfCopies(t *testing.T) {
	s := newShell(t)
	s.apply()
	if got := s.ok("__complete", "exec", "we"); !strings.Contains(got, "web\n") {
		t.Error(got)
	}
	if got := s.ok("__complete", "cp", "we"); !strings.Contains(got, "web:\n") {
		t.Error(got)
	}
	if got := s.ok("__complete", "cp", "./w"); strings.Contains(got, "web") || !strings.Contains(got, ":0\n") {
		t.Error(got)
	}
}

func TestDetachKeys(t *testing.T) {
	for _, c := range []struct {
		keys, typed, want string
		detach            bool
	}{
		{"ctrl-p,ctrl-q", "ab\x10\x11c", "ab", true}, {"ctrl-p,ctrl-q", "a\x10b\x11", "a\x10b\x11", false},
		{"ctrl-p,ctrl-q", "\x10\x10\x11", "\x10", true}, {"", "\x10\x11", "\x10\x11", false},
		{"a", "xa", "x", true}, {"ctrl-],x", "\x1dx", "", true}, {"ctrl-p,ctrl-q", "a\x10", "a", false},
	} {
		keys, err := parseDetachKeys(c.keys)
		if err != nil {
			t.Fatal(err)
		}
		whole, single := detacher{keys: keys}, detacher{keys: keys}
		if got, detach := whole.filter([]byte(c.typed)); string(got) != c.want || detach != c.detach {
			t.Errorf("%+v: %q, %v", c, got, detach)
		}
		var got []byte
		detached := false
		for i := range len(c.typed) {
			if !detached {
				var out []byte
				out, detached = single.filter([]byte{c.typed[i]})
				got = append(got, out...)
			}
		}
		if string(got) != c.want || detached != c.detach {
			t.Errorf("%+v, one by one: %q, %v", c, got, detached)
		}
	}
}

func TestCopyEnds(t *testing.T) {
	for text, want := range map[string]copyEnd{
		"web:/a": {"web", "/a"}, "web/0:a:b": {"web/0", "a:b"}, "./web:a": {"", "./web:a"}, "/a:b": {"", "/a:b"},
		"-": {"", "-"}, "a": {"", "a"}, "web:": {"web", "."}, "count[host:80]:/x": {"count[host:80]", "/x"},
		"..": {"", ".."}, "task/t1:/": {"task/t1", "/"}, "a:b[1]:c": {"a", "b[1]:c"},
	} {
		if got := copyEndOf(text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

// TestCopyFiles: a file goes in and comes back, and a hostile container writes nothing beside the destination.
func TestCopyFiles(t *testing.T) {
	s := newShell(t)
	s.apply()
	dir := t.TempDir()
	source := filepath.Join(dir, "x")
	if err := os.WriteFile(source, bytes.Repeat([]byte("content"), 500_000), 0o640); err != nil {
		t.Fatal(err)
	}
	s.ok("cp", source, "web/0:/in/x")
	if c := s.Containers.Last().GetCopy(); c.GetName() != "x" || c.GetPath() != "/in/x" || !c.GetToContainer() {
		t.Error(c)
	}
	s.ok("cp", "-u", "root", "web/0:/in/x", dir+"/back")
	if c := s.Containers.Last().GetCopy(); c.GetUser() != "root" || c.GetToContainer() {
		t.Error(c)
	}
	want, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(dir + "/back"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v, %d bytes", err, len(got))
	}
	stream := s.ok("cp", "web/0:/in/x", "-")
	if h, err := tar.NewReader(strings.NewReader(stream)).Next(); err != nil || h.Name != "x" || h.Mode != 0o640 {
		t.Error(h, err)
	}
	s.in = stream
	s.ok("cp", "-", "web/0:/in")
	if c := s.Containers.Last().GetCopy(); c.GetName() != "" || !c.GetToContainer() {
		t.Error(c)
	}
	s.ok("cp", dir+"/.", "web/0:/in")
	if c := s.Containers.Last().GetCopy(); c.GetName() != "" {
		t.Error(c)
	}
	s.fails(api.ExitFailed, "web/0:/none: lstat /none: no such file or directory", "cp", "web/0:/none", dir)
	s.fails(api.ExitFailed, "no such file", "cp", dir+"/none", "web/0:/in")
	s.fails(api.ExitFailed, "no such file", "cp", "web/0:/in/x", dir+"/no/dir")
	if err := os.Chmod(source, 0); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{"x/", "../out", "/tmp/cantina-out", ".profile"} {
		kind := byte(tar.TypeReg)
		if strings.HasSuffix(name, "/") {
			kind = tar.TypeDir
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: kind, Mode: 0o755}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s.Containers.Hold("/evil/x", b.Bytes())
	here := filepath.Join(dir, "here")
	if err := os.Mkdir(here, 0o755); err != nil {
		t.Fatal(err)
	}
	s.fails(api.ExitFailed, "outside the copied file or directory", "cp", "web/0:/evil/x", here)
	for _, name := range []string{dir + "/out", here + "/out", here + "/.profile", "/tmp/cantina-out"} {
		if _, err := os.Lstat(name); err == nil {
			t.Errorf("%s was written", name)
		}
	}
}
