// Package storetest is the one conformance suite of the store: the requirements of every backend
// and of a Store on it, and a check that concurrent clients see a linearizable store while leaders
// change and requests get lost.
//
// The tests of store/mem and store/etcd call Run.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"cantina/internal/run"
	"cantina/store"
)

// Fixture is one empty store under test.
type Fixture struct {
	// Open returns a new connection to the store; it ends with the test.
	Open func(testing.TB) store.Backend
	// Clock is the clock of the servers.
	Clock run.Clock
}

// Run runs the suite; start makes an empty store each time it is called.
func Run(t *testing.T, start func(testing.TB) Fixture) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Fixture)
	}{
		{"Backend/Conditions", conditions},
		{"Backend/Writes", writes},
		{"Backend/Limits", limits},
		{"Backend/Range", ranges},
		{"Backend/Changed", changed},
		{"Backend/Leases", leases},
		{"Store/FirstTerm", firstTerm},
		{"Store/NewCluster", newCluster},
		{"Store/NextTerm", nextTerm},
		{"Store/Load", load},
		{"Store/Order", order},
		{"Store/Batches", batches},
		{"Store/Fullest", fullest},
		{"Store/Coalesce", coalesce},
		{"Store/Refusals", refusals},
		{"Store/BackPressure", backPressure},
		{"Store/Fence", fenced},
		{"Store/ElectionKeyGone", electionKeyGone},
		{"Store/StandBy", standBy},
		{"Store/WatchLeader", watchLeader},
		{"Store/Resign", resign},
		{"Store/ResignEarly", resignEarly},
		{"Store/ResultData", resultData},
		{"Store/Quarantine", quarantine},
		{"Store/Manifest", manifest},
		{"Store/CorruptHead", corruptHead},
		{"Store/Backup", backup},
		{"Store/TornBackup", tornBackup},
		{"Store/MarkRestored", markRestored},
		{"Store/Memory", memory},
		{"Store/LostAnswers", lostAnswers},
		{"Store/Planted/SkippedSequence", plantedSkip},
		{"Store/Stalled", stalled},
		{"Store/Unsettled", unresolved},
		{"Linearizable", linearizable},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, start(t)) })
	}
}

// patience bounds every wait of the suite; a right store never gets near it.
const patience = time.Minute

func ctx(t testing.TB) context.Context {
	c, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return c
}

func (f Fixture) store(t testing.TB, c store.Config) *store.Store {
	t.Helper()
	return f.on(t, f.Open(t), c)
}

func (f Fixture) on(t testing.TB, b store.Backend, c store.Config) *store.Store {
	t.Helper()
	c.Clock = f.Clock
	s, err := store.New(b, c)
	must(t, err)
	return s
}

func campaign(t testing.TB, s *store.Store, id string) *store.Leadership {
	t.Helper()
	r, err := s.Campaign(ctx(t), store.Candidate{ID: id, Addresses: []string{id + ":1"}})
	must(t, err)
	t.Cleanup(func() { _ = r.Resign(context.Background()) }) // ended already, or ended by its test
	return r
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
}

func set(kv ...string) store.Transition {
	var tr store.Transition
	for i := 0; i < len(kv); i += 2 {
		tr.Ops = append(tr.Ops, store.Op{Key: kv[i], Value: []byte(kv[i+1])})
	}
	return tr
}

func del(keys ...string) store.Transition {
	var tr store.Transition
	for _, k := range keys {
		tr.Ops = append(tr.Ops, store.Op{Key: k})
	}
	return tr
}

// submit submits and waits for done.
func submit(t testing.TB, r *store.Leadership, tr store.Transition) (int64, error) {
	t.Helper()
	return await(t, func(done func(int64, error)) { r.Submit(tr, done) })
}

func await(t testing.TB, f func(done func(int64, error))) (int64, error) {
	t.Helper()
	type result struct {
		revision int64
		err      error
	}
	got := make(chan result, 1)
	f(func(revision int64, err error) { got <- result{revision, err} })
	select {
	case x := <-got:
		return x.revision, x.err
	case <-time.After(patience):
		t.Fatal("done was not called")
	}
	return 0, nil
}

func commit(t testing.TB, r *store.Leadership, tr store.Transition) int64 {
	t.Helper()
	revision, err := submit(t, r, tr)
	must(t, err)
	return revision
}

// rows returns all rows as "key=value", sorted, by a new term.
func rows(t testing.TB, r *store.Leadership) []string {
	t.Helper()
	var all []string
	for _, row := range r.Rows() {
		all = append(all, row.Key+"="+string(row.Value))
	}
	return all
}

func wantRows(t testing.TB, r *store.Leadership, want ...string) {
	t.Helper()
	if got := rows(t, r); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("rows %v, want %v", got, want)
	}
}

func ended(t testing.TB, r *store.Leadership) error {
	t.Helper()
	select {
	case <-r.Done():
	case <-time.After(patience):
		t.Fatal("the term goes on")
	}
	return r.Err()
}
