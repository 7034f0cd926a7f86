package robust

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// secretSpec has a marker in every field of every kind that may hold a secret; each marker has
// its place in it, so that a failure names it.
func secretSpec(n int) string {
	place := 0
	mark := func() string { place++; return fmt.Sprintf("MARKER%d-%d", n, place) }
	url := func(scheme, path string) string {
		return scheme + "://" + mark() + ":" + mark() + "@127.0.0.1:1/" + path + "?sig=" + mark()
	}
	env := func() string { return "{TOKEN: " + mark() + ", KEPT: same}" }
	run := func(argv string) string { return "run: {command: " + argv + ", env: " + env() + "}" }
	return `
domain: d
services:
  web:
    command: [sleep, "600"]
    env: ` + env() + `
    setup: {` + run("[sh, -c, 'true']") + `}
    sidecars: [{` + run(`[sleep, "600"]`) + `}]
    checks: [{exec: {command: ["true"], env: ` + env() + `}}]
    readiness_checks: [{exec: {command: ["true"], env: ` + env() + `}}]
  monitored:
    action: {` + run(`[sleep, "600"]`) + `}
    monitor: {` + run(`["true"]`) + `}
  fetches:
    setup: {download: {from: "` + url("http", "x.tar") + `", to: x, allow_unpinned: true}}
    command: [sleep, "600"]
tasks:
  once:
    command: [sh, -c, 'exit 3']
    env: ` + env() + `
    callback: "` + url("http", "done") + `"
  loads:
    action: {serial: [{download: {from: "` + url("http", "y") + `", to: y, allow_unpinned: true}}, {` +
		run(`["true"]`) + `}]}
  sends:
    action: {serial: [{` + run("[sh, -c, 'echo x >f']") + `}, {upload: {from: f, to: "` + url("http", "z") + `"}}]}
  nothing:
    command: [/no/such/program]
    env: ` + env() + `
jobs:
  count:
    levels: [host]
    nodes: [{manual: [localhost]}]
    command: [sh, -c, 'exit 1']
    retries: 0
    env: ` + env() + `
  steps:
    nodes_of: count
    action: {try: {` + run(`["true"]`) + `}}
    retries: 0
schedules:
  tick:
    cron: "0 0 1 1 *"
    timezone: UTC
    task: {command: ["true"], env: ` + env() + `, callback: "` + url("https", "tick") + `"}
  tock:
    cron: "0 0 1 1 *"
    timezone: UTC
    job: {levels: [host], nodes: [{manual: [localhost]}], command: ["true"], env: ` + env() + `}
`
}

// TestSecretsAreNotPrinted: no secret that is given to programs is printed by plan, apply, lists, explain, events,
// logs, the API, errors or the server's own log. No argument of a process has one either.
func TestSecretsAreNotPrinted(t *testing.T) {
	p := start(t, "dev", "dev", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--socket", "none", "--log-level",
		"debug").wait()
	shows(t, p.Addr, []string{"HEALTHY"}, "cells")
	var all strings.Builder
	look := func(args ...string) {
		r := cli(t, p.Addr, args...)
		fmt.Fprintf(&all, "$ cantina %s\n%s%s\n", strings.Join(args, " "), r.out, r.err)
	}
	first, second := write(t, "one.yaml", secretSpec(1)), write(t, "two.yaml", secretSpec(2))
	look("plan", first)
	if r := cli(t, p.Addr, "apply", first); r.code != 0 {
		t.Fatalf("apply: %s%s", r.out, r.err)
	} else {
		all.WriteString(r.out + r.err)
	}
	for _, s := range []string{"task/d.once", "task/d.loads", "task/d.sends", "task/d.nothing", "count", "steps"} {
		look("wait", s, "--timeout", "60s")
	}
	look("plan", second)
	look("plan", second, "-o", "json")
	look("apply", second)
	look("wait", "monitored", "--timeout", "60s")
	for _, args := range [][]string{{"ps", "-o", "wide"}, {"task", "ls", "-o", "json"}, {"job", "ls", "-o", "json"},
		{"cron", "ls", "-o", "json"}, {"status", "-o", "json"},
		{"service", "get", "web", "-o", "yaml"}, {"service", "get", "monitored", "-o", "json"},
		{"service", "get", "fetches", "-o", "json"}, {"explain", "web"}, {"explain", "fetches"},
		{"explain", "fetches/0", "-o", "json"},
		{"task", "get", "d.once", "-o", "json"}, {"task", "get", "d.loads", "-o", "json"}, {"task", "get", "d.sends"},
		{"explain", "task/d.loads"}, {"explain", "task/d.sends"}, {"explain", "task/d.nothing"},
		{"job", "get", "count", "-o", "json"}, {"job", "get", "steps"},
		{"explain", "count"}, {"job", "nodes", "count", "-o", "json"}, {"job", "results", "count"},
		{"cron", "show", "tick", "-o", "json"}, {"cron", "show", "tock", "-o", "json"}, {"cron", "history", "tick"},
		{"logs", "web"}, {"logs", "fetches"}, {"logs", "task/d.loads"}, {"logs", "task/d.sends"},
		{"logs", "task/d.nothing"}, {"logs", "count"}, {"store", "quarantine", "show", "-o", "json"},
		{"cells", "-o", "json"}} {
		look(args...)
	}
	look("events", "--since", "0", "--timeout", "2s", "-o", "jsonl")
	for _, path := range []string{"/v1/services/d/web", "/v1/instances?all=true", "/v1/tasks/d.once",
		"/v1/tasks?limit=100", "/v1/jobs/d/count", "/v1/schedules/d/tick", "/v1/schedules/d/tock",
		"/v1/explain/service/web?domain=d"} {
		fmt.Fprintf(&all, "GET %s: %s\n", path, get(t, p.Addr, path))
	}
	bad := strings.Replace(strings.Replace(secretSpec(3), "allow_unpinned: true", "allow_unpinned: false", 1),
		`callback: "http:`, `callback: "ftp:`, 1)
	look("plan", write(t, "bad.yaml", bad))
	all.WriteString(arguments(t))
	look("rm", "web", "monitored", "fetches", "count", "steps", "--yes")
	all.WriteString(p.log.tail(100000))
	if n := strings.Count(all.String(), "[secret]"); n < 20 {
		t.Errorf("only %d secrets are marked as such: were the pages checked?", n)
	}
	for i, line := range strings.Split(all.String(), "\n") {
		if strings.Contains(line, "MARKER") {
			from := max(0, i-3)
			t.Errorf("printed: %.600s", strings.Join(strings.Split(all.String(), "\n")[from:i+1], "\n"))
		}
	}
}

// get reads one object of the API.
func get(t *testing.T, addr, path string) string {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	token.Sign(q.Header)
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("GET %s: %s: %v", path, r.Status, err)
	}
	return string(text)
}

// arguments lists those of all processes, as ps does.
func arguments(t *testing.T) string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, d := range dirs {
		if pid, err := strconv.Atoi(filepath.Base(d)); err != nil || pid == os.Getpid() {
			continue
		}
		text, _ := os.ReadFile(d + "/cmdline") // of one that has ended
		out.WriteString(strings.ReplaceAll(string(text), "\x00", " ") + "\n")
	}
	return out.String()
}
