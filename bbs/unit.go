package bbs

import (
	"fmt"
	"strconv"

	"cantina/event"
	"cantina/lrp"
	"cantina/store"
)

// unit is one row of a transition with the values to publish once it is durable.
type unit struct {
	op     store.Op
	show   func(v *view, revision int64)
	events []event.Event
}

// units turns the change into rows, services first.
func (t *tx) units() []unit {
	out, deleted := t.b.reportedUnits()
	last := map[lrp.ServiceKey]int{}
	for i, c := range t.services {
		last[c.key] = i
	}
	for i, c := range t.services {
		if last[c.key] == i { // not changed again later in this change
			out = append(out, t.serviceUnit(c))
		}
	}
	for _, c := range t.others {
		out = append(out, unit{op: c.op, show: c.show})
	}
	for _, c := range t.tasks {
		if c.before != c.after {
			out = append(out, taskUnit(c))
		}
	}
	notes := t.notes()
	for _, c := range t.indices {
		if c.before != c.after {
			out = append(out, indexUnit(c, notes[c.after.Key]))
		}
	}
	return append(out, deleted...)
}

func (t *tx) serviceUnit(c serviceChange) unit {
	u := unit{op: store.Op{Key: ServiceRow(c.key)}}
	e := event.Event{Kind: event.Service, Domain: c.key.Domain, Subject: c.key.String(), Service: c.after}
	if c.after == nil {
		e.Gone, e.Service = true, c.before
	} else {
		u.op.Value = encode(kindService, serviceRecord(c.after))
	}
	u.events = []event.Event{e}
	u.show = func(v *view, revision int64) { v.putService(c.key, c.after, revision) }
	return u
}

func taskUnit(c taskChange) unit {
	u := unit{op: store.Op{Key: TaskRow(c.guid)}}
	e := event.Event{Kind: event.Task, Subject: c.guid, Task: c.after}
	if c.after == nil {
		e.Gone, e.Task = true, c.before
	} else {
		u.op.Value = encode(kindTask, taskRecord(c.after))
	}
	if e.Task != nil {
		e.Domain = e.Task.Domain
	}
	u.events = []event.Event{e}
	u.show = func(v *view, revision int64) { v.putTask(c.guid, c.after, revision) }
	return u
}

func indexUnit(c indexChange, notes []event.Event) unit {
	key := c.after.Key
	u := unit{op: store.Op{Key: IndexRow(key)}, events: notes}
	if !c.after.Empty() {
		u.op.Value = encode(kindIndex, indexRecord(c.after))
	}
	for _, ch := range lrp.Changes(c.before, c.after) {
		row := ch.After
		if row == nil {
			row = ch.Before
		}
		u.events = append(u.events, event.Event{Kind: event.Instance, Domain: row.Service.Domain, Subject: subjectOf(row),
			Gone: ch.Kind == lrp.RowRemoved, Instance: row,
			Hidden: ch.Hidden, Turn: ch.Turn, Shown: ch.Shown})
	}
	u.show = func(v *view, revision int64) { v.putIndex(c.after, revision) }
	return u
}

// subjectOf is the public name of an instance: "domain/service/index". The key with its process
// guid is in the row.
func subjectOf(a *lrp.Actual) string { return a.Service.String() + "/" + strconv.Itoa(a.Key.Index) }

// notes are the crashes and preemptions of this change, by index: they come before the rows' events.
func (t *tx) notes() map[lrp.Key][]event.Event {
	var out map[lrp.Key][]event.Event
	note := func(k lrp.Key, text string) {
		if out == nil {
			out = map[lrp.Key][]event.Event{}
		}
		domain, subject := "", k.String()
		if i, ok := t.at[k]; ok {
			for _, a := range t.indices[i].before.Rows() {
				domain, subject = a.Service.Domain, subjectOf(a)
			}
		}
		out[k] = append(out[k], event.Event{Kind: event.Note, Domain: domain, Subject: subject, Text: text})
	}
	for _, e := range t.lrpEffects {
		switch e := e.(type) {
		case lrp.CrashNoted:
			note(e.Key, fmt.Sprintf("crash %d on cell %s: %s", e.Count, e.Who.Cell, e.Reason))
		case lrp.PreemptionNoted:
			note(e.Key, fmt.Sprintf("preempted on cell %s by %s", e.Who.Cell, e.For))
		}
	}
	return out
}

// fits returns store.ErrTooLarge when the change is larger than a transaction.
// Nothing may be added to it afterwards.
func (t *tx) fits() error {
	t.ready = t.units()
	return t.b.cfg.Store.Fits(transition(t.ready))
}

func transition(units []unit) store.Transition {
	tr := store.Transition{Ops: make([]store.Op, len(units))}
	for i, u := range units {
		tr.Ops[i] = u.op
	}
	return tr
}

// cut splits rows into chunks; there is always at least one, which may be empty:
// then it is a barrier.
func cut(units []unit) [][]unit {
	chunks := [][]unit{nil}
	ops, size := 0, 0
	for _, u := range units {
		if ops > 0 && (ops == chunkOps || size+len(u.op.Value) > chunkBytes) {
			chunks = append(chunks, nil)
			ops, size = 0, 0
		}
		n := len(chunks) - 1
		chunks[n] = append(chunks[n], u)
		ops, size = ops+1, size+len(u.op.Value)
	}
	return chunks
}
