package etcd_test

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cantina/store"
	"cantina/store/datadir"
	"cantina/store/etcd"
)

// frames returns where the frames of a log file begin; the last is where they end.
func frames(t *testing.T, log []byte) []int {
	t.Helper()
	var at []int
	for off := 0; off+8 <= len(log); {
		at = append(at, off)
		l := int64(binary.LittleEndian.Uint64(log[off:]))
		if l == 0 {
			break
		}
		pad := 0
		if l < 0 {
			pad = int(uint64(l)>>56) & 7
		}
		off += 8 + int(l&(1<<56-1)) + pad
	}
	if len(at) < 40 {
		t.Fatalf("%d frames", len(at))
	}
	return at
}

// TestDamagedLengthInTheLog: a member whose log is unreadable before the end of the committed part does not start.
// It names the file and the remedy at once; a tail torn off by a crash does no harm.
func TestDamagedLengthInTheLog(t *testing.T) {
	whole := t.TempDir()
	m, f := startMember(t, whole)
	r := campaign(t, newStore(t, m.Backend(), store.Config{}))
	for range 50 {
		commit(t, r, store.Transition{Ops: []store.Op{{Key: "k", Value: make([]byte, 1000)}}})
	}
	if err := r.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopMember(t, m, f)
	logs, err := filepath.Glob(filepath.Join(whole, "etcd/member/wal/*.wal"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("%v, %v", logs, err)
	}
	log, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	at := frames(t, log)
	middle, end := at[len(at)/2], at[len(at)-1]
	for name, c := range map[string]struct {
		damage func(log []byte) []byte
		starts bool
	}{
		"nothing":             {func(b []byte) []byte { return b }, true},
		"torn off at the end": {func(b []byte) []byte { copy(b[end:], []byte{200, 1, 0, 0, 0, 0, 0, 0, 8}); return b }, true},
		"a bit of a length":   {func(b []byte) []byte { b[middle+3] ^= 0x40; return b }, false},
		"a longer length":     {func(b []byte) []byte { b[middle+1] ^= 0x80; return b }, false},
		"other padding":       {func(b []byte) []byte { b[middle+7] ^= 0x87; return b }, false},
		"a length of zero":    {func(b []byte) []byte { clear(b[middle : middle+8]); return b }, false},
		"of the last frames":  {func(b []byte) []byte { b[at[len(at)-4]+4] ^= 1; return b }, false},
		"a block of zeros":    {func(b []byte) []byte { clear(b[middle&^4095 : middle&^4095+4096]); return b }, false},
		"cut off":             {func(b []byte) []byte { return b[:middle] }, false},
		"empty":               {func([]byte) []byte { return nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "server")
			if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, strings.TrimPrefix(logs[0], whole))
			if err := os.WriteFile(file, c.damage(append([]byte(nil), log...)), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := datadir.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			m, err := etcd.Start(ctx, f, etcd.MemberConfig{})
			if err == nil {
				err = m.Close()
			}
			switch {
			case c.starts:
				if err != nil {
					t.Error(err)
				}
			case ctx.Err() != nil:
				t.Errorf("after 30 s: %v", err)
			case err == nil || !strings.Contains(err.Error(), dir) ||
				!strings.HasSuffix(err.Error(), "cantina store restore FILE --data "+filepath.Dir(dir)):
				t.Error(err)
			case name == "a bit of a length" && (!errors.Is(err, store.ErrBroken) || !strings.Contains(err.Error(), file)):
				t.Error(err)
			default:
				t.Log(err)
			}
		})
	}
}

// TestMissingFiles: a member that has served and has lost its log or its database does not start. It names the
// missing file and the remedy at once. A database is made again while the log still has all its content.
func TestMissingFiles(t *testing.T) {
	member := func(commits int) string {
		dir := t.TempDir()
		m, f := startMember(t, dir)
		r := campaign(t, newStore(t, m.Backend(), store.Config{}))
		for range commits {
			commit(t, r, store.Transition{Ops: []store.Op{{Key: "k", Value: []byte("v")}}})
		}
		if err := r.Resign(t.Context()); err != nil {
			t.Fatal(err)
		}
		stopMember(t, m, f)
		return dir
	}
	young, old := member(10), member(500)
	for name, c := range map[string]struct {
		whole string
		gone  []string // a name that ends in = is emptied
		names string   // "" = it starts
	}{
		"log files":            {old, []string{"wal/*.wal"}, "member/wal"},
		"log files of a young": {young, []string{"wal/*.wal"}, "member/wal"},
		"log directory":        {old, []string{"wal"}, "member/wal"},
		"log and database":     {old, []string{"wal", "snap"}, "member/wal"},
		"database":             {old, []string{"snap/db"}, "member/snap/db"},
		"database emptied":     {old, []string{"snap/db="}, "member/snap/db"},
		"snap directory":       {old, []string{"snap"}, "member/snap/db"},
		"snapshots":            {old, []string{"snap/*.snap"}, ""},
		"database of a young":  {young, []string{"snap"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "server")
			if err := os.CopyFS(dir, os.DirFS(c.whole)); err != nil {
				t.Fatal(err)
			}
			for _, g := range c.gone {
				paths, err := filepath.Glob(filepath.Join(dir, "etcd/member", strings.TrimSuffix(g, "=")))
				if err != nil || len(paths) == 0 {
					t.Fatalf("%s: %v, %v", g, paths, err)
				}
				for _, p := range paths {
					if err = os.RemoveAll(p); err == nil && strings.HasSuffix(g, "=") {
						err = os.WriteFile(p, nil, 0o600)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			startsOrNames(t, dir, c.names)
		})
	}
}

// startsOrNames starts the member in dir: with names, it must be refused at once with that path.
func startsOrNames(t *testing.T, dir, names string) {
	t.Helper()
	f, err := datadir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	m, err := etcd.Start(ctx, f, etcd.MemberConfig{})
	if err == nil {
		err = m.Close()
	}
	switch {
	case names == "":
		if err != nil {
			t.Error(err)
		}
	case ctx.Err() != nil:
		t.Errorf("after 30 s: %v", err)
	case !errors.Is(err, store.ErrBroken) || !strings.Contains(err.Error(), filepath.Join(dir, "etcd", names)) ||
		!strings.HasSuffix(err.Error(), "cantina store restore FILE --data "+filepath.Dir(dir)):
		t.Error(err)
	default:
		t.Log(err)
	}
}
