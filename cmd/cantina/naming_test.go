package main

import (
	"strings"
	"testing"

	"cantina/api"
	"cantina/batch"
	"cantina/plan"
)

// twoDomains has everything of the same names in two domains.
const twoDomains = "services: {web: {command: [a], instances: 2}}\n" +
	"jobs: {count: {command: [a], nodes: [{manual: [x/y]}]}}\n" +
	"tasks: {once: {command: [a]}}\nschedules: {tick: {cron: '@every 1m', task: {command: [a]}}}\n"

func twins(t *testing.T) *shell {
	s := newShell(t)
	for _, d := range []string{"d", "e"} {
		s.in = "domain: " + d + "\n" + twoDomains
		s.ok("apply", "-q", "-")
		s.SetJob(d+"/count", func(j *plan.Job) { j.NodesKnown = true },
			plan.JobNode{NodeView: batch.NodeView{Node: "x/y", Class: batch.ClassDone}})
	}
	return s
}

// TestAllKindsAreNamedAlike: a name of one domain, in every notation, and a name of several domains.
func TestAllKindsAreNamedAlike(t *testing.T) {
	s := twins(t)
	for _, c := range []struct{ kind, name, part, of string }{
		{"service", "web", "", ""}, {"service", "web", "/1", ""}, {"job", "count", "", ""}, {"job", "count", "/x/y", ""},
		{"task", "once", "", "."}, {"schedule", "tick", "", ""},
	} {
		want := c.kind + "/e/" + c.name + c.part
		if c.of != "" {
			want = c.kind + "/e" + c.of + c.name
		}
		plain := c.kind + "/" + c.name + c.part
		for _, args := range [][]string{{"e/" + c.name + c.part}, {"e." + c.name + c.part},
			{c.kind + "/e/" + c.name + c.part},
			{c.kind + "/e." + c.name + c.part}, {plain, "--domain", "e"}, {c.name + c.part, "--domain", "e"},
			{"e/" + c.name + c.part, "--domain", "e"}} {
			if got := s.ok(append([]string{"explain"}, args...)...); !strings.HasPrefix(got, want+" is ") {
				t.Errorf("%v: %s", args, got)
			}
		}
		s.fails(api.ExitUsage, "is ambiguous:\n  "+strings.Replace(want, "/e", "/d", 1)+"\n  "+want, "explain", plain)
		s.fails(api.ExitNotFound, "not found", "explain", "f/"+c.name+c.part)
		s.fails(api.ExitNotFound, "not found", "explain", plain, "--domain", "f")
		s.fails(api.ExitNotFound, "not found", "explain", "d/"+c.name+c.part, "--domain", "e")
	}
	if got := s.ok("explain", "e/count[x/y]"); !strings.HasPrefix(got, "job/e/count/x/y is ") {
		t.Error(got)
	}
}

// TestAVerbOfOneDomainLeavesTheOther, whichever way its domain is given.
func TestAVerbOfOneDomainLeavesTheOther(t *testing.T) {
	s := twins(t)
	s.fails(api.ExitUsage, "is ambiguous", "job", "pause", "count")
	s.ok("job", "pause", "e/count")
	for key, paused := range map[string]bool{"d/count": false, "e/count": true} {
		if j, _ := s.GetJob(key); j.Paused != paused {
			t.Errorf("%s: %+v", key, j)
		}
	}
	s.ok("job", "resume", "count", "--domain", "e")
	s.ok("rm", "d.count", "--yes")
	if got := s.ok("job", "ls", "-o", "name"); got != "e/count\n" {
		t.Error(got)
	}
	if got := s.ok("job", "nodes", "count", "-o", "name"); got != "e/count/x/y\n" {
		t.Error(got)
	}
}

// TestANameBeforeAPart: behind its kind, DOMAIN/NAME takes precedence over a part of NAME; otherwise
// both are listed, so that each can be selected.
func TestANameBeforeAPart(t *testing.T) {
	s := newShell(t)
	s.in = "domain: d\nservices: {7: {command: [a]}}\njobs: {j: {command: [a], nodes: [{manual: [j]}]}}\n"
	s.ok("apply", "-q", "-")
	s.in = "domain: e\nservices: {d: {command: [a], instances: 8}}\njobs: {d: {command: [a], nodes: [{manual: [j]}]}}\n"
	s.ok("apply", "-q", "-")
	for _, name := range []string{"d/j", "e/d"} {
		s.SetJob(name, func(j *plan.Job) { j.NodesKnown = true },
			plan.JobNode{NodeView: batch.NodeView{Node: "j", Class: batch.ClassDone}})
	}
	for arg, want := range map[string]string{"service/d/7": "service/d/7", "service/e/d/7": "service/e/d/7",
		"job/d/j": "job/d/j", "job/e/d/j": "job/e/d/j"} {
		if got := s.ok("explain", arg); !strings.HasPrefix(got, want+" is ") {
			t.Errorf("%s: %s", arg, got)
		}
	}
	s.fails(api.ExitUsage, "is ambiguous:\n  service/d/7\n  service/e/d/7", "explain", "d/7")
	s.fails(api.ExitUsage, "is ambiguous:\n  job/d/j\n  job/e/d/j", "explain", "d/j")
}
