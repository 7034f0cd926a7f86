package executor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cantina/action"
	"cantina/logstore"
)

func needRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("skipped: namespaces and other users need root")
	}
}

// report is a script that prints the container's view of its machine.
const report = `echo pid $$
echo procs $(ls /proc | grep -c '^[0-9]')
echo nnp $(grep NoNewPrivs /proc/self/status | cut -f2)
echo tmp $(ls /tmp | wc -l)
touch /tmp/mine && echo tmp writable
touch /etc/cantina-test 2>/dev/null && echo etc writable
touch here && echo directory writable
test -w /dev/null && echo x > /dev/null && echo null works
hostname inside 2>/dev/null; echo host $(hostname)
cat /proc/net/dev | grep -c :
`

func TestNamespaces(t *testing.T) {
	needRoot(t)
	marker, err := os.CreateTemp("/tmp", "cantina-marker")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(marker.Name())
	defer marker.Close()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	e := testExecutor(t, nil)
	for i := range 3 {
		s := sh(report)
		s.Workload.Isolation, s.Workload.OwnNet = action.IsolationNamespaces, i == 2
		id := fmt.Sprint("n", i)
		c := launch(t, e, id, s)
		if c.Result.Failed {
			t.Fatalf("%+v", c.Result)
		}
		out := lines(t, e, id, logstore.Stdout)
		want := []string{"pid 1", "nnp 1", "tmp writable", "directory writable", "null works"}
		if os.Getenv(testUser) == "" {
			want = append(want, "host inside") // for root alone
		}
		for _, want := range want {
			if !slices.Contains(out, want) {
				t.Errorf("%q is missing in %q", want, out)
			}
		}
		if slices.Contains(out, "etc writable") {
			t.Error("/etc is writable")
		}
		if i == 2 && out[len(out)-1] != "1" {
			t.Errorf("network of its own has %s interfaces", out[len(out)-1])
		}
		if !strings.HasPrefix(out[1], "procs ") || len(out[1]) > len("procs 99") {
			t.Errorf("sees the machine's processes: %s", out[1])
		}
	}
	if now, _ := os.Hostname(); now != host {
		t.Errorf("the machine is called %s now, was %s", now, host)
	}
	if _, err := os.Stat("/tmp/mine"); err == nil {
		t.Error("/tmp is not private")
	}
}

func TestProcessOneWithoutHandlerIsStopped(t *testing.T) {
	needRoot(t)
	e := testExecutor(t, nil)
	s := Spec{Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "sleep", Args: []string{"1000"}}},
		Isolation: action.IsolationNamespaces}}
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	await(t, e, "x", runningState)
	began := time.Now()
	if err := e.Stop("x"); err != nil {
		t.Fatal(err)
	}
	c := await(t, e, "x", completed)
	if d := time.Since(began); d > 9*time.Second || !c.Result.Stopped { // the grace time is 10 s
		t.Errorf("took %v: %+v", d, c.Result)
	}
}

