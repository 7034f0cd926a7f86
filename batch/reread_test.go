package batch

import (
	"fmt"
	"testing"
)

// TestARefusalAfterTheNodesWereReadAnew: the place of the pick belongs to another node by then, or to none. No
// place is closed, and the pick may be made again.
func TestARefusalAfterTheNodesWereReadAnew(t *testing.T) {
	for _, scope := range []Scope{ScopeJob, ScopeHost, ScopeNode} {
		b := twoHosts(t)
		put(t, b, Job{Name: "pinned", HostLevel: "host"})
		all := b.Pick(9)
		if len(all) != 4 {
			t.Fatal(keys(all))
		}
		nodes, err := ManualNodes(b.Spec().Levels, []ManualNode{{Name: "host2", Children: []string{"db21"}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.SetNodes(nodes); err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if err := b.Refuse(s.Key, scope, "no cell"); err != nil {
				t.Error(err)
			}
		}
		if got := keys(b.Pick(9)); b.Blocked() || got != "pinned:db21" {
			t.Errorf("scope %d: %s", scope, got)
		}
		checkBoard(t, b)
	}
}

// TestReadingTheNodesAgainKeepsNoTimers: the memory of a board does not grow with each reading of its nodes.
func TestReadingTheNodesAgainKeepsNoTimers(t *testing.T) {
	const records = 100
	var nodes []NodeSpec
	for i := range records {
		nodes = append(nodes, NodeSpec{Name: fmt.Sprintf("n%03d", i), Level: "node"})
	}
	b := newBoard(t, ForestSpec{Name: "f", Levels: []string{"node"}}, nodes...)
	put(t, b, Job{Name: "j", Backoff: Backoff{Seconds: []int{3600}, Repeat: true}, Retries: -1})
	b.Advance(1000)
	counter := int64(0)
	all := b.Pick(records)
	start(t, b, all, &counter)
	for i, s := range all {
		b.Advance(1000 + int64(i)*1000)
		end(b, s.Key, inv(int64(i+1)), Report{Bits: Error | UsesBackoff}, 0)
	}
	for range 1000 {
		if err := b.SetNodes(nodes); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.clock.due) > 2*leastThin {
		t.Errorf("%d timers of %d pairs", len(b.clock.due), records)
	}
	if at, ok := b.NextDue(); !ok || at != 1000+3600*1000 {
		t.Errorf("next at %d, %v", at, ok)
	}
	b.Advance(1000 + 3600*1000 + (records/2-1)*1000)
	if got := b.Pick(records); len(got) != records/2 {
		t.Errorf("%d are due", len(got))
	}
	checkBoard(t, b)
}
