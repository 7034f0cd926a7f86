package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

// TestIncompleteOutputIsReportedOnce: a follower that runs for months keeps few of the
// messages that it has printed.
func TestIncompleteOutputIsReportedOnce(t *testing.T) {
	var errs bytes.Buffer
	c := &cli{environment: environment{Err: &errs}}
	said := map[string]bool{}
	for range 3 {
		noteIncomplete(c, []string{"cell c1: no route", "cell c2: no route"}, said)
	}
	if got := errs.String(); got != "incomplete: cell c1: no route\nincomplete: cell c2: no route\n" {
		t.Errorf("printed %q", got)
	}
	for i := range 10 * maxSaid {
		noteIncomplete(c, []string{fmt.Sprintf("cell c1: port %d", i)}, said)
	}
	if n := strings.Count(errs.String(), "port"); n != 10*maxSaid {
		t.Errorf("%d messages printed, not %d", n, 10*maxSaid)
	}
	if len(said) > maxSaid {
		t.Errorf("%d messages kept", len(said))
	}
}

// TestLogsAsKubectl: the flags of kubectl logs, and those that cantina has no use for.
func TestLogsAsKubectl(t *testing.T) {
	s := newShell(t)
	s.apply()
	for i, text := range []string{"one\n", "two\n", "three\n"} {
		s.Logs.Write("c1", "i0", map[string]string{"kind": "lrp", "domain": "d", "service": "web",
			"index": strconv.Itoa(i % 2)}, pb.LogStream_LOG_STREAM_STDOUT, text)
	}
	whole := s.ok("logs", "web")
	if whole == "" {
		t.Fatal("no output")
	}
	for _, same := range [][]string{{"--tail", "-1"}, {"--prefix"}, {"--since-time", "2000-01-01T00:00:00Z"},
		{"--limit-bytes", "1000000"}} {
		if out := s.ok(append([]string{"logs", "web"}, same...)...); out != whole {
			t.Errorf("%v: %q, not %q", same, out, whole)
		}
	}
	if out := s.ok("logs", "web", "--prefix=false"); out != s.ok("logs", "web", "--no-prefix") || out == whole {
		t.Errorf("--prefix=false: %q", out)
	}
	if out := s.ok("logs", "web/0", "--prefix"); !strings.Contains(out, " | ") {
		t.Errorf("--prefix: %q", out)
	}
	if out := s.ok("logs", "web", "--limit-bytes", "7"); out != whole[:7] {
		t.Errorf("--limit-bytes: %q", out)
	}
	s.fails(api.ExitUsage, "exclude each other", "logs", "web", "--since", "1m", "--since-time", "2000-01-01T00:00:00Z")
	s.fails(api.ExitUsage, "exclude each other", "logs", "count", "--node", "a", "--shard", "a")
	s.fails(api.ExitUsage, "did you mean --timestamps?", "logs", "web", "--timestamp")
	s.fails(api.ExitUsage, "an instance has one container", "logs", "web", "--container", "x")
}
