package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// banned are the patterns that plain English does not need, each with a remedy.
// CONTRIBUTING.md has before/after pairs.
var banned = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{words(`tell|tells|telling|told|says|said|saying|nobody|somebody|everybody`),
		"report, print, unknown, no cell, anyone"},
	{words(`folders?`), "directory"},
	{words(`time-outs?`), "timeout"},
	{words(`strangers?|deaf|bury|buried|buries|mourn\w*|obituar\w+|heritage|legacy|keepsakes?|farewells?|bequeath\w*`),
		"the term of the field: unknown, unreachable, record, previous, saved, deregister"},
	{words(`reigns?|desks?|crews?|relieves?|relieved`), "term, drains, workers, replace"},
	{words(`the office|an office|offices|no seats?|the seats?|a seat`), "leader, slot"},
	{words(`does away with|taken for|stays? away|for want of`), "removes, treated as, is absent, lacking"},
	{regexp.MustCompile(`(?i)\bno more(?:$|[.,;:)]| (?:than|is|are)\b)`), "no longer, at most"},
	{words(`heard? of|hears of|has not said|said so|says so`), "known, reported"},
	{regexp.MustCompile(`(?i)(?:^|[.;:] )what ` +
		`(?:is|was|runs?|has|stands?|it|a|the|does|what|can|may|must|no|this)\b[^?]*$`), "a noun as the subject"},
	{regexp.MustCompile(`(?i)(?:^|[.;] )(?:who|whoever|whom|of it|of what|of which|nothing of|not one)\b[^?]*$`),
		"a noun as the subject"},
	{words(`of what|from what|for what|with what|by what|than what|that what|and what|but what`),
		"a noun: work, rows, output"},
	{words(`stands? in|stands? for|stands? as|stands? at|stands? on|as it is wanted|comes to rest`), "is in, means, is"},
	{words(`by itself|by themselves|do without|does without|a moment|here and there|thing|things`),
		"automatically, without, short, several, a noun"},
	{words(`on your word|at rest|is good|for good`), "declared by an operator, idle, valid, permanently"},
}

func words(alternatives string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(?:` + alternatives + `)\b`)
}

// longest is how many words a sentence of help and errors has at most.
const longest = 25

// notYetPlain are the packages and pages with texts that are still to be rewritten. The list only shrinks: a clean
// package must leave it.
var notYetPlain = []string{}

// exempt are packages without texts for users of cantina: they come from a format, or are for developers.
func exempt(pkg string) bool {
	return strings.HasSuffix(pkg, "test") || strings.HasSuffix(pkg, "pb") || slices.Contains([]string{
		"bench", "internal/mutate", "internal/arch", "wire/cantinav1", "scripts",
	}, pkg) || strings.HasPrefix(pkg, "bench/") || strings.HasPrefix(pkg, "test/") || strings.HasPrefix(pkg, "sim")
}

// TestTextsArePlainEnglish reads every text with a blank in it that is not a
// comment: help, flags, errors, hints, logs and reasons.
func TestTextsArePlainEnglish(t *testing.T) {
	dirty := map[string]int{}
	looked := 0
	for _, s := range sources(t) {
		if s.test || exempt(s.pkg) {
			continue
		}
		for _, l := range texts(s.ast) {
			looked++
			for _, p := range problems(l.text) {
				dirty[s.pkg]++
				if !slices.Contains(notYetPlain, s.pkg) {
					t.Errorf("%s: %s\n\t%q", s.fset.Position(l.at), p, l.text)
				}
			}
		}
	}
	if looked < 1000 {
		t.Fatalf("only %d texts found: the search is broken", looked)
	}
	for _, p := range notYetPlain {
		if dirty[p] == 0 && !strings.HasSuffix(p, ".md") {
			t.Errorf("%s is plain now: take it out of notYetPlain", p)
		}
	}
}

type text struct {
	at   token.Pos
	text string
}

// texts lists the texts of a file that have a blank, joined where they are written
// in parts.
func texts(f *ast.File) []text {
	var out []text
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case ast.Expr:
			s, ok := joined(n)
			if ok && strings.Contains(strings.TrimSpace(s), " ") {
				out = append(out, text{n.Pos(), s})
			}
			return !ok
		}
		return true
	})
	return out
}

// joined is a text that is a sum of texts; … stands for a part that is computed.
func joined(x ast.Expr) (string, bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		if x.Kind != token.STRING {
			return "", false
		}
		s, err := strconv.Unquote(x.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		if x.Op != token.ADD {
			return "", false
		}
		a, ok := joined(x.X)
		b, ok2 := joined(x.Y)
		return a + b, ok && ok2
	}
	return "", false
}

// docTag is the text of a spec field in its struct tag.
var docTag = regexp.MustCompile(`\bdoc:"((?:[^"\\]|\\.)*)"`)

