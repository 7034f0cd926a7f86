package sim

import (
	"fmt"
	"time"

	"cantina/cell"
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

// side is a label that some work asks for.
func (m *machine) side() map[string]string {
	return map[string]string{"side": []string{"left", "right"}[m.id%2]}
}

// evacuates notes that the cell has taken it that it is to be emptied, or need not be.
func (m *machine) evacuates(e cell.Evacuation) {
	switch {
	case e.Undo:
		m.evac = evacuation{}
	case m.evac.id != e.ID:
		m.evac = evacuation{id: e.ID, since: m.w.now}
	}
	m.w.trace("%s: evacuation %+v", m.name, m.evac)
}
