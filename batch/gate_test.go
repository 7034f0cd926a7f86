package batch

import (
	"strings"
	"testing"
)

func TestGates(t *testing.T) {
	one := func(p Progress) Before { return Before{Name: "a b", Exists: true, Listed: true, Progress: p} }
	done, failed := one(Progress{State: JobDone}), one(Progress{State: JobFailed, Failed: 2})
	running := one(Progress{State: JobRunning, Done: 1, Total: 3})
	for name, c := range map[string]struct {
		before []Before
		want   Gate
	}{
		"none":     {nil, Gate{}},
		"done":     {[]Before{done}, Gate{}},
		"no nodes": {[]Before{one(Progress{State: JobEmpty})}, Gate{}},
		"running":  {[]Before{done, running}, Gate{Shut: true, Text: "after job a b, which is done on 1 of 3 nodes"}},
		"waiting": {[]Before{one(Progress{State: JobWaiting, Total: 1})},
			Gate{Shut: true, Text: "after job a b, which is done on 0 of 1 node"}},
		"paused":   {[]Before{one(Progress{State: JobPaused})}, Gate{Shut: true, Text: "after job a b, which is paused"}},
		"disabled": {[]Before{one(Progress{State: JobDisabled})}, Gate{Shut: true, Text: "after job a b, which is disabled"}},
		"unlisted": {[]Before{{Name: "a b", Exists: true, Progress: Progress{State: JobEmpty}}},
			Gate{Shut: true, Text: "after job a b, whose nodes are being listed"}},
		"failed beats running": {[]Before{running, failed},
			Gate{Never: true, Text: "after job a b, which failed on 2 nodes", Change: "cantina job retry 'a b'"}},
		"through another": {[]Before{one(Progress{State: JobFailed, Stranded: 1,
			Reason: "comes after job x, which failed on 1 node"})},
			Gate{Never: true, Text: "after job a b, which comes after job x, which failed on 1 node"}},
		"invalid": {[]Before{one(Progress{State: JobInvalid, Reason: "no owner"})},
			Gate{Never: true, Text: "after job a b, which is invalid: no owner", Change: "correct job 'a b'"}},
		"gone": {[]Before{{Name: "a b"}}, Gate{Never: true, Text: "after job a b, which does not exist",
			Change: "apply job 'a b' again, or remove it from after"}},
		"circle": {[]Before{{Name: "a b", Exists: true, Circle: true}}, Gate{Never: true, Text: "after job a b, " +
			"which comes after this one: the jobs wait for each other in a circle", Change: "remove 'a b' from after"}},
	} {
		if got := GateOf(c.before); got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", name, got, c.want)
		}
	}
}

// TestAShutGateHoldsAllNodes: a job with after starts nothing before the gate is known and open; running tasks go
// on when it shuts, and jobs that depend on it are stranded when it never opens.
func TestAShutGateHoldsAllNodes(t *testing.T) {
	b := twoHosts(t)
	n := int64(0)
	put(t, b, Job{Name: "j", After: []string{"x"}})
	put(t, b, Job{Name: "k", DependsOn: []string{"j"}})
	if got := keys(b.Pick(9)); got != "" {
		t.Fatal(got)
	}
	b.SetGate("j", Gate{})
	s := b.Pick(1)
	start(t, b, s, &n)
	shut := Gate{Shut: true, Text: "after job x, which is paused"}
	b.SetGate("j", shut)
	checkBoard(t, b)
	if p, _ := b.Progress("j"); p.Running != 1 || p.Blocked != 3 || p.Total != 4 {
		t.Errorf("%+v", p)
	}
	if got := keys(b.Pick(9)); got != "" {
		t.Error(got)
	}
	finish(t, b, s[0].Key, Report{Bits: Done})
	k := b.Pick(9)
	if got := keys(k); got != "k:"+s[0].Key.Node {
		t.Fatal(got)
	}
	start(t, b, k, &n)
	finish(t, b, k[0].Key, Report{Bits: Done})
	if p, _ := b.Progress("j"); p.State != JobWaiting || p.Reason != "comes after job x, which is paused" {
		t.Errorf("%+v", p)
	}
	why, err := b.Explain(Key{"j", "db11"}, "", 0)
	if err != nil || lines(why) != "the job comes after job x, which is paused" {
		t.Errorf("%s, %v", lines(why), err)
	}
	b.SetGate("j", Gate{Never: true, Text: "after job x, which failed on 1 node", Change: "cantina job retry x"})
	checkBoard(t, b)
	if p, _ := b.Progress("j"); p.State != JobFailed || p.Stranded != 3 {
		t.Errorf("%+v", p)
	}
	if p, _ := b.Progress("k"); p.Stranded != 3 || !strings.Contains(p.Reason,
		"depends on job j, which comes after job x, which failed on 1 node") {
		t.Errorf("%+v", p)
	}
	why, err = b.Explain(Key{"k", "db11"}, "", 0)
	if err != nil || !strings.HasSuffix(lines(why),
		"which comes after job x, which failed on 1 node; cantina job retry x") {
		t.Errorf("%s, %v", lines(why), err)
	}
	put(t, b, Job{Name: "j", After: []string{"y"}}) // not known again
	if p, _ := b.Progress("j"); p.Blocked != 3 {
		t.Errorf("%+v", p)
	}
	put(t, b, Job{Name: "j"})
	if got := keys(b.Pick(1)); got == "" {
		t.Error("no gate any more, and nothing starts")
	}
	checkBoard(t, b)
	if p := b.Put(Job{Name: "self", UID: "u", After: []string{"self"}}); len(p) != 1 {
		t.Errorf("%q", p)
	}
}
