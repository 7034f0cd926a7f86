package batch

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cantina/action"
	"cantina/resource"

	"pgregory.net/rapid"
)

func newBoard(t tb, spec ForestSpec, nodes ...NodeSpec) *Board {
	t.Helper()
	b, err := NewBoard(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.SetNodes(nodes); err != nil {
		t.Fatal(err)
	}
	return b
}

// twoHosts is Bistro's reference: host1{db11,db12}, host2{db21,db22}, two at a time
// per host, one per db.
func twoHosts(t tb) *Board {
	spec := ForestSpec{Name: "f", Levels: []string{"host", "db"}, Order: OrderOriginal, Backwards: true, Limits: map[string]map[string]Limit{
		"host": {"slots": {Default: 1, Limit: 2}}, "db": {"slots": {Default: 1, Limit: 1}},
	}}
	nodes, err := ManualNodes(spec.Levels, []ManualNode{{Name: "host1", Children: []string{"db11", "db12"}}, {Name: "host2", Children: []string{"db21", "db22"}}})
	if err != nil {
		t.Fatal(err)
	}
	return newBoard(t, spec, nodes...)
}

func put(t tb, b *Board, j Job) {
	t.Helper()
	if j.UID == "" {
		j.UID = "u-" + j.Name
	}
	if p := b.Put(j); len(p) > 0 {
		t.Fatalf("job %s: %v", j.Name, p)
	}
}

func keys(starts []Start) string {
	var out []string
	for _, s := range starts {
		out = append(out, s.Key.Job+":"+s.Key.Node)
	}
	return strings.Join(out, " ")
}

func start(t tb, b *Board, starts []Start, counter *int64) {
	t.Helper()
	for _, s := range starts {
		*counter++
		if err := b.Started(s.Key, inv(*counter), "c"); err != nil {
			t.Fatal(err)
		}
	}
}

func finish(t tb, b *Board, k Key, r Report) Update {
	t.Helper()
	i, _, ok := b.Running(k)
	if !ok {
		t.Fatalf("%v does not run", k)
	}
	u, ok := b.Finish(k, i, r, 0)
	if !ok {
		t.Fatalf("%v: nothing to store", k)
	}
	return u
}

func TestRoundRobinReferenceVector(t *testing.T) {
	b := twoHosts(t)
	put(t, b, Job{Name: "job1"})
	put(t, b, Job{Name: "job2"})
	if got, want := keys(b.Pick(100)), "job1:db22 job2:db21 job1:db12 job2:db11"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDependencies(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "job1", DependsOn: []string{"job2"}})
	if got := keys(b.Pick(9)); got != "" {
		t.Fatalf("depends on a job that does not exist, yet %s", got)
	}
	put(t, b, Job{Name: "job2"})
	s := b.Pick(9)
	if got := keys(s); got != "job2:db22 job2:db21 job2:db12 job2:db11" {
		t.Fatal(got)
	}
	start(t, b, s, &n)
	finish(t, b, Key{"job2", "db11"}, Report{Bits: Done})
	finish(t, b, Key{"job2", "db21"}, Report{Bits: Failed})
	if got := keys(b.Pick(9)); got != "job1:db11" {
		t.Errorf("got %s", got)
	}
	if w, err := b.Explain(Key{"job1", "db21"}); err != nil || len(w) != 1 || !strings.Contains(w[0].Text, `depends on job "job2", which is not done`) {
		t.Errorf("explain: %v, %v", w, err)
	}
}

func TestFreedSlotIsRefilledFromItsOwnNode(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "a", Resources: map[string]resource.Amounts{"host": {"slots": 2}}})
	s := b.Pick(9)
	start(t, b, s, &n)
	if got := keys(s); got != "a:db22 a:db12" {
		t.Fatal(got)
	}
	why, err := b.Explain(Key{"a", "db21"})
	if err != nil || len(why) != 1 || why[0].String() != "host host2: slots 2 needed, 0 free, held by a/db22; it starts when one of them ends" {
		t.Errorf("explain: %v, %v", why, err)
	}
	finish(t, b, Key{"a", "db22"}, Report{Bits: Done})
	if got := keys(b.Pick(9)); got != "a:db21" {
		t.Errorf("refilled with %s", got)
	}
}

