package sim

import (
	"errors"
	"time"

	"cantina/lrp"
	"cantina/task"
	"cantina/worker"
)

// tx is one change of the newest rows: one transition, and what follows from it.
type tx struct {
	b       *board
	now     time.Time
	indices []indexChange
	tasks   []taskChange
	others  []otherChange
	stopped []lrp.ServiceKey // whose surplus is to be stopped
	lrps    []lrp.Effect
	effects []task.Effect
}

type indexChange struct{ before, after lrp.Index }

type taskChange struct {
	guid          string
	before, after *task.Task
}

// otherChange is a row of a service or a drain; show tells readers.
type otherChange struct {
	op   op
	show func()
}

func (b *board) begin() *tx { return &tx{b: b, now: b.now()} }

// step gives one event to one index.
func (t *tx) step(k lrp.Key, e lrp.Event) error {
	b := t.b
	w := b.r.s.w
	env := b.services.Env(k, t.now)
	if c, ok := e.(lrp.Claim); ok {
		exclusive := env.Desired != nil && env.Desired.Exclusive
		env.Eligible = b.mayStart(c.By.Cell, c.By.Proc) && !(exclusive && b.blind())
	}
	before := b.services.Index(k)
	after, effects, err := w.cfg.rules.step(before, e, env)
	if err != nil {
		w.trace("  board %v: %T%v: %v", b.r.term, e, e, err)
		return err
	}
	if err := lrp.Check(after); err != nil {
		w.fail("I3", "%T%v: %v", e, e, err)
	}
	t.lrps = append(t.lrps, effects...)
	if after == before {
		return nil
	}
	w.trace("  board %v: %T%v: %s → %s", b.r.term, e, e, describe(before), describe(after))
	b.services.PutIndex(after)
	for i := range t.indices {
		if t.indices[i].after.Key == k {
			t.indices[i].after = after
			return nil
		}
	}
	t.indices = append(t.indices, indexChange{before, after})
	return nil
}

// stepTask gives one event to one task.
func (t *tx) stepTask(guid string, e task.Event) error {
	b := t.b
	w := b.r.s.w
	env := task.Env{Now: t.now, Policy: taskPolicy()}
	if s, ok := e.(task.Start); ok {
		env.Eligible = b.mayStart(s.By.Cell, s.By.Proc) && !b.blind()
	}
	before := b.tasks.Get(guid)
	after, effects, err := w.cfg.rules.stepTask(before, e, env)
	if err != nil {
		w.trace("  board %v: %T%v: %v", b.r.term, e, e, err)
		return err
	}
	t.effects = append(t.effects, effects...)
	if after != before {
		w.trace("  board %v: %T%v of %s: %s → %s", b.r.term, e, e, guid, describeTask(before), describeTask(after))
		t.putTask(guid, before, after)
	}
	return nil
}

func (t *tx) putTask(guid string, before, after *task.Task) {
	if after == nil {
		t.b.tasks.Delete(guid)
	} else {
		t.b.tasks.Put(after)
	}
	for i := range t.tasks {
		if t.tasks[i].guid == guid {
			t.tasks[i].after = after
			return
		}
	}
	t.tasks = append(t.tasks, taskChange{guid, before, after})
}

// desire makes a new task.
func (t *tx) desire(n task.Task) error {
	if t.b.tasks.Get(n.GUID) != nil {
		return task.ErrExists
	}
	row, effects, err := task.Desire(n, t.now)
	if err != nil {
		return err
	}
	t.effects = append(t.effects, effects...)
	t.putTask(n.GUID, nil, row)
	return nil
}

// putService stores a service; nil deletes it.
func (t *tx) putService(k lrp.ServiceKey, s *lrp.Service) {
	b := t.b
	if s == nil {
		b.services.DeleteService(k)
		t.others = append(t.others, otherChange{op{serviceRow{k}, nil}, func() { b.shown.putService(k, nil) }})
		return
	}
	b.services.PutService(s)
	t.others = append(t.others, otherChange{op{serviceRow{k}, s}, func() { b.shown.putService(k, s) }})
	t.stopped = append(t.stopped, k)
}

