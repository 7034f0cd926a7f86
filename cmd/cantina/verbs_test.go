package main

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"cantina/api"
	"cantina/internal/guard"
	"cantina/task"
	pb "cantina/wire/cantinav1"
)

func TestCronNext(t *testing.T) {
	s := newShell(t)
	out, errs, code := s.run("cron", "next", "* 0 * * *", "--utc", "-n", "2")
	if code != 0 || strings.Count(out, "\n") != 3 || !strings.Contains(errs, "did you mean `0 0 * * *`?") {
		t.Fatalf("%d\n%s\n%s", code, out, errs)
	}
	if _, _, code := s.run("cron", "next", "* 0 * * *", "--utc", "--strict"); code != api.ExitFailed {
		t.Fatalf("--strict: %d", code)
	}
	out, _, _ = s.run("cron", "next", "30 2 * * *", "--tz", "Europe/Berlin", "--gap", "skip", "--fold", "first", "--from",
		"2027-10-30T12:00:00Z", "-n", "2")
	if strings.Count(out, "skipped:") != 1 || !strings.Contains(out, "  skipped: repeated hour\n") {
		t.Errorf("a time that is skipped: %q", out)
	}
	_, errs, code = s.run("cron", "next", "0 0 */2 * 1", "--utc")
	if code != 0 || !strings.Contains(errs, "AND") {
		t.Fatalf("both day fields: %d %s", code, errs)
	}
	s.fails(api.ExitUsage, "30", "cron", "next", "0 0 30 2 *", "--utc")
	s.fails(api.ExitUsage, "Europe/Berlin", "cron", "next", "0 0 * * *", "--tz", "Europe/Berln")
	out = s.ok("cron", "next", "30 2 * * *", "--tz", "Europe/Berlin", "--gap", "run", "--fold", "first", "--from",
		"2026-03-28T12:00:00Z", "-n", "1", "-o", "jsonl")
	if !strings.Contains(out, `"utc":"2026-03-29T01:00:00Z"`) {
		t.Fatal(out)
	}
}

func TestAddressesAreFound(t *testing.T) {
	dir := t.TempDir()
	c := &cli{environment: environment{Getenv: func(k string) string {
		return map[string]string{"XDG_RUNTIME_DIR": dir}[k]
	}}}
	if err := os.Mkdir(dir+"/cantina", 0o700); err != nil {
		t.Fatal(err)
	}
	ln, err := guard.Listener{Address: "unix:" + dir + "/cantina/dev.sock"}.Open(t.Context())
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

// TestAServerThatIsStartingIsAwaited: where clients look by themselves, and only there.
func TestAServerThatIsStartingIsAwaited(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{"XDG_RUNTIME_DIR": dir, "XDG_DATA_HOME": dir, "CANTINA_TOKEN_FILE": dir + "/token"}
	c := &cli{ctx: t.Context(), environment: environment{Getenv: func(k string) string { return env[k] }, Now: time.Now}}
	if err := errors.Join(os.Mkdir(dir+"/cantina", 0o700), os.WriteFile(dir+"/token", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	socket := dir + "/cantina/dev.sock"
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket}) // of a dev that was killed
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false)
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); c.awaitServer() }()
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if conn, err := ln.Accept(); err != nil {
		t.Fatal(err)
	} else if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	<-done
	for name, named := range map[string]func(){
		"in the environment": func() { env["CANTINA_ADDR"] = "unix:/nowhere" },
		"by a flag":          func() { c.addr = []string{"unix:/nowhere"} },
		"no need":            func() { c.impatient = true },
	} {
		delete(env, "CANTINA_ADDR")
		c.addr = nil
		named()
		begin := time.Now()
		if c.awaitServer(); time.Since(begin) > startWait {
			t.Errorf("named %s: waited", name)
		}
		c.impatient = false
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
	s.fails(api.ExitUsage, "no help for", "help", "nonsense")
}

