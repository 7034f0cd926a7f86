package cron_test

import (
	"errors"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/cron"
)

// TestAnItemThatIsOver has no more matches. This includes zones east of UTC whose clocks never change again, and
// times behind all others.
func TestAnItemThatIsOver(t *testing.T) {
	it, err := cron.ParseJSON([]byte(`{"minute":0,"hour":0,"year":2026` + fixes))
	must(t, err)
	last := map[string]string{"UTC": "2026-12-31T00:00:00Z", "Asia/Tokyo": "2026-12-30T15:00:00Z",
		"Pacific/Honolulu": "2026-12-31T10:00:00Z", "Europe/Berlin": "2026-12-30T23:00:00Z"}
	for name, want := range last {
		s := cron.Schedule{Item: it, Zone: load(t, loader(t), name)}
		for _, after := range []time.Time{at(t, want), at(t, "2027-05-01T00:00:00Z"), time.Unix(1<<59, 0),
			time.Unix(1<<61, 0)} {
			if next, err := it.Next(after, s.Zone); !errors.Is(err, cron.ErrNoMoreMatches) {
				t.Errorf("%s: after %v comes %v, %v", name, after, next, err)
			}
		}
		if next, err := it.Next(at(t, want).Add(-time.Second), s.Zone); err != nil || !next.Equal(at(t, want)) {
			t.Errorf("%s: %v, %v, want %s", name, next, err, want)
		}
		now := at(t, "2027-05-01T00:00:00Z")
		newest, passed, next, ok, err := s.Once(at(t, "2025-12-20T00:00:00Z"), now)
		if err != nil || !ok || !newest.Equal(at(t, want)) || passed != 364 || !next.IsZero() {
			t.Errorf("%s: %v after %d others, then %v; %v, %v", name, newest, passed, next, ok, err)
		}
		due, err := s.Due(at(t, want).Add(-time.Second), now, 5)
		if err != nil || len(due.Fire) != 1 || due.Rest != 0 || !due.Next.IsZero() {
			t.Errorf("%s: %+v, %v", name, due, err)
		}
	}
}

// TestARangeOfOne is its one number, also for an epoch. A range that ends before its start matches too, but only
// for a query before it.
func TestARangeOfOne(t *testing.T) {
	for text, want := range map[string]string{
		`{"start":10,"end":10}`: "at 10 and before", `{"start":10,"end":9}`: "before 10",
	} {
		it, err := cron.ParseJSON([]byte(`{"epoch":` + text + `}`))
		must(t, err)
		if x, err := it.FirstMatch(time.Unix(9, 0), nil); err != nil || x.Unix() != 10 {
			t.Errorf("%s: %v, %v", text, x, err)
		}
		x, err := it.FirstMatch(time.Unix(10, 0), nil)
		if atTen := err == nil && x.Unix() == 10; atTen != (want == "at 10 and before") || !atTen && !errors.Is(err,
			cron.ErrNoMoreMatches) {
			t.Errorf("%s: at 10 %v, %v, want %s", text, x, err, want)
		}
	}
}

// TestTheLastSecondOfAFoldIsDecidedInItsFirstPass: when the zone changes in the second pass, nothing of
// the first is fired again.
func TestTheLastSecondOfAFoldIsDecidedInItsFirstPass(t *testing.T) {
	sc := newScene(t, `{"seconds":[58,59],"minute":59,"hour":1,"max_shift_seconds_for_unskip_and_do_not_repeat":86400,`+
		`"dst_fixes":["skip","repeat_use_only_early"]}`, "America/New_York", "2022-11-06T06:15:00Z")
	sc.zone = load(t, loader(t), "Europe/Berlin")
	sc.want("")
	sc = newScene(t, `{"seconds":[58,59],"minute":59,"hour":0,"max_shift_seconds_for_unskip_and_do_not_repeat":86400,`+
		`"dst_fixes":["skip","repeat_use_only_late"]}`, "America/New_York", "2022-11-06T05:15:00Z")
	sc.zone = load(t, loader(t), "Europe/Berlin") // the second before the fold, which is to come
	sc.want("")
}

