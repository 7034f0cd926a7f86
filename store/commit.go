package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"cantina/internal/run"
	"cantina/store/head"
)

// commitLoop commits queued transitions, batch by batch, until the term ends or Resign finds none
// left. Then it passes the error to the queued ones.
func (r *Leadership) commitLoop(ctx context.Context) {
	limits, pace := r.limits, newPace(r.limits.Bytes)
	for {
		b, ok := r.nextBatch(Limits{Ops: limits.Ops, Bytes: min(pace.bytes, limits.Bytes)})
		if !ok {
			break
		}
		begun := r.store.cfg.Clock.Boot()
		revision, err := r.writer.commit(ctx, b)
		if err == nil && !b.empty() {
			took := r.store.cfg.Clock.Boot() - begun
			pace.took(took, b.bytes)
			if measure := r.store.cfg.Committed; measure != nil {
				measure(took, begun-b.items[0].at, len(b.items), b.bytes)
			}
		}
		switch {
		case errors.Is(err, ErrTooLarge):
			limits = r.shrink(b, limits, err)
		case err != nil:
			r.end(err)
			r.finish(b, 0, r.Err())
		default:
			r.finish(b, revision, nil)
		}
	}
	if err := r.Err(); !errors.Is(err, ErrResigned) {
		r.store.cfg.Log.Warn("term ended", "term", r.term.String(), "error", err)
	}
}

// nextBatch waits for transitions and for room in the outbox. When the term is
// over it closes the term and returns false.
func (r *Leadership) nextBatch(l Limits) (batch, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.err == nil && (len(r.outbox) > outboxBound || r.queue.len() == 0 && !r.stopping) {
		r.changed.Wait()
	}
	if r.err == nil && r.stopping && r.queue.live == 0 {
		r.endLocked(ErrResigned)
	}
	if r.err == nil {
		r.changed.Broadcast() // there is room in the queue
		return r.queue.cut(l), true
	}
	r.closed = true
	for _, i := range r.queue.items[r.queue.first:] {
		if i.err == nil {
			i.err = r.err
		}
		r.post(result{done: i.done, err: i.err})
	}
	r.queue = queue{}
	r.changed.Broadcast()
	return batch{}, false
}

