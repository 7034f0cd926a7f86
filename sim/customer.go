package sim

import (
	"fmt"
	"time"

	"cantina/action"
	"cantina/lrp"
	"cantina/resource"
	"cantina/task"
	"cantina/worker"
)

const domain = "d"

// How many services and tasks the customers know by name, and how many instances
// they want of a service at most.
const (
	services  = 4
	tasks     = 5
	instances = 3
)

// newID returns a name that is never used again.
func (w *world) newID(prefix string) string {
	w.ids++
	return fmt.Sprint(prefix, w.ids)
}

// customer is a user of services and tasks, and an operator who drains cells.
func (w *world) customer() {
	w.after(w.between(200*time.Millisecond, 3*time.Second), w.customer)
	r := w.leading()
	if r == nil || r.board == nil {
		return
	}
	b := r.board
	if w.calm {
		w.tidy(b)
		return
	}
	switch {
	case w.allowed(Drain) && w.chance(50):
		w.active[Drain] = w.now + 10*time.Second
		w.drainOne(w.machines[w.rng.IntN(w.cfg.Cells)].name)
	case w.chance(550):
		w.useTask(b)
	default:
		w.useService(b)
	}
}

// tidy takes back every drain, and cancels what runs for ever.
func (w *world) tidy(b *board) {
	for i := range w.cfg.Cells {
		if name := w.machines[i].name; b.drains[name] != (drain{}) {
			b.putDrain(name, nil)
		}
	}
	for _, guid := range b.tasks.GUIDs() {
		if t := b.tasks.Get(guid); t != nil && !t.Ended() && b.now().Sub(t.Updated) > 45*time.Second {
			w.trace("customer: cancel %s, which runs for ever", guid)
			b.change(func(x *tx) { _ = x.stepTask(guid, task.Cancel{}) }, nil)
		}
	}
}

func (w *world) useService(b *board) {
	k := lrp.ServiceKey{Domain: domain, Name: fmt.Sprint("svc-", w.rng.IntN(services))}
	old := b.services.Service(k)
	wild := w.allowed(ChangeService)
	switch {
	case old == nil || old.Removed:
		w.apply(b, k, old, w.definition(k))
	case !wild:
	case w.chance(120):
		w.noted(ChangeService, "remove %v", k)
		b.change(func(t *tx) { t.putService(k, old.Remove()) }, nil)
	case w.chance(350):
		n := w.rng.IntN(instances + 1)
		w.noted(ChangeService, "scale %v to %d", k, n)
		if next := old.Scale(n); next != old {
			b.change(func(t *tx) { t.putService(k, next) }, nil)
		}
	case w.chance(300):
		w.restart(b, old)
	default:
		w.apply(b, k, old, w.definition(k))
	}
}

func (w *world) noted(f Fault, format string, args ...any) {
	w.active[f] = w.now + 5*time.Second
	w.trace("customer: "+format, args...)
}

func (w *world) apply(b *board, k lrp.ServiceKey, old *lrp.Service, d lrp.Desired) {
	next, err := lrp.Apply(old, d, w.newID("g"), b.now())
	if err != nil {
		w.fail("setup", "%v", err)
		return
	}
	w.noted(ChangeService, "apply %v: exclusive %v, strategy %v, keep %v, instances %d", k, d.Exclusive, d.Strategy, d.Workload.OnCellRestart, d.Instances)
	if next != old {
		b.change(func(t *tx) { t.putService(k, next) }, nil)
	}
}

// restart has every instance stopped and started afresh.
func (w *world) restart(b *board, s *lrp.Service) {
	w.noted(ChangeService, "restart %v", s.Key)
	b.change(func(t *tx) {
		for i := range s.Versions {
			v := &s.Versions[i]
			for n := v.Low; n < v.High; n++ {
				_ = t.step(lrp.Key{Process: v.Process, Index: n}, lrp.Retire{}) // there may be no row
			}
		}
	}, nil)
}

// restartPolicy waits so shortly that every wait ends within a run.
func restartPolicy() lrp.RestartPolicy {
	return lrp.RestartPolicy{Base: 2 * time.Second, Max: maxBackoff, ResetAfter: 20 * time.Second, GiveUp: -1}
}

const maxBackoff = 8 * time.Second

func (w *world) definition(k lrp.ServiceKey) lrp.Desired {
	d := lrp.Desired{Service: k, Instances: 1 + w.rng.IntN(instances), Restart: restartPolicy(),
		Rollout: lrp.RolloutPolicy{ProgressDeadline: 20 * time.Second}, Workload: w.workload(100)}
	d.Exclusive = w.chance(400)
	if w.chance(300) {
		d.Strategy = lrp.StopFirst
	}
	if w.chance(300) {
		d.OnPartition = lrp.PartitionStop
	}
	if w.chance(150) {
		d.Restart.Mode = lrp.RestartOnFailure
	}
	return d
}

func (w *world) workload(memory int) action.Workload {
	l := action.Workload{Action: action.Action{Run: &action.Run{Path: "serve", Args: []string{w.newID("v")}}},
		Resources: resource.Amounts{"memory_mb": memory}}
	if w.chance(400) {
		l.OnCellRestart = action.RestartKeep
	}
	return l
}

func (w *world) useTask(b *board) {
	guid := fmt.Sprint("task-", w.rng.IntN(tasks))
	t := b.tasks.Get(guid)
	switch {
	case t == nil:
		w.desire(b, guid)
	case !w.allowed(ChangeTask):
		w.recreate(b, t)
	case !t.Ended() && w.chance(150):
		w.noted(ChangeTask, "cancel %s", guid)
		b.change(func(x *tx) { _ = x.stepTask(guid, task.Cancel{}) }, nil)
	case t.Ended():
		w.recreate(b, t)
	}
}

func (w *world) desire(b *board, guid string) {
	d := &task.Definition{Workload: w.workload(50), PendingTimeout: pendingBound}
	if w.chance(400) {
		d.OnLost = task.LostKeep
	}
	if w.chance(200) {
		d.CallbackURL = "http://127.0.0.1/done"
	}
	n := task.Task{GUID: guid, UID: w.newID("u"), Domain: domain, Definition: d}
	w.noted(ChangeTask, "desire %s as %s: %v, keep %v", guid, n.UID, d.OnLost, d.Workload.OnCellRestart)
	b.change(func(x *tx) { _ = x.desire(n) }, nil)
}

// recreate deletes an ended task, and makes another under its guid in the same breath.
func (w *world) recreate(b *board, t *task.Task) {
	if !t.Ended() {
		return
	}
	w.noted(ChangeTask, "delete %s", t.GUID)
	if t.Unresolved() {
		b.change(func(x *tx) { _ = x.stepTask(t.GUID, task.Settle{As: task.ResolvedDone}) }, nil)
	}
	b.change(func(x *tx) {
		_ = x.stepTask(t.GUID, task.Resolve{}) // either may be too early
		_ = x.stepTask(t.GUID, task.Delete{})
	}, nil)
	if b.tasks.Get(t.GUID) == nil && w.chance(600) {
		w.desire(b, t.GUID)
	}
}

// drainOne drains a cell, or takes a drain back.
func (w *world) drainOne(name worker.CellName) {
	r := w.leading()
	if r == nil || r.board == nil {
		return
	}
	b := r.board
	if b.drains[name] != (drain{}) {
		w.trace("customer: undrain %s", name)
		b.putDrain(name, nil)
		return
	}
	w.drained++
	d := drain{id: w.drained, until: b.now().Add(w.between(3*time.Second, 40*time.Second))}
	w.trace("customer: drain %s as %d", name, d.id)
	b.putDrain(name, &d)
}
