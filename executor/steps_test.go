package executor

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cantina/action"
	"cantina/logstore"
	"cantina/spawn/procid"
)

func do(script string) action.Action {
	return action.Action{Run: &action.Run{Path: "/bin/sh", Args: []string{"-c", script}}}
}

func TestSetupActionSidecarAndChecks(t *testing.T) {
	t.Parallel()
	for name, level := range map[string]action.Isolation{"process": action.IsolationProcess,
		"namespaces": action.IsolationNamespaces} {
		t.Run(name, func(t *testing.T) {
			if level != action.IsolationProcess {
				needRoot(t)
			}
			e := testExecutor(t, nil)
			setup := do("echo setup; echo made > made")
			w := action.Workload{
				Setup: &setup, Action: do("cat made; echo serving; touch up; sleep 1000"),
				Sidecars: []action.Action{do("echo sidecar; sleep 1000")},
				Checks: []action.Check{{Exec: &action.Run{Path: "/bin/sh", Args: []string{"-c", "test -e up"}},
					StartupInterval: 10 * time.Millisecond, Interval: 10 * time.Millisecond, Timeout: time.Minute}},
				ReadinessChecks: []action.Check{{Exec: &action.Run{Path: "/bin/sh", Args: []string{"-c", "test -e ready"}},
					StartupInterval: 10 * time.Millisecond, Interval: 10 * time.Millisecond, Timeout: time.Minute}},
				Isolation: level,
			}
			if err := e.Launch(Reservation{ID: "x"}, Spec{Workload: w}); err != nil {
				t.Fatal(err)
			}
			c := await(t, e, "x", runningState)
			if c.State != Running || c.Routable {
				t.Fatalf("%+v", c)
			}
			write := func(name string) {
				if err := os.WriteFile(filepath.Join(c.Dir, name), []byte("x"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write("ready")
			await(t, e, "x", func(c Container, _ bool) bool { return c.Routable })
			os.Remove(filepath.Join(c.Dir, "ready"))
			await(t, e, "x", func(c Container, _ bool) bool { return !c.Routable })
			awaitLine(t, e, "x", "sidecar")
			os.Remove(filepath.Join(c.Dir, "up"))
			c = await(t, e, "x", completed)
			if !c.Result.Failed || c.Result.Stopped || !strings.Contains(c.Result.Reason, "unhealthy") {
				t.Errorf("%+v", c.Result)
			}
			out := lines(t, e, "x", logstore.Stdout)
			for _, want := range []string{"setup", "made", "serving", "sidecar"} {
				if !slices.Contains(out, want) && !slices.Contains(out, strings.TrimSpace(want)) {
					t.Errorf("%q is missing in %q", want, out)
				}
			}
		})
	}
}

// TestEveryStepKind runs each kind of step with real processes and files, in one tree.
func TestEveryStepKind(t *testing.T) {
	e := testExecutor(t, nil)
	got := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, "fetched")
			return
		}
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- string(b)
	}))
	defer server.Close()
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte("fetched")))
	try := func(a action.Action) action.Action { return action.Action{Try: &a} }
	w := action.Workload{Action: action.Action{Serial: []action.Action{
		{Download: &action.Download{From: server.URL + "/in", To: "in", ChecksumAlgorithm: "sha256", ChecksumValue: sum}},
		try(action.Action{Download: &action.Download{From: server.URL + "/other", To: "other", ChecksumAlgorithm: "sha256",
			ChecksumValue: sum[1:] + "0"}}),
		{Parallel: []action.Action{do("until test -e b; do sleep 0.01; done; touch a"),
			do("touch b; until test -e a; do sleep 0.01; done")}},
		try(do("exit 5")),
		try(action.Action{Codependent: []action.Action{do("until test -e waits; do sleep 0.01; done; echo first"),
			do("trap 'echo other ends; exit' TERM; touch waits; while :; do sleep 0.01; done")}}),
		try(action.Action{Timeout: &action.Timeout{After: 50 * time.Millisecond, Action: do("exec sleep 1000")}}),
		{EmitProgress: &action.EmitProgress{Action: do("cat in > out; echo ' and sent' >> out"), Start: "it begins",
			Success: "it went well"}},
		{Upload: &action.Upload{From: "out", To: server.URL + "/out"}},
		{EmitProgress: &action.EmitProgress{Action: do("test ! -e other; exit 3"), FailureMessagePrefix: "it failed"}},
	}}}
	w.Termination.Grace = time.Minute // no part needs it
	c := launch(t, e, "x", Spec{Workload: w})
	if !c.Result.Failed || c.Result.ExitCode != 3 {
		t.Errorf("%+v", c.Result)
	}
	if text := <-got; text != "fetched and sent\n" {
		t.Errorf("uploaded %q", text)
	}
	if out := lines(t, e, "x", logstore.Stdout); !slices.Equal(out, []string{"first", "other ends"}) {
		t.Errorf("output %q", out)
	}
	events := strings.Join(lines(t, e, "x", logstore.Event), "\n")
	for _, want := range []string{"it begins", "it went well", "it failed: /bin/sh: exit status 3", "downloaded " +
		server.URL + "/in", "downloading " + server.URL + "/other failed", "uploaded out"} {
		if !strings.Contains(events, want) {
			t.Errorf("%q is missing in\n%s", want, events)
		}
	}
}

