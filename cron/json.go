package cron

import (
	"maps"
	"math"
	"slices"
)

// The keys of a JSON item, as in the Bistro cron notes.
const (
	keyEpoch    = "epoch"
	keySeconds  = "seconds"
	keyMinute   = "minute"
	keyHour     = "hour"
	keyDOW      = "day_of_week"
	keyDOM      = "day_of_month"
	keyNth      = "weekday_of_the_month"
	keyMonth    = "month"
	keyYear     = "year"
	keyFixes    = "dst_fixes"
	keyMaxShift = "max_shift_seconds_for_unskip_and_do_not_repeat"
	keyIterMon  = "iter_month"
	keyIterDOW  = "iter_day_of_week"
	keyIterDay  = "iter_day"
)

// EpochField is the field of the selector "epoch": seconds since 1970, UTC.
func EpochField() Field { return Field{Key: keyEpoch, Max: math.MaxInt64} }

// SecondField, MinuteField and HourField are the fields of the time of day.
func SecondField() Field { return Field{Key: keySeconds, Max: 59} }

// MinuteField is the field of the minute within the hour.
func MinuteField() Field { return Field{Key: keyMinute, Max: 59} }

// HourField is the field of the hour, 13 meaning 1 pm.
func HourField() Field { return Field{Key: keyHour, Max: 23} }

// MonthDayField is the field of the day within the month.
func MonthDayField() Field { return Field{Key: keyDOM, Min: 1, Max: 31} }

// YearField is the field of the year; it ends at 9999 as in Bistro.
func YearField() Field { return Field{Key: keyYear, Min: firstYear, Max: lastYear} }

// WeekdayField is the field of the weekday, 1 = Sunday .. 7 = Saturday.
func WeekdayField() Field {
	return Field{Key: keyDOW, Min: 1, Max: 7, Names: names("sunday monday tuesday wednesday thursday friday saturday")}
}

// MonthField is the field of the month.
func MonthField() Field {
	return Field{Key: keyMonth, Min: 1, Max: 12,
		Names: names("january february march april may june july august september october november december")}
}

// nthField is the field of weekday_of_the_month: 1..5 from the start of the
// month, -1..-5 from its end.
func nthField() Field {
	f := Field{Key: keyNth, Min: -5, Max: 5, Names: names("first second third fourth fifth")}
	f.Names = append(f.Names, Name{"last", -1})
	return f
}

// ParseJSON makes an item from a JSON object with the keys of the Bistro cron
// notes. Errors are [*ParseError] values of the kinds ErrSyntax and
// ErrImpossible, and name the place.
func ParseJSON(data []byte) (*Item, error) { return parseJSON(nil, data) }

// ParseValue is ParseJSON for an object that is already decoded, for example from YAML: maps,
// lists, strings and whole numbers (integers or json.Number; a float64 is refused even if it has
// no fraction).
func ParseValue(value any) (*Item, error) { return parseValue(nil, value) }

// Calendar replaces the Gregorian date selectors of an item by others; time of
// day and policies stay. See cron/hebrew.
type Calendar interface {
	// Fields lists the selectors of the calendar, in the order for printing.
	Fields() []Field
	// Days makes the set of days from the selectors that were given, by key. An
	// impossible combination is an error of the kind ErrImpossible.
	Days(given map[string]Selector) (DaySet, error)
}

// ParseCalendarJSON is ParseJSON with the date selectors of another calendar.
func ParseCalendarJSON(cal Calendar, data []byte) (*Item, error) { return parseJSON(cal, data) }

func parseJSON(cal Calendar, data []byte) (*Item, error) {
	v, err := decode(data)
	if err != nil {
		return nil, err
	}
	return parseValue(cal, v)
}

func parseValue(cal Calendar, value any) (*Item, error) {
	obj, ok := value.(map[string]any)
	if !ok {
		return nil, syntax("", "%s is not an object", show(value))
	}
	if epoch, ok := obj[keyEpoch]; ok {
		return parseEpoch(obj, epoch)
	}
	fields := dateFields()
	if cal != nil {
		fields = cal.Fields()
	}
	if err := checkKeys(obj, fields, cal == nil); err != nil {
		return nil, err
	}
	p := itemParser{obj: obj, given: map[string]Selector{}, item: &Item{}}
	if err := p.clockAndPolicy(); err != nil {
		return nil, err
	}
	for _, f := range fields {
		if _, err := p.selector(f); err != nil {
			return nil, err
		}
	}
	var err error
	if cal != nil {
		p.item.days, err = cal.Days(p.given)
	} else {
		err = p.gregorian()
	}
	if err != nil {
		return nil, err
	}
	p.item.grain = p.item.findGrain()
	return p.item, nil
}

