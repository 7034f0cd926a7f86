package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"cantina/action"
	"cantina/bbs"
	"cantina/cell"
	"cantina/fault"
	"cantina/leader"
	"cantina/lrp"
	"cantina/plan"
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

// keyLife is how long an idempotency key is remembered: some expire within a run, but if wall
// clocks step by an hour none does before its call is repeated.
func (w *world) keyLife() time.Duration {
	if w.cfg.Schedules > 0 {
		return 3 * time.Hour
	}
	return shortKeys
}

const shortKeys = 40 * time.Second

// newID returns a name that is never used again.
func (w *world) newID(prefix string) string {
	w.ids++
	return fmt.Sprint(prefix, w.ids)
}

// customer is a user of services and tasks, and an operator who drains cells.
func (w *world) customer() {
	w.after(w.between(200*time.Millisecond, 3*time.Second), w.customer)
	r := w.leading()
	if r == nil {
		return
	}
	defer r.turn()
	b := r.board
	b.repair()
	if w.calm {
		w.tidy(b)
		return
	}
	if ds := b.ListDomains(); len(ds) > 0 && !ds[0].Fresh {
		w.res.Stale++
	}
	switch {
	case w.allowed(Drain) && w.chance(50):
		w.active[Drain] = w.now + 10*time.Second
		w.drainOne(w.machines[w.rng.IntN(w.cfg.Cells)].name)
	case w.allowed(ChangeService) && w.allowed(ChangeTask) && w.chance(70):
		w.applyAll(b)
	case w.chance(550):
		w.useTask(b)
	default:
		w.useService(b)
	}
}

// ask makes one call of a customer, which may wait. A refusal is permitted only if the call came
// too late, or if the leader could not finish it.
func (b *board) ask(what string, fn func(ctx context.Context) error) {
	if refuses(b.r.s.w) {
		return // the API refuses it
	}
	b.r.threads.run(func() {
		err := fn(context.Background())
		if b.r.dead || err == nil {
			return
		}
		b.r.s.w.trace("customer: %s: %v", what, err)
		if errors.Is(err, fault.ErrTermOver) && !b.r.over {
			b.r.s.w.fail("contract", "the board gave up in the middle of its term: %v", err)
		}
		for _, late := range []error{errTermOver, fault.ErrTermOver, bbs.ErrServiceNotFound, fault.ErrCollected, fault.ErrQuarantined, leader.ErrDrainUnreadable, task.ErrExists, task.ErrNotFound, task.ErrInvalidStateTransition, task.ErrEnding} {
			if errors.Is(err, late) {
				return
			}
		}
		b.r.s.w.fail("contract", "%s is refused: %v", what, err)
	})
}

// discard is an operator's decision that work missing in a restored store is not wanted.
func (r *leadership) discard() {
	for _, name := range r.leads.Heard() {
		if s, _ := r.leads.State(name); slices.ContainsFunc(s.Conditions, func(c cell.Condition) bool { return c.Unknown }) {
			r.s.w.trace("customer: discard what runs on %s and no row names", name)
			r.beside(func(ctx context.Context) { _, _ = r.leads.Discard(ctx, name, "customer") })
		}
	}
}

// tidy ends every drain, makes the domain fresh forever, and cancels endless work, known or not.
func (w *world) tidy(b *board) {
	if ds := b.ListDomains(); len(ds) == 0 || !ds[0].Expires.IsZero() {
		b.ask("domain", func(ctx context.Context) error {
			_, err := b.SetDomain(ctx, domain, 0, plan.Write{})
			return err
		})
	}
	for i := range w.cfg.Cells {
		if name := w.machines[i].name; b.drains.Submitted(name) != nil {
			b.drain(name, false)
		}
	}
	b.r.discard()
	for _, t := range w.store.work().tasks {
		if !t.Ended() && w.now-w.store.rows[bbs.TaskRow(t.GUID)].(*saved).at > 45*time.Second {
			w.trace("customer: cancel %s, which runs for ever", t.GUID)
			w.cancel(b, t.GUID)
		}
	}
}

func (w *world) cancel(b *board, guid string) {
	b.ask("cancel", func(ctx context.Context) error {
		_, err := b.BBS.CancelTask(ctx, guid, plan.Write{})
		return err
	})
}

func (w *world) useService(b *board) {
	k := lrp.ServiceKey{Domain: domain, Name: fmt.Sprint("svc-", w.rng.IntN(services))}
	old, err := b.GetService(k)
	wild := w.allowed(ChangeService)
	switch {
	case err != nil || old.Removed:
		w.apply(b, w.definition(k))
	case !wild:
	case w.chance(120):
		w.noted(ChangeService, "remove %v", k)
		b.ask("remove", func(ctx context.Context) error {
			_, err := b.RemoveService(ctx, k, plan.Write{})
			return err
		})
	case w.chance(350):
		n := w.rng.IntN(instances + 1)
		w.noted(ChangeService, "scale %v to %d", k, n)
		b.ask("scale", func(ctx context.Context) error {
			_, err := b.ScaleService(ctx, k, n, plan.Write{})
			return err
		})
	case w.chance(300):
		w.noted(ChangeService, "restart %v", k)
		b.ask("restart", func(ctx context.Context) error {
			_, err := b.RetireInstances(ctx, k, nil, plan.Write{})
			return err
		})
	default:
		w.apply(b, w.definition(k))
	}
}

func (w *world) noted(f Fault, format string, args ...any) {
	w.active[f] = w.now + 5*time.Second
	w.trace("customer: "+format, args...)
}

