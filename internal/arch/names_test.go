package arch

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// privateWords are words that the glossary has another word for, with that word. They stand in no
// identifier, file name, route, flag, log key and row prefix.
var privateWords = map[string]string{
	"bequeath": "hand over", "blind": "stale", "brood": "process tree", "bury": "reap", "crew": "pool",
	"deaf": "cut off", "desk": "drains", "doubt": "unconfirmed", "farewell": "deregister", "folder": "dir",
	"folders": "dirs",
	"forgive": "retry", "forgiven": "retried", "heir": "successor", "heirs": "successors", "heritage": "previous",
	"keepsake": "record", "market": "placement", "mourned": "dead", "obituary": "death", "office": "leader",
	"reign": "leadership", "reigns": "leaderships", "relieve": "replace",
	"seat": "election key", "spoil": "corrupt", "spoilt": "corrupt", "stranger": "unknown", "strangers": "unknown",
	"tidings": "result", "evacuation": "drain",
}

// wordsOfOthers are places where one of these words is a name of another project.
var wordsOfOthers = map[string][]string{
	"evacuation": {"lrp", "task", "bbs", "docs/design/evacuation.md"}, // the state of an instance is EVACUATING (Diego)
	"forgive":    {"bistro"},                                          // names of Bistro's HTTP API
	"forgiven":   {"bistro"},
}

// TestNamesAreOfTheGlossary reads every name of the module.
func TestNamesAreOfTheGlossary(t *testing.T) {
	looked := 0
	check := func(place, at, name string) {
		looked++
		for _, w := range namedWords(name) {
			if use, ok := privateWords[w]; ok && !slices.ContainsFunc(wordsOfOthers[w], func(p string) bool {
				return place == p || strings.HasPrefix(place, p+"/")
			}) {
				t.Errorf("%s: %q has the word %q: the glossary's word is %q", at, name, w, use)
			}
		}
	}
	for _, s := range sources(t) {
		if s.pkg == "internal/arch" {
			continue
		}
		at := func(p token.Pos) string { return s.fset.Position(p).String() }
		ast.Inspect(s.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				check(s.pkg, at(n.Pos()), n.Name)
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && !s.test &&
					plainName.MatchString(text) {
					check(s.pkg, at(n.Pos()), text)
				}
			}
			return true
		})
	}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel("../..", path)
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && rel != "." || d.Name() == "bin" || d.Name() == "node_modules" ||
			rel == "docs/decisions") {
			return fs.SkipDir
		}
		check(filepath.ToSlash(rel), rel, d.Name())
		if filepath.Ext(path) != ".proto" {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, name := range protoName.FindAllString(protoComment.ReplaceAllString(string(text), ""), -1) {
			check(filepath.ToSlash(rel), rel, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if looked < 100_000 {
		t.Fatalf("only %d names found: the search is broken", looked)
	}
}

var (
	plainName    = regexp.MustCompile(`^[-a-z0-9_/{}]+$`) // a route, flag, log key or prefix of a row
	protoComment = regexp.MustCompile(`//[^\n]*`)
	protoName    = regexp.MustCompile(`[A-Za-z_]\w+`)
	camel        = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]`)
)

// namedWords are the words of a name, in lower case.
func namedWords(name string) []string {
	all := camel.FindAllString(name, -1)
	for i := range all {
		all[i] = strings.ToLower(all[i])
	}
	return all
}

func TestTheRuleOfNamesCanFail(t *testing.T) {
	for name, want := range map[string]string{
		"forgiveJob": "forgive", "dataFolder": "folder", "/v1/jobs/{name}/forgive": "forgive", "ErrNoSeat": "seat",
		"HTTPFolder": "folder", "mobile": "", "lineOf": "", "Seated": "",
	} {
		got := ""
		for _, w := range namedWords(name) {
			if _, ok := privateWords[w]; ok {
				got = w
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// sharedTypes are the exported type names of at least four packages, with the number: words with the same meaning
// in each, like the state of its machine. The numbers only fall.
var sharedTypes = map[string]int{
	"Backend": 4, "Board": 5, "Call": 5, "Cell": 5, "Cells": 5, "Change": 4, "Config": 20, "Effect": 4,
	"Event": 7, "Host": 4, "Hub": 5, "Leader": 4, "Options": 5, "Report": 4, "Result": 6, "Row": 4,
	"Start": 4, "State": 9, "Store": 8, "View": 4,
}

// TestTypeNamesMeanOneThing: a name that four packages have is on the list.
func TestTypeNamesMeanOneThing(t *testing.T) {
	packages := map[string]map[string]bool{}
	for _, s := range sources(t) {
		if s.test || strings.HasSuffix(s.path, ".pb.go") || strings.HasSuffix(s.path, ".connect.go") {
			continue
		}
		for _, d := range s.ast.Decls {
			gen, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range gen.Specs {
				if ts, ok := spec.(*ast.TypeSpec); ok && ts.Name.IsExported() {
					if packages[ts.Name.Name] == nil {
						packages[ts.Name.Name] = map[string]bool{}
					}
					packages[ts.Name.Name][s.pkg] = true
				}
			}
		}
	}
	for name, in := range packages {
		if n := len(in); n >= 4 && n > sharedTypes[name] {
			t.Errorf("the type name %s is in %d packages, at most %d: choose a name that means one thing", name, n,
				max(3, sharedTypes[name]))
		}
	}
	for name, n := range sharedTypes {
		if len(packages[name]) < n {
			t.Errorf("sharedTypes: %s is in %d packages only: lower its number, or take it out below 4", name,
				len(packages[name]))
		}
	}
}

// TestTheGlossaryIsShort: at most 45 terms.
func TestTheGlossaryIsShort(t *testing.T) {
	text, err := os.ReadFile("../../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n| **"); n < 30 || n > 45 {
		t.Errorf("docs/glossary.md has %d terms, at most 45", n)
	}
}