func TestBackoffAndForgive(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "a", Retries: -1, Backoff: Backoff{Seconds: []int{7}, Fail: true}, Filters: map[string]Filter{"db": {Whitelist: []string{"db11"}}}})
	b.Advance(1000)
	start(t, b, b.Pick(9), &n)
	finish(t, b, Key{"a", "db11"}, errorBackoff)
	if at, ok := b.NextDue(); !ok || at != 8000 || len(b.Pick(9)) != 0 {
		t.Fatalf("due at %d, %v", at, ok)
	}
	b.Advance(7999)
	if len(b.Pick(9)) != 0 {
		t.Fatal("too early")
	}
	b.Advance(8000)
	start(t, b, b.Pick(9), &n)
	finish(t, b, Key{"a", "db11"}, errorBackoff)
	if p, _ := b.Progress("a"); p.State != JobFailed || p.Failed != 1 || p.Avoided != 3 || p.Total != 1 {
		t.Fatalf("%+v", p)
	}
	u, err := b.Forgive("a")
	if err != nil || len(u) != 1 || u[0].Status.Bits&Error == 0 {
		t.Fatalf("%+v, %v", u, err)
	}
	if got := keys(b.Pick(9)); got != "a:db11" {
		t.Errorf("forgiven runs again: %s", got)
	}
}

func TestReplayAndForeignEnds(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	k := Key{"a", "db11"}
	put(t, b, Job{Name: "a", Retries: 5, Backoff: Backoff{Seconds: []int{1}, Repeat: true}, Filters: map[string]Filter{"db": {Whitelist: []string{"db11"}}}})
	start(t, b, b.Pick(9), &n)
	finish(t, b, k, errorBackoff)
	if _, ok := b.Finish(k, inv(1), errorBackoff, 0); ok {
		t.Error("a replay is applied")
	}
	b.Advance(5000)
	start(t, b, b.Pick(9), &n)
	if _, ok := b.Finish(k, inv(1), Report{Bits: Done}, 0); ok {
		t.Error("an old invocation ends a new one")
	}
	if s, err := b.Status(k); err != nil || s.Attempts != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	finish(t, b, k, LostReport("cell gone"))
	if u, ok := b.Finish(k, inv(2), Report{Bits: Done}, 0); !ok || u.Status.Bits != Done {
		t.Errorf("the late real end replaces the synthetic one: %+v, %v", u, ok)
	}
}

func TestRecreatedJob(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "a"})
	start(t, b, b.Pick(1), &n)
	put(t, b, Job{Name: "a", UID: "second", Born: inv(n)})
	if got := keys(b.Pick(9)); strings.Contains(got, "db22") {
		t.Errorf("the node of the old job's task starts again: %s", got)
	}
	if u, ok := b.Finish(Key{"a", "db22"}, inv(1), Report{Bits: Done}, 0); ok {
		t.Errorf("the old job's result counts for the new one: %+v", u)
	}
	if got := keys(b.Pick(9)); got != "a:db22" {
		t.Errorf("then it runs: %s", got)
	}
	// The same after a change of leader: the report names no uid.
	c := twoHosts(t)
	put(t, c, Job{Name: "a", UID: "second", Born: inv(5)})
	c.Adopt(Key{"a", "db11"}, inv(4), "c")
	if u, ok := c.Finish(Key{"a", "db11"}, inv(4), Report{Bits: Done}, 0); ok {
		t.Errorf("an older invocation counts: %+v", u)
	}
	c.Adopt(Key{"a", "db11"}, inv(6), "c")
	if _, ok := c.Finish(Key{"a", "db11"}, inv(6), Report{Bits: Done}, 0); !ok {
		t.Error("its own invocation does not count")
	}
}

func TestAdoptedWorkDraws(t *testing.T) {
	b := twoHosts(t)
	b.Adopt(Key{"a", "db11"}, inv(1), "c1") // its row comes later
	put(t, b, Job{Name: "a"})
	put(t, b, Job{Name: "b"})
	if got := keys(b.Pick(9)); strings.Contains(got, "a:db11") {
		t.Errorf("runs, and is started again: %s", got)
	}
	c := twoHosts(t)
	put(t, c, Job{Name: "a"})
	c.Adopt(Key{"a", "db11"}, inv(1), "c1")
	put(t, c, Job{Name: "b"})
	if got := keys(c.Pick(9)); strings.Contains(got, "db11") {
		t.Errorf("its database has room for one: %s", got)
	}
}

