package cell

import (
	"context"
	"sync"
	"time"

	"cantina/executor"
	"cantina/internal/run"
	"cantina/worker"
)

// polls is the time of the next full comparison: on a timer, when requested, and soon after a
// failed call.
type polls struct {
	clock run.Clock
	loop  *run.Loop
	mu    sync.Mutex
	now   bool          // wanted at once
	at    time.Duration // boot time; zero = at once
}

// unknownPoll is the longest pause between polls while the store does not have all work of the cell.
const unknownPoll = 5 * time.Second

// retryPause is the pause before a failed operation is retried.
const retryPause = time.Second

// due reports whether a poll is due now, or how long until then. A poll that begins is no longer
// due.
func (p *polls) due() (bool, time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Boot()
	if !p.now && now < p.at {
		return false, p.at - now
	}
	p.now, p.at = false, run.Never
	return true, 0
}

// pollIn has the next poll come within d.
func (p *polls) pollIn(d time.Duration) {
	p.mu.Lock()
	p.at = min(p.at, p.clock.Boot()+d)
	p.mu.Unlock()
	p.loop.Wake()
}

func (p *polls) pollNow() {
	p.mu.Lock()
	p.now = true
	p.mu.Unlock()
	p.loop.Wake()
}

func (p *polls) retrySoon() { p.pollIn(retryPause) }

func (c *Cell) nextPoll() (func(context.Context), time.Duration) {
	due, wait := c.polls.due()
	if !due {
		return nil, wait
	}
	return func(ctx context.Context) {
		c.poll(ctx)
		wait := c.drain.pollWait()
		if c.containers.unknown.any() { // a row may be made for it at any time
			wait = min(wait, unknownPoll)
		}
		c.polls.pollIn(wait)
	}, 0
}

// poll reads the rows first and the containers second, and checks both. While the session is NEW
// the leader has not sent its state: nothing is changed. The deadline of a drain does not wait for
// that.
func (c *Cell) poll(ctx context.Context) {
	c.endDrain()
	if state, _, _ := c.session.view(); state == worker.New || state == worker.MustDie {
		c.polls.retrySoon()
		return
	}
	rows, ok := c.rows.read(ctx, queryOf(c.exec.List()))
	if !ok {
		return
	}
	here := map[string]bool{}
	for _, ct := range c.exec.List() {
		here[ct.ID] = true
		c.look(&ct)
	}
	c.containers.keep(here)
	for _, x := range rows.LRPs {
		c.queue.Push("row "+x.Key.String(), func(ctx context.Context) { c.rows.residualLRP(ctx, x) })
	}
	for _, t := range rows.Tasks {
		c.queue.Push("row "+t.GUID, func(ctx context.Context) { c.rows.residualTask(ctx, t) })
	}
	c.countBound()
}

// queryOf requests all rows of this cell and of its containers.
func queryOf(all []executor.Container) RowsQuery {
	var q RowsQuery
	for _, ct := range all {
		switch ct.Labels[labelKind] {
		case kindLRP:
			if key, _, ok := keyOf(ct.Labels); ok {
				q.LRPs = append(q.LRPs, key)
			}
		case kindTask:
			q.Tasks = append(q.Tasks, ct.Labels[labelTask])
		}
	}
	return q
}
