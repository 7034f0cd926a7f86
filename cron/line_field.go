package cron

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// lineField is one column of a crontab line.
type lineField struct {
	text    string
	column  int    // 1-based
	mask    uint64 // chosen numbers
	star    bool   // begins with * (or is ?): Vixie's rule for the day fields
	full    bool   // exactly * or ?
	fromEnd uint64 // L in day of month
	nth     [7]uint32
	steps   []lineStep
}

// lineStep remembers a step, for the lint.
type lineStep struct {
	text         string
	from, to, by int
}

// lineKind describes a column.
type lineKind struct {
	name     string
	min, max int
	names    []Name // values as in the line
	hashMax  int    // largest value H may choose
}

func lineKinds() []lineKind {
	months := MonthField().Names
	var days []Name
	for _, n := range WeekdayField().Names {
		days = append(days, Name{n.Text, n.Value - 1})
	}
	return []lineKind{
		{name: "second", max: 59, hashMax: 59},
		{name: "minute", max: 59, hashMax: 59},
		{name: "hour", max: 23, hashMax: 23},
		{name: "day of month", min: 1, max: 31, hashMax: 28},
		{name: "month", min: 1, max: 12, names: months, hashMax: 12},
		{name: "day of week", max: 7, names: days, hashMax: 6},
	}
}

// The columns, as indices of lineKinds.
const (
	colSecond = iota
	colMinute
	colHour
	colDOM
	colMonth
	colDOW
)

// fieldParser reads one column.
type fieldParser struct {
	lineKind
	col  int
	hash string // name for H, "" = H is refused
	out  *lineField
}

func (p *fieldParser) fail(format string, args ...any) *ParseError {
	e := syntax(p.name, format, args...)
	e.Column = p.out.column
	return e
}

func (p *fieldParser) parse() error {
	f := p.out
	f.star = strings.HasPrefix(f.text, "*") || f.text == "?"
	f.full = f.text == "*" || f.text == "?"
	for item := range strings.SplitSeq(f.text, ",") {
		if item == "" {
			return p.fail("an element of the list is empty")
		}
		if err := p.element(item); err != nil {
			return err
		}
	}
	if p.col == colDOW && f.mask>>7&1 == 1 {
		f.mask = f.mask&^(1<<7) | 1
	}
	return nil
}

// element reads *, H, L, a, a-b, a#n, each with a step where that makes sense.
func (p *fieldParser) element(item string) error {
	body, stepText, hasStep := strings.Cut(item, "/")
	step := 1
	if hasStep {
		n, ok := digits(stepText)
		if !ok || n < 1 {
			return p.fail("%q is not a step", stepText)
		}
		step = n
	}
	switch {
	case body == "*", body == "?" && (p.col == colDOM || p.col == colDOW) && !hasStep:
		p.fill(item, p.min, p.top(), step, hasStep)
	case body == "H" || strings.HasPrefix(body, "H("):
		return p.spread(item, body, step, hasStep)
	case p.col == colDOM && strings.HasPrefix(body, "L") && !hasStep:
		return p.lastDay(body)
	case p.col == colDOW && strings.Contains(body, "#") && !hasStep:
		return p.nthDay(body)
	case p.col == colDOW && len(body) > 1 && strings.HasSuffix(body, "L") && !hasStep:
		return p.lastWeekday(body)
	case strings.Contains(body, "-"):
		return p.between(item, body, step, hasStep)
	default:
		n, err := p.value(body)
		if err != nil {
			return err
		}
		if hasStep {
			return p.fail("%q has a step but no range", item).hint("write %d-%d/%d", n, p.top(), step)
		}
		p.out.mask |= 1 << uint(n)
	}
	return nil
}

// top is the largest number that * includes.
func (p *fieldParser) top() int {
	if p.col == colDOW {
		return 6
	}
	return p.max
}

func (p *fieldParser) fill(text string, from, to, step int, hasStep bool) {
	for v := from; v <= to; v += step {
		p.out.mask |= 1 << uint(v)
	}
	if hasStep {
		p.out.steps = append(p.out.steps, lineStep{text, from, to, step})
	}
}

func (p *fieldParser) between(item, body string, step int, hasStep bool) error {
	a, b, _ := strings.Cut(body, "-")
	from, err := p.value(a)
	if err != nil {
		return err
	}
	to, err := p.value(b)
	if err != nil {
		return err
	}
	if p.col == colDOW && to == 0 && from > 0 {
		to = 7 // "fri-sun"
	}
	if p.col == colDOW && from == 7 && to != 7 {
		return p.fail("the range %q runs backwards", item).hint("write %s", p.span(a, 0, to, step, hasStep))
	}
	if from > to {
		return p.fail("the range %q runs backwards", item).hint("write %s", p.wrapped(a, from, to, step, hasStep))
	}
	p.fill(item, from, to, step, hasStep)
	return nil
}

