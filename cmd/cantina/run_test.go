package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/api"
	"cantina/lrp"
	"cantina/task"
	pb "cantina/wire/cantinav1"
	"cantina/worker"
)

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
	if code != 0 || out != "web/0 | hello\nweb/1 | raw \xff\n" ||
		!strings.Contains(errs, "99 bytes of output are missing") {
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
		"own code": {func(x *task.Task) { x.Outcome, x.Result = task.Failed, task.Result{Failed: true, ExitCode: 3} },
			[]string{"--client-exit-code"}, 1, ""},
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
	id := strings.TrimSpace(s.ok("run", "-d", "--domain", "d", "--name", "n", "-e", "A=b=c $x", "-e", "HOME", "--memory",
		"64Mi", "--cpu", "0.5",
		"--result", "r", "--time-limit", "1m", "--on-lost", "keep", "--", "./prog", "--flag", "a b"))
	got, err := s.GetTask(id)
	if err != nil {
		t.Fatal(err)
	}
	w := got.Definition.Workload
	here, _ := os.Getwd()
	if w.Action.Run.Path != here+"/prog" || strings.Join(w.Action.Run.Args, "|") != "--flag|a b" ||
		w.Env[0].Value != "b=c $x" || w.Env[1].Value != "/home/x" ||
		w.Resources.String() != "cpu_milli=500 memory_mb=64" || w.TimeLimit != time.Minute ||
		got.Definition.OnLost != task.LostKeep || w.ResultFile != "r" {
		t.Fatalf("%+v", got.Definition)
	}
	s.fails(api.ExitUsage, "no program given", "run")
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
	if got, _ := s.GetTask("t2"); code != exitInterrupted || got.Outcome != task.Cancelled ||
		!strings.HasSuffix(errs, "stopping\ntask t2: cancelled\n") {
		t.Fatalf("%d %s %v", code, errs, got.Outcome)
	}
}

func TestWait(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.fails(api.ExitTimeout, "timed out", "wait", "once", "--timeout", "50ms")
	s.fails(api.ExitUsage, "cannot wait for a cell", "wait", "c1")
	s.fails(api.ExitUsage, "is not a state of a service", "wait", "web", "--for", "done")
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
	s.fails(api.ExitFailed,
		"the rollout failed: version 2: no progress for 10s: 0 of 2 instances healthy; rolled back to version 1", "wait",
		"web")
	s.SetService(web, func(x *lrp.Service) { x.Phase = lrp.RollingBack })
	s.fails(api.ExitTimeout, "timed out", "wait", "web", "--timeout", "50ms")
	s.SetService(web, func(x *lrp.Service) { x.Phase = lrp.RollFailed })
	s.fails(api.ExitFailed, "not rolled back", "wait", "web")
	s.ok("stop", "web")
	s.ok("wait", "web", "--for", "stopped")
	s.ok("rm", "web", "--yes")
	for range 2 { // its last instance was gone before we looked
		if _, said, code := s.run("wait", "web", "--for", "stopped"); code != 0 ||
			!strings.Contains(said, `"web" not found; it counts as stopped`) {
			t.Errorf("removed: %d %s", code, said)
		}
	}
	s.fails(api.ExitNotFound, "service d/web was removed", "wait", "web")
}