// problems lists the faults of a text of the program.
func problems(s string) []string {
	var out []string
	if m := docTag.FindStringSubmatch(s); m != nil {
		s = m[1]
	}
	for _, b := range banned {
		if m := b.pattern.FindString(s); m != "" {
			out = append(out, fmt.Sprintf("%q: better %s", strings.TrimSpace(m), b.instead))
		}
	}
	for _, sentence := range sentences(s) {
		if n := len(strings.Fields(sentence)); n > longest {
			out = append(out, fmt.Sprintf("a sentence of %d words, more than %d: %q", n, longest, sentence))
		}
	}
	return out
}

var ends = regexp.MustCompile(`[.;:?!]\*{0,2}(?:\s|$)|\n\s*\n|\n {2}| \(|\)|<br>`)

// sentences splits a text at its ends of sentences, semicolons, colons, brackets
// and lines that are indented.
func sentences(s string) []string { return ends.Split(s, -1) }

// TestPagesArePlainEnglish reads the pages that a user reads.
func TestPagesArePlainEnglish(t *testing.T) {
	for _, page := range []string{"CHANGELOG.md", "docs/cli.md", "docs/api.md", "docs/build.md", "docs/operate.md",
		"docs/states.md", "docs/cron.md"} {
		b, err := os.ReadFile(filepath.Join("../..", page))
		if err != nil {
			t.Fatal(err)
		}
		prose := fences.ReplaceAllString(string(b), "\n\n")
		prose = inline.ReplaceAllString(prose, "X")
		prose = item.ReplaceAllString(prose, "\n\n")
		dirty := false
		for para := range strings.SplitSeq(prose, "\n\n") {
			for _, p := range problems(para) {
				dirty = true
				if !slices.Contains(notYetPlain, page) {
					t.Errorf("%s: %s", page, p)
				}
			}
		}
		if !dirty && slices.Contains(notYetPlain, page) {
			t.Errorf("%s is plain now: take it out of notYetPlain", page)
		}
	}
}

var (
	fences = regexp.MustCompile("(?s)```.*?```")
	item   = regexp.MustCompile(`\|\n?|\n(?:[*-]|\d+\.) `)
	inline = regexp.MustCompile("`[^`\n]*`")
)

// TestTheRuleOfPlainEnglishCanFail has one text for each banned pattern.
func TestTheRuleOfPlainEnglishCanFail(t *testing.T) {
	for s, want := range map[string]int{
		"nobody can tell how it ended":                               1,
		"no such folder":                                             1,
		"the time-out has passed":                                    1,
		"the leader is told farewell":                                2,
		"there is no office":                                         0,
		"a stranger holds it":                                        1,
		"What is missing stands as a gap":                            2,
		"what file?":                                                 0,
		"Who leads is shown":                                         1,
		"Create or update services":                                  0,
		"it does away with rows":                                     1,
		"not started for want of memory":                             1,
		"one: " + strings.Repeat("word ", 26):                        1,
		strings.Repeat("word ", 20) + "; " + strings.Repeat("w ", 9): 0,
	} {
		if got := problems(s); len(got) != want {
			t.Errorf("%q: %d problems, want %d: %v", s, len(got), want, got)
		}
	}
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", `package x
import _ "a b"
const c = "one " + "two" // a comment
type T struct { F int `+"`"+`doc:"three four"`+"`"+` }
var v = f("five six", 7, "nine")`, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if got := texts(f); len(got) != 3 || got[0].text != "one two" || got[2].text != "five six" {
		t.Errorf("texts found: %v", got)
	}
}
