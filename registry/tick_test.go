package registry

import (
	"testing"
	"time"
)

// TestDeadlinesAreReadEachSecond: a check interval for a long timeout delays the check of no
// deadline.
func TestDeadlinesAreReadEachSecond(t *testing.T) {
	for check, want := range map[time.Duration]time.Duration{time.Second: 250 * time.Millisecond, time.Minute: time.Second,
		time.Hour: time.Second, time.Millisecond: 10 * time.Millisecond} {
		if got := tickPeriod(check); got != want {
			t.Errorf("check interval %v: %v, want %v", check, got, want)
		}
	}
}
