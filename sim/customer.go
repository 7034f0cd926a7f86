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

// How many services and tasks the customers know by name, and how many instances
// they want of a service at most.
const (
	services  = 4
	tasks     = 5
	instances = 3
)

// keyLife is how long an idempotency key is remembered: some expire within a run, but if wall
// clocks step by an hour none does before its call is repeated.
func (cu *customers) keyLife() time.Duration {
	if cu.w.cfg.Schedules > 0 {
		return 3 * time.Hour
	}
	return shortKeys
}

const shortKeys = 40 * time.Second

// act is a turn of a user of services and tasks, and an operator who drains cells.
func (cu *customers) act() {
	cu.w.after(cu.w.between(200*time.Millisecond, 3*time.Second), cu.act)
	r := cu.w.leading()
	if r == nil {
		return
	}
	defer r.turn()
	b := r.board
	b.repair()
	if cu.w.calm {
		cu.tidy(b)
		return
	}
	if ds := b.ListDomains(); len(ds) > 0 && !ds[0].Fresh {
		cu.w.res.Stale++
	}
	switch {
	case cu.w.faults.allowed(Drain) && cu.w.chance(50):
		cu.w.faults.active[Drain] = cu.w.now + 10*time.Second
		cu.drainOne(cu.w.machines[cu.w.rng.IntN(cu.w.cfg.Cells)].name)
	case cu.w.cfg.Moves && cu.w.chance(300):
		cu.move(b)
	case cu.w.faults.allowed(ChangeService) && cu.w.faults.allowed(ChangeTask) && cu.w.chance(70):
		cu.applyAll(b)
	case cu.w.chance(550):
		cu.useTask(b)
	default:
		cu.useService(b)
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
		for _, late := range []error{errTermOver, fault.ErrTermOver, bbs.ErrServiceNotFound, fault.ErrCollected,
			fault.ErrQuarantined, leader.ErrDrainUnreadable, task.ErrExists, task.ErrNotFound, task.ErrInvalidStateTransition,
			task.ErrEnding, task.ErrMayStillRun, task.ErrLostUnresolved} {
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
func (cu *customers) tidy(b *board) {
	if ds := b.ListDomains(); len(ds) == 0 || !ds[0].Expires.IsZero() {
		b.ask("domain", func(ctx context.Context) error {
			_, err := b.SetDomain(ctx, domain, 0, plan.Write{})
			return err
		})
	}
	for i := range cu.w.cfg.Cells {
		if name := cu.w.machines[i].name; b.drains.Submitted(name) != nil {
			b.drain(name, false)
		}
	}
	b.r.discard()
	if cu.w.cfg.Preempt {
		cu.shrink(b)
	}
	for _, t := range cu.w.store.work().tasks {
		if !t.Ended() && cu.w.now-cu.w.store.rows[bbs.TaskRow(t.GUID)].(*saved).at > 45*time.Second {
			cu.w.trace("customer: cancel %s, which runs for ever", t.GUID)
			cu.cancel(b, t.GUID)
		}
	}
}

func (cu *customers) cancel(b *board, guid string) {
	b.ask("cancel", func(ctx context.Context) error {
		_, err := b.BBS.CancelTask(ctx, guid, plan.Write{})
		return err
	})
}

func (cu *customers) useService(b *board) {
	k := lrp.ServiceKey{Domain: domain, Name: fmt.Sprint("svc-", cu.w.rng.IntN(services))}
	old, err := b.GetService(k)
	wild := cu.w.faults.allowed(ChangeService)
	switch {
	case err != nil || old.Removed:
		cu.apply(b, cu.definition(k))
	case !wild:
	case cu.w.cfg.Preempt && cu.w.chance(150):
		cu.rerank(b, k)
	case cu.w.chance(120):
		cu.noted(ChangeService, "remove %v", k)
		b.ask("remove", func(ctx context.Context) error {
			_, err := b.RemoveService(ctx, k, plan.Write{})
			return err
		})
	case cu.w.chance(350):
		n := cu.w.rng.IntN(cu.w.mostInstances() + 1)
		cu.noted(ChangeService, "scale %v to %d", k, n)
		b.ask("scale", func(ctx context.Context) error {
			_, err := b.ScaleService(ctx, k, n, plan.Write{})
			return err
		})
	case cu.w.chance(300):
		cu.noted(ChangeService, "restart %v", k)
		b.ask("restart", func(ctx context.Context) error {
			_, err := b.RetireInstances(ctx, k, nil, plan.Write{})
			return err
		})
	default:
		cu.apply(b, cu.definition(k))
	}
}

func (cu *customers) noted(f Fault, format string, args ...any) {
	cu.w.faults.active[f] = cu.w.now + 5*time.Second
	cu.w.trace("customer: "+format, args...)
}

func (cu *customers) apply(b *board, d lrp.Desired) {
	cu.noted(ChangeService, "apply %v: exclusive %v, strategy %v, keep %v, instances %d", d.Service, d.Exclusive,
		d.Strategy, d.Workload.OnCellRestart, d.Instances)
	cu.applies(b, plan.Application{Domain: domain, Services: []lrp.Desired{d}}, false)
}

// applyAll has the whole domain as a new file wants it: some services are made or changed,
// the others go, and tasks run again when their definition changes. At times it is too large
// for one transaction.
func (cu *customers) applyAll(b *board) {
	a := plan.Application{Domain: domain, Prune: plan.Prune{On: true}}
	for i := range services {
		if k := (lrp.ServiceKey{Domain: domain, Name: fmt.Sprint("svc-", i)}); cu.w.chance(800) {
			a.Services = append(a.Services, cu.definition(k))
		}
	}
	for i := range 2 {
		if cu.w.chance(500) {
			a.Tasks = append(a.Tasks, plan.NamedTask{Name: fmt.Sprint("once-", i), Definition: *cu.taskDefinition()})
		}
	}
	large := cu.w.chance(400)
	cu.noted(ChangeService, "apply %d services and %d tasks, large %v", len(a.Services), len(a.Tasks), large)
	cu.applies(b, a, large)
}

// applies applies, sometimes with a key: then the same call is repeated later, to the present
// leader, and has the same response.
func (cu *customers) applies(b *board, a plan.Application, large bool) {
	key := plan.Write{}
	if cu.w.chance(300) {
		a.TTL = cu.w.between(3*time.Second, 30*time.Second)
	}
	if cu.w.chance(250) {
		key.Key = cu.newID("k")
	}
	b.r.tight = large
	asked := cu.w.now
	b.ask("apply", func(ctx context.Context) error {
		first, err := b.Apply(ctx, a, key, nil)
		if err != nil || b.r.dead || key.Key == "" || cu.w.now-asked > shortKeys/4 {
			return err
		}
		made := b.r.made
		cu.w.after(cu.w.between(0, shortKeys/2), func() { cu.again(made, a, key, first) })
		return nil
	})
	b.r.tight = false
	if large {
		b.r.s.later(cu.w.between(0, 80*time.Millisecond), func() { b.r.diesBy(300) }) // in the middle
	}
}

func (cu *customers) again(made int, a plan.Application, key plan.Write, first plan.Applied) {
	r := cu.w.leading()
	if r == nil || r.made != made {
		return // a store that went back has forgotten the key
	}
	r.board.ask("repeated apply", func(ctx context.Context) error {
		second, err := r.board.Apply(ctx, a, key, nil)
		same := (second.Revision == first.Revision || cu.w.faults.corrupted > 0) &&
			slices.EqualFunc(second.Changes, first.Changes,
				func(x, y plan.Change) bool { return x.Name == y.Name && x.Verb == y.Verb })
		if err == nil && !r.dead && r.made == cu.w.store.made && !same {
			cu.w.fail("contract", "apply with key %s is answered %+v, and was answered %+v", key.Key, second, first)
		}
		return err
	})
}

// restartPolicy waits so shortly that every wait ends within a run.
func restartPolicy() lrp.RestartPolicy {
	return lrp.RestartPolicy{Base: 2 * time.Second, Max: maxBackoff, ResetAfter: 20 * time.Second, GiveUp: -1}
}

const maxBackoff = 8 * time.Second

func (cu *customers) definition(k lrp.ServiceKey) lrp.Desired {
	d := lrp.Desired{Service: k, Instances: 1 + cu.w.rng.IntN(cu.w.mostInstances()), Restart: restartPolicy(),
		Rollout: lrp.RolloutPolicy{ProgressDeadline: 20 * time.Second}, Workload: cu.workload(100)}
	d.Exclusive = cu.w.chance(400)
	if cu.w.chance(300) {
		d.Strategy = lrp.StopFirst
	}
	if cu.w.chance(300) {
		d.OnPartition = lrp.PartitionStop
	}
	if cu.w.chance(150) {
		d.Restart.Mode = lrp.RestartOnFailure
	}
	cu.ranked(&d)
	return d
}

func (cu *customers) workload(memory int) action.Workload {
	l := action.Workload{Action: action.Action{Run: &action.Run{Path: "serve", Args: []string{cu.newID("v")}}},
		Resources: resource.Amounts{"memory_mb": memory}}
	if cu.w.chance(400) {
		l.OnCellRestart = action.RestartKeep
	}
	return l
}

// tooLarge is more memory than any cell has.
const tooLarge = 100_000

func (cu *customers) taskDefinition() *task.Definition {
	d := &task.Definition{Workload: cu.workload(50), PendingTimeout: pendingBound}
	switch {
	case cu.w.chance(30):
		d.Workload.Resources["memory_mb"] = tooLarge
	case cu.w.chance(200):
		d.Labels = cu.w.machines[cu.w.rng.IntN(cu.w.cfg.Cells)].side()
	}
	if cu.w.chance(400) {
		d.OnLost = task.LostKeep
	}
	if cu.w.chance(200) {
		d.CallbackURL = "http://127.0.0.1/done"
	}
	if cu.w.cfg.Preempt {
		d.PreemptPriority = cu.rank()
	}
	return d
}

func (cu *customers) useTask(b *board) {
	guid := fmt.Sprint("task-", cu.w.rng.IntN(tasks))
	t := b.r.task(guid)
	switch {
	case t == nil:
		cu.desire(b, guid)
	case !cu.w.faults.allowed(ChangeTask):
		cu.recreate(b, t)
	case !t.Ended() && cu.w.chance(150):
		cu.noted(ChangeTask, "cancel %s", guid)
		cu.cancel(b, guid)
	case t.Ended():
		cu.recreate(b, t)
	}
}

func (cu *customers) desire(b *board, guid string) {
	d := cu.taskDefinition()
	cu.noted(ChangeTask, "desire %s: %v, keep %v", guid, d.OnLost, d.Workload.OnCellRestart)
	b.ask("desire", func(ctx context.Context) error {
		t, err := b.DesireTask(ctx, plan.NewTask{GUID: guid, Domain: domain, Definition: *d}, plan.Write{})
		if err == nil && !b.r.dead && b.r.made == cu.w.store.made && !cu.w.check.work.durable[t.UID] {
			cu.w.fail("I5", "%s is acknowledged and not durable", guid)
		}
		return err
	})
}

// recreate deletes an ended task, and makes another under its guid in the same breath.
func (cu *customers) recreate(b *board, t *task.Task) {
	if !t.Ended() {
		return
	}
	cu.noted(ChangeTask, "delete %s", t.GUID)
	if t.Unresolved() {
		as := task.ResolvedDone
		if cu.w.chance(200) {
			as = task.ResolvedRerun
		}
		accept := cu.w.check.work.running[t.UID] == nil // a person who knows that its container is gone
		b.ask("settle", func(ctx context.Context) error {
			_, err := b.ResolveTask(ctx, t.GUID, as, accept, plan.Write{})
			return err
		})
	}
	b.ask("delete", func(ctx context.Context) error { return b.DeleteTask(ctx, t.GUID, plan.Write{}) })
	if b.r.task(t.GUID) == nil && cu.w.chance(600) {
		cu.desire(b, t.GUID)
	}
}

// drainOne drains a cell, or takes a drain back.
func (cu *customers) drainOne(name worker.CellName) {
	r := cu.w.leading()
	if r == nil {
		return
	}
	r.board.drain(name, r.board.drains.Submitted(name) == nil)
}
