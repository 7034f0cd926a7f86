package cron_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"cantina/cron"
)

const fixes = `,"dst_fixes":["skip","repeat_use_both"]}`

func TestJSONItems(t *testing.T) {
	const noon = `{"minute":0,"hour":12,`
	loc := load(t, loader(t), "UTC")
	for _, c := range []struct{ text, want string }{
		{`"day_of_week":"Tue","weekday_of_the_month":1,"month":"Nov"`, "2026-11-03 2027-11-02 2028-11-07"},
		{`"day_of_week":"friday","weekday_of_the_month":"last"`, "2026-01-30 2026-02-27 2026-03-27"},
		{`"day_of_week":["Sat","Sun"],"weekday_of_the_month":[1,-1]`, "2026-01-03 2026-01-04 2026-01-25"},
		{`"day_of_week":"Mon","weekday_of_the_month":{"start":2,"period":2}`, "2026-01-12 2026-01-26 2026-02-09"},
		{`"day_of_week":"Tue","weekday_of_the_month":{"end":2}`, "2026-01-06 2026-01-13 2026-02-03"},
		{`"day_of_week":"Sun","weekday_of_the_month":-2,"month":2`, "2026-02-15 2027-02-21 2028-02-20"},
		{`"day_of_month":1,"iter_month":{"start":"2025-11","period":5}`, "2026-04-01 2026-09-01 2027-02-01"},
		{`"day_of_month":31,"iter_month":{"start":"March 2026","end":"July 2027","period":2}`,
			"2026-03-31 2026-05-31 2026-07-31"},
		{`"iter_day_of_week":{"start":"2025-12-30","period":2}`, "2026-01-13 2026-01-27 2026-02-10"},
		{`"day_of_week":["Tue","Thu"],"iter_day_of_week":{"start":"2025-12-30","period":2}`,
			"2026-01-01 2026-01-13 2026-01-15"},
		{`"iter_day":{"start":"31 December 2025","period":3}`, "2026-01-03 2026-01-06 2026-01-09"},
		{`"iter_day":{"start":"Feb 27, 2028","period":"1","end":"2028-03-01"}`, "2028-02-27 2028-02-28 2028-02-29"},
		{`"day_of_month":29,"month":2`, "2028-02-29 2032-02-29 2036-02-29"},
		{`"month":"sEpTe","day_of_month":{"start":28}`, "2026-09-28 2026-09-29 2026-09-30"},
		{`"day_of_month":13,"iter_day":{"start":"2026-02-13","period":7}`, "2026-02-13 2026-03-13 2026-11-13"},
		{`"year":{"start":2027,"period":4},"month":1,"day_of_month":5`, "2027-01-05 2031-01-05 2035-01-05"},
		{`"month":1,"day_of_month":1,"year":9999`, "9999-01-01"},
		{`"iter_day_of_week":{"start":"2026-01-04"},"day_of_week":"SUNDAY","month":[3],"year":[2026]`,
			"2026-03-01 2026-03-08 2026-03-15"},
	} {
		it, err := cron.ParseJSON([]byte(noon + c.text + fixes))
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		list, err := cron.Preview(it, loc, at(t, "2026-01-01T00:00:00Z"), 3)
		must(t, err)
		var got []string
		for _, o := range list {
			got = append(got, o.At.Format("2006-01-02"))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s\n got %v\nwant %v", c.text, got, c.want)
		}
	}
}

func TestSecondsSelector(t *testing.T) {
	loc := load(t, loader(t), "America/New_York")
	it,
		err := cron.ParseJSON([]byte(
		`{"seconds":{"period":20},"minute":59,"hour":1,"dst_fixes":["unskip","repeat_use_only_late"]}`))
	must(t, err)
	same(t, fires(t, it, loc, "2026-11-01T05:00:00Z", "2026-11-01T09:00:00Z"), "2026-11-01T06:59:00Z",
		"2026-11-01T06:59:20Z", "2026-11-01T06:59:40Z")
	it,
		err = cron.ParseJSON([]byte(`{"seconds":[30,59],"minute":59,"hour":[1,2],"dst_fixes":["unskip","repeat_use_both"]}`))
	must(t, err)
	same(t, fires(t, it, loc, "2026-03-08T06:00:00Z", "2026-03-08T08:00:00Z"), "2026-03-08T06:59:30Z",
		"2026-03-08T06:59:59Z")
	if n := it.Count(at(t, "2026-03-08T06:00:00Z"), at(t, "2026-03-08T08:00:00Z"), loc); n != 2 {
		t.Errorf("an unskip that coincides with a real match is counted %d times", n-1)
	}
}

