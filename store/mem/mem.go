// Package mem is the in-memory backend of the store: one store in one process, with revisions,
// leases that expire, transactions and faults, that passes the same suite as etcd (package
// storetest).
//
// It has no goroutine and no timer of its own: a lease expires when it is next used, and a waiting
// Changed sets a timer in its caller's goroutine for the next expiry. So it can be used inside
// testing/synctest bubbles, and, call by call, by a simulator with its own clock. Only tests,
// benchmarks and the simulator use it; it stores nothing on disk.
package mem

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"cantina/store"
)

// Errors that a Fault makes of an answer.
var (
	// ErrRequestLost is the answer to a request that never arrived.
	ErrRequestLost = errors.New("request lost")
	// ErrAnswerLost is the answer to a request that was applied.
	ErrAnswerLost = errors.New("answer lost")
)

// Call is the request that a fault applies to.
type Call int

// The requests of a backend.
const (
	CallTxn Call = iota
	CallRange
	CallChanged
	CallGrant
	CallKeepAlive
	CallRevoke
)

// Fault is the fate of one request.
type Fault int

// The faults. LandLater keeps a Txn back until Land is called: its sender gets
// ErrRequestLost, and it is applied then, if its conditions hold then. Fill answers
// store.ErrFull.
const (
	None Fault = iota
	LoseRequest
	LoseAnswer
	LandLater
	Fill
)

// Config has the parts of a memory store; all fields may be zero.
type Config struct {
	// Now is the clock leases run by [time since New, of the bubble inside one].
	Now func() time.Duration
	// Limits are those of one transaction [128 operations, 1.5 MiB, as an
	// unmodified etcd].
	Limits store.Limits
	// Deleted is how many deleted keys are remembered for waiting Changed calls [10,000].
	Deleted int
	// Cluster names the store ["memory"].
	Cluster string
	// Fault is called before each request, without any lock held; nil is none. The transaction is
	// that of a CallTxn.
	Fault func(Call, store.Txn) Fault
}

// Backend is one store in memory, shared by all that hold it. It is a
// store.Backend.
type Backend struct {
	cfg Config

	mu       sync.Mutex // guards the following
	revision int64
	entries  map[string]store.Entry
	keys     []string // sorted, when sorted is true
	sorted   bool
	leases   map[store.LeaseID]lease
	next     store.LeaseID
	deleted  map[string]int64 // revision of the deletion of keys that are gone
	forgot   int64            // deletions up to this revision may miss in deleted
	later    []store.Txn
	changed  chan struct{} // closed and replaced at each change
}

var _ store.Backend = (*Backend)(nil)

// New returns an empty store.
func New(c Config) *Backend {
	if c.Now == nil {
		start := time.Now()
		c.Now = func() time.Duration { return time.Since(start) }
	}
	if c.Limits.Ops == 0 {
		c.Limits.Ops = 128
	}
	if c.Limits.Bytes == 0 {
		c.Limits.Bytes = 3 << 19
	}
	if c.Deleted == 0 {
		c.Deleted = 10_000
	}
	if c.Cluster == "" {
		c.Cluster = "memory"
	}
	return &Backend{
		cfg: c, revision: 1, entries: make(map[string]store.Entry),
		leases: make(map[store.LeaseID]lease), deleted: make(map[string]int64), changed: make(chan struct{}),
	}
}

// Clone returns a separate store with the same content, leases, revision and name,
// as a copy of the disk would have, without requests kept back.
func (b *Backend) Clone() *Backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := New(b.cfg)
	c.revision, c.next, c.forgot = b.revision, b.next, b.revision
	for k, e := range b.entries {
		c.entries[k] = e
	}
	for id, l := range b.leases {
		c.leases[id] = l
	}
	return c
}

// Limits returns the limits of one transaction.
func (b *Backend) Limits() store.Limits { return b.cfg.Limits }

// Cluster names the store.
func (b *Backend) Cluster(context.Context) (string, error) { return b.cfg.Cluster, nil }

func (b *Backend) fault(c Call, t store.Txn) Fault {
	if b.cfg.Fault == nil {
		return None
	}
	return b.cfg.Fault(c, t)
}

// lost makes an error of a fault that hides the answer.
func lost(f Fault) error {
	switch f {
	case LoseRequest, LandLater:
		return ErrRequestLost
	case LoseAnswer:
		return ErrAnswerLost
	case Fill:
		return store.ErrFull
	case None:
	}
	return nil
}

// arrives reports whether a request with this fault is applied now.
func arrives(f Fault) bool { return f == None || f == LoseAnswer }

