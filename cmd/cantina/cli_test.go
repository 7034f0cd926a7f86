package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"

	"cantina/api"
	"cantina/api/apitest"
	"cantina/batch"
	"cantina/internal/guard"
	"cantina/lrp"
	"cantina/plan"
	"cantina/resource"
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
	srv := api.New(api.Config{Now: now, Zone: time.LoadLocation, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Build: "test", NewID: newKey, Members: s.Members()})
	srv.Lead(s.Backend())
	s.address = "unix:" + t.TempDir() + "/s.sock"
	ln, err := guard.Listener{Address: s.address}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- ln.Serve(ctx, srv.Handler()) }()
	s.env["CANTINA_ADDR"] = s.address
	t.Cleanup(func() {
		s.Hub.Close()
		stop()
		<-done
	})
	return s
}

// run calls a verb and returns its output and its exit code.
func (s *shell) run(args ...string) (out, errs string, code int) {
	s.t.Helper()
	o, e := &safeBuffer{}, &safeBuffer{}
	if s.out != nil {
		o = s.out
	}
	code = invoke(s.t.Context(), args, environment{
		In: strings.NewReader(s.in), Out: o, Err: e, Getenv: func(k string) string { return s.env[k] }, Now: now,
		LookupEnv: func(k string) (string, bool) { v, ok := s.env[k]; return v, ok },
		InTTY:     s.tty, OutTTY: s.tty, ErrTTY: s.tty, Width: func() int { return 100 },
		Height:     func() int { return 30 },
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

// fails calls a verb that must end with an exit code and a message.
func (s *shell) fails(code int, says string, args ...string) {
	s.t.Helper()
	out, errs, got := s.run(args...)
	if got != code || !strings.Contains(errs, says) {
		s.t.Fatalf("cantina %s: exit code %d, want %d with %q\nout: %s\nerr: %s", strings.Join(args, " "), got, code, says,
			out, errs)
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
	if out := s.ok("apply", "-", "-q"); out != "schedule/d/tick\n" {
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
	want("tick", "cron", "backfill", "tick", "--from", "2020-01-01T00:00:00Z", "--to", "2020-01-01T01:00:00Z", "--max",
		"2")
	s.fails(api.ExitNotFound, "schedule \"none\" not found", "cron", "run", "none")
	s.fails(api.ExitUsage, "--at must be a time", "cron", "run", "tick", "--at", "noon")
	s.fails(api.ExitUsage,
		"the schedule does not fire at this time: 2020-01-01T00:00:30Z; the next one is 2020-01-01T00:01:00Z", "cron", "run",
		"tick", "--at", "2020-01-01T00:00:30Z")
	s.fails(api.ExitUsage, "apply to a crontab line only", "cron", "next", "tick", "--from", "2027-03-12T00:00:00Z")
	s.fails(api.ExitUsage, "cantina cron pause d/tick", "stop", "schedule/tick")
	// A run has the name of its schedule: removing one must not remove the other.
	s.ok("run", "-d", "--name", "tick", "--domain", "d", "--", "x")
	for _, verb := range [][]string{{"rm", "--yes", "tick"}, {"stop", "tick"}} {
		s.fails(api.ExitUsage, "is ambiguous", verb...)
	}
	s.ok("stop", "task/tick")
	s.ok("rm", "task/tick", "--yes")
	if out := s.ok("rm", "tick", "--yes", "-o", "name"); out != "schedule/d/tick\n" {
		t.Errorf("rm of a schedule and its runs removed %q", out)
	}
	s.fails(api.ExitNotFound, "schedule d/tick was removed (2027", "cron", "show", "tick")
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
	s.SetJob("d/count", func(j *plan.Job) {
		j.NodesKnown, j.Progress = true, batch.Progress{State: batch.JobFailed, Total: 3, Done: 2, Failed: 1}
	},
		plan.JobNode{NodeView: batch.NodeView{Node: "a", Class: batch.ClassDone}, Data: []byte(`{"lines":7}`)},
		plan.JobNode{NodeView: batch.NodeView{Node: "b", Class: batch.ClassDone}, Data: []byte(`{"lines":8}`)},
		plan.JobNode{NodeView: batch.NodeView{Node: "c", Class: batch.ClassFailed,
			Status: batch.Status{ExitCode: 4, Attempts: 2, Reason: "exit status 4"}}})
	s.SetCell(api.Cell{Name: "c1", Proc: "p1", Session: worker.Healthy, Reported: true, Since: now(),
		Capacity: resource.Amounts{"memory_mb": 100}, Free: resource.Amounts{"memory_mb": 40}})
}

func TestApplyAndPlan(t *testing.T) {
	s := newShell(t)
	s.in = demo
	out, _, code := s.run("plan", "-")
	if code != exitChanges || !strings.Contains(out, "create  service  web") {
		t.Fatalf("%d\n%s", code, out)
	}
	if out := s.ok("apply", "-", "-q"); out != "service/d/web\ntask/d/once\njob/d/count\n" {
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
	s.fails(api.ExitUsage, "--prune needs --selector", "apply", "-", "--prune", "--yes")
	s.fails(api.ExitUsage, "--prune needs --selector", "plan", "-", "--prune", "-l", "")
	s.fails(api.ExitUsage, "--selector needs --prune", "apply", "-", "-l", "a=b")
	s.fails(api.ExitUsage, "--yes", "apply", "-", "--prune", "-l", "!keep")
	if out := s.ok("apply", "-", "--prune", "-l", "keep=me", "--yes", "-q"); out != "" {
		t.Errorf("of other labels: %q", out)
	}
	if out := s.ok("apply", "-", "--prune", "-l", "!keep", "--yes", "-q"); out != "service/d/web\n" {
		t.Fatal(out)
	}
	s.fails(api.ExitFailed, "revision", "apply", "-", "--check-revision", "3")
	if out := s.ok("plan", "--schema"); !json.Valid([]byte(out)) {
		t.Fatal("the schema is not JSON")
	}
}

func TestABadSpecIsReportedWholeAndNotSent(t *testing.T) {
	s := newShell(t)
	s.env["CANTINA_ADDR"] = "unix:/nowhere"
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": "domian: x\n",
		"b.yml": "tasks: {t: {command: [a], memory: 64}}\n", "c.txt": "ignored"} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, errs, code := s.run("apply", dir)
	want := dir + "/a.yaml:1:1: unknown field \"domian\"; did you mean domain?\n" + dir +
		"/b.yml:1:35: tasks.t.memory: a size needs a unit, not a bare number; did you mean 64Mi?\n"
	if code != api.ExitUsage || errs != want {
		t.Fatalf("%d\n%s", code, errs)
	}
	s.fails(api.ExitUsage, "no such file", "apply", dir+"/none.yaml")
	s.fails(api.ExitUsage, "no spec file given", "apply")
}

func TestNoServerAndWrongUsage(t *testing.T) {
	s := newShell(t)
	s.env["CANTINA_ADDR"] = "unix:/nowhere"
	s.fails(api.ExitConnection, "no connection to unix:/nowhere", "ps")
	s.fails(api.ExitUsage, "did you mean plan?", "plaan")
	s.fails(api.ExitUsage, "did you mean results?", "job", "result", "x")
	s.fails(api.ExitUsage, "unknown flag", "ps", "--colour")
	s.fails(api.ExitUsage, "-o, --output must be", "ps", "-o", "xml")
	s.fails(api.ExitUsage, "must be a duration like 10s", "status", "--timeout", "10")
	s.fails(api.ExitUsage, "needs SUBJECT", "wait")
}

func TestFormsOfOutput(t *testing.T) {
	s := newShell(t)
	s.apply()
	table := s.ok("ps")
	if !strings.Contains(table, "web/0    RUNNING  yes       c1") || strings.Contains(table, "\x1b") ||
		strings.Contains(table, "PROCESS") {
		t.Fatal(table)
	}
	if wide := s.ok("ps", "-o", "wide"); !strings.Contains(wide, "PROCESS") {
		t.Fatal(wide)
	}
	var list []map[string]any
	if err := json.Unmarshal([]byte(s.ok("ps", "-o", "json")), &list); err != nil || len(list) != 2 ||
		list[1]["crash_count"] != 3.0 {
		t.Fatal(list, err)
	}
	if got := strings.Split(strings.TrimSpace(s.ok("ps", "-o", "jsonl")), "\n"); len(got) != 2 ||
		!json.Valid([]byte(got[1])) {
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
	if err := yaml.Unmarshal([]byte(s.ok("service", "get", "web", "-o", "yaml")), &doc); err != nil ||
		doc["name"] != "web" {
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

// TestNamesForOtherVerbsAreNeverCut: ids, names and addresses stay whole on a terminal of any width.
func TestNamesForOtherVerbsAreNeverCut(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.tty, s.env["NO_COLOR"] = true, "1"
	const id, name = "nightly-measurement-of-everything.20261128T190635Z", "a-task-whose-name-is-not-short-at-all"
	s.ok("run", "-d", "--id", id, "--name", name, "--", "true")
	s.SetTask(id, func(x *task.Task) { x.Result.Reason, x.Result.Failed = strings.Repeat("why it is so ", 9), true })
	if got := s.ok("task", "ls"); !strings.Contains(got, id) || strings.Contains(got, name) {
		t.Error(got)
	}
	long := strings.Repeat("an-address-", 9) + "example"
	s.SetInstance(lrp.ServiceKey{Domain: "d", Name: "web"}, 0, func(a *lrp.Actual) { a.Net.Address = long })
	if got := s.ok("ps"); !strings.Contains(got, long) {
		t.Error(got)
	}
}

// TestAnEventNamesItsSubject: a number beside done is the name of a node.
func TestAnEventNamesItsSubject(t *testing.T) {
	if got := eventOf(&pb.Event{Node: &pb.JobNode{Node: "1087", State: "done"}}); got != "node 1087 is done" {
		t.Error(got)
	}
}

// TestATableFitsItsTerminal: the note has the reason, so it is cut last.
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
	c := &cli{environment: environment{Out: &out, Getenv: func(string) string { return "" }},
		printing: printing{output: "table"}}
	cols := []column[*pb.Job]{{name: "JOB", text: func(x *pb.Job) string { return x.Name }},
		{name: "STATE", text: func(x *pb.Job) string { return x.State }}}
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
	if got := s.ok("job", "results", "count", "--template",
		`{{.node}} {{with .data}}{{.lines}}{{end}}`); got != "a 7\nb 8\nc \n" {
		t.Fatal(got)
	}
	var all []map[string]any
	if err := json.Unmarshal([]byte(s.ok("job", "results", "count", "-o", "json")), &all); err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
	if got := s.ok("job", "nodes", "count", "--columns", "node,state,errors",
		"--no-header"); got != "a  done    0\nb  done    0\nc  failed  2\n" {
		t.Fatal(got)
	}
	if got := s.ok("job", "nodes", "count", "--state", "failed", "-q"); got != "d/count/c\n" {
		t.Fatal(got)
	}
	if got := s.ok("job", "nodes", "count", "--state", "running", "-o", "json"); got != "[]\n" {
		t.Fatalf("%q", got)
	}
	s.fails(api.ExitFailed, "1 of 3 failed", "wait", "count")
	s.ok("job", "retry", "count", "--node", "c")
	s.ok("job", "pause", "job/d/count")
	s.ok("job", "resume", "count")
	s.ok("job", "kill", "count")
	s.fails(api.ExitNotFound, `job "none" not found`, "job", "results", "none")
}

func TestSubjects(t *testing.T) {
	s := newShell(t)
	s.apply()
	for _, id := range []string{"abc1", "abc2", "web"} {
		s.ok("run", "-d", "--id", id, "--", "true")
	}
	s.fails(api.ExitUsage, "task/web", "logs", "web")
	s.fails(api.ExitUsage, "task/abc2", "wait", "abc", "--for", "done")
	s.fails(api.ExitNotFound, "resource \"none\" not found", "logs", "none")
	for arg, want := range map[string]string{
		"service/web": "service/d/web", "d/web": "service/d/web", "web/1": "service/d/web/1", "d/web/0": "service/d/web/0",
		"task/abc1": "task/abc1", "abc1": "task/abc1", "count": "job/d/count", "count[a]": "job/d/count/a",
		"count/b": "job/d/count/b", "c1": "cell/c1", "once": "task/d.once",
	} {
		if got := s.ok("explain", arg); !strings.HasPrefix(got, want+" is ") {
			t.Errorf("%s: %s", arg, got)
		}
	}
	s.fails(api.ExitUsage, "no output of its own", "logs", "c1")
}

// TestAWholeNameBeatsTheBeginningOfAnId: a name selects its newest run.
func TestAWholeNameBeatsTheBeginningOfAnId(t *testing.T) {
	s := newShell(t)
	s.apply()
	for i, id := range []string{"web-1", "once-1", "r1", "r2", "r3"} {
		s.ok("run", "-d", "--id", id, "--name", "n"+id[:1], "--domain", "d", "--", "true")
		s.SetTask(id, func(x *task.Task) { x.Created = now().Add(time.Duration(i%4) * time.Minute) })
	}
	s.SetJob("d/count", func(j *plan.Job) { j.NodesKnown = true },
		plan.JobNode{NodeView: batch.NodeView{Node: "net/http", Class: batch.ClassDone}, Path: []string{"h1", "net/http"}})
	for arg, want := range map[string]string{
		"web": "service/d/web", "once": "task/d.once", "nr": "task/r2", "web-": "task/web-1",
		"count[net/http]": "job/d/count/net/http", "count[h1/net/http]": "job/d/count/net/http",
		"count/h1/net/http": "job/d/count/net/http",
	} {
		if got := s.ok("explain", arg); !strings.HasPrefix(got, want+" is ") {
			t.Errorf("%s: %s", arg, got)
		}
	}
	s.fails(api.ExitNotFound, "job d/count has no node h2/net/http (it has 3); did you mean net/http?", "explain",
		"count[h2/net/http]")
	s.fails(api.ExitNotFound, "job d/count has no node http (it has 3); list them: cantina job nodes d/count", "explain",
		"count[http]")
}

func TestMissingObjectsAreNotFound(t *testing.T) {
	s := newShell(t)
	s.apply()
	for says, all := range map[string][][]string{
		"job d/count has no node 3001 (it has 3); list them: cantina job nodes d/count": {{"explain", "count/3001"},
			{"explain", "count[3001]"}, {"explain", "job/d/count/3001"}, {"logs", "count/3001"}, {"wait", "count/3001"}},
		"has 2 instances and no index 9": {{"logs", "web/9"}, {"ps", "web/9"},
			{"restart", "web/9"}},
		`service d/web has no instance "x"; list them: cantina ps d/web`: {{"explain", "web/x"}, {"ps", "web/x"}},
		"did you mean web?": {{"explain", "wbe"}, {"logs", "wbe"}, {"stop", "wbe"}, {"ps", "wbe"},
			{"service", "get", "wbe"}, {"service", "scale", "wbe", "3"}},
		"did you mean d/web?": {{"explain", "d/wbe"}},
		"did you mean count?": {{"explain", "coutn"}, {"job", "get", "coutn"}, {"job", "nodes", "coutn"},
			{"job", "results", "coutn"}, {"job", "pause", "coutn"}, {"job", "retry", "coutn"}, {"job", "kill", "coutn"}},
		"did you mean once?":        {{"explain", "onec"}, {"task", "get", "onec"}, {"task", "result", "onec"}},
		"did you mean service/web?": {{"explain", "job/web"}},
		"did you mean job/count?":   {{"explain", "service/count"}},
		"did you mean c1?": {{"explain", "cell/c2"}, {"cells", "c2"}, {"drain", "c2", "--reason", "x"},
			{"undrain", "c2"}},
	} {
		for _, args := range all {
			s.fails(api.ExitNotFound, says, args...)
		}
	}
	for _, args := range [][]string{
		{"restart", "web/9"}, {"logs", "web/9"}, {"ps", "web/9"}, {"ps", "web/9", "-w"}, {"wait", "web/9"}, {"logs",
			"count", "--node", "nope"}, {"logs", "-f", "count", "--node", "nope"},
		{"logs", "web", "--attempt", "99"}, {"job", "nodes", "count", "--below", "zz"}, {"job", "results", "count",
			"--node", "zz"},
		{"job", "retry", "count", "--node", "zz"}, {"job", "kill", "count", "--below", "zz"},
	} {
		s.fails(api.ExitNotFound, "cantina: ", args...)
	}
	s.fails(api.ExitUsage, "--grep", "logs", "web", "--grep", "(")
}

// TestAnInstanceIsNotItsService: a verb that takes an index acts on that instance; other verbs refuse one.
func TestAnInstanceIsNotItsService(t *testing.T) {
	s := newShell(t)
	s.apply()
	for _, name := range []string{"web/1", "service/web/1", "d/web/1", "service/d/web/1"} {
		if got := s.ok("ps", name, "-q"); got != "d/web/1\n" {
			t.Errorf("ps %s: %q", name, got)
		}
		s.fails(api.ExitUsage, "needs the whole service: d/web", "service", "scale", name, "3")
		s.fails(api.ExitUsage, "needs the whole service: d/web", "service", "get", name)
	}
	if got := s.ok("ps", "web", "-q"); got != "d/web/0\nd/web/1\n" {
		t.Errorf("ps web: %q", got)
	}
}

func TestRefusalsNameARemedy(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.fails(api.ExitUsage, "cantina service scale d/web N", "rm", "web/0", "--yes")
	s.fails(api.ExitUsage, "cantina job kill d/count --node a", "rm", "count[a]", "--yes")
	s.fails(api.ExitUsage, "remove web, once: use --yes", "rm", "web", "once")
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
	ending, staying int
}

func (c counted) Containers() (ending, staying int) { return c.ending, c.staying }

func TestTheFirstCtrlCReportsTheWait(t *testing.T) {
	const keep = " on (on_cell_restart: keep); start this again on the same data directory to manage what was kept.\n" +
		"Until then it cannot be stopped from here, and a service that is not exclusive may get another copy elsewhere\n"
	for h, want := range map[counted]string{
		{}:                      "\nstopping\n",
		{ending: 1}:             "\nstopping 1 container; press Ctrl-C again to kill at once\n",
		{ending: 3}:             "\nstopping 3 containers; press Ctrl-C again to kill at once\n",
		{staying: 2}:            "\nstopping\n2 containers run" + keep,
		{ending: 1, staying: 2}: "\nstopping 1 container; press Ctrl-C again to kill at once\n2 containers run" + keep,
	} {
		var errs bytes.Buffer
		noteLeaving(&cli{environment: environment{Err: &errs}}, h)
		if errs.String() != want {
			t.Errorf("%+v: %q", h, errs.String())
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
	for _, x := range []*pb.Task{{}, {Outcome: "failed"}, {Outcome: "cancelled"}, {Outcome: "lost", ExitCode: 1},
		{Outcome: "failed", ExitCode: -1}} {
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

// broken is a standard output that takes so many bytes, and no more.
type broken struct {
	room int
	err  error
}

// Write implements io.Writer.
func (b *broken) Write(p []byte) (int, error) {
	if b.room -= len(p); b.room < 0 {
		return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: b.err}
	}
	return len(p), nil
}

// TestFailedOutputIsReported: every verb that prints reports failed output, including help; a
// reader that has gone is no error.
func TestFailedOutputIsReported(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.SetTask("d.once", func(x *task.Task) {
		x.State, x.Outcome, x.Result = task.Completed, task.Succeeded, task.Result{Output: []byte("42")}
	})
	s.Logs.Write("c1", "i0", map[string]string{"kind": "lrp", "domain": "d", "service": "web", "index": "0"},
		pb.LogStream_LOG_STREAM_STDOUT, "hello")
	in := strings.Replace(demo, "instances: 2", "instances: 3", 1)
	for _, args := range [][]string{
		{}, {"help"}, {"help", "run"}, {"help", "exit-codes"}, {"help", "topics"}, {"ps",
			"--help"}, {"--version"}, {"version"}, {"completion", "bash"}, {"completion", "zsh"}, {"completion", "fish"},
		{"completion", "powershell"}, {"ps"}, {"ps", "-o", "json"}, {"ps", "-o", "yaml"}, {"ps",
			"-q"}, {"cells"}, {"status"}, {"explain", "web"}, {"events", "--since", "0"},
		{"task", "ls"}, {"task", "result", "once"}, {"job", "results", "count"}, {"job", "nodes", "count", "-o",
			"json"}, {"job", "nodes", "count", "--state", "running", "-o", "json"}, {"logs", "web"},
		{"logs", "web", "--raw"}, {"plan", "-"}, {"validate", "-"}, {"man"}, {"plan", "--schema"},
		{"run", "-d", "--", "true"}, {"cron", "next", "@daily", "--utc"}, {"doctor"}, {"server", "--print-timeouts"},
		{"apply", "-"},
	} {
		for err, want := range map[error]struct {
			code int
			says string
		}{syscall.ENOSPC: {api.ExitFailed, "cantina: standard output: no space left on device\n"}, syscall.EPIPE: {141, ""}} {
			var errs bytes.Buffer
			code := invoke(t.Context(), args, environment{
				In: strings.NewReader(in), Out: &broken{err: err}, Err: &errs, Getenv: func(k string) string { return s.env[k] },
				Now:    now,
				Width:  func() int { return 100 },
				Height: func() int { return 30 }, Interrupts: func() (<-chan os.Signal, func()) { return s.signals, func() {} },
			})
			if code != want.code || !strings.HasSuffix(errs.String(), want.says) ||
				strings.Count(errs.String(), "cantina: ") != strings.Count(want.says, "cantina: ") ||
				strings.Contains(errs.String(), "write ") {
				t.Errorf("%q, %v: exit code %d, %q", args, err, code, errs.String())
			}
		}
	}
}

// TestQualifiedNamesOfTasksAndJobs: DOMAIN/NAME is accepted for tasks and jobs as it is
// for services, and names nothing of another domain.
func TestQualifiedNamesOfTasksAndJobs(t *testing.T) {
	s := newShell(t)
	s.apply()
	for _, name := range []string{"d/once", "task/d/once", "d/count", "job/d/count"} {
		s.ok("explain", name)
	}
	for _, name := range []string{"other/once", "other/count", "job/other/count", "service/d/once"} {
		s.fails(api.ExitNotFound, "not found", "explain", name)
	}
}