// TestAWaitReportsItsReasons: each reason once, and at the end of --timeout that it continues.
func TestAWaitReportsItsReasons(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.fails(api.ExitTimeout, "timed out: task/d.once is PENDING: no cell has memory_mb 512 free", "wait", "once",
		"--timeout", "2s")
	s.fails(api.ExitTimeout,
		"still in progress; follow it with cantina logs -f task/d.once, stop it with cantina stop task/d.once",
		"wait", "once", "--timeout", "2s")
	s.fails(api.ExitTimeout, "see cantina explain service/d/web/1", "wait", "web/1", "--timeout", "2s")
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
	if code != 0 || strings.Count(errs, "waiting for 0s: ") != 1 ||
		!strings.Contains(errs, "ask for memory: 300Mi or less") {
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
		if got := c.is.policy(); got != c.want {
			t.Errorf("%+v: %+v", c.is, got)
		}
	}
	s := newShell(t)
	for _, verb := range []string{"dev", "server"} {
		s.fails(api.ExitUsage, "--task-retention must be a duration", verb, "--data", t.TempDir(), "--task-retention=-1s")
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
	s.fails(api.ExitNotFound, "service d/web was removed", "rm", "web", "--yes")
	s.tty, s.in = true, "n\n"
	s.fails(api.ExitFailed, "not confirmed", "cells", "forget", "p1")
	s.in = "y\n"
	s.ok("cells", "forget", "p1")
}

// TestForgetTakesANameAndAPrefix: of a cell that is silent.
func TestForgetTakesANameAndAPrefix(t *testing.T) {
	s := newShell(t)
	for _, arg := range []string{"node7", "9f2c11", "9f2c"} {
		for name, proc := range map[string]worker.Proc{"node7": "9f2c11", "node8": "9f3d22"} {
			s.SetCell(api.Cell{Name: worker.CellName(name), Proc: proc, Session: worker.MustDie})
		}
		s.fails(api.ExitUsage, "is ambiguous", "cells", "forget", "9f", "--yes")
		s.ok("cells", "forget", arg, "--yes")
		if got := s.ok("cells", "-q"); got != "node8\n" {
			t.Errorf("%s: %q", arg, got)
		}
	}
	s.SetCell(api.Cell{Name: "node7", Proc: "9f2c11", Session: worker.Healthy})
	s.fails(api.ExitFailed, "cantina drain node7", "cells", "forget", "node7", "--yes")
}

// TestRmWaitsForTheContainer: a cancelled task is removed when its container is gone; --force
// waits for that.
func TestRmWaitsForTheContainer(t *testing.T) {
	s := newShell(t)
	s.apply()
	running := func(x *task.Task) { x.State, x.Holder = task.Running, task.Holder{Cell: "c1", Proc: "p1"} }
	s.SetTask("d.once", running)
	s.ok("stop", "once")
	s.fails(api.ExitFailed, "task d.once was cancelled, but its container on cell c1 may still run", "rm", "once", "--yes")
	s.ok("rm", "once", "--yes")
	s.ok("run", "-d", "--id", "other", "--", "x")
	s.SetTask("other", running)
	s.ok("rm", "other", "--yes", "--force")
	s.fails(api.ExitNotFound, "kept 24 h", "logs", "task/other")
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

// TestTheReasonOfAStoppedRolloutIsReported: how far it has come is no reason.
func TestTheReasonOfAStoppedRolloutIsReported(t *testing.T) {
	far := &pb.Reason{Code: "rolling_out", Text: "version 1: 0 of 1 healthy"}
	failed := &pb.Reason{Code: "rollout_failed", Text: "version 1: no progress"}
	room := &pb.Reason{Code: "insufficient_resources", Text: "web/0: memory"}
	for _, c := range []struct {
		want *pb.Reason
		of   []*pb.Reason
	}{{far, []*pb.Reason{far}}, {room, []*pb.Reason{far, room}}, {room, []*pb.Reason{room, far}}, {failed,
		[]*pb.Reason{failed, room}}} {
		if got := mainReason(c.of); got != c.want {
			t.Errorf("%v: %v", c.of, got)
		}
	}
}

// TestAVariableThatIsNotSetIsLeftOut: a variable that is set and empty is passed on empty.
func TestAVariableThatIsNotSetIsLeftOut(t *testing.T) {
	s := newShell(t)
	s.env["SET"], s.env["EMPTY"] = "a=b", ""
	_, errs, code := s.run("run", "-d", "--id", "t", "-e", "SET", "-e", "EMPTY", "-e", "UNSET", "-e", "GIVEN=", "--",
		"true")
	if code != 0 || errs != "--env UNSET: not set here; omitted\n" {
		t.Fatalf("%d %q", code, errs)
	}
	if got := s.ok("task", "get", "t", "--template",
		`{{range .definition.workload.env}}{{.name}}={{.value}};{{end}}`); got != "SET=[secret];EMPTY=;GIVEN=;\n" {
		t.Errorf("%q", got)
	}
	if x, err := s.Backend().Tasks.GetTask("t"); err != nil || x.Definition.Workload.Env[0].Value != "a=b" {
		t.Errorf("%v", err)
	}
	s.fails(api.ExitUsage, "the name must not be empty", "run", "-e", "=x", "--", "true")
	s.fails(api.ExitUsage, "the name must not be empty", "run", "-e", "", "--", "true")
}
