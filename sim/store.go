package sim

import (
	"maps"
	"strings"

	"cantina/fence"
	"cantina/registry"
	"cantina/worker"
	"cantina/workerset"
)

func newStore(w *world) *storage {
	return &storage{w: w, snapshot: snapshot{rows: map[any]any{}, epoch: 1}, lease: -1, fresh: true}
}

func (s *storage) free() bool { return s.lease < 0 || s.expires <= s.w.now }

// campaign gives a free lease to a server, with a fresh create revision.
func (s *storage) campaign(server, id int) (fence.Term, bool) {
	if !s.free() {
		return fence.Term{}, false
	}
	s.revision++
	t := fence.Term{Epoch: s.epoch, Revision: s.revision}
	if !s.term.Less(t) {
		return fence.Term{}, false
	}
	s.lease, s.leaseID, s.expires, s.term = server, id, s.w.now+leaseTTL, t
	return t, true
}

func (s *storage) keepAlive(server, id int) bool {
	if s.lease != server || s.leaseID != id || s.free() {
		return false
	}
	s.expires = s.w.now + leaseTTL
	return true
}

// commit applies a transition when head and election key are the sender's.
func (s *storage) commit(server, id int, term fence.Term, ops []op) bool {
	if s.term != term || s.lease != server || s.leaseID != id || s.free() {
		return false
	}
	if len(ops) > 0 {
		s.revision++
	}
	for _, o := range ops {
		s.w.plans.committing(o)
		if o.key == (restoredKey{}) {
			s.restored = false
			continue
		}
		if x, ok := o.val.(*saved); ok {
			x.revision = s.revision
		}
		if s.w.boards() {
			s.w.check.stored(s.w, o)
		}
		if text, ok := o.key.(string); ok {
			s.w.check.jobStored(s.w, text, o.val)
		}
		if o.val == nil {
			delete(s.rows, o.key)
		} else {
			s.rows[o.key] = o.val
		}
	}
	if len(ops) > 0 {
		s.w.check.committed(s.w, ops)
		s.w.plans.committed(ops)
	}
	return true
}

func (s *storage) copy() snapshot {
	return snapshot{rows: maps.Clone(s.rows), restored: s.restored, epoch: s.epoch}
}

// back restores an older copy, or moves the store as it is: the epoch grows, and no process holds
// a lease.
func (s *storage) back(c snapshot, restored bool) {
	epoch := s.epoch
	s.snapshot = snapshot{rows: maps.Clone(c.rows), restored: restored || c.restored, epoch: epoch + 1}
	s.term = fence.Term{Epoch: s.epoch}
	s.lease, s.made, s.began = -1, s.made+1, s.revision+1
	if restored {
		s.w.plans.back()
		s.older = nil
	}
}

func (s *storage) list() workerset.ID {
	if x, ok := s.rows[registry.ListRow].(*saved); ok {
		return x.row.(workerset.ID)
	}
	return workerset.ID{}
}

// memberOf is the process whose member row has the key.
func memberOf(key any) (worker.Proc, bool) {
	text, ok := key.(string)
	if !ok {
		return "", false
	}
	proc, ok := strings.CutPrefix(text, registry.MemberRow(""))
	return worker.Proc(proc), ok
}
