package executor

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cantina/action"
)

func TestExec(t *testing.T) {
	t.Parallel()
	needRoot(t)
	root := smallRoot(t)
	for name, level := range map[string]action.Isolation{"process": action.IsolationProcess,
		"namespaces": action.IsolationNamespaces, "rootfs": action.IsolationRootfs} {
		t.Run(name, func(t *testing.T) {
			e := testExecutor(t, nil)
			s := sh("echo x > file; sleep 1000")
			s.Workload.Isolation, s.Workload.Rootfs = level, root
			s.Workload.Env = []action.Variable{{Name: "OF_CONTAINER", Value: "yes"}}
			if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
				t.Fatal(err)
			}
			await(t, e, "x", runningState)
			x, err := e.Exec(t.Context(), "x", ExecSpec{Path: "sh",
				Args: []string{"-c", "read a; echo got $a $OF_CONTAINER; echo bad >&2; exit 7"}})
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			io.WriteString(x.Stdin, "line\n")
			x.Stdin.Close()
			out, _ := io.ReadAll(x.Stdout)
			errs, _ := io.ReadAll(x.Stderr)
			r, err := x.Wait(t.Context())
			if err != nil || r.ExitCode != 7 || string(out) != "got line yes\n" || string(errs) != "bad\n" {
				t.Errorf("%+v %v %q %q", r, err, out, errs)
			}
			if level != action.IsolationProcess {
				y, err := e.Exec(t.Context(), "x", ExecSpec{Path: "cat", Args: []string{"/proc/1/cmdline"}})
				if err != nil {
					t.Fatal(err)
				}
				defer y.Close()
				if out, _ := io.ReadAll(y.Stdout); !bytes.Contains(out, []byte("sleep 1000")) {
					t.Errorf("process 1 is %q, not the container's", out)
				}
			}
			// Processes started by exec end with the container.
			z, err := e.Exec(t.Context(), "x", ExecSpec{Path: "sleep", Args: []string{"1000"}})
			if err != nil {
				t.Fatal(err)
			}
			defer z.Close()
			if err := e.Delete("x"); err != nil {
				t.Fatal(err)
			}
			if r, err := z.Wait(t.Context()); err != nil || r.Signal == 0 {
				t.Errorf("%+v %v", r, err)
			}
			await(t, e, "x", gone)
			if _, err := e.Exec(t.Context(), "x", ExecSpec{Path: "true"}); !errors.Is(err, ErrUnknown) {
				t.Errorf("exec in nothing: %v", err)
			}
		})
	}
}

func TestExecTerminal(t *testing.T) {
	e := testExecutor(t, nil)
	if err := e.Launch(Reservation{ID: "x"}, sh("sleep 1000")); err != nil {
		t.Fatal(err)
	}
	await(t, e, "x", runningState)
	x, err := e.Exec(t.Context(), "x", ExecSpec{Path: "/bin/sh", Terminal: true, Rows: 33, Cols: 99})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	// Ctrl-C reaches the foreground program only; the shell goes on. The program itself reports that it is in the
	// foreground: before that, Ctrl-C would reach the shell alone.
	io.WriteString(x.Stdin, "trap 'echo inter''rupted' INT; stty size; tty; sh -c 'echo fore''ground; exec sleep 1000'\n")
	if got := readUntil(t, x.Stdout, "foreground"); !strings.Contains(got, "/dev/pts/") {
		t.Errorf("no terminal: %q", got)
	}
	if err := x.Resize(44, 55); err != nil {
		t.Fatal(err)
	}
	io.WriteString(x.Stdin, "\x03")
	readUntil(t, x.Stdout, "interrupted")
	io.WriteString(x.Stdin, "stty size; exit 5\n")
	readUntil(t, x.Stdout, "44 55")
	if r, err := x.Wait(t.Context()); err != nil || r.ExitCode != 5 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestFailedExecHoldsNothing: after any failed start, both ends of each stream are closed.
func TestFailedExecHoldsNothing(t *testing.T) {
	e := testExecutor(t, nil)
	if err := e.Launch(Reservation{ID: "x"}, sh("echo up; sleep 1000")); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "x", "up")
	fails := func() {
		for _, s := range []ExecSpec{{Path: "/no/such"}, {Path: "/no/such", Terminal: true},
			{Path: "true", User: "nobody-of-this-name"},
			{Path: "true", Dir: "/no/such", Terminal: true, Rows: 1, Cols: 1}} {
			if x, err := e.Exec(t.Context(), "x", s); err == nil {
				x.Close()
				t.Errorf("%+v runs", s)
			}
		}
	}
	fails()
	before := count(t, e).descriptors
	for range 20 {
		fails()
	}
	// The cell has some open for a moment now and then; leaked ones stay.
	now := before + 1
	for end := time.Now().Add(10 * time.Second); now > before && time.Now().Before(end); {
		now = count(t, e).descriptors
	}
	if now > before {
		t.Errorf("%d descriptors, %d before", now, before)
	}
}

