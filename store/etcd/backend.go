package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cantina/store"
)

// Default limits of etcd.
var plainLimits = store.Limits{Ops: 128, Bytes: 3 << 19}

// Backend is a store.Backend on an etcd client.
type Backend struct {
	client  *clientv3.Client
	limits  store.Limits
	cluster atomic.Uint64 // id of the first answer; 0 before it
	written atomic.Int64  // keys written since the start, for compaction
	readers atomic.Int32  // readers of the past: no compaction meanwhile
	member  *Member       // the embedded member; nil for a cluster
}

var _ store.Backend = (*Backend)(nil)

// KeepHistory puts compaction off until the function that it returns is called.
func (b *Backend) KeepHistory() func() {
	b.readers.Add(1)
	return func() { b.readers.Add(-1) }
}

// Limits returns the limits of one transaction.
func (b *Backend) Limits() store.Limits { return b.limits }

// Cluster returns the id of the cluster.
func (b *Backend) Cluster(ctx context.Context) (string, error) {
	if id := b.cluster.Load(); id != 0 {
		return strconv.FormatUint(id, 16), nil
	}
	_, err := b.Range(ctx, store.Query{From: "\x00", To: "\x01", Limit: 1})
	if err != nil {
		return "", err
	}
	return strconv.FormatUint(b.cluster.Load(), 16), nil
}

// same checks that an answer came from the cluster that gave the first one.
func (b *Backend) same(h *etcdserverpb.ResponseHeader) error {
	id := h.GetClusterId()
	if id == 0 || b.cluster.CompareAndSwap(0, id) || b.cluster.Load() == id {
		return nil
	}
	return fmt.Errorf("answer of cluster %x, not %x: %w", id, b.cluster.Load(), store.ErrWentBack)
}

// do calls etcd. A call of an embedded member runs in its own goroutine: it returns
// at once when the member breaks, for the call may never return then.
func do[T any](ctx context.Context, b *Backend, f func(context.Context) (T, error)) (T, error) {
	if b.member == nil {
		v, err := f(ctx)
		return v, translate(err)
	}
	var zero T
	callCtx, end, err := b.member.enter(ctx)
	if err != nil {
		return zero, err
	}
	type result struct {
		v   T
		err error
	}
	got := make(chan result, 1)
	go func() { // Member.Close waits for it, unless the member is broken
		defer end()
		v, err := f(callCtx)
		got <- result{v, translate(err)}
	}()
	select {
	case r := <-got:
		return r.v, r.err
	case <-b.member.Broken():
		return zero, b.member.cause()
	case <-b.member.life.Done():
		return zero, errClosed
	case <-ctx.Done():
		return zero, ctx.Err()
	}
}

// translate converts etcd's errors to those of the store.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpctypes.ErrTooManyOps), errors.Is(err, rpctypes.ErrRequestTooLarge):
		return fmt.Errorf("%w: %w", store.ErrTooLarge, err)
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		return fmt.Errorf("%w: %w", store.ErrLeaseGone, err)
	case errors.Is(err, rpctypes.ErrCompacted):
		return fmt.Errorf("%w: %w", store.ErrCompacted, err)
	}
	return err
}

// Txn applies a transaction.
func (b *Backend) Txn(ctx context.Context, t store.Txn) (store.TxnAnswer, error) {
	if b.member != nil {
		if err := b.member.gate(); err != nil {
			return store.TxnAnswer{}, err
		}
	}
	cmps := make([]clientv3.Cmp, len(t.If))
	for i, c := range t.If {
		cmps[i] = clientv3.Compare(clientv3.CreateRevision(c.Key), "=", c.Created)
		if c.Check == store.ValueIs {
			cmps[i] = clientv3.Compare(clientv3.Value(c.Key), "=", string(c.Value))
		}
	}
	then := make([]clientv3.Op, len(t.Then))
	for i, w := range t.Then {
		switch {
		case w.Value == nil:
			then[i] = clientv3.OpDelete(w.Key)
		case w.Lease != 0:
			then[i] = clientv3.OpPut(w.Key, string(w.Value), clientv3.WithLease(clientv3.LeaseID(w.Lease)))
		default:
			then[i] = clientv3.OpPut(w.Key, string(w.Value))
		}
	}
	otherwise := make([]clientv3.Op, len(t.Else))
	for i, k := range t.Else {
		otherwise[i] = clientv3.OpGet(k)
	}
	b.written.Add(int64(len(then)))
	resp, err := do(ctx, b, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return b.client.Txn(ctx).If(cmps...).Then(then...).Else(otherwise...).Commit()
	})
	if err == nil {
		err = b.same(resp.Header)
	}
	if err != nil {
		return store.TxnAnswer{}, fmt.Errorf("etcd txn: %w", err)
	}
	a := store.TxnAnswer{Done: resp.Succeeded, Revision: resp.Header.Revision}
	if !a.Done {
		for _, r := range resp.Responses {
			for _, kv := range r.GetResponseRange().GetKvs() {
				a.Found = append(a.Found, entry(kv))
			}
		}
	}
	return a, nil
}

