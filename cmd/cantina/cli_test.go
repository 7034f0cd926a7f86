package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"cantina/api"
	"cantina/api/apitest"
	"cantina/batch"
	"cantina/lrp"
	"cantina/resource"
	"cantina/store"
	"cantina/store/folder"
	"cantina/task"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// safeBuffer is written by a verb while a test looks at it.
type safeBuffer struct {
	mu    sync.Mutex
	b     bytes.Buffer
	wrote chan struct{}
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wrote != nil {
		select {
		case s.wrote <- struct{}{}:
		default:
		}
	}
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// shell is a server over a fake leader behind a real socket, and a place to call
// verbs from.
type shell struct {
	*apitest.Fake
	t       *testing.T
	address string
	env     map[string]string
	in      string
	tty     bool
	signals chan os.Signal
	out     *safeBuffer
	ticks   chan time.Time
}

func now() time.Time { return time.Unix(1_800_000_000, 0).UTC() }

func newShell(t *testing.T) *shell {
	t.Helper()
	s := &shell{Fake: apitest.New(now), t: t, env: map[string]string{}, signals: make(chan os.Signal, 2)}
	srv := api.New(api.Config{Now: now, Zone: time.LoadLocation, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Build: "test", NewID: newKey})
	srv.Lead(s.Backend())
	s.address = "unix:" + t.TempDir() + "/s.sock"
	ln, _, err := (api.Listener{Address: s.address}).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := &http.Server{Handler: srv.Handler(), ReadHeaderTimeout: time.Second}
	done := make(chan error, 1)
	go func() { done <- h.Serve(ln) }()
	s.env["CANTINA_ADDR"] = s.address
	t.Cleanup(func() {
		s.Hub.Close()
		_ = h.Close()
		<-done
	})
	return s
}

// run calls a verb and returns what it printed and its exit code.
func (s *shell) run(args ...string) (out, errs string, code int) {
	s.t.Helper()
	o, e := &safeBuffer{}, &safeBuffer{}
	if s.out != nil {
		o = s.out
	}
	code = invoke(s.t.Context(), args, surroundings{
		In: strings.NewReader(s.in), Out: o, Err: e, Getenv: func(k string) string { return s.env[k] }, Now: now,
		InTTY: s.tty, OutTTY: s.tty, ErrTTY: s.tty, Width: func() int { return 100 },
		Interrupts: func() (<-chan os.Signal, func()) { return s.signals, func() {} }, Ticks: s.ticks,
	})
	return o.String(), e.String(), code
}

// ok calls a verb that must end with 0.
func (s *shell) ok(args ...string) string {
	s.t.Helper()
	out, errs, code := s.run(args...)
	if code != 0 {
		s.t.Fatalf("cantina %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

// fails calls a verb that must end with a code and say something.
func (s *shell) fails(code int, says string, args ...string) {
	s.t.Helper()
	out, errs, got := s.run(args...)
	if got != code || !strings.Contains(errs, says) {
		s.t.Fatalf("cantina %s: exit code %d, want %d with %q\nout: %s\nerr: %s", strings.Join(args, " "), got, code, says, out, errs)
	}
}

const demo = `domain: d
services:
  web: {command: [serve], instances: 2, ports: [{name: http}]}
tasks:
  once: {command: [run], result_file: r}
jobs:
  count: {command: [x, "{}"], levels: [n], nodes: [{manual: [a, b, c]}]}
`

const timed = `domain: d
schedules:
  tick: {cron: "* * * * *", timezone: UTC, task: {command: [x]}}
`

// TestSchedules walks through the verbs of schedules.
func TestSchedules(t *testing.T) {
	s := newShell(t)
	s.in = timed
	if out := s.ok("apply", "-", "-q"); out != "schedule/tick\n" {
		t.Fatal(out)
	}
	want := func(text string, args ...string) {
		t.Helper()
		if out := s.ok(args...); !strings.Contains(out, text) {
			t.Fatalf("cantina %s: no %q in\n%s", strings.Join(args, " "), text, out)
		}
	}
	want("* * * * *", "cron", "ls")
	want("d/tick", "cron", "ls", "-q")
	want("paused", "cron", "pause", "tick")
	want("waiting", "cron", "resume", "d/tick")
	want("d.tick.", "cron", "run", "tick")
	want("by hand", "cron", "history", "tick")
	want("NOTE", "cron", "next", "tick", "-n", "3")
	want("AT", "cron", "missed", "tick")
	want("tick", "cron", "backfill", "tick", "--from", "2020-01-01T00:00:00Z", "--to", "2020-01-01T01:00:00Z", "--max", "2")
	s.fails(api.ExitNotFound, "no schedule is called", "cron", "run", "none")
	s.fails(api.ExitUsage, "--at must be a time", "cron", "run", "tick", "--at", "noon")
	s.fails(api.ExitUsage, "the schedule does not fire at this time: 2020-01-01T00:00:30Z; the next one is 2020-01-01T00:01:00Z", "cron", "run", "tick", "--at", "2020-01-01T00:00:30Z")
	s.fails(api.ExitUsage, "go with a crontab line", "cron", "next", "tick", "--from", "2027-03-12T00:00:00Z")
	s.fails(api.ExitUsage, "cantina cron pause tick", "stop", "schedule/tick")
	// A run has the name of its schedule: nobody removes one who means the other.
	s.ok("run", "-d", "--name", "tick", "--domain", "d", "--", "x")
	for _, verb := range [][]string{{"rm", "--yes", "tick"}, {"stop", "tick"}} {
		s.fails(api.ExitUsage, "more than one thing", verb...)
	}
	s.ok("stop", "task/tick")
	s.ok("rm", "schedule/tick", "--yes")
	s.fails(api.ExitNotFound, "no schedule is called", "cron", "show", "tick")
}

func (s *shell) apply() {
	s.t.Helper()
	s.in = demo
	s.ok("apply", "-q", "-")
	web := lrp.ServiceKey{Domain: "d", Name: "web"}
	s.SetInstance(web, 0, func(a *lrp.Actual) {
		a.State, a.Identity = lrp.Running, lrp.Identity{Instance: "i0", Cell: "c1", Proc: "p1"}
		a.Net, a.Since = lrp.Net{Address: "10.0.0.1", Routable: true}, now().Add(-time.Minute)
	})
	s.SetInstance(web, 1, func(a *lrp.Actual) {
		a.State, a.CrashCount, a.CrashReason = lrp.Crashed, 3, "exited with status 1\x1b[2J"
	})
	s.SetJob("count", func(j *api.Job) {
		j.NodesKnown, j.Progress = true, batch.Progress{State: batch.JobFailed, Total: 3, Done: 2, Failed: 1}
	},
		api.Pair{NodeView: batch.NodeView{Node: "a", Class: batch.ClassDone}, Data: []byte(`{"lines":7}`)},
		api.Pair{NodeView: batch.NodeView{Node: "b", Class: batch.ClassDone}, Data: []byte(`{"lines":8}`)},
		api.Pair{NodeView: batch.NodeView{Node: "c", Class: batch.ClassFailed, Status: batch.Status{ExitCode: 4, Attempts: 2, Reason: "exit status 4"}}})
	s.SetCell(api.Cell{Name: "c1", Proc: "p1", Session: worker.Healthy, Reported: true, Since: now(), Capacity: resource.Amounts{"memory_mb": 100}, Free: resource.Amounts{"memory_mb": 40}})
}

func TestApplyAndPlan(t *testing.T) {
	s := newShell(t)
	s.in = demo
	out, _, code := s.run("plan", "-")
	if code != exitChanges || !strings.Contains(out, "create  service  web") {
		t.Fatalf("%d\n%s", code, out)
	}
	if out := s.ok("apply", "-", "-q"); out != "service/web\ntask/once\njob/count\n" {
		t.Fatal(out)
	}
	if out := s.ok("plan", "-"); strings.Contains(out, "create") {
		t.Fatalf("nothing to do, but:\n%s", out)
	}
	s.in = strings.Replace(demo, "instances: 2", "instances: 5", 1)
	if out, _, code := s.run("plan", "-"); code != exitChanges || !strings.Contains(out, "service/web instances: 2 -> 5") {
		t.Fatalf("%d\n%s", code, out)
	}
	s.in = "domain: d\ntasks: {once: {command: [run], result_file: r}}\n"
	s.fails(api.ExitUsage, "--yes", "apply", "-", "--prune")
	if out := s.ok("apply", "-", "--prune", "--yes", "-q"); out != "service/web\n" {
		t.Fatal(out)
	}
	s.fails(api.ExitFailed, "revision", "apply", "-", "--check-revision", "3")
	if out := s.ok("plan", "--schema"); !json.Valid([]byte(out)) {
		t.Fatal("the schema is not JSON")
	}
}

func TestABadSpecIsToldWholeAndSentNowhere(t *testing.T) {
	s := newShell(t)
	s.env["CANTINA_ADDR"] = "unix:/nowhere"
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": "domian: x\n", "b.yml": "tasks: {t: {command: [a], memory: 64}}\n", "c.txt": "ignored"} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, errs, code := s.run("apply", dir)
	want := dir + "/a.yaml:1:1: unknown field \"domian\"; did you mean domain?\n" + dir + "/b.yml:1:35: tasks.t.memory: a size needs a unit, not a bare number; write 64Mi?\n"
	if code != api.ExitUsage || errs != want {
		t.Fatalf("%d\n%s", code, errs)
	}
	s.fails(api.ExitUsage, "no such file", "apply", dir+"/none.yaml")
	s.fails(api.ExitUsage, "which file", "apply")
}

func TestNoServerAndWrongUsage(t *testing.T) {
	s := newShell(t)
	s.env["CANTINA_ADDR"] = "unix:/nowhere"
	s.fails(api.ExitConnection, "no connection to unix:/nowhere", "ps")
	s.fails(api.ExitUsage, "did you mean plan?", "plaan")
	s.fails(api.ExitUsage, "did you mean results?", "job", "result", "x")
	s.fails(api.ExitUsage, "unknown flag", "ps", "--colour")
	s.fails(api.ExitUsage, "-o must be", "ps", "-o", "xml")
	s.fails(api.ExitUsage, "must be a duration like 10s", "status", "--timeout", "10")
	s.fails(api.ExitUsage, "needs SUBJECT", "wait")
}

func TestFormsOfOutput(t *testing.T) {
	s := newShell(t)
	s.apply()
	table := s.ok("ps")
	if !strings.Contains(table, "web/0    RUNNING  yes       c1") || strings.Contains(table, "\x1b") || strings.Contains(table, "PROCESS") {
		t.Fatal(table)
	}
	if wide := s.ok("ps", "-o", "wide"); !strings.Contains(wide, "PROCESS") {
		t.Fatal(wide)
	}
	var list []map[string]any
	if err := json.Unmarshal([]byte(s.ok("ps", "-o", "json")), &list); err != nil || len(list) != 2 || list[1]["crash_count"] != 3.0 {
		t.Fatal(list, err)
	}
	if got := strings.Split(strings.TrimSpace(s.ok("ps", "-o", "jsonl")), "\n"); len(got) != 2 || !json.Valid([]byte(got[1])) {
		t.Fatal(got)
	}
	if got := s.ok("ps", "-q"); got != "d/web/0\nd/web/1\n" || got != s.ok("ps", "-o", "name") {
		t.Fatal(got)
	}
	if got := s.ok("ps", "--columns", "service,state", "--no-header"); got != "web/0  RUNNING\nweb/1  CRASHED\n" {
		t.Fatal(got)
	}
	s.fails(api.ExitUsage, "did you mean state?", "ps", "--columns", "stat")
	if got := s.ok("ps", "--template", "{{.service}}={{.state}}"); got != "web=RUNNING\nweb=CRASHED\n" {
		t.Fatal(got)
	}
	s.fails(api.ExitUsage, "--template", "ps", "--template", "{{.nonsense}}")
	var doc map[string]any
	if err := yaml.Unmarshal([]byte(s.ok("service", "get", "web", "-o", "yaml")), &doc); err != nil || doc["name"] != "web" {
		t.Fatal(doc, err)
	}
	s.tty = true
	if got := s.ok("ps"); !strings.Contains(got, "\x1b[32mRUNNING\x1b[0m") || !strings.Contains(got, "60s ago") {
		t.Fatal(got)
	}
	s.env["NO_COLOR"] = "1"
	if got := s.ok("ps"); strings.Contains(got, "\x1b") {
		t.Fatal(got)
	}
}

// TestATableFitsItsTerminal: the note says why, so it is cut last.
func TestATableFitsItsTerminal(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.tty, s.env["NO_COLOR"] = true, "1"
	note := "the database said no"
	s.SetInstance(lrp.ServiceKey{Domain: "d", Name: "web"}, 1, func(a *lrp.Actual) {
		a.State, a.CrashReason, a.Cell = lrp.Crashed, note, "a-cell-with-a-very-long-name-indeed"
	})
	got := s.ok("ps")
	if !strings.Contains(got, note) || !strings.Contains(got, "a-cell-with-a…") {
		t.Error(got)
	}
	for _, l := range strings.Split(got, "\n") {
		if n := len([]rune(l)); n > 100 {
			t.Errorf("%d columns: %s", n, l)
		}
	}
	if got := s.ok("ps", "--no-trunc"); !strings.Contains(got, "very-long-name-indeed") {
		t.Error(got)
	}
}

func TestLaterRowsStandUnderTheFirst(t *testing.T) {
	var out bytes.Buffer
	c := &cli{surroundings: surroundings{Out: &out, Getenv: func(string) string { return "" }}, output: "table"}
	cols := []column[*pb.Job]{{name: "JOB", text: func(x *pb.Job) string { return x.Name }}, {name: "STATE", text: func(x *pb.Job) string { return x.State }}}
	for i, x := range []*pb.Job{{Name: "long-name", State: "ready"}, {Name: "a", State: "done"}} {
		if err := rows(c, cols, []*pb.Job{x}, i == 0); err != nil {
			t.Fatal(err)
		}
	}
	if want := "JOB        STATE\nlong-name  ready\na          done\n"; out.String() != want {
		t.Fatalf("%q", out.String())
	}
}

func TestJobVerbs(t *testing.T) {
	s := newShell(t)
	s.apply()
	if got := s.ok("job", "ls"); !strings.Contains(got, "count  d       failed  3      2     0        1") {
		t.Fatal(got)
	}
	if got := s.ok("job", "results", "count", "--template", `{{.node}} {{with .data}}{{.lines}}{{end}}`); got != "a 7\nb 8\nc \n" {
		t.Fatal(got)
	}
	var all []map[string]any
	if err := json.Unmarshal([]byte(s.ok("job", "results", "count", "-o", "json")), &all); err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
	if got := s.ok("job", "nodes", "count", "--state", "failed", "-q"); got != "c\n" {
		t.Fatal(got)
	}
	if got := s.ok("job", "nodes", "count", "--state", "running", "-o", "json"); got != "[]\n" {
		t.Fatalf("%q", got)
	}
	s.fails(api.ExitFailed, "1 of 3 failed", "wait", "count")
	s.ok("job", "retry", "count", "--node", "c")
	s.ok("job", "pause", "job/count")
	s.ok("job", "resume", "count")
	s.ok("job", "kill", "count")
	s.fails(api.ExitNotFound, "not found", "job", "results", "none")
}

func TestSubjects(t *testing.T) {
	s := newShell(t)
	s.apply()
	for _, id := range []string{"abc1", "abc2", "web"} {
		s.ok("run", "-d", "--id", id, "--", "true")
	}
	s.fails(api.ExitUsage, "task/web", "logs", "web")
	s.fails(api.ExitUsage, "task/abc2", "wait", "abc", "--for", "done")
	s.fails(api.ExitNotFound, "nothing is called", "logs", "none")
	for arg, want := range map[string]string{
		"service/web": "service/d/web", "d/web": "service/d/web", "web/1": "service/d/web/1", "d/web/0": "service/d/web/0",
		"task/abc1": "task/abc1", "abc1": "task/abc1", "count": "job/count", "count[a]": "job/count/a", "count/b": "job/count/b", "c1": "cell/c1", "once": "task/d.once",
	} {
		if got := s.ok("explain", arg); !strings.HasPrefix(got, want+" is ") {
			t.Errorf("%s: %s", arg, got)
		}
	}
	s.fails(api.ExitUsage, "no output of its own", "logs", "c1")
}

// TestAWholeNameBeatsTheBeginningOfAnId: and one name means the newest run.
func TestAWholeNameBeatsTheBeginningOfAnId(t *testing.T) {
	s := newShell(t)
	s.apply()
	for i, id := range []string{"web-1", "once-1", "r1", "r2", "r3"} {
		s.ok("run", "-d", "--id", id, "--name", "n"+id[:1], "--domain", "d", "--", "true")
		s.SetTask(id, func(x *task.Task) { x.Created = now().Add(time.Duration(i%4) * time.Minute) })
	}
	s.SetJob("count", func(j *api.Job) { j.NodesKnown = true },
		api.Pair{NodeView: batch.NodeView{Node: "net/http", Class: batch.ClassDone}, Path: []string{"h1", "net/http"}})
	for arg, want := range map[string]string{
		"web": "service/d/web", "once": "task/d.once", "nr": "task/r2", "web-": "task/web-1",
		"count[net/http]": "job/count/net/http", "count[h1/net/http]": "job/count/net/http", "count/h1/net/http": "job/count/net/http",
	} {
		if got := s.ok("explain", arg); !strings.HasPrefix(got, want+" is ") {
			t.Errorf("%s: %s", arg, got)
		}
	}
	s.fails(api.ExitNotFound, "nothing is called", "explain", "count[h2/net/http]")
	s.fails(api.ExitNotFound, "nothing is called", "explain", "count[http]")
}

func TestWhatDoesNotExistIsNotFound(t *testing.T) {
	s := newShell(t)
	s.apply()
	for _, args := range [][]string{
		{"restart", "web/9"}, {"logs", "web/9"}, {"wait", "web/9"}, {"logs", "count", "--node", "nope"}, {"logs", "-f", "count", "--node", "nope"},
		{"logs", "web", "--attempt", "99"}, {"job", "nodes", "count", "--below", "zz"}, {"job", "results", "count", "--node", "zz"},
		{"job", "retry", "count", "--node", "zz"}, {"job", "kill", "count", "--below", "zz"},
	} {
		s.fails(api.ExitNotFound, "cantina: ", args...)
	}
	s.fails(api.ExitUsage, "--grep", "logs", "web", "--grep", "(")
}

func TestRefusalsNameARemedy(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.fails(api.ExitUsage, "cantina service scale web N", "rm", "web/0", "--yes")
	s.fails(api.ExitUsage, "cantina job kill count --node a", "rm", "count[a]", "--yes")
	s.fails(api.ExitUsage, "remove web, once: give --yes", "rm", "web", "once")
	s.fails(api.ExitUsage, `not "jsn"; did you mean json?`, "ps", "-o", "jsn")
	s.fails(api.ExitUsage, "0.5 or 500m", "run", "--cpu", "x", "--", "true")
	s.ok("stop", "once")
	if _, errs, code := s.run("stop", "once"); code != 0 || !strings.Contains(errs, "already ended, cancelled") {
		t.Fatal(code, errs)
	}
	if got := s.ok("task", "ls", "--columns", "id,outcome,code", "--no-header"); got != "d.once  cancelled  -\n" {
		t.Fatal(got)
	}
}

// counted is a host with some containers.
type counted struct {
	nothing
	n int
}

func (c counted) Containers() int { return c.n }

func TestTheFirstCtrlCSaysWhatItWaitsFor(t *testing.T) {
	for n, want := range map[int]string{0: "\nstopping\n", 1: "\nstopping 1 container; Ctrl-C again kills now\n", 3: "\nstopping 3 containers; Ctrl-C again kills now\n"} {
		var errs bytes.Buffer
		(&cli{surroundings: surroundings{Err: &errs}}).leaving(counted{n: n})
		if errs.String() != want {
			t.Errorf("%d: %q", n, errs.String())
		}
	}
}

func TestCodes(t *testing.T) {
	for want, x := range map[string]*pb.Task{
		"0": {Outcome: "succeeded"}, "3": {Outcome: "failed", ExitCode: 3}, "signal 9": {Outcome: "failed", Signal: 9},
	} {
		if got := taskCodeText(x); got != want {
			t.Errorf("%v: %s", x, got)
		}
	}
	for _, x := range []*pb.Task{{}, {Outcome: "failed"}, {Outcome: "cancelled"}, {Outcome: "lost", ExitCode: 1}, {Outcome: "failed", ExitCode: -1}} {
		if got := taskCodeText(x); got != "" {
			t.Errorf("%v: %s", x, got)
		}
	}
	for state, want := range map[string]string{"done": "0", "failed": "", "backoff": "", "disabled": ""} {
		if got := nodeCode(&pb.JobNode{State: state}); got != want {
			t.Errorf("%s: %s", state, got)
		}
	}
}

func TestLogs(t *testing.T) {
	s := newShell(t)
	s.apply()
	labels := func(i int) map[string]string {
		return map[string]string{"kind": "lrp", "domain": "d", "service": "web", "index": fmt.Sprint(i)}
	}
	s.Logs.Write("c1", "i0", labels(0), pb.LogStream_LOG_STREAM_STDOUT, "hello")
	s.Logs.Write("c2", "i1", labels(1), pb.LogStream_LOG_STREAM_STDERR, "raw \xff")
	s.Logs.Lose("c2", "i1", labels(1), 99)
	out, errs, code := s.run("logs", "web")
	if code != 0 || out != "web/0 | hello\nweb/1 | raw \xff\n" || !strings.Contains(errs, "99 bytes of output are missing") {
		t.Fatalf("%d %q %q", code, out, errs)
	}
	if got := s.ok("logs", "--raw", "web/1"); got != "raw \xff\n" {
		t.Fatalf("%q", got)
	}
	if got := s.ok("logs", "web", "-n", "2", "--no-prefix"); got != "raw \xff\n" {
		t.Fatalf("%q", got)
	}
	s.Logs.Cut("c2", fmt.Errorf("no route"))
	s.fails(api.ExitConnection, "incomplete: cell c2: no route", "logs", "web")
	s.fails(api.ExitUsage, "--since must be", "logs", "web", "--since", "yesterday")
}

func TestRunEndsLikeItsProgram(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*task.Task)
		args []string
		code int
		says string
	}{
		"success": {func(x *task.Task) { x.Outcome = task.Succeeded }, nil, 0, ""},
		"code 3": {func(x *task.Task) {
			x.Outcome, x.Result = task.Failed, task.Result{Failed: true, ExitCode: 3, Reason: "exited with status 3"}
		}, nil, 3, "exited with status 3"},
		"signal": {func(x *task.Task) {
			x.Outcome, x.Result = task.Failed, task.Result{Failed: true, Signal: 9, Reason: "killed"}
		}, nil, 137, "killed"},
		"own code": {func(x *task.Task) { x.Outcome, x.Result = task.Failed, task.Result{Failed: true, ExitCode: 3} }, []string{"--client-exit-code"}, 1, ""},
		"lost": {func(x *task.Task) {
			x.Outcome, x.Result = task.Lost, task.Result{Failed: true, Reason: task.ReasonLost}
		}, nil, api.ExitLost, "task resolve job1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShell(t)
			s.out = &safeBuffer{wrote: make(chan struct{}, 1)}
			labels := map[string]string{"kind": "task", "task": "job1"}
			s.Logs.Write("c1", "x", labels, pb.LogStream_LOG_STREAM_STDOUT, "begin")
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				<-s.out.wrote
				s.Logs.Write("c1", "x", labels, pb.LogStream_LOG_STREAM_STDOUT, "last line")
				s.SetTask("job1", func(x *task.Task) {
					x.State = task.Completed
					c.end(x)
				})
			}()
			out, errs, code := s.run(slices.Concat([]string{"run", "--id", "job1"}, c.args, []string{"--", "prog", "-x"})...)
			<-ended
			if code != c.code || out != "begin\nlast line\n" || !strings.Contains(errs, c.says) {
				t.Fatalf("code %d, out %q, err %q", code, out, errs)
			}
			if _, errs, code := s.run(slices.Concat([]string{"wait", "job1"}, c.args)...); code != c.code {
				t.Fatalf("wait: %d %s", code, errs)
			}
		})
	}
}

