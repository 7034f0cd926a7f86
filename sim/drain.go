package sim

import (
	"fmt"
	"slices"
	"time"

	"cantina/cell"
	"cantina/fence"
)

// evacuation is what a cell was told.
type evacuation struct {
	id    string        // of the drain; empty = none
	since time.Duration // true time
	// ended are the drains that were taken back or replaced under the leader of term: an order that
	// was overtaken on its way begins nothing.
	ended []string
	term  fence.Term
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
func (m *machine) evacuates(term fence.Term, e cell.Evacuation) {
	if m.evac.term.Less(term) {
		m.evac.ended, m.evac.term = nil, term
	}
	ended := append(slices.Clone(m.evac.ended), m.evac.id)
	switch {
	case e.Undo:
		m.evac = evacuation{ended: append(ended, e.ID), term: m.evac.term}
	case m.evac.id != e.ID && !slices.Contains(m.evac.ended, e.ID):
		m.evac = evacuation{id: e.ID, since: m.w.now, ended: ended, term: m.evac.term}
	}
	m.w.trace("%s: evacuation %+v", m.name, m.evac)
}
