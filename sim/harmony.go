package sim

import (
	"fmt"
	"time"

	"cantina/lrp"
	"cantina/task"
)

// look brings one container and its row together.
func (p *rep) look(u *unit) {
	p.push(u.id, func(done func()) {
		if u.uid != "" {
			p.harmoniseTask(u.id, false, done)
		} else {
			p.harmonise(u.id, false, done)
		}
	})
}

func (p *rep) self(u *unit) lrp.Identity {
	return lrp.Identity{Instance: u.id, Cell: string(p.m.name), Proc: string(p.m.proc())}
}

func (p *rep) holder() task.Holder {
	return task.Holder{Cell: string(p.m.name), Proc: string(p.m.proc())}
}

// harmonise looks at one instance: at the rows as they were last seen, or afresh.
func (p *rep) harmonise(id string, fresh bool, done func()) {
	u := p.m.unit(id)
	if u == nil {
		done()
		return
	}
	if fresh {
		p.read(query{only: true, lrps: []lrp.Key{u.key}}, func(_ answer, ok bool) {
			u := p.m.unit(id) // rows first, container second
			if !ok {
				p.pollIn(retryPoll)
			}
			if !ok || u == nil {
				done()
				return
			}
			p.act(u, true, done)
		})
		return
	}
	if _, ok := p.lrps[u.key]; !ok {
		p.harmonise(id, true, done)
		return
	}
	p.act(u, false, done)
}

// act does what the table says of one instance.
func (p *rep) act(u *unit, fresh bool, done func()) {
	v := lrp.View{Container: u.lrpState(), Self: p.self(u), Rows: p.lrps[u.key].index}
	v.Rows.Key = u.key
	if u.state == up {
		v.Net = &lrp.Net{Address: p.m.folder, Routable: !u.notReady, Zone: p.zone()}
	}
	a := p.table(v)
	if !fresh && u.state != completed && a.Call == lrp.NoCall && (a.Then == lrp.DeleteContainer || a.Then == lrp.StopContainer) {
		p.harmonise(u.id, true, done)
		return
	}
	p.m.w.trace("  %s/%s: %v is %v: %v, %v (%s)", p.m.name, p.m.proc(), u, v.Container, a.Call, a.Then, a.Why)
	if a.Call == lrp.NoCall {
		p.settle(u, v, a.Then, done)
		return
	}
	p.lrpCall(a.Call, v, u, func(ans answer) {
		switch {
		case ans.unknown, ans.err != nil && !refused(ans.err):
			p.pollIn(retryPoll)
			done()
		case ans.err != nil && !fresh:
			p.harmonise(u.id, true, done)
		case ans.err != nil:
			p.settle(u, v, a.Refused, done)
		default:
			p.settle(u, v, a.Then, done)
		}
	})
}

func (p *rep) table(v lrp.View) lrp.Action {
	if p.evac.on {
		return lrp.HarmoniseEvacuating(v)
	}
	return lrp.Harmonise(v)
}

// settle decides the container's fate.
func (p *rep) settle(u *unit, v lrp.View, fate lrp.Fate, done func()) {
	if p.m.unit(u.id) != u {
		done()
		return
	}
	switch fate {
	case lrp.RunContainer:
		if !p.m.beginUnit(u) {
			p.lrpCall(lrp.CallRemove, v, u, func(answer) {
				p.m.deleteUnit(u)
				done()
			})
			return
		}
	case lrp.StopContainer:
		p.m.stopUnit(u, p.m.grace())
	case lrp.DeleteContainer:
		p.m.deleteUnit(u)
	case lrp.Leave:
	}
	done()
}

// lrpCall makes one call of one instance (u nil: of a row without a container) and
// remembers what the row is afterwards.
func (p *rep) lrpCall(call lrp.Call, v lrp.View, u *unit, fn func(answer)) {
	k := v.Rows.Key
	v.Self.Proc = string(p.m.proc())
	op, e := p.event(call, v, u)
	p.call(&request{op: op, key: k, event: e}, func(a answer) {
		if a.err == nil && !a.unknown {
			p.noted(call, v, k)
		}
		fn(a)
	})
}

