package scheduler

import (
	"time"

	"cantina/worker"
)

// judged reports whether the nodes are known: before they were read, no task is without a node.
func (f *forest) judged() bool { return f.current() && !f.unread && !f.gone }

// endOrphans ends the orphans whose time has come. Nothing is stored: the next leader finds them again.
// The work of jobs that a file does not have any more is ended by their tombstones.
func (s *Scheduler) endOrphans() {
	s.mu.Lock()
	var kill []worker.Run
	now := s.now()
	for _, f := range s.looked {
		if at, ok := f.board.NextOrphan(); !ok || at > now.UnixMilli() || !f.judged() {
			continue
		}
		for _, o := range f.board.Orphans() {
			s.cfg.Log.Info("ending orphaned batch task", "job", o.Key.Job, "node", o.Key.Node, "reason", o.Reason)
			kill = append(kill, worker.Run{Work: worker.Work(o.Key), Invocation: o.Invocation})
		}
	}
	for name := range s.remaining(now) {
		switch j := s.jobs[name]; {
		case j == nil || j.row.orphans == nil:
			delete(s.remains, name)
		case j.row.ends(now):
			delete(s.remains, name)
			s.adoption.adopted = -1 // the next comparison ends its work
			ring(s.wake)
		}
	}
	s.mu.Unlock()
	for _, r := range kill {
		s.cfg.Registry.Kill(r)
	}
}

// remain takes the name of a job whose tombstone leaves running work for a time; the lock is held.
func (s *newest) remain(name string) {
	if s.remains == nil {
		s.remains = make(map[string]bool)
	}
	s.remains[name], s.remainAt = true, time.Time{}
}

// remaining returns the names of remains, if it is time to look at one of them.
func (s *newest) remaining(now time.Time) map[string]bool {
	if now.Before(s.remainAt) {
		return nil
	}
	return s.remains
}

// nextRemoved returns when a tombstone ends the running work of its job.
func (s *newest) nextRemoved(now time.Time) (at time.Time, ok bool) {
	if len(s.remains) == 0 {
		return at, false
	}
	if now.Before(s.remainAt) {
		return s.remainAt, true
	}
	for name := range s.remains {
		if j := s.jobs[name]; j != nil && j.row.orphans != nil && j.row.orphans.Kill {
			if due := j.row.removed.Add(j.row.orphans.After); !ok || due.Before(at) {
				at, ok = due, true
			}
		}
	}
	s.remainAt = at
	return at, ok
}
