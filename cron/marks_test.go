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

// TestATickOfItsOwn: how late an event may be until it counts as skipped.
func TestATickOfItsOwn(t *testing.T) {
	it, err := cron.ParseJSON([]byte(quarters))
	must(t, err)
	for late, want := range map[time.Duration]cron.Label{10 * time.Second: cron.LabelDue,
		11 * time.Second: cron.LabelSkipped} {
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
		found, err := sc.s.Poll()
		must(t, err)
		if found.Elapsed != 20*time.Minute || found.Step != 0 || found.Net != found.Elapsed {
			t.Errorf("%v back: %+v", back, found)
		}
		var got []string
		for e := range sc.s.Events() {
			got = append(got, fmt.Sprintf("%s %v %v %v", e.At.Format("15:04"), e.Label, e.Shift, e.Fire))
		}
		if len(got) == 0 || got[len(got)-1] != want {
			t.Errorf("%v back: %s, want %s at the end", back, strings.Join(got, "; "), want)
		}
	}
}

// TestAZoneInWhichTheTimeDoesNotExist: times decided up to 02:30 are decided up to the end of the gap.
func TestAZoneInWhichTheTimeDoesNotExist(t *testing.T) {
	sc := newScene(t, quarters, "UTC", "2026-03-29T02:30:00Z")
	sc.zone = load(t, loader(t), "Europe/Berlin") // 04:30, and no 02:30
	sc.want("03:15 03:30 03:45 04:00 04:15 04:30")
}

// TestSecondsHaveNoOffset, in any zone of the machine.
func TestSecondsHaveNoOffset(t *testing.T) {
	sc := newScene(t, `{"epoch":{"period":900}}`, "Asia/Tokyo", "2026-01-10T12:00:30Z")
	if s := sc.s.State(); s.Offset != 0 || s.Seen.Label != s.Seen.At {
		t.Errorf("%+v", s)
	}
}

// TestListedSecondsAreMissedForADay at most, where nothing else is set.
func TestListedSecondsAreMissedForADay(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`[1000,2000]`: 24 * time.Hour, `1000`: 24 * time.Hour, `{"period":59}`: time.Minute,
		`{"period":61}`: 61 * time.Second,
	} {
		if sc := newScene(t, `{"epoch":`+text+`}`, "UTC", "2026-01-10T12:00:00Z"); sc.s.MaxShift() != want {
			t.Errorf("%s: %v, want %v", text, sc.s.MaxShift(), want)
		}
	}
}

// TestTheStateIsThatOfThePoll: all three marks stand where time is.
func TestTheStateIsThatOfThePoll(t *testing.T) {
	sc := newScene(t, quarters, "UTC", "2026-01-10T12:00:00Z")
	sc.pass(20 * time.Minute)
	sc.want("12:15")
	here := cron.Reached{At: sc.wall.Unix(), Label: sc.wall.Unix()}
	if got := sc.s.State(); got != (cron.State{Seen: here, High: here, Furthest: here}) {
		t.Errorf("%+v, want %+v", got, here)
	}
}

// TestTheEventOfThePresentHasFired when time goes back from it.
func TestTheEventOfThePresentHasFired(t *testing.T) {
	sc := newScene(t, quarters, "UTC", "2026-01-10T12:00:00Z")
	sc.step(-10 * time.Minute)
	sc.want("")
	sc.pass(26 * time.Minute)
	_, err := sc.s.Poll()
	must(t, err)
	var got []string
	for e := range sc.s.Events() {
		got = append(got, fmt.Sprintf("%s %v %v", e.At.Format("15:04"), e.Label, e.Fire))
	}
	if want := []string{"12:00 already fired false", "12:15 due true"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTheNextSecondIsNext, after what the clock has reached, and after what has fired.
func TestTheNextSecondIsNext(t *testing.T) {
	sc := newScene(t, `{"seconds":[],"minute":[],"max_shift_seconds_for_unskip_and_do_not_repeat":60`+fixes,
		"UTC", "2026-01-10T12:00:00Z")
	sc.want("")
	for back, want := range map[time.Duration]string{0: "2026-01-10T12:00:01Z",
		-10 * time.Second: "2026-01-10T12:00:01Z"} {
		sc.wall = at(t, "2026-01-10T12:00:00Z").Add(back)
		_, err := sc.s.Poll()
		must(t, err)
		if next, err := sc.s.Next(); err != nil || !next.Equal(at(t, want)) {
			t.Errorf("%v back: %v, %v, want %s", back, next, err, want)
		}
	}
}

// TestTheFurthestIsNotBehind where another zone changes the order of two marks: time went back from the second pass
// of a fold to the first one, whose label is later.
func TestTheFurthestIsNotBehind(t *testing.T) {
	sc := newScene(t, `{"minute":{"period":15},"dst_fixes":["skip","repeat_use_both"],`+
		`"max_shift_seconds_for_unskip_and_do_not_repeat":600}`, "America/New_York", "2022-11-06T06:10:00Z")
	sc.step(-20 * time.Minute) // from 01:10 to 01:50
	if sc.want(""); !sc.last.Forgot {
		t.Fatalf("%+v", sc.last)
	}
	sc.zone, sc.wall = load(t, loader(t), "Europe/Berlin"), at(t, "2022-11-06T00:30:00Z") // 01:30
	if sc.want(""); !sc.last.Forgot {
		t.Fatalf("%+v", sc.last)
	}
	sc.pass(15 * time.Minute)
	_, err := sc.s.Poll()
	must(t, err)
	for e := range sc.s.Events() {
		if got := e.At.Format("15:04"); got != "01:45" || e.Label != cron.LabelAlreadyFired {
			t.Errorf("%s %v", got, e.Label)
		}
	}
}

// TestNothingFiresAgain where another zone changes the order of two marks: all up to 01:50 was decided in the first
// pass of a fold, from where time went on to the second pass, and back.
func TestNothingFiresAgain(t *testing.T) {
	sc := newScene(t, quarters, "America/New_York", "2022-11-06T06:10:00Z")
	sc.step(-20 * time.Minute) // from 01:10 to 01:50
	sc.want("")
	sc.zone, sc.wall = load(t, loader(t), "Europe/Berlin"), at(t, "2022-11-06T00:00:00Z") // 01:00
	sc.want("")
	sc.pass(65 * time.Minute)
	sc.want("02:00")
}