// TestEveryVerbIsComplete walks all verbs: each has a sentence and an example, and
// each that reads data has every form of output.
func TestEveryVerbIsComplete(t *testing.T) {
	c := &cli{environment: environment{Getenv: func(string) string { return "" }}, ctx: context.Background()}
	root := rootCommand(c)
	readers := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			path := sub.CommandPath()
			if sub.Short == "" || strings.HasSuffix(sub.Short, ".") {
				t.Errorf("%s: one sentence without a full stop describes it, not %q", path, sub.Short)
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

// TestEveryReaderPrintsJSON calls each verb that reads with -o json.
func TestEveryReaderPrintsJSON(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.SetTask("d.once", func(x *task.Task) { x.State, x.Outcome = task.Completed, task.Succeeded })
	s.in = timed
	s.ok("apply", "-q", "-")
	file := filepath.Join(t.TempDir(), "bistro.json")
	empty := `{"bistro_settings": {"nodes": {"levels": []}, "resources": {}}}`
	if err := os.WriteFile(file, []byte(empty), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := map[string][]string{
		"job import": {file},
		"cron show":  {"tick"}, "cron history": {"tick"}, "cron missed": {"tick"}, "cron run": {"tick"},
		"cron pause": {"tick"}, "cron resume": {"tick"}, "cron reset": {"tick"},
		"cron backfill": {"tick", "--from", "2020-01-01T00:00:00Z", "--to", "2020-01-02T00:00:00Z", "--max", "1"},
		"apply":         {"-"}, "plan": {"-"}, "validate": {"-"}, "logs": {"web"}, "explain": {"web"}, "service get": {"web"},
		"task get": {"once"}, "task result": {"once"},
		"ca ls":   {filepath.Dir(file)},
		"job get": {"count"}, "job nodes": {"count"}, "job results": {"count"}, "events": {"--since", "100"},
		"cron next": {"0 0 * * *", "--utc"},
	}
	c := &cli{environment: environment{Getenv: func(string) string { return "" }}, ctx: context.Background()}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.Annotations[reads] != "" && sub.Name() != "ui" { // it needs a port: TestBrowserLink
				path := strings.TrimPrefix(sub.CommandPath(), "cantina ")
				s.in = demo
				args := slices.Concat(strings.Fields(path), arguments[path], []string{"-o", "json"})
				out, errs, code := s.run(args...)
				if code != 0 && code != exitChanges {
					t.Errorf("%v: %d %s", args, code, errs)
				}
				_, excused := withoutWatch()[path]
				if list := strings.HasPrefix(out, "["); list && (sub.Flags().ShorthandLookup("w") != nil) == excused {
					t.Errorf("%s prints a list: -w is %v, excused %v", path, !excused, excused)
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
	walk(rootCommand(c))
}

// withoutWatch are verbs that print a list which nothing changes while it is printed, with the reason.
func withoutWatch() map[string]string {
	return map[string]string{
		"apply": "its own changes", "plan": "its own changes", "validate": "local files", "job import": "local files",
		"doctor": "checks that it runs", "cron next": "computed from the calendar", "rebalance": "its own moves",
		"context ls": "a local file", "ca ls": "local files", "top": "repeats itself on a terminal",
	}
}

func jsonLines(s string) bool {
	for _, l := range strings.Split(strings.TrimSpace(s), "\n") {
		if !json.Valid([]byte(l)) {
			return false
		}
	}
	return true
}

// TestVerbsOfOtherToolsAreUnderstood: the hint for a verb of another tool names one that
// exists.
func TestVerbsOfOtherToolsAreUnderstood(t *testing.T) {
	s := newShell(t)
	for verb, want := range map[string]string{"get": "cantina ps", "stats": "cantina top",
		"scale": "cantina service scale", "delete": "cantina rm", "nodes": "cantina cells"} {
		s.fails(api.ExitUsage, "did you mean "+want+"?", verb, "x")
		if wrong := wrongHint(rootCommand(&cli{environment: environment{Getenv: func(string) string { return "" }}}),
			want); wrong != "" {
			t.Errorf("%s: %s", verb, wrong)
		}
	}
	s.fails(api.ExitUsage, "did you mean cantina rm?", "task", "delete", "x")
	s.fails(api.ExitUsage, "-1 is not allowed: numbers must be 0 or more", "service", "scale", "web", "-1")
}

// TestBrowserLink: the address that was called, or behind a socket the first port of the server.
func TestBrowserLink(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:7480": "http://127.0.0.1:7480", "0.0.0.0:1": "http://localhost:1",
		"unix:/run/s.sock": "http://127.0.0.1:9",
	} {
		got, err := browserLink(address, &pb.CreateBrowserKeyResponse{Key: "k", Addresses: []string{"127.0.0.1:9"}}, "/ui/")
		if err != nil || !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "#key=k") {
			t.Errorf("%s: %q, %v", address, got, err)
		}
	}
	if _, err := browserLink("unix:/run/s.sock", &pb.CreateBrowserKeyResponse{}, "/ui/"); exitOf(err) != api.ExitFailed {
		t.Errorf("without a port: %v", err)
	}
}
