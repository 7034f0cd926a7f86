package sim

import (
	"slices"
	"time"

	"cantina/action"
	"cantina/lrp"
	"cantina/plan"
	"cantina/schedule"
	"cantina/scheduler"
	"cantina/task"
	"cantina/timetable"
	"cantina/worker"
)

func newPlanCheck() planCheck {
	return planCheck{runs: map[string]planRun{}, sent: map[firedKey]int{}, called: map[firedKey]map[string]int{}}
}

// logical finds the schedule and the logical time in the environment of a program.
func logical(env []action.Variable) (k schedule.Key, at time.Time, ok bool) {
	for _, v := range env {
		switch v.Name {
		case "CANTINA_SCHEDULED_AT":
			at, _ = time.Parse(time.RFC3339Nano, v.Value)
		case "CANTINA_SCHEDULE":
			k, ok = timetable.ParseKey(v.Value), true
		}
	}
	return k, at, ok
}

// schedule returns the committed definition of a schedule, nil without one.
func (s *storage) schedule(k schedule.Key) *schedule.Row {
	if x, ok := s.rows[timetable.RowOf(k)].(*saved); ok {
		return x.row.(timetable.Stored).Definition
	}
	return nil
}

// state returns the committed state of a schedule.
func (s *storage) state(k schedule.Key) (timetable.Stored, bool) {
	x, ok := s.rows[timetable.StateOf(k)].(*saved)
	if !ok {
		return timetable.Stored{}, false
	}
	return x.row.(timetable.Stored), true
}

// committing checks I12 on a row that is about to become durable.
func (p *plans) committing(o op) {
	x, ok := o.val.(*saved)
	if !ok || p.w.cfg.Schedules == 0 {
		return
	}
	switch row := x.row.(type) {
	case *task.Task:
		was := p.w.store.task(row.GUID)
		found := was != nil && was.State == task.Pending && row.State == task.Running // it gets its container's uid
		if was == nil || was.UID != row.UID && !found {
			p.taskMade(row)
		}
	case scheduler.Row:
		if row.Job != nil && !row.Job.Deleted {
			p.jobMade(row.Job, x.at)
		}
	case timetable.Stored:
		if row.State != nil {
			p.moved(&row)
		}
	}
}

// start: a logical time of a schedule starts something once.
func (p *plans) start(uid string, at time.Time, what string) {
	p.fired++
	f := firedKey{uid, at.UnixNano()}
	if was, twice := p.w.store.rows[f]; twice {
		p.w.fail("I12", "%v of schedule %s starts %s, and started %v", at.UTC(), uid, what, was)
	}
	p.w.store.rows[f] = what
}

func (p *plans) taskMade(t *task.Task) {
	k, at, ok := logical(t.Definition.Workload.Env)
	if !ok {
		return
	}
	row := p.w.store.schedule(k)
	if row == nil {
		p.w.fail("I12", "%s is a run of %v, which is not durable", t.GUID, k)
		return
	}
	most := 1
	if row.Definition.Overlap == schedule.OverlapAllow {
		most = row.Definition.Max
	}
	p.orders++
	p.runs[t.UID] = planRun{row.UID, most, p.orders}
	p.start(row.UID, at, t.GUID)
}

func (p *plans) jobMade(j *scheduler.JobRecord, decided time.Duration) {
	was := p.w.check.jobs.jobs[j.Name]
	k, at, ok := logical(j.Spec.Workload.Env)
	if !ok || was != nil && was.UID == j.UID {
		return
	}
	row := p.w.store.schedule(k)
	if row == nil {
		p.w.fail("I12", "job %s is a run of %v, which is not durable", j.Name, k)
		return
	}
	p.start(row.UID, at, j.UID)
	p.born(was, j, row, decided)
}

// born: a job is created again by its schedule only if the earlier round is over, whoever started
// it, except with replace. A change that undoes an end counts when the scheduler knows that it is
// durable: until then a user's request and a firing are concurrent.
func (p *plans) born(was, is *scheduler.JobRecord, row *schedule.Row, decided time.Duration) {
	if was == nil || was.Deleted || row.Definition.Overlap != schedule.OverlapForbid {
		return
	}
	if at, ok := p.w.check.jobs.reopened[was.UID]; ok &&
		(decided <= at+20*time.Millisecond || slices.ContainsFunc(p.w.servers,
			func(s *server) bool { return s.paused >= at })) {
		return
	}
	for n := range p.w.cfg.Nodes {
		if st, _ := p.w.check.jobs.of(worker.Work{Job: is.Name, Node: node(n)}); !over(st) {
			p.w.fail("I12", "job %s is born again and node %d is at %+v", is.Name, n, st)
		}
	}
}

// moved: the cursor of a schedule goes back only at a reset. The firings of a signal's schedule
// are known from its state alone.
func (p *plans) moved(is *timetable.Stored) {
	was, ok := p.w.store.state(is.Key)
	reset := func(e schedule.Entry) bool { return e.Decision == schedule.Reset }
	if ok && was.UID == is.UID && is.State.Cursor.Before(was.State.Cursor) &&
		!slices.ContainsFunc(is.State.History, reset) {
		p.w.fail("I12", "the cursor of %v goes back from %v to %v", is.Key, was.State.Cursor, is.State.Cursor)
	}
	if row := p.w.store.schedule(is.Key); row == nil || row.UID != is.UID || row.Definition.Signal == nil {
		return
	}
	n := is.State.Fired
	if ok && was.UID == is.UID {
		n -= was.State.Fired
	}
	for _, e := range fired(is.State.History, n) {
		p.start(is.UID, e.At, "a signal")
	}
}