func dateFields() []Field {
	return []Field{MonthDayField(), MonthField(), WeekdayField(), YearField()}
}

// checkKeys refuses unknown keys, with the nearest known one.
func checkKeys(obj map[string]any, fields []Field, gregorian bool) error {
	known := []string{keySeconds, keyMinute, keyHour, keyFixes, keyMaxShift}
	if gregorian {
		known = append(known, keyEpoch, keyNth, keyIterMon, keyIterDOW, keyIterDay)
	}
	for _, f := range fields {
		known = append(known, f.Key)
	}
	for _, key := range slices.Sorted(maps.Keys(obj)) {
		if slices.Contains(known, key) {
			continue
		}
		err := syntax(key, "unknown key")
		if w := nearest(key, known); w != "" {
			err = err.hint("did you mean %s?", w)
		}
		return err
	}
	return nil
}

// parseEpoch makes an epoch item. Beside "epoch" only the setting of stateful
// cron is allowed, which concerns epoch items as well.
func parseEpoch(obj map[string]any, value any) (*Item, error) {
	for _, key := range slices.Sorted(maps.Keys(obj)) {
		if key != keyEpoch && key != keyMaxShift {
			return nil, syntax(key, "not allowed beside epoch").hint("an epoch item never looks at local time")
		}
	}
	sel, err := ParseSelector(EpochField(), value)
	if err != nil {
		return nil, err
	}
	p := itemParser{obj: obj, item: epochItem(sel)}
	return p.item, p.maxShift()
}

func epochItem(sel Selector) *Item {
	return &Item{epoch: &sel, fields: []part{{key: keyEpoch, text: sel.String(), sel: sel}}}
}

// itemParser has the data that the steps of parsing one object share.
type itemParser struct {
	obj   map[string]any
	given map[string]Selector
	item  *Item
}

// selector reads the selector of a field; a missing one is everything.
func (p *itemParser) selector(f Field) (Selector, error) {
	sel := All(f)
	if value, ok := p.obj[f.Key]; ok {
		var err error
		if sel, err = ParseSelector(f, value); err != nil {
			return sel, err
		}
		p.given[f.Key] = sel
	}
	p.item.fields = append(p.item.fields, part{key: f.Key, text: sel.String(), sel: sel})
	return sel, nil
}

func (p *itemParser) clockAndPolicy() error {
	fixes, ok := p.obj[keyFixes]
	if !ok {
		return syntax(keyFixes, "missing").hint("days of 23 and 25 hours need a decision: " + fixesHint)
	}
	gap, fold, vixie, err := parseFixes(fixes)
	if err != nil {
		return err
	}
	if _, ok := p.obj[keyMinute]; !ok {
		return syntax(keyMinute, "missing").hint(`for every minute write {"period": 1}`)
	}
	sec := listOf(SecondField(), []int64{0})
	if _, ok := p.obj[keySeconds]; ok {
		if sec, err = p.selector(SecondField()); err != nil {
			return err
		}
	}
	minute, err := p.selector(MinuteField())
	if err != nil {
		return err
	}
	hour, err := p.selector(HourField())
	if err != nil {
		return err
	}
	if vixie {
		gap, fold = Vixie(hour.starred(), minute.starred())
	}
	p.item.clock, p.item.gap, p.item.fold = newClock(sec, minute, hour), gap, fold
	return p.maxShift()
}

// starred reports whether a crontab author would write the selector with a star: everything, or
// every n-th of everything.
func (s Selector) starred() bool {
	return s.Everything() || s.start == s.field.Min && s.end > s.field.Max-s.period
}

func (p *itemParser) maxShift() error {
	value, ok := p.obj[keyMaxShift]
	if !ok {
		return nil
	}
	n, ok := integer(value)
	if !ok || n < 0 || n > 100*366*daySecs {
		return syntax(keyMaxShift, "%s is not a number of seconds", show(value))
	}
	p.item.maxShift, p.item.hasMaxShift = n, true
	return nil
}
