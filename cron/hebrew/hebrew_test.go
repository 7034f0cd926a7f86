package hebrew

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"cantina/cron"
)

const rest = `,"hour":12,"minute":0,"dst_fixes":["skip","repeat_use_both"]}`

func TestKnownDates(t *testing.T) {
	for text, want := range map[string]string{
		`{"hebrew_month":"Tishrei","hebrew_day":1`:                     "2023-09-16 2024-10-03 2025-09-23 2026-09-12",
		`{"hebrew_month":"Tishrei","hebrew_day":10`:                    "2023-09-25 2024-10-12 2025-10-02 2026-09-21",
		`{"hebrew_month":"nis","hebrew_day":15`:                        "2023-04-06 2024-04-23 2025-04-13 2026-04-02",
		`{"hebrew_month":"Adar","hebrew_day":14`:                       "2023-03-07 2024-03-24 2025-03-14 2026-03-03",
		`{"hebrew_month":"Adar I","hebrew_day":14`:                     "2024-02-23 2027-02-21 2030-02-17 2033-02-13",
		`{"hebrew_month":"Kislev","hebrew_day":25`:                     "2023-12-08 2024-12-26 2025-12-15 2026-12-05",
		`{"hebrew_month":"av","hebrew_day":9`:                          "2023-07-27 2024-08-13 2025-08-03 2026-07-23",
		`{"hebrew_month":2,"hebrew_day":30`:                            "2024-12-01 2026-11-10 2027-11-30 2030-11-26",
		`{"hebrew_month":"Sivan","hebrew_day":6,"day_of_week":"Sun"`:   "2029-05-20 2032-05-16 2036-06-01 2039-05-29",
		`{"hebrew_day":1,"hebrew_year":5785,"hebrew_month":[1,2,6,13]`: "2024-10-03 2024-11-02 2025-03-01",
	} {
		it, err := ParseJSON([]byte(text + rest))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		list, err := cron.Preview(it, time.UTC, time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC), 4)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range list {
			got = append(got, o.At.Format("2006-01-02"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s\n got %v\nwant %v", text, got, want)
		}
	}
}

// TestEveryDayHasOneDate counts the calendar day by day through 700 years and
// checks its rules and the search against the count.
func TestEveryDayHasOneDate(t *testing.T) {
	lengths := map[int]bool{353: true, 354: true, 355: true, 383: true, 384: true, 385: true}
	day := newYear(5730)
	for y := 5730; y < 6430; y++ {
		if day != newYear(y) {
			t.Fatalf("year %d begins on day %d, counted %d", y, newYear(y), day)
		}
		if w := weekday(day); w == 0 || w == 3 || w == 5 {
			t.Errorf("year %d begins on weekday %d", y, w)
		}
		n := int(newYear(y+1) - day)
		if !lengths[n] {
			t.Errorf("year %d has %d days", y, n)
		}
		sum := 0
		for m := range monthsOf(y, n) {
			d := days{months: 1 << uint(m.number), dates: 1 << uint(m.length), weekdays: 1<<7 - 1}
			if got, ok := d.inYear(y, beginning); !ok || got != day+int64(m.length)-1 {
				t.Fatalf("last day of month %d of %d is %d, counted %d", m.number, y, got, day+int64(m.length)-1)
			}
			if yearOf(day) != y || yearOf(day+int64(m.length)-1) != y {
				t.Fatalf("day %d is in year %d", day, yearOf(day))
			}
			day += int64(m.length)
			sum += m.length
		}
		if sum != n {
			t.Fatalf("the months of %d have %d of %d days", y, sum, n)
		}
	}
}

// TestMonthsOfICU compares all months from 1969 to 2100 with those of ICU, whose
// implementation shares nothing with this one.
func TestMonthsOfICU(t *testing.T) {
	data, err := os.ReadFile("testdata/months.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var day int64
		var year, number int
		if _, err := fmt.Sscan(line, &day, &year, &number); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		n++
		d := days{months: 1 << uint(number), dates: 1 << 1, weekdays: 1<<7 - 1}
		if got, ok := d.inYear(year, beginning); !ok || got != day {
			t.Errorf("month %d of %d begins on day %d, want %d", number, year, got, day)
		}
	}
	if n < 1600 {
		t.Errorf("only %d months", n)
	}
}

func TestImpossibleDates(t *testing.T) {
	for _, text := range []string{
		`{"hebrew_month":"Tevet","hebrew_day":30`,
		`{"hebrew_month":"Tishrei","hebrew_day":1,"day_of_week":"Sun"`,
		`{"hebrew_month":"Adar I","hebrew_year":5785`,
	} {
		least := time.Hour // of some tries: another program may have the processor meanwhile
		for range 5 {
			begin := time.Now()
			if _, err := ParseJSON([]byte(text + rest)); !errors.Is(err, cron.ErrImpossible) {
				t.Errorf("%s: %v", text, err)
			}
			least = min(least, time.Since(begin))
		}
		if least > time.Second {
			t.Errorf("%s took %v", text, least)
		}
	}
	for _, text := range []string{`{"hebrew_month":"Smarch"`, `{"month":1`, `{"day_of_month":1`, `{"hebrew_day":31`} {
		if _, err := ParseJSON([]byte(text + rest)); !errors.Is(err, cron.ErrSyntax) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestNextDayNeverGoesBack(t *testing.T) {
	set, err := Calendar{}.Days(nil)
	if err != nil {
		t.Fatal(err)
	}
	for day := int64(-400); day < 800; day++ {
		if got, ok := set.NextDay(day); !ok || got != max(day, newYear(firstYear)) {
			t.Fatalf("NextDay(%d) of every day is %d, %v", day, got, ok)
		}
	}
}

func TestPoliciesAndWords(t *testing.T) {
	it,
		err := ParseJSON([]byte(`{"hebrew_month":["Nisan","Adar I"],"hebrew_day":15,"hour":9,"minute":0,` +
		`"dst_fixes":["unskip","repeat_use_only_late"]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := "at 09:00 on day 15 in Nisan, Adar I of the Hebrew calendar; if the clock jumps over it: " +
		"in the last second before the jump; if the hour is repeated: the last time only"
	if got := it.Words(); got != want {
		t.Errorf("Words() = %s", got)
	}
	if n := it.Count(time.Unix(0, 0), time.Date(2008, 1, 1, 0, 0, 0, 0, time.UTC), time.UTC); n != 38+14 {
		t.Errorf("%d in 38 years with 14 leap years", n)
	}
	last, ok := it.Last(time.Unix(0, 0), time.Date(2024, 6, 1, 0, 0, 0, 0, time.UTC), time.UTC)
	if !ok || last.Format("2006-01-02 15:04") != "2024-04-23 09:00" {
		t.Errorf("Last = %v, %v", last, ok)
	}
}

func BenchmarkNext(b *testing.B) {
	for name, text := range map[string]string{
		"yearly": `{"hebrew_month":"Nisan","hebrew_day":15`,
		"rarest": `{"hebrew_month":"Cheshvan","hebrew_day":30,"day_of_week":"Sun","hebrew_year":{"start":5785,"period":97}`,
	} {
		b.Run(name, func(b *testing.B) {
			it, err := ParseJSON([]byte(text + rest))
			if err != nil {
				b.Fatal(err)
			}
			at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for b.Loop() {
				if _, err := it.Next(at, time.UTC); err != nil && !errors.Is(err, cron.ErrNoMoreMatches) {
					b.Fatal(err)
				}
			}
		})
	}
}
