package etcd

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"

	"go.etcd.io/etcd/client/pkg/v3/types"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"

	"cantina/store/datadir"
)

// freePort returns a port that no process listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// TestChangeIsLost: a change of the members whose entry, or whose answer, is lost is tried again, and returns. etcd
// sets no limit of its own to the wait.
func TestChangeIsLost(t *testing.T) {
	f, err := datadir.Open(filepath.Join(t.TempDir(), "server"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	own := MemberAddress{Name: "a", Peer: "127.0.0.1:" + strconv.Itoa(freePort(t))}
	m, err := Start(t.Context(), f, MemberConfig{Membership: &Membership{Name: "a", Members: []MemberAddress{own}}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	self := m.server.Server.MemberID()

	var tries atomic.Int32
	lostOnce := func(ctx context.Context) error {
		if tries.Add(1) == 1 {
			return wait(ctx)
		}
		return nil
	}
	refused := func(context.Context) error { return etcderrors.ErrNotEnoughStartedMembers }
	t.Run("cases", func(t *testing.T) { // returns when all of them have ended
		for _, c := range []struct {
			name    string
			id      types.ID
			present bool
			f       func(context.Context) error
			want    error
		}{
			{"entry lost", 1, true, lostOnce, nil},
			{"answer lost, member there", self, true, wait, nil},
			{"answer lost, member gone", 1, false, wait, nil},
			{"refused", 1, true, refused, etcderrors.ErrNotEnoughStartedMembers},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				if err := m.change(t.Context(), c.id, c.present, c.f); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
			})
		}
	})
	if err := refusal(context.DeadlineExceeded); !errors.Is(err, ErrNoMajority) {
		t.Errorf("all tries are lost: %v", err)
	}
	if n := tries.Load(); n != 2 {
		t.Errorf("%d tries of the entry that was lost once", n)
	}
}
