package hebrew

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"cantina/cron"
)

// TestNewYearsByTheirRules counts all new moons from the first one, and moves new year by the four traditional rules:
// an independent way to the first day of each year.
func TestNewYearsByTheirRules(t *testing.T) {
	const hour, day = 1080, 24 * 1080 // in parts
	leap := func(y int) bool {
		switch y % 19 {
		case 0, 3, 6, 8, 11, 14, 17:
			return true
		}
		return false
	}
	moon := int64(1*day + 5*hour + 204) // of the year 1: Monday, 5 hours, 204 parts
	for y := 1; y <= lastYear+1; y++ {
		first, time, week := moon/day, moon%day, moon/day%7
		switch {
		case time >= 18*hour, !leap(y) && week == 2 && time >= 9*hour+204,
			!leap(y) && leap(y-1) && week == 1 && time >= 15*hour+589:
			first++
		}
		switch first % 7 {
		case 0, 3, 5:
			first++
		}
		if got := newYear(y); got != epoch+first-1 {
			t.Fatalf("year %d begins on day %d, want %d", y, got, epoch+first-1)
		}
		if leapYear(y) != leap(y) {
			t.Fatalf("year %d is a leap year: %v", y, leapYear(y))
		}
		months := int64(12)
		if leap(y) {
			months = 13
		}
		moon += months * (29*day + 12*hour + 793)
	}
}

// TestYearsOneByOne finds the new year of an item of one year, wherever the search begins.
func TestYearsOneByOne(t *testing.T) {
	for year := firstYear + 32; year < lastYear; year += 32 { // the first one begins before 1969
		it, err := ParseJSON([]byte(fmt.Sprintf(`{"hebrew_month":1,"hebrew_day":1,"hebrew_year":%d`, year) + rest))
		if err != nil {
			t.Fatal(err)
		}
		want := time.Unix(newYear(year)*86400, 0).UTC().Add(12 * time.Hour)
		for _, from := range []int{1969, 2000, want.Year() - 70, want.Year() - 1} {
			x, err := it.FirstMatch(time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC), time.UTC)
			if from < want.Year() && (err != nil || !x.Equal(want)) {
				t.Fatalf("year %d from %d on: %v, %v, want %v", year, from, x, err, want)
			}
		}
		if x, err := it.Next(want, time.UTC); !errors.Is(err, cron.ErrNoMoreMatches) {
			t.Fatalf("after the year %d: %v, %v", year, x, err)
		}
	}
}

// TestWordsNameWhatIsChosen, and nothing else.
func TestWordsNameWhatIsChosen(t *testing.T) {
	for text, want := range map[string]string{
		`"hebrew_day":[]`:       "every day",
		`"hebrew_day":[3,1,30]`: "on day 1, 3, 30 of the Hebrew calendar",
		`"hebrew_month":[1,13]`: "in Tishrei, Adar I of the Hebrew calendar",
		`"hebrew_month":12`:     "in Elul of the Hebrew calendar",
		`"day_of_week":"Sun"`:   "on the chosen weekdays of the Hebrew calendar",
		`"hebrew_day":9,"hebrew_month":"av","day_of_week":["Sun","Tue"]`: "on day 9 in Av on the chosen weekdays " +
			"of the Hebrew calendar",
	} {
		it, err := ParseJSON([]byte("{" + text + rest))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := it.WordsIn(time.UTC, time.Unix(0, 0)); got != "at 12:00 "+want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{`"hebrew_month":14`, `"hebrew_month":0`, `"hebrew_day":0`, `"hebrew_day":31`} {
		if _, err := ParseJSON([]byte("{" + text + rest)); !errors.Is(err, cron.ErrSyntax) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
