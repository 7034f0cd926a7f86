package cron

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// gregorian makes the day set from the date selectors of the object.
func (p *itemParser) gregorian() error {
	dow, dowGiven := p.given[keyDOW]
	dom, domGiven := p.given[keyDOM]
	if dowGiven && domGiven {
		return syntax(keyDOW, "may not be combined with %s", keyDOM).
			hint("traditional crons read it as either-or; make two items for that")
	}
	g := &gregorian{months: allMonths, domAny: !domGiven, dowAny: !dowGiven}
	if domGiven {
		g.dom = dom.mask()
	}
	if dowGiven {
		g.dow = dow.mask() >> 1
	}
	if month, ok := p.given[keyMonth]; ok {
		g.months = month.mask()
	}
	if err := p.nthWeekday(g, dowGiven); err != nil {
		return err
	}
	if err := p.iterations(g, dowGiven); err != nil {
		return err
	}
	year, ok := p.given[keyYear]
	if !ok {
		year = All(YearField())
	}
	return p.item.setDays(g, year)
}

// setDays finishes the day set and refuses one without days.
func (it *Item) setDays(g *gregorian, year Selector) error {
	it.days, it.greg = g, g
	if g.prepare(year) {
		return nil
	}
	return &ParseError{Field: g.blame(), Problem: g.why(year), Kind: ErrImpossible}
}

// nthWeekday parses weekday_of_the_month: the selected weekdays of the month.
func (p *itemParser) nthWeekday(g *gregorian, dowGiven bool) error {
	value, ok := p.obj[keyNth]
	if !ok {
		return nil
	}
	if !dowGiven {
		return syntax(keyNth, "needs %s",
			keyDOW).hint(`the first Tuesday is {"day_of_week": "Tue", "weekday_of_the_month": 1}`)
	}
	if obj, isRange := value.(map[string]any); isRange {
		value = withKey(obj, "start", 1)
	}
	sel, err := ParseSelector(nthField(), value)
	if err != nil {
		return err
	}
	var set uint32
	for _, n := range sel.Numbers() {
		switch {
		case n > 0:
			set |= 1 << uint(n)
		case n < 0:
			set |= 1 << uint(8-n)
		default:
			return syntax(keyNth, "0 is no place").hint("count from 1, or back from -1 (last)")
		}
	}
	for w := range g.nth {
		if g.dow>>uint(w)&1 == 1 {
			g.nth[w] = set
		}
	}
	g.dow = 0
	p.item.fields = append(p.item.fields, part{key: keyNth, text: sel.String(), sel: sel})
	return nil
}

// withKey adds a key that the object does not have.
func withKey(obj map[string]any, key string, value any) map[string]any {
	out := map[string]any{key: value}
	for k, v := range obj {
		out[k] = v
	}
	return out
}

// iterations reads iter_month, iter_day_of_week and iter_day.
func (p *itemParser) iterations(g *gregorian, dowGiven bool) error {
	for i, key := range []string{keyIterMon, keyIterDOW, keyIterDay} {
		value, ok := p.obj[key]
		if !ok {
			continue
		}
		it, err := parseIteration(iterKind(i), key, value)
		if err != nil {
			return err
		}
		if it.kind == iterWeeks && !dowGiven {
			g.dow, g.dowAny = 1<<uint(weekday(it.start)), false
		}
		if it.kind == iterWeeks && !g.domAny {
			return syntax(key, "may not be combined with %s", keyDOM)
		}
		g.iters = append(g.iters, it)
		p.item.fields = append(p.item.fields, part{key: key, text: it.String()})
	}
	return nil
}

// String gives "start..end:period".
func (it iterated) String() string {
	end := ""
	if it.end != math.MaxInt64 {
		end = date(it.end * daySecs)
	}
	return fmt.Sprintf("%s..%s:%d", date(it.start*daySecs), end, it.period)
}

func parseIteration(kind iterKind, key string, value any) (iterated, error) {
	out := iterated{kind: kind, end: math.MaxInt64, period: 1}
	obj, ok := value.(map[string]any)
	if !ok {
		return out, syntax(key, "%s is not an object", show(value)).hint(`write {"start": "2024-01-02", "period": 2}`)
	}
	if _, ok := obj["start"]; !ok {
		return out, syntax(key+".start", "missing").hint("counting needs a first day, such as 2024-01-02")
	}
	var err error
	for _, k := range slices.Sorted(maps.Keys(obj)) {
		path := key + "." + k
		switch k {
		case "start":
			out.start, err = anchor(path, obj[k], kind == iterMonths, false)
		case "end":
			out.end, err = anchor(path, obj[k], kind == iterMonths, true)
		case "period":
			out.period, err = Field{Key: key, Max: 100000}.parsePeriod(path, obj[k])
		default:
			err = syntax(path, "unknown key").hint("the keys are start, end and period")
		}
		if err != nil {
			return out, err
		}
	}
	if out.end < out.start {
		return out, syntax(key+".end", "is before the start")
	}
	return out, nil
}

// anchor reads a date as people write it: 2024-01-31, 31 January 2024, Jan 31
// 2024; where months count also 2024-01 and January 2024, which is the whole
// month.
func anchor(path string, value any, months, last bool) (int64, error) {
	text, _ := value.(string)
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '-' })
	bad := func() (int64, error) {
		return 0, syntax(path, "%s is not a date", show(value)).hint(`write "2024-01-31" or "31 January 2024"`)
	}
	y, m, d := 0, 0, 0
	whole := false // a month without a day
	var numbers []int
	for _, w := range words {
		if n, ok := digits(w); ok {
			numbers = append(numbers, n)
			continue
		}
		n, err := MonthField().named(path, w)
		if err != nil || m != 0 {
			return bad()
		}
		m = int(n)
	}
	switch {
	case m == 0 && len(numbers) == 3:
		y, m, d = numbers[0], numbers[1], numbers[2]
	case m == 0 && len(numbers) == 2 && months:
		y, m, whole = numbers[0], numbers[1], true
	case m != 0 && len(numbers) == 2:
		d, y = numbers[0], numbers[1]
	case m != 0 && len(numbers) == 1 && months:
		y, whole = numbers[0], true
	}
	if y < firstYear || m < 1 || m > 12 { // or none of these forms
		return bad()
	}
	switch {
	case whole && last:
		d = monthDays(y, m)
	case whole:
		d = 1
	}
	if d < 1 || d > monthDays(y, m) {
		return bad()
	}
	return dayNumber(y, m, d), nil
}

func digits(w string) (int, bool) {
	n := 0
	for _, r := range w {
		if r < '0' || r > '9' {
			return 0, false
		}
		n = n*10 + int(r-'0')
	}
	return n, w != "" && len(w) <= 4
}
