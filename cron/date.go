package cron

// The domain of dates: the years that Bistro's year selector allows. Labels
// before the first are searched from there, after the last there is no match.
const (
	firstYear = 1969
	lastYear  = 9999
	daySecs   = 86400
)

// firstDay and lastDay are the day numbers (since 1970-01-01) of the domain.
const (
	firstDay = -365
	lastDay  = 2932896
)

// dayNumber counts days from 1970-01-01 to a date of the Gregorian calendar.
func dayNumber(y, m, d int) int64 {
	if m <= 2 {
		y--
	}
	era := y / 400
	yoe := y - era*400
	mp := (m + 9) % 12
	doy := (153*mp+2)/5 + d - 1
	return int64(era)*146097 + int64(yoe*365+yoe/4-yoe/100+doy) - 719468
}

// dateOf is the inverse of dayNumber, for day numbers of the domain.
func dateOf(day int64) (y, m, d int) {
	z := int(day) + 719468
	era := z / 146097
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d = doy - (153*mp+2)/5 + 1
	m = mp + 3
	if m > 12 {
		m -= 12
	}
	y = yoe + era*400
	if m <= 2 {
		y++
	}
	return y, m, d
}

func leap(y int) bool { return y%4 == 0 && (y%100 != 0 || y%400 == 0) }

// monthDays is the length of a month.
func monthDays(y, m int) int {
	switch m {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if leap(y) {
			return 29
		}
		return 28
	}
	return 31
}

// weekday gives 0 = Sunday .. 6 = Saturday.
func weekday(day int64) int {
	w := (day + 4) % 7
	if w < 0 {
		w += 7
	}
	return int(w)
}

// floorDiv rounds towards minus infinity.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
