package sim

import (
	"time"

	"cantina/batch"
	"cantina/schedule"
	"cantina/scheduler"
	"cantina/worker"
)

// begun checks the overlap policy when a container begins: with each that runs, no more
// of the same schedule run that were decided before it than it was allowed beside.
func (p *plans) begun(b *box) {
	p.ended()
	running := []*box{b}
	for _, guid := range p.guids() {
		if o := p.boxes[guid]; o.schedule == b.schedule && !o.unknown {
			running = append(running, o)
		}
	}
	for _, x := range running {
		n := 0
		for _, o := range running {
			if o.order <= x.order {
				n++
			}
		}
		if n > x.most {
			p.w.fail("I12", "%s begins: %d of %s run, and %s was to be one of at most %d", b.guid, n, b.schedule, x.guid, x.most)
		}
	}
	if o := p.boxes[b.guid]; o != nil && !o.unknown {
		p.w.fail("I1", "the container of %s begins a second time", b.guid)
	}
	p.w.trace("%s: %s begins", b.m.name, b.guid)
}

// committing checks I12 on what is about to become durable: a logical time of a schedule
// starts something once, and its cursor never goes back.
func (p *plans) committing(o op) {
	rows := p.w.store.rows
	switch k := o.key.(type) {
	case firedKey:
		p.fired++
		if was, twice := rows[k]; twice {
			p.w.fail("I12", "%v of schedule %s starts %v, and started %v", time.Unix(0, k.at).UTC(), k.uid, o.val, was)
		}
	case scheduleKey:
		was, _ := rows[k].(*schedule.Row)
		is, _ := o.val.(*schedule.Row)
		if was != nil && is != nil && was.UID == is.UID && is.State.Cursor.Before(was.State.Cursor) {
			p.w.fail("I12", "the cursor of %s goes back from %v to %v", k.name, was.State.Cursor, is.State.Cursor)
		}
	}
}

// born: a job is born again by its schedule only when the earlier round is over, but with
// replace. What a removed schedule of that name started is not waited for.
func (p *plans) born(was, is *scheduler.JobRecord) {
	row, _ := p.w.store.rows[scheduleKey{is.Name}].(*schedule.Row)
	if row == nil || was == nil || was.Deleted || is.Deleted || was.UID == is.UID || was.Spec.Owner != row.UID || row.Definition.Overlap != schedule.OverlapForbid || row.Definition.Job == nil {
		return
	}
	for n := range p.w.cfg.Nodes {
		if st, _ := p.w.check.jobs.of(worker.Work{Job: is.Name, Node: node(n)}); st.Bits&(batch.Done|batch.Failed) == 0 {
			p.w.fail("I12", "job %s is born again and node %d is at %+v", is.Name, n, st)
		}
	}
}

// back follows a restore: what happened after the copy is not known any more.
func (p *plans) back() {
	for _, b := range p.boxes {
		b.unknown = true
	}
	for f := range p.sent {
		if _, known := p.w.store.rows[f]; !known {
			delete(p.sent, f)
		}
	}
	p.restored = p.w.store.made
}

// erased reports that a leader has a firing committed that a restore has taken out of the
// store since: the answer to the commit came after the restore.
func (p *plans) erased(r *reign, f firedKey) bool {
	_, known := p.w.store.rows[f]
	return r.made < p.restored && !known
}

// liveness: after the faults nothing stays undecided, and nothing counts as running.
func (p *plans) liveness(r *reign) {
	if p.w.cfg.Schedules == 0 {
		return
	}
	for _, k := range r.times.board.Keys() {
		row, _ := r.times.board.Get(k)
		if len(row.State.Pending) > 0 {
			p.w.fail("I14", "%v of %v is still undecided, live %v", row.State.Pending, k, row.State.Live)
		}
		stored, _ := p.w.store.rows[scheduleKey{k.Name}].(*schedule.Row)
		if stored == nil {
			p.w.fail("I14", "%v is not durable", k)
			continue
		}
		if st := schedule.Forgotten(stored.State); !st.Equal(&row.State) {
			p.w.fail("I14", "the state of %v is not durable", k)
		}
	}
	for guid, x := range r.times.tasks {
		if !x.Ended() {
			p.w.fail("I14", "%s is still %v", guid, x.State)
		}
	}
}
