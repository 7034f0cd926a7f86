package auctioneer

import (
	"context"
	"time"

	"cantina/placement"
)

// Run places work until ctx is done, and returns when every call to a cell has
// ended.
func (a *Auctioneer) Run(ctx context.Context) error {
	defer a.working.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next, ok := a.step(ctx)
		if ok {
			timer.Reset(next)
		} else {
			timer.Stop()
		}
		select {
		case <-a.wake:
		case <-timer.C:
		case l := <-a.done:
			l.busy = false
			a.send(ctx, l)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// step runs rounds until nothing is left to place, sends what was placed, and
// returns after how long the next round is due anyway.
func (a *Auctioneer) step(ctx context.Context) (next time.Duration, ok bool) {
	for more := true; more; {
		now := a.cfg.Clock.Boot()
		a.mu.Lock()
		more = a.round(now)
		results := a.outbox
		a.outbox = nil
		next, ok = a.auction.Next()
		a.mu.Unlock()
		for i := range results {
			a.deliver(ctx, &results[i])
		}
		next -= now
	}
	return max(next, 0), ok
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

// deliver tells the board and sends the work to the cells.
func (a *Auctioneer) deliver(ctx context.Context, r *placement.Result) {
	if len(r.Refused) > 0 {
		a.board.Waiting(r.Refused)
	}
	if len(r.Expired) > 0 {
		a.board.Unanswered(r.Expired)
	}
	touched := make([]*line, 0, len(r.Placed))
	for _, p := range r.Placed {
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
		a.send(ctx, l)
	}
}

// send begins a call with all that waits for a cell, if none is under way.
func (a *Auctioneer) send(ctx context.Context, l *line) {
	if l.busy || len(l.queue) == 0 {
		return
	}
	work := l.queue
	l.queue, l.busy = nil, true
	a.working.Go(func() {
		a.perform(ctx, l, work)
		select {
		case a.done <- l:
		case <-ctx.Done():
		}
	})
}

// perform makes one call and takes its answer.
func (a *Auctioneer) perform(ctx context.Context, l *line, work []placement.Item) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.PerformTimeout)
	defer cancel()
	refused, err := a.cells.Perform(ctx, l.cell, l.process, work)
	if err != nil {
		// The work stays in flight until it is claimed or its time is over.
		a.cfg.Log.Warn("cell did not answer a placement", "cell", l.cell, "items", len(work), "error", err)
		return
	}
	if len(refused) == 0 {
		return
	}
	sent := make(map[string]placement.Item, len(work))
	for _, it := range work {
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
			told = append(told, placement.Refused{Item: it, Refusal: placement.RefusedByCell(l.cell, r.Reason)})
		}
	})
	if len(told) > 0 {
		a.board.Waiting(told)
	}
}
