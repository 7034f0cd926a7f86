package cron_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/cron"
)

// TestPeriodsHaveNoPolicy: a gap or a fold policy is not used, and a warning reports that.
func TestPeriodsHaveNoPolicy(t *testing.T) {
	for _, c := range []struct {
		opt    cron.LineOptions
		warns  bool
		anchor time.Time
		first  int64 // from 1970 on
	}{
		{opt: cron.LineOptions{}, first: 0},
		{opt: cron.LineOptions{Gap: cron.GapRun}, warns: true, first: 0},
		{opt: cron.LineOptions{Fold: cron.FoldLast}, warns: true, first: 0},
		{opt: cron.LineOptions{}, anchor: time.Unix(1000, 0), first: 1090},
		{opt: cron.LineOptions{}, anchor: time.Unix(-1000, 0), first: 0},
		{opt: cron.LineOptions{}, anchor: time.Unix(-90, 0), first: 0},
		{opt: cron.LineOptions{}, anchor: time.Unix(-89, 0), first: 1},
	} {
		c.opt.Anchor = c.anchor
		it, warnings, err := cron.ParseLine("@every 90s", c.opt)
		must(t, err)
		want := []cron.Warning{}
		if c.warns {
			want = append(want, cron.Warning{Code: "policy",
				Text: "gap and fold have no effect on @every, which never looks at local time"})
		}
		if !slices.Equal(warnings, want) {
			t.Errorf("%+v: %+v", c, warnings)
		}
		first, err := it.FirstMatch(time.Unix(-5000, 0), nil)
		if err != nil || first.Unix() != c.first {
			t.Errorf("%+v: %v, %v", c, first, err)
		}
	}
}

// TestWeekdaysBefore1970 go back to the first day of 1969.
func TestWeekdaysBefore1970(t *testing.T) {
	for day := 1; day <= 7; day++ {
		it, err := cron.ParseJSON([]byte(fmt.Sprintf(`{"minute":0,"hour":0,"day_of_week":%d%s`, day, fixes)))
		must(t, err)
		plain, err := cron.ParseJSON([]byte(fmt.Sprintf(`{"minute":0,"hour":0,"year":{"end":1970},"day_of_week":%d%s`,
			day, fixes)))
		must(t, err)
		x, n := time.Date(1968, 12, 1, 0, 0, 0, 0, time.UTC), int64(0)
		for x.Year() < 1970 {
			next, err := it.Next(x, time.UTC)
			must(t, err)
			other, err := plain.Next(x, time.UTC)
			if err != nil || !other.Equal(next) || int(next.Weekday()) != day-1 || n > 0 && next.Sub(x) != 7*24*time.Hour ||
				n == 0 && (next.Year() != 1969 || next.YearDay() > 7) {
				t.Fatalf("weekday %d: after %v come %v and %v, %v", day, x, next, other, err)
			}
			x, n = next, n+1
		}
		if got := it.Count(time.Date(1968, 12, 1, 0, 0, 0, 0, time.UTC), x, time.UTC); got != n {
			t.Errorf("weekday %d: %d of %d", day, got, n)
		}
	}
}

// TestDatesOfIterationsAtTheirBounds.
func TestDatesOfIterationsAtTheirBounds(t *testing.T) {
	for text, good := range map[string]bool{
		`{"start":"1969-01-01"}`: true, `{"start":"1968-12-31"}`: false, `{"start":"9999-12-31"}`: true,
		`{"start":"2026-12-01"}`: true,
		`{"start":"2026-13-01"}`: false, `{"start":"2026-01-32"}`: false, `{"start":"2026-04-31"}`: false,
		`{"start":"31 Jan Feb"}`:   false,
		`{"start":"1 2 Jan 2026"}`: false, `{"start":"Jan"}`: false, `{"start":""}`: false, `{"start":1}`: false,
		`{"start":"2026"}`:                       false,
		`{"start":"2026-01-01","period":100000}`: true, `{"start":"2026-01-01","period":100001}`: false,
		`{"start":"2026-01-01","period":0}`: false, `{"start":"2026-01-01","period":"3"}`: true,
		`{"start":"2026-01-01","step":3}`: false,
	} {
		it, err := cron.ParseJSON([]byte(`{"minute":0,"iter_day":` + text + fixes))
		if good != (err == nil) {
			t.Errorf("%s: %v, %v", text, it, err)
		}
	}
}

