package executor

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cantina/action"
)

func TestExec(t *testing.T) {
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

// TestCopyInGivesAllToTheUser: the directories on the way too, but not those that were there.
func TestCopyInGivesAllToTheUser(t *testing.T) {
	needRoot(t)
	base, err := os.MkdirTemp("", "cantina-copy") // others may pass through it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	e := testExecutor(t, func(c *Config) { c.Dir = filepath.Join(base, "cell") })
	s := sh("mkdir old; echo up; sleep 1000")
	s.Workload.User = "1234:1235"
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	awaitLine(t, e, "x", "up")
	if c, _ := e.Get("x"); os.Chown(filepath.Join(c.Dir, "old"), 77, 77) != nil {
		t.Fatal("cannot give a directory away")
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	w.WriteHeader(&tar.Header{Name: "d/f", Typeflag: tar.TypeReg, Mode: 0o644})
	w.Close()
	if err := e.CopyIn(t.Context(), "x", "old/a/b", &b); err != nil {
		t.Fatal(err)
	}
	c, _ := e.Get("x")
	for name, want := range map[string]uint32{"old": 77, "old/a": 1234, "old/a/b": 1234, "old/a/b/d": 1234,
		"old/a/b/d/f": 1234} {
		info, err := os.Stat(filepath.Join(c.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != want {
			t.Errorf("%s belongs to %d, want %d", name, st.Uid, want)
		}
	}
}

func TestCopy(t *testing.T) {
	needRoot(t)
	root := smallRoot(t)
	for name, level := range map[string]action.Isolation{"process": action.IsolationProcess,
		"namespaces": action.IsolationNamespaces, "rootfs": action.IsolationRootfs} {
		t.Run(name, func(t *testing.T) {
			e := testExecutor(t, nil)
			outside := filepath.Join(tempDir(t), "secret")
			os.WriteFile(outside, []byte("secret"), 0o644)
			s := sh("mkdir -p d/e; echo one > d/a; echo two > d/e/b; ln -s a d/l; ln -s " + outside +
				" leak; echo ready; sleep 1000")
			s.Workload.Isolation, s.Workload.Rootfs = level, root
			if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
				t.Fatal(err)
			}
			await(t, e, "x", runningState)
			awaitLine(t, e, "x", "ready")
			var b bytes.Buffer
			if err := e.CopyOut(t.Context(), "x", "d", &b); err != nil {
				t.Fatal(err)
			}
			if err := e.CopyIn(t.Context(), "x", "in", &b); err != nil {
				t.Fatal(err)
			}
			x, err := e.Exec(t.Context(), "x", ExecSpec{Path: "sh", Args: []string{"-c", "cat in/d/a in/d/e/b in/d/l"}})
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			if out, _ := io.ReadAll(x.Stdout); string(out) != "one\ntwo\none\n" {
				t.Errorf("copy holds %q", out)
			}
			b.Reset()
			err = e.CopyOut(t.Context(), "x", "leak", &b)
			if bytes.Contains(b.Bytes(), []byte("secret\x00")) {
				t.Error("a link led out of the container")
			}
			t.Log("copy through a link out of the container: ", err)
			if err := e.CopyOut(t.Context(), "x", "../../../../../../../etc/shadow", &b); level == action.IsolationProcess &&
				!errors.Is(err, ErrOutside) {
				t.Errorf("copy from outside: %v", err)
			}
		})
	}
}
