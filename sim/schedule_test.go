package sim

import (
	"bytes"
	"errors"
	"testing"

	"cantina/timetable"
)

// schedules is how many a run has: two each of tasks, jobs and signals.
const schedules = 6

// TestSchedules is I12 over whole clusters: leaders that crash between commit and effect,
// unknown commits, restored stores, wall clocks that step, and people who edit, pause,
// run by hand and fill in.
func TestSchedules(t *testing.T) {
	for _, load := range []Load{Batch, Mixed} {
		sum, err := RunMany(Many{Seed: *seedFlag, Steps: steps(), Config: Config{Schedules: schedules, Load: load}})
		if err != nil {
			t.Fatal(err)
		}
		if sum.Fired == 0 || sum.Terms == 0 || sum.Begun == 0 || sum.Launches == 0 {
			t.Fatalf("nothing happened: %+v", sum)
		}
		t.Logf("%v: %d steps, %d seeds, %d terms, %d firings", load, sum.Steps, sum.Seeds, sum.Terms, sum.Fired)
	}
}

// TestSchedulesDecideBySeed: the same seed gives the same run, to the letter.
func TestSchedulesDecideBySeed(t *testing.T) {
	for _, load := range []Load{Batch, Mixed} {
		var a, b bytes.Buffer
		for _, out := range []*bytes.Buffer{&a, &b} {
			if _, err := Run(Config{Seed: 42, Schedules: schedules, Load: load, Trace: out}); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(a.Bytes(), b.Bytes()) {
			t.Fatalf("two runs of one seed differ (%v)", load)
		}
	}
}

// TestPlantedMistakesOfSchedules: the checks find each broken rule soon.
func TestPlantedMistakesOfSchedules(t *testing.T) {
	for name, c := range map[string]Config{
		"the cursor is committed apart from the start":       {ScheduleMistakes: timetable.Mistakes{CursorApart: true}, Only: []Fault{UnknownCommit, KillServer}},
		"a leader takes its wall clock, behind the cursor":   {ScheduleMistakes: timetable.Mistakes{WallBehindCursor: true}, Only: []Fault{KillServer}},
		"a signal is sent before its firing is durable":      {ScheduleMistakes: timetable.Mistakes{SignalBeforeCommit: true}, Only: []Fault{UnknownCommit, KillServer}},
		"the same, with all faults and a restored store too": {ScheduleMistakes: timetable.Mistakes{SignalBeforeCommit: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Schedules = schedules
			sum, err := RunMany(Many{Seed: 1, Seeds: 300, Config: c})
			var v *Violation
			if !errors.As(err, &v) || v.Invariant != "I12" {
				t.Fatalf("not found in %d seeds: %v", sum.Seeds, err)
			}
			t.Logf("seed %d, step %d: %s", v.Seed(), v.Step, v.Text)
			right := c
			right.Seed, right.ScheduleMistakes = v.Seed(), timetable.Mistakes{}
			if _, err := Run(right); err != nil {
				t.Fatalf("the same seed without the mistake: %v", err)
			}
		})
	}
}
