package sim

import (
	"fmt"
	"slices"
	"time"

	"cantina/cell"
	"cantina/fence"
)

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
