package main

import (
	"bytes"
	"context"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"cantina/api"
)

// verbs are all commands that do something, by path.
func verbs() map[string]*cobra.Command {
	c := &cli{environment: environment{Getenv: func(string) string { return "" }}, ctx: context.Background()}
	all := map[string]*cobra.Command{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if walk(sub); sub.RunE != nil && !sub.HasSubCommands() || sub.Annotations[reads]+sub.Annotations[runs] != "" {
				all[strings.TrimPrefix(sub.CommandPath(), "cantina ")] = sub
			}
		}
	}
	walk(rootCommand(c))
	return all
}

// withoutOutput are verbs that print no data of their own, with the reason.
func withoutOutput() map[string]string {
	return map[string]string{
		"cell": "runs until it is stopped", "dev": "runs until it is stopped", "server": "runs until it is stopped",
		"completion": "prints a program of a shell", "man": "prints a page in troff format", "help": "prints text",
		"cron import": "prints a spec file", "exec": "its output is that of the program", "cp": "copies files",
		"debug bundle": "writes a file",
		"sim":          "prints the trace and the totals of a simulation",
	}
}

// TestConventions has a check of all verbs for each rule of the command line, by its topic.
func TestConventions(t *testing.T) {
	all := verbs()
	has := func(t *testing.T, path string, flags ...string) {
		t.Helper()
		cmd := all[path]
		if cmd == nil {
			t.Errorf("there is no verb %s", path)
			return
		}
		for _, f := range flags {
			if len(f) == 1 && cmd.Flags().ShorthandLookup(f) == nil && cmd.InheritedFlags().ShorthandLookup(f) == nil ||
				len(f) > 1 && cmd.Flag(f) == nil {
				t.Errorf("%s has no flag %s", path, f)
			}
		}
	}
	data := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(path string) bool { return withoutOutput()[path] != "" })
	each := func(t *testing.T, flags ...string) {
		for _, path := range data {
			has(t, path, flags...)
		}
	}
	for topic, check := range map[string]func(*testing.T){
		"Grammar": func(t *testing.T) {
			for _, v := range []string{"run", "apply", "plan", "ps", "logs", "exec", "stop", "wait", "drain", "explain"} {
				has(t, v)
			}
		},
		"Submit and follow": func(t *testing.T) { has(t, "run", "d", "detach"); has(t, "job run", "d", "detach") },
		"Waiting":           func(t *testing.T) { has(t, "wait", "for", "timeout", "l") },
		"Exit codes": func(t *testing.T) {
			for _, v := range []string{"run", "exec", "wait"} {
				has(t, v, "client-exit-code")
			}
			for _, code := range []string{"0", "1", "2", "3", "4", "5", "6", "10", "126", "127", "130"} {
				if !regexp.MustCompile(`(?m)^  ` + code + ` +\S`).MatchString(exitCodes) {
					t.Errorf("help exit-codes has no code %s", code)
				}
			}
		},
		"Machine output": func(t *testing.T) {
			each(t, "o", "template", "columns", "no-header")
			forms := []string{"table", "wide", "json", "yaml", "name", "jsonl"}
			for _, path := range data {
				if f := all[path].Flag("output"); f != nil && !slices.Equal(f.Value.(*choiceFlag).words, forms) {
					t.Errorf("%s -o has other forms", path)
				}
			}
			for path := range withoutOutput() {
				if cmd := all[path]; cmd != nil && cmd.Flag("columns") != nil {
					t.Errorf("%s prints data and is excused", path)
				}
			}
		},
		"Human table": func(t *testing.T) { each(t, "no-trunc", "utc", "tz") },
		"Streams":     func(t *testing.T) { each(t, "quiet") }, // TestOutputAndNotes, TestPager
		"Colour":      func(t *testing.T) { each(t, "color") },
		"Watch": func(t *testing.T) { // TestEveryReaderPrintsJSON: each list has -w
			for path, cmd := range all {
				if f := cmd.Flag("watch"); f != nil && path != "events" {
					polls := slices.Contains([]string{"cron history", "cron missed", "store quarantine show",
						"server members"}, path)
					if has := cmd.Flag("since") != nil; has == polls {
						t.Errorf("%s -w has --since: %v", path, has)
					}
				}
			}
			has(t, "events", "since", "f", "w")
		},
		"Logs": func(t *testing.T) {
			has(t, "logs", "f", "p", "l", "since", "since-time", "tail", "n", "timestamps", "prefix", "limit-bytes", "until",
				"grep", "shard", "attempt", "stream", "raw")
		},
		"Explain": func(t *testing.T) { has(t, "explain") },
		"Dry run": func(t *testing.T) { has(t, "plan", "prune", "l"); has(t, "apply", "check-revision") },
		"Apply":   func(t *testing.T) { has(t, "apply", "f", "prune", "l", "yes") },
		"Destructive acts": func(t *testing.T) {
			for _, v := range []string{"rm", "apply", "job import", "cells forget", "cells adopt", "cells discard",
				"leader end-wait", "store quarantine drop", "server members remove"} {
				has(t, v, "yes")
			}
			each(t, "timeout")
			has(t, "exec", "timeout")
			has(t, "cp", "timeout")
		},
		"Config and context": func(t *testing.T) {
			each(t, "addr", "context", "token-file")
			has(t, "context ls")
			has(t, "context use")
			secret := regexp.MustCompile(`token|password|secret|passphrase|credential`)
			for path, cmd := range all {
				cmd.Flags().VisitAll(func(f *pflag.Flag) {
					if secret.MatchString(f.Name) && !strings.HasSuffix(f.Name, "-file") && f.Value.Type() == "string" &&
						!strings.Contains(f.Usage, "file") {
						t.Errorf("%s --%s takes a secret as an argument", path, f.Name)
					}
				})
			}
		},
		"Completion": func(t *testing.T) { has(t, "completion") },
		"Help": func(t *testing.T) {
			for path, cmd := range all {
				var page bytes.Buffer
				if err := doc.GenMan(cmd, &doc.GenManHeader{Section: "1"}, &page); err != nil ||
					!strings.Contains(page.String(), ".SH EXAMPLE") {
					t.Errorf("manual page of %s: %v, or it has no example", path, err)
				}
			}
		},
		"Exec": func(t *testing.T) { has(t, "exec", "i", "t", "e", "u", "w", "detach-keys", "client-exit-code") },
		"Cron verbs": func(t *testing.T) {
			has(t, "cron next", "n")
			has(t, "cron run", "at")
			has(t, "cron backfill", "from", "to", "max")
			for _, v := range []string{"pause", "resume", "missed", "history"} {
				has(t, "cron "+v)
			}
		},
		"Drain":         func(t *testing.T) { has(t, "drain", "deadline", "batch", "reason", "wait"); has(t, "undrain") },
		"Scripting ids": func(t *testing.T) { each(t, "q") },
		"Selectors": func(t *testing.T) {
			for _, v := range []string{"service ls", "task ls", "job ls", "cron ls", "ps", "cells", "logs", "wait", "stop",
				"rm", "restart"} {
				has(t, v, "l")
			}
		},
	} {
		t.Run(topic, check)
	}
	if len(data) < 50 {
		t.Errorf("only %d verbs print data: the walk is wrong", len(data))
	}
}

