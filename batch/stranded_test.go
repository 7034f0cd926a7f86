package batch

import (
	"strings"
	"testing"

	"cantina/resource"
)

// chain is three jobs on four nodes, each of which depends on the one before; first has failed
// on db11 for good.
func chain(t *testing.T) (b *Board, n *int64) {
	b, n = twoHosts(t), new(int64)
	put(t, b, free(Job{Name: "third", DependsOn: []string{"second"}}))
	put(t, b, free(Job{Name: "second", DependsOn: []string{"first"}}))
	put(t, b, free(Job{Name: "first"}))
	picks(t, b, n, "first:db22 first:db21 first:db12 first:db11")
	for _, node := range []string{"db12", "db21", "db22"} {
		finish(t, b, Key{"first", node}, Report{Bits: Done})
	}
	b.Touched()
	finish(t, b, Key{"first", "db11"}, Report{Bits: Failed, ExitCode: 3})
	return b, n
}

// free lets all nodes of a host run at once.
func free(j Job) Job {
	j.Resources = map[string]resource.Amounts{"host": {"slots": 0}}
	return j
}

func picks(t *testing.T, b *Board, n *int64, want string) {
	t.Helper()
	s := b.Pick(9)
	if got := keys(s); got != want {
		t.Fatalf("starts %q, want %q", got, want)
	}
	start(t, b, s, n)
}

func is(t *testing.T, b *Board, job string, want Progress) {
	t.Helper()
	if got, _ := b.Progress(job); got != want {
		t.Fatalf("%s: %+v, want %+v", job, got, want)
	}
}

// TestAFailureGoesThroughTheChain: tasks that wait for a failed batch task end with it and name it. They go on when
// that task is retried.
func TestAFailureGoesThroughTheChain(t *testing.T) {
	b, n := chain(t)
	if got := strings.Join(b.Touched(), " "); got != "second third" {
		t.Fatalf("touched %q", got)
	}
	is(t, b, "first", Progress{State: JobFailed, Total: 4, Done: 3, Failed: 1})
	is(t, b, "second", Progress{State: JobWaiting, Total: 4, Ready: 3, Stranded: 1})
	picks(t, b, n, "second:db22 second:db21 second:db12")
	for _, node := range []string{"db12", "db21", "db22"} {
		finish(t, b, Key{"second", node}, Report{Bits: Done})
		picks(t, b, n, "third:"+node)
		finish(t, b, Key{"third", node}, Report{Bits: Done})
	}
	is(t, b, "second", Progress{State: JobFailed, Total: 4, Done: 3, Stranded: 1,
		Reason: "depends on job first, which failed on 1 of its nodes"})
	is(t, b, "third", Progress{State: JobFailed, Total: 4, Done: 3, Stranded: 1,
		Reason: "depends on job second, which depends on job first, which failed on 1 of its nodes"})
	why, err := b.ExplainJob("third", func(string) string { return "" }, 0)
	if err != nil || len(why) != 1 ||
		why[0].String() != `db11: blocked by second/db11: depends on job "second", which is blocked by first/db11: `+
			`depends on job "first", which failed on this node: exit code 3; cantina job retry first --node db11` {
		t.Fatal(why, err)
	}
	retry(t, b, "first")
	is(t, b, "third", Progress{State: JobWaiting, Total: 4, Done: 3, Blocked: 1, Reason: "waiting for job second"})
	for _, job := range []string{"first", "second", "third"} {
		picks(t, b, n, job+":db11")
		finish(t, b, Key{job, "db11"}, Report{Bits: Done})
		is(t, b, job, Progress{State: JobDone, Total: 4, Done: 4})
	}
}

func retry(t *testing.T, b *Board, job string) {
	t.Helper()
	edits, err := b.Retry(job)
	if err != nil || len(edits) == 0 {
		t.Fatal(edits, err)
	}
	for _, u := range edits {
		b.Apply(u)
	}
}

// TestOtherThingsThatWillNotBeDone strand their waiting tasks too, until a change: a removed job, an invalid job,
// or one that does not run on the node. A pause strands no task: it is only reported.
func TestOtherThingsThatWillNotBeDone(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(b *Board)
		stranded int
		state    State
		reason   string
	}{
		"gone": {func(b *Board) { b.Delete("first") }, 4, JobFailed, "depends on job first, which does not exist"},
		"invalid": {func(b *Board) { b.Put(Job{Name: "first", UID: "u-first", Errors: []string{"bad"}}) }, 4, JobFailed,
			"depends on job first, which is invalid"},
		"avoids": {func(b *Board) {
			b.Put(Job{Name: "first", UID: "u-first", Filters: map[string]Filter{"db": {WhitelistRegex: "db1."}}})
		}, 2, JobWaiting, "depends on job first, which does not run on all of these nodes"},
		"level": {func(b *Board) { b.Put(Job{Name: "first", UID: "u-first", Level: "host"}) }, 4, JobFailed,
			"depends on job first, which does not run on all of these nodes"},
		"paused": {func(b *Board) { b.Put(Job{Name: "first", UID: "u-first", Paused: true}) }, 0, JobWaiting,
			"waiting for job first, which is paused"},
		"disabled": {func(b *Board) { b.Put(Job{Name: "first", UID: "u-first", Disabled: true}) }, 0, JobWaiting,
			"waiting for job first, which is disabled"},
	} {
		t.Run(name, func(t *testing.T) {
			b := twoHosts(t)
			put(t, b, Job{Name: "second", DependsOn: []string{"first"}})
			put(t, b, Job{Name: "first"})
			is(t, b, "second", Progress{State: JobWaiting, Total: 4, Blocked: 4, Reason: "waiting for job first"})
			c.change(b)
			is(t, b, "second", Progress{State: c.state, Total: 4, Blocked: 4 - c.stranded, Stranded: c.stranded,
				Reason: c.reason})
			b.Put(Job{Name: "first", UID: "u-first"})
			is(t, b, "second", Progress{State: JobWaiting, Total: 4, Blocked: 4, Reason: "waiting for job first"})
		})
	}
}

// TestStrandedAfterALoad: a new leader strands the same tasks, for any order of reading.
func TestStrandedAfterALoad(t *testing.T) {
	old, _ := chain(t)
	for _, order := range [][]string{{"first", "second", "third"}, {"third", "second", "first"}} {
		b := twoHosts(t)
		for _, name := range order {
			j, _, _ := old.Job(name)
			put(t, b, j)
		}
		for _, name := range order {
			for _, node := range []string{"db11", "db12", "db21", "db22"} {
				if s, err := old.Status(Key{name, node}); err == nil && s.Bits != 0 {
					if _, err := b.Load(Key{name, node}, s, 1); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		for range 2 {
			for _, name := range order {
				want, _ := old.Progress(name)
				is(t, b, name, want)
			}
			if err := b.SetNodes(b.f.nodes); err != nil {
				t.Fatal(err)
			}
		}
	}
}