// TestNeverAgain is a warning of the line as a whole.
func TestNeverAgain(t *testing.T) {
	opt := cron.LineOptions{Zone: time.UTC, Now: at(t, "9999-06-01T00:00:00Z")}
	for line, over := range map[string]bool{"0 0 31 5 *": true, "0 0 2 6 *": false} {
		it, warnings, err := cron.ParseLine(line, opt)
		if it == nil || err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		never := cron.Warning{Code: "never", Text: "never fires again"}
		if slices.Contains(warnings, never) != over {
			t.Errorf("%s: %+v", line, warnings)
		}
	}
}

// TestTheFurthestEventHasFired: after the past was forgotten, all up to the furthest moment, it included,
// fires again.
func TestTheFurthestEventHasFired(t *testing.T) {
	sc := newScene(t, quarters, "UTC", "2026-01-10T12:00:00Z")
	sc.step(-3 * time.Hour)
	sc.want("")
	sc.pass(190 * time.Minute) // 12:10
	_, err := sc.s.Poll()
	must(t, err)
	labels := map[string]cron.Label{}
	for e := range sc.s.Events() {
		labels[e.At.Format("15:04")] = e.Label
	}
	if labels["11:45"] != cron.LabelAlreadyFired || labels["12:00"] != cron.LabelAlreadyFired {
		t.Errorf("%v", labels)
	}
	sc.pass(5 * time.Minute)
	_, err = sc.s.Poll()
	must(t, err)
	for e := range sc.s.Events() {
		if e.Label != cron.LabelDue || e.At.Format("15:04") != "12:15" {
			t.Errorf("%+v", e)
		}
	}
}

