package sim

import (
	"time"

	"cantina/bbs"
	"cantina/lrp"
	"cantina/task"
)

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
				w.check.preempted(b.r, x, e, env, after)
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
