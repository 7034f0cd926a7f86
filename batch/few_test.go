package batch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cantina/resource"
)

// TestTimersComeInOrder for any order of setting them.
func TestTimersComeInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var q timers
	var want, got []int64
	for range 500 {
		at := rng.Int64N(1000)
		q.push(timer{at: at})
		want = append(want, at)
	}
	slices.Sort(want)
	for len(q) > 0 {
		got = append(got, q.pop().at)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestNodesThatAnotherJobHas are none of a job that never had them.
func TestNodesThatAnotherJobHas(t *testing.T) {
	b := twoHosts(t)
	put(t, b, Job{Name: "a"})
	put(t, b, Job{Name: "b"})
	b.Adopt(Key{"a", "left"}, inv(1), "c")
	if err := b.HasNode(Key{"a", "left"}); err != nil {
		t.Errorf("it runs there: %v", err)
	}
	if err := b.HasNode(Key{"b", "left"}); err == nil || !strings.Contains(err.Error(), `job "b" has no node "left"`) {
		t.Error(err)
	}
	if list, err := b.Nodes("b", NodeFilter{Node: "left"}); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	err := b.SetNodes([]NodeSpec{{Name: "n", Level: "shelf"}})
	if err == nil || !strings.Contains(err.Error(), `unknown level "shelf"`) {
		t.Error(err)
	}
	err = b.SetNodes([]NodeSpec{{Name: "n", Level: LevelInstance, Parent: "x"}})
	if err == nil || !strings.Contains(err.Error(), `unknown level "instance"`) {
		t.Error(err)
	}
}

// TestNextDueIsThatOfTheLastFailure: a backoff that a retry ended is over.
func TestNextDueIsThatOfTheLastFailure(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "a", Retries: -1, Backoff: Backoff{Seconds: []int{100}, Repeat: true},
		Filters: map[string]Filter{"db": {Whitelist: []string{"db11"}}}})
	for i, want := range []int64{101_000, 103_000} {
		b.Advance(1000 + int64(i)*2000)
		start(t, b, b.Pick(9), &n)
		finish(t, b, Key{"a", "db11"}, errorBackoff)
		if at, ok := b.NextDue(); !ok || at != want {
			t.Errorf("due at %d, %v, want %d", at, ok, want)
		}
		us, err := b.Retry("a")
		if err != nil {
			t.Fatal(err)
		}
		apply(b, us)
	}
}

// TestRetryDoesNotTakeAPickBack that was made before it was stored.
func TestRetryDoesNotTakeAPickBack(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "a", Retries: -1, Backoff: Backoff{Seconds: []int{7}, Repeat: true},
		Filters: map[string]Filter{"db": {Whitelist: []string{"db11"}}}})
	b.Advance(1000)
	start(t, b, b.Pick(9), &n)
	finish(t, b, Key{"a", "db11"}, errorBackoff)
	us, err := b.Retry("a")
	if err != nil {
		t.Fatal(err)
	}
	b.Advance(8000)
	s := b.Pick(9)
	apply(b, us)
	start(t, b, s, &n)
	if got := keys(s); got != "a:db11" || b.Live() != 1 {
		t.Errorf("%s started, %d run", got, b.Live())
	}
}

// TestUnstoredChangesHaveNoEffect, also for a job without a UID.
func TestUnstoredChangesHaveNoEffect(t *testing.T) {
	b := twoHosts(t)
	b.Put(Job{Name: "a"})
	done := Status{Bits: Done, Time: 1, Invocation: inv(5)}
	if _, err := b.Load(Key{"a", "db11"}, done, 7); err != nil {
		t.Fatal(err)
	}
	u := b.End(Key{"a", "db11"}, inv(4), Report{Bits: Failed}, 0)
	if old := b.Apply(u); u.Store || old != 0 {
		t.Errorf("%+v replaced %d", u, old)
	}
	if s, err := b.Status(Key{"a", "db11"}); err != nil || s != done {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestReasonsOfAJobThatWaits: the first job that is not done is named; a refusal goes before.
func TestReasonsOfAJobThatWaits(t *testing.T) {
	b := twoHosts(t)
	put(t, b, Job{Name: "x"})
	put(t, b, Job{Name: "y"})
	put(t, b, Job{Name: "a", DependsOn: []string{"x", "y"}})
	reason := func(want string) {
		t.Helper()
		if p, _ := b.Progress("a"); p.Reason != want {
			t.Errorf("%q, want %q", p.Reason, want)
		}
	}
	reason("waiting for job x")
	for i, node := range []string{"db11", "db12", "db21", "db22"} {
		if _, err := b.Load(Key{"x", node}, Status{Bits: Done, Time: 1, Invocation: inv(int64(i + 1))}, 0); err != nil {
			t.Fatal(err)
		}
	}
	reason("waiting for job y")
	b.jobs.named["a"].blocked = "no cell"
	reason("no cell")
}

// TestResultsOfPausedJobs: a done node of a paused job stays done.
func TestResultsOfPausedJobs(t *testing.T) {
	b := twoHosts(t)
	put(t, b, Job{Name: "a", Paused: true})
	if _, err := b.Load(Key{"a", "db11"}, Status{Bits: Done, Time: 1, Invocation: inv(1)}, 0); err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]string{"db11": "ended: done", "db12": "the job is paused; cantina job resume a"} {
		why, err := b.Explain(Key{"a", node}, "", 0)
		if got := lines(why); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", node, got, err, want)
		}
	}
}