// fired are the newest n entries of a history that record a start or a signal.
func fired(h []schedule.Entry, n int) (out []schedule.Entry) {
	for i := len(h) - 1; i >= 0 && len(out) < n; i-- {
		if h[i].Decision == schedule.Started || h[i].Decision == schedule.Sent {
			out = append(out, h[i])
		}
	}
	return out
}

// committed: work that the newest entry of a history records as started was started by then.
func (p *plans) committed(ops []op) {
	if p.w.cfg.Schedules == 0 {
		return
	}
	for _, o := range ops {
		x, ok := o.val.(*saved)
		if !ok {
			continue
		}
		r, ok := x.row.(timetable.Stored)
		if !ok || r.State == nil || r.State.Fired == 0 {
			continue
		}
		for _, e := range fired(r.State.History, 1) {
			if _, started := p.w.store.rows[firedKey{r.UID, e.At.UnixNano()}]; !started {
				p.w.fail("I12", "the history of %v says of %v %q, and nothing was started", r.Key, e.At, e.String())
			}
		}
	}
}

// begun checks the overlap policy when the container of a task begins: with each running task, at
// most as many tasks of the same schedule run that were decided before it as it was permitted.
// After a restore only the content of the copy counts.
func (p *plans) begun(u *unit) {
	b, ok := p.runs[u.uid]
	if !ok || u.made < p.restored {
		return
	}
	for _, x := range p.w.check.work.units {
		is, ok := p.runs[x.uid]
		if !ok || is.schedule != b.schedule || x.made < p.restored {
			continue
		}
		n := 0
		for _, o := range p.w.check.work.units {
			if of := p.runs[o.uid]; of.schedule == b.schedule && of.order <= is.order && o.made >= p.restored {
				n++
			}
		}
		if n > is.most {
			p.w.fail("I12", "%v begins: %d of %s run, and %v was to be one of at most %d", u, n, b.schedule, x, is.most)
		}
	}
}

// signalled: a signal is sent once.
func (p *plans) signalled(r *leadership, s timetable.Sending) {
	f := firedKey{s.UID, s.At.UnixNano()}
	p.w.trace("leader %v sends the signal of %s for %v", r.term, s.UID, s.At)
	if _, known := p.w.store.rows[f]; known || r.made >= p.restored {
		// otherwise a restore has removed it from the store since
		p.sent[f]++
	}
	if p.sent[f] > 1 {
		p.w.fail("I12", "the signal of %s for %v is sent a second time", s.UID, s.At)
	}
}

// calls: each instance is called once for it.
func (p *plans) calls(s timetable.Sending, a *lrp.Actual) {
	f := firedKey{s.UID, s.At.UnixNano()}
	if p.called[f] == nil {
		p.called[f] = map[string]int{}
	}
	if p.called[f][a.Instance]++; p.called[f][a.Instance] > 1 && p.sent[f] > 0 {
		p.w.fail("I12", "instance %s is called a second time for the signal of %s for %v", a.Instance, s.UID, s.At)
	}
}

// back follows a restore: events after the copy are unknown.
func (p *plans) back() {
	for f := range p.sent {
		if _, known := p.w.store.rows[f]; !known {
			delete(p.sent, f)
			delete(p.called, f)
		}
	}
	p.restored = p.w.store.made
}

// liveness: after the faults no firing stays undecided, and visible state is durable. Other checks
// verify that all runs of tasks and jobs have ended.
func (p *plans) liveness(r *leadership) {
	if p.w.cfg.Schedules == 0 {
		return
	}
	all, more := r.times.List(plan.NameFilter{}, schedule.Key{}, 1000)
	if more || len(all) != r.times.Len() {
		p.w.fail("I14", "%d of %d schedules are listed", len(all), r.times.Len())
	}
	for _, v := range all {
		state, fine, why, err := r.times.Explain(v.Key)
		if len(v.State.Pending) > 0 || v.Problem != "" || err != nil {
			p.w.fail("I14", "%v is still undecided: %+v, %q %v %v %+v, %v", v.Key, v.State.Pending, v.Problem, state, fine, why,
				err)
		}
		row := p.w.store.schedule(v.Key)
		stored, ok := p.w.store.state(v.Key)
		if row == nil || row.UID != v.UID || !ok {
			p.w.fail("I14", "%v is not durable", v.Key)
			continue
		}
		st, shown := schedule.Forgotten(*stored.State), schedule.Forgotten(v.State)
		shown.History = slices.Clone(shown.History[max(0, len(shown.History)-schedule.MaxHistory):])
		for i := range shown.History {
			shown.History[i].When = shown.History[i].When.Truncate(time.Millisecond) // as it is stored
		}
		if !st.Equal(&shown) {
			p.w.fail("I14", "the state of %v is not durable: %+v, shown %+v", v.Key, st, shown)
		}
	}
}
