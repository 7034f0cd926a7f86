package bbs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cantina/bbs/bbspb"
	"cantina/event"
	"cantina/fault"
	"cantina/internal/run"
	"cantina/internal/text"
	"cantina/lrp"
	"cantina/plan"
	"cantina/store"
	"cantina/task"
	"cantina/wire"
)

// chunk bounds a transition of rows that need not become durable together; it fits
// into one transaction of an unmodified etcd.
const (
	chunkOps   = 50
	chunkBytes = 256 << 10
)

// tx is one change of the newest rows: it remembers the previous rows, so that it can be undone,
// and becomes one or more transitions.
type tx struct {
	b   *rows
	now time.Time
	// atomic: everything becomes durable together or not at all.
	atomic bool
	ready  []unit // the rows as fits encoded them

	indices  []indexChange
	at       map[lrp.Key]int // position in indices
	services []serviceChange
	tasks    []taskChange
	taskAt   map[string]int
	others   []rowChange // domains, applied tasks, keys
	extra    []func(revision int64, err error)
	undo     []func()

	lrpEffects  []lrp.Effect
	taskEffects []task.Effect

	may map[lrp.Identity]bool // whether a process may be given work, by cell and process
}

type indexChange struct{ before, after lrp.Index }

type serviceChange struct {
	key           lrp.ServiceKey
	before, after *lrp.Service
}

type taskChange struct {
	guid          string
	before, after *task.Task
}

// rowChange is a row without events; show updates the view once it is durable.
type rowChange struct {
	op   store.Op
	show func(v *view, revision int64)
}

func (b *rows) begin(now time.Time) *tx {
	return &tx{b: b, now: now, at: map[lrp.Key]int{}, taskAt: map[string]int{}}
}

// mayStart reports whether a process may be given work. One change asks once for all of its events: a
// change of the session reaches the board after it.
func (t *tx) mayStart(cell, proc string) bool {
	by := lrp.Identity{Cell: cell, Proc: proc}
	may, known := t.may[by]
	if !known {
		if t.may == nil {
			t.may = map[lrp.Identity]bool{}
		}
		may = t.b.cfg.Sessions.MayStart(cell, proc)
		t.may[by] = may
	}
	return may
}

// empty reports whether there is nothing to submit.
func (t *tx) empty() bool {
	return len(t.indices)+len(t.tasks)+len(t.lrpEffects)+len(t.taskEffects)+len(t.others) == 0 &&
		len(t.b.tasks.Reported.Changed())+len(t.b.services.Reported.Changed()) == 0
}

// rollback puts everything back as it was.
func (t *tx) rollback() {
	for _, f := range slices.Backward(t.undo) {
		f()
	}
	for _, c := range slices.Backward(t.indices) {
		t.b.services.PutIndex(c.before)
	}
	for _, c := range slices.Backward(t.services) {
		t.restoreService(c)
	}
	for _, c := range slices.Backward(t.tasks) {
		if c.before == nil {
			t.b.tasks.Delete(c.guid)
		} else {
			t.b.tasks.Put(c.before)
		}
	}
}

func (t *tx) restoreService(c serviceChange) {
	if c.before == nil {
		t.b.services.DeleteService(c.key)
	} else {
		t.b.services.PutService(c.before)
	}
}

// step gives one event to one index.
func (t *tx) step(k lrp.Key, e lrp.Event) error {
	b := t.b
	if b.services.Quarantined(k) {
		return fmt.Errorf("%v: %w: %w", k, fault.ErrQuarantined, lrp.ErrNotEligible)
	}
	env := b.services.Env(k, t.now)
	switch c := e.(type) {
	case lrp.Start:
		env.Eligible = t.mayStart(c.By.Cell, c.By.Proc)
	case lrp.Claim:
		exclusive := env.Desired != nil && env.Desired.Exclusive
		env.Eligible = t.mayStart(c.By.Cell, c.By.Proc) && !(exclusive && b.cfg.Sessions.Stale())
	}
	before := b.services.Index(k)
	after, effects, err := lrp.Step(before, e, env)
	if b.cfg.Watch.Index != nil {
		b.cfg.Watch.Index(before, e, env, after, err)
	}
	if err != nil {
		return err
	}
	if err := lrp.Check(after); err != nil {
		b.broken++
		b.cfg.Log.Error("refused a change that breaks an invariant", "index", k.String(), "event", fmt.Sprintf("%T", e),
			"error", err)
		return err
	}
	t.lrpEffects = append(t.lrpEffects, effects...)
	if after == before {
		return nil
	}
	b.services.PutIndex(after)
	if i, ok := t.at[k]; ok {
		t.indices[i].after = after
		return nil
	}
	t.at[k] = len(t.indices)
	t.indices = append(t.indices, indexChange{before, after})
	return nil
}

