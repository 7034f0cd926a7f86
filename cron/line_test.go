package cron_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cantina/cron"
)

// next4 lists the first four firings from 2026-01-01 in UTC, short.
func next4(t *testing.T, line string) string {
	t.Helper()
	loc := load(t, loader(t), "UTC")
	now := at(t, "2026-01-01T00:00:00Z")
	it, _, err := cron.ParseLine(line, cron.LineOptions{Name: "nightly", Zone: loc, Now: now})
	must(t, err)
	list, err := cron.Preview(it, loc, now, 4)
	must(t, err)
	var out []string
	for _, o := range list {
		out = append(out, o.At.Format("01-02T15:04:05"))
	}
	return strings.Join(out, " ")
}

func TestLines(t *testing.T) {
	for line, want := range map[string]string{
		"*/20 * * * *":        "01-01T00:00:00 01-01T00:20:00 01-01T00:40:00 01-01T01:00:00",
		"*/30 5 4 * * *":      "01-01T04:05:00 01-01T04:05:30 01-02T04:05:00 01-02T04:05:30",
		"5,10 3-4 * * *":      "01-01T03:05:00 01-01T03:10:00 01-01T04:05:00 01-01T04:10:00",
		"0 12 * * fri-sun":    "01-02T12:00:00 01-03T12:00:00 01-04T12:00:00 01-09T12:00:00",
		"0 12 * * 5-7":        "01-02T12:00:00 01-03T12:00:00 01-04T12:00:00 01-09T12:00:00",
		"0 12 ? Feb mon,TUES": "02-02T12:00:00 02-03T12:00:00 02-09T12:00:00 02-10T12:00:00",
		"H(5-5) 12 * * *":     "01-01T12:05:00 01-02T12:05:00 01-03T12:05:00 01-04T12:05:00",
		"0 12 * * 7L":         "01-25T12:00:00 02-22T12:00:00 03-29T12:00:00 04-26T12:00:00",
		"0 12 * * 7#1":        "01-04T12:00:00 02-01T12:00:00 03-01T12:00:00 04-05T12:00:00",
		"0 12 *,L * *":        "01-01T12:00:00 01-02T12:00:00 01-03T12:00:00 01-04T12:00:00",
		"0 12 * * *,1#1":      "01-01T12:00:00 01-02T12:00:00 01-03T12:00:00 01-04T12:00:00",
		"0 12 * * 0-0":        "01-04T12:00:00 01-11T12:00:00 01-18T12:00:00 01-25T12:00:00",
		"0 0 L * *":           "01-31T00:00:00 02-28T00:00:00 03-31T00:00:00 04-30T00:00:00",
		"0 0 L-2,1 * *":       "01-01T00:00:00 01-29T00:00:00 02-01T00:00:00 02-26T00:00:00",
		"0 0 * * 5L":          "01-30T00:00:00 02-27T00:00:00 03-27T00:00:00 04-24T00:00:00",
		"0 0 * 11 tue#1":      "11-03T00:00:00 11-02T00:00:00 11-07T00:00:00 11-06T00:00:00",
		"0 0 * * 1#5":         "03-30T00:00:00 06-29T00:00:00 08-31T00:00:00 11-30T00:00:00",
		"0 0 * * 7":           "01-04T00:00:00 01-11T00:00:00 01-18T00:00:00 01-25T00:00:00",
		"30 8 1-7 * 1-1":      "01-01T08:30:00 01-02T08:30:00 01-03T08:30:00 01-04T08:30:00",
		"@weekly":             "01-04T00:00:00 01-11T00:00:00 01-18T00:00:00 01-25T00:00:00",
		"@hourly":             "01-01T00:00:00 01-01T01:00:00 01-01T02:00:00 01-01T03:00:00",
		"@monthly":            "01-01T00:00:00 02-01T00:00:00 03-01T00:00:00 04-01T00:00:00",
		"@yearly":             "01-01T00:00:00 01-01T00:00:00 01-01T00:00:00 01-01T00:00:00",
		"@every 90s":          "01-01T00:00:00 01-01T00:01:30 01-01T00:03:00 01-01T00:04:30",
		"\t0  6\t*  * *  ":    "01-01T06:00:00 01-02T06:00:00 01-03T06:00:00 01-04T06:00:00",
		"0 6 */10 * *":        "01-01T06:00:00 01-11T06:00:00 01-21T06:00:00 01-31T06:00:00",
		"0 6-20/7 1,1 1 *":    "01-01T06:00:00 01-01T13:00:00 01-01T20:00:00 01-01T06:00:00",
	} {
		if got := next4(t, line); got != want {
			t.Errorf("%q\n got %s\nwant %s", line, got, want)
		}
	}
}