// surplus stops what a service does not want any more.
func (t *tx) surplus(k lrp.ServiceKey) {
	for _, m := range t.b.services.Surplus(k) {
		t.try(m.Key, m.Event)
	}
}

// try is step for events of the leader: none of them may be refused.
func (t *tx) try(k lrp.Key, e lrp.Event) {
	if err := t.step(k, e); err != nil {
		t.b.r.s.w.fail("contract", "%v", err)
	}
}

func (t *tx) tryTask(guid string, e task.Event) {
	if err := t.stepTask(guid, e); err != nil && !errors.Is(err, task.ErrRunningOnDifferentCell) {
		t.b.r.s.w.fail("contract", "%v", err)
	}
}

// submit queues the change as one transition; done is called after its commit, before the effects.
func (b *board) submit(t *tx, done func()) {
	follow := func() {
		if done != nil {
			done()
		}
		b.act(t)
	}
	var ops []op
	for _, c := range t.others {
		ops = append(ops, c.op)
	}
	for _, c := range t.tasks {
		o := op{key: taskRow{c.guid}}
		if c.after != nil {
			o.val = c.after
		}
		ops = append(ops, o)
	}
	for _, c := range t.indices {
		o := op{key: indexRow{c.after.Key}}
		if !c.after.Empty() {
			o.val = c.after
		}
		ops = append(ops, o)
	}
	if b.r.s.w.cfg.rules.early {
		b.show(t)
		follow()
		b.r.put(item{ops: ops})
		return
	}
	b.r.put(item{ops: ops, after: func() { b.show(t); follow() }})
	if len(t.stopped) > 0 {
		s := b.begin()
		for _, k := range t.stopped {
			s.surplus(k)
		}
		b.submit(s, nil)
	}
}

// show tells readers and the ledger what is committed.
func (b *board) show(t *tx) {
	for _, c := range t.others {
		c.show()
	}
	for _, c := range t.tasks {
		b.market.task(c.before, c.after)
		if c.after == nil {
			delete(b.shown.tasks, c.guid)
		} else {
			b.shown.tasks[c.guid] = c.after
		}
	}
	for _, c := range t.indices {
		b.market.index(c.before, c.after)
		if c.after.Empty() {
			delete(b.shown.indices, c.after.Key)
		} else {
			b.shown.indices[c.after.Key] = c.after
		}
	}
}

// act performs the effects of a committed change; the process may die between any two.
func (b *board) act(t *tx) {
	for _, e := range t.lrps {
		if b.r.over || b.r.dies() {
			return
		}
		switch e := e.(type) {
		case lrp.RequestAuction:
			b.market.request([]lrp.Key{e.Key}, nil)
		case lrp.WithdrawAuction:
			b.market.withdraw(lrpItem(e.Key))
		case lrp.StopInstance:
			b.stopInstance(e)
		case lrp.CrashNoted:
		}
	}
	for _, e := range t.effects {
		if b.r.over || b.r.dies() {
			return
		}
		switch e := e.(type) {
		case task.RequestAuction:
			b.market.request(nil, []string{e.GUID})
		case task.WithdrawAuction:
			b.market.withdrawTask(e.GUID, e.UID)
		case task.CancelContainer:
			b.cancelTask(e)
		case task.CallBack:
			b.callBack(e)
		}
	}
}

// callBack delivers the end of a task, or fails to.
func (b *board) callBack(e task.CallBack) {
	w := b.r.s.w
	b.r.s.later(w.between(time.Millisecond, 6*time.Second), func() {
		if b.r.over {
			return
		}
		done := task.CallbackDone{UID: e.UID, Delivered: w.calm || w.chance(700)}
		b.change(func(t *tx) { _ = t.stepTask(e.GUID, done) }, nil) // a late answer is refused
	})
}

func (b *board) mayStart(cell, proc string) bool {
	h, ok := b.r.leader.MayReceive(worker.CellName(cell))
	return ok && h.Proc == worker.Proc(proc)
}

func (b *board) blind() bool {
	v := b.r.leader.Wait(b.r.s.local())
	return v.Active && v.Blind
}
