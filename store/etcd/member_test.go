package etcd_test

import (
	"context"
	"fmt"
	"testing"

	"cantina/internal/run"
	"cantina/store"
	"cantina/store/datadir"
	"cantina/store/etcd"
)

func startMember(t testing.TB, dir string) (*etcd.Member, *datadir.Dir) {
	t.Helper()
	return startMemberWith(t, dir, etcd.MemberConfig{})
}

func startMemberWith(t testing.TB, dir string, c etcd.MemberConfig) (*etcd.Member, *datadir.Dir) {
	t.Helper()
	f, err := datadir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := etcd.Start(context.Background(), f, c)
	if err != nil {
		t.Fatal(err)
	}
	return m, f
}

func stopMember(t testing.TB, m *etcd.Member, f *datadir.Dir) {
	t.Helper()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func campaign(t testing.TB, s *store.Store) *store.Leadership {
	t.Helper()
	r, err := s.Campaign(t.Context(), store.Candidate{ID: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newStore(t testing.TB, b store.Backend, c store.Config) *store.Store {
	t.Helper()
	c.Clock = run.Kernel()
	s, err := store.New(b, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestContentOutlivesTheMember(t *testing.T) {
	dir := t.TempDir()
	var cluster string
	for i := range 3 {
		m, f := startMember(t, dir)
		name, err := m.Backend().Cluster(t.Context())
		if err != nil || (i > 0 && name != cluster) {
			t.Fatalf("cluster %s, then %s, %v", cluster, name, err)
		}
		cluster = name
		r := campaign(t, newStore(t, m.Backend(), store.Config{Memory: f, NewCluster: true}))
		if got := len(r.Rows()); got != i || r.Restored() {
			t.Fatalf("start %d: %d rows, restored %v", i, got, r.Restored())
		}
		commit(t, r, store.Transition{Ops: []store.Op{{Key: fmt.Sprint("k", i), Value: []byte("v")}}})
		if err := r.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		stopMember(t, m, f)
	}
}