func TestRefusedItems(t *testing.T) {
	const noDate = `is not a date; write "2024-01-31" or "31 January 2024"`
	for _, c := range []struct{ text, want string }{
		{`{"minute":0,"day":3`, "day: unknown key; did you mean day_of_month?"},
		{`{"minute":0,"dow":3`, "dow: unknown key"},
		{`{"minute":0,"ours":3`, "ours: unknown key; did you mean hour?"},
		{`{"minute":0,"hour_of_the_day":3`, "hour_of_the_day: unknown key; did you mean hour?"},
		{`{"minute":0,"hot":3`, "hot: unknown key"},
		{`{"minute":0,"day_of_week":"ues"`, `day_of_week: "ues" is no name of this field; did you mean "tuesday"?`},
		{`{"minute":0,"day_of_month":31,"month":4,"iter_day":{"start":"2026-01-01"}`,
			"day_of_month: day 31 never occurs in month 4"},
		{`{"minute":0,"day_of_week":2,"weekday_of_the_month":5,"month":2,"year":2026`,
			"year: such a day never occurs in the years 2026"},
		{`{"minutes":0`, "minutes: unknown key; did you mean minute?"},
		{`{"hour":3`, `minute: missing; for every minute write {"period": 1}`},
		{`{"minute":60`, "minute: 60 is not between 0 and 59"},
		{`{"minute":[1,2,true]`, "minute[2]: true is not a whole number"},
		{`{"minute":1.0`, "minute: 1.0 is not a whole number"},
		{`{"minute":null`, "minute: null is not a whole number"},
		{`{"minute":"five"`, `minute: "five" is not a number; this field has no names`},
		{`{"minute":{"period":0}`, "minute.period: 0 is not a period between 1 and 59"},
		{`{"minute":{"period":60}`, "minute.period: 60 is not a period between 1 and 59"},
		{`{"minute":{"period":"x"}`, `minute.period: "x" is not a whole number`},
		{`{"minute":{"from":1}`, "minute.from: unknown key; a range has the keys start, end and period"},
		{`{"minute":{"start":99}`, "minute.start: 99 is not between 0 and 59"},
		{`{"minute":0,"minute":1`, "minute: given twice"},
		{`{"minute":0,"month":"Ju"`,
			`month: "Ju" is no name of this field; write three or more letters of a name, or a number`},
		{`{"minute":0,"month":"Januray"`, `month: "Januray" is no name of this field; did you mean "january"?`},
		{`{"minute":0,"month":["x"]`,
			`month[0]: "x" is no name of this field; write three or more letters of a name, or a number`},
		{`{"minute":0,"year":1968`, "year: 1968 is not between 1969 and 9999"},
		{`{"minute":0,"day_of_week":1,"day_of_month":1`,
			"day_of_week: may not be combined with day_of_month; traditional crons read it as either-or; " +
				"make two items for that"},
		{`{"minute":0,"day_of_month":30,"month":2`, "day_of_month: day 30 never occurs in month 2"},
		{`{"minute":0,"day_of_month":29,"month":2,"year":{"start":2001,"period":2}`,
			"year: such a day never occurs in the years 2001-9999:2"},
		{`{"minute":0,"day_of_week":"Mon","weekday_of_the_month":0`,
			"weekday_of_the_month: 0 is no place; count from 1, or back from -1 (last)"},
		{`{"minute":0,"day_of_week":"Mon","weekday_of_the_month":6`, "weekday_of_the_month: 6 is not between -5 and 5"},
		{`{"minute":0,"weekday_of_the_month":1`,
			`weekday_of_the_month: needs day_of_week; the first Tuesday is {"day_of_week": "Tue", "weekday_of_the_month": 1}`},
		{`{"minute":0,"iter_day":3`, `iter_day: 3 is not an object; write {"start": "2024-01-02", "period": 2}`},
		{`{"minute":0,"iter_day":{"period":3}`, "iter_day.start: missing; counting needs a first day, such as 2024-01-02"},
		{`{"minute":0,"iter_day":{"start":"2024-02-30"}`, `iter_day.start: "2024-02-30" ` + noDate},
		{`{"minute":0,"iter_day":{"start":"10000-01-05"}`, `iter_day.start: "10000-01-05" ` + noDate},
		{`{"minute":0,"iter_day":{"start":"2024-00-05"}`, `iter_day.start: "2024-00-05" ` + noDate},
		{`{"minute":0,"iter_day":{"start":"2024-02"}`, `iter_day.start: "2024-02" ` + noDate},
		{`{"minute":0,"iter_day":{"start":"2024-02-03","end":"2024-02-01"}`, "iter_day.end: is before the start"},
		{`{"minute":0,"iter_day_of_week":{"start":"2024-02-03"},"day_of_month":1`,
			"iter_day_of_week: may not be combined with day_of_month"},
		{`{"minute":0,"max_shift_seconds_for_unskip_and_do_not_repeat":-1`,
			"max_shift_seconds_for_unskip_and_do_not_repeat: -1 is not a number of seconds"},
	} {
		_, err := cron.ParseJSON([]byte(c.text + fixes))
		var pe *cron.ParseError
		if !errors.As(err, &pe) || err.Error() != c.want {
			t.Errorf("%s\n got %v\nwant %s", c.text, err, c.want)
		}
	}
	for _, text := range []string{
		``, `[]`, `{"minute":`, `{"minute":0,"dst_fixes":["vixie"]} x`,
		`{"minute":[[[[[[[[[[[1]]]]]]]]]]]}`, `nul`,
	} {
		if _, err := cron.ParseJSON([]byte(text)); !errors.Is(err, cron.ErrSyntax) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestItemsInWords(t *testing.T) {
	const gap = "; if the clock jumps over it: not at all; if the hour is repeated: both times"
	for _, c := range []struct{ text, want string }{
		{`{"minute":0,"hour":[10,20],"day_of_week":"Tue"` + fixes, "at 10:00 and 20:00 on Tuesday" + gap},
		{`{"minute":{"period":5}` + fixes, "every 5 minutes every day" + gap},
		{`{"minute":[3,7]` + fixes, "at minute 3 and 7 of every hour every day" + gap},
		{`{"minute":[],"hour":{"start":9,"end":17},"day_of_week":{"start":2,"end":6}` + fixes,
			"every minute, in hour 9 to 17 on Monday to Friday" + gap},
		{`{"minute":0,"hour":12,"day_of_month":[1,15],"month":[6,7,8]` + fixes,
			"at 12:00 on day 1 and 15 of the month in June to August" + gap},
		{`{"minute":0,"hour":12,"day_of_week":6,"weekday_of_the_month":-1,"year":[2026,2027]` + fixes,
			"at 12:00 on the last Friday of the month in year 2026 and 2027" + gap},
		{`{"minute":0,"hour":0,"iter_day_of_week":{"start":"2024-01-02","period":2}` + fixes,
			"at 00:00 on Tuesday, every 2 weeks from 2024-01-02 on" + gap},
		{`{"seconds":{"period":15},"minute":[]` + fixes, "every 15 seconds of every minute every day" + gap},
		{`{"seconds":[],"minute":[]` + fixes, "every second every day" + gap},
		{`{"minute":0,"hour":12,"day_of_week":1,"year":{"start":2026,"end":2027}` + fixes,
			"at 12:00 on Sunday in years 2026 to 2027" + gap},
		{`{"epoch":{"period":300}}`, "every 5 minutes, counted from 1970-01-01 00:00:00 UTC"},
		{`{"epoch":{"period":604800,"start":1300003260,"end":1400000000}}`,
			"every week, counted from 2011-03-13 08:01:00 UTC, until 2014-05-11 08:01:00 UTC"},
		{`{"epoch":2700}`, "once, at 1970-01-01 00:45:00 UTC"},
		{`{"epoch":[2700,5400]}`, "2 times, first at 1970-01-01 00:45:00 UTC, last at 1970-01-01 01:30:00 UTC"},
	} {
		it, err := cron.ParseJSON([]byte(c.text))
		must(t, err)
		if got := it.Words(); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, got, c.want)
		}
	}
	it, err := cron.ParseJSON([]byte(`{"minute":{"start":2,"end":7},"day_of_week":[7,1,6]` + fixes))
	must(t, err)
	if got := it.String(); got != "2-7:1 * * * 1,6,7 *" {
		t.Errorf("String() = %s", got)
	}
}

