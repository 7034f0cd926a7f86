package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"cantina/fence"
	"cantina/store"
)

func firstTerm(t *testing.T, f Fixture) {
	s := f.store(t, store.Config{})
	_, err := s.Leader(ctx(t))
	wantErr(t, err, store.ErrNoLeader)
	r := campaign(t, s, "a")
	if r.Term().Epoch != f.Clock.Wall().Unix() && r.Term().Epoch != f.Clock.Wall().Unix()-1 || r.Term().Revision <= 0 {
		t.Fatalf("term %s", r.Term())
	}
	if !r.NewStore() || !r.Restored() || !r.LeaseHeld() || r.Err() != nil {
		t.Fatalf("new %v, restored %v, held %v, error %v", r.NewStore(), r.Restored(), r.LeaseHeld(), r.Err())
	}
	wantRows(t, r)
	l, err := f.store(t, store.Config{}).Leader(ctx(t))
	must(t, err)
	if l.ID != "a" || fmt.Sprint(l.Addresses) != "[a:1]" || l.Term != r.Term() {
		t.Fatalf("leader %+v", l)
	}
}

func newCluster(t *testing.T, f Fixture) {
	if r := campaign(t, f.store(t, store.Config{NewCluster: true}), "a"); r.Restored() || !r.NewStore() {
		t.Fatal("a new store of a new cluster has nothing to wait for")
	}
}

func nextTerm(t *testing.T, f Fixture) {
	r := campaign(t, f.store(t, store.Config{}), "a")
	must(t, r.Resign(ctx(t)))
	r2 := campaign(t, f.store(t, store.Config{}), "b")
	if !r.Term().Less(r2.Term()) || r.Term().Epoch != r2.Term().Epoch {
		t.Fatalf("%s, then %s", r.Term(), r2.Term())
	}
	if r2.NewStore() || !r2.Restored() {
		t.Fatal("the mark of a new store stays until it is cleared")
	}
	_, err := await(t, func(done func(int64, error)) { r2.ClearRestored(done) })
	must(t, err)
	if r2.Restored() {
		t.Fatal("cleared")
	}
	commit(t, r2, set("k", "v"))
	must(t, r2.Resign(ctx(t)))
	if r3 := campaign(t, f.store(t, store.Config{}), "a"); r3.Restored() || !r2.Term().Less(r3.Term()) {
		t.Fatalf("restored %v, term %s after %s", r3.Restored(), r3.Term(), r2.Term())
	}
}

func load(t *testing.T, f Fixture) {
	r := campaign(t, f.store(t, store.Config{}), "a")
	at := commit(t, r, set("lrp/desired/b", "2", "data/job/n1", "not loaded", "lrp/desired/a", "1", "a", "0", "zz", "3",
		"data", "x", "datum", "y"))
	commit(t, r, del("zz"))
	last := commit(t, r, set("a", "00"))
	must(t, r.Resign(ctx(t)))
	r2 := campaign(t, f.store(t, store.Config{}), "b")
	if r2.Revision() <= last {
		t.Fatalf("load at revision %d, but the last commit was %d", r2.Revision(), last)
	}
	got := r2.Rows()
	var text []string
	for _, row := range got {
		text = append(text, fmt.Sprintf("%s=%s@%v", row.Key, row.Value, row.Revision == at || row.Key == "a" &&
			row.Revision == last))
	}
	if want := "[a=00@true data=x@true datum=y@true lrp/desired/a=1@true lrp/desired/b=2@true]"; fmt.Sprint(text) != want {
		t.Fatalf("%v, want %s", text, want)
	}
	if r2.Rows() != nil {
		t.Fatal("the load is handed over once")
	}
}

func order(t *testing.T, f Fixture) {
	r := campaign(t, f.store(t, store.Config{}), "a")
	const n = 2000
	var mu sync.Mutex
	var got []int
	var last int64
	for i := range n {
		var returned sync.Mutex
		returned.Lock()
		tr := set(fmt.Sprint("k", i%50), fmt.Sprint(i))
		if i%7 == 0 {
			tr = store.Transition{} // a barrier
		}
		r.Submit(tr, func(revision int64, err error) {
			returned.Lock() // blocks forever if called before Submit returned
			mu.Lock()
			defer mu.Unlock()
			if err != nil || revision < last {
				t.Errorf("transition %d: revision %d after %d, error %v", i, revision, last, err)
			}
			last = revision
			got = append(got, i)
		})
		returned.Unlock()
	}
	commit(t, r, store.Transition{})
	mu.Lock()
	defer mu.Unlock()
	for i, x := range got {
		if i != x {
			t.Fatalf("done %d was called as number %d", x, i)
		}
	}
	if len(got) != n {
		t.Fatalf("%d of %d were called", len(got), n)
	}
}

