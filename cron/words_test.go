package cron_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"cantina/cron"
)

// TestIterationsAsText have an end where they have one.
func TestIterationsAsText(t *testing.T) {
	for text, want := range map[string]string{
		`{"start":"2026-01-02"}`:                               "2026-01-02..:1",
		`{"start":"2026-01-02","period":3,"end":"1 Feb 2027"}`: "2026-01-02..2027-02-01:3",
	} {
		it, err := cron.ParseJSON([]byte(`{"minute":0,"iter_day":` + text + fixes))
		if err != nil || !strings.HasSuffix(it.String(), " "+want) {
			t.Errorf("%s: %v, %v, want %s", text, it, err, want)
		}
	}
}

// TestDatesWithWordsThatAreNone, or with two months, are refused where a month is enough too.
func TestDatesWithWordsThatAreNone(t *testing.T) {
	for _, date := range []string{"2026 Foo 1", "Foo 2026", "Jan Feb 2026", "January 1 February 2026", "2026-1-x",
		"1 2 3 4"} {
		_, err := cron.ParseJSON([]byte(`{"minute":0,"iter_month":{"start":"` + date + `"}` + fixes))
		if err == nil || !strings.Contains(err.Error(), "is not a date") {
			t.Errorf("%s: %v", date, err)
		}
	}
}

// TestSecondsHaveAnEnd, which errors write as a power.
func TestSecondsHaveAnEnd(t *testing.T) {
	for text, want := range map[string]string{
		`{"epoch":-1}`:         "epoch: -1 is not between 0 and 2^63-1",
		`{"minute":60` + fixes: "minute: 60 is not between 0 and 59",
	} {
		if _, err := cron.ParseJSON([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestRemarksOnRanges whose end is before their start; one without an end goes on.
func TestRemarksOnRanges(t *testing.T) {
	for _, c := range []struct {
		hour any
		want string
	}{
		{map[string]any{"start": 5}, "[]"}, {map[string]any{"end": 5}, "[]"},
		{map[string]any{"start": 5, "end": 5}, "[]"},
		{map[string]any{"start": 5, "end": 4}, "[hour: the end 4 lies before the start: only 5 is chosen]"}, {5, "[]"},
	} {
		obj := map[string]any{"minute": 0, "hour": c.hour, "dst_fixes": []any{"skip", "repeat_use_both"}}
		it, err := cron.ParseValue(obj)
		must(t, err)
		if got := fmt.Sprint(cron.LintItem(it, obj, time.UTC, time.Unix(0, 0))); got != c.want {
			t.Errorf("%v: %s, want %s", c.hour, got, c.want)
		}
	}
}

// TestWordsOfIterations have a number from two on.
func TestWordsOfIterations(t *testing.T) {
	for _, c := range [][2]string{
		{`"iter_month":{"start":"2026-01"}`,
			"at 00:00, every month from 2026-01-01 on"},
		{`"iter_month":{"start":"2026-01","period":2}`,
			"at 00:00, every 2 months from 2026-01-01 on"},
		{`"iter_day":{"start":"2026-01-01","end":"2026-02-01"}`,
			"at 00:00, every day from 2026-01-01 on until 2026-02-01"},
		{`"month":3,"iter_day":{"start":"2026-01-01","end":"2026-05-01"}`,
			"at 00:00 in March, every day from 2026-01-01 on until 2026-05-01"},
		{`"iter_day_of_week":{"start":"2026-01-01","period":1}`,
			"at 00:00 on Thursday, every week from 2026-01-01 on"},
		{`"day_of_month":[1,2,3],"iter_day":{"start":"2026-01-01","period":7}`,
			"at 00:00 on day 1 to 3 of the month, every 7 days from 2026-01-01 on"},
	} {
		it, err := cron.ParseJSON([]byte(`{"minute":0,"hour":0,` + c[0] + fixes))
		must(t, err)
		if got := it.WordsIn(time.UTC, time.Unix(0, 0)); got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
}

// TestOtherCalendarsHaveFieldsOfTheirOwn, and none of the Gregorian one.
func TestOtherCalendarsHaveFieldsOfTheirOwn(t *testing.T) {
	for _, key := range []string{"month", "day_of_month", "day_of_week", "year", "iter_day", "weekday_of_the_month"} {
		_, err := cron.ParseCalendarJSON(someDays{}, []byte(`{"minute":0,"`+key+`":1`+fixes))
		if err == nil || !strings.Contains(err.Error(), key+": unknown key") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// TestNothingIsLeftOutAfterAllTime: a search up to a time that is far away ends.
func TestNothingIsLeftOutAfterAllTime(t *testing.T) {
	it, err := cron.ParseJSON([]byte(`{"minute":0` + fixes))
	must(t, err)
	s := cron.Schedule{Item: it, Zone: time.UTC}
	if o, ok := s.NextSkip(time.Unix(0, 0), time.Unix(1<<61, 0)); ok {
		t.Error(o)
	}
}

// TestDelaysOfACrontab are minutes.
func TestDelaysOfACrontab(t *testing.T) {
	for text, want := range map[string]time.Duration{"7": 7 * time.Minute, "x": -1, "": -1, "-1": -1, "5m": -1} {
		entries, problems := cron.ParseCrontab("RANDOM_DELAY="+text+"\n@daily x", false)
		if len(entries) != 1 || entries[0].Delay != max(want, 0) || (want < 0) != (len(problems) == 1) {
			t.Errorf("%s: %+v, %v", text, entries, problems)
		}
	}
}
