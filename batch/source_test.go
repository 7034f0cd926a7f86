package batch

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cantina/action"
	"cantina/resource"
)

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
	j := &Job{Name: "sum",
		Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/sum",
			Args: []string{"-f", "{}", "--out={/}.sum"}, Dir: "/x"}}}}
	s := &Start{Key: Key{"sum", "net/http/server.go"}, Path: []string{"h", "net/http", "net/http/server.go"},
		Cell: resource.Amounts{"cpu_milli": 100}}
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
	if got, want := strings.Join(env, " "),
		`CANTINA_JOB=sum CANTINA_NODE=net/http/server.go CANTINA_PATH=["h","net/http","net/http/server.go"] `+
			`CANTINA_FENCE=1.1.3 CANTINA_STATUS=/dev/fd/3`; got != want {
		t.Errorf("env %s", got)
	}
	if p := e.Payload(j, s.Key, inv(3)); p.Workload != &j.Workload || p.Program != e.Program || len(p.Env) != 5 ||
		p.Resources["cpu_milli"] != 100 {
		t.Errorf("payload: %+v", p)
	}
	for prev, want := range map[Status]string{{}: "1", {Attempts: 1}: "2", {Losses: 1}: "2",
		{Attempts: 2, Losses: 3}: "6"} {
		e, err := Expand(j, s, inv(4), Where{}, prev, nil)
		if got := e.Payload(j, s.Key, inv(4)).Labels["attempt"]; err != nil || got != want {
			t.Errorf("after %+v: attempt %q, want %s (%v)", prev, got, want, err)
		}
	}
	if j.Workload.Action.Run.Args[1] != "{}" {
		t.Error("the job's own workload changed")
	}
	run := action.Action{Run: &action.Run{Path: "{}"}}
	deep := &Job{Name: "d", Workload: action.Workload{
		Action: action.Action{Serial: []action.Action{{Timeout: &action.Timeout{Action: run}}}}}}
	if e, _ := Expand(deep, s, inv(3), Where{}, Status{}, nil); e.Workload == nil ||
		e.Workload.Action.Serial[0].Timeout.Action.Run.Path != "net/http/server.go" {
		t.Errorf("deep: %+v", e)
	}
	plain := &Job{Name: "p", Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "/bin/true"}}}}
	if e, _ := Expand(plain, s, inv(3), Where{}, Status{}, nil); e.Program != nil || e.Workload != nil {
		t.Error("nothing to replace")
	}
	bistro := &Job{Name: "b", Call: CallBistro, Config: `{"k":1}`, Workload: plain.Workload}
	s.Draws = []Draw{{"host", "h", resource.Amounts{"io": 2}}}
	e, err = Expand(bistro, s, inv(3), Where{"c", "h9"}, Status{Bits: Error | UsesBackoff, Time: 9000, Backoff: 4},
		[]byte(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `[net/http/server.go /dev/fd/3 {"id":"b","path_to_node":["h","net/http","net/http/server.go"],` +
		`"config":{"k":1},"resources_by_node":{"c":{"cpu_milli":100},"h":{"io":2}},"prev_status":{"result_bits":96,` +
		`"data":{"a":1},"time":9,"backoff_duration":4},"worker_node":"c","worker_host":"h9"}]`
	if got := fmt.Sprint(e.Program.Args); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestSources(t *testing.T) {
	levels := []string{"host", "db"}
	out, err := ScriptNodes(levels, "host", "h1", []byte("b\r\na\n\nb\nlast"))
	if name, twice := Repeated([]byte("b\r\na\n\n\nb\nlast")); !twice || name != "b" {
		t.Errorf("repeated %q, %v", name, twice)
	}
	if name, twice := Repeated([]byte("a\n\n\nb")); twice {
		t.Errorf("repeated %q", name)
	}
	if err != nil || fmt.Sprint(out) != "[{b db h1 false []} {a db h1 false []} {last db h1 false []}]" {
		t.Errorf("%v, %v", out, err)
	}
	if out, err := ManualNodes(levels, nil); err != nil || len(out) > 0 {
		t.Errorf("empty list: %v, %v", out, err)
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
			_, err := ManualNodes(levels, []ManualNode{{Name: "a", Children: []string{"b"}},
				{Name: "b", Children: []string{"a"}}})
			return err
		},
		"too deep": func() error {
			_, err := ManualNodes(levels, []ManualNode{{Name: "a", Children: []string{"b"}},
				{Name: "b", Children: []string{"c"}}, {Name: "c", Children: []string{"d"}}})
			return err
		},
		"child twice": func() error {
			_, err := ManualNodes(levels, []ManualNode{{Name: "a", Children: []string{"b", "b"}}})
			return err
		},
		"twice":          func() error { _, err := ManualNodes(levels, []ManualNode{{Name: "a"}, {Name: "a"}}); return err },
		"reserved level": func() error { return CheckForest(&ForestSpec{Levels: []string{LevelWorker}}) },
		"level twice":    func() error { return CheckForest(&ForestSpec{Levels: []string{"a", "a"}}) },
		"unknown limit":  func() error { return CheckForest(&ForestSpec{Limits: map[string]map[string]Limit{"a": {}}}) },
		"negative limit": func() error {
			return CheckForest(&ForestSpec{Limits: map[string]map[string]Limit{LevelInstance: {"x": {Limit: -1}}}})
		},
		"no script": func() error {
			return CheckForest(&ForestSpec{Levels: levels,
				Sources: []Source{{Kind: SourceScript}}})
		},
		"script too deep": func() error {
			return CheckForest(&ForestSpec{Levels: levels,
				Sources: []Source{{Kind: SourceScript, Script: []string{"x"}, ParentLevel: "db"}}})
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
	all, err := b.Nodes("a", NodeFilter{})
	if err != nil || len(all) != 4 || all[0].Node != "db11" || all[3].Class != ClassDone || all[2].Class != ClassRunning ||
		all[2].Invocation != inv(2) {
		t.Errorf("%+v, %v", all, err)
	}
	if page, _ := b.Nodes("a", NodeFilter{After: "db11", Limit: 1,
		Classes: []Class{ClassReady, ClassRunning}}); len(page) != 1 || page[0].Node != "db12" {
		t.Errorf("page %+v", page)
	}
	if below, _ := b.Nodes("a", NodeFilter{Below: "host2"}); len(below) != 2 || below[0].Node != "db21" {
		t.Errorf("below %+v", below)
	}
	if one, _ := b.Nodes("a", NodeFilter{Node: "db12", Below: "host1"}); len(one) != 1 ||
		strings.Join(b.Path(Key{"a", "db12"}), "/") != "instance/host1/db12" {
		t.Errorf("one %+v, %v", one, b.Path(Key{"a", "db12"}))
	}
	if _, err := b.Nodes("x", NodeFilter{}); !errors.Is(err, ErrUnknownJob) {
		t.Error(err)
	}
	if _, err := b.Status(Key{"a", "x"}); !errors.Is(err, ErrUnknownNode) {
		t.Error(err)
	}
	for k, want := range map[Key]error{{"a", "db12"}: nil, {"a", "host1"}: ErrUnknownNode, {"a", "nope"}: ErrUnknownNode,
		{"x", "db12"}: ErrUnknownJob} {
		if err := b.HasNode(k); !errors.Is(err, want) {
			t.Errorf("%v: %v, want %v", k, err, want)
		}
	}
	if _, err := b.Load(Key{"x", "y"}, Status{}, 0); !errors.Is(err, ErrUnknownJob) {
		t.Error(err)
	}
	for _, err := range []error{b.Started(Key{"a", "db12"}, inv(9), "c"), b.Unpick(Key{"a", "db12"}),
		b.Refuse(Key{"a", "db11"}, ScopeJob, "")} {
		if !errors.Is(err, ErrNotPicked) {
			t.Error(err)
		}
	}
	u, err := b.Reset("a", "db22")
	if err != nil || len(u) != 1 || u[0].Status.Bits != 0 || u[0].Status.Invocation != inv(1) {
		t.Errorf("%+v, %v", u, err)
	}
	apply(b, u)
	if _, ok := end(b, Key{"a", "db22"}, inv(1), Report{Bits: Done}, 0); ok {
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
