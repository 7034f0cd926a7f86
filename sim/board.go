package sim

import (
	"maps"
	"slices"
	"time"

	"cantina/bbs"
	"cantina/leader"
	"cantina/lrp"
	"cantina/task"
)

// board is the bulletin board of one term, the shell itself, with the drains that it commits.
type board struct {
	*bbs.BBS
	r      *leadership
	drains *leader.Drains
	full   time.Duration // of the last pass over everything
	next   time.Duration // of a pass that is planned; 0 = none
	off    time.Duration // how far the server's wall clock was off when the term began
}

// The settings of the boards: short, so that much happens.
const (
	resend       = 5 * time.Second
	fullPass     = 15 * time.Second
	pendingBound = 10 * time.Minute
	keepTasks    = 3
)

func taskPolicy() task.Policy {
	return task.Policy{Retention: 10 * time.Minute, KeepPerDomain: keepTasks, Kick: resend,
		StuckResolving: 4 * time.Second}
}

// epoch is where all wall clocks begin.
func epoch() time.Time { return firstWall() }

// watch traces each decision of the board, and checks that it keeps the invariants of an index.
func (b *board) watch() bbs.Watch {
	w := b.r.s.w
	return bbs.Watch{
		Index: func(x lrp.Index, e lrp.Event, env lrp.Env, after lrp.Index, err error) {
			switch {
			case w.cfg.Trace == nil:
			case err != nil:
				w.trace("  board %v: %T%v: %v", b.r.term, e, e, err)
			case after != x:
				w.trace("  board %v: %T%v: %s → %s", b.r.term, e, e, describe(x), describe(after))
			}
			if err == nil {
				w.check.decided(w, x, e, env, after)
			}
		},
		Task: func(t *task.Task, e task.Event, after *task.Task, err error) {
			if x, ok := e.(task.Reject); ok && x.Never {
				b.r.joined(t)
			}
			switch {
			case w.cfg.Trace == nil:
			case err != nil:
				w.trace("  board %v: %T%v: %v", b.r.term, e, e, err)
			case after != t:
				w.trace("  board %v: %T%v: %s → %s", b.r.term, e, e, describeTask(t), describeTask(after))
			}
			if err == nil && after != t {
				w.check.reported(b.r, e, after)
			}
		},
	}
}

// pass makes the board handle due work, and sometimes all rows, and plans the next pass if it
// comes before the next tick.
func (b *board) pass() {
	if b.r.over {
		return
	}
	now := b.r.s.local()
	all := now-b.full >= fullPass
	if all {
		b.full = now
	}
	b.Pass(all)
	if wait := b.UntilDue(); !b.r.over && wait < b.r.t.Check && now+wait != b.next {
		b.next = now + wait
		b.r.s.later(max(wait, time.Millisecond), b.pass)
	}
}

// Send implements bbs.Callbacks: it delivers the end of a task, or fails to.
func (b *board) Send(t *task.Task) bool {
	if b.r.stops() {
		return true
	}
	w := b.r.s.w
	b.r.s.later(w.between(time.Millisecond, 6*time.Second), func() {
		if b.r.over {
			return
		}
		if w.calm || w.chance(700) {
			b.CallbackDone(t.Delivery(), true, "")
		} else {
			b.CallbackDone(t.Delivery(), false, "nobody listens")
		}
	})
	return true
}

// now is the wall clock of the board: within its term it does not step.
func (b *board) now() time.Time { return b.r.s.wall.Add(b.r.s.local() + b.off) }

// rows are the decoded rows of a board: as they are committed, or as the leader has
// submitted them.
type rows struct {
	services []*lrp.Service
	versions map[string]*lrp.Version // by process guid
	indices  []lrp.Index
	tasks    []*task.Task
}

// wants reports whether a service wants an index.
func (r *rows) wants(k lrp.Key) bool {
	v := r.versions[k.Process]
	return v != nil && v.Wants(k.Index)
}

func (r *rows) add(row any) {
	switch x := row.(type) {
	case *lrp.Service:
		r.services = append(r.services, x)
		for i := range x.Versions {
			r.versions[x.Versions[i].Process] = &x.Versions[i]
		}
	case lrp.Index:
		r.indices = append(r.indices, x)
	case *task.Task:
		r.tasks = append(r.tasks, x)
	}
}

// work returns all committed rows of services and tasks, in order of their keys.
func (s *storage) work() *rows {
	out := &rows{versions: map[string]*lrp.Version{}}
	for _, key := range s.texts() {
		out.add(s.rows[key].(*saved).row)
	}
	return out
}

// work returns all rows of services and tasks as they are submitted.
func (r *leadership) work() *rows {
	out := &rows{versions: map[string]*lrp.Version{}}
	for _, key := range slices.Sorted(maps.Keys(r.newest)) {
		out.add(r.newest[key])
	}
	return out
}

// index and task return committed rows.
func (s *storage) index(k lrp.Key) lrp.Index {
	if x, ok := s.rows[bbs.IndexRow(k)].(*saved); ok {
		if x, ok := x.row.(lrp.Index); ok {
			return x
		}
	}
	return lrp.Index{Key: k}
}

func (s *storage) task(guid string) *task.Task {
	if x, ok := s.rows[bbs.TaskRow(guid)].(*saved); ok {
		t, _ := x.row.(*task.Task)
		return t
	}
	return nil
}

// task returns the newest row.
func (r *leadership) task(guid string) *task.Task {
	t, _ := r.newest[bbs.TaskRow(guid)].(*task.Task)
	return t
}
