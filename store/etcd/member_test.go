package etcd_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"cantina/internal/run"
	"cantina/store"
	"cantina/store/etcd"
	"cantina/store/folder"
)

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) { w.t.Log(string(p)); return len(p), nil }

func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, nil))
}

func startMember(t testing.TB, dir string) (*etcd.Member, *folder.Folder) {
	t.Helper()
	f, err := folder.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	m, err := etcd.Start(context.Background(), f, etcd.MemberConfig{Log: testLog(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("start took", time.Since(start))
	return m, f
}

func TestStartStopStart(t *testing.T) {
	dir := t.TempDir()
	for i := range 3 {
		m, f := startMember(t, dir)
		s, err := store.New(m.Backend(), store.Config{Clock: run.Kernel(), Memory: f, Log: testLog(t)})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		r, err := s.Campaign(t.Context(), store.Candidate{ID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		t.Log("campaign took", time.Since(start), len(r.Rows()))
		done := make(chan error, 1)
		r.Submit(store.Transition{Ops: []store.Op{{Key: fmt.Sprint("k", i), Value: []byte("v")}}}, func(_ int64, err error) { done <- err })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		if err := r.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Log("resign took", time.Since(start))
		start = time.Now()
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		f.Close()
		t.Log("close took", time.Since(start))
	}
}
