package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cantina/task"
)

// TestUnreadInputIsReported: for a pipe, a socket or a file with content; not for empty
// input, a device or a terminal.
func TestUnreadInputIsReported(t *testing.T) {
	open := func(text string) *os.File {
		name := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	pipe := func(text string) *os.File {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = r.Close(), w.Close() })
		if _, err := w.WriteString(text); err != nil {
			t.Fatal(err)
		}
		return r
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	read := open("all of it")
	if _, err := read.Seek(0, 2); err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		in   *os.File
		want bool
	}{
		"file": {open("x"), true}, "pipe": {pipe("x"), true}, "empty file": {open(""), false}, "read file": {read, false},
		"silent pipe": {pipe(""), false}, "device": {null, false},
	} {
		if got := waits(x.in); got != x.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestRunReportsThatATaskHasNoInput(t *testing.T) {
	for _, in := range []string{"", "three\nlines\nhere\n"} {
		s := newShell(t)
		s.in = in
		_, errs, code := s.run("run", "-d", "--id", "t", "--", "wc", "-l")
		if code != 0 || strings.Count(errs, "standard input is ignored") != min(len(in), 1) {
			t.Errorf("input %q: code %d, %s", in, code, errs)
		}
		s.SetTask("t", func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Succeeded })
	}
	s := newShell(t)
	s.in, s.tty = "typed ahead", true
	if _, errs, _ := s.run("run", "-d", "--", "true"); strings.Contains(errs, "standard input") {
		t.Errorf("at a terminal: %s", errs)
	}
}