// TestErrorsHaveTheirPlace: all errors of a file at once, each with its place and the nearest name.
func TestErrorsHaveTheirPlace(t *testing.T) {
	s := newShell(t)
	s.in = "domain: d\nservices:\n  a: {comand: x, memory: 64}\n  b: {command: x, cpu: fast}\n"
	for _, verb := range []string{"validate", "plan", "apply"} {
		out, errs, code := s.run(verb, "-")
		for _, want := range []string{`-:3:7: services.a: unknown field "comand"; did you mean command?`,
			"-:3:26: services.a.memory: a size needs a unit", "-:4:24: services.b.cpu: must be a number"} {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: no %q in\n%s", verb, want, errs)
			}
		}
		if code != api.ExitUsage || out != "" {
			t.Errorf("%s: exit code %d, %q", verb, code, out)
		}
	}
}

// TestPager: data on a terminal goes through CANTINA_PAGER; nothing else does.
func TestPager(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.env["CANTINA_PAGER"] = "sed 's/^/paged: /'"
	if out := s.ok("ps"); strings.Contains(out, "paged") {
		t.Errorf("without a terminal: %s", out)
	}
	s.tty = true
	if out := s.ok("ps"); !strings.HasPrefix(out, "paged: ") || !strings.Contains(out, "paged: d ") {
		t.Errorf("on a terminal: %q", out)
	}
	if out := s.ok("service", "scale", "web", "2", "-o", "name"); strings.Contains(out, "paged") {
		t.Errorf("a change: %q", out)
	}
	s.env["CANTINA_PAGER"] = "true" // it reads nothing
	if out := s.ok("ps"); out != "" {
		t.Errorf("%q", out)
	}
	s.env["CANTINA_PAGER"] = "/does/not/exist"
	s.fails(api.ExitFailed, "CANTINA_PAGER", "ps")
	delete(s.env, "CANTINA_PAGER")
	if out := s.ok("ps"); strings.Contains(out, "paged") || out == "" {
		t.Errorf("without a pager: %q", out)
	}
}

// TestTimeoutIsOneDeadline: --timeout counts for the whole verb, not for each subject and call of it.
func TestTimeoutIsOneDeadline(t *testing.T) {
	c := &cli{ctx: t.Context(), timeout: time.Hour, environment: environment{Err: io.Discard}}
	first, cancel := c.limited()
	defer cancel()
	second, cancel := c.limited()
	defer cancel()
	a, _ := first.Deadline()
	if b, ok := second.Deadline(); !ok || !b.Equal(a) {
		t.Errorf("deadlines %v and %v", a, b)
	}
}
