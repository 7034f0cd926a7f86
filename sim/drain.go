package sim

import (
	"fmt"
	"slices"
	"time"

	"cantina/lrp"
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
	on    bool
	id    int
	until time.Time // by the cell's wall clock
	over  bool
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

// saying names the heartbeat that a state came with.
type saying struct {
	proc worker.Proc
	beat int64
}

// saidBeat is a heartbeat with what the cell says of itself.
type saidBeat struct {
	worker.SendBeat
	says cellState
}

// wall is the machine's wall clock; it differs from others by up to 300 ms.
func (m *machine) wall() time.Time {
	return epoch().Add(m.w.now + time.Duration(m.id)*100*time.Millisecond)
}

func (p *rep) zone() string { return fmt.Sprint("zone-", p.m.id%2) }

// says is what the cell tells the leader of itself; the version grows with every change.
func (p *rep) says() cellState {
	s := cellState{offer: placement.State{Cell: string(p.m.name), Process: string(p.m.proc()), Zone: p.zone(), Host: p.m.folder,
		Capacity: p.m.w.capacity(), Evacuating: p.evac.on}, over: p.evac.over, evacuating: p.evac.on}
	if p.evac.on {
		s.evac = p.evac.id
	}
	for _, u := range p.m.units {
		if !u.orphan {
			s.waits++
		}
	}
	if p.version == 0 || p.sent.evacuating != s.evacuating || p.sent.offer.Process != s.offer.Process {
		p.version++
		p.sent = s
	}
	s.offer.Version = int64(p.version)
	return s
}

// evacuate begins to empty the cell, or takes that back (id 0).
func (p *rep) evacuate(id int, left time.Duration) {
	switch {
	case id == 0:
		p.evac = evacuation{}
	case !p.evac.on || p.evac.id != id:
		p.evac = evacuation{on: true, id: id, until: p.m.wall().Add(left), since: p.m.w.now}
	}
	p.m.w.trace("%s: evacuation %+v", p.m.name, p.evac)
	p.pollNow()
}

func (p *rep) pollWait() time.Duration {
	switch {
	case !p.evac.on:
		return pollEvery
	case p.evac.over:
		return evacEvery
	}
	return max(time.Millisecond, min(evacEvery, p.evac.until.Sub(p.m.wall())))
}

// endEvacuation ends the instances that are left when the time of an evacuation is
// over. Tasks fail by their own table.
func (p *rep) endEvacuation() {
	if !p.evac.on || p.evac.over || p.m.wall().Before(p.evac.until) {
		return
	}
	p.evac.over = true
	for _, u := range slices.Clone(p.m.units) {
		if u.orphan || u.uid != "" || u.state == completed {
			continue
		}
		p.push("drop "+u.id, func(done func()) {
			e := lrp.RemoveEvacuating{By: p.self(u)}
			p.call(&request{op: OpEvacuate, key: u.key, event: e}, func(answer) {
				p.forget(u.key)
				if p.m.unit(u.id) == u {
					p.m.stopUnit(u, p.m.grace())
				}
				done()
			})
		})
	}
}

// beatHeard remembers what came with a heartbeat until it is answered.
func (b *board) beatHeard(e saidBeat) { b.said[saying{e.Beat.Proc, e.Beat.Beat}] = e.says }

// beatAnswered takes the state of a cell that was welcomed.
func (b *board) beatAnswered(cell worker.CellName, a worker.HeartbeatAnswer) {
	key := saying{a.Proc, a.Beat}
	s, ok := b.said[key]
	delete(b.said, key)
	if !ok || a.Verdict != worker.Welcome {
		return
	}
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
