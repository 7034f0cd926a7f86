package cron_test

import (
	"encoding/json"
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
			want = append(want, cron.Warning{Code: "policy", Text: "gap and fold have no effect on @every, which never looks at local time"})
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
		plain, err := cron.ParseJSON([]byte(fmt.Sprintf(`{"minute":0,"hour":0,"year":{"end":1970},"day_of_week":%d%s`, day, fixes)))
		must(t, err)
		x, n := time.Date(1968, 12, 1, 0, 0, 0, 0, time.UTC), int64(0)
		for x.Year() < 1970 {
			next, err := it.Next(x, time.UTC)
			must(t, err)
			other, err := plain.Next(x, time.UTC)
			if err != nil || !other.Equal(next) || int(next.Weekday()) != day-1 || n > 0 && next.Sub(x) != 7*24*time.Hour || n == 0 && (next.Year() != 1969 || next.YearDay() > 7) {
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
		`{"start":"1969-01-01"}`: true, `{"start":"1968-12-31"}`: false, `{"start":"9999-12-31"}`: true, `{"start":"2026-12-01"}`: true,
		`{"start":"2026-13-01"}`: false, `{"start":"2026-01-32"}`: false, `{"start":"2026-04-31"}`: false, `{"start":"31 Jan Feb"}`: false,
		`{"start":"1 2 Jan 2026"}`: false, `{"start":"Jan"}`: false, `{"start":""}`: false, `{"start":1}`: false, `{"start":"2026"}`: false,
		`{"start":"2026-01-01","period":100000}`: true, `{"start":"2026-01-01","period":100001}`: false,
		`{"start":"2026-01-01","period":0}`: false, `{"start":"2026-01-01","period":"3"}`: true, `{"start":"2026-01-01","step":3}`: false,
	} {
		it, err := cron.ParseJSON([]byte(`{"minute":0,"iter_day":` + text + fixes))
		if good != (err == nil) {
			t.Errorf("%s: %v, %v", text, it, err)
		}
	}
}

// TestTheNewestOfNone lists nothing, and counts all.
func TestTheNewestOfNone(t *testing.T) {
	it, err := cron.ParseJSON([]byte(`{"epoch":{"period":10}}`))
	must(t, err)
	s := cron.Schedule{Item: it}
	for limit, want := range []string{"[] 4", "[40] 3", "[30 40] 2", "[20 30 40] 1", "[10 20 30 40] 0", "[10 20 30 40] 0"} {
		due, err := s.Latest(time.Unix(9, 0), time.Unix(49, 0), limit)
		must(t, err)
		list := []int64{}
		for _, o := range due.Fire {
			list = append(list, o.At.Unix())
		}
		if got := fmt.Sprint(list, due.Rest); got != want || due.Next.Unix() != 50 {
			t.Errorf("%d: %s and then %v, want %s", limit, got, due.Next, want)
		}
	}
	if due, err := s.Latest(time.Unix(70, 0), time.Unix(49, 0), 3); err != nil || len(due.Fire) != 0 || due.Rest != 0 || due.Next.Unix() != 80 {
		t.Errorf("behind the cursor: %+v, %v", due, err)
	}
}

// TestATickOfItsOwn: how late an event may be until it counts as skipped.
func TestATickOfItsOwn(t *testing.T) {
	it, err := cron.ParseJSON([]byte(quarters))
	must(t, err)
	for late, want := range map[time.Duration]cron.Label{10 * time.Second: cron.LabelDue, 11 * time.Second: cron.LabelSkipped} {
		m := machine{wall: at(t, "2026-01-10T12:00:30Z"), zone: time.UTC}
		s, err := cron.NewStateful(it, m.clocks(), cron.StatefulOptions{Tick: 10 * time.Second})
		must(t, err)
		m.pass(14*time.Minute + 30*time.Second + late)
		_, err = s.Poll()
		must(t, err)
		n := 0
		for e := range s.Due() {
			if n++; e.Label != want {
				t.Errorf("%v late: %+v", late, e)
			}
		}
		if n != 1 {
			t.Errorf("%v late: %d events", late, n)
		}
	}
}

// TestARestartRemembersHowFarTimeWentBack, also where the past was forgotten.
func TestARestartRemembersHowFarTimeWentBack(t *testing.T) {
	for back, want := range map[time.Duration]string{
		20 * time.Minute: "12:00 already fired 20m0s false", 5 * time.Hour: "07:15 already fired 5h0m0s true",
	} {
		sc := newScene(t, quarters, "UTC", "2026-01-10T12:00:30Z")
		sc.step(-back)
		sc.want("")
		stored, err := json.Marshal(sc.s.State())
		must(t, err)
		var state cron.State
		must(t, json.Unmarshal(stored, &state))
		it, err := cron.ParseJSON([]byte(quarters))
		must(t, err)
		sc.s, err = cron.NewStateful(it, sc.clocks(), cron.StatefulOptions{Resume: &state})
		must(t, err)
		sc.pass(20 * time.Minute)
		_, err = sc.s.Poll()
		must(t, err)
		var got []string
		for e := range sc.s.Events() {
			got = append(got, fmt.Sprintf("%s %v %v %v", e.At.Format("15:04"), e.Label, e.Shift, e.Fire))
		}
		if len(got) == 0 || got[len(got)-1] != want {
			t.Errorf("%v back: %s, want %s at the end", back, strings.Join(got, "; "), want)
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
		`"x y"`: "x y", `'x'`: "x", `""`: "", `"x`: `"x`, `x"`: `x"`, `"x'`: `"x'`, `"`: `"`, `x"y"`: `x"y"`, `"'x'"`: `'x'`, ``: "",
	} {
		entries, problems := cron.ParseCrontab("V = "+text+"\n@daily x", false)
		if len(problems) != 0 || len(entries) != 1 || len(entries[0].Environment) != 1 || entries[0].Environment[0] != (cron.CrontabVariable{Name: "V", Value: want}) {
			t.Errorf("%s: %+v, %v", text, entries, problems)
		}
	}
}

// TestAPartOfAFieldIsNotAllOfIt, also when only one number is missing.
func TestAPartOfAFieldIsNotAllOfIt(t *testing.T) {
	for text, want := range map[string]string{
		`{"start":1}`: "0 1-23:1 * * * *", `{"end":22}`: "0 0-22:1 * * * *", `{"start":0,"end":23}`: "0 * * * * *", `[]`: "0 * * * * *",
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
