package cron_test

import (
	"errors"
	"fmt"
	"math"
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
	for year := 1969; year <= 9999; year += 146 { // 9999 too
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

func (d fewDays) Words() string { return fmt.Sprintf("on %d days", len(d)) }

func (d fewDays) NextDay(day int64) (int64, bool) {
	for _, v := range d {
		if v >= day {
			return v, true
		}
	}
	return 0, false
}

// TestOtherCalendarsAreCountedToTheirEnd, whatever they give behind it. They have words of their own.
func TestOtherCalendarsAreCountedToTheirEnd(t *testing.T) {
	it, err := cron.ParseCalendarJSON(fewDays{-5, 3, 4, 100}, []byte(`{"minute":0,"hour":[0,12]`+fixes))
	must(t, err)
	if got := it.WordsIn(time.UTC, time.Unix(0, 0)); got != "at 00:00 and 12:00 on 4 days" {
		t.Error(got)
	}
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
		"ada": `month: "ada" may be adar rishon or adar sheni`, "ADAR S": "7", "adar": "8", "nis": "9",
		"Adaro": "6",
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

// TestAPeriodHasANumberBeforeEachUnit, and a unit behind each number.
func TestAPeriodHasANumberBeforeEachUnit(t *testing.T) {
	const hint = "; write a period such as 90s, 5m, 2h30m, 7d"
	const whole, years = " of whole seconds", " between 1s and 400 years"
	for text, want := range map[string]string{
		"5mm": "", "h": "", "-5m": "", "m5": "", "5m-5s": "", "5m 5s": "", "5 m": whole, "5x": whole,
		"0m": years, "5m5": years,
		"0s0h": years, "146400d": "ok", "146401d": years, "20914w2d": "ok", "20914w3d": years,
		"99999999999999999999s": years,
	} {
		it, _, err := cron.ParseLine("@every "+text, cron.LineOptions{})
		want, good := "@every (column 1): \""+text+"\" is not a period"+want+hint, want == "ok"
		if good && err != nil || !good && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, %v, want %s", text, it, err, want)
		}
	}
}

// TestTheRestOfALine is a program where the sixth field cannot be a day of the week by number.
func TestTheRestOfALine(t *testing.T) {
	const read = "it is read as minute 0, hour 2, day of month *, month *, day of week *, and the rest is no part " +
		"of a line"
	const seconds = "with seconds first, it is read as second 0, minute 2, hour *, day of month *, month *, day of week "
	for rest, want := range map[string]string{
		"root 5": read, "root 5 x": read, "/bin/x *": read, "5 root": seconds + "5, and root is too much",
		"* 2027": seconds + "*, and 2027 is too much", "? x y": seconds + "?, and x is too much",
	} {
		_, _, err := cron.ParseLine("0 2 * * * "+rest, cron.LineOptions{Zone: time.UTC})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", rest, err, want)
		}
	}
}

// TestLinesOfACrontabThatAreNone are problems, in each of the two kinds of file.
func TestLinesOfACrontabThatAreNone(t *testing.T) {
	const form = "not understood: a line has five fields or a word like @daily"
	for text, want := range map[string][2]string{
		"-":                      {form + " and a command", form + ", a user and a command"},
		"- 5 4 * * * root x":     {form + " and a command", form + ", a user and a command"},
		"5 4 * * *":              {form + " and a command", form + ", a user and a command"},
		"@daily":                 {form + " and a command", form + ", a user and a command"},
		"@daily root":            {"", form + ", a user and a command"},
		"5 4 * * * root":         {"", form + ", a user and a command"},
		"-5 4 * * * root x":      {"", ""},
		"START_HOURS_RANGE=3-22": {"START_HOURS_RANGE is not taken over: write the hours into the line", ""},
		"RANDOM_DELAY=x":         {`RANDOM_DELAY: "x" is not a number of minutes`, ""},
		"MAILTO":                 {form + " and a command", form + ", a user and a command"},
	} {
		if want[1] == "" {
			want[1] = want[0]
		}
		for i, system := range []bool{false, true} {
			entries, problems := cron.ParseCrontab("A=1\n"+text+"\n@hourly root x", system)
			good := len(problems) == 1 && problems[0] == cron.CrontabProblem{Line: 2, Text: want[i]}
			if want[i] == "" {
				good = len(problems) == 0
			}
			if !good || len(entries[len(entries)-1].Environment) != 1 {
				t.Errorf("%s: %+v, %+v, want %s", text, entries, problems, want[i])
			}
		}
	}
}

// TestAVariableThatIsSetAgain has its last value; the others keep theirs, and so does what came before.
func TestAVariableThatIsSetAgain(t *testing.T) {
	entries, problems := cron.ParseCrontab("A=1\nB=xyx\nC='\n@daily x\nB=4\n@hourly x\nA=5", false)
	if len(entries) != 2 || len(problems) != 0 {
		t.Fatalf("%+v, %+v", entries, problems)
	}
	for i, want := range [][]cron.CrontabVariable{
		{{Name: "A", Value: "1"}, {Name: "B", Value: "xyx"}, {Name: "C", Value: "'"}},
		{{Name: "A", Value: "1"}, {Name: "C", Value: "'"}, {Name: "B", Value: "4"}}} {
		if got := entries[i].Environment; !slices.Equal(got, want) {
			t.Errorf("%d: %+v, want %+v", i, got, want)
		}
	}
}

// TestWordsOfTheLastSecond: an end is named where one more period fits before the end of all seconds.
func TestWordsOfTheLastSecond(t *testing.T) {
	for _, c := range []struct {
		start, end int64
		named      bool
	}{{7, math.MaxInt64, false}, {7, math.MaxInt64 - 1, true}, {7, math.MaxInt64 - 10, true}, {7, 100, true},
		{3, math.MaxInt64, false}, {3, math.MaxInt64 - 4, false}, {3, math.MaxInt64 - 5, true}} {
		it, err := cron.ParseValue(map[string]any{"epoch": map[string]any{"start": c.start, "period": 10, "end": c.end}})
		must(t, err)
		if got := it.Words(); strings.Contains(got, ", until ") != c.named {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestWordsOfPlaces has each place of a weekday in a month, and seconds that are listed.
func TestWordsOfPlaces(t *testing.T) {
	for place, want := range map[int]string{1: "first", 2: "second", 5: "fifth", -1: "last", -2: "second to last",
		-3: "third to last", -5: "fifth to last"} {
		it, err := cron.ParseValue(map[string]any{"minute": 0, "hour": 4, "day_of_week": "tue",
			"weekday_of_the_month": place, "dst_fixes": []any{"skip", "repeat_use_both"}})
		must(t, err)
		want = "at 04:00 on the " + want + " Tuesday of the month"
		if got := it.WordsIn(time.UTC, time.Unix(0, 0)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for list, want := range map[string]string{`1000`: "once, at 1970-01-01 00:16:40 UTC",
		`[1000]`:          "once, at 1970-01-01 00:16:40 UTC",
		`[3000,60,10000]`: "3 times, first at 1970-01-01 00:01:00 UTC, last at 1970-01-01 02:46:40 UTC"} {
		it, err := cron.ParseJSON([]byte(`{"epoch":` + list + `}`))
		if err != nil || it.Words() != want {
			t.Errorf("%s: %v, want %s", list, it.Words(), want)
		}
	}
}

// TestAKeyThatIsNoText is refused at the object that has it.
func TestAKeyThatIsNoText(t *testing.T) {
	for text, want := range map[string]string{`{"minute":{1:2}}`: "minute: not valid JSON: ", `{1:2}`: "not valid JSON: ",
		`{"minute":{"start" 2}}`: "minute.start: not valid JSON: ", `{"minute":{"start":2]}`: "minute: not valid JSON: "} {
		if _, err := cron.ParseJSON([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestFormsOfADate that are read, or refused with the date in the error: a whole month only where months count.
func TestFormsOfADate(t *testing.T) {
	for text, want := range map[string][2]string{ // the first match of iter_day and of iter_month; "" = refused
		"2026-03-05": {"2026-03-05", "2026-03-05"}, "5 Mar 2026": {"2026-03-05", "2026-03-05"},
		"March 5, 2026": {"2026-03-05", "2026-03-05"}, "2026-03": {"", "2026-03-01"}, "Mar 2026": {"", "2026-03-01"},
		"2026 March": {"", "2026-03-01"}, "2026": {"", ""}, "": {"", ""}, "Mar": {"", ""}, "-": {"", ""},
		"2026-03-05-06": {"", ""}, "2026 1 2 Mar": {"", ""}, "2026-13": {"", ""}, "Mar 1968": {"", ""}, "3 Mar": {"", ""},
	} {
		for i, key := range []string{"iter_day", "iter_month"} {
			it, err := cron.ParseValue(map[string]any{"minute": 0, "hour": 0, key: map[string]any{"start": text},
				"dst_fixes": []any{"skip", "repeat_use_both"}})
			if want[i] == "" {
				if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("%s.start: %q is not a date", key, text)) {
					t.Errorf("%s %q: %v, %v", key, text, it, err)
				}
				continue
			}
			must(t, err)
			if x, err := it.FirstMatch(time.Unix(0, 0), time.UTC); err != nil || x.Format("2006-01-02") != want[i] {
				t.Errorf("%s %q: %v, %v, want %s", key, text, x, err, want[i])
			}
		}
	}
}

// TestTheLimitOfADelayIsANumber, and no text, no fraction and no list.
func TestTheLimitOfADelayIsANumber(t *testing.T) {
	const key, most = "max_shift_seconds_for_unskip_and_do_not_repeat", 100 * 366 * 86400
	for value, good := range map[string]bool{"0": true, "60": true, fmt.Sprint(most): true, fmt.Sprint(most + 1): false,
		"-1": false, `"60"`: false, "1.5": false, "[1]": false, "null": false, "99999999999999999999": false} {
		for _, head := range []string{`"epoch":{"period":60}}`, `"minute":0` + fixes} {
			_, err := cron.ParseJSON([]byte(`{"` + key + `":` + value + "," + head))
			if want := key + ": " + value + " is not a number of seconds"; good != (err == nil) || !good && err.Error() != want {
				t.Errorf("%s: %v", value, err)
			}
		}
	}
}

// TestStarsOfARange are those that a crontab would write with one: from the first number of the field on.
func TestStarsOfARange(t *testing.T) {
	for hour, star := range map[string]bool{`[]`: true, `{"start":0}`: true, `{"start":1}`: false, `{"end":22}`: false,
		`{"period":2}`: true, `{"start":1,"period":2}`: false, `{"period":2,"end":21}`: false, `{"period":2,"end":22}`: true,
		`{"start":23}`: false, `0`: false} {
		it, err := cron.ParseJSON([]byte(`{"minute":0,"hour":` + hour + `,"dst_fixes":["vixie"]}`))
		must(t, err)
		gap, fold := cron.Vixie(star, false)
		if it.Gap() != gap || it.Fold() != fold {
			t.Errorf("%s: %v and %v, want %v and %v", hour, it.Gap(), it.Fold(), gap, fold)
		}
	}
}
