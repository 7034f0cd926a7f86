package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/task"
)

// TestEveryWriterAnswers calls each verb that changes something with -o json: standard output is one JSON document.
// Without -o the output is unchanged.
func TestEveryWriterAnswers(t *testing.T) {
	arguments := map[string][]string{
		"run": {"-d", "--", "x"}, "wait": {"d.once"}, "stop": {"web", "count"}, "rm": {"web", "--yes"}, "restart": {"web"},
		"service scale": {"web", "3"}, "drain": {"c1", "--reason",
			"x"}, "undrain": {"c1"}, "job pause": {"count"}, "job resume": {"d/count"},
		"job retry": {"count"}, "job kill": {"count"}, "task resolve": {"d.lost", "--as", "failed"},
		"task rerun":    {"d.once"},
		"cells discard": {"c1", "--yes"}, "server members add": {"c=10.0.0.7:7490"},
		"server members remove": {"b", "--yes"}, "leader end-wait": {"--accept-double-starts", "--yes"},
		"job run": {"-d", "--over", "1-2", "--", "x"}, "ca init": {}, "ca issue": {"me", "--out", t.TempDir()},
		"context set": {"lab", "--addr", "a:1"}, "context use": {"lab"}, "context rm": {"lab"},
		"store quarantine drop": {"task/x", "--yes"},
		"cron lint":             {filepath.Join(t.TempDir(), "crontab")},
	}
	if err := os.WriteFile(arguments["cron lint"][0], []byte("* 0 * * * x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// They need a store of a stopped server, a repaired row, or another process: script backup, and test/robust.
	elsewhere := []string{"store backup", "store verify", "store restore", "store mark-restored",
		"store quarantine restore", "cells adopt", "cells forget"}
	data := t.TempDir()
	c := &cli{environment: environment{Getenv: func(string) string { return "" }}, ctx: context.Background()}
	seen := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
			path := strings.TrimPrefix(sub.CommandPath(), "cantina ")
			if sub.Annotations[writes] == "" || slices.Contains(elsewhere, path) {
				continue
			}
			seen++
			if arguments[path] == nil {
				t.Errorf("%s: no arguments for the test", path)
				continue
			}
			s := newShell(t)
			s.env["XDG_DATA_HOME"], s.env["XDG_CONFIG_HOME"] = data, data
			s.ok("context", "set", "lab", "--addr", "a:1")
			s.Quarantine(api.Quarantined{Key: "task/x"})
			s.apply()
			s.in = "domain: d\ntasks:\n  lost: {command: [x]}\n"
			s.ok("apply", "-q", "-")
			s.SetTask("d.once", func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Succeeded })
			s.SetTask("d.lost", func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Lost })
			words := strings.Fields(path)
			args := slices.Concat(words, []string{"-o", "json"}, arguments[path])
			out, errs, code := s.run(args...)
			if code != 0 || !json.Valid([]byte(out)) {
				t.Errorf("%v: exit code %d\n%s%s", args, code, out, errs)
			}
		}
	}
	walk(rootCommand(c))
	if seen < 14 {
		t.Errorf("only %d verbs write", seen)
	}
}

// TestNamesAsPrinted: verbs accept the output of -o name, also names of digits, and DOMAIN/NAME.
func TestNamesAsPrinted(t *testing.T) {
	s := newShell(t)
	s.in = "domain: d\nservices:\n  123: {command: [a]}\n  web: {command: [a], instances: 3}\n" +
		"jobs:\n  7: {command: [a], nodes: [{manual: [x]}]}\ntasks:\n  9: {command: [a]}\n" +
		"schedules:\n  5: {cron: '@every 1m', task: {command: [a]}}\n"
	s.ok("apply", "-q", "-")
	for list, verbs := range map[string][][]string{
		"service ls": {{"explain"}, {"service", "get"}, {"ps"}, {"stop"}, {"wait", "--for", "stopped"}},
		"job ls":     {{"explain"}, {"job", "get"}, {"job", "pause"}}, "task ls": {{"explain"}, {"task", "get"}, {"stop"}},
		"cron ls": {{"cron", "show"}},
	} {
		for name := range strings.Lines(s.ok(append(strings.Fields(list), "-o", "name")...)) {
			for _, verb := range verbs {
				s.ok(append(verb, strings.TrimSpace(name))...)
			}
		}
	}
	for _, verb := range [][]string{{"explain"}, {"job", "get"}, {"job", "nodes"}, {"job", "results"}, {"job", "kill"},
		{"job", "retry"}, {"stop"}} {
		s.ok(append(verb, "d/7")...)
	}
	s.fails(api.ExitNotFound, "not found", "job", "get", "other/7")
	if _, errs, _ := s.run("explain", "d/webb"); !strings.Contains(errs, "did you mean d/web?") {
		t.Error(errs)
	}
	if _, errs, code := s.run("job", "get", "d/9"); code != api.ExitNotFound ||
		strings.Contains(errs, "did you mean d/9?") {
		t.Errorf("%d %s", code, errs)
	}
}

