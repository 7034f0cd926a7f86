package cron

import (
	"math/bits"
)

// DaySet is a set of days: the part of an item that depends on a calendar. Days are numbered from
// 1970-01-01 = 0, in any calendar. A DaySet must not change once it is part of an item. The
// Gregorian one is built in; cron/hebrew has another.
type DaySet interface {
	// NextDay gives the first day of the set at or after day; ok is false when
	// there is none. It must return in bounded time.
	NextDay(day int64) (next int64, ok bool)
}

// gregorian is the DaySet of all built-in selectors. Each month is reduced to a
// mask of its matching days, bit d for day d.
type gregorian struct {
	months  uint64    // bits 1..12
	dom     uint64    // bits 1..31
	fromEnd uint64    // bit k: the k-th day from the end of the month
	dow     uint64    // bits 0 (Sunday) .. 6, in any week
	nth     [7]uint32 // by weekday: bit n the n-th, bit 8+n the n-th from the end
	domAny, dowAny,
	either bool // either: a day matches when one of the two day fields does

	iters []iterated
	years *yearSet // nil: every year, but see kinds
	kinds uint32   // which of the 14 kinds of years have a matching day
	plain bool     // only weekdays restrict it: no month, date or year does
}

// yearSet is a set of years of the domain.
type yearSet [(lastYear - firstYear + 64) / 64]uint64

func (s *yearSet) add(y int)      { s[(y-firstYear)/64] |= 1 << uint((y-firstYear)%64) }
func (s *yearSet) has(y int) bool { return s[(y-firstYear)/64]>>uint((y-firstYear)%64)&1 == 1 }

// next is the first year of the set at or after y, which is one of the domain or the one after; 0 without one.
func (s *yearSet) next(y int) int {
	i := y - firstYear
	word := s[i/64] & (^uint64(0) << uint(i%64))
	for k := i / 64; ; {
		if word != 0 {
			return firstYear + k*64 + bits.TrailingZeros64(word)
		}
		if k++; k == len(s) {
			return 0
		}
		word = s[k]
	}
}

// iterKind is the unit of an iterated selector.
type iterKind uint8

const (
	iterMonths iterKind = iota
	iterWeeks
	iterDays
)

// iterated is "every n-th month, week or day from a date on, until a date"
// (Bistro cron notes, "Possible improvements").
type iterated struct {
	kind       iterKind
	start, end int64 // day numbers, both included
	period     int64
}

// mask gives the days of a month that the selector lets through. first is the
// day number of the month's first day, n its length.
func (it *iterated) mask(y, m int, first int64, n int) uint64 {
	lo, hi := max(it.start, first), min(it.end, first+int64(n)-1)
	if lo > hi {
		return 0
	}
	span := (uint64(1)<<uint(hi-lo+1) - 1) << uint(lo-first+1)
	switch it.kind {
	case iterMonths:
		sy, sm, _ := dateOf(it.start)
		if int64(y*12+m-sy*12-sm)%it.period != 0 {
			return 0
		}
		return span
	case iterDays:
		var out uint64
		past := (lo - it.start) % it.period
		if past > 0 {
			past = it.period - past
		}
		for d := lo + past; d <= hi; d += it.period {
			out |= 1 << uint(d-first+1)
		}
		return out
	}
	var out uint64
	for w := (lo - it.start) / 7; it.start+w*7 <= hi; w++ {
		if w%it.period != 0 {
			continue
		}
		from, to := max(it.start+w*7, lo), min(it.start+w*7+6, hi)
		out |= (uint64(1)<<uint(to-from+1) - 1) << uint(from-first+1)
	}
	return out
}

// weekRow is a bit at 0, 7, 14, 21, 28: a week's pattern times weekRow covers a month.
const weekRow = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28 | 1<<35

// monthMask gives the matching days of a month of n days that begins on the
// weekday wd, without the iterated selectors.
func (g *gregorian) monthMask(wd, n int) uint64 {
	valid := uint64(1)<<uint(n+1) - 2
	dom := g.dom
	for e := g.fromEnd; e != 0; e &= e - 1 {
		if k := bits.TrailingZeros64(e); k <= n {
			dom |= 1 << uint(n+1-k)
		}
	}
	turned := (g.dow>>uint(wd) | g.dow<<uint(7-wd)) & 0x7f
	dow := turned * weekRow << 1
	for w, set := range g.nth {
		if set != 0 {
			dow |= nthMask(set, 1+(w-wd+7)%7, n)
		}
	}
	switch {
	case g.domAny && g.dowAny:
		return valid
	case g.domAny:
		return dow & valid
	case g.dowAny:
		return dom & valid
	case g.either:
		return (dom | dow) & valid
	}
	return dom & dow & valid
}

// nthMask returns the n-th occurrences of a weekday whose first date is d.
func nthMask(set uint32, d, days int) uint64 {
	var out uint64
	count := (days-d)/7 + 1
	for ; set != 0; set &= set - 1 {
		k := bits.TrailingZeros32(set)
		if k > 8 {
			k = count + 9 - k // 9 = the last
		}
		if k >= 1 && k <= count {
			out |= 1 << uint(d+(k-1)*7)
		}
	}
	return out
}