func TestRefusedLines(t *testing.T) {
	const noName = `is no name of this field; write three or more letters of a name, or a number`
	loc := load(t, loader(t), "UTC")
	for line, want := range map[string]string{
		"": "0 fields instead of 5 or 6; minute, hour, day of month, month, day of week; " +
			"six with seconds first",
		"* * * *": "4 fields instead of 5 or 6; minute, hour, day of month, month, day of week; " +
			"six with seconds first",
		"60 * * * *":   "minute (column 1): 60 is not between 0 and 59",
		"0 24 * * *":   "hour (column 3): 24 is not between 0 and 23",
		"0 0 0 * *":    "day of month (column 5): 0 is not between 1 and 31",
		"0 0 * 13 *":   "month (column 7): 13 is not between 1 and 12",
		"0 0 * Juno *": `month (column 7): "Juno" is no name of this field; did you mean "june"?`,
		"0 0 * * 8":    "day of week (column 9): 8 is not between 0 and 7",
		"0 22-2 * * *": `hour (column 3): the range "22-2" runs backwards; write 22-23,0-2`,
		"5/15 * * * *": `minute (column 1): "5/15" has a step but no range; write 5-59/15`,
		"*/0 * * * *":  `minute (column 1): "0" is not a step`,
		"1,,2 * * * *": "minute (column 1): an element of the list is empty",
		"x * * * *":    `minute (column 1): "x" is not a number`,
		"0 0 LW * *": `day of month (column 5): "LW" is not understood; L is the last day of the month, ` +
			`L-2 two days before it`,
		"0 0 * * 5#6":   `day of week (column 9): "5#6": the place after # is 1 to 5; the last one is 5L`,
		"0 0 * * 1#5,x": `day of week (column 9): "x" ` + noName,
		"H * * * *":     "minute (column 1): H spreads by the name of the schedule, and there is no name",
		"@reboot": "@reboot (column 1): is not a time; a schedule outlives the machines it runs on; " +
			"use a service with a task of its own",
		"@fortnightly": "@fortnightly (column 1): unknown word; known are @yearly, @monthly, @weekly, @daily, " +
			"@hourly and @every 90s",
		"@every 1.5h": `@every (column 1): "1.5h" is not a period of whole seconds; write a period such as 90s, 5m, ` +
			`2h30m, 7d`,
		"@every 0s": `@every (column 1): "0s" is not a period between 1s and 400 years; write a period such as 90s, ` +
			`5m, 2h30m, 7d`,
		"@every 10": `@every (column 1): "10" is not a period between 1s and 400 years; write a period such as 90s, ` +
			`5m, 2h30m, 7d`,
		"TZ=UTC 0 0 * * *": "TZ=UTC: settings do not belong into the line; give the zone as timezone",
		"0 0 30 2 *":       "day of month (column 5): day 30 never occurs in month 2",
		"0 0 L-30 2 *":     "day of month (column 5): no month has such a day",
		"0 0 * * * * *": "7 fields instead of 5 or 6; with seconds first, it is read as second 0, minute 0, hour *, " +
			"day of month *, month *, day of week *, and * is too much; a year cannot be given in a line",
		"0 0 99999999999 * *": `day of month (column 5): "99999999999" is not a number`,
		"0 0 * * mon-":        `day of week (column 9): "" ` + noName,
		"H(5-70) * * * *":     "minute (column 1): 70 is not between 0 and 59",
		"H(5 * * * *":         `minute (column 1): "H(5" is not understood; write H(0-59)`,
		"@evry 5m": "@evry (column 1): unknown word; known are @yearly, @monthly, @weekly, @daily, " +
			"@hourly and @every 90s",
		"@daily please": "@daily (column 1): takes no argument",
		"0 0 1 j *":     `month (column 7): "j" ` + noName,
		"0 0 1 * ma":    `day of week (column 9): "ma" ` + noName,
		"0-70 * * * *":  "minute (column 1): 70 is not between 0 and 59",
		"0 0 1-2-3 * *": `day of month (column 5): "2-3" is not a number`,
		"0 0 L-31 * *":  `day of month (column 5): "L-31" is not L minus a number of days up to 30`,
		"0 0 ?/2 * *":   `day of month (column 5): "?" is not a number`,
		"0 0 L/2 * *":   `day of month (column 5): "L" is not a number`,
		"0 0 * * 1#2/2": `day of week (column 9): "1#2" ` + noName,
		"0 0 * * 5L/2":  `day of week (column 9): "5L" ` + noName,
		"0 0 * * L":     `day of week (column 9): "L" ` + noName,
	} {
		_, _, err := cron.ParseLine(line, cron.LineOptions{Zone: loc, Now: at(t, "2026-01-01T00:00:00Z")})
		var pe *cron.ParseError
		if !errors.As(err, &pe) || err.Error() != want {
			t.Errorf("%q\n got %v\nwant %s", line, err, want)
		}
	}
	if _, _, err := cron.ParseLine("0 0 * * *", cron.LineOptions{}); !errors.Is(err, cron.ErrNoZone) {
		t.Errorf("without a zone: %v", err)
	}
}