// TestTasksOfAServicesName: one that has ended hides nothing, one that runs makes the name ambiguous.
func TestTasksOfAServicesName(t *testing.T) {
	s := newShell(t)
	s.apply()
	id := strings.TrimSpace(s.ok("run", "-d", "--domain", "d", "--name", "web", "--", "x"))
	s.fails(api.ExitUsage, "is ambiguous", "explain", "web")
	s.SetTask(id, func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Failed })
	if out := s.ok("explain", "web"); !strings.HasPrefix(out, "service/d/web ") {
		t.Error(out)
	}
	if out := s.ok("explain", "task/web"); !strings.HasPrefix(out, "task/"+id+" ") {
		t.Error(out)
	}
}

// TestTasksAreListedByTime: the newest first, with a limit.
func TestTasksAreListedByTime(t *testing.T) {
	s := newShell(t)
	for i, id := range []string{"b", "a", "c"} {
		s.ok("run", "-d", "--id", id, "--", "x")
		s.SetTask(id, func(x *task.Task) { x.Created = now().Add([]time.Duration{-3, -1, -2}[i] * time.Second) })
	}
	if out := s.ok("task", "ls", "-q"); out != "a\nc\nb\n" {
		t.Errorf("%q", out)
	}
	if out := s.ok("task", "ls", "-q", "--limit", "2"); out != "a\nc\n" {
		t.Errorf("%q", out)
	}
}

// TestCodesOfProgramsThatDoNotStart are those of a shell.
func TestCodesOfProgramsThatDoNotStart(t *testing.T) {
	for reason, want := range map[string]int{
		"start x: not found in PATH": 127, "start /x: no such file or directory": 127, "start /x: permission denied": 126,
		"start /x: exec format error": 126, "start /x: is a directory: permission denied": 126, "exit status 3": 0,
		"start x: directory /y: no such file or directory": 0, "start x: user unknown": 0, "permission denied": 0,
	} {
		if got := startCode(reason); got != want {
			t.Errorf("%q: %d, want %d", reason, got, want)
		}
	}
	for dir, want := range map[string]string{"": "", "/a": "/a", "b": "b"} {
		if got, err := directory(dir); got != want || err != nil {
			t.Errorf("%q: %q %v", dir, got, err)
		}
	}
	if got, err := directory("."); !strings.HasPrefix(got, "/") || err != nil {
		t.Errorf("%q %v", got, err)
	}
	if _, err := directory("~/x"); err == nil {
		t.Error("~/x")
	}
}

// TestFlagValuesAreCompleted: the words of choices, and names behind the verbs of cells and schedules.
func TestFlagValuesAreCompleted(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.in = timed
	s.ok("apply", "-q", "-")
	for args, want := range map[string]string{
		"ps -o ": "json", "ps --state ": "CRASHED", "wait --for ": "healthy", "task ls --outcome ": "lost", "drain ": "c1",
		"cron pause ": "tick",
		"ps --cell ":  "c1", "stop -o ": "jsonl",
	} {
		words := append(strings.Fields(args), "")
		if out := s.ok(append([]string{"__complete"}, words...)...); !slices.Contains(strings.Split(out, "\n"), want) {
			t.Errorf("%s: no %s in %q", args, want, out)
		}
	}
}

// TestPortsOutsideTheEphemeralRange can be used.
func TestPortsOutsideTheEphemeralRange(t *testing.T) {
	for _, r := range [][3]any{{32768, 60999, "22768-32767"}, {1024, 60999, "61000-65535"}, {10000, 65535, "1024-9999"}} {
		if got := portsOutside(r[0].(int), r[1].(int)); got != r[2] {
			t.Errorf("%v: %s", r, got)
		}
	}
}