func (w *world) apply(b *board, d lrp.Desired) {
	w.noted(ChangeService, "apply %v: exclusive %v, strategy %v, keep %v, instances %d", d.Service, d.Exclusive, d.Strategy, d.Workload.OnCellRestart, d.Instances)
	w.applies(b, plan.Application{Domain: domain, Services: []lrp.Desired{d}}, false)
}

// applyAll has the whole domain as a new file wants it: some services are made or changed,
// the others go, and tasks run again when their definition changes. At times it is too large
// for one transaction.
func (w *world) applyAll(b *board) {
	a := plan.Application{Domain: domain, Prune: true}
	for i := range services {
		if k := (lrp.ServiceKey{Domain: domain, Name: fmt.Sprint("svc-", i)}); w.chance(800) {
			a.Services = append(a.Services, w.definition(k))
		}
	}
	for i := range 2 {
		if w.chance(500) {
			a.Tasks = append(a.Tasks, plan.NamedTask{Name: fmt.Sprint("once-", i), Definition: *w.taskDefinition()})
		}
	}
	large := w.chance(400)
	w.noted(ChangeService, "apply %d services and %d tasks, large %v", len(a.Services), len(a.Tasks), large)
	w.applies(b, a, large)
}

// applies applies, sometimes with a key: then the same call is repeated later, to the present
// leader, and has the same response.
func (w *world) applies(b *board, a plan.Application, large bool) {
	key := plan.Write{}
	if w.chance(300) {
		a.TTL = w.between(3*time.Second, 30*time.Second)
	}
	if w.chance(250) {
		key.Key = w.newID("k")
	}
	b.r.tight = large
	asked := w.now
	b.ask("apply", func(ctx context.Context) error {
		first, err := b.Apply(ctx, a, key, nil)
		if err != nil || b.r.dead || key.Key == "" || w.now-asked > shortKeys/4 {
			return err
		}
		made := b.r.made
		w.after(w.between(0, shortKeys/2), func() { w.again(made, a, key, first) })
		return nil
	})
	b.r.tight = false
	if large {
		b.r.s.later(w.between(0, 80*time.Millisecond), func() { b.r.diesBy(300) }) // in the middle
	}
}

func (w *world) again(made int, a plan.Application, key plan.Write, first plan.Applied) {
	r := w.leading()
	if r == nil || r.made != made {
		return // a store that went back has forgotten the key
	}
	r.board.ask("repeated apply", func(ctx context.Context) error {
		second, err := r.board.Apply(ctx, a, key, nil)
		same := (second.Revision == first.Revision || w.corrupted > 0) && slices.EqualFunc(second.Changes, first.Changes, func(x, y plan.Change) bool { return x.Name == y.Name && x.Verb == y.Verb })
		if err == nil && !r.dead && r.made == w.store.made && !same {
			w.fail("contract", "apply with key %s is answered %+v, and was answered %+v", key.Key, second, first)
		}
		return err
	})
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

// tooLarge is more memory than any cell has.
const tooLarge = 100_000

func (w *world) taskDefinition() *task.Definition {
	d := &task.Definition{Workload: w.workload(50), PendingTimeout: pendingBound}
	switch {
	case w.chance(30):
		d.Workload.Resources["memory_mb"] = tooLarge
	case w.chance(200):
		d.Labels = w.machines[w.rng.IntN(w.cfg.Cells)].side()
	}
	if w.chance(400) {
		d.OnLost = task.LostKeep
	}
	if w.chance(200) {
		d.CallbackURL = "http://127.0.0.1/done"
	}
	return d
}

func (w *world) useTask(b *board) {
	guid := fmt.Sprint("task-", w.rng.IntN(tasks))
	t := b.r.task(guid)
	switch {
	case t == nil:
		w.desire(b, guid)
	case !w.allowed(ChangeTask):
		w.recreate(b, t)
	case !t.Ended() && w.chance(150):
		w.noted(ChangeTask, "cancel %s", guid)
		w.cancel(b, guid)
	case t.Ended():
		w.recreate(b, t)
	}
}

func (w *world) desire(b *board, guid string) {
	d := w.taskDefinition()
	w.noted(ChangeTask, "desire %s: %v, keep %v", guid, d.OnLost, d.Workload.OnCellRestart)
	b.ask("desire", func(ctx context.Context) error {
		t, err := b.DesireTask(ctx, plan.NewTask{GUID: guid, Domain: domain, Definition: *d}, plan.Write{})
		if err == nil && !b.r.dead && b.r.made == w.store.made && !w.check.work.durable[t.UID] {
			w.fail("I5", "%s is acknowledged and not durable", guid)
		}
		return err
	})
}

// recreate deletes an ended task, and makes another under its guid in the same breath.
func (w *world) recreate(b *board, t *task.Task) {
	if !t.Ended() {
		return
	}
	w.noted(ChangeTask, "delete %s", t.GUID)
	if t.Unresolved() {
		as := task.ResolvedDone
		if w.chance(200) {
			as = task.ResolvedRerun
		}
		b.ask("settle", func(ctx context.Context) error {
			_, err := b.ResolveTask(ctx, t.GUID, as, plan.Write{})
			return err
		})
	}
	b.ask("delete", func(ctx context.Context) error { return b.DeleteTask(ctx, t.GUID, plan.Write{}) })
	if b.r.task(t.GUID) == nil && w.chance(600) {
		w.desire(b, t.GUID)
	}
}

// drainOne drains a cell, or takes a drain back.
func (w *world) drainOne(name worker.CellName) {
	r := w.leading()
	if r == nil {
		return
	}
	r.board.drain(name, r.board.drains.Submitted(name) == nil)
}
