package arch

import (
	"go/ast"
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

// longestFunction is how many lines a function has at most.
const longestFunction = 80

func TestFunctionsAreShort(t *testing.T) {
	looked := 0
	for _, s := range sources(t) {
		if s.test || ast.IsGenerated(s.ast) {
			continue
		}
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			looked++
			if n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1; n > longestFunction {
				t.Errorf("%s: %s has %d lines, at most %d are allowed: extract functions", s.fset.Position(f.Pos()), f.Name.Name,
					n, longestFunction)
			}
		}
	}
	if looked < 1000 {
		t.Fatalf("only %d functions found: the search is broken", looked)
	}
}

// wideField reports whether a line is a field of a spec file, which has its documentation in its tag.
func wideField(line string) bool { return strings.Contains(line, "`spec:\"") }
