package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"cantina/fence"
	"cantina/internal/run"
	"cantina/store/head"
)

// outboxBound is the number of committed transitions that may wait for their done
// before the next transaction waits too.
const outboxBound = 4096

// Leadership is one won term. It has four goroutines: one commits, one keeps the lease alive, one
// watches the election key, one calls done. Resign ends and joins them; it must also be called if the
// term has already ended.
type Leadership struct {
	store     *Store
	candidacy candidacy
	term      fence.Term
	cluster   fence.Cluster
	newStore  bool
	began     int64
	rows      []Row
	revision  int64
	limits    Limits
	writer    writer
	heldUntil atomic.Int64 // boot time in ns: send time of the last acknowledged keep-alive + TTL

	cancel context.CancelFunc
	over   chan struct{} // closed when the term ends
	loops  sync.WaitGroup

	mu         sync.Mutex // guards the following
	changed    *sync.Cond
	queue      queue
	stopping   bool  // Resign was called: commit the queue, accept no more
	closed     bool  // the committing goroutine takes no more: Submit goes to the outbox
	err        error // why the term ended
	outbox     []result
	delivering bool
	quarantine map[string]quarantined
}

// result is a done that waits to be called.
type result struct {
	done     func(int64, error)
	revision int64
	err      error
}

// newLeadership begins to keep the lease alive. The context it returns ends with the
// term.
func newLeadership(ctx context.Context, s *Store, t candidacy) (*Leadership, context.Context) {
	r := &Leadership{store: s, candidacy: t, writer: writer{store: s, own: t.created}, over: make(chan struct{}),
		quarantine: make(map[string]quarantined)}
	r.changed = sync.NewCond(&r.mu)
	r.limits = s.backend.Limits()
	r.limits.Ops-- // the head
	r.limits.Bytes -= txnOverhead
	r.heldUntil.Store(int64(t.sent + t.ttl))
	ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.loops.Go(func() { r.keepAlive(ctx) })
	return r, ctx
}

// open begins to commit, as the term that wrote won.
func (r *Leadership) open(ctx context.Context, won head.Head, newStore bool) {
	r.term, r.cluster, r.began, r.newStore = won.Term, won.Cluster, won.Began, newStore
	r.writer.machine = head.New(won)
	r.writer.restored.Store(won.Restored)
	r.writer.committed.Store(r.revision)
	r.loops.Go(func() { r.commitLoop(ctx) })
	r.loops.Go(func() { r.watchElectionKey(ctx) })
}

// Term returns the term.
func (r *Leadership) Term() fence.Term { return r.term }

// Cluster returns the identity of the store.
func (r *Leadership) Cluster() fence.Cluster { return r.cluster }

// Heard passes on a higher term that a cell has seen, before Resign; see Store.Heard.
func (r *Leadership) Heard(t fence.Term) { r.store.Heard(t) }

// Restored reports whether the content may be older than cells have seen: the store was restored,
// moved, or created without the declaration that no older cell lives. It is true until
// ClearRestored has committed, also for later terms.
func (r *Leadership) Restored() bool { return r.writer.restored.Load() }

// Began returns the revision with which the epoch began. A row with a smaller revision may be older
// than cells have seen, also after ClearRestored: then the cells have reported, and correct their
// rows one by one.
func (r *Leadership) Began() int64 { return r.began }

// NewStore reports whether this very term created the store.
func (r *Leadership) NewStore() bool { return r.newStore }

// Rows hands over the load, sorted by key, without rows under DataPrefix. A second
// call returns nil.
func (r *Leadership) Rows() []Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := r.rows
	r.rows = nil
	return rows
}

// Revision returns the store revision of the load.
func (r *Leadership) Revision() int64 { return r.revision }

// Submit queues a transition. done is called exactly once, in order of submission, by one
// goroutine at a time, never before Submit has returned, with one of these results: the store
// revision of the commit that holds the transition (for one without ops, of the last commit before
// it); ErrTooLarge, ErrBadKey or ErrQuarantined, if nothing was sent and the term continues; the
// error that ended the term, when it may or may not be durable. done must not block for long and
// must not call Resign. Submit does no I/O and never blocks; it accepts transitions beyond the
// limit, see Full and Wait. The values belong to the term from then on.
func (r *Leadership) Submit(t Transition, done func(revision int64, err error)) {
	bytes, err := weigh(t, r.limits)
	r.submit(item{ops: t.Ops, done: done, bytes: bytes, err: err})
}

