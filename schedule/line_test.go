package schedule

import (
	"slices"
	"testing"
	"time"
)

// catchUp misses 01:00 to 05:00, and lets each run end before the next tick.
func (x *situation) runsInTurn(clocks ...string) *situation {
	x.t.Helper()
	for i, c := range clocks {
		if i > 0 {
			x.does(Tick{}, "start 02T"+c)
		}
		x.does(Tick{}).is(c, Ended)
	}
	return x
}

// TestMisfireAllRunsAllInOrder: under each overlap policy, every missed time runs with its logical time. They run
// one after the other, or as many at once as the policy allows.
func TestMisfireAllRunsAllInOrder(t *testing.T) {
	for _, c := range []struct {
		name   string
		p      Policy
		job    bool
		before Answer // the run of 01:00, which was started on time
		moves  []string
	}{
		{"forbid", Policy{}, false, Ended, []string{"start 02T02:00"}},
		{"replace", Policy{Overlap: OverlapReplace}, false, Ended, []string{"start 02T02:00"}},
		{"allow one", Policy{Overlap: OverlapAllow, Max: 1}, false, Ended, []string{"start 02T02:00"}},
		{"job, forbid", Policy{}, true, Ended, []string{"start 02T02:00"}},
		{"job, replace", Policy{Overlap: OverlapReplace}, true, Ended, []string{"start 02T02:00"}},
		{"job, replace, the earlier round runs", Policy{Overlap: OverlapReplace}, true, Running, []string{"start 02T02:00"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.p.Misfire = MisfireAll
			x := begin(t, hourly, c.p)
			if c.job {
				x.def.Task, x.def.Job = nil, &Job{}
			}
			x.at("01:00").does(Tick{}, "start 02T01:00").is("01:00", c.before)
			x.at("06:30").does(Tick{}, c.moves...).runsInTurn("02:00", "03:00", "04:00", "05:00", "06:00").pending()
			if x.s.Fired != 6 || x.s.Skipped != 0 || x.s.Backlog != 0 && len(x.s.Live) == 0 {
				t.Fatalf("%d fired, %d skipped, line %d", x.s.Fired, x.s.Skipped, x.s.Backlog)
			}
		})
	}
	t.Run("allow two", func(t *testing.T) {
		x := begin(t, hourly, Policy{Misfire: MisfireAll, Overlap: OverlapAllow, Max: 2}).at("05:30").does(Tick{},
			"start 02T01:00", "start 02T02:00")
		x.pending("02T03:00", "02T04:00", "02T05:00").is("02:00", Ended).does(Tick{}, "start 02T03:00")
		x.is("01:00", Ended).is("03:00", Ended).does(Tick{}, "start 02T04:00", "start 02T05:00").pending()
	})
	t.Run("replace, the earlier run is ended first", func(t *testing.T) {
		x := begin(t, hourly, Policy{Misfire: MisfireAll, Overlap: OverlapReplace}).at("01:00").does(Tick{}, "start 02T01:00")
		x.at("03:30").does(Tick{}, "end "+x.run("01:00")).pending("02T02:00", "02T03:00")
		x.is("01:00", Ended).does(Tick{}, "start 02T02:00").runsInTurn("02:00", "03:00").pending()
	})
	t.Run("misfire skip: times that are not too old", func(t *testing.T) {
		x := begin(t, "*/10 * * * * *", Policy{Misfire: MisfireSkip}).at("00:30:35").does(Tick{},
			"start 02T00:30").pending("02T00:30", "02T00:30")
		x.is("00:30:10", Ended).does(Tick{}, "start 02T00:30").is("00:30:20", Ended).does(Tick{}, "start 02T00:30").pending()
		if x.s.Fired != 3 || x.s.Skipped != 0 {
			t.Fatalf("%d fired, %d skipped", x.s.Fired, x.s.Skipped)
		}
	})
	t.Run("at most misfire_max", func(t *testing.T) {
		x := begin(t, hourly, Policy{Misfire: MisfireAll, MisfireMax: 2}).at("06:30").does(Tick{},
			"start 02T05:00").pending("02T06:00")
		x.runsInTurn("05:00", "06:00")
		if x.s.Skipped != 4 || x.s.Missed()[0].Why != WhyMany {
			t.Fatalf("%d skipped, %v", x.s.Skipped, x.s.Missed())
		}
	})
}

// TestForbidSkipsTimesWithARunInProgress: a run that was active at the time of a missed firing, and still is, would
// have blocked it without the outage too.
func TestForbidSkipsTimesWithARunInProgress(t *testing.T) {
	x := begin(t, hourly, Policy{Misfire: MisfireAll}).at("01:00").does(Tick{}, "start 02T01:00")
	x.at("04:30").does(Tick{}).last("skipped: an earlier run was still running: "+x.run("01:00"), 3).pending()
}

// TestDueTimesWaitBehindMissedOnes: its turn comes; but catching up has an end, also when
// the runs take longer than the calendar leaves between them.
func TestDueTimesWaitBehindMissedOnes(t *testing.T) {
	x := begin(t, hourly, Policy{Misfire: MisfireAll}).at("02:30").does(Tick{}, "start 02T01:00").pending("02T02:00")
	x.at("03:00").does(Tick{}).pending("02T02:00", "02T03:00").is("01:00", Ended).does(Tick{},
		"start 02T02:00").does(Tick{})
	x.at("04:00").does(Tick{}).pending("02T03:00", "02T04:00").is("02:00", Ended).does(Tick{},
		"start 02T03:00").does(Tick{})
	x.at("05:00").does(Tick{}).is("03:00", Ended).does(Tick{}, "start 02T04:00")
	x.last("skipped: an earlier run was still running: "+x.run("04:00"), 1).pending() // as many waited as were missed
	x.at("06:00").does(Tick{}).last("skipped: an earlier run was still running: "+x.run("04:00"), 2)
	x.is("04:00", Ended).at("07:00").does(Tick{}, "start 02T07:00")
	if x.s.Backlog != 0 {
		t.Fatal(x.s.Backlog)
	}
	x.at("08:00").does(Tick{}).last("skipped: an earlier run was still running: "+x.run("07:00"), 1)
	x.inOrder()
}