// batches: more than one transaction holds, in sizes around the limits; all land,
// none is split.
func batches(t *testing.T, f Fixture) {
	b := &counting{Backend: f.Open(t)}
	r := campaign(t, f.on(t, b, store.Config{}), "a")
	most := b.Limits().Ops - 1
	big := strings.Repeat("x", b.Limits().Bytes/3)
	whole := func(name string, n int) store.Transition {
		var tr store.Transition
		for i := range n {
			tr.Ops = append(tr.Ops, store.Op{Key: fmt.Sprintf("%s/%06d", name, i), Value: []byte(name)})
		}
		return tr
	}
	b.reset()
	want := 0
	for i := range 8 {
		for _, n := range []int{most, 1, most / 2, most/2 + 1, 3} {
			r.Submit(whole(fmt.Sprint("t", i, "-", n), n), nil)
			want += n
		}
		r.Submit(set(fmt.Sprint("big", i), big), nil)
		want++
	}
	commit(t, r, store.Transition{})
	for _, txn := range b.txns() {
		perKey := make(map[string]int)
		for _, w := range txn.Then {
			name, _, _ := strings.Cut(strings.TrimPrefix(w.Key, "cantina/row/"), "/")
			perKey[name]++
		}
		for name, n := range perKey {
			if _, size, ok := strings.Cut(name, "-"); ok && size != fmt.Sprint(n) {
				t.Fatalf("transition %s was split: %d rows in one transaction", name, n)
			}
		}
	}
	must(t, r.Resign(ctx(t)))
	if got := len(campaign(t, f.store(t, store.Config{}), "b").Rows()); got != want {
		t.Fatalf("%d rows, want %d", got, want)
	}
}

// fullest: the largest transition that the store claims to accept is accepted, so its estimates
// are not below the backend's count.
func fullest(t *testing.T, f Fixture) {
	r := campaign(t, f.store(t, store.Config{}), "a")
	limits := f.Open(t).Limits()
	for _, ops := range []int{1, limits.Ops - 1} {
		tr := store.Transition{Ops: make([]store.Op, ops)}
		for i := range tr.Ops {
			tr.Ops[i] = store.Op{Key: fmt.Sprintf("%0100d", i), Value: []byte{}}
		}
		low, high := 0, limits.Bytes // the largest value that fits, by bisection
		for low < high {
			mid := (low + high + 1) / 2
			for i := range tr.Ops {
				tr.Ops[i].Value = make([]byte, mid)
			}
			if r.Fits(tr) == nil {
				low = mid
			} else {
				high = mid - 1
			}
		}
		for i := range tr.Ops {
			tr.Ops[i].Value = make([]byte, low)
		}
		commit(t, r, tr)
	}
}

func coalesce(t *testing.T, f Fixture) {
	b := &counting{Backend: f.Open(t)}
	r := campaign(t, f.on(t, b, store.Config{}), "a")
	hold := b.hold() // the first commit waits, the rest gathers behind it
	r.Submit(set("first", "1"), nil)
	<-hold.reached
	var revisions []int64
	note := func(revision int64, err error) {
		if err != nil {
			t.Error(err)
		}
		revisions = append(revisions, revision)
	}
	for i := range 500 {
		r.Submit(set("same", fmt.Sprint(i), fmt.Sprint("k", i%5), fmt.Sprint(i)), note)
	}
	r.Submit(del("k0"), note)
	r.Submit(store.Transition{Ops: []store.Op{{Key: "twice", Value: []byte("1")}, {Key: "twice", Value: []byte("2")}}},
		note)
	b.reset()
	hold.release()
	commit(t, r, store.Transition{})
	if n := len(b.txns()); n != 2 {
		t.Fatalf("%d transactions: the first, and one for all that gathered behind it", n)
	}
	for _, revision := range revisions {
		if revision != revisions[0] {
			t.Fatalf("revisions %v of one commit", revisions)
		}
	}
	must(t, r.Resign(ctx(t)))
	wantRows(t, campaign(t, f.store(t, store.Config{}), "b"), "first=1", "k1=496", "k2=497", "k3=498", "k4=499",
		"same=499", "twice=2")
}

