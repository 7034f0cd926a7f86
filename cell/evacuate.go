package cell

import (
	"context"
	"time"

	"cantina/executor"
	"cantina/lrp"
)

// Reasons for which a cell itself ends containers.
const (
	reasonEvacuated = "evacuated"
	reasonLeaving   = "its cell was shut down"
)

// evacuation is the state of a cell that is being emptied.
type evacuation struct {
	on        bool
	until     time.Time
	stopBatch bool
	over      bool // the deadline has been acted on
}

// evacuation returns until when the cell is being emptied, and whether it is.
func (c *Cell) evacuation() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.evac.until, c.evac.on
}

// setEvacuation begins to empty the cell, or takes that back.
func (c *Cell) setEvacuation(deadline time.Duration, stopBatch, undo bool) {
	if deadline <= 0 {
		deadline = c.cfg.EvacuationTimeout
	}
	c.mu.Lock()
	switch {
	case undo:
		c.evac = evacuation{}
	case !c.evac.on || c.evac.stopBatch != stopBatch:
		c.evac = evacuation{on: true, until: c.cfg.Clock.Wall().Add(deadline), stopBatch: stopBatch}
	}
	on := c.evac.on
	c.mu.Unlock()
	if on && stopBatch {
		c.interruptBatch()
	}
	c.pollNow()
}

// interruptBatch stops every batch task: it runs again elsewhere, and no retry is counted.
func (c *Cell) interruptBatch() {
	for _, ct := range c.exec.List() {
		if ct.Labels[labelKind] == kindBatch && ct.State != executor.Completed {
			c.endReasons.put(ct.ID, reasonEvacuated)
			c.warn("stop", ct.ID, c.exec.Stop(ct.ID))
		}
	}
}

// endEvacuation ends what is left when the time of an evacuation is over:
// instances go, batch tasks run again elsewhere. Tasks fail by their own table.
func (c *Cell) endEvacuation(ctx context.Context) {
	c.mu.Lock()
	due := c.evac.on && !c.evac.over && !c.cfg.Clock.Wall().Before(c.evac.until)
	if due {
		c.evac.over = true
	}
	c.mu.Unlock()
	if !due {
		return
	}
	left := c.live()
	c.log.Warn("evacuation is over", "waited for", left)
	c.interruptBatch()
	for _, ct := range c.exec.List() {
		switch {
		case ct.State == executor.Completed:
		case ct.Labels[labelKind] == kindLRP:
			c.dropInstance(ctx, ct)
		}
	}
}

// dropInstance removes the evacuating row of an instance and stops it.
func (c *Cell) dropInstance(ctx context.Context, ct executor.Container) {
	key, service, ok := keyOf(ct.Labels)
	if !ok {
		return
	}
	ev := LRPEvent{Key: key, Service: service, Event: lrp.RemoveEvacuating{By: c.identityOf(ct)}}
	if err := c.lrpCalls.do(ctx, ev); err != nil && !refused(err) {
		c.log.Debug("call failed", "container", ct.ID, "call", "RemoveEvacuating", "error", err)
	}
	c.known.forget(key)
	c.warn("stop", ct.ID, c.exec.Stop(ct.ID))
}