// TestCadences: a check runs at its start-up cadence until it passes, then at its steady
// one.
func TestCadences(t *testing.T) {
	e := testExecutor(t, nil)
	w := action.Workload{Action: do("sleep 1000"),
		Checks: []action.Check{{Exec: &action.Run{Path: "/bin/sh", Args: []string{"-c", "echo >> count; test -e up"}},
			StartupInterval: 5 * time.Millisecond, Interval: time.Hour, Timeout: time.Minute}}}
	if err := e.Launch(Reservation{ID: "x"}, Spec{Workload: w}); err != nil {
		t.Fatal(err)
	}
	c, _ := e.Get("x")
	for ; c.State != Created; c, _ = e.Get("x") { // which is no event
		runtime.Gosched()
	}
	count := func() int {
		b, _ := os.ReadFile(filepath.Join(c.Dir, "count")) // not there yet is none
		return strings.Count(string(b), "\n")
	}
	for count() < 20 {
		runtime.Gosched()
	}
	if c, _ := e.Get("x"); c.State != Created {
		t.Errorf("%v before a check has passed", c.State)
	}
	if err := os.WriteFile(filepath.Join(c.Dir, "up"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	await(t, e, "x", runningState)
	n := count()
	pause := timer(200 * time.Millisecond) // forty times the start-up cadence
	<-pause
	if now := count(); now != n {
		t.Errorf("%d checks more at the steady cadence of an hour", now-n)
	}
}

// zombies returns the children of a process that it has not waited for.
func zombies(t *testing.T, parent int) (out []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range stats {
		b, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		s := string(b)
		rest := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
		if len(rest) > 1 && rest[0] == "Z" && rest[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			out = append(out, pid)
		}
	}
	return out
}

func TestExecChecksLeaveNoZombies(t *testing.T) {
	before := zombies(t, os.Getpid()) // reapers of executors that a test gave up
	e := testExecutor(t, nil)
	w := action.Workload{Action: do("sleep 1000"),
		Checks: []action.Check{{Exec: &action.Run{Path: "/bin/sh", Args: []string{"-c", "echo >> count"}},
			StartupInterval: time.Millisecond, Interval: time.Millisecond, Timeout: time.Minute}}}
	if err := e.Launch(Reservation{ID: "x"}, Spec{Workload: w}); err != nil {
		t.Fatal(err)
	}
	c := await(t, e, "x", runningState)
	for n := 0; n < 50; {
		b, _ := os.ReadFile(filepath.Join(c.Dir, "count"))
		n = strings.Count(string(b), "\n")
		if c, _ := e.Get("x"); c.State == Completed {
			t.Fatalf("it ended after %d checks: %+v", n, c.Result)
		}
	}
	e.Stop("x")
	await(t, e, "x", completed)
	// One that has ended this moment is about to be waited for.
	var left []int
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		left = slices.DeleteFunc(zombies(t, os.Getpid()), func(pid int) bool { return slices.Contains(before, pid) })
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("zombies %v", left)
}

func TestTreeIsStoppedWhole(t *testing.T) {
	e := testExecutor(t, nil)
	dir := tempDir(t)
	pid := func(n string) string {
		return fmt.Sprintf("setsid sh -c 'echo $$ > %s/%s; exec sleep 1000' & wait", dir, n)
	}
	w := action.Workload{Action: action.Action{Parallel: []action.Action{do(pid("a")),
		{Serial: []action.Action{do("true"), do(pid("b"))}}}}}
	if err := e.Launch(Reservation{ID: "x"}, Spec{Workload: w}); err != nil {
		t.Fatal(err)
	}
	var ids []procid.Identity
	for _, n := range []string{"a", "b"} {
		awaitFile(t, filepath.Join(dir, n))
		ids = append(ids, readPid(t, filepath.Join(dir, n)))
	}
	e.Stop("x")
	c := await(t, e, "x", completed)
	if !c.Result.Stopped || c.Result.Failed {
		t.Errorf("%+v", c.Result)
	}
	for _, id := range ids {
		if id.Alive() {
			t.Errorf("process %d is alive", id.Pid)
		}
	}
}

func TestCodeOfATree(t *testing.T) {
	e := testExecutor(t, nil)
	try := func(a action.Action) action.Action { return action.Action{Try: &a} }
	for i, tc := range []struct {
		a      action.Action
		failed bool
		code   int
		reason string
	}{
		{try(do("exit 4")), false, 0, ""},
		{try(do("kill -9 $$")), false, 0, ""},
		{action.Action{Serial: []action.Action{do("true"), try(do("exit 4"))}}, false, 0, ""},
		{action.Action{EmitProgress: &action.EmitProgress{Action: try(do("exit 4"))}}, false, 0, ""},
		{try(action.Action{Timeout: &action.Timeout{Action: do("sleep 1000"), After: 50 * time.Millisecond}}), false, 0, ""},
		{action.Action{Serial: []action.Action{do("true"), do("exit 4"), do("echo never")}}, true, 4, "exit status 4"},
		{action.Action{Serial: []action.Action{{Try: &[]action.Action{do("exit 4")}[0]}, do("true")}}, false, 0, ""},
		{action.Action{Timeout: &action.Timeout{Action: do("sleep 1000"), After: 50 * time.Millisecond}}, true, -1,
			"timeout"},
		{action.Action{Codependent: []action.Action{do("sleep 1000"), do("true")}}, true, -1, "ended"},
	} {
		c := launch(t, e, fmt.Sprint("t", i), Spec{Workload: action.Workload{Action: tc.a}})
		if r := c.Result; tc.code == 0 && r.Signal != 0 || r.Failed != tc.failed || tc.code >= 0 && r.ExitCode != tc.code ||
			!strings.Contains(r.Reason, tc.reason) {
			t.Errorf("%+v, want %+v", r, tc)
		}
	}
}

func TestDownloadIntoTheContainer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		fmt.Fprint(w, "content")
	})}
	go srv.Serve(l)
	defer srv.Close()
	e := testExecutor(t, nil)
	get := action.Action{Download: &action.Download{From: "http://" + l.Addr().String() + "/file", To: "got",
		AllowUnpinned: true}}
	w := action.Workload{Setup: &get, Action: do("cat got*/* got 2>/dev/null; true")}
	c := launch(t, e, "x", Spec{Workload: w})
	if out := lines(t, e, "x", logstore.Stdout); c.Result.Failed || !slices.Contains(out, "content") {
		t.Errorf("%+v %q", c.Result, out)
	}
}
