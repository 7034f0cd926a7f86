package executor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"cantina/action"
	"cantina/logstore"
)

// closedDir is a data directory that none but root gets to, below one of the same kind.
func closedDir(t testing.TB) string {
	t.Helper()
	outer, err := os.MkdirTemp("/var/tmp", "cantina-closed") // 0700
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(outer) })
	dir := filepath.Join(outer, "data", "cell", "executor")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// levels has the levels of isolation, each with its requirements.
func levels(t testing.TB) map[string]action.Workload {
	t.Helper()
	root := smallRoot(t)
	copyProgram(t, root, "/usr/bin/touch", "/usr/bin/env", "/usr/bin/stat", "/usr/bin/rm")
	accounts := "root:x:0:0::/root:/bin/sh\nann:x:4321:4322:Ann:/home/ann:/bin/ash\n"
	groups := "ann:x:4322:\naudio:x:63:bob,ann\nvideo:x:44:ann\nother:x:99:annabel\n"
	if err := errors.Join(os.WriteFile(filepath.Join(root, "etc/passwd"), []byte(accounts), 0o644),
		os.WriteFile(filepath.Join(root, "etc/group"), []byte(groups), 0o644)); err != nil {
		t.Fatal(err)
	}
	return map[string]action.Workload{
		"process":    {},
		"none":       {Isolation: action.IsolationNone},
		"namespaces": {Isolation: action.IsolationNamespaces},
		"own net":    {Isolation: action.IsolationNamespaces, OwnNet: true},
		"rootfs":     {Isolation: action.IsolationRootfs, Rootfs: root},
		"kept":       {OnCellRestart: action.RestartKeep},
		"kept apart": {OnCellRestart: action.RestartKeep, Isolation: action.IsolationNamespaces},
		"kept root":  {OnCellRestart: action.RestartKeep, Isolation: action.IsolationRootfs, Rootfs: root},
	}
}

// asAnother does the usual work of a workload in its directory and with its streams.
const asAnother = `set -e
echo id $(id -u) $(id -g)
cd "$CANTINA_DIR"
echo at $(pwd)
echo made > made
mkdir sub && echo deep > sub/deep
cat made sub/deep
echo named out > /dev/stdout
echo named err > /dev/stderr
echo first > /dev/fd/3
echo done > "$CANTINA_STATUS"
`

// TestAnotherUserWorks: a workload with a user of its own does all that one without does, for any parents of its
// data directory and at every level. It has no access to anything else there.
func TestAnotherUserWorks(t *testing.T) {
	needRoot(t)
	all := levels(t)
	// Below a link to a closed directory, and with a mask that closes each new file.
	defer syscall.Umask(syscall.Umask(0o077))
	link := filepath.Join(tempDir(t), "link")
	if err := os.Symlink(filepath.Dir(closedDir(t)), link); err != nil {
		t.Fatal(err)
	}
	e := testExecutor(t, func(c *Config) { c.Dir = filepath.Join(link, "executor") })
	needGroups(t, e)
	secret := sh("echo hunter2 > secret; sleep 1000")
	if err := e.Launch(Reservation{ID: "secret"}, secret); err != nil {
		t.Fatal(err)
	}
	other := await(t, e, "secret", runningState).Dir
	for level, w := range all {
		t.Run(level, func(t *testing.T) { worksAs(t, e, level, w, "4321:4322", other) })
	}
}

func worksAs(t *testing.T, e *Executor, level string, w action.Workload, user, other string) {
	s := sh(asAnother + fmt.Sprintf("! cat %s/secret\n! ls %s\n! ls %s/../secret\n! cat %s/id\n! touch ../beside\n", other,
		other, other, e.cfg.Dir))
	run := s.Workload.Action.Run
	s.Workload, s.StatusPipe = w, true
	s.Workload.Action.Run, s.Workload.User, s.Workload.ResultFile = run, user, "made"
	id := "u " + level
	c := launch(t, e, id, s)
	out, errs := lines(t, e, id, logstore.Stdout), lines(t, e, id, logstore.Stderr)
	if c.Result.Failed {
		t.Fatalf("%+v\n%q\n%q", c.Result, out, errs)
	}
	want := []string{"id 4321 4322", "at " + c.Dir, "made", "deep", "named out"}
	if w.Isolation == action.IsolationRootfs {
		want[1] = "at /cantina"
	}
	if !slices.Equal(out, want) || !slices.Contains(errs, "named err") {
		t.Errorf("%q %q", out, errs)
	}
	if strings.Contains(strings.Join(append(out, errs...), "\n"), "hunter2") {
		t.Errorf("it read what another container wrote: %q", out)
	}
	if string(c.Result.Status) != "done" {
		t.Errorf("status %q", c.Result.Status)
	}
	if b, err := e.ResultFile(id); string(b) != "made\n" {
		t.Errorf("result %q, %v", b, err)
	}
	e.Delete(id)
	await(t, e, id, gone)
	if _, err := os.Stat(c.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory is left: %v", err)
	}
}

