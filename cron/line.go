package cron

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// LineOptions are the settings beside a crontab line.
type LineOptions struct {
	// Name of the schedule: the input of H. Empty refuses H.
	Name string
	// Zone in which the line is read. Required, but for "@every".
	Zone *time.Location
	// Gap and Fold; unset is refused where the choice matters within ten years.
	Gap  Gap
	Fold Fold
	// Vixie fills an unset Gap and Fold by the heuristic of [Vixie].
	Vixie bool
	// Now is where the ten years and the firings shown in warnings begin.
	Now time.Time
	// Anchor is where "@every" counts from: the first firing is one period after
	// it. Zero counts from 1970. Give the time of creation of the schedule, so
	// that restarts do not move the firings.
	Anchor time.Time
}

// Warning is a remark on a line that is accepted.
type Warning struct {
	// Code is a stable word: both-days, every-minute, step, short-months, never, policy.
	Code string
	// Field and Column are the place, as in ParseError.
	Field  string
	Column int
	Text   string
}

// String gives "field: text".
func (w Warning) String() string {
	if w.Field == "" {
		return w.Text
	}
	return w.Field + ": " + w.Text
}

// line is a crontab line on its way to an item.
type line struct {
	text     string
	fields   [6]lineField
	seconds  bool // six fields were given
	opt      LineOptions
	item     *Item
	warnings []Warning
}

// ParseLine parses a crontab line: five fields (minute, hour, day of month, month, day of week) or
// six (second first), or @hourly, @daily and so on, or "@every 90s". Fields take *, numbers,
// names, lists, ranges and steps; L and L-n (days of month), 5L and 5#3 (days of week), H, H/n,
// H(a-b) and H(a-b)/n.
//
// When both day fields are set, a day matches if either does, but both must if one of them begins
// with a star; that is Vixie cron's rule, and a warning reports the applied one. An item that
// selects all hours fires in both passes of a repeated hour, with any Fold.
//
// Errors: [*ParseError] of the kinds ErrSyntax and ErrImpossible, ErrNoZone, ErrChoice.
func ParseLine(text string, opt LineOptions) (*Item, []Warning, error) {
	l := &line{text: strings.TrimSpace(text), opt: opt}
	if strings.HasPrefix(l.text, "@") {
		every, err := l.macro()
		if every != nil || err != nil {
			return every, l.warnings, err
		}
	}
	if opt.Zone == nil {
		return nil, nil, ErrNoZone
	}
	if err := l.parseFields(); err != nil {
		return nil, nil, err
	}
	if err := l.build(); err != nil {
		return nil, nil, err
	}
	if err := l.choose(); err != nil {
		return nil, nil, err
	}
	l.lint()
	return l.item, l.warnings, nil
}

// macro replaces @daily and similar words by their lines; @every becomes an epoch item directly.
func (l *line) macro() (*Item, error) {
	word, rest, _ := strings.Cut(l.text, " ")
	bad := func(problem string, args ...any) *ParseError {
		e := syntax(word, problem, args...)
		e.Column = 1
		return e
	}
	if strings.EqualFold(word, "@every") {
		return l.every(strings.TrimSpace(rest), bad)
	}
	switch strings.ToLower(word) {
	case "@yearly", "@annually":
		l.text = "0 0 1 1 *"
	case "@monthly":
		l.text = "0 0 1 * *"
	case "@weekly":
		l.text = "0 0 * * 0"
	case "@daily", "@midnight":
		l.text = "0 0 * * *"
	case "@hourly":
		l.text = "0 * * * *"
	case "@reboot":
		return nil,
			bad("is not a time").hint("a schedule outlives the machines it runs on; use a service with a task of its own")
	default:
		return nil, bad("unknown word").hint("known are @yearly, @monthly, @weekly, @daily, @hourly and @every 90s")
	}
	if rest != "" {
		return nil, bad("takes no argument")
	}
	return nil, nil
}

func (l *line) every(text string, bad func(string, ...any) *ParseError) (*Item, error) {
	secs, err := parsePeriodText(text)
	if err != nil {
		return nil, bad("%v", err).hint("write a period such as 90s, 5m, 2h30m, 7d")
	}
	start := int64(0)
	if !l.opt.Anchor.IsZero() {
		start = max(l.opt.Anchor.Unix()+secs, 0)
	}
	if l.opt.Gap != GapUnset || l.opt.Fold != FoldUnset {
		l.warn("policy", "", 0, "gap and fold have no effect on @every, which never looks at local time")
	}
	return epochItem(rangeOf(EpochField(), start, EpochField().Max, secs)), nil
}

// parsePeriodText reads a duration of whole seconds: numbers with the units w,
// d, h, m, s.
func parsePeriodText(text string) (int64, error) {
	const most = 400 * 366 * daySecs
	var total, n int64
	have := false
	for _, r := range text {
		unit, ok := map[rune]int64{'w': 7 * daySecs, 'd': daySecs, 'h': 3600, 'm': 60, 's': 1}[r]
		switch {
		case r >= '0' && r <= '9':
			n, have = n*10+int64(r-'0'), true
		case !have:
			return 0, fmt.Errorf("%q is not a period", text)
		case !ok:
			return 0, fmt.Errorf("%q is not a period of whole seconds", text)
		default:
			total, n, have = total+n*unit, 0, false
		}
		if n > most || total > most {
			return 0, fmt.Errorf("%q is not a period between 1s and 400 years", text)
		}
	}
	if have || total < 1 {
		return 0, fmt.Errorf("%q is not a period between 1s and 400 years", text)
	}
	return total, nil
}

