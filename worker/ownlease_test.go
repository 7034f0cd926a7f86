package worker

import (
	"testing"
	"time"
)

// TestOwnLease: the lease in a store of its own outlives a stop of ten seconds with the default times, and never a
// silence after which a cell is lost, nor what the drift of the clocks allows.
func TestOwnLease(t *testing.T) {
	d := DefaultTimeouts()
	short, exact := d, d
	short.Lost, short.Lease = 3*time.Second, 2*time.Second
	exact.DriftPerMille, exact.LeaseDrift = 50, 500*time.Millisecond
	for _, c := range []struct {
		t    Timeouts
		want time.Duration
	}{{d, 30 * time.Second}, {short, 2 * time.Second}, {exact, 10 * time.Second}} {
		if got := c.t.OwnLease(); got != c.want {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}
