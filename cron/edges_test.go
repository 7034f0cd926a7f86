package cron_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/cron"
)

// TestLastDaysOfEightThousandYears compares the calendar with that of package time: the last
// day of each month, and how many there are.
func TestLastDaysOfEightThousandYears(t *testing.T) {
	from, to := time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	it, loc := parse(t, "0 0 L * *", "UTC", "", "", from)
	n, last := int64(0), from
	for want := from.AddDate(0, 1, -1); ; n++ {
		next, err := it.Next(last, loc)
		must(t, err)
		if label := it.Describe(next, loc).Label; !next.Equal(want) || label != want.Format("2006-01-02 15:04") {
			t.Fatalf("after %v comes %v, shown as %s, want %v", last, next, label, want)
		}
		if want.Equal(to) {
			break
		}
		last, want = next, want.AddDate(0, 0, 1).AddDate(0, 1, -1)
	}
	if got := it.Count(from, last, loc); got != n {
		t.Errorf("Count = %d, want %d", got, n)
	}
}

// TestWholeNumbersOfEachType has the types that decoders of JSON and YAML give a number.
func TestWholeNumbersOfEachType(t *testing.T) {
	fixes := []any{"skip", "repeat_use_both"}
	for _, v := range []any{7, int32(7), int64(7), uint(7), uint64(7), json.Number("7"), []any{uint64(7)}} {
		it, err := cron.ParseValue(map[string]any{"minute": v, "dst_fixes": fixes})
		if err != nil || it.String() != "7 * * * * *" {
			t.Errorf("%T: %v, %v", v, it, err)
		}
	}
	for _, v := range []any{
		uint(math.MaxInt64 + 1), uint64(math.MaxInt64 + 1), json.Number("9223372036854775808"), 7.0, float32(7), int8(7), "7",
	} {
		if it, err := cron.ParseValue(map[string]any{"epoch": v}); err == nil {
			t.Errorf("%T %v: accepted as %v", v, v, it)
		}
	}
	for _, v := range []any{uint(math.MaxInt64), uint64(math.MaxInt64), json.Number("9223372036854775807")} {
		if it, err := cron.ParseValue(map[string]any{"epoch": v}); err != nil || it.String() != "9223372036854775807" {
			t.Errorf("%T %v: %v, %v", v, v, it, err)
		}
	}
}

// TestLongestPeriod is 400 years of 366 days.
func TestLongestPeriod(t *testing.T) {
	for text, good := range map[string]bool{
		"146400d": true, "12648960000s": true, "146399d23h59m60s": true, "1s": true,
		"146400d1s": false, "12648960001s": false, "20914w3d": false, "18446744073709551706s": false,
		"0d0s": false, "60": false, "5m3": false,
	} {
		it, _, err := cron.ParseLine("@every "+text, cron.LineOptions{})
		const want = "is not a period between 1s and 400 years"
		if good && err != nil || !good && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, %v", text, it, err)
		}
	}
}

// TestChoiceIsAskedForWhereItMatters: on the last Sunday of March, clocks in Berlin go from 02:00 to
// 03:00, on that of October from 03:00 to 02:00.
func TestChoiceIsAskedForWhereItMatters(t *testing.T) {
	loc := load(t, loader(t), "Europe/Berlin")
	for line, matters := range map[string]bool{
		"59 1 * * *": false, "0 2 * * *": true, "59 2 * * *": true, "0 3 * * *": false,
		"59 59 1 * * *": false, "59 59 2 * * *": true,
	} {
		for _, now := range []string{"2026-01-01T00:00:00Z", "2026-07-01T00:00:00Z"} { // each of the two comes first
			_, _, err := cron.ParseLine(line, cron.LineOptions{Zone: loc, Now: at(t, now)})
			if matters != (err != nil) {
				t.Errorf("%s: %v", line, err)
			}
			for _, name := range []string{"gap", "fold"} {
				if matters && !strings.Contains(err.Error(), name+" is not set") {
					t.Errorf("%s: %v, want both named", line, err)
				}
			}
		}
	}
}