func TestHSpreadsByName(t *testing.T) {
	loc := load(t, loader(t), "UTC")
	now := at(t, "2026-01-01T00:00:00Z")
	read := func(line, name string) string {
		it, _, err := cron.ParseLine(line, cron.LineOptions{Name: name, Zone: loc, Now: now})
		must(t, err)
		return it.String()
	}
	minutes := map[string]int{}
	for i := range 600 {
		name := fmt.Sprintf("job-%d", i)
		first, second := read("H H * * *", name), read("H H * * *", name)
		if first != second {
			t.Fatal("H is not stable")
		}
		minutes[strings.Fields(first)[0]]++
	}
	for m, n := range minutes {
		if n > 30 {
			t.Errorf("%d of 600 schedules at minute %s", n, m)
		}
	}
	if len(minutes) < 55 {
		t.Errorf("only %d different minutes", len(minutes))
	}
	for i := range 50 {
		it, _, err := cron.ParseLine("H/15 H(2-4) H * *", cron.LineOptions{Name: fmt.Sprint("n", i), Zone: loc, Now: now})
		must(t, err)
		list, err := cron.Preview(it, loc, now, 4)
		must(t, err)
		if h := list[0].At.Hour(); h < 2 || h > 4 || list[3].At.Sub(list[0].At) != 45*time.Minute || list[0].At.Day() > 28 {
			t.Errorf("H/15 H(2-4) fires at %v", list)
		}
	}
}

func TestChoiceIsMandatoryWhereItMatters(t *testing.T) {
	zones := loader(t)
	now := at(t, "2026-01-15T00:00:00Z")
	read := func(line, zone string, opt cron.LineOptions) (*cron.Item, error) {
		opt.Zone, opt.Now = load(t, zones, zone), now
		it, _, err := cron.ParseLine(line, opt)
		return it, err
	}
	for _, c := range []struct{ line, zone, want string }{
		{"30 2 * * *", "America/New_York",
			"cron: gap or fold must be chosen: gap is not set, and 02:30 on 2026-03-08 does not exist in America/New_York: " +
				"the clock goes from 02:00 to 03:00; set gap to run (once, right after) or skip"},
		{"30 1 * * *", "America/New_York",
			"cron: gap or fold must be chosen: fold is not set, and 01:30 on 2026-11-01 occurs twice in America/New_York: " +
				"the clock goes from 02:00 back to 01:00; set fold to first, last or both"},
		{"30 1-2 * * *", "America/New_York",
			"cron: gap or fold must be chosen: gap is not set, and 02:30 on 2026-03-08 does not exist in America/New_York: " +
				"the clock goes from 02:00 to 03:00; set gap to run (once, right after) or skip; fold is not set, " +
				"and 01:30 on 2026-11-01 occurs twice in America/New_York: the clock goes from 02:00 back to 01:00; " +
				"set fold to first, last or both"},
		{"30 3 * * *", "America/New_York", ""},
		{"30 2 * * *", "UTC", ""},
		{"30 2 * * *", "Asia/Tokyo", ""},
		{"*/5 * * * *", "America/New_York", ""},
		{"30 2 1 1 *", "America/New_York", ""}, // never on a day of change
		{"30 2 14 3 *", "America/New_York",
			"cron: gap or fold must be chosen: gap is not set, and 02:30 on 2027-03-14 does not exist in America/New_York: " +
				"the clock goes from 02:00 to 03:00; set gap to run (once, right after) or skip"},
		{"30 2 * * 1", "America/New_York", ""}, // changes are on Sundays
	} {
		it, err := read(c.line, c.zone, cron.LineOptions{})
		switch {
		case c.want == "":
			must(t, err)
			if it.Gap() == cron.GapUnset || it.Fold() == cron.FoldUnset {
				t.Errorf("%q: policies %v %v", c.line, it.Gap(), it.Fold())
			}
		case !errors.Is(err, cron.ErrChoice) || err.Error() != c.want:
			t.Errorf("%q in %s\n got %v\nwant %s", c.line, c.zone, err, c.want)
		}
	}
	it, err := read("30 2 * * *", "America/New_York", cron.LineOptions{Vixie: true})
	must(t, err)
	if it.Gap() != cron.GapRun || it.Fold() != cron.FoldFirst {
		t.Errorf("vixie, fixed time: %v %v", it.Gap(), it.Fold())
	}
	it, err = read("*/10 1-2 * * *", "America/New_York", cron.LineOptions{Vixie: true})
	must(t, err)
	if it.Gap() != cron.GapSkip || it.Fold() != cron.FoldBoth {
		t.Errorf("vixie, wildcard: %v %v", it.Gap(), it.Fold())
	}
	_, err = read("30 2 * 3 7#2", "America/New_York", cron.LineOptions{Gap: cron.GapSkip, Fold: cron.FoldFirst})
	if !errors.Is(err, cron.ErrNeverMatches) {
		t.Errorf("an item that lives in gaps only: %v", err)
	}
}

