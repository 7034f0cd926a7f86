package scheduler

import (
	"maps"
	"slices"
	"time"

	"cantina/batch"
	"cantina/event"
	"cantina/store"
	"cantina/wire"
	"cantina/worker"
)

// end is an invocation that ended and is not durable yet.
type end struct {
	key    batch.Key
	run    worker.Run
	cell   string
	report batch.Report
	kinds  []worker.Synthetic // to acknowledge
	update batch.Update
	held   bool // it was the running one: its resources are free again
	flying bool
	kill   bool // the stored intent to end it, or one before it, goes with it
	next   *end // came while this one was being committed
}

// Ended takes an end from the registry, before it is acknowledged. The status is
// committed with others, then StatusCommitted answers. An end for which there is
// nothing to store is answered at once, or behind the commit it depends on.
func (st *statuses) Ended(e worker.Ended) {
	x := &end{key: batch.Key(e.Run.Work), run: e.Run, cell: string(e.Cell), kinds: []worker.Synthetic{e.Kind}}
	st.mu.Lock()
	x.report = st.judge(&e)
	st.stats.Ended++
	st.seen(e.Run.Invocation)
	if b := st.boardOf(x.key); b != nil && b.Picked(x.key) {
		// It ended before the pass that started it could record that.
		if err := b.Started(x.key, e.Run.Invocation, x.cell); err == nil {
			st.early[e.Run.Invocation] = true
		}
	}
	st.queue(x)
	var done []*end
	if st.flying == 0 {
		done = st.flush()
	}
	st.mu.Unlock()
	st.release(done)
}

func (st *statuses) judge(e *worker.Ended) batch.Report {
	switch e.Kind {
	case worker.NeverStarted:
		return batch.NeverStarted(e.Reason)
	case worker.Lost:
		return batch.LostReport(e.Reason)
	case worker.Real:
	}
	ended, status, err := wire.DecodeBatchEnd(e.Status)
	if err != nil {
		return batch.Report{Bits: batch.Error | batch.UsesBackoff, Reason: "cannot decode the report of a cell"}
	}
	j := st.jobs[e.Run.Work.Job]
	return batch.Judge(ended, status, j != nil && j.spec != nil && j.spec.IgnoreExitCode)
}

// queue puts an end after the others of its batch task.
func (st *statuses) queue(x *end) {
	at := st.ends[x.key]
	switch {
	case at == nil:
		st.ends[x.key] = x
		st.pending = append(st.pending, x)
	case !at.flying && at.run == x.run:
		// A real end takes precedence over a synthetic one, in any order; both are answered.
		at.kinds = append(at.kinds, x.kinds...)
		if at.report.Bits&batch.Overwriteable != 0 && x.report.Bits&batch.Overwriteable == 0 {
			at.report = x.report
		}
	default:
		for at.next != nil {
			at = at.next
		}
		at.next = x
	}
}

// chunk is one segment on its way into the store.
type chunk struct {
	j      *job
	n      uint32
	ends   []*end
	edits  []batch.Update // by a person
	moved  []entry        // merged from elsewhere
	from   []uint32       // the segments they came from
	bytes  int
	data   bool
	report func(revision int64, err error)
}

// flush submits pending ends. It is called when no commit of statuses is in progress, so that
// later ends are collected. It returns ends that need no commit. The lock is held.
func (st *statuses) flush() (done []*end) {
	// Ends that waited for one without a commit are pending at once: continue.
	for st.over == nil && st.flying == 0 && len(st.pending) > 0 {
		done = append(done, st.flushOnce()...)
	}
	return done
}

func (st *statuses) flushOnce() (done []*end) {
	byJob := make(map[*job][]*end)
	var order []*job
	pending := st.pending
	st.pending = nil
	now := st.nowMilli() // a pause counts from the end, not from the last pass
	for _, x := range pending {
		j := st.jobs[x.key.Job]
		if j == nil || j.forest == nil {
			x.held = st.adoption.unowned[x.key] == x.run.Invocation
			done = append(done, x)
			continue
		}
		inv, _, runs := j.forest.board.Running(x.key)
		x.held = runs && inv == x.run.Invocation
		j.forest.board.Advance(now)
		x.update = j.forest.board.End(x.key, x.run.Invocation, x.report, int(st.cfg.Guard/time.Second))
		if !x.update.Store {
			done = append(done, x)
			continue
		}
		if byJob[j] == nil {
			order = append(order, j)
		}
		byJob[j] = append(byJob[j], x)
	}
	for _, j := range order {
		st.submitEnds(j, byJob[j])
	}
	for _, x := range done {
		st.finish(x)
	}
	return done
}

// submitEnds packs the ends of one job into segments and submits each as one
// transition.
func (st *statuses) submitEnds(j *job, ends []*end) {
	for len(ends) > 0 {
		var p packer
		c := &chunk{j: j, n: j.segs.next}
		var kills []store.Op
		for len(ends) > 0 && !p.full() && len(kills) < maxKills {
			x := ends[0]
			ends = ends[1:]
			x.flying, x.update.Mark = true, c.n
			p.add(x.key.Node, &x.update.Status, x.update.Data)
			c.ends = append(c.ends, x)
			if k, ok := j.kills[x.key.Node]; ok && k.Compare(x.run.Invocation) <= 0 {
				x.kill = true
				kills = append(kills, store.Op{Key: killKey(j.row.uid, x.key.Node)})
			}
		}
		st.submit(c, &p, kills)
	}
}

