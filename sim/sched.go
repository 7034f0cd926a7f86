package sim

import (
	"context"
	"time"

	"cantina/batch"
	"cantina/fence"
	"cantina/scheduler"
	"cantina/worker"
)

// load records the nodes that the rows of jobs hold during the initial wait.
func (s *sched) load() {
	for _, j := range s.Names() {
		s.r.jobs[j.Name] = true
	}
	for _, n := range s.HeldNodes() {
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
func (r *leadership) turn() {
	if !r.over {
		r.sched.wake()
	}
}

// runs is the registry as the scheduler sees it: its responses are checked.
type runs struct {
	scheduler.Registry
	r *leadership
}

// MayRun reports whether a batch task may run anywhere.
func (x runs) MayRun(q worker.Request) (worker.Hold, bool) {
	if !x.r.over {
		x.r.explains(q)
	}
	return x.Registry.MayRun(q)
}

// StartBatch starts a batch task on a cell, if it may.
func (x runs) StartBatch(q worker.Request, payload func(fence.Invocation) (batch.Payload, bool)) (fence.Invocation,
	worker.Hold, bool) {
	if !x.r.over {
		x.r.explains(q)
	}
	inv, hold, ok := x.Registry.StartBatch(q, payload)
	if ok {
		x.r.sched.comesAfter(q.Work.Job)
		x.r.s.w.check.handedOut(x.r.s.w, x.r, q, inv)
	}
	return inv, hold, ok
}

// comesAfter checks that a job which starts comes after jobs that are done on all nodes.
func (s *sched) comesAfter(name string) {
	v, err := s.Job(name)
	if err != nil || s.r.over {
		return
	}
	for _, before := range v.Job.After {
		b, err := s.Job(before)
		if err != nil || b.Removed || b.Progress.State != batch.JobDone && b.Progress.State != batch.JobEmpty {
			s.r.s.w.fail("gate", "%s starts, and comes after %s, which is %+v (%v)", name, before, b.Progress, err)
		}
	}
}
