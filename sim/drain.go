package sim

import (
	"fmt"
	"time"
)

// evacuation is what a cell was told.
type evacuation struct {
	id    string        // of the drain; empty = none
	since time.Duration // true time
}

// wall is the machine's wall clock; it differs from others by up to 300 ms.
func (m *machine) wall() time.Time {
	return epoch().Add(m.w.now + time.Duration(m.id)*100*time.Millisecond)
}

func (m *machine) zone() string { return fmt.Sprint("zone-", m.id%2) }
