package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/cron"
	"cantina/task"
)

// situation is one schedule, its clock, and the known state of its runs.
type situation struct {
	t     *testing.T
	key   Key
	def   Definition
	cron  cron.Schedule
	now   time.Time
	s     State
	runs  map[string]Answer // of started ones; a missing one has ended
	moves []Move            // of the last step
	// earlier are runs of a removed schedule of the name
	earlier []Run
}

const hourly = "0 * * * *"

// born is when all schedules of these tests were created.
func born() time.Time { return time.Date(2026, 3, 2, 0, 30, 0, 0, time.UTC) }

// begin creates a schedule of a task in UTC.
func begin(t *testing.T, line string, p Policy) *situation { return beginIn(t, line, "UTC", p) }

func beginIn(t *testing.T, line, zone string, p Policy) *situation {
	t.Helper()
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	x := &situation{t: t, key: Key{"d", "n"}, now: born(), s: New(born()), runs: map[string]Answer{}}
	x.def = Definition{Calendar: Calendar{Line: line, Zone: zone, Gap: cron.GapRun, Fold: cron.FoldFirst}, Policy: p,
		Task: &task.Definition{}}
	it, _, err := x.def.Item(x.key, loc, born(), born())
	if err != nil {
		t.Fatal(err)
	}
	x.cron = cron.Schedule{Item: it, Zone: loc}
	return x
}

// at sets the clock, given as 15:04 or 15:04:05 of the first day, or 02T15:04 of another.
func (x *situation) at(clock string) *situation {
	x.t.Helper()
	x.now = x.time(clock)
	return x
}

func (x *situation) time(clock string) time.Time {
	x.t.Helper()
	if !strings.Contains(clock, "T") {
		clock = "02T" + clock
	}
	if strings.Count(clock, ":") == 1 {
		clock += ":00"
	}
	at, err := time.Parse("2006-01-02T15:04:05", "2026-03-"+clock)
	if err != nil {
		x.t.Fatal(err)
	}
	return at
}

func (x *situation) env() Env {
	return Env{Now: x.now, Key: x.key, Cron: x.cron, Definition: &x.def, Runs: func(r Run) Answer { return x.runs[r.ID] },
		Earlier: func() []Run { return x.earlier }}
}

// step gives an event and keeps the moves; started runs run.
func (x *situation) step(e Event) error {
	next, moves, err := Step(x.s, e, x.env())
	x.moves = moves
	if err != nil {
		return err
	}
	x.s = next
	for _, m := range moves {
		if st, ok := m.(Start); ok {
			x.runs[st.ID] = Running
		}
	}
	return nil
}

// does gives an event and compares the moves: "start 02T01:00" and "end 02T01:00".
func (x *situation) does(e Event, want ...string) *situation {
	x.t.Helper()
	if err := x.step(e); err != nil {
		x.t.Fatalf("%s %T: %v", x.now.Format(time.TimeOnly), e, err)
	}
	var got []string
	for _, m := range x.moves {
		switch m := m.(type) {
		case Start:
			got = append(got, "start "+m.Firing.At.Format("02T15:04"))
		case End:
			got = append(got, "end "+m.ID)
		}
	}
	if !slices.Equal(got, want) {
		x.t.Fatalf("%s %T: moves %q, want %q", x.now.Format("02T15:04:05"), e, got, want)
	}
	return x
}

// refuses gives an event that must fail and change nothing.
func (x *situation) refuses(e Event, want error) *situation {
	x.t.Helper()
	before := x.s
	if err := x.step(e); !errors.Is(err, want) {
		x.t.Fatalf("%T: %v, want %v", e, err, want)
	}
	if !x.s.Equal(&before) {
		x.t.Fatalf("%T changed the state although it failed", e)
	}
	return x
}

// run is the id of the run of a logical time.
func (x *situation) run(clock string) string { return RunID(x.key, x.time(clock), 0) }

// is sets the state of the run of a logical time.
func (x *situation) is(clock string, a Answer) *situation {
	x.runs[x.run(clock)] = a
	return x
}

// last compares the newest line of the history, and how many times it is about.
func (x *situation) last(want string, count int) *situation {
	x.t.Helper()
	if len(x.s.History) == 0 {
		x.t.Fatalf("no history, want %q", want)
	}
	e := x.s.History[len(x.s.History)-1]
	if got := e.String(); got != want || e.Count != count {
		x.t.Fatalf("history: %q of %d, want %q of %d", got, e.Count, want, count)
	}
	return x
}