// TestStepsOfSeveralUsers: each program of a tree runs as its own user, and all write in the directory. None loses
// its files to another, and the programs beside them work too.
func TestStepsOfSeveralUsers(t *testing.T) {
	t.Parallel()
	needRoot(t)
	for level, w := range levels(t) {
		if w.OnCellRestart == action.RestartKeep {
			continue // one program
		}
		t.Run(level, func(t *testing.T) {
			e := testExecutor(t, func(c *Config) { c.Dir = closedDir(t) })
			run := func(user, script string) action.Action {
				return action.Action{Run: &action.Run{Path: "/bin/sh", Args: []string{"-c", script}, User: user}}
			}
			s := Spec{Workload: w, StatusPipe: true}
			s.Workload.User = "4321:4322"
			setup := run("0", "set -e; id -u; echo > of-root")
			s.Workload.Setup = &setup
			s.Workload.Action = action.Action{Serial: []action.Action{
				run("", "set -e; id -u; echo mine > mine; echo one > $CANTINA_STATUS; ! echo > of-root"),
				run("1111", "set -e; id -u; cat mine; echo > others; ! rm mine; ! echo > mine; echo two > /dev/fd/3"),
				run("", "set -e; id -u; rm mine; ! rm others; echo > again"),
				run("", "sleep 1000")}}
			s.Workload.Checks = []action.Check{{Exec: &action.Run{Path: "/bin/sh",
				Args: []string{"-c", "test $(id -u) = 2222 && cat again && echo > by-check-$$"}, User: "2222"}}}
			if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
				t.Fatal(err)
			}
			c := await(t, e, "x", runningState)
			if out, errs := lines(t, e, "x", logstore.Stdout), lines(t, e, "x", logstore.Stderr); c.State != Running ||
				!slices.Equal(out, []string{"0", "4321", "1111", "mine", "4321"}) {
				t.Fatalf("%+v %q %q %q", c.Result, out, errs, lines(t, e, "x", logstore.Event))
			}
			for _, user := range []string{"", "1111", "0"} {
				x, err := e.Exec(t.Context(), "x", ExecSpec{Path: "/bin/sh",
					Args: []string{"-c",
						"id -u; cd $CANTINA_DIR && ls again > /dev/stdout && echo > /dev/stderr; read line < /dev/stdin; echo $line"},
					User: user})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := x.Stdin.Write([]byte("typed\n")); err != nil {
					t.Fatal(err)
				}
				want := map[string]string{"": "4321", "1111": "1111", "0": "0"}[user] + "\nagain\ntyped\n"
				if out := readAll(t, x.Stdout); out != want {
					t.Errorf("exec as %q: %q, %q", user, out, readAll(t, x.Stderr))
				}
				if err := x.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestTheUserOfAProgram: the environment and the groups match the user database, that of the root where there is
// one.
func TestTheUserOfAProgram(t *testing.T) {
	t.Parallel()
	needRoot(t)
	const script = `echo $HOME,$USER,$LOGNAME,$SHELL,$(id -G)`
	e := testExecutor(t, func(c *Config) { c.Dir = closedDir(t) })
	root := levels(t)["rootfs"]
	for _, c := range []struct {
		user string
		w    action.Workload
		want string
	}{
		{"ann", root, "/home/ann,ann,ann,/bin/ash,4322 44 63"},
		{"4321", root, "/home/ann,ann,ann,/bin/ash,4322 44 63"},
		{"ann:video", root, "/home/ann,ann,ann,/bin/ash,44"},
		{"ann:7", root, "/home/ann,ann,ann,/bin/ash,7"},
		{"", root, "/root,root,root,/bin/sh,"},
		{"77", root, "/,,,,77"},
		{"nobody", action.Workload{}, "/nonexistent,nobody,nobody,/usr/sbin/nologin,65534"},
		{"nobody", action.Workload{Isolation: action.IsolationNone}, "/nonexistent,nobody,nobody,/usr/sbin/nologin,65534"},
		{"123454321", action.Workload{}, "/,,,,123454321"},
		{"", action.Workload{}, "/root,root,root,"},
	} {
		s := sh(script)
		run := s.Workload.Action.Run
		s.Workload = c.w
		s.Workload.Action.Run, s.Workload.User = run, c.user
		id := fmt.Sprintf("%s %v", c.user, c.w.Isolation)
		if c.user == "" && os.Getenv(testUser) != "" {
			continue
		}
		r := launch(t, e, id, s).Result
		out := lines(t, e, id, logstore.Stdout)
		if r.Failed || len(out) != 1 || !strings.HasPrefix(out[0], c.want) {
			t.Errorf("%s: %+v %q, want %q", id, r, out, c.want)
		}
		e.Delete(id)
		await(t, e, id, gone)
	}
}

// TestUnreadableUserDatabasesAreRefused: no content of a user database gives root by accident, or a number that the
// kernel takes for "as it is".
func TestUnreadableUserDatabasesAreRefused(t *testing.T) {
	good := "root:x:0:0::/root:/bin/sh\n"
	for _, c := range []struct{ passwd, group, user, says string }{
		{"app:x:abc:1::/:\n", "", "app", `/etc/passwd of the root file system, line 2, app: its uid "abc"`},
		{"app:x:4294967295:1::/:\n", "", "app", `uid "4294967295"`},
		{"app:x:99999999999:1::/:\n", "", "app", `uid "99999999999"`},
		{"app:x::1::/:\n", "", "app", `uid ""`},
		{"app:x:-1:1::/:\n", "", "app", `uid "-1"`},
		{"app:x: 5:1::/:\n", "", "app", `uid " 5"`},
		{"app:x:00:1::/:\n", "", "app", `uid "00"`},
		{"app:x:5:abc::/:\n", "", "app", `gid "abc"`},
		{"app:x:5:4294967295::/:\n", "", "app", `gid "4294967295"`},
		{"app:x:5\n", "", "app", `gid ""`},
		{"app:x\n", "", "app", `uid ""`},
		{"app\n", "", "app", `uid ""`},
		{"app:x:5:5::/:\n", "g:x:abc:\n", "app:g", `/etc/group of the root file system, line 1, g: its gid "abc"`},
		{"app:x:5:5::/:\n", "g:x:4294967295:\n", "app:g", `gid "4294967295"`},
		{"app:x:5:5::/:\n", "a:x:1:\ng:x:99999999999:app\n", "app",
			`/etc/group of the root file system, line 2, g: its gid "99999999999"`},
		{"5:x:0:0::/:\n", "", "six", `not in /etc/passwd of the root file system`},
		{"app:x:5:5::/:\n", "", "app:g", `group "g" is not in /etc/group of the root file system`},
		{"", "", "4294967295", `user "4294967295"`},
		{"", "", "65534:4294967295", `user "65534:4294967295"`},
	} {
		dir := tempDir(t)
		if err := errors.Join(os.Mkdir(filepath.Join(dir, "etc"), 0o755),
			os.WriteFile(filepath.Join(dir, "etc/passwd"), []byte(good+c.passwd), 0o644),
			os.WriteFile(filepath.Join(dir, "etc/group"), []byte(c.group), 0o644)); err != nil {
			t.Fatal(err)
		}
		a, err := rootAccounts([]string{dir}).find(c.user)
		if err == nil || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), fmt.Sprintf("user %q", c.user)) || a.cred != nil {
			t.Errorf("%q %q %s: %+v, %v", c.passwd, c.group, c.user, a.cred, err)
		}
	}
	dir := tempDir(t)
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "etc"), 0o755),
		os.WriteFile(filepath.Join(dir, "etc/passwd"),
			[]byte("# users\n\n5:x:0:0::/:\nsix:x:6:60::/six:\r\nlast:x:4294967294:4294967294::/:"), 0o644)); err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]syscall.Credential{"5": {Uid: 5, Gid: 5}, "6": {Uid: 6, Gid: 60},
		"six": {Uid: 6, Gid: 60}, "last": {Uid: action.MaxID, Gid: action.MaxID}, "7:8": {Uid: 7, Gid: 8}} {
		if a, err := rootAccounts([]string{dir}).find(user); err != nil || a.cred.Uid != want.Uid || a.cred.Gid != want.Gid {
			t.Errorf("%s: %+v, %v", user, a.cred, err)
		}
	}
}

