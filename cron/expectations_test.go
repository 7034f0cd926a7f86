package cron_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/cron"
)

// The names of these tests are rows of the list of scenarios that users of
// other schedulers reported.

func at(t testing.TB, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	must(t, err)
	return v
}

// parse reads a line as of the first day of a year; gap and fold may be "".
func parse(t testing.TB, line, zoneName, gap, fold string, now time.Time) (*cron.Item, *time.Location) {
	t.Helper()
	g, err := cron.ParseGap(gap)
	must(t, err)
	f, err := cron.ParseFold(fold)
	must(t, err)
	loc := load(t, loader(t), zoneName)
	it, _, err := cron.ParseLine(line, cron.LineOptions{Name: "nightly", Zone: loc, Gap: g, Fold: f, Now: now})
	must(t, err)
	return it, loc
}

func fires(t testing.TB, it *cron.Item, loc *time.Location, from, to string) []string {
	t.Helper()
	due, err := cron.Schedule{Item: it, Zone: loc}.Due(at(t, from), at(t, to), 1000)
	must(t, err)
	out := []string{}
	for _, o := range due.Fire {
		out = append(out, o.At.UTC().Format(time.RFC3339))
	}
	return out
}

func same(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestB01RepeatedHourRunsAsChosen(t *testing.T) {
	const from, to = "2023-10-28T12:00:00Z", "2023-10-29T12:00:00Z"
	now := at(t, from)
	for fold, want := range map[string][]string{
		"first": {"2023-10-29T00:00:00Z"},
		"last":  {"2023-10-29T01:00:00Z"},
		"both":  {"2023-10-29T00:00:00Z", "2023-10-29T01:00:00Z"},
	} {
		it, loc := parse(t, "0 2 * * *", "Europe/Berlin", "run", fold, now)
		same(t, fires(t, it, loc, from, to), want...)
		due, err := cron.Schedule{Item: it, Zone: loc}.Latest(now, at(t, to), 10)
		must(t, err)
		switch fold {
		case "both":
			if len(due.Skipped) != 0 {
				t.Errorf("both: skipped %v", due.Skipped)
			}
		case "first":
			s := due.Skipped
			if len(s) != 1 || s[0].At.Unix() != at(t, "2023-10-29T01:00:00Z").Unix() ||
				s[0].Skip.String() != "skipped: repeated hour" {
				t.Errorf("first: skipped %v", s)
			}
			if due.Fire[0].Mark != cron.MarkFoldFirst {
				t.Errorf("mark %v", due.Fire[0].Mark)
			}
		case "last":
			if s := due.Skipped; len(s) != 1 || s[0].At.Unix() != at(t, "2023-10-29T00:00:00Z").Unix() {
				t.Errorf("last: skipped %v", s)
			}
			if due.Fire[0].Mark != cron.MarkFoldLast {
				t.Errorf("mark %v", due.Fire[0].Mark)
			}
		}
	}
}

func TestB02GapRunsOnceOrIsVisible(t *testing.T) {
	const from, to = "2025-03-08T12:00:00Z", "2025-03-09T20:00:00Z"
	it, loc := parse(t, "0 2 * * *", "America/Los_Angeles", "run", "first", at(t, from))
	same(t, fires(t, it, loc, from, to), "2025-03-09T10:00:00Z")
	if o := it.Describe(at(t, "2025-03-09T10:00:00Z"), loc); o.Mark != cron.MarkGapRun || o.Label != "2025-03-09 02:00" {
		t.Errorf("described as %+v", o)
	}
	it, loc = parse(t, "0 2 * * *", "America/Los_Angeles", "skip", "first", at(t, from))
	due, err := cron.Schedule{Item: it, Zone: loc}.Due(at(t, from), at(t, to), 10)
	must(t, err)
	if len(due.Fire) != 0 || len(due.Skipped) != 1 || due.Skipped[0].Label != "2025-03-09 02:00" ||
		due.Skipped[0].Skip.String() != "skipped: the clock jumps over it" {
		t.Errorf("due %+v", due)
	}
}

// randomLine makes a line of five fields that some date matches.
func randomLine(r *rand.Rand) string {
	field := func(lo, hi int) string {
		a, b := lo+r.IntN(hi-lo+1), lo+r.IntN(hi-lo+1)
		switch r.IntN(5) {
		case 0:
			return fmt.Sprint(a)
		case 1:
			return fmt.Sprintf("%d-%d", min(a, b), max(a, b))
		case 2:
			return fmt.Sprintf("*/%d", 1+r.IntN(hi-lo))
		case 3:
			return fmt.Sprintf("%d,%d", a, b)
		}
		return "*"
	}
	dom, dow := field(1, 28), "*"
	if r.IntN(2) == 0 {
		dom, dow = "*", field(0, 6)
	}
	return strings.Join([]string{field(0, 59), field(0, 23), dom, field(1, 12), dow}, " ")
}

func TestB03TimeAdvancesAndLaunchesOnce(t *testing.T) {
	zones := loader(t)
	names := []string{"Europe/Berlin", "America/New_York", "America/Los_Angeles", "Australia/Lord_Howe", "Asia/Tehran",
		"Africa/Casablanca",
		"America/Sao_Paulo", "Pacific/Apia", "Asia/Kathmandu", "Europe/Dublin", "Antarctica/Troll", "UTC"}
	r := rand.New(rand.NewPCG(3, 3))
	lines := 200
	if testing.Short() {
		lines = 20
	}
	for range lines {
		line := randomLine(r)
		for _, name := range names {
			opt := cron.LineOptions{Zone: load(t, zones, name), Now: at(t, "2017-01-01T00:00:00Z"),
				Gap: cron.Gap(1 + 2*r.IntN(2)), Fold: cron.Fold(1 + r.IntN(3))}
			it, _, err := cron.ParseLine(line, opt)
			must(t, err)
			// Three years at the pace of the item, at most 200 steps from
			// each of eight starts.
			for k := range 8 {
				last := opt.Now.AddDate(0, 0, k*137)
				for range 200 {
					next, err := it.Next(last, opt.Zone)
					must(t, err)
					if !next.After(last) {
						t.Fatalf("%q in %s: next(%v) = %v", line, name, last, next)
					}
					if again, err := it.FirstMatch(next, opt.Zone); err != nil || !again.Equal(next) {
						t.Fatalf("%q in %s: %v is a match but FirstMatch returns %v, %v", line, name, next, again, err)
					}
					last = next
				}
			}
		}
	}
	it, loc := parse(t, "0 2 * * *", "America/New_York", "run", "first", at(t, "2019-03-01T00:00:00Z"))
	same(t, fires(t, it, loc, "2019-03-10T05:30:00Z", "2019-03-11T05:30:00Z"), "2019-03-10T07:00:00Z")
}

func TestB06TimeInsideTheGap(t *testing.T) {
	now := at(t, "2026-03-08T06:30:00Z")
	for gap, want := range map[string]string{"run": "2026-03-08T07:00:00Z", "skip": "2026-03-09T06:30:00Z"} {
		it, loc := parse(t, "30 2 * * *", "America/New_York", gap, "first", now)
		begin := time.Now()
		next, err := it.Next(now, loc)
		if took := time.Since(begin); took > time.Millisecond {
			t.Logf("took %v on this machine", took)
		}
		must(t, err)
		same(t, []string{next.UTC().Format(time.RFC3339)}, want)
	}
}

// quickest returns the time of f on an idle processor: the least of some tries.
func quickest(f func()) time.Duration {
	least := time.Hour
	for range 20 {
		begin := time.Now()
		f()
		least = min(least, time.Since(begin))
	}
	return least
}

func TestB09ImpossibleDates(t *testing.T) {
	loc := load(t, loader(t), "UTC")
	for line, want := range map[string]string{
		"0 0 30 2 *":    "day of month (column 5): day 30 never occurs in month 2",
		"0 0 31 4,6 *":  "day of month (column 5): day 31 never occurs in months 4, 6",
		"5 4 31 2,11 *": "day of month (column 5): day 31 never occurs in months 2, 11",
	} {
		var err error
		took := quickest(func() {
			_, _, err = cron.ParseLine(line, cron.LineOptions{Zone: loc, Now: at(t, "2026-01-01T00:00:00Z")})
		})
		if !errors.Is(err, cron.ErrImpossible) || err.Error() != want {
			t.Errorf("%q: %v, want %s", line, err, want)
		}
		if took > 10*time.Millisecond {
			t.Errorf("%q took %v", line, took)
		}
	}
}

func TestB11BothDayFields(t *testing.T) {
	now := at(t, "2026-01-01T00:00:00Z")
	it, loc := parse(t, "0 9 1-31 * 1", "UTC", "", "", now)
	if n := it.Count(now, now.AddDate(0, 0, 28), loc); n != 28 {
		t.Errorf("1-31 or Monday: %d of 28 days", n)
	}
	it, _ = parse(t, "0 0 */2 * 1", "UTC", "", "", now)
	for o, err := range it.Occurrences(now, loc) {
		must(t, err)
		if o.At.Weekday() != time.Monday || o.At.Day()%2 != 1 {
			t.Fatalf("fires at %v", o.At)
		}
		if o.At.Year() > 2027 {
			break
		}
	}
	_, warnings, err := cron.ParseLine("0 0 13 * 5", cron.LineOptions{Zone: loc, Now: now})
	must(t, err)
	if len(warnings) != 1 || warnings[0].Code != "both-days" || warnings[0].Column != 10 ||
		!strings.Contains(warnings[0].Text, "OR") ||
		!strings.Contains(warnings[0].Text, "next: Fri 2026-01-02 00:00, Fri 2026-01-09 00:00, Tue 2026-01-13 00:00") {
		t.Errorf("warnings %v", warnings)
	}
	_, warnings, err = cron.ParseLine("0 0 */2 * 1", cron.LineOptions{Zone: loc, Now: now})
	must(t, err)
	if !slices.ContainsFunc(warnings, func(w cron.Warning) bool {
		return w.Code == "both-days" &&
			strings.Contains(w.Text, "AND")
	}) {
		t.Errorf("warnings %v", warnings)
	}
}

func TestB12StarMeantAsZero(t *testing.T) {
	loc := load(t, loader(t), "UTC")
	for line, want := range map[string]string{
		"* 0 * * *":     "minute: fires 60 times on each matching day; did you mean `0 0 * * *`?",
		"* 9,17 * * 1":  "minute: fires 120 times on each matching day; did you mean `0 9,17 * * 1`?",
		"* 30 2 * * *":  "second: fires 60 times on each matching day; did you mean `0 30 2 * * *`?",
		"* * 2 * * *":   "minute: fires 3600 times on each matching day; did you mean `0 0 2 * * *`?",
		"* 9-17 * * *":  "",
		"* * * * *":     "",
		"*/5 0 * * *":   "",
		"0 * * * * *":   "",
		"*/10 * * * 5L": "",
	} {
		_, warnings, err := cron.ParseLine(line, cron.LineOptions{Zone: loc, Now: at(t, "2026-01-01T00:00:00Z")})
		must(t, err)
		text := ""
		if len(warnings) > 0 {
			text = warnings[0].String()
		}
		if text != want {
			t.Errorf("%q: %q, want %q", line, text, want)
		}
	}
}

func TestB14LongOutageLeavesTheScheduleAlive(t *testing.T) {
	it, loc := parse(t, "* * * * *", "Europe/Berlin", "", "", at(t, "2026-01-01T00:00:00Z"))
	s := cron.Schedule{Item: it, Zone: loc}
	for _, outage := range []time.Duration{3 * time.Hour, 3 * 365 * 24 * time.Hour} {
		now := at(t, "2026-05-05T12:00:30Z")
		cursor := now.Add(-outage)
		last, passed, next, ok, err := s.Once(cursor, now)
		must(t, err)
		if !ok || last.UTC() != at(t, "2026-05-05T12:00:00Z") || next.UTC() != at(t, "2026-05-05T12:01:00Z") ||
			passed != int64(outage/time.Minute)-1 {
			t.Errorf("after %v: last %v, passed %d, next %v, %v", outage, last, passed, next, ok)
		}
	}
}

func TestB15EditedScheduleWaitsForItsTime(t *testing.T) {
	edited := at(t, "2026-05-05T12:00:00Z") // the cursor of an edited schedule is the time of the edit
	it, loc := parse(t, "0 5 * * *", "UTC", "", "", edited)
	s := cron.Schedule{Item: it, Zone: loc}
	if _, _, next, ok, err := s.Once(edited, edited.Add(time.Second)); ok || err != nil ||
		next.UTC() != at(t, "2026-05-06T05:00:00Z") {
		t.Errorf("fires at once %v, next %v, %v", ok, next, err)
	}
}

func TestB17LongPeriodSurvivesRestarts(t *testing.T) {
	created := at(t, "2026-05-05T12:34:00Z")
	it, _, err := cron.ParseLine("@every 7d", cron.LineOptions{Anchor: created})
	must(t, err)
	s, cursor := cron.Schedule{Item: it}, created
	var fired []time.Time
	for day := 1; day <= 10; day++ { // restarted each day: only the cursor is kept
		now := created.AddDate(0, 0, day).Add(30 * time.Second)
		if last, passed, _, ok, err := s.Once(cursor, now); ok {
			must(t, err)
			if passed != 0 {
				t.Errorf("day %d: passed %d", day, passed)
			}
			fired = append(fired, last)
		}
		cursor = now
	}
	if len(fired) != 1 || !fired[0].Equal(created.AddDate(0, 0, 7)) {
		t.Errorf("fired at %v", fired)
	}
}
