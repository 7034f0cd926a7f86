package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLocate: one place, and whatever else holds a store is refused by name.
func TestLocate(t *testing.T) {
	for name, c := range map[string]struct {
		make   []string // below the root's parent
		root   string
		exists bool
		words  []string // of the error
	}{
		"nothing there":           {nil, "d", false, nil},
		"a store":                 {[]string{"d/server/etcd/member"}, "d", true, nil},
		"a dev's other half":      {[]string{"d/cell/executor"}, "d", false, nil},
		"the old place":           {[]string{"d/etcd/member"}, "d", false, []string{"d/etcd", "d/server/etcd", "mv "}},
		"both places":             {[]string{"d/etcd/member", "d/server/etcd/member"}, "d", false, []string{"d/etcd", "d/server/etcd"}},
		"another directory":       {[]string{"d/old/etcd/member"}, "d", false, []string{"d/old/etcd", "d/server/etcd"}},
		"another, beside the own": {[]string{"d/old/etcd/member", "d/server/etcd/member"}, "d", true, nil},
		"the server's part":       {[]string{"d/server/etcd/member"}, "d/server", false, []string{"d/server/etcd", "--data ", "/d"}},
		"one level too deep":      {[]string{"d/server/server/etcd/member"}, "d", false, []string{"d/server/server/etcd", "d/server/etcd"}},
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
