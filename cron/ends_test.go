package cron_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/cron"
)

// everyDay is a calendar of one day set, without an end.
type everyDay struct{}

func (everyDay) Fields() []cron.Field { return nil }

func (c everyDay) Days(map[string]cron.Selector) (cron.DaySet, error) { return c, nil }

func (everyDay) NextDay(day int64) (int64, bool) { return day, true }

// TestOtherCalendarsEndWithTheYear9999, as the built-in one does.
func TestOtherCalendarsEndWithTheYear9999(t *testing.T) {
	it, err := cron.ParseCalendarJSON(everyDay{}, []byte(`{"minute":0,"hour":0`+fixes))
	must(t, err)
	last := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	if x, err := it.FirstMatch(last.Add(-time.Second), time.UTC); err != nil || !x.Equal(last) {
		t.Errorf("before the last day: %v, %v", x, err)
	}
	if x, err := it.Next(last, time.UTC); !errors.Is(err, cron.ErrNoMoreMatches) {
		t.Errorf("after the last day: %v, %v", x, err)
	}
}

// TestMatchesLeftOutAtTheEnd are listed where no firing follows: those of the next 400 days.
func TestMatchesLeftOutAtTheEnd(t *testing.T) {
	newYork, gap := load(t, loader(t), "America/New_York"), at(t, "2028-03-12T07:00:00Z")
	for _, c := range []struct {
		item string
		from time.Time
		want []string
		end  error
	}{
		{`"hour":2,"day_of_week":1,"weekday_of_the_month":2,"month":3`, gap.AddDate(0, 0, -400),
			[]string{"2027-03-14 02:30", "2028-03-12 02:30"}, cron.ErrNeverMatches},
		{`"hour":2,"day_of_week":1,"weekday_of_the_month":2,"month":3`, gap.AddDate(0, 0, -400).Add(-time.Second),
			[]string{"2027-03-14 02:30"}, cron.ErrNeverMatches},
		{`"hour":2,"year":2028,"month":3,"day_of_month":12`, at(t, "2028-01-01T00:00:00Z"),
			[]string{"2028-03-12 02:30"}, cron.ErrNoMoreMatches},
		{`"hour":1,"year":2028,"month":11,"day_of_month":5`, at(t, "2028-01-01T00:00:00Z"),
			[]string{"2028-11-05 01:30", "2028-11-05 01:30"}, cron.ErrNoMoreMatches},
		{`"hour":2,"year":1969,"month":4,"day_of_month":27`, at(t, "1969-01-01T00:00:00Z"),
			[]string{"1969-04-27 02:30"}, cron.ErrNoMoreMatches},
	} {
		it, err := cron.ParseJSON([]byte(`{"minute":30,` + c.item + `,"dst_fixes":["skip","repeat_use_only_early"]}`))
		must(t, err)
		var got []string
		for o, err := range it.Occurrences(c.from, newYork) {
			if err != nil {
				if !errors.Is(err, c.end) {
					t.Errorf("%s: %v, want %v", c.item, err, c.end)
				}
				break
			}
			got = append(got, o.Label)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s from %v: %q, want %q", c.item, c.from, got, c.want)
		}
	}
}

// TestYearsOneByOne finds and counts the day of an item of one year, in any year of the calendar.
func TestYearsOneByOne(t *testing.T) {
	before, after := time.Date(1968, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(10001, 1, 1, 0, 0, 0, 0, time.UTC)
	for year := 1969; year <= 9999; year += 55 { // 9999 too
		it, err := cron.ParseValue(map[string]any{"minute": 0, "hour": 0, "month": 2, "day_of_month": 3, "year": year,
			"dst_fixes": []any{"skip", "repeat_use_both"}})
		must(t, err)
		x, err := it.FirstMatch(before, time.UTC)
		if want := time.Date(year, 2, 3, 0, 0, 0, 0, time.UTC); err != nil || !x.Equal(want) {
			t.Errorf("%d: %v, %v, want %v", year, x, err, want)
		}
		if n := it.Count(before, after, time.UTC); n != 1 {
			t.Errorf("%d: it counts %d days", year, n)
		}
		for _, from := range []time.Time{x.Add(1), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), after,
			time.Unix(1<<50, 0)} {
			if x, err := it.FirstMatch(from, time.UTC); !errors.Is(err, cron.ErrNoMoreMatches) {
				t.Errorf("%d: from %v on %v, %v", year, from, x, err)
			}
		}
	}
}

// fewDays is a calendar of single days, which gives day 0 where it has no more.
type fewDays []int64

func (fewDays) Fields() []cron.Field { return nil }

func (d fewDays) Days(map[string]cron.Selector) (cron.DaySet, error) { return d, nil }

