package etcd_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"cantina/internal/run"
	"cantina/store"
	"cantina/store/datadir"
	"cantina/store/etcd"
)

// Close ends a member under calls of every kind; they all return, and no goroutine
// is left.
func TestCloseUnderCalls(t *testing.T) {
	before := goleak.IgnoreCurrent()
	m, f := startMember(t, t.TempDir())
	s := newStore(t, m.Backend(), store.Config{})
	r := campaign(t, s)
	calls := map[string]func() error{
		"watch":    func() error { return m.Backend().Changed(t.Context(), "never", 1<<40) },
		"stand by": func() error { _, err := s.Campaign(t.Context(), store.Candidate{ID: "second"}); return err },
		"maintain": func() error { return errors.Join(m.Maintain(t.Context()), store.ErrBroken) },
		"commit": func() error {
			for {
				done := make(chan error, 1)
				r.Submit(store.Transition{Ops: []store.Op{{Key: "k", Value: []byte("v")}}},
					func(_ int64, err error) { done <- err })
				if err := <-done; err != nil {
					return err
				}
			}
		},
	}
	got := make(chan error)
	for name, call := range calls {
		go func() {
			if err := call(); !errors.Is(err, store.ErrBroken) {
				t.Errorf("%s: %v", name, err)
			}
			got <- nil
		}()
	}
	commit(t, r, store.Transition{Ops: []store.Op{{Key: "other", Value: []byte("v")}}})
	stopMember(t, m, f)
	for range calls {
		<-got
	}
	if err := r.Resign(t.Context()); !errors.Is(err, store.ErrBroken) {
		t.Error(err)
	}
	if err := m.Close(); err != nil {
		t.Error("closed twice:", err)
	}
	if _, err := m.Backend().Range(t.Context(), store.Query{From: "a", To: "b"}); !errors.Is(err, store.ErrBroken) {
		t.Error(err)
	}
	// Stopped goroutines end when they get a processor.
	err := goleak.Find(before)
	for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); {
		err = goleak.Find(before)
	}
	if err != nil {
		t.Error(err)
	}
}

// A damaged log does not end the process: Start names the damage.
func TestDamagedLog(t *testing.T) {
	dir := t.TempDir()
	m, f := startMember(t, dir)
	r := campaign(t, newStore(t, m.Backend(), store.Config{}))
	for range 50 {
		commit(t, r, store.Transition{Ops: []store.Op{{Key: "k", Value: make([]byte, 1000)}}})
	}
	if err := r.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopMember(t, m, f)
	logs, err := filepath.Glob(filepath.Join(dir, "etcd", "member", "wal", "*.wal"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("%v, %v", logs, err)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	// In a value: where a record gives its own length, etcd takes the rest for torn off.
	value := bytes.Index(text[10_000:], make([]byte, 900))
	if value < 0 {
		t.Fatal("no value in the log")
	}
	wal, err := os.OpenFile(logs[0], os.O_WRONLY, 0)
	if err == nil {
		_, err = wal.WriteAt([]byte(strings.Repeat("damage", 100)), int64(10_000+value))
		err = errors.Join(err, wal.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err = datadir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := etcd.Start(t.Context(), f, etcd.MemberConfig{}); err == nil || !strings.Contains(err.Error(), dir) ||
		!strings.HasSuffix(err.Error(), "cantina store restore FILE --data "+filepath.Dir(dir)) {
		t.Fatal(err)
	} else {
		t.Log(err)
	}
}

func TestStartUnderAnEndedContext(t *testing.T) {
	f, err := datadir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	m, err := etcd.Start(ended, f, etcd.MemberConfig{})
	if err == nil { // it was ready at once
		err = m.Close()
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	m, err = etcd.Start(t.Context(), f, etcd.MemberConfig{}) // the directory is not left half open
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// A first start that was killed at any moment starts over; a member that has served does not.
func TestUnbornMemberIsBegunAnew(t *testing.T) {
	f, err := datadir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// The worst result of a kill: a log without an entry.
	half := f.Path(filepath.Join("etcd", "member", "wal"))
	if err := errors.Join(os.WriteFile(f.Path("etcd.unborn"), nil, 0o600), os.MkdirAll(half, 0o700),
		os.WriteFile(filepath.Join(half, "0000000000000000-0000000000000000.wal"), make([]byte, 64), 0o600)); err != nil {
		t.Fatal(err)
	}
	for want := range 2 {
		m, err := etcd.Start(t.Context(), f, etcd.MemberConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(f.Path("etcd.unborn")); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("a serving member is called unborn: %v", err)
		}
		r := campaign(t, newStore(t, m.Backend(), store.Config{}))
		if got := len(r.Rows()); got != want {
			t.Fatalf("%d rows, want %d", got, want)
		}
		commit(t, r, store.Transition{Ops: []store.Op{{Key: "k", Value: []byte("v")}}})
		if err := errors.Join(r.Resign(t.Context()), m.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// Without a reachable etcd, Dial works, Campaign tries until ctx ends.
func TestClusterOutOfReach(t *testing.T) {
	if _, err := etcd.Dial(etcd.ClusterConfig{}); err == nil {
		t.Fatal("no endpoints")
	}
	c, err := etcd.Dial(etcd.ClusterConfig{Endpoints: []string{"http://127.0.0.1:1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := store.New(c.Backend(), store.Config{Clock: run.Kernel()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := s.Campaign(ctx, store.Candidate{ID: "a"})
		got <- err
	}()
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
