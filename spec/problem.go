package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a spec file, and where.
type Problem struct {
	File         string
	Line, Column int    // from 1; 0 when the file as a whole is meant
	Path         string // "services.web.ports[0]"; empty for the text itself
	Text         string // what is wrong
	Hint         string // "did you mean instances?"; may be empty
	// Semantic is set when the form is right and the meaning is not: what a JSON
	// Schema cannot see.
	Semantic bool
}

// String prints "file:line:col: path: problem; hint".
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Text)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// Problems is all that is wrong with a spec file, in order of place. It is an
// error that prints one problem a line.
type Problems struct {
	List []Problem
	// More counts problems that are not in List: a file of garbage has millions.
	More int
}

// maxProblems bounds what is reported of one file.
const maxProblems = 100

// Error prints one problem a line.
func (p *Problems) Error() string {
	lines := make([]string, 0, len(p.List)+1)
	for _, one := range p.List {
		lines = append(lines, one.String())
	}
	if p.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", p.More))
	}
	return strings.Join(lines, "\n")
}

func (p *Problems) add(one Problem) {
	if len(p.List) >= maxProblems {
		p.More++
		return
	}
	p.List = append(p.List, one)
}

// orNil sorts the problems and returns nil when there are none.
func (p *Problems) orNil() error {
	if len(p.List) == 0 {
		return nil
	}
	slices.SortStableFunc(p.List, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return p
}

// nearest returns the name that is most like s, or "" when none is near: at most a
// third of its letters (at least one) may differ.
func nearest(s string, names []string) string {
	if len(s) > 64 {
		return ""
	}
	best, bestAt := "", min(len(s)/3+2, len(s))
	for _, n := range names {
		if d := distance(strings.ToLower(s), strings.ToLower(n)); d < bestAt {
			best, bestAt = n, d
		}
	}
	return best
}

// didYouMean is a hint, or "".
func didYouMean(s string, names []string) string {
	if n := nearest(s, names); n != "" {
		return fmt.Sprintf("did you mean %s?", n)
	}
	return ""
}

// guess is a hint for a name of the user's among others of the user's; there may be
// very many of both.
func (d *decoder) guess(s string, names []string) string {
	if len(d.problems.List) >= maxProblems {
		return ""
	}
	return didYouMean(s, names[:min(len(names), 1000)])
}

// distance counts the insertions, deletions, replacements and swaps of neighbours
// that turn a into b.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// DidYouMean is a hint with the name that is most like s, or "" when none is near.
func DidYouMean(s string, names []string) string { return didYouMean(s, names) }
