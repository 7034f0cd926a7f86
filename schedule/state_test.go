package schedule

import (
	"testing"
	"time"
)

// TestTimesOfAnEntry: of several in a row the last comes first, so that the entry reads
// otherwise each time that one more joins it.
func TestTimesOfAnEntry(t *testing.T) {
	at := time.Date(2026, 11, 28, 17, 47, 23, 0, time.UTC)
	for _, c := range []struct {
		entry Entry
		want  string
	}{
		{Entry{At: at, Count: 1}, "2026-11-28T17:47:23Z"},
		{Entry{At: at, Until: at, Count: 1}, "2026-11-28T17:47:23Z"},
		{Entry{At: at.In(time.FixedZone("x", 3600)), Count: 1}, "2026-11-28T17:47:23Z"},
		{Entry{At: at, Until: at.Add(5 * time.Second), Count: 2}, "2026-11-28T17:47:28Z (2 since 2026-11-28T17:47:23Z)"},
		{Entry{At: at, Until: at.Add(10 * time.Second), Count: 3}, "2026-11-28T17:47:33Z (3 since 2026-11-28T17:47:23Z)"},
	} {
		if got := c.entry.Times(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