// ClearRestored queues a commit that takes away the Restored mark. done as for
// Submit.
func (r *Leadership) ClearRestored(done func(revision int64, err error)) {
	r.submit(item{done: done, clear: true})
}

// Fits returns the ErrTooLarge or ErrBadKey that Submit would pass to done.
func (r *Leadership) Fits(t Transition) error {
	_, err := weigh(t, r.limits)
	return err
}

func (r *Leadership) submit(i item) {
	if r.store.cfg.Committed != nil {
		i.at = r.store.cfg.Clock.Boot()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case i.err != nil:
	case r.stopping:
		i.err = ErrResigned
	case len(r.quarantine) > 0 && !i.resolves:
		i.err = r.touchesQuarantine(i.ops)
	}
	if i.err != nil {
		i.ops, i.bytes = nil, 0
	}
	if r.closed {
		if i.err == nil {
			i.err = r.err
		}
		r.post(result{done: i.done, err: i.err})
		return
	}
	r.queue.push(i)
	r.changed.Broadcast()
}

// Queues returns how many transitions wait for their commit, and how many committed ones for the
// call of their done.
func (r *Leadership) Queues() (waiting, undelivered int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queue.len(), len(r.outbox)
}

// Full reports whether the queue is over its limit.
func (r *Leadership) Full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queue.len() >= r.store.cfg.QueueBound
}

// Wait returns when the queue is under its bound; or with ctx's error; or with the
// error that ended the term.
func (r *Leadership) Wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, r.wake)
	defer stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.err == nil && ctx.Err() == nil && r.queue.len() >= r.store.cfg.QueueBound {
		r.changed.Wait()
	}
	if r.err != nil {
		return r.err
	}
	return ctx.Err()
}

func (r *Leadership) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed.Broadcast()
}

// LeaseHeld reports whether this server is certain to lead: by its own boot clock, the send time
// of the last acknowledged keep-alive + TTL - drift is not over, and the term has not ended.
func (r *Leadership) LeaseHeld() bool {
	select {
	case <-r.over:
		return false
	default:
		return r.store.cfg.Clock.Boot() < time.Duration(r.heldUntil.Load())-r.store.cfg.Drift
	}
}

// Get reads one committed row, also one under DataPrefix. ok is false when there
// is none. ErrLeaseNotProven when this server could not prove afterwards that it
// still leads.
func (r *Leadership) Get(ctx context.Context, key string) (row Row, ok bool, err error) {
	s := r.store
	e, _, err := s.read(ctx, s.rowKey(key))
	if err != nil {
		return Row{}, false, fmt.Errorf("get %s: %w", key, err)
	}
	if !r.LeaseHeld() {
		return Row{}, false, fmt.Errorf("get %s: %w", key, ErrLeaseNotProven)
	}
	if e == nil {
		return Row{}, false, nil
	}
	return Row{Key: key, Value: e.Value, Revision: e.Modified}, true, nil
}

// Range reads the committed rows whose keys begin with prefix, in order, from the first key >=
// from, at most limit (0: all); more is true if there are more. It fails as Get does.
func (r *Leadership) Range(ctx context.Context, prefix, from string, limit int) (rows []Row, more bool, err error) {
	s := r.store
	q := Query{From: max(s.rowKey(prefix), s.rowKey(from)), To: prefixEnd(s.rowKey(prefix)), Limit: limit}
	p, err := s.backend.Range(ctx, q)
	if err != nil {
		return nil, false, fmt.Errorf("range %s: %w", prefix, err)
	}
	if !r.LeaseHeld() {
		return nil, false, fmt.Errorf("range %s: %w", prefix, ErrLeaseNotProven)
	}
	rows = make([]Row, len(p.Entries))
	for i, e := range p.Entries {
		rows[i] = Row{Key: s.rowName(e.Key), Value: e.Value, Revision: e.Modified}
	}
	return rows, p.More, nil
}

// Done is closed when the term has ended.
func (r *Leadership) Done() <-chan struct{} { return r.over }

// Err returns why the term has ended; nil while it lasts.
func (r *Leadership) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// end ends the term; only the first call counts.
func (r *Leadership) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endLocked(err)
}

