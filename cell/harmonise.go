package cell

import (
	"context"
	"errors"
	"log/slog"

	"cantina/executor"
	"cantina/lrp"
	"cantina/task"
	"cantina/wire"
)

// lrpState is the state of a container as the tables distinguish states.
func lrpState(c *executor.Container) lrp.Container {
	switch c.State {
	case executor.Reserved:
		return lrp.Reserved
	case executor.Initializing, executor.Created:
		return lrp.Starting
	case executor.Running:
		return lrp.Up
	case executor.Completed:
		if c.Result.Stopped || c.Result.NotMade || c.Result.NeverRan { // no crash: it was never made
			return lrp.CompletedShutdown
		}
		return lrp.CompletedCrashed
	}
	return lrp.NoContainer
}

// harmoniser brings containers and the rows of the leader together: it knows the rows as they
// were last seen, and makes the calls that change them.
type harmoniser struct {
	cfg        *Config
	log        *slog.Logger
	exec       Executor
	leader     Leader
	session    *session
	containers *containers
	drain      *evacuating
	polls      *polls

	known     *known
	lrpCalls  *batcher[LRPEvent]
	taskCalls *batcher[TaskEvent]
	residual  residual
}

func newHarmoniser(c *Cell) *harmoniser {
	h := &harmoniser{cfg: &c.cfg, log: c.log, exec: c.exec, leader: c.leader, session: c.session, containers: c.containers,
		drain: c.drain, polls: c.polls, known: newKnown()}
	h.lrpCalls = newBatcher(500, c.cfg.Runtime.Park, func(ctx context.Context, es []LRPEvent) ([]error, error) {
		return h.leader.LRPEvents(ctx, h.session.caller(), es)
	})
	h.taskCalls = newBatcher(500, c.cfg.Runtime.Park, func(ctx context.Context, es []TaskEvent) ([]error, error) {
		return h.leader.TaskEvents(ctx, h.session.caller(), es)
	})
	return h
}

// harmoniseLRP brings one container and the rows of its index together. It works
// on the rows as they were last seen; before a live container is deleted or
// stopped, and after a refusal, it reads them afresh and decides again.
func (h *harmoniser) harmoniseLRP(ctx context.Context, id string) {
	for fresh := false; ; fresh = true {
		labels, _, ok := h.containers.brief(id)
		if !ok {
			return
		}
		key, service, ok := keyOf(labels)
		if !ok {
			h.log.Error("container without a valid identity", "container", id)
			return
		}
		if fresh && !h.refresh(ctx, RowsQuery{Only: true, LRPs: []lrp.Key{key}}) {
			return
		}
		ct, ok := h.exec.Get(id)
		if !ok { // rows first, container second
			return
		}
		known, ok := h.known.lrp(key)
		if !ok && !fresh {
			continue
		}
		v := lrp.View{Container: lrpState(&ct), Self: h.identityOf(&ct), Net: h.netOf(&ct), Rows: known.index,
			Quarantined: known.quarantined, Older: h.older(&ct)}
		if h.actLRP(ctx, &ct, service, &v, fresh) {
			return
		}
	}
}

// actLRP performs the action of the table and reports whether it was the last one.
func (h *harmoniser) actLRP(ctx context.Context, ct *executor.Container, service lrp.ServiceKey, v *lrp.View,
	fresh bool) bool {
	a := h.lrpTable(v)
	alive := ct.State != executor.Completed
	if !fresh && alive && a.Call == lrp.NoCall && (a.Then == lrp.DeleteContainer || a.Then == lrp.StopContainer) {
		return false
	}
	if a.Grade == lrp.Inconceivable {
		h.log.Error("row and container disagree", "container", ct.ID, "state", v.Container.String(), "call", a.Call.String(),
			"why", a.Why)
	}
	fate := a.Then
	if a.Call != lrp.NoCall {
		err := h.lrpCall(ctx, a.Call, v, service, ct)
		switch {
		case err == nil:
		case refused(err) && !fresh:
			return false
		case refused(err):
			fate = a.Refused
		default:
			h.log.Debug("call failed", "container", ct.ID, "call", a.Call.String(), "error", err)
			h.polls.retrySoon()
			return true
		}
	}
	h.log.Debug("harmonised", "container", ct.ID, "call", a.Call.String(), "fate", fate.String(), "why", a.Why)
	h.decideLRP(ctx, ct, service, v, fate)
	return true
}

