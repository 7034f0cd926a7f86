package batch

import (
	"errors"
	"strings"
	"testing"

	"cantina/action"
	"cantina/fence"
	"cantina/resource"
)

// TestScopeOfARefusal depends on its scope and on the pin of the job.
func TestScopeOfARefusal(t *testing.T) {
	for name, c := range map[string]struct {
		job    Job
		scope  Scope
		then   string // the keys that still start
		reason string // of the job as a whole
	}{
		"the job":               {Job{}, ScopeJob, "", "no cell"},
		"a node":                {Job{}, ScopeNode, "j:b j:c j:d", ""},
		"a host":                {Job{HostLevel: "host"}, ScopeHost, "j:c j:d", ""},
		"a host of none":        {Job{}, ScopeHost, "", "no cell"},
		"a host of one machine": {Job{Host: "m"}, ScopeHost, "", "no cell"},
		"a node as host":        {Job{HostLevel: "db"}, ScopeHost, "j:b j:c j:d", ""},
		"the root as host":      {Job{HostLevel: LevelInstance}, ScopeHost, "", ""},
		"a node on a host":      {Job{HostLevel: "host"}, ScopeNode, "j:b j:c j:d", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := pairs(t)
			c.job.Name = "j"
			put(t, b, c.job)
			s := b.Pick(1)
			if keys(s) != "j:a" {
				t.Fatal(keys(s))
			}
			if err := b.Refuse(s[0].Key, c.scope, "no cell"); err != nil || !b.Blocked() {
				t.Fatal(err, b.Blocked())
			}
			if p, _ := b.Progress("j"); p.Reason != c.reason {
				t.Errorf("reason %q", p.Reason)
			}
			why, err := b.Explain(Key{"j", "a"}, "", 0)
			if err != nil || !strings.Contains(lines(why), "no cell") {
				t.Errorf("%v: %s", err, lines(why))
			}
			if got := keys(b.Pick(9)); got != c.then {
				t.Errorf("%q starts, want %q", got, c.then)
			}
			b.Unblock()
			if got := keys(b.Pick(9)); !strings.HasPrefix(got, "j:a") || b.Blocked() {
				t.Errorf("afterwards %q starts", got)
			}
			checkBoard(t, b)
		})
	}
}

// pairs is two hosts with two nodes each, without limits.
func pairs(t *testing.T) *Board {
	t.Helper()
	levels := []string{"host", "db"}
	nodes, err := ManualNodes(levels, []ManualNode{{Name: "h1", Children: []string{"a", "b"}},
		{Name: "h2", Children: []string{"c", "d"}}})
	if err != nil {
		t.Fatal(err)
	}
	return newBoard(t, ForestSpec{Name: "f", Levels: levels, Order: OrderOriginal}, nodes...)
}