func (d fewDays) NextDay(day int64) (int64, bool) {
	for _, v := range d {
		if v >= day {
			return v, true
		}
	}
	return 0, false
}

// TestOtherCalendarsAreCountedToTheirEnd, whatever they give behind it.
func TestOtherCalendarsAreCountedToTheirEnd(t *testing.T) {
	it, err := cron.ParseCalendarJSON(fewDays{-5, 3, 4, 100}, []byte(`{"minute":0,"hour":[0,12]`+fixes))
	must(t, err)
	for to, want := range map[int64]int64{-5: 0, -4: 2, 0: 2, 4: 4, 100: 6, 101: 8, 1000: 8} {
		if n := it.Count(time.Unix(-6*86400, 0), time.Unix(to*86400-1, 0), time.UTC); n != want {
			t.Errorf("before day %d: %d, want %d", to, n, want)
		}
	}
}

// TestAPrefixOfTwoNames is refused with both, and one of two words for the same is read.
func TestAPrefixOfTwoNames(t *testing.T) {
	field := cron.Field{Key: "month", Min: 1, Max: 13, Names: []cron.Name{{Text: "adar rishon", Value: 6},
		{Text: "adarone", Value: 6}, {Text: "adar sheni", Value: 7}, {Text: "adar", Value: 8}, {Text: "nisan", Value: 9}}}
	for word, want := range map[string]string{
		"ada": `month: "ada" may be adar rishon or adar sheni`, "ADAR S": "7", "adar": "8", "nis": "9", "Adaro": "6",
	} {
		sel, err := cron.ParseSelector(field, word)
		if got := sel.String(); err != nil && err.Error() != want || err == nil && got != want {
			t.Errorf("%s: %s, %v, want %s", word, got, err, want)
		}
	}
}

// TestEachFormBelongsToItsField, and is refused with its reason where it is not complete, or in another field.
func TestEachFormBelongsToItsField(t *testing.T) {
	const place = "the place after # is 1 to 5; the last one is 1L"
	for line, want := range map[string]string{
		"1#2 * * * *":     `minute (column 1): "1#2" is not a number`,
		"0 0 1#2 * *":     `day of month (column 5): "1#2" is not a number`,
		"0 0 1 1#2 *":     "month (column 7): ",
		"5L * * * *":      `minute (column 1): "5L" is not a number`,
		"0 5L * * *":      `hour (column 3): "5L" is not a number`,
		"0 0 5L * *":      `day of month (column 5): "5L" is not a number`,
		"0 0 1 5L *":      "month (column 7): ",
		"0 0 1 L *":       "month (column 7): ",
		"0 L * * *":       `hour (column 3): "L" is not a number`,
		"0 ? * * *":       `hour (column 3): "?" is not a number`,
		"0 0 * ? *":       "month (column 7): ",
		"0 0 * * 1#0":     `day of week (column 9): "1#0": ` + place,
		"0 0 * * 1#6":     `day of week (column 9): "1#6": ` + place,
		"0 0 * * 1#x":     `day of week (column 9): "1#x": ` + place,
		"0 0 * * 1#":      `day of week (column 9): "1#": ` + place,
		"0 0 * * 1#00002": `day of week (column 9): "1#00002": ` + place,
		"*/10000 * * * *": `minute (column 1): "10000" is not a step`,
		"*/+5 * * * *":    `minute (column 1): "+5" is not a step`,
		"*/-5 * * * *":    `minute (column 1): "-5" is not a step`,
		"*/x * * * *":     `minute (column 1): "x" is not a step`,
		"*/ * * * *":      `minute (column 1): "" is not a step`,
		"H(3-1) * * * *":  `minute (column 1): the range of "H(3-1)" runs backwards`,
		"H(5-4) * * * *":  `minute (column 1): the range of "H(5-4)" runs backwards`,
		"H(1-2 * * * *":   `minute (column 1): "H(1-2" is not understood; write H(0-59)`,
		"H(1) * * * *":    `minute (column 1): "H(1)" is not understood; write H(0-59)`,
	} {
		_, _, err := cron.ParseLine(line, cron.LineOptions{Zone: time.UTC, Name: "n"})
		if err == nil || !strings.HasPrefix(err.Error(), want) || len(want) > 25 && err.Error() != want {
			t.Errorf("%q\n got %v\nwant %s", line, err, want)
		}
	}
	for line, want := range map[string]string{"*/9999 * * * *": "0", "H(7-7) * * * *": "7", "5-5 * * * *": "5"} {
		it, _, err := cron.ParseLine(line, cron.LineOptions{Zone: time.UTC, Name: "n"})
		if err != nil || it.String() != want+" * * * *" {
			t.Errorf("%q: %v, %v, want minute %s", line, it, err, want)
		}
	}
}