func (p *rep) noted(call lrp.Call, v lrp.View, k lrp.Key) {
	row := lrp.Actual{Key: k, Identity: v.Self}
	switch call {
	case lrp.CallClaim:
		row.State = lrp.Claimed
		p.setOrdinary(k, &row)
	case lrp.CallStart:
		row.State = lrp.Running
		if v.Net != nil {
			row.Net = *v.Net
		}
		p.setOrdinary(k, &row)
	default:
		p.forget(k)
	}
}

// event is the event of a call.
func (p *rep) event(call lrp.Call, v lrp.View, u *unit) (Op, lrp.Event) {
	by := v.Self
	var net lrp.Net
	if v.Net != nil {
		net = *v.Net
	}
	switch call {
	case lrp.CallClaim:
		return OpClaim, lrp.Claim{By: by}
	case lrp.CallStart:
		return OpStart, lrp.Start{By: by, Net: net, Service: u.service, Exclusive: u.exclusive}
	case lrp.CallCrash:
		return OpCrash, lrp.Crash{By: by, Reason: "it ended", Clean: !u.failed}
	case lrp.CallRemove:
		return OpRemove, lrp.Remove{By: by}
	case lrp.CallEvacuate:
		return OpEvacuate, lrp.Evacuate{By: by, Net: net, Until: p.evac.until}
	case lrp.CallEvacuateClaimed:
		return OpEvacuate, lrp.EvacuateClaimed{By: by}
	case lrp.CallEvacuateStopped:
		return OpEvacuate, lrp.EvacuateStopped{By: by}
	case lrp.CallEvacuateCrashed:
		return OpEvacuate, lrp.EvacuateCrashed{By: by, Reason: "it ended", Clean: !u.failed}
	case lrp.CallRemoveEvacuating:
		return OpEvacuate, lrp.RemoveEvacuating{By: by}
	case lrp.NoCall:
	}
	panic(fmt.Sprintf("no event for %v", call))
}

// residual deals with rows that name this cell and have no container.
func (p *rep) residual(x lrp.Index, done func()) {
	rows := x.Rows()
	var next func(i int)
	next = func(i int) {
		if i == len(rows) {
			done()
			return
		}
		row := rows[i]
		if row.Cell != string(p.m.name) || p.m.unit(row.Instance) != nil {
			next(i + 1)
			return
		}
		v := lrp.View{Container: lrp.NoContainer, Self: row.Identity, Rows: x}
		a := p.table(v)
		if row.Presence == lrp.Evacuating {
			a.Call = lrp.CallRemoveEvacuating
		}
		if a.Call == lrp.NoCall {
			next(i + 1)
			return
		}
		p.lrpCall(a.Call, v, nil, func(ans answer) {
			if ans.unknown || ans.err != nil && !refused(ans.err) {
				p.pollIn(retryPoll)
			}
			next(i + 1)
		})
	}
	next(0)
}

// harmoniseTask looks at one task.
func (p *rep) harmoniseTask(id string, fresh bool, done func()) {
	u := p.m.unit(id)
	if u == nil {
		done()
		return
	}
	if fresh {
		p.read(query{only: true, tasks: []string{u.guid}}, func(_ answer, ok bool) {
			u := p.m.unit(id)
			if !ok {
				p.pollIn(retryPoll)
			}
			if !ok || u == nil {
				done()
				return
			}
			p.actTask(u, true, done)
		})
		return
	}
	if _, ok := p.tasks[u.guid]; !ok {
		p.harmoniseTask(id, true, done)
		return
	}
	p.actTask(u, false, done)
}

