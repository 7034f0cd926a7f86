package mem

import (
	"context"
	"fmt"
	"slices"
	"time"

	"cantina/store"
)

type lease struct {
	ttl time.Duration
	end time.Duration
}

// expire deletes the keys of leases that have run out.
func (b *Backend) expire() {
	now := b.cfg.Now()
	var gone []store.LeaseID
	for id, l := range b.leases {
		if l.end <= now {
			gone = append(gone, id)
		}
	}
	slices.Sort(gone)
	for _, id := range gone {
		b.drop(id)
	}
}

// drop ends a lease and deletes its keys.
func (b *Backend) drop(id store.LeaseID) {
	delete(b.leases, id)
	var keys []string
	for k, e := range b.entries {
		if e.Lease == id {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return
	}
	b.revision++
	for _, k := range keys {
		b.remove(k)
	}
	b.wake()
}

// Changed waits for the next change after a revision; it may return early.
func (b *Backend) Changed(ctx context.Context, key string, after int64) error {
	if f := b.fault(CallChanged, store.Txn{}); f != None {
		return lost(f)
	}
	for {
		b.mu.Lock()
		b.expire()
		last := max(b.entries[key].Modified, b.deleted[key], b.forgot)
		changed, next := b.changed, b.nextEnd()
		b.mu.Unlock()
		if last > after {
			return nil
		}
		if err := await(ctx, changed, next-b.cfg.Now()); err != nil {
			return err
		}
	}
}

// nextEnd returns when the next lease runs out, or a time far away.
func (b *Backend) nextEnd() time.Duration {
	end := b.cfg.Now() + time.Hour
	for _, l := range b.leases {
		end = min(end, l.end)
	}
	return end
}

func await(ctx context.Context, changed <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-changed:
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// Grant makes a lease. The ids count from 1.
func (b *Backend) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	f := b.fault(CallGrant, store.Txn{})
	b.mu.Lock()
	defer b.mu.Unlock()
	if !arrives(f) {
		return 0, 0, lost(f)
	}
	b.next++
	b.leases[b.next] = lease{ttl: ttl, end: b.cfg.Now() + ttl}
	return b.next, ttl, lost(f)
}

// KeepAlive restarts a lease's TTL.
func (b *Backend) KeepAlive(ctx context.Context, id store.LeaseID) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	f := b.fault(CallKeepAlive, store.Txn{})
	b.mu.Lock()
	defer b.mu.Unlock()
	if !arrives(f) {
		return 0, lost(f)
	}
	b.expire()
	l, ok := b.leases[id]
	if !ok {
		return 0, fmt.Errorf("keep lease %d: %w", id, store.ErrLeaseGone)
	}
	l.end = b.cfg.Now() + l.ttl
	b.leases[id] = l
	return l.ttl, lost(f)
}

// Revoke ends a lease.
func (b *Backend) Revoke(ctx context.Context, id store.LeaseID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f := b.fault(CallRevoke, store.Txn{})
	b.mu.Lock()
	defer b.mu.Unlock()
	if !arrives(f) {
		return lost(f)
	}
	if _, ok := b.leases[id]; ok {
		b.drop(id)
	}
	return lost(f)
}

// Expire ends a lease as if its TTL were over, and Leases lists those alive: for
// tests that need a leader to lose its lease at a certain moment.
func (b *Backend) Expire(id store.LeaseID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(id)
}

// Leases lists the leases that are alive, oldest first.
func (b *Backend) Leases() []store.LeaseID {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	ids := make([]store.LeaseID, 0, len(b.leases))
	for id := range b.leases {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
