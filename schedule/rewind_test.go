package schedule

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// TestRewind: firings after the clock that were not started come again. A started one never does, for any kind of
// start, over several resets.
func TestRewind(t *testing.T) {
	x := begin(t, hourly, Policy{}).at("01:00").does(Tick{}, "start 02T01:00").is("01:00", Ended)
	x.does(Fire{At: x.time("03:00")}, "start 02T03:00").is("03:00", Ended)
	x.at("06:30").does(Tick{}, "start 02T06:00").is("06:00", Ended)
	x.does(Fire{At: x.time("04:00")}, "start 02T04:00").is("04:00", Ended)
	if x.s.Skipped != 3 {
		t.Fatal(x.s.Skipped)
	}
	x.at("01:30").does(Rewind{}).last("reset: the decisions up to 2026-03-02T06:00:00Z and was not started comes again",
		1).does(Tick{})
	if !x.s.Cursor.Equal(x.time("01:30")) || x.s.Skipped != 1 || len(x.s.Missed()) != 0 {
		t.Fatalf("%+v", x.s)
	}
	x.refuses(Fire{At: x.time("04:00")}, ErrFired).refuses(Fire{At: x.time("06:00")}, ErrFired)
	x.at("02:00").does(Tick{}, "start 02T02:00").is("02:00", Ended).at("03:00").does(Tick{}).at("04:00").does(Tick{})
	x.at("05:00").does(Tick{}, "start 02T05:00").is("05:00", Ended)
	x.at("04:30").does(Rewind{}).at("05:00").does(Tick{}).at("06:00").does(Tick{}).at("07:00").does(Tick{},
		"start 02T07:00")
	if len(x.s.Done) != 0 || x.s.Fired != 7 {
		t.Fatalf("%+v", x.s)
	}
}

// TestRewindCountsMissedTimes: times that were done before the clock went back are not
// missed when they pass unseen.
func TestRewindCountsMissedTimes(t *testing.T) {
	for _, misfire := range []Misfire{MisfireOnce, MisfireAll} {
		x := begin(t, hourly, Policy{Misfire: misfire, Overlap: OverlapAllow, Max: 9}).at("02:30")
		if err := x.step(Tick{}); err != nil {
			t.Fatal(err)
		}
		x.at("03:00").does(Tick{}, "start 02T03:00").at("00:40").does(Rewind{})
		fired := x.s.Fired
		x.at("05:30")
		if err := x.step(Tick{}); err != nil {
			t.Fatal(err)
		}
		if got := x.s.Fired + x.s.Skipped; got != 5 || misfire == MisfireAll && x.s.Fired != fired+2 {
			t.Fatalf("%v: %d fired, %d skipped: %+v", misfire, x.s.Fired, x.s.Skipped, x.s.History)
		}
	}
}

// TestRewindReturnsWaitingTimes: a waiting time without a future by the clock stays.
func TestRewindReturnsWaitingTimes(t *testing.T) {
	x := begin(t, hourly, Policy{Misfire: MisfireAll}).at("04:30").does(Tick{}, "start 02T01:00").pending("02T02:00",
		"02T03:00", "02T04:00")
	x.at("02:30").does(Rewind{}).pending("02T02:00").is("01:00", Ended).does(Tick{}, "start 02T02:00").is("02:00", Ended)
	x.at("03:00").does(Tick{}, "start 02T03:00").is("03:00", Ended).at("04:00").does(Tick{}, "start 02T04:00")
}

// TestRunsFromTheFutureAreNotNewer: with replace, a run that the wrong clock started is
// replaced by the next time.
func TestRunsFromTheFutureAreNotNewer(t *testing.T) {
	x := begin(t, hourly, Policy{Overlap: OverlapReplace}).at("06:00").does(Tick{},
		"start 02T06:00").at("01:30").does(Rewind{})
	x.at("02:00").does(Tick{}, "end "+x.run("06:00")).is("06:00", Ended).does(Tick{}, "start 02T02:00")
}

// TestElapsedGoesOnByItself: no leader saw the step; it goes on from the cursor.
func TestElapsedGoesOnByItself(t *testing.T) {
	x := begin(t, hourly, Policy{})
	x.def.Calendar = Calendar{Line: "@every 10m"}
	it, _, err := x.def.Item(x.key, nil, born(), born())
	if err != nil {
		t.Fatal(err)
	}
	x.cron.Item, x.cron.Zone = it, nil
	x.at("00:40").does(Tick{}, "start 02T00:40").is("00:40", Ended)
	x.now = x.now.Add(-50 * time.Hour)
	x.does(Tick{})
	x.now = x.now.Add(10 * time.Minute)
	x.does(Tick{}, "start 02T00:50")
	x.is("00:50", Ended)
	if x.s.Skew != 50*time.Hour {
		t.Fatal(x.s.Skew)
	}
	if err := x.step(Fire{At: x.time("00:50")}); !errors.Is(err, ErrFired) {
		t.Fatal(err)
	}
}

// TestTheBacklogIsInOrderOverTwoOutages: waiting firings give way before those that were missed later.
func TestTheBacklogIsInOrderOverTwoOutages(t *testing.T) {
	x := begin(t, "* * * * *", Policy{Misfire: MisfireAll}).at("01:30").does(Tick{},
		"start 02T00:31").at("06:30").does(Tick{})
	if len(x.s.Open) != 2 || x.s.Open[1].Why != WhyMany || x.s.Open[1].Count != 259 || len(x.s.Pending) != 100 {
		t.Fatalf("%v, %d pending", x.s.Open, len(x.s.Pending))
	}
	x.inOrder()
}

// TestTooManySpansBecomeOne: of more spans than are kept the first become one, so that
// too much is left out rather than done twice.
func TestTooManySpansBecomeOne(t *testing.T) {
	for _, known := range []int{MaxSpans - 1, MaxSpans, MaxSpans + 5} {
		x := begin(t, hourly, Policy{}).at("06:00").does(Tick{}, "start 02T06:00")
		var spans []Span
		for i := range known {
			at := x.now.Add(time.Duration(2*i+1) * time.Hour)
			spans = append(spans, Span{After: at, Until: at.Add(time.Hour)})
		}
		x.s.Done = spans
		x.at("05:30").does(Rewind{})
		want := append([]Span{{After: x.time("05:59:59"), Until: x.time("06:00")}}, spans...)
		if more := len(want) - MaxSpans; more > 0 {
			want = append([]Span{{After: want[0].After, Until: want[more].Until}}, want[more+1:]...)
		}
		if !slices.Equal(x.s.Done, want) {
			t.Errorf("%d known: %v, want %v", known, x.s.Done, want)
		}
	}
}
