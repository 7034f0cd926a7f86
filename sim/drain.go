package sim

import (
	"fmt"
	"slices"
	"time"

	"cantina/lrp"
	"cantina/placement"
	"cantina/worker"
)

// evacuation is what a cell was told.
type evacuation struct {
	on    bool
	id    string
	until time.Time // by the cell's wall clock
	over  bool
	since time.Duration // true time
}

// cellState is what a cell says of itself with a heartbeat.
type cellState struct {
	offer      placement.State
	evac       string // the drain that it follows; empty = none
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
	for _, c := range p.m.live() {
		if !c.extra {
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

// evacuate begins to empty the cell, or takes that back (no id).
func (p *rep) evacuate(id string, left time.Duration) {
	switch {
	case id == "":
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
	for _, c := range p.m.live() {
		if !c.extra {
			p.m.end(c, p.m.grace())
		}
	}
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