func TestVixieFixes(t *testing.T) {
	for text, want := range map[string]cron.Gap{
		`{"minute":30,"hour":2,"dst_fixes":["vixie"]}`:                    cron.GapRun,
		`{"minute":30,"dst_fixes":["vixie"]}`:                             cron.GapSkip,
		`{"minute":{"period":10},"hour":2,"dst_fixes":["vixie"]}`:         cron.GapSkip,
		`{"minute":[0,30],"hour":2,"dst_fixes":["vixie"]}`:                cron.GapRun,
		`{"minute":[` + numbers(60) + `],"hour":2,"dst_fixes":["vixie"]}`: cron.GapSkip,
		`{"minute":[` + numbers(59) + `],"hour":2,"dst_fixes":["vixie"]}`: cron.GapRun,
		`{"minute":0,"hour":[` + numbers(24) + `],"dst_fixes":["vixie"]}`: cron.GapSkip,
		`{"minute":{"end":58},"hour":2,"dst_fixes":["vixie"]}`:            cron.GapRun,
		`{"minute":{"end":59},"hour":2,"dst_fixes":["vixie"]}`:            cron.GapSkip,
	} {
		it, err := cron.ParseJSON([]byte(text))
		must(t, err)
		if it.Gap() != want {
			t.Errorf("%s: gap %v", text, it.Gap())
		}
	}
}