// TestLayersShowOneDatabase: the files that a higher layer has, removes or hides count, for each file on its own.
func TestLayersShowOneDatabase(t *testing.T) {
	needRoot(t)
	low, high := tempDir(t), tempDir(t)
	write := func(dir, file, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "etc"), 0o755),
			os.WriteFile(filepath.Join(dir, "etc", file), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	gid := func(user string) string {
		a, err := rootAccounts([]string{high, low}).find(user)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(a.cred.Uid, a.cred.Gid)
	}
	write(low, "passwd", "app:x:1:1::/:\n")
	write(low, "group", "g:x:2:\n")
	if got := gid("app:g"); got != "1 2" {
		t.Error(got)
	}
	write(high, "passwd", "app:x:3:3::/:\n")
	if got := gid("app:g"); got != "3 2" {
		t.Error(got)
	}
	if err := errors.Join(os.Remove(filepath.Join(high, "etc/passwd")),
		syscall.Mknod(filepath.Join(high, "etc/passwd"), syscall.S_IFCHR, 0)); err != nil {
		t.Fatal(err)
	}
	if got := gid("app"); !strings.Contains(got, "passwd") {
		t.Errorf("it was removed: %s", got)
	}
	if err := errors.Join(os.Remove(filepath.Join(high, "etc/passwd")),
		syscall.Setxattr(filepath.Join(high, "etc"), "trusted.overlay.opaque", []byte("y"), 0)); err != nil {
		t.Fatal(err)
	}
	if got := gid("app"); !strings.Contains(got, "not in /etc/passwd") {
		t.Errorf("it is hidden: %s", got)
	}
}

