package sim

import (
	"context"

	"cantina/cell"
	"cantina/fence"
	"cantina/internal/draining"
	"cantina/lrp"
	"cantina/task"
	"cantina/worker"
)

// rep is a cell as a leader calls it: one process, in one term.
type rep struct {
	m    *machine
	term fence.Term
	proc worker.Proc
}

// perform has containers reserved and returns what was refused and why; nothing when
// the call was for another process or came too late.
func (p *rep) perform(all []work) (refused []noPlace, ok bool) {
	call := cell.Work{Term: p.term, Proc: p.proc}
	for _, x := range all {
		if l := x.lrp; l != nil {
			d := l.desired
			call.LRPs = append(call.LRPs, cell.LRPWork{Key: l.key, Service: d.Service, Instance: x.hold, Workload: &d.Workload,
				DeadlineBound: d.DeadlineBound(), Exclusive: d.Exclusive})
			continue
		}
		t := x.task
		call.Tasks = append(call.Tasks, cell.TaskWork{GUID: t.guid, UID: t.uid, Domain: domain, Workload: &t.definition.Workload,
			DeadlineBound: t.definition.DeadlineBound()})
	}
	no, err := p.m.cell.Perform(context.Background(), call)
	for _, x := range no {
		refused = append(refused, noPlace{x.ID, x.Reason, x.Cell})
	}
	return refused, err == nil
}

func (p *rep) stopInstance(k lrp.Key, instance string) {
	_ = p.m.cell.StopInstance(context.Background(), p.term, p.proc, k, instance) // a lost call is found by the cell's poll
}

func (p *rep) cancelTask(uid string) {
	_ = p.m.cell.CancelTask(context.Background(), p.term, p.proc, uid) // a lost call is found by the cell's poll
}

// evacuate begins to empty the cell, or takes that back.
func (p *rep) evacuate(o draining.Order) {
	m := p.m
	e := cell.Evacuation{ID: o.ID, Reason: o.Reason, Deadline: o.Deadline, StopBatch: o.StopBatch, Undo: o.Undo}
	if m.cell.Evacuate(context.Background(), p.term, p.proc, e) != nil {
		return
	}
	switch {
	case o.Undo:
		m.evac = evacuation{}
	case m.evac.id != o.ID:
		m.evac = evacuation{id: o.ID, since: m.w.now}
	}
	m.w.trace("%s: evacuation %+v", m.name, m.evac)
}

// lrpOp and taskOp are the kinds of message of the events that cells send.
func lrpOp(e lrp.Event) Op {
	switch e.(type) {
	case lrp.Claim:
		return OpClaim
	case lrp.Start:
		return OpStart
	case lrp.Crash:
		return OpCrash
	case lrp.Remove:
		return OpRemove
	}
	return OpEvacuate
}

func taskOp(e task.Event) Op {
	if _, ok := e.(task.Start); ok {
		return OpStartTask
	}
	return OpCompleteTask
}