// Range reads keys in order, linearizably.
func (b *Backend) Range(ctx context.Context, q store.Query) (store.Page, error) {
	opts := []clientv3.OpOption{clientv3.WithRange(q.To), clientv3.WithRev(q.Revision), clientv3.WithLimit(int64(q.Limit))}
	resp, err := do(ctx, b, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return b.client.Get(ctx, q.From, opts...)
	})
	if err == nil {
		err = b.same(resp.Header)
	}
	if err != nil {
		return store.Page{}, fmt.Errorf("etcd range: %w", err)
	}
	p := store.Page{Revision: resp.Header.Revision, More: resp.More, Entries: make([]store.Entry, len(resp.Kvs))}
	for i, kv := range resp.Kvs {
		p.Entries[i] = entry(kv)
	}
	return p, nil
}

func entry(kv *mvccpb.KeyValue) store.Entry {
	value := kv.Value
	if value == nil {
		value = []byte{}
	}
	return store.Entry{Key: string(kv.Key), Value: value, Created: kv.CreateRevision, Modified: kv.ModRevision,
		Lease: store.LeaseID(kv.Lease)}
}

// Changed waits for an event of the key after the revision.
func (b *Backend) Changed(ctx context.Context, key string, after int64) error {
	_, err := do(ctx, b, func(ctx context.Context) (struct{}, error) {
		ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
		defer cancel()
		for resp := range b.client.Watch(ctx, key, clientv3.WithRev(after+1)) {
			if len(resp.Events) > 0 || resp.CompactRevision > 0 {
				return struct{}{}, nil
			}
			if err := resp.Err(); err != nil {
				return struct{}{}, err
			}
		}
		return struct{}{}, errors.Join(ctx.Err(), errWatchClosed)
	})
	if err != nil {
		return fmt.Errorf("etcd watch: %w", err)
	}
	return nil
}

var errWatchClosed = errors.New("watch closed")

// Grant makes a lease; etcd counts its TTL in whole seconds.
func (b *Backend) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, time.Duration, error) {
	resp, err := do(ctx, b, func(ctx context.Context) (*clientv3.LeaseGrantResponse, error) {
		return b.client.Grant(ctx, int64(math.Ceil(ttl.Seconds())))
	})
	if err == nil {
		err = b.same(resp.ResponseHeader)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("etcd grant: %w", err)
	}
	return store.LeaseID(resp.ID), time.Duration(resp.TTL) * time.Second, nil
}

// KeepAlive restarts a lease's TTL.
func (b *Backend) KeepAlive(ctx context.Context, id store.LeaseID) (time.Duration, error) {
	resp, err := do(ctx, b, func(ctx context.Context) (*clientv3.LeaseKeepAliveResponse, error) {
		return b.client.KeepAliveOnce(ctx, clientv3.LeaseID(id))
	})
	if err == nil {
		err = b.same(resp.ResponseHeader)
	}
	if err != nil {
		return 0, fmt.Errorf("etcd keep-alive: %w", err)
	}
	return time.Duration(resp.TTL) * time.Second, nil
}

// Revoke ends a lease; one that is gone is no error.
func (b *Backend) Revoke(ctx context.Context, id store.LeaseID) error {
	resp, err := do(ctx, b, func(ctx context.Context) (*clientv3.LeaseRevokeResponse, error) {
		return b.client.Revoke(ctx, clientv3.LeaseID(id))
	})
	if errors.Is(err, store.ErrLeaseGone) {
		return nil
	}
	if err == nil {
		err = b.same(resp.Header)
	}
	if err != nil {
		return fmt.Errorf("etcd revoke: %w", err)
	}
	return nil
}
