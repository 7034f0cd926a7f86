package scheduler

import (
	"maps"
	"slices"
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
	for _, name := range slices.Sorted(maps.Keys(s.forests)) {
		f := s.forests[name]
		if !f.judged() {
			continue
		}
		for _, o := range f.board.Orphans() {
			s.cfg.Log.Info("ending orphaned batch task", "job", o.Key.Job, "node", o.Key.Node, "reason", o.Reason)
			kill = append(kill, worker.Run{Work: worker.Work(o.Key), Invocation: o.Invocation})
		}
	}
	now := s.now()
	for _, name := range slices.Sorted(maps.Keys(s.jobs)) {
		if j := s.jobs[name]; !j.swept && j.row.orphans != nil && j.row.ends(now) {
			j.swept, s.adoption.adopted = true, -1 // the next comparison ends its work
			ring(s.wake)
		}
	}
	s.mu.Unlock()
	for _, r := range kill {
		s.cfg.Registry.Kill(r)
	}
}

// nextRemoved returns when a tombstone ends the running work of its job.
func (s *Scheduler) nextRemoved() (at time.Time, ok bool) {
	for _, j := range s.jobs {
		if o := j.row.orphans; !j.swept && j.row.deleted && o != nil && o.Kill {
			if due := j.row.removed.Add(o.After); !ok || due.Before(at) {
				at, ok = due, true
			}
		}
	}
	return at, ok
}
