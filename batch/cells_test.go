package batch

import (
	"encoding/json"
	"testing"

	"cantina/action"
	"cantina/resource"
)

func TestAFilterOfCellsHasNoTags(t *testing.T) {
	b := twoHosts(t)
	j := Job{Name: "j", UID: "u", Filters: map[string]Filter{LevelWorker: {TagWhitelist: []string{"x"}}}}
	if p := b.Put(j); len(p) != 1 || p[0] != `filters: level "worker" has no tags` {
		t.Errorf("%q", p)
	}
	j.Filters[LevelWorker] = Filter{WhitelistRegex: "("}
	if p := b.Put(j); len(p) != 1 {
		t.Errorf("%q", p)
	}
	j.Filters[LevelWorker] = Filter{Blacklist: []string{"bad"}}
	put(t, b, j)
	s := b.Pick(1)
	if len(s) != 1 || s[0].Hosts == nil || !s[0].Hosts.Pass("good") || s[0].Hosts.Pass("bad") {
		t.Errorf("%+v", s)
	}
	put(t, b, Job{Name: "j"})
	if s := b.Pick(1); len(s) != 1 || s[0].Hosts != nil {
		t.Errorf("%+v", s)
	}
}

// TestACellNamedAsANode: the task gets the amounts of both.
func TestACellNamedAsANode(t *testing.T) {
	j := &Job{Name: "j", Call: CallBistro, Workload: action.Workload{Action: action.Action{Run: &action.Run{Path: "x"}}}}
	s := &Start{Key: Key{"j", "db"}, Path: []string{"h", "db"}, Cell: resource.Amounts{"cpu_milli": 5},
		Draws: []Draw{{Level: "host", Node: "h", Amounts: resource.Amounts{"io": 1}},
			{Level: "db", Node: "db", Amounts: resource.Amounts{"slots": 2}}}}
	e, err := Expand(j, s, inv(1), Where{Cell: "h"}, Status{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Resources map[string]resource.Amounts `json:"resources_by_node"`
	}
	if err := json.Unmarshal([]byte(e.Program.Args[len(e.Program.Args)-1]), &doc); err != nil {
		t.Fatal(err)
	}
	if h := doc.Resources["h"]; h["cpu_milli"] != 5 || h["io"] != 1 || doc.Resources["db"]["slots"] != 2 ||
		s.Cell["io"] != 0 {
		t.Errorf("%v", doc.Resources)
	}
}