func TestRunTakesItsFlags(t *testing.T) {
	s := newShell(t)
	s.env["HOME"] = "/home/x"
	id := strings.TrimSpace(s.ok("run", "-d", "--domain", "d", "--name", "n", "-e", "A=b=c $x", "-e", "HOME", "--memory", "64Mi", "--cpu", "0.5",
		"--result", "r", "--time-limit", "1m", "--on-lost", "keep", "--", "./prog", "--flag", "a b"))
	got, err := s.GetTask(id)
	if err != nil {
		t.Fatal(err)
	}
	w := got.Definition.Workload
	here, _ := os.Getwd()
	if w.Action.Run.Path != here+"/prog" || strings.Join(w.Action.Run.Args, "|") != "--flag|a b" || w.Env[0].Value != "b=c $x" || w.Env[1].Value != "/home/x" ||
		w.Resources.String() != "cpu_milli=500 memory_mb=64" || w.TimeLimit != time.Minute || got.Definition.OnLost != task.LostKeep || w.ResultFile != "r" {
		t.Fatalf("%+v", got.Definition)
	}
	s.fails(api.ExitUsage, "which program", "run")
	s.fails(api.ExitUsage, "must be a size", "run", "--memory", "64", "--", "x")
	s.fails(api.ExitFailed, "already exists", "run", "-d", "--id", id, "--", "x")
}