func TestEveryHourFiresInBothPasses(t *testing.T) {
	now := at(t, "2026-01-01T00:00:00Z")
	for _, fold := range []string{"", "first", "last", "both"} {
		it, loc := parse(t, "30 * * * *", "America/New_York", "", fold, now)
		same(t, fires(t, it, loc, "2026-11-01T04:45:00Z", "2026-11-01T07:45:00Z"),
			"2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", "2026-11-01T07:30:00Z")
	}
	it, loc := parse(t, "30 * * * *", "America/New_York", "run", "first", now)
	same(t, fires(t, it, loc, "2026-03-08T06:15:00Z", "2026-03-08T08:15:00Z"),
		"2026-03-08T06:30:00Z", "2026-03-08T07:00:00Z", "2026-03-08T07:30:00Z")
}

func TestGapRunIsOncePerGapAndItem(t *testing.T) {
	now := at(t, "2026-01-01T00:00:00Z")
	it, loc := parse(t, "*/5 2,3 * * *", "America/New_York", "run", "first", now)
	got := fires(t, it, loc, "2026-03-08T05:00:00Z", "2026-03-08T07:10:00Z")
	same(t, got, "2026-03-08T07:00:00Z", "2026-03-08T07:05:00Z", "2026-03-08T07:10:00Z")
	// A gap of a whole day: Samoa had no 30 December 2011.
	it, loc = parse(t, "0 9 * * *", "Pacific/Apia", "run", "first", at(t, "2011-12-01T00:00:00Z"))
	same(t, fires(t, it, loc, "2011-12-28T20:00:00Z", "2011-12-31T20:00:00Z"),
		"2011-12-29T19:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T19:00:00Z", "2011-12-31T19:00:00Z")
}

func TestLintWarnings(t *testing.T) {
	loc := load(t, loader(t), "UTC")
	for line, want := range map[string]string{
		"*/7 * * * *": "step minute: */7 is uneven: after 56 comes 0, a distance of 4 instead of 7; " +
			"`@every` keeps a distance",
		"1-59/7 * * * *": "",
		"*/90 * * * *":   "step minute: the step of */90 is as long as its range: only 0 is chosen",
		"0 0 31 * *": "short-months day of month: day 31 does not occur in months 2, 4, 6, 9, 11 each year; " +
			"`L` is the last day of every month",
		"0 0 29 2 *":      "short-months day of month: 29 February exists in leap years only",
		"0 0 30 2 1":      "short-months day of month: day 30 never occurs in month 2: only the day of week counts",
		"*/15 8-17 * * *": "",
		"0 0 28 * *":      "",
	} {
		r := cron.Lint(line, cron.LineOptions{Zone: loc, Now: at(t, "2026-01-01T00:00:00Z")}, 2)
		must(t, r.Err)
		got := ""
		if len(r.Warnings) > 0 {
			w := r.Warnings[0]
			got = w.Code + " " + w.String()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
		if len(r.Next) != 2 || r.Words == "" {
			t.Errorf("%q: report %+v", line, r)
		}
	}
}

func TestPreviewMarksGapsAndFolds(t *testing.T) {
	loc := load(t, loader(t), "America/New_York")
	opt := cron.LineOptions{Zone: loc, Now: at(t, "2026-10-31T12:00:00Z"), Gap: cron.GapSkip, Fold: cron.FoldFirst}
	r := cron.Lint("30 1 * * *", opt, 2)
	must(t, r.Err)
	var got []string
	for _, o := range r.Next {
		got = append(got, o.String())
	}
	same(t, got,
		"2026-11-01 01:30:00 -04:00 Sun  (repeated hour, first pass)",
		"2026-11-01 01:30:00 -05:00 Sun  (skipped: repeated hour)",
		"2026-11-02 01:30:00 -05:00 Mon")
	opt.Now = at(t, "2026-03-07T12:00:00Z")
	r = cron.Lint("30 2 * * *", opt, 1)
	must(t, r.Err)
	if got := r.Next[0].String(); got != "2026-03-08 03:00:00 -04:00 Sun  (skipped: "+
		"the clock jumps over it 2026-03-08 02:30)" {
		t.Errorf("preview %q", got)
	}
	opt.Gap = cron.GapRun
	r = cron.Lint("30 2 * * *", opt, 1)
	must(t, r.Err)
	if got := r.Next[0].String(); got != "2026-03-08 03:00:00 -04:00 Sun  (for 2026-03-08 02:30, after the gap)" {
		t.Errorf("preview %q", got)
	}
}
