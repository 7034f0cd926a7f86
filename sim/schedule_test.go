package sim

import (
	"bytes"
	"testing"
)

// schedules is how many a run has: two each of tasks, jobs and signals.
const schedules = 6

// TestSchedules is I12 over whole clusters: leaders that crash between commit and effect, unknown commits, restored
// stores, wall clocks that step. Users edit, pause, run by hand and fill in.
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
