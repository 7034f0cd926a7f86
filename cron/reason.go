package cron

import (
	"fmt"
	"math/bits"
	"strings"
)

// names numbers words from 1.
func names(words string) []Name {
	var out []Name
	for i, w := range strings.Fields(words) {
		out = append(out, Name{Text: w, Value: int64(i + 1)})
	}
	return out
}

// blame names the selector to look at first when no day matches. Without a day of the month, some
// year has a day: each weekday is the first to the fifth of each month in one.
func (g *gregorian) blame() string {
	if g.kinds == 0 {
		return keyDOM
	}
	return keyYear
}

// why describes why no day matches.
func (g *gregorian) why(year Selector) string {
	if day := g.deadDay(); day > 0 {
		return fmt.Sprintf("day %d never occurs in %s", day, monthList(g.months))
	}
	if g.kinds == 0 {
		return "no month has such a day"
	}
	if g.iters == nil {
		return fmt.Sprintf("such a day never occurs in the years %s", year)
	}
	return "no day matches all selectors"
}

// deadDay is the smallest day of the month chosen when that day is longer than
// every chosen month, else 0.
func (g *gregorian) deadDay() int {
	if g.dom == 0 || g.fromEnd != 0 {
		return 0
	}
	longest := 0
	for m := g.months; m != 0; m &= m - 1 {
		longest = max(longest, monthDays(2000, bits.TrailingZeros64(m)))
	}
	if day := bits.TrailingZeros64(g.dom); day > longest {
		return day
	}
	return 0
}

// monthList gives "month 2" or "months 4, 6".
func monthList(months uint64) string {
	var parts []string
	for m := months; m != 0; m &= m - 1 {
		parts = append(parts, fmt.Sprint(bits.TrailingZeros64(m)))
	}
	if len(parts) == 1 {
		return "month " + parts[0]
	}
	return "months " + strings.Join(parts, ", ")
}

// findGrain guesses the usual distance of two matches in seconds, where Last
// begins to look back.
func (it *Item) findGrain() int64 {
	c := &it.clock
	grain := int64(daySecs)
	if c.hour == 1<<24-1 {
		grain = 3600 / min(c.perHour, 3600)
	} else if c.perDay > 1 {
		grain = daySecs / c.perDay
	}
	g := it.greg
	switch {
	case g == nil || !g.plain && g.months != allMonths:
		return max(grain, 31*daySecs)
	case !g.plain:
		return max(grain, 7*daySecs)
	}
	return grain
}
