package storetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cantina/fence"
	"cantina/store"
)

// counting records the transactions and the last lease, and can hold one back.
type counting struct {
	store.Backend
	mu    sync.Mutex
	seen  []store.Txn
	last  store.LeaseID
	stops []*hold
}

type hold struct {
	reached chan struct{}
	goOn    chan struct{}
	once    sync.Once
}

func (h *hold) release() { h.once.Do(func() { close(h.goOn) }) }

// hold stops the next transaction before it is sent.
func (c *counting) hold() *hold {
	h := &hold{reached: make(chan struct{}), goOn: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stops = append(c.stops, h)
	return h
}

func (c *counting) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = nil
}

func (c *counting) txns() []store.Txn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen
}

func (c *counting) lease() store.LeaseID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

func (c *counting) Grant(ctx context.Context, ttl time.Duration) (store.LeaseID, time.Duration, error) {
	id, got, err := c.Backend.Grant(ctx, ttl)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = id
	return id, got, err
}

func (c *counting) Txn(ctx context.Context, t store.Txn) (store.TxnAnswer, error) {
	c.mu.Lock()
	var h *hold
	if len(c.stops) > 0 {
		h, c.stops = c.stops[0], c.stops[1:]
	}
	c.mu.Unlock()
	if h != nil {
		close(h.reached)
		select {
		case <-h.goOn:
		case <-ctx.Done():
			return store.TxnAnswer{}, ctx.Err()
		}
	}
	a, err := c.Backend.Txn(ctx, t)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, t)
	return a, err
}

var errLost = errors.New("lost by the test")

// lossy loses requests and answers of transactions and reads by a seed; some of the
// requests it loses arrive later, at the next transaction.
type lossy struct {
	store.Backend
	rate float64

	mu   sync.Mutex
	rng  *rand.Rand
	late []store.Txn
	hits map[string]int
	on   bool

	lease atomic.Bool // renewals of leases are lost too
}

// KeepAlive loses renewals when that is wanted.
func (l *lossy) KeepAlive(ctx context.Context, id store.LeaseID) (time.Duration, error) {
	if l.lease.Load() {
		return 0, errLost
	}
	return l.Backend.KeepAlive(ctx, id)
}

func newLossy(b store.Backend, seed int64, rate float64) *lossy {
	return &lossy{Backend: b, rate: rate, rng: rand.New(rand.NewSource(seed)), hits: make(map[string]int)}
}

func (l *lossy) enable(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.on = on
}

// draw picks a fault, and applies late requests now.
func (l *lossy) draw(of ...string) (fault string, late []store.Txn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.on {
		return "", nil
	}
	if l.rng.Float64() < l.rate {
		fault = of[l.rng.Intn(len(of))]
		l.hits[fault]++
	}
	if len(l.late) > 0 && l.rng.Intn(2) == 0 {
		late, l.late = l.late, nil
	}
	return fault, late
}

func (l *lossy) Txn(ctx context.Context, t store.Txn) (store.TxnAnswer, error) {
	fault, late := l.draw("request", "answer", "late")
	for _, old := range late {
		if a, err := l.Backend.Txn(ctx, old); err == nil && a.Done {
			l.mu.Lock()
			l.hits["landed late"]++
			l.mu.Unlock()
		}
	}
	switch fault {
	case "request":
		return store.TxnAnswer{}, errLost
	case "late":
		l.mu.Lock()
		defer l.mu.Unlock()
		l.late = append(l.late, t)
		return store.TxnAnswer{}, errLost
	}
	a, err := l.Backend.Txn(ctx, t)
	if fault == "answer" {
		return store.TxnAnswer{}, errLost
	}
	return a, err
}

func (l *lossy) Range(ctx context.Context, q store.Query) (store.Page, error) {
	if fault, _ := l.draw("read"); fault != "" {
		return store.Page{}, errLost
	}
	return l.Backend.Range(ctx, q)
}