// putService stores a service and stops unwanted instances at once.
func (t *tx) putService(s *lrp.Service) {
	t.services = append(t.services, serviceChange{s.Key, t.b.services.Service(s.Key), s})
	t.b.services.PutService(s)
}

func (t *tx) deleteService(k lrp.ServiceKey) {
	t.services = append(t.services, serviceChange{k, t.b.services.Service(k), nil})
	t.b.services.DeleteService(k)
}

// surplus stops the unwanted instances of the services in this change.
func (t *tx) surplus(services []serviceChange) {
	for _, c := range services {
		for _, m := range t.b.services.Surplus(c.key) {
			if err := t.step(m.Key, m.Event); err != nil {
				t.b.cfg.Log.Warn("stop failed", "index", m.Key.String(), "error", err)
			}
		}
	}
}

// stepTask gives one event to one task.
func (t *tx) stepTask(guid string, e task.Event) error {
	b := t.b
	if b.tasks.Quarantined(guid) {
		return fmt.Errorf("task %s: %w: %w", guid, fault.ErrQuarantined, task.ErrNotEligible)
	}
	before := b.tasks.Get(guid)
	if c, ok := e.(task.Complete); ok {
		if f, known := b.tasks.Reported.Get(guid); known && f.UID == c.UID {
			if t.forgetReported(guid); before == nil || before.UID != c.UID {
				return nil // of a task that the store does not have
			}
		}
	}
	env := task.Env{Now: t.now, Policy: b.cfg.Tasks}
	if s, ok := e.(task.Start); ok {
		// While rows may be older than the cells' work, a PENDING task may run somewhere.
		env.Eligible = t.mayStart(s.By.Cell, s.By.Proc) && !b.cfg.Sessions.Stale()
	}
	env.Older = b.tasks.Older(guid)
	if _, ok := e.(task.Delete); ok && before != nil {
		env.Over, env.HolderDead = b.tasks.SinceEnd(before, t.now), b.tasks.Dead(before.Holder.Proc)
	}
	after, effects, err := task.Step(before, e, env)
	if b.cfg.Watch.Task != nil {
		b.cfg.Watch.Task(before, e, after, err)
	}
	if err != nil {
		return err
	}
	t.taskEffects = append(t.taskEffects, effects...)
	if after != before {
		t.recordTask(guid, before, after)
	}
	return nil
}

// recordTask stores a task; after nil deletes it.
func (t *tx) recordTask(guid string, before, after *task.Task) {
	if after == nil {
		t.b.tasks.Delete(guid)
	} else {
		t.b.tasks.Put(after)
	}
	if i, ok := t.taskAt[guid]; ok {
		t.tasks[i].after = after
		return
	}
	t.taskAt[guid] = len(t.tasks)
	t.tasks = append(t.tasks, taskChange{guid, before, after})
}

// submit queues the change; done is called after all of it is durable, before the effects. Rows
// that need not be committed together are cut into chunks. Unwanted instances of services are
// stopped in a separate change right after it.
func (b *rows) submit(t *tx, done func(revision int64, err error)) {
	units := t.ready
	if units == nil {
		units = t.units()
	}
	b.tasks.Reported.Stored()
	b.services.Reported.Stored()
	chunks := [][]unit{units}
	if !t.atomic {
		chunks = cut(units)
	}
	for i, chunk := range chunks {
		last := i == len(chunks)-1
		b.inFlight.begin(chunk)
		b.cfg.Store.Submit(transition(chunk), func(revision int64, err error) {
			b.committed(t, chunk, last, revision, err)
			if last && done != nil {
				done(revision, err)
			}
			if last && err == nil {
				b.effects.act(t)
			}
		})
	}
	if len(t.services) > 0 {
		s := b.begin(t.now)
		s.surplus(t.services)
		if len(s.indices) > 0 || len(s.lrpEffects) > 0 {
			b.submit(s, nil)
		}
	}
}