// lrpTable picks the table: the ordinary one, or that of a cell being emptied.
func (h *harmoniser) lrpTable(v *lrp.View) lrp.Action {
	if _, on := h.drain.drainState(); on {
		return lrp.HarmoniseEvacuating(*v)
	}
	return lrp.Harmonise(*v)
}

// decideLRP decides the container's fate.
func (h *harmoniser) decideLRP(ctx context.Context, ct *executor.Container, service lrp.ServiceKey, v *lrp.View,
	fate lrp.Fate) {
	switch fate {
	case lrp.Leave:
	case lrp.RunContainer:
		if err := h.containers.start(ct); err != nil {
			h.log.Warn("cannot start container", "container", ct.ID, "error", err)
			if err := h.lrpCall(ctx, lrp.CallRemove, v, service, ct); err != nil {
				h.log.Debug("call failed", "container", ct.ID, "call", "Remove", "error", err)
			}
			h.containers.delete(ct.ID)
		}
	case lrp.StopContainer:
		if ct.State != executor.Completed {
			h.containers.warn("stop", ct.ID, h.exec.Stop(ct.ID))
		}
	case lrp.DeleteContainer:
		h.containers.delete(ct.ID)
	}
}

// lrpCall makes one call and remembers the resulting row.
func (h *harmoniser) lrpCall(ctx context.Context, call lrp.Call, v *lrp.View, service lrp.ServiceKey,
	ct *executor.Container) error {
	ev := h.lrpEvent(call, v, service, ct)
	key := v.Rows.Key
	if key.Process == "" {
		key, _, _ = keyOf(ct.Labels)
	}
	err := h.lrpCalls.do(ctx, LRPEvent{Key: key, Service: service, Event: ev})
	if err != nil {
		return err
	}
	row := lrp.Actual{Key: key, Service: service, Identity: v.Self}
	switch call {
	case lrp.CallClaim:
		row.State = lrp.Claimed
		h.known.setOrdinary(key, &row)
	case lrp.CallStart:
		row.State = lrp.Running
		row.Net = netIn(v)
		h.known.setOrdinary(key, &row)
	default:
		h.known.forget(key)
	}
	return nil
}

// lrpEvent is the event of a call.
func (h *harmoniser) lrpEvent(call lrp.Call, v *lrp.View, service lrp.ServiceKey, ct *executor.Container) lrp.Event {
	by := v.Self
	clean := ct.Result.ExitCode == 0 && ct.Result.Signal == 0 && !ct.Result.Failed
	switch call {
	case lrp.CallClaim:
		return lrp.Claim{By: by}
	case lrp.CallStart:
		return lrp.Start{By: by, Net: netIn(v), Service: service, Exclusive: ct.Labels[labelExclusive] != ""}
	case lrp.CallCrash:
		return lrp.Crash{By: by, Reason: crashReason(ct), Clean: clean}
	case lrp.CallRemove:
		return lrp.Remove{By: by}
	case lrp.CallEvacuate:
		return lrp.Evacuate{By: by, Net: netIn(v), Until: h.drain.rowUntil(ct)}
	case lrp.CallEvacuateClaimed:
		return lrp.EvacuateClaimed{By: by}
	case lrp.CallEvacuateStopped:
		return lrp.EvacuateStopped{By: by}
	case lrp.CallEvacuateCrashed:
		return lrp.EvacuateCrashed{By: by, Reason: crashReason(ct), Clean: clean}
	case lrp.CallRemoveEvacuating:
		return lrp.RemoveEvacuating{By: by}
	case lrp.NoCall:
	}
	return nil
}

// netIn is how the container of a view is reached, as far as that is known.
func netIn(v *lrp.View) lrp.Net {
	if v.Net == nil {
		return lrp.Net{}
	}
	return *v.Net
}

