package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/api"
	"cantina/batch"
	"cantina/plan"
	pb "cantina/wire/cantinav1"
)

func TestOverReadsFilesPatternsAndRanges(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, content := range map[string]string{"list": "b\r\n\na b\nb\nc", "a.csv": "", "b.csv": "",
		"[x]": "one\n", "1-3.txt": "z"} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		over, in, want string
		repeated       int
	}{
		{"list", "", "b|a b|c", 1},
		{"-", "x\ny", "x|y", 0},
		{"-", "", "", 0},
		{"*.csv", "", filepath.Join(dir, "a.csv") + "|" + filepath.Join(dir, "b.csv"), 0},
		{"[x]", "", "one", 0},
		{"1-3", "", "1-3:1", 0},
		{"0-10:5", "", "0-10:5", 0},
		{"4-4", "", "4-4:1", 0},
	} {
		got, err := readOver(&cli{environment: environment{In: strings.NewReader(c.in)}}, c.over)
		values := strings.Join(got.values, "|")
		if n := got.numbers; n != nil {
			values = fmt.Sprintf("%d-%d:%d", n[0], n[1], n[2])
		}
		if err != nil || values != c.want || got.repeated != c.repeated {
			t.Errorf("%s: %v %d, %v", c.over, got.values, got.repeated, err)
		}
	}
	long := strings.Repeat("x", batch.MaxName+1)
	for _, c := range []struct{ over, in, says string }{
		{"none", "", "a range like 1-100"},
		{"*.jpg", "", "no file matches"},
		{"[", "", "syntax error in pattern"},
		{"3-1", "", "must not be above"},
		{"1-3:0", "", "at least 1"},
		{"001-100", "", "leading zeros"},
		{"1-99999999", "", "more than"},
		{"3000000000-3000000001", "", "numbers over"},
		{"-", "a\nb\x00\n", "standard input:2: name has a NUL byte"},
		{"-", "a\n\n\xff\n", "standard input:3: name is not UTF-8"},
		{"-", long, "standard input:1: name of 4097 bytes"},
		{dir, "", "is a directory"},
	} {
		_, err := readOver(&cli{environment: environment{In: strings.NewReader(c.in)}}, c.over)
		if err == nil || !strings.Contains(err.Error(), c.says) || exitOf(err) != api.ExitUsage {
			t.Errorf("%s: %v", c.over, err)
		}
	}
}