// pending compares the logical times that are due and undecided.
func (x *situation) pending(want ...string) *situation {
	x.t.Helper()
	var got []string
	for _, f := range x.s.Pending {
		got = append(got, f.At.Format("02T15:04"))
	}
	if !slices.Equal(got, want) {
		x.t.Fatalf("pending %q, want %q", got, want)
	}
	return x
}

func TestFiresOnceAtItsTime(t *testing.T) {
	x := begin(t, hourly, Policy{}).does(Tick{})
	x.at("00:59:59").does(Tick{})
	x.at("01:00").does(Tick{}, "start 02T01:00").does(Tick{})
	x.at("01:30").is("01:00", Ended).does(Tick{})
	if len(x.s.Live) != 0 || x.s.Fired != 1 {
		t.Fatalf("live %v, fired %d", x.s.Live, x.s.Fired)
	}
	x.at("02:00").does(Tick{}, "start 02T02:00")
}

func TestACreatedScheduleNeverFiresForThePast(t *testing.T) {
	x := begin(t, hourly, Policy{Misfire: MisfireAll})
	x.does(Tick{})
	if x.s.Cursor.Before(born()) {
		t.Fatal(x.s.Cursor)
	}
}

func TestTheClockGoesBack(t *testing.T) {
	x := begin(t, hourly, Policy{}).at("03:00").does(Tick{}, "start 02T03:00").is("03:00", Ended)
	for _, clock := range []string{"02:00", "00:30", "03:00"} {
		x.at(clock).does(Tick{})
	}
	x.at("04:00").does(Tick{}, "start 02T04:00")
}

func TestOverlapForbid(t *testing.T) {
	x := begin(t, hourly, Policy{}).at("01:00").does(Tick{}, "start 02T01:00")
	x.at("02:00").does(Tick{}).last("skipped: an earlier run was still running: "+x.run("01:00"), 1)
	x.at("03:00").does(Tick{}).last("skipped: an earlier run was still running: "+x.run("01:00"), 2)
	x.is("01:00", Ended).at("04:00").does(Tick{}, "start 02T04:00")
	if got := x.s.Missed(); len(got) != 1 || got[0].Count != 2 || got[0].Why != WhyOverlap {
		t.Fatal(got)
	}
}

// TestUndecided: whether the earlier run still runs is unknown; the firing waits with its logical time.
func TestUndecided(t *testing.T) {
	start := func() *situation {
		x := begin(t, hourly, Policy{}).at("01:00").does(Tick{}, "start 02T01:00").is("01:00", Unknown)
		return x.at("02:00").does(Tick{}).pending("02T02:00").at("02:10").does(Tick{}).pending("02T02:00")
	}
	t.Run("it had ended", func(t *testing.T) { start().is("01:00", Ended).does(Tick{}, "start 02T02:00").pending() })
	t.Run("it runs", func(t *testing.T) {
		x := start().is("01:00", Running).does(Tick{}).pending()
		x.last("skipped: an earlier run was still running: "+x.run("01:00"), 1)
	})
	t.Run("a newer time comes", func(t *testing.T) {
		x := start().at("03:00").does(Tick{}).pending("02T03:00").last(
			"skipped: a newer time came before it could be decided", 1)
		x.is("01:00", Ended).does(Tick{}, "start 02T03:00")
	})
	t.Run("it grows too old", func(t *testing.T) {
		x := start()
		x.def.Deadline = 30 * time.Minute
		x.at("02:31").does(Tick{}).pending().last("skipped: missed: older than the deadline", 1)
	})
	t.Run("it is paused", func(t *testing.T) { start().does(Pause{}).pending().last("skipped: paused", 1) })
	t.Run("it is edited", func(t *testing.T) {
		start().does(Edit{}).pending().last("skipped: the schedule was changed before it could be decided", 1)
	})
}

func TestOverlapAllow(t *testing.T) {
	x := begin(t, hourly, Policy{Overlap: OverlapAllow, Max: 2})
	x.at("01:00").does(Tick{}, "start 02T01:00").at("02:00").does(Tick{}, "start 02T02:00")
	x.at("03:00").does(Tick{}).last("skipped: an earlier run was still running: "+x.run("02:00"), 1)
	x.is("01:00", Unknown).at("04:00").does(Tick{}).pending("02T04:00")
	x.is("01:00", Ended).does(Tick{}, "start 02T04:00")
}

// TestOverlapReplace: the earlier run gets one order to end, and the new one starts only when that end is certain.
func TestOverlapReplace(t *testing.T) {
	x := begin(t, hourly, Policy{Overlap: OverlapReplace}).at("01:00").does(Tick{}, "start 02T01:00")
	x.at("02:00").does(Tick{}, "end "+x.run("01:00")).pending("02T02:00").does(Tick{})
	x.is("01:00", Unknown).does(Tick{}).pending("02T02:00")
	x.is("01:00", Ended).does(Tick{}, "start 02T02:00").pending()
}