// lostAnswers: with half of all requests lost one way or another, every transition
// lands exactly once and in order.
func lostAnswers(t *testing.T, f Fixture) {
	l := newLossy(f.Open(t), 1, 0.5)
	const n = 120
	if err := commitUnderLoss(t, f, l, n); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"request", "answer", "late", "read", "landed late"} {
		if l.hits[kind] == 0 {
			t.Fatalf("%s was never hit: %v", kind, l.hits)
		}
	}
	if got := len(campaign(t, f.store(t, store.Config{}), "b").Rows()); got != n+1 {
		t.Fatalf("%d rows, want %d", got, n+1)
	}
}

// commitUnderLoss commits n transitions over a lossy backend and compares each acknowledgement
// with the content of the store.
func commitUnderLoss(t testing.TB, f Fixture, l *lossy, n int) error {
	r := campaign(t, f.on(t, l, store.Config{KeepAlive: 10 * time.Millisecond}), "a")
	l.enable(true)
	for i := range n {
		revision, err := submit(t, r, set("last", fmt.Sprint(i), fmt.Sprintf("once/%03d", i), "x"))
		if err != nil {
			return err
		}
		row, ok, err := raw(t, l.Backend, "last")
		if err != nil || !ok || string(row.Value) != fmt.Sprint(i) || row.Modified != revision {
			return fmt.Errorf("commit %d at %d acknowledged, store has %q at %d, %w", i, revision, row.Value, row.Modified, err)
		}
	}
	l.enable(false)
	return r.Resign(ctx(t))
}

// unfenced plants a mistake: it skips the sequence check.
type unfenced struct{ store.Backend }

func (u unfenced) Txn(ctx context.Context, t store.Txn) (store.TxnAnswer, error) {
	var rest []store.Condition
	for _, c := range t.If {
		if c.Check != store.ValueIs {
			rest = append(rest, c)
		}
	}
	t.If = rest
	return u.Backend.Txn(ctx, t)
}

// plantedSkip: without the sequence check, late requests land over newer ones, and commitUnderLoss
// detects it.
func plantedSkip(t *testing.T, f Fixture) {
	for seed := range int64(10) {
		l := newLossy(unfenced{f.Open(t)}, seed, 0.5)
		if err := commitUnderLoss(t, f, l, 120); err != nil {
			t.Logf("seed %d: %v", seed, err)
			return
		}
	}
	t.Fatal("a skipped sequence check was not found")
}

func raw(t testing.TB, b store.Backend, row string) (store.Entry, bool, error) {
	p, err := b.Range(ctx(t), store.Query{From: "cantina/row/" + row, To: "cantina/row/" + row + "\x00"})
	if err != nil || len(p.Entries) == 0 {
		return store.Entry{}, false, err
	}
	return p.Entries[0], true, nil
}

// lines is a writer of log lines that a test waits for.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	select {
	case l <- string(b):
	default:
	}
	return len(b), nil
}

// stalled: while no request has an outcome, and the lease is held, the term continues. Requests for a change
// are refused with the reason, and commits land once, in order, when the store answers.
func stalled(t *testing.T, f Fixture) {
	l, log := newLossy(f.Open(t), 1, 1), make(lines, 1)
	r := campaign(t, f.on(t, l, store.Config{KeepAlive: 50 * time.Millisecond, StallTimeout: 100 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError}))}), "a")
	commit(t, r, set("k", "before"))
	l.enable(true)
	var order []string
	for _, v := range []string{"first", "second"} {
		r.Submit(set("k", v, v, ""), func(_ int64, err error) {
			if err == nil {
				order = append(order, v)
			}
		})
	}
	<-log
	wantErr(t, r.NoRoom(), store.ErrStalled)
	must(t, r.Err())
	if !r.LeaseHeld() {
		t.Fatal("the lease is not held")
	}
	l.enable(false)
	commit(t, r, set("last", ""))
	must(t, r.NoRoom())
	if got := fmt.Sprint(order); got != "[first second]" {
		t.Errorf("landed %s", got)
	}
	must(t, r.Resign(ctx(t)))
	wantRows(t, campaign(t, f.store(t, store.Config{}), "b"), "first=", "k=second", "last=", "second=")
}