func TestTheValueGoesToTheCommand(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"echo", "echo|{}"},
		{"cp|{}|/to/{/}", "cp|{}|/to/{/}"},
		{"sh|-c|echo $1|sh", "sh|-c|echo $1|sh|{}"},
		{"sh|-c|echo $1|sh|{}", "sh|-c|echo $1|sh|{}"},
		{"sh|script|-c|{}", "sh|script|-c|{}"},
	} {
		got, err := withValue(strings.Split(c.args, "|"))
		if err != nil || strings.Join(got, "|") != c.want {
			t.Errorf("%s: %v, %v", c.args, got, err)
		}
	}
	for _, args := range []string{"sh|-c|echo {}", "/bin/bash|-e|-xc|cat {/}"} {
		_, err := withValue(strings.Split(args, "|"))
		if err == nil || !strings.Contains(err.Error(), `"$1"`) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestJobRunMakesAJob(t *testing.T) {
	s := newShell(t)
	s.in = "a b\nc\nc\n"
	out, errs, code := s.run("job", "run", "--over", "-", "--name", "x", "-P", "3", "--retries", "2", "-e",
		"V=1 2", "--memory", "64Mi", "--cpu", "0.5",
		"--time-limit", "90s", "--dir", "/data", "--user", "65534:65534", "--domain", "d", "-d", "--", "./prog",
		"--flag", "{}")
	if code != 0 || out != "d/x\n" || !strings.Contains(errs, "1 line left out") {
		t.Fatalf("%d %q %q", code, out, errs)
	}
	j, err := s.GetJob("d/x")
	if err != nil {
		t.Fatal(err)
	}
	here, _ := os.Getwd()
	w := j.Workload
	var names []string
	for _, n := range j.Forest.Sources[0].Manual {
		names = append(names, n.Name)
	}
	if j.Domain != "d" || strings.Join(names, "|") != "a b|c" || j.Forest.Order != batch.OrderOriginal ||
		j.Retries != 2 ||
		j.Forest.Limits["instance"]["parallel"].Limit != 3 || j.Resources["instance"]["parallel"] != 1 ||
		w.Action.Run.Path != here+"/prog" || strings.Join(w.Action.Run.Args, "|") != "--flag|{}" ||
		w.Action.Run.Dir != "/data" ||
		w.Env[0].Value != "1 2" || w.TimeLimit != 90*time.Second || w.User != "65534:65534" ||
		w.Resources.String() != "cpu_milli=500 memory_mb=64" {
		t.Fatalf("%+v", j.Job)
	}
	s.fails(api.ExitFailed, "already exists", "job", "run", "--over", "1-2", "--name", "x", "--domain", "d", "--", "true")
	s.fails(api.ExitUsage, "no program given", "job", "run", "--over", "1-2")
	s.fails(api.ExitUsage, "--over is missing", "job", "run", "--", "true")
	s.fails(api.ExitUsage, "exclude each other", "job", "run", "--resume", "x", "--name", "y")
	s.fails(api.ExitUsage, "--parallel needs the command", "job", "run", "--resume", "x", "-P", "2")
	s.fails(api.ExitNotFound, "not found", "job", "run", "--resume", "none")
	s.fails(api.ExitNotFound, "not found", "job", "run", "--resume", "none", "--over", "1-2", "--", "true")
	s.fails(api.ExitUsage, "is not UTF-8", "job", "run", "--over", "1-2", "--", "true", "\xff")
	s.fails(api.ExitUsage, "--name: a name is 1 to 128", "job", "run", "--over", "1-2", "--name", "a b", "--", "true")
	s.in = "\n"
	if out, errs, code := s.run("job", "run", "--over", "-", "--", "true"); code != 0 || out != "" ||
		!strings.Contains(errs, "nothing to run") {
		t.Fatalf("%d %q %q", code, out, errs)
	}
	for _, name := range []string{overName([]string{"/bin/a.b c"}), overName([]string{"--"}),
		overName([]string{strings.Repeat("x", 300)})} {
		if len(name) > 128 || !strings.HasPrefix(name, "abc-") && !strings.HasPrefix(name, "run-") &&
			!strings.HasPrefix(name, "xxx") {
			t.Error(name)
		}
	}
}

// runs begins job run, and returns it when it follows the job.
func (s *shell) runs(args ...string) (wait func() (out, errs string, code int)) {
	s.out = &safeBuffer{wrote: make(chan struct{}, 1)}
	type result struct {
		out, errs string
		code      int
	}
	ended := make(chan result, 1)
	s.Logs.Write("c1", "x", map[string]string{"kind": "batch", "job": "x", "node": "1", "domain": "default"},
		pb.LogStream_LOG_STREAM_STDOUT, "begin")
	go func() {
		out, errs, code := s.run(args...)
		ended <- result{out, errs, code}
	}()
	<-s.out.wrote
	return func() (string, string, int) { r := <-ended; return r.out, r.errs, r.code }
}

func (s *shell) endJob(name string, done, failed int) {
	s.SetJob(name, func(j *plan.Job) {
		state := batch.JobDone
		if failed > 0 {
			state = batch.JobFailed
		}
		j.NodesKnown, j.Progress = true, batch.Progress{State: state, Total: done + failed, Done: done, Failed: failed}
	})
}

func TestJobRunEndsWithTheJob(t *testing.T) {
	s := newShell(t)
	wait := s.runs("job", "run", "--over", "1-3", "--name", "x", "--", "true")
	s.endJob("x", 2, 1)
	out, errs, code := wait()
	if code != api.ExitFailed || out != "begin\n" || errs != "job default/x\n"+
		"cantina: job default/x: 1 of 3 failed; list them: cantina job nodes default/x --state failed; "+
		"run them again: cantina job run --resume default/x\n" {
		t.Fatalf("%d %q %q", code, out, errs)
	}
	s = newShell(t)
	wait = s.runs("job", "run", "--over", "1-3", "--name", "x", "--rm", "--", "true")
	s.endJob("x", 3, 0)
	if out, errs, code := wait(); code != 0 || out != "begin\n" || errs != "job default/x\n" {
		t.Fatalf("%d %q %q", code, out, errs)
	}
	if _, err := s.GetJob("default/x"); err == nil {
		t.Fatal("--rm leaves the job")
	}
	s = newShell(t)
	wait = s.runs("job", "run", "--over", "1-3", "--name", "x", "--", "true")
	s.ok("rm", "job/x", "--yes")
	if _, errs, code := wait(); code == 0 || !strings.Contains(errs, "x") {
		t.Fatalf("removed: %d %q", code, errs)
	}
}

func TestJobRunResumes(t *testing.T) {
	s := newShell(t)
	s.ok("job", "run", "--over", "1-3", "--name", "x", "-d", "--", "true")
	s.ok("job", "pause", "x")
	s.SetJob("x", func(j *plan.Job) {}, plan.JobNode{NodeView: batch.NodeView{Node: "2", Class: batch.ClassFailed}})
	s.ok("job", "run", "--resume", "x", "-d")
	if j, _ := s.GetJob("default/x"); j.Paused {
		t.Error("still paused")
	}
	if l, _ := s.ListNodes(plan.JobNodeFilter{Job: "default/x", Classes: []batch.Class{batch.ClassFailed}},
		plan.Range{Limit: 9}); len(l.Items) != 0 {
		t.Errorf("not tried again: %+v", l.Items)
	}
}

func TestCtrlCDetachesFromAJobAndASecondStops(t *testing.T) {
	s := newShell(t)
	s.signals <- os.Interrupt
	_, errs, code := s.run("job", "run", "--over", "1-3", "--name", "x", "--", "sleep")
	if j, _ := s.GetJob("default/x"); code != exitInterrupted ||
		!strings.Contains(errs, "cantina job run --resume default/x") ||
		j.Paused {
		t.Fatalf("%d %s", code, errs)
	}
	s.tty = true
	s.signals <- os.Interrupt
	s.signals <- os.Interrupt
	_, errs, code = s.run("job", "run", "--over", "1-3", "--name", "y", "--", "sleep")
	if j, _ := s.GetJob("default/y"); code != exitInterrupted || !strings.Contains(errs, "press Ctrl-C again") ||
		!j.Paused {
		t.Fatalf("%d %s", code, errs)
	}
}

func TestProgressLine(t *testing.T) {
	var term bytes.Buffer
	p := &progressLine{term: &term, width: func() int { return 60 }}
	at := func(s int) time.Time { return now().Add(time.Duration(s) * time.Second) }
	step := func(name, want string, do func()) {
		t.Helper()
		term.Reset()
		if do(); term.String() != want {
			t.Errorf("%s: %q, want %q", name, term.String(), want)
		}
	}
	job := func(done, failed, running int32) *pb.Job {
		return &pb.Job{Name: "x", State: "running", Counts: &pb.Counts{Total: 100, Done: done, Failed: failed,
			Running: running}}
	}
	const clear = "\r\x1b[K"
	step("nothing known", "", func() { p.tick(at(0)) })
	step("first", clear+"x: 0 of 100 done, 4 running", func() { p.update(job(0, 0, 4)); p.tick(at(0)) })
	step("rate", clear+"x: 18 of 100 done, 2 failed, 4 running, 2.0/s, ETA 40s",
		func() { p.update(job(18, 2, 4)); p.tick(at(10)) })
	step("output", clear+"a\n", func() { fmt.Fprint(p.over(&term), "a\n") })
	step("more output", "b", func() { fmt.Fprint(p.over(&term), "b") })
	step("within a line", "", func() { p.tick(at(11)) })
	step("its end", "c\n", func() { fmt.Fprint(p.over(&term), "c\n") })
	step("the window moves", clear+"x: 58 of 100 done, 2 failed, 4 running, 1.0/s, ETA 40s", func() {
		p.update(job(58, 2, 4))
		for s := 12; s <= 60; s += 6 {
			p.tick(at(s))
		}
		term.Reset()
		p.samples = []sample{{at(30), 30}, {at(45), 45}}
		p.tick(at(60))
	})
	step("narrow", clear+"x: 58 of ", func() { p.width = func() int { return 10 }; p.tick(at(60)) })
	step("end", clear, p.end)
	step("end again", "", p.end)
	if got := progressText(&pb.Job{Name: "x", State: "paused", Counts: &pb.Counts{Total: 9, Done: 9}},
		[]sample{{at(0), 9}, {at(5), 9}}); got != "x: 9 of 9 done, 0 running, paused" {
		t.Error(got)
	}
	for r, want := range map[float64]string{1234.5: "1234", 12.34: "12.3", 0.0423: "0.04"} {
		if got := rateText(r); got != want {
			t.Error(r, got)
		}
	}
	if len(slices.Collect(strings.Lines(term.String()))) != 0 {
		t.Error(term.String())
	}
}
