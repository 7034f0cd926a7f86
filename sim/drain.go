package sim

import (
	"fmt"
	"time"

	"cantina/placement"
	"cantina/worker"
)

type drainRow struct{ cell worker.CellName }

// drain is the stored intent to empty a cell.
type drain struct {
	id    int
	until time.Time
	ended bool
}

// evacuation is what a cell was told.
type evacuation struct {
	id    int           // the drain; 0 = none
	since time.Duration // true time
}

// cellState is what a cell says of itself with a heartbeat.
type cellState struct {
	offer      placement.State
	evac       int // the drain that it follows; 0 = none
	over       bool
	waits      int // containers that are left
	evacuating bool
}

// wall is the machine's wall clock; it differs from others by up to 300 ms.
func (m *machine) wall() time.Time {
	return epoch().Add(m.w.now + time.Duration(m.id)*100*time.Millisecond)
}

func (m *machine) zone() string { return fmt.Sprint("zone-", m.id%2) }

// beatAnswered takes the state of a cell that has its name and was welcomed.
func (b *board) beatAnswered(cell worker.CellName, s cellState) {
	b.states[cell] = s
	b.drainBeat(cell, s)
}

// loadDrains reads the drains of the load.
func (b *board) loadDrains() {
	for k, v := range b.r.s.w.store.rows {
		if k, ok := k.(drainRow); ok {
			b.drains[k.cell], b.empty[k.cell] = v.(drain), v.(drain)
		}
	}
}

// putDrain stores a drain, or ends it (nil).
func (b *board) putDrain(cell worker.CellName, d *drain) {
	o := op{key: drainRow{cell}}
	if d == nil {
		delete(b.drains, cell)
	} else {
		b.drains[cell], o.val = *d, *d
	}
	b.r.put(item{ops: []op{o}, after: func() {
		if d == nil {
			delete(b.empty, cell)
		} else {
			b.empty[cell] = *d
		}
		b.admit(cell)
		b.tellDrain(cell)
	}})
}

// tellDrain tells the cell what holds, when what it said last is something else.
func (b *board) tellDrain(cell worker.CellName) {
	v, ok := b.r.leader.Session(b.r.s.local(), cell)
	if !ok {
		return
	}
	st := b.states[cell]
	d, on := b.empty[cell]
	switch {
	case !on && st.evacuating:
		b.toCell(OpDrain, v.Proc, func(p *rep) { p.evacuate(0, 0) })
	case on && (!st.evacuating || st.evac != d.id):
		left := max(d.until.Sub(b.now()), time.Millisecond)
		b.toCell(OpDrain, v.Proc, func(p *rep) { p.evacuate(d.id, left) })
	}
}

// drainBeat takes what a cell says of its drain: whether it has ended.
func (b *board) drainBeat(cell worker.CellName, s cellState) {
	b.tellDrain(cell)
	d, on := b.empty[cell]
	if !on || d.ended || !s.evacuating || s.evac != d.id || b.drains[cell] != d {
		return
	}
	if !s.over && s.waits+b.onCell(cell) > 0 {
		return
	}
	d.ended = true
	b.putDrain(cell, &d)
}

// onCell counts the rows that say that something runs, or is being started, on a cell.
func (b *board) onCell(cell worker.CellName) int {
	lrps, tasks := b.OnCell(string(cell))
	return lrps + tasks
}
