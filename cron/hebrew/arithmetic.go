package hebrew

import "iter"

// epoch is the day number (from 1970-01-01) from which the calendar counts.
const epoch = -1373427 - 719163

// leapYear reports whether a year has thirteen months: 7 of 19 have.
func leapYear(y int) bool { return (7*y+1)%19 < 7 }

// elapsed is the number of days from the epoch to the mean new moon of Tishrei
// of year y, moved on when it falls on a Sunday, Wednesday or Friday. An hour
// has 1080 parts, a day 25920, a month 29 days and 13753 parts.
func elapsed(y int) int64 {
	months := (235*int64(y) - 234) / 19
	day := 29*months + (12084+13753*months)/25920
	if 3*(day+1)%7 < 3 {
		day++
	}
	return day
}

// newYear is the day number of 1 Tishrei. Two more rules keep years from
// becoming 356 or 382 days long.
func newYear(y int) int64 {
	before, here, after := elapsed(y-1), elapsed(y), elapsed(y+1)
	switch {
	case after-here == 356:
		here += 2
	case here-before == 382:
		here++
	}
	return epoch + here
}

// yearOf is the year that a day lies in.
func yearOf(day int64) int {
	y := int((day-epoch)*98496/35975351) + 1
	for newYear(y) > day {
		y--
	}
	for newYear(y+1) <= day {
		y++
	}
	return y
}

type month struct{ number, length int }

// monthsOf yields the months of a year of so many days, in their order.
func monthsOf(y, days int) iter.Seq[month] {
	return func(yield func(month) bool) {
		for m := Tishrei; m <= Elul; m++ {
			length := 30 - (m+1)%2 // 30 and 29 in turn: 30 for odd numbers
			switch {
			case m == Cheshvan && days%10 == 5:
				length = 30
			case m == Kislev && days%10 == 3:
				length = 29
			}
			if m == Adar && leapYear(y) && !yield(month{AdarI, 30}) {
				return
			}
			if !yield(month{m, length}) {
				return
			}
		}
	}
}

// weekday gives 0 = Sunday .. 6 = Saturday.
func weekday(day int64) int { return int(((day+4)%7 + 7) % 7) }
