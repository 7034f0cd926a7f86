package timetable_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"cantina/plan"
	"cantina/schedule"
)

// clockSays returns the clock text of Explain.
func (r *rig) clockSays() (state, text string) {
	r.t.Helper()
	state, _, why, err := r.times.Explain(key)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, w := range why {
		if w.Code == "clock" {
			text += w.Text + "; " + w.Change
		}
	}
	return state, text
}

func (r *rig) reset() time.Time {
	r.t.Helper()
	was, err := r.times.ResetSchedule(r.t.Context(), key, plan.Write{})
	if err != nil {
		r.t.Fatal(err)
	}
	r.serve()
	return was
}

// TestTheClockIsSetBack: a calendar never fires the same logical time twice, and gives the reason why nothing
// fires. A reset lets unfired times come again, under this leader and the next.
func TestTheClockIsSetBack(t *testing.T) {
	for _, next := range []bool{false, true} {
		t.Run(fmt.Sprint("next leader ", next), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				r.apply(false, one(nil))
				r.at("01:00:00").started("d/n 2026-03-02T01:00:00Z").at("03:10:00").started("d/n 2026-03-02T03:00:00Z")
				r.set(-170 * time.Minute).started() // 00:20
				if want := []string{"clock: the wall clock of the leader was set back by 2h50m0s"}; !slices.Equal(r.notes, want) {
					t.Fatalf("notes %q", r.notes)
				}
				if next {
					r.depose()
				}
				state, text := r.clockSays()
				if state != schedule.Behind || !strings.Contains(text,
					"the wall clock is 2026-03-02T00:20:00Z, but all times up to 2026-03-02T03:00:00Z are decided: "+
						"nothing fires for 2h40m0s") ||
					!strings.Contains(text, "cantina cron reset n") || !next &&
					!strings.Contains(text, "was set back by 2h50m0s at 2026-03-02T00:20:00Z") {
					t.Fatal(state, text)
				}
				if v := r.get(); v.Lead != 160*time.Minute || v.Note == "" {
					t.Fatalf("%+v", v)
				}
				r.at("01:00:00").started().at("02:00:00").started()
				if was := r.reset(); !was.Equal(began().Add(150 * time.Minute)) {
					t.Fatal(was)
				}
				if state, _ := r.clockSays(); state != schedule.Waiting {
					t.Fatal(state)
				}
				if v := r.get(); !v.Next.Equal(began().Add(210 * time.Minute)) { // 03:00 has fired
					t.Fatal(v.Next)
				}
				r.at("03:00:00").started().at("04:00:00").started("d/n 2026-03-02T04:00:00Z")
				if was := r.reset(); !was.IsZero() {
					t.Fatal(was)
				}
			})
		})
	}
}

// TestTheClockWasAYearAhead for one firing: the times that it fired never fire again, and all others do.
func TestTheClockWasAYearAhead(t *testing.T) {
	const year = 365 * 24 * time.Hour
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(false, one(nil))
		r.at("01:00:00").started("d/n 2026-03-02T01:00:00Z")
		r.set(year).started("d/n 2027-03-02T01:00:00Z")
		r.set(-year).at("02:00:00").started()
		if state, text := r.clockSays(); state != schedule.Behind || !strings.Contains(text, "8759h") {
			t.Fatal(state, text)
		}
		r.depose()
		r.reset()
		r.at("03:00:00").started("d/n 2026-03-02T03:00:00Z").depose()
		r.at("04:00:00").started("d/n 2026-03-02T04:00:00Z")
		v := r.get()
		reset := func(e schedule.Entry) bool { return e.Decision == schedule.Reset }
		if h := v.State.History; !slices.ContainsFunc(h, reset) ||
			len(v.State.Done) != 1 {
			t.Fatalf("%+v", v.State)
		}
		r.to(began().Add(year - 30*time.Minute)) // 00:00
		r.started("d/n 2027-03-02T00:00:00Z")
		r.to(began().Add(year + 30*time.Minute))
		r.started() // it has fired
		r.to(began().Add(year + 90*time.Minute))
		r.started("d/n 2027-03-02T02:00:00Z")
		if v := r.get(); len(v.State.Done) != 0 {
			t.Fatalf("%+v", v.State.Done)
		}
	})
}

// TestEveryCountsElapsedTime under any changes of the wall clock, in a term and between two.
func TestEveryCountsElapsedTime(t *testing.T) {
	every := one(func(d *schedule.Definition) {
		d.Calendar = schedule.Calendar{Line: "@every 10m"}
		d.Misfire = schedule.MisfireAll
	})
	n := 0
	ten := func(r *rig) { // minutes pass
		r.t.Helper()
		for range 10 {
			if got := r.take(); len(got) > 0 {
				r.t.Fatalf("%q starts too early", got)
			}
			r.to(r.wall.Add(time.Minute))
		}
		n++
		r.started(began().Add(time.Duration(n) * 10 * time.Minute).Format("d/n 2006-01-02T15:04:05Z"))
	}
	for name, step := range map[string]time.Duration{"back": -time.Hour, "ahead": time.Hour,
		"a year ahead": 365 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			n = 0
			inBubble(t, func(t *testing.T, r *rig) {
				r.apply(false, every)
				ten(r)
				r.set(step)
				ten(r)
				if v := r.get(); v.State.Skew != -step || v.Lead != 0 || !v.Next.Equal(r.wall.Add(10*time.Minute)) {
					t.Fatalf("skew %v, lead %v, next %v of %v", v.State.Skew, v.Lead, v.Next, r.wall)
				}
				if state, text := r.clockSays(); state != schedule.Waiting ||
					!strings.Contains(text, "counts elapsed time and continues") {
					t.Fatal(state, text)
				}
				r.depose()
				ten(r)
				r.set(-step)
				ten(r)
				if v := r.get(); v.State.Skew != 0 {
					t.Fatal(v.State.Skew)
				}
			})
		})
	}
	t.Run("back between two leaders", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig) {
			n = 0
			r.apply(false, every)
			ten(r)
			r.stop()
			r.wall = r.wall.Add(-time.Hour)
			r.elect()
			ten(r)
			r.reset()
			r.to(r.wall.Add(9 * time.Minute))
			r.started()
			r.to(r.wall.Add(time.Minute + time.Second))
			if got := r.take(); len(got) != 1 || !strings.HasPrefix(got[0], "d/n 2026-03-01T23:") &&
				!strings.HasPrefix(got[0], "d/n 2026-03-02T00:0") {
				t.Fatal(got)
			}
		})
	})
}

// TestSmallCorrectionsAreNoStep: a clock that NTP slews.
func TestSmallCorrectionsAreNoStep(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.apply(false, one(nil))
		for range 10 {
			r.set(-300 * time.Millisecond).to(r.wall.Add(29 * time.Second))
		}
		if len(r.notes) > 0 {
			t.Fatal(r.notes)
		}
	})
}