// TestAJobIsBornOnceInAStep: of several missed times the oldest starts, and the others wait for it. A firing on
// time replaces it and overtakes them. Overtaken times can be filled in, one after the other.
func TestAJobIsBornOnceInAStep(t *testing.T) {
	x := begin(t, hourly, Policy{Overlap: OverlapReplace, Misfire: MisfireAll})
	x.def.Task, x.def.Job = nil, &Job{}
	x.at("04:30").does(Tick{}, "start 02T01:00").pending("02T02:00", "02T03:00", "02T04:00").does(Tick{})
	x.at("05:00").does(Tick{}, "start 02T05:00").pending()
	if h := x.s.History; len(h) != 3 || h[1].Decision != Skipped || h[1].Why != WhyOvertaken || h[1].Count != 3 ||
		h[2].Decision != Started || x.s.Fired != 2 || x.s.Skipped != 3 {
		t.Fatalf("%+v, %d fired, %d skipped", h, x.s.Fired, x.s.Skipped)
	}
	fill := Backfill{From: x.time("01:00"), To: x.time("04:00"), Max: 3}
	x.does(fill).pending("02T02:00", "02T03:00", "02T04:00")
	x.is("05:00", Ended).does(Tick{}, "start 02T02:00").pending("02T03:00", "02T04:00").does(Tick{})
	x.at("06:00").does(Tick{}, "start 02T06:00").pending("02T03:00", "02T04:00")
	x.is("06:00", Ended).does(Tick{}, "start 02T03:00").pending("02T04:00")
}

func TestMisfire(t *testing.T) {
	for _, c := range []struct {
		name  string
		p     Policy
		now   string
		want  []string
		last  string // the last skip
		count int
	}{
		{"once", Policy{}, "06:30", []string{"start 02T06:00"}, "missed: a newer time was due", 5},
		{"once with deadline", Policy{Deadline: 10 * time.Minute}, "06:30", nil, "missed: older than the deadline", 1},
		{"skip", Policy{Misfire: MisfireSkip}, "06:30", nil, "missed: older than the deadline", 6},
		{"skip, the newest in time", Policy{Misfire: MisfireSkip}, "06:00:20", []string{"start 02T06:00"},
			"missed: older than the deadline", 5},
		{"all", Policy{Misfire: MisfireAll, Overlap: OverlapAllow, Max: 10}, "03:30",
			[]string{"start 02T01:00", "start 02T02:00", "start 02T03:00"}, "", 0},
		{"all, some", Policy{Misfire: MisfireAll, MisfireMax: 2, Overlap: OverlapAllow, Max: 10}, "06:30",
			[]string{"start 02T05:00", "start 02T06:00"}, "missed: more than misfire_max newer times were due", 4},
		{"all with deadline", Policy{Misfire: MisfireAll, Deadline: time.Hour, Overlap: OverlapAllow, Max: 10}, "06:30",
			[]string{"start 02T06:00"}, "missed: older than the deadline", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := begin(t, hourly, c.p).at(c.now).does(Tick{}, c.want...)
			n := 0
			for _, e := range x.s.History {
				if e.Decision == Skipped {
					if e.Why.String() == c.last {
						n += e.Count
					} else if c.name != "once with deadline" {
						t.Errorf("%s", e.String())
					}
				}
			}
			if n != c.count {
				t.Fatalf("%d times %q, want %d: %v", n, c.last, c.count, x.s.History)
			}
			x.does(Tick{})
		})
	}
}

func TestPauseIsNotMissed(t *testing.T) {
	x := begin(t, hourly, Policy{Misfire: MisfireAll}).at("00:45").does(Pause{}).at("05:30").does(Tick{})
	x.does(Resume{}).last("skipped: paused", 5).does(Tick{}).at("06:00").does(Tick{}, "start 02T06:00")
	if got := x.s.Missed(); len(got) != 0 {
		t.Fatalf("missed: %v", got)
	}
	// but an operator may request it
	x.is("06:00", Ended).does(Backfill{From: x.time("02:00"), To: x.time("03:59"), Max: 9}, "start 02T02:00")
}

func TestTimesBeforeAPauseAreSkipped(t *testing.T) {
	x := begin(t, hourly,
		Policy{Misfire: MisfireAll}).at("03:30").does(Pause{}).last("skipped: missed: older than the deadline", 3)
	x.does(Resume{}).does(Tick{})
}

