package auctioneer

import (
	"context"
	"sync"
	"time"

	"cantina/placement"
)

// Run places work until ctx is done, and returns when every call to a cell has
// ended.
func (a *Auctioneer) Run(ctx context.Context) error {
	var working sync.WaitGroup
	defer working.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		calls, next, ok := a.Pass()
		for _, c := range calls {
			working.Go(func() { a.perform(ctx, c) })
		}
		if ok {
			timer.Reset(next)
		} else {
			timer.Stop()
		}
		select {
		case <-a.wake:
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// perform makes a call, and those to the same process that come up meanwhile.
func (a *Auctioneer) perform(ctx context.Context, c Call) {
	for more := true; more && ctx.Err() == nil; {
		called, cancel := context.WithTimeout(ctx, a.cfg.PerformTimeout)
		refused, err := a.cells.Perform(called, c.Cell, c.Process, c.Work)
		cancel()
		c, more = a.Answered(c, refused, err)
	}
}

// Woken takes the token that says that there may be something to do for Pass; it does
// not wait.
func (a *Auctioneer) Woken() bool {
	select {
	case <-a.wake:
		return true
	default:
		return false
	}
}

// Pass runs rounds until nothing is left to place and tells the board what waits. It
// returns the calls that are to be made now, at most one to each cell process at a time,
// and after how long the next round is due anyway; ok is false when none is.
func (a *Auctioneer) Pass() (calls []Call, next time.Duration, ok bool) {
	for more := true; more; {
		now := a.cfg.Clock.Boot()
		a.mu.Lock()
		more = a.round(now)
		results := a.outbox
		a.outbox = nil
		next, ok = a.auction.Next()
		for i := range results {
			calls = append(calls, a.queue(results[i].Placed)...)
		}
		a.mu.Unlock()
		for i := range results {
			a.tell(&results[i])
		}
		next -= now
	}
	return calls, max(next, 0), ok
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

// queue puts placed work into the lines of its cells, and returns the calls that begin
// with it. The lock is held.
func (a *Auctioneer) queue(placed []placement.Placement) (calls []Call) {
	touched := make([]*line, 0, len(placed))
	for _, p := range placed {
		l := a.lines[p.Cell]
		if l == nil || l.process != p.Process {
			// A successor of the process gets its own line; what waits for the other
			// goes unanswered.
			l = &line{cell: p.Cell, process: p.Process}
			a.lines[p.Cell] = l
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
func (l *line) next() (Call, bool) {
	if l.busy || len(l.queue) == 0 {
		return Call{}, false
	}
	c := Call{Cell: l.cell, Process: l.process, Work: l.queue, line: l}
	l.queue, l.busy = nil, true
	return c, true
}

// Answered takes the answer to a call, once; an err is none. It returns the next call to
// the same process, when there is one to be made.
func (a *Auctioneer) Answered(c Call, refused []Refusal, err error) (next Call, more bool) {
	if err != nil {
		// The work stays in flight until it is claimed or its time is over.
		a.cfg.Log.Warn("cell did not answer a placement", "cell", c.Cell, "items", len(c.Work), "error", err)
	} else if len(refused) > 0 {
		a.refuse(&c, refused)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	c.line.busy = false
	return c.line.next()
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
			a.auction.Refuse(now, r.Hold, r.Full)
			a.stats.RefusedByCell++
			told = append(told, placement.Refused{Item: it, Refusal: placement.RefusedByCell(c.Cell, r.Reason)})
		}
	})
	if len(told) > 0 {
		a.board.Waiting(told)
	}
}