func TestCtrlCDetachesAndASecondStops(t *testing.T) {
	s := newShell(t)
	s.signals <- os.Interrupt
	_, errs, code := s.run("run", "--id", "t1", "--", "sleep", "1000")
	if code != exitInterrupted || !strings.Contains(errs, "cantina logs -f t1") {
		t.Fatalf("%d %s", code, errs)
	}
	if got, _ := s.GetTask("t1"); got.State != task.Pending {
		t.Fatalf("the first Ctrl-C only detaches, but the task is %v", got.State)
	}
	s.tty = true
	s.signals <- os.Interrupt
	s.signals <- os.Interrupt
	_, errs, code = s.run("run", "--id", "t2", "--", "sleep", "1000")
	if got, _ := s.GetTask("t2"); code != exitInterrupted || got.Outcome != task.Cancelled {
		t.Fatalf("%d %s %v", code, errs, got.Outcome)
	}
}

func TestWait(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.fails(api.ExitTimeout, "timed out", "wait", "once", "--timeout", "50ms")
	s.fails(api.ExitUsage, "does not end", "wait", "c1")
	s.fails(api.ExitUsage, "does not fit", "wait", "web", "--for", "done")
	web := lrp.ServiceKey{Domain: "d", Name: "web"}
	s.SetInstance(web, 1, func(a *lrp.Actual) { a.State, a.Net = lrp.Running, lrp.Net{Address: "x", Routable: true} })
	s.ok("wait", "web", "--for", "healthy")
	s.ok("wait", "web/1", "--for", "healthy")
	s.SetInstance(web, 1, func(a *lrp.Actual) { a.State, a.Net = lrp.Running, lrp.Net{Address: "x"} })
	for _, until := range []string{"healthy", "stopped"} { // it runs, and is not ready
		s.fails(api.ExitTimeout, "timed out", "wait", "web/1", "--for", until, "--timeout", "50ms")
	}
	s.SetInstance(web, 1, func(a *lrp.Actual) { a.State, a.Net = lrp.Running, lrp.Net{Address: "x", Routable: true} })
	s.SetService(web, func(x *lrp.Service) { x.Failure = "version 2: no progress for 10s: 0 of 2 instances healthy" })
	s.fails(api.ExitFailed, "the rollout failed: version 2: no progress for 10s: 0 of 2 instances healthy; version 1 serves again", "wait", "web")
	s.SetService(web, func(x *lrp.Service) { x.Phase = lrp.RollingBack })
	s.fails(api.ExitTimeout, "timed out", "wait", "web", "--timeout", "50ms")
	s.SetService(web, func(x *lrp.Service) { x.Phase = lrp.RollFailed })
	s.fails(api.ExitFailed, "it is left as it is", "wait", "web")
	s.ok("stop", "web")
	s.ok("wait", "web", "--for", "stopped")
	s.ok("rm", "web", "--yes")
	for range 2 { // its last instance was gone before we looked
		if _, said, code := s.run("wait", "web", "--for", "stopped"); code != 0 || !strings.Contains(said, `nothing is called "web": nothing of it runs`) {
			t.Errorf("removed: %d %s", code, said)
		}
	}
	s.fails(api.ExitNotFound, "nothing is called", "wait", "web")
}