// smallRoot makes a root file system of the shell and its libraries.
func smallRoot(t testing.TB) string {
	t.Helper()
	dir := tempDir(t)
	for _, d := range []string{"etc", "usr/bin", "usr/lib", "usr/lib64"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The machine's own programs serve as the image.
	for _, d := range []string{"bin", "lib", "lib64"} {
		if l, err := os.Readlink("/" + d); err == nil {
			if err := os.Symlink(l, filepath.Join(dir, d)); err != nil {
				t.Fatal(err)
			}
		}
	}
	copyProgram(t, dir, "/bin/sh", "/usr/bin/ls", "/usr/bin/sleep", "/usr/bin/id", "/usr/bin/cat", "/usr/bin/mkdir",
		"/usr/bin/ln")
	if err := os.WriteFile(filepath.Join(dir, "etc/passwd"), []byte("root:x:0:0::/:/bin/sh\napp:x:4321:4322::/:/bin/sh\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRootfsDir(t *testing.T) {
	t.Parallel()
	needRoot(t)
	root := smallRoot(t)
	e := testExecutor(t, nil)
	s := sh("echo pid $$; id -u; ls /; pwd; echo hi > /made; echo result > r; ls /proc/self > /dev/null && echo proc; " +
		"cat /etc/passwd > /dev/null && echo x > /dev/null; ls /dev")
	s.Workload.Isolation, s.Workload.Rootfs, s.Workload.ResultFile, s.Workload.User = action.IsolationRootfs, root, "r",
		"root"
	c := launch(t, e, "x", s)
	out := lines(t, e, "x", logstore.Stdout)
	if c.Result.Failed {
		t.Fatalf("%+v %q", c.Result, out)
	}
	for _, want := range []string{"pid 1", "0", "cantina", "/cantina", "proc", "null"} {
		if !slices.Contains(out, want) {
			t.Errorf("%q is missing in %q", want, out)
		}
	}
	if slices.Contains(out, "work") || slices.Contains(out, "home") {
		t.Errorf("the machine's root is visible: %q", out)
	}
	if _, err := os.Stat(filepath.Join(root, "made")); err == nil {
		t.Error("the image was changed")
	}
	if b, err := e.ResultFile("x"); err != nil || string(b) != "result\n" {
		t.Errorf("result %q, %v", b, err)
	}
	s.Workload.User = "app"
	s.Workload.Action.Run.Args[1] = "id -u; id -g; echo > f && echo mine"
	if c := launch(t, e, "u", s); c.Result.Failed {
		t.Errorf("%+v", c.Result)
	}
	if out := lines(t, e, "u", logstore.Stdout); !slices.Equal(out, []string{"4321", "4322", "mine"}) {
		t.Errorf("as app: %q", out)
	}
}

func TestAnotherUser(t *testing.T) {
	needRoot(t)
	e := testExecutor(t, nil)
	s := sh("id -u; id -g; id -G; echo > mine && echo writable")
	s.Workload.User = "1234:2345"
	c := launch(t, e, "x", s)
	if out := lines(t, e, "x", logstore.Stdout); c.Result.Failed ||
		!slices.Equal(out, []string{"1234", "2345", "2345", "writable"}) {
		t.Errorf("%q %+v %q", out, c.Result, lines(t, e, "x", logstore.Stderr))
	}
	s.Workload.User = "no-such-user"
	if c := launch(t, e, "y", s); !c.Result.Failed || !strings.Contains(c.Result.Reason, "no-such-user") {
		t.Errorf("%+v", c.Result)
	}
}

func TestOpenFilesLimit(t *testing.T) {
	e := testExecutor(t, nil)
	s := sh("ulimit -n")
	s.Workload.Action.Run.OpenFiles = 123
	launch(t, e, "x", s)
	if out := lines(t, e, "x", logstore.Stdout); !slices.Equal(out, []string{strconv.Itoa(123)}) {
		t.Errorf("limit %q", out)
	}
}

func TestProbe(t *testing.T) {
	e := testExecutor(t, func(c *Config) { c.Capacity = nil })
	for range 20 {
		if err := e.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if l := e.List(); len(l) != 0 {
		t.Errorf("list %+v", l)
	}
}

func copyProgram(t testing.TB, root string, programs ...string) {
	t.Helper()
	for _, p := range programs {
		for _, f := range append(libraries(t, p), p) {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(root, f)
			os.MkdirAll(filepath.Dir(to), 0o755)
			if err := os.WriteFile(to, b, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// libraries lists the libraries that a program is linked with.
func libraries(t testing.TB, program string) []string {
	t.Helper()
	out, err := exec.Command("ldd", program).Output()
	if err != nil {
		return nil // static
	}
	var libs []string
	for _, f := range strings.Fields(string(out)) {
		if strings.HasPrefix(f, "/") {
			libs = append(libs, f)
		}
	}
	return libs
}

// TestAccountsOfAnImageStayInside: an image's account file may be a link to a file of the machine, or to an endless
// file. It yields no account from outside the image.
func TestAccountsOfAnImageStayInside(t *testing.T) {
	outside := filepath.Join(tempDir(t), "passwd")
	if err := os.WriteFile(outside, []byte("app:x:4711:4711::/:\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{outside, "/dev/zero"} {
		root := tempDir(t)
		if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(root, "etc/passwd")); err != nil {
			t.Fatal(err)
		}
		if a, err := rootAccounts([]string{root}).find("app"); err == nil {
			t.Errorf("%s: %+v", target, a)
		}
	}
	root := tempDir(t)
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "etc/passwd"), []byte("app:x:4711:4712::/:\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if a, err := rootAccounts([]string{root}).find("app"); err != nil || a.cred.Uid != 4711 || a.cred.Gid != 4712 {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestACellReportsMissingControlGroups: removed classes are made again. While groups cannot be made, each start
// ends as not made, without fault of the work. Reserve then refuses, and the probe reports the fault, until groups
// can be made again.
func TestACellReportsMissingControlGroups(t *testing.T) {
	e := testExecutor(t, nil)
	for _, class := range e.generation.classes() {
		if err := os.Remove(filepath.Join(e.backend.tree().Root(), class)); err != nil {
			t.Fatal(err)
		}
	}
	if r := launch(t, e, "again", sh("true")).Result; r.Failed {
		t.Fatalf("after the classes were removed: %+v", r)
	}
	if err := e.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	limit := filepath.Join(e.backend.tree().Root(), "cgroup.max.descendants")
	if _, err := os.Stat(limit); err != nil {
		t.Skip("skipped: groups cannot be forbidden here")
	}
	forbid := func(n string) {
		t.Helper()
		if err := os.WriteFile(limit, []byte(n), 0); err != nil {
			t.Fatal(err)
		}
	}
	forbid("4") // the classes
	if r := launch(t, e, "none", sh("true")).Result; !r.Failed || !r.NotMade {
		t.Errorf("without groups: %+v", r)
	}
	if err := e.Reserve(Reservation{ID: "more"}); !errors.Is(err, ErrNoGroup) {
		t.Errorf("reserve: %v", err)
	}
	if err := e.Probe(t.Context()); !errors.Is(err, ErrNoGroup) {
		t.Errorf("probe: %v", err)
	}
	forbid("max")
	if err := e.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	if r := launch(t, e, "more", sh("true")).Result; r.Failed {
		t.Errorf("with groups again: %+v", r)
	}
}
