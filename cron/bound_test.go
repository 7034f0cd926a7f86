package cron_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cantina/cron"
)

// secondSundays is a calendar of one day set, which counts how often it is asked.
type secondSundays struct{ asked int }

func (c *secondSundays) Fields() []cron.Field { return nil }

func (c *secondSundays) Days(map[string]cron.Selector) (cron.DaySet, error) { return c, nil }

// NextDay gives the second Sundays of March: the days of the gaps of New York.
func (c *secondSundays) NextDay(day int64) (int64, bool) {
	c.asked++
	for t := time.Unix(day*86400, 0).UTC(); ; t = t.AddDate(0, 0, 1) {
		if t.Month() == time.March && t.Weekday() == time.Sunday && t.Day() > 7 && t.Day() < 15 {
			return t.Unix() / 86400, true
		}
	}
}

// TestTheWorstSearchIsBounded counts the steps of the most expensive search
// there is, through days that all fall into a gap: it gives up after fifty of
// them, each of which costs a handful of questions to the calendar.
func TestTheWorstSearchIsBounded(t *testing.T) {
	loc := load(t, loader(t), "America/New_York")
	days := &secondSundays{}
	it, err := cron.ParseCalendarJSON(days, []byte(`{"minute":30,"hour":2,"dst_fixes":["skip","repeat_use_both"]}`))
	must(t, err)
	if _, err = it.FirstMatch(at(t, "2010-01-01T00:00:00Z"), loc); !errors.Is(err, cron.ErrNeverMatches) {
		t.Fatalf("an item in gaps only: %v", err)
	}
	if !strings.HasSuffix(err.Error(), "the last of 50 is 2059-03-09") {
		t.Error(err)
	}
	if days.asked > 50*8 {
		t.Errorf("asked the calendar %d times", days.asked)
	}
	// Eight thousand years ahead there is one jump, not a walk over borders; the
	// benchmark of the worst cases has the cost.
	it,
		err = cron.ParseJSON([]byte(`{"minute":30,"hour":2,"year":9999,"month":7,"dst_fixes":["unskip","repeat_use_both"]}`))
	must(t, err)
	got, err := it.FirstMatch(at(t, "2010-01-01T00:00:00Z"), loc)
	must(t, err)
	if want := time.Date(9999, 7, 1, 2, 30, 0, 0, loc); !got.Equal(want) {
		t.Errorf("FirstMatch = %v, want %v", got, want)
	}
}