func (p *rep) actTask(u *unit, fresh bool, done func()) {
	v := task.View{Container: u.taskState(), Self: p.holder(), UID: u.uid, Reservation: u.id, Row: p.tasks[u.guid].row}
	a := p.taskTable(v)
	if !fresh && u.state != completed && a.Call == task.NoCall && a.Then == task.DeleteContainer {
		p.harmoniseTask(u.id, true, done)
		return
	}
	p.m.w.trace("  %s/%s: %v is %v: %v, %v (%s)", p.m.name, p.m.proc(), u, v.Container, a.Call, a.Then, a.Why)
	if a.Call == task.NoCall {
		p.settleTask(u, v, a.Then, done)
		return
	}
	p.taskCall(a, v, u, func(ans answer) {
		switch {
		case ans.unknown, ans.err != nil && !refused(ans.err):
			p.pollIn(retryPoll)
			done()
		case ans.err != nil && !fresh:
			p.harmoniseTask(u.id, true, done)
		case ans.err != nil:
			p.settleTask(u, v, a.Refused, done)
		default:
			p.settleTask(u, v, a.Then, done)
		}
	})
}

func (p *rep) taskTable(v task.View) task.Action {
	if !p.evac.on {
		return task.Harmonise(v)
	}
	return task.HarmoniseEvacuating(v, !p.m.wall().Before(p.evac.until))
}

func (p *rep) settleTask(u *unit, v task.View, fate task.Fate, done func()) {
	if p.m.unit(u.id) != u {
		done()
		return
	}
	switch fate {
	case task.RunContainer:
		if !p.m.beginUnit(u) {
			e := task.Complete{UID: u.uid, By: p.holder(), Result: task.Result{Failed: true, Reason: task.ReasonRunFailed}}
			p.call(&request{op: OpCompleteTask, guid: u.guid, task: e}, func(a answer) {
				if a.unknown || a.err != nil {
					p.pollIn(retryPoll)
				}
				p.m.deleteUnit(u)
				done()
			})
			return
		}
	case task.DeleteContainer:
		p.m.w.check.dropped(p.m.w, u)
		p.m.deleteUnit(u)
	case task.Leave:
	}
	done()
}

// taskCall makes one call of one task and remembers what the row is afterwards.
func (p *rep) taskCall(a task.Action, v task.View, u *unit, fn func(answer)) {
	running := &task.Task{GUID: u.guid, UID: u.uid, State: task.Running, Holder: p.holder(), Reservation: v.Reservation}
	var op Op
	var e task.Event
	switch a.Call {
	case task.CallStart:
		op, e = OpStartTask, task.Start{UID: u.uid, By: p.holder(), Reservation: v.Reservation, Live: v.Container == task.Live}
	case task.CallAdopt:
		op, e = OpCompleteTask, task.Adopt{UID: u.uid, From: v.Row.Holder.Proc, By: p.holder()}
	case task.CallComplete:
		op, e, running = OpCompleteTask, task.Complete{UID: u.uid, By: p.holder(), Result: p.result(u, a.Reason)}, nil
	case task.CallMissing, task.NoCall:
		fn(answer{})
		return
	}
	p.call(&request{op: op, guid: u.guid, task: e}, func(ans answer) {
		if ans.err == nil && !ans.unknown {
			if running != nil {
				p.setTask(u.guid, running)
			} else {
				p.forgetTask(u.guid)
			}
		}
		fn(ans)
	})
}

func (p *rep) result(u *unit, reason string) task.Result {
	r := task.Result{Failed: u.failed, Cancelled: u.asked, ExitCode: int(u.began / time.Millisecond)}
	if reason == "" {
		reason = u.reason
	}
	if reason != "" {
		r.Failed, r.Cancelled, r.Reason = true, false, reason
	}
	return r
}

// residualTask deals with a row that names this cell and has no container.
func (p *rep) residualTask(t *task.Task, done func()) {
	if t.Holder.Cell != string(p.m.name) || p.m.unit("t-"+t.UID) != nil {
		done()
		return
	}
	v := task.View{Container: task.NoContainer, Self: p.holder(), UID: t.UID, Row: t}
	if p.taskTable(v).Call != task.CallMissing {
		done()
		return
	}
	e := task.Missing{UID: t.UID, By: p.holder()}
	p.call(&request{op: OpCompleteTask, guid: t.GUID, task: e}, func(a answer) {
		if a.unknown || a.err != nil && !refused(a.err) {
			p.pollIn(retryPoll)
		}
		done()
	})
}
