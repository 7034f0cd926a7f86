package cell

import (
	"context"
	"sync"
	"time"

	"cantina/internal/run"
	"cantina/worker"
)

// polls is when the next comparison of everything is due: on a timer, when asked to,
// and soon after a call failed.
type polls struct {
	loop *run.Loop
	mu   sync.Mutex
	now  bool          // wanted at once
	at   time.Duration // boot time; zero = at once
}

// retryPause is the pause before what failed is tried again.
const retryPause = time.Second

func (c *Cell) nextPoll() (func(context.Context), time.Duration) {
	p := &c.polls
	p.mu.Lock()
	defer p.mu.Unlock()
	now := c.cfg.Clock.Boot()
	if !p.now && now < p.at {
		return nil, p.at - now
	}
	p.now, p.at = false, run.Never
	return func(ctx context.Context) {
		c.poll(ctx)
		c.pollIn(c.pollWait())
	}, 0
}

// pollIn has the next poll come within d.
func (c *Cell) pollIn(d time.Duration) {
	p := &c.polls
	p.mu.Lock()
	p.at = min(p.at, c.cfg.Clock.Boot()+d)
	p.mu.Unlock()
	p.loop.Wake()
}

func (c *Cell) pollNow() {
	p := &c.polls
	p.mu.Lock()
	p.now = true
	p.mu.Unlock()
	p.loop.Wake()
}

func (c *Cell) retrySoon() { c.pollIn(retryPause) }

// poll reads the rows first and the containers second, and looks at each of both.
// While the session is NEW the leader has not said what it knows: nothing is touched.
// The deadline of an evacuation does not wait for that.
func (c *Cell) poll(ctx context.Context) {
	c.endEvacuation()
	if state, _, _ := c.session.view(); state == worker.New || state == worker.MustDie {
		c.retrySoon()
		return
	}
	q := c.ask()
	since := c.known.now()
	rows, err := c.leader.Rows(ctx, c.session.caller(), q)
	if err != nil {
		c.log.Debug("rows", "error", err)
		c.retrySoon()
		return
	}
	c.known.read(since, q, rows)
	for _, ct := range c.exec.List() {
		c.look(ct)
	}
	for _, x := range rows.LRPs {
		c.queue.Push("row "+x.Key.String(), func(ctx context.Context) { c.residualLRP(ctx, x) })
	}
	c.residual.keep(rows)
	for _, t := range rows.Tasks {
		c.queue.Push("row "+t.GUID, func(ctx context.Context) { c.residualTask(ctx, t) })
	}
	c.countBound()
}

// ask is the query for all rows of this cell and of its containers.
func (c *Cell) ask() RowsQuery {
	var q RowsQuery
	for _, ct := range c.exec.List() {
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

// refresh reads rows afresh and reports whether that worked.
func (c *Cell) refresh(ctx context.Context, q RowsQuery) bool {
	since := c.known.now()
	rows, err := c.leader.Rows(ctx, c.session.caller(), q)
	if err != nil {
		c.log.Debug("rows", "error", err)
		c.retrySoon()
		return false
	}
	c.known.read(since, q, rows)
	return true
}
