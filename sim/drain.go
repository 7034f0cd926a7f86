package sim

import (
	"fmt"
	"time"

	"cantina/placement"
)

// evacuation is what a cell was told.
type evacuation struct {
	id    string        // the drain; empty = none
	since time.Duration // true time
}

// cellState is what a cell says of itself with a heartbeat.
type cellState struct {
	offer      placement.State
	evac       string // the drain that it follows; empty = none
	over       bool
	waits      []string // for what is left
	evacuating bool
}

// wall is the machine's wall clock; it differs from others by up to 300 ms.
func (m *machine) wall() time.Time {
	return epoch().Add(m.w.now + time.Duration(m.id)*100*time.Millisecond)
}

func (m *machine) zone() string { return fmt.Sprint("zone-", m.id%2) }