// Txn applies a transaction.
func (b *Backend) Txn(ctx context.Context, t store.Txn) (store.TxnAnswer, error) {
	if err := ctx.Err(); err != nil {
		return store.TxnAnswer{}, err
	}
	f := b.fault(CallTxn, t)
	b.mu.Lock()
	defer b.mu.Unlock()
	if f == LandLater {
		b.later = append(b.later, t)
	}
	if !arrives(f) {
		return store.TxnAnswer{}, lost(f)
	}
	a, err := b.apply(t)
	if f == LoseAnswer {
		return store.TxnAnswer{}, ErrAnswerLost
	}
	return a, err
}

// Land applies the transactions that LandLater has kept back, and returns how many
// of them wrote.
func (b *Backend) Land() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	wrote := 0
	for _, t := range b.later {
		if a, err := b.apply(t); err == nil && a.Done {
			wrote++
		}
	}
	b.later = nil
	return wrote
}

func (b *Backend) apply(t store.Txn) (store.TxnAnswer, error) {
	b.expire()
	if err := b.fits(t); err != nil {
		return store.TxnAnswer{}, err
	}
	for _, c := range t.If {
		if !b.holds(c) {
			a := store.TxnAnswer{Revision: b.revision}
			for _, k := range t.Else {
				if e, ok := b.entries[k]; ok {
					a.Found = append(a.Found, e)
				}
			}
			return a, nil
		}
	}
	for _, w := range t.Then {
		if _, ok := b.leases[w.Lease]; w.Lease != 0 && !ok {
			return store.TxnAnswer{}, fmt.Errorf("put %s: %w", w.Key, store.ErrLeaseGone)
		}
	}
	if len(t.Then) > 0 {
		b.revision++
		b.wake()
	}
	for _, w := range t.Then {
		b.write(w)
	}
	return store.TxnAnswer{Done: true, Revision: b.revision}, nil
}

// fits holds a transaction against the limits as etcd does: operations are
// counted, bytes are those of keys and values.
func (b *Backend) fits(t store.Txn) error {
	size := 0
	for _, w := range t.Then {
		size += len(w.Key) + len(w.Value)
	}
	if len(t.Then) > b.cfg.Limits.Ops || size > b.cfg.Limits.Bytes {
		return fmt.Errorf("transaction of %d operations, %d bytes: %w", len(t.Then), size, store.ErrTooLarge)
	}
	return nil
}

func (b *Backend) holds(c store.Condition) bool {
	e, ok := b.entries[c.Key]
	switch c.Check {
	case store.ValueIs:
		return ok && bytes.Equal(e.Value, c.Value)
	case store.CreatedAt:
		return e.Created == c.Created
	}
	return false
}

func (b *Backend) write(w store.Write) {
	e, ok := b.entries[w.Key]
	if w.Value == nil {
		if ok {
			b.remove(w.Key)
		}
		return
	}
	if !ok {
		e = store.Entry{Key: w.Key, Created: b.revision}
		b.sorted = false
		delete(b.deleted, w.Key)
	}
	e.Value, e.Modified, e.Lease = bytes.Clone(w.Value), b.revision, w.Lease
	if e.Value == nil {
		e.Value = []byte{}
	}
	b.entries[w.Key] = e
}

// wake makes the waiting Changed calls check again.
func (b *Backend) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// remove deletes a key and remembers when.
func (b *Backend) remove(key string) {
	delete(b.entries, key)
	b.sorted = false
	if len(b.deleted) >= b.cfg.Deleted {
		clear(b.deleted)
		b.forgot = b.revision
	}
	b.deleted[key] = b.revision
}

// Range reads keys in order. Of the past, only the present revision is kept.
func (b *Backend) Range(ctx context.Context, q store.Query) (store.Page, error) {
	if err := ctx.Err(); err != nil {
		return store.Page{}, err
	}
	f := b.fault(CallRange, store.Txn{})
	if f != None {
		return store.Page{}, lost(f)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	p := store.Page{Revision: b.revision}
	if q.Revision != 0 && q.Revision != b.revision {
		return store.Page{}, fmt.Errorf("range at %d: %w", q.Revision, store.ErrCompacted)
	}
	b.sort()
	for _, k := range b.keys[sort.SearchStrings(b.keys, q.From):] {
		if k >= q.To {
			break
		}
		if q.Limit > 0 && len(p.Entries) == q.Limit {
			p.More = true
			break
		}
		p.Entries = append(p.Entries, b.entries[k])
	}
	return p, nil
}

func (b *Backend) sort() {
	if b.sorted {
		return
	}
	b.keys = b.keys[:0]
	for k := range b.entries {
		b.keys = append(b.keys, k)
	}
	slices.Sort(b.keys)
	b.sorted = true
}

// Set writes a value as no leader would, past every fence: for tests of corrupt
// rows. The key is that of the backend: "cantina/row/" + the row's key.
func (b *Backend) Set(key string, value []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revision++
	b.write(store.Write{Key: key, Value: value})
	b.wake()
}

// Wake makes waiting calls look again, after a clock handed in was moved.
func (b *Backend) Wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	b.wake()
}
