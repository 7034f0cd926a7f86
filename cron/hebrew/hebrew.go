// Package hebrew lets items of package cron follow the Hebrew calendar. It is not part of cron
// itself: a program that does not import it does not pay for it (Bistro cron notes, "Possible
// improvements", non-Gregorian calendars). It is pure, and an example of how to add a calendar:
// implement cron.Calendar and pass it to cron.ParseCalendarJSON.
//
//	item, err := hebrew.ParseJSON([]byte(`{
//	    "hebrew_month": "Nisan", "hebrew_day": 15, "hour": 9, "minute": 0,
//	    "dst_fixes": ["skip", "repeat_use_only_early"]}`))
//
// A day of the calendar begins at sunset. An item uses the civil day on which it is light: 15
// Nisan 5784 is 23 April 2024, not the evening before.
package hebrew

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"cantina/cron"
)

// The years of the calendar that overlap with cron's, 1969 to 9999.
const (
	firstYear = 5729
	lastYear  = 13760
)

// The months, in the order of the year. Adar is the month of Purim: in a leap year that is Adar
// II, and Adar I precedes it.
const (
	Tishrei = 1 + iota
	Cheshvan
	Kislev
	Tevet
	Shevat
	Adar
	Nisan
	Iyar
	Sivan
	Tammuz
	Av
	Elul
	AdarI // of leap years only
)

// ParseJSON makes an item from a JSON object with the selectors hebrew_month,
// hebrew_day, hebrew_year and day_of_week in place of the Gregorian ones. Day
// and day_of_week may be combined. Errors are as those of cron.ParseJSON.
func ParseJSON(data []byte) (*cron.Item, error) { return cron.ParseCalendarJSON(Calendar{}, data) }

// Calendar implements cron.Calendar.
type Calendar struct{}

const (
	keyMonth = "hebrew_month"
	keyDay   = "hebrew_day"
	keyYear  = "hebrew_year"
)

// Fields lists the selectors of the calendar. Months are numbered from Tishrei
// = 1 to Elul = 12; Adar I of leap years is 13.
func (Calendar) Fields() []cron.Field {
	return []cron.Field{
		{Key: keyDay, Min: 1, Max: 30},
		{Key: keyMonth, Min: 1, Max: 13, Names: monthNames()},
		cron.WeekdayField(),
		{Key: keyYear, Min: firstYear, Max: lastYear},
	}
}

func monthNames() []cron.Name {
	var out []cron.Name
	for i, w := range strings.Fields("tishrei cheshvan kislev tevet shevat adar nisan iyar sivan tammuz av elul") {
		out = append(out, cron.Name{Text: w, Value: int64(i + 1)})
	}
	return append(out, cron.Name{Text: "marcheshvan", Value: Cheshvan}, cron.Name{Text: "adar i", Value: AdarI},
		cron.Name{Text: "adar ii", Value: Adar})
}

// Days makes the set of days; one that no year has is refused.
func (c Calendar) Days(given map[string]cron.Selector) (cron.DaySet, error) {
	d := &days{months: 1<<14 - 2, dates: 1<<31 - 2, weekdays: 1<<7 - 1}
	year := cron.All(c.Fields()[3])
	for key, sel := range given {
		switch key {
		case keyYear:
			year = sel
		case keyMonth:
			d.months = mask(sel)
		case keyDay:
			d.dates = mask(sel)
		case cron.WeekdayField().Key:
			d.weekdays = mask(sel) >> 1
		}
	}
	d.years = make([]uint64, (lastYear-firstYear)/64+1)
	found := false
	for y, carry := year.Match(firstYear); !carry; y, carry = year.Match(y + 1) {
		if _, ok := d.inYear(int(y), beginning); ok {
			i := int(y) - firstYear
			d.years[i/64] |= 1 << uint(i%64)
			found = true
		}
	}
	if !found {
		return nil, &cron.ParseError{Field: keyDay, Problem: "no such day occurs in the chosen months and years",
			Kind: cron.ErrImpossible}
	}
	return d, nil
}

func mask(sel cron.Selector) uint64 {
	var m uint64
	for _, v := range sel.Numbers() {
		m |= 1 << uint(v)
	}
	return m
}

// days is a set of days, as bits: months by their numbers, dates, weekdays from
// Sunday = 0, and the years from firstYear that have a matching day.
type days struct {
	months, dates, weekdays uint64
	years                   []uint64
}

// NextDay implements cron.DaySet: it looks into two years at most.
func (d *days) NextDay(day int64) (int64, bool) {
	y := max(yearOf(day), firstYear)
	for {
		y = d.nextYear(y)
		if y == 0 {
			return 0, false
		}
		if got, ok := d.inYear(y, day); ok {
			return got, true
		}
		y++
	}
}

// nextYear is the first year at or after y with a matching day, 0 without one.
func (d *days) nextYear(y int) int {
	for i := y - firstYear; i/64 < len(d.years); i = i/64*64 + 64 {
		if word := d.years[i/64] & (^uint64(0) << uint(i%64)); word != 0 {
			return firstYear + i/64*64 + bits.TrailingZeros64(word)
		}
	}
	return 0
}

// beginning is before every day: the search begins with the year.
const beginning = -1 << 60

// inYear gives the first matching day of a year at or after a day number.
func (d *days) inYear(y int, from int64) (int64, bool) {
	start := newYear(y)
	for m := range monthsOf(y, int(newYear(y+1)-start)) {
		first := start
		start += int64(m.length)
		if d.months>>uint(m.number)&1 == 0 || start <= from {
			continue
		}
		for dates := d.dates; dates != 0; dates &= dates - 1 {
			date := bits.TrailingZeros64(dates)
			if date > m.length {
				break
			}
			day := first + int64(date) - 1
			if day >= from && d.weekdays>>uint(weekday(day))&1 == 1 {
				return day, true
			}
		}
	}
	return 0, false
}

// Words describes the set in English, for cron.Item.Words.
func (d *days) Words() string {
	var parts []string
	if d.dates != 1<<31-2 {
		var dates []string
		for v := d.dates; v != 0; v &= v - 1 {
			dates = append(dates, fmt.Sprint(bits.TrailingZeros64(v)))
		}
		parts = append(parts, "on day "+strings.Join(dates, ", "))
	}
	if d.months != 1<<14-2 {
		names := monthNames()
		var months []string
		for v := d.months; v != 0; v &= v - 1 {
			m := int64(bits.TrailingZeros64(v))
			name := names[slices.IndexFunc(names, func(n cron.Name) bool { return n.Value == m })].Text
			months = append(months, strings.ToUpper(name[:1])+strings.Replace(name[1:], " i", " I", 1))
		}
		parts = append(parts, "in "+strings.Join(months, ", "))
	}
	if d.weekdays != 1<<7-1 {
		parts = append(parts, "on the chosen weekdays")
	}
	if len(parts) == 0 {
		return "every day"
	}
	return strings.Join(parts, " ") + " of the Hebrew calendar"
}
