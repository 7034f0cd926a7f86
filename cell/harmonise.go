package cell

import (
	"context"
	"errors"
	"log/slog"

	"cantina/executor"
	"cantina/lrp"
	"cantina/wire"
)

// lrpState is the state of a container as the tables tell states apart.
func lrpState(c executor.Container) lrp.Container {
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

// harmoniseLRP brings one container and the rows of its index together. It works
// on the rows as they were last seen; before a live container is deleted or
// stopped, and after a refusal, it reads them afresh and decides again.
func (c *Cell) harmoniseLRP(ctx context.Context, id string) {
	for fresh := false; ; fresh = true {
		ct, ok := c.exec.Get(id)
		if !ok {
			return
		}
		key, service, ok := keyOf(ct.Labels)
		if !ok {
			c.log.Error("container without a valid identity", "container", id)
			return
		}
		if fresh && !c.refresh(ctx, RowsQuery{Only: true, LRPs: []lrp.Key{key}}) {
			return
		}
		if ct, ok = c.exec.Get(id); !ok { // rows first, container second
			return
		}
		known, ok := c.known.lrp(key)
		if !ok && !fresh {
			continue
		}
		v := lrp.View{Container: lrpState(ct), Self: c.identityOf(ct), Net: c.netOf(ct), Rows: known.index, Quarantined: known.quarantined, Older: c.older(ct)}
		if c.actLRP(ctx, ct, service, v, fresh) {
			return
		}
	}
}

// actLRP does what the table says and reports whether that was the last word.
func (c *Cell) actLRP(ctx context.Context, ct executor.Container, service lrp.ServiceKey, v lrp.View, fresh bool) bool {
	a := c.lrpTable(v)
	alive := ct.State != executor.Completed
	if !fresh && alive && a.Call == lrp.NoCall && (a.Then == lrp.DeleteContainer || a.Then == lrp.StopContainer) {
		return false
	}
	if a.Grade == lrp.Inconceivable {
		c.log.Error("row and container disagree", "container", ct.ID, "state", v.Container.String(), "call", a.Call.String(), "why", a.Why)
	}
	fate := a.Then
	if a.Call != lrp.NoCall {
		err := c.lrpCall(ctx, a.Call, v, service, ct)
		switch {
		case err == nil:
		case refused(err) && !fresh:
			return false
		case refused(err):
			fate = a.Refused
		default:
			c.log.Debug("call failed", "container", ct.ID, "call", a.Call.String(), "error", err)
			c.retrySoon()
			return true
		}
	}
	c.log.Debug("harmonised", "container", ct.ID, "call", a.Call.String(), "fate", fate.String(), "why", a.Why)
	c.settleLRP(ctx, ct, service, v, fate)
	return true
}

// lrpTable picks the table: the ordinary one, or that of a cell being emptied.
func (c *Cell) lrpTable(v lrp.View) lrp.Action {
	if _, on := c.evacuation(); on {
		return lrp.HarmoniseEvacuating(v)
	}
	return lrp.Harmonise(v)
}

// settleLRP decides the container's fate.
func (c *Cell) settleLRP(ctx context.Context, ct executor.Container, service lrp.ServiceKey, v lrp.View, fate lrp.Fate) {
	switch fate {
	case lrp.Leave:
	case lrp.RunContainer:
		if err := c.start(ct); err != nil {
			c.log.Warn("cannot start container", "container", ct.ID, "error", err)
			if err := c.lrpCall(ctx, lrp.CallRemove, v, service, ct); err != nil {
				c.log.Debug("call failed", "container", ct.ID, "call", "Remove", "error", err)
			}
			c.delete(ct.ID)
		}
	case lrp.StopContainer:
		if ct.State != executor.Completed {
			c.warn("stop", ct.ID, c.exec.Stop(ct.ID))
		}
	case lrp.DeleteContainer:
		c.delete(ct.ID)
	}
}

// lrpCall makes one call and remembers what the row is afterwards.
func (c *Cell) lrpCall(ctx context.Context, call lrp.Call, v lrp.View, service lrp.ServiceKey, ct executor.Container) error {
	ev := c.lrpEvent(call, v, service, ct)
	key := v.Rows.Key
	if key.Process == "" {
		key, _, _ = keyOf(ct.Labels)
	}
	err := c.lrpCalls.do(ctx, LRPEvent{Key: key, Service: service, Event: ev})
	if err != nil {
		return err
	}
	row := lrp.Actual{Key: key, Service: service, Identity: v.Self}
	switch call {
	case lrp.CallClaim:
		row.State = lrp.Claimed
		c.known.setOrdinary(key, &row)
	case lrp.CallStart:
		row.State = lrp.Running
		if v.Net != nil {
			row.Net = *v.Net
		}
		c.known.setOrdinary(key, &row)
	default:
		c.known.forget(key)
	}
	return nil
}

// lrpEvent is the event of a call.
func (c *Cell) lrpEvent(call lrp.Call, v lrp.View, service lrp.ServiceKey, ct executor.Container) lrp.Event {
	by := v.Self
	var net lrp.Net
	if v.Net != nil {
		net = *v.Net
	}
	clean := ct.Result.ExitCode == 0 && ct.Result.Signal == 0 && !ct.Result.Failed
	switch call {
	case lrp.CallClaim:
		return lrp.Claim{By: by}
	case lrp.CallStart:
		return lrp.Start{By: by, Net: net, Service: service, Exclusive: ct.Labels[labelExclusive] != ""}
	case lrp.CallCrash:
		return lrp.Crash{By: by, Reason: crashReason(ct), Clean: clean}
	case lrp.CallRemove:
		return lrp.Remove{By: by}
	case lrp.CallEvacuate:
		return lrp.Evacuate{By: by, Net: net, Until: c.rowUntil(ct)}
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

// crashReason says in words how the container ended, with the last line of its
// error output.
func crashReason(ct executor.Container) string {
	r := ct.Result.Reason
	if r == "" {
		r = "exited with status 0"
	}
	if n := len(ct.Result.LastErr); n > 0 {
		r += ": " + ct.Result.LastErr[n-1]
	}
	return r
}

// residualLRP deals with a row that names this cell and has no container. It speaks for
// this process alone: a row of another one under the cell's name may be of another
// folder, and alive. The leader knows what that proves.
func (c *Cell) residualLRP(ctx context.Context, x lrp.Index) {
	for _, row := range x.Rows() {
		if row.Cell != string(c.cfg.Name) {
			continue
		}
		if c.has(row.Instance) {
			c.residual.drop(row.Instance)
			continue
		}
		v := lrp.View{Container: lrp.NoContainer, Self: row.Identity, Rows: x}
		a := c.lrpTable(v)
		if row.Presence == lrp.Evacuating {
			a.Call = lrp.CallRemoveEvacuating
		}
		if a.Call == lrp.NoCall {
			continue
		}
		v.Self.Proc = c.holder().Proc
		if text := a.Call.String() + " " + row.Proc; c.residual.changed(row.Instance, text) {
			c.log.Info("row without a container", "row", x.Key.String(), "call", a.Call.String(), "why", a.Why)
		}
		if err := c.lrpCall(ctx, a.Call, v, row.Service, executor.Container{}); err != nil && !refused(err) {
			c.log.Debug("call failed", "row", x.Key.String(), "call", a.Call.String(), "error", err)
			c.retrySoon()
		}
	}
}

// refused reports whether the leader refused a call for good. Over a network the
// kind of a refusal is not told, only that it is one.
func refused(err error) bool {
	for _, no := range []error{lrp.ErrNotFound, lrp.ErrCannotBeClaimed, lrp.ErrCannotBeStarted, lrp.ErrCannotBeCrashed,
		lrp.ErrCannotBeRemoved, lrp.ErrCannotBeEvacuated, wire.ErrRefused} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

func (c *Cell) warn(what, id string, err error) {
	if err != nil && !errors.Is(err, executor.ErrUnknown) {
		c.log.Log(context.Background(), slog.LevelWarn, "container", "what", what, "container", id, "error", err)
	}
}