// finish queues the dones of a batch.
func (r *Leadership) finish(b batch, revision int64, err error) {
	results := make([]result, len(b.items))
	for k, i := range b.items {
		results[k] = result{done: i.done, revision: revision, err: err}
		if i.err != nil {
			results[k] = result{done: i.done, err: i.err}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.post(results...)
}

// shrink handles a store that accepts less than its limits: a batch of one transition is refused,
// a larger one goes back and is cut smaller. Removing the Restored mark counts as one: it must not
// pass for committed with a refused neighbour.
func (r *Leadership) shrink(b batch, l Limits, cause error) Limits {
	live := 0
	for _, i := range b.items {
		if i.err == nil && (len(i.ops) > 0 || i.clear) {
			live++
		}
	}
	if live <= 1 {
		for k := range b.items {
			if len(b.items[k].ops) > 0 {
				b.items[k].err = cause
			}
		}
		r.finish(b, r.writer.committed.Load(), nil)
		return l
	}
	l = Limits{Ops: max(1, len(b.ops)/2), Bytes: max(1, b.bytes/2)}
	log := r.store.cfg.Log
	log.Warn("store takes smaller transactions than its limits say", "ops", l.Ops, "bytes", l.Bytes, "error", cause)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue.putBack(b)
	return l
}

// writer writes the batches of a term, each fenced by head and election key.
type writer struct {
	store     *Store
	own       int64        // create revision of the election key
	machine   head.Machine // used by the committing goroutine alone
	committed atomic.Int64 // revision of the last commit
	restored  atomic.Bool

	mu      sync.Mutex
	blocked error // why commits wait: the store is full, or stalled
}

// answer is the result of one request.
type answer struct {
	outcome  head.Outcome
	seen     head.Seen
	revision int64
	err      error
}

// commit commits one batch and resolves unknown outcomes. It returns the
// revision of the commit; or ErrTooLarge when the batch is certain never to land;
// or the error that ends the term.
func (w *writer) commit(ctx context.Context, b batch) (int64, error) {
	if b.empty() {
		return w.committed.Load(), nil
	}
	writes := make([]Write, 0, len(b.ops)+1)
	for _, op := range b.ops {
		writes = append(writes, Write{Key: w.store.rowKey(op.Key), Value: op.Value})
	}
	resolve := patience{boot: w.store.cfg.Clock.Boot, limit: w.store.cfg.StallTimeout, most: w.store.cfg.KeepAlive}
	m, e := w.machine.Commit(b.clear)
	for {
		a := w.perform(ctx, e, writes)
		if a.outcome == head.Unknown {
			if err := w.resolving(ctx, &resolve, a.err); err != nil {
				return 0, err
			}
		}
		m, e = m.Step(a.outcome, a.seen)
		switch e.Want {
		case head.Landed:
			w.machine = m
			w.restored.Store(m.Base().Restored)
			w.committed.Store(a.revision)
			w.blockedBy(nil)
			return a.revision, nil
		case head.Dropped:
			w.machine = m
			return 0, a.err
		case head.Over:
			return 0, m.Err()
		case head.Nothing, head.SendBatch, head.SendBare, head.ReadHead:
		}
	}
}

// resolving judges an unknown outcome: an error when the term has to end, else it
// waits a little.
func (w *writer) resolving(ctx context.Context, p *patience, cause error) error {
	switch {
	case errors.Is(cause, ErrBroken), errors.Is(cause, ErrWentBack):
		return fmt.Errorf("commit: %w", cause)
	case ctx.Err() != nil:
		return fmt.Errorf("commit: %w: %w", ErrUnresolved, cause)
	}
	if errors.Is(cause, ErrFull) { // the earlier commit is resolved when space is available, and so is this
		w.blockedBy(cause)
		p.tries = 0
		if run.Pause(ctx, fullPause) != nil {
			return fmt.Errorf("commit: %w: %w", ErrUnresolved, cause)
		}
		return nil
	}
	w.store.cfg.Log.Debug("commit outcome unknown", "error", cause)
	if p.over() { // the term ends with its lease, and not before
		w.blockedBy(fmt.Errorf("%w for %s: %w", ErrStalled, p.limit, cause))
	}
	if run.Pause(ctx, p.next()) != nil {
		return fmt.Errorf("commit: %w: %w", ErrUnresolved, cause)
	}
	return nil
}

// fullPause is the time between two tries to write to a store that is full.
const fullPause = 250 * time.Millisecond

// blockedBy notes why commits wait, and logs it when that is news.
func (w *writer) blockedBy(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil && w.blocked == nil:
		w.store.cfg.Log.Error("the store commits nothing: writes wait; running work continues", "error", err)
	case err == nil && w.blocked != nil:
		w.store.cfg.Log.Warn("the store takes writes again")
	}
	w.blocked = err
}

// NoRoom returns nil if commits succeed, or ErrFull or ErrStalled with the reason: then requests for a change
// are refused, and no decision is made that would need one.
func (r *Leadership) NoRoom() error {
	if err := NoRoom(r.store.backend); err != nil {
		return err
	}
	r.writer.mu.Lock()
	defer r.writer.mu.Unlock()
	return r.writer.blocked
}

// NoRoom returns the error of a backend that is full, and nil for one that cannot know.
func NoRoom(s any) error {
	if r, ok := s.(interface{ NoRoom() error }); ok {
		return r.NoRoom()
	}
	return nil
}

// patience paces the resolving of one commit.
type patience struct {
	boot  func() time.Duration
	limit time.Duration
	most  time.Duration
	since time.Duration
	tries int
}

// over reports whether the limit has passed since its first call.
func (p *patience) over() bool {
	if p.tries == 0 {
		p.since = p.boot()
	}
	return p.boot()-p.since >= p.limit
}

// next returns the pause before the next try: none at first, then doubling.
func (p *patience) next() time.Duration {
	p.tries++
	if p.tries == 1 {
		return 0
	}
	return min(p.most, time.Millisecond<<min(p.tries+2, 20))
}

// perform performs the machine's effect.
func (w *writer) perform(ctx context.Context, e head.Effect, writes []Write) answer {
	ctx, cancel := context.WithTimeout(ctx, w.store.cfg.CommitTimeout)
	defer cancel()
	switch e.Want {
	case head.SendBatch:
		return w.send(ctx, e, writes)
	case head.SendBare:
		return w.send(ctx, e, nil)
	case head.ReadHead:
		return w.look(ctx)
	case head.Nothing, head.Landed, head.Dropped, head.Over:
	}
	return answer{err: fmt.Errorf("effect %d: %w", e.Want, ErrUnresolved)}
}

// send sends one fenced transaction.
func (w *writer) send(ctx context.Context, e head.Effect, writes []Write) answer {
	s := w.store
	a, err := s.backend.Txn(ctx, Txn{
		If: []Condition{
			{Key: s.headKey(), Check: ValueIs, Value: encodeHead(e.Base)},
			{Key: s.electionKey(), Check: CreatedAt, Created: w.own},
		},
		Then: append(writes[:len(writes):len(writes)], Write{Key: s.headKey(), Value: encodeHead(e.Put)}),
		Else: []string{s.headKey(), s.electionKey()},
	})
	switch {
	case errors.Is(err, ErrTooLarge):
		return answer{outcome: head.Void, err: err}
	case err != nil:
		return answer{outcome: head.Unknown, err: err}
	case a.Done:
		return answer{outcome: head.Done, revision: a.Revision}
	}
	return w.judge(head.Refused, a.Found)
}

// look reads head and election key at one revision: they are neighbours.
func (w *writer) look(ctx context.Context) answer {
	s := w.store
	p, err := s.backend.Range(ctx, Query{From: s.electionKey(), To: s.headKey() + "\x00"})
	if err != nil {
		return answer{outcome: head.Unknown, err: err}
	}
	return w.judge(head.Read, p.Entries)
}

func (w *writer) judge(o head.Outcome, found []Entry) answer {
	a := answer{outcome: o}
	for _, e := range found {
		switch e.Key {
		case w.store.electionKey():
			a.seen.Own = e.Created == w.own
		case w.store.headKey():
			h, err := decodeHead(e.Value)
			if err != nil {
				return answer{outcome: head.Unknown, err: fmt.Errorf("%w: %w", ErrBroken, err)}
			}
			a.seen.Exists, a.seen.Head, a.revision = true, h, e.Modified
		}
	}
	return a
}
