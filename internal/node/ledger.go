package node

import (
	"sync"

	"cantina/bbs"
	"cantina/event"
	"cantina/lrp"
	"cantina/placement"
	"cantina/task"
)

// holdings keeps the one ledger in step with the committed rows of instances and
// tasks: it hears every event before it goes to the hub. (Batch tasks are booked
// by the scheduler.)
type holdings struct {
	hub    *event.Hub
	ledger ledger

	mu      sync.Mutex
	desired func(process string) *lrp.Desired
	booked  map[string]string // row → hold
	rows    map[string]int    // hold → rows that name it: an instance that becomes evacuating or suspect keeps its room
}

type ledger interface {
	Hold(h placement.Holding) error
	Release(holds ...string)
}

// Publish books or frees what the rows of one commit hold, and passes the events on.
func (h *holdings) Publish(revision int64, events ...event.Event) {
	for _, e := range events {
		switch {
		case e.Kind == event.Instance && e.Instance != nil:
			h.instance(e)
		case e.Kind == event.Task && e.Task != nil:
			h.task(e)
		}
	}
	h.hub.Publish(revision, events...)
}

func rowName(a *lrp.Actual) string { return "lrp/" + a.Key.String() + "/" + a.Presence.String() }

func (h *holdings) instance(e event.Event) {
	a := e.Instance
	on := !e.Gone && (a.State == lrp.Claimed || a.State == lrp.Running)
	if !on {
		h.book(rowName(a), "", placement.Holding{})
		return
	}
	d := h.desired(a.Key.Process)
	if d == nil {
		return
	}
	h.book(rowName(a), a.Instance, placement.Holding{Hold: a.Instance, Cell: a.Cell, Kind: placement.KindLRP, Group: a.Key.Process, Need: d.Workload.Resources})
}

func (h *holdings) task(e event.Event) {
	t := e.Task
	if e.Gone || t.State != task.Running {
		h.book("task/"+t.UID, "", placement.Holding{})
		return
	}
	h.book("task/"+t.UID, t.UID, placement.Holding{Hold: t.UID, Cell: t.Holder.Cell, Kind: placement.KindTask, Need: t.Definition.Workload.Resources})
}

// book notes that a row holds something, or nothing.
func (h *holdings) book(row, hold string, x placement.Holding) {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.booked[row]
	if hold != "" {
		if old != hold {
			h.booked[row] = hold
			h.rows[hold]++
		}
		// An instance that the ledger has on another cell stays there: the harmoniser
		// of one of the two ends its container.
		_ = h.ledger.Hold(x)
	} else {
		delete(h.booked, row)
	}
	if old == "" || old == hold {
		return
	}
	if h.rows[old]--; h.rows[old] == 0 {
		delete(h.rows, old)
		h.ledger.Release(old)
	}
}

// load books what the rows of a term's load hold.
func (h *holdings) load(b *bbs.BBS) {
	for after := ""; ; {
		page, err := b.ListInstances(bbs.InstanceFilter{}, bbs.Range{After: after, Limit: 1000})
		if err != nil {
			return
		}
		for _, it := range page.Items {
			for _, a := range it.Rows.Rows() {
				h.instance(event.Event{Kind: event.Instance, Instance: a})
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	for after := ""; ; {
		page, err := b.ListTasks(bbs.TaskFilter{States: []task.State{task.Running}}, bbs.Range{After: after, Limit: 1000})
		if err != nil {
			return
		}
		for _, t := range page.Items {
			h.task(event.Event{Kind: event.Task, Task: t.Task})
		}
		if after = page.Next; after == "" {
			break
		}
	}
}
