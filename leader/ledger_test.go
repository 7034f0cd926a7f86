package leader

import (
	"maps"
	"slices"
	"testing"

	"cantina/event"
	"cantina/lrp"
	"cantina/placement"
	"cantina/resource"
	"cantina/task"
)

// ledger records the allocations.
type ledger map[string]string

// Follow implements Ledger.
func (l ledger) Follow(h placement.Holding) { l[h.Hold] = h.Cell }

// Release implements Ledger.
func (l ledger) Release(holds ...string) {
	for _, h := range holds {
		delete(l, h)
	}
}

func newLedger() (*LedgerFeed, ledger) {
	l := ledger{}
	return newLedgerFeed(l, func(string) *lrp.Desired { return &lrp.Desired{} }), l
}

// report passes the change of an index on, as the board does.
func report(b *LedgerFeed, before, after lrp.Index) {
	for _, c := range lrp.Changes(before, after) {
		row := c.After
		if row == nil {
			row = c.Before
		}
		b.Take(event.Event{Kind: event.Instance, Gone: c.Kind == lrp.RowRemoved, Instance: row})
	}
}

// TestALedgerAgreesWithTheRows tests every pair of states of an index: after any change the ledger
// has exactly the instances that a row names.
func TestALedgerAgreesWithTheRows(t *testing.T) {
	key := lrp.Key{Process: "p"}
	var all []lrp.Index
	instances := []string{"", "a", "b", "c"}
	for _, o := range instances {
		for _, e := range instances {
			for _, s := range instances {
				if o != "" && (o == e || o == s) || e != "" && e == s {
					continue
				}
				for _, unclaimed := range []bool{false, true} {
					x := lrp.Index{Key: key, Evacuating: row(key, lrp.Evacuating, e), Suspect: row(key, lrp.Suspect, s)}
					x.Ordinary = row(key, lrp.Ordinary, o)
					if o == "" && unclaimed {
						x.Ordinary = &lrp.Actual{Key: key}
					}
					all = append(all, x)
				}
			}
		}
	}
	for _, before := range all {
		for _, after := range all {
			b, l := newLedger()
			report(b, lrp.Index{Key: key}, before)
			report(b, before, after)
			var want []string
			for _, a := range after.Rows() {
				if a.Instance != "" {
					want = append(want, a.Instance)
				}
			}
			slices.Sort(want)
			if got := slices.Sorted(maps.Keys(l)); !slices.Equal(got, want) {
				t.Fatalf("from %v to %v the ledger has %v", names(before), names(after), got)
			}
			report(b, after, lrp.Index{Key: key})
			if len(l) > 0 || len(b.holds) > 0 {
				t.Fatalf("from %v to %v to nothing the ledger has %v", names(before), names(after), l)
			}
		}
	}
}

func row(k lrp.Key, p lrp.Presence, instance string) *lrp.Actual {
	if instance == "" {
		return nil
	}
	return &lrp.Actual{Key: k, Presence: p, State: lrp.Running,
		Identity: lrp.Identity{Instance: instance, Cell: "cell-" + instance, Proc: "1"}}
}

func names(x lrp.Index) (out []string) {
	for _, a := range x.Rows() {
		out = append(out, a.Presence.String()+" "+a.Instance)
	}
	return out
}

func TestATaskHoldsWhileItRuns(t *testing.T) {
	b, l := newLedger()
	row := &task.Task{GUID: "t", UID: "u", Definition: &task.Definition{}, State: task.Running,
		Holder: task.Holder{Cell: "c"}}
	row.Definition.Workload.Resources = resource.Amounts{"memory_mb": 1}
	b.Take(event.Event{Kind: event.Task, Task: row})
	if l["u"] != "c" {
		t.Fatal(l)
	}
	ended := *row
	ended.State = task.Completed
	b.Take(event.Event{Kind: event.Task, Task: &ended})
	if len(l) > 0 {
		t.Fatal(l)
	}
}
