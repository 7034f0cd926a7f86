package schedule

import "testing"

// edit gives the schedule another line.
func (x *situation) edit(line string) *situation {
	x.t.Helper()
	x.def.Line = line
	it, _, err := x.def.Item(x.key, x.cron.Zone, born(), born())
	if err != nil {
		x.t.Fatal(err)
	}
	x.cron.Item = it
	if err := x.step(Edit{}); err != nil {
		x.t.Fatal(err)
	}
	return x
}

// TestTimesOfAnEarlierCalendarStayFired, also when calendars in between did not have that time.
func TestTimesOfAnEarlierCalendarStayFired(t *testing.T) {
	x := begin(t, hourly, Policy{})
	x.at("01:00").does(Tick{}, "start 02T01:00").is("01:00", Ended)
	x.at("01:10").edit("30 * * * *")
	x.at("01:20").edit("45 * * * *")
	x.at("01:25").edit(hourly)
	x.refuses(Fire{At: x.time("01:00")}, ErrFired)
	x.refuses(Backfill{From: x.time("00:59"), To: x.now, Max: 5}, ErrNoTime)
}

// TestAFutureTimeOfAnEarlierCalendar was started by hand, and is no time of the calendar
// that was in force when it passed.
func TestAFutureTimeOfAnEarlierCalendar(t *testing.T) {
	x := begin(t, hourly, Policy{Misfire: MisfireSkip})
	x.at("00:40").does(Fire{At: x.time("02:00")}, "start 02T02:00").is("02:00", Ended)
	x.at("00:50").edit("30 * * * *")
	x.at("01:35").step(Tick{}) // 01:30 is late
	x.at("02:35").step(Tick{})
	x.at("02:40").edit(hourly)
	x.refuses(Fire{At: x.time("02:00")}, ErrFired)
	x.refuses(Backfill{From: x.time("00:59"), To: x.now, Max: 5}, ErrNoTime)
}

// TestAFutureTimeThatWasGivenUpFiresByTime: a run by hand that waited for another to end,
// and was dropped by an edit, leaves its time to the calendar.
func TestAFutureTimeThatWasGivenUpFiresByTime(t *testing.T) {
	x := begin(t, hourly, Policy{Overlap: OverlapReplace})
	x.at("01:00").does(Tick{}, "start 02T01:00").is("01:00", Running)
	x.at("01:10").step(Fire{At: x.time("02:00")})
	x.pending("02T02:00")
	x.edit("0 */1 * * *").pending()
	for _, s := range x.s.Open {
		if s.Until.After(x.s.Cursor) {
			t.Fatalf("open until %v, cursor %v", s.Until, x.s.Cursor)
		}
	}
	x.is("01:00", Ended).at("02:00").does(Tick{}, "start 02T02:00")
	if x.s.Fired != 2 || x.s.Skipped != 1 {
		t.Fatalf("%+v", x.s)
	}
}