// TestAUserKeepsAccessibleDirectories: only directories without access for a user are covered. A directory that the
// user may enter, by itself or by a group, stays as it is.
func TestAUserKeepsAccessibleDirectories(t *testing.T) {
	needRoot(t)
	for name, gid := range map[string]int{"own": 0, "group": 4322} {
		t.Run(name, func(t *testing.T) {
			home := filepath.Dir(filepath.Dir(filepath.Dir(closedDir(t)))) // the outer one
			owner, mode := 4321, os.FileMode(0o700)
			if gid != 0 {
				owner, mode = 0, 0o750
			}
			if err := errors.Join(os.Chown(home, owner, gid), os.Chmod(home, mode),
				os.WriteFile(home+"/notes", []byte("mine\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
			e := testExecutor(t, func(c *Config) { c.Dir = filepath.Join(home, "data", "cell", "executor") })
			s := sh("set -e; cat " + home + "/notes; ls " + home + "; cd $CANTINA_DIR; echo > made; ! ls " + home +
				"/data 2>/dev/null")
			s.Workload.User = "4321:4322"
			r := launch(t, e, "x", s).Result
			if out := lines(t, e, "x", logstore.Stdout); r.Failed || !slices.Equal(out, []string{"mine", "data", "notes"}) {
				t.Errorf("%+v %q %q", r, out, lines(t, e, "x", logstore.Stderr))
			}
		})
	}
}

// TestWorkWithoutAUserRunsAsTheDefaultUser: a cell with one runs nothing as itself that does not ask
// for it, and does not start with one that cannot be.
func TestWorkWithoutAUserRunsAsTheDefaultUser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	e := testExecutor(t, func(c *Config) { c.User = "4321:4322" })
	root := levels(t)["rootfs"]
	for i, c := range []struct {
		w    action.Workload
		user string
		want string
	}{{action.Workload{}, "", "4321"}, {action.Workload{}, "0", "0"}, {action.Workload{}, "1111", "1111"},
		{action.Workload{Isolation: action.IsolationNone}, "", "4321"}, {root, "", "4321"}} {
		s := sh("id -u")
		run := s.Workload.Action.Run
		s.Workload = c.w
		s.Workload.Action.Run, s.Workload.User = run, c.user
		id := fmt.Sprint("x", i)
		if r := launch(t, e, id, s).Result; r.Failed || !slices.Equal(lines(t, e, id, logstore.Stdout), []string{c.want}) {
			t.Errorf("%v as %q: %+v %q", c.w.Isolation, c.user, r, lines(t, e, id, logstore.Stdout))
		}
	}
	if err := e.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	for _, user := range []string{"no-such-user", "4294967295", "root:"} {
		cfg := testConfig(tempDir(t))
		cfg.User = user
		if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(),
			fmt.Sprintf("the cell's --default-user: user %q", user)) &&
			!strings.Contains(err.Error(), fmt.Sprintf("the cell's --default-user: bad user %q", user)) {
			t.Errorf("%s: %v", user, err)
		}
	}
}

// TestATerminalBelongsToItsUser: the program of exec may open the terminal that it has.
func TestATerminalBelongsToItsUser(t *testing.T) {
	needRoot(t)
	e := testExecutor(t, func(c *Config) { c.Dir = closedDir(t) })
	s := sh("sleep 1000")
	s.Workload.User = "4321:4322"
	if err := e.Launch(Reservation{ID: "x"}, s); err != nil {
		t.Fatal(err)
	}
	await(t, e, "x", runningState)
	x, err := e.Exec(t.Context(), "x", ExecSpec{Path: "/bin/sh",
		Args: []string{"-c", "id -u; echo by name > $(tty) && echo as tty > /dev/tty"}, Terminal: true})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	b, _ := io.ReadAll(x.Stdout) // ends with an error when the terminal is closed
	if out := strings.Fields(string(b)); !slices.Equal(out, []string{"4321", "by", "name", "as", "tty"}) {
		t.Errorf("%q", b)
	}
}

// TestFilesAreReadAndPutAsTheUser: a file of the machine is downloaded, uploaded and put
// only where the workload's user might do so itself.
func TestFilesAreReadAndPutAsTheUser(t *testing.T) {
	needRoot(t)
	e := testExecutor(t, func(c *Config) { c.Dir = closedDir(t) })
	dir, err := os.MkdirTemp("/var/tmp", "cantina-files")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(dir+"/open", []byte("open\n"), 0o644),
		os.WriteFile(dir+"/closed", []byte("hunter2\n"), 0o600),
		os.WriteFile(dir+"/grouped", []byte("grouped\n"), 0o640), os.Chown(dir+"/grouped", 0, 4322),
		os.Mkdir(dir+"/free", 0o777), os.Chmod(dir+"/free", 0o777)); err != nil {
		t.Fatal(err)
	}
	download := func(from, to string) action.Action {
		return action.Action{Download: &action.Download{From: "file://" + dir + "/" + from, To: to, AllowUnpinned: true}}
	}
	for i, c := range []struct {
		from, to, says string
	}{
		{"open", "f", ""}, {"grouped", "f", ""}, {"closed", "f", "permission denied"},
		{"open", dir + "/free/f", ""}, {"open", dir + "/f", "permission denied"},
	} {
		id := fmt.Sprint("d", i)
		s := Spec{Workload: action.Workload{User: "4321:4322",
			Action: action.Action{Serial: []action.Action{download(c.from, c.to), sh("").Workload.Action}}}}
		s.Workload.Action.Serial[1].Run.Args[1] = "cat " + c.to + "; stat -c %u:%g " + c.to
		r := launch(t, e, id, s).Result
		out := lines(t, e, id, logstore.Stdout)
		if c.says != "" {
			if !r.Failed || !strings.Contains(r.Reason, c.says) {
				t.Errorf("%s to %s: %+v %q", c.from, c.to, r, out)
			}
			continue
		}
		if r.Failed || !slices.Equal(out, []string{c.from, "4321:4322"}) {
			t.Errorf("%s to %s: %+v %q", c.from, c.to, r, out)
		}
	}
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// TestEveryDirOfATestIsOpen: the tests use tempDir, so that they pass as another user too.
func TestEveryDirOfATestIsOpen(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "t."+"TempDir()") && f != "harness_test.go" {
			t.Errorf("%s makes a directory without tempDir", f)
		}
	}
}
