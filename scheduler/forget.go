package scheduler

import (
	"slices"
	"time"

	"cantina/batch"
	"cantina/worker"
)

// keepGone is how long the status of a node is kept that a calendar gave and that is gone; forgetEvery
// is how often such nodes are looked for, forgetAtOnce how many are forgotten in one step.
const (
	keepGone     = 7 * 24 * time.Hour
	forgetEvery  = time.Hour
	forgetAtOnce = 1000
)

// forget forgets the statuses of nodes of calendars that are long gone. One of them may still run, or its
// cell may not have reported yet: then it is kept, by the rule that would hold a start.
func (s *Scheduler) forget(forests []*forest) {
	for _, f := range forests {
		s.mu.Lock()
		before := s.now().Add(-keepGone).UnixMilli()
		found := f.board.Expired(before, forgetAtOnce)
		uids := make(map[batch.Key]string)
		for _, k := range found {
			if j := s.jobs[k.Job]; j != nil {
				uids[k] = j.row.uid
			}
		}
		s.mu.Unlock()
		found = slices.DeleteFunc(found, func(k batch.Key) bool {
			_, ok := s.cfg.Registry.MayRun(worker.Request{Work: worker.Work(k), JobUID: uids[k]})
			return !ok
		})
		s.expire(f, found, before)
	}
}

// expire forgets those that certainly do not run, and looks again soon if there are more. Their entries
// are no longer current: the segments are deleted with later ones, and loaded ones are forgotten again.
func (s *Scheduler) expire(f *forest, found []batch.Key, before int64) {
	if len(found) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range found {
		j := s.jobs[k.Job]
		if j == nil || j.forest != f || j.merging || s.ends[k] != nil {
			continue
		}
		if mark, ok := f.board.Expire(k, before); ok {
			j.segs.replaced(mark)
			s.tend(j)
			delete(j.reasons, k.Node)
		}
	}
	if len(found) == forgetAtOnce {
		f.forgetAt = 0
		s.stir(f)
		ring(s.wake)
	}
	if f.board.Sparse() {
		if err := f.board.Configure(f.board.Spec()); err != nil {
			s.failLocked(err)
		}
	}
}