func (r *Leadership) endLocked(err error) {
	if r.err != nil {
		return
	}
	r.err = err
	close(r.over)
	r.cancel()
	r.changed.Broadcast()
}

// Resign commits the queue, ends the term, revokes the lease, and returns when every goroutine of
// the term has ended and every done has been called. If ctx is done first, it ends the term at
// once and returns ctx's error. It may be called again, and after the term has ended. It returns
// nil if the whole queue was committed, else the error that ended the term.
func (r *Leadership) Resign(ctx context.Context) error {
	stop := context.AfterFunc(ctx, r.wake)
	defer stop()
	r.mu.Lock()
	r.stopping = true
	r.changed.Broadcast()
	for !r.closed && r.err == nil && ctx.Err() == nil {
		r.changed.Wait()
	}
	early := !r.closed && r.err == nil
	r.mu.Unlock()
	r.end(ErrResigned)
	r.join()
	if early {
		return fmt.Errorf("resign term %s: %w", r.term, ctx.Err())
	}
	if err := r.Err(); !errors.Is(err, ErrResigned) {
		return err
	}
	return nil
}

// join waits for the goroutines of a term that has ended.
func (r *Leadership) join() {
	r.loops.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.delivering {
		r.changed.Wait()
	}
}

// post puts a result into the outbox; mu is held.
func (r *Leadership) post(x ...result) {
	r.outbox = append(r.outbox, x...)
	if !r.delivering && len(r.outbox) > 0 {
		r.delivering = true
		go r.deliver() // joined through delivering
	}
}

// deliver calls done for the outbox, until it is empty.
func (r *Leadership) deliver() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.outbox) > 0 {
		results := r.outbox
		r.outbox = nil
		r.mu.Unlock()
		for _, x := range results {
			if x.done != nil {
				x.done(x.revision, x.err)
			}
		}
		r.mu.Lock()
		r.changed.Broadcast()
	}
	r.delivering = false
	r.changed.Broadcast()
}

// keepAlive keeps the lease alive until the term ends, and ends it when the lease
// is gone, or when a try that was sent after the lease's end by the own clock has
// failed too. At the end it revokes the lease, so that others need not wait for it.
func (r *Leadership) keepAlive(ctx context.Context) {
	cfg := r.store.cfg
	for run.Pause(ctx, cfg.KeepAlive) == nil {
		sent := cfg.Clock.Boot()
		err := r.candidacy.keepAlive(ctx, r.store)
		if err == nil {
			r.heldUntil.Store(int64(sent + r.candidacy.ttl))
		}
		if errors.Is(err, ErrLeaseGone) || errors.Is(err, ErrBroken) || errors.Is(err, ErrWentBack) {
			r.end(fmt.Errorf("keep lease: %w", err))
			break
		}
		if err != nil && sent >= time.Duration(r.heldUntil.Load()) {
			r.end(fmt.Errorf("lease ran out: %w: %w", ErrLeaseGone, err))
		}
	}
	if !errors.Is(r.Err(), ErrBroken) {
		r.store.revoke(ctx, r.candidacy.lease)
	}
}

// watchElectionKey ends the term if its election key is gone although its lease lives: the key was
// deleted, and another server may lead. A leader without commits would not notice. (store.md, A
// term.)
func (r *Leadership) watchElectionKey(ctx context.Context) {
	s, key := r.store, r.store.electionKey()
	for ctx.Err() == nil {
		e, rev, err := s.read(ctx, key)
		if err == nil && (e == nil || e.Created != r.candidacy.created) {
			r.end(fmt.Errorf("election key of term %v is gone: %w", r.term, ErrDisplaced))
			return
		}
		if err == nil {
			err = s.backend.Changed(ctx, key, rev)
		}
		if err != nil && run.Pause(ctx, s.cfg.KeepAlive/2) != nil {
			return
		}
	}
}

// keepAlive keeps the lease alive once, and takes over its time to live.
func (t *candidacy) keepAlive(ctx context.Context, s *Store) (err error) {
	ctx, cancel := context.WithTimeout(ctx, max(s.cfg.KeepAlive, (s.cfg.LeaseTTL-s.cfg.Drift)/2))
	defer cancel()
	ttl, err := s.backend.KeepAlive(ctx, t.lease)
	if err == nil {
		t.ttl = ttl
	}
	return err
}
