package schedule

import (
	"testing"
	"time"
)

// TestRunAt: the name of a run has its logical time; other names are none of the schedule.
func TestRunAt(t *testing.T) {
	k := Key{Domain: "d", Name: "n"}
	at := time.Date(2026, 3, 2, 1, 0, 0, 0, time.UTC)
	for _, at := range []time.Time{at, at.Add(120 * time.Millisecond)} {
		for try := range 3 {
			if got, ok := RunAt(k, RunID(k, at, try)); !ok || !got.Equal(at) {
				t.Errorf("%s: %v, %v", RunID(k, at, try), got, ok)
			}
		}
	}
	for _, id := range []string{
		"", "d.n", "d.n.", "d.n.1", "d.n.20260302T010000", "d.n.20260302T010000.12", "d.n.o.20260302T010000Z",
		"d.no.20260302T010000Z", "e.n.20260302T010000Z", "d.n.20261302T010000Z",
	} {
		if at, ok := RunAt(k, id); ok {
			t.Errorf("%q is the run of %v", id, at)
		}
	}
}
