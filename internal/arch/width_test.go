package arch

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// columns is how wide a line is at most; a tab counts as one.
const columns = 120

func TestLinesAreNarrow(t *testing.T) {
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, ".pb.go") || strings.HasSuffix(s.path, ".connect.go") {
			continue
		}
		n := 0
		for line := range strings.Lines(s.text) {
			n++
			if w := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); w > columns && !wideField(line) {
				t.Errorf("%s:%d: %d columns, at most %d are allowed: wrap the line", s.path, n, w, columns)
			}
		}
	}
}

// wideField reports whether a line is a field of a spec file, which has its documentation in its tag.
func wideField(line string) bool { return strings.Contains(line, "`spec:\"") }
