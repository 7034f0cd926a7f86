package mutate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPatched: all patches of a file are applied to its text as it is on disk; an old text that is
// not there once and one that lies over another are errors that name the patch and the file.
func TestPatched(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("one two two three"), 0o600); err != nil {
		t.Fatal(err)
	}
	patch := func(name, old, with string) Patch { return Patch{name, "a.go", old, with} }
	for name, c := range map[string]struct {
		patches []Patch
		want    string
		bad     []string
	}{
		"in any order": {patches: []Patch{patch("b", "three", "one"), patch("a", "one", "two two")},
			want: "two two two two one"},
		"side by side": {patches: []Patch{patch("a", "one", "1"), patch("b", " two two", "")}, want: "1 three"},
		"not there": {patches: []Patch{patch("a", "one", "1"), patch("Gone", "four", "4")},
			bad: []string{"Gone: a.go has", "0 times, want once", "four"}},
		"there twice": {patches: []Patch{patch("Twice", "two", "2")}, bad: []string{"Twice: a.go has", "2 times"}},
		"each wrong is named": {patches: []Patch{patch("Gone", "four", "4"), patch("Twice", "two", "2")},
			bad: []string{"Gone", "Twice"}},
		"over another": {patches: []Patch{patch("a", "one two", "1"), patch("Over", "two two", "2")},
			bad: []string{"Over: a.go", "lies over that of a"}},
		"no such file": {patches: []Patch{{"Lost", "b.go", "one", "1"}}, bad: []string{"Lost: ", "b.go"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Patched(root, c.patches)
			if (err == nil) != (c.bad == nil) || err == nil && got["a.go"] != c.want {
				t.Fatalf("%q, %v", got["a.go"], err)
			}
			for _, b := range c.bad {
				if !strings.Contains(err.Error(), b) {
					t.Errorf("%v: %q is missing", err, b)
				}
			}
		})
	}
}
