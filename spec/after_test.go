package spec

import (
	"slices"
	"strings"
	"testing"
)

// TestAfter: whole jobs that a job waits for, over other nodes; names and cycles are checked across both fields.
func TestAfter(t *testing.T) {
	parse := func(lines ...string) (*File, error) {
		return Parse("f", "", []byte("jobs:\n  a: {command: [x], nodes: [{manual: [q]}]}\n  "+
			strings.Join(lines, "\n  ")+"\n"),
			testTimes())
	}
	got, err := parse("b: {command: [x], nodes: [{manual: [r]}], after: [a]}",
		"c: {command: [x], nodes_of: a, after: [a, b]}")
	if err != nil || !slices.Equal(got.Jobs[1].Job.After, []string{"a"}) ||
		!slices.Equal(got.Jobs[2].Job.After, []string{"a", "b"}) {
		t.Errorf("%v", err)
	}
	for line, want := range map[string]string{
		"b: {command: [x], after: [aa]}": `jobs.b.after[0]: no job "aa" in this file; did you mean a?`,
		"b: {command: [x], after: [b]}":  "jobs.b.after[0]: dependency cycle: b depends on b",
		"b: {command: [x], nodes_of: a, depends_on: [c]}\n  c: {command: [x], nodes_of: a, after: [b]}": "jobs.c.after[0]: " +
			"dependency cycle: b depends on c",
		"b: {command: [x], depends_on: [a]}": "a runs on other nodes; use nodes_of to share the nodes of a job, or after",
	} {
		if _, err := parse(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q in %v", line, want, err)
		}
	}
	_, err = Parse("f", "", []byte("schedules:\n  s: {cron: '@every 1h', job: {command: [x], after: [a]}}\n"), testTimes())
	if err == nil || !strings.Contains(err.Error(), "cannot depend on other jobs") {
		t.Error(err)
	}
}