func TestUnskipSurvivesIteration(t *testing.T) {
	loc := load(t, loader(t), "America/Los_Angeles")
	it, err := cron.ParseJSON([]byte(`{"dst_fixes":["unskip","repeat_use_both"],"minute":[30,59]}`))
	must(t, err)
	same(t, fires(t, it, loc, "2013-03-10T09:31:00Z", "2013-03-10T10:31:00Z"), "2013-03-10T09:59:00Z",
		"2013-03-10T09:59:59Z", "2013-03-10T10:30:00Z")
}

func TestRangeBehindItsStart(t *testing.T) {
	it, err := cron.ParseJSON([]byte(`{"epoch":{"start":5,"end":3}}`))
	must(t, err)
	if got, err := it.FirstMatch(time.Unix(2, 0), nil); err != nil || got.Unix() != 5 {
		t.Errorf("from below: %v, %v", got, err)
	}
	w := cron.LintItem(it, map[string]any{"epoch": map[string]any{"start": 5, "end": 3}}, nil, time.Unix(0, 0))
	if len(w) != 1 || w[0].Code != "range" {
		t.Errorf("warnings %v", w)
	}
}

func TestFirstMatchRoundsUp(t *testing.T) {
	it, err := cron.ParseJSON([]byte(`{"epoch":{"period":10}}`))
	must(t, err)
	if got, _ := it.FirstMatch(time.Unix(10, 1), nil); got.Unix() != 20 {
		t.Errorf("FirstMatch(10.000000001) = %v", got)
	}
	if got, _ := it.Next(time.Unix(9, 999), nil); got.Unix() != 10 {
		t.Errorf("Next(9.000000999) = %v", got)
	}
	if it.TimezoneDependent() {
		t.Error("an epoch item depends on the zone")
	}
	std, err := cron.ParseJSON([]byte(`{"minute":0` + fixes))
	must(t, err)
	if _, err := std.FirstMatch(time.Unix(0, 0), nil); !errors.Is(err, cron.ErrNoZone) || !std.TimezoneDependent() {
		t.Errorf("without a zone: %v", err)
	}
}

func TestAMonthBeginsAtItsFirstDay(t *testing.T) {
	it, err := cron.ParseJSON([]byte(`{"minute":0,"hour":0,"month":9,"dst_fixes":["skip","repeat_use_both"]}`))
	must(t, err)
	got, err := it.FirstMatch(at(t, "2026-08-31T00:00:00Z"), time.UTC)
	if err != nil || !got.Equal(at(t, "2026-09-01T00:00:00Z")) {
		t.Errorf("FirstMatch = %v, %v", got, err)
	}
}

// TestWordsNameClockChanges: not in UTC, nor where a zone has given
// them up.
func TestWordsNameClockChanges(t *testing.T) {
	zones := loader(t)
	daily, err := cron.ParseJSON([]byte(`{"minute":0,"hour":2` + fixes))
	must(t, err)
	every, err := cron.ParseJSON([]byte(`{"epoch":{"period":300}}`))
	must(t, err)
	for _, c := range []struct {
		zone, from string
		changes    bool
	}{
		{"UTC", "2026-01-01T00:00:00Z", false},
		{"Europe/Berlin", "2026-01-01T00:00:00Z", true},
		{"America/New_York", "2026-07-01T00:00:00Z", true},
		{"Asia/Tokyo", "2026-01-01T00:00:00Z", false},
		{"Asia/Tokyo", "1948-06-01T00:00:00Z", true},
	} {
		zone, from := load(t, zones, c.zone), at(t, c.from)
		want := "at 02:00 every day"
		if c.changes {
			want = daily.Words()
		}
		if got := daily.WordsIn(zone, from); got != want {
			t.Errorf("%s from %s: %s", c.zone, c.from, got)
		}
		r := cron.Lint("0 2 * * *", cron.LineOptions{Zone: zone, Now: from, Gap: cron.GapSkip, Fold: cron.FoldBoth}, 1)
		if must(t, r.Err); r.Words != want {
			t.Errorf("a line in %s from %s: %s", c.zone, c.from, r.Words)
		}
		if got := every.WordsIn(zone, from); got != every.Words() {
			t.Errorf("an epoch item in %s: %s", c.zone, got)
		}
	}
	if got := every.WordsIn(nil, time.Time{}); got != every.Words() {
		t.Errorf("an epoch item without a zone: %s", got)
	}
}
