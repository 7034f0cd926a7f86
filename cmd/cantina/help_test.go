package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFill(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		width      int
	}{
		"as it is":            {"a\nb", "a\nb", 0},
		"joined and broken":   {"one two three\nfour", "one two\nthree\nfour", 9},
		"joined":              {"one two\nthree", "one two three", 80},
		"paragraphs stay":     {"one\ntwo\n\nthree", "one two\n\nthree", 80},
		"lists stay":          {"one:\n  two\n  three\nfour", "one:\n  two\n  three\nfour", 80},
		"a word that is long": {"a enormous b", "a\nenormous\nb", 4},
	} {
		if got := fill(c.text, c.width); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestHelpFitsATerminal: no page has a line that a terminal would break, but for
// examples, which are for copying.
func TestHelpFitsATerminal(t *testing.T) {
	const width = 100
	s := newShell(t)
	s.tty = true
	for _, verb := range []string{"drain", "explain", "cell", "cron next"} {
		for l := range strings.SplitSeq(s.ok(append([]string{"help"}, strings.Fields(verb)...)...), "\n") {
			if utf8.RuneCountInString(l) > width && !strings.HasPrefix(l, "  cantina ") {
				t.Errorf("%s: %d columns: %s", verb, utf8.RuneCountInString(l), l)
			}
		}
	}
}