// maxKills bounds the kill rows that one transition deletes, maxDead the dead
// segments.
const maxKills, maxDead = 32, 16

// submit sends one segment to the store.
func (st *statuses) submit(c *chunk, p *packer, more []store.Op) {
	c.bytes, c.data = p.bytes, len(p.data.Items) > 0
	ops, err := p.ops(c.j.row.uid, c.n)
	if err != nil { // the messages have no required fields: only a broken program
		st.failLocked(err)
		return
	}
	ops = append(ops, more...)
	ops = append(ops, c.j.segs.reap(c.j.row.uid, maxDead)...)
	// The number is used even if the commit is still in progress.
	c.j.segs.next = c.n + 1
	st.flying++
	st.stats.Segments++
	st.cfg.Store.Submit(store.Transition{Ops: ops}, func(revision int64, err error) { st.committed(c, revision, err) })
}

// committed makes a segment effective. It runs in commit order.
func (st *statuses) committed(c *chunk, revision int64, err error) {
	if err != nil {
		st.fail(err)
		if c.report != nil {
			c.report(0, err)
		}
		return
	}
	st.mu.Lock()
	j := c.j
	j.written++
	j.segs.written(c.n, len(c.ends)+len(c.edits)+len(c.moved), c.bytes, c.data)
	var events []event.Event
	for _, x := range c.ends {
		st.apply(j, x.update)
		if x.kill { // one that was stored after the end was submitted goes with the next
			delete(j.kills, x.key.Node)
		}
		events = append(events, st.nodeEvent(j, x.key.Node))
		st.finish(x)
	}
	for _, u := range c.edits {
		st.apply(j, u)
		events = append(events, st.nodeEvent(j, u.Key.Node))
	}
	st.remark(c)
	st.tend(j)
	events = append(events, st.jobEvent(j))
	events = append(events, st.dependants(j.forest)...)
	st.flying--
	done := st.resolve()
	st.mu.Unlock()

	st.cfg.Hub.Publish(revision, events...)
	st.release(append(c.ends, done...))
	if c.report != nil {
		c.report(revision, nil)
	}
	ring(st.wake)
}

// resolve continues when no commit of statuses is in progress: first the merged ones, because they
// must not overtake an end, then the pending ones. The lock is held.
func (st *statuses) resolve() []*end {
	if st.flying > 0 {
		return nil
	}
	if st.submitMerges(); st.flying > 0 {
		return st.flushOnce() // in the order of commits behind them
	}
	return st.flush()
}

// apply makes one update effective and keeps the account of segments.
func (st *statuses) apply(j *job, u batch.Update) {
	if j.forest == nil {
		return
	}
	j.segs.replaced(j.forest.board.Apply(u))
	j.noted(u.Key.Node, &u.Status)
}

// finish removes an end; later ones are next. The lock is held.
func (st *statuses) finish(x *end) {
	delete(st.ends, x.key)
	if st.adoption.meanwhile != nil {
		st.adoption.meanwhile[x.run.Invocation] = true
	}
	if st.adoption.unowned[x.key] == x.run.Invocation {
		delete(st.adoption.unowned, x.key)
	}
	for _, f := range st.adoption.former[x.run.Invocation] {
		f.board.Forget(x.key)
	}
	delete(st.adoption.former, x.run.Invocation)
	if _, ok := st.adoption.shadows[x.run.Invocation]; ok {
		delete(st.adoption.shadows, x.run.Invocation)
		st.changed = true
	}
	if b := st.boardOf(x.key); b != nil && !x.update.Store {
		b.Apply(x.update) // returns its draws, if it was known
	} else if b != nil {
		// While the status was being committed, the name may have been born again over another forest.
		if inv, _, ok := b.Running(x.key); ok && inv == x.run.Invocation {
			b.Forget(x.key)
		}
	}
	if x.next != nil {
		st.queue(x.next)
	}
}

// release frees the room of ended invocations on their cells and acknowledges
// them. The lock is not held.
func (st *statuses) release(ends []*end) {
	if len(ends) == 0 {
		return
	}
	var holds []string
	refused := make(map[string]bool)
	for _, x := range ends {
		if x.held {
			holds = append(holds, holdID(x.key))
		}
		if !x.update.Store && x.kinds[0] == worker.NeverStarted {
			refused[x.cell] = true
		}
	}
	for _, cell := range slices.Sorted(maps.Keys(refused)) {
		st.cfg.Auctioneer.Rest(cell)
	}
	if len(holds) > 0 {
		st.cfg.Auctioneer.Release(holds...)
	}
	for _, x := range ends {
		for _, kind := range x.kinds {
			st.cfg.Registry.StatusCommitted(x.run, kind)
		}
	}
	st.ended(ends)
	ring(st.wake)
}

// ended has the next pass look at the tombstones whose work has ended.
func (st *statuses) ended(ends []*end) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.tombs) == 0 {
		return
	}
	for _, x := range ends {
		if j := st.jobs[x.key.Job]; j != nil {
			st.tend(j)
		}
	}
}