func refusals(t *testing.T, f Fixture) {
	r := campaign(t, f.store(t, store.Config{}), "a")
	limits := f.Open(t).Limits()
	var many store.Transition
	for i := range limits.Ops {
		many.Ops = append(many.Ops, store.Op{Key: fmt.Sprint("k", i), Value: []byte("v")})
	}
	large := store.Transition{Ops: []store.Op{{Key: "k", Value: make([]byte, limits.Bytes)}}}
	for _, c := range []struct {
		tr   store.Transition
		want error
	}{{many, store.ErrTooLarge}, {large, store.ErrTooLarge}, {set("", "v"), store.ErrBadKey}} {
		wantErr(t, r.Fits(c.tr), c.want)
		revision, err := submit(t, r, c.tr)
		wantErr(t, err, c.want)
		if revision != 0 {
			t.Fatalf("revision %d", revision)
		}
	}
	must(t, r.Fits(set("k", "v")))
	for i := range many.Ops { // one key many times is one row
		many.Ops[i].Key = "same"
	}
	must(t, r.Fits(many))
	commit(t, r, many)
	commit(t, r, set("after", "1"))
	must(t, r.Resign(ctx(t)))
	wantRows(t, campaign(t, f.store(t, store.Config{}), "b"), "after=1", "same=v")
}

func backPressure(t *testing.T, f Fixture) {
	b := &counting{Backend: f.Open(t)}
	r := campaign(t, f.on(t, b, store.Config{QueueBound: 3}), "a")
	hold := b.hold()
	r.Submit(set("k", "0"), nil)
	<-hold.reached
	for i := range 3 {
		if r.Full() {
			t.Fatalf("full with %d waiting", i)
		}
		must(t, r.Wait(ctx(t)))
		r.Submit(set("k", "1"), nil)
	}
	if !r.Full() {
		t.Fatal("not full at the bound")
	}
	c, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, r.Wait(c), context.Canceled)
	r.Submit(set("k", "2"), nil) // accepted all the same
	waited := make(chan error, 1)
	go func() { waited <- r.Wait(ctx(t)) }()
	hold.release()
	must(t, <-waited)
	commit(t, r, store.Transition{})
	must(t, r.Resign(ctx(t)))
	wantErr(t, r.Wait(ctx(t)), store.ErrResigned)
}

// electionKeyGone: a leader whose election key is deleted while its lease lives ends at once, also
// without commits: otherwise it would continue to give credit beside its successor.
func electionKeyGone(t *testing.T, f Fixture) {
	b := &counting{Backend: f.Open(t)}
	r := campaign(t, f.on(t, b, store.Config{}), "a")
	commit(t, r, set("k", "mine"))
	election := ""
	for _, x := range b.txns() {
		for _, w := range x.Then {
			if w.Lease != 0 {
				election = w.Key
			}
		}
	}
	if election == "" {
		t.Fatal("no key stands on the leader's lease")
	}
	_, err := f.Open(t).Txn(ctx(t), store.Txn{Then: []store.Write{{Key: election}}})
	must(t, err)
	wantErr(t, ended(t, r), store.ErrDisplaced)
	if r.LeaseHeld() {
		t.Fatal("the old leader believes in its lease")
	}
	commit(t, campaign(t, f.store(t, store.Config{}), "b"), set("other", "x"))
}

// fenced: a leader that lost its lease changes nothing, in any state.
func fenced(t *testing.T, f Fixture) {
	b := &counting{Backend: f.Open(t)}
	r := campaign(t, f.on(t, b, store.Config{}), "a")
	commit(t, r, set("k", "mine"))
	must(t, f.Open(t).Revoke(ctx(t), b.lease()))
	r2 := campaign(t, f.store(t, store.Config{}), "b")
	wantRows(t, r2, "k=mine")
	_, err := submit(t, r, set("k", "stolen"))
	if !errors.Is(err, store.ErrDisplaced) && !errors.Is(err, store.ErrLeaseGone) {
		t.Fatalf("old leader: %v", err)
	}
	if end := ended(t, r); !errors.Is(err, end) && !errors.Is(end, store.ErrLeaseGone) &&
		!errors.Is(end, store.ErrDisplaced) {
		t.Fatalf("term ended by %v", end)
	}
	if r.LeaseHeld() {
		t.Fatal("the old leader believes in its lease")
	}
	_, _, err = r.Get(ctx(t), "k")
	wantErr(t, err, store.ErrLeaseNotProven)
	if err := r.Resign(ctx(t)); err == nil {
		t.Fatal("resigned without error")
	}
	commit(t, r2, set("other", "x"))
	row, ok, err := r2.Get(ctx(t), "k")
	if err != nil || !ok || string(row.Value) != "mine" {
		t.Fatalf("%+v, %v, %v", row, ok, err)
	}
}