// wrapped writes a range that runs over the end of the column as a list that means the same.
func (p *fieldParser) wrapped(like string, from, to, step int, hasStep bool) string {
	last := from
	for last+step <= p.top() {
		last += step
	}
	out := p.span(like, from, last, step, hasStep)
	if first := last + step - (p.top() - p.min + 1); first <= to {
		out += "," + p.span(like, first, to, step, hasStep)
	}
	return out
}

// span writes a range in the way of the text that it replaces: with names, or with numbers.
func (p *fieldParser) span(like string, from, to, step int, hasStep bool) string {
	to -= (to - from) % step
	out := p.label(like, from)
	if from != to {
		out += "-" + p.label(like, to)
	}
	if hasStep && from != to {
		out += "/" + strconv.Itoa(step)
	}
	return out
}

// label is a value as a name, if like is one.
func (p *fieldParser) label(like string, value int) string {
	if _, number := digits(like); !number {
		for _, n := range p.names {
			if int(n.Value) == value {
				return strings.ToUpper(n.Text[:min(3, len(n.Text))])
			}
		}
	}
	return strconv.Itoa(value)
}

// value reads a number or a name of the column.
func (p *fieldParser) value(text string) (int, error) {
	if n, ok := digits(text); ok {
		if n < p.min || n > p.max {
			return 0, p.fail("%d is not between %d and %d", n, p.min, p.max)
		}
		return n, nil
	}
	if p.names == nil {
		return 0, p.fail("%q is not a number", text)
	}
	n, err := Field{Names: p.names}.named(p.name, text)
	if err != nil {
		if pe, ok := err.(*ParseError); ok {
			pe.Column = p.out.column
		}
		return 0, err
	}
	return int(n), nil
}

// lastDay reads L and L-n: the last day of the month, the n-th before it.
func (p *fieldParser) lastDay(body string) error {
	back := 0
	if rest, ok := strings.CutPrefix(body, "L-"); ok {
		n, isNumber := digits(rest)
		if !isNumber || n > 30 {
			return p.fail("%q is not L minus a number of days up to 30", body)
		}
		back = n
	} else if body != "L" {
		return p.fail("%q is not understood", body).hint("L is the last day of the month, L-2 two days before it")
	}
	p.out.fromEnd |= 1 << uint(back+1)
	return nil
}

// nthDay reads weekday#n.
func (p *fieldParser) nthDay(body string) error {
	day, nth, _ := strings.Cut(body, "#")
	w, err := p.value(day)
	if err != nil {
		return err
	}
	n, ok := digits(nth)
	if !ok || n < 1 || n > 5 {
		return p.fail("%q: the place after # is 1 to 5", body).hint("the last one is %sL", day)
	}
	p.out.nth[w%7] |= 1 << uint(n)
	return nil
}

// lastWeekday reads 5L or friL: the last of that weekday in the month.
func (p *fieldParser) lastWeekday(body string) error {
	w, err := p.value(strings.TrimSuffix(body, "L"))
	if err != nil {
		return err
	}
	p.out.nth[w%7] |= 1 << 9
	return nil
}

// spread reads H, H/n, H(a-b) and H(a-b)/n: numbers that depend on the name of
// the schedule alone, so that many schedules with the same line spread out and
// each stays where it is.
func (p *fieldParser) spread(item, body string, step int, hasStep bool) error {
	from, to := p.min, p.hashMax
	if body != "H" {
		inner, ok := strings.CutSuffix(strings.TrimPrefix(body, "H("), ")")
		a, b, isRange := strings.Cut(inner, "-")
		if !ok || !isRange {
			return p.fail("%q is not understood", item).hint("write H(%d-%d)", p.min, p.hashMax)
		}
		var err error
		if from, err = p.value(a); err != nil {
			return err
		}
		if to, err = p.value(b); err != nil {
			return err
		}
		if from > to {
			return p.fail("the range of %q runs backwards", item)
		}
	}
	if p.hash == "" {
		return p.fail("H spreads by the name of the schedule, and there is no name")
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s", p.hash, p.name)
	width := to - from + 1
	if !hasStep {
		p.out.mask |= 1 << uint(from+int(mix(h.Sum64())%uint64(width)))
		return nil
	}
	width = min(width, step)
	for v := from + int(mix(h.Sum64())%uint64(width)); v <= to; v += step {
		p.out.mask |= 1 << uint(v)
	}
	return nil
}

// mix spreads the bits of a hash, so that names which differ in one letter get
// places that are far apart.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return h
}