// unresolved: when all requests are lost, the renewals of the lease among them, the term ends with the lease, and
// reports that the outcome is unknown.
func unresolved(t *testing.T, f Fixture) {
	l := newLossy(f.Open(t), 1, 1)
	r := campaign(t, f.on(t, l, store.Config{LeaseTTL: 2 * time.Second, KeepAlive: 50 * time.Millisecond}), "a")
	commit(t, r, set("k", "before"))
	l.enable(true)
	l.lease.Store(true)
	var later error
	r.Submit(set("k", "unknown"), nil)
	r.Submit(set("k", "never sent"), func(_ int64, err error) { later = err })
	wantErr(t, ended(t, r), store.ErrLeaseGone)
	wantErr(t, r.Resign(ctx(t)), store.ErrLeaseGone)
	wantErr(t, later, store.ErrLeaseGone)
}

// memo is a store.Memory in memory.
type memo struct {
	mu   sync.Mutex
	memo store.Memo
	fail error
}

func (m *memo) Load() (store.Memo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.memo, m.fail
}

func (m *memo) Save(n store.Memo) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.memo = n
	return m.fail
}

// memory: a server's record beside the store revokes its own dead lease, and shows that the store
// went back or was moved.
func memory(t *testing.T, f Fixture) {
	gone := &memo{}
	b := &counting{Backend: f.Open(t)}
	s := f.on(t, b, store.Config{Memory: gone, NewCluster: true, LeaseTTL: 10 * time.Minute})
	dead := campaign(t, s, "a")
	kept, err := gone.Load()
	if must(t, err); kept.Lease != b.lease() || kept.Seen != dead.Term() || kept.Cluster == "" {
		t.Fatalf("memo %+v", kept)
	}
	// The process is gone and writes no more, its lease of ten minutes is not: the next
	// one need not wait.
	mem := &memo{memo: kept}
	r := campaign(t, f.store(t, store.Config{Memory: mem, LeaseTTL: 10 * time.Minute}), "a")
	if r.Restored() || r.Term().Epoch != dead.Term().Epoch || !dead.Term().Less(r.Term()) {
		t.Fatalf("restored %v, term %s after %s", r.Restored(), r.Term(), dead.Term())
	}
	must(t, r.Resign(ctx(t)))
	if mem.memo.Lease != 0 {
		t.Fatalf("a revoked lease is remembered: %+v", mem.memo)
	}
	kept = mem.memo
	for name, change := range map[string]func(*store.Memo){
		"moved":         func(m *store.Memo) { m.Moved = true },
		"another store": func(m *store.Memo) { m.Cluster = "elsewhere"; m.Lease = 1 },
		"went back":     func(m *store.Memo) { m.Seen = fence.Term{Epoch: kept.Seen.Epoch + 10, Revision: 1} },
	} {
		t.Run(name, func(t *testing.T) {
			before := mem.memo.Seen
			change(&mem.memo)
			r := campaign(t, f.store(t, store.Config{Memory: mem}), "a")
			if !r.Restored() || r.Term().Epoch <= before.Epoch || !before.Less(r.Term()) || mem.memo.Moved {
				t.Fatalf("restored %v, term %s after %s, memo %+v", r.Restored(), r.Term(), before, mem.memo)
			}
			must(t, r.Resign(ctx(t)))
			r = campaign(t, f.store(t, store.Config{Memory: mem}), "a")
			if r.Term().Epoch != mem.memo.Seen.Epoch {
				t.Fatalf("the epoch rose twice: %s", r.Term())
			}
			_, err := await(t, func(done func(int64, error)) { r.ClearRestored(done) })
			must(t, err)
			must(t, r.Resign(ctx(t)))
		})
	}
	mem.fail = errors.New("disk on fire")
	_, err = f.store(t, store.Config{Memory: mem}).Campaign(ctx(t), store.Candidate{ID: "a"})
	wantErr(t, err, mem.fail)
}
