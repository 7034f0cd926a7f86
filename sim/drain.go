package sim

import (
	"fmt"
	"slices"
	"time"

	"cantina/cell"
	"cantina/fence"
)

// drainState is the orders that a cell received.
type drainState struct {
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

// side is a label that some work requires.
func (m *machine) side() map[string]string {
	return map[string]string{"side": []string{"left", "right"}[m.id%2]}
}

// drains notes that the cell has taken it that it is to be emptied, or need not be.
func (m *machine) drains(term fence.Term, e cell.Drain) {
	if m.drain.term.Less(term) {
		m.drain.ended, m.drain.term = nil, term
	}
	ended := append(slices.Clone(m.drain.ended), m.drain.id)
	switch {
	case e.Undo:
		m.drain = drainState{ended: append(ended, e.ID), term: m.drain.term}
	case m.drain.id != e.ID && !slices.Contains(m.drain.ended, e.ID):
		m.drain = drainState{id: e.ID, since: m.w.now, ended: ended, term: m.drain.term}
	}
	m.w.trace("%s: drain %+v", m.name, m.drain)
}