// TestAWaitSaysWhatItWaitsFor: each reason once, and at the end of --timeout that it
// goes on.
func TestAWaitSaysWhatItWaitsFor(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.fails(api.ExitTimeout, "timed out: task/d.once is PENDING: no cell has memory_mb 512 free", "wait", "once", "--timeout", "50ms")
	s.fails(api.ExitTimeout, "it goes on: cantina logs -f task/d.once follows it, cantina stop task/d.once ends it", "wait", "once", "--timeout", "50ms")
	s.fails(api.ExitTimeout, "cantina stop service/d/web ends it", "wait", "web/1", "--timeout", "50ms")
	s.ticks = make(chan time.Time)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 3 {
			s.ticks <- now() // taken only when the one before was worked off
		}
		s.SetTask("d.once", func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Succeeded })
	}()
	_, errs, code := s.run("wait", "once")
	<-done
	if code != 0 || strings.Count(errs, "waiting since") != 1 || !strings.Contains(errs, "ask for memory: 300Mi or less") {
		t.Fatalf("%d %s", code, errs)
	}
}

// TestRetentionOfTasks: zero is the rule of Diego's notes, and nonsense is refused
// before anything starts.
func TestRetentionOfTasks(t *testing.T) {
	for _, c := range []struct {
		is   retention
		want task.Policy
	}{
		{retention{time.Hour, 5}, task.Policy{Retention: time.Hour, KeepPerDomain: 5}},
		{retention{0, 5}, task.Policy{Retention: -1, KeepPerDomain: 5}},
	} {
		if got, err := c.is.policy(); err != nil || got != c.want {
			t.Errorf("%+v: %+v, %v", c.is, got, err)
		}
	}
	s := newShell(t)
	for _, verb := range []string{"dev", "server"} {
		s.fails(api.ExitUsage, "must not be negative", verb, "--data", t.TempDir(), "--task-retention=-1s")
		s.fails(api.ExitUsage, "at least 1", verb, "--data", t.TempDir(), "--tasks-per-domain=0")
	}
}

