package auctioneer

import (
	"context"
	"slices"
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

// Loop is the loop that Run drives, for callers without goroutines.
func (a *Auctioneer) Loop() *run.Loop { return a.loop }

// next reports whether a pass is due, or for how long none is.
func (a *Auctioneer) next() (do func(context.Context), pause time.Duration) {
	now := a.cfg.Clock.Boot()
	a.lock()
	defer a.unlock()
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
	calls, placed := a.pass()
	if a.cfg.Runtime.Watch != nil && len(placed) > 0 {
		a.cfg.Runtime.Watch(placed)
	}
	for _, c := range calls {
		a.cfg.Runtime.Go(func() { a.perform(ctx, c) })
	}
}

// perform makes a call, and those whose turn comes when one has ended.
func (a *Auctioneer) perform(ctx context.Context, c Call) {
	for more := true; more && ctx.Err() == nil; {
		refused, err := a.cells.Perform(ctx, c.Cell, c.Process, c.Work)
		c, more = a.answered(c, refused, err)
	}
}

// pass runs one round, and reports waiting work to the board; another pass follows if there is more
// to place. It returns the calls to make now, at most one to each cell process at a time and at most
// Config.Calls in all, and the cells that work was placed on.
func (a *Auctioneer) pass() (calls []Call, placed []string) {
	now := a.cfg.Clock.Boot()
	a.lock()
	a.woken = a.round(now)
	results := a.outbox
	a.outbox = nil
	var starving []placement.Item
	if a.cfg.Starved != nil && !a.woken {
		starving = a.auction.Starving(now)
	}
	due, ok := a.auction.Next()
	if a.due = due; !ok {
		a.due = run.Never
	}
	for i := range results {
		a.queue(results[i].Placed)
		for _, p := range results[i].Placed {
			placed = append(placed, p.Cell)
		}
	}
	a.askAgain(now)
	for c, ok := a.take(now); ok; c, ok = a.take(now) {
		calls = append(calls, c)
	}
	a.unlock()
	for i := range results {
		a.report(&results[i])
	}
	if len(starving) > 0 {
		a.cfg.Starved(starving)
	}
	return calls, placed
}

// round runs one round into the outbox; the lock is held.
func (a *Auctioneer) round(now time.Duration) (more bool) {
	r := a.auction.Round(now)
	a.stats.Rounds++
	a.stats.Placed += len(r.Placed)
	a.stats.Refused += len(r.Refused)
	a.stats.Unanswered += len(r.Expired)
	a.stats.LastRound = a.cfg.Clock.Boot() - now
	measure(&a.cfg, &r, a.stats.LastRound)
	if r.Woken {
		ring(a.room)
	}
	if len(r.Placed)+len(r.Refused)+len(r.Expired) > 0 {
		a.outbox = append(a.outbox, r)
	}
	return r.More
}

func measure(cfg *Config, r *placement.Result, took time.Duration) {
	if cfg.Round != nil {
		cfg.Round(took)
	}
	if cfg.Placed != nil {
		for i := range r.Placed {
			cfg.Placed(&r.Placed[i])
		}
	}
}

// report reports to the board the work that a round did not place.
func (a *Auctioneer) report(r *placement.Result) {
	if len(r.Refused) > 0 {
		a.board.Waiting(r.Refused)
	}
	if len(r.Expired) > 0 {
		a.board.Unanswered(r.Expired)
	}
}

// queue puts placed work into the queues of its cells. The lock is held.
func (a *Auctioneer) queue(placed []placement.Placement) {
	for _, p := range placed {
		l := a.cellQueues[p.Cell]
		if l == nil || l.process != p.Process {
			// A successor of the process gets its own queue; waiting work of the other is reported as
			// unanswered.
			l = &cellQueue{cell: p.Cell, process: p.Process}
			a.cellQueues[p.Cell] = l
		}
		if l.queue = append(l.queue, p); l.state == idle {
			a.makeReady(l)
		}
	}
}

func (a *Auctioneer) makeReady(l *cellQueue) {
	l.state = ready
	a.ready = append(a.ready, l)
}

// askAgain repeats the due calls that had no response. The lock is held.
func (a *Auctioneer) askAgain(now time.Duration) {
	still := a.silent[:0]
	for _, l := range a.silent {
		if l.again > now {
			still = append(still, l)
			a.due = min(a.due, l.again)
			continue
		}
		a.makeReady(l)
	}
	clear(a.silent[len(still):])
	a.silent = still
}

// take is the next call, if one may be made. Work that was withdrawn since is left out. The lock is held.
func (a *Auctioneer) take(now time.Duration) (Call, bool) {
	for len(a.ready) > 0 && a.underWay < a.cfg.Calls {
		l := a.ready[0]
		a.ready[0] = nil
		a.ready = a.ready[1:]
		work := a.stillOut(l)
		for len(l.queue) > 0 && len(work) < a.cfg.CallItems {
			if p := &l.queue[0]; a.auction.Send(p, now) {
				work = append(work, *p.Item)
			}
			l.queue = l.queue[1:]
		}
		if len(work) == 0 {
			a.rest(l)
			continue
		}
		l.state = busy
		a.underWay++
		return Call{Cell: l.cell, Process: l.process, Work: work, cellQueue: l}, true
	}
	return Call{}, false
}

// stillOut takes unanswered work out of a queue, except confirmed and expired work.
func (a *Auctioneer) stillOut(l *cellQueue) []placement.Item {
	out := slices.DeleteFunc(l.unanswered, func(it placement.Item) bool {
		placedAgain := slices.ContainsFunc(l.queue, func(q placement.Placement) bool { return q.Item.Hold == it.Hold })
		return placedAgain || !a.auction.Flies(it.Hold, l.process)
	})
	l.unanswered = nil
	return out
}

// rest is a queue without a call; one without work is forgotten. The lock is held.
func (a *Auctioneer) rest(l *cellQueue) {
	l.state = idle
	if len(l.queue) > 0 {
		a.makeReady(l)
	} else if a.cellQueues[l.cell] == l {
		delete(a.cellQueues, l.cell)
	}
}

// answered takes the answer to a call, once; an err is none. It returns the next call,
// when there is one to be made.
func (a *Auctioneer) answered(c Call, refused []Refusal, err error) (next Call, more bool) {
	if len(refused) > 0 && err == nil {
		a.refuse(&c, refused)
	}
	now := a.cfg.Clock.Boot()
	a.lock()
	defer a.unlock()
	l := c.cellQueue
	a.underWay--
	if err == nil {
		l.tries = 0
		a.rest(l)
		return a.take(now)
	}
	for i := range l.queue {
		a.auction.Send(&l.queue[i], now) // if the cell does not answer in time, it is placed elsewhere
	}
	// The work stays in flight until the cell has it or its time is over; the cell gets no other meanwhile.
	wait := min(time.Second<<min(l.tries, 4), maxAgain)
	l.unanswered, l.again = c.Work, now+wait
	l.tries++
	l.state = silent
	a.silent = append(a.silent, l)
	a.auction.RestFor(now, wait+time.Second, c.Cell, "it did not answer the last placement")
	a.wake()
	a.cfg.Log.Warn("cell did not answer a placement", "cell", c.Cell, "items", len(c.Work), "try", l.tries, "error", err)
	return a.take(now)
}

// maxAgain is how long a call without an answer waits at most before it is made again.
const maxAgain = 10 * time.Second

// refuse carries over work that a cell refused, and reports it to the board.
func (a *Auctioneer) refuse(c *Call, refused []Refusal) {
	sent := make(map[string]placement.Item, len(c.Work))
	for _, it := range c.Work {
		sent[it.Hold] = it
	}
	var reported []placement.Refused
	now := a.cfg.Clock.Boot()
	a.lock()
	for _, r := range refused {
		it, ok := sent[r.Hold]
		if !ok {
			continue // nothing that was sent: remote input harms nothing
		}
		delete(sent, r.Hold)
		a.auction.Refuse(now, r.Hold, r.Full, r.Reason)
		a.stats.RefusedByCell++
		reported = append(reported, placement.Refused{Item: it, Refusal: placement.RefusedByCell(c.Cell, r.Reason)})
	}
	a.wake()
	a.unlock()
	if len(reported) > 0 {
		a.board.Waiting(reported)
	}
}
