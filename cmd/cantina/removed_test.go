package main

import (
	"testing"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

// TestLogsOfRemovedWork: kept output is found by the name that its service or job
// had, as by its subject when there are several.
func TestLogsOfRemovedWork(t *testing.T) {
	s := newShell(t)
	out := pb.LogStream_LOG_STREAM_STDOUT
	s.Logs.Write("c1", "i0", map[string]string{"kind": "lrp", "domain": "default", "service": "web", "index": "0"}, out,
		"zero")
	s.Logs.Write("c1", "i1", map[string]string{"kind": "lrp", "domain": "default", "service": "web", "index": "1"}, out,
		"one")
	s.Logs.Write("c1", "b", map[string]string{"kind": "batch", "domain": "default", "job": "count", "node": "n"}, out,
		"two")
	for name, want := range map[string]string{
		"web": "web/0 | zero\nweb/1 | one\n", "web/1": "one\n", "service/default/web/0": "zero\n",
		"default/web": "web/0 | zero\nweb/1 | one\n",
		"count":       "count[n] | two\n", "count[n]": "two\n", "job/count/n": "two\n", "default/count[n]": "two\n",
		"job/default/count/n": "two\n",
	} {
		if got := s.ok("logs", name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if got := s.ok("logs", "-f", name); got != want {
			t.Errorf("-f %s: %q, want %q", name, got, want)
		}
	}
	s.Logs.Write("c1", "b2", map[string]string{"kind": "batch", "domain": "default", "job": "web", "node": "n"}, out,
		"three")
	s.fails(api.ExitUsage, "service/default/web\n  job/default/web", "logs", "web")
	s.fails(api.ExitNotFound, "not found", "logs", "never")
	s.fails(api.ExitNotFound, "not found", "logs", "web", "--domain", "other")
	s.fails(api.ExitNotFound, "not found", "logs", "web/7")
}
