package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// oldWords are pages with a table of words that must not be used: its rows are not read.
var oldWords = []string{"CONTRIBUTING.md", "docs/decisions/0103-one-word-per-thing.md"}

// allowedInPages and allowedInComments are the numbers of remaining problems by kind: the remedy in banned.
// A number may only fall: lower it when a change rewrites sentences.
var (
	allowedInPages    = map[string]int{}
	allowedInComments = map[string]int{
		"a long sentence": 49,
		"automatically, without, short, several, a noun": 1,
	}
)

// slack is the permitted excess of one of these numbers over the count.
const slack = 20

// prose is a piece of text for people, with its place.
type prose struct {
	at   string
	text string
}

func TestPagesAreHeldToTheListOfStrings(t *testing.T) {
	var all []prose
	for _, page := range pages(t) {
		b, err := os.ReadFile(filepath.Join("../..", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, para := range paragraphs(string(b), slices.Contains(oldWords, page)) {
			all = append(all, prose{page, para})
		}
	}
	if len(all) < 1000 {
		t.Fatalf("only %d paragraphs found: the search is broken", len(all))
	}
	hold(t, all, allowedInPages)
}

func TestDocCommentsAreHeldToTheListOfStrings(t *testing.T) {
	var all []prose
	for _, s := range sources(t) {
		if s.test || strings.HasPrefix(s.pkg, "wire/cantinav1") || strings.HasSuffix(s.path, ".pb.go") {
			continue
		}
		for _, c := range docComments(s.ast) {
			for _, para := range paragraphs(c.text, false) {
				all = append(all, prose{s.fset.Position(c.at).String(), para})
			}
		}
	}
	if len(all) < 1000 {
		t.Fatalf("only %d comments found: the search is broken", len(all))
	}
	hold(t, all, allowedInComments)
}

// pages are all pages of the repository for people, apart from the change log, which has a test of its own.
func pages(t *testing.T) []string {
	t.Helper()
	out := []string{"README.md", "CONTRIBUTING.md"}
	err := filepath.WalkDir("../../docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			out = append(out, strings.TrimPrefix(filepath.ToSlash(path), "../../"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var (
	row      = regexp.MustCompile(`(?m)^\|.*$`)
	target   = regexp.MustCompile(`\]\([^)]*\)`) // of a link
	verbatim = regexp.MustCompile(`(?m)^\t.*$`)  // a drawing in a comment
)

// paragraphs splits a page into paragraphs, cells of tables and items of lists, without code.
func paragraphs(page string, dropTables bool) []string {
	page = fences.ReplaceAllString(page, "\n\n")
	if dropTables {
		page = row.ReplaceAllString(page, "\n\n")
	}
	page = verbatim.ReplaceAllString(page, "\n\n")
	page = inline.ReplaceAllString(page, "X")
	page = target.ReplaceAllString(page, "]")
	page = item.ReplaceAllString(page, "\n\n")
	return slices.DeleteFunc(strings.Split(page, "\n\n"), func(p string) bool { return strings.TrimSpace(p) == "" })
}

// docComments are the comments of the package and of its exported names, with the fields and
// methods of exported types.
func docComments(f *ast.File) []text {
	var out []text
	add := func(groups ...*ast.CommentGroup) {
		for _, g := range groups {
			if g != nil {
				out = append(out, text{g.Pos(), g.Text()})
			}
		}
	}
	add(f.Doc)
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() {
				add(d.Doc)
			}
		case *ast.GenDecl:
			exported := false
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						exported = true
						add(s.Doc, s.Comment)
						ast.Inspect(s.Type, func(n ast.Node) bool {
							if n, ok := n.(*ast.Field); ok && (len(n.Names) == 0 || n.Names[0].IsExported()) {
								add(n.Doc, n.Comment)
							}
							return true
						})
					}
				case *ast.ValueSpec:
					if slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
						exported = true
						add(s.Doc, s.Comment)
					}
				}
			}
			if exported {
				add(d.Doc)
			}
		}
	}
	return out
}

// hold counts the problems of all by kind, and compares them with the numbers allowed.
func hold(t *testing.T, all []prose, allowed map[string]int) {
	t.Helper()
	found := map[string][]string{}
	for _, p := range all {
		for _, problem := range problems(p.text) {
			kind := kindOf(problem)
			found[kind] = append(found[kind], p.at+": "+problem)
		}
	}
	for _, e := range compare(found, allowed) {
		t.Error(e)
	}
}

// compare lists the kinds of which there are more than allowed, or many fewer.
func compare(found map[string][]string, allowed map[string]int) []string {
	var out []string
	for kind, list := range found {
		if len(list) > allowed[kind] {
			out = append(out, fmt.Sprintf("%q: %d problems, at most %d are allowed:\n\t%s",
				kind, len(list), allowed[kind], strings.Join(list, "\n\t")))
		}
	}
	for kind, n := range allowed {
		if len(found[kind]) < n-slack || len(found[kind]) == 0 {
			out = append(out, fmt.Sprintf("%q: %d problems are allowed and %d are left: lower the number",
				kind, n, len(found[kind])))
		}
	}
	return out
}

// kindOf is the part of a problem that is the same for all problems of its kind.
func kindOf(problem string) string {
	if strings.HasPrefix(problem, "a sentence of") {
		return "a long sentence"
	}
	_, kind, _ := strings.Cut(problem, ": better ")
	return kind
}

// TestTheRuleOfPlainProseCanFail has a page and a file with one planted sentence each.
func TestTheRuleOfPlainProseCanFail(t *testing.T) {
	page := "# A title\n\n| a | nobody knows |\n|---|---|\n\n```\nnobody reads code\n```\n* an item\n" +
		"* the leader is told\n"
	if got := paragraphs(page, true); len(got) != 3 {
		t.Errorf("paragraphs found: %q", got)
	}
	if got := len(paragraphs(page, false)); got != 7 {
		t.Errorf("%d paragraphs with the cells of tables", got)
	}
	s, err := parser.ParseFile(token.NewFileSet(), "x.go", `// Package x tells nobody.
package x

// T is plain.
type T struct {
	F int // who reads it is told
	g int // nobody
}

// M buries it.
func (T) M() {}

// c is told nothing.
const c = 1

// Told is not read here: nobody does.
func told() {
	// nobody
}
`, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	for _, c := range docComments(s) {
		n += len(problems(c.text))
	}
	if n != 4 {
		t.Errorf("%d problems found in comments, want 4", n)
	}
	found := map[string][]string{"a": {"1", "2"}, "b": {"1"}}
	for want, allowed := range map[int]map[string]int{
		0: {"a": 2, "b": 1},
		1: {"a": 2 + slack, "b": 1 + slack + 1},
		2: {"a": 1, "b": 1, "c": 1},
	} {
		if got := compare(found, allowed); len(got) != want {
			t.Errorf("%v: %d complaints, want %d: %q", allowed, len(got), want, got)
		}
	}
}