// TestAsManyAsAreAskedFor are listed, the oldest or the newest, and the others counted.
func TestAsManyAsAreAskedFor(t *testing.T) {
	it, err := cron.ParseJSON([]byte(`{"epoch":{"period":10}}`))
	must(t, err)
	s := cron.Schedule{Item: it}
	for limit, want := range [][2]string{{"[] 4", "[] 4"}, {"[10] 3", "[40] 3"}, {"[10 20] 2", "[30 40] 2"},
		{"[10 20 30] 1", "[20 30 40] 1"}, {"[10 20 30 40] 0", "[10 20 30 40] 0"}, {"[10 20 30 40] 0", "[10 20 30 40] 0"}} {
		for i, ask := range []func(time.Time, time.Time, int) (cron.Due, error){s.Due, s.Latest} {
			due, err := ask(time.Unix(9, 0), time.Unix(49, 0), limit)
			must(t, err)
			list := []int64{}
			for _, o := range due.Fire {
				list = append(list, o.At.Unix())
			}
			if got := fmt.Sprint(list, due.Rest); got != want[i] || due.Next.Unix() != 50 {
				t.Errorf("%d: %s and then %v, want %s", limit, got, due.Next, want[i])
			}
			due, err = ask(time.Unix(70, 0), time.Unix(49, 0), 3)
			if err != nil || len(due.Fire) != 0 || due.Rest != 0 || due.Next.Unix() != 80 {
				t.Errorf("behind the cursor: %+v, %v", due, err)
			}
		}
	}
}

// TestTheWidestPeriod of a field chooses its first and its last number only.
func TestTheWidestPeriod(t *testing.T) {
	for key, want := range map[string]string{"hour": "0 0-23:23 * * * *", "minute": "0-59:59 0 * * * *"} {
		obj := map[string]any{"minute": 0, "hour": 0, "dst_fixes": []any{"skip", "repeat_use_both"}}
		obj[key] = map[string]any{"period": map[string]int{"hour": 23, "minute": 59}[key]}
		it, err := cron.ParseValue(obj)
		if err != nil || it.String() != want {
			t.Errorf("%s: %v, %v, want %s", key, it, err, want)
		}
	}
	it, err := cron.ParseJSON([]byte(`{"minute":0,"hour":0,"day_of_month":1,"month":1,"year":{"period":8030}` + fixes))
	must(t, err)
	for after, want := range map[string]string{"1968-06-01": "1969-01-01", "1969-01-01": "9999-01-01"} {
		x, err := it.Next(at(t, after+"T00:00:00Z"), time.UTC)
		if err != nil || x.Format("2006-01-02") != want {
			t.Errorf("after %s: %v, %v, want %s", after, x, err, want)
		}
	}
}

// TestPoliciesAreAskedFor where there are none.
func TestPoliciesAreAskedFor(t *testing.T) {
	_, err := cron.ParseJSON([]byte(`{"minute":0}`))
	if err == nil || !strings.HasPrefix(err.Error(), "dst_fixes: missing; days of 23 and 25 hours need a decision") {
		t.Error(err)
	}
}

// TestQuotesOfACrontab go where the same is at both ends.
func TestQuotesOfACrontab(t *testing.T) {
	for text, want := range map[string]string{
		`"x y"`: "x y", `'x'`: "x", `""`: "", `"x`: `"x`, `x"`: `x"`, `"x'`: `"x'`, `"`: `"`, `x"y"`: `x"y"`,
		`"'x'"`: `'x'`, ``: "",
	} {
		entries, problems := cron.ParseCrontab("V = "+text+"\n@daily x", false)
		if len(problems) != 0 || len(entries) != 1 || len(entries[0].Environment) != 1 ||
			entries[0].Environment[0] != (cron.CrontabVariable{Name: "V", Value: want}) {
			t.Errorf("%s: %+v, %v", text, entries, problems)
		}
	}
}

// TestAPartOfAFieldIsNotAllOfIt, also when only one number is missing.
func TestAPartOfAFieldIsNotAllOfIt(t *testing.T) {
	for text, want := range map[string]string{
		`{"start":1}`: "0 1-23:1 * * * *", `{"end":22}`: "0 0-22:1 * * * *", `{"start":0,"end":23}`: "0 * * * * *",
		`[]`: "0 * * * * *",
	} {
		it, err := cron.ParseJSON([]byte(`{"minute":0,"hour":` + text + fixes))
		if err != nil || it.String() != want {
			t.Errorf("%s: %v, %v, want %s", text, it, err, want)
		}
	}
	for text, want := range map[string]string{`{"start":1970}`: "1970-01-01", `{"end":9998}`: "1969-01-01"} {
		it, err := cron.ParseJSON([]byte(`{"minute":0,"hour":0,"year":` + text + fixes))
		must(t, err)
		if x, err := it.Next(at(t, "1968-06-01T00:00:00Z"), time.UTC); err != nil || x.Format("2006-01-02") != want {
			t.Errorf("%s: %v, %v, want %s", text, x, err, want)
		}
	}
}

