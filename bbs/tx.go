package bbs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"cantina/bbs/bbspb"
	"cantina/event"
	"cantina/fault"
	"cantina/internal/text"
	"cantina/lrp"
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

// tx is one change of the newest rows: it remembers what stood there before, so
// that it can be taken back, and becomes one or more transitions.
type tx struct {
	b   *BBS
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

// rowChange is a row without events; show tells the view once it is durable.
type rowChange struct {
	op   store.Op
	show func(v *view, revision int64)
}

func (b *BBS) begin(now time.Time) *tx {
	return &tx{b: b, now: now, at: map[lrp.Key]int{}, taskAt: map[string]int{}}
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
		env.Eligible = b.cfg.Sessions.MayStart(c.By.Cell, c.By.Proc)
	case lrp.Claim:
		exclusive := env.Desired != nil && env.Desired.Exclusive
		env.Eligible = b.cfg.Sessions.MayStart(c.By.Cell, c.By.Proc) && !(exclusive && b.cfg.Sessions.Blind())
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
		b.cfg.Log.Error("refused a change that breaks an invariant", "index", k.String(), "event", fmt.Sprintf("%T", e), "error", err)
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

// putService stores a service and stops at once what it does not want any more.
func (t *tx) putService(s *lrp.Service) {
	t.services = append(t.services, serviceChange{s.Key, t.b.services.Service(s.Key), s})
	t.b.services.PutService(s)
}

func (t *tx) deleteService(k lrp.ServiceKey) {
	t.services = append(t.services, serviceChange{k, t.b.services.Service(k), nil})
	t.b.services.DeleteService(k)
}

// surplus stops what the services of this change do not want any more.
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
	env := task.Env{Now: t.now, Policy: b.cfg.Tasks}
	if s, ok := e.(task.Start); ok {
		// While rows may be older than what cells run, a task that stands as PENDING may
		// run somewhere.
		env.Eligible = b.cfg.Sessions.MayStart(s.By.Cell, s.By.Proc) && !b.cfg.Sessions.Blind()
	}
	before := b.tasks.Get(guid)
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

// submit queues the change; done is called after all of it is durable, before the
// effects. Rows that need not go together are cut into chunks. What services do
// not want any more is stopped in a change of its own right behind.
func (b *BBS) submit(t *tx, done func(revision int64, err error)) {
	units := t.ready
	if units == nil {
		units = t.units()
	}
	chunks := [][]unit{units}
	if !t.atomic {
		chunks = cut(units)
	}
	for i, chunk := range chunks {
		last := i == len(chunks)-1
		for _, u := range chunk {
			b.inFlight[u.op.Key]++
		}
		b.cfg.Store.Submit(transition(chunk), func(revision int64, err error) {
			b.committed(t, chunk, last, revision, err)
			if last && done != nil {
				done(revision, err)
			}
			if last && err == nil {
				b.act(t)
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
func (b *BBS) committed(t *tx, chunk []unit, last bool, revision int64, err error) {
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
	b.landed(chunk)
	b.cfg.Hub.Publish(revision, events...)
	if last {
		for _, f := range t.extra {
			f(revision, nil)
		}
	}
}

func (b *BBS) landed(chunk []unit) {
	if len(chunk) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, u := range chunk {
		if b.inFlight[u.op.Key]--; b.inFlight[u.op.Key] <= 0 {
			delete(b.inFlight, u.op.Key)
		}
	}
}

// act performs the effects of a durable change.
func (b *BBS) act(t *tx) {
	var lrps []LRPWant
	var tasks []TaskWant
	var noLRPs []lrp.Key
	var noTasks []TaskID
	dropped, again := t.dropped()
	for _, e := range t.lrpEffects {
		switch e := e.(type) {
		case lrp.RequestAuction:
			if w, ok := b.view.want(e.Key); ok {
				w.Dropped = dropped[e.Key]
				lrps = append(lrps, w)
			}
		case lrp.WithdrawAuction:
			noLRPs = append(noLRPs, e.Key)
		case lrp.StopInstance:
			b.cfg.Cells.StopInstance(e.Key, e.Who)
		case lrp.AttemptDropped: // goes with the request for another place
		case lrp.CrashNoted: // went out as an event
		}
	}
	for _, e := range t.taskEffects {
		switch e := e.(type) {
		case task.RequestAuction:
			if row := b.view.task(e.GUID); row != nil && row.UID == e.UID && row.State == task.Pending {
				tasks = append(tasks, TaskWant{GUID: row.GUID, UID: row.UID, Domain: row.Domain, Definition: row.Definition, Dropped: again[TaskID{e.GUID, e.UID}]})
			}
		case task.WithdrawAuction:
			noTasks = append(noTasks, TaskID{e.GUID, e.UID})
		case task.AttemptDropped: // goes with the request for another place
		case task.CancelContainer:
			b.cfg.Cells.CancelTask(e.Holder, e.GUID, e.UID)
		case task.CallBack:
			if row := b.view.task(e.GUID); row != nil && row.UID == e.UID {
				b.send(row)
			}
		}
	}
	if len(noLRPs)+len(noTasks) > 0 {
		b.cfg.Auctioneer.Withdraw(noLRPs, noTasks)
	}
	if len(lrps)+len(tasks) > 0 {
		b.request(lrps, tasks)
	}
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

// setDomain makes a domain fresh until the given moment; zero = for ever.
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
	t.others = append(t.others, rowChange{op: store.Op{Key: domainRow(name), Value: value}, show: func(v *view, revision int64) { v.domains[name] = domainView{until, revision} }})
}

// redefine moves the revision of a domain and leaves its freshness as it is. A domain
// that nobody made fresh is written as one that ended long ago; one whose row cannot
// be read is left alone.
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
		op.Value = encode(kindApplied, &bbspb.Applied{Domain: text.Clean(domain), Name: text.Clean(name), Guid: text.Clean(guid), Digest: sum})
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

// expect compares a row's revision with what the caller expects; 0 = any.
func (b *BBS) expect(row string, have, want int64) error {
	if want == 0 {
		return nil
	}
	if b.inFlight[row] > 0 || have != want {
		return fmt.Errorf("%s has revision %d, not %d: %w", row, have, want, fault.ErrRevision)
	}
	return nil
}

// tooLarge reports whether err says that a change needs a manifest.
func tooLarge(err error) bool { return errors.Is(err, store.ErrTooLarge) }
