package cron

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// Report describes a crontab line before it is used.
type Report struct {
	Item     *Item        // nil when Err is set
	Words    string       // description of the item, as of WordsIn
	Warnings []Warning    // remarks on an accepted line
	Next     []Occurrence // coming firings, with marks, and the matches that are left out between them
	Err      error        // the refusal, as from ParseLine or Preview
}

// Lint parses a line, describes it, warns, and previews n firings from opt.Now on: the whole
// output of "cron next".
func Lint(text string, opt LineOptions, n int) Report {
	it, warnings, err := ParseLine(text, opt)
	if err != nil {
		return Report{Warnings: warnings, Err: err}
	}
	r := Report{Item: it, Words: it.WordsIn(opt.Zone, opt.Now), Warnings: warnings}
	r.Next, r.Err = Preview(it, opt.Zone, opt.Now, n)
	return r
}

// lint collects the warnings of a line.
func (l *line) lint() {
	l.lintEvery()
	l.lintSteps()
	l.lintShortMonths()
	l.lintBothDays()
	if _, err := l.item.first(l.opt.Now.Unix(), l.opt.Zone); errors.Is(err, ErrNoMoreMatches) {
		l.warn("never", "", 0, "never fires again")
	}
}

// lintEvery finds a star that should probably be a zero: "* 0 * * *".
func (l *line) lintEvery() {
	sec, minute, hour := &l.fields[colSecond], &l.fields[colMinute], &l.fields[colHour]
	single := func(f *lineField) bool { return !f.star && !strings.ContainsAny(f.text, "-/") }
	zero := func(cols ...int) string {
		words := strings.Fields(l.text)
		for _, c := range cols {
			if !l.seconds {
				c--
			}
			words[c] = "0"
		}
		return strings.Join(words, " ")
	}
	switch {
	case minute.full && single(hour):
		cols := []int{colMinute}
		if sec.full {
			cols = append(cols, colSecond)
		}
		l.warn("every-minute", "minute", minute.column, "fires %d times on each matching day; did you mean `%s`?",
			l.item.clock.perDay, zero(cols...))
	case sec.full && single(minute):
		l.warn("every-second", "second", sec.column, "fires %d times on each matching day; did you mean `%s`?",
			l.item.clock.perDay, zero(colSecond))
	}
}

// lintSteps finds steps that do not divide their range evenly.
func (l *line) lintSteps() {
	for i, kind := range lineKinds() {
		f := &l.fields[i]
		for _, s := range f.steps {
			width := s.to - s.from + 1
			switch {
			case s.by >= width && width > 1:
				l.warn("step", kind.name, f.column, "the step of %s is as long as its range: only %d is chosen", s.text, s.from)
			case i <= colHour && s.from == kind.min && s.to == kind.max && width%s.by != 0:
				last := s.from + (s.to-s.from)/s.by*s.by
				l.warn("step", kind.name, f.column,
					"%s is uneven: after %d comes %d, a distance of %d instead of %d; `@every` keeps a distance", s.text, last, s.from,
					width-last, s.by)
			}
		}
	}
}

// lintShortMonths finds days that some of the chosen months do not have.
func (l *line) lintShortMonths() {
	g := l.item.greg
	dom := &l.fields[colDOM]
	if dom.fromEnd != 0 {
		return
	}
	if day := g.deadDay(); day > 0 {
		l.warn("short-months", "day of month", dom.column, "day %d never occurs in %s: only the day of week counts", day,
			monthList(g.months))
		return
	}
	day := bits.TrailingZeros64(dom.mask)
	var short uint64
	for m := g.months; m != 0; m &= m - 1 {
		if month := bits.TrailingZeros64(m); monthDays(2001, month) < day {
			short |= 1 << uint(month)
		}
	}
	switch {
	case short == 0:
	case g.months == 1<<2:
		l.warn("short-months", "day of month", dom.column, "29 February exists in leap years only")
	default:
		l.warn("short-months", "day of month", dom.column,
			"day %d does not occur in %s each year; `L` is the last day of every month", day, monthList(short))
	}
}

// lintBothDays explains the rule for two day fields, with the next three firings.
func (l *line) lintBothDays() {
	dom, dow := &l.fields[colDOM], &l.fields[colDOW]
	if dom.full || dow.full {
		return
	}
	rule := "a day matches if day of month OR day of week does"
	if !l.item.greg.either {
		rule = "a day matches only if day of month AND day of week do, because one of them begins with *"
	}
	var next []string
	at := l.opt.Now.Add(-time.Second)
	for range 3 {
		var err error
		if at, err = l.item.Next(at, l.opt.Zone); err != nil {
			break
		}
		next = append(next, at.Format("Mon 2006-01-02 15:04"))
	}
	l.warn("both-days", "day of week", dow.column, "%s; next: %s", rule, strings.Join(next, ", "))
}

// LintItem returns warnings for an item made from JSON: ranges whose end is before their start,
// and items that will not fire again.
func LintItem(it *Item, value any, loc *time.Location, now time.Time) []Warning {
	var out []Warning
	obj, _ := value.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(obj)) {
		r, _ := obj[key].(map[string]any)
		start, ok1 := integer(r["start"])
		end, ok2 := integer(r["end"])
		if ok1 && ok2 && end < start {
			out = append(out, Warning{Code: "range", Field: key,
				Text: fmt.Sprintf("the end %d lies before the start: only %d is chosen", end, start)})
		}
	}
	switch _, err := it.FirstMatch(now, loc); {
	case errors.Is(err, ErrNoMoreMatches):
		out = append(out, Warning{Code: "never", Text: "never fires again"})
	case errors.Is(err, ErrNeverMatches):
		out = append(out, Warning{Code: "never", Text: "never fires in this zone: every match falls into a gap"})
	}
	return out
}
