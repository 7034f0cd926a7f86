package robust

import (
	"fmt"
	"testing"
	"time"

	"cantina/api"
	pb "cantina/wire/cantinav1"
)

// TestScheduleFiresOnce runs a schedule of every two seconds while its leader is killed again and again. Every
// logical time between the first and the last is there exactly once; misfire "all" fills in those without a leader.
func TestScheduleFiresOnce(t *testing.T) {
	w := newWitness(t)
	kills, every := soak(1, 6), time.Duration(soak(6, 20))*time.Second
	c := startCluster(t, patient, 2, 1)
	apply(t, c.addr(), fmt.Sprintf(`
domain: d
schedules:
  tick:
    cron: "*/2 * * * * *"
    timezone: UTC
    overlap: allow
    overlap_max: 1000
    misfire: all
    misfire_max: 1000
    task:
      command: [sh, -c, 'exec %s "$CANTINA_SCHEDULED_AT" true']
`, w.command()))
	per := int(every / (2 * time.Second))
	wait := func(n int) {
		t.Helper()
		if !w.until(patience, func() bool { return len(w.begun()) >= n }) {
			t.Fatalf("%d firings within %v, want %d", len(w.begun()), patience, n)
		}
	}
	for i := range kills {
		wait((i + 1) * per)
		was := c.status()
		c.servers[was.Leader].kill()
		c.startServer(was.Leader).wait()
		if now := c.status(); now.Term == was.Term {
			t.Errorf("the term is still %s after its leader was killed", was.Term)
		}
	}
	wait((kills + 1) * per)
	must(t, c.addr(), "cron", "pause", "tick", "--domain", "d")
	got, err := api.Call(t.Context(), c.client(), calls.GetSchedule, &pb.GetScheduleRequest{Domain: "d", Name: "tick"})
	if err != nil {
		t.Fatal(err)
	}
	fired := int(got.Schedule.Fired)
	wait(fired)
	exactly(t, w, fired, int(got.Schedule.Skipped))
	w.check()
}

// exactly demands each logical time from the first to the last, once.
func exactly(t *testing.T, w *witness, fired, skipped int) {
	t.Helper()
	begun := w.begun()
	var first, last time.Time
	for id, list := range begun {
		at, err := time.Parse(time.RFC3339, id)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) != 1 {
			t.Errorf("%s fired %d times", id, len(list))
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	for at := first; !at.After(last); at = at.Add(2 * time.Second) {
		if begun[at.Format(time.RFC3339)] == nil {
			t.Errorf("%s did not fire", at.Format(time.RFC3339))
		}
	}
	if len(begun) != fired || skipped > 1 { // at most the one that fell due as it was paused
		t.Errorf("%d began, %d fired, %d skipped", len(begun), fired, skipped)
	}
	t.Logf("%d firings from %s to %s", fired, first.Format(time.TimeOnly), last.Format(time.TimeOnly))
}

// TestReplaceStartsAfterTheReportOfTheCell: the next run begins as soon as the earlier one is
// gone, and never beside it.
func TestReplaceStartsAfterTheReportOfTheCell(t *testing.T) {
	w := newWitness(t)
	c := startCluster(t, patient, 1, 1)
	apply(t, c.addr(), fmt.Sprintf(`
domain: d
schedules:
  slow:
    cron: "0 0 1 1 *"
    timezone: UTC
    overlap: replace
    task:
      command: [%s, slow, sh, -c, 'trap "sleep 0.5; exit" TERM; while :; do sleep 0.1; done']
`, w.command()))
	began := time.Now()
	for n := 1; n <= 4; n++ {
		must(t, c.addr(), "cron", "run", "slow", "--domain", "d")
		w.waitBegun("slow", n)
	}
	if took := time.Since(began); took >= 30*time.Second { // the grace time of one alone is 10 s
		t.Errorf("three replacements took %v", took)
	}
	must(t, c.addr(), "rm", "schedule/slow", "--domain", "d", "--yes")
	w.check()
}
