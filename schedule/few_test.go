package schedule

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/cron"
)

// TestARunBesideTheCalendarHasATimeOfItsOwn, also when the history has forgotten the one before.
func TestARunBesideTheCalendarHasATimeOfItsOwn(t *testing.T) {
	x := begin(t, hourly, Policy{Overlap: OverlapAllow, Max: 5})
	x.now = x.time("00:40").Add(7 * time.Millisecond)
	for i := range 3 {
		if err := x.step(Fire{}); err != nil {
			t.Fatal(err)
		}
		want := x.now.Add(time.Duration(i) * time.Millisecond)
		if got := x.s.Live[i].At; !got.Equal(want) {
			t.Errorf("run %d is of %v, want %v", i, got, want)
		}
		x.s.History = nil
	}
}

// TestTimesThatAreDecidedTwiceCountOnce: of two claims on one time, by hand and before a reset.
func TestTimesThatAreDecidedTwiceCountOnce(t *testing.T) {
	x := begin(t, hourly, Policy{})
	x.s.Done = []Span{{After: x.time("01:00"), Until: x.time("05:00")}}
	x.s.Ahead = []time.Time{x.time("03:00")}
	x.at("06:30").does(Tick{}, "start 02T06:00")
	open := x.s.Open[len(x.s.Open)-1]
	if x.s.Skipped != 1 || open.Count != 1 || !open.Until.Equal(x.time("01:00")) {
		t.Errorf("%d skipped, %+v", x.s.Skipped, open)
	}
	x.is("06:00", Ended).refuses(Fire{At: x.time("04:00")}, ErrFired)
}

// TestCalendarsThatNeverFireAreReported with each policy for missed times.
func TestCalendarsThatNeverFireAreReported(t *testing.T) {
	gaps, err := cron.ParseJSON([]byte(`{"minute":30,"hour":2,"day_of_week":1,"weekday_of_the_month":2,"month":3,` +
		`"dst_fixes":["skip","repeat_use_both"]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []Misfire{MisfireOnce, MisfireSkip, MisfireAll} {
		x := beginIn(t, hourly, "America/New_York", Policy{Misfire: m})
		x.cron.Item = gaps
		x.at("05:00")
		if err := x.step(Tick{}); !errors.Is(err, cron.ErrNeverMatches) {
			t.Errorf("%v: %v", m, err)
		}
	}
}

// TestTheFirstPassIsNotedWhenItPasses: under "last" it does not fire, before the clock goes back.
func TestTheFirstPassIsNotedWhenItPasses(t *testing.T) {
	x := beginIn(t, "30 2 * * *", "Europe/Berlin", Policy{})
	x.def.Fold = cron.FoldLast
	x.now = time.Date(2026, 10, 24, 12, 0, 0, 0, time.UTC)
	x.s = New(x.now)
	it, _, err := x.def.Item(x.key, x.cron.Zone, x.now, x.now)
	if err != nil {
		t.Fatal(err)
	}
	x.cron.Item = it
	x.now = time.Date(2026, 10, 25, 0, 30, 5, 0, time.UTC)
	x.does(Tick{})
	if got := x.newest(); !strings.HasPrefix(got, "skipped: repeated hour") {
		t.Errorf("at %v: %q", x.now, got)
	}
	x.now = x.now.Add(time.Hour)
	x.does(Tick{}, "start 25T01:30")
}

// TestStartedRunsAreNamed, also when the history has forgotten them.
func TestStartedRunsAreNamed(t *testing.T) {
	x := begin(t, hourly, Policy{Overlap: OverlapAllow, Max: 5}).at("01:00").does(Tick{}, "start 02T01:00")
	x.s.History = nil
	err := x.step(Fire{At: x.time("01:00")})
	if !errors.Is(err, ErrFired) || !strings.Contains(err.Error(), "was started as "+x.s.Live[0].ID) {
		t.Error(err)
	}
}

// TestBackfillsAreBounded: together with the waiting runs, the bound is twice the maximum of a request.
func TestBackfillsAreBounded(t *testing.T) {
	for most, good := range map[int]bool{MaxBackfill - 1: true, MaxBackfill: false} {
		x := begin(t, hourly, Policy{}).at("01:00").does(Tick{}, "start 02T01:00")
		for i := range MaxBackfill + 1 {
			x.s.Pending = append(x.s.Pending, Firing{At: born().Add(-time.Duration(i+100) * time.Hour), By: ByBackfill})
		}
		err := x.step(Backfill{From: x.now.Add(-9 * time.Hour), To: x.now, Max: most})
		if good != (err == nil) || !good && !strings.Contains(err.Error(), "1001 runs wait") {
			t.Errorf("%d: %v", most, err)
		}
	}
}

// TestQueueInOrder for any entries that are set, moved and taken out.
func TestQueueInOrder(t *testing.T) {
	const many = 400
	rng := rand.New(rand.NewPCG(5, 6))
	var q Queue
	at := map[int]int64{}
	for round := range 20_000 {
		if n := rng.IntN(many); rng.IntN(4) == 0 {
			q.Remove(n)
			delete(at, n)
		} else {
			at[n] = rng.Int64N(1 << 40)
			q.Set(n, at[n])
		}
		if round%200 > 0 {
			continue
		}
		var got, want []int64
		for _, x := range at {
			want = append(want, x)
		}
		slices.Sort(want)
		for {
			n, x, ok := q.First()
			if !ok {
				break
			}
			if x != at[n] {
				t.Fatalf("%d is due at %d, want %d", n, x, at[n])
			}
			got = append(got, x)
			q.Remove(n)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
		for n := range many { // in order of number: the same each time
			if x, ok := at[n]; ok {
				q.Set(n, x)
			}
		}
	}
}

// TestRefusalsThatDifferHaveLinesOfTheirOwn, and those that are alike are counted.
func TestRefusalsThatDifferHaveLinesOfTheirOwn(t *testing.T) {
	x := begin(t, hourly, Policy{}).at("04:00")
	for _, text := range []string{"no image", "no image", "no room"} {
		x.does(Refused{Firing: Firing{At: x.time("01:00")}, Text: text})
	}
	if h := x.s.History; len(h) != 2 || h[0].Count != 2 || h[1].Count != 1 || h[1].Text != "no room" {
		t.Errorf("%+v", h)
	}
}

// TestTimesOfAnEarlierCalendarTakeNothingAway from the missed times: they only divide them.
func TestTimesOfAnEarlierCalendarTakeNothingAway(t *testing.T) {
	x := begin(t, hourly, Policy{})
	x.s.Ahead = []time.Time{x.time("01:15")}
	x.at("02:00").does(Tick{}, "start 02T02:00")
	open := x.s.Open[len(x.s.Open)-1]
	if x.s.Skipped != 1 || open.Count != 1 || open.Until.After(x.time("01:15")) || open.Until.Before(x.time("01:00")) {
		t.Errorf("%d skipped, %+v", x.s.Skipped, open)
	}
}
