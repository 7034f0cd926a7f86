package mutate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `package p

func f(a, b int, on bool) int {
	if a < b && on { // names have no comments
		return 1
	}
	switch {
	case a == b:
		return b
	case !on:
		return a
	}
	return 0
}
`

func TestSmallChangesOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.go")
	if err := os.WriteFile(path, []byte(sample), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := list(path)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, m := range l.out {
		changed := m.Apply(sample)
		if changed == sample {
			t.Errorf("%s changes nothing", m.ID())
		}
		id := m.ID()
		got[id[strings.Index(id, " ")+1:]] = true
	}
	for _, want := range []string{
		"f: comparison: a < b -> <=", "f: comparison: a == b -> !=", "f: condition: a < b && ->", "f: condition: && on ->",
		"f: condition: !on -> on", "f: constant: 1 -> 2", "f: constant: 0 -> 1", "f: branch: if a < b && on { return 1 } ->",
		"f: case: case a == b: return b ->", "f: case: case !on: return a ->",
	} {
		if !got[want] {
			t.Errorf("%q is missing in %v", want, got)
		}
	}
	if len(got) != 10 {
		t.Errorf("%d changes, want 10: %v", len(got), got)
	}
}
