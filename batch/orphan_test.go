package batch

import (
	"testing"
	"time"
)

// orphanBoard has a job that runs on all four databases: the orphans of each change are looked at.
func orphanBoard(t *testing.T, o Orphans) *Board {
	b := twoHosts(t)
	b.Advance(1000)
	put(t, b, Job{Name: "j", Orphans: o})
	n := int64(0)
	start(t, b, b.Pick(9), &n)
	return b
}

// taken are the orphans to be ended at a time.
func taken(b *Board, at int64) (out string) {
	b.Advance(at)
	for _, o := range b.Orphans() {
		out += o.Key.Node + ": " + o.Reason + "; "
	}
	return out
}

// TestOrphans: the table of Bistro, with disabled ancestors (Bistro's scheduler looked only at the node itself).
func TestOrphans(t *testing.T) {
	all := func(reason string) string {
		return "db11: " + reason + "; db12: " + reason + "; db21: " + reason + "; db22: " + reason + "; "
	}
	nodes := func(specs ...NodeSpec) func(*testing.T, *Board) {
		return func(t *testing.T, b *Board) {
			if err := b.SetNodes(specs); err != nil {
				t.Fatal(err)
			}
		}
	}
	job := func(change func(j *Job)) func(*testing.T, *Board) {
		return func(_ *testing.T, b *Board) {
			j, _, _ := b.Job("j")
			change(&j)
			b.Put(j)
		}
	}
	host := func(name string, off bool) NodeSpec { return NodeSpec{Name: name, Level: "host", Disabled: off} }
	db := func(name, parent string, off bool) NodeSpec {
		return NodeSpec{Name: name, Level: "db", Parent: parent, Disabled: off}
	}
	for name, c := range map[string]struct {
		change func(*testing.T, *Board)
		want   string
	}{
		"nothing":     {func(*testing.T, *Board) {}, ""},
		"disabled":    {job(func(j *Job) { j.Disabled = true }), all("job is disabled")},
		"invalid":     {job(func(j *Job) { j.Errors = []string{"no owner"} }), all("job is invalid")},
		"bad level":   {job(func(j *Job) { j.Level = "nope" }), all("job is invalid")},
		"paused":      {job(func(j *Job) { j.Paused = true }), ""},
		"other level": {job(func(j *Job) { j.Level = "host" }), all("node is gone")},
		"filtered": {job(func(j *Job) {
			j.Filters = map[string]Filter{"db": {Blacklist: []string{"db11"}},
				"host": {Blacklist: []string{"host2"}}}
		}), ""},
		"removed nodes": {nodes(host("host1", false), db("db11", "host1", false), db("db12", "host1", false)),
			"db21: node is gone; db22: node is gone; "},
		"a removed level": {func(t *testing.T, b *Board) {
			spec := b.Spec()
			spec.Levels, spec.Limits = []string{"host"}, nil
			if err := b.Configure(spec); err != nil {
				t.Fatal(err)
			}
		}, all("node is gone")},
		"disabled node": {nodes(host("host1", false), db("db11", "host1", true), db("db12", "host1", false),
			host("host2", false), db("db21", "host2", false), db("db22", "host2", false)), "db11: node is disabled; "},
		"disabled ancestor": {nodes(host("host1", true), db("db11", "host1", false), db("db12", "host1", false),
			host("host2", false), db("db21", "host2", false), db("db22", "host2", false)),
			"db11: node is disabled; db12: node is disabled; "},
		"a disabled replica": {nodes(host("host1", true), host("host2", false), db("db11", "host1", false),
			db("db11", "host2", false), db("db12", "host2", false), db("db21", "host2", false),
			db("db22", "host2", false)), ""},
		"all replicas disabled": {nodes(host("host1", true), host("host2", false), db("db11", "host1", false),
			db("db11", "host2", true), db("db12", "host2", false), db("db21", "host2", false),
			db("db22", "host2", false)), "db11: node is disabled; "},
		"disabled settings": {func(t *testing.T, b *Board) {
			spec := b.Spec()
			spec.Disabled = true
			if err := b.Configure(spec); err != nil {
				t.Fatal(err)
			}
		}, ""},
		"removed job": {func(_ *testing.T, b *Board) { b.Delete("j") }, ""}, // its tombstone ends them
	} {
		b := orphanBoard(t, Orphans{Kill: true})
		c.change(t, b)
		if got := taken(b, 2000); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		if got := taken(b, 3000); got != "" {
			t.Errorf("%s: again %s", name, got)
		}
		if at, due := b.NextOrphan(); due {
			t.Errorf("%s: next at %d", name, at)
		}
		checkBoard(t, b)
		b = orphanBoard(t, Orphans{})
		c.change(t, b)
		if got := taken(b, 2000); got != "" {
			t.Errorf("%s, never: %s", name, got)
		}
	}
}

// TestDeadlinesOfOrphans: a deadline counts from the first look, stays when the delay changes, and goes when the task
// is no orphan any more.
func TestDeadlinesOfOrphans(t *testing.T) {
	b := orphanBoard(t, Orphans{Kill: true, After: 10 * time.Second})
	b.Delete("none")
	set := func(off bool, o Orphans) {
		j, _, _ := b.Job("j")
		j.Disabled, j.Orphans = off, o
		b.Put(j)
	}
	const all = "db11: job is disabled; db12: job is disabled; db21: job is disabled; db22: job is disabled; "
	for i, step := range []struct {
		at     int64
		off    bool
		o      Orphans
		want   string
		due    int64
		change bool
	}{
		{2000, true, Orphans{true, 10 * time.Second}, "", 12_000, true},
		{3000, true, Orphans{true, time.Second}, "", 12_000, true},
		{11_999, true, Orphans{true, time.Minute}, "", 12_000, true},
		{12_000, true, Orphans{true, time.Minute}, all, 0, false},
		{13_000, true, Orphans{true, 0}, "", 0, true}, // the intent is there
		{14_000, false, Orphans{true, 0}, "", 0, true},
		{15_000, true, Orphans{true, 2 * time.Second}, "", 17_000, true}, // an orphan again
		{16_000, false, Orphans{true, 2 * time.Second}, "", 0, true},
		{20_000, false, Orphans{true, 2 * time.Second}, "", 0, false},
		{21_000, true, Orphans{}, "", 0, true}, // never
		{22_000, true, Orphans{true, time.Second}, "", 23_000, true},
		{24_000, true, Orphans{true, time.Second}, all, 0, false},
	} {
		if step.change {
			set(step.off, step.o)
		}
		if got := taken(b, step.at); got != step.want {
			t.Errorf("step %d: got %s", i, got)
		}
		if at, ok := b.NextOrphan(); at != step.due || ok != (step.due != 0) {
			t.Errorf("step %d: next at %d %v", i, at, ok)
		}
	}
	// A task that began while its job was being disabled, and one that a report names, are seen.
	b = twoHosts(t)
	put(t, b, Job{Name: "j", Orphans: Orphans{Kill: true}})
	b.Advance(1)
	picks := b.Pick(1)
	set(true, Orphans{Kill: true})
	if got := taken(b, 2); got != "" {
		t.Error(got)
	}
	n := int64(0)
	start(t, b, picks, &n)
	b.Adopt(Key{"j", "db11"}, inv(7), "c")
	b.Adopt(Key{"j", "gone"}, inv(8), "c")
	if got := taken(b, 3); got != "db11: job is disabled; db22: job is disabled; gone: job is disabled; " {
		t.Error(got)
	}
}