// crashReason describes how the container ended, with the last line of its error output.
func crashReason(ct *executor.Container) string {
	r := ct.Result.Reason
	if r == "" {
		r = "exited with status 0"
	}
	if n := len(ct.Result.LastErr); n > 0 {
		r += ": " + ct.Result.LastErr[n-1]
	}
	return r
}

// residualLRP handles a row that names this cell and has no container. It reports for this process
// only: a row of another process under the cell's name may be of another directory, and alive. The
// leader knows the consequences.
func (h *harmoniser) residualLRP(ctx context.Context, x lrp.Index) {
	for _, row := range x.Rows() {
		if row.Cell != string(h.cfg.Name) {
			continue
		}
		if h.containers.has(row.Instance) {
			h.residual.drop(row.Instance)
			continue
		}
		v := lrp.View{Container: lrp.NoContainer, Self: row.Identity, Rows: x}
		a := h.lrpTable(&v)
		if row.Presence == lrp.Evacuating {
			a.Call = lrp.CallRemoveEvacuating
		}
		if a.Call == lrp.NoCall {
			continue
		}
		v.Self.Proc = h.holder().Proc
		if text := a.Call.String() + " " + row.Proc; h.residual.changed(row.Instance, text) {
			h.log.Info("no container for a row of the store; reporting that to the leader", "row", x.Key.String(),
				"call", a.Call.String(), "why", a.Why)
		}
		if err := h.lrpCall(ctx, a.Call, &v, row.Service, &executor.Container{}); err != nil && !refused(err) {
			h.log.Debug("call failed", "row", x.Key.String(), "call", a.Call.String(), "error", err)
			h.polls.retrySoon()
		}
	}
}

// refused reports whether the leader's refusal of a call is final. Over a network the kind of a
// refusal is not transmitted, only that it is one.
func refused(err error) bool {
	for _, no := range []error{lrp.ErrNotFound, lrp.ErrCannotBeClaimed, lrp.ErrCannotBeStarted, lrp.ErrCannotBeCrashed,
		lrp.ErrCannotBeRemoved, lrp.ErrCannotBeEvacuated, wire.ErrRefused} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

func (h *harmoniser) identityOf(ct *executor.Container) lrp.Identity {
	_, proc, _ := h.session.view()
	return lrp.Identity{Instance: ct.Labels[labelInstance], Cell: string(h.cfg.Name), Proc: string(proc)}
}

func (h *harmoniser) holder() task.Holder {
	_, proc, _ := h.session.view()
	return task.Holder{Cell: string(h.cfg.Name), Proc: string(proc)}
}

// netOf is how a running container is reached.
func (h *harmoniser) netOf(ct *executor.Container) *lrp.Net {
	if ct.State != executor.Running {
		return nil
	}
	ends := ends(ct)
	n := &lrp.Net{Address: h.cfg.Host, Ports: ct.Ports,
		Routable: ct.Routable && !ends, Zone: h.cfg.Offer.Zone, Stopping: ends}
	if ends {
		n.StopBy = ct.EndBy
	}
	return n
}

// unreadable reports whether the row of a container is quarantined: its end cannot be reported to
// the leader.
func (h *harmoniser) unreadable(ct *executor.Container) bool {
	if key, _, ok := keyOf(ct.Labels); ok && ct.Labels[labelKind] == kindLRP {
		row, ok := h.known.lrp(key)
		return ok && row.quarantined
	}
	row, ok := h.known.task(ct.Labels[labelTask])
	return ok && row.quarantined
}

// read requests rows from the leader, and remembers the response. Without a response another poll
// follows soon.
func (h *harmoniser) read(ctx context.Context, q RowsQuery) (Rows, bool) {
	since := h.known.now()
	rows, err := h.leader.Rows(ctx, h.session.caller(), q)
	if err != nil {
		h.log.Debug("rows", "error", err)
		h.polls.retrySoon()
		return Rows{}, false
	}
	h.known.read(since, q, rows)
	if !q.Only {
		h.residual.keep(rows)
	}
	return rows, true
}

// refresh reads rows afresh and reports whether that worked.
func (h *harmoniser) refresh(ctx context.Context, q RowsQuery) bool {
	_, ok := h.read(ctx, q)
	return ok
}
