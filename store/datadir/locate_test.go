package datadir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEachKindHasItsOwnDirectory: a server's verbs refuse the directory of a cell, and a cell that of a
// server or dev, by name; both change nothing.
func TestEachKindHasItsOwnDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		make, root string
		server     []string // words of the refusal; nil = it is taken
		cell       []string
	}{
		"nothing there": {"x/y", "d", nil, nil},
		"a cell": {"d/identity.json", "d", []string{"/d belongs to a cell", "/d/identity.json",
			"choose another"}, nil},
		"a cell's work": {"d/executor", "d", []string{"/d belongs to a cell"}, nil},
		"a server": {"d/server/etcd", "d", nil, []string{"/d holds the store of a server", "/d/server/etcd",
			"/d/cell"}},
		"a server's record": {"d/server/memo.json", "d", nil, []string{"/d holds the store of a server"}},
		"the server's part": {"d/server/etcd", "d/server", []string{"--data "}, []string{"/d/server/etcd"}},
		"a dev's cell": {"d/cell/identity.json", "d/cell", []string{"belongs to a cell",
			"the directory above, --data ", "/d"}, nil},
		"a dev": {"d/cell/identity.json", "d", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, made := range []string{"d/server", c.make} {
				if err := os.MkdirAll(filepath.Join(dir, made), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			_, _, server := Locate(filepath.Join(dir, c.root))
			cell := ForCell(filepath.Join(dir, c.root))
			for _, x := range []struct {
				err  error
				want []string
			}{{server, c.server}, {cell, c.cell}} {
				if (x.err != nil) != (x.want != nil) {
					t.Errorf("%v, want %q", x.err, x.want)
				}
				for _, w := range x.want {
					if !strings.Contains(fmt.Sprint(x.err), w) {
						t.Errorf("%v, want %q", x.err, w)
					}
				}
			}
		})
	}
}

// TestLocate: there is one place, and any other directory with a store is refused by name.
func TestLocate(t *testing.T) {
	for name, c := range map[string]struct {
		make   []string // below the root's parent
		root   string
		exists bool
		words  []string // of the error
	}{
		"nothing there":      {nil, "d", false, nil},
		"a store":            {[]string{"d/server/etcd/member"}, "d", true, nil},
		"a dev's other half": {[]string{"d/cell/executor"}, "d", false, nil},
		"the old place":      {[]string{"d/etcd/member"}, "d", false, []string{"d/etcd", "d/server/etcd", "mv "}},
		"both places": {[]string{"d/etcd/member", "d/server/etcd/member"}, "d", false,
			[]string{"d/etcd", "d/server/etcd"}},
		"another directory":       {[]string{"d/old/etcd/member"}, "d", false, []string{"d/old/etcd", "d/server/etcd"}},
		"another, beside the own": {[]string{"d/old/etcd/member", "d/server/etcd/member"}, "d", true, nil},
		"the server's part": {[]string{"d/server/etcd/member"}, "d/server", false,
			[]string{"d/server/etcd", "--data ", "/d"}},
		"one level too deep": {[]string{"d/server/server/etcd/member"}, "d", false,
			[]string{"d/server/server/etcd", "d/server/etcd"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, m := range c.make {
				if err := os.MkdirAll(filepath.Join(dir, m), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			path, exists, err := Locate(filepath.Join(dir, c.root))
			if c.words == nil && (err != nil || exists != c.exists || path != filepath.Join(dir, c.root, "server")) {
				t.Fatalf("%s, %v, %v", path, exists, err)
			}
			for _, w := range c.words {
				if !errors.Is(err, ErrElsewhere) || !strings.Contains(err.Error(), w) {
					t.Errorf("%v, want %q", err, w)
				}
			}
		})
	}
}
