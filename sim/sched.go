package sim

import (
	"context"
	"time"

	"cantina/auctioneer"
	"cantina/batch"
	"cantina/event"
	"cantina/fence"
	"cantina/placement"
	"cantina/scheduler"
	disk "cantina/store"
	"cantina/worker"
)

// sched is the scheduler of one term and the turns of its loop.
type sched struct {
	*scheduler.Scheduler
	r     *reign
	awake bool // a pass is about to be made
	timer int  // of the newest pass
}

// ledger is the one ledger as the scheduler sees it.
type ledger struct {
	*auctioneer.Auctioneer
	m *market
}

// Reserve checks what is granted.
func (l ledger) Reserve(wants []placement.Want) []placement.Grant { return l.m.Reserve(wants) }

// newSched loads the scheduler from the rows as they stand when the term begins.
func newSched(r *reign) *sched {
	w := r.s.w
	return &sched{r: r, Scheduler: scheduler.New(scheduler.Config{Term: r.term, Store: termStore{r}, Registry: runs{r}, Auctioneer: ledger{r.market.house, r.market},
		Hub: &orderedHub{r: r, name: "scheduler", last: r.revision}, Clock: r.s.kernel(), NewID: func() string { return w.newID("uid-") }, NodesEvery: 20 * time.Second,
		NodesRetry: time.Second, MergeAt: 2}, w.store.rowsOf(""))}
}

// load tells the leader what the rows of jobs hold during its initial wait.
func (s *sched) load(cfg *worker.Config) {
	cfg.Jobs, cfg.HeldNodes = s.Names(), s.HeldNodes()
	for _, j := range cfg.Jobs {
		s.r.jobs[j.Name] = true
	}
	for _, n := range cfg.HeldNodes {
		s.r.nodes[n] = true
	}
}

// wake has the scheduler's loop run soon, if it was woken.
func (s *sched) wake() {
	if !s.Woken() || s.awake {
		return
	}
	s.awake = true
	s.r.s.later(s.r.s.w.between(0, shift), func() {
		s.awake = false
		s.pass()
	})
}

// pass is one turn of the scheduler's loop.
func (s *sched) pass() {
	r := s.r
	if r.over {
		return
	}
	next, ok := s.Pass(context.Background())
	for _, read := range s.Reads() {
		r.s.later(r.s.w.between(0, 20*time.Millisecond), func() {
			if !r.over {
				read(context.Background())
			}
		})
	}
	s.timer++
	if timer := s.timer; ok {
		r.s.later(next+next/100+time.Microsecond, func() {
			if s.timer == timer {
				s.pass()
			}
		})
	}
}

// turn has the loops run that were woken.
func (r *reign) turn() {
	if !r.over {
		r.market.wake()
		r.sched.wake()
	}
}

// runs is the registry as the scheduler sees it: what it answers is checked.
type runs struct{ r *reign }

// MayRun says whether a batch task may run anywhere.
func (x runs) MayRun(q worker.Request) (worker.Hold, bool) {
	if !x.r.over {
		x.r.explains(q)
	}
	return x.r.reg.MayRun(q)
}

// StartBatch starts a batch task on a cell, if it may.
func (x runs) StartBatch(q worker.Request, payload func(fence.Invocation) (batch.Payload, bool)) (fence.Invocation, worker.Hold, bool) {
	if !x.r.over {
		x.r.explains(q)
	}
	inv, hold, ok := x.r.reg.StartBatch(q, payload)
	if ok {
		x.r.s.w.check.handedOut(x.r.s.w, q, inv)
	}
	return inv, hold, ok
}

// Kill ends an invocation.
func (x runs) Kill(run worker.Run) { x.r.reg.Kill(run) }

// StatusCommitted acknowledges an end.
func (x runs) StatusCommitted(run worker.Run, kind worker.Synthetic) {
	x.r.reg.StatusCommitted(run, kind)
}

// Running returns what may be running of one work.
func (x runs) Running(work worker.Work) []worker.RunView { return x.r.reg.Running(work) }

// Model returns everything that may be running.
func (x runs) Model() []worker.RunView { return x.r.reg.Model() }

// Live returns how many invocations may be running.
func (x runs) Live() int { return x.r.reg.Live() }

// Adopted counts what reports have brought into the model.
func (x runs) Adopted() int { return x.r.reg.Adopted() }

// Idle reports that nothing of a job can be running any more.
func (x runs) Idle(job string) bool { return x.r.reg.Idle(job) }

// orderedHub takes the events of the commits of a shell.
type orderedHub struct {
	r    *reign
	name string
	last int64
}

// Publish checks that they come in the order of the commits.
func (h *orderedHub) Publish(revision int64, events ...event.Event) {
	if revision < h.last {
		h.r.s.w.fail("contract", "events of revision %d come after those of %d", revision, h.last)
	}
	h.last = revision
	for _, e := range events {
		if e.Text != "" {
			h.r.s.w.trace("  %s %v: %s: %s", h.name, h.r.term, e.Subject, e.Text)
		}
	}
}

// opsOf are a shell's rows as this store takes them.
func (r *reign) opsOf(rows []disk.Op) []op {
	all := make([]op, len(rows))
	for i, o := range rows {
		all[i].key = o.Key
		delete(r.newest, o.Key)
		if o.Value != nil {
			row := r.s.w.open(o.Key, o.Value)
			row.sameAs(r.s.w.store.rows[o.Key])
			all[i].val = row
			if row.row != nil {
				r.newest[o.Key] = row.row
			}
		}
	}
	return all
}