func TestEditNeverFiresForThePast(t *testing.T) {
	begin(t, hourly, Policy{Misfire: MisfireAll}).at("05:30").does(Edit{}).does(Tick{}).at("06:00").does(Tick{},
		"start 02T06:00")
}

func TestByHand(t *testing.T) {
	x := begin(t, hourly, Policy{}).refuses(Fire{At: born().Add(time.Second)}, ErrNoTime)
	at := func(clock string) Fire { return Fire{At: x.time(clock)} }
	x.does(at("04:00"), "start 02T04:00").refuses(at("05:00"), ErrOverlap).is("04:00", Ended).refuses(at("04:00"),
		ErrFired)
	x.at("04:00").does(Tick{}).at("03:00").does(Tick{}) // its time comes: it was fired
	x.at("05:00").does(Tick{}, "start 02T05:00").is("05:00", Ended).refuses(at("05:00"), ErrFired).refuses(at("04:00"),
		ErrFired)
	x.does(at("00:00"), "start 02T00:00").is("00:00", Ended).refuses(at("00:00"), ErrFired) // before its creation
	n := x.s.Fired
	x.at("05:10").does(Fire{}, "start 02T05:10")
	if x.s.Fired != n+1 || x.moves[0].(Start).Firing.At.Nanosecond() == 0 {
		t.Fatal("a run beside the calendar has the logical time of one")
	}
}

func TestByHandWhilePaused(t *testing.T) {
	x := begin(t, hourly, Policy{}).does(Pause{})
	x.at("02:30").does(Fire{At: x.time("02:00")}, "start 02T02:00").is("02:00",
		Ended).does(Resume{}).at("03:00").does(Tick{}, "start 02T03:00")
}

func TestBackfillRunsOneAfterTheOther(t *testing.T) {
	x := begin(t, hourly, Policy{}).at("06:30").does(Tick{}, "start 02T06:00")
	x.does(Backfill{From: x.time("02:00"), To: x.time("04:30"), Max: 2}).pending("02T02:00", "02T03:00")
	x.is("06:00", Ended).does(Tick{}, "start 02T02:00").does(Tick{}).is("02:00", Ended).does(Tick{},
		"start 02T03:00").is("03:00", Ended)
	x.does(Tick{}).does(Backfill{From: x.time("00:00"), To: x.time("23:00"), Max: 100},
		"start 02T00:00").pending("02T01:00", "02T04:00", "02T05:00")
	x.refuses(Backfill{From: x.time("02:00"), To: x.time("03:30"), Max: 2}, ErrNoTime)
	x.refuses(Backfill{From: x.time("02:00"), To: x.time("03:30")}, ErrInvalid)
	x.refuses(Backfill{From: x.time("03:00"), To: x.time("02:00"), Max: 1}, ErrInvalid)
}

func TestBackfillWaitsForAPause(t *testing.T) {
	x := begin(t, hourly, Policy{}).at("03:30").does(Tick{}, "start 02T03:00").is("03:00", Ended).does(Pause{})
	x.does(Backfill{From: x.time("01:00"), To: x.time("02:00"), Max: 5}).pending("02T01:00", "02T02:00").does(Tick{})
	x.does(Resume{}).does(Tick{}, "start 02T01:00")
}

func TestRefused(t *testing.T) {
	x := begin(t, hourly, Policy{}).at("01:00").does(Tick{}, "start 02T01:00")
	x.does(Refused{Firing: Firing{At: x.time("01:00")}, Text: "no"}).last("skipped: could not be started: no", 1)
	if len(x.s.Live) != 0 || x.s.Fired != 0 || len(x.s.Missed()) != 1 {
		t.Fatalf("%+v", x.s)
	}
	x.at("02:00").does(Tick{}, "start 02T02:00")
}

func TestHistoryIsBounded(t *testing.T) {
	x := begin(t, "* * * * *", Policy{Overlap: OverlapAllow, Max: 1000})
	for i := range 500 {
		x.now = born().Add(time.Duration(i) * time.Minute)
		if err := x.step(Tick{}); err != nil {
			t.Fatal(err)
		}
		if n := len(x.s.History); n > 2*MaxHistory {
			t.Fatal(n)
		}
	}
	if x.s.Fired != 499 {
		t.Fatal(x.s.Fired)
	}
	if e := x.s.History[len(x.s.History)-1]; !e.At.Equal(x.now) {
		t.Fatal(e)
	}
}

