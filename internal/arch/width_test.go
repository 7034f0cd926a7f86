package arch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// columns is how wide a line is at most; a tab counts as one.
const columns = 120

// wideLines is how many lines are still wider. It only falls: lower it when a change wraps many.
const wideLines = 260

// mayLag is the permitted excess of wideLines over the count.
const mayLag = 20

func TestLinesAreNarrow(t *testing.T) {
	all, n := map[string]int{}, 0
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, ".pb.go") || strings.HasSuffix(s.path, ".connect.go") {
			continue
		}
		for line := range strings.Lines(s.text) {
			if strings.Contains(line, "`spec:\"") {
				continue // a field of a spec file has its documentation in its tag
			}
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > columns {
				all[s.pkg]++
				n++
			}
		}
	}
	var by []string
	for _, pkg := range slices.Sorted(maps.Keys(all)) {
		by = append(by, fmt.Sprintf("%s %d", pkg, all[pkg]))
	}
	switch {
	case n > wideLines:
		t.Errorf("%d lines are wider than %d columns, at most %d are allowed: wrap those that you changed (%s)",
			n, columns, wideLines, strings.Join(by, ", "))
	case n < wideLines-mayLag:
		t.Errorf("only %d lines are wider than %d columns: lower wideLines from %d", n, columns, wideLines)
	}
}