func TestOneBadThingHarmsNothing(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "good"})
	for name, j := range map[string]Job{
		"regex":    {Filters: map[string]Filter{"db": {WhitelistRegex: "("}}},
		"level":    {Level: "moon"},
		"filter":   {Filters: map[string]Filter{"moon": {}}},
		"resource": {Resources: map[string]resource.Amounts{"db": {"moon": 1}}},
		"negative": {Resources: map[string]resource.Amounts{"db": {"slots": -1}}},
		"self":     {DependsOn: []string{"self"}},
		"backoff":  {Backoff: Backoff{Seconds: []int{2, 1}}},
		"errors":   {Errors: []string{"no owner"}},
	} {
		j.Name, j.UID = name, "u"
		if p := b.Put(j); len(p) == 0 {
			t.Errorf("%s: no problem", name)
		}
		if p, _ := b.Progress(name); p.State != JobInvalid || p.Reason == "" {
			t.Errorf("%s: %+v", name, p)
		}
	}
	s := b.Pick(100)
	if got := keys(s); got != "good:db22 good:db21 good:db12 good:db11" {
		t.Errorf("got %s", got)
	}
	start(t, b, s, &n)
	if err := b.SetNodes([]NodeSpec{{Name: "x", Level: "db", Parent: "nobody"}}); err == nil {
		t.Fatal("a node without parent is taken")
	}
	if p, _ := b.Progress("good"); p.Running != 4 || p.Total != 4 {
		t.Errorf("bad nodes changed something: %+v", p)
	}
}

func TestNodesThatLeaveAndReturn(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "a"})
	start(t, b, b.Pick(9), &n)
	finish(t, b, Key{"a", "db11"}, Report{Bits: Done})
	all := b.nodes
	if err := b.SetNodes(nil); err != nil {
		t.Fatal(err)
	}
	if p, _ := b.Progress("a"); p.Total != 3 || p.Running != 3 {
		t.Errorf("what runs is counted: %+v", p)
	}
	finish(t, b, Key{"a", "db12"}, Report{Bits: Done})
	if err := b.SetNodes(all); err != nil {
		t.Fatal(err)
	}
	if p, _ := b.Progress("a"); p.Done != 2 || p.Running != 2 {
		t.Errorf("statuses are kept by name: %+v", p)
	}
	checkBoard(t, b)
}

func TestConfigureKeepsStatusesAndDraws(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "a"})
	start(t, b, b.Pick(2), &n)
	finish(t, b, Key{"a", "db22"}, Report{Bits: Done})
	spec := b.Spec()
	spec.Levels = []string{"host", "db", "table"}
	spec.Limits = map[string]map[string]Limit{"host": {"slots": {Default: 1, Limit: 1}, "io": {Default: 0, Limit: 5}}}
	put(t, b, Job{Name: "a", Level: "db"})
	if err := b.Configure(spec); err != nil {
		t.Fatal(err)
	}
	if p, _ := b.Progress("a"); p.Done != 1 || p.Running != 1 || p.Ready != 2 {
		t.Errorf("%+v", p)
	}
	if got := keys(b.Pick(9)); got != "a:db12" {
		t.Errorf("host2 is held by what runs there, host1 takes one now: %s", got)
	}
	checkBoard(t, b)
}

