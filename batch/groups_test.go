package batch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestGroupsCountTheTasksBelowANode: of each level, for the nodes below one; failures come first. The sums are those of
// all tasks, as a walk over their paths gives them.
func TestGroupsCountTheTasksBelowANode(t *testing.T) {
	var nodes []NodeSpec
	for h := range 3 {
		nodes = append(nodes, NodeSpec{Level: "host", Name: fmt.Sprint("h", h)})
		for d := range h + 1 {
			db := fmt.Sprintf("h%d.%d", h, d)
			nodes = append(nodes, NodeSpec{Level: "db", Name: db, Parent: fmt.Sprint("h", h)})
			for n := range 4 {
				nodes = append(nodes, NodeSpec{Level: "table", Name: fmt.Sprintf("%s.%d", db, n), Parent: db})
			}
		}
	}
	b := newBoard(t, ForestSpec{Name: "j", Levels: []string{"host", "db", "table"}, Instance: "i"}, nodes...)
	for _, j := range []string{"j", "k"} {
		put(t, b, Job{Name: j, Level: map[string]string{"j": "table", "k": "host"}[j]})
	}
	show := func(job, below string) string {
		t.Helper()
		groups, err := b.Groups(job, below)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, g := range groups {
			out = append(out, fmt.Sprintf("%s %s %d/%d", g.Level, g.Node, g.Failed, g.Total))
		}
		return strings.Join(out, ", ")
	}
	for _, node := range []string{"h1.1.0", "h1.1.3", "h2.0.1"} {
		if _, err := b.Load(Key{Job: "j", Node: node}, Status{Bits: Failed}, 0); err != nil {
			t.Fatal(err)
		}
	}
	for below, want := range map[string]string{
		"":     "host h1 2/8, host h2 1/12, host h0 0/4",
		"i":    "host h1 2/8, host h2 1/12, host h0 0/4",
		"h1":   "db h1.1 2/4, db h1.0 0/4",
		"h2":   "db h2.0 1/4, db h2.1 0/4, db h2.2 0/4",
		"h0.0": "",
		// A batch task has none below it.
		"h0.0.1": "",
	} {
		if got := show("j", below); got != want {
			t.Errorf("below %q: %s, want %s", below, got, want)
		}
	}
	if got := show("k", ""); got != "" {
		t.Errorf("tasks of the highest level: %s", got)
	}
	if _, err := b.Groups("j", "nowhere"); !errors.Is(err, ErrUnknownNode) {
		t.Errorf("%v", err)
	}
	if _, err := b.Groups("x", ""); !errors.Is(err, ErrUnknownJob) {
		t.Errorf("%v", err)
	}
}