// TestEndsInWords: the cause of an end is printed once.
func TestEndsInWords(t *testing.T) {
	for _, c := range []struct {
		s            Status
		reason, want string
	}{
		{Status{Signal: 9, ExitCode: 137}, "exit status 137", "signal 9: exit status 137"},
		{Status{Signal: 9}, "signal 9 (killed)", "signal 9 (killed)"},
		{Status{ExitCode: 3}, "exit status 3", "exit status 3"},
		{Status{ExitCode: 3}, "", "exit code 3"},
		{Status{ExitCode: -1}, "no such program", "no such program"},
		{Status{}, "no disk", "no disk"},
	} {
		if got := c.s.ending(c.reason); got != c.want {
			t.Errorf("%+v %q: %q, want %q", c.s, c.reason, got, c.want)
		}
	}
}

// TestFiveNodesAreNamed, and how many there are more.
func TestFiveNodesAreNamed(t *testing.T) {
	for _, count := range []int{5, 6} {
		nodes := []NodeSpec{{Name: "h", Level: "host"}}
		for i := range count {
			nodes = append(nodes, NodeSpec{Name: fmt.Sprint("n", i), Level: "db", Parent: "h"})
		}
		b := newBoard(t, ForestSpec{Name: "f", Levels: []string{"host", "db"}}, nodes...)
		put(t, b, Job{Name: "a"})
		put(t, b, Job{Name: "b", DependsOn: []string{"a"}})
		for i := range count {
			s := Status{Bits: Failed, ExitCode: 1, Time: 1, Invocation: inv(int64(i + 1))}
			if _, err := b.Load(Key{"a", fmt.Sprint("n", i)}, s, 0); err != nil {
				t.Fatal(err)
			}
		}
		for job, more := range map[string]string{"a": "1 more nodes failed", "b": "1 more nodes are blocked"} {
			why, err := b.ExplainJob(job, func(string) string { return "" }, 0)
			if err != nil || len(why) != count || strings.Contains(lines(why), more) != (count > 5) {
				t.Errorf("%s of %d: %v\n%s", job, count, err, lines(why))
			}
		}
	}
}

// TestTenHoldersAreNamed of all that draw on a node.
func TestTenHoldersAreNamed(t *testing.T) {
	var nodes []NodeSpec
	for i := range 12 {
		nodes = append(nodes, NodeSpec{Name: fmt.Sprintf("n%02d", i), Level: "db"})
	}
	b := newBoard(t, ForestSpec{Name: "f", Levels: []string{"db"}, Limits: map[string]map[string]Limit{
		LevelInstance: {"all": {Default: 1, Limit: 11}},
	}}, nodes...)
	put(t, b, Job{Name: "a"})
	n := int64(0)
	start(t, b, b.Pick(12), &n)
	for _, x := range nodes {
		if _, _, runs := b.Running(Key{"a", x.Name}); runs {
			continue
		}
		why, err := b.Explain(Key{"a", x.Name}, "", 0)
		if err != nil || len(why) != 1 || len(why[0].Holders) != 10 {
			t.Errorf("%+v, %v", why, err)
		}
	}
}

// TestUseOfARemovedLevel: running tasks go on, and draw on the other levels.
func TestUseOfARemovedLevel(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "a"})
	start(t, b, b.Pick(2), &n)
	spec := b.Spec()
	spec.Levels, spec.Limits = []string{"db"}, map[string]map[string]Limit{"db": spec.Limits["db"]}
	if err := b.Configure(spec); err != nil {
		t.Fatal(err)
	}
	if p, _ := b.Progress("a"); p.Running != 2 || b.Live() != 2 {
		t.Errorf("%+v, %d run", p, b.Live())
	}
	checkBoard(t, b)
}

// TestAPickKeepsItsDraws: later changes of the resources of its job do not change them.
func TestAPickKeepsItsDraws(t *testing.T) {
	b := newBoard(t, ForestSpec{Name: "f", Levels: []string{"db"}, Limits: map[string]map[string]Limit{
		LevelInstance: {"all": {Limit: 4}},
	}}, NodeSpec{Name: "n", Level: "db"})
	put(t, b, Job{Name: "root", Level: LevelInstance})
	if got := keys(b.Pick(9)); got != "root:instance" {
		t.Fatal(got)
	}
	take := func(n int) map[string]resource.Amounts { return map[string]resource.Amounts{LevelInstance: {"all": n}} }
	put(t, b, Job{Name: "root", Level: LevelInstance, Resources: take(1)})
	if err := b.SetNodes([]NodeSpec{{Name: "n", Level: "db"}}); err != nil {
		t.Fatal(err)
	}
	put(t, b, Job{Name: "all", Resources: take(4)})
	if got := keys(b.Pick(9)); got != "all:n" {
		t.Errorf("%q starts", got)
	}
}

// TestChildrenWithEntriesOfTheirOwn stand below their parent only.
func TestChildrenWithEntriesOfTheirOwn(t *testing.T) {
	nodes, err := ManualNodes([]string{"host", "db"}, []ManualNode{
		{Name: "h", Children: []string{"d"}}, {Name: "d", Tags: []string{"ssd"}},
	})
	var got []string
	for _, n := range nodes {
		got = append(got, n.Level+" "+n.Parent+"/"+n.Name+" "+strings.Join(n.Tags, ","))
	}
	if want := []string{"host /h ", "db h/d ssd"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// TestWorkWithoutAmountsUsesNothing, also where there is something to be taken.
func TestWorkWithoutAmountsUsesNothing(t *testing.T) {
	b := twoHosts(t)
	for n, want := range map[int]bool{0: false, 1: true} {
		take := map[string]int{"slots": n}
		put(t, b, Job{Name: "a", Resources: map[string]resource.Amounts{"host": take, "db": {"slots": 0}}})
		if got := b.Draws("a"); got != want {
			t.Errorf("%d slots: %v", n, got)
		}
	}
}
