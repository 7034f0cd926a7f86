package cron

import (
	"errors"
	"fmt"
	"strings"

	"cantina/internal/text"
)

// Errors of this package, to be tested with errors.Is.
var (
	// ErrSyntax is the kind of every refusal of a malformed pattern; the error
	// itself is a [*ParseError] that names the place.
	ErrSyntax = errors.New("cron: malformed pattern")
	// ErrImpossible refuses a pattern that no date can ever match, such as 30
	// February (Bistro cron notes, "Concepts and features").
	ErrImpossible = errors.New("cron: impossible date")
	// ErrNoMoreMatches means that the pattern has no match at or after the given time: its years, its
	// epoch values or its end date are over.
	ErrNoMoreMatches = errors.New("cron: no more matches")
	// ErrNeverMatches means that fifty matches in a row fell into gaps of the zone under the policy
	// "skip": the search ends with an error, as the Bistro cron notes require, because only a mistake
	// of the author leads there.
	ErrNeverMatches = errors.New("cron: every match falls into a gap of the zone")
	// ErrChoice refuses a crontab line without gap or fold where the choice
	// matters within ten years; the text shows the dates.
	ErrChoice = errors.New("cron: gap or fold must be chosen")
	// ErrNoZone refuses a zone-dependent pattern without a zone: there is no
	// silent UTC.
	ErrNoZone = errors.New("cron: no time zone given")
)

// ParseError names the place in a pattern that is wrong.
type ParseError struct {
	// Field is the JSON path ("hour.period", "minute[2]") or the name of the
	// crontab field ("day of month").
	Field string
	// Column is where the field begins in a crontab line, counted in bytes from
	// 1; 0 for JSON.
	Column int
	// Problem describes the error, Hint the correction ("" = none).
	Problem, Hint string
	// Kind is ErrSyntax or ErrImpossible.
	Kind error
}

// Error gives "field (column n): problem; hint".
func (e *ParseError) Error() string {
	var b strings.Builder
	b.WriteString(e.Field)
	if e.Column > 0 {
		fmt.Fprintf(&b, " (column %d)", e.Column)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	b.WriteString(e.Problem)
	if e.Hint != "" {
		b.WriteString("; " + e.Hint)
	}
	return b.String()
}

// Unwrap gives the kind, so that errors.Is finds ErrSyntax and ErrImpossible.
func (e *ParseError) Unwrap() error { return e.Kind }

func syntax(field, problem string, args ...any) *ParseError {
	return &ParseError{Field: field, Problem: fmt.Sprintf(problem, args...), Kind: ErrSyntax}
}

func (e *ParseError) hint(text string, args ...any) *ParseError {
	e.Hint = fmt.Sprintf(text, args...)
	return e
}

// nearest returns the word of the list that is closest to s, or "" if none is close enough to be
// the intended one.
func nearest(s string, words []string) string {
	s = strings.ToLower(s)
	best, bestCost := "", len(s)/2+1
	for _, w := range words {
		c := text.Distance(s, w)
		switch {
		case len(s) >= 3 && strings.HasPrefix(w, s):
			c = 0
		case len(s) >= 3 && (strings.Contains(w, s) || strings.Contains(s, w)):
			c = min(c, 1)
		}
		if c < bestCost {
			best, bestCost = w, c
		}
	}
	return best
}

// isEnd reports whether a search failed only because the item is over.
func isEnd(err error) bool { return errors.Is(err, ErrNoMoreMatches) }
