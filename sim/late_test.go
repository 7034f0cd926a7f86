package sim

import (
	"testing"
	"time"
)

// TestACrowdedLeaderRecovers: hundreds of cells, a leader that is late for seconds at a time, and services with
// many instances. No cell is found silent while what it sent is unread (I15), and K after the last lateness all
// wanted work runs (I14).
func TestACrowdedLeaderRecovers(t *testing.T) {
	c := Config{Seed: *seedFlag, Cells: 200, Late: true, Load: Mixed, Faults: []Fault{}, Faulty: 40 * time.Second}
	if testing.Short() {
		c.Cells, c.Faulty = 40, 25*time.Second
	}
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Late == 0 || r.Begun < c.Cells/4 {
		t.Errorf("late %d times, %d containers of services: nothing was tried", r.Late, r.Begun)
	}
}