// kindOf numbers the 14 kinds of years: weekday of 1 January, leap or not.
func kindOf(y int) uint {
	k := uint(weekday(dayNumber(y, 1, 1)))
	if leap(y) {
		k += 7
	}
	return k
}

// prepare finds the years with a matching day, so that no search visits years without one. It
// reports whether any year has one.
func (g *gregorian) prepare(year Selector) bool {
	for y := 2000; y < 2028; y++ { // 28 years hold all 14 kinds
		if g.yearHasDay(y, false) {
			g.kinds |= 1 << kindOf(y)
		}
	}
	everyYear := year.Everything()
	g.plain = everyYear && g.domAny && g.months == allMonths && g.iters == nil && g.nth == [7]uint32{}
	if everyYear && g.iters == nil {
		return g.kinds != 0
	}
	g.years = &yearSet{}
	found := false
	for y, carry := year.Match(firstYear); !carry; y, carry = year.Match(y + 1) {
		if g.kinds>>kindOf(int(y))&1 == 1 && g.yearHasDay(int(y), true) {
			g.years.add(int(y))
			found = true
		}
	}
	return found
}

const allMonths = 1<<13 - 2

func (g *gregorian) yearHasDay(y int, iters bool) bool {
	day := dayNumber(y, 1, 1)
	for m := 1; m <= 12; m++ {
		n := monthDays(y, m)
		if g.months>>uint(m)&1 == 1 {
			mask := g.monthMask(weekday(day), n)
			if iters {
				mask = g.iterate(mask, y, m, day, n)
			}
			if mask != 0 {
				return true
			}
		}
		day += int64(n)
	}
	return false
}

func (g *gregorian) iterate(mask uint64, y, m int, first int64, n int) uint64 {
	for i := range g.iters {
		mask &= g.iters[i].mask(y, m, first, n)
	}
	return mask
}

// nextYear is the first year at or after y with a matching day, 0 without one.
// All kinds of years occur within any 40, so the loop is short.
func (g *gregorian) nextYear(y int) int {
	if g.years != nil {
		return g.years.next(y)
	}
	for ; y <= lastYear; y++ {
		if g.kinds>>kindOf(y)&1 == 1 {
			return y
		}
	}
	return 0
}

// NextDay implements DaySet: at most one year table lookup and twelve months.
func (g *gregorian) NextDay(day int64) (int64, bool) {
	day = max(day, firstDay)
	if g.plain {
		if g.dowAny {
			return day, day <= lastDay
		}
		wd := weekday(day)
		turned := (g.dow>>uint(wd) | g.dow<<uint(7-wd)) & 0x7f
		day += int64(bits.TrailingZeros64(turned))
		return day, day <= lastDay
	}
	if day > lastDay {
		return 0, false
	}
	y, m, d := dateOf(day)
	for first := true; ; first = false {
		next := g.nextYear(y)
		if next == 0 {
			return 0, false
		}
		if next != y || !first {
			m, d = 1, 1
		}
		if got, ok := g.nextInYear(next, m, d); ok {
			return got, true
		}
		y = next + 1
	}
}

func (g *gregorian) nextInYear(y, m, d int) (int64, bool) {
	for {
		next := lowest(g.months, m)
		if next < 0 {
			return 0, false
		}
		if next != m {
			m, d = next, 1
		}
		first, n := dayNumber(y, m, 1), monthDays(y, m)
		mask := g.monthMask(weekday(first), n)
		if mask&(^uint64(0)<<uint(d)) != 0 {
			mask = g.iterate(mask, y, m, first, n)
			if got := lowest(mask, d); got > 0 {
				return first + int64(got) - 1, true
			}
		}
		m, d = m+1, 1
	}
}

// countDays is the number of matching days in [from, to).
func (g *gregorian) countDays(from, to int64) int64 {
	from, to = max(from, firstDay), min(to, lastDay+1)
	if from >= to {
		return 0
	}
	if g.plain && g.dowAny {
		return to - from
	}
	if g.plain {
		perWeek := int64(bits.OnesCount64(g.dow))
		n := (to - from) / 7 * perWeek
		for d := from + (to-from)/7*7; d < to; d++ {
			n += int64(g.dow >> uint(weekday(d)) & 1)
		}
		return n
	}
	var n int64
	for from < to {
		y, m, d := dateOf(from)
		first, length := from-int64(d)+1, monthDays(y, m)
		if g.months>>uint(m)&1 == 1 && (g.years == nil || g.years.has(y)) {
			mask := g.iterate(g.monthMask(weekday(first), length), y, m, first, length)
			mask &= ^uint64(0) << uint(d)
			if to < first+int64(length) {
				mask &= 1<<uint(to-first+1) - 1
			}
			n += int64(bits.OnesCount64(mask))
		}
		from = first + int64(length)
	}
	return n
}
