package main

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHintsNameVerbsThatExist reads every text of the sources with "cantina VERB" and looks up the
// verb, and the flags after it, in the command tree.
func TestHintsNameVerbsThatExist(t *testing.T) {
	c := &cli{environment: environment{Getenv: func(string) string { return "" }}, ctx: context.Background()}
	root := rootCommand(c)
	found := 0
	err := filepath.WalkDir("../..", func(name string, e fs.DirEntry, err error) error {
		switch base := filepath.Base(name); {
		case err != nil:
			return err
		case e.IsDir() && (base == "testdata" || base == ".git" || base == "node_modules"):
			return filepath.SkipDir
		case e.IsDir() || !strings.HasSuffix(base, ".go") || strings.HasSuffix(base, "_test.go") ||
			strings.HasSuffix(base, ".pb.go"):
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if os.IsNotExist(err) || f == nil {
			return nil // a file that was moved meanwhile; other tests find compile errors
		}
		ast.Inspect(f, func(n ast.Node) bool {
			x, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, whole := textOf(x)
			if !whole {
				return true
			}
			for _, hint := range hintsIn(text) {
				found++
				if problem := wrongHint(root, hint); problem != "" {
					t.Errorf("%s: %q: %s", fset.Position(n.Pos()), hint, problem)
				}
			}
			return false
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 50 {
		t.Fatalf("only %d hints found: the search is broken", found)
	}
}

// TestAWrongHintIsFound checks the search itself.
func TestAWrongHintIsFound(t *testing.T) {
	root := rootCommand(&cli{environment: environment{Getenv: func(string) string { return "" }}})
	for text, ok := range map[string]bool{
		"see cantina task forgive X": false, "cantina forgive X": false,
		"cantina task resolve X --as done|failed|rerun": true,
		"cantina task resolve X --like done":            false, "cantina runs services": true,
		"cantina run -d -- prog --any":                   true,
		"cantina wait x --timeout 5m; cantina ps --nope": false, "`cantina dev` starts one": true,
		"cantina leader endwait": false, "to empty it: cantina drain %s": false,
		"cantina drain X --reason WHY": true, "see cantina drain": true, "cantina task resolve X": false,
		"cantina leader end-wait --accept-double-starts": false,
	} {
		wrong := ""
		for _, hint := range hintsIn(text) {
			wrong += wrongHint(root, hint)
		}
		if (wrong == "") != ok {
			t.Errorf("%q: %q", text, wrong)
		}
	}
}

// textOf is a text that is written in parts, with X for unknown parts; whole is false for an
// expression without a text.
func textOf(x ast.Expr) (text string, whole bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(x.Value); err == nil && x.Kind == token.STRING {
			return s, true
		}
	case *ast.BinaryExpr:
		left, a := textOf(x.X)
		right, b := textOf(x.Y)
		if x.Op != token.ADD || !a && !b {
			return "", false
		}
		if !a {
			left = "X"
		}
		if !b {
			right = "X"
		}
		return left + right, true
	}
	return "", false
}

var (
	hintStart = regexp.MustCompile("(?:^|[\\s`($])cantina ([a-z][a-z-]*)[^\n;,)`|&]*")
	flagWord  = regexp.MustCompile(`^(-[a-zA-Z]|--[a-zA-Z][a-zA-Z-]*)(=.*)?$`)
)

// prose are words that follow the name of the program in sentences.
var prose = []string{"runs", "running", "did", "has", "is", "knows", "keeps", "itself", "on", "and", "for", "that",
	"subject", "help"}

func hintsIn(text string) []string {
	var out []string
	for _, m := range hintStart.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(prose, m[1]) {
			out = append(out, strings.TrimLeft(m[0], " \t\n`($"))
		}
	}
	return out
}

// wrongHint describes an error in "cantina VERB ...", or returns "".
func wrongHint(root *cobra.Command, hint string) string {
	words := strings.Fields(hint)[1:]
	cmd := root
	for len(words) > 0 && cmd.HasSubCommands() {
		i := slices.IndexFunc(cmd.Commands(), func(s *cobra.Command) bool {
			return s.Name() == strings.TrimRight(words[0],
				".:?'\"")
		})
		if i < 0 {
			break
		}
		cmd, words = cmd.Commands()[i], words[1:]
	}
	// A noun alone is a hint at its page; a word after it must be one of its verbs.
	if cmd == root || cmd.HasSubCommands() && !cmd.HasLocalFlags() && len(words) > 0 && words[0] != "X" {
		return "no such verb"
	}
	for _, w := range words {
		if w == "--" || cmd.DisableFlagParsing { // sim reads its flags itself
			break
		}
		m := flagWord.FindStringSubmatch(strings.TrimRight(w, ".:?"))
		if m == nil || m[1] == "--help" {
			continue
		}
		name := strings.TrimLeft(m[1], "-")
		known := cmd.Flags().Lookup(name) != nil || cmd.InheritedFlags().Lookup(name) != nil
		if !strings.HasPrefix(m[1], "--") {
			known = cmd.Flags().ShorthandLookup(name) != nil || cmd.InheritedFlags().ShorthandLookup(name) != nil
		}
		if !known {
			return "no flag " + m[1]
		}
	}
	// With its argument a hint is to be typed as it is: it has the flags without which the verb refuses to act.
	if need := needed[strings.TrimPrefix(cmd.CommandPath(), "cantina ")]; need != "" && len(words) > 0 &&
		isArgument(words[0]) && words[0] != "--help" &&
		!slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, need) }) {
		return "it needs " + need
	}
	return ""
}

// needed are flags that a verb requires.
var needed = map[string]string{"drain": "--reason", "task resolve": "--as", "cron backfill": "--from",
	"leader end-wait": "--yes"}

// isArgument reports whether a word of a hint stands for an argument or is a flag.
func isArgument(word string) bool {
	return word == "X" || strings.HasPrefix(word, "%") || strings.HasPrefix(word, "-") || word == strings.ToUpper(word)
}
