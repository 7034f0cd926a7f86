package leader

import (
	"fmt"
	"sync"

	"cantina/bbs"
	"cantina/event"
	"cantina/lrp"
	"cantina/placement"
	"cantina/plan"
	"cantina/task"
)

// Ledger is where room is allocated: auctioneer.Auctioneer.
type Ledger interface {
	Follow(h placement.Holding)
	Release(holds ...string)
}

// LedgerFeed keeps the ledger consistent with the committed rows of instances and tasks: it
// handles every event of the board before all other consumers. (The scheduler allocates batch
// tasks.) It keeps the allocations of each row. Its methods are safe for concurrent use.
type LedgerFeed struct {
	ledger  Ledger
	desired func(process string) *lrp.Desired

	mu    sync.Mutex
	holds map[lrp.Key][presences]string // of an index, by the presence of its row; empty = nothing
	tasks map[string]bool               // by uid
}

const presences = int(lrp.Suspect) + 1

// newLedgerFeed returns an empty one. desired finds the definition of a process: BBS.Definition.
func newLedgerFeed(l Ledger, desired func(process string) *lrp.Desired) *LedgerFeed {
	return &LedgerFeed{ledger: l, desired: desired, holds: map[lrp.Key][presences]string{}, tasks: map[string]bool{}}
}

// Take allocates or frees the resources of the rows in one commit.
func (b *LedgerFeed) Take(events ...event.Event) {
	for _, e := range events {
		switch {
		case e.Kind == event.Instance && e.Instance != nil:
			b.instance(e)
		case e.Kind == event.Task && e.Task != nil:
			b.task(e)
		}
	}
}

// instance follows one row. If the row of an instance becomes ordinary, suspect or evacuating,
// only its new row is reported, and the last row of another instance may be reported as gone after
// that. So an allocation moves with its instance, and is freed only with the row that names it.
func (b *LedgerFeed) instance(e event.Event) {
	a := e.Instance
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.holds[a.Key]
	is := was
	at := int(a.Presence)
	switch on := a.State == lrp.Claimed || a.State == lrp.Running; {
	case e.Gone && was[at] != a.Instance:
	case e.Gone || !on:
		is[at] = ""
	default:
		d := b.desired(a.Key.Process)
		if d == nil {
			return
		}
		for i := range is {
			if is[i] == a.Instance {
				is[i] = ""
			}
		}
		is[at] = a.Instance
		// An instance that the ledger has on another cell stays there: the harmoniser
		// of one of the two ends its container.
		b.ledger.Follow(placement.Holding{Hold: a.Instance, Cell: a.Cell, Kind: placement.KindLRP, Group: a.Key.Process,
			Need:  d.Workload.Resources,
			Ports: d.Workload.FixedPorts(), Name: fmt.Sprintf("%v/%d", a.Service, a.Key.Index),
			Service: d.Service.String(), Apart: d.Apart()})
	}
	b.holds[a.Key] = is
	if is == [presences]string{} {
		delete(b.holds, a.Key)
	}
	for _, hold := range was {
		if hold != "" && is[0] != hold && is[1] != hold && is[2] != hold {
			b.ledger.Release(hold)
		}
	}
}

func (b *LedgerFeed) task(e event.Event) {
	t := e.Task
	b.mu.Lock()
	defer b.mu.Unlock()
	switch on := !e.Gone && t.State == task.Running; {
	case on:
		b.tasks[t.UID] = true
		b.ledger.Follow(placement.Holding{Hold: t.UID, Cell: t.Holder.Cell, Kind: placement.KindTask,
			Need:  t.Definition.Workload.Resources,
			Ports: t.Definition.Workload.FixedPorts(), Name: "task " + t.GUID})
	case b.tasks[t.UID]:
		delete(b.tasks, t.UID)
		b.ledger.Release(t.UID)
	}
}

// Load allocates the resources of the rows in a term's load.
func (b *LedgerFeed) Load(board *bbs.BBS) {
	for after := ""; ; {
		page, err := board.ListInstances(plan.InstanceFilter{}, plan.Range{After: after, Limit: 1000})
		if err != nil {
			return
		}
		for _, it := range page.Items {
			for _, a := range it.Rows.Rows() {
				b.instance(event.Event{Kind: event.Instance, Instance: a})
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	for after := ""; ; {
		page, err := board.ListTasks(plan.TaskFilter{States: []task.State{task.Running}},
			plan.Range{After: after, Limit: 1000})
		if err != nil {
			return
		}
		for _, t := range page.Items {
			b.task(event.Event{Kind: event.Task, Task: t.Task})
		}
		if after = page.Next; after == "" {
			break
		}
	}
}
