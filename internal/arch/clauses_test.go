package arch

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named finds `package.Test` in a page.
var named = regexp.MustCompile("`(\\w+)\\.(Test\\w+)`")

// TestClausesNameTestsThatExist: the pages name an existing test for each clause of the seeds, and no clause is
// without one.
func TestClausesNameTestsThatExist(t *testing.T) {
	tests := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil {
				tests[strings.TrimSuffix(s.ast.Name.Name, "_test")+"."+f.Name.Name] = true
			}
		}
	}
	pages, err := filepath.Glob("../../docs/design/clauses-*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		rows := 0
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| clause |") {
				continue
			}
			rows++
			found := named.FindAllStringSubmatch(line, -1)
			if len(found) == 0 {
				t.Errorf("%s: no test: %s", filepath.Base(page), line)
			}
			for _, m := range found {
				if !tests[m[1]+"."+m[2]] {
					t.Errorf("%s: no test %s.%s", filepath.Base(page), m[1], m[2])
				}
			}
		}
		if rows < 10 {
			t.Errorf("%s: %d clauses", filepath.Base(page), rows)
		}
	}
}