func readUntil(t *testing.T, r io.Reader, want string) string {
	t.Helper()
	var got strings.Builder
	buf := make([]byte, 1024)
	for !strings.Contains(got.String(), want) {
		n, err := r.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			t.Errorf("%q does not come, got %q: %v", want, got.String(), err)
			break
		}
	}
	return got.String()
}

// TestExecLeavesProcessesBehind: the streams end with the program, although a process that it has started holds them
// open. All output before that arrives.
func TestExecLeavesProcessesBehind(t *testing.T) {
	t.Parallel()
	e := testExecutor(t, nil)
	if err := e.Launch(Reservation{ID: "x"}, sh("sleep 1000")); err != nil {
		t.Fatal(err)
	}
	await(t, e, "x", runningState)
	for _, terminal := range []bool{false, true} {
		x, err := e.Exec(t.Context(), "x", ExecSpec{Path: "/bin/sh", Terminal: terminal,
			Args: []string{"-c", "setsid sleep 1000 & head -c 60000 /dev/zero | tr '\\0' x; echo end"}})
		if err != nil {
			t.Fatal(err)
		}
		out := make(chan []byte)
		go func() { b, _ := io.ReadAll(x.Stdout); out <- b }()
		r, err := x.Wait(t.Context())
		if got := string(<-out); err != nil || r.ExitCode != 0 || strings.Count(got, "x") != 60000 ||
			strings.TrimSpace(strings.Trim(got, "x")) != "end" {
			t.Errorf("terminal %v: %+v, %v, %d bytes", terminal, r, err, len(got))
		}
		x.Close()
	}
}

// TestExecWithoutGroups: without control groups a program and a copy work alike, and end with the container.
func TestExecWithoutGroups(t *testing.T) {
	e := testExecutor(t, func(c *Config) { c.Cgroups = CgroupNone })
	s := sh("echo here > f; echo up; sleep 1000")
	s.Workload.Termination.Grace = 100 * time.Millisecond
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	await(t, e, "x", runningState)
	awaitLine(t, e, "x", "up")
	var b bytes.Buffer
	if err := errors.Join(e.CopyOut(t.Context(), "x", CopySpec{Path: "f"}, &b),
		e.CopyIn(t.Context(), "x", CopySpec{Path: "g", Name: "f"}, &b)); err != nil {
		t.Fatal(err)
	}
	x, err := e.Exec(t.Context(), "x", ExecSpec{Path: "sh", Args: []string{"-c", "cat g; exec sleep 1000"}})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	readUntil(t, x.Stdout, "here")
	if err := e.Delete("x"); err != nil {
		t.Fatal(err)
	}
	if r, err := x.Wait(t.Context()); err != nil || r.Signal == 0 {
		t.Errorf("%+v %v", r, err)
	}
}

// TestEndOfTypedInput: the end of the input of a terminal is a character; the output continues.
func TestEndOfTypedInput(t *testing.T) {
	e := testExecutor(t, nil)
	if err := e.Launch(Reservation{ID: "x"}, sh("sleep 1000")); err != nil {
		t.Fatal(err)
	}
	await(t, e, "x", runningState)
	x, err := e.Exec(t.Context(), "x", ExecSpec{Path: "/bin/sh", Args: []string{"-c", "cat; echo rest"}, Terminal: true})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	io.WriteString(x.Stdin, "typed\n")
	x.Stdin.Close()
	readUntil(t, x.Stdout, "rest")
}

// tarOf is a tar stream of one file.
func tarOf(t *testing.T, name, content string) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o640, Size: int64(len(content))}
	if err := errors.Join(w.WriteHeader(h), func() error { _, err := io.WriteString(w, content); return err }(),
		w.Close()); err != nil {
		t.Fatal(err)
	}
	return &b
}

