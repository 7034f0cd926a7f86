package etcd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"golang.org/x/sys/unix"

	"cantina/fence"
	"cantina/internal/run"
	"cantina/store"
	"cantina/store/datadir"
	"cantina/store/etcd"
)

func grows(t *testing.T, before, after string) bool {
	t.Helper()
	a, err1 := fence.ParseTerm(before)
	b, err2 := fence.ParseTerm(after)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	return a.Less(b)
}

// smallDisk mounts a file system of some MiB.
func smallDisk(t *testing.T, mib int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Skipf("SKIPPED, needs root to mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill leaves so many bytes free on the file system of dir; it returns the file to delete.
func fill(t *testing.T, dir string, leave int64) string {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "ballast")
	ballast, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer ballast.Close()
	if err := unix.Fallocate(int(ballast.Fd()), 0, 0, int64(st.Bavail)*st.Bsize-leave); err != nil {
		t.Fatal(err)
	}
	return name
}

// nextSegment reports whether etcd has reserved the next file of its log, which it does beside its start. While
// that is under way it may hold all free space.
func nextSegment(t *testing.T, dir string) bool {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "data/etcd/member/wal/*.tmp"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil && info.Size() == wal.SegmentSizeBytes {
			return true
		}
	}
	return false
}

// The disk gets short: the term goes on without writes before etcd fills it, and reports the reason. Waiting
// changes are committed when there is room again.
func TestDiskGetsShort(t *testing.T) {
	dir := smallDisk(t, 256)
	m, f := startMemberWith(t, filepath.Join(dir, "data"), etcd.MemberConfig{MinFree: 16 << 20})
	defer stopMember(t, m, f)
	s := newStore(t, m.Backend(), store.Config{Memory: f})
	r := campaign(t, s)
	commit(t, r, store.Transition{Ops: []store.Op{{Key: "k", Value: []byte("before")}}})
	for !nextSegment(t, dir) { // every commit is an event of the store
		commit(t, r, store.Transition{Ops: []store.Op{{Key: "tick", Value: []byte("x")}}})
	}
	if err := r.NoRoom(); err != nil {
		t.Fatal(err)
	}
	ballast := fill(t, dir, 8<<20)
	if err := r.NoRoom(); !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), "16 MiB free in "+dir) {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	r.Submit(store.Transition{Ops: []store.Op{{Key: "tick", Value: []byte("late")}}},
		func(_ int64, err error) { got <- err })
	for range 3 { // several keep-alives
		select {
		case err := <-got:
			t.Fatalf("a full store took a commit: %v", err)
		case <-r.Done():
			t.Fatal(r.Err())
		case <-time.After(time.Second):
		}
		if row, ok, err := r.Get(t.Context(), "k"); err != nil || !ok || string(row.Value) != "before" {
			t.Fatalf("a read of a full store: %v, %v", ok, err)
		}
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	if err := r.NoRoom(); err != nil {
		t.Fatal(err)
	}
	if err := r.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// fillingChild writes until the disk is full to the last byte, and prints the acknowledged writes.
func fillingChild() error {
	f, err := datadir.Open(os.Getenv("CHILD_DIR"))
	if err != nil {
		return err
	}
	m, err := etcd.Start(context.Background(), f, etcd.MemberConfig{MinFree: 1})
	if err != nil {
		return err
	}
	s, err := store.New(m.Backend(), store.Config{Clock: run.Kernel(), Memory: f})
	if err != nil {
		return err
	}
	r, err := s.Campaign(context.Background(), store.Candidate{ID: "child"})
	if err != nil {
		return err
	}
	fmt.Println("led", r.Term(), len(r.Rows()))
	value := bytes.Repeat([]byte("x"), 100_000)
	for i := 0; ; i++ {
		done := make(chan error, 1)
		r.Submit(store.Transition{Ops: []store.Op{{Key: fmt.Sprintf("k%06d", i), Value: value}}},
			func(_ int64, err error) { done <- err })
		select {
		case err := <-done:
			if err != nil {
				<-r.Done()
				return errors.Join(err, m.Close())
			}
		case <-time.After(3 * time.Second): // not a byte is free, and etcd is well
			return r.NoRoom()
		}
		fmt.Println("effect", i)
	}
}

// The disk is full to the last byte: etcd may give up, but the process does not. It reports the reason, and with
// room all acknowledged writes are there.
func TestDiskFullToTheLastByte(t *testing.T) {
	disk := smallDisk(t, 180)
	dir := filepath.Join(disk, "data")
	start := time.Now()
	l := runChild(t, childEnv+"=fill", "CHILD_DIR="+dir)
	if l.killed || l.effect < 10 || !strings.Contains(l.err, store.ErrFull.Error()) {
		t.Fatalf("%+v", l)
	}
	t.Logf("%d rows in %s, then: %s", l.effect+1, time.Since(start), l.err)
	if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, "size=600m"); err != nil {
		t.Fatal(err)
	}
	m, f := startMember(t, dir)
	defer stopMember(t, m, f)
	r := campaign(t, newStore(t, m.Backend(), store.Config{Memory: f}))
	rows := r.Rows()
	if len(rows) < l.effect+1 || len(rows) > l.effect+2 {
		t.Fatalf("%d rows, %d were acknowledged", len(rows), l.effect+1)
	}
	for i, row := range rows {
		if row.Key != fmt.Sprintf("k%06d", i) || len(row.Value) != 100_000 {
			t.Fatalf("row %d: %s, %d bytes", i, row.Key, len(row.Value))
		}
	}
	if err := r.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The quota is used up by history: commits wait, with the reason; compaction makes the room, and the waiting
// commits land.
func TestQuota(t *testing.T) {
	dir := t.TempDir()
	config := etcd.MemberConfig{Quota: 24 << 20, Upkeep: etcd.Upkeep{DefragSlack: 1 << 20}}
	m, f := startMemberWith(t, dir, config)
	s := newStore(t, m.Backend(), store.Config{Memory: f})
	r := campaign(t, s)
	value := bytes.Repeat([]byte("x"), 1<<20)
	var waits chan error
	acked := 0
	for waits == nil {
		got := make(chan error, 1)
		r.Submit(store.Transition{Ops: []store.Op{{Key: "same", Value: append(value, strconv.Itoa(acked)...)}}},
			func(_ int64, err error) { got <- err })
		for landed := false; !landed && waits == nil; {
			select {
			case err := <-got:
				if err != nil {
					t.Fatal(err)
				}
				landed = true
				acked++
			case <-time.After(50 * time.Millisecond):
				if errors.Is(r.NoRoom(), store.ErrFull) {
					waits = got
				}
			}
		}
	}
	if acked < 10 {
		t.Fatalf("full after %d", acked)
	}
	if err := m.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
	if row, ok, err := r.Get(t.Context(), "same"); err != nil || !ok || string(row.Value[1<<20:]) != strconv.Itoa(acked) {
		t.Fatalf("%v, %v", ok, err)
	}
	commit(t, r, store.Transition{Ops: []store.Op{{Key: "again", Value: []byte("v")}}})
	if err := r.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopMember(t, m, f)
}

// Run compacts and defragments by itself.
func TestUpkeep(t *testing.T) {
	m,
		f := startMemberWith(t, t.TempDir(), etcd.MemberConfig{Upkeep: etcd.Upkeep{CompactWrites: 200, DefragSlack: 1 << 20}})
	defer stopMember(t, m, f)
	r := campaign(t, newStore(t, m.Backend(), store.Config{}))
	value := bytes.Repeat([]byte("x"), 100_000)
	for range 300 {
		commit(t, r, store.Transition{Ops: []store.Op{{Key: "same", Value: value}}})
	}
	past := r.Revision() + 1
	before, _, err := m.Size(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- m.Run(c) }()
	for { // every try is an event of the store
		commit(t, r, store.Transition{Ops: []store.Op{{Key: "tick", Value: []byte("x")}}})
		_, err := m.Backend().Range(t.Context(), store.Query{From: "cantina/", To: "cantina0", Revision: past})
		size, _, serr := m.Size(t.Context())
		if serr != nil {
			t.Fatal(serr)
		}
		if errors.Is(err, store.ErrCompacted) && size < before/4 {
			break
		}
	}
	cancel()
	if err := <-ran; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	row, ok, err := r.Get(t.Context(), "same")
	if err != nil || !ok || len(row.Value) != len(value) {
		t.Fatalf("%d bytes, %v, %v", len(row.Value), ok, err)
	}
	if err := r.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// An older copy of the database is put back under the server: the next term is of a
// greater epoch and Restored. So it is when the whole directory is copied.
func TestOlderCopyIsNoticed(t *testing.T) {
	dir, old, copied := t.TempDir(), filepath.Join(t.TempDir(), "old"), filepath.Join(t.TempDir(), "copied")
	term := func(dir string) (fence.Term, bool, int) {
		m, f := startMember(t, dir)
		defer stopMember(t, m, f)
		r := campaign(t, newStore(t, m.Backend(), store.Config{Memory: f, NewCluster: true}))
		rows := len(r.Rows())
		commit(t, r, store.Transition{Ops: []store.Op{{Key: "k" + r.Term().String(), Value: []byte("v")}}})
		cleared := make(chan error, 1)
		restored := r.Restored()
		r.ClearRestored(func(_ int64, err error) { cleared <- err })
		if err := <-cleared; err != nil {
			t.Fatal(err)
		}
		if err := r.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		return r.Term(), restored, rows
	}
	cp := func(from, to string) {
		if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	first, restored, _ := term(dir)
	if restored {
		t.Fatal("a new store is not restored")
	}
	cp(filepath.Join(dir, "etcd"), old)
	second, restored, _ := term(dir)
	third, restored3, _ := term(dir)
	if restored || restored3 || second.Epoch != first.Epoch || third.Epoch != first.Epoch {
		t.Fatalf("terms %s, %s, %s", first, second, third)
	}
	if err := os.RemoveAll(filepath.Join(dir, "etcd")); err != nil {
		t.Fatal(err)
	}
	cp(old, filepath.Join(dir, "etcd"))
	fourth, restored, rows := term(dir)
	if !restored || rows != 1 || !third.Less(fourth) || fourth.Epoch <= third.Epoch {
		t.Fatalf("term %s after %s, restored %v, %d rows", fourth, third, restored, rows)
	}
	fifth, restored, _ := term(dir)
	if restored || fifth.Epoch != fourth.Epoch {
		t.Fatalf("the epoch rose twice: %s, %s", fourth, fifth)
	}
	cp(dir, copied)
	if sixth, restored, _ := term(copied); !restored || sixth.Epoch <= fifth.Epoch {
		t.Fatalf("term %s after %s, restored %v", sixth, fifth, restored)
	}
	if seventh, restored, _ := term(dir); restored || seventh.Epoch != fifth.Epoch {
		t.Fatalf("term %s after %s, restored %v", seventh, fifth, restored)
	}
}

// TestAStoreWithoutInodesWaits for some, with the reason.
func TestAStoreWithoutInodesWaits(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1g,nr_inodes=200"); err != nil {
		t.Skip("skipped: nothing can be mounted here: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) }) // it was mounted
	if err := etcd.RoomToStart(dir); err != nil {
		t.Fatal(err)
	}
	for i := range 190 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := etcd.RoomToStart(dir); !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), "inodes free") {
		t.Errorf("9 inodes: %v", err)
	}
}