// standBy: of many servers one leads; each takes over when the one before resigns,
// in terms that grow.
func standBy(t *testing.T, f Fixture) {
	const servers = 4
	type won struct {
		id int
		r  *store.Leadership
	}
	wins := make(chan won)
	var all sync.WaitGroup
	for i := range servers {
		s := f.store(t, store.Config{})
		all.Go(func() {
			r, err := s.Campaign(ctx(t), store.Candidate{ID: fmt.Sprint("s", i)})
			if err != nil {
				t.Error(err)
				return
			}
			wins <- won{i, r}
		})
	}
	var last fence.Term
	for n := range servers {
		w := <-wins
		if !last.Less(w.r.Term()) {
			t.Errorf("term %s after %s", w.r.Term(), last)
		}
		last = w.r.Term()
		if got := len(w.r.Rows()); got != n {
			t.Errorf("server %d sees %d rows, want %d", w.id, got, n)
		}
		commit(t, w.r, set(fmt.Sprint("won by ", w.id), last.String()))
		l, err := f.store(t, store.Config{}).Leader(ctx(t))
		must(t, err)
		if l.ID != fmt.Sprint("s", w.id) || l.Term != last {
			t.Errorf("leader %+v", l)
		}
		select {
		case x := <-wins:
			t.Fatalf("two leaders: %d and %d", w.id, x.id)
		default:
		}
		must(t, w.r.Resign(ctx(t)))
	}
	all.Wait()
}

func watchLeader(t *testing.T, f Fixture) {
	c, cancel := context.WithCancel(ctx(t))
	reported := make(chan store.Leader, 100)
	watched := make(chan error, 1)
	go func() { watched <- f.store(t, store.Config{}).WatchLeader(c, func(l store.Leader) { reported <- l }) }()
	until := func(what string, is func(store.Leader) bool) {
		t.Helper()
		for {
			select {
			case l := <-reported:
				if is(l) {
					return
				}
			case <-time.After(patience):
				t.Fatal("never reported: " + what)
			}
		}
	}
	nobody := func(l store.Leader) bool { return l.ID == "" && l.Term.IsZero() }
	until("nobody leads", nobody)
	for _, id := range []string{"a", "b"} {
		r := campaign(t, f.store(t, store.Config{}), id)
		until(id+" leads", func(l store.Leader) bool { return l.ID == id && l.Term == r.Term() && l.Addresses[0] == id+":1" })
		must(t, r.Resign(ctx(t)))
		until("nobody leads again", nobody)
	}
	cancel()
	wantErr(t, <-watched, context.Canceled)
}

func resign(t *testing.T, f Fixture) {
	r := campaign(t, f.store(t, store.Config{}), "a")
	const n = 300
	var mu sync.Mutex
	called := 0
	for i := range n {
		r.Submit(set(fmt.Sprintf("k%03d", i), "v"), func(_ int64, err error) {
			mu.Lock()
			defer mu.Unlock()
			called++
			if err != nil {
				t.Errorf("queued before Resign: %v", err)
			}
		})
	}
	must(t, r.Resign(ctx(t)))
	mu.Lock()
	if called != n {
		t.Errorf("%d of %d dones were called", called, n)
	}
	mu.Unlock()
	wantErr(t, ended(t, r), store.ErrResigned)
	if r.LeaseHeld() {
		t.Error("lease held after Resign")
	}
	_, err := submit(t, r, set("late", "v"))
	wantErr(t, err, store.ErrResigned)
	must(t, r.Resign(ctx(t)))
	if got := len(campaign(t, f.store(t, store.Config{}), "b").Rows()); got != n {
		t.Fatalf("%d rows, want %d", got, n)
	}
}

func resignEarly(t *testing.T, f Fixture) {
	b := &counting{Backend: f.Open(t)}
	r := campaign(t, f.on(t, b, store.Config{}), "a")
	hold := b.hold()
	defer hold.release()
	var errs []error
	r.Submit(set("k", "v"), func(_ int64, err error) { errs = append(errs, err) })
	<-hold.reached
	r.Submit(set("k", "w"), func(_ int64, err error) { errs = append(errs, err) })
	c, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, r.Resign(c), context.Canceled)
	if len(errs) != 2 || errs[0] == nil || errs[1] == nil {
		t.Fatalf("dones: %v", errs)
	}
}
