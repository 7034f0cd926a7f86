package cell

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"cantina/executor"
	"cantina/fence"
	"cantina/worker"
)

// Reasons for which a cell itself ends containers.
const (
	reasonDrained = "drained"
	reasonLeaving = "its cell was shut down"
	reasonEarlier = "stopped by an earlier process of its cell"
)

// maxWaits limits the listed remaining work of a drain.
const maxWaits = 50

// Drain orders a cell to drain, or to stop draining. ID identifies it: a repetition changes
// nothing, nor does an order that was undone or replaced before, because calls may overtake one
// another. A Deadline of 0 is the cell's own setting. With Undo, ID is the order that is undone.
type Drain struct {
	ID        string
	Reason    string
	Deadline  time.Duration
	StopBatch bool // stop batch tasks at once: they run again elsewhere
	Undo      bool
}

// DrainState is a cell's report of its drain. Waits describes the remaining work; if Over is set,
// the work that its deadline has ended.
type DrainState struct {
	ID    string
	Over  bool
	Waits []string
	// Timeout is the default maximum duration of a drain.
	Timeout time.Duration
}

// drainState is the state of a cell that is being emptied.
type drainState struct {
	on        bool
	id        string
	until     time.Time
	stopBatch bool
	over      bool     // the deadline has been acted on
	waited    []string // the work, when it was over
	// ended are the newest ids that were taken back or replaced under the leader of term: an
	// order that was overtaken on its way begins nothing.
	ended []string
	term  fence.Term
}

// maxEnded bounds how many ids are kept: orders do not stay on their way for long.
const maxEnded = 16

// follow is the drain after an order under a leader of the given term.
func (e drainState) follow(o Drain, t fence.Term, until time.Time) drainState {
	if e.term.Less(t) {
		e.ended, e.term = nil, t
	}
	switch {
	case o.Undo:
		n := drainState{ended: e.ended, term: e.term}
		return n.without(e.id).without(o.ID)
	case e.on && e.id == o.ID, slices.Contains(e.ended, o.ID):
		return e
	}
	n := drainState{on: true, id: o.ID, until: until, stopBatch: o.StopBatch, ended: e.ended, term: e.term}
	return n.without(e.id)
}

// without notes that the order of an id has been taken back, or replaced.
func (e drainState) without(id string) drainState {
	if id == "" || slices.Contains(e.ended, id) {
		return e
	}
	e.ended = append(slices.Clone(e.ended), id)
	e.ended = e.ended[max(0, len(e.ended)-maxEnded):]
	return e
}

// evacuating holds the drain of the cell, for all parts.
type evacuating struct {
	cfg   *Config
	mu    sync.Mutex
	drain drainState
}

// follow takes an order, and returns the drain before and after it.
func (e *evacuating) follow(o Drain, t fence.Term) (was, now drainState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	was = e.drain
	e.drain = was.follow(o, t, e.cfg.Clock.Wall().Add(o.Deadline))
	return was, e.drain
}

// expire ends a drain at its deadline, once; left is the remaining work.
func (e *evacuating) expire(left []string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.drain.on || e.drain.over || e.cfg.Clock.Wall().Before(e.drain.until) {
		return false
	}
	e.drain.over, e.drain.waited = true, shorten(left)
	return true
}

// drainState returns until when the cell is being emptied, and whether it is.
func (e *evacuating) drainState() (time.Time, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.drain.until, e.drain.on
}

// setDrain begins to drain the cell, or stops it. The leader is informed at once: it decides which
// work the cell gets.
func (c *Cell) setDrain(t fence.Term, e Drain) {
	if e.Deadline <= 0 {
		e.Deadline = c.cfg.DrainTimeout
	}
	was, now := c.drain.follow(e, t)
	if was.on != now.on || was.id != now.id {
		c.session.step(worker.StateChanged{})
	}
	switch {
	case now.on && (!was.on || was.id != now.id):
		c.log.Info("draining", "reason", e.Reason, "deadline", e.Deadline)
	case was.on && !now.on:
		c.log.Info("drain cancelled; accepting work again")
	}
	if now.on && now.stopBatch {
		c.containers.interruptBatch()
	}
	c.polls.pollNow()
}

// now returns the drain as it is.
func (e *evacuating) now() drainState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.drain
}

// emptied informs the leader at once that no work is left on a draining cell.
func (c *Cell) emptied() {
	if _, on := c.drain.drainState(); on && len(c.containers.live()) == 0 {
		c.session.step(worker.StateChanged{})
	}
}

// shorten keeps the first entries of a list and counts the others.
func shorten(list []string) []string {
	if len(list) <= maxWaits {
		return list
	}
	return append(list[:maxWaits:maxWaits], fmt.Sprintf("and %d more", len(list)-maxWaits))
}

// stopsBatch reports whether batch tasks may not run here any more.
func (e *evacuating) stopsBatch() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.drain.on && (e.drain.stopBatch || e.drain.over)
}

// pollWait is how long until the next poll: a drain's deadline is not missed.
func (e *evacuating) pollWait() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case !e.drain.on:
		return e.cfg.Poll
	case e.drain.over:
		return e.cfg.DrainPoll
	}
	return max(0, min(e.cfg.DrainPoll, e.drain.until.Sub(e.cfg.Clock.Wall())))
}

// endDrain ends the remaining work at the deadline of a drain: instances are removed, batch tasks
// run again elsewhere. Tasks are stopped by their own table, and fail when they have ended.
func (c *Cell) endDrain() {
	left := c.containers.live()
	if !c.drain.expire(left) {
		return
	}
	c.log.Warn("drain deadline exceeded", "waiting", left)
	c.containers.interruptBatch()
	for _, ct := range c.exec.List() {
		switch {
		case ct.State == executor.Completed:
		case ct.Labels[labelKind] == kindLRP:
			c.dropInstance(&ct)
		}
	}
}

// dropInstance stops an instance. Its rows show that it is being stopped until it is gone.
func (c *Cell) dropInstance(ct *executor.Container) {
	if key, _, ok := keyOf(ct.Labels); ok {
		c.rows.known.forget(key)
		c.containers.warn("stop", ct.ID, c.exec.Stop(ct.ID))
		c.look(ct)
	}
}

// rowUntil is the expiry of an EVACUATING row: somewhat longer than the drain, and as long as its
// work takes to stop.
func (e *evacuating) rowUntil(ct *executor.Container) time.Time {
	until, drained := e.drainState()
	if !drained {
		return time.Time{} // it is moved
	}
	until = until.Add(rowSlack)
	if end := ct.EndBy.Add(rowSlack); ct.Ending && end.After(until) {
		return end
	}
	return until
}

// rowSlack is how long the cell has to report the end of an instance after the end of a drain, or
// after its KILL.
const rowSlack = 5 * time.Second