// TestCopyHasTheRightsOfTheUser: written files belong to the user of the container, and only files that this user
// may read or write are copied. Another user can be named.
func TestCopyHasTheRightsOfTheUser(t *testing.T) {
	needRoot(t)
	base, err := os.MkdirTemp("", "cantina-copy") // others may not pass through the cell's directory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	e := testExecutor(t, func(c *Config) { c.Dir = filepath.Join(base, "cell") })
	root := smallRoot(t)
	for name, level := range map[string]action.Isolation{"process": action.IsolationProcess,
		"namespaces": action.IsolationNamespaces, "rootfs": action.IsolationRootfs} {
		s := sh("echo up; sleep 1000")
		s.Workload.User, s.Workload.Isolation, s.Workload.Rootfs = "1234:1235", level, root
		if err := e.Launch(Reservation{ID: name}, s); err != nil {
			t.Fatal(err)
		}
		await(t, e, name, runningState)
		awaitLine(t, e, name, "up")
		as := func(user, path, file string) error {
			return e.CopyIn(t.Context(), name, CopySpec{Path: path, Name: file, User: user}, tarOf(t, file, "content"))
		}
		if err := as("", "own", "f"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := as("", "/usr/f", "f"); !strings.Contains(fmt.Sprint(err), "permission denied") &&
			!strings.Contains(fmt.Sprint(err), "read-only") {
			t.Errorf("%s: written where the user may not: %v", name, err)
		}
		if err := as("0:0", "roots", "f"); err != nil {
			t.Errorf("%s: as root: %v", name, err)
		}
		x, err := e.Exec(t.Context(), name, ExecSpec{Path: "ls", Args: []string{"-ln", "own", "roots"}})
		if err != nil {
			t.Fatal(err)
		}
		out, _ := io.ReadAll(x.Stdout)
		x.Close()
		if got := strings.Join(strings.Fields(string(out)), " "); !strings.Contains(got, "-rw-r----- 1 1234 1235 7 ") ||
			!strings.Contains(got, "-rw-r----- 1 0 0 7 ") {
			t.Errorf("%s: %q", name, got)
		}
		if err := e.CopyOut(t.Context(), name, CopySpec{Path: "own"}, io.Discard); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := e.CopyOut(t.Context(), name, CopySpec{Path: "roots"}, io.Discard); !strings.Contains(fmt.Sprint(err),
			"permission denied") {
			t.Errorf("%s: read what the user may not: %v", name, err)
		}
	}
}

// TestCopy: links in a directory stay links, and lead nowhere else than for a program of the container.
func TestCopy(t *testing.T) {
	t.Parallel()
	needRoot(t)
	root := smallRoot(t)
	for name, level := range map[string]action.Isolation{"process": action.IsolationProcess,
		"namespaces": action.IsolationNamespaces, "rootfs": action.IsolationRootfs} {
		t.Run(name, func(t *testing.T) {
			e := testExecutor(t, nil)
			outside := filepath.Join(tempDir(t), "secret")
			os.WriteFile(outside, []byte("secret"), 0o644)
			s := sh("mkdir -p d/e; echo one > d/a; echo two > d/e/b; ln -s a d/l; ln -s $PWD/d link; ln -s " + outside +
				" leak; ln -s ../../../../.." + filepath.Dir(outside) + " updir; echo ready; sleep 1000")
			s.Workload.Isolation, s.Workload.Rootfs = level, root
			if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
				t.Fatal(err)
			}
			await(t, e, "x", runningState)
			awaitLine(t, e, "x", "ready")
			var b bytes.Buffer
			if err := e.CopyOut(t.Context(), "x", CopySpec{Path: "link"}, &b); err != nil { // absolute, in the container
				t.Fatal(err)
			}
			if err := e.CopyIn(t.Context(), "x", CopySpec{Path: "in", Name: "link"}, &b); err != nil {
				t.Fatal(err)
			}
			x, err := e.Exec(t.Context(), "x", ExecSpec{Path: "sh", Args: []string{"-c", "cat in/a in/e/b; ls -l in/l"}})
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			if out, _ := io.ReadAll(x.Stdout); !strings.HasPrefix(string(out), "one\ntwo\n") ||
				!strings.HasSuffix(string(out), " -> a\n") {
				t.Errorf("copy holds %q", out)
			}
			if level != action.IsolationRootfs {
				return // it sees the files of the machine
			}
			for _, path := range []string{"leak", "updir/secret", "../../../../../.." + outside, outside} {
				b.Reset()
				if err := e.CopyOut(t.Context(), "x", CopySpec{Path: path}, &b); err == nil {
					t.Errorf("%s led out of the container: %q", path, b.String())
				}
			}
			at := CopySpec{Path: "updir/secret", Name: "f"}
			if err := e.CopyIn(t.Context(), "x", at, tarOf(t, "f", "changed")); err == nil {
				t.Error("written through a link that leads out")
			}
			if got, err := os.ReadFile(outside); string(got) != "secret" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