// committed shows one durable chunk. It runs in order of submission.
func (b *rows) committed(t *tx, chunk []unit, last bool, revision int64, err error) {
	if err != nil {
		b.fail(fmt.Errorf("commit: %w", err))
		if last {
			for _, f := range t.extra {
				f(0, err)
			}
		}
		return
	}
	var events []event.Event
	b.view.mu.Lock()
	for _, u := range chunk {
		u.show(b.view, revision)
		events = append(events, u.events...)
	}
	if len(chunk) > 0 {
		b.view.revision = max(b.view.revision, revision)
	}
	b.view.mu.Unlock()
	b.inFlight.end(chunk)
	b.cfg.Hub.Publish(revision, events...)
	if last {
		for _, f := range t.extra {
			f(revision, nil)
		}
	}
}

// flights counts the commits on their way of each row. It has a lock of its own: the end of a commit is not
// to wait for the decisions of others.
type flights struct {
	mu sync.Mutex
	n  map[string]int // by row key
}

func (f *flights) begin(chunk []unit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, u := range chunk {
		f.n[u.op.Key]++
	}
}

func (f *flights) end(chunk []unit) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, u := range chunk {
		if f.n[u.op.Key]--; f.n[u.op.Key] <= 0 {
			delete(f.n, u.op.Key)
		}
	}
}

func (f *flights) has(row string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n[row] > 0
}

// dropped are the attempts of this change that ended without a row.
func (t *tx) dropped() (lrps map[lrp.Key][]string, tasks map[TaskID]bool) {
	lrps, tasks = map[lrp.Key][]string{}, map[TaskID]bool{}
	for _, e := range t.lrpEffects {
		if d, ok := e.(lrp.AttemptDropped); ok {
			lrps[d.Key] = append(lrps[d.Key], d.Instance)
		}
	}
	for _, e := range t.taskEffects {
		if d, ok := e.(task.AttemptDropped); ok {
			tasks[TaskID{d.GUID, d.UID}] = true
		}
	}
	return lrps, tasks
}

// setDomain makes a domain fresh until the given time; zero = forever.
func (t *tx) setDomain(name string, until time.Time) {
	b := t.b
	old, known := b.domains[name]
	b.domains[name] = until
	b.services.SetDomain(name, until)
	t.undo = append(t.undo, func() {
		if known {
			b.domains[name] = old
			b.services.SetDomain(name, old)
			return
		}
		delete(b.domains, name)
		b.services.SetDomain(name, time.Unix(0, 0))
	})
	value := encode(kindDomain, &bbspb.Domain{Name: text.Clean(name), Expires: wire.FromTime(until)})
	t.others = append(t.others, rowChange{op: store.Op{Key: domainRow(name), Value: value},
		show: func(v *view, revision int64) { v.domains[name] = domainView{until, revision} }})
}

// redefine increments the revision of a domain without changing its freshness. A domain that was
// never fresh is written as one that expired long ago; one with an unreadable row is left alone.
func (t *tx) redefine(name string) {
	row := domainRow(name)
	if name == "" || t.b.bad[row] || slices.ContainsFunc(t.others, func(c rowChange) bool { return c.op.Key == row }) {
		return
	}
	until, known := t.b.domains[name]
	if !known {
		until = time.Unix(0, 0)
	}
	t.setDomain(name, until)
}

// setApplied remembers the newest run of a task of a spec file; guid empty forgets it.
func (t *tx) setApplied(domain, name, guid string, sum []byte) {
	b, key := t.b, appliedRow(domain, name)
	old, known := b.applied[key]
	op := store.Op{Key: key}
	if guid == "" {
		delete(b.applied, key)
	} else {
		b.applied[key] = appliedTask{guid, string(sum)}
		op.Value = encode(kindApplied, &bbspb.Applied{Domain: text.Clean(domain), Name: text.Clean(name),
			Guid: text.Clean(guid), Digest: sum})
	}
	t.undo = append(t.undo, func() {
		if known {
			b.applied[key] = old
		} else {
			delete(b.applied, key)
		}
	})
	t.others = append(t.others, rowChange{op: op, show: func(*view, int64) {}})
}

// expect compares a row's revision with the expected one; 0 = any.
func (b *rows) expect(row string, have, want int64) error {
	if want == 0 {
		return nil
	}
	if b.inFlight.has(row) || have != want {
		return fmt.Errorf("%s has revision %d, not %d: %w", row, have, want, fault.ErrRevision)
	}
	return nil
}