func TestStopRestartRm(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.ok("restart", "web/0")
	s.ok("service", "scale", "web", "3")
	if got := s.ok("ps", "-q"); strings.Count(got, "\n") != 3 {
		t.Fatal(got)
	}
	s.fails(api.ExitUsage, "restart", "stop", "web/0")
	s.fails(api.ExitUsage, "--yes", "rm", "web")
	s.fails(api.ExitFailed, "task d.once has not ended: it is PENDING", "rm", "once", "--yes")
	s.ok("rm", "once", "--yes", "--force")
	s.fails(api.ExitNotFound, "kept 24 h", "logs", "task/d.once")
	s.ok("rm", "web", "job/count", "--yes")
	s.fails(api.ExitNotFound, "nothing is called", "rm", "web", "--yes")
	s.tty, s.in = true, "n\n"
	s.fails(api.ExitFailed, "not confirmed", "cells", "forget", "p1")
	s.in = "y\n"
	s.ok("cells", "forget", "p1")
}

func TestTaskVerbs(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.fails(api.ExitFailed, "no result yet", "task", "result", "once")
	s.SetTask("d.once", func(x *task.Task) {
		x.State, x.Outcome, x.Result = task.Completed, task.Succeeded, task.Result{Output: []byte("{\"a\": 1}\x00")}
	})
	if got := s.ok("task", "result", "once"); got != "{\"a\": 1}\x00" {
		t.Fatalf("%q", got)
	}
	s.ok("run", "-d", "--id", "gone", "--", "x")
	s.SetTask("gone", func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Lost })
	s.fails(api.ExitUsage, "done, failed or rerun", "task", "resolve", "gone")
	s.ok("task", "resolve", "gone", "--as", "done")
}