func TestJitterMovesTheMomentNotTheLogicalTime(t *testing.T) {
	x := begin(t, hourly, Policy{Jitter: 20 * time.Minute})
	off := Offset(x.key, x.def.Jitter)
	if off <= 0 || off > 20*time.Minute || off != Offset(x.key, x.def.Jitter) {
		t.Fatal(off)
	}
	x.now = x.time("01:00").Add(off - time.Second)
	x.does(Tick{})
	x.now = x.time("01:00").Add(off)
	x.does(Tick{}, "start 02T01:00")
	seen := map[time.Duration]bool{}
	for i := range 2000 {
		o := Offset(Key{"d", fmt.Sprint("n", i)}, 10*time.Second)
		if o < 0 || o > 10*time.Second {
			t.Fatal(o)
		}
		seen[o] = true
	}
	if len(seen) != 11 {
		t.Fatalf("names choose only %d of 11 offsets", len(seen))
	}
}

// TestClockChangesAreInTheHistory: a time that the policies of the calendar skip has its reason there, and fires
// once.
func TestClockChangesAreInTheHistory(t *testing.T) {
	x := beginIn(t, "30 2 * * *", "Europe/Berlin", Policy{})
	x.at("28T12:00").does(Tick{}, "start 28T01:30").is("28T01:30", Ended)
	x.at("29T12:00").does(Tick{}, "start 29T01:00") // the gap: 02:30 does not exist, it runs at 03:00
	x.is("29T01:00", Ended)
	x.def.Gap = cron.GapSkip
	loc := x.cron.Zone
	it, _, err := x.def.Item(x.key, loc, born(), born())
	if err != nil {
		t.Fatal(err)
	}
	y := beginIn(t, "30 2 * * *", "Europe/Berlin", Policy{})
	y.cron.Item = it
	y.at("28T12:00").does(Tick{}, "start 28T01:30").is("28T01:30", Ended)
	y.now = y.time("30T12:00")
	y.does(Tick{}, "start 30T00:30")
	if !slices.ContainsFunc(y.s.History, func(e Entry) bool { return e.Why == WhyGap }) {
		t.Fatalf("no reason for the gap: %v", y.s.History)
	}
}

func TestNamesOfRuns(t *testing.T) {
	k := Key{"d", "n"}
	at := time.Date(2026, 3, 2, 1, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		at   time.Time
		try  int
		want string
	}{{at, 0, "d.n.20260302T010000Z"}, {at, 1, "d.n.20260302T010000Z.2"},
		{at.Add(7 * time.Millisecond), 0, "d.n.20260302T010000.007Z"}} {
		if got := RunID(k, c.at, c.try); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	x := begin(t, hourly, Policy{}).at("01:00")
	env := x.env()
	env.Free = func(id string) bool { return strings.HasSuffix(id, ".3") }
	_, moves, err := Step(x.s, Tick{}, env)
	if err != nil || len(moves) != 1 || !strings.HasSuffix(moves[0].(Start).ID, "Z.3") {
		t.Fatal(moves, err)
	}
}

// TestAJobThatOthersSetGoing counts as an earlier run, also when the schedule has no record of one.
func TestAJobThatOthersSetGoing(t *testing.T) {
	for _, c := range []struct {
		overlap Overlap
		answer  Answer
		moves   int
		pending int
		why     Why
	}{
		{OverlapForbid, Ended, 1, 0, WhyNone}, {OverlapForbid, Running, 0, 0, WhyOverlap},
		{OverlapForbid, Unknown, 0, 1, WhyNone},
		{OverlapReplace, Ended, 1, 0, WhyNone}, {OverlapReplace, Running, 1, 0, WhyNone},
		{OverlapReplace, Unknown, 1, 0, WhyNone},
	} {
		x := begin(t, hourly, Policy{Overlap: c.overlap})
		x.def.Task, x.def.Job = nil, &Job{}
		env := x.at("01:00").env()
		env.Other = func(string) (Answer, string, int) { return c.answer, "job/n", 1 }
		s, moves, err := Step(x.s, Tick{}, env)
		if err != nil || len(moves) != c.moves || len(s.Pending) != c.pending {
			t.Fatalf("%+v: %v %+v %v", c, moves, s, err)
		}
		if c.why != WhyNone {
			if e := s.History[0]; e.Why != c.why || e.ID != "job/n" {
				t.Fatalf("%+v: %+v", c, e)
			}
		}
		if _, _, err := Step(x.s, Fire{}, env); errors.Is(err, ErrOverlap) != (c.overlap == OverlapForbid &&
			c.answer != Ended) {
			t.Fatalf("%+v: by hand: %v", c, err)
		}
	}
}