// TestARefusalThatComesLate, after a change of the job or the nodes, only takes the pick back.
func TestARefusalThatComesLate(t *testing.T) {
	for name, c := range map[string]struct {
		before, after Job
		again         bool // the nodes are read again
	}{
		"the nodes are read again":  {Job{}, Job{}, true},
		"the job moves up":          {Job{Level: "db"}, Job{Level: "host"}, false},
		"the job moves to the root": {Job{Level: "db"}, Job{Level: LevelInstance}, false},
		"the job moves down":        {Job{Level: "host"}, Job{Level: "db", HostLevel: LevelInstance}, false},
		"from the root down":        {Job{Level: LevelInstance}, Job{Level: "db"}, false},
	} {
		for _, scope := range []Scope{ScopeJob, ScopeHost, ScopeNode} {
			b := pairs(t)
			c.before.Name, c.after.Name = "j", "j"
			put(t, b, c.before)
			s := b.Pick(1)
			put(t, b, c.after)
			if c.again {
				if err := b.SetNodes(b.f.nodes); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.Refuse(s[0].Key, scope, "no cell"); err != nil || b.Blocked() || b.Picked(s[0].Key) {
				t.Errorf("%s: %v, blocked %v", name, err, b.Blocked())
			}
			checkBoard(t, b)
		}
	}
	b := pairs(t)
	put(t, b, Job{Name: "j"})
	k := b.Pick(1)[0].Key
	b.Delete("j")
	if err := b.Refuse(k, ScopeJob, ""); !errors.Is(err, ErrNotPicked) {
		t.Errorf("of a job that is gone: %v", err)
	}
}

// TestPickedAndRunning: a picked task does not run yet, and a running task is not picked any more.
func TestPickedAndRunning(t *testing.T) {
	b := pairs(t)
	put(t, b, Job{Name: "j"})
	k := b.Pick(1)[0].Key
	none := Key{"j", "b"}
	if _, _, runs := b.Running(k); runs || !b.Picked(k) || b.Picked(none) || b.Live() != 0 || len(b.Runs("")) != 0 {
		t.Error("picked")
	}
	b.Adopt(k, inv(3), "c1") // a cell runs it already
	if _, cell, runs := b.Running(k); !runs || cell != "c1" || b.Picked(k) || b.Live() != 1 {
		t.Error("it runs", cell, runs, b.Live())
	}
	for _, err := range []error{b.Unpick(k), b.Refuse(k, ScopeJob, ""), b.Started(k, inv(4), "c"), b.Unpick(none)} {
		if !errors.Is(err, ErrNotPicked) {
			t.Error(err)
		}
	}
	for _, c := range []struct {
		inv  fence.Invocation
		cell string
		want fence.Invocation
		on   string
	}{{inv(2), "c2", inv(3), "c1"}, {inv(3), "c3", inv(3), "c3"}, {inv(5), "c4", inv(5), "c4"}} {
		b.Adopt(k, c.inv, c.cell)
		if i, cell, _ := b.Running(k); i != c.want || cell != c.on || b.Live() != 1 {
			t.Errorf("%v on %s reported: %v on %s, %d live", c.inv, c.cell, i, cell, b.Live())
		}
	}
	if len(b.Runs("j")) != 1 || len(b.Runs("x")) != 0 {
		t.Error(b.Runs("x"))
	}
	finish(t, b, k, Report{Bits: Done})
	if b.Live() != 0 {
		t.Error(b.Live())
	}
}

// TestAnUnknownJob is not found; an invalid forest is an error.
func TestAnUnknownJob(t *testing.T) {
	b := pairs(t)
	put(t, b, Job{Name: "j"})
	if _, _, ok := b.Job("x"); ok {
		t.Error("there is none")
	}
	if j, _, ok := b.Job("j"); !ok || j.Name != "j" {
		t.Error("it is there")
	}
	if err := b.Configure(ForestSpec{Name: "f", Levels: []string{""}}); !errors.Is(err, ErrNodes) ||
		len(b.Spec().Levels) != 2 {
		t.Error(err)
	}
	if _, err := NewBoard(ForestSpec{Name: "f", Levels: []string{"a", "a"}}); !errors.Is(err, ErrNodes) {
		t.Error(err)
	}
	for name, n := range map[string]NodeSpec{
		"an unknown level": {Name: "x", Level: "moon"}, "no name": {Name: "", Level: "host"},
		"the root again": {Name: "x", Level: LevelInstance},
		"no parent":      {Name: "x", Level: "db"}, "an unknown parent": {Name: "x", Level: "db", Parent: "y"},
	} {
		if err := b.SetNodes([]NodeSpec{n}); err == nil || len(b.f.nodes) != 6 {
			t.Errorf("%s: %v, %d nodes", name, err, len(b.f.nodes))
		}
	}
}

// TestStatusesAtTheirBounds has the longest text and data, and the errors for impossible bits.
func TestStatusesAtTheirBounds(t *testing.T) {
	data := func(n int) string { return `{"a":"` + strings.Repeat("x", n-8) + `"}` }
	for name, c := range map[string]struct{ text, want string }{
		"longest data": {`{"result":"done","data":` + data(MaxData) + `}`, ""},
		"longer data": {`{"result":"done","data":` + data(MaxData+1) + `}`,
			"data has 4097 bytes, at most 4096 are kept"},
		"longest text":     {`{"result":"done"` + strings.Repeat(" ", maxStatusText-17) + `}`, ""},
		"longer text":      {`{"result":"done"` + strings.Repeat(" ", maxStatusText-16) + `}`, "status of 65537 bytes"},
		"no data":          {`{"result":"done","data":null}`, ""},
		"no number":        {`{"result_bits":"x"}`, "is no number"},
		"no bit":           {`{"result_bits":0}`, "must have exactly one of"},
		"two bits":         {`{"result_bits":12}`, "must have exactly one of"},
		"negative":         {`{"result_bits":-4}`, "bits a task may not set"},
		"one bit too much": {`{"result_bits":65540}`, "bits a task may not set"},
		"running":          {`{"result_bits":2}`, "means running"},
	} {
		r, err := ParseStatus([]byte(c.text))
		if c.want == "" && (err != nil || r.Bits != Done) || c.want != "" &&
			(err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v %v", name, r.Bits, err)
		}
	}
}

// TestRoomThatIsLess than its current use holds back only tasks that need some.
func TestRoomThatIsLess(t *testing.T) {
	p := full(t)
	spec := p.b.Spec()
	spec.Limits["host"] = map[string]Limit{"slots": {Default: 1, Limit: 1}, "io": {Limit: 2}}
	if err := p.b.Configure(spec); err != nil {
		t.Fatal(err)
	}
	p.job("io", map[string]resource.Amounts{"host": {"slots": 0, "io": 2}}, "c", "f").starts("io:c io:f").job("more",
		map[string]resource.Amounts{"host": {"slots": 0, "io": 1}}, "c")
	why, err := p.b.Explain(Key{"more", "c"}, "", 0)
	if err != nil ||
		lines(why) != "host h1: io 1 needed, 0 free, held by io/c; it starts when one of them ends; "+
			"to start it now: raise the limit of io on level host to 3" {
		t.Errorf("%v %s", err, lines(why))
	}
}

// TestTheRootInFilters of jobs and of lists.
func TestTheRootInFilters(t *testing.T) {
	b := pairs(t)
	put(t, b, Job{Name: "j", Filters: map[string]Filter{LevelInstance: {Blacklist: []string{"instance"}}}})
	if p, _ := b.Progress("j"); p.Avoided != 4 {
		t.Errorf("%+v", p)
	}
	if why, err := b.Explain(Key{"j", "a"}, "", 0); err != nil ||
		lines(why) != "the job's filter on level instance excludes node instance" {
		t.Errorf("%v %s", err, lines(why))
	}
	for below, want := range map[string]int{"": 4, "instance": 4, "h1": 2, "a": 1, "x": 0} {
		if got, err := b.Nodes("j", NodeFilter{Below: below}); err != nil || len(got) != want {
			t.Errorf("below %q: %d, %v", below, len(got), err)
		}
	}
	for class, want := range map[Class]int{ClassAvoided: 4, ClassReady: 0} {
		if got, err := b.Nodes("j", NodeFilter{Classes: []Class{class}}); err != nil || len(got) != want {
			t.Errorf("%v: %d, %v", class, len(got), err)
		}
	}
}

// TestABackoffThatIsLoadedBeforeTheClock counts from its end: nothing is known of a wrong clock.
func TestABackoffThatIsLoadedBeforeTheClock(t *testing.T) {
	b := pairs(t)
	put(t, b, Job{Name: "j", Retries: -1})
	if _, err := b.Load(Key{"j", "a"}, Status{Bits: Error | UsesBackoff, Time: 5000, Backoff: 7, Invocation: inv(1)},
		1); err != nil {
		t.Fatal(err)
	}
	b.Advance(6000)
	if at, ok := b.NextDue(); !ok || at != 12_000 {
		t.Error(at, ok)
	}
}

// TestABistroTaskThatCannotBe is an error at its start.
func TestABistroTaskThatCannotBe(t *testing.T) {
	run := action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/x"}}}
	for name, c := range map[string]struct {
		job Job
		ok  bool
	}{
		"right": {Job{Workload: run, Config: "{}"}, true}, "no object": {Job{Workload: run, Config: "{"}, false},
		"no command": {Job{Config: "{}"}, false},
	} {
		c.job.Name, c.job.Call = "j", CallBistro
		if _, err := Expand(&c.job, &Start{Key: Key{"j", "a"}}, inv(1), Where{}, Status{}, nil); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ScriptNodes([]string{"host"}, LevelInstance, "instance", []byte("a\n\xff\n")); err == nil ||
		!strings.Contains(err.Error(), "line 2") {
		t.Error(err)
	}
}

// TestNothingRunsWithoutAnInvocation: a report without one is not recorded, and takes the place of no pick.
func TestNothingRunsWithoutAnInvocation(t *testing.T) {
	b := pairs(t)
	unknown := Key{"gone", "a"}
	b.Adopt(unknown, fence.Invocation{}, "c")
	if err := b.Refuse(unknown, ScopeNode, "no room"); !errors.Is(err, ErrNotPicked) || b.Live() != 0 {
		t.Errorf("%v, %d run", err, b.Live())
	}
	put(t, b, Job{Name: "j"})
	k := b.Pick(1)[0].Key
	b.Adopt(k, fence.Invocation{}, "c")
	if !b.Picked(k) || b.Live() != 0 {
		t.Errorf("picked %v, %d run", b.Picked(k), b.Live())
	}
}