func TestNotesOfInstances(t *testing.T) {
	for want, x := range map[string]*pb.Instance{
		"no service owns it: kept until its domain is fresh": {Orphan: true, State: "RUNNING"},
		"insufficient resources: 1 cell":                     {State: "UNCLAIMED", PlacementError: "insufficient resources: 1 cell", PlacementCode: "insufficient_resources"},
		"exit 1":                                             {State: "CRASHED", CrashReason: "exit 1"}, "suspect": {State: "RUNNING", Presence: "SUSPECT"}, "": {State: "RUNNING", Presence: "ORDINARY"},
	} {
		if got := instanceNote(x); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	s := newShell(t)
	s.apply()
	if got := s.ok("ps", "--orphans", "-q"); got != "" {
		t.Error(got)
	}
}

func TestStatusCellsAndQuarantine(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.SetStatus(func(x *api.Status) {
		x.Waiting, x.For, x.Longest = true, []string{"c3"}, 42*time.Second
		x.Held = []api.Held{{What: "job count on a", Reason: "initial wait", Cell: "c3", Longest: 42 * time.Second}}
		x.Warnings = []string{"listening on 0.0.0.0:7480 without protection"}
		web := lrp.ServiceKey{Domain: "d", Name: "web"}
		x.Rollouts = []api.Rollout{{Key: web, Phase: lrp.RollingOut, Version: 3, Healthy: 1, Instances: 4},
			{Key: web, Phase: lrp.Steady, Version: 2, Healthy: 4, Instances: 4, Failure: "version 3: no progress for 10m0s: 1 of 4 instances healthy"}}
		x.RolloutsMore = 7
	})
	s.Quarantine(api.Quarantined{Key: "task/x", Reason: "checksum", Bytes: []byte{1}})
	got := s.ok("status")
	for _, want := range []string{"for c3, at most 42s", "job count on a: initial wait", "WARNING     listening", "1 rows cannot be read",
		"rollout     d/web: rolling out, version 3: 1 of 4 healthy\n",
		"rollout     d/web: taken back, version 2 serves; version 3: no progress for 10m0s: 1 of 4 instances healthy\nrollout     and 7 more\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	s.SetStatus(func(x *api.Status) { x.For = nil })
	if got := s.ok("status"); strings.Contains(got, "for ,") || !strings.Contains(got, "cells that it does not know may run something, at most 42s") {
		t.Error(got)
	}
	if got := s.ok("cells"); !strings.Contains(got, "c1    HEALTHY") || !strings.Contains(got, "memory_mb 40/100") {
		t.Error(got)
	}
	s.fails(api.ExitUsage, "a second time", "leader", "end-wait", "--yes")
	for _, want := range []string{"the initial wait has ended", "there is no initial wait"} {
		if _, errs, code := s.run("leader", "end-wait", "--accept-double-starts", "--yes"); code != 0 || !strings.Contains(errs, want) {
			t.Errorf("%d %s", code, errs)
		}
	}
	if got := s.ok("store", "quarantine", "show"); !strings.Contains(got, "task/x") {
		t.Error(got)
	}
	s.fails(api.ExitFailed, "still not readable", "store", "quarantine", "restore", "task/x")
	s.ok("store", "quarantine", "drop", "task/x", "--yes")
	if got := s.ok("store", "quarantine", "show", "-o", "json"); got != "[]\n" {
		t.Error(got)
	}
}

func TestStatusIsAligned(t *testing.T) {
	var out bytes.Buffer
	c := &cli{surroundings: surroundings{Out: &out}}
	if err := c.statusText(&pb.Status{Cluster: "x", Counts: map[string]int32{"cells": 1, "batch_running": 2}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cluster        x\n", "\nbatch_running  2\n", "\ncells          1\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

func TestEventTexts(t *testing.T) {
	for want, e := range map[string]*pb.Event{
		"RUNNING":            {Task: &pb.Task{State: "RUNNING"}},
		"COMPLETED failed":   {Task: &pb.Task{State: "COMPLETED", Outcome: "failed"}},
		"job running":        {Job: &pb.Job{State: "running"}},
		"n7 backoff":         {Subject: "count/n7", Node: &pb.JobNode{Node: "n7", State: "backoff"}},
		"d/web/0 is gone":    {Subject: "d/web/0", Gone: true, Instance: &pb.Instance{}},
		"waiting":            {Schedule: &pb.Schedule{State: "waiting"}},
		"web/1 CLAIMED":      {Instance: &pb.Instance{Service: "web", Index: 1, State: "CLAIMED"}},
		"web/1 UNCLAIMED: x": {Instance: &pb.Instance{Service: "web", Index: 1, State: "UNCLAIMED", PlacementError: "x"}},
	} {
		if got := eventOf(e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestAReasonSaysAShortageOnce: what the text has stands in no line of its own.
func TestAReasonSaysAShortageOnce(t *testing.T) {
	r := &pb.Reason{Text: "running: 1 needed, 0 free, held by count/a", Resource: "running", Need: 1, Holder: "count/a"}
	if !saysAll(r) {
		t.Error("said twice")
	}
	if r.Holder += ", count/b"; saysAll(r) {
		t.Error("a holder is not told")
	}
}

func TestBackupAndRestore(t *testing.T) {
	s := newShell(t)
	dir := t.TempDir()
	s.fails(api.ExitUsage, "--data or --etcd-endpoints", "store", "backup", dir+"/b")
	s.fails(api.ExitFailed, "", "store", "backup", dir+"/b", "--data", dir+"/empty")
	if _, err := os.Stat(dir + "/b"); err == nil {
		t.Fatal("a failed backup left a file")
	}
	if err := os.WriteFile(dir+"/bad", []byte("not a backup"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.fails(api.ExitFailed, "bad backup", "store", "restore", dir+"/bad", "--data", dir+"/new")
	held, err := folder.Open(dir + "/held")
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	s.fails(api.ExitFailed, "in use", "store", "mark-restored", "--data", dir+"/held")
}

// TestABackupComesBack writes a store as a leader does, backs it up and restores it.
func TestABackupComesBack(t *testing.T) {
	s := newShell(t)
	dir := t.TempDir()
	write := func(ctx context.Context, st *store.Store) error {
		reign, err := st.Campaign(ctx, store.Candidate{ID: "test"})
		if err != nil {
			return err
		}
		done := make(chan error, 1)
		reign.Submit(store.Transition{Ops: []store.Op{{Key: "task/x", Value: []byte("row")}}}, func(_ int64, err error) { done <- err })
		return errors.Join(<-done, reign.Resign(ctx))
	}
	if err := (&place{data: dir + "/old"}).open(t.Context(), write); err != nil {
		t.Fatal(err)
	}
	_, errs, code := s.run("store", "backup", dir+"/b", "--data", dir+"/old")
	if code != 0 || !strings.Contains(errs, "1 rows") {
		t.Fatal(code, errs)
	}
	s.ok("store", "restore", dir+"/b", "--data", dir+"/new")
	s.fails(api.ExitFailed, "not empty", "store", "restore", dir+"/b", "--data", dir+"/new")
	s.ok("store", "mark-restored", "--data", dir+"/old")
	var rows []store.Row
	restored := false
	read := func(ctx context.Context, st *store.Store) error {
		reign, err := st.Campaign(ctx, store.Candidate{ID: "test"})
		if err != nil {
			return err
		}
		rows, restored = reign.Rows(), reign.Restored()
		return reign.Resign(ctx)
	}
	if err := (&place{data: dir + "/new"}).open(t.Context(), read); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].Key != "task/x" || string(rows[0].Value) != "row" || !restored {
		t.Fatalf("rows %v, restored %v", rows, restored)
	}
}

func TestEventsAndWatch(t *testing.T) {
	s := newShell(t)
	s.apply()
	got := s.ok("events", "--since", "100", "--kind", "task", "-o", "jsonl")
	if strings.Count(got, "\n") != 1 || !strings.Contains(got, `"subject":"d.once"`) {
		t.Fatal(got)
	}
	s.fails(api.ExitUsage, "--since", "events")
	s.out = &safeBuffer{wrote: make(chan struct{}, 1)}
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		<-s.out.wrote
		s.SetTask("d.once", func(x *task.Task) { x.State = task.Running })
		<-s.out.wrote
		s.signals <- os.Interrupt
	}()
	if got, _, code := s.run("task", "ls", "-w", "-o", "jsonl"); code != 0 || strings.Count(got, "\n") != 2 || !strings.Contains(got, "RUNNING") {
		t.Fatal(code, got)
	}
	<-changed
}

func TestCronNext(t *testing.T) {
	s := newShell(t)
	out, errs, code := s.run("cron", "next", "* 0 * * *", "--utc", "-n", "2")
	if code != 0 || strings.Count(out, "\n") != 3 || !strings.Contains(errs, "did you mean `0 0 * * *`?") {
		t.Fatalf("%d\n%s\n%s", code, out, errs)
	}
	if _, _, code := s.run("cron", "next", "* 0 * * *", "--utc", "--strict"); code != api.ExitFailed {
		t.Fatalf("--strict: %d", code)
	}
	out, _, _ = s.run("cron", "next", "30 2 * * *", "--tz", "Europe/Berlin", "--gap", "skip", "--fold", "first", "--from", "2027-10-30T12:00:00Z", "-n", "2")
	if strings.Count(out, "skipped:") != 1 || !strings.Contains(out, "  skipped: repeated hour\n") {
		t.Errorf("a time that is skipped: %q", out)
	}
	_, errs, code = s.run("cron", "next", "0 0 */2 * 1", "--utc")
	if code != 0 || !strings.Contains(errs, "AND") {
		t.Fatalf("both day fields: %d %s", code, errs)
	}
	s.fails(api.ExitUsage, "30", "cron", "next", "0 0 30 2 *", "--utc")
	s.fails(api.ExitUsage, "Europe/Berlin", "cron", "next", "0 0 * * *", "--tz", "Europe/Berln")
	out = s.ok("cron", "next", "30 2 * * *", "--tz", "Europe/Berlin", "--gap", "run", "--fold", "first", "--from", "2026-03-28T12:00:00Z", "-n", "1", "-o", "jsonl")
	if !strings.Contains(out, `"utc":"2026-03-29T01:00:00Z"`) {
		t.Fatal(out)
	}
}

func TestAddressesAreFound(t *testing.T) {
	dir := t.TempDir()
	c := &cli{surroundings: surroundings{Getenv: func(k string) string {
		return map[string]string{"XDG_RUNTIME_DIR": dir}[k]
	}}}
	if err := os.Mkdir(dir+"/cantina", 0o700); err != nil {
		t.Fatal(err)
	}
	ln, _, err := (api.Listener{Address: "unix:" + dir + "/cantina/dev.sock"}).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if got := c.addresses(); got[0] != "unix:"+dir+"/cantina/dev.sock" {
		t.Fatal(got)
	}
	if err := os.WriteFile(dir+"/cantina/dev.addr", []byte("unix:/elsewhere/s.sock\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := c.addresses(); got[0] != "unix:/elsewhere/s.sock" {
		t.Fatal(got)
	}
	c.addr = []string{"a:1", "b:2"}
	if got := c.addresses(); len(got) != 2 {
		t.Fatal(got)
	}
}

func TestCompletionKnowsNames(t *testing.T) {
	s := newShell(t)
	s.apply()
	for _, sh := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := s.ok("completion", sh); !strings.Contains(got, "cantina") {
			t.Error(sh)
		}
	}
	s.fails(api.ExitUsage, "no completion", "completion", "csh")
	if got := s.ok("__complete", "logs", "w"); !strings.Contains(got, "web\n") || strings.Contains(got, "count") {
		t.Fatal(got)
	}
	s.env["CANTINA_ADDR"] = "unix:/nowhere"
	if got := s.ok("__complete", "logs", "w"); strings.Contains(got, "web") {
		t.Fatal(got)
	}
}

func TestHelp(t *testing.T) {
	s := newShell(t)
	if got := s.ok("help", "exit-codes"); !strings.Contains(got, "6    lost") {
		t.Fatal(got)
	}
	if got := s.ok("help", "topics"); !strings.Contains(got, "addresses") {
		t.Fatal(got)
	}
	got := s.ok("help", "run")
	if strings.Index(got, "Examples:") > strings.Index(got, "Flags:") {
		t.Fatal("examples come first")
	}
	s.fails(api.ExitUsage, "no help about", "help", "nonsense")
}

// TestEveryVerbIsWhole walks all verbs: each has a sentence and an example, and
// each that reads data has every form of output.
func TestEveryVerbIsWhole(t *testing.T) {
	c := &cli{surroundings: surroundings{Getenv: func(string) string { return "" }}, ctx: context.Background()}
	root := c.root()
	readers := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			path := sub.CommandPath()
			if sub.Short == "" || strings.HasSuffix(sub.Short, ".") {
				t.Errorf("%s: one sentence without a full stop says what it does, not %q", path, sub.Short)
			}
			if sub.Example == "" {
				t.Errorf("%s has no example", path)
			}
			if sub.Annotations[reads] != "" {
				readers++
				for _, flag := range []string{"output", "columns", "template", "no-header", "utc", "tz"} {
					if sub.Flags().Lookup(flag) == nil {
						t.Errorf("%s reads data and has no --%s", path, flag)
					}
				}
			}
			walk(sub)
		}
	}
	walk(root)
	if readers < 15 {
		t.Errorf("only %d verbs read data: the walk is wrong", readers)
	}
}

// TestEveryReaderSpeaksJSON calls each verb that reads with -o json.
func TestEveryReaderSpeaksJSON(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.SetTask("d.once", func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Succeeded })
	s.in = timed
	s.ok("apply", "-q", "-")
	arguments := map[string][]string{
		"cron show": {"tick"}, "cron history": {"tick"}, "cron missed": {"tick"}, "cron run": {"tick"}, "cron pause": {"tick"}, "cron resume": {"tick"},
		"cron backfill": {"tick", "--from", "2020-01-01T00:00:00Z", "--to", "2020-01-02T00:00:00Z", "--max", "1"},
		"apply":         {"-"}, "plan": {"-"}, "logs": {"web"}, "explain": {"web"}, "service get": {"web"}, "task get": {"once"}, "task result": {"once"},
		"job get": {"count"}, "job nodes": {"count"}, "job results": {"count"}, "events": {"--since", "100"}, "cron next": {"0 0 * * *", "--utc"},
	}
	c := &cli{surroundings: surroundings{Getenv: func(string) string { return "" }}, ctx: context.Background()}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.Annotations[reads] != "" {
				path := strings.TrimPrefix(sub.CommandPath(), "cantina ")
				s.in = demo
				args := slices.Concat(strings.Fields(path), arguments[path], []string{"-o", "json"})
				out, errs, code := s.run(args...)
				if code != 0 && code != exitChanges {
					t.Errorf("%v: %d %s", args, code, errs)
				}
				for _, text := range strings.Split(strings.TrimSpace(out), "\n}\n{") {
					if text != "" && !json.Valid([]byte(out)) && !jsonLines(out) {
						t.Errorf("%v: not JSON:\n%s", args, out)
						break
					}
				}
			}
			walk(sub)
		}
	}
	walk(c.root())
}

func jsonLines(s string) bool {
	for _, l := range strings.Split(strings.TrimSpace(s), "\n") {
		if !json.Valid([]byte(l)) {
			return false
		}
	}
	return true
}

func TestDrainVerbs(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.fails(api.ExitUsage, "needs a reason", "drain", "c1")
	s.fails(api.ExitNotFound, "cell c9", "drain", "c9", "--reason", "x")
	s.fails(api.ExitUsage, "from 1 s to 30 days", "drain", "c1", "--reason", "x", "--deadline", "10ms")
	if _, errs, code := s.run("drain", "cell/c1", "--reason", "new disk", "--deadline", "30m"); code != 0 || !strings.Contains(errs, "for 30m at most; cantina undrain c1") {
		t.Fatalf("%d %s", code, errs)
	}
	if got := s.ok("cells", "c1"); !strings.Contains(got, "being drained, until") || !strings.Contains(got, "0 left: new disk") {
		t.Fatal(got)
	}
	s.fails(api.ExitUsage, `finish or stop, not "wait"`, "drain", "c1", "--reason", "x", "--batch", "wait")
	for flag, want := range map[string]string{"--batch=finish": "false", "--batch=stop": "true", "--stop-batch": "true"} {
		s.ok("drain", "c1", "--reason", "x", flag)
		if got := s.ok("cells", "c1", "--template", "{{.drain.stop_batch}}"); got != want+"\n" {
			t.Errorf("%s: %q", flag, got)
		}
	}
	for _, want := range []string{"takes work again", "cell c1 is not drained"} {
		if _, errs, code := s.run("undrain", "c1"); code != 0 || !strings.Contains(errs, want) {
			t.Fatalf("%d %s", code, errs)
		}
	}
	s.fails(api.ExitNotFound, "cell c9", "undrain", "c9")
	if got := s.ok("cells", "c1"); strings.Contains(got, "drain") {
		t.Fatal(got)
	}
	s.SetCell(api.Cell{Name: "c1", Proc: "p1", Session: worker.Healthy, Reported: true, Evacuating: true, Since: time.Now()})
	if got := s.ok("cells", "c1"); !strings.Contains(got, "its drain was taken back, and it has not heard of it yet") {
		t.Error(got)
	}
}

// TestNoNoteIsCut: on a terminal of any width every note is there in full, also when
// the columns beside it are narrowed; what FREE loses is what matters least.
func TestNoNoteIsCut(t *testing.T) {
	s := newShell(t)
	s.tty = true
	long := "its heartbeats stopped 12 s ago: the cell, its machine or the network between them does not answer any more"
	for i, reason := range []string{"", "short", long} {
		s.SetCell(api.Cell{Name: worker.CellName(fmt.Sprintf("cell-%d", i)), Proc: "p", Session: worker.Unhealthy, Reason: reason, Reported: true, Since: time.Now(),
			Capacity: resource.Amounts{"containers": 1000, "disk_mb": 97000, "memory_mb": 24105, "cpu_milli": 2000, "slots": 3},
			Free:     resource.Amounts{"containers": 1000, "disk_mb": 97000, "memory_mb": 24105, "cpu_milli": 2000, "slots": 3}})
	}
	for _, args := range [][]string{{"cells"}, {"cells", "-o", "wide"}, {"cells", "--columns", "cell,note,proc"}} {
		got := s.ok(append(args, "--color", "never")...)
		if !strings.Contains(got, long+"\n") && !strings.Contains(got, long+" ") || !strings.Contains(got, "short") {
			t.Errorf("%q: a note is cut:\n%s", args, got)
		}
		for _, l := range strings.Split(got, "\n") {
			if n := utf8.RuneCountInString(l); n > 100 && args[len(args)-1] == "cells" && !strings.HasPrefix(l, "  ") {
				t.Errorf("a row has %d columns:\n%s", n, l)
			}
		}
	}
	if got := s.ok("cells"); !strings.Contains(got, "memory_mb 24105/24105") {
		t.Errorf("FREE:\n%s", got)
	}
	s.tty = false
	if got := s.ok("cells"); strings.Count(got, "\n") != 4 || !strings.Contains(got, "disk_mb 97000/97000, slots 3/3, containers 1000/1000  ") {
		t.Errorf("one row for each, whole, where no terminal is:\n%s", got)
	}
}
