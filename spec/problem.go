package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cantina/internal/text"
)

// Problem is one error in a spec file, with its position.
type Problem struct {
	File         string
	Line, Column int    // from 1; 0 for the whole file
	Path         string // "services.web.ports[0]"; empty for the text itself
	Text         string // description of the error
	Hint         string // "did you mean instances?"; may be empty
	// Semantic is set if the syntax is right and the meaning is not: a JSON Schema cannot detect it.
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

// maxProblems limits the reported problems of one file.
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

// guess is a hint for a name of the user's among others of the user's; there may be
// very many of both.
func (d *decoder) guess(s string, names []string) string {
	if len(d.problems.List) >= maxProblems {
		return ""
	}
	return text.DidYouMean(s, names[:min(len(names), 1000)])
}
