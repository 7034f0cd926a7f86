package etcd_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"cantina/store"
	"cantina/store/etcdtest"
)

// times is how often each fault is met: a few by default, often in soak.
func times() int {
	if os.Getenv("CANTINA_SOAK") != "" {
		return 25
	}
	return 3
}

// cutLine is a leader whose requests go through a proxy to a plain etcd, and a
// direct connection beside it.
type cutLine struct {
	proxy      *etcdtest.Proxy
	direct     store.Backend
	leadership *store.Leadership
}

func newCutLine(t *testing.T) cutLine {
	server := etcdtest.Start(t)
	p := etcdtest.StartProxy(t, server.Addr)
	s := newStore(t, etcdtest.DialAt(t, p.Endpoint),
		store.Config{CommitTimeout: 30 * time.Second, LeaseTTL: 30 * time.Second})
	c := cutLine{proxy: p, direct: server.Dial(t), leadership: campaign(t, s)}
	t.Cleanup(func() {
		if err := c.leadership.Resign(t.Context()); err != nil && !errors.Is(err, t.Context().Err()) {
			t.Log("resign:", err)
		}
	})
	return c
}

func (c cutLine) row(t *testing.T, key string) (store.Entry, bool) {
	t.Helper()
	p, err := c.direct.Range(t.Context(), store.Query{From: "cantina/row/" + key, To: "cantina/row/" + key + "\x00"})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Entries) == 0 {
		return store.Entry{}, false
	}
	return p.Entries[0], true
}

type acked struct {
	revision int64
	err      error
}

func (c cutLine) submit(key, value string) chan acked {
	got := make(chan acked, 1)
	tr := store.Transition{Ops: []store.Op{{Key: key, Value: []byte(value)}}}
	c.leadership.Submit(tr, func(revision int64, err error) { got <- acked{revision, err} })
	return got
}

// The answer is lost after the commit: the leader finds out that it has landed, and
// does not write it again.
func TestAnswerLostAfterCommit(t *testing.T) {
	c := newCutLine(t)
	for i := range times() {
		key := fmt.Sprint("answer-lost-", i)
		commit(t, c.leadership, store.Transition{Ops: []store.Op{{Key: "before", Value: []byte(key)}}})
		before, _ := c.row(t, "before")
		c.proxy.Set(etcdtest.DropAnswers)
		got := c.submit(key, "v")
		if err := c.direct.Changed(t.Context(), "cantina/row/"+key, before.Modified); err != nil {
			t.Fatal(err)
		}
		select {
		case a := <-got:
			t.Fatalf("an answer came through: %+v", a)
		default:
		}
		c.proxy.CutTo(etcdtest.Forward)
		a := <-got
		row, ok := c.row(t, key)
		if a.err != nil || !ok || row.Modified != a.revision || row.Created != row.Modified ||
			row.Modified != before.Modified+1 {
			t.Fatalf("acknowledged %+v, row %+v, before %+v", a, row, before)
		}
	}
}

// The request is lost before the commit: after a bare one it is sent again, and
// lands once.
func TestRequestLostBeforeCommit(t *testing.T) {
	c := newCutLine(t)
	for i := range times() {
		key := fmt.Sprint("request-lost-", i)
		commit(t, c.leadership, store.Transition{Ops: []store.Op{{Key: "before", Value: []byte(key)}}})
		before, _ := c.row(t, "before")
		c.proxy.Set(etcdtest.DropRequests)
		got := c.submit(key, "v")
		c.proxy.Saw(t, key)
		c.proxy.CutTo(etcdtest.Forward)
		a := <-got
		row, ok := c.row(t, key)
		// One revision for the bare transaction, the next for the batch.
		if a.err != nil || !ok || row.Modified != a.revision || row.Created != row.Modified ||
			row.Modified != before.Modified+2 {
			t.Fatalf("acknowledged %+v, row %+v, before %+v", a, row, before)
		}
	}
}

// The request arrives after the leader has given it up and written the same rows again: it changes nothing.
func TestRequestArrivesLate(t *testing.T) {
	c := newCutLine(t)
	for i := range times() {
		key := fmt.Sprint("late-", i)
		c.proxy.Set(etcdtest.HoldRequests)
		got := c.submit(key, "old")
		c.proxy.Saw(t, key)
		c.proxy.CutTo(etcdtest.Forward)
		if a := <-got; a.err != nil {
			t.Fatal(a.err)
		}
		a := <-c.submit(key, "new")
		if a.err != nil {
			t.Fatal(a.err)
		}
		if n, err := c.proxy.Release(); n != 1 || err != nil {
			t.Fatalf("%d late calls were answered, %v", n, err)
		}
		if row, _ := c.row(t, key); string(row.Value) != "new" || row.Modified != a.revision {
			t.Fatalf("the late request landed: %+v, acknowledged %+v", row, a)
		}
		commit(t, c.leadership, store.Transition{Ops: []store.Op{{Key: "after", Value: []byte(key)}}})
	}
}

// The address leads to another store all of a sudden: nothing is written there.
func TestAnotherStoreAtTheSameAddress(t *testing.T) {
	c := newCutLine(t)
	commit(t, c.leadership, store.Transition{Ops: []store.Op{{Key: "k", Value: []byte("v")}}})
	other := etcdtest.StartWith(t, func(e *embed.Config) { e.InitialClusterToken = "another" })
	c.proxy.Target(other.Addr)
	c.proxy.Cut()
	if a := <-c.submit("k", "w"); !errors.Is(a.err, store.ErrWentBack) && !errors.Is(a.err, store.ErrDisplaced) {
		t.Fatalf("%+v", a)
	}
	<-c.leadership.Done()
	p, err := other.Dial(t).Range(t.Context(), store.Query{From: "cantina/", To: "cantina0"})
	if err != nil || len(p.Entries) != 0 {
		t.Fatalf("%+v, %v", p, err)
	}
}

// An operator's etcd that takes less than the default: batches are cut smaller, and
// only a transition that is too large by itself is refused.
func TestStoreTakesLessThanItsLimits(t *testing.T) {
	server := etcdtest.StartWith(t, func(e *embed.Config) { e.MaxTxnOps = 16 })
	r := campaign(t, newStore(t, server.Dial(t), store.Config{}))
	whole := func(name string, n int) (tr store.Transition) {
		for i := range n {
			tr.Ops = append(tr.Ops, store.Op{Key: fmt.Sprint(name, "/", i), Value: []byte("v")})
		}
		return tr
	}
	errs := make(map[string]error)
	for i := range 200 {
		r.Submit(whole(fmt.Sprint("small", i), 3), nil)
		if i%50 == 0 {
			name := fmt.Sprint("large", i)
			r.Submit(whole(name, 40), func(_ int64, err error) { errs[name] = err })
		}
	}
	commit(t, r, store.Transition{})
	for name, err := range errs {
		if !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(errs) != 4 {
		t.Errorf("%d were refused", len(errs))
	}
	if err := r.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	r = campaign(t, newStore(t, server.Dial(t), store.Config{}))
	if got := len(r.Rows()); got != 600 {
		t.Fatalf("%d rows", got)
	}
	if err := r.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
}