// TestDaysOfAnIterationAtTheBordersOfMonths: its first and its last day are in it.
func TestDaysOfAnIterationAtTheBordersOfMonths(t *testing.T) {
	for text, want := range map[string]string{
		`"iter_day":{"start":"2026-01-31","end":"2026-02-01"}`:                  "2026-01-31 2026-02-01",
		`"iter_day":{"start":"2026-01-30","end":"2026-02-01","period":2}`:       "2026-01-30 2026-02-01",
		`"iter_month":{"start":"2026-01-31","end":"2026-03-01","period":2}`:     "2026-01-31 2026-03-01",
		`"iter_day_of_week":{"start":"2026-01-31","end":"2026-01-31"}`:          "2026-01-31",
		`"iter_month":{"start":"2026-02","end":"Mar 2026"},"day_of_month":[31]`: "2026-03-31",
	} {
		it, err := cron.ParseJSON([]byte(`{"minute":0,"hour":12,` + text + fixes))
		must(t, err)
		list, err := cron.Preview(it, time.UTC, at(t, "2026-01-01T00:00:00Z"), 9)
		must(t, err)
		var got []string
		for _, o := range list {
			got = append(got, o.At.Format("2006-01-02"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", text, got, want)
		}
		if n := it.Count(at(t, "2026-01-01T00:00:00Z"), at(t, "2027-01-01T00:00:00Z"), time.UTC); n != int64(len(got)) {
			t.Errorf("%s: counted %d", text, n)
		}
	}
}

// TestDayZeroIsNone, where a month may stand for all of its days too.
func TestDayZeroIsNone(t *testing.T) {
	for _, key := range []string{"iter_day", "iter_month", "iter_day_of_week"} {
		for _, date := range []string{"0 January 2026", "2026-01-00", "Jan 0, 2026"} {
			_, err := cron.ParseJSON([]byte(`{"minute":0,"` + key + `":{"start":"` + date + `"}` + fixes))
			if err == nil || !strings.Contains(err.Error(), "is not a date") {
				t.Errorf("%s from %s: %v", key, date, err)
			}
		}
	}
}

// TestNothingIsDueBesideAnError.
func TestNothingIsDueBesideAnError(t *testing.T) {
	it, err := cron.ParseJSON([]byte(`{"minute":0` + fixes))
	must(t, err)
	s, now := cron.Schedule{Item: it}, time.Unix(math.MaxInt32, 0)
	last, passed, next, ok, err := s.Once(time.Unix(0, 0), now)
	if !errors.Is(err, cron.ErrNoZone) || ok || passed != 0 || !last.IsZero() || !next.IsZero() {
		t.Errorf("%v, %d, %v, %v, %v", last, passed, next, ok, err)
	}
	for name, list := range map[string]func(time.Time, time.Time, int) (cron.Due, error){"due": s.Due,
		"latest": s.Latest} {
		if due, err := list(time.Unix(0, 0), now, 3); !errors.Is(err, cron.ErrNoZone) || len(due.Fire) != 0 ||
			due.Rest != 0 {
			t.Errorf("%s: %+v, %v", name, due, err)
		}
	}
}

// TestChoiceIsAskedForTenYears: in Berlin, the clock jumps over 02:30 of 29 March in 2026 and in 2037.
func TestChoiceIsAskedForTenYears(t *testing.T) {
	loc := load(t, loader(t), "Europe/Berlin")
	for now, asked := range map[string]bool{"2027-03-29T01:00:00Z": false, "2027-03-29T01:00:01Z": true} {
		_, _, err := cron.ParseLine("30 2 29 3 *", cron.LineOptions{Zone: loc, Now: at(t, now)})
		if asked != errors.Is(err, cron.ErrChoice) || !asked && err != nil {
			t.Errorf("at %s: %v", now, err)
		}
	}
}

// TestDaysFromTheEndAreNumbers: L is the last day of a month, L-30 its first where it has 31.
func TestDaysFromTheEndAreNumbers(t *testing.T) {
	for _, field := range []string{"L-", "L-x", "L-2x", "L-00002", "L-31", "L--1", "L2", "L-1-2"} {
		if it, _, err := cron.ParseLine("0 0 "+field+" * *", cron.LineOptions{Zone: time.UTC}); err == nil {
			t.Errorf("%s is read as %v", field, it)
		}
	}
	for field, want := range map[string]string{"L": "2026-04-30", "L-0": "2026-04-30", "L-29": "2026-04-01",
		"L-30": "2026-05-01"} {
		it, _, err := cron.ParseLine("0 0 "+field+" * *", cron.LineOptions{Zone: time.UTC})
		must(t, err)
		if x, err := it.FirstMatch(at(t, "2026-04-01T00:00:00Z"), time.UTC); err != nil || x.Format("2006-01-02") != want {
			t.Errorf("%s: %v, %v, want %s", field, x, err, want)
		}
	}
}

// TestTheLastMatchOfAllIsRepeated: after its first pass nothing comes in that pass, and one in the second.
func TestTheLastMatchOfAllIsRepeated(t *testing.T) {
	loc := load(t, loader(t), "Europe/Berlin")
	for fold, want := range map[string]string{"both": "2026-10-25T01:15:00Z", "only_late": "2026-10-25T01:15:00Z",
		"only_early": ""} {
		it, err := cron.ParseJSON([]byte(
			`{"minute":15,"hour":2,"day_of_month":25,"month":10,"year":2026,"dst_fixes":["skip","repeat_use_` + fold + `"]}`))
		must(t, err)
		x, err := it.FirstMatch(at(t, "2026-10-25T00:20:00Z"), loc)
		if want == "" && !errors.Is(err, cron.ErrNoMoreMatches) || want != "" && (err != nil || !x.Equal(at(t, want))) {
			t.Errorf("%s: %v, %v, want %s", fold, x, err, want)
		}
		first := map[string]string{"only_late": "2026-10-25T01:15:00Z"}[fold]
		if first == "" {
			first = "2026-10-25T00:15:00Z"
		}
		if x, err := it.FirstMatch(at(t, "2026-05-01T00:00:00Z"), loc); err != nil || !x.Equal(at(t, first)) {
			t.Errorf("%s: from May on %v, %v, want %s", fold, x, err, first)
		}
	}
}

// TestEachPlaceOfAWeekdayExists in some year, in each month: no item of them is refused.
func TestEachPlaceOfAWeekdayExists(t *testing.T) {
	for month := 1; month <= 12; month++ {
		for _, place := range []int{1, 4, 5, -1, -4, -5} {
			for day := 1; day <= 7; day++ {
				it, err := cron.ParseValue(map[string]any{"minute": 0, "hour": 12, "month": month, "day_of_week": day,
					"weekday_of_the_month": place, "dst_fixes": []any{"skip", "repeat_use_both"}})
				must(t, err)
				x, err := it.FirstMatch(at(t, "2026-01-01T00:00:00Z"), time.UTC)
				must(t, err)
				nth := (x.Day() + 6) / 7
				if place < 0 {
					nth = -(x.AddDate(0, 1, -x.Day()).Day() - x.Day() + 7) / 7
				}
				if int(x.Month()) != month || int(x.Weekday()) != day-1 || nth != place {
					t.Errorf("the %d. weekday %d of month %d: %v", place, day, month, x)
				}
			}
		}
	}
	_, _, err := cron.ParseLine("0 0 */16 2 1#4", cron.LineOptions{Zone: time.UTC}) // neither the 1st nor the 17th
	var pe *cron.ParseError
	if !errors.As(err, &pe) || pe.Field != "day of month" || pe.Column != 5 || !errors.Is(err, cron.ErrImpossible) {
		t.Errorf("%+v", err)
	}
}

// TestAnErrorNamesItsPlace for names of any length.
func TestAnErrorNamesItsPlace(t *testing.T) {
	for text, want := range map[string]string{`{"x":1` + fixes: "x: unknown key", `3`: "3 is not an object"} {
		if _, err := cron.ParseJSON([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// TestNothingIsCountedOutsideOfAllCalendars, which begin with 1969 and end with 9999.
func TestNothingIsCountedOutsideOfAllCalendars(t *testing.T) {
	it, err := cron.ParseJSON([]byte(`{"minute":0,"hour":0` + fixes))
	must(t, err)
	for _, name := range []string{"UTC", "Asia/Tokyo", "America/New_York"} {
		loc := load(t, loader(t), name)
		first, last := time.Date(1969, 1, 1, 0, 0, 0, 0, loc), time.Date(9999, 12, 31, 0, 0, 0, 0, loc)
		for _, c := range []struct {
			after, to time.Time
			want      int64
		}{
			{time.Unix(-1<<40, 0), first.Add(-time.Second), 0}, {time.Unix(-1<<40, 0), first, 1},
			{time.Unix(-1<<40, 0), time.Unix(-1<<39, 0), 0}, {time.Unix(1<<39, 0), time.Unix(1<<40, 0), 0},
			{last.Add(-time.Second), time.Unix(1<<40, 0), 1}, {last, time.Unix(1<<40, 0), 0},
			{first.Add(time.Second), first, 0}, {last, first, 0},
		} {
			if n := it.Count(c.after, c.to, loc); n != c.want {
				t.Errorf("%s: %d in (%v, %v], want %d", name, n, c.after, c.to, c.want)
			}
		}
	}
}

// TestIterationsThatNeverMeet are refused: those of one month at a time, and days of another.
func TestIterationsThatNeverMeet(t *testing.T) {
	for days, refused := range map[string]bool{
		`{"start":"2026-02-01","end":"2026-02-28"}`: true, `{"start":"2026-02-01","end":"2026-03-01"}`: false,
	} {
		_, err := cron.ParseJSON([]byte(
			`{"minute":0,"hour":0,"iter_month":{"start":"2026-01","period":2},"iter_day":` + days + fixes))
		if refused != errors.Is(err, cron.ErrImpossible) || !refused && err != nil {
			t.Errorf("%s: %v", days, err)
		}
	}
}

// TestOneInstantAfterAnother: a second poll at the same time changes no answer. A clock that goes back by no more
// than the maximum forgets nothing.
func TestOneInstantAfterAnother(t *testing.T) {
	sc := newScene(t, quarters, "UTC", "2026-01-10T12:00:30Z")
	sc.step(-20 * time.Minute)
	sc.want("")
	sc.pass(5 * time.Minute)
	for range 2 {
		sc.want("") // 11:45:30
	}
	sc.pass(15 * time.Minute)
	_, err := sc.s.Poll()
	must(t, err)
	var got []cron.Event
	for e := range sc.s.Events() {
		got = append(got, e)
	}
	if len(got) != 1 || got[0].Label != cron.LabelAlreadyFired || got[0].Shift != 20*time.Minute {
		t.Errorf("%+v", got)
	}
	for back, forgot := range map[time.Duration]bool{2 * time.Hour: false, 2*time.Hour + time.Second: true} {
		sc := newScene(t, quarters, "UTC", "2026-01-10T12:00:30Z")
		sc.step(-back)
		if sc.want(""); sc.last.Forgot != forgot {
			t.Errorf("%v back: forgot %v", back, sc.last.Forgot)
		}
	}
}

// TestAPollFailsForGapsOnly, and not for an item that is over.
func TestAPollFailsForGapsOnly(t *testing.T) {
	for text, never := range map[string]bool{
		`"hour":2,"day_of_week":1,"weekday_of_the_month":2,"month":3`: true,
		`"hour":2,"day_of_month":1,"month":1,"year":2026`:             false,
	} {
		sc := newScene(t, `{"minute":30,`+text+`,"max_shift_seconds_for_unskip_and_do_not_repeat":60`+fixes,
			"America/New_York", "2026-06-01T00:00:00Z")
		sc.pass(24 * time.Hour)
		if _, err := sc.s.Poll(); never != errors.Is(err, cron.ErrNeverMatches) || !never && err != nil {
			t.Errorf("%s: %v", text, err)
		}
		for _, all := range []iter.Seq[cron.Event]{sc.s.Events(), sc.s.Due()} {
			for e := range all {
				t.Fatalf("%s: %+v", text, e)
			}
		}
	}
}

// TestNamesOfVariables in a crontab: letters, digits that are not first, and _.
func TestNamesOfVariables(t *testing.T) {
	for name, good := range map[string]bool{
		"a": true, "z": true, "A": true, "Z": true, "_": true, "a0": true, "a9": true, `"a"`: true,
		"`": false, "{": false, "@": false, "[": false, "a/": false, "a:": false, "0a": false, "9a": false, "": false,
		"ä": false, "a b": false,
	} {
		entries, problems := cron.ParseCrontab(name+"=1\n@daily x", false)
		set := len(entries) == 1 && len(entries[0].Environment) == 1 && entries[0].Environment[0].Value == "1"
		if set != good || good != (len(problems) == 0) {
			t.Errorf("%s: %+v, %v", name, entries, problems)
		}
	}
}

// TestTheSixthFieldOfALine may be meant as a year, or as a command or a user: an error names that.
func TestTheSixthFieldOfALine(t *testing.T) {
	const year, command = "; a year cannot be given in a line",
		"; a line has no command: it is the command of the task or job"
	for last, want := range map[string]string{
		"1970": year, "2027": year, "9999": year, "1969": "", "999": "", "10000": "", "202x": "",
		"/bin/x": command, "./x": command, "~/x": command, ".x": command,
		"root": command, "aaaa": command, "zzzz": command, "a{{{": command, "z```": command,
		"run": "", "Root": "", "{abc": "", "`abc": "", "8": "", "mon-": command,
	} {
		_, _, err := cron.ParseLine("0 2 * * * "+last, cron.LineOptions{Zone: time.UTC})
		if err == nil || !strings.Contains(err.Error(), "six fields are read as second 0, minute 2, hour *") {
			t.Errorf("%s: %v", last, err)
			continue
		}
		for _, hint := range []string{year, command} {
			if strings.HasSuffix(err.Error(), hint) != (want == hint) {
				t.Errorf("%s: %v, want %q at the end", last, err, want)
			}
		}
	}
}

// TestASettingIsNoLine, with or without a line behind it.
func TestASettingIsNoLine(t *testing.T) {
	for _, text := range []string{"TZ=Europe/Berlin", "CRON_TZ=UTC 0 2 * * *", "TZ=UTC 0"} {
		_, _, err := cron.ParseLine(text, cron.LineOptions{Zone: time.UTC})
		if err == nil || !strings.Contains(err.Error(), "settings do not belong into the line") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestDaysThatAreNone in the forms of a crontab line that count weekdays or spread.
func TestDaysThatAreNone(t *testing.T) {
	for _, field := range []string{"x#2", "8#2", "#2", "xL", "8L", "-L", "1#0", "1#6", "1#x", "1#", "H(x-3)", "H(1-x)",
		"H(1-8)", "H(3-1)", "H(1", "H(1)"} {
		if it, _, err := cron.ParseLine("0 0 * * "+field, cron.LineOptions{Zone: time.UTC, Name: "n"}); err == nil {
			t.Errorf("%s is read as %v", field, it)
		}
	}
	for field, want := range map[string]string{"1#2": "2026-01-12", "7#1": "2026-01-04", "7L": "2026-01-25",
		"mon#5": "2026-03-30", "friL": "2026-01-30", "mon-sun": "2026-01-01", "fri-sun": "2026-01-02", "2-0": "2026-01-01"} {
		it, _, err := cron.ParseLine("0 0 * * "+field, cron.LineOptions{Zone: time.UTC})
		must(t, err)
		if x, err := it.FirstMatch(at(t, "2026-01-01T00:00:00Z"), time.UTC); err != nil || x.Format("2006-01-02") != want {
			t.Errorf("%s: %v, %v, want %s", field, x, err, want)
		}
	}
}

// TestPercentInACommand ends it; behind a backslash it is one, at the end of a line too.
func TestPercentInACommand(t *testing.T) {
	for text, want := range map[string][2]string{
		`echo 100\%`: {"echo 100%", ""}, `echo \`: {`echo \`, ""}, `cat%a%b`: {"cat", "a\nb\n"}, `cat%`: {"cat", "\n"},
		`a\%b\\c%d\%`: {`a%b\\c`, "d%\n"}, `echo \%%`: {"echo %", "\n"},
	} {
		entries, problems := cron.ParseCrontab("@daily "+text, false)
		if len(problems) != 0 || len(entries) != 1 || entries[0].Command != want[0] || entries[0].Input != want[1] {
			t.Errorf("%s: %+v, %v, want %q", text, entries, problems, want)
		}
	}
}

// TestAMatchBeforeTheBorderIsRepeated behind it, though the next one in this pass is a week away.
func TestAMatchBeforeTheBorderIsRepeated(t *testing.T) {
	it, err := cron.ParseJSON([]byte(`{"minute":15,"hour":2,"day_of_week":"Sun","dst_fixes":["skip","repeat_use_both"]}`))
	must(t, err)
	x, err := it.FirstMatch(at(t, "2026-10-25T00:20:00Z"), load(t, loader(t), "Europe/Berlin"))
	if err != nil || !x.Equal(at(t, "2026-10-25T01:15:00Z")) {
		t.Errorf("%v, %v", x, err)
	}
}
