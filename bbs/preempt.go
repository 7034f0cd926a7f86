package bbs

import (
	"cmp"
	"fmt"
	"slices"

	"cantina/fault"
	"cantina/lrp"
	"cantina/task"
)

// Preemptible is an instance that may be stopped for work of higher priority.
type Preemptible struct {
	Key lrp.Key
	lrp.Identity
	Priority int
	// Ending: it is being stopped in any case.
	Ending bool
}

// Preemptibles lists at most limit instances of services with a priority below another one, the lowest first. Their
// services run in one version and may start before they stop; the instances serve, or are being stopped.
func (q *queries) Preemptibles(below, limit int) []Preemptible {
	v := q.view
	v.mu.RLock()
	defer v.mu.RUnlock()
	var found []*lrp.Version
	for k, s := range v.services {
		if t := s.row.Target(); steadyBelow(s.row, below) && !t.StopFirst() && !v.badRows[ServiceRow(k)] {
			found = append(found, t)
		}
	}
	slices.SortFunc(found, func(a, b *lrp.Version) int {
		return cmp.Or(cmp.Compare(a.Priority(), b.Priority()), a.Service.Compare(b.Service))
	})
	var out []Preemptible
	for _, t := range found {
		for i := t.Low; i < t.High && len(out) < limit; i++ {
			x := v.indices[lrp.Key{Process: t.Process, Index: i}].row
			o := x.Ordinary
			if x.Evacuating == nil && x.Suspect == nil && (o.Serves() || o.Stopping()) {
				out = append(out, Preemptible{Key: x.Key, Identity: o.Identity, Priority: t.Priority(),
					Ending: o.Stopping()})
			}
		}
	}
	return out
}

// steadyBelow reports whether a service has a priority below another one, and no rollout.
func steadyBelow(s *lrp.Service, below int) bool {
	t := s.Target()
	return t != nil && !s.Removed && s.Instances > 0 && s.Phase == lrp.Steady && len(s.Versions) == 1 &&
		t.Priority() < below
}

// Beneficiary is work that waits for room: an instance, or a task.
type Beneficiary struct {
	Key  lrp.Key
	Task TaskID // used if Key has no process
}

// Preempt begins to stop instances, to give their room to work that waits: all of them in one commit, or none, if
// one has changed since it was listed, or the work waits no longer. The error is the reason. The work is named by its
// rows, and so is its priority.
func (ef *effects) Preempt(b Beneficiary, victims []Preemptible) error {
	return ef.changeLocked(func(t *tx) error {
		t.atomic = true
		e, err := t.preempts(b)
		if err != nil {
			return err
		}
		for try := range 2 { // first without a change: nothing is stopped if one may not be
			for _, x := range victims {
				e.By = x.Identity
				if err := t.preempt(x.Key, e, try == 1); err != nil {
					return err
				}
			}
		}
		return nil
	}, nil)
}

// preempts returns the event for the instances that make room for work, or the reason why it may stop none.
func (t *tx) preempts(b Beneficiary) (lrp.Preempt, error) {
	no := func(why string) (lrp.Preempt, error) {
		return lrp.Preempt{}, fmt.Errorf("%s: %w", why, fault.ErrConflict)
	}
	if b.Key.Process == "" {
		row := t.b.tasks.Get(b.Task.GUID)
		if row == nil || row.UID != b.Task.UID || row.State != task.Pending {
			return no("the task does not wait")
		}
		return lrp.Preempt{For: "task " + row.GUID, Priority: row.Definition.Priority()}, nil
	}
	x, env := t.b.services.Index(b.Key), t.b.services.Env(b.Key, t.now)
	switch o := x.Ordinary; {
	case o == nil || o.State != lrp.Unclaimed || !env.Wanted || env.Desired == nil:
		return no("the instance does not wait")
	case o.CrashCount >= loops:
		return no("the instance is in a restart loop")
	case x.Evacuating != nil && x.Evacuating.Moving:
		return no("the instance is being moved by a rebalance")
	}
	return lrp.Preempt{For: fmt.Sprintf("%v/%d", env.Desired.Service, b.Key.Index), Priority: env.Desired.Priority()}, nil
}

// preempt gives the event to one instance; with commit unset, it only returns the error.
func (t *tx) preempt(k lrp.Key, e lrp.Preempt, commit bool) error {
	env := t.b.services.Env(k, t.now)
	switch {
	case commit:
		return t.step(k, e)
	case env.Desired == nil || !steadyBelow(t.b.services.Service(env.Desired.Service), e.Priority):
		return lrp.ErrCannotBePreempted
	case t.b.services.Quarantined(k):
		return fault.ErrQuarantined
	}
	_, _, err := lrp.Step(t.b.services.Index(k), e, env)
	return err
}
