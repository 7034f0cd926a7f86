package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

// enumeration matches the usage of a flag with a fixed set of values.
var enumeration = regexp.MustCompile(`^\w[\w-]*(, \w[\w-]*)* or \w[\w-]*( \(\w+(,\w+)*\)|: .*| \(.*\)|)$`)

// badValues are values that a flag cannot have, by its type.
func badValues(f *pflag.Flag) []string {
	switch f.Value.Type() {
	case "int":
		return []string{"foo", "-1000000000", "", "1.5", "99999999999999999999", "1e3"}
	case "duration":
		return []string{"foo", "10", "-5s", "", "1y", "s"}
	case "size":
		return []string{"foo", "64", "-64Mi", "", "Mi"}
	case "cpu":
		return []string{"foo", "-1", "", "1000000000"}
	case "bool":
		return []string{"foo", "", "2"}
	case "stringToString":
		return []string{"foo"}
	case "stringSlice":
		return []string{`a"b`}
	case "strings":
		return []string{"bad", ""}
	}
	if _, ok := f.Value.(*choiceFlag); ok {
		return []string{"bad", "", "bad or worse"}
	}
	return nil
}

// TestABadValueIsReportedWithItsFlag tests all flags of all verbs: an invalid value is refused before
// any action, with the flag, the value and the allowed values, and without the library's text.
func TestABadValueIsReportedWithItsFlag(t *testing.T) {
	c := &cli{environment: environment{Getenv: func(string) string { return "" }}, ctx: context.Background()}
	tried := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		try := func(f *pflag.Flag) {
			if f.Name == "help" {
				return
			}
			if cmd.DisableFlagParsing {
				t.Errorf("%s has a parser of its own", cmd.CommandPath())
			}
			switch f.Value.Type() {
			case "int", "duration":
				if f.Value.Type() == "duration" {
					if _, ok := f.Value.(*durationFlag); !ok {
						t.Errorf("%s --%s: durations are read as in spec files: durationFlag", cmd.CommandPath(), f.Name)
					}
				}
			case "int32", "int64", "uint":
				t.Errorf("%s --%s: a number has bounds: numberFlag", cmd.CommandPath(), f.Name)
			case "string":
				if _, ok := f.Value.(*choiceFlag); !ok && enumeration.MatchString(f.Usage) {
					t.Errorf("%s --%s is %q: choiceFlag", cmd.CommandPath(), f.Name, f.Usage)
				}
			}
			for _, bad := range badValues(f) {
				tried++
				err := cmd.ParseFlags([]string{"--" + f.Name + "=" + bad})
				if err == nil {
					t.Errorf("%s --%s=%q is accepted", cmd.CommandPath(), f.Name, bad)
					continue
				}
				err = cmd.FlagErrorFunc()(cmd, err)
				says := err.Error()
				if exitOf(err) != api.ExitUsage || !strings.Contains(says, "--"+f.Name+" must be ") ||
					!strings.Contains(says, ", not "+strconv.Quote(bad)) ||
					regexp.MustCompile(`strconv|parse error|time:|invalid argument|syntax`).MatchString(says) {
					t.Errorf("%s --%s=%q: %s", cmd.CommandPath(), f.Name, bad, says)
				}
			}
		}
		cmd.LocalFlags().VisitAll(try)
		cmd.InheritedFlags().VisitAll(try)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand(c))
	if tried < 500 {
		t.Errorf("only %d values tried: the walk is wrong", tried)
	}
}

