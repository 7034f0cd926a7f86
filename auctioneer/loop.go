package auctioneer

import (
	"context"
	"time"

	"cantina/internal/run"
	"cantina/placement"
)

// Run places work until ctx is done, and returns when every call to a cell has
// ended.
func (a *Auctioneer) Run(ctx context.Context) error {
	defer a.calls.Wait()
	return a.loop.Run(ctx)
}

// Loop is what Run drives, for whoever has no goroutines.
func (a *Auctioneer) Loop() *run.Loop { return a.loop }

// next says whether a pass is to be made, or for how long none is.
func (a *Auctioneer) next() (do func(context.Context), pause time.Duration) {
	now := a.cfg.Clock.Boot()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.woken || a.due <= now:
		return a.begin, 0
	case a.due == run.Never:
		return nil, run.Never
	}
	return nil, a.due - now
}

// begin makes a pass, and begins the calls that follow from it.
func (a *Auctioneer) begin(ctx context.Context) {
	calls := a.pass()
	if a.cfg.Runtime.Watch != nil && len(calls) > 0 {
		a.cfg.Runtime.Watch(calls)
	}
	for _, c := range calls {
		a.cfg.Runtime.Go(func() { a.perform(ctx, c) })
	}
}

// perform makes a call, and those to the same process that come up meanwhile.
func (a *Auctioneer) perform(ctx context.Context, c Call) {
	for more := true; more && ctx.Err() == nil; {
		called, cancel := a.cfg.Runtime.Within(ctx, a.cfg.PerformTimeout)
		refused, err := a.cells.Perform(called, c.Cell, c.Process, c.Work)
		cancel()
		c, more = a.answered(c, refused, err)
	}
}

// pass runs rounds until nothing is left to place and tells the board what waits. It
// returns the calls that are to be made now, at most one to each cell process at a time.
func (a *Auctioneer) pass() (calls []Call) {
	for more := true; more; {
		now := a.cfg.Clock.Boot()
		a.mu.Lock()
		a.woken = false
		more = a.round(now)
		results := a.outbox
		a.outbox = nil
		due, ok := a.auction.Next()
		if a.due = due; !ok {
			a.due = run.Never
		}
		for i := range results {
			calls = append(calls, a.queue(results[i].Placed)...)
		}
		a.mu.Unlock()
		for i := range results {
			a.tell(&results[i])
		}
	}
	return calls
}

// round runs one round into the outbox; the lock is held.
func (a *Auctioneer) round(now time.Duration) (more bool) {
	r := a.auction.Round(now)
	a.stats.Rounds++
	a.stats.Placed += len(r.Placed)
	a.stats.Refused += len(r.Refused)
	a.stats.Unanswered += len(r.Expired)
	a.stats.LastRound = a.cfg.Clock.Boot() - now
	if r.Woken {
		ring(a.room)
	}
	if len(r.Placed)+len(r.Refused)+len(r.Expired) > 0 {
		a.outbox = append(a.outbox, r)
	}
	return r.More
}

// tell tells the board what a round did not place.
func (a *Auctioneer) tell(r *placement.Result) {
	if len(r.Refused) > 0 {
		a.board.Waiting(r.Refused)
	}
	if len(r.Expired) > 0 {
		a.board.Unanswered(r.Expired)
	}
}

// queue puts placed work into the queues of its cells, and returns the calls that begin
// with it. The lock is held.
func (a *Auctioneer) queue(placed []placement.Placement) (calls []Call) {
	touched := make([]*cellQueue, 0, len(placed))
	for _, p := range placed {
		l := a.cellQueues[p.Cell]
		if l == nil || l.process != p.Process {
			// A successor of the process gets its own queue; what waits for the other
			// goes unanswered.
			l = &cellQueue{cell: p.Cell, process: p.Process}
			a.cellQueues[p.Cell] = l
		}
		if len(l.queue) == 0 {
			touched = append(touched, l)
		}
		l.queue = append(l.queue, p.Item)
	}
	for _, l := range touched {
		if c, ok := l.next(); ok {
			calls = append(calls, c)
		}
	}
	return calls
}

// next is a call with all that waits for a process, if none is under way.
func (l *cellQueue) next() (Call, bool) {
	if l.busy || len(l.queue) == 0 {
		return Call{}, false
	}
	c := Call{Cell: l.cell, Process: l.process, Work: l.queue, cellQueue: l}
	l.queue, l.busy = nil, true
	return c, true
}

// answered takes the answer to a call, once; an err is none. It returns the next call to
// the same process, when there is one to be made.
func (a *Auctioneer) answered(c Call, refused []Refusal, err error) (next Call, more bool) {
	if err != nil {
		// The work stays in flight until it is claimed or its time is over.
		a.cfg.Log.Warn("cell did not answer a placement", "cell", c.Cell, "items", len(c.Work), "error", err)
	} else if len(refused) > 0 {
		a.refuse(&c, refused)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c.cellQueue.busy = false
	if next, more = c.cellQueue.next(); !more && a.cellQueues[c.Cell] == c.cellQueue {
		delete(a.cellQueues, c.Cell)
	}
	return next, more
}

// refuse carries over what a cell did not take, and tells the board.
func (a *Auctioneer) refuse(c *Call, refused []Refusal) {
	sent := make(map[string]placement.Item, len(c.Work))
	for _, it := range c.Work {
		sent[it.Hold] = it
	}
	var told []placement.Refused
	a.locked(func(now time.Duration) {
		for _, r := range refused {
			it, ok := sent[r.Hold]
			if !ok {
				continue // nothing that was sent: remote input harms nothing
			}
			delete(sent, r.Hold)
			a.auction.Refuse(now, r.Hold, r.Full, r.Reason)
			a.stats.RefusedByCell++
			told = append(told, placement.Refused{Item: it, Refusal: placement.RefusedByCell(c.Cell, r.Reason)})
		}
	})
	if len(told) > 0 {
		a.board.Waiting(told)
	}
}