// parseFields splits the line and reads its columns.
func (l *line) parseFields() error {
	type word struct {
		text   string
		column int
	}
	var words []word
	for i := 0; i < len(l.text); {
		if l.text[i] == ' ' || l.text[i] == '\t' {
			i++
			continue
		}
		n := strings.IndexAny(l.text[i:], " \t")
		if n < 0 {
			n = len(l.text) - i
		}
		words = append(words, word{l.text[i : i+n], i + 1})
		i += n
	}
	if len(words) > 0 && strings.Contains(words[0].text, "=") {
		return syntax(words[0].text, "settings do not belong into the line").hint("give the zone as timezone")
	}
	var given []string
	for _, w := range words {
		given = append(given, w.text)
	}
	if len(words) != 5 && len(words) != 6 {
		return syntax("", "%d fields instead of 5 or 6", len(words)).hint("%s", surplus(given))
	}
	l.seconds = len(words) == 6
	if !l.seconds {
		words = append([]word{{text: "0"}}, words...)
	}
	for i, kind := range lineKinds() {
		l.fields[i] = lineField{text: words[i].text, column: words[i].column}
		p := fieldParser{lineKind: kind, col: i, hash: l.opt.Name, out: &l.fields[i]}
		if err := p.parse(); err != nil {
			return l.sixRead(given, err)
		}
	}
	return l.quartzDays(given)
}

// reading lists how five or six fields are read: "minute 0, hour 2, ...".
func reading(given []string) string {
	kinds := lineKinds()
	if len(given) != len(kinds) {
		kinds = kinds[1:]
	}
	var out []string
	for i, k := range kinds {
		out = append(out, k.name+" "+given[i])
	}
	return strings.Join(out, ", ")
}

// surplus is a hint for a line with too few or too many fields.
func surplus(given []string) string {
	const form = "minute, hour, day of month, month, day of week; six with seconds first"
	if len(given) < 7 {
		return form
	}
	if strings.ContainsAny(given[5][:1], "0123456789*?") { // not a user
		return fmt.Sprintf("with seconds first, it is read as %s, and %s is too much; a year cannot be given in a line",
			reading(given[:6]), given[6])
	}
	return fmt.Sprintf("it is read as %s, and the rest is no part of a line: the program is the command of the "+
		"task or job", reading(given[:5]))
}

// isYear reports whether a field can only be meant as a year.
func isYear(field string) bool {
	n, ok := digits(field) // at most four
	return ok && n >= 1970
}

// sixRead adds to an error of a line with six fields how they are read: the first may be meant as
// the minute, the last as a year or a command.
func (l *line) sixRead(given []string, err error) error {
	var p *ParseError
	if !l.seconds || !errors.As(err, &p) {
		return err
	}
	text := "six fields are read as " + reading(given)
	last := given[5]
	switch {
	case isYear(last):
		text += "; a year cannot be given in a line"
	case strings.ContainsAny(last[:1], "/.~") || len(last) > 3 && last[0] >= 'a' && last[0] <= 'z':
		text += "; a line has no command: it is the command of the task or job"
	}
	if p.Hint != "" {
		text = p.Hint + "; " + text
	}
	return p.hint("%s", text)
}

// quartzDays refuses numbers of days of the week in a line with Quartz's "?": there 1 is Sunday.
func (l *line) quartzDays(given []string) error {
	f := &l.fields[colDOW]
	if !l.seconds || !slices.Contains(given, "?") || !strings.ContainsAny(f.text[:1], "01234567") {
		return nil
	}
	e := syntax("day of week",
		"in a line with ?, the number %s may mean another day: here 0 and 7 are Sunday, in Quartz 1 is", f.text).
		hint("write names like MON; %s", "six fields are read as "+reading(given))
	e.Column = f.column
	return e
}

// build makes the item.
func (l *line) build() error {
	f := &l.fields
	sel := func(field Field, mask uint64) Selector {
		s := fromMask(field, mask)
		l.item.fields = append(l.item.fields, part{key: field.Key, text: s.String(), sel: s})
		return s
	}
	l.item = &Item{}
	sec := fromMask(SecondField(), f[colSecond].mask)
	if l.seconds {
		sec = sel(SecondField(), f[colSecond].mask)
	}
	l.item.clock = newClock(sec, sel(MinuteField(), f[colMinute].mask), sel(HourField(), f[colHour].mask))
	dom, dow := &f[colDOM], &f[colDOW]
	g := &gregorian{
		months: f[colMonth].mask, dom: dom.mask, fromEnd: dom.fromEnd, dow: dow.mask, nth: dow.nth,
		domAny: dom.star && dom.mask == 1<<32-2,
		dowAny: dow.star && dow.mask == 1<<7-1,
		either: !dom.star && !dow.star,
	}
	l.item.fields = append(l.item.fields, part{key: keyDOM, text: dom.text}, part{key: keyMonth, text: f[colMonth].text},
		part{key: keyDOW, text: dow.text})
	err := l.item.setDays(g, All(YearField()))
	var pe *ParseError
	if errors.As(err, &pe) {
		pe.Field, pe.Column = lineKinds()[colDOM].name, dom.column
	}
	l.item.grain = l.item.findGrain()
	return err
}

// fromMask makes the selector of a mask.
func fromMask(f Field, mask uint64) Selector {
	var values []int64
	for ; mask != 0; mask &= mask - 1 {
		values = append(values, int64(bits.TrailingZeros64(mask)))
	}
	s := listOf(f, values)
	if s.Everything() {
		return All(f)
	}
	return s
}

func (l *line) warn(code, field string, column int, format string, args ...any) {
	l.warnings = append(l.warnings, Warning{Code: code, Field: field, Column: column, Text: fmt.Sprintf(format, args...)})
}