// TestABadTextIsReportedWithItsFlag: of flags that are texts with a form, and of arguments.
func TestABadTextIsReportedWithItsFlag(t *testing.T) {
	s := newShell(t)
	s.apply()
	s.in = timed
	s.ok("apply", "-q", "-")
	for _, c := range []struct {
		says []string
		args []string
	}{
		{[]string{"-n, --number must be a whole number from 1 to 1000", `"foo"`},
			[]string{"cron", "next", "tick", "-n", "foo"}},
		{[]string{"-n, --number must be a whole number from 1 to 1000", `"-3"`},
			[]string{"cron", "next", "tick", "-n", "-3"}},
		{[]string{"--check-revision must be a whole number, at least 1", `"foo"`},
			[]string{"apply", "-", "--check-revision", "foo"}},
		{[]string{"--stream must be stdout, stderr or event", `"stdot"`, "did you mean stdout?"},
			[]string{"logs", "web", "--stream", "stdot"}},
		{[]string{"--state must be UNCLAIMED, CLAIMED, RUNNING or CRASHED", `"runing"`},
			[]string{"ps", "--state", "running,runing"}},
		{[]string{"--kind must be service, instance, task", `"cat"`}, []string{"events", "-f", "--kind", "cat"}},
		{[]string{"--color must be auto, always or never", `"red"`}, []string{"stop", "web", "--color", "red"}},
		{[]string{"--as must be done, failed or rerun", `"x"`}, []string{"task", "resolve", "once", "--as", "x"}},
		{[]string{`--since "foo"`, "a revision, or the position"}, []string{"events", "--since", "foo"}},
		{[]string{"--since must be a duration ago like 10m", `"foo"`}, []string{"logs", "web", "--since", "foo"}},
		{[]string{"--until must be a duration ago like 10m", `"foo"`}, []string{"logs", "web", "--until", "foo"}},
		{[]string{`--grep "("`, "missing closing )"}, []string{"logs", "web", "--grep", "("}},
		{[]string{`--id "a b"`, "a name is 1 to 128 letters"}, []string{"run", "--id", "a b", "--", "true"}},
		{[]string{`--domain "A B"`, "a name is 1 to 128 letters"}, []string{"run", "--domain", "A B", "--", "true"}},
		{[]string{`--name "A B"`, "a name is 1 to 128 letters"}, []string{"run", "--name", "A B", "--", "true"}},
		{[]string{"--tz", `"Nowhere"`}, []string{"ps", "--tz", "Nowhere"}},
		{[]string{`--template "{{"`, "unclosed action"}, []string{"ps", "--template", "{{"}},
		{[]string{`--columns: unknown column "zz"`, "valid columns: domain, "}, []string{"ps", "--columns", "zz"}},
		{[]string{"--at must be a time like", `"noon"`}, []string{"cron", "run", "tick", "--at", "noon"}},
		{[]string{"--from must be a time like", `"a"`},
			[]string{"cron", "backfill", "tick", "--from", "a", "--to", "b", "--max", "1"}},
		{[]string{"--from must be a time like", `"a"`}, []string{"cron", "next", "@daily", "--from", "a", "--utc"}},
		{[]string{"INSTANCES must be a whole number", `"-3"`}, []string{"service", "scale", "web", "--", "-3"}},
		{[]string{"--ports must be a range FIRST-LAST", `"x"`}, []string{"cell", "--ports", "x"}},
		{[]string{"--capacity gpu=x: must be a whole number"}, []string{"cell", "--capacity", "gpu=x"}},
		{[]string{"--capacity must be NAME=VALUE", `"gpu"`}, []string{"cell", "--capacity", "gpu"}},
		{[]string{`--data "/nowhere": no such directory`}, []string{"store", "backup", "x", "--data", "/nowhere"}},
		{[]string{`--data "/nowhere": no such directory`}, []string{"store", "mark-restored", "--data", "/nowhere"}},
	} {
		s.in = demo
		out, errs, code := s.run(c.args...)
		if code != api.ExitUsage || out != "" {
			t.Errorf("%q: exit code %d, %s", c.args, code, out)
		}
		if slices.ContainsFunc(c.says, func(x string) bool { return !strings.Contains(errs, x) }) ||
			regexp.MustCompile(`strconv|query\.|upcoming|invalid request|parsing`).MatchString(errs) {
			t.Errorf("%q: %s", c.args, errs)
		}
	}
	// A place that the stream has not come to is no place of this stream.
	for _, more := range [][]string{nil, {"-f"}} {
		out, errs, code := s.run(append([]string{"events", "--since", "99999999"}, more...)...)
		if code != api.ExitFailed || out != "" || !strings.Contains(errs, "--since 99999999 is later than the newest event") {
			t.Errorf("%d %q %q", code, out, errs)
		}
	}
	for want, g := range map[string]*pb.Gap{
		"events between 3.1 and 7.2 missing":                                         {After: "3.1", Before: "7.2"},
		"stream is at 3.1, before 50: the store was restored, events may be missing": {After: "50", Before: "3.1"},
	} {
		if got := missing("events", g); got != want {
			t.Errorf("%q", got)
		}
	}
	// Words are matched in any case.
	if got := s.ok("ps", "--state", "running", "-q"); got != "d/web/0\n" {
		t.Error(got)
	}
}

// TestImpossibleUsersAreRefused: nothing that is no user is sent to the server.
func TestImpossibleUsersAreRefused(t *testing.T) {
	s := newShell(t)
	for _, user := range []string{"4294967295", "65534:4294967295", "-1", "", ":0", "nobody:", "99999999999", "a b"} {
		s.fails(api.ExitUsage,
			fmt.Sprintf("--user must be a user name, or a uid or uid:gid of numbers from 0 to 4294967294, not %q", user), "run",
			"--user", user, "--", "true")
	}
}