// TestPreviewBeginsAfterFractions: half a second after a match, the next one is the first.
func TestPreviewBeginsAfterFractions(t *testing.T) {
	it, err := cron.ParseJSON([]byte(`{"epoch":[1000,2000]}`))
	must(t, err)
	for at, want := range map[time.Time]int{
		time.Unix(999, 1): 2, time.Unix(1000, 0): 2, time.Unix(1000, 1): 1, time.Unix(2000, 1): 0,
	} {
		list, err := cron.Preview(it, nil, at, 5)
		if err != nil || len(list) != want {
			t.Errorf("from %v: %v, %v, want %d", at.UTC(), list, err, want)
		}
	}
	for _, n := range []int{0, -1} {
		if list, err := cron.Preview(it, nil, time.Unix(0, 0), n); err != nil || len(list) != 0 {
			t.Errorf("preview of %d: %v, %v", n, list, err)
		}
	}
	if list, _ := cron.Preview(it, nil, time.Unix(0, 0), 1); len(list) != 1 || !list[0].At.Equal(time.Unix(1000, 0)) {
		t.Errorf("preview of one: %v", list)
	}
}

// TestSecondsThatAreLeftOut lists the two seconds of the second pass in New York that "early" leaves
// out, and the firings of the first pass, in order.
func TestSecondsThatAreLeftOut(t *testing.T) {
	loc := load(t, loader(t), "America/New_York")
	it, err := cron.ParseJSON([]byte(`{"seconds":[0,1],"minute":0,"hour":1,"dst_fixes":["skip","repeat_use_only_early"]}`))
	must(t, err)
	first, second := at(t, "2026-11-01T05:00:00Z"), at(t, "2026-11-01T06:00:00Z")
	next := at(t, "2026-11-02T06:00:00Z")
	var got, want []string
	list, err := cron.Preview(it, loc, first, 3)
	must(t, err)
	for _, o := range list {
		got = append(got, o.At.UTC().Format(time.RFC3339)+" "+o.Skip.String()+o.Mark.String())
	}
	for _, x := range []struct {
		at   time.Time
		what string
	}{
		{first, "repeated hour, first pass"}, {first.Add(time.Second), "repeated hour, first pass"},
		{second, "skipped: repeated hour"}, {second.Add(time.Second), "skipped: repeated hour"}, {next, ""},
	} {
		want = append(want, x.at.Format(time.RFC3339)+" "+x.what)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	s := cron.Schedule{Item: it, Zone: loc}
	for _, c := range []struct {
		cursor, until, want time.Time
	}{
		{first, second.Add(-time.Second), time.Time{}}, {first, second, second}, {second.Add(-time.Second), next, second},
		{second, next, second.Add(time.Second)}, {second, second.Add(time.Second), second.Add(time.Second)},
		{second.Add(time.Second), next, time.Time{}},
	} {
		o, ok := s.NextSkip(c.cursor, c.until)
		if ok != !c.want.IsZero() || ok && !o.At.Equal(c.want) {
			t.Errorf("left out in (%v, %v]: %v, %v, want %v", c.cursor, c.until, o, ok, c.want)
		}
		if all := s.Skips(c.cursor, c.until, 9); ok != (len(all) > 0) || ok && all[0] != o {
			t.Errorf("left out in (%v, %v]: %v, want %v first", c.cursor, c.until, all, o)
		}
	}
}

// TestSkipsAreTheNewest keeps the newest of a hundred days.
func TestSkipsAreTheNewest(t *testing.T) {
	loc := load(t, loader(t), "America/New_York")
	it, err := cron.ParseJSON([]byte(
		`{"seconds":[0,1],"minute":[0,30],"hour":1,"dst_fixes":["skip","repeat_use_only_early"]}`))
	must(t, err)
	s := cron.Schedule{Item: it, Zone: loc}
	second := at(t, "2026-11-01T06:00:00Z")
	half := second.Add(30 * time.Minute)
	all := []time.Time{second, second.Add(time.Second), half, half.Add(time.Second)}
	after := func(now time.Time, limit int) (out []time.Time) {
		for _, o := range s.Skips(second.AddDate(-1, 0, 0), now, limit) {
			out = append(out, o.At)
		}
		return out
	}
	equal := func(a, b []time.Time) bool { return slices.EqualFunc(a, b, time.Time.Equal) }
	for limit := range 6 {
		if got, want := after(second.Add(time.Hour), limit), all[4-min(limit, 4):]; !equal(got, want) {
			t.Errorf("the newest %d: %v, want %v", limit, got, want)
		}
	}
	const days = 100 * 24 * time.Hour
	for late, want := range map[time.Duration]int{0: 4, time.Second: 3, 2 * time.Second: 2, days: 0} {
		now := second.Add(days + late)
		if got := after(now, 9); !equal(got, all[4-want:]) {
			t.Errorf("at %v: %v, want the last %d", now, got, want)
		}
	}
}

// TestLastSecondBeforeAGap is a firing of its own under "skip", and stands for the gap under
// "unskip" only.
func TestLastSecondBeforeAGap(t *testing.T) {
	loc := load(t, loader(t), "America/New_York")
	for gap, want := range map[string]cron.Mark{"skip": cron.MarkNone, "unskip": cron.MarkGapUnskip} {
		it, err := cron.ParseJSON([]byte(
			`{"seconds":[30,59],"minute":59,"hour":[1,2],"dst_fixes":["` + gap + `","repeat_use_both"]}`))
		must(t, err)
		if o := it.Describe(at(t, "2026-03-08T06:59:59Z"), loc); o.Mark != want {
			t.Errorf("%s: %v", gap, o)
		}
		if o := it.Describe(at(t, "2026-03-08T06:59:30Z"), loc); o.Mark != cron.MarkNone {
			t.Errorf("%s, earlier: %v", gap, o)
		}
	}
}

// TestCountsOfASecondAtAGap: "unskip" fires in the last second before it, "run" in the first after.
func TestCountsOfASecondAtAGap(t *testing.T) {
	gap := at(t, "2026-03-08T07:00:00Z")
	for policy, early := range map[string]int{"unskip": 1, "run": 0, "skip": -1} {
		loc := load(t, loader(t), "America/New_York")
		opt := cron.LineOptions{Zone: loc, Now: gap, Gap: cron.GapRun, Fold: cron.FoldFirst}
		it, _, err := cron.ParseLine("30 2 * * *", opt)
		if policy != "run" {
			it, err = cron.ParseJSON([]byte(`{"minute":30,"hour":2,"dst_fixes":["` + policy + `","repeat_use_both"]}`))
		}
		must(t, err)
		for after := range 5 { // the seconds from two before the gap to two after
			second := gap.Add(time.Duration(after-2) * time.Second)
			want := int64(0)
			if early >= 0 && second.Equal(gap.Add(-time.Duration(early)*time.Second)) {
				want = 1
			}
			if n := it.Count(second.Add(-time.Second), second, loc); n != want {
				t.Errorf("%s: %d at %v, want %d", policy, n, second, want)
			}
			if _, ok := it.Last(second.Add(-time.Second), second, loc); ok != (want > 0) {
				t.Errorf("%s: the last one is at %v: %v", policy, second, ok)
			}
		}
	}
}

// TestInputThatIsNoJSON is refused as such.
func TestInputThatIsNoJSON(t *testing.T) {
	for _, text := range []string{``, `nul`, `{"minute":`, `{"minute":[1`, `{"minute":1`, `{1:2}`, `[1 2]`, `[1`, `[1}`} {
		if _, err := cron.ParseJSON([]byte(text)); err == nil || !strings.Contains(err.Error(), "not valid JSON") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// someDays is a calendar of three days in a row and one after the end of all calendars.
type someDays struct{}

func (someDays) Fields() []cron.Field { return nil }

func (someDays) Days(map[string]cron.Selector) (cron.DaySet, error) { return someDays{}, nil }

func (someDays) NextDay(day int64) (int64, bool) {
	switch {
	case day <= 20_002:
		return max(day, 20_000), true
	case day <= 3_000_000:
		return 3_000_000, true
	}
	return 0, false
}

// TestOtherCalendars search and count days one by one, up to the end of the year 9999.
func TestOtherCalendars(t *testing.T) {
	it, err := cron.ParseCalendarJSON(someDays{}, []byte(`{"minute":[0,30],"hour":12`+fixes))
	must(t, err)
	noon := time.Unix(20_000*86400+12*3600, 0).UTC()
	last := noon.Add(-time.Second)
	for i := range 6 {
		late := time.Duration(i/2)*24*time.Hour + time.Duration(i%2)*30*time.Minute
		next, err := it.Next(last, time.UTC)
		if err != nil || !next.Equal(noon.Add(late)) {
			t.Fatalf("after %v: %v, %v, want %v", last, next, err, noon.Add(late))
		}
		last = next
	}
	if next, err := it.Next(last, time.UTC); !errors.Is(err, cron.ErrNoMoreMatches) {
		t.Errorf("after the last: %v, %v", next, err)
	}
	for days, want := range []int64{0, 2, 4, 6, 6, 6} {
		from := noon.Add(-12 * time.Hour)
		if n := it.Count(from, from.AddDate(0, 0, days), time.UTC); n != want {
			t.Errorf("%d matches in %d days, want %d", n, days, want)
		}
	}
	if n := it.Count(noon, time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC), time.UTC); n != 5 {
		t.Errorf("%d matches after the first, want 5", n)
	}
	at, err := it.FirstMatch(time.Date(11000, 1, 1, 0, 0, 0, 0, time.UTC), time.UTC)
	if !errors.Is(err, cron.ErrNoMoreMatches) {
		t.Errorf("after all calendars: %v, %v", at, err)
	}
}

// TestPoliciesAreOneOfEach, of each kind exactly one.
func TestPoliciesAreOneOfEach(t *testing.T) {
	for text, want := range map[string]string{
		`["skip","unskip","repeat_use_both"]`:                      "is one too many",
		`["skip","repeat_use_both","repeat_use_only_late"]`:        "is one too many",
		`["repeat_use_only_late","repeat_use_only_late","unskip"]`: "is one too many",
		`["skip"]`: "incomplete", `["repeat_use_both"]`: "incomplete", `[]`: "incomplete",
		`["vixie","skip"]`: "is unknown", `[1]`: "1 is unknown",
		`"skip"`: "is not a list", `["repeat_use_both","skip"]`: "", `["vixie"]`: "",
	} {
		_, err := cron.ParseJSON([]byte(`{"minute":0,"dst_fixes":` + text + `}`))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestDepthIsBounded: nine levels below the outermost value are too deep, eight are only no item.
func TestDepthIsBounded(t *testing.T) {
	for n, want := range map[int]string{8: "is not an object", 9: "nested too deeply"} {
		for _, open := range []string{"[", `{"a":`} {
			closing := map[string]string{"[": "]", `{"a":`: "}"}[open]
			text := "[" + strings.Repeat(open, n-1) + "1" + strings.Repeat(closing, n-1) + "]"
			if _, err := cron.ParseJSON([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
		}
	}
}

// TestCountsOfSeconds compares them with a walk over each second.
func TestCountsOfSeconds(t *testing.T) {
	for text, has := range map[string]func(int64) bool{
		`{"epoch":{"start":10,"period":7,"end":40}}`: func(s int64) bool { return s >= 10 && s < 40 && (s-10)%7 == 0 },
		`{"epoch":{"start":10,"period":1,"end":12}}`: func(s int64) bool { return s >= 10 && s <= 12 },
		`{"epoch":{"start":10,"period":7}}`:          func(s int64) bool { return s >= 10 && (s-10)%7 == 0 },
		`{"epoch":[3,10,30]}`:                        func(s int64) bool { return slices.Contains([]int64{3, 10, 30}, s) },
	} {
		it, err := cron.ParseJSON([]byte(text))
		must(t, err)
		for after := range int64(50) {
			n, newest := int64(0), int64(-1)
			for to := after + 1; to < 50; to++ {
				if has(to) {
					n, newest = n+1, to
				}
				if got := it.Count(time.Unix(after, 0), time.Unix(to, 0), nil); got != n {
					t.Fatalf("%s: %d in (%d, %d], want %d", text, got, after, to, n)
				}
				got, ok := it.Last(time.Unix(after, 0), time.Unix(to, 0), nil)
				if ok != (newest >= 0) || ok && got.Unix() != newest {
					t.Fatalf("%s: the last in (%d, %d] is %v, %v, want %d", text, after, to, got, ok, newest)
				}
			}
		}
	}
}

// TestWithoutAZone: the description has no local time.
func TestWithoutAZone(t *testing.T) {
	it, err := cron.ParseJSON([]byte(`{"minute":0` + fixes))
	must(t, err)
	noon := at(t, "2026-01-01T12:00:00Z")
	if o := it.Describe(noon, nil); !o.At.Equal(noon) || o.Label != "" {
		t.Errorf("%+v", o)
	}
	if last, ok := it.Last(noon, noon.Add(time.Hour), nil); ok {
		t.Error(last)
	}
	if n := it.Count(noon, noon.Add(time.Hour), nil); n != 0 {
		t.Errorf("%d matches", n)
	}
	s := cron.Schedule{Item: it}
	if o, ok := s.NextSkip(noon, noon.Add(time.Hour)); ok || len(s.Skips(noon, noon.Add(time.Hour), 9)) != 0 {
		t.Error(o)
	}
}

// TestShiftsAtTheirBounds: a hundred years at most; without a setting a minute, for an item and for
// a tick.
func TestShiftsAtTheirBounds(t *testing.T) {
	const hundred = 100 * 366 * 86400
	for shift, good := range map[int]bool{0: true, hundred: true, hundred + 1: false, -1: false} {
		it, err := cron.ParseValue(map[string]any{"epoch": 5, "max_shift_seconds_for_unskip_and_do_not_repeat": shift})
		if good != (err == nil) {
			t.Errorf("%d: %v", shift, err)
		}
		if !good {
			continue
		}
		if d, ok := it.MaxShift(); !ok || d != time.Duration(shift)*time.Second {
			t.Errorf("%d: %v, %v", shift, d, ok)
		}
	}
	for late, want := range map[time.Duration]cron.Label{
		60 * time.Second: cron.LabelDue, 61 * time.Second: cron.LabelSkipped,
	} {
		sc := newScene(t, `{"epoch":{"period":1000}}`, "UTC", "1970-01-01T00:16:39Z")
		sc.pass(time.Second + late)
		_, err := sc.s.Poll()
		must(t, err)
		n := 0
		for e := range sc.s.Due() {
			if n++; e.Label != want || !e.Fire {
				t.Errorf("%v late: %+v", late, e)
			}
		}
		if n != 1 || sc.s.MaxShift() != 1000*time.Second {
			t.Errorf("%v late: %d events, at most %v", late, n, sc.s.MaxShift())
		}
	}
	if sc := newScene(t, `{"epoch":{"period":1}}`, "UTC", "1970-01-01T00:16:39Z"); sc.s.MaxShift() != time.Minute {
		t.Errorf("each second: %v", sc.s.MaxShift())
	}
}

// TestLongValuesAreCut to forty bytes.
func TestLongValuesAreCut(t *testing.T) {
	for n, want := range map[int]string{
		38: `"` + strings.Repeat("x", 38) + `" is not a list`, 39: `"` + strings.Repeat("x", 39) + `… is not a list`,
	} {
		_, err := cron.ParseJSON([]byte(`{"minute":0,"dst_fixes":"` + strings.Repeat("x", n) + `"}`))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v, want %s", n, err, want)
		}
	}
}

// TestGapsOnlyArePreviewedAsSuch: a preview lists the times skipped within 400 days, and then the error.
func TestGapsOnlyArePreviewedAsSuch(t *testing.T) {
	it, err := cron.ParseJSON([]byte(
		`{"minute":30,"hour":2,"day_of_week":1,"weekday_of_the_month":2,"month":3,"dst_fixes":["skip","repeat_use_both"]}`))
	must(t, err)
	list, err := cron.Preview(it, load(t, loader(t), "America/New_York"), at(t, "2026-01-01T00:00:00Z"), 3)
	if len(list) != 1 || list[0].Skip != cron.SkipGap || !list[0].At.Equal(at(t, "2026-03-08T07:00:00Z")) {
		t.Errorf("%v", list)
	}
	if !errors.Is(err, cron.ErrNeverMatches) {
		t.Error(err)
	}
}

// TestAWholeNameGoesBeforeAPrefix, of which another one may begin with it.
func TestAWholeNameGoesBeforeAPrefix(t *testing.T) {
	f := cron.Field{Key: "month", Min: 1, Max: 9, Names: []cron.Name{{Text: "adar i", Value: 6}, {Text: "adar", Value: 7}}}
	for text, want := range map[string]string{"Adar": "7", "adar i": "6", "adar ": "6", "ada": "", "adar ii": ""} {
		sel, err := cron.ParseSelector(f, text)
		if want != "" && (err != nil || sel.String() != want) || want == "" && err == nil {
			t.Errorf("%q: %v, %v, want %s", text, sel, err, want)
		}
	}
}