// inOrder compares the started and skipped firings by time: the history is in order.
func (x *situation) inOrder() {
	x.t.Helper()
	var last time.Time
	for _, e := range x.s.History {
		if e.By != ByTime {
			continue
		}
		if e.At.Before(last) {
			x.t.Fatalf("%s comes after %v", e.Times(), last)
		}
		last = later(e.At, e.Until)
	}
}

// TestAnOlderTimeNeverReplacesANewerRun: a firing that was undecided while the state of the runs was unknown is
// skipped, with the reason, once there is a newer run.
func TestAnOlderTimeNeverReplacesANewerRun(t *testing.T) {
	for _, misfire := range []Misfire{MisfireOnce, MisfireSkip, MisfireAll} {
		t.Run(misfire.String(), func(t *testing.T) {
			begin := func() *situation {
				x := begin(t, hourly, Policy{Overlap: OverlapReplace, Misfire: misfire,
					Deadline: 5 * time.Hour}).at("01:00").does(Tick{}, "start 02T01:00").is("01:00", Unknown)
				return x.at("02:00").does(Tick{}, "end "+x.run("01:00")).pending("02T02:00")
			}
			x := begin().at("03:00").is("01:00", Ended).does(Tick{}, "start 02T03:00").pending()
			x.does(Tick{}).inOrder()
			if h := x.s.History; h[1].Decision != Skipped || !h[1].At.Equal(x.time("02:00")) {
				t.Fatalf("%+v", h)
			}
			x = begin().is("01:00", Ended).at("02:10").does(Fire{}, "start 02T02:10").pending()
			x.last("skipped: overtaken by a newer run: "+x.run("02:10:00")[:len("d.n.20260302T021000")]+".001Z", 1)
			x = begin().at("02:10").does(Fire{}).pending("02T02:10", "02T02:00").is("01:00", Ended).does(Tick{},
				"start 02T02:10").pending()
			if got := x.s.Missed(); len(got) != 1 || got[0].Why != WhyOvertaken {
				t.Fatal(got)
			}
		})
	}
	t.Run("started before its time", func(t *testing.T) {
		x := begin(t, hourly, Policy{Overlap: OverlapReplace}).does(Fire{At: time.Date(2026, 3, 2, 4, 0, 0, 0, time.UTC)},
			"start 02T04:00")
		x.at("01:00").does(Tick{}).last("skipped: overtaken by a newer run: "+x.run("04:00"), 1)
		x.is("04:00", Ended).at("02:00").does(Tick{}, "start 02T02:00")
	})
}

// TestALeaderThatKnowsNothingYetQueues: while the state of the runs is unknown, all due firings wait. They run in
// order when it is known that none runs.
func TestALeaderThatKnowsNothingYetQueues(t *testing.T) {
	x := begin(t, hourly, Policy{Misfire: MisfireAll}).at("01:00").does(Tick{}, "start 02T01:00").is("01:00", Unknown)
	x.at("02:00").does(Tick{}).at("03:00").does(Tick{}).at("04:00").does(Tick{}).pending("02T02:00", "02T03:00",
		"02T04:00")
	y := *x
	y.runs = map[string]Answer{}
	y.does(Tick{}, "start 02T02:00").runsInTurn("02:00", "03:00", "04:00").pending()
	x.is("01:00", Running).does(Tick{}).last("skipped: an earlier run was still running: "+x.run("01:00"), 3).pending()
}

// TestAPersonIsNotInTheBacklog: a run by hand does not wait for missed firings. With forbid, missed firings wait
// for it.
func TestAPersonIsNotInTheBacklog(t *testing.T) {
	x := begin(t, hourly, Policy{Misfire: MisfireAll}).at("03:30").does(Tick{}, "start 02T01:00").refuses(Fire{},
		ErrOverlap).is("01:00", Ended)
	x.does(Fire{}, "start 02T03:30").does(Tick{}).pending("02T02:00", "02T03:00")
	x.runs = map[string]Answer{}
	x.does(Tick{}, "start 02T02:00")
}

// TestRefusedAmongOthers: of several that one step starts, the one that was refused is taken back.
func TestRefusedAmongOthers(t *testing.T) {
	x := begin(t, hourly, Policy{Misfire: MisfireAll, Overlap: OverlapAllow, Max: 5}).at("03:30").does(Tick{},
		"start 02T01:00", "start 02T02:00", "start 02T03:00")
	x.does(Refused{Firing: Firing{At: x.time("02:00")}, Text: "no"})
	if x.s.Fired != 2 || len(x.s.Live) != 2 || slices.ContainsFunc(x.s.Live,
		func(r Run) bool { return r.At.Equal(x.time("02:00")) }) {
		t.Fatalf("%+v", x.s)
	}
}

// TestASignalIsSentOnceForMissedTimes: also when several times are not too old.
func TestASignalIsSentOnceForMissedTimes(t *testing.T) {
	x := begin(t, "*/10 * * * * *", Policy{Misfire: MisfireSkip})
	x.def.Task, x.def.Signal = nil, &Signal{Service: "s", Number: 1}
	x.at("00:30:35").does(Tick{}, "start 02T00:30")
	if x.s.Fired != 1 || x.s.Skipped != 2 {
		t.Fatalf("%+v", x.s)
	}
}