// tooLarge reports whether err means that a change needs a manifest.
func tooLarge(err error) bool { return errors.Is(err, store.ErrTooLarge) }

// wantedWith lists the definitions of all services as they are to be after an application.
func (b *rows) wantedWith(a plan.Application) (all []*lrp.Desired) {
	if !slices.ContainsFunc(a.Services, func(d lrp.Desired) bool { return d.FixedPort() != "" }) {
		return nil // no check
	}
	for i := range a.Services {
		all = append(all, &a.Services[i])
	}
	for _, k := range b.services.Services() {
		named := slices.ContainsFunc(a.Services, func(d lrp.Desired) bool { return d.Service == k })
		if s := b.services.Service(k); !named && !s.Removed && s.Target() != nil &&
			!(k.Domain == a.Domain && a.Prune.Takes(s.Labels())) {
			all = append(all, s.Wanted())
		}
	}
	return all
}

// portsFit returns why a definition could never have all of its instances, given the other desired
// work.
func (b *rows) portsFit(d lrp.Desired, all []*lrp.Desired) error {
	if b.cfg.Machines == nil {
		return nil
	}
	if err := lrp.PortsFit(&d, all, b.cfg.Machines); err != nil {
		return fmt.Errorf("service %v: %w", d.Service, err)
	}
	return nil
}

func (b *rows) free(guid string) bool { return b.tasks.Get(guid) == nil && !b.tasks.Quarantined(guid) }

// fail ends the board: its memory can no longer be trusted.
func (b *rows) fail(err error) {
	b.once.Do(func() {
		b.err = err
		close(b.over)
	})
}

// isOver returns ErrOver with the reason once the term cannot continue.
func (b *rows) isOver() error {
	select {
	case <-b.over:
		return fmt.Errorf("%w: %w", fault.ErrTermOver, b.err)
	default:
		return nil
	}
}

// wake makes Run check the due work.
func (b *rows) wake() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// converge makes the moves of both boards until nothing is left.
func (b *rows) converge(full bool) {
	for range maxRounds {
		now := b.now()
		t := b.begin(now)
		var out lrp.Outcome
		var moves []task.Move
		if full {
			out, moves = b.services.ConvergeAll(now), b.tasks.ConvergeAll(now)
		} else {
			out, moves = b.services.Converge(now), b.tasks.Converge(now)
		}
		full = false
		if out.Empty() && len(moves) == 0 && t.empty() {
			b.wake()
			return
		}
		t.perform(out, moves)
		b.submit(t, nil)
	}
	b.cfg.Log.Warn("convergence did not settle", "rounds", maxRounds)
	b.wake()
}

// change runs fn on the newest rows, commits its changes, converges, and returns after the commit
// with its revision. If fn fails, nothing is changed.
func (b *rows) change(ctx context.Context, fn func(t *tx) error) (int64, error) {
	if err := b.cfg.Store.Wait(ctx); err != nil {
		return 0, err
	}
	ticket := b.newTicket()
	if err := b.changeLocked(fn, ticket.done); err != nil {
		return 0, err
	}
	run.LeavePlace(ctx)
	return ticket.wait(ctx)
}

func (b *rows) changeLocked(fn func(t *tx) error, done func(revision int64, err error)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.isOver(); err != nil {
		return err
	}
	t := b.begin(b.now())
	if err := fn(t); err != nil {
		t.rollback()
		return err
	}
	b.submit(t, done)
	b.converge(false)
	return nil
}

func (b *rows) newTicket() *ticket {
	k := &ticket{}
	k.wake, k.await = b.cfg.Park()
	return k
}

// barrier returns once everything submitted before it is durable.
func (b *rows) barrier(k *ticket) {
	b.cfg.Store.Submit(store.Transition{}, k.done)
}

// onSession decides how a change of a session changes the rows on it.
func (b *rows) onSession(fn func(t *tx)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isOver() != nil {
		return
	}
	t := b.begin(b.now())
	fn(t)
	if !t.empty() {
		b.submit(t, nil)
	}
	b.converge(false)
}

// quiet runs a change without a waiting caller; a refusal means that it came too late.
func (b *rows) quiet(fn func(t *tx) error) {
	if err := b.changeLocked(fn, nil); err != nil {
		b.cfg.Log.Debug("event arrived too late", "error", err)
	}
}