// numbers lists those from 0 on, n of them.
func numbers(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprint(i))
	}
	return strings.Join(out, ",")
}

// TestFieldsEnd with their last number.
func TestFieldsEnd(t *testing.T) {
	for _, f := range []cron.Field{cron.SecondField(), cron.MinuteField(), cron.HourField(), cron.MonthDayField(),
		cron.MonthField(),
		cron.WeekdayField(), cron.YearField()} {
		want := map[string][2]int64{"seconds": {0, 59}, "minute": {0, 59}, "hour": {0, 23}, "day_of_month": {1, 31},
			"month":       {1, 12},
			"day_of_week": {1, 7}, "year": {1969, 9999}}[f.Key]
		for _, v := range []int64{want[0] - 1, want[0], want[1], want[1] + 1} {
			obj := map[string]any{"minute": 0, "dst_fixes": []any{"skip", "repeat_use_both"}}
			obj[f.Key] = int(v)
			if _, err := cron.ParseValue(obj); (err == nil) != (v >= want[0] && v <= want[1]) {
				t.Errorf("%s %d: %v", f.Key, v, err)
			}
		}
	}
}

// TestWordsOfDays has the descriptions of days and of steps.
func TestWordsOfDays(t *testing.T) {
	for line, want := range map[string]string{
		"0 0 L * *":   "at 00:00 on the last day of the month",
		"0 0 L-1 * *": "at 00:00 on 1 day before the last of the month",
		"0 0 L-2 * *": "at 00:00 on 2 days before the last of the month", "0 0 * 3 *": "at 00:00 in March",
		"0 0 * * *":   "at 00:00 every day",
		"*/2 * * * *": "every 2 minutes every day", "*/30 * * * *": "every 30 minutes every day",
		"*/10 */15 * * * *": "every 10 seconds, every 15 minutes every day",
		"*/10 * * * * *":    "every 10 seconds of every minute every day",
		"7 */15 * * * *":    "at second 7, every 15 minutes of every hour every day",
		"7 5 3 * * *":       "at 03:05:07 every day",
		"0 */15 * * * *":    "every 15 minutes every day", "* * * * * *": "every second every day",
		"* * * * *":      "every minute every day",
		"5 * * * *":      "at minute 5 of every hour every day",
		"0 0-6 * * *":    "at minute 0, in hour 0 to 6 every day",
		"0 */4 * * *":    "at 00:00, 04:00, 08:00, 12:00, 16:00 and 20:00 every day",
		"*/20 */2 * * *": "every 20 minutes, every 2 hours every day",
	} {
		it, _, err := cron.ParseLine(line, cron.LineOptions{Zone: time.UTC})
		must(t, err)
		if got := it.WordsIn(time.UTC, time.Unix(0, 0)); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// TestHStaysWhereItIs: a name has the same places in every version of the program.
func TestHStaysWhereItIs(t *testing.T) {
	for name, want := range map[string]string{
		"a":              "at 00:47 on day 19 of the month or on Saturday in May",
		"b":              "at 22:47 on day 8 of the month or on Friday in December",
		"default/backup": "at 06:05 on day 12 of the month or on Wednesday in May",
		"nightly":        "at 06:58 on day 12 of the month or on Saturday in October",
	} {
		it, _, err := cron.ParseLine("H H H H H", cron.LineOptions{Zone: time.UTC, Name: name})
		must(t, err)
		if got := it.WordsIn(time.UTC, time.Unix(0, 0)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestStepsOfOneNumber give no warning: they cannot mean more.
func TestStepsOfOneNumber(t *testing.T) {
	for line, remarked := range map[string]bool{"5-5/1 2 * * *": false, "5-5/3 2 * * *": false, "5-6/2 2 * * *": true,
		"5-6/1 2 * * *": false,
		"*/7 2 * * *":   true, "0-59/7 2 * * *": true, "0-50/7 2 * * *": false, "5-59/7 2 * * *": false,
		"*/5 2 * * *": false,
		"0 */7 * * *": true, "0 */6 * * *": false, "0 0 */7 * *": false} {
		_, warnings, err := cron.ParseLine(line, cron.LineOptions{Zone: time.UTC})
		must(t, err)
		if found := slices.ContainsFunc(warnings,
			func(w cron.Warning) bool { return w.Code == "step" }); found != remarked {
			t.Errorf("%s: %v", line, warnings)
		}
	}
}

// TestMonthsOfAnIteration count from its start, in any year, which may be a day.
func TestMonthsOfAnIteration(t *testing.T) {
	for text, want := range map[string]string{
		`{"start":"2026-01","period":5}`:                                "2026-01-01 2026-06-01 2026-11-01 2027-04-01",
		`{"start":"2023-02","period":7}`:                                "2026-01-01 2026-08-01 2027-03-01 2027-10-01",
		`{"start":"31 January 2026","end":"1 February 2026"}`:           "2026-02-01",
		`{"start":"2 January 2026","end":"1 March 2026","period":"2"}`:  "2026-03-01",
		`{"start":"January 2026","end":"March 2026","period":2}`:        "2026-01-01 2026-03-01",
		`{"start":"2026-01-01","end":"2026-12","period":11}`:            "2026-01-01 2026-12-01",
		`{"start":"Dec 1, 2025","end":"1 January, 2027","period":"13"}`: "2027-01-01",
		`{"start":"1 May 2026","end":"May 2026"}`:                       "2026-05-01",
	} {
		it, err := cron.ParseJSON([]byte(`{"minute":0,"hour":0,"day_of_month":1,"iter_month":` + text + fixes))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		list, err := cron.Preview(it, time.UTC, at(t, "2026-01-01T00:00:00Z"), 4)
		must(t, err)
		var got []string
		for _, o := range list {
			got = append(got, o.At.Format("2006-01-02"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", text, got, want)
		}
	}
}

// TestNothingIsLeftOutBehindTheEnd of the window, where a gap begins right behind it.
func TestNothingIsLeftOutBehindTheEnd(t *testing.T) {
	loc := load(t, loader(t), "America/New_York")
	it, err := cron.ParseJSON([]byte(`{"minute":30,"hour":2` + fixes))
	must(t, err)
	s, gap := cron.Schedule{Item: it, Zone: loc}, at(t, "2026-03-08T07:00:00Z")
	for until, want := range map[time.Duration]bool{-2 * time.Second: false, -time.Second: false, 0: true,
		time.Second: true} {
		if o, ok := s.NextSkip(gap.Add(-time.Second), gap.Add(until)); ok != want {
			t.Errorf("until %v: %v", until, o)
		}
		if all := s.Skips(gap.Add(-time.Second), gap.Add(until), 5); (len(all) > 0) != want {
			t.Errorf("until %v: %v", until, all)
		}
	}
}

// TestTheLastOfEachSecond is the second itself.
func TestTheLastOfEachSecond(t *testing.T) {
	it, err := cron.ParseJSON([]byte(`{"seconds":[],"minute":[]` + fixes))
	must(t, err)
	noon := at(t, "2026-01-10T12:00:00Z")
	for after, want := range map[time.Duration]bool{0: false, -time.Second: true, -10 * time.Second: true,
		-time.Hour: true} {
		if last, ok := it.Last(noon.Add(after), noon, time.UTC); ok != want || ok && !last.Equal(noon) {
			t.Errorf("after %v: %v, %v", after, last, ok)
		}
	}
}

// TestWhyNoDayMatches names the day of the month only where no other is chosen.
func TestWhyNoDayMatches(t *testing.T) {
	for line, want := range map[string]string{
		"0 0 30 2 *": "day 30 never occurs in month 2", "0 0 31,30 2 *": "day 30 never occurs in month 2",
		"0 0 31 4,6 *": "day 31 never occurs in months 4, 6", "0 0 30,L-30 2 *": "no month has such a day",
	} {
		_, _, err := cron.ParseLine(line, cron.LineOptions{Zone: time.UTC})
		if !errors.Is(err, cron.ErrImpossible) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

// TestWhatIsLeftOutRightAfterAMatch is listed: the second pass begins a second after the last match of the first.
func TestWhatIsLeftOutRightAfterAMatch(t *testing.T) {
	loc := load(t, loader(t), "America/New_York")
	it, err := cron.ParseJSON([]byte(
		`{"seconds":[0,59],"minute":[0,59],"hour":1,"dst_fixes":["skip","repeat_use_only_early"]}`))
	must(t, err)
	list, err := cron.Preview(it, loc, at(t, "2026-11-01T05:59:59Z"), 2)
	must(t, err)
	var got []string
	for _, o := range list {
		got = append(got, o.At.UTC().Format("02 15:04:05 ")+o.Skip.String())
	}
	const out = " skipped: repeated hour"
	if want := []string{"01 05:59:59 ", "01 06:00:00" + out, "01 06:00:59" + out, "01 06:59:00" + out,
		"01 06:59:59" + out, "02 06:00:00 "}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestSecondsHaveNoLabel in any zone.
func TestSecondsHaveNoLabel(t *testing.T) {
	it, err := cron.ParseJSON([]byte(`{"epoch":{"period":900}}`))
	must(t, err)
	if o := it.Describe(time.Unix(900, 0), load(t, loader(t), "Asia/Tokyo")); o != (cron.Occurrence{At: time.Unix(900,
		0).UTC()}) {
		t.Errorf("%+v", o)
	}
}

// TestAStarInADayFieldMeansBoth; two fields without a star mean either.
func TestAStarInADayFieldMeansBoth(t *testing.T) {
	for line, want := range map[string]string{ // 1 January 2026 is a Thursday
		"0 0 15 * 1":     "2026-01-05 2026-01-12 2026-01-15",
		"0 0 1 * */2":    "2026-02-01 2026-03-01 2026-08-01",
		"0 0 * * */2":    "2026-01-03 2026-01-04 2026-01-06",
		"0 0 */10 * *":   "2026-01-11 2026-01-21 2026-01-31",
		"0 0 */15 * 1":   "2026-02-16 2026-03-16 2026-06-01",
		"0 0 */15 * */6": "2026-01-31 2026-02-01 2026-03-01",
	} {
		it, _, err := cron.ParseLine(line, cron.LineOptions{Zone: time.UTC})
		must(t, err)
		list, err := cron.Preview(it, time.UTC, at(t, "2026-01-02T00:00:00Z"), 3)
		must(t, err)
		var got []string
		for _, o := range list {
			got = append(got, o.At.Format("2006-01-02"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", line, got, want)
		}
	}
}

// TestHChoosesWhatExists in each year: a day of each month, an hour of each day.
func TestHChoosesWhatExists(t *testing.T) {
	for i := range 400 {
		name := fmt.Sprint("job-", i)
		for line, want := range map[string]int64{"H H H H *": 1, "H H H H * *": 12} {
			it, _, err := cron.ParseLine(line, cron.LineOptions{Zone: time.UTC, Name: name})
			must(t, err)
			x, err := it.FirstMatch(at(t, "2026-01-01T00:00:00Z"), time.UTC)
			must(t, err)
			if x.Day() > 28 {
				t.Fatalf("%s: %v", name, x)
			}
			n := it.Count(at(t, "2025-12-31T23:59:59Z"), at(t, "2026-12-31T23:59:59Z"), time.UTC)
			if n != want {
				t.Fatalf("%s %s: %d times in 2026", name, line, n)
			}
		}
	}
	for _, field := range []string{"H(0-24)", "H(24-24)"} {
		if it, _, err := cron.ParseLine("0 "+field+" * * *", cron.LineOptions{Zone: time.UTC, Name: "n"}); err == nil {
			t.Errorf("%s is read as %v", field, it)
		}
	}
	_, _, err := cron.ParseLine("0 H(1) * * *", cron.LineOptions{Zone: time.UTC, Name: "n"})
	if err == nil || !strings.Contains(err.Error(), `"H(1)" is not understood; write H(0-23)`) {
		t.Error(err)
	}
}

// TestTheLastDayOfAll is a Friday.
func TestTheLastDayOfAll(t *testing.T) {
	for text, want := range map[string]bool{`"day_of_week":"Fri",`: true, `"day_of_week":"Sat",`: false, ``: true,
		`"day_of_month":31,`: true} {
		it, err := cron.ParseJSON([]byte(`{"minute":0,"hour":0,` + text + `"month":[]` + fixes))
		must(t, err)
		x, err := it.Next(at(t, "9999-12-30T12:00:00Z"), time.UTC)
		if want && (err != nil || x.Format("2006-01-02") != "9999-12-31") || !want && !errors.Is(err,
			cron.ErrNoMoreMatches) {
			t.Errorf("%s: %v, %v", text, x, err)
		}
	}
}

// TestRemarksOnItems that are over, and on no others.
func TestRemarksOnItems(t *testing.T) {
	it, err := cron.ParseJSON([]byte(`{"minute":0,"hour":0,"day_of_month":1,"month":2,"year":2026` + fixes))
	must(t, err)
	for now, want := range map[string]string{"2026-02-01T00:00:00Z": "[]",
		"2026-02-01T00:00:01Z": "[never fires again]"} {
		if got := fmt.Sprint(cron.LintItem(it, nil, time.UTC, at(t, now))); got != want {
			t.Errorf("%s: %s, want %s", now, got, want)
		}
	}
}
