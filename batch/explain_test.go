package batch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func lines(why []Why) string {
	var out []string
	for _, w := range why {
		out = append(out, w.String())
	}
	return strings.Join(out, "\n")
}

func TestExplainAJob(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	first := Job{Name: "first job", Backoff: Backoff{Fail: true}}
	put(t, b, first)
	put(t, b, Job{Name: "second", DependsOn: []string{"first job"}})
	start(t, b, b.Pick(4), &n)
	finish(t, b, Key{"first job", "db11"}, Report{Bits: Done})
	finish(t, b, Key{"first job", "db12"}, Report{Bits: Error | UsesBackoff, ExitCode: 3, Reason: "exit code 3"})
	finish(t, b, Key{"first job", "db21"}, Report{Bits: Error | UsesBackoff, ExitCode: 4, Reason: "no disk"})
	finish(t, b, Key{"first job", "db22"}, Report{Bits: Failed, Signal: 9})
	reasons := map[string]string{"db12": "exit status 3", "db21": "no disk"}
	of := func(node string) string { return reasons[node] }
	retry := "; cantina job retry 'first job' --node "
	want := "db12: failed: exit status 3" + retry + "db12\ndb21: failed: exit code 4: no disk" + retry +
		"db21\ndb22: failed: signal 9" + retry + "db22"
	why, err := b.ExplainJob("first job", of, 0)
	if err != nil || lines(why) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, lines(why), want)
	}
	one, err := b.Explain(Key{"first job", "db21"}, reasons["db21"], 0)
	if err != nil || lines(one) != "failed: exit code 4: no disk"+retry+"db21" {
		t.Errorf("%v\n%s", err, lines(one))
	}
	why, _ = b.ExplainJob("second", of, 0)
	if got := lines(why); strings.Count(got, "blocked by first job/db") != 3 ||
		!strings.Contains(got, "db12: blocked by first job/db12: depends on") {
		t.Errorf("blocked:\n%s", got)
	}
	put(t, b, Job{Name: "second", DependsOn: []string{"first job"}, Paused: true, Disabled: true})
	why, _ = b.ExplainJob("second", of, 0)
	if got := lines(why); !strings.HasPrefix(got,
		"the job is disabled; enable it in its file and apply it\nthe job is paused; cantina job resume second\n") {
		t.Errorf("switches:\n%s", got)
	}
	if _, err := b.ExplainJob("x", of, 0); !errors.Is(err, ErrUnknownJob) {
		t.Error(err)
	}
}

func TestExplainNamesAFewNodes(t *testing.T) {
	b := twoHosts(t)
	var specs []NodeSpec
	for i := range 9 {
		specs = append(specs, NodeSpec{Name: fmt.Sprint("n", i), Level: "db"})
	}
	specs = append([]NodeSpec{{Name: "h", Level: "host"}}, specs...)
	for i := range specs[1:] {
		specs[i+1].Parent = "h"
	}
	if err := b.SetNodes(specs); err != nil {
		t.Fatal(err)
	}
	put(t, b, Job{Name: "a"})
	for i := range 8 {
		if _, err := b.Load(Key{"a", fmt.Sprint("n", i)},
			Status{Bits: Failed, ExitCode: 1, Time: 1, Invocation: inv(int64(i + 1))}, 0); err != nil {
			t.Fatal(err)
		}
	}
	put(t, b, Job{Name: "a"})
	why, err := b.ExplainJob("a", func(string) string { return "" }, 0)
	if err != nil || len(why) != 6 || why[5].String() != "3 more nodes failed or wait for a retry; cantina job retry a" {
		t.Errorf("%v\n%s", err, lines(why))
	}
}

func TestQuoted(t *testing.T) {
	for name, want := range map[string]string{"a-1/b.c": "a-1/b.c", "a b": "'a b'", "": "''", "it's": `'it'\''s'`,
		"$x":     "'$x'",
		"azAZ09": "azAZ09", "a[b": "'a[b'", "a`b": "'a`b'", "a{b": "'a{b'", "a<b": "'a<b'", "ä": "'ä'",
		"-_./:@%+=,": "-_./:@%+=,", "a;b": "'a;b'"} {
		if got := quoted(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// TestExplainCountsDown: the rest of a backoff is computed at the time of the question, not at the last event of
// the board.
func TestExplainCountsDown(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "a", Retries: 5, Backoff: Backoff{Seconds: []int{30}, Repeat: true}})
	start(t, b, b.Pick(1), &n)
	var k Key
	for r := range b.runs.byKey {
		k = r
	}
	finish(t, b, k, Report{Bits: Error | UsesBackoff, ExitCode: 3, Reason: "exit code 3"})
	due, ok := b.NextDue()
	if !ok {
		t.Fatal("no backoff")
	}
	for left, want := range map[int64]string{30_000: "retry in 30s", 12_001: "retry in 13s", 1: "retry in 1s",
		0: "retry in 0s", -5000: "retry in 0s"} {
		one, err := b.Explain(k, "", due-left)
		if err != nil || !strings.Contains(lines(one), want) {
			t.Errorf("%d ms before: %v\n%s", left, err, lines(one))
		}
		all, err := b.ExplainJob("a", func(string) string { return "" }, due-left)
		if err != nil || !strings.Contains(lines(all), k.Node+": "+want) {
			t.Errorf("%d ms before, the job: %v\n%s", left, err, lines(all))
		}
	}
}