func TestReplicas(t *testing.T) {
	spec := ForestSpec{Name: "f", Levels: []string{"host", "db"}, Order: OrderOriginal, Limits: map[string]map[string]Limit{
		"host": {"slots": {Default: 1, Limit: 1}}, "db": {"slots": {Default: 1, Limit: 1}},
	}}
	nodes, err := ManualNodes(spec.Levels, []ManualNode{{Name: "h1", Children: []string{"db"}}, {Name: "h2", Children: []string{"db", "other"}}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBoard(t, spec, nodes...)
	n := int64(0)
	put(t, b, Job{Name: "a"})
	put(t, b, Job{Name: "b"})
	s := b.Pick(9)
	if got := keys(s); got != "a:db b:other" {
		t.Fatalf("one slot for both replicas: %s", got)
	}
	start(t, b, s, &n)
	finish(t, b, Key{"a", "db"}, Report{Bits: Done})
	if got := keys(b.Pick(9)); got != "b:db" {
		t.Errorf("the free replica: %s", got)
	}
	if p, _ := b.Progress("a"); p.Total != 2 {
		t.Errorf("a replica counts once: %+v", p)
	}
	checkBoard(t, b)
}

func TestRefusals(t *testing.T) {
	b := twoHosts(t)
	put(t, b, Job{Name: "pinned", HostLevel: "host"})
	put(t, b, Job{Name: "free"})
	s := b.Pick(1)
	if s[0].Key.Job != "free" {
		t.Fatal(keys(s))
	}
	if err := b.Refuse(s[0].Key, ScopeJob, "no cell has room"); err != nil {
		t.Fatal(err)
	}
	s = b.Pick(1)
	if keys(s) != "pinned:db22" || s[0].Host != "host2" {
		t.Fatalf("%s on %s", keys(s), s[0].Host)
	}
	if err := b.Refuse(s[0].Key, ScopeHost, "no cell on host2"); err != nil {
		t.Fatal(err)
	}
	if got := keys(b.Pick(9)); got != "pinned:db12 pinned:db11" {
		t.Errorf("a dead host stops only what is pinned to it: %s", got)
	}
	if w, _ := b.Explain(Key{"pinned", "db21"}); len(w) != 1 || w[0].Text != "no cell on host2" {
		t.Errorf("explain: %v", w)
	}
	if !b.Blocked() {
		t.Error("nothing is blocked")
	}
	b.Unblock()
	if got := keys(b.Pick(9)); got != "free:db22 pinned:db21" {
		t.Errorf("after a change: %s", got)
	}
	checkBoard(t, b)
}

func TestFilters(t *testing.T) {
	for _, c := range []struct {
		name string
		f    Filter
		want bool
	}{
		{"none", Filter{}, true},
		{"whitelist", Filter{Whitelist: []string{"db1"}}, true},
		{"not on the whitelist", Filter{Whitelist: []string{"x"}}, false},
		{"blacklist", Filter{Blacklist: []string{"db1"}}, false},
		{"regex is searched", Filter{WhitelistRegex: "b1"}, true},
		{"regex", Filter{WhitelistRegex: "^b"}, false},
		{"black regex", Filter{BlacklistRegex: "1$"}, false},
		{"one tag is enough", Filter{TagWhitelist: []string{"ssd", "x"}}, true},
		{"no tag", Filter{TagWhitelist: []string{"x"}}, false},
		{"fraction 0 is all", Filter{Fraction: 0}, true},
		{"fraction 1 is all", Filter{Fraction: 1}, true},
	} {
		m, err := c.f.compile("job")
		if err != nil || m.pass("db1", []string{"ssd"}) != c.want {
			t.Errorf("%s: %v, %v", c.name, !c.want, err)
		}
	}
	small, _ := Filter{Fraction: 0.2}.compile("job")
	large, _ := Filter{Fraction: 0.5}.compile("job")
	other, _ := Filter{Fraction: 0.2}.compile("other")
	in, both := 0, 0
	for i := range 10_000 {
		n := fmt.Sprint("node", i)
		if small.pass(n, nil) {
			in++
			if !large.pass(n, nil) {
				t.Fatalf("%s is in 0.2 and not in 0.5", n)
			}
			if other.pass(n, nil) {
				both++
			}
		}
	}
	if in < 1800 || in > 2200 || both < 300 || both > 500 {
		t.Errorf("%d of 10,000 at 0.2, %d of them also for another job", in, both)
	}
	if h := fractionHash("node", "job"); h != 0x32812e06944c6419 {
		t.Errorf("the hash is specified and must not change: %#x", h)
	}
}

func TestExpand(t *testing.T) {
	j := &Job{Name: "sum", Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/sum", Args: []string{"-f", "{}", "--out={/}.sum"}, Dir: "/x"}}}}
	s := &Start{Key: Key{"sum", "net/http/server.go"}, Path: []string{"h", "net/http", "net/http/server.go"}, Cell: resource.Amounts{"cpu_milli": 100}}
	e, err := Expand(j, s, inv(3), Where{"c", "h"}, Status{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(e.Program.Args); got != "[-f net/http/server.go --out=server.go.sum]" || e.Workload != nil {
		t.Errorf("args %s", got)
	}
	var env []string
	for _, v := range e.Env {
		env = append(env, v.Name+"="+v.Value)
	}
	if got, want := strings.Join(env, " "), `CANTINA_JOB=sum CANTINA_NODE=net/http/server.go CANTINA_PATH=["h","net/http","net/http/server.go"] CANTINA_FENCE=1.1.3 CANTINA_STATUS=/dev/fd/3`; got != want {
		t.Errorf("env %s", got)
	}
	if w := e.Whole(j); w.Action.Run.Args[1] != "net/http/server.go" || len(w.Env) != 5 || w.Resources["cpu_milli"] != 100 {
		t.Errorf("whole: %+v", w)
	}
	if j.Workload.Action.Run.Args[1] != "{}" {
		t.Error("the job's own workload changed")
	}
	deep := &Job{Name: "d", Workload: action.Workload{Action: action.Action{Serial: []action.Action{{Timeout: &action.Timeout{Action: action.Action{Run: &action.Run{Path: "{}"}}}}}}}}
	if e, _ := Expand(deep, s, inv(3), Where{}, Status{}, nil); e.Workload == nil || e.Workload.Action.Serial[0].Timeout.Action.Run.Path != "net/http/server.go" {
		t.Errorf("deep: %+v", e)
	}
	plain := &Job{Name: "p", Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/true"}}}}
	if e, _ := Expand(plain, s, inv(3), Where{}, Status{}, nil); e.Program != nil || e.Workload != nil {
		t.Error("nothing to replace")
	}
	bistro := &Job{Name: "b", Call: CallBistro, Config: `{"k":1}`, Workload: plain.Workload}
	s.Draws = []Draw{{"host", "h", resource.Amounts{"io": 2}}}
	e, err = Expand(bistro, s, inv(3), Where{"c", "h9"}, Status{Bits: Error | UsesBackoff, Time: 9000, Backoff: 4}, []byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `[net/http/server.go /dev/fd/3 {"id":"b","path_to_node":["h","net/http","net/http/server.go"],"config":{"k":1},"resources_by_node":{"c":{"cpu_milli":100},"h":{"io":2}},"prev_status":{"result_bits":96,"data":{"a":1},"time":9,"backoff_duration":4},"worker_node":"c","worker_host":"h9"}]`
	if got := fmt.Sprint(e.Program.Args); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestDecisionsEqualBruteForce drives a board and compares every pass with a plain
// scan over jobs × nodes.
func TestDecisionsEqualBruteForce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := ForestSpec{Name: "f", Levels: []string{"host", "db"}, Order: rapid.SampledFrom([]Order{OrderRandom, OrderOriginal, OrderLexicographic}).Draw(rt, "order")}
		spec.Limits = map[string]map[string]Limit{
			LevelInstance: {"all": {Default: 1, Limit: rapid.IntRange(1, 9).Draw(rt, "root")}},
			"host":        {"slots": {Default: 1, Limit: rapid.IntRange(1, 3).Draw(rt, "host")}},
			"db":          {"a": {Default: 1, Limit: rapid.IntRange(1, 2).Draw(rt, "db")}, "b": {Default: 0, Limit: 1}},
		}
		b := newBoard(rt, spec)
		drawNodes := func(rt *rapid.T) []NodeSpec {
			var out []NodeSpec
			for h := range rapid.IntRange(1, 3).Draw(rt, "hosts") {
				host := fmt.Sprint("h", h)
				out = append(out, NodeSpec{Name: host, Level: "host", Disabled: rapid.IntRange(0, 9).Draw(rt, "off") == 0})
				for range rapid.IntRange(0, 9).Draw(rt, "dbs") {
					out = append(out, NodeSpec{Name: fmt.Sprint("d", rapid.IntRange(0, 15).Draw(rt, "name")), Level: "db", Parent: host, Disabled: rapid.IntRange(0, 9).Draw(rt, "off") == 0})
				}
			}
			return out
		}
		names := []string{"j1", "j2", "j3"}
		n := int64(0)
		rt.Repeat(map[string]func(*rapid.T){
			"nodes": func(rt *rapid.T) {
				if err := b.SetNodes(drawNodes(rt)); err != nil {
					rt.Fatal(err)
				}
			},
			"job": func(rt *rapid.T) {
				j := Job{Name: rapid.SampledFrom(names).Draw(rt, "job"), UID: "u", Retries: -1, Backoff: Backoff{Seconds: []int{1, 3}, Repeat: true},
					Disabled: rapid.IntRange(0, 5).Draw(rt, "disabled") == 0, Level: rapid.SampledFrom([]string{"", "host", "db"}).Draw(rt, "level"), HostLevel: rapid.SampledFrom([]string{"", "host"}).Draw(rt, "pin")}
				j.Resources = map[string]resource.Amounts{"host": {"slots": rapid.IntRange(0, 2).Draw(rt, "slots")}, "db": {"b": rapid.IntRange(0, 1).Draw(rt, "b")}}
				switch rapid.IntRange(0, 3).Draw(rt, "kind") {
				case 0:
					j.DependsOn = []string{rapid.SampledFrom(names).Draw(rt, "dep")}
					if j.DependsOn[0] == j.Name {
						j.DependsOn = nil
					}
				case 1:
					j.Filters = map[string]Filter{"db": {Blacklist: []string{"d1", "d2"}}}
				}
				put(rt, b, j)
			},
			"delete": func(rt *rapid.T) { b.Delete(rapid.SampledFrom(names).Draw(rt, "job")) },
			"finish": func(rt *rapid.T) {
				if runs := b.Runs(""); len(runs) > 0 {
					r := rapid.SampledFrom(runs).Draw(rt, "run")
					b.Finish(r.Key, r.Invocation, rapid.SampledFrom([]Report{{Bits: Done}, errorBackoff, incomplete, {Bits: Failed}, NeverStarted("x"), LostReport("x")}).Draw(rt, "report"), 0)
				}
			},
			"adopt": func(rt *rapid.T) {
				n++
				b.Adopt(Key{rapid.SampledFrom(names).Draw(rt, "job"), fmt.Sprint("d", rapid.IntRange(0, 7).Draw(rt, "name"))}, inv(n), "c")
			},
			"unblock": func(rt *rapid.T) { b.Unblock() },
			"time":    func(rt *rapid.T) { b.Advance(b.now + int64(rapid.IntRange(0, 2000).Draw(rt, "ms"))) },
			"forgive": func(rt *rapid.T) {
				name := rapid.SampledFrom(names).Draw(rt, "job")
				if b.jobs[name] != nil {
					if _, err := b.Forgive(name); err != nil {
						rt.Fatal(err)
					}
				}
			},
			"reset": func(rt *rapid.T) {
				name := rapid.SampledFrom(names).Draw(rt, "job")
				if b.jobs[name] != nil {
					if _, err := b.Reset(name); err != nil {
						rt.Fatal(err)
					}
				}
			},
			"configure": func(rt *rapid.T) {
				s := b.Spec()
				s.Limits["host"] = map[string]Limit{"slots": {Default: 1, Limit: rapid.IntRange(1, 3).Draw(rt, "host")}}
				if err := b.Configure(s); err != nil {
					rt.Fatal(err)
				}
			},
			"pick": func(rt *rapid.T) {
				most := rapid.IntRange(1, 6).Draw(rt, "most")
				want := bruteForce(b, most)
				s := b.Pick(most)
				if got := keys(s); got != want {
					rt.Fatalf("got  %q\nwant %q", got, want)
				}
				for _, x := range s {
					switch rapid.IntRange(0, 9).Draw(rt, "answer") {
					case 0:
						if err := b.Unpick(x.Key); err != nil {
							rt.Fatal(err)
						}
						continue
					case 1:
						if err := b.Refuse(x.Key, rapid.SampledFrom([]Scope{ScopeJob, ScopeHost, ScopeNode}).Draw(rt, "scope"), "no"); err != nil {
							rt.Fatal(err)
						}
						continue
					}
					n++
					if err := b.Started(x.Key, inv(n), "c"); err != nil {
						rt.Fatal(err)
					}
				}
			},
			"": func(rt *rapid.T) { checkBoard(rt, b) },
		})
	})
}

// tb is what helpers need of a test, be it a testing.T or a rapid.T.
type tb interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func TestSources(t *testing.T) {
	levels := []string{"host", "db"}
	out, err := ScriptNodes(levels, "host", "h1", []byte("b\r\na\n\nb\nlast"))
	if err != nil || fmt.Sprint(out) != "[{b db h1 false []} {a db h1 false []} {last db h1 false []}]" {
		t.Errorf("%v, %v", out, err)
	}
	for name, f := range map[string]func() error{
		"binary": func() error { _, err := ScriptNodes(levels, "host", "h", []byte("ok\n\xff\xfe\n")); return err },
		"NUL":    func() error { _, err := ScriptNodes(levels, "host", "h", []byte("a\x00b\n")); return err },
		"too long": func() error {
			_, err := ScriptNodes(levels, "host", "h", []byte(strings.Repeat("x", MaxName+1)))
			return err
		},
		"below the last": func() error { _, err := ScriptNodes(levels, "db", "h", nil); return err },
		"unknown level":  func() error { _, err := ScriptNodes(levels, "moon", "h", nil); return err },
		"cycle": func() error {
			_, err := ManualNodes(levels, []ManualNode{{Name: "a", Children: []string{"b"}}, {Name: "b", Children: []string{"a"}}})
			return err
		},
		"empty": func() error { _, err := ManualNodes(levels, nil); return err },
		"too deep": func() error {
			_, err := ManualNodes(levels, []ManualNode{{Name: "a", Children: []string{"b"}}, {Name: "b", Children: []string{"c"}}, {Name: "c", Children: []string{"d"}}})
			return err
		},
		"twice":          func() error { _, err := ManualNodes(levels, []ManualNode{{Name: "a"}, {Name: "a"}}); return err },
		"reserved level": func() error { return CheckForest(&ForestSpec{Levels: []string{LevelWorker}}) },
		"level twice":    func() error { return CheckForest(&ForestSpec{Levels: []string{"a", "a"}}) },
		"unknown limit":  func() error { return CheckForest(&ForestSpec{Limits: map[string]map[string]Limit{"a": {}}}) },
		"negative limit": func() error {
			return CheckForest(&ForestSpec{Limits: map[string]map[string]Limit{LevelInstance: {"x": {Limit: -1}}}})
		},
		"no script": func() error { return CheckForest(&ForestSpec{Levels: levels, Sources: []Source{{Kind: SourceScript}}}) },
		"script too deep": func() error {
			return CheckForest(&ForestSpec{Levels: levels, Sources: []Source{{Kind: SourceScript, Script: []string{"x"}, ParentLevel: "db"}}})
		},
	} {
		if err := f(); !errors.Is(err, ErrNodes) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestListsAndLookups(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "a"})
	start(t, b, b.Pick(2), &n)
	finish(t, b, Key{"a", "db22"}, Report{Bits: Done, ExitCode: 0})
	all, err := b.Nodes("a", "", 0)
	if err != nil || len(all) != 4 || all[0].Node != "db11" || all[3].Class != ClassDone || all[1].Class != ClassRunning || all[1].Invocation != inv(2) {
		t.Errorf("%+v, %v", all, err)
	}
	if page, _ := b.Nodes("a", "db11", 1, ClassReady, ClassRunning); len(page) != 1 || page[0].Node != "db12" {
		t.Errorf("page %+v", page)
	}
	if _, err := b.Nodes("x", "", 0); !errors.Is(err, ErrUnknownJob) {
		t.Error(err)
	}
	if _, err := b.Status(Key{"a", "x"}); !errors.Is(err, ErrUnknownNode) {
		t.Error(err)
	}
	if err := b.Load(Key{"x", "y"}, Status{}); !errors.Is(err, ErrUnknownJob) {
		t.Error(err)
	}
	for _, err := range []error{b.Started(Key{"a", "db12"}, inv(9), "c"), b.Unpick(Key{"a", "db12"}), b.Refuse(Key{"a", "db11"}, ScopeJob, "")} {
		if !errors.Is(err, ErrNotPicked) {
			t.Error(err)
		}
	}
	u, err := b.Reset("a", "db22")
	if err != nil || len(u) != 1 || u[0].Status.Bits != 0 || u[0].Status.Invocation != inv(1) {
		t.Errorf("%+v, %v", u, err)
	}
	if _, ok := b.Finish(Key{"a", "db22"}, inv(1), Report{Bits: Done}, 0); ok {
		t.Error("a late replay counts after a reset")
	}
	if p, _ := b.Progress("a"); p.State != JobRunning || p.Ready != 3 {
		t.Errorf("%+v", p)
	}
	b.Delete("a")
	if runs := b.Runs(""); len(runs) != 1 || !runs[0].Orphan {
		t.Errorf("what runs of a deleted job is accounted for: %+v", runs)
	}
}
