package batch

import (
	"fmt"
	"testing"
	"time"
)

// TestPassingLevels: only a level whose nodes come from calendars alone can be forgotten.
func TestPassingLevels(t *testing.T) {
	levels := []string{"host", "time", "part"}
	times := Source{Kind: SourceTime, ParentLevel: "host"}
	for name, c := range map[string]struct {
		sources []Source
		want    string
	}{
		"none":            {nil, ""},
		"a calendar":      {[]Source{{Kind: SourceManual, Manual: []ManualNode{{Name: "h"}}}, times}, "time "},
		"parts of a time": {[]Source{times, {Kind: SourceScript, ParentLevel: "time"}}, "time "},
		"a script beside": {[]Source{times, {Kind: SourceScript, ParentLevel: "host"}}, ""},
		"a list that reaches": {[]Source{{Kind: SourceManual, Manual: []ManualNode{{Name: "h",
			Children: []string{"x"}}}}, times}, ""},
		"a file":                {[]Source{{Kind: SourceFile}, times}, ""},
		"a calendar at the top": {[]Source{{Kind: SourceTime}}, "host "},
		"and a list there":      {[]Source{{Kind: SourceTime}, {Kind: SourceManual, Manual: []ManualNode{{Name: "h"}}}}, ""},
	} {
		spec, got := ForestSpec{Levels: levels, Sources: c.sources}, ""
		for _, l := range levels {
			if spec.passing(l) {
				got += l + " "
			}
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestExpiredNamesAreForgotten: statuses of nodes that are gone and old are forgotten, and their names with them; nodes
// that are there, run, or have a newer status keep theirs.
func TestExpiredNamesAreForgotten(t *testing.T) {
	spec := ForestSpec{Name: "f", Levels: []string{"time"},
		Sources: []Source{{Kind: SourceTime, Format: "{time}", Times: []Times{{Line: "@hourly", Lifetime: time.Hour}}}},
		Order:   OrderOriginal,
		Limits:  map[string]map[string]Limit{"instance": {"r": {Default: 1, Limit: 9000}}}}
	b := newBoard(t, spec)
	put(t, b, Job{Name: "j"})
	n := int64(0)
	name := func(i int) string { return fmt.Sprint("t", i) }
	const all = 4000
	var nodes []NodeSpec
	for i := range all {
		nodes = append(nodes, NodeSpec{Name: name(i), Level: "time"})
	}
	if err := b.SetNodes(nodes); err != nil {
		t.Fatal(err)
	}
	b.Advance(1000)
	start(t, b, b.Pick(all), &n)
	for i := range all - 1 { // the last one goes on
		b.Apply(finish(t, b, Key{"j", name(i)}, Report{Bits: Done}))
	}
	if got := b.Expired(1000, 9); len(got) != 0 {
		t.Fatalf("of present nodes: %v", got)
	}
	if err := b.SetNodes(nodes[all-100 : all-90]); err != nil {
		t.Fatal(err)
	}
	if got := b.Expired(999, 9); len(got) != 0 {
		t.Fatalf("of newer statuses: %v", got)
	}
	if got := b.Expired(1000, 9); len(got) != 9 {
		t.Fatalf("%v", got)
	}
	b.Advance(time.Hour.Milliseconds())
	got := b.Expired(1000, 2*all)
	if len(got) != all-11 {
		t.Fatalf("%d names", len(got))
	}
	for _, k := range got {
		if _, ok := b.Expire(k, 1000); !ok {
			t.Fatal(k)
		}
		if _, ok := b.Expire(k, 1000); ok {
			t.Fatalf("twice: %v", k)
		}
	}
	for _, k := range []Key{{"j", name(all - 1)}, {"j", name(all - 95)}, {"j", "none"}, {"none", "t1"}} {
		if _, ok := b.Expire(k, 1000); ok {
			t.Errorf("forgotten: %v", k)
		}
	}
	if !b.Sparse() {
		t.Error("not sparse")
	}
	if err := b.Configure(b.Spec()); err != nil {
		t.Fatal(err)
	}
	if got := len(b.f.names[1].list); got != 11 {
		t.Errorf("%d names are left", got)
	}
	checkBoard(t, b)
	if p, _ := b.Progress("j"); p.Done != 10 || p.Running != 0 && p.Running != 1 {
		t.Errorf("%+v", p)
	}
	if _, _, ok := b.Running(Key{"j", name(all - 1)}); !ok {
		t.Error("the running one is lost")
	}
	// A late end of a forgotten one is stored as new, and starts nothing.
	u := b.End(Key{"j", name(5)}, inv(6), Report{Bits: Failed}, 0)
	if b.Apply(u); len(b.Pick(9)) != 0 {
		t.Error("started")
	}
	if got := b.Expired(b.clock.now, 9); len(got) != 1 {
		t.Errorf("%v", got)
	}
}
